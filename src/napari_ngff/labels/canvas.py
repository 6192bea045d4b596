"""An editable pyramid of any size: edits over a read-only pyramid.

Only chunks that are displayed are rasterised, at the displayed level. Memory: the log
of edits (some hundred bytes per move of the brush) and at most `budget` bytes of
rasterised chunks with their undo records, which are made again from the log when they
are needed. No edit is ever dropped.
"""

from __future__ import annotations

import itertools
import threading
from bisect import bisect_left
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.labels.canvas_level import BelowEdits, CanvasLevel, Chunk, DrawnLevels
from napari_ngff.labels.chunk_patch import ChunkPatch
from napari_ngff.labels.edits import Edit, EditLog
from napari_ngff.labels.used_labels import UsedLabels
from napari_ngff.store.arrays.boxes import Box, box_shape, enclose_boxes, whole_box

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.store.arrays.lazy_array import ArraySource

BUDGET = 64 << 20
"""Bytes of rasterised chunks and undo records that a canvas keeps."""

NOTED = 32
"""Number of last steps that are undone from records; older ones rasterise again."""


MOST_CHUNKS = 4096
"""Number of chunks of a level that are rasterised in advance."""


class Canvas:
    """An editable pyramid; safe to use from several threads.

    Parameters
    ----------
    sources
        The pyramid below the edits, from the finest level to the coarsest.
    budget
        Bytes of rasterised chunks to keep.

    Attributes
    ----------
    version
        Grows with every change.
    token
        Of this canvas and no other: caches of dask go by it.
    reversals
        How many of the changes took something back, or showed coarser levels anew.
    highest
        The largest value that was painted or read so far.
    used
        Which labels pixels have.
    drawn
        What is drawn of labels of files, whose reading may take long; None for others.
    """

    def __init__(self, sources: Sequence[ArraySource], budget: int = BUDGET) -> None:
        first = sources[0]
        self.shape = tuple(first.shape)
        # Some programs store labels as true and false, which hold no second label.
        self.dtype = np.dtype("u1") if first.dtype.kind == "b" else first.dtype
        self.log = EditLog(len(self.shape))
        self.version = 0
        self.token = f"{next(_counter)}-{_SESSION}"
        self.reversals = 0
        self.highest = 0
        self.used = UsedLabels(self)
        self.drawn: DrawnLevels | None = None
        # Reentrant: `undo` calls `close_step` while it holds the lock.
        self.lock = threading.RLock()
        self._budget = budget
        self._taken = 0  # bytes of all patches
        self._saved: tuple[Edit, ...] = ()
        # How many of the first edits the coarser levels of the file contain.
        self._settled = 0
        # By level and chunk; the least recently used ones first.
        self._patches: OrderedDict[tuple[int, Chunk], ChunkPatch] = OrderedDict()
        self.levels = tuple(
            CanvasLevel(self, number, source) for number, source in enumerate(sources)
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Canvas:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        with self.lock:
            # Pickled for another process, without patches: they are made again from the
            # edits.
            sources = [level.source for level in self.levels]
            seen = self.dtype, self.highest
            return _rebuild_canvas, (sources, *seen, self.edits, self._in_file())

    def copy(self) -> Canvas:
        """Make an independent canvas with the same edits over the same pyramid."""
        twin = Canvas([level.source for level in self.levels], self._budget)
        with self.lock:
            twin.change_dtype(self.dtype)
            twin.highest = self.highest
            # The same steps of undo as here. Edits that are undone are left out.
            for index, edit in enumerate(self.edits):
                if index in self.log.starts:
                    twin.close_step()
                    twin.begin_step()
                twin.add_edit(edit)
            twin.close_step()
        # Not as the file is: the next save goes there, and not into the copy.
        return twin

    def _in_file(self) -> tuple[list[ArraySource], tuple[Edit, ...]]:
        """Return the arguments of the last `show_saved`, as far as they still hold."""
        saved = [level.saved for level in self.levels[1:] if level.saved is not None]
        return saved, self.edits[: self._settled]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits that are not undone, in order."""
        with self.lock:
            return tuple(self.log.edits[: self.log.end])

    @property
    def all_edits(self) -> tuple[Edit, ...]:
        """The edits, and those that can be redone."""
        with self.lock:
            return tuple(self.log.edits)

    @property
    def edits_and_starts(self) -> tuple[tuple[Edit, ...], frozenset[int]]:
        """The edits, and the index of the first one of each step of undo."""
        with self.lock:
            return self.edits, frozenset(self.log.starts)

    @property
    def nbytes(self) -> int:
        """Bytes of the rasterised chunks."""
        with self.lock:
            return sum(patch.nbytes for patch in self._patches.values())

    def add_edit(self, edit: Edit) -> None:
        """Append an edit; undone edits are dropped.

        Raises
        ------
        OverflowError
            Where `dtype` does not hold the label; see `retype_arrays`.
        """
        self._check_label(edit.label)
        with self.lock:
            # One lock for both: a reader must not see the edit without the new version.
            self.log.add_edit(edit)
            self.highest = max(self.highest, edit.label)
            self.version += 1

    def add_edits(
        self, edits: Sequence[Edit], drawn: Canvas | None = None, lasting: int = 0
    ) -> None:
        """Append edits, each a step of undo; all of them, or none.

        Parameters
        ----------
        drawn
            From `copy_with` of the same edits, rasterised in a worker.
        lasting
            Number of the first edits that cannot be undone; the log has no others then.

        Raises
        ------
        OverflowError
            Where `dtype` does not hold one of the labels; see `retype_arrays`.
        """
        for label in {edit.label for edit in edits}:
            self._check_label(label)
        with self.lock:
            # A worker has made this log already; thousands of edits would block here.
            if drawn is not None and not self.log.edits:
                self.log = drawn.log.copy()
            else:
                self.log.add_edits(edits)
            self.log.undo_limit = max(self.log.undo_limit, lasting)
            self.highest = max([self.highest, *(edit.label for edit in edits)])
            self.version += 1
            if drawn is not None:
                self.take_rasterised(drawn)

    def insert_lasting(self, index: int, edits: Sequence[Edit]) -> None:
        """Insert edits that cannot be undone; see `EditLog.insert_lasting`.

        Call `reread_sources` then.
        """
        with self.lock:
            self.log.insert_lasting(index, edits)
            self.forget_patches()
            self.highest = max([self.highest, *(edit.label for edit in edits)])

    def forget_patches(self) -> None:
        """Forget rasterised chunks, which are made again when they are needed."""
        with self.lock:
            self._patches.clear()
            self._taken = 0

    def copy_with(self, edits: Sequence[Edit]) -> Canvas:
        """Make a canvas of other edits over the same pyramid, to rasterise them.

        Thousands of edits take seconds: a worker rasterises them on this canvas, and
        `take_rasterised` hands over the result.

        Raises
        ------
        OverflowError
            Where `dtype` does not hold one of the labels.
        """
        twin = Canvas([level.source for level in self.levels], self._budget)
        twin.change_dtype(self.dtype)
        twin.add_edits(edits)
        return twin

    def rasterise_level(self, number: int) -> None:
        """Rasterise the edits of a level until half of the budget is used."""
        level = self.levels[number]
        whole = whole_box(level.shape)
        chunks: dict[Chunk, None] = {}
        for edit in self.edits:
            region = edit.region_in(level.grid, whole)
            if region is not None:
                # One edit may cover a level of millions of chunks.
                touched = level.chunks_in(region)
                chunks.update(dict.fromkeys(itertools.islice(touched, MOST_CHUNKS)))
        for chunk in itertools.islice(chunks, MOST_CHUNKS):
            # The other half is for chunks that are displayed meanwhile.
            if self._taken > self._budget // 2:
                return
            self.rasterise_chunk(number, chunk)

    def take_rasterised(self, drawn: Canvas) -> None:
        """Take over the patches of a canvas of `copy_with`, if they still hold.

        It holds while the edits there are the first ones here, of the same type.
        """
        with drawn.lock:
            edits, patches = drawn.edits, dict(drawn._patches)
            # Handed over, not shared: two canvases must not revert the same patch.
            drawn._patches.clear()
            drawn._taken = 0
        end = len(edits)
        with self.lock:
            # Equal logs share the edits themselves, so the last one counts for all of
            # them.
            held = 0 < end <= self.log.end and self.log.edits[end - 1] is edits[-1]
            if not held or drawn.dtype != self.dtype:
                return
            for key, patch in patches.items():
                # Edits that the file has are not laid over its coarser levels.
                if not self.saved_count(self.levels[key[0]]):
                    self._patches.setdefault(key, patch)
            self._taken = self.nbytes
            if self._patches:
                self._trim_patches(next(reversed(self._patches)))

    def _check_label(self, label: int) -> None:
        limits = np.iinfo(self.dtype)
        if not limits.min <= label <= limits.max:
            msg = f"{label} does not fit into {self.dtype}. Widen the canvas first."
            raise OverflowError(msg)

    def begin_step(self) -> None:
        """Let all edits from now on be one step of undo, until `close_step`."""
        with self.lock:
            self.log.begin_step()

    def close_step(self) -> list[Edit]:
        """End the step; return its edits, joined where they are one stroke."""
        with self.lock:
            before = self.log.end
            edits = self.log.close_step()
            after = self.log.end
            for key, patch in list(self._patches.items()):
                # Joined strokes paint the same voxels: a patch that has seen all needs
                # only the new end.
                if patch.end == before:
                    patch.end = after
                # It saw only some of the edits that are now joined to one.
                elif not patch.revert_to(after - len(edits)):
                    del self._patches[key]
            self._count_saved()
        return edits

    def undo(self) -> list[Edit]:
        """Undo the last step; return its edits in their order."""
        with self.lock:
            # The stroke that is being painted is undone as a whole.
            self.close_step()
            moved = self.log.undo()
            # Redo needs nothing like this: patches apply later edits when they are
            # read.
            self._revert_patches(self.log.end)
            self._count_saved()
            self.version += 1
            self.reversals += 1
        return moved

    def redo(self) -> list[Edit]:
        """Redo the step that was undone last; return its edits."""
        with self.lock:
            moved = self.log.redo()
            self._count_saved()
            self.version += 1
        return moved

    def _revert_patches(self, end: int) -> None:
        for key, patch in list(self._patches.items()):
            if not patch.revert_to(end):
                del self._patches[key]
        self._taken = self.nbytes

    def change_dtype(self, dtype: np.dtype[Any]) -> None:
        """Show all levels in another integer type."""
        with self.lock:
            if dtype != self.dtype:
                self.dtype = np.dtype(dtype)
                self.forget_patches()
                self.version += 1

    def show_saved(self, sources: Sequence[ArraySource], edits: Sequence[Edit]) -> None:
        """Show coarser levels as they are in the file, once edits are saved.

        Where edits are laid over a coarse level thin ones stay visible, while a file
        follows its own rule. Later edits are laid over the file; where a saved one is
        taken back, all are laid over what was there before, as until now.

        Parameters
        ----------
        sources
            The coarser levels of the file.
        edits
            Those that it has.
        """
        with self.lock:
            for level, source in zip(self.levels[1:], sources, strict=False):
                level.saved = source
            self._saved, self._settled = tuple(edits), 0
            self._forget_coarser()
            self._count_saved()

    def _count_saved(self) -> None:
        """Count the edits that are in the coarser levels of the file."""
        end = len(self._saved)
        # An edit stands at its place in the log for as long as those before it do.
        held = 0 < end <= self.log.end and self.log.edits[end - 1] is self._saved[-1]
        if self._settled != (settled := end if held else 0):
            self._settled = settled
            self._forget_coarser()

    # Level 0 keeps its patches: what is read below its edits is always the original.
    def _forget_coarser(self) -> None:
        for key in [key for key in self._patches if key[0]]:
            del self._patches[key]
        self._taken = self.nbytes
        self.reversals += 1

    def saved_count(self, level: CanvasLevel) -> int:
        """Return the number of edits that the source of a level contains already."""
        return self._settled if level.saved is not None else 0

    def reread_sources(self) -> None:
        """Show the sources again after they were changed."""
        with self.lock:
            # Whether the coarser levels of the file contain these edits is unknown now.
            self._saved, self._settled = (), 0
            self.used.stored = None
            # Patches hold values of the old type.
            self.forget_patches()
            self.version += 1
            self.reversals += 1

    def read(self, number: int, box: Box) -> np.ndarray[Any, Any]:
        """Read a box of a level with its edits."""
        out = self._read_drawn(number, box)
        if out is not None:
            return out
        level = self.levels[number]
        out = np.empty(box_shape(box), self.dtype)
        for chunk, part, inside in level.split_at_chunks(box):
            # Large fills cover whole chunks, which need not be read from a slow store.
            if self._fill_covered(number, chunk, inside, out[part]):
                continue
            settled = None
            # A save that ends meanwhile changes what belongs below the edits.
            while settled != self.saved_count(level):
                settled = self.saved_count(level)
                # Without the lock: a slow store must not hold up the brush.
                out[part] = level.read_below(_part_box(inside, level.chunk_box(chunk)))
                patch = self.rasterise_chunk(number, chunk)
                if patch is not None:
                    self._overlay_patch(patch, inside, out[part])
        if out.size:
            # A new object gets an id above the largest one known.
            self.highest = max(self.highest, int(out.max()))
        return out

    def _read_drawn(self, number: int, box: Box) -> np.ndarray[Any, Any] | None:
        """Read what can be drawn now of slow levels; None for true labels."""
        level, settled = self.levels[number], None
        # A save that ends meanwhile changes what belongs below the edits.
        while settled != self.saved_count(level):
            settled = self.saved_count(level)
            drawn = self.drawn
            below = drawn.read(number, box) if drawn is not None else None
            if below is None:
                return None
            out = np.array(below, self.dtype)  # the viewer paints on it
            # Edits that ask for the labels below read true ones.
            self.overlay_edits(number, box, out)
        if out.size:
            self.highest = max(self.highest, int(out.max()))
        return out

    def overlay_edits(
        self, number: int, box: Box, out: np.ndarray[Any, Any], since: int = 0
    ) -> Box | None:
        """Put the edits onto a box of a level that was read before.

        Reads nothing but what an edit that asks needs to know.

        Parameters
        ----------
        since
            How many of the edits are there already.

        Returns
        -------
        tuple or None
            The part of the box, on the level, that may have changed.
        """
        changed = []
        for chunk, part, inside in self.levels[number].split_at_chunks(box):
            patch = self.rasterise_chunk(number, chunk)
            if patch is not None and patch.changed > since:
                self._overlay_patch(patch, inside, out[part])
                changed.append(tuple((s.start, s.stop) for s in part))
        if not changed:
            return None
        return tuple(
            (start + low, start + high)
            for (start, _), (low, high) in zip(box, enclose_boxes(changed), strict=True)
        )

    def _fill_covered(self, number: int, chunk: Chunk, inside: Any, out: Any) -> bool:
        """Fill in a part of a chunk without reading it, if edits cover the chunk."""
        with self.lock:
            patch = self._patches.get((number, chunk))
            # Not where later edits are still to be applied, which may depend on what is
            # below.
            if patch is None or not patch.is_full or patch.end != self.log.end:
                return False
            out[...] = patch.values[inside]
            return True

    def _overlay_patch(self, patch: ChunkPatch, inside: Any, out: Any) -> None:
        with self.lock:
            if patch.values is not None:
                np.copyto(out, patch.values[inside], where=patch.mask[inside])

    def rasterise_chunk(self, number: int, chunk: Chunk) -> ChunkPatch | None:
        """Rasterise the edits of a chunk; None if there are none."""
        level = self.levels[number]
        box = level.chunk_box(chunk)
        below: BelowEdits | None = None
        while True:
            with self.lock:
                state = self.saved_count(level), self.reversals
                indices = self._new_edits(level, chunk)
                asked = level.asked_box(box, [self.log.edits[i] for i in indices])
                if asked is None or (below is not None and below.has(asked, state)):
                    return self._rasterise(level, chunk, indices, below)
            # Without the lock: a slow store must not hold up the brush. Edits that have
            # come meanwhile may ask for more, but for no more than the chunk.
            asked = asked if below is None else box
            below = BelowEdits(asked, state, level.read_below(asked))

    def _new_edits(self, level: CanvasLevel, chunk: Chunk) -> list[int]:
        """Find the edits of a chunk that its patch has not seen."""
        patch = self._patches.get((level.number, chunk))
        # What is read below contains the first edits already, once they are saved.
        start = self.saved_count(level) if patch is None else patch.end
        if start >= self.log.end:
            return []
        return self.log.edits_touching(level.edit_reach(level.chunk_box(chunk)), start)

    def _rasterise(
        self,
        level: CanvasLevel,
        chunk: Chunk,
        indices: Sequence[int],
        below: BelowEdits | None,
    ) -> ChunkPatch | None:
        """Rasterise new edits of a chunk; reads nothing, since the lock is held."""
        key = level.number, chunk
        patch = self._patches.get(key)
        if patch is None and indices:
            patch = ChunkPatch(level.grid, level.chunk_box(chunk), self.dtype)
            self._patches[key] = patch
        if patch is not None and patch.end < self.log.end:
            read = level.read_below if below is None else below.read
            settled, recent = self.saved_count(level), self._first_undoable()
            before = patch.nbytes
            for index in indices:
                step = self.log.step_start(index)
                edit = self.log.edits[index]
                # Only the crescent beyond the dab before is computed, if that dab is in
                # this patch too; a coarser level of the file shows it by its own rule.
                last = self.log.edits[index - 1] if index > settled else None
                # Records cost memory, so only the last steps are undone from them.
                if patch.apply_edit(edit, read, step, step >= recent, last):
                    patch.changed = index + 1
            patch.end = self.log.end
            # To the end as the most recently used one; `_trim_patches` drops from the
            # front.
            self._patches.move_to_end(key)
            patch.forget_before(recent)
            self._taken += patch.nbytes - before
            self._trim_patches(key)
        return patch if patch is not None and patch.values is not None else None

    def _first_undoable(self) -> int:
        """Return the first edit of the steps that can be undone from records."""
        done = bisect_left(self.log.starts, self.log.end)
        return self.log.starts[max(0, done - NOTED)] if done else 0

    def _trim_patches(self, keep: tuple[int, Chunk]) -> None:
        """Keep to the budget: drop undo records first, then the chunks least used."""
        if self._taken <= self._budget:
            return
        for patch in self._patches.values():
            patch.forget_before(self.log.end)
        self._taken = self.nbytes
        # Not the chunk that is being read: a budget below one chunk would never show
        # it.
        while self._taken > self._budget and next(iter(self._patches)) != keep:
            _, patch = self._patches.popitem(last=False)
            self._taken -= patch.nbytes


# Counters of two processes agree, and dask may mix arrays of both in one cluster: so a
# token also has a random part.
_counter = itertools.count()
_SESSION = f"{np.random.SeedSequence().entropy:x}"[:12]


def _rebuild_canvas(
    sources: Sequence[ArraySource],
    dtype: np.dtype[Any],
    highest: int,
    edits: Sequence[Edit],
    in_file: tuple[Sequence[ArraySource], Sequence[Edit]],
) -> Canvas:
    """Make a canvas in another process: its edits are one step."""
    canvas = Canvas(sources)
    canvas.change_dtype(dtype)
    canvas.highest = highest
    for edit in edits:
        canvas.add_edit(edit)
    # What was pickled as one object is one object again.
    canvas.show_saved(*in_file)
    return canvas


def _part_box(inside: Any, box: Box) -> Box:
    """Convert slices of a chunk to a box of its level."""
    return tuple(
        (part.start + start, part.stop + start)
        for part, (start, _) in zip(inside, box, strict=True)
    )
