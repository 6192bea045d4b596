"""Strokes of a field that was left can be undone after coming back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from napari.components import ViewerModel
from napari.utils.notifications import notification_manager

import painting
from napari_ngff.labels.journal import journal_home
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.saving import left_labels
from napari_ngff.viewer.services.window import RESTORE, Window
from napari_ngff.viewer.session import session_of
from plates import write_plate
from recovering import User

SHAPE = 1, 32, 32
FIELDS = [(well, field) for well in ("A/1", "A/2") for field in "01"]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    """Two wells; the second one has labels of another program of this name."""
    return write_plate(
        tmp_path_factory.mktemp("left") / "p.ome.zarr",
        grid=(1, 2),
        fields=2,
        shape=SHAPE,
        labelled=lambda well: ("cells",) if well == "A/2" else (),
    )


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    left_labels._remove_all()
    notification_manager.records.clear()


@pytest.fixture
def root(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "p.ome.zarr")


class Walk:
    """A person who goes from field to field; knows what each field has to hold."""

    def __init__(self, root):
        self.viewer = ViewerModel()
        self.root = root
        self.browser = session_of(self.viewer).browse(open_node(root))
        self.go(*FIELDS[0])

    def go(self, well, field):
        self.browser.show_field(well, field)
        return self.layer

    @property
    def layer(self):
        """The labels of the field, which are made where there are none."""
        layers = [x for x in self.viewer.layers if isinstance(x, OMEZarrLabels)]
        layer = next((x for x in layers if x.name.startswith("cells")), None)
        if layer is None:
            layer = self.viewer.add_layer(new_labels(self.viewer.layers[0], "cells"))
            layer.brush_on_screen, layer.brush_size = False, 1
        return layer

    def paint(self, y, x, label):
        self.layer.paint((y, x), label)

    @property
    def pixels(self):
        return np.asarray(self.layer.data[0])


def stored(root, well, field, level=0):
    path = f"{well}/{field}/labels/cells/{level}"
    if root.suffix == ".ozx":
        store = zarr.storage.ZipStore(root, mode="r")
        with store:
            return zarr.open_group(store, mode="r")[path][...]
    return zarr.open_array(root / path, mode="r")[...]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("go"), st.integers(0, 3)),
        st.tuples(st.just("paint"), st.integers(0, 31), st.integers(0, 31)),
        st.sampled_from([("undo",), ("redo",), ("save",)]),
    ),
    min_size=10,
    max_size=40,
)


class Strokes:
    """What each field has to hold: its strokes that were not undone, in order."""

    def __init__(self, root):
        self.root = root
        self.before = {
            at: stored(root, *at) if at[0] == "A/2" else np.zeros(SHAPE[1:], int)
            for at in FIELDS
        }
        self.done = {at: [] for at in FIELDS}
        self.undone = {at: [] for at in FIELDS}
        self.label = 100_000

    def pixels(self, at):
        expected = self.before[at].copy()
        for y, x, value in self.done[at]:
            expected[y, x] = value
        return expected

    def take_step(self, walk, at, name, values):
        layer = walk.layer
        done, undone = self.done[at], self.undone[at]
        if name == "paint":
            self.label += 1
            walk.paint(*values, self.label)
            done.append((*values, self.label))
            undone.clear()
        elif name == "save":
            assert layer.saver.save_now()
        elif name == "undo" and layer.canvas.log.can_undo:
            layer.undo()
            undone.append(done.pop())
        elif name == "redo" and layer._redo_history:
            layer.redo()
            done.append(undone.pop())

    def check_files(self):
        for at, strokes in self.done.items():
            if strokes or at[0] == "A/2":
                np.testing.assert_array_equal(stored(self.root, *at), self.pixels(at))


@settings(max_examples=30)
@given(steps=STEPS, most=st.sampled_from([1, 24]))
def test_each_field_holds_its_strokes_that_were_not_undone(
    pristine, tmp_path_factory, steps, most
):
    root = shutil.copytree(pristine, tmp_path_factory.mktemp("walk") / "p.ome.zarr")
    strokes, at = Strokes(root), FIELDS[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(left_labels, "MOST", most)
        walk = Walk(root)
        for name, *values in steps:
            if name == "go":
                at = FIELDS[values[0]]
                walk.go(*at)
            else:
                strokes.take_step(walk, at, name, values)
            np.testing.assert_array_equal(walk.pixels, strokes.pixels(at))
        walk.go(*FIELDS[(FIELDS.index(at) + 1) % 4])
    strokes.check_files()
    left_labels._remove_all()


@pytest.mark.default_cases(".zarr-field", ".ozx-overview")
@pytest.mark.parametrize("by", ["field", "overview"])
@pytest.mark.parametrize("suffix", [".zarr", ".ozx"])
def test_a_saved_stroke_is_undone_after_a_return_and_that_is_saved(
    root, tmp_path, suffix, by
):
    if suffix == ".ozx":
        pack_hierarchy(root, tmp_path / "p.ozx")
        root = tmp_path / "p.ozx"
    before = stored(root, "A/2", "0")
    walk = Walk(root)
    for well in ("A/2", "A/1"):
        walk.go(well, "0")
        for number in range(3):
            walk.paint(5 + number, 7, 70 + number)
    if by == "overview":
        walk.browser.show_mosaic()
    assert (stored(root, "A/2", "0") != before).sum() == 3
    layer = walk.go("A/2", "0")
    assert not layer.unsaved
    layer.undo()
    assert layer.unsaved
    walk.go("A/1", "0")
    assert (stored(root, "A/2", "0") != before).sum() == 2
    layer = walk.go("A/2", "0")
    for _ in range(2):
        layer.undo()
    layer.undo()
    assert layer.saver.save_now()
    for level in range(2):
        np.testing.assert_array_equal(
            stored(root, "A/2", "0", level),
            before[:: 2**level, :: 2**level],
        )
    for _ in range(3):
        layer.redo()
    walk.go("A/1", "0")
    assert (stored(root, "A/2", "0") != before).sum() == 3
    assert (stored(root, "A/1", "0") != 0).sum() == 3


def test_what_another_program_changed_meanwhile_stays(root):
    walk = Walk(root)
    walk.go("A/2", "0")
    walk.paint(5, 7, 70)
    walk.go("A/1", "0")
    array = zarr.open_array(root / "A/2/0/labels/cells/0", mode="r+")
    array[20, 20] = 99
    layer = walk.go("A/2", "0")
    assert (walk.pixels[20, 20], walk.pixels[5, 7]) == (99, 70)
    notification_manager.records.clear()
    layer.undo()
    assert walk.pixels[5, 7] == 70
    text = str(notification_manager.records[-1].message)
    assert "another window changed the same chunks" in text
    walk.paint(6, 8, 71)
    layer.undo()
    walk.paint(6, 9, 72)
    walk.go("A/1", "0")
    found = stored(root, "A/2", "0")
    assert [found[at] for at in ((20, 20), (5, 7), (6, 9))] == [99, 70, 72]
    assert found[6, 8] not in (71, 72)


def test_labels_that_others_replaced_are_opened_anew(root):
    walk = Walk(root)
    walk.go("A/2", "0")
    walk.paint(5, 7, 70)
    walk.go("A/1", "0")
    folder = root / "A/2/0/labels/cells"
    for level in range(2):
        path = folder / str(level)
        old = zarr.open_array(path, mode="r")[...]
        shutil.rmtree(path)
        new = zarr.create_array(
            path, shape=old.shape, chunks=(8, 8), dtype=old.dtype, zarr_format=3
        )
        new[...] = 3
    layer = walk.go("A/2", "0")
    assert (walk.pixels == 3).all()
    assert not layer.canvas.log.can_undo
    walk.paint(5, 7, 71)
    walk.go("A/1", "0")
    assert (stored(root, "A/2", "0") == 71).sum() == 1


@pytest.mark.parametrize("limit", ["MOST", "MOST_BYTES"])
def test_only_some_fields_are_kept(root, monkeypatch, limit):
    """Their journals are gone as soon as they are not kept, and at the end all."""
    walk = Walk(root)
    walk.go("A/2", "0")
    walk.paint(5, 7, 70)
    assert walk.layer.saver.save_now()
    (folder,) = journal_home().glob("*/*")
    size = sum(path.stat().st_size for path in folder.iterdir())
    most = {"MOST": 2, "MOST_BYTES": int(size * 2.2)}[limit]
    monkeypatch.setattr(left_labels, limit, most)
    for well, field in FIELDS:
        walk.go(well, field)
        walk.paint(5, 7, 70)
    walk.go(*FIELDS[0])
    kept = list(left_labels._left)
    assert len(kept) <= (2 if limit == "MOST" else 3)
    assert kept[-1][1].startswith("A/2/1")
    assert len(list(journal_home().glob("*/*"))) <= 3
    assert not walk.layer.canvas.log.can_undo, "it was left first"
    left_labels._remove_all()
    walk.layer.saver.keep_journal()
    assert not list(journal_home().glob("*/*"))


def test_edits_to_be_restored_come_before_what_was_left(root, monkeypatch):
    """Else they could not be laid over the labels until others are left."""
    walk = Walk(root)
    layer = walk.go("A/2", "0")
    walk.paint(5, 7, 70)
    walk.go("A/1", "0")
    (left,) = [x for x in left_labels._left.values() if "A/2" in x.journal.place[1]]
    other = left.journal.folder.parent / "other"
    other.mkdir()
    layer = walk.go("A/2", "0")
    assert walk.pixels[5, 7] == 70
    assert not layer.canvas.log.can_undo


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from test_left_labels import Walk
walk = Walk(Path(sys.argv[1]))
walk.go("A/2", "0")
for number in range(3):
    walk.paint(5 + number, 7, 70 + number)
walk.go("A/1", "0")
layer = walk.go("A/2", "0")
layer.undo()
walk.paint(9, 9, 80)
assert layer.saver.journal.sync_if_changed()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_after_a_return_has_kept_all(root, monkeypatch):
    before = stored(root, "A/2", "0")
    user = User()
    monkeypatch.setattr(Window, "current", user)
    folders = Path(__file__).parent, Path(painting.__file__).parent
    command = [sys.executable, "-c", KILLED, root, *folders]
    process = subprocess.run(command, env={**os.environ}, check=False)
    assert process.returncode == -signal.SIGKILL
    walk = Walk(root)
    walk.go("A/2", "0")
    user.answer = RESTORE
    session_of(walk.viewer).recovery.offer_again()
    expected = before.copy()
    expected[5, 7], expected[6, 7], expected[9, 9] = 70, 71, 80
    np.testing.assert_array_equal(walk.pixels, expected)
    assert walk.layer.saver.save_now()
    np.testing.assert_array_equal(stored(root, "A/2", "0"), expected)
