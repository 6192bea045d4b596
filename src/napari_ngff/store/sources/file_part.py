"""What a server is asked for, and what it sends: bytes, and their version."""

from __future__ import annotations

import email.utils
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ngff.errors import CorruptDataError
from napari_ngff.store.sources.blob import Blob, Revision

if TYPE_CHECKING:
    from napari_ngff.store.sources.server_logins import AddressSecrets


@dataclass(frozen=True, slots=True)
class ObjectRequest:
    """What is asked of a server.

    Attributes
    ----------
    url
        Without a query and a login.
    secrets
        With these.
    start, end
        First byte and the one behind the last; a negative start counts from the end.
    most
        Bytes that are read at most.
    condition
        Of which version a part must be: an ETag or, by HTTP, a time; "" for any.
    as_stored
        Whether the server must not compress it, as it does with a whole document.
    known_tag
        The ETag of what is known already, and need not be sent again; "" for nothing.
    """

    url: str
    secrets: AddressSecrets
    start: int | None = None
    end: int | None = None
    most: int = 0
    condition: str = ""
    as_stored: bool = False
    known_tag: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """The headers of HTTP that ask for a part; {} for all."""
        wanted = "" if self.start is None else f"bytes={self.start}"
        if self.start is not None and self.start >= 0:
            wanted = f"{wanted}-{'' if self.end is None else self.end - 1}"
        given = {
            "Accept-Encoding": "identity" if self.as_stored else "",
            "If-Range": self.condition,
            "If-None-Match": self.known_tag,
            "Range": wanted,
        }
        return {name: value for name, value in given.items() if value}


@dataclass(frozen=True, slots=True)
class FileVersion:
    """What a server says about the version of a file.

    Attributes
    ----------
    tag
        Its ETag; "" for none, or one that may stand for different bytes.
    modified
        Time of its last change; "" for none.
    size
        In bytes; None where the server does not say.
    is_old
        Whether that time is so long ago that the file cannot have changed again in the
        same second.
    """

    tag: str = ""
    modified: str = ""
    size: int | None = None
    is_old: bool = False

    @property
    def condition(self) -> str:
        """What a request states to get a part of this version alone; "" for nothing."""
        return self.tag or (self.modified if self.is_old else "")

    def may_be(self, other: FileVersion) -> bool:
        """Return whether another answer may be of the same version."""
        if None not in (self.size, other.size) and self.size != other.size:
            return False
        # Answers with a part need not repeat both.
        if self.tag and other.tag:
            return self.tag == other.tag
        return self.modified == other.modified or not (self.modified and other.modified)

    @classmethod
    def of_headers(cls, headers: Mapping[str, str], size: int | None) -> FileVersion:
        """Read the headers of an answer of HTTP."""
        tag = read_strong_tag(headers)
        modified, now = headers.get("Last-Modified", ""), headers.get("Date", "")
        return cls(tag, modified, size, _is_earlier(modified, now))


@dataclass(frozen=True, slots=True)
class FilePart:
    """Bytes of a file as a server sent them.

    Attributes
    ----------
    data
        The bytes.
    version
        Of the file.
    is_part
        Whether it is the part that was asked for. Else it is the whole file, or
        nothing: of a file too large for that, or of another version.
    """

    data: bytes
    version: FileVersion
    is_part: bool = True


class ServerAccess(ABC):
    """By what one server is asked; its coroutines run in the loop of the servers.

    Attributes
    ----------
    secrets
        What its requests need.
    """

    secrets: AddressSecrets

    @property
    @abstractmethod
    def is_public(self) -> bool:
        """Return whether anyone may read what it reads, as far as is known."""

    @property
    def place(self) -> str:
        """Where a bucket is: one of the same name elsewhere is another; "" for none."""
        return ""

    @abstractmethod
    async def read(self, request: ObjectRequest) -> Blob | None:
        """Read an object or a part of it.

        Returns
        -------
        Blob or None
            None where the object still has the ETag that is known. Empty behind its
            end.

        Raises
        ------
        CorruptDataError
            Where it is longer than allowed.
        FileNotFoundError
            Where there is no such object.
        OSError
            Where the server refuses, fails, or sends a web page.
        """

    @abstractmethod
    async def read_part(self, request: ObjectRequest) -> FilePart:
        """Read a part and the version that it is of; see `FilePart`."""

    @abstractmethod
    async def ask_revision(self, request: ObjectRequest) -> Revision:
        """Ask for the revision of an object."""

    async def list_names(self, folder: str) -> list[str]:
        """List what is directly in a folder, by names."""
        raise NotImplementedError

    async def list_keys(self, folder: str) -> list[str]:
        """List the keys in the bucket of all objects below a folder, at any depth."""
        raise NotImplementedError

    async def try_to_put(self, address: str) -> None:
        """Try whether an object may be put, and leave none.

        Raises
        ------
        OSError
            Where the server refuses, or fails.
        """
        raise PermissionError(address)


def read_strong_tag(headers: Mapping[str, str]) -> str:
    """Read the ETag of an answer; "" for none."""
    tag = headers.get("ETag", "").strip()
    # A weak one stands for what looks the same, not for equal bytes (RFC 9110).
    return "" if tag.startswith("W/") else tag


def too_long_error(address: str, most: int) -> CorruptDataError:
    """Make the error of an answer that is longer than allowed."""
    return CorruptDataError(
        f"{address} has more than {most >> 20} MB, and is not read."
    )


def cut_part(blob: Blob, start: int | None, length: int | None) -> Blob:
    """Cut the wanted part out, where a server ignored the range and sent all."""
    if length is None or start is None or len(blob.data) <= length:
        return blob
    stop = start + length
    end = stop if start >= 0 or stop < 0 else None
    return Blob(blob.data[start:end], blob.revision)


def _is_earlier(modified: str, now: str) -> bool:
    # Times of HTTP have seconds: within the same one the file may change again.
    try:
        times = [email.utils.parsedate_to_datetime(text) for text in (modified, now)]
        return times[0] < times[1]
    except (TypeError, ValueError):
        return False
