"""Saves display settings by an entry of a menu, with a dot where something differs."""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING

from napari.utils.notifications import show_info
from qtpy.QtGui import QAction  # type: ignore[attr-defined]
from qtpy.QtWidgets import QApplication

from napari_ngff.viewer.browsing import display_saving
from napari_ngff.viewer.browsing.display_saving import is_field, settings_shown
from napari_ngff.viewer.plans.layer_plan import is_joined
from napari_ngff.viewer.private.napari_window import qt_window_of
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.activity_bar import FieldsBar
from napari_ngff.widgets.dialogs import ask_question

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.viewer import Viewer

SAVE, FORGET = "napari-ngff.save_display", "napari-ngff.forget_display"
TITLE, DOT = "Save display settings", " •"
FIELD, ALL_FIELDS = "This field", "All fields with these channels"


def save_display(viewer: Viewer) -> None:
    """Save the display settings of the selected image; on a plate, ask of which."""
    # napari hands commands proxies, which are gone when the command returns.
    viewer = getattr(viewer, "__wrapped__", viewer)
    settings, browser = settings_shown(viewer), session_of(viewer).browser
    if settings is None:
        show_info("No image of OME-Zarr is shown.")
        return
    answer = FIELD
    if is_field(settings, browser):
        answers = [FIELD, ALL_FIELDS][is_joined(settings.picture) :]
        text = "Which fields get the names, colours, contrast and visibility that are"
        text += " shown? The position of the sliders is saved for one field only."
        answer = ask_question(qt_window_of(viewer), TITLE, text, answers)
    if answer == ALL_FIELDS:
        bar = FieldsBar(desc=TITLE, total=1)
        settings = settings_shown(viewer, whole=True) or settings
        display_saving.save_display(viewer, settings, browser, bar.report)
    elif answer == FIELD and settings.differ:
        display_saving.save_display(viewer, settings)
    elif answer == FIELD:
        show_info("Nothing to save.\nNo display setting was changed.")


def forget_display(viewer: Viewer) -> None:
    """Forget the settings that are kept beside an image; what is shown stays."""
    viewer = getattr(viewer, "__wrapped__", viewer)
    settings = settings_shown(viewer)
    if settings is None or not settings.picture.keeps_display:
        show_info("No settings are kept beside an image.")
    else:
        display_saving.forget_display(viewer, settings)


def follow_settings(viewer: Viewer) -> None:
    """Mark the entry of a window, when its menu opens, while something differs."""
    menu = viewer.window.layers_menu
    if menu.property(SAVE) is None:
        menu.setProperty(SAVE, True)
        menu.aboutToShow.connect(partial(show_state, weakref.ref(viewer)))


def show_state(at_viewer: Callable[[], Viewer]) -> None:
    """Let the entries show the state of the image that is selected."""
    settings, app = settings_shown(at_viewer()), QApplication.instance()
    assert app is not None
    # The application has the entries of menus, one for all windows.
    for save in app.findChildren(QAction, SAVE):
        dot = DOT if settings is not None and settings.differ else ""
        save.setText(f"{save.text().removesuffix(DOT)}{dot}")
    for forget in app.findChildren(QAction, FORGET):
        forget.setVisible(settings is not None and settings.picture.keeps_display)
