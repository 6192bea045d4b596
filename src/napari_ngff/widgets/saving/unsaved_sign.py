"""A sign in the status bar while labels have unsaved changes."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from qtpy.compat import isalive
from qtpy.QtWidgets import QLabel, QMainWindow

from napari_ngff.viewer.painting.paint import OMEZarrLabels

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.viewer.saving.layer_saver import LayerSaver

__all__ = ["UnsavedSign"]

TEXT = "Unsaved changes"

MOST_NAMED = 10
"""Layers that the tool tip lists."""


class UnsavedSign(QLabel):
    """Tells that a viewer has labels with unsaved changes, wherever the mouse is.

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
        self.setVisible(bool(names))
        lines = [*names[:MOST_NAMED], *(["…"] if len(names) > MOST_NAMED else [])]
        self.setToolTip("\n".join(["Ctrl+S saves:", *lines]))
