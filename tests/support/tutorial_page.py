"""The pages of docs/tutorials: what the window has to show at each of their steps."""

from __future__ import annotations

import re
from pathlib import Path

from qtpy.QtWidgets import (
    QAbstractButton,
    QApplication,
    QComboBox,
    QDockWidget,
    QGroupBox,
    QLabel,
    QLineEdit,
    QMenu,
    QMenuBar,
    QTabBar,
    QWidget,
)

PAGES = Path(__file__).parents[2] / "docs/tutorials"
PICTURE = re.compile(r"!\[.+\]\(\.\./images/tutorials/(\S+)\.png\)")
NAME = re.compile(r"(?<!\*)\*([^*\n]+(?:\n[^*\n]+)?)\*(?!\*)")


def read_steps(tutorial: str) -> list[tuple[str | None, set[str]]]:
    """Read the pictures of a page in order, each with the names that lead to it.

    The names of the window stand in italics; ``▸`` parts those of a menu. What follows
    the last picture has none.
    """
    path = PAGES / f"{tutorial}.md"
    if not path.exists():
        return []
    *parts, rest = PICTURE.split(path.read_text(encoding="utf-8"))
    steps = [*zip(parts[1::2], parts[::2], strict=True), (None, rest)]
    return [(picture, names_in(text)) for picture, text in steps]


def names_in(text: str) -> set[str]:
    """List the names of the window that a text states."""
    return {
        " ".join(name.split())
        for path in NAME.findall(text)
        for name in path.split("▸")
    }


def shown_texts() -> set[str]:
    """List all texts that are to be seen now, and the tips of what is to be seen."""
    texts: set[str] = set()
    for window in QApplication.topLevelWidgets():
        if window.isVisible():
            texts.add(window.windowTitle())
            for widget in (window, *window.findChildren(QWidget)):
                if getattr(widget, "isVisible", bool)():
                    texts.update(texts_of(widget))
    return {plain(text) for text in texts}


def texts_of(widget: object) -> list[str]:
    """List the texts of one widget."""
    if isinstance(widget, QComboBox):
        return [widget.itemText(n) for n in range(widget.count())]
    if isinstance(widget, QTabBar):
        return [widget.tabText(n) for n in range(widget.count())]
    if isinstance(widget, QMenu | QMenuBar):
        return [action.text() for action in widget.actions()]
    if isinstance(widget, QGroupBox):
        return [widget.title()]
    if isinstance(widget, QDockWidget):
        return [widget.windowTitle()]
    if isinstance(widget, QLineEdit):
        return [widget.placeholderText(), widget.toolTip()]
    if isinstance(widget, QAbstractButton | QLabel):
        return [widget.text(), widget.toolTip()]
    return []


def plain(text: str) -> str:
    """Give a text as pages write it: without its key, and the name of the plugin."""
    return without_keys(text).replace("...", "…").removesuffix(" (OME-Zarr)")


def without_keys(text: str) -> str:
    """Give a text without the sign of its key."""
    return text.replace("&", "")
