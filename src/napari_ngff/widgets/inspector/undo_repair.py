"""Takes the last repair back, as long as what it replaced is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.compat import isalive
from qtpy.QtCore import Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import QPushButton, QWidget

from napari_ngff.errors import OMEZarrError
from napari_ngff.viewer.frontend import run
from napari_ngff.viewer.inspection import undo

if TYPE_CHECKING:
    from napari_ngff.viewer.inspection import Entry

__all__ = ["UndoRepair"]


class UndoRepair(QPushButton):
    """A button that is there only while there is something to put back."""

    undone = Signal()
    """Emitted when all is as it was."""

    failed = Signal(str)
    """Emitted with the reason."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("&Undo repair", parent)
        self._entry: Entry | None = None
        self._kept: tuple[str, ...] = ()
        self.clicked.connect(self._on_clicked)
        self.hide()

    def offer(self, entry: Entry, kept: tuple[str, ...]) -> None:
        """Offer to put back what a repair of a place replaced; () for nothing."""
        self._entry, self._kept = entry, kept
        self.setToolTip("\n".join(("Puts these back:", *kept)))
        self.setVisible(bool(kept))

    def _on_clicked(self) -> None:
        entry, kept = self._entry, self._kept
        if entry is None:
            return
        self.hide()

        def work() -> str:
            try:
                undo(entry, kept)
            except (OMEZarrError, OSError) as error:
                return str(error)
            return ""

        run(work, self._on_done)

    def _on_done(self, error: str) -> None:
        if isalive(self):  # type: ignore[no-untyped-call]
            if error:
                self.failed.emit(f"Not undone. {error}")
            else:
                self.undone.emit()
