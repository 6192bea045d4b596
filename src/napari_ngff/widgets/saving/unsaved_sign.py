"""A sign in the status bar while labels have unsaved changes."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from qtpy.compat import isalive
from qtpy.QtWidgets import QLabel, QMainWindow

from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.session import session_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.components import ViewerModel

    from napari_ngff.viewer.saving.layer_saver import LayerSaver

__all__ = ["UnsavedSign"]

TEXT = "Unsaved changes"

MOST_NAMED = 10
"""Layers, and images, that the tool tip lists."""


class UnsavedSign(QLabel):
    """Shows that a viewer has labels with unsaved changes, wherever the mouse is.

    Also that edits of an earlier session wait for the user to go to their image.

    napari's own status names that of the selected layer, after the values under the
    mouse: of many layers, or classes, these take all of the bar.
    """

    def __init__(self, viewer: ViewerModel, window: QMainWindow) -> None:
        super().__init__(TEXT, window)
        self._viewer = weakref.ref(viewer)
        self._followed: weakref.WeakSet[LayerSaver] = weakref.WeakSet()
        self.setContentsMargins(6, 0, 6, 0)
        bar = window.statusBar()
        assert bar is not None
        bar.addPermanentWidget(self)
        viewer.layers.events.removed.connect(self.showState)
        self._recovery = session_of(viewer).recovery
        self._recovery.places_changed.connect(self.showState)
        self.hide()

    def followSaver(self, saver: LayerSaver | None) -> None:
        """Show the state when labels get their first change, or lose their last one."""
        if saver is not None and saver not in self._followed:
            self._followed.add(saver)
            for signal in (saver.dirty_changed, saver.saved, saver.failed):
                signal.connect(self.showState)
        self.showState()

    def showState(self, _: Any = None) -> None:
        """Show the sign where anything is unsaved."""
        viewer = self._viewer()
        if viewer is None or not isalive(self):  # type: ignore[no-untyped-call]
            return
        names = [
            layer.name
            for layer in viewer.layers
            if isinstance(layer, OMEZarrLabels) and layer.saver and layer.unsaved
        ]
        places = self._recovery.waiting_places
        self.setVisible(bool(names or places))
        lines = ["Ctrl+S saves:", *_shorten_list(names)] if names else []
        if places:
            lines += ["Restored when you go there:", *_shorten_list(places)]
        where = places[0] if len(places) == 1 else f"{len(places)} other images"
        self.setText(TEXT if names else f"Unsaved edits in {where}")
        self.setToolTip("\n".join(lines))


def _shorten_list(names: Sequence[str]) -> list[str]:
    return [*names[:MOST_NAMED], *(["…"] if len(names) > MOST_NAMED else [])]
