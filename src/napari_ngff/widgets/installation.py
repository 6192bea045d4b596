"""Prepares napari's window for what we open in it."""

from __future__ import annotations

from napari_ngff.widgets.browser.host import install_browser
from napari_ngff.widgets.saving.label_controls import install_controls
from napari_ngff.widgets.saving.unsaved import install_guard
from napari_ngff.widgets.workers import install_runner

__all__ = ["install"]


def install() -> None:
    """Read in worker threads, let painted labels have their controls, and
    the browser open beside what can be walked.
    """
    install_runner()
    install_browser()
    install_guard()
    install_controls()
