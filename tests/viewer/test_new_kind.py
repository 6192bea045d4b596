"""A kind of store is added by one module, and one line in `FINDERS`."""

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel

from memory_store import OBJECTS, find_store
from napari_ngff.plugin import get_reader
from napari_ngff.store.hierarchy import location
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.samples import write_image


@pytest.fixture
def address(tmp_path, monkeypatch):
    """An image in a kind of store that the package does not have."""
    monkeypatch.setattr(location, "FINDERS", [find_store, *location.FINDERS])
    folder, address = tmp_path / "cells.ome.zarr", "memory://cells.ome.zarr"
    write_image(folder, "0.5", shape=(2, 101, 150))
    OBJECTS[address] = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    yield address
    del OBJECTS[address]


def open_layers(address):
    model = ViewerModel()
    for layer in get_reader(address)(address):
        model.add_layer(as_layer(layer) if isinstance(layer, tuple) else layer)
    return model


def stored(address, path):
    """Read an array as zarr reads it."""
    objects = {
        key: zarr.core.buffer.cpu.Buffer.from_bytes(data)
        for key, data in OBJECTS[address].items()
    }
    return zarr.open_array(zarr.storage.MemoryStore(objects), path=path, mode="r")[...]


def test_labels_are_opened_painted_and_saved(address):
    layer = open_layers(address).layers["nuclei"]
    assert not layer.read_only
    before = stored(address, "labels/nuclei/0")
    layer.brush_size = 9
    layer.paint((0, 20, 30), 77)
    assert layer.saver.save_now()
    after = stored(address, "labels/nuclei/0")
    assert after[0, 20, 30] == 77
    changed = after != before
    assert (after[changed] == 77).all()
    assert changed.sum() >= 60
    assert np.asarray(open_layers(address).layers["nuclei"].data[0])[0, 20, 30] == 77


def test_new_labels_are_made(address):
    model = open_layers(address)
    layer = new_labels(model.layers[0], "mine")
    model.add_layer(layer)
    layer.paint((0, 20, 30), 5)
    assert layer.saver.save_now()
    assert stored(address, "labels/mine/0")[0, 20, 30] == 5
    assert "mine" in [one.name for one in open_layers(address).layers]
