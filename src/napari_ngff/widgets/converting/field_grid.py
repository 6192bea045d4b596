"""Rows of a form, and below them what is wrong with their values."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from qtpy.QtWidgets import (
    QComboBox,
    QGridLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qtpy.QtGui import QColor

__all__ = ["FieldGrid", "wrapped_label"]

MORE, FEWER = "▸ More options", "▾ Fewer options"

Field = QComboBox | QLineEdit


class FieldGrid(QWidget):
    """Names and fields in rows, and mistakes below all of them.

    Mistakes below their fields would move the other fields away from the mouse.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._fields: dict[str, Field] = {}
        self._parts: dict[str, list[QWidget]] = {}
        self._titles: dict[str, QLabel] = {}
        self._color = ""
        self._folded: set[str] = set()
        self._absent: set[str] = set()
        self._is_open = False
        self._order: list[QWidget] = []
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        self._grid = QGridLayout()
        self._grid.setColumnStretch(1, 1)
        layout.addLayout(self._grid)
        self.mistakes = wrapped_label(self)
        self.mistakes.hide()
        layout.addWidget(self.mistakes)
        self.more = QPushButton(MORE, self)
        self.more.setFlat(True)
        self.more.hide()
        self.more.clicked.connect(self.toggleMore)

    def addField(
        self,
        name: str,
        title: str,
        field: Field,
        *,
        beside: QWidget | None = None,
        folded: bool = False,
    ) -> None:
        """Add a row.

        Parameters
        ----------
        name
            By which mistakes are shown.
        title
            In front of the field, with the letter of its key after ``&``.
        beside
            A button after the field.
        folded
            Whether it is one of the options that are shown on demand.
        """
        row = self._grid.rowCount()
        label = QLabel(title, self)
        label.setBuddy(field)
        field.setAccessibleName(title.replace("&", ""))
        self._grid.addWidget(label, row, 0)
        self._grid.addWidget(field, row, 1)
        if beside is not None:
            self._grid.addWidget(beside, row, 2)
        self._fields[name], self._titles[name] = field, label
        self._parts[name] = [w for w in (label, field, beside) if w is not None]
        self._order += self._parts[name][1:]
        if folded:
            self._folded.add(name)
            self._showRow(name)

    def addMore(self) -> None:
        """Add the button that shows the folded rows, which come after it."""
        self._grid.addWidget(self.more, self._grid.rowCount(), 0, 1, 3)
        self.more.show()
        self._order.append(self.more)

    def orderTabs(self, after: Sequence[QWidget]) -> None:
        """Let Tab go through the rows from top to bottom, and then to other widgets."""
        for first, second in pairwise([*self._order, *after]):
            QWidget.setTabOrder(first, second)

    def addNote(self, label: QLabel) -> None:
        """Add a text below the field of the last row."""
        self._grid.addWidget(label, self._grid.rowCount(), 1, 1, 2)

    def toggleMore(self) -> None:
        """Show the folded rows, or hide them."""
        self._is_open = not self._is_open
        self.more.setText(FEWER if self._is_open else MORE)
        for name in self._folded:
            self._showRow(name)

    def setAbsent(self, names: Sequence[str]) -> None:
        """Leave rows out that mean nothing for the source."""
        self._absent = set(names)
        for name in self._folded:
            self._showRow(name)

    def _showRow(self, name: str) -> None:
        is_shown = name not in self._folded or self._is_open
        for part in self._parts[name]:
            part.setVisible(is_shown and name not in self._absent)

    def showMistakes(self, mistakes: Mapping[str, str]) -> None:
        """Show what is wrong, by the titles of rows; folded ones with mistakes open."""
        if not self._is_open and self._folded & mistakes.keys():
            self.toggleMore()
        lines = []
        for name, title in self._titles.items():
            text = mistakes.get(name, "")
            self._fields[name].setAccessibleDescription(text)
            title.setStyleSheet(f"QLabel {{ {self._color} }}" if text else "")
            if text:
                lines.append(f"{title.text().replace('&', '')}: {text}")
        self.mistakes.setText("\n".join(lines))
        self.mistakes.setVisible(bool(lines))

    def setColors(self, color: QColor) -> None:
        """Set the colour of mistakes."""
        self._color = f"color: {color.name()};"
        self.mistakes.setStyleSheet(f"QLabel {{ {self._color} }}")


def wrapped_label(parent: QWidget) -> QLabel:
    """Make a label whose text is wrapped in the width that there is."""
    label = QLabel(parent)
    label.setWordWrap(True)
    policy = QSizePolicy.Policy
    label.setSizePolicy(policy.Preferred, policy.Minimum)
    return label
