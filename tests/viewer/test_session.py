from __future__ import annotations

import gc
import weakref
from math import isfinite

import numpy as np
import pytest
import zarr
from hypothesis import example, given, settings
from hypothesis import strategies as st
from napari.components import ViewerModel
from napari.layers import Image

from napari_ngff import ChunkError, open_node
from napari_ngff.errors import CorruptDataError, ServerError
from napari_ngff.metadata.model import ContrastWindow
from napari_ngff.viewer.layers import contrast
from napari_ngff.viewer.layers.contrast import measure_contrast
from napari_ngff.viewer.layers.image_layers import image_layers
from napari_ngff.viewer.layers.node_contents import open_contents
from napari_ngff.viewer.plans.layer_plan import KEY, LayerOrigin
from napari_ngff.viewer.samples import write_image, write_plate
from napari_ngff.viewer.services import error_report
from napari_ngff.viewer.services.error_report import ErrorReport
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import begin_annotation, session_of


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    where = tmp_path_factory.mktemp("session") / "cells.ome.zarr"
    return open_node(write_image(where, "0.5", shape=(64, 64)))


@pytest.fixture
def viewer():
    viewer = ViewerModel()
    session_of(viewer)
    return viewer


@pytest.fixture
def later(monkeypatch):
    """Keep the work instead of doing it."""
    waiting = []
    monkeypatch.setattr(Window.current, "run", lambda *job: waiting.append(job))
    return waiting


def test_the_range_of_the_slider_is_the_window_of_the_file(viewer, node):
    origin = LayerOrigin(node, 0, ContrastWindow(10, 20, 0, 4095))
    layer = Image(
        np.arange(100).reshape(10, 10), contrast_limits=(10, 20), metadata={KEY: origin}
    )
    viewer.add_layer(layer)
    assert tuple(layer.contrast_limits) == (10, 20)
    assert tuple(layer.contrast_limits_range) == (0, 4095)


class CountedPixels:
    """Pixels of another plugin, which may take long to compute."""

    shape, ndim, dtype, size = (4, 8, 8), 3, np.dtype("u2"), 256

    def __init__(self):
        self.reads = 0

    def __getitem__(self, index):
        self.reads += 1
        return np.zeros(self.shape, self.dtype)[index]

    def __array__(self, dtype=None, copy=None):
        return self[...]


def test_a_first_layer_of_others_is_not_sliced_once_more(viewer, monkeypatch):
    # As in a window, which answers only after the layer is there.
    monkeypatch.setattr(Window.current, "run_after", lambda *job: None)
    counts = []
    for one in (ViewerModel(), viewer):
        pixels = CountedPixels()
        one.add_layer(Image(pixels, contrast_limits=(0, 9)))
        counts.append(pixels.reads)
    assert counts[0] == counts[1] > 0


def test_contrast_is_found_from_the_coarsest_level_later(viewer, node, later):
    coarse = np.arange(100, dtype="u2").reshape(10, 10)
    data = [np.full((20, 20), 60_000, "u2"), coarse]
    layer = Image(
        data,
        contrast_limits=(0, 65535),
        metadata={KEY: LayerOrigin(node, estimate=True)},
    )
    viewer.add_layer(layer)
    assert tuple(layer.contrast_limits) == (0, 65535)
    ((work, done),) = later
    done(work())
    np.testing.assert_allclose(layer.contrast_limits, (0, 99), atol=1)
    low, high = layer.contrast_limits_range
    assert low == 0
    assert 99 <= high <= 150


def test_a_range_of_the_whole_type_becomes_that_of_the_pixels(viewer, node, later):
    coarse = np.linspace(90, 2500, 100).astype("u2").reshape(10, 10)
    origin = LayerOrigin(node, 0, ContrastWindow(115, 2900, 0, 65535))
    data = [np.full((20, 20), 60_000, "u2"), coarse]
    layer = Image(data, contrast_limits=(115, 2900), metadata={KEY: origin})
    viewer.add_layer(layer)
    assert layer.contrast_limits_range[1] < 10_000
    ((work, done),) = later
    done(work())
    assert tuple(layer.contrast_limits) == (115, 2900)
    low, high = layer.contrast_limits_range
    assert low == 0
    assert 2900 <= high < 4000


