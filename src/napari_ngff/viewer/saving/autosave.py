"""Saves painted labels every few minutes, where the user chose that."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from napari_ngff.viewer.settings import autosave_minutes

if TYPE_CHECKING:
    from napari.components import ViewerModel

__all__ = ["Autosave"]


class Autosave:
    """Saves the labels of one viewer as often as the preference says.

    Only what has unsaved edits and a place in a file, in a worker, and never while a
    stroke is drawn. Nothing is asked, and a failure is told once.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer = weakref.ref(viewer)
        # When each layer was saved last, or first seen with unsaved edits.
        self._since: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()

    def look(self, now: float) -> None:
        """Save what is due; to be called every few seconds, in the main thread.

        Parameters
        ----------
        now
            In seconds, of a clock that never goes back.
        """
        viewer, minutes = self._viewer(), autosave_minutes()
        if viewer is None or minutes <= 0:
            self._since.clear()
            return
        for layer in viewer.layers:
            saver = getattr(layer, "saver", None)
            if saver is None or layer.read_only:
                continue
            if saver.running or not layer.unsaved:
                self._since.pop(layer, None)
                continue
            since = self._since.setdefault(layer, now)
            if now - since >= 60 * minutes and not layer.painting:
                self._since[layer] = now
                saver.save(quiet=True)
