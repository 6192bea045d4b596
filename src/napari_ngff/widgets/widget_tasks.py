"""Tasks of a widget in workers; of each subject only the newest has a result."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from qtpy.compat import isalive

from napari_ngff.viewer.services.latest_task import LatestTask

if TYPE_CHECKING:
    from collections.abc import Callable

    from qtpy.QtWidgets import QWidget


class WidgetTasks:
    """The tasks of one widget by subject, a `LatestTask` each.

    Parameters
    ----------
    widget
        Results are dropped once it is gone.
    """

    def __init__(self, widget: QWidget) -> None:
        self._is_alive = alive_check(widget)
        self._tasks: dict[str, LatestTask] = {}

    def start_task(
        self, subject: str, work: Callable[[], Any], done: Callable[[Any], None]
    ) -> None:
        """Start work in a worker; `done` gets its result, or a text why it failed."""
        if subject not in self._tasks:
            self._tasks[subject] = LatestTask(self._is_alive)
        # `done` twice: a text that says why work failed is a result like another.
        self._tasks[subject].start(lambda _: work(), done, done)

    def cancel_others(self, *kept: str) -> None:
        """Cancel all tasks, except those of the subjects `kept`."""
        for subject in self._tasks.keys() - set(kept):
            self._tasks[subject].cancel()


def alive_check(widget: QWidget) -> Callable[[], bool]:
    """Return a function that returns whether a widget is still there.

    It does not keep the widget alive.
    """
    # Two ways to go: Python may hold a widget that Qt has deleted, and the reverse.
    reference = weakref.ref(widget)

    def is_alive() -> bool:
        referent = reference()
        return referent is not None and bool(isalive(referent))  # type: ignore[no-untyped-call]

    return is_alive
