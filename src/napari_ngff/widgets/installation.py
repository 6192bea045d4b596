"""Installs our parts of napari's window: workers, browser, signs and questions."""

from __future__ import annotations

import functools
from typing import Any

from qtpy.QtWidgets import QApplication

from napari_ngff.viewer.first_saves import offer_undo
from napari_ngff.viewer.layers.label_layers import usual_colors
from napari_ngff.viewer.layers.label_owners import first_saved
from napari_ngff.viewer.private.napari_window import extend_layer_menu
from napari_ngff.viewer.private.slicing import check_slicing
from napari_ngff.viewer.services.settings import apply_disk_cache
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.names_visual import install_names
from napari_ngff.widgets.qt_window import QtWindow
from napari_ngff.widgets.saving.save_controls import install_controls
from napari_ngff.widgets.workers import follow_application

FILE_COMMANDS = {
    "napari-ngff.rename_labels": "Rename labels in file…",
    "napari-ngff.delete_labels": "Delete labels from file…",
}
"""What the menu of a layer of labels in the list offers."""


def install_widgets() -> None:
    """Install all parts; this may be called again."""
    app = QApplication.instance()
    if isinstance(app, QApplication):
        follow_application(app)
        if not isinstance(Window.current, QtWindow):
            Window.current = QtWindow(start_services)
    keep_chunks_soon()
    make_colors_soon()
    extend_layer_menu(FILE_COMMANDS, "labels")
    install_names()
    install_controls()
    first_saved.connect(offer_undo, unique=True)


def start_services(viewer: Any) -> None:
    """Begin to serve a window that gets a layer of OME-Zarr."""
    install_widgets()
    session_of(viewer)


@functools.cache
def keep_chunks_soon() -> None:
    """Keep chunks of servers on this disk, once the preferences are read."""
    # napari makes them when they are first asked for, for 0.1 s.
    Window.current.run_later(apply_disk_cache)


@functools.cache
def make_colors_soon() -> None:
    """Make the colours of labels in the main thread, once scikit-image is imported."""
    Window.current.run_later(load_color_conversion)


def load_color_conversion() -> None:
    """Import what napari's colours of labels need, in a worker: it takes 0.15 s.

    Then `check_slicing` holds the window for no longer than it takes to draw.
    """
    from skimage.color import lab2rgb  # noqa: F401  imported for its own sake

    Window.current.run_in_main(usual_colors)
    Window.current.run_in_main(check_slicing)
