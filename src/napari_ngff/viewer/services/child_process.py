"""Does long work in a process of its own, for a program that has a window.

Threads share Python's lock: while two of them encode chunks, a window waits for it up
to some 200 ms, again and again. A process does not hold up another one.

The work, its steps and its result are pickled, through pipes: so are the secrets of an
address, which therefore are on no disk and in no command line. The process stops when
its input ends, so it never outlives the program.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from napari_ngff.errors import OMEZarrError, error_text

PAUSE = 0.2
"""Seconds between two steps that are reported."""

GRACE = 10.0
"""Seconds in which a process that was asked to stop may finish a piece of work."""

LOWER = 10
"""Steps of priority below the window."""

STEP, DONE, FAILED = "step", "done", "failed"


def run_in_child(
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
    follow: Callable[[Any], None],
    grace: float = GRACE,
) -> Any:
    """Call a function in a new process; return what it returns.

    Parameters
    ----------
    work
        A function of a module; called with `arguments` and a function that it has to
        call often with its step, a value that can be pickled.
    follow
        Called some times a second with the newest step, None before the first. An error
        that it raises stops the process, and is raised here when that has ended.
    grace
        Seconds in which the process may finish something; then it is killed.

    Raises
    ------
    OMEZarrError
        Where the process ended without an answer.
    Exception
        Of the work.
    """
    # At its end, whatever happened: closes the input, which asks the process to stop.
    with subprocess.Popen(
        # -P: modules in the current folder are not imported.
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with suppress(BrokenPipeError):  # it has ended, as is noticed below
                pickle.dump((work, arguments), process.stdin)
                process.stdin.flush()
            kind, value = _read_message(process.stdout)
            while kind == STEP:
                follow(value)
                kind, value = _read_message(process.stdout)
        finally:
            try:
                process.communicate(timeout=grace)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
    if isinstance(value, Exception):
        raise value
    return value


def _read_message(stream: IO[bytes]) -> tuple[str, Any]:
    try:
        message: tuple[str, Any] = pickle.load(stream)
    except (EOFError, pickle.UnpicklingError) as error:
        msg = "The process that did the work has ended unexpectedly."
        raise OMEZarrError(msg, remedy="Start it again.") from error
    return message


def _portable(error: Exception) -> Exception:
    """Return an error that another process can read."""
    try:
        pickle.loads(pickle.dumps(error))
    # Errors of other packages may need anything to be made.
    except Exception:  # noqa: BLE001
        return OMEZarrError(error_text(error))
    return error


def _serve() -> None:
    """Do the work that comes through the standard input."""
    # What libraries print must not come between the messages.
    messages = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    if hasattr(os, "nice"):
        os.nice(LOWER)
    work, arguments = pickle.load(sys.stdin.buffer)
    turn, handle = threading.Lock(), sys.stdin.fileno()
    stop, ended = threading.Event(), threading.Event()
    newest: Any = None

    def follow(step: Any) -> None:
        nonlocal newest
        if stop.is_set():
            raise InterruptedError("It was cancelled.")
        newest = step

    def watch_input() -> None:
        # Not by Python's stream, whose lock would be held at the end of the process.
        os.read(handle, 1)
        stop.set()

    def report_steps() -> None:
        # Again and again, also the same one: who reads them may want to stop.
        while not ended.wait(PAUSE):
            send(STEP, newest)

    def send(kind: str, value: Any) -> None:
        with turn, suppress(BrokenPipeError):
            pickle.dump((kind, value), messages)
            messages.flush()

    for watch in (watch_input, report_steps):
        threading.Thread(target=watch, daemon=True).start()
    try:
        kind, value = DONE, work(*arguments, follow)
    # Whatever it is: who waits for it must know.
    except Exception as error:  # noqa: BLE001
        kind, value = FAILED, _portable(error)
    ended.set()
    send(kind, value)


if __name__ == "__main__":
    _serve()
