"""Saves the edits of a canvas into its file: the blocks they touch, at every level.

Level 0 first, then each coarser level from the one just written, only where that
changed. Each object is replaced whole, so that a save that was killed at any moment
can be done again: see `napari_ngff.labels.saving.before_images`.

Memory, for each of as many threads as cores: a decoded chunk some six times (what the
file holds, what it was, what it becomes, and what an edit rasterises), and the bytes
of a stored object twice; for all, `save_pass.ROOM` and some 500 bytes per chunk
that is touched.
"""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import ConflictError, CorruptDataError, UnsupportedError
from napari_ngff.labels.saving.before_images import (
    BeforeImages,
    KeptLevels,
    OriginalLevel,
    file_array_of,
    on_error_of,
    reopen_array,
)
from napari_ngff.labels.saving.changes_of_others import find_changes
from napari_ngff.labels.saving.level_rules import find_rules
from napari_ngff.labels.saving.retype_array import (
    open_widened,
    require_types,
    retype_arrays,
)
from napari_ngff.labels.saving.save_pass import DirtyCells, LabelFiles, SavePass
from napari_ngff.labels.saving.save_run import (
    Progress,
    SaveOutcome,
    SaveRun,
    count_common,
)
from napari_ngff.labels.saving.snapshot import Snapshot, touched_cells
from napari_ngff.labels.saving.validate_saved import find_errors
from napari_ngff.labels.used_labels import StoredLabels
from napari_ngff.store.arrays.array_writer import ArrayWriter
from napari_ngff.store.arrays.boxes import AxisOrder, Cell, box_of
from napari_ngff.store.arrays.chunked_array import ChunkedArray
from napari_ngff.store.arrays.lazy_array import ArrayWindow
from napari_ngff.store.pyramids.level_reduction import LevelReduction, Method
from napari_ngff.store.pyramids.pyramid import LevelSource
from napari_ngff.store.sources.read_ahead import ReadLog
from napari_ngff.store.store import TRIES, conflict_error
from napari_ngff.store.write.consolidated import update_copies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from napari_ngff.labels.canvas import Canvas
    from napari_ngff.labels.edits import Edit
    from napari_ngff.labels.journal import Journal
    from napari_ngff.labels.saving.journal_records import JournalContent
    from napari_ngff.metadata.model import Problem

TAKEN = (
    "{} has objects of another window whose ids were new here: {}. Undo your strokes,"
    " and paint them with a new id; or save again to make them part of these objects."
)


