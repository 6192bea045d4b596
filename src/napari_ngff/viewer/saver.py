"""Saves one layer of painted labels, and knows what is not saved of it."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from napari.utils.notifications import show_error, show_info, show_warning

from napari_ngff.errors import OMEZarrError, UnsupportedError
from napari_ngff.labels.journal import Journal, find_journals, read_journal
from napari_ngff.viewer import session

if TYPE_CHECKING:
    from pathlib import Path

    from napari_ngff.labels.progress import Outcome
    from napari_ngff.labels.writer import LabelWriter
    from napari_ngff.viewer.paint import OMEZarrLabels

__all__ = ["Finish", "LayerSaver"]

Finish = Callable[[], None]

COPY = (
    "{} is a copy of labels, and has no place in a file. Choose File ▸ Save Selected"
    " Layers..., or paint on the layer it was copied from."
)


class LayerSaver:
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
    note
        For the status: what the last save did, or how far this one is.
    running
        Whether a save is going on.
    """

    def __init__(
        self,
        layer: OMEZarrLabels,
        journal: Journal,
        writer: LabelWriter | None = None,
        create: Callable[[OMEZarrLabels], tuple[LabelWriter, Finish]] | None = None,
    ) -> None:
        self._layer = weakref.ref(layer)
        self._create = create
        self._finish: Finish | None = None
        self._again = False
        self._cancelled = False
        self.journal = journal
        self._settle(writer)
        weakref.finalize(layer, self.release)
        self.note = ""
        self.running = False

    def _settle(self, writer: LabelWriter | None) -> None:
        self.writer = writer
        if writer is not None:
            writer.journal = self.journal

    def unsaved(self, layer: OMEZarrLabels) -> bool:
        """Whether the file is not what the layer shows."""
        self.journal.canvas = layer.canvas
        return self._lacks()

    def _lacks(self) -> bool:
        canvas = self.journal.canvas
        if self.writer is None:
            return bool(canvas.log.end)
        self.writer.canvas = canvas
        return self.writer.unsaved or self._finish is not None

    # What a crash has left.

    def found(self) -> list[Path]:
        """List journals of these labels that a crash has left."""
        found = find_journals(*self.journal.place)
        shape = self.journal.canvas.shape
        # Others are of labels on other axes, or of another level.
        return [one for one in found if read_journal(one).shape == shape]

    def recover(self, folder: Path) -> None:
        """Take a journal over: its edits are those of the layer, not saved yet.

        Raises
        ------
        UnsupportedError
            Where the layer has edits of its own.
        OSError
            Where another window has taken it over, or it cannot be read.
        """
        layer = self._layer()
        if layer is None:
            return
        canvas = layer.canvas
        if canvas.log.end:
            msg = f"{layer.name} has edits already. Save or undo them first."
            raise UnsupportedError(msg)
        mine = self.journal
        self.journal = Journal(*mine.place, canvas, folder)
        mine.remove()
        found = self.journal.recovered
        if self.writer is not None:
            self._settle(self.writer.over(self.journal.retained))
        for edit in found.edits:
            layer._validate_label_in_range(edit.label)
            with layer.block_history():
                layer._add_edit(edit)
        if self.writer is not None:
            self.writer.adopt(found.saved, found.saving)
        layer.refresh()

    def keep_at(self, store: str, path: str) -> None:
        """Journal the edits for another place than was thought."""
        older = self.journal
        self.journal = Journal(store, path, older.canvas)
        self.journal.sync()
        older.remove()

    def discard(self) -> None:
        """Forget the edits: nobody wants to recover them."""
        self.journal.remove()

    def release(self) -> None:
        """Let go of the journal, as the layer is gone; what lacks can be recovered."""
        if self._lacks():
            self.journal.close()
        else:
            self.journal.remove()

    # Saving.

    def save(self) -> None:
        """Save in a worker, and tell the user; what is painted meanwhile next time."""
        if self.running:
            self._again = True
            return
        self.running = True
        session.run(self._work, self._done)

    def save_now(self) -> bool:
        """Save in this thread; tell whether nothing is unsaved any more."""
        layer = self._layer()
        while self.running:  # in a worker
            time.sleep(0.01)
        self.running = True
        self._done(self._work())
        return layer is None or not self.unsaved(layer)

    def cancel(self) -> None:
        """Stop a save; the next one goes on from there."""
        self._cancelled = True

    def _work(self) -> Outcome | Exception | None:
        layer = self._layer()
        if layer is None:
            return None
        self._cancelled = False
        self.note = "saving"
        try:
            if self.writer is None:
                self._settle(self._created(layer))
            assert self.writer is not None
            self.writer.follow(layer.canvas)
            outcome = self.writer.save(self._progress, lambda: self._cancelled)
            if self._finish is not None and not outcome.cancelled:
                self._finish()
                self._finish = None
            return outcome
        except (OMEZarrError, OSError, ValueError) as error:
            return error
        finally:
            self.running = False

    def _created(self, layer: OMEZarrLabels) -> LabelWriter:
        if self._create is None:
            raise UnsupportedError(COPY.format(layer.name))
        writer, self._finish = self._create(layer)
        return writer

    def _progress(self, level: int, done: int, total: int) -> None:
        self.note = f"saving level {level}: {done} of {total} blocks"

    def _done(self, result: Outcome | Exception | None) -> None:
        layer = self._layer()
        if layer is None or result is None:
            return
        now = time.strftime("%H:%M")
        if isinstance(result, Exception):
            self.note = f"not saved {now}"
            taken = isinstance(result, FileExistsError)
            hint = " Rename the layer, and save again." if taken else ""
            show_error(f"{layer.name} was not saved: {result}{hint}")
        elif result.refused:
            count = len(result.refused)
            self.note = f"saved {now} - all but {count} blocks"
            more = "\n".join(result.refused[:5])
            show_warning(
                f"{layer.name}: {count} blocks were not saved, all others were. Their"
                f" edits are kept; save again when the cause is mended.\n{more}"
            )
            layer.refresh()
        else:
            word = "cancelled" if result.cancelled else "saved"
            self.note = f"{word} {now} - {result.blocks} blocks"
            show_info(f"{layer.name}: {self.note}")
        if self._again:
            self._again = False
            self.save()
