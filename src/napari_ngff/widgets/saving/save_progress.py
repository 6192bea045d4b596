"""Shows how saves go on in napari's activity dock, where they can be cancelled."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from napari.utils import cancelable_progress
from qtpy.QtCore import QEventLoop, QObject, Qt, QTimer
from qtpy.QtWidgets import QProgressDialog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari_ngff.viewer.saving.saver import LayerSaver

__all__ = ["SaveProgress", "wait_for"]

INTERVAL = 100
"""Milliseconds between two looks at what is going on."""

PATIENCE = 0.3
"""Seconds after which a save gets a bar; most are done by then."""


class SaveProgress(QObject):
    """A bar for each save that takes its time.

    Parameters
    ----------
    ended
        Called with what has saved.
    """

    def __init__(self, ended: Callable[[LayerSaver], None]) -> None:
        super().__init__()
        self._ended = ended
        self._begun: dict[LayerSaver, float] = {}
        self._bars: dict[LayerSaver, Any] = {}
        self._looking = False
        self._timer = QTimer(self)
        self._timer.setInterval(INTERVAL)
        self._timer.timeout.connect(self.look)

    def watch(self, saver: LayerSaver) -> None:
        """Follow a save that begins now."""
        self._begun.setdefault(saver, time.monotonic())
        self._timer.start()

    def look(self) -> None:
        """Bring the bars up to date."""
        if self._looking:  # a bar of napari lets other events happen
            return
        self._looking = True
        for saver, begun in list(self._begun.items()):
            if not saver.running:
                self._end(saver)
            elif time.monotonic() - begun > PATIENCE:
                self._show(saver)
        if not self._begun:
            self._timer.stop()
        self._looking = False

    def _show(self, saver: LayerSaver) -> None:
        bar = self._bars.get(saver)
        if bar is None:
            name = saver.journal.place[1].rpartition("/")[2]
            bar = cancelable_progress(total=100, desc=f"Saving {name}")
            self._bars[saver] = bar
        if bar.is_canceled:
            saver.cancel()
        step = int(100 * saver.fraction) - bar.n
        if step > 0:
            bar.update(step)

    def _end(self, saver: LayerSaver) -> None:
        del self._begun[saver]
        bar = self._bars.pop(saver, None)
        if bar is not None:
            bar.close()
        self._ended(saver)


def wait_for(parent: Any, savers: Sequence[LayerSaver]) -> None:
    """Let nothing else be done in a window until saves have ended, but cancel them."""
    if not any(saver.running for saver in savers):
        return
    dialog = QProgressDialog("Saving labels", "Cancel", 0, 100, parent)
    dialog.setWindowModality(Qt.WindowModality.WindowModal)
    dialog.setAutoReset(False)
    dialog.show()
    loop = QEventLoop(dialog)

    def show(_: object = None) -> None:
        running = [saver for saver in savers if saver.running]
        done = len(savers) - len(running) + sum(saver.fraction for saver in running)
        dialog.setValue(int(100 * done / len(savers)))
        if not running:
            loop.quit()

    def cancel() -> None:
        for saver in savers:
            saver.cancel()

    dialog.canceled.connect(cancel)
    signals = [s for x in savers for s in (x.progressed, x.saved, x.failed)]
    for signal in signals:
        signal.connect(show)
    loop.exec()
    for signal in signals:
        signal.disconnect(show)
    dialog.canceled.disconnect(cancel)
    dialog.close()
    dialog.deleteLater()