class LabelWriter:
    """Saves the edits of a canvas into the files of a label image.

    Made before anything of the canvas is read: from then on the canvas reads through
    it, and shows the pyramid as it was opened with all edits, saved or not.

    Parameters
    ----------
    canvas
        Its levels' sources are arrays that can be written (`LevelSource`), on any
        axes (`ArrayWindow`).
    retained
        Where to keep what is overwritten.
    method
        How coarser levels are made.
    ratios
        For each level but the first: how much larger its voxels are than those of the
        next finer one, axes of the file; None where that is not known.
    files
        The arrays, and the file's axis for each of the canvas; by default those of
        the canvas. There may be more or fewer arrays than levels of the canvas.
    register
        Of new labels: makes them known once all levels are written; see `NewLabels`.

    Raises
    ------
    UnsupportedError
        Where the levels cannot be written; the message says why.
    """

    def __init__(
        self,
        canvas: Canvas,
        retained: BeforeImages,
        method: Method = "nearest",
        ratios: Sequence[Sequence[float]] | None = None,
        files: tuple[Sequence[ChunkedArray], AxisOrder] | None = None,
        register: Callable[[], None] | None = None,
    ) -> None:
        self.canvas = canvas
        self.before_images = retained
        if files is None:
            file_arrays = [file_array_of(level.source) for level in canvas.levels]
            files = [array for array, _ in file_arrays], file_arrays[0][1]
        self.arrays, self.order = tuple(files[0]), files[1]
        self.transaction = self.arrays[0].source.begin()
        self.journal: Journal | None = None
        self._register = register
        # Notes in which revision each object was read: a save refuses what has another
        # one.
        self._reads = ReadLog(self.transaction.source)
        # Edits that the file has, but for what `_dirty` lists.
        self._saved: tuple[Edit, ...] = ()
        # All in which our own saves can have left a block; the first is the last save
        # that came to its end.
        self._states: tuple[tuple[Edit, ...], ...] = ((),)
        self._waiting = 0  # blocks that the transaction has and the file has not
        self._dirty = DirtyCells.of_levels(len(self.arrays))
        # Whether others have changed labels; see `SavePass.shared`.
        self._shared = False
        self.reductions = tuple(
            LevelReduction.between_shapes(
                fine.shape, coarse.shape, method, None if ratios is None else ratios[i]
            )
            for i, (fine, coarse) in enumerate(pairwise(self.arrays))
        )
        # Used for new labels; for others they are found before the first save.
        self._rules = self.reductions
        self._rules_found = False
        require_types(self.arrays)
        # Last, so that a writer that is refused leaves the canvas as it was.
        self._read_through()

    def _read_through(self) -> None:
        """Let the canvas read the pyramid as it was before any save."""
        pairs = zip(self.canvas.levels, self.arrays, strict=False)
        for number, (level, array) in enumerate(pairs):
            array = ChunkedArray(self._reads, array.path, array.layout)
            source = LevelSource(array, on_error_of(level.source))
            # The order of the wrappers: file, original blocks, axes of the canvas.
            kept = OriginalLevel(source, self.before_images, number, array.chunks)
            level.source = ArrayWindow(kept, self.order)

    def with_before_images(self, retained: BeforeImages) -> LabelWriter:
        """Make a writer of the same files that keeps what is overwritten elsewhere."""
        # Shallow: both write the same arrays in the same transaction.
        twin = copy(self)
        twin.before_images = retained
        twin._dirty = DirtyCells.of_levels(len(self.arrays))
        twin._saved, twin._states = (), ((),)
        twin._waiting = 0
        twin._read_through()
        return twin

    def follow_canvas(self, canvas: Canvas) -> None:
        """Save the edits of another canvas over the same levels from now on."""
        self.canvas = canvas
        if self.journal is not None:
            self.journal.canvas = canvas

    # What there is to save.

    @property
    def has_unsaved(self) -> bool:
        """Return whether the file differs from what the canvas shows."""
        log = self.canvas.log
        end, saved = log.end, self._saved
        # An edit stands at its place in the log for as long as those before it do.
        same = len(saved) == end and (not end or saved[-1] is log.edits[end - 1])
        return not same or self._is_incomplete

    @property
    def _is_incomplete(self) -> bool:
        return (
            bool(self._dirty or self._dirty.handled)
            or self.transaction.uncommitted
            or self._register is not None
        )

    @property
    def unsaved_edits(self) -> tuple[Edit, ...]:
        """Saved edits that were undone since, then the edits that the file lacks."""
        edits = self.canvas.edits
        same = count_common(self._saved, edits)
        return self._saved[same:] + edits[same:]

    @property
    def unsaved_cells(self) -> frozenset[Cell]:
        """Blocks of level 0 that a save was to write and did not."""
        return self._dirty.wanted_cells

    def adopt_journal(self, content: JournalContent) -> None:
        """Continue the work of a process that ended.

        Where a block is neither what was there before, nor what a save made of it,
        another program has changed it since: its changes come after the saved edits,
        and unsaved ones go on top.

        Parameters
        ----------
        content
            Of the journal, which no other process holds.
        """
        self._saved = content.saved
        # Also untouched: its original was kept, and it was never written.
        self._states, self._shared = (content.saved, *content.saving, ()), True
        # Only a save that did not end can have left files aside or copies of metadata
        # out.
        if content.saving:
            self._recover_files(content.tokens)
        self._dirty.recheck_written(self.before_images)
        self._take_changes(self.before_images.list_cells(0))

    def _take_changes(self, cells: Iterable[Cell]) -> None:
        """Put what other programs changed in saved blocks behind the saved edits.

        Parameters
        ----------
        cells
            Blocks of level 0 that are in `before_images`.
        """
        # Read from the disk: the canvas must not cache what may be dropped below.
        array = reopen_array(self.arrays[0], self.transaction.source)
        writer = ArrayWriter(array, self.transaction)
        known = self._kept_levels().known
        changes: list[Edit] = []
        for cell in cells:
            box = box_of(cell, array.chunks, array.shape)
            before = self.before_images.get_block(0, cell)
            if before is None:
                continue
            # Before the block is read: what comes later is a conflict of the next save,
            # also in blocks that the canvas does not read.
            key = writer.key_of(cell)
            self._reads.revisions.setdefault(key, self.transaction.find_revision(key))
            with suppress(CorruptDataError):
                now = array.read(box)
                states = [one.with_edits(box, before, self.order) for one in known]
                try:
                    changes += find_changes(box, now, states, self.order)
                except UnsupportedError:
                    self.before_images.drop_block(0, cell)
        if not changes:
            return
        self._shared = True
        with self.canvas.lock:
            log, edits = self.canvas.log, self.canvas.edits
            same = min(count_common(e, edits) for e in (self._states[0], self._saved))
            index = max(log.undo_limit, min(same, log.settled_count))
            self.canvas.insert_lasting(index, changes)
            self.canvas.reread_sources()
        self._saved = (*self._saved[:index], *changes, *self._saved[index:])
        self._states = tuple((*edits, *changes) for edits in self._states)
        if self.journal is not None:
            for edits in self._states:
                self.journal.note_saving(edits, self.transaction.token)

    def _kept_levels(self) -> KeptLevels:
        arrays = [reopen_array(one, self.transaction.source) for one in self.arrays]
        known = [self._take_snapshot(edits) for edits in self._states]
        return KeptLevels(arrays, self._rules, self.before_images, known, self.order)

    def _take_snapshot(self, edits: Sequence[Edit]) -> Snapshot:
        return Snapshot(edits, self.canvas.shape, self.canvas.dtype)

    def _recover_files(self, dead: Sequence[str]) -> None:
        """Bring files into the state that a save which was killed did not reach."""
        self.sweep_leftovers(dead)
        label = self.arrays[0].path.rpartition("/")[0]
        self.transaction.recover(label)
        above = [path for path in (label, label.rpartition("/")[0]) if path]
        update_copies(
            self.transaction, [*above, *(array.path for array in self.arrays)]
        )

    def sweep_leftovers(self, dead: Sequence[str]) -> None:
        """Remove unfinished files of a process that ended."""
        for array in self.arrays:
            self.transaction.remove_leftovers(array.path, dead)

    def save(
        self,
        progress: Progress | None = None,
        cancel: Callable[[], bool] | None = None,
        describe: Callable[[], None] | None = None,
    ) -> SaveOutcome:
        """Save the edits of this moment; those made meanwhile remain for the next time.

        Not from two threads at once. Painting goes on. What another program changed
        since it was read is left as it is and read again: saving once more puts the
        edits on top of it.

        Parameters
        ----------
        progress, cancel
            Called with how far it is; asked whether to stop.
        describe
            Puts what else is to be saved with the voxels, where all is saved together.

        Raises
        ------
        UnsupportedError, CorruptDataError
            Where the labels do not fit into the type of the file, and the file cannot
            be widened; nothing is written then.
        OSError
            Where the system refuses to write. What was not written is still unsaved,
            and saving again goes on from there.
        """
        conflict = self._find_conflict()
        if conflict and self.has_unsaved:
            # As any change of another window, it is shown before edits go over it.
            state = SaveRun(progress, cancel)
            state.note_refused(ConflictError(conflict))
            return state.make_outcome((), False)
        # A tuple of this moment: painting goes on while it is saved.
        edits, idle = self.canvas.edits, not self.has_unsaved
        if self.journal is not None:
            self.journal.note_saving(edits, self.transaction.token)
        # Before any block is written: the old array cannot hold values of the new type.
        if self.canvas.dtype != self.arrays[0].dtype:
            self._retype_arrays(self.canvas.dtype)
            # Changes of others may have been put among them.
            edits = self.canvas.edits
            if self.journal is not None:
                self.journal.note_saving(edits, self.transaction.token)
        snapshot = self._take_snapshot(edits)
        same = count_common(self._saved, edits)
        # Edits that were taken back since change blocks as much as new ones.
        changed = self._saved[same:] + edits[same:]
        cells = touched_cells(changed, snapshot.grid, self.order, self.arrays[0].chunks)
        self._dirty.add_cells(cells)
        # From now on `_dirty` alone says what of these edits the file lacks.
        self._saved, self._states = edits, (*self._states, edits)
        self._find_rules()
        state = SaveRun(progress, cancel)
        # Errors that were there before are not the fault of this save.
        known = self._metadata_errors()
        try:
            self._save_pass(snapshot, state).write_levels()
        except OSError:
            # Such as a full disk: `_dirty` has the rest for the next save.
            with suppress(OSError):
                # A folder keeps what was written; half an archive would cost a copy.
                if not self.transaction.saves_together:
                    self._commit_save(state)
            raise
        self._commit_save(state, describe)
        self._settle_levels(state)
        # Only now: a journal that says "saved" too early would lose edits after a
        # crash.
        if not self._is_incomplete:
            self._note_saved()
        new = tuple(
            problem for problem in self._metadata_errors() if problem not in known
        )
        # A count for the user: blocks in a transaction are saved when it is committed.
        self._waiting += state.blocks
        state.blocks = 0
        if not self.transaction.uncommitted:
            state.blocks, self._waiting = self._waiting, 0
        return state.make_outcome(new, idle)

    def _find_conflict(self) -> str:
        """State what others did to the labels as a whole; "" where they did nothing."""
        where = f"{self.transaction.root}/{self.arrays[0].path}"
        if self._follow_type():
            now = self.arrays[0].dtype
            return f"{where} was changed by another program: its type is {now} now."
        ids = ", ".join(map(str, self._find_taken()))
        return TAKEN.format(where, ids) if ids else ""

    def _find_taken(self) -> list[int]:
        """Find new labels that others have saved since; they are new no longer then."""
        used, own = self.canvas.used, {0, *(edit.label for edit in self._saved)}
        new = {edit.label for edit in self.unsaved_edits} - own
        new = {x for x in new if used.stored is not None and not used.stored.has(x)}
        # A server would be asked for each chunk.
        if (
            not new
            or self.transaction.source.traits.is_remote
            or not self._reads.list_changed()
        ):
            return []
        array = reopen_array(self.arrays[0], self.transaction.source)
        used.stored = found = StoredLabels.of_arrays([LevelSource(array, keep=False)])
        taken = sorted(x for x in new if found is not None and found.has(x))
        if taken:
            self.reload_changed()
        return taken

    def _note_saved(self) -> None:
        """Let the canvas show the coarser levels as they are in the file now."""
        self._states = (self._saved,)
        if self.journal is not None:
            self.journal.note_saved(self._saved)
        sources = []
        coarser = zip(self.canvas.levels[1:], self.arrays[1:], strict=False)
        for level, _ in coarser:
            array, _ = file_array_of(level.source)
            # Chunks that were decoded before the save are old now.
            array.forget_chunks()
            source = LevelSource(array, on_error_of(level.source))
            sources.append(ArrayWindow(source, self.order))
        self.canvas.show_saved(sources, self._saved)

    def _find_rules(self) -> None:
        """Find out once how the coarser levels were made."""
        if self._rules_found or not self._dirty.pending:
            return
        self._rules_found = True
        if self._register is not None:
            return  # new labels have no coarser levels that could show another rule
        shape, chunk = self.arrays[0].shape, self.arrays[0].chunks
        # Compared near the edits first: those chunks are read by the save in any case.
        near = (box_of(cell, chunk, shape) for cell in self._dirty.pending)
        levels = self._kept_levels().originals
        self._rules = find_rules(levels, self.reductions, near)

    def _metadata_errors(self) -> tuple[Problem, ...]:
        return find_errors(self.transaction.source, self.arrays[0].path)

    def _save_pass(self, snapshot: Snapshot, state: SaveRun) -> SavePass:
        read = self._reads.revisions
        files = LabelFiles(
            self.arrays,
            self.order,
            self._rules,
            self.transaction,
            read,
            self._flush_undo_data,
        )
        shared = self._kept_levels() if self._shared else None
        return SavePass(files, self.before_images, self._dirty, snapshot, state, shared)

    def _flush_undo_data(self) -> None:
        """Wait until everything that restores overwritten blocks is on the disk."""
        # Both before any object gets its name (docs/design/005, "what before what").
        self.before_images.flush_blocks()
        if self.journal is not None:
            self.journal.flush_records()

    def _commit_save(
        self, state: SaveRun, describe: Callable[[], None] | None = None
    ) -> None:
        """Commit what was put, and register new labels once they are complete."""
        register = None if self._dirty else self._register
        together = self.transaction.saves_together
        if together and self._dirty and self._register is not None:
            return  # an archive is not written anew for half a label image
        # Together with the chunks, or else after them: no reader may meet a list that
        # names labels whose chunks are not there.
        if together:
            if register is not None:
                register()
            if describe is not None:
                describe()
        refused = done = False
        try:
            done = self.transaction.commit(state.report_archive)
        except ConflictError as error:
            state.note_refused(error)
            # Some of what was put is dropped, and which blocks that concerns is not
            # known.
            self._dirty.recheck_written(self.before_images)
            refused = True
        state.cancelled |= not (done or refused)
        if register is not None and done and not self._dirty:
            if not together:
                register()
            self._register = None

    def _settle_levels(self, state: SaveRun) -> None:
        """Make again what follows from blocks that others changed during the save.

        So the last one to write a block has seen all that it follows from.
        """
        if not self._dirty:
            # What others change from now on comes after these edits.
            self._states = (self._saved, *self._states)
        run = state
        for _ in range(TRIES):
            self.transaction.refresh()
            self._shared |= run.conflict or self.transaction.found_same
            if run.conflict or self._reads.list_changed(self._dirty.handled):
                self.reload_changed()
            if state.cancelled or self.transaction.uncommitted:
                return
            if not any(self._dirty.stale):
                self._dirty.handled.clear()
                return
            run = SaveRun(None, None)
            again = self._save_pass(self._take_snapshot(self._saved), run)
            # Edits are shown over what others have changed before they are saved.
            again.write_levels(finest=not state.conflict)
            self._commit_save(run)
        if not state.refused:
            state.note_refused(
                conflict_error(self.transaction.root, [self.arrays[0].path])
            )

    def _follow_type(self) -> bool:
        """Take the wider type that another window gave the arrays; True if it did.

        Raises
        ------
        ConflictError, NodeNotFoundError
            Where the arrays were replaced by others, or are gone.
        """
        arrays = open_widened(self.arrays, self.transaction)
        if arrays is None:
            return False
        self.canvas.change_dtype(
            np.promote_types(self.canvas.dtype, arrays[0].dtype.newbyteorder("="))
        )
        self._use_arrays(arrays)
        return True

    def _retype_arrays(self, dtype: np.dtype[Any]) -> None:
        """Give the arrays another type; keep what other programs changed in them."""
        # Else their revisions, and with them what changed, would be forgotten.
        self.reload_changed()
        arrays = list(self.arrays)
        try:
            # Changes the list level by level, so that it is right also after an error.
            retype_arrays(arrays, dtype, self.transaction)
        finally:
            self._use_arrays(arrays)

    def _use_arrays(self, arrays: Sequence[ChunkedArray]) -> None:
        """Write other arrays at the same paths, with the same voxels."""
        self.arrays = tuple(arrays)
        self._reads = ReadLog(self.transaction.source)
        # The arrays are others, so the canvas has to read through new ones.
        self._read_through()
        self.canvas.reread_sources()
        # Another program may have written while they were copied.
        self._take_changes(self.before_images.list_cells(0))

    def count_changed(self) -> int:
        """Count the voxels of level 0 that the edits of the last save have changed."""
        snapshot = self._take_snapshot(self._saved)
        array, count = self.arrays[0], 0
        for cell in self.before_images.list_cells(0):
            box = box_of(cell, array.chunks, array.shape)
            before = self.before_images.get_block(0, cell)
            if before is not None:
                now = snapshot.with_edits(box, before, self.order)
                count += int(np.count_nonzero(now != before))
        return count

    def reload_changed(self) -> bool:
        """Read objects again that others changed; unsaved edits are applied on top.

        Return whether they have changed any.
        """
        read = self._reads.revisions
        changed = self._reads.list_changed()
        if not changed:
            return False
        self._shared = True
        # Asked before blocks are read: what comes later is a conflict.
        read |= changed
        for key in changed:
            if key.startswith(f"{self.arrays[0].path}/"):
                del read[key]
        if not self._dirty.handled.isdisjoint(changed):
            self._dirty.recheck_written(self.before_images)
            self._dirty.handled.clear()
        for number, array in enumerate(self.arrays):
            writer = ArrayWriter(array, self.transaction)
            cells = [
                cell
                for cell in self.before_images.list_cells(number)
                if writer.key_of(cell) in changed
            ]
            if number == 0:
                self._dirty.pending.update(cells)
                self._take_changes(cells)
            else:
                self._kept_levels().rebase(number, cells)
        for level, _ in zip(self.canvas.levels, self.arrays, strict=False):
            file_array_of(level.source)[0].forget_chunks()
        self.canvas.reread_sources()
        return True
