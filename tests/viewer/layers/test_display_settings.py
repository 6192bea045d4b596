"""What is shown is saved into the file, and shown again; nothing else is changed."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from napari.components import ViewerModel

from judges import container, read_by_ome_zarr, validate_models
from napari_ngff import read_layers
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.browsing.display_saving import (
    forget_display,
    save_display,
    save_settings,
    settings_shown,
)
from napari_ngff.viewer.browsing.layer_swap import swap_layer
from napari_ngff.viewer.reader import read_paths
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of
from plates import AXES, write_array, write_group

OMERO = {
    "id": 7,
    "channels": [
        {
            "label": "DAPI",
            "color": "0000ff",
            "window": {"start": 10, "end": 200, "min": 0, "max": 4095, "q": [1]},
            "family": "linear",
            "coefficient": 1,
            "lut": "x.lut",
            "inverted": False,
        },
        {
            "label": "GFP",
            "color": "00FF00",
            "window": {"start": 0, "end": 300, "min": 0, "max": 4095},
            "active": False,
        },
    ],
    "rdefs": {"model": "color", "projection": "normal", "defaultZ": 1},
}


def write(folder, zarr_format=3, omero=OMERO, axes="tczyx"):
    sizes = {"t": 4, "c": 2, "z": 5, "y": 8, "x": 8}
    shape = tuple(sizes[a] for a in axes)
    pixels = np.arange(np.prod(shape)).reshape(shape).astype("u2")
    steps = [{"type": "scale", "scale": [1.0] * len(axes)}]
    multiscale = {
        "name": "cells",
        "axes": [AXES[a] for a in axes],
        "datasets": [{"path": "0", "coordinateTransformations": steps}],
    }
    if zarr_format == 2:
        multiscale["version"] = "0.4"
    home = {"multiscales": [multiscale]} | ({} if omero is None else {"omero": omero})
    write_group(folder, home, zarr_format)
    write_array(folder / "0", pixels, zarr_format)
    if zarr_format == 3:
        document = json.loads((folder / "0/zarr.json").read_text())
        document["dimension_names"] = list(axes)
        (folder / "0/zarr.json").write_text(json.dumps(document))
    return folder


def document_of(folder):
    for name in (".zattrs", "zarr.json"):
        if (folder / name).exists():
            return folder / name
    raise FileNotFoundError(folder)


def omero_of(folder):
    document = json.loads(document_of(folder).read_text())
    attributes = document.get("attributes", document)
    return attributes.get("ome", attributes).get("omero")


def opened(path):
    viewer = ViewerModel()
    session_of(viewer)
    for layer in read_layers(str(path)):
        viewer.add_layer(layer)
    return viewer


@pytest.fixture(autouse=True)
def told(monkeypatch):
    """What the user is told."""
    texts = []
    monkeypatch.setattr(Window, "notify", lambda _, text, **__: texts.append(text))
    return texts


def save(viewer):
    save_display(viewer, settings_shown(viewer))


def look(viewer):
    return [
        (
            layer.name,
            layer.visible,
            tuple(layer.contrast_limits),
            layer.colormap.colors.tolist(),
        )
        for layer in viewer.layers
    ], viewer.dims.point


def change(viewer):
    first, second = viewer.layers
    first.name = "cells: nuclei"
    first.colormap, first.contrast_limits = "magenta", (12.5, 4000)
    second.visible = True
    viewer.dims.set_point((0, 1), (3, 4))


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("omero", [OMERO, None])
def test_another_window_shows_what_was_saved(tmp_path, zarr_format, omero, told):
    folder = write(tmp_path / "a.ome.zarr", zarr_format, omero)
    viewer = opened(folder)
    change(viewer)
    save(viewer)
    assert not settings_shown(viewer).differ
    again = opened(folder)
    assert look(again) == look(viewer)
    assert not settings_shown(again).differ
    validate_models(folder, "0.4" if zarr_format == 2 else "0.5")
    assert len(read_by_ome_zarr(folder)) == 1
    names = container(folder).get_image().channel_labels
    assert names[0] == "nuclei"
    assert str(document_of(folder)) in told[-1]


def test_only_what_was_changed_is_other_in_the_file(tmp_path):
    folder = write(tmp_path / "a.ome.zarr")
    before = document_of(folder).read_bytes()
    viewer = opened(folder)
    assert not settings_shown(viewer).differ
    save(viewer)
    assert document_of(folder).read_bytes() == before
    viewer.layers[1].visible = True
    viewer.layers[0].contrast_limits = (10, 5000)
    assert settings_shown(viewer).differ
    save(viewer)
    expected = json.loads(json.dumps(OMERO))
    expected["channels"][0]["window"] |= {"end": 5000, "max": 5000}
    expected["channels"][0]["active"] = True
    expected["channels"][1]["active"] = True
    assert omero_of(folder) == expected
    # Back again: only what was seen.
    viewer.layers[0].contrast_limits = (10, 200)
    save(viewer)
    expected["channels"][0]["window"]["end"] = 200
    assert omero_of(folder) == expected


WINDOWS = st.one_of(
    st.none(),
    st.dictionaries(
        st.sampled_from(["start", "end", "min", "max"]),
        st.one_of(
            st.integers(-(2**70), 2**70),
            st.floats(allow_nan=True, allow_infinity=True),
            st.sampled_from([1000, 1000.0, 65535, "5", None]),
        ),
    ),
)


@given(st.lists(WINDOWS, min_size=2, max_size=2), st.sampled_from([2, 3]))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@example([{"start": 1000, "end": 1000}, {"start": 5, "end": 5.0000001}], 3)
def test_what_nobody_touched_is_not_written(tmp_path_factory, windows, zarr_format):
    channels = [{"label": "A"}, {"label": "B", "color": "FF0000"}]
    for channel, window in zip(channels, windows, strict=True):
        channel |= {} if window is None else {"window": window}
    folder = tmp_path_factory.mktemp("windows") / "a.ome.zarr"
    write(folder, zarr_format, {"channels": channels})
    before = json.dumps(omero_of(folder))
    viewer = opened(folder)
    assert not settings_shown(viewer).differ
    save(viewer)
    assert json.dumps(omero_of(folder)) == before
    viewer.layers[0].name = "cells: nuclei"
    viewer.layers[1].visible = False
    for _ in range(2):
        save(viewer)
        found = json.loads(before)["channels"]
        found[0] |= {"label": "nuclei", "active": True}
        found[1] |= {"active": False}
        assert json.dumps(omero_of(folder)["channels"]) == json.dumps(found)
    # Another field in the same layer: contrast is kept, and nobody has changed it.
    other = write(folder.parent / "b.ome.zarr", zarr_format, OMERO)
    for layer, data in zip(viewer.layers, read_paths(str(other)), strict=True):
        swap_layer(layer, data)
    shown = settings_shown(viewer).shown
    assert [x.window for x in shown.channels] == [
        x.window for x in settings_shown(opened(other)).shown.channels
    ]
    viewer.layers[0].contrast_limits = (3, 4)
    save(viewer)
    assert omero_of(other)["channels"][0]["window"]["end"] == 4
    assert omero_of(other)["channels"][1]["window"] == OMERO["channels"][1]["window"]


def test_other_fields_get_what_is_shown_and_keep_their_planes(tmp_path):
    first, second = (write(tmp_path / f"{x}.ome.zarr", omero=OMERO) for x in "ab")
    viewer = opened(first)
    change(viewer)
    everything = settings_shown(viewer, whole=True)
    node = open_node(str(second))
    save_settings(node, everything, lambda source: source.begin())
    assert omero_of(second)["rdefs"] == OMERO["rdefs"]
    assert omero_of(second)["channels"][0]["window"]["end"] == 4000


def test_a_channel_without_a_layer_keeps_its_entry(tmp_path):
    folder = write(tmp_path / "a.ome.zarr")
    viewer = opened(folder)
    viewer.layers.pop(0)
    viewer.layers[0].name = "cells: tubulin"
    save(viewer)
    expected = json.loads(json.dumps(OMERO))
    expected["channels"][1]["label"] = "tubulin"
    assert omero_of(folder) == expected


@pytest.mark.parametrize("removed", [0, 1])
def test_a_new_block_describes_all_channels(tmp_path, removed):
    folder = write(tmp_path / "a.ome.zarr", omero=None)
    viewer = opened(folder)
    viewer.layers.pop(removed)
    save(viewer)
    validate_models(folder, "0.5")
    assert len(container(folder).get_image().channel_labels) == 2, "by ngio"
    colors = [one["color"] for one in omero_of(folder)["channels"]]
    assert colors == ["FF00FF", "00FF00"]
    assert all(layer.visible for layer in opened(folder).layers)


def test_what_another_program_wrote_meanwhile_stays(tmp_path):
    folder = write(tmp_path / "a.ome.zarr")
    viewer = opened(folder)
    theirs = json.loads(json.dumps(OMERO))
    theirs["channels"][0] |= {"label": "Hoechst", "color": "FFFFFF", "new": 1}
    theirs["channels"][1]["window"]["end"] = 999
    write(folder, omero=theirs)
    viewer.layers[0].contrast_limits = (20, 100)
    for _ in range(2):  # the second has nothing to save
        save(viewer)
        theirs["channels"][0]["window"] |= {"start": 20, "end": 100}
        assert omero_of(folder) == theirs


def test_of_two_copies_the_selected_one_is_saved(tmp_path):
    folder = write(tmp_path / "a.ome.zarr")
    viewer = opened(folder)
    for layer in read_layers(str(folder)):
        viewer.add_layer(layer)
    assert viewer.layers[2].name == "cells: DAPI [1]"
    for at, limits in ((0, (1, 50)), (2, (2, 60))):
        viewer.layers[at].contrast_limits = limits
    for at, end in ((2, 60), (0, 50)):
        viewer.layers.selection.active = viewer.layers[at]
        save(viewer)
        assert omero_of(folder)["channels"][0]["window"]["end"] == end
        assert omero_of(folder)["channels"][0]["label"] == "DAPI"


def test_a_colour_in_a_grey_image_is_seen_again(tmp_path):
    omero = json.loads(json.dumps(OMERO))
    omero["rdefs"]["model"] = "greyscale"
    folder = write(tmp_path / "a.ome.zarr", omero=omero)
    viewer = opened(folder)
    assert not settings_shown(viewer).differ
    viewer.layers[0].gamma = 0.5
    viewer.layers[1].name = "cells: x"
    save(viewer)
    assert omero_of(folder)["channels"][0] == omero["channels"][0]
    viewer.layers[0].colormap = "red"
    save(viewer)
    assert look(opened(folder))[0][1][3] == look(viewer)[0][1][3], "grey"
    assert look(opened(folder))[0][0][3] == look(viewer)[0][0][3], "red"


def test_what_a_file_cannot_have_is_named(tmp_path, told):
    folder = write(tmp_path / "a.ome.zarr")
    viewer = opened(folder)
    viewer.layers[0].colormap = "viridis"
    viewer.layers[1].colormap = "gray_r"
    viewer.layers[1].gamma = 0.5
    save(viewer)
    assert "colormap viridis of cells: DAPI" in told[-1]
    assert "gamma of cells: GFP" in told[-1]
    colors = [(c["color"], c["inverted"]) for c in omero_of(folder)["channels"]]
    assert colors == [("FDE725", False), ("FFFFFF", True)]
    assert not settings_shown(viewer).differ


@pytest.fixture
def read_only(monkeypatch):
    """A folder that cannot be written, also for the user of a container."""
    access, closed = os.access, []

    def may(path, mode, **keywords):
        is_closed = any(str(path).startswith(str(folder)) for folder in closed)
        return not (mode & os.W_OK and is_closed) and access(path, mode, **keywords)

    monkeypatch.setattr(os, "access", may)
    return closed.append


@pytest.mark.parametrize("also_beside", [False, True])
def test_settings_are_kept_beside_what_cannot_be_written(
    tmp_path, read_only, also_beside, told
):
    folder = write(tmp_path / "images/a.ome.zarr")
    before = document_of(folder).read_bytes()
    read_only(tmp_path / "images" if also_beside else folder)
    viewer = opened(folder)
    change(viewer)
    save(viewer)
    assert told[-1].startswith("Display settings saved beside the image.")
    assert document_of(folder).read_bytes() == before
    beside = [path.name for path in folder.parent.iterdir()]
    assert beside == (["a.ome.zarr"] if also_beside else beside)
    again = opened(folder)
    assert look(again) == look(viewer)
    found = settings_shown(again)
    assert found.picture.keeps_display
    assert not found.differ
    forget_display(again, found)
    assert look(opened(folder)) == look(opened(shutil.copytree(folder, tmp_path / "b")))
    assert not settings_shown(again).picture.keeps_display
    assert settings_shown(again).differ


def test_what_was_kept_goes_into_a_file_that_can_be_written_later(
    tmp_path, read_only, monkeypatch
):
    folder = write(tmp_path / "a.ome.zarr")
    with monkeypatch.context():
        read_only(folder)
        viewer = opened(folder)
        change(viewer)
        save(viewer)
    monkeypatch.undo()
    again = opened(folder)
    assert look(again) == look(viewer)
    again.layers[0].contrast_limits = (1, 2)
    save(again)
    assert omero_of(folder)["channels"][0]["label"] == "nuclei"
    last = opened(folder)
    assert look(last) == look(again)
    assert not settings_shown(last).picture.keeps_display


def test_an_archive_is_saved(tmp_path):
    folder = write(tmp_path / "a.ome.zarr")
    pack_hierarchy(folder, tmp_path / "a.ozx")
    viewer = opened(tmp_path / "a.ozx")
    change(viewer)
    save(viewer)
    assert look(opened(tmp_path / "a.ozx")) == look(viewer)
