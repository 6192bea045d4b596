"""A box whose list shows whole entries, however narrow the box is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import QEvent, Qt
from qtpy.QtGui import QHelpEvent
from qtpy.QtWidgets import (
    QComboBox,
    QSizePolicy,
    QStyle,
    QStyleOptionComboBox,
    QStylePainter,
    QToolTip,
    QWidget,
)

if TYPE_CHECKING:
    from qtpy.QtGui import QPaintEvent

__all__ = ["ChoiceBox"]

MOST_ITEMS = 40
"""Entries that are visible without scrolling."""

LEAST_LETTERS = 8
"""Letters of an entry that are visible in the narrowest box."""

PAD = 24
"""Pixels beside an entry, also for a scroll bar."""


class ChoiceBox(QComboBox):
    """Opens a list as wide as its longest entry, and as long as there is room."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setMaxVisibleItems(MOST_ITEMS)

    def allowNarrow(self) -> None:
        """Let the box be narrower than its longest entry."""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        policy = self.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        self.setSizeAdjustPolicy(policy)
        self.setMinimumContentsLength(LEAST_LETTERS)

    def paintEvent(self, event: QPaintEvent | None) -> None:
        """Draw the box, with an ellipsis where its entry is cut."""
        painter, option = QStylePainter(self), QStyleOptionComboBox()
        self.initStyleOption(option)
        option.currentText = self._elided_text()
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)
        painter.end()

    def event(self, event: QEvent | None) -> bool:
        """Begin the tool tip with the entry, if it is cut."""
        # `QHelpEvent` is also the class of other kinds.
        if (
            isinstance(event, QHelpEvent)
            and event.type() == QEvent.Type.ToolTip
            and self._elided_text() != self.currentText()
        ):
            tip = f"{self.currentText()}\n{self.toolTip()}".strip()
            QToolTip.showText(event.globalPos(), tip, self)
            return True
        return super().event(event)

    def _elided_text(self) -> str:
        option, style = QStyleOptionComboBox(), self.style()
        assert style is not None
        self.initStyleOption(option)
        control, part = (
            QStyle.ComplexControl.CC_ComboBox,
            QStyle.SubControl.SC_ComboBoxEditField,
        )
        room = style.subControlRect(control, option, part, self).width()
        end = Qt.TextElideMode.ElideRight
        return self.fontMetrics().elidedText(self.currentText(), end, room)

    def showPopup(self) -> None:
        """Open the list."""
        view = self.view()
        if view is not None:
            wide = view.sizeHintForColumn(0) + PAD
            # Qt makes the list as wide as the box, and cuts longer entries.
            view.setMinimumWidth(max(self.width(), wide))
        super().showPopup()
