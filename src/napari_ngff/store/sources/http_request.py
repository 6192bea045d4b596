"""A request of HTTP, read as far as it is needed; credentials stay on one server."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import CorruptDataError
from napari_ngff.store.sources.source import Blob, Revision

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping

    from napari_ngff.store.sources.server_logins import AddressSecrets

REDIRECTS = (301, 302, 303, 307, 308)
MOST_REDIRECTS = 10

NOT_MODIFIED, NOT_FOUND, NOT_IN_FILE, FIRST_FAILURE = 304, 404, 416, 400
"""Answers of HTTP; 416: a part behind the end of the file."""

PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype|!--|html|head|body)", re.IGNORECASE)
"""How web pages begin. Chunks, documents and archives do not."""

PAGE_BEGINNING = 64
"""Bytes that show whether it is a page."""


class HttpAnswerError(OSError):
    """A server answered that it does not give what it was asked for.

    In place of aiohttp's errors, which quote the headers with the login: asyncio logs
    them.

    Parameters
    ----------
    status
        Number of the answer.
    message
        Its words, which may quote anything.
    login_kind
        The kind of login that it asks for, such as "basic" or "bearer"; "" for none.
    """

    def __init__(self, status: int, message: str = "", login_kind: str = "") -> None:
        super().__init__(status)
        self.status = status
        self.message = message
        self.login_kind = login_kind


class WebPageError(OSError):
    """A server sent a web page in place of what it was asked for.

    For a login, or for whatever the server does not have.
    """


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
    def address(self) -> str:
        """The address with its secrets."""
        return self.secrets.complete_address(self.url)

    @property
    def bytes_wanted(self) -> str:
        """The part that is wanted, as headers state it; "" for all."""
        if self.start is None or self.start < 0:
            return "" if self.start is None else f"bytes={self.start}"
        last = "" if self.end is None else self.end - 1
        return f"bytes={self.start}-{last}"

    @property
    def headers(self) -> dict[str, str]:
        """The headers of HTTP that ask for a part; {} for all."""
        given = {
            "Accept-Encoding": "identity" if self.as_stored else "",
            "If-Range": self.condition,
            "If-None-Match": self.known_tag,
            "Range": self.bytes_wanted,
        }
        return {name: value for name, value in given.items() if value}


def too_long_error(address: str, most: int) -> CorruptDataError:
    """Make the error of an answer that is longer than allowed."""
    return CorruptDataError(
        f"{address} has more than {most >> 20} MB, and is not read."
    )


async def fetch_object(
    files: Any, guest_files: Any, request: ObjectRequest
) -> Blob | None:
    """Read an answer; see `open_answer`.

    Returns
    -------
    Blob or None
        None where the object still has the ETag that is known. Empty behind its end.

    Raises
    ------
    CorruptDataError
        Where it is longer than allowed.
    WebPageError
        Where it is a web page.
    """
    if request.start is not None and request.start == request.end:
        return Blob(b"")
    async with open_answer(files, guest_files, request, {NOT_IN_FILE}) as answer:
        if answer.status == NOT_MODIFIED and request.known_tag:
            return None
        revision = Revision.of_tag(read_strong_tag(answer.headers))
        if answer.status == NOT_IN_FILE:
            return Blob(b"", revision)
        data = await _read_body(answer, request)
    await refuse_page(files, guest_files, request, answer, data)
    return Blob(bytes(data), revision)


async def refuse_page(
    files: Any,
    guest_files: Any,
    request: ObjectRequest,
    answer: Any,
    data: bytes | bytearray,
) -> None:
    """Raise `WebPageError` if bytes that a server sent are those of a web page."""
    if PAGE.match(data):
        raise WebPageError(request.url)
    # Some servers call all files pages, so that its beginning has to show it.
    stated = answer.headers.get("Content-Type", "").lower()
    if request.start and stated.startswith("text/html"):
        wanted = PAGE_BEGINNING
        beginning = replace(request, start=0, end=wanted, most=wanted, known_tag="")
        await fetch_object(files, guest_files, beginning)


def read_strong_tag(headers: Mapping[str, str]) -> str:
    """Read the ETag of an answer; "" for none."""
    tag = headers.get("ETag", "").strip()
    # A weak one stands for what looks the same, not for equal bytes (RFC 9110).
    return "" if tag.startswith("W/") else tag


@asynccontextmanager
async def open_answer(
    files: Any,
    guest_files: Any,
    request: ObjectRequest,
    allowed: Collection[int] = (),
) -> AsyncIterator[Any]:
    """Ask a server, and follow redirections.

    Parameters
    ----------
    files
        File system of fsspec with the options of the user: headers, cookies, logins.
    guest_files
        One without any, for other servers to which an answer leads.
    request
        What is asked for.
    allowed
        Answers of HTTP that are no failures.

    Raises
    ------
    FileNotFoundError, HttpAnswerError
        Where the server answers so.
    OSError
        Where redirections do not end, or lead out of HTTP.
    """
    import aiohttp

    try:
        async with _follow_answers(files, guest_files, request) as answer:
            if answer.status == NOT_FOUND:
                raise FileNotFoundError(request.url)
            if answer.status >= FIRST_FAILURE and answer.status not in allowed:
                asked = answer.headers.get("WWW-Authenticate", "").partition(" ")[0]
                reason = answer.reason or ""
                raise HttpAnswerError(answer.status, reason, asked.lower())
            yield answer
    except aiohttp.ClientResponseError as error:
        failure = HttpAnswerError(error.status, error.message)
    else:
        return
    raise failure


@asynccontextmanager
async def _follow_answers(
    files: Any, guest_files: Any, request: ObjectRequest
) -> AsyncIterator[Any]:
    """Follow redirections, to an answer that is none."""
    # As `HTTPFileSystem._cat_file` of fsspec, which has no limit of bytes, and whose
    # session follows redirections with all headers of the user.
    url = files.encode_url(request.url + request.secrets.query)
    settings = _own_settings(files, request)
    for _ in range(MOST_REDIRECTS):
        session = await files.set_session()
        async with session.get(url, **settings, allow_redirects=False) as answer:
            target = answer.headers.get("Location")
            if answer.status not in REDIRECTS or target is None:
                yield answer
                return
            following = answer.url.join(type(url)(target))
        if following.scheme not in ("http", "https"):
            raise OSError("it redirects to an address that does not start with http")
        settings.pop("params", None)  # of the first address
        if not _is_same_server(url, following):
            files, settings = guest_files, {"headers": request.headers}
        url = following
    raise OSError("it redirects without an end")


def _own_settings(files: Any, request: ObjectRequest) -> dict[str, Any]:
    """Collect the arguments of the first request, with the login."""
    settings = dict(files.kwargs)
    session = files.client_kwargs
    headers = {**settings.get("headers", {}), **request.headers}
    names = {name.lower() for name in (*headers, *session.get("headers", {}))}
    has_login = bool({"auth"} & {*settings, *session}) or "authorization" in names
    if request.secrets.authorization and not has_login:
        headers["Authorization"] = request.secrets.authorization
    return {**settings, "headers": headers}


def _is_same_server(url: Any, other: Any) -> bool:
    """Return whether a server that gets a login may get it again at another address."""
    if url.origin() == other.origin():
        return True
    # The same host, now encrypted.
    ports = (url.scheme, url.port), (other.scheme, other.port)
    return url.host == other.host and ports == (("http", 80), ("https", 443))


async def _read_body(answer: Any, request: ObjectRequest) -> bytearray:
    # Some servers ignore the range and send the whole object: stop after the range.
    start, end = request.start or 0, request.end
    needed = end if end is not None and start >= 0 else None
    data = bytearray()
    async for part in answer.content.iter_any():
        data += part
        if needed is not None and len(data) >= needed:
            break
        if len(data) > request.most:
            raise too_long_error(request.url, request.most)
    return data


def cut_part(blob: Blob, start: int | None, length: int | None) -> Blob:
    """Cut the wanted part out, where a server ignored the range and sent all."""
    if length is None or start is None or len(blob.data) <= length:
        return blob
    stop = start + length
    end = stop if start >= 0 or stop < 0 else None
    return Blob(blob.data[start:end], blob.revision)
