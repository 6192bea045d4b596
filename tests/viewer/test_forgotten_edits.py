"""Edits that a crash has left, and that nobody wants."""

from pathlib import Path

import pytest
from napari.components import ViewerModel

from napari_ngff.labels.journal import Journal
from napari_ngff.plugin import get_reader
from napari_ngff.store.sink import FolderSink
from napari_ngff.viewer import frontend
from napari_ngff.viewer.painting.painted import as_layer
from napari_ngff.viewer.samples import write_image


@pytest.fixture
def layer(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(frontend, "_runner", [frontend.run_here])
    path = tmp_path / "cells.ome.zarr"
    write_image(path, shape=(1, 64, 64))
    model = ViewerModel()
    for one in get_reader(str(path))(str(path)):
        model.add_layer(as_layer(one) if isinstance(one, tuple) else one)
    return model.layers["nuclei"]


def test_with_them_go_blocks_that_their_save_left_aside(layer):
    store, path = layer.saver.journal.place
    array = layer.saver.writer.arrays[0].path
    sink, journal = FolderSink(store), Journal(store, path, layer.canvas)
    layer.paint((0,) * layer.ndim, 7)
    journal.saving(layer.canvas.edits, sink.token)
    left = Path(sink.write_aside(f"{store}/{array}/c/9", b"half", flush=False))
    alive = FolderSink(store).write_aside(f"{store}/{array}/c/9", b"new", flush=False)
    journal.close()
    assert layer.saver.found() == [journal.folder]
    layer.saver.forget(journal.folder)
    assert layer.saver.found() == []
    assert not left.exists()
    assert Path(alive).read_bytes() == b"new"
