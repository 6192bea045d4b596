"""Shows in napari's activity dock how a copy of labels goes on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from napari.utils import cancelable_progress
from qtpy.QtCore import QTimer

if TYPE_CHECKING:
    from napari_ngff.viewer.annotations.sidecars import SidecarCopy

PATIENCE = 300
"""Milliseconds after which a copy gets a bar."""

WHOLE = 100
"""Steps of a bar."""


def watch_copy(copy: SidecarCopy) -> None:
    """Show a copy in the activity dock, unless it ends soon."""
    QTimer.singleShot(PATIENCE, partial(_begin_bar, copy))


def _begin_bar(copy: SidecarCopy) -> None:
    if copy.is_running:
        bar = _CopyBar(copy)
        copy.progressed.connect(bar.show_part)
        copy.ended.connect(bar.end)
        # To make a bar, napari handles events, and the copy may end in them.
        bar.end_if_over()


class _CopyBar(cancelable_progress):  # type: ignore[misc]
    """The bar of one copy; its button cancels it."""

    def __init__(self, copy: SidecarCopy) -> None:
        super().__init__(total=WHOLE, desc=f"Copying {copy.name}")
        self._copy = copy

    def cancel(self) -> None:
        """Stop copying."""
        super().cancel()
        self._copy.cancel()

    def show_part(self) -> None:
        """Show how much is copied."""
        copy = self._copy
        # tqdm counts up from where it is; `n` is how far it has come.
        step = (WHOLE * copy.done // copy.total if copy.total else 0) - self.n
        if step > 0:
            self.update(step)

    def end_if_over(self) -> None:
        """Close it if the copy has ended meanwhile."""
        if not self._copy.is_running:
            self.end()

    def end(self) -> None:
        """Close it."""
        self._copy.progressed.disconnect(self.show_part)
        self._copy.ended.disconnect(self.end)
        self.close()
