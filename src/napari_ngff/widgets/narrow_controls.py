"""Controls that let a dock be narrow: rows that wrap, boxes with cut entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtWidgets import QComboBox
from superqt.utils import QFlowLayout

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

GAP = 4
"""Pixels between two controls: in a layout inside of another one, superqt has none."""

LEAST_LETTERS = 5
"""Letters of an entry that are visible in the narrowest box."""


def wrapping_row(*widgets: QWidget) -> QFlowLayout:
    """Put widgets side by side, in several lines if they do not fit."""
    row = QFlowLayout()
    row.setHorizontalSpacing(GAP)
    row.setVerticalSpacing(GAP)
    row.setContentsMargins(0, 0, 0, 0)
    for widget in widgets:
        row.addWidget(widget)
    return row


def choice_box(parent: QWidget, name: str, tip: str) -> QComboBox:
    """Make a box of choices whose width does not widen the dock."""
    box = QComboBox(parent)
    box.setAccessibleName(name)
    box.setToolTip(tip)
    # By default a box is as wide as its longest entry, and so would be the dock.
    policy = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
    box.setSizeAdjustPolicy(policy)
    box.setMinimumContentsLength(LEAST_LETTERS)
    return box
