"""Asks a server for a part of one file, and learns of which version the part is."""

from __future__ import annotations

import email.utils
import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from napari_ngff.store.sources.http_request import (
    NOT_IN_FILE,
    ObjectRequest,
    open_answer,
    read_strong_tag,
    refuse_page,
    too_long_error,
)
from napari_ngff.store.sources.request_failure import error_code
from napari_ngff.store.sources.source import Blob, Revision

LARGEST_WHOLE = 64 << 20
"""Bytes of a file that is read as a whole where a server sends no parts of it."""

PART = 206
"""Answer of HTTP: a part."""

CONTENT_RANGE = re.compile(r"bytes\s+(\d+)-(\d+)/(\d+|\*)", re.ASCII)

BEHIND_END = "InvalidRange", "416"
"""Codes of S3: the object is shorter."""

MOVED = "PreconditionFailed", "412", *BEHIND_END
"""Codes of S3: the object is another one now, or shorter."""

SAME = "304", "NotModified"
"""Codes of S3: the object still has the ETag that is known."""


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


async def fetch_http_part(
    files: Any, guest_files: Any, request: ObjectRequest
) -> FilePart:
    """Ask a server of HTTP; see `FilePart`.

    Raises
    ------
    OSError
        Where the server sends other bytes than it was asked for.
    """
    async with open_answer(files, guest_files, request, {NOT_IN_FILE}) as answer:
        headers = answer.headers
        if headers.get("Content-Encoding", "identity").lower() != "identity":
            raise OSError("it compresses the file, whose parts then cannot be read")
        if answer.status != PART:
            whole = await _read_whole(answer, request)
            await refuse_page(files, guest_files, request, answer, whole.data)
            return whole
        found = CONTENT_RANGE.fullmatch(headers.get("Content-Range", "").strip())
        if found is None:
            raise OSError("it does not state which part of the file it sends")
        first, last, stated = int(found[1]), int(found[2]), found[3]
        # From the end: it is the last byte of the file.
        from_end = request.start is not None and request.start < 0
        size = last + 1 if stated == "*" and from_end else None
        size = size if stated == "*" else int(stated)
        version = FileVersion.of_headers(headers, size)
        if from_end:
            wrong, length = (
                last + 1 != size,
                min(last - first + 1, -(request.start or 0)),
            )
        else:
            stop = last + 1 if request.end is None else request.end
            stop = stop if size is None else min(stop, size)
            wrong, length = first != request.start, stop - first
        if wrong or length <= 0:
            raise OSError("it sends another part of the file than it was asked for")
        data = await _read_at_most(answer.content, length)
        if len(data) < length:
            raise ConnectionError("it broke off")
        await refuse_page(files, guest_files, request, answer, data)
        return FilePart(data, version)


async def _read_whole(answer: Any, request: ObjectRequest) -> FilePart:
    """Read an answer that is no part: the file, if it is small and nothing is known."""
    if answer.status == NOT_IN_FILE:
        size = answer.headers.get("Content-Range", "").rpartition("/")[2]
        known = int(size) if size.isascii() and size.isdigit() else None
        version = FileVersion.of_headers(answer.headers, known)
        return FilePart(b"", version, is_part=False)
    size = answer.content_length
    data = b""
    if request.start is not None and request.start >= 0:
        pass  # a part in the middle: the file is too large, or another one now
    elif size is None or size <= LARGEST_WHOLE:
        data = await _read_at_most(answer.content, LARGEST_WHOLE + 1)
        if size is None and len(data) <= LARGEST_WHOLE:
            size = len(data)
        if size is None:
            data = b""
        elif len(data) < size:
            raise ConnectionError("it broke off")
    version = FileVersion.of_headers(answer.headers, size)
    return FilePart(data, version, is_part=False)


async def _read_at_most(body: Any, length: int) -> bytes:
    """Read the body of an answer, and no more than that of an endless one."""
    data = bytearray()
    while len(data) < length:
        part = await body.read(min(length - len(data), 1 << 20))
        if not part:
            break
        data += part
    return bytes(data)


