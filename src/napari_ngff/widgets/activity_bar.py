"""Bars in napari's activity dock, for work that takes long; their buttons cancel it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from napari.utils import cancelable_progress
from qtpy.QtCore import QTimer

from napari_ngff.viewer.services.window import Window

PATIENCE = 300
"""Milliseconds after which work gets a bar; most is done by then."""


class ActivityBar(cancelable_progress):  # type: ignore[misc]
    """The bar of one work.

    Parameters
    ----------
    text
        Names the work.
    stop
        Called by the button.
    total
        100, or 0 where nobody knows how much there is.
    """

    def __init__(self, text: str, stop: Callable[[], None], total: int = 100) -> None:
        super().__init__(total=total, desc=text)
        self._stop = stop

    def cancel(self) -> None:
        """Stop the work."""
        super().cancel()
        self._stop()

    def show_part(self, part: float) -> None:
        """Show how much is done, 0 to 1; less than before is of another phase."""
        done = int(100 * part)
        if done < self.n:
            self.reset()
        # tqdm counts up from where it is; `n` is how far it has come. Each update lets
        # napari draw the window again.
        if done > self.n:
            self.update(done - self.n)


class FieldsBar(cancelable_progress):  # type: ignore[misc]
    """The bar of a change of many fields, in the activity dock; its button stops it."""

    def report(self, done: int, total: int) -> bool:
        """Show how many fields are done; return whether to go on."""
        Window.current.report_to_main(self, partial(self._show_part, done, total))
        return not self.is_canceled

    def _show_part(self, done: int, total: int) -> None:
        if self.disable:
            return  # it is closed
        self.total = total
        self.update(done - self.n)
        if done == total:
            self.close()


_watched: set[Any] = set()


def watch_work(
    work: Any,
    text: str,
    progressed: Any,
    part: Callable[[], float],
    *ended: Any,
) -> None:
    """Show work in the activity dock, unless it ends soon.

    Parameters
    ----------
    work
        With `running` and `cancel`.
    progressed
        Its signal that more is done.
    part
        Returns how much is done, 0 to 1.
    ended
        Its signals of which one is emitted at the end.
    """
    if work in _watched:
        return  # a save that follows another one has the bar of that
    _watched.add(work)

    def begin_bar() -> None:
        if not work.running:
            _watched.discard(work)
            return
        bar = ActivityBar(text, work.cancel)

        def show_part(_: object = None) -> None:
            bar.show_part(part())

        def end(_: object = None) -> None:
            if work.running:
                return
            for signal, slot in slots:
                signal.disconnect(slot)
            _watched.discard(work)
            bar.close()

        slots = [(progressed, show_part), *((signal, end) for signal in ended)]
        for signal, slot in slots:
            signal.connect(slot)
        # To make a bar, napari handles events, and the work may end in them.
        end()

    QTimer.singleShot(PATIENCE, begin_bar)
