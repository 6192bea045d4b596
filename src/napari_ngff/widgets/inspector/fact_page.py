"""The facts and transformations of a place, to read and to copy."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from qtpy.QtWidgets import QTextBrowser, QWidget

if TYPE_CHECKING:
    from napari_ngff.viewer.inspection import Details

__all__ = ["FactPage"]


class FactPage(QTextBrowser):
    """Text that cannot be changed."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Facts")

    def setDetails(self, details: Details) -> None:
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
