"""A save that gets no answer holds nobody who leaves its labels, and loses nothing."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel

from journals import discard_edits
from napari_ngff import open_node, read_layers
from napari_ngff.labels.journal import journal_home
from napari_ngff.labels.kept_edits import find_kept_edits
from napari_ngff.labels.label_writer import LabelWriter
from napari_ngff.store.sources import folder_store
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of
from patience import until

PATIENCE = 20.0
"""Seconds after which a test says that somebody waits for a save that hangs."""


class Hanging:
    """Calls of a module that get no answer before they are let go."""

    def __init__(self, monkeypatch, owner, name):
        self.begun, self.answered = threading.Event(), threading.Event()
        real = getattr(owner, name)

        def hang(*arguments, **options):
            self.begun.set()
            assert self.answered.wait(3 * PATIENCE)
            return real(*arguments, **options)

        monkeypatch.setattr(owner, name, hang)


@pytest.fixture
def threads(monkeypatch):
    """Work in threads, as a window has them; their results come when they end."""
    started = []

    def run(work, done):
        started.append(threading.Thread(target=lambda: done(work()), daemon=True))
        started[-1].start()

    monkeypatch.setattr(Window.current, "has_workers", True, raising=False)
    monkeypatch.setattr(Window.current, "run", run)
    yield
    for thread in started:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def in_time(call):
    """Call something in a thread for which a window would wait; give its result."""
    given = []
    thread = threading.Thread(target=lambda: given.append(call()), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert given, "it waits"
    return given[0]


@pytest.fixture
def path(tmp_path):
    return write_image(tmp_path / "cells.ome.zarr", shape=(32, 32))


def opened(path):
    viewer = ViewerModel()
    session_of(viewer)
    for layer in read_layers(path):
        viewer.add_layer(layer)
    return viewer


def stored(path, name):
    return zarr.open_array(path / "labels" / name / "0", mode="r")[...]


LEAVE = {
    "keep": lambda layer: layer.saver.keep_journal(),
    "discard": lambda layer: discard_edits(layer.saver),
    "another field": lambda layer: layer.saver.leave_field(),
    "cancel": lambda layer: layer.saver.cancel(),
}


@pytest.mark.default_cases(
    "keep-False", "discard-True", "another field-False", "cancel-False"
)
@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("way", LEAVE)
def test_labels_are_left_while_a_save_hangs(path, monkeypatch, threads, way, is_new):
    viewer = opened(path)
    layer = viewer.layers["nuclei"]
    if is_new:
        layer = viewer.add_layer(new_labels(viewer.layers[0], "mine"))
    before = None if is_new else stored(path, "nuclei")
    layer.paint((8, 9), 7)
    drawn = np.asarray(layer.data[0])
    hanging = Hanging(monkeypatch, folder_store, "write_aside")
    saver = layer.saver
    saver.save()
    assert hanging.begun.wait(PATIENCE)
    in_time(lambda: LEAVE[way](layer))
    assert saver.running
    if way in ("keep", "discard"):
        assert saver.is_released
        viewer.layers.remove(layer)
    hanging.answered.set()
    until(lambda: not saver.running)
    if way in ("keep", "discard"):
        saver.wait_until_kept(PATIENCE)
    if way == "keep":
        # Either the file has them, or they are kept.
        kept = find_kept_edits([open_node(path)])
        is_saved = not is_new and np.array_equal(stored(path, "nuclei"), drawn)
        assert is_saved or len(kept) == 1
    elif way == "discard":
        assert not list(journal_home().rglob("edits.jsonl"))
    else:
        assert saver.save_now()
        assert (stored(path, layer.name) == drawn).all()
    if is_new and way in ("keep", "discard"):
        until(lambda: not list((path / "labels").glob("*mine*")))
    assert before is None or way == "discard" or stored(path, "nuclei").any()


@pytest.mark.parametrize("way", LEAVE)
def test_labels_are_left_while_their_file_is_looked_at(path, monkeypatch, threads, way):
    layer = opened(path).layers["nuclei"]
    layer.paint((8, 9), 7)
    assert layer.saver.save_now()
    hanging = Hanging(monkeypatch, LabelWriter, "reload_changed")
    layer.saver.follow_file()
    assert hanging.begun.wait(PATIENCE)
    in_time(lambda: LEAVE[way](layer))
    journal = layer.saver.journal
    hanging.answered.set()
    if way in ("keep", "discard"):
        until(lambda: not journal.folder.exists())


def test_labels_are_left_while_their_creation_is_undone(path, monkeypatch, threads):
    viewer = opened(path)
    layer = viewer.add_layer(new_labels(viewer.layers[0], "mine"))
    layer.paint((8, 9), 7)

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(LabelWriter, "save", fail)
        layer.saver.save()
        until(lambda: not layer.saver.running)
    hanging = Hanging(monkeypatch, layer.saver, "abandon")
    in_time(lambda: discard_edits(layer.saver))
    assert hanging.begun.wait(PATIENCE)
    assert not list(journal_home().rglob("edits.jsonl"))
    hanging.answered.set()
