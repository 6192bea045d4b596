"""Savers tell by signals what becomes of edits."""

from __future__ import annotations

import threading

import pytest
from napari.components import ViewerModel

from napari_ngff.plugin import get_reader
from napari_ngff.store.sources import folder_store
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.services.window import Window


@pytest.fixture
def layer(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(Window, "current", Window())
    path = tmp_path / "cells.ome.zarr"
    write_image(path, shape=(1, 64, 64))
    model = ViewerModel()
    for one in get_reader(str(path))(str(path)):
        model.add_layer(as_layer(one) if isinstance(one, tuple) else one)
    return model.layers["nuclei"]


@pytest.fixture
def heard(layer):
    events = []
    saver = layer.saver
    saver.dirty_changed.connect(lambda dirty: events.append(("dirty", dirty)))
    saver.saved.connect(lambda _: events.append(("saved", saver.running)))
    saver.failed.connect(lambda _: events.append(("failed", saver.running)))
    return events


def test_edits_make_it_dirty_and_a_save_clean(layer, heard, reported):
    layer.paint((0, 20, 20), 77)
    layer.paint((0, 30, 20), 77)
    layer.undo()
    layer.undo()
    layer.redo()
    assert heard == [("dirty", True), ("dirty", False), ("dirty", True)]
    heard.clear()
    layer.saver.save()
    assert heard == [("dirty", False), ("saved", False)]
    heard.clear()
    layer.features = {"index": [77], "kind": ["cell"]}
    layer.saver.save()
    assert heard == [("dirty", True), ("dirty", False), ("saved", False)]


def test_a_save_that_fails_says_so_once(layer, heard, reported, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    layer.paint((0, 20, 20), 77)
    heard.clear()
    with monkeypatch.context() as patch:
        patch.setattr(folder_store, "write_aside", full)
        layer.saver.save()
    assert heard == [("failed", False)]
    layer.saver.save()
    assert heard == [("failed", False), ("dirty", False), ("saved", False)]


def test_progress_goes_from_nothing_to_an_end(layer, reported):
    parts, threads = [], set()
    layer.saver.progressed.connect(parts.append)
    layer.saver.progressed.connect(lambda _: threads.add(threading.get_ident()))
    layer.replace_label(1, 300)
    layer.saver.save()
    assert parts[0] == 0
    assert parts == sorted(parts)
    assert all(0 <= part <= 1 for part in parts)
    assert threads == {threading.get_ident()}
