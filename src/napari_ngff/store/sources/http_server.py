"""A server of HTTP, read as far as it is needed; credentials stay on one server.

Not by obstore, as buckets are: it follows redirections with the headers of the user,
states the query of the address (a token, a signature) as their referrer, and reads no
answer that does not state its length.
"""

from __future__ import annotations

import asyncio
import atexit
import re
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from napari_ngff.store.sources.blob import Blob, Revision
from napari_ngff.store.sources.file_part import (
    FilePart,
    FileVersion,
    ObjectRequest,
    ServerAccess,
    read_strong_tag,
    too_long_error,
)
from napari_ngff.store.sources.request_failure import HttpAnswerError, WebPageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from napari_ngff.store.sources.server_logins import AddressSecrets

REDIRECTS = (301, 302, 303, 307, 308)
MOST_REDIRECTS = 10

PART, NOT_MODIFIED, NOT_FOUND, NOT_IN_FILE, FIRST_FAILURE = 206, 304, 404, 416, 400
"""Answers of HTTP; 416: a part behind the end of the file."""

PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype|!--|html|head|body)", re.IGNORECASE)
"""How web pages begin. Chunks, documents and archives do not."""

PAGE_BEGINNING = 64
"""Bytes that show whether it is a page."""

LARGEST_WHOLE = 64 << 20
"""Bytes of a file that is read as a whole where a server sends no parts of it."""

CONTENT_RANGE = re.compile(r"bytes\s+(\d+)-(\d+)/(\d+|\*)", re.ASCII)

_sessions: dict[tuple[asyncio.AbstractEventLoop, str], Any] = {}
"""What all requests with the same options go by, since connections are used again."""


class HttpServer(ServerAccess):
    """A server of HTTP; see `ServerAccess`.

    Parameters
    ----------
    secrets
        Of an address. Their options are arguments of each request of aiohttp, such as
        ``headers``; ``client_kwargs`` are those of its session.
    seconds
        Without a byte, before a request fails.
    """

    def __init__(self, secrets: AddressSecrets, seconds: float) -> None:
        import aiohttp

        self.secrets = secrets
        self._settings = dict(secrets.options)
        self._client = dict(self._settings.pop("client_kwargs", None) or {})
        # No total: `RemoteStore` waits as long as the user allows.
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=seconds, sock_read=seconds
        )

    @property
    def is_public(self) -> bool:
        """Return whether anyone may read what it reads."""
        return not self.secrets

    async def read(self, request: ObjectRequest) -> Blob | None:
        """Read an object; empty behind its end. See `ServerAccess.read`."""
        if request.start is not None and request.start == request.end:
            return Blob(b"")
        async with self._open_answer(request, {NOT_IN_FILE}) as answer:
            if answer.status == NOT_MODIFIED and request.known_tag:
                return None
            revision = Revision.of_tag(read_strong_tag(answer.headers))
            if answer.status == NOT_IN_FILE:
                return Blob(b"", revision)
            data = await _read_body(answer, request)
        await self._refuse_page(request, answer, data)
        return Blob(bytes(data), revision)

    async def read_part(self, request: ObjectRequest) -> FilePart:
        """Read a part and its version.

        Raises
        ------
        OSError
            Where the server sends other bytes than it was asked for.
        """
        async with self._open_answer(request, {NOT_IN_FILE}) as answer:
            headers = answer.headers
            if headers.get("Content-Encoding", "identity").lower() != "identity":
                raise OSError("it compresses the file, whose parts then cannot be read")
            if answer.status != PART:
                part = await _read_whole(answer, request)
            else:
                part = await _read_stated(answer, request)
            await self._refuse_page(request, answer, part.data)
            return part

    async def ask_revision(self, request: ObjectRequest) -> Revision:
        """Ask for the first byte of a file, and what the server says about it."""
        # Not by HEAD, which signed addresses and some servers refuse.
        request = replace(request, start=0, end=1)
        async with self._open_answer(request, {NOT_IN_FILE}) as answer:
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

    async def _refuse_page(
        self, request: ObjectRequest, answer: Any, data: bytes | bytearray
    ) -> None:
        """Raise `WebPageError` if bytes that a server sent are those of a web page."""
        if PAGE.match(data):
            raise WebPageError(request.url)
        # Some servers call all files pages, so that its beginning has to show it.
        stated = answer.headers.get("Content-Type", "").lower()
        if request.start and stated.startswith("text/html"):
            wanted = PAGE_BEGINNING
            beginning = replace(request, start=0, end=wanted, most=wanted, known_tag="")
            await self.read(beginning)

    @asynccontextmanager
    async def _open_answer(
        self, request: ObjectRequest, allowed: Collection[int] = ()
    ) -> AsyncIterator[Any]:
        """Ask, and follow redirections.

        Parameters
        ----------
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
            async with self._follow_answers(request) as answer:
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
    async def _follow_answers(self, request: ObjectRequest) -> AsyncIterator[Any]:
        """Follow redirections, to an answer that is none."""
        # aiohttp would follow them with all headers of the user.
        url: Any = request.url + request.secrets.query
        client, settings = self._client, self._own_settings(request)
        for _ in range(MOST_REDIRECTS):
            session = _open_session({"timeout": self._timeout, **client})
            asking = session.get(url, **settings, allow_redirects=False)
            async with asking as answer:
                target = answer.headers.get("Location")
                if answer.status not in REDIRECTS or target is None:
                    yield answer
                    return
                url, kind = answer.url, type(answer.url)
                following = url.join(kind(target))
            if following.scheme not in ("http", "https"):
                raise OSError(
                    "it redirects to an address that does not start with http"
                )
            settings.pop("params", None)  # of the first address
            if not _is_same_server(url, following):
                client, settings = {}, {"headers": request.headers}
            url = following
        raise OSError("it redirects without an end")

    def _own_settings(self, request: ObjectRequest) -> dict[str, Any]:
        """Collect the arguments of the first request, with the login."""
        settings, client = self._settings, self._client
        headers = {**settings.get("headers", {}), **request.headers}
        names = {name.lower() for name in (*headers, *client.get("headers", {}))}
        has_login = bool({"auth"} & {*settings, *client}) or "authorization" in names
        if request.secrets.authorization and not has_login:
            headers["Authorization"] = request.secrets.authorization
        return {**settings, "headers": headers}


def _open_session(options: dict[str, Any]) -> Any:
    """Return the session with these options; called in the loop of the servers."""
    import aiohttp

    key = asyncio.get_running_loop(), str(options)
    if key not in _sessions:
        _sessions[key] = aiohttp.ClientSession(**options)
    return _sessions[key]


@atexit.register
def _close_sessions() -> None:
    # Sessions that are left open are reported when the interpreter has ended.
    for (loop, _), session in _sessions.items():
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(session.close(), loop).result(1)


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


async def _read_stated(answer: Any, request: ObjectRequest) -> FilePart:
    """Read an answer that states which part it is, and compare it with the request."""
    headers = answer.headers
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
        wrong, length = last + 1 != size, min(last - first + 1, -(request.start or 0))
    else:
        stop = last + 1 if request.end is None else request.end
        stop = stop if size is None else min(stop, size)
        wrong, length = first != request.start, stop - first
    if wrong or length <= 0:
        raise OSError("it sends another part of the file than it was asked for")
    data = await _read_at_most(answer.content, length)
    if len(data) < length:
        raise ConnectionError("it broke off")
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
