"""Edits that a crash has left, or a script that drops its layer."""

import gc
from pathlib import Path

import pytest
from napari.components import ViewerModel

from journals import journals_of
from napari_ngff.labels.journal import Journal, find_journals, read_journal
from napari_ngff.plugin import get_reader
from napari_ngff.store.sources.folder_store import FolderTransaction
from napari_ngff.store.write import append_log
from napari_ngff.store.write.replace_file import write_aside
from napari_ngff.store.write.writer_token import new_token
from napari_ngff.viewer.browsing.recovery import discard_journal
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.services.window import Window


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(Window, "current", Window())
    path = tmp_path / "cells.ome.zarr"
    write_image(path, shape=(1, 64, 64))
    return path


@pytest.fixture
def layer(path):
    model = ViewerModel()
    for one in get_reader(str(path))(str(path)):
        model.add_layer(as_layer(one) if isinstance(one, tuple) else one)
    return model.layers["nuclei"]


def test_with_them_go_blocks_that_their_save_left_aside(layer):
    store, path = layer.saver.journal.place
    array = layer.saver.writer.arrays[0].path
    transaction, journal = FolderTransaction(store), Journal(store, path, layer.canvas)
    layer.paint((0,) * layer.ndim, 7)
    journal.note_saving(layer.canvas.edits, transaction.token)
    left = Path(
        write_aside(f"{store}/{array}/c9", (b"half",), transaction.token, flush=False)
    )
    alive = write_aside(f"{store}/{array}/c9", (b"new",), new_token(), flush=False)
    journal.close()
    assert journals_of(layer.saver) == [journal.folder]
    discard_journal(journal.folder, layer.saver)
    assert journals_of(layer.saver) == []
    assert not left.exists()
    assert Path(alive).read_bytes() == b"new"


def test_a_layer_that_is_collected_while_its_journal_is_written_keeps_its_edits(
    path, monkeypatch
):
    layer = get_reader(str(path))(str(path))[-1]
    layer.paint((0,) * layer.ndim, 7)
    journal, edits = layer.saver.journal, layer.canvas.edits
    flush = append_log.flush_open_file

    def collect_and_flush(file):
        # As when the memory that this call asks for makes Python collect garbage.
        gc.collect()
        flush(file)

    layer.itself = layer
    del layer
    with monkeypatch.context() as patch:
        patch.setattr(append_log, "flush_open_file", collect_and_flush)
        journal.sync()
    assert find_journals(*journal.place) == [journal.folder]
    assert read_journal(journal.folder).edits == edits
