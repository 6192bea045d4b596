"""Two windows over one label image: whatever they do, no work is lost or misplaced.

Each walk is a list of random steps. A stroke may change the file only where its window
painted, undid or redid something; what was painted is seen, saved and restored as it
was.
"""

from __future__ import annotations

import errno
import itertools
import random
import shutil

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel

from journals import discard_edits, journals_of
from napari_ngff.plugin import get_reader
from napari_ngff.store.sources import folder_store
from napari_ngff.viewer.browsing.recovery import open_journal
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.samples import write_image

SIDE = 64
"""Of the image in pixels: two by two chunks."""

STEPS = {"paint": 8, "save": 6, "undo": 3, "redo": 2, "restart": 1}
"""How often each step is taken, relative to the others."""

RARE_STEPS = STEPS | {"widen": 2, "fail": 3}
"""The same, with labels that need a wider type, and saves that find the disk full."""

LARGE = 1 << 40
"""A label that does not fit into the type of the file."""


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("walks") / "cells.ome.zarr"
    write_image(path, shape=(1, SIDE, SIDE), chunk=32)
    return path


class Window:
    """A window, with what its user knows about the own strokes.

    Attributes
    ----------
    changed
        Voxels "tyx" that were painted, undone or redone since the last whole save.
    own
        Voxels that were ever painted here.
    base
        What was seen when all was saved.
    """

    def __init__(self, folder):
        self.folder = folder
        self.open()
        self.changed = np.zeros((1, SIDE, SIDE), bool)
        self.own = self.changed.copy()
        self.base = self.seen()

    def open(self):
        self.model = ViewerModel()
        for data in get_reader(str(self.folder))(str(self.folder)):
            layer = as_layer(data) if isinstance(data, tuple) else data
            self.model.add_layer(layer)
        self.layer = self.model.layers["nuclei"]

    def seen(self):
        return np.array(self.layer.data[0])

    def stored(self):
        array = zarr.open_array(self.folder / "labels" / "nuclei" / "0", mode="r")
        return np.array(array[...])

    def paint(self, choices, number):
        y, first = choices.randrange(SIDE), choices.randrange(SIDE)
        x = np.arange(first, min(SIDE, first + choices.randrange(1, 40)))
        value = choices.choice([number, number, 0])
        voxels = np.zeros(len(x), int), np.full(len(x), y), x
        self.layer.data_setitem(voxels, value)
        assert (self.seen()[voxels] == value).all()
        self.changed[voxels] = self.own[voxels] = True

    def move(self, step):
        """Undo or redo: only the own strokes change."""
        before = self.seen()
        getattr(self.layer, step)()
        moved = self.seen() != before
        assert not (moved & ~self.own).any()
        self.changed |= moved

    def save(self):
        seen, before = self.seen(), self.stored()
        is_whole = self.layer.saver.save_now()
        after, seen_after = self.stored(), self.seen()
        assert not ((after != before) & ~self.changed).any(), "work of the other"
        is_new = self.changed & (seen != self.base)
        assert (seen_after == seen)[is_new].all(), "seen as before"
        if is_whole:
            assert (after == seen)[is_new].all(), "what is seen is saved"
            self.changed[:] = False
            self.base = seen_after
        else:
            self.base = np.where(self.changed, self.base, seen_after)
        return is_whole

    def fail(self, choices):
        """Save while the disk is full, maybe after some objects."""
        written = itertools.count()
        most, write = choices.randrange(3), folder_store.write_aside

        def write_some(*arguments, **keywords):
            if next(written) >= most:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(*arguments, **keywords)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(folder_store, "write_aside", write_some)
            self.save()

    def restart(self):
        """Close with *Keep for later*, open again and restore."""
        seen = self.seen()
        is_new = self.changed & (seen != self.base)
        self.layer.saver.keep_journal()
        self.open()
        kept = journals_of(self.layer.saver)
        for folder in kept:
            self.layer.saver.take_over(open_journal(self.layer.saver, folder))
        restored, stored = self.seen(), self.stored()
        assert (restored == seen)[is_new].all(), "restored as it was seen"
        others = ~(self.changed | self.own)
        assert (restored == stored)[others].all(), "over the file as it is"
        self.changed &= bool(kept)
        self.base = np.where(self.changed, self.base, restored)


def take_walk(folder, seed, odds, steps=25):
    choices = random.Random(seed)
    windows = [Window(folder), Window(folder)]
    try:
        for number in range(steps):
            window = choices.choice(windows)
            step = choices.choices(list(odds), list(odds.values()))[0]
            if step == "paint":
                window.paint(choices, 100 + number)
            elif step == "widen":
                window.paint(choices, LARGE + number)
            elif step == "fail":
                window.fail(choices)
            elif step in ("undo", "redo"):
                window.move(step)
            else:
                getattr(window, step)()
        for window in windows:
            assert any(window.save() for _ in range(3)), "saved in the end"
    finally:
        for window in windows:
            discard_edits(window.layer.saver)


# Three of these walks failed before faults that they found were fixed.
@pytest.mark.default_cases("0", "1", "11", "127", "195")
@pytest.mark.parametrize("seed", range(200))
def test_two_windows_lose_and_misplace_nothing(
    original, tmp_path, reported, monkeypatch, seed
):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = shutil.copytree(original, tmp_path / "cells.ome.zarr")
    take_walk(folder, seed, STEPS)


# These failed, as 75 others did, before two windows agreed on a wider type.
@pytest.mark.default_cases("0", "5", "8", "10")
@pytest.mark.parametrize("seed", range(200))
def test_nothing_is_lost_when_types_are_widened_and_disks_are_full(
    original, tmp_path, reported, monkeypatch, seed
):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = shutil.copytree(original, tmp_path / "cells.ome.zarr")
    take_walk(folder, seed, RARE_STEPS)
