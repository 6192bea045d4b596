"""How servers are asked: by what, in which thread, and until when."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from napari_ngff.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from concurrent.futures import Future

    from napari_ngff.store.sources.file_part import ServerAccess
    from napari_ngff.store.sources.server_logins import AddressSecrets

Content = TypeVar("Content")

LONGEST_REQUEST = 60.0
"""Seconds for an object, repeated requests included.

A limit for the time without a byte is not enough: some servers send a byte now and
then.
"""

LATE_DOCUMENT = 5.0
"""Seconds for a document of a server that let this time pass: an image has some ten
documents, each of which would be waited for."""

SECONDS_VARIABLE = "NAPARI_NGFF_SERVER_SECONDS"
"""Environment variable that allows more time, for slow connections."""

SLOWEST_UPLOAD = 64e3
"""Bytes per second of an object that is written; 0.5 Mbit/s is the slowest line."""

LATE = (
    "it was not complete after {:g} seconds (set the environment variable"
    f" {SECONDS_VARIABLE} to wait longer)"
)


BUCKETS = ("s3", "gs", "az")
"""Schemes of addresses of buckets: of S3, Google and Azure."""

OTHER_SCHEME = (
    "Mount or download the folder; in Python, open_node() also takes any store of zarr,"
    " such as zarr.storage.FsspecStore."
)


def allowed_seconds(nbytes: int = 0) -> float:
    """Return the seconds that an object may take.

    Parameters
    ----------
    nbytes
        Bytes that are sent to the server; they take longer than an answer.
    """
    try:
        seconds = float(os.environ.get(SECONDS_VARIABLE, ""))
    except ValueError:
        seconds = LONGEST_REQUEST
    return seconds + nbytes // SLOWEST_UPLOAD


@cache
def _loop_of(_process: int) -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    run = loop.run_forever
    threading.Thread(target=run, name="napari-ngff-servers", daemon=True).start()
    return loop


def server_loop() -> asyncio.AbstractEventLoop:
    """Return the loop that asks servers; a process has its own, also after a fork."""
    return _loop_of(os.getpid())


def open_server(server: str, secrets: AddressSecrets, seconds: float) -> ServerAccess:
    """Return by what a server is asked.

    Parameters
    ----------
    server, secrets
        Scheme and host, or scheme and bucket; of the address.
    seconds
        Without a byte, before a request fails.

    Raises
    ------
    UnsupportedError
        Where the packages for this scheme are not installed, or there are none.
    """
    scheme = server.partition("://")[0]
    try:
        if scheme in ("http", "https"):
            from napari_ngff.store.sources.http_server import HttpServer

            return HttpServer(secrets, seconds)
        if scheme in BUCKETS:
            from napari_ngff.store.sources.object_store import open_bucket

            return open_bucket(server, secrets, seconds)
    except ImportError as error:
        extra = "s3" if scheme in BUCKETS else "remote"
        msg = (
            f"Reading {scheme}:// addresses needs packages that are not installed"
            f" ({error}). Run: pip install 'napari-ngff[{extra}]'"
        )
        raise UnsupportedError(msg) from error
    msg = f"Addresses that start with {scheme}:// are not supported."
    raise UnsupportedError(msg, remedy=OTHER_SCHEME)


_waiting: set[Future[Any]] = set()
_lock = threading.Lock()
stopped = threading.Event()
"""Set from `stop_reading` to `resume_reading`."""


def stop_reading() -> None:
    """Let all reads from servers fail at once, until `resume_reading`."""
    # When a window closes, no worker may keep the process alive for a minute.
    stopped.set()
    with _lock:
        waiting = list(_waiting)
    for answer in waiting:
        answer.cancel()


def resume_reading() -> None:
    """Allow reads from servers again."""
    stopped.clear()


class ReadScope:
    """What one task reads: it can be cancelled without the reads of others.

    Stores that are made within `active` belong to it, in whatever thread they read.

    Attributes
    ----------
    is_cancelled
        Whether all its reads fail from now on.
    answers
        Requests that wait; whoever changes them holds the lock of the module.
    """

    def __init__(self) -> None:
        self.is_cancelled = False
        self.answers: set[Future[Any]] = set()

    @classmethod
    def current(cls) -> ReadScope:
        """Return the one that is active in this thread, or a new one."""
        return getattr(_current, "scope", None) or cls()

    @property
    def is_over(self) -> bool:
        """Return whether its reads fail, or all do."""
        return stopped.is_set() or self.is_cancelled

    def cancel(self) -> None:
        """Let its reads fail at once."""
        self.is_cancelled = True
        with _lock:
            answers = list(self.answers)
        for answer in answers:
            answer.cancel()

    @contextmanager
    def active(self) -> Iterator[None]:
        """Take the stores that this thread makes meanwhile."""
        _current.scope = self
        try:
            yield
        finally:
            _current.scope = None

    def wait_for(
        self, reading: Coroutine[Any, Any, Content], seconds: float
    ) -> Content:
        """Wait for a server; fails after `stop_reading`, or too late."""
        answer = asyncio.run_coroutine_threadsafe(reading, server_loop())
        with _lock:
            _waiting.add(answer)
            self.answers.add(answer)
        try:
            # After it was added: else `stop_reading` might miss it in between.
            if self.is_over:
                answer.cancel()
            return answer.result(seconds)
        finally:
            answer.cancel()
            with _lock:
                _waiting.discard(answer)
                self.answers.discard(answer)


_current = threading.local()
"""Its ``scope`` is the `ReadScope` that is active in a thread."""
