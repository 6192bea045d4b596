"""A dialog around a form: it takes the keyboard, Enter confirms, Escape closes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from qtpy.compat import isalive
from qtpy.QtCore import QEvent, QObject, Qt
from qtpy.QtWidgets import QDialog, QPushButton, QVBoxLayout, QWidget

from napari_ngff.viewer.private.napari_window import qt_window_of
from napari_ngff.widgets.connections import call_soon, fill_layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from magicgui.widgets import Container

FormT = TypeVar("FormT", bound="Container | QWidget")  # type: ignore[type-arg]

WIDTH = 380
"""In pixels, so that a sentence has room."""


class FormDialog(QDialog):
    """Shows a form in a window of its own, so that napari's window never grows.

    It has the keyboard until it is closed: no key typed in it reaches napari.

    Parameters
    ----------
    viewer
        In front of its window.
    title
        Of the dialog.
    form
        Of magicgui or Qt; lives as long as the dialog.
    first
        Gets the keyboard.
    button
        What Enter presses.
    """

    def __init__(
        self,
        viewer: Any,
        title: str,
        form: Container | QWidget,  # type: ignore[type-arg]
        first: QWidget,
        button: QPushButton,
    ) -> None:
        super().__init__(main_window(viewer))
        self.form = form
        native = form if isinstance(form, QWidget) else form.native
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(title)
        self.setMinimumWidth(WIDTH)
        fill_layout(QVBoxLayout(self), native, margin=6)
        button.setDefault(True)
        for other in self.findChildren(QPushButton):
            if other is not button:
                # Else one that has the focus would take Enter.
                other.setAutoDefault(False)
        self._first = first
        native.installEventFilter(self)

    def showEvent(self, event: Any) -> None:
        """Put the keyboard into the first line."""
        super().showEvent(event)
        self.activateWindow()
        # As if reached by Tab, so that the text of a line is selected and typed over.
        self._first.setFocus(Qt.FocusReason.TabFocusReason)
        self._fit_height()

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        """Follow the height of the form when rows of it are shown or hidden."""
        if event is not None and event.type() == QEvent.Type.LayoutRequest:
            # The layout handles the same event after this filter.
            call_soon(self._fit_height)
        return False

    def _fit_height(self) -> None:
        layout = self.layout()
        if layout is not None:
            layout.activate()
            # Labels that wrap want more height in less width; -1 without such labels.
            high = layout.totalHeightForWidth(self.width())
            self.resize(self.width(), high if high > 0 else layout.sizeHint().height())


def main_window(viewer: Any) -> QWidget:
    """Find napari's window of a viewer."""
    window: QWidget = qt_window_of(viewer)
    return window


def is_window_open(viewer: Any) -> bool:
    """Return whether napari's window of a viewer was not closed meanwhile."""
    window = qt_window_of(viewer)
    return window is not None and bool(isalive(window))  # type: ignore[no-untyped-call]


def shown_form(viewer: Any, title: str) -> Any:
    """Bring the open form of a title to the front, and return it; None for none."""
    for dialog in main_window(viewer).findChildren(FormDialog):
        if dialog.windowTitle() == title and dialog.isVisible():
            dialog.activateWindow()
            dialog.raise_()
            return dialog.form
    return None


def show_form(
    viewer: Any,
    title: str,
    make: Callable[[Any], FormT],
    controls: Callable[[FormT], tuple[QWidget, Any]],
) -> FormT:
    """Show a form in a dialog; if it is open already, that one.

    Parameters
    ----------
    controls
        Returns what gets the keyboard, and the button that Enter presses.
    """
    shown: FormT | None = shown_form(viewer, title)
    if shown is not None:
        return shown
    form = make(viewer)
    FormDialog(viewer, title, form, *controls(form)).show()
    return form


def is_form_open(form: Container) -> bool:  # type: ignore[type-arg]
    """Return whether a form was not closed meanwhile."""
    return bool(isalive(form.native))  # type: ignore[no-untyped-call]


def close_form(form: Container | QWidget) -> None:  # type: ignore[type-arg]
    """Close the dialog around a form, if there is one."""
    window = (form if isinstance(form, QWidget) else form.native).window()
    if isinstance(window, FormDialog):
        window.accept()