def test_what_the_user_set_meanwhile_stays(viewer, node, later):
    origin = LayerOrigin(node, estimate=True)
    layer = Image(
        np.arange(100).reshape(10, 10), contrast_limits=(0, 999), metadata={KEY: origin}
    )
    viewer.add_layer(layer)
    layer.contrast_limits = (3, 4)
    ((work, done),) = later
    done(work())
    assert tuple(layer.contrast_limits) == (3, 4)


def test_the_first_layer_sets_the_sliders_and_no_other_does(viewer, node):
    for at in (2, 5):
        origin = LayerOrigin(node, start=((0, float(at)),))
        viewer.add_layer(Image(np.zeros((9, 4, 4)), metadata={KEY: origin}))
    assert viewer.dims.point[0] == 2


def test_layers_of_others_are_left_alone(viewer):
    layer = Image(np.zeros((4, 4)), contrast_limits=(0, 5), metadata={KEY: "mine"})
    viewer.add_layer(layer)
    assert tuple(layer.contrast_limits) == (0, 5)


def test_a_viewer_has_one_session(viewer):
    assert session_of(viewer) is session_of(viewer)
    assert session_of(ViewerModel()) is not session_of(viewer)


@pytest.mark.parametrize(
    ("pixels", "expected"),
    [
        (np.full((3, 8, 8), 7, "u2"), (7, 8)),
        (np.full((8, 8), np.nan), None),
        (np.array([[np.nan, 1.0], [3.0, np.inf]]), (1, 3)),
        (np.eye(64, dtype="u1")[:, :1] * 9 + np.zeros((64, 64)), (0, 9)),
        (np.zeros((0, 4)), None),
    ],
)
def test_contrast_of_odd_pixels(pixels, expected):
    found = measure_contrast(pixels)
    if expected is None:
        assert found is None
    else:
        np.testing.assert_allclose(found.limits, expected, rtol=0.01)


NUMBERS = ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]


@st.composite
def pixels_of_any_type(draw):
    """Pixels of at most three values, as far apart or as close as their type allows."""
    dtype = np.dtype(draw(st.sampled_from(NUMBERS)))
    if dtype.kind == "f":
        numbers = st.floats(width=8 * dtype.itemsize)
    else:
        info = np.iinfo(dtype)
        numbers = st.integers(int(info.min), int(info.max))
    values = draw(st.lists(numbers, min_size=1, max_size=3))
    return np.resize(np.array(values, dtype), (8, 8))


def write_plane(where, pixels, window):
    """Write one plane as an image of OME-Zarr 0.5, with a window of its channel."""
    scale = {"type": "scale", "scale": [1.0, 1.0]}
    dataset = {"path": "0", "coordinateTransformations": [scale]}
    axes = [{"name": name, "type": "space"} for name in "yx"]
    ome = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": [dataset]}]}
    if window is not None:
        names = ("start", "end", "min", "max")
        ome["omero"] = {"channels": [{"window": dict(zip(names, window, strict=True))}]}
    group = zarr.open_group(where, mode="w", zarr_format=3, attributes={"ome": ome})
    group.create_array("0", data=pixels, compressors=None)
    return where


@settings(max_examples=60)
@given(
    pixels_of_any_type(),
    st.none() | st.lists(st.floats(width=64).filter(isfinite), min_size=4, max_size=4),
)
@example(np.full((8, 8), 27916555, "u4"), None)
@example(np.full((8, 8), 720575940621039145, "u8"), None)
@example(np.full((8, 8), np.finfo("f4").max, "f4"), None)
@example(np.resize([-1.7e308, 0.0, 1.7e308], (8, 8)), None)
@example(np.zeros((8, 8), "u8"), [2.0**63, 2.0**63 + 2048, 0.0, 2.0**64])
@example(np.zeros((8, 8), "u2"), [-1e308, 1e308, -1e308, 1e308])
def test_limits_of_contrast_increase(tmp_path_factory, pixels, window):
    """Also as 32 bits, in which they are drawn; with a range that is no infinity."""
    where = write_plane(tmp_path_factory.mktemp("plane") / "a.zarr", pixels, window)
    viewer = ViewerModel()
    session_of(viewer)
    (group,) = open_contents(open_node(where), ErrorReport()).groups
    ((data, keywords, _),) = image_layers(group.image)
    with np.errstate(over="ignore", invalid="ignore"):  # in napari's thumbnails
        viewer.add_layer(Image(data, **keywords))
    (layer,) = viewer.layers
    low, high = layer.contrast_limits
    assert np.float32(low) < np.float32(high)
    least, most = layer.contrast_limits_range
    assert least <= low < high <= most
    assert np.isfinite(np.float32(most) - np.float32(least))


