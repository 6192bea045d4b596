"""What is done about errors of any kind: they are shown or handed on, work goes on."""

from __future__ import annotations

from asyncio import CancelledError
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import psygnal
from napari.utils.notifications import notification_manager

from napari_ngff.errors import error_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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


def call_guarded(call: Callable[..., Any], *values: Any) -> None:
    """Call a function whose error must not stop what follows; it is shown."""
    try:
        call(*values)
    except Exception as error:  # noqa: BLE001  that is the purpose
        report_unexpected(error)


def call_all(*calls: Callable[[], Any]) -> None:
    """Call several functions, each whatever another one raises."""
    for call in calls:
        call_guarded(call)


def call_or(call: Callable[[], Any], instead: Callable[[], Any]) -> None:
    """Call a function; where it fails, show that, and call another one."""
    try:
        call()
    except Exception as error:  # noqa: BLE001  somebody waits for one of them
        report_unexpected(error)
        instead()


def catch_error(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """Do some work; return what it gives, and what it raises."""
    try:
        return work(), None
    except Exception as error:  # noqa: BLE001  codecs raise whatever they like
        return None, error
    except (CancelledError, SystemExit) as error:
        return None, RuntimeError(repr(error))


def attempt_work(work: Callable[[], Any]) -> Any:
    """Do some work; return what it gives, or in words why it failed.

    Whatever fails: who waits for the answer must get one, and show it.
    """
    result, error = catch_error(work)
    return result if error is None else error_text(error)


class GuardedSignal(psygnal.SignalInstance):
    """A signal each of whose listeners is called, whatever another one raises."""

    # psygnal (0.14 to 0.16) calls this for each emission; elsewhere the first error
    # stops all later listeners, and whoever emits.
    def _run_emit_loop_immediate(self) -> None:
        values = self._emit_queue.popleft()
        for listener in tuple(self._slots):
            # What it belongs to may be gone, and its place in the list not yet.
            if listener.dereference() is not None:
                call_guarded(listener.cb, values)


Signal = partial(psygnal.Signal, signal_instance_class=GuardedSignal)
"""Declares a `GuardedSignal` of a class, as `psygnal.Signal` does."""
