"""Saves one layer of painted labels, and tracks what of it is not saved."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import NameTakenError, UnsupportedError
from napari_ngff.labels.journal import Journal, release_later, replace_journal
from napari_ngff.labels.saving.save_run import ARCHIVE, SaveOutcome, count_common
from napari_ngff.viewer.layers.label_owners import first_saved, is_first_save
from napari_ngff.viewer.plans.layer_plan import KEY, origin_of
from napari_ngff.viewer.saving.left_labels import keep_left
from napari_ngff.viewer.saving.running_save import (
    BRIEFLY,
    COPY,
    RELEASED,
    REOPEN,
    JournalUse,
    RunningSave,
    part_done,
)
from napari_ngff.viewer.saving.save_report import (
    SaveReporter,
    SaveResult,
    SaverSignals,
    report_not_kept,
    reported_journal,
)
from napari_ngff.viewer.services.window import Window, attempt_work, going_on

if TYPE_CHECKING:
    from napari_ngff.labels.canvas import Canvas
    from napari_ngff.labels.edits import Edit
    from napari_ngff.labels.label_writer import LabelWriter
    from napari_ngff.metadata.model import LabelInfo
    from napari_ngff.viewer.saving.layer_description import LayerDescription

Finish = Callable[[], None]


class LayerSaver(SaverSignals):
    """Saves one layer; not twice at the same time.

    Parameters
    ----------
    layer
        Painted labels.
    journal
        Of its canvas.
    writer
        Of its canvas; None where there is nothing to save into yet.
    create
        Makes that writer, and what is to be called when the first save is complete.

    Attributes
    ----------
    note, detail
        Text for the controls: result of the last save, or progress of this one; and
        for the tool tip.
    fraction
        Part of the save that is done, 0 to 1.
    partial
        Whether a save has begun that is not complete: some of it is in the file.
    wanted
        Whether the journal keeps unsaved edits when the layer is removed.
    is_released
        Whether it was decided what happens to the edits.
    description
        Colours and properties; None where they are not saved.
    is_restored
        Whether the layer has restored edits that no save has written yet.
    replaces
        Name of a label image that new labels may replace; "" for none.
    abandon
        Undoes a creation that was not completed.
    """

    def __init__(
        self,
        layer: Any,
        journal: Journal,
        writer: LabelWriter | None = None,
        create: Callable[[Any], tuple[LabelWriter, Finish]] | None = None,
    ) -> None:
        # Weak: the layer holds its saver, and its removal has to close the journal.
        self._layer = weakref.ref(layer)
        self._create = create
        self._finish: Finish | None = None
        self._current: RunningSave | None = None
        self.is_released = False
        self._use = JournalUse()
        self._reporter = SaveReporter()
        self.journal = journal
        self._resolve_waiting(writer)
        # For layers that are dropped without being removed from a viewer, as scripts
        # do: Python may collect them anywhere, even where this journal is written.
        self._finalizer = weakref.finalize(layer, release_later, self.release_journal)
        self.note = self.detail = ""
        self.fraction = 0.0
        self.partial = False
        self.wanted = True
        self.is_restored = False
        self.description: LayerDescription | None = None
        self.replaces = ""
        self.abandon: Finish | None = None
        self._dirty = False
        self._copied: tuple[Edit, ...] | None = None

    def _resolve_waiting(self, writer: LabelWriter | None) -> None:
        self.writer = writer
        if writer is not None:
            writer.journal = self.journal

    @property
    def running(self) -> bool:
        """Return whether a save runs."""
        return self._current is not None

    @property
    def is_copy(self) -> bool:
        """Return whether the layer is a copy of labels, without a place in a file."""
        return self.writer is None and self._create is None

    @property
    def is_unpainted(self) -> bool:
        """Return whether these are new labels without a stroke, in no file yet."""
        is_new = self.writer is None and not self.is_copy
        return is_new and not self.journal.canvas.log.end

    def has_unsaved(self, layer: Any) -> bool:
        """Return whether the file differs from what the layer shows, with colours."""
        # The layer may have got another canvas, by a wider type or a new field.
        self.journal.canvas = layer.canvas
        if self._is_incomplete() or self.journal.classes.unsaved:
            return True
        # Of new labels, colours alone are nothing to save.
        description = self.description
        has_file = self.writer is not None
        return has_file and description is not None and description.is_changed

    @property
    def has_unsaved_strokes(self) -> bool:
        """Return whether the file lacks what the layer shows, apart from colours."""
        layer = self._layer()
        if layer is None:
            return False
        self.journal.canvas = layer.canvas
        return self._is_incomplete()

    def watch_description(self, description: LayerDescription) -> None:
        """Save colours and properties, too."""
        self.description = description
        description.changed_turned.connect(self.check_dirty)

    def check_dirty(self) -> None:
        """Emit `dirty_changed` if it has; called after each change of the layer."""
        layer = self._layer()
        dirty = layer is not None and not self.is_released and self.has_unsaved(layer)
        if dirty != self._dirty:
            self._dirty = dirty
            self.dirty_changed.emit(dirty)

    def note_copied(self, edits: tuple[Edit, ...]) -> None:
        """Count labels without a file as saved, while they are as a copy has them.

        Parameters
        ----------
        edits
            Those of the canvas, when *Save as…* wrote it.
        """
        self._copied = edits
        classes = self.journal.classes
        self.journal.classes = replace(classes, unsaved=False)
        note = self._reporter.report_copy()
        self.note, self.detail = note.text, note.detail
        self.check_dirty()
        self.saved.emit(SaveResult(SaveOutcome(idle=True)))

    def _is_incomplete(self) -> bool:
        canvas = self.journal.canvas
        if self.writer is None:
            edits, copied = canvas.edits, self._copied or ()
            # By identity: masks are not compared.
            return not len(edits) == len(copied) == count_common(edits, copied)
        self.writer.canvas = canvas
        return self.writer.has_unsaved or self._finish is not None

    # What a crash has left.

    def take_over(self, journal: Journal, drawn: Canvas | None = None) -> None:
        """Add the edits of a kept journal to the layer, as unsaved edits.

        Parameters
        ----------
        drawn
            The same edits, rasterised in a worker; see `Canvas.copy_with`.

        Raises
        ------
        UnsupportedError
            Where the layer has edits of its own and the kept ones need the original
            blocks, or where it shows something else. The journal is left as it was.
        """
        layer, content = self._layer(), journal.content
        # Also a saved stroke that was undone: it would come back with the file.
        has_edits = layer is not None and (
            layer.canvas.log.end > 0 or self._is_incomplete()
        )
        if (
            layer is None
            or layer.canvas is not journal.canvas
            or (has_edits and content.needs_originals)
        ):
            journal.close()
            name = "The layer" if layer is None else layer.name
            msg = f"{name} has edits already."
            raise UnsupportedError(msg, remedy="Save or undo them first.")
        self.is_restored = True
        # They go over the file as it is now, and over what was painted since.
        if has_edits or (content.saved and not content.needs_originals):
            layer.restore_edits(content.edits_to_restore, drawn, 0)
            # Classes of before the crash are restored later; those made since stay.
            if journal.classes.text:
                self.journal.classes = journal.classes
            change = partial(replace_journal, journal, self.journal)
            Window.current.run_work(change, lambda _: None)
            return
        # The kept journal goes on as that of the layer; the layer's own is empty.
        empty, self.journal = self.journal, journal
        if not journal.classes.text:
            journal.classes = empty.classes
        empty.remove()
        if self.writer is not None:
            self._resolve_waiting(self.writer.with_before_images(journal.before_images))
        # Saved edits are among these for the blocks' sake: undo ends before them, as it
        # does where the file alone has them.
        lasting = max(content.saved_count, content.lasting)
        try:
            layer.restore_edits(content.edits, drawn, lasting)
        except BaseException:
            self.is_released = True  # a layer without its edits would delete it
            journal.close()
            raise
        journal.note_restored()
        if self.writer is not None:
            self.writer.adopt_journal(content)
            layer.refresh()

    def keep_at(self, store: str, path: str, name: str) -> None:
        """Move the edits into a journal for another label image.

        For new labels that are saved under another name than planned.
        """
        older = self.journal
        self.journal = reported_journal(
            store, path, older.canvas, subject=replace(older.subject, name=name)
        )
        self.journal.classes = older.classes
        replace_journal(older, self.journal)

    # What happens to the edits when the layer is removed.

    def can_keep(self) -> bool:
        """Write the edits into the journal; return whether it has them, or show why."""
        if self.journal.sync_if_changed():
            return True
        layer = self._layer()
        report_not_kept("" if layer is None else layer.name, self.journal.trouble)
        return False

    def leave_field(self) -> bool:
        """Let what was saved be undone after a return; False if there is no such edit.

        Nothing has changed then. Else another saver may go on with the edits.
        """
        with self._use.begin(BRIEFLY) as is_free:
            writer, edits = self.writer, self.journal.canvas.log.edits
            if not is_free or self.is_released or not edits or writer is None:
                return False
            # After a return others' changes are looked for, which takes a server long.
            if self._lacks_edits or writer.transaction.source.traits.is_remote:
                return False
            self.is_released = True
            self._finalizer.detach()
            keep_left(writer, self.journal)
            return True

    def follow_file(self) -> None:
        """Show what others have changed since the labels were left, in a worker."""

        def reload() -> bool:
            with self._use.begin():
                return not self.is_released and bool(
                    self.writer and self.writer.reload_changed()
                )

        def show(has_changed: bool | str) -> None:
            layer = self._layer()
            if layer is not None and has_changed and not self.is_released:
                layer.refresh()
                self.check_dirty()

        Window.current.run_work(partial(attempt_work, reload), show)

    def keep_journal(self) -> None:
        """Stop using the journal; its edits stay in it and can be recovered.

        Without unsaved edits it is deleted. Nobody waits for a save that runs, nor for
        a server: workers do the rest.
        """
        self.cancel()
        if not self.is_released:
            self.is_released = True
            self._finalizer.detach()
            self._use.end_by(self._close_journal)
            abandon = partial(self._use.end_by, self._abandon_labels)
            Window.current.run_work(abandon, lambda _: None)

    def wait_until_kept(self, seconds: float) -> None:
        """Wait, in a worker, until a save that was stopped has closed the journal."""
        with self._use.begin(seconds):
            pass

    @property
    def _lacks_edits(self) -> bool:
        """Return whether anything is missing in the file, apart from other colours."""
        return self._is_incomplete() or self.journal.classes.unsaved

    def release_journal(self) -> None:
        """Close the journal of a layer that is gone: no save runs, which holds it."""
        if not self.is_released:
            self.is_released = True
            self._close_journal()
            self._abandon_labels()

    def _close_journal(self) -> None:
        # Kept if anything is missing in the file: a journal without need would be
        # offered for recovery.
        if self._lacks_edits and self.wanted:
            self.journal.close()
        else:
            self.journal.remove()

    def _abandon_labels(self) -> None:
        if self._finish is not None and self.abandon is not None:
            self.abandon()

    # Saving.

    def save(self, *, quiet: bool = False) -> None:
        """Save in a worker; strokes that are painted meanwhile are saved next time.

        New labels without a stroke and without a change of classes are not written;
        `save_now` writes them.

        Parameters
        ----------
        quiet
            True for a save that the user did not ask for: then nothing is asked, and a
            failure is shown only once.
        """
        if self._current is not None:
            # After this one: a second save at the same time would read what it writes.
            self._current.again |= not quiet
            return
        run = self._current = RunningSave(quiet, asks=not quiet)
        with going_on():
            Window.current.watch_save(self)
        self._start_save(run, in_worker=True)

    def save_now(self) -> bool:
        """Save in this thread; return whether everything is saved."""
        layer, run = self._layer(), RunningSave()
        self._current = run
        self._start_save(run, in_worker=False)
        return layer is None or not self.has_unsaved(layer)

    def cancel(self) -> None:
        """Stop a save; the next one continues from there."""
        if self._current is not None:
            # A save that was asked for during this one is cancelled with it.
            self._current.again = False
            self._current.cancelled = True

    def _start_save(self, run: RunningSave, *, in_worker: bool) -> None:
        """Start a save; whatever fails, it ends with one of `saved` and `failed`."""
        work, finish = partial(self._run_save, run), partial(self._finish_save, run)

        def fail(error: Exception) -> None:
            finish(SaveResult(error=error))

        try:
            layer = self._layer()
            # Labels without a file may need none.
            may_idle = in_worker and (self.is_unpainted or self._copied is not None)
            if may_idle and layer is not None and not self.has_unsaved(layer):
                finish(SaveResult(SaveOutcome(idle=True)))
                return
            if self.is_released:
                raise UnsupportedError(RELEASED, remedy=REOPEN)
            run.counts_voxels = layer is not None and is_first_save(layer)
            self.fraction = 0.0
            self.note, self.detail = "Saving 0 %", ""
            self.progressed.emit(0.0)
            if self.description is not None:
                # In the main thread, since it reads the layer.
                run.described = self.description.take_snapshot()
            if in_worker:
                Window.current.run_work(work, finish, fail)
            else:
                finish(work())
        except Exception as error:  # noqa: BLE001
            fail(error)

    # In a worker, from here to `_report_progress`.
    def _run_save(self, run: RunningSave) -> SaveResult | None:
        layer = self._layer()
        if layer is None:
            return None
        with self._use.begin():  # the journal is not closed under a save
            if self.is_released:
                return None  # the layer may show other labels by now
            try:
                outcome = self._save_layer(layer, run)
            # Whatever it is, the user must hear that it was not saved.
            except Exception as error:  # noqa: BLE001
                return SaveResult(error=error)
            assert self.writer is not None
            # Colours follow with the rest, by the save that completes this one.
            if outcome.cancelled or self.writer.transaction.uncommitted:
                return SaveResult(outcome)
            result = self._write_description(layer, outcome, run)
            if run.counts_voxels:
                with going_on():
                    result = replace(result, changed=self.writer.count_changed())
            return result

    def _save_layer(self, layer: Any, run: RunningSave) -> SaveOutcome:
        if self.writer is None:
            if self._create is None:
                raise UnsupportedError(COPY.format(layer.name))
            writer, self._finish = self._create(layer)
            self._resolve_waiting(writer)
        assert self.writer is not None
        self.partial = True
        self.writer.follow_canvas(layer.canvas)
        outcome = self.writer.save(
            self._report_progress,
            lambda: run.cancelled,
            partial(self._put_description, layer),
        )
        # Only now new labels are put into the list: readers must not find half of them.
        if self._finish is not None and not (outcome.cancelled or outcome.refused):
            self._finish()
            self._finish = None
        self.partial = outcome.cancelled or bool(outcome.refused)
        return outcome

    @property
    def info_to_write(self) -> LabelInfo | None:
        """Colours and properties that this save is to write; None for none."""
        run = self._current
        if self.description is None or run is None or run.described is None:
            return None
        return run.described.join_with(self.description.info)

    def _put_description(self, layer: Any) -> None:
        """Put colours and properties into the transaction of the voxels.

        An error is reported by `_write_description`; the voxels are saved anyway.
        """
        with suppress(Exception):
            self._describe_labels(layer)

    def _write_description(
        self, layer: Any, outcome: SaveOutcome, run: RunningSave
    ) -> SaveResult:
        """Write colours and properties, if they differ from those in the file."""
        assert self.writer is not None
        try:
            info = self._describe_labels(layer)
            self.writer.transaction.commit()
        except Exception as error:  # noqa: BLE001  the voxels are saved
            return SaveResult(outcome, unsaid=error)
        before = None if self.description is None else self.description.info
        changed = self.description is not None and self.description.is_changed
        left = run.described.unsaved_features if run.described and changed else ()
        return SaveResult(outcome, info=info, before=before, left_out=left)

    def _describe_labels(self, layer: Any) -> LabelInfo | None:
        """Put colours and properties into the transaction; None where there is none."""
        origin, info, run = origin_of(layer), self.info_to_write, self._current
        # Without an origin the labels are new, and not registered yet.
        if info is None or origin is None or run is None:
            return None
        assert self.description is not None
        before = self.description.info
        if info == before:
            return info
        assert self.writer is not None
        return run.put_info(info, before, origin.node, self.writer.transaction)

    def _report_progress(self, level: int, done: int, total: int) -> None:
        """Compute and emit the progress."""
        self.fraction = done / max(total, 1)
        if level != ARCHIVE and self.writer is not None:
            self.fraction = part_done(self.writer, level, self.fraction)
        self.note = f"Saving {self.fraction:.0%}".replace("%", " %")
        if self._current is not None and self._current.is_report_due():
            # Listeners may be widgets, which only the main thread may touch.
            Window.current.run_in_main(lambda: self.progressed.emit(self.fraction))

    def _finish_save(self, run: RunningSave, result: SaveResult | None) -> None:
        """End a save, whatever fails meanwhile: only then the next one can begin."""
        if run.ended:
            return
        run.ended, layer, chosen = True, self._layer(), None
        if layer is not None and result is not None:
            with going_on():
                self._take_note(layer, result, run)
            self.is_restored &= not result.is_complete
            with going_on():
                chosen = self._ask_name(layer, result, run)
        if self._current is run:
            self._current = None
        self.note = self.detail = ""
        if layer is None or result is None:
            self.failed.emit(None)
            return
        if chosen is None:
            with going_on():
                note = self._reporter.report_save(layer.name, result, quiet=run.quiet)
                self.note, self.detail = note.text, note.detail
        # What was refused is looked at first, and a failure is told once.
        again = chosen is None and run.again and result.is_complete
        with going_on():
            if chosen or (again and self.has_unsaved(layer)):
                self.save()
        with going_on():
            self.check_dirty()
        if result.changed:
            first_saved.emit(layer, result.changed)
        if not chosen:
            (self.saved if result.is_complete else self.failed).emit(result)

    def _ask_name(self, layer: Any, result: SaveResult, run: RunningSave) -> str | None:
        """Ask for a name if it is taken; None if nobody can be asked, "" for none."""
        if not (isinstance(result.error, NameTakenError) and run.asks):
            return None
        chosen = Window.current.name_taken(layer, result.error)
        if chosen is not None:
            self.replaces = chosen
            with going_on():  # which other plugins may listen to
                layer.name = chosen or layer.name
        return chosen

    def _take_note(self, layer: Any, result: SaveResult, run: RunningSave) -> None:
        """Update description and display of the layer to what is in the file now."""
        if result.info is not None and self.description is not None:
            if run.conflicts:
                self.description.classes_conflicted.emit(run.conflicts)
            self.description.note_saved(result.info, run.described)
            if not self.description.is_changed:
                classes = replace(self.journal.classes, unsaved=False)
                self.journal.classes = classes
            origin = layer.metadata[KEY]
            if origin.picture is not None:
                picture = replace(origin.picture, label=result.info)
                layer.metadata[KEY] = replace(origin, picture=picture)
        if result.outcome is not None and result.outcome.refused:
            # Blocks that another program changed were read again: show them.
            layer.refresh()
        elif result.outcome is not None and not result.outcome.cancelled:
            layer.show_saved()
