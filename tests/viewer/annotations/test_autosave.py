"""Labels are saved every few minutes, without a word."""

from __future__ import annotations

import pytest
import zarr
from napari.components import ViewerModel

from choices import set_preference
from napari_ngff.plugin import get_reader
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.annotations import leaving as module
from napari_ngff.viewer.annotations.leaving import AutoSaver
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "cells.ome.zarr"
    write_image(path, shape=(1, 64, 64))
    return path


@pytest.fixture
def viewer(folder, monkeypatch):
    model = ViewerModel()
    for layer in get_reader(str(folder))(str(folder)):
        model.add_layer(as_layer(layer) if isinstance(layer, tuple) else layer)
    # Windows that other tests have opened save in workers, and so would we.
    monkeypatch.setattr(Window, "current", Window())
    set_preference("autosave", 5)
    yield model
    set_preference("autosave", 0)


def stored(folder, name="nuclei"):
    return zarr.open_array(folder / "labels" / name / "0", mode="r")[:]


def test_what_is_unsaved_for_so_long_is_saved(viewer, folder, reported):
    layer, autosave = viewer.layers["nuclei"], AutoSaver(session_of(viewer).annotations)
    layer.paint((0, 20, 20), 77)
    autosave.save_due(1000)
    autosave.save_due(1299)
    assert layer.unsaved
    autosave.save_due(1300)
    assert not layer.unsaved
    assert (stored(folder) == 77).any()
    assert reported == []
    # From the next edit on it begins anew.
    autosave.save_due(1500)
    layer.paint((0, 40, 40), 78)
    autosave.save_due(1600)
    autosave.save_due(1899)
    assert layer.unsaved
    autosave.save_due(1900)
    assert not layer.unsaved


def test_nothing_happens_where_it_is_off(viewer):
    set_preference("autosave", 0)
    layer, autosave = viewer.layers["nuclei"], AutoSaver(session_of(viewer).annotations)
    layer.paint((0, 20, 20), 77)
    autosave.save_due(0)
    autosave.save_due(1e6)
    assert layer.unsaved


def test_a_stroke_is_never_cut(viewer):
    layer, autosave = viewer.layers["nuclei"], AutoSaver(session_of(viewer).annotations)
    with layer.block_history():
        layer.paint((0, 20, 20), 77)
        autosave.save_due(0)
        autosave.save_due(1000)
        assert layer.unsaved
    autosave.save_due(1001)
    assert not layer.unsaved


def test_a_failure_is_reported_once_until_it_is_repaired(
    viewer, folder, reported, monkeypatch
):
    def full(self, *_):
        raise OSError(28, "No space left on device")

    layer, autosave = viewer.layers["nuclei"], AutoSaver(session_of(viewer).annotations)
    layer.paint((0, 20, 20), 77)
    with monkeypatch.context() as patched:
        patched.setattr(
            "napari_ngff.store.arrays.array_writer.ArrayWriter.update_cells", full
        )
        for minute in range(30):
            autosave.save_due(60 * minute)
    assert len(reported) == 1
    assert "No space left" in reported[0]
    autosave.save_due(60 * 35)
    assert not layer.unsaved
    assert len(reported) == 1


def test_new_labels_whose_name_is_taken_ask_nothing(viewer, folder, reported):
    image = viewer.layers[0]
    layers = [viewer.add_layer(new_labels(image, name)) for name in ("mine", "yours")]
    layers[1].name = "mine"
    layers[1].name = "yours"
    autosave = AutoSaver(session_of(viewer).annotations)
    for layer in layers:
        layer.paint((0, 20, 20), 5)
    before = stored(folder, "nuclei")
    viewer.layers["nuclei"].name = "other"
    layers[1].name = "nuclei"
    autosave.save_due(0)
    autosave.save_due(300)
    assert (stored(folder, "mine") == 5).any()
    assert (stored(folder, "nuclei") == before).all()
    assert len(reported) == 1
    assert "nuclei-2 is free" in reported[0]


@pytest.mark.parametrize("new", [False, True])
def test_a_large_archive_is_left_alone_and_that_is_reported_once(
    tmp_path, viewer, folder, reported, monkeypatch, new
):
    path = tmp_path / "cells.ozx"
    pack_hierarchy(folder, path)
    model = ViewerModel()
    for one in get_reader(str(path))(str(path)):
        model.add_layer(as_layer(one) if isinstance(one, tuple) else one)
    layer = new_labels(model.layers[0], "mine") if new else model.layers["nuclei"]
    if new:
        model.add_layer(layer)
    layer.paint((0, 20, 20)[-layer.ndim :], 77)
    monkeypatch.setattr(module, "LARGE", path.stat().st_size)
    monkeypatch.setattr(module, "show_info", reported.append)
    before, autosave = path.read_bytes(), AutoSaver(session_of(model).annotations)
    for now in (0, 300, 600, 900):
        autosave.save_due(now)
    assert layer.unsaved
    assert path.read_bytes() == before
    (text,) = reported
    assert "MB of cells.ozx" in text
    assert "Ctrl+S" in text
    monkeypatch.setattr(module, "LARGE", path.stat().st_size + 1)
    autosave.save_due(1200)
    assert not layer.unsaved
    assert path.read_bytes() != before
