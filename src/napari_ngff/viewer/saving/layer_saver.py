"""Saves one layer of painted labels, and knows what is not saved of it."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from napari_ngff.errors import NameTakenError, OMEZarrError, UnsupportedError
from napari_ngff.labels.label_metadata import (
    read_label_info,
    rebase_label_info,
    write_label_info,
)
from napari_ngff.labels.saving.save_run import ARCHIVE
from napari_ngff.viewer import window_services
from napari_ngff.viewer.layer_plan import KEY, LayerOrigin
from napari_ngff.viewer.saving.save_report import (
    SaveReporter,
    SaveResult,
    report_not_kept,
    reported_journal,
)
from napari_ngff.viewer.saving.signals import OFTEN, SaverSignals

if TYPE_CHECKING:
    from napari_ngff.labels.canvas import Canvas
    from napari_ngff.labels.edits import Edit
    from napari_ngff.labels.journal import Journal
    from napari_ngff.labels.label_writer import LabelWriter
    from napari_ngff.labels.saving.save_run import SaveOutcome
    from napari_ngff.metadata.model import LabelInfo
    from napari_ngff.viewer.saving.layer_description import (
        DescriptionSnapshot,
        LayerDescription,
    )

__all__ = ["Finish", "LayerSaver"]

Finish = Callable[[], None]

UNSAID = (OMEZarrError, OSError, ValueError)
"""What keeps colours and properties out of a file."""

COPY = (
    "{} is a copy of labels, and has no place in a file. Choose File ▸ Save Selected"
    " Layers..., or paint on the layer it was copied from."
)


class SavedLayer(Protocol):
    """A layer of painted labels, as far as its saver knows it."""

    canvas: Canvas
    name: str

    @property
    def metadata(self) -> dict[str, Any]: ...

    def restore_edits(self, edits: Sequence[Edit], drawn: Canvas | None) -> None: ...

    def show_saved(self) -> None: ...

    def refresh(self) -> None: ...


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
        For the controls: what the last save did, or how far this one is; and the rest.
    running
        Whether a save is going on.
    fraction
        How much of it is done, 0 to 1.
    partial
        Whether a save has begun that is not complete: some of it is in the file.
    wanted
        Whether edits that are not saved shall be kept for later when the layer goes.
    description
        Colours and properties; None where they are not saved.
    replaces
        Name of a label image that new labels may replace; "" for none.
    abandon
        Undoes a creation that was not completed.
    """

    def __init__(
        self,
        layer: SavedLayer,
        journal: Journal,
        writer: LabelWriter | None = None,
        create: Callable[[Any], tuple[LabelWriter, Finish]] | None = None,
    ) -> None:
        self._layer = weakref.ref(layer)
        self._create = create
        self._finish: Finish | None = None
        self._said: DescriptionSnapshot | None = None
        self._again = False
        self._cancelled = False
        self._quiet = self._asks = False
        self._released = False
        self._working = threading.Lock()
        self._reporter = SaveReporter()
        self.journal = journal
        self._resolve_waiting(writer)
        self._finalizer = weakref.finalize(layer, self.release_journal)
        self.note = self.detail = ""
        self.running = False
        self.fraction = 0.0
        self.partial = False
        self.wanted = True
        self.description: LayerDescription | None = None
        self.replaces = ""
        self.abandon: Finish | None = None
        self._dirty = False
        self._told_at = 0.0

    def _resolve_waiting(self, writer: LabelWriter | None) -> None:
        self.writer = writer
        if writer is not None:
            writer.journal = self.journal

    @property
    def is_copy(self) -> bool:
        """Whether the layer is a copy of labels, which has no place in a file."""
        return self.writer is None and self._create is None

    def has_unsaved(self, layer: SavedLayer) -> bool:
        """Whether the file is not what the layer shows, colours included."""
        self.journal.canvas = layer.canvas
        # Of new labels, classes and colours alone are nothing to save.
        there = self.writer is not None or bool(layer.canvas.log.end)
        said = there and self.description is not None and self.description.is_changed
        return said or self._is_incomplete()

    def watch_description(self, description: LayerDescription) -> None:
        """Save colours and properties, too."""
        self.description = description
        description.changed_turned.connect(self.check_dirty)

    def check_dirty(self) -> None:
        """Emit `dirty_changed` if it has; called after each change of the layer."""
        layer = self._layer()
        dirty = layer is not None and not self._released and self.has_unsaved(layer)
        if dirty != self._dirty:
            self._dirty = dirty
            self.dirty_changed.emit(dirty)

    def _is_incomplete(self) -> bool:
        canvas = self.journal.canvas
        if self.writer is None:
            return bool(canvas.log.end)
        self.writer.canvas = canvas
        return self.writer.has_unsaved or self._finish is not None

    # What a crash has left.

    def take_over(self, journal: Journal, drawn: Canvas | None = None) -> None:
        """Make the edits of a journal those of the layer, not saved yet.

        Parameters
        ----------
        drawn
            The same edits, rasterised in a worker; see `Canvas.copy_with`.

        Raises
        ------
        UnsupportedError
            Where the layer has edits of its own, or shows something else by now. The
            journal is left as it was.
        """
        layer = self._layer()
        if layer is None or layer.canvas is not journal.canvas or layer.canvas.log.end:
            journal.close()
            name = "The layer" if layer is None else layer.name
            msg = f"{name} has edits already."
            raise UnsupportedError(msg, remedy="Save or undo them first.")
        mine, self.journal = self.journal, journal
        mine.remove()
        if self.writer is not None:
            self._resolve_waiting(self.writer.with_before_images(journal.before_images))
        layer.restore_edits(journal.content.edits, drawn)
        if self.writer is not None:
            self.writer.adopt_journal(journal.content)

    def keep_at(self, store: str, path: str, name: str) -> None:
        """Journal the edits for another place than was thought."""
        older = self.journal
        self.journal = reported_journal(
            store, path, older.canvas, subject=replace(older.subject, name=name)
        )
        if self.journal.sync_if_changed():
            older.remove()

    # What becomes of the edits when the layer goes.

    def can_keep(self) -> bool:
        """Write the edits into the journal; return whether it has them, or show why."""
        if self.journal.sync_if_changed():
            return True
        layer = self._layer()
        report_not_kept("" if layer is None else layer.name, self.journal.trouble)
        return False

    def keep_journal(self) -> None:
        """Leave the edits in the journal, to be recovered, and do nothing more."""
        self._stop_following()

    def discard_edits(self) -> None:
        """Forget the edits: nobody wants to recover them."""
        self.wanted = False
        self._stop_following()

    def _stop_following(self) -> None:
        self.cancel()
        with self._working:  # until the blocks at hand are written
            self.release_journal()

    def release_journal(self) -> None:
        """Let go of the journal, as the layer is gone; what lacks can be recovered."""
        if self._released:
            return
        self._released = True
        self._finalizer.detach()
        if self._is_incomplete() and self.wanted:
            self.journal.close()
        else:
            self.journal.remove()
        if self._finish is not None and self.abandon is not None:
            self.abandon()

    # Saving.

    def save(self, *, quiet: bool = False) -> None:
        """Save in a worker, and tell the user; what is painted meanwhile next time.

        Parameters
        ----------
        quiet
            Whether nobody asked for it: then nothing is asked, and only what went
            wrong is told, once.
        """
        if self.running:
            self._again |= not quiet
            return
        said = self._begin_save(quiet, asks=not quiet)
        window_services.watch_save(self)
        window_services.run_work(lambda: self._run_save(said), self._finish_save)

    def save_now(self) -> bool:
        """Save in this thread; tell whether nothing is unsaved any more."""
        layer = self._layer()
        self._finish_save(self._run_save(self._begin_save()))
        return layer is None or not self.has_unsaved(layer)

    def cancel(self) -> None:
        """Stop a save; the next one goes on from there."""
        self._again = False
        self._cancelled = True

    def _begin_save(
        self, quiet: bool = False, asks: bool = False
    ) -> DescriptionSnapshot | None:
        self.running = True
        self._cancelled = False
        self._quiet, self._asks = quiet, asks
        self.fraction = self._told_at = 0.0
        self.note, self.detail = "Saving 0 %", ""
        self.progressed.emit(0.0)
        return None if self.description is None else self.description.take_snapshot()

    def _run_save(self, said: DescriptionSnapshot | None) -> SaveResult | None:
        layer = self._layer()
        if layer is None:
            return None
        with self._working:
            if self._released:
                return None  # the layer may show other labels by now
            self._said = said
            try:
                outcome = self._save_layer(layer)
            # Whatever it is, the user must hear that it was not saved.
            except Exception as error:  # noqa: BLE001
                return SaveResult(error=error)
            assert self.writer is not None
            if outcome.cancelled or self.writer.transaction.uncommitted:
                return SaveResult(outcome)
            return self._write_description(layer, outcome)

    def _save_layer(self, layer: SavedLayer) -> SaveOutcome:
        if self.writer is None:
            self._resolve_waiting(self._create_labels(layer))
        assert self.writer is not None
        self.partial = True
        self.writer.follow_canvas(layer.canvas)
        outcome = self.writer.save(
            self._report_progress,
            lambda: self._cancelled,
            partial(self._put_description, layer),
        )
        if self._finish is not None and not (outcome.cancelled or outcome.refused):
            self._finish()
            self._finish = None
        self.partial = outcome.cancelled or bool(outcome.refused)
        return outcome

    @property
    def info_to_write(self) -> LabelInfo | None:
        """Colours and properties that this save is to write; None for none."""
        if self.description is None or self._said is None:
            return None
        return self._said.join_with(self.description.info)

    def _put_description(self, layer: SavedLayer) -> None:
        """Let colours and properties go into an archive with the voxels.

        What cannot be written is told by `_say`, and keeps no voxel from being saved.
        """
        with suppress(*UNSAID):
            self._describe_labels(layer)

    def _write_description(self, layer: SavedLayer, outcome: SaveOutcome) -> SaveResult:
        """Write colours and properties, where there are others than in the file."""
        assert self.writer is not None
        try:
            info = self._describe_labels(layer)
            self.writer.transaction.commit()
        except UNSAID as error:
            return SaveResult(outcome, unsaid=error)
        before = None if self.description is None else self.description.info
        return SaveResult(outcome, info=info, before=before)

    def _describe_labels(self, layer: SavedLayer) -> LabelInfo | None:
        """Put them where they belong; return them where there is such a place."""
        origin, info = layer.metadata.get(KEY), self.info_to_write
        # Without an origin the labels are new, and not registered yet.
        if info is None or not isinstance(origin, LayerOrigin):
            return None
        assert self.description is not None
        before = self.description.info
        if info != before:
            assert self.writer is not None
            new = rebase_label_info(info, before, read_label_info(origin.node))
            write_label_info(origin.node, new, self.writer.transaction)
        return info

    def _create_labels(self, layer: SavedLayer) -> LabelWriter:
        if self._create is None:
            raise UnsupportedError(COPY.format(layer.name))
        writer, self._finish = self._create(layer)
        return writer

    def _report_progress(self, level: int, done: int, total: int) -> None:
        """Tell how far a save is: the levels take as long as they are large."""
        self.fraction = done / max(total, 1)
        if level != ARCHIVE and self.writer is not None:
            sizes = [float(np.prod(array.shape)) for array in self.writer.arrays]
            before, own = sum(sizes[:level]), sizes[level]
            self.fraction = (before + own * self.fraction) / max(sum(sizes), 1)
        self.note = f"Saving {self.fraction:.0%}".replace("%", " %")
        now = time.monotonic()
        if now - self._told_at >= 1 / OFTEN:
            self._told_at = now
            window_services.run_in_main(lambda: self.progressed.emit(self.fraction))

    def _finish_save(self, result: SaveResult | None) -> None:
        layer = self._layer()
        if layer is None or result is None:
            self.running = False
            self.failed.emit(None)
            return
        self._take_note(layer, result)
        chosen = None
        if isinstance(result.error, NameTakenError) and self._asks:
            chosen = window_services.name_taken(layer, result.error)
        again, self._again, self.running = self._again, False, False
        if chosen is None:
            note = self._reporter.report_save(layer.name, result, quiet=self._quiet)
            self.note, self.detail = note.text, note.detail
        else:
            self.note = self.detail = ""
            again = bool(chosen)
            self.replaces = chosen
            layer.name = chosen or layer.name
        if again:
            self.save()
        self.check_dirty()
        if not chosen:
            (self.saved if result.is_complete else self.failed).emit(result)

    def _take_note(self, layer: SavedLayer, result: SaveResult) -> None:
        """Let the layer know what is in the file now."""
        if result.info is not None and self.description is not None:
            self.description.note_saved(result.info)
            origin = layer.metadata[KEY]
            if origin.picture is not None:
                picture = replace(origin.picture, label=result.info)
                layer.metadata[KEY] = replace(origin, picture=picture)
        if result.outcome is not None and result.outcome.refused:
            layer.refresh()
        elif result.outcome is not None and not result.outcome.cancelled:
            layer.show_saved()
