"""Controls of docks: rows that wrap, boxes with cut entries, reasons in tool tips."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtWidgets import QComboBox
from superqt.utils import QFlowLayout

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

    from napari_ngff.viewer.painting.paint import OMEZarrLabels

GAP = 4
"""Pixels between two controls: in a layout inside of another one, superqt has none."""

LEAST_LETTERS = 5
"""Letters of an entry that are visible in the narrowest box."""

NO_LABELS = "Select labels of an OME-Zarr, or make new ones."
READ_ONLY = "These labels are read-only or locked: see beside Save in their controls."


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


def enable_if(is_possible: bool, widget: QWidget, lack: str) -> None:
    """Enable a widget, or disable it and let its tool tip state what is lacking."""
    if widget.property("tip") is None:
        widget.setProperty("tip", widget.toolTip())
    widget.setEnabled(is_possible)
    widget.setToolTip(widget.property("tip") if is_possible else lack)


def why_fixed(layer: OMEZarrLabels | None, changes: bool = True) -> str:
    """Return why nothing can be done with labels, or nothing that changes them."""
    is_fixed = changes and layer is not None and layer.refusal
    return NO_LABELS if layer is None else READ_ONLY if is_fixed else ""
