"""Parts of the inspector: facts, the metadata as JSON, undoing a repair."""

from __future__ import annotations

from functools import partial
from html import escape
from typing import TYPE_CHECKING

from qtpy.compat import isalive
from qtpy.QtCore import Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import QPushButton, QTextBrowser, QWidget
from superqt import QSearchableTreeWidget

from napari_ngff.viewer.inspection import shorten_document, undo_repair
from napari_ngff.viewer.window_services import attempt_work, run_work

if TYPE_CHECKING:
    from qtpy.QtGui import QShowEvent

    from napari_ngff.metadata.model import JSON
    from napari_ngff.viewer.inspection import PlaceDetails, TreeEntry

__all__ = ["FactPage", "JsonPage", "UndoRepair"]


class FactPage(QTextBrowser):
    """Text that cannot be changed."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Facts")

    def setDetails(self, details: PlaceDetails) -> None:
        """Show another place."""
        rows = "".join(
            f"<tr><td><b>{escape(name)}</b>&nbsp;&nbsp;</td>"
            f"<td>{escape(value)}</td></tr>"
            for name, value in details.facts
        )
        text = f"<p>{escape(details.path)}</p><table>{rows}</table>"
        if details.transformations:
            steps = "".join(f"<li>{escape(s)}</li>" for s in details.transformations)
            text += f"<p><b>Transformations</b></p><ul>{steps}</ul>"
        self.setHtml(text)


class JsonPage(QSearchableTreeWidget):
    """A tree of keys and values; it is made once somebody looks at it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)  # type: ignore[no-untyped-call]
        self._waiting: JSON | None = None
        self.filter.setPlaceholderText("Search keys and values")
        self.filter.setAccessibleName("Search")
        self.filter.textChanged.connect(self._on_text)

    def setDocument(self, document: JSON) -> None:
        """Show another document, cut where its lists are very long."""
        self._waiting = document
        if self.isVisible():
            self._fill_tree()

    def showEvent(self, event: QShowEvent | None) -> None:
        """Make the tree that is waited for."""
        super().showEvent(event)
        self._fill_tree()

    def _fill_tree(self) -> None:
        if self._waiting is not None:
            self.setData(shorten_document(self._waiting))
            self._waiting = None
            self.tree.expandToDepth(1)
            self.tree.resizeColumnToContents(0)

    def _on_text(self, text: str) -> None:
        if text:
            self.tree.expandAll()
            self.tree.resizeColumnToContents(0)


class UndoRepair(QPushButton):
    """A button that is there only while there is something to put back."""

    undone = Signal()
    """Emitted when all is as it was."""

    failed = Signal(str)
    """Emitted with the reason."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("&Undo repair", parent)
        self._entry: TreeEntry | None = None
        self._kept: tuple[str, ...] = ()
        self.clicked.connect(self._on_clicked)
        self.hide()

    def offerUndo(self, entry: TreeEntry, kept: tuple[str, ...]) -> None:
        """Offer to put back what a repair of a place replaced; () for nothing."""
        self._entry, self._kept = entry, kept
        self.setToolTip("\n".join(("Puts these back:", *kept)))
        self.setVisible(bool(kept))

    def _on_clicked(self) -> None:
        entry, kept = self._entry, self._kept
        if entry is None:
            return
        self.hide()

        run_work(
            partial(attempt_work, partial(undo_repair, entry, kept)), self._on_done
        )

    def _on_done(self, error: str | None) -> None:
        if isalive(self):  # type: ignore[no-untyped-call]
            if error:
                self.failed.emit(f"Not undone. {error}")
            else:
                self.undone.emit()
