"""Labels in 3D: read and coloured by a worker, with all strokes, in a real window."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from napari.layers import Image, Labels
from napari.utils.colormaps import DirectLabelColormap

import napari_ngff
from choices import set_preference
from mouse import camera, canvas, pump, until
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.streaming import volume_fit, volume_slicing
from napari_ngff.viewer.streaming.streamed_levels import are_pixels_coming
from napari_ngff.widgets.status_signs import LevelLabel, sign_of

DEPTH, SIZE = 8, 512


@pytest.fixture
def readers(monkeypatch):
    """Threads that read chunks of labels, each of which takes its time."""
    get, found = FolderStore.read, set()

    def get_slowly(self, key, *arguments):
        if "/c/" in key and "labels" in key:
            found.add(threading.current_thread())
            time.sleep(0.02)
        return get(self, key, *arguments)

    monkeypatch.setattr(FolderStore, "read", get_slowly)
    return found


@pytest.fixture
def cells(viewer, tmp_path, readers):
    """Labels of an image, in 2D and at rest."""
    z, y, x = np.mgrid[:DEPTH, :SIZE, :SIZE]
    labels = (1 + y // 32 + 16 * (x // 32) + 300 * z).astype("uint32")
    viewer.window.resize(700, 560)  # drawn sooner
    folder = napari_ngff.write(
        tmp_path / "stack",
        [Image((x + y).astype("uint16"), name="a"), Labels(labels, name="cells")],
        to_version="0.5",
    )
    viewer.open(str(folder), plugin="napari-ngff")
    pump(300)
    until(lambda: not are_pixels_coming())
    readers.clear()
    layer = viewer.layers["cells"]
    layer.truth = labels
    assert len(layer.data) > 1
    yield layer
    viewer.dims.ndisplay = 2
    until(lambda: not are_pixels_coming())


def is_finest(layer, truth):
    """Return whether the finest level is shown, true and in its colours."""
    image = layer._slice.image
    return (
        layer.data_level == 0
        and np.array_equal(image.raw, truth)
        and np.array_equal(image.view, layer.colormap._data_to_texture(truth))
    )


def texture_of(viewer, layer):
    return viewer.window._qt_viewer.canvas.layer_to_visual[layer].node._last_data


@pytest.mark.long
def test_a_worker_reads_the_finest_level(viewer, cells, readers, monkeypatch):
    colored = []
    convert = type(cells)._raw_to_displayed

    def convert_small(layer, raw, *arguments, **keywords):
        colored.append(raw.size)
        return convert(layer, raw, *arguments, **keywords)

    monkeypatch.setattr(type(cells), "_raw_to_displayed", convert_small)
    viewer.dims.ndisplay = 3
    assert cells.data_level == len(cells.data) - 1
    readers.clear()  # napari reads the coarsest level itself
    until(lambda: is_finest(cells, cells.truth))
    assert readers
    assert threading.main_thread() not in readers
    assert max(colored) < cells.truth.size
    assert texture_of(viewer, cells) is cells._slice.image.view


@pytest.fixture
def gate(monkeypatch):
    """Holds what was read until `set`; `ready` tells that there is something."""

    class Gate(threading.Event):
        ready = threading.Event()

    gate, prepare = Gate(), volume_fit.prepare_volume

    def prepare_and_wait(reading, stops):
        volume = prepare(reading, stops)
        if reading.look is not None:
            gate.ready.set()
            gate.wait(60)
        return volume

    monkeypatch.setattr(volume_fit, "prepare_volume", prepare_and_wait)
    yield gate
    gate.set()


@pytest.mark.long
def test_new_labels_are_refined_before_their_first_save(viewer, cells):
    cells.visible = False
    new = viewer.add_layer(new_labels(viewer.layers["a"], "fresh"))
    new.paint((DEPTH // 2, 100, 200), 3)
    truth = np.asarray(new.data[0])
    viewer.dims.ndisplay = 3
    until(lambda: is_finest(new, truth))
    assert (truth == 3).any()
    viewer.dims.ndisplay = 2


@pytest.mark.long
def test_strokes_of_the_time_of_reading_are_shown(viewer, cells, gate):
    viewer.dims.ndisplay = 3
    until(gate.ready.is_set)
    assert cells.data_level > 0
    truth = cells.truth.copy()
    for z, y, x in ((1, 3, 5), (6, 300, 500)):
        cells.data_setitem((np.array([z]), np.array([y]), np.array([x])), 77)
        truth[z, y, x] = 77
    gate.set()
    until(lambda: cells.data_level == 0)
    assert is_finest(cells, truth)


@pytest.mark.long
def test_a_stroke_that_is_undone_while_it_is_read_is_not_shown(viewer, cells, gate):
    cells.data_setitem((np.array([1]), np.array([3]), np.array([5])), 77)
    viewer.dims.ndisplay = 3
    until(gate.ready.is_set)
    assert cells.data_level > 0
    cells.undo()
    gate.set()
    until(lambda: cells.data_level == 0)
    assert is_finest(cells, cells.truth)


def test_strokes_and_their_undoing_are_seen(viewer, cells):
    viewer.dims.ndisplay = 3
    until(lambda: is_finest(cells, cells.truth))
    truth = cells.truth.copy()
    truth[2, 10, 20] = 9
    cells.data_setitem((np.array([2]), np.array([10]), np.array([20])), 9)
    assert is_finest(cells, truth)
    cells.refresh()
    assert is_finest(cells, truth)
    cells.undo()
    assert is_finest(cells, cells.truth)
    cells.refresh()
    assert is_finest(cells, cells.truth)


@pytest.mark.long
def test_a_change_of_very_many_voxels_is_read_anew(viewer, cells, monkeypatch):
    monkeypatch.setattr(volume_slicing, "MOST_PATCHED", 1000)
    monkeypatch.setattr("napari_ngff.viewer.painting.canvas_labels.MOST_PATCHED", 1000)
    viewer.dims.ndisplay = 3
    until(lambda: is_finest(cells, cells.truth))
    cells.replace_label(1, 5)
    # Never the labels of before.
    assert cells.data_level == len(cells.data) - 1
    until(lambda: is_finest(cells, np.where(cells.truth == 1, 5, cells.truth)))


@pytest.mark.long
def test_other_colors_are_made_by_a_worker(viewer, cells, monkeypatch):
    monkeypatch.setattr(volume_slicing, "READ_AT_ONCE", 1 << 17)
    viewer.dims.ndisplay = 3
    until(lambda: is_finest(cells, cells.truth))
    cells.colormap = DirectLabelColormap(color_dict={None: "red", 1: "blue"})
    assert cells.data_level == len(cells.data) - 1
    until(lambda: is_finest(cells, cells.truth))


@pytest.mark.long
def test_a_slow_coarsest_level_is_awaited(viewer, cells, monkeypatch, readers):
    monkeypatch.setattr(volume_slicing, "READ_AT_ONCE", 1)
    seen = []
    cells.events.set_data.connect(lambda: seen.append(cells.data_level))
    viewer.dims.ndisplay = 3
    assert cells._slice.empty
    # The thumbnail is of the coarsest level, too.
    until(lambda: is_finest(cells, cells.truth))
    assert seen[-1] == 0
    assert len(cells.data) - 1 in seen


def mark_of(viewer):
    """Text of the mark as it is drawn; None where it is hidden."""
    label = sign_of(viewer, LevelLabel)
    return None if label is None or label.isHidden() else label.text()


@pytest.mark.long
def test_the_canvas_names_the_level(viewer, cells):
    every = f"0 to {len(cells.data) - 1}"
    viewer.dims.ndisplay = 3
    until(lambda: mark_of(viewer))
    assert mark_of(viewer) == f"level {len(cells.data) - 1} of {every}"
    until(lambda: viewer.layers["a"].data_level == cells.data_level == 0)
    until(lambda: mark_of(viewer) == f"level 0 of {every}")
    label, native = sign_of(viewer, LevelLabel), canvas(viewer).native
    viewer.window.resize(700, 500)
    until(lambda: native.height() - label.geometry().bottom() < 12)
    assert 0 <= label.x() < 12
    viewer.layers["a"].locked_data_level = 1
    until(
        lambda: mark_of(viewer) == f"level 1 of {every}: a\nlevel 0 of {every}: cells"
    )
    viewer.layers.remove("a")
    assert mark_of(viewer) == f"level 0 of {every}"
    viewer.dims.ndisplay = 2
    assert mark_of(viewer) is None


@pytest.fixture
def little_memory():
    """So much that level 1 fits as a whole, and a part of level 0."""
    set_preference("volume_memory", 4)
    yield
    set_preference("volume_memory", 0)


def look_at(viewer, y, x, zoom):
    view = camera(viewer)
    view.zoom = zoom
    view.center = (view.center[0], y, x)


def is_part(layer, y, x):
    """Return whether a part of the finest level is shown, true and in its place."""
    volume = volume_slicing.prepared_of(layer)
    if volume is None or layer.data_level or not volume.place.is_part:
        return False
    box = volume.place.box
    assert box[1][0] <= y < box[1][1]
    assert box[2][0] <= x < box[2][1]
    truth = layer.truth[tuple(slice(*span) for span in box)]
    assert volume.raw.nbytes <= 4 << 20
    return np.array_equal(layer._slice.image.raw, truth)


def value_at(viewer, layer, y, x):
    """What a ray hits that goes through all planes."""
    found = layer.get_value(
        (0, y, x), view_direction=(1, 0, 0), dims_displayed=[0, 1, 2], world=True
    )
    return None if found is None else found[1]


@pytest.mark.usefixtures("little_memory")
def test_of_the_finest_level_the_part_on_the_screen_is_shown(viewer, cells):
    count = len(cells.data)
    cells.bounding_box.visible = True
    viewer.dims.ndisplay = 3
    until(lambda: mark_of(viewer) and not volume_fit._turns)
    assert cells.data_level == 1
    look_at(viewer, 100, 400, 6)
    until(lambda: is_part(cells, 100, 400))
    until(lambda: mark_of(viewer) == f"level 0 of 0 to {count - 1}, the part in view")
    first = [start for start, _ in volume_slicing.prepared_of(cells).place.box]
    visual = viewer.window._qt_viewer.canvas.layer_to_visual[cells]
    placed = visual.node.transform.map([0, 0, 0])[:3]
    assert np.allclose(placed, first[::-1])
    # The bounding box stays around the whole layer.
    for child in visual.node.children:
        origin = visual.node.transform.map(child.transform.map([0, 0, 0]))
        assert np.allclose(origin[:3], 0)
    for y, x in ((100, 400), (97, 395), (first[1], first[2])):
        assert value_at(viewer, cells, y, x) == cells.truth[0, y, x]
        assert value_at(viewer, viewer.layers["a"], y, x) is not None
    assert value_at(viewer, cells, 10, 10) is None
    cells.truth[3, 100, 400] = 7
    cells.data_setitem((np.array([3]), np.array([100]), np.array([400])), 7)
    assert is_part(cells, 100, 400)
    cells.data_setitem((np.array([3]), np.array([10]), np.array([10])), 7)
    assert is_part(cells, 100, 400)


@pytest.mark.long
@pytest.mark.usefixtures("little_memory")
def test_a_part_that_is_left_is_coarse_at_once(viewer, cells):
    viewer.dims.ndisplay = 3
    look_at(viewer, 100, 400, 6)
    until(lambda: is_part(cells, 100, 400))
    look_at(viewer, 400, 100, 6)
    assert cells.data_level == len(cells.data) - 1
    until(lambda: is_part(cells, 400, 100))
    look_at(viewer, 256, 256, 0.5)
    assert cells.data_level == len(cells.data) - 1
    until(lambda: cells.data_level == 1)
    viewer.dims.ndisplay = 2
    assert cells.locked_data_level is None


@pytest.mark.long
def test_no_more_than_the_memory_is_shown_of_a_single_level(viewer, cells):
    set_preference("volume_memory", 1)
    try:
        viewer.dims.ndisplay = 3
        cells.locked_data_level = 0
        until(lambda: cells.data_level == 0 and is_part(cells, 256, 256))
        assert volume_slicing.prepared_of(cells).raw.nbytes <= 1 << 20
    finally:
        set_preference("volume_memory", 0)


@pytest.mark.long
def test_a_removed_layer_has_no_volume(viewer, cells):
    viewer.dims.ndisplay = 3
    until(lambda: is_finest(cells, cells.truth))
    viewer.layers.remove(cells)
    assert volume_slicing.prepared_of(cells) is None
    assert cells.locked_data_level is None
    viewer.add_layer(cells)
    assert cells.data_level == len(cells.data) - 1
    until(lambda: is_finest(cells, cells.truth))


@pytest.mark.long
def test_the_memory_of_the_preferences_is_kept(viewer, cells):
    try:
        set_preference("volume_memory", 4)
        viewer.dims.ndisplay = 3
        until(lambda: cells.data_level == 1 and not volume_fit._turns)
        set_preference("volume_memory", 64)
        until(lambda: is_finest(cells, cells.truth))
    finally:
        set_preference("volume_memory", 0)


@pytest.mark.long
def test_back_in_2d_nothing_is_kept(viewer, cells):
    viewer.dims.ndisplay = 3
    until(lambda: is_finest(cells, cells.truth))
    viewer.dims.ndisplay = 2
    assert cells.locked_data_level is None
    assert volume_slicing.prepared_of(cells) is None
    until(lambda: cells._slice.image.raw.ndim == 2)
