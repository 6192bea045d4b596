"""The file systems of fsspec that read one server, with and without credentials.

Also how long a server may take for an object that is read or written.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from napari_ngff.errors import UnsupportedError
from napari_ngff.store.threads import MOST

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from napari_ngff.store.sources.server_logins import AddressSecrets

LONGEST_REQUEST = 60.0
"""Seconds for an object, repeated requests included.

A limit for the time without a byte is not enough: some servers send a byte now and
then. And the libraries that write objects wait without any limit for a server that
accepts a connection and says nothing: aiohttp for its leave to send ("100 Continue").
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


Content = TypeVar("Content")

_locked: set[tuple[str, str]] = set()
"""Buckets that are read with credentials alone, and the file systems with these."""


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """By what one server is asked.

    Attributes
    ----------
    secrets
        What its requests need.
    files
        A file system of fsspec with the credentials of the user: those of the address,
        else of the environment and its profiles.
    guest_files
        One without any: for other servers to which an answer of HTTP leads, and for
        public buckets; None where there is none.
    bucket
        Name of a bucket of S3; "" for other servers.
    """

    secrets: AddressSecrets
    files: Any
    guest_files: Any = None
    bucket: str = ""

    @property
    def is_public(self) -> bool:
        """Return whether anyone may read what it reads, as far as is known."""
        if self.bucket:
            mark = (self.bucket, str(self.files._fs_token))
            return self.guest_files is not None and mark not in _locked
        return not self.secrets and self.guest_files is not None

    @property
    def knows_versions(self) -> bool:
        """Return whether the server states which version of an object it gives."""
        return bool(self.bucket) or self.guest_files is not None

    async def read_bucket(
        self, read: Callable[[Any], Coroutine[Any, Any, Content]]
    ) -> Content:
        """Read as anyone may, and with credentials where that is refused.

        Wrong credentials of the environment do not make public data unreadable, and
        those that read them once are not left out again.

        Parameters
        ----------
        read
            By a file system.
        """
        if self.is_public:
            try:
                return await read(self.guest_files)
            except PermissionError:
                pass
        mark = (self.bucket, str(self.files._fs_token))
        try:
            content = await read(self.files)
        except FileNotFoundError:
            # Many buckets answer so only to those who may list them.
            _locked.add(mark)
            raise
        _locked.add(mark)
        return content

    def list_names(self, address: str) -> list[str]:
        """List a folder, as `read_bucket` reads."""
        limit = {"timeout": allowed_seconds()} if self.files.async_impl else {}
        if self.bucket and self.is_public:
            try:
                return list(self.guest_files.ls(address, detail=False, **limit))
            except PermissionError:
                pass
        return list(self.files.ls(address, detail=False, **limit))


def open_filesystem(scheme: str, options: dict[str, Any], seconds: float) -> Any:
    """Open the file system of fsspec for a scheme.

    Parameters
    ----------
    scheme, options
        Of the address; what fsspec is given for it.
    seconds
        Without a byte, before a request of HTTP fails.

    Raises
    ------
    UnsupportedError
        Where the packages for this scheme are not installed.
    """
    extra = "remote" if scheme in ("http", "https") else "s3"
    try:
        import fsspec

        if extra == "remote":
            import aiohttp

            # No total: `RemoteSource` waits as long as the user allows.
            timeout = aiohttp.ClientTimeout(
                total=None, sock_connect=seconds, sock_read=seconds
            )
            options = {"client_kwargs": {"timeout": timeout}, **options}
        elif scheme == "s3":
            # botocore would send 10 at once, and let the others wait (1.43).
            options = {"config_kwargs": {"max_pool_connections": MOST}, **options}
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
