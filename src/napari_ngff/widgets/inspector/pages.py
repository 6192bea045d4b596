"""Parts of the inspector: facts, the metadata as JSON, and the undo of a repair."""

from __future__ import annotations

from functools import partial
from html import escape
from typing import TYPE_CHECKING

from qtpy.compat import isalive
from qtpy.QtCore import Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import QPushButton, QTextBrowser, QWidget
from superqt import QSearchableTreeWidget

from napari_ngff.viewer.inspecting.inspection import shorten_document, undo_repair
from napari_ngff.viewer.window_services import attempt_work, run_work

if TYPE_CHECKING:
    from qtpy.QtGui import QShowEvent

    from napari_ngff.metadata.model import JSON
    from napari_ngff.viewer.inspecting.inspection import PlaceDetails, TreeEntry

__all__ = ["FactPage", "JsonPage", "UndoRepair"]


class FactPage(QTextBrowser):
    """Facts about a group or an array, as text that can be copied."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Facts")

    def setDetails(self, details: PlaceDetails) -> None:
        """Show the facts of another group or array."""
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
    """A tree of the keys and values of a document, built when it is first shown."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)  # type: ignore[no-untyped-call]
        self._waiting: JSON | None = None
        self.filter.setPlaceholderText("Search keys and values")
        self.filter.setAccessibleName("Search")
        self.filter.textChanged.connect(self._on_text)

    def setDocument(self, document: JSON) -> None:
        """Show another document, with very long lists cut."""
        self._waiting = document
        # Filling the tree takes long for large documents, and most are never looked at.
        if self.isVisible():
            self._fill_tree()

    def showEvent(self, event: QShowEvent | None) -> None:
        """Build the tree of the newest document."""
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
            # The filter hides rows, but opens none: a hit deep below would not be seen.
            self.tree.expandAll()
            self.tree.resizeColumnToContents(0)


class UndoRepair(QPushButton):
    """Undoes the last repair; visible only while there is one to undo."""

    undone = Signal(str)
    """Emitted when the repair is undone, with a sentence about what was restored."""

    failed = Signal(str)
    """Emitted with the reason."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("&Undo repair", parent)
        self._entry: TreeEntry | None = None
        self._kept: tuple[str, ...] = ()
        self.clicked.connect(self._on_clicked)
        self.hide()

    def offerUndo(self, entry: TreeEntry, kept: tuple[str, ...]) -> None:
        """Offer to put back the objects that a repair replaced; () for none."""
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

    def _on_done(self, result: tuple[str, ...] | str) -> None:
        if not isalive(self):  # type: ignore[no-untyped-call]
            return
        if isinstance(result, str):
            self.failed.emit(f"Not undone. {result}")
            return
        first, more = result[0], len(result) - 1
        others = f" and {more} more" if more else ""
        self.undone.emit(
            f"Repair undone. Restored: {first}{others}. Reopen the image to see the"
            " change."
        )
