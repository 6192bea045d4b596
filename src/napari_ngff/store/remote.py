"""A hierarchy behind a URL, read through fsspec (extra ``remote``, or ``s3``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from napari_ngff.errors import AccessError, OMEZarrError, UnsupportedError
from napari_ngff.store.bridge import SourceStore

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from napari_ngff.metadata.model import Problem

__all__ = ["RemoteSource"]

TIMEOUT = 60.0
"""Seconds for one request; a stuck server must not hang the viewer for ever."""

FORBIDDEN = (401, 403)


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
        url = f"{self.name}/{key}{self._query}"
        end = None if length is None or start is None else start + length
        if start is not None and start < 0 and end == 0:
            end = None
        try:
            data: bytes = self._files.cat_file(url, start=start, end=end)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None
        except PermissionError as error:
            raise self._refused(key) from error
        except OSError:
            raise
        except Exception as error:
            # Every backend of fsspec raises its own kinds for a failed request.
            if getattr(error, "status", None) in FORBIDDEN:
                raise self._refused(key) from error
            msg = f"Reading {self.name}/{key} failed: {error!r}"
            raise OSError(msg) from error
        return _cut(data, start, length)

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

            timeout = aiohttp.ClientTimeout(total=TIMEOUT)
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


def _cut(data: bytes, start: int | None, length: int | None) -> bytes:
    """Take the asked part where a server ignored the range and sent the whole."""
    if length is None or start is None or len(data) <= length:
        return data
    if start >= 0:
        return data[start : start + length]
    stop = start + length
    return data[start : stop if stop < 0 else None]
