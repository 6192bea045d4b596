"""Lets libraries decode in another process, which ends where it takes too much memory.

A chunk of 34 bytes can take 3 GB where a library decodes it. On Linux the kernel gives
the process no more than it may take; elsewhere, and for files in memory, this process
looks at it. It opens no files: through pipes it asks for the objects that it needs, and
sends what it has read.
"""

from __future__ import annotations

import atexit
import importlib
import math
import os
import pickle
import subprocess
import sys
import threading
from contextlib import suppress
from time import monotonic, sleep
from typing import IO, TYPE_CHECKING, Any

import psutil
from typing_extensions import override

from napari_ngff.errors import CorruptDataError, OMEZarrError
from napari_ngff.store.arrays.stored_objects import read_bounded
from napari_ngff.store.limits import size_text
from napari_ngff.store.sources.blob import Blob
from napari_ngff.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MARGIN = 96 << 20
"""Bytes of memory that any call may take."""

SECONDS = 60.0
"""That a call may take without asking for an object."""

KEPT = 256 << 20
"""Bytes of memory that a process may have while it waits for the next call."""

UNUSED = 64 << 20
"""Bytes that the kernel gives besides: libraries reserve more than they use."""

ENVIRONMENT = {"OMP_NUM_THREADS": "2", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Against reserving much: a stack for each thread, and 1 GB for pyarrow."""

STACK = 1 << 20
"""Bytes of the stack of a thread; zarr-python starts up to 32."""

PAUSE, REST = 0.002, 0.2
"""Seconds between two looks at the memory of a process that works, or rests."""

MOST = 2
"""Processes at the same time."""

READY, ASK, DONE, FAILED, EXCEEDED = "ready", "ask", "done", "failed", "exceeded"

NAMES = -1
"""In place of a length, asks for the names below a key."""


class ExcessError(CorruptDataError):
    """A process was ended, since it took too much memory or time."""


_idle: list[_Process] = []
_turns = threading.BoundedSemaphore(MOST)


def call_bounded(
    work: Callable[..., Any],
    source: Store,
    arguments: tuple[Any, ...],
    most: int,
    libraries: tuple[str, ...],
    known: Mapping[str, bytes | None] | None = None,
) -> Any:
    """Call a function in another process; return what it returns.

    Parameters
    ----------
    work
        A function of a module; called with a source and `arguments`.
    source
        What it reads.
    most
        Bytes of memory that it may take, besides `MARGIN`.
    libraries
        Modules to import first, whose memory does not count.
    known
        Objects of `source` that need not be read again, by their keys.

    Raises
    ------
    CorruptDataError
        Where the function fails.
    ExcessError
        Where it takes more memory or time than it may.
    Exception
        Of `source`.
    """
    with _turns:
        try:
            process = _idle.pop()
        except IndexError:
            process = _Process()
        try:
            value = process.call(work, source, arguments, most, libraries, known)
        # Whatever it is: the process waits for an answer, or has ended.
        except BaseException:
            process.end()
            raise
        # What took much memory may hold it.
        if process.used() < KEPT:
            _idle.append(process)
        else:
            process.end()
    if isinstance(value, Exception):
        raise value
    return value


@atexit.register
def _end_idle() -> None:
    while _idle:
        _idle.pop().end()


if hasattr(os, "register_at_fork"):
    # A copy of this process must not use its pipes.
    os.register_at_fork(after_in_child=_idle.clear)


class _Process:
    """A process that decodes, as this one sees it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            # -P: modules in the current folder are not imported.
            [sys.executable, "-P", "-W", "ignore", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | ENVIRONMENT,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        self._measured = psutil.Process(self._process.pid)
        self._works = threading.Event()
        self._most, self._asked = math.inf, 0.0
        self._excess = ""
        threading.Thread(target=self._watch, daemon=True).start()

    def end(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.communicate()

    def call(
        self,
        work: Callable[..., Any],
        source: Store,
        arguments: tuple[Any, ...],
        most: int,
        libraries: tuple[str, ...],
        known: Mapping[str, bytes | None] | None,
    ) -> Any:
        """Call a function there; return what it returns, or the error."""
        self._most, self._asked = math.inf, monotonic()
        self._works.set()
        most += MARGIN
        self._send((work, source.name, arguments, most, libraries, known or {}))
        value = self._answer_questions(source, most)
        # The limit stays: after a failure, threads of the library may go on.
        self._works.clear()
        return value

    def used(self) -> int:
        """Return how many bytes of memory it has."""
        with suppress(psutil.Error):
            return int(self._measured.memory_info().rss)
        return 0  # it has ended

    def _answer_questions(self, source: Store, most: int) -> Any:
        failure: Exception | None = None
        while True:
            kind, value = self._receive()
            if kind == READY:
                self._most = self.used() + most
            elif kind == ASK:
                try:
                    self._send((_answer_question(source, most, *value), ""))
                except Exception as error:  # noqa: BLE001 - it is raised in the end
                    failure = error
                    self._send((None, str(error)))
            elif kind == EXCEEDED:
                taken = f"more than {size_text(most)} of memory"
                raise ExcessError(f"decoding it takes {taken}")
            else:
                return failure if kind == FAILED and failure else value

    def _watch(self) -> None:
        """End the process if it takes too much memory or time."""
        while self._process.poll() is None:
            if self.used() > self._most:
                self._excess = f"more than {size_text(self._most)} of memory"
            elif self._works.wait(REST) and monotonic() - self._asked > SECONDS:
                self._excess = f"more than {SECONDS:.0f} seconds"
            if self._excess:
                self._process.kill()
                return
            sleep(PAUSE)

    def _send(self, message: Any) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended, as is noticed next
            pickle.dump(message, self._process.stdin)
            self._process.stdin.flush()

    def _receive(self) -> tuple[str, Any]:
        assert self._process.stdout is not None
        try:
            message: tuple[str, Any] = pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            taken = self._excess or "a process with it"
            raise ExcessError(f"decoding it takes {taken}") from error
        self._asked = monotonic()
        return message


def _answer_question(
    source: Store, most: int, key: str, start: int | None, length: int | None
) -> Any:
    """Read what a process asks for; with a length of -1, the names below a key."""
    if length == NAMES:
        return source.list_names(key)
    if start is None:
        blob = read_bounded(source, key, most)
        return None if blob is None else blob.data
    return source.get(key, start, length)


class _AskedStore(Store):
    """In the other process: a source whose objects are asked for, during one call."""

    name = ""

    def __init__(
        self, answers: IO[bytes], name: str, known: Mapping[str, bytes | None]
    ) -> None:
        self.name = name
        self._answers = answers
        self._known = known
        self._is_open = True
        self._turn = threading.Lock()

    @override
    def read(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> Blob | None:
        known = key in self._known
        data = self._known[key] if known else self._ask(key, start, length)
        return None if data is None else Blob(data)

    @override
    def find_revision(self, key: str) -> None:
        """Return None: the process that was asked compares them."""

    @override
    def list_names(self, prefix: str) -> tuple[str, ...] | None:
        names: tuple[str, ...] | None = self._ask(prefix, None, NAMES)
        return names

    def _ask(self, *question: Any) -> Any:
        # zarr-python reads in threads, of which some go on after a failure.
        with self._turn:
            if not self._is_open:
                raise RuntimeError("the call has ended")
            self.send(ASK, question)
            value, error = pickle.load(sys.stdin.buffer)
        if error:
            raise RuntimeError(error)
        return value

    def give_result(self, kind: str, value: Any) -> None:
        """Send the result of the call; nothing can be asked for any more."""
        with self._turn:
            self._is_open = False
            self.send(kind, value)

    def send(self, kind: str, value: Any) -> None:
        pickle.dump((kind, value), self._answers)
        self._answers.flush()


def _serve() -> None:
    """Call the functions that come through the standard input, until it ends."""
    threading.stack_size(STACK)
    # What libraries print must not come between the messages.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with suppress(EOFError, OSError):
        while True:
            _serve_call(answers, *pickle.load(sys.stdin.buffer))


def _serve_call(
    answers: IO[bytes],
    work: Callable[..., Any],
    name: str,
    arguments: tuple[Any, ...],
    most: int,
    libraries: tuple[str, ...],
    known: Mapping[str, bytes | None],
) -> None:
    source = _AskedStore(answers, name, known)
    _limit_memory(None)
    try:
        for library in libraries:
            importlib.import_module(library)
        _limit_memory(most)
        source.send(READY, None)
        kind, value = DONE, work(source, *arguments)
    except OMEZarrError as error:
        kind, value = FAILED, error
    except MemoryError:
        kind, value = EXCEEDED, None
    # Whatever it is: who waits for it must know.
    except Exception as error:  # noqa: BLE001
        kind, value = FAILED, CorruptDataError(f"{type(error).__name__}: {error}")
    source.give_result(kind, value)


def _limit_memory(more: int | None) -> None:
    """Let the kernel refuse memory beyond what there is and `more`; None for no limit.

    Its limit of data is of all private memory that can be written.
    """
    if sys.platform != "linux":
        return
    import resource

    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    most = hard
    if more is not None:
        most = psutil.Process().memory_info().data + more + UNUSED
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


if __name__ == "__main__":
    _serve()
