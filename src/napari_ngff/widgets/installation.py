"""Installs our parts of napari's window: workers, browser, signs and questions."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from qtpy.compat import isalive

from napari_ngff.viewer.label_layers import usual_colors
from napari_ngff.viewer.napari_private import qt_viewer_of
from napari_ngff.viewer.session import session_of
from napari_ngff.viewer.settings import apply_disk_cache
from napari_ngff.viewer.window_services import (
    run_in_main,
    run_later,
    set_annotate_check,
    set_drawing_hold,
    set_starter,
)
from napari_ngff.widgets.browser.host import install_browser
from napari_ngff.widgets.browser.names_visual import install_names
from napari_ngff.widgets.docking import has_annotate_dock
from napari_ngff.widgets.level_label import install_level_label
from napari_ngff.widgets.saving.save_controls import install_controls
from napari_ngff.widgets.saving.unsaved_question import install_guard
from napari_ngff.widgets.status_signs import install_missing_sign, install_problem_sign
from napari_ngff.widgets.workers import install_runner

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["install_widgets", "start_services"]


def install_widgets() -> None:
    """Install all parts; this may be called again."""
    set_starter(start_services)
    install_runner()
    keep_chunks_soon()
    make_colors_soon()
    install_browser()
    install_names()
    install_drawing_hold()
    install_level_label()
    install_problem_sign()
    install_missing_sign()
    install_guard()
    install_controls()
    set_annotate_check(has_annotate_dock)


def start_services(viewer: Any) -> None:
    """Begin to serve a window that gets a layer of OME-Zarr."""
    install_widgets()
    session_of(viewer)


@functools.cache
def keep_chunks_soon() -> None:
    """Keep chunks of servers on this disk, once the preferences are read."""
    # napari makes them when they are first asked for, for 0.1 s.
    run_later(apply_disk_cache)


@functools.cache
def make_colors_soon() -> None:
    """Make the colours of labels in the main thread, once scikit-image is imported."""
    run_later(load_color_conversion)


def load_color_conversion() -> None:
    """Import what napari's colours of labels need, in a worker: it takes 0.15 s."""
    from skimage.color import lab2rgb  # noqa: F401  imported for its own sake

    run_in_main(usual_colors)


def install_drawing_hold() -> None:
    """Stop the drawing of every canvas while layers are exchanged."""
    set_drawing_hold(hold_canvas)


def hold_canvas(viewer: Any) -> Callable[[], None]:
    """Stop the drawing of a canvas; return a function that resumes it."""
    qt_viewer = qt_viewer_of(viewer)
    if qt_viewer is None or not qt_viewer.canvas.native.updatesEnabled():
        # No window, or held already: the first to hold it also resumes it.
        return lambda: None
    native = qt_viewer.canvas.native
    native.setUpdatesEnabled(False)

    def release_canvas() -> None:
        if isalive(native):  # type: ignore[no-untyped-call]
            native.setUpdatesEnabled(True)

    return release_canvas