async def _call_s3(files: Any, name: str, request: ObjectRequest) -> Any:
    """Call the interface of S3 by the file system of s3fs.

    Not by that of fsspec: s3fs asks for the size of each object before it reads it
    (2025.12 and newer).
    """
    bucket, key, number = files.split_path(request.address)
    given = {
        "Range": request.bytes_wanted,
        "VersionId": number,
        "IfMatch": request.condition,
        "IfNoneMatch": request.known_tag,
    }
    wanted = {key: value for key, value in given.items() if value}
    return await files._call_s3(name, Bucket=bucket, Key=key, **wanted)


async def fetch_s3_part(files: Any, request: ObjectRequest) -> FilePart:
    """Ask a bucket of S3; see `FilePart`."""
    try:
        answer = await _call_s3(files, "get_object", request)
    except OSError as error:
        if error_code(error) in MOVED:
            return FilePart(b"", FileVersion(), is_part=False)
        raise
    with closing(answer["Body"]) as body:
        found = CONTENT_RANGE.fullmatch(answer.get("ContentRange", ""))
        if found is None or found[3] == "*":
            raise OSError("it does not state which part of the object it sends")
        size, first, start = int(found[3]), int(found[1]), request.start or 0
        expected = max(0, size + start) if start < 0 else start
        stop = size if request.end is None else min(request.end, size)
        if first != expected:
            raise OSError("it sends another part of the object than it was asked for")
        data = await _read_at_most(body, stop - first)
        if len(data) < stop - first:
            raise ConnectionError("it broke off")
    return FilePart(data, FileVersion(answer.get("ETag", ""), size=size))


async def fetch_s3_object(files: Any, request: ObjectRequest) -> Blob | None:
    """Read an object of S3 or a part of it, by one request.

    Returns
    -------
    Blob or None
        None where the object still has the ETag that is known. Empty behind its end.

    Raises
    ------
    CorruptDataError
        Where it is longer than allowed.
    """
    if request.start is not None and request.start == request.end:
        return Blob(b"")
    try:
        answer = await _call_s3(files, "get_object", request)
    except OSError as error:
        code = error_code(error)
        if request.known_tag and code in SAME:
            return None
        if request.start is not None and code in BEHIND_END:
            return Blob(b"")
        raise
    with closing(answer["Body"]) as body:
        if answer.get("ContentLength", 0) > request.most:
            raise too_long_error(request.url, request.most)
        size = answer.get("ContentRange", "").rpartition("/")[2]
        known = int(size) if size.isdigit() else answer["ContentLength"]
        revision = Revision.of_tag(answer.get("ETag", ""), known)
        return Blob(await body.read(), revision)


async def fetch_http_revision(
    files: Any, guest_files: Any, request: ObjectRequest
) -> Revision:
    """Ask a server of HTTP for the first byte of a file, and what it says about it."""
    # Not by HEAD, which signed addresses and some servers refuse.
    async with open_answer(files, guest_files, request, {NOT_IN_FILE}) as answer:
        headers = answer.headers
        size = headers.get("Content-Range", "").rpartition("/")[2]
        if answer.status == PART:
            await answer.content.read(1)  # else the connection cannot be used again
        elif answer.status != NOT_IN_FILE:
            size = headers.get("Content-Length", "")
        known = int(size) if size.isascii() and size.isdigit() else 0
        # A weak one may stand for other bytes, but then it changes all the same.
        tag = headers.get("ETag", "").strip() or headers.get("Last-Modified", "")
        return Revision(known, 0, tag=tag)


async def fetch_s3_revision(files: Any, request: ObjectRequest) -> Revision:
    """Ask a bucket of S3 for the revision of an object."""
    answer = await _call_s3(files, "head_object", replace(request, start=None))
    return Revision(answer["ContentLength"], 0, tag=answer.get("ETag", ""))


def _is_earlier(modified: str, now: str) -> bool:
    # Times of HTTP have seconds: within the same one the file may change again.
    try:
        times = [email.utils.parsedate_to_datetime(text) for text in (modified, now)]
        return times[0] < times[1]
    except (TypeError, ValueError):
        return False
