"""A hierarchy behind a URL, read through fsspec (extra ``remote``, or ``s3``)."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from napari_ngff.errors import (
    AccessError,
    OMEZarrError,
    ServerError,
    UnsupportedError,
)
from napari_ngff.store.bridge import SourceStore

if TYPE_CHECKING:
    from concurrent.futures import Future

    from zarr.abc.store import Store

    from napari_ngff.metadata.model import Problem

__all__ = ["RemoteSource", "resume", "stop"]

TIMEOUT = 20.0
"""Seconds without a byte; a stuck server must not hang the viewer, in whose main thread
napari reads, while a large chunk may take as long as it comes in."""

FORBIDDEN = (401, 403)

BUSY = (408, 425, 429, 500, 502, 503, 504)
"""Answers by which a server says that it may have another one in a moment."""

PAUSES = (0.2, 0.8)
"""Seconds before what was refused so, or broke off, is asked for once more."""

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
        self._files = _filesystem(parts.scheme, self._options)

    @property
    def concurrency(self) -> int:
        """Enough requests in flight to hide the latency of one."""
        return 32

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
        while True:
            try:
                return _cut(self._ask(key, start, end), start, length)
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                return None
            # Every backend of fsspec raises its own kinds for a failed request.
            except Exception as error:
                if isinstance(error, PermissionError) or _status(error) in FORBIDDEN:
                    raise self._refused(key) from error
                pause = next(pauses, None) if _is_brief(error) else None
                if pause is None or _stopped.is_set():
                    raise ServerError(f"{self.name}/{key}", _reason(error)) from error
            _stopped.wait(pause)

    def _ask(self, key: str, start: int | None, end: int | None) -> bytes:
        """Read bytes; gives up when all is stopped."""
        url = f"{self.name}/{key}{self._query}"
        if not self._files.async_impl:
            data: bytes = self._files.cat_file(url, start=start, end=end)
            return data
        request = self._files._cat_file(url, start=start, end=end)
        answer = asyncio.run_coroutine_threadsafe(request, self._files.loop)
        with _lock:
            _waiting.add(answer)
        try:
            if _stopped.is_set():
                answer.cancel()
            found: bytes = answer.result()
            return found
        finally:
            answer.cancel()
            with _lock:
                _waiting.discard(answer)

    def names(self, prefix: str) -> tuple[str, ...] | None:
        """Names directly below `prefix`; None for HTTP, which has no listing."""
        if self.name.startswith("http"):
            return None
        try:
            found = self._files.ls(f"{self.name}/{prefix}", detail=False)
        except FileNotFoundError:
            return ()
        return tuple(sorted(str(path).rstrip("/").rsplit("/", 1)[-1] for path in found))

    def store(self) -> Store:
        """Open the same objects as a read-only zarr store."""
        return SourceStore(self)

    def _refused(self, key: str) -> OMEZarrError:
        return AccessError(
            f"The server refuses to give {self.name}/{key}. The address may need a"
            " login or a token, or may have expired."
        )


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
    # aiohttp's errors, by name: it need not be there. Who cannot be reached at all will
    # not be in a moment.
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "ClientConnectorError" in kinds or isinstance(error, ConnectionRefusedError):
        return False
    return "ClientError" in kinds or isinstance(error, ConnectionError)


def _reason(error: Exception) -> str:
    if isinstance(error, CancelledError):
        return "the window was closed"
    if isinstance(error, TimeoutError):
        return f"there was no answer within {TIMEOUT:g} seconds"
    status = _status(error)
    if status is not None:
        return f"it answered {status} {getattr(error, 'message', '')}".rstrip()
    return str(error).rstrip(".") or repr(error)


def _cut(data: bytes, start: int | None, length: int | None) -> bytes:
    """Take the asked part where a server ignored the range and sent the whole."""
    if length is None or start is None or len(data) <= length:
        return data
    if start >= 0:
        return data[start : start + length]
    stop = start + length
    return data[start : stop if stop < 0 else None]
