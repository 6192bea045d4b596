"""A box whose list shows whole entries, however narrow the box is."""

from __future__ import annotations

from qtpy.QtWidgets import QComboBox, QWidget

__all__ = ["ChoiceBox"]

MOST_ITEMS = 40
"""Entries that are visible without scrolling."""

PAD = 24
"""Pixels beside an entry, also for a scroll bar."""


class ChoiceBox(QComboBox):
    """Opens a list as wide as its longest entry, and as long as there is room."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setMaxVisibleItems(MOST_ITEMS)

    def showPopup(self) -> None:
        """Open the list."""
        view = self.view()
        if view is not None:
            wide = view.sizeHintForColumn(0) + PAD
            # Qt makes the list as wide as the box, and cuts longer entries.
            view.setMinimumWidth(max(self.width(), wide))
        super().showPopup()