def test_contrast_looks_at_a_bounded_part_of_the_middle_plane(monkeypatch):
    monkeypatch.setattr(contrast, "CONTRAST_VOXELS", 16)
    taken = []

    class Huge:
        shape = (9, 100_000, 100_000)

        def __getitem__(self, index):
            taken.append(index)
            return np.arange(16).reshape(4, 4)

    measure_contrast(Huge())
    ((z, y, x),) = taken
    assert z == 4
    assert (y.start, y.stop, x.stop - x.start) == (49_998, 50_002, 4)


def test_many_broken_chunks_make_few_messages(monkeypatch):
    shown = []
    monkeypatch.setattr(
        Window,
        "show_messages",
        staticmethod(lambda found, result: shown.append((result, *found))),
    )
    report = ErrorReport()
    for i in [*range(25), 3, 4]:
        report(ChunkError("a.zarr", f"0/{i}", "damaged"))
    assert len(shown) == 2
    result, reason = shown[0]
    assert result == "a.zarr: 1 chunk is damaged. It stays empty."
    assert "a.zarr/0/0 cannot be read: damaged" in reason
    assert shown[1][0] == "a.zarr: 10 chunks are damaged. They stay empty."


def test_a_second_outage_is_reported_again(monkeypatch):
    shown, now = [], [100.0]
    monkeypatch.setattr(
        Window,
        "show_messages",
        staticmethod(lambda found, result: shown.append(result)),
    )
    monkeypatch.setattr(error_report.time, "monotonic", lambda: now[0])
    report = ErrorReport()

    def fail(key, reason):
        report(ChunkError("http://h:1/a.zarr", key, reason, "B/2/0"))

    for _ in range(2):
        fail("B/2/0/0/c/0", ServerError("http://h:1/a.zarr", "it stopped"))
        fail("B/2/0/0/c/1", "damaged")
        now[0] += 60
    lost, broken = shown[:2]
    assert lost == (
        "a.zarr/B/2/0: 1 chunk could not be read from h:1."
        " It is asked for again by itself."
    )
    assert broken == "a.zarr/B/2/0: 1 chunk is damaged. It stays empty."
    assert shown[2:] == [lost], "what is damaged stays so, and was reported"


def test_a_broken_well_is_reported_with_one_advice(monkeypatch):
    shown = []
    monkeypatch.setattr(
        Window, "show_messages", staticmethod(lambda found, _: shown.extend(found))
    )
    text = "A/1/zarr.json is not valid JSON."
    reason = CorruptDataError(text, remedy="Restore it from a copy.")
    ErrorReport()(ChunkError("a.zarr", "A/1", reason))
    (message,) = shown
    assert message.count("Restore it from a copy") == 1
    assert "A/1/zarr.json is not valid JSON. Restore" in message


def test_a_viewer_goes_with_all_that_its_session_owns(tmp_path):
    write_plate(tmp_path / "plate.zarr")
    viewer = ViewerModel()
    session = session_of(viewer)
    browser = session.browse(open_node(tmp_path / "plate.zarr"))
    browser.show_field(None)
    viewer.dims.ndisplay = 3
    begin_annotation(viewer, "cells")
    owned = (viewer, session, browser, session.annotation_round, session.recovery)
    gone = [weakref.ref(one) for one in owned]
    del viewer, session, browser, owned
    gc.collect()
    assert [reference() for reference in gone] == [None] * len(gone)


def test_number_keys_are_taken_once_however_often_a_dock_is_opened(viewer):
    inserted = viewer.layers.events.inserted
    session_of(viewer).take_number_keys()
    count = len(inserted.callbacks)
    session_of(viewer).take_number_keys()
    assert len(inserted.callbacks) == count


def test_the_browser_of_a_plate_that_is_closed_goes(tmp_path):
    viewer = ViewerModel()
    for name in ("a.zarr", "b.zarr"):
        write_plate(tmp_path / name)
    older = session_of(viewer).browse(open_node(tmp_path / "a.zarr"))
    older.show_mosaic()
    gone = weakref.ref(older)
    assert session_of(viewer).open_tables().browser is older
    session_of(viewer).browse(open_node(tmp_path / "b.zarr"))
    session_of(viewer).plates.close(str(older.node))
    del older
    gc.collect()
    assert gone() is None
