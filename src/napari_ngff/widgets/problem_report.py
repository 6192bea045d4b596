"""Helps to report a problem of the plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.installed import describe_installation
from napari_ngff.viewer.private.napari_window import qt_window_of
from napari_ngff.widgets.dialogs import ask_question, copy_text

if TYPE_CHECKING:
    from napari.viewer import Viewer

TITLE, COPY = "Report a problem", "Copy"
TEXT = """\
Describe your steps, the result and the result that you expected.
Add these lines. They name no file and no server.

"""


def report_problem(viewer: Viewer) -> None:
    """Show what is installed, and copy it to the clipboard if that is chosen."""
    lines = describe_installation()
    if ask_question(qt_window_of(viewer), TITLE, TEXT + lines, [COPY]) == COPY:
        copy_text(lines)
