"""What is done about an error that nobody awaits: it is shown, and work goes on."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import psygnal
from napari.utils.notifications import notification_manager

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["GuardedSignal", "Signal", "going_on", "report_unexpected"]


def report_unexpected(error: BaseException) -> None:
    """Show an error with its traceback, as napari does; from any thread."""
    notification_manager.receive_error(type(error), error, error.__traceback__)


@contextmanager
def going_on() -> Iterator[None]:
    """Do something whose error must not stop what follows; it is shown."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  that is the purpose
        report_unexpected(error)


class GuardedSignal(psygnal.SignalInstance):
    """A signal each of whose listeners is called, whatever another one raises."""

    # psygnal (0.14 to 0.16) calls this for each emission; elsewhere the first error
    # stops all later listeners, and whoever emits.
    def _run_emit_loop_immediate(self) -> None:
        values = self._emit_queue.popleft()
        for listener in tuple(self._slots):
            with going_on():
                listener.cb(values)


Signal = partial(psygnal.Signal, signal_instance_class=GuardedSignal)
"""Declares a `GuardedSignal` of a class, as `psygnal.Signal` does."""
