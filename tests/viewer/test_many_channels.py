"""Images of very many channels: the first become layers, the others when asked for."""

from __future__ import annotations

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel

from napari_ngff import open_node
from napari_ngff.viewer.layers.image_layers import MOST_CHANNELS
from napari_ngff.viewer.plans.layer_plan import KEY
from napari_ngff.viewer.reader import get_reader
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of, show_more_channels
from plates import pixels, write_plate

COUNT = MOST_CHANNELS + 12


@pytest.fixture
def shown(monkeypatch):
    messages = []
    monkeypatch.setattr(Window.current, "notify", messages.append)
    return messages


@pytest.fixture
def viewer(tmp_path, shown):
    data = np.arange(COUNT * 64, dtype="u2").reshape(COUNT, 8, 8)
    group = zarr.open_group(tmp_path / "a.ome.zarr", mode="w")
    group.create_array("0", data=data, chunks=(1, 8, 8))
    axes = [{"name": n, "type": "channel" if n == "c" else "space"} for n in "cyx"]
    steps = [{"type": "scale", "scale": [1, 1, 1]}]
    datasets = [{"path": "0", "coordinateTransformations": steps}]
    multiscale = {"axes": axes, "datasets": datasets}
    group.attrs["ome"] = {"version": "0.5", "multiscales": [multiscale]}
    viewer = ViewerModel()
    path = str(tmp_path / "a.ome.zarr")
    for layer in get_reader(path)(path):
        viewer._add_layer_from_data(*layer)
    return viewer


def channels(viewer):
    return [layer.metadata[KEY].channel for layer in viewer.layers]


def test_the_first_are_shown_and_a_message_says_so(viewer, shown):
    assert channels(viewer) == list(range(MOST_CHANNELS))
    (message,) = shown
    assert f"a has {COUNT} channels; the first 50 are shown" in message


@pytest.mark.long
def test_the_next_are_added_when_asked_for(viewer, shown):
    viewer.layers.selection.active = viewer.layers[0]
    show_more_channels(viewer)
    assert channels(viewer) == list(range(COUNT))
    last = viewer.layers[-1]
    assert last.name.endswith(f"channel {COUNT - 1}")
    data = last.data[0] if last.multiscale else last.data
    assert np.asarray(data)[0, 0] == 64 * (COUNT - 1)
    show_more_channels(viewer)
    assert len(viewer.layers) == COUNT
    assert "has no other channels" in shown[-1]
    viewer.layers.selection.clear()
    show_more_channels(viewer)
    assert shown[-1].startswith("No channel is selected.")


@pytest.mark.long
@pytest.mark.parametrize("from_mosaic", [False, True])
def test_added_channels_follow_the_field_in_a_browser(tmp_path, shown, from_mosaic):
    shape = (COUNT, 4, 4)
    root = write_plate(tmp_path / "p", grid=(1, 2), fields=2, shape=shape)
    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(root))
    if from_mosaic:
        browser.show_mosaic()
    else:
        browser.show_field("A/1")
    viewer.layers.selection.active = viewer.layers[0]
    show_more_channels(viewer)
    assert channels(viewer) == list(range(COUNT))
    last = viewer.layers[-1]
    browser.show_field("A/1")
    np.testing.assert_array_equal(np.asarray(last.data[0]), pixels(0, shape)[-1])
    browser.step_field(1)
    np.testing.assert_array_equal(np.asarray(last.data[0]), pixels(1, shape)[-1])
    browser.show_field("A/2")
    np.testing.assert_array_equal(np.asarray(last.data[0]), pixels(50, shape)[-1])
    assert last in viewer.layers
    browser.show_mosaic()
    assert last.data[0].shape == (4, 16)
    assert channels(viewer) == list(range(COUNT))
