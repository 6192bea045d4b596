"""The text in the corner of a canvas that names the levels seen in 3D.

A widget: as a text of vispy, its first letters hold the window for 0.2 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.compat import isalive
from qtpy.QtCore import QEvent, QObject, Qt
from qtpy.QtWidgets import QLabel, QWidget

from napari_ngff.viewer.private.napari_window import qt_viewer_of

if TYPE_CHECKING:
    from napari.components import ViewerModel

MARGIN = 8
"""Pixels to the edges of the canvas."""

LOOK = "color: white; background: rgba(0, 0, 0, 160); padding: 2px 5px;"
"""Readable on bright and on dark pixels, in both themes."""


def show_text(viewer: ViewerModel, text: str) -> None:
    """Show a text on the canvas of a viewer; "" hides it."""
    label = level_label_of(viewer)
    if label is None:
        canvas = canvas_of(viewer)
        if canvas is None or not text:
            return
        label = LevelLabel(canvas)
    label.showText(text)


def canvas_of(viewer: ViewerModel) -> QWidget | None:
    """Find the widget of a viewer's canvas; None without a window."""
    view = qt_viewer_of(viewer)
    if view is None or not isalive(view):  # type: ignore[no-untyped-call]
        return None
    canvas: QWidget = view.canvas.native
    return canvas


def level_label_of(viewer: ViewerModel) -> LevelLabel | None:
    """Find the label of a viewer's canvas."""
    canvas: Any = canvas_of(viewer)
    label: LevelLabel | None = None if canvas is None else canvas.findChild(LevelLabel)
    return label


class LevelLabel(QLabel):
    """A text at the lower left of a canvas; the mouse goes through it."""

    def __init__(self, canvas: QWidget) -> None:
        super().__init__(canvas)
        self._canvas = canvas
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setStyleSheet(LOOK)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        canvas.installEventFilter(self)

    def showText(self, text: str) -> None:
        """Show a text; "" hides the label."""
        self.setText(text)
        self.setVisible(bool(text))
        self._place()

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        """Stay in the corner."""
        if event is not None and event.type() == QEvent.Type.Resize:
            self._place()
        return False

    def _place(self) -> None:
        self.adjustSize()
        self.move(MARGIN, self._canvas.height() - self.height() - MARGIN)
