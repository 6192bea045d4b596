"""Two windows that save the same labels at once leave levels that follow from level 0.

One window saves while the save of the other is at any of its steps.
"""

import itertools
import shutil
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_store import OBJECTS, MemoryStore
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.label_writer import LabelWriter
from napari_ngff.labels.runs import mask_runs
from napari_ngff.labels.saving.before_images import BeforeImages
from napari_ngff.labels.shapes import Everywhere, Mask
from napari_ngff.store.arrays.array_writer import ArrayWriter
from napari_ngff.store.arrays.boxes import whole_box
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.sources.folder_store import FolderStore
from saving import levels_of, open_canvas, read_levels, write_levels

SHAPES = ((16, 16), (8, 8), (4, 4))
ENOUGH = 12
"""Rounds in which each window saves, after which nothing may be left to save."""


@dataclass
class Save:
    """One save of a window, and what the other window does meanwhile.

    Attributes
    ----------
    edits
        Of both windows before it; None takes one back.
    first
        Number of the window.
    step
        At which step of the save the other one saves.
    """

    edits: list[tuple[int, Edit | None]]
    first: int
    step: int


def dot(corner, size, label, source=None):
    return Edit(Mask(mask_runs(np.ones(size, bool), corner)), (0, 1), (), label, source)


LABELS = st.integers(0, 3)
DOTS = st.builds(
    dot,
    st.tuples(st.integers(0, 7), st.integers(0, 7)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    LABELS,
    st.none() | LABELS,
)
REPLACED = st.builds(
    lambda label, source: Edit(Everywhere(SHAPES[0]), (0, 1), (), label, source),
    LABELS,
    LABELS,
)
SAVES = st.builds(
    Save,
    st.lists(st.tuples(st.integers(0, 1), st.none() | DOTS | REPLACED), max_size=3),
    st.integers(0, 1),
    st.integers(0, 24),
)


class Steps:
    """Calls a function at one of the steps of a save; each object has two, and all
    together two more.
    """

    def __init__(self, transaction, step, call):
        self.transaction, self.left, self.call = transaction, step, call
        self.patch = pytest.MonkeyPatch()

    def count(self, transaction):
        if transaction is self.transaction:
            self.left -= 1
            if self.left == -1:
                self.call()

    def __enter__(self):
        for name in ("update_cells", "_put_object"):
            self.note(ArrayWriter, name, lambda writer: writer.transaction)
        self.note(type(self.transaction), "commit", lambda one: one, after=True)

    def note(self, owner, name, find, after=False):
        inner = getattr(owner, name)

        def counted(one, *given, **named):
            self.count(find(one))
            result = inner(one, *given, **named)
            if after:
                self.count(find(one))
            return result

        self.patch.setattr(owner, name, counted)

    def __exit__(self, *error):
        self.patch.undo()


def change(writer, edit):
    canvas = writer.canvas
    if edit is None:
        canvas.undo()
        return
    canvas.begin_step()
    canvas.add_edit(edit)
    canvas.close_step()


def save_both(writers, saves, check):
    """Edit and save; see after each save, also a refused one, that levels agree."""
    for one in saves:
        for number, edit in one.edits:
            change(writers[number], edit)
        first, second = writers[one.first], writers[1 - one.first]
        with Steps(first.transaction, one.step, second.save):
            first.save()
        check()
    for _ in range(ENOUGH):
        refused = [one.save().refused for one in writers]
        check()
        if not any(refused):
            return
    pytest.fail("a window could not save")


def check_levels(levels, method):
    wanted = levels_of(levels[0], SHAPES[1:], method)
    for number, (got, want) in enumerate(zip(levels, wanted, strict=True)):
        np.testing.assert_array_equal(got, want, err_msg=f"level {number}")


NUMBERS = itertools.count()


@pytest.fixture(scope="module", params=["nearest", "mode"])
def stored(request, tmp_path_factory):
    pixels = np.random.default_rng(3).integers(0, 4, SHAPES[0]).astype("u2")
    levels = levels_of(pixels, SHAPES[1:], request.param)
    folder = tmp_path_factory.mktemp("stored") / "label"
    return request.param, write_levels(folder, levels, (4, 4))


def open_writers(method, make_source):
    canvases = [open_canvas("", len(SHAPES), source=make_source()) for _ in range(2)]
    return [LabelWriter(canvas, BeforeImages(), method) for canvas in canvases]


@given(st.lists(SAVES, min_size=1, max_size=5))
@settings(deadline=None, max_examples=60)
def test_levels_in_a_folder(stored, saves):
    method, original = stored
    folder = original.parent / f"copy{next(NUMBERS)}"
    shutil.copytree(original, folder)
    writers = open_writers(method, lambda: FolderStore(str(folder)))
    save_both(
        writers, saves, lambda: check_levels(read_levels(folder, len(SHAPES)), method)
    )
    shutil.rmtree(folder)


@given(st.lists(SAVES, min_size=1, max_size=5))
@settings(deadline=None, max_examples=60)
def test_levels_in_a_store_of_another_kind(stored, saves):
    method, original = stored
    address = f"memory://{original.parent.name}{next(NUMBERS)}"
    OBJECTS[address] = {
        str(path.relative_to(original)): path.read_bytes()
        for path in original.rglob("*")
        if path.is_file()
    }

    def check():
        arrays = [open_array(MemoryStore(address), str(i)) for i in range(len(SHAPES))]
        check_levels([array.read(whole_box(array.shape)) for array in arrays], method)

    save_both(open_writers(method, lambda: MemoryStore(address)), saves, check)
    del OBJECTS[address]
