"""A hierarchy behind a URL, read through fsspec (extra ``remote``, or ``s3``)."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from napari_ngff.errors import (
    AccessError,
    CorruptDataError,
    OMEZarrError,
    ServerError,
    UnsupportedError,
)
from napari_ngff.store.limits import LARGEST_DOCUMENT, allowed_chunk, is_document

if TYPE_CHECKING:
    from napari_ngff.metadata.model import Problem

__all__ = ["RemoteSource", "resume", "stop"]

TIMEOUT = 20.0
"""Seconds without a byte; a stuck server must not hang the viewer, in whose main thread
napari reads."""

WHOLE = 60.0
"""Seconds for all of an object, tries that failed included; some servers send a byte
now and then."""

SECONDS_VARIABLE = "NAPARI_NGFF_SERVER_SECONDS"
"""Environment variable by which more time is allowed, for slow connections."""

LONGEST = 200
"""Letters of a reason that are shown."""

FORBIDDEN = (401, 403)

REFUSALS = (errno.EPERM, errno.EINVAL, errno.ENOSYS)
"""Numbers of errors by which s3fs reports that a bucket takes no objects."""

AT_MOST = 0.05
"""Seconds that the main thread waits for whether objects can be put."""

BUSY = (408, 425, 429, 500, 502, 503, 504)
"""Answers by which a server says that it may have another one in a moment."""

PAUSES = (0.2, 0.8)
"""Seconds before what was refused so, or broke off, is asked for once more."""

LATE = (
    "it was not complete after {:g} seconds (set the environment variable"
    f" {SECONDS_VARIABLE} to wait longer)"
)

_waiting: set[Future[bytes]] = set()
_lock = threading.Lock()
_stopped = threading.Event()


def stop() -> None:
    """Wait for no server any more: all that is being read fails, at once."""
    _stopped.set()
    with _lock:
        waiting = list(_waiting)
    for answer in waiting:
        answer.cancel()


def resume() -> None:
    """Read from servers again."""
    _stopped.clear()


class RemoteSource:
    """Read the objects below a URL of any scheme that fsspec knows.

    A query (``?token=...``, a signed prefix) goes with every request and is kept out
    of `name`, so that no message shows it.

    Raises
    ------
    UnsupportedError
        Where the packages for this scheme are not installed.
    """

    problems: tuple[Problem, ...] = ()

    def __init__(self, url: str, options: dict[str, Any] | None = None) -> None:
        parts = urlsplit(url)
        self.name = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._query = f"?{parts.query}" if parts.query else ""
        self._options = dict(options or {})
        self.files = _filesystem(parts.scheme, self._options)
        self._asking = threading.Lock()
        self._asked: Future[bool] | None = None

    @property
    def concurrency(self) -> int:
        """Enough requests in flight to hide the latency of one."""
        return 32

    @property
    def writable(self) -> bool:
        """Whether objects can be put: a bucket of S3 that lets this user do so.

        The main thread does not wait for the server: no answer yet counts as yes, and
        a save tells that it is no.
        """
        main = threading.current_thread() is threading.main_thread()
        with suppress(TimeoutError):
            return self.ask_writable().result(AT_MOST if main else None)
        return True

    def ask_writable(self) -> Future[bool]:
        """Ask whether objects can be put: once, in a thread."""
        with self._asking:
            if self._asked is None:
                self._asked = Future()
                arguments = (self._asked,)
                threading.Thread(
                    target=self._try_to_put, args=arguments, daemon=True
                ).start()
            return self._asked

    def _try_to_put(self, answer: Future[bool]) -> None:
        """Begin to put an object, and give that up."""
        bucket, _, below = self.name.partition("://")[2].partition("/")
        place = {"Bucket": bucket, "Key": f"{below}/zarr.json".lstrip("/")}
        writable = self.name.startswith("s3://")
        try:
            if writable:
                begun = self.files.call_s3("create_multipart_upload", **place)
                number = begun["UploadId"]
                self.files.call_s3("abort_multipart_upload", UploadId=number, **place)
        # Every backend of fsspec raises its own kinds for a failed request.
        except Exception as error:  # noqa: BLE001
            # A server that is busy for a moment must not make labels read-only for
            # the whole session: a save reports what is wrong.
            writable = not _is_refusal(error)
        answer.set_result(writable)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name + self._query, self._options)

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        """Read an object or a part of it; see `Source.get`."""
        end = None if length is None or start is None else start + length
        if start is not None and start < 0 and end == 0:
            end = None
        pauses = iter(PAUSES)
        seconds = _allowed_seconds()
        until = time.monotonic() + seconds
        while True:
            try:
                left = max(until - time.monotonic(), 0)
                return _cut(self._ask(key, start, end, left), start, length)
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                return None
            except CorruptDataError:
                raise
            # Every backend of fsspec raises its own kinds for a failed request.
            except Exception as error:
                if isinstance(error, PermissionError) or _status(error) in FORBIDDEN:
                    raise self._refused(key) from error
                pause = next(pauses, None) if _is_brief(error) else None
                if pause is None or _stopped.is_set():
                    late = time.monotonic() >= until
                    reason = LATE.format(seconds) if late else _reason(error)
                    if self._query:
                        reason = reason.replace(self._query, "")
                    raise ServerError(f"{self.name}/{key}", reason) from error
            _stopped.wait(pause)

    def _ask(
        self, key: str, start: int | None, end: int | None, seconds: float
    ) -> bytes:
        """Read bytes; gives up when all is stopped, or the time is over."""
        url = f"{self.name}/{key}{self._query}"
        if not self.files.async_impl:
            data: bytes = self.files.cat_file(url, start=start, end=end)
            return data
        if self.name.startswith("http"):
            most = LARGEST_DOCUMENT if is_document(key) else allowed_chunk()
            request = _fetch(self.files, url, start, end, most)
        else:
            request = self.files._cat_file(url, start=start, end=end)
        answer = asyncio.run_coroutine_threadsafe(request, self.files.loop)
        with _lock:
            _waiting.add(answer)
        try:
            if _stopped.is_set():
                answer.cancel()
            found: bytes = answer.result(seconds)
            return found
        finally:
            answer.cancel()
            with _lock:
                _waiting.discard(answer)

    def revision(self, key: str) -> None:
        """Tell nothing: it would take a request; see `Source.revision`."""

    def names(self, prefix: str) -> tuple[str, ...] | None:
        """Names directly below `prefix`; None for HTTP, which has no listing."""
        if self.name.startswith("http"):
            return None
        try:
            found = self.files.ls(f"{self.name}/{prefix}", detail=False)
        except FileNotFoundError:
            return ()
        return tuple(sorted(str(path).rstrip("/").rsplit("/", 1)[-1] for path in found))

    def _refused(self, key: str) -> OMEZarrError:
        return AccessError(
            f"The server refuses to give {self.name}/{key}. The address may need a"
            " login or a token, or may have expired."
        )


async def _fetch(
    files: Any, url: str, start: int | None, end: int | None, most: int
) -> bytes:
    """Read an answer of HTTP, as far as it is needed, and `most` bytes at most.

    Raises
    ------
    CorruptDataError
        Where it is longer.
    """
    settings = dict(files.kwargs)
    if start is not None or end is not None:
        if start == end:
            return b""
        limits = await files._process_limits(url, start, end)
        settings["headers"] = {**settings.get("headers", {}), "Range": limits}
    session = await files.set_session()
    async with session.get(files.encode_url(url), **settings) as answer:
        files._raise_not_found_for_status(answer, url)
        # Where it ignores the range, what is behind it need not come.
        needed = end if end is not None and (start or 0) >= 0 else None
        data = bytearray()
        async for part in answer.content.iter_any():
            data += part
            if needed is not None and len(data) >= needed:
                break
            if len(data) > most:
                msg = f"{url.partition('?')[0]} has more than {most >> 20} MB"
                raise CorruptDataError(f"{msg}, and is not read.")
    return bytes(data)


def _allowed_seconds() -> float:
    """Seconds that an object may take: see `SECONDS_VARIABLE`."""
    try:
        return float(os.environ.get(SECONDS_VARIABLE, ""))
    except ValueError:
        return WHOLE


def _filesystem(scheme: str, options: dict[str, Any]) -> Any:
    extra = "remote" if scheme in ("http", "https") else "s3"
    try:
        import fsspec

        if extra == "remote":
            import aiohttp

            timeout = aiohttp.ClientTimeout(
                total=None, sock_connect=TIMEOUT, sock_read=TIMEOUT
            )
            options = {"client_kwargs": {"timeout": timeout}, **options}
        return fsspec.filesystem(scheme, **options)
    except ImportError as error:
        msg = (
            f"Reading {scheme}:// addresses needs packages that are not installed"
            f" ({error}). Run: pip install 'napari-ngff[{extra}]'"
        )
        raise UnsupportedError(msg) from error
    except ValueError as error:
        msg = f"Addresses that start with {scheme}:// are not supported: {error}"
        raise UnsupportedError(msg) from error


def _status(error: Exception) -> int | None:
    """Give the number of an answer of HTTP; None for what is none."""
    status = getattr(error, "status", None)
    return status if isinstance(status, int) else None


def _is_brief(error: Exception) -> bool:
    """Tell whether the next answer may come at once, and be another."""
    if isinstance(error, TimeoutError | CancelledError):
        return False
    if _status(error) is not None:
        return _status(error) in BUSY
    if _is_unreachable(error):
        return False
    return "ClientError" in _kinds(error) or isinstance(error, ConnectionError)


def _is_refusal(error: Exception) -> bool:
    """Tell whether objects cannot be put; else the server has not answered."""
    if isinstance(error, OSError):
        lasting = PermissionError, FileNotFoundError
        return isinstance(error, lasting) or error.errno in REFUSALS
    # botocore: the connection broke off, or nobody answered.
    return not {"HTTPClientError", "ConnectionError"} & _kinds(error)


def _kinds(error: Exception) -> set[str]:
    """Name the classes of an error: aiohttp, which has its own, need not be there."""
    return {kind.__name__ for kind in type(error).__mro__}


def _is_unreachable(error: Exception) -> bool:
    """Tell whether no server was found; none will be in a moment."""
    refused = isinstance(error, ConnectionRefusedError)
    return refused or "ClientConnectorError" in _kinds(error)


def _reason(error: Exception) -> str:
    if isinstance(error, CancelledError):
        return "the window was closed"
    if _is_unreachable(error):
        return "the server cannot be reached; check the address and the network"
    if isinstance(error, TimeoutError):
        return f"there was no answer within {TIMEOUT:g} seconds"
    status = _status(error)
    text = str(error).rstrip(".") or repr(error)
    if status is not None:
        text = f"it answered {status} {getattr(error, 'message', '')}".rstrip()
    # Some errors quote all that a server sent.
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."


def _cut(data: bytes, start: int | None, length: int | None) -> bytes:
    """Take the asked part where a server ignored the range and sent the whole."""
    if length is None or start is None or len(data) <= length:
        return data
    if start >= 0:
        return data[start : start + length]
    stop = start + length
    return data[start : stop if stop < 0 else None]
