"""A hierarchy at an address of HTTP, or in a bucket (extra ``remote``, or ``s3``)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from typing_extensions import override

from napari_ngff.addresses import join_address, public_address
from napari_ngff.errors import (
    CHECK_ADDRESS,
    AccessError,
    CorruptDataError,
    LoginNeededError,
    NodeNotFoundError,
    NotOMEZarrError,
    OMEZarrError,
    ServerError,
)
from napari_ngff.store.limits import (
    LARGEST_DOCUMENT,
    allowed_chunk,
    documents_beside,
    is_document,
)
from napari_ngff.store.sources.blob import Blob, Revision, Traits
from napari_ngff.store.sources.file_part import (
    FilePart,
    FileVersion,
    ObjectRequest,
    ServerAccess,
    cut_part,
)
from napari_ngff.store.sources.kept_chunks import kept_chunks_of
from napari_ngff.store.sources.request_failure import (
    WebPageError,
    describe_failure,
    is_brief,
    is_locked,
    lacks_credentials,
    may_be_missing,
    refuses_objects,
)
from napari_ngff.store.sources.server_access import (
    LATE,
    LATE_DOCUMENT,
    ReadScope,
    allowed_seconds,
    open_server,
    server_loop,
    stopped,
)
from napari_ngff.store.sources.server_logins import (
    AddressSecrets,
    choose_secrets,
    note_refusal,
    server_of,
)
from napari_ngff.store.store import Store, Transaction
from napari_ngff.store.threads import MOST, ask_pool
from napari_ngff.store.write.bucket_transaction import ObjectBucket, ObjectTransaction

NOT_FOUND = "The server answered 404 Not Found for {}."
NOT_SHOWN = (
    "Check the address. If it is right, it is a folder without OME-Zarr metadata, and"
    " this server does not show folders."
)

TIMEOUT = 20.0
"""Seconds without a byte before a request fails.

napari reads in the main thread, so a server that does not answer stops the window."""

MAIN_THREAD_WAIT = 0.05
"""Seconds that the main thread waits to learn whether objects can be put."""

PAUSES = (0.2, 0.8)
"""Seconds before the second and the third request, where the one before was `BUSY` or
broke off."""

DOCUMENT_BEGINNING = 64
"""Bytes of a document that show whether a server gives it."""

Content = TypeVar("Content")


class RemoteStore(Store):
    """Read the objects below an address of HTTP, or in a bucket.

    A login (``me:secret@``) and a query (``?token=...``, a signed prefix) go with every
    request, and are kept out of `name`, so that no message and no file has them.

    Raises
    ------
    UnsupportedError
        Where the packages for this scheme are not installed.
    """

    name = ""
    # The chunks of a usual view of some layers, so that they take one latency.
    traits = Traits(MOST)

    def __init__(self, url: str, options: dict[str, Any] | None = None) -> None:
        self.name = public_address(url).rstrip("/")
        self.own_secrets = AddressSecrets.from_address(url, options)
        self._server = server_of(url)
        self._access = self._open_access(self._choose_secrets())
        self._scope = ReadScope.current()
        self._given: tuple[str, ...] = ()  # a document that came
        self._asked: dict[str, Future[Blob | None]] = {}
        self._answer_lock = threading.Lock()
        self._writable_answer: Future[bool] | None = None
        self._is_late = False

    def _choose_secrets(self) -> AddressSecrets:
        return choose_secrets(self.own_secrets, self._server)

    def _open_access(self, secrets: AddressSecrets) -> ServerAccess:
        # The scheme and the name of a bucket, whose letters' case counts.
        server = "/".join(self.name.split("/")[:3])
        return open_server(server, secrets, TIMEOUT)

    @property
    def access(self) -> ServerAccess:
        """By what the server is asked: with the login that it has now."""
        secrets = self._choose_secrets()
        if secrets != self._access.secrets:
            self._access = self._open_access(secrets)
            with self._answer_lock:
                self._writable_answer = None
        return self._access

    @property
    def writable(self) -> bool:
        """Return whether objects can be put: in a bucket where this user may write.

        Without an answer in time it is True; then a save reports the refusal.
        """
        main = threading.current_thread() is threading.main_thread()
        with suppress(TimeoutError):
            return self.ask_writable().result(MAIN_THREAD_WAIT if main else None)
        return True

    @override
    def why_not_written(self, path: str = "") -> str:
        return "" if self.writable else super().why_not_written(path)

    @override
    def begin(self) -> Transaction:
        if not self.writable:
            return super().begin()
        return ObjectTransaction(ObjectBucket(self, self.call))

    @override
    def put_new(self, key: str, parts: Iterable[bytes]) -> None:
        ObjectBucket(self, self.call).put_new(key, parts)

    @override
    def copy_new(self, source: Store, key: str, new_key: str) -> bool | None:
        # A bucket of the same name at another server is another one.
        if not isinstance(source, RemoteStore) or (
            source.access.place != self.access.place
        ):
            return None
        return ObjectBucket(self, self.call).copy_new(source, key, new_key)

    def ask_writable(self) -> Future[bool]:
        """Ask whether objects can be put: once, in a thread."""
        with self._answer_lock:
            if self._writable_answer is None:
                self._writable_answer = Future()
                arguments = (self._writable_answer,)
                threading.Thread(
                    target=self._try_to_put, args=arguments, daemon=True
                ).start()
            return self._writable_answer

    def _try_to_put(self, answer: Future[bool]) -> None:
        """Begin to put an object, and cancel it."""
        try:
            self.call(lambda server: server.try_to_put(f"{self.name}/zarr.json"))
            writable = True
        # Whatever it is, somebody waits for the answer.
        except Exception as error:  # noqa: BLE001
            # A server that is busy for a moment must not make labels read-only for
            # the whole session: a save reports what is wrong.
            writable = not refuses_objects(error)
        answer.set_result(writable)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process has no logins of servers.
        return _restore_source, (self.name, self.access.secrets)

    @override
    def read(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> Blob | None:
        asked = self._asked.pop(key, None) if start is None else None
        # One that has not begun is read here: all threads may wait for this one.
        if asked is not None and not asked.cancel():
            return asked.result()
        return self._read_object(key, start, length)

    @override
    @contextmanager
    def reading_ahead(self, keys: Sequence[str]) -> Iterator[None]:
        for key in keys:
            answer = ask_pool(MOST, partial(self._read_object, key))
            if answer is not None:
                self._asked[key] = answer
        try:
            yield
        finally:
            for key in keys:
                left = self._asked.pop(key, None)
                if left is not None:
                    left.cancel()

    def _read_object(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> Blob | None:
        end = None if length is None or start is None else start + length
        if start is not None and start < 0 and end == 0:
            end = None  # the last bytes, up to the end of the object

        def request(seconds: float) -> Blob:
            kept = self._request_kept(key, start, end, seconds)
            return cut_part(kept, start, length)

        return self._ask_patiently(key, request)

    def _request_kept(
        self, key: str, start: int | None, end: int | None, seconds: float
    ) -> Blob:
        """Read bytes, from this disk where the server says that they are the same."""
        chunks = kept_chunks_of(self.access, key)
        if chunks is None:
            return self._request_new(key, start, end, seconds)
        name = f"{self.name}/{key} {start} {end}"
        kept = chunks.load(name)
        tag = "" if kept is None else kept.tag
        answer = self._request_object(key, start, end, seconds, tag)
        if answer is None:
            assert kept is not None
            return kept
        # Asked again: a bucket may have wanted a login meanwhile.
        if chunks.may_keep(self.access, key):
            chunks.keep(name, answer)
        return answer

    def fetch_part(
        self, key: str, start: int, end: int | None, version: FileVersion | None = None
    ) -> FilePart | None:
        """Read a part of an object, and learn its version.

        Parameters
        ----------
        key
            Of the object.
        start, end
            First byte and the one behind the last; a negative start counts from the
            end.
        version
            Of which the part must be; None for any.

        Returns
        -------
        FilePart or None
            None where there is no such object.

        Raises
        ------
        AccessError, ServerError
            Where the server refuses, or fails.
        """
        return self._ask_patiently(
            key, lambda seconds: self._request_part(key, start, end, version, seconds)
        )

    def _ask_patiently(
        self, key: str, request: Callable[[float], Content]
    ) -> Content | None:
        """Ask again where a server fails for a moment; None for no such object."""
        seconds = allowed_seconds()
        if self._is_late and is_document(key):
            seconds = min(seconds, LATE_DOCUMENT)
        until = time.monotonic() + seconds
        try:
            answer = self._repeat_request(request, until)
            self._is_late = False
            return answer
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None
        except OMEZarrError:
            raise
        except Exception as error:  # noqa: BLE001  each library's own kinds
            if may_be_missing(error) and self._gives_others(key, until):
                return None
            self._is_late = time.monotonic() >= until
            late = LATE.format(seconds) if self._is_late else ""
            failure = self._failure_of(key, error, late)
        # Not as the cause: errors of other libraries quote addresses and headers, and
        # tracebacks show causes.
        raise failure

    def call(
        self, ask: Callable[[Any], Coroutine[Any, Any, Content]], nbytes: int = 0
    ) -> Content:
        """Ask a bucket by a method of `ObjectStore`, which raises its errors.

        Also after `stop_reading`: what is saved may be under way then.

        Parameters
        ----------
        ask
            Makes the coroutine of an `ObjectStore`.
        nbytes
            That are sent.
        """

        def send(seconds: float) -> Content:
            asking = ask(self.access)
            answer = asyncio.run_coroutine_threadsafe(asking, server_loop())
            try:
                return answer.result(seconds)
            finally:
                answer.cancel()

        until = time.monotonic() + allowed_seconds(nbytes)
        return self._repeat_request(send, until)

    def _repeat_request(
        self, request: Callable[[float], Content], until: float
    ) -> Content:
        """Send a request again while the server fails for a moment, up to a time."""
        for pause in (*PAUSES, None):
            try:
                return request(max(until - time.monotonic(), 0))
            except Exception as error:
                if pause is None or self._scope.is_over or not is_brief(error):
                    raise
            stopped.wait(pause)
        raise AssertionError

    def _gives_others(self, key: str, until: float) -> bool:
        """Return whether a server gives documents beside an object that it refuses.

        Asked each time: what is hidden when a login ends is not missing.
        """
        for name in (*self._given, *documents_beside(key)):
            left = max(until - time.monotonic(), 0)
            with suppress(Exception):  # each library's own kinds
                self._request_new(name, 0, DOCUMENT_BEGINNING, left)
                self._given = (name,)
                return True
        return False

    def _failure_of(self, key: str, error: Exception, late: str) -> OMEZarrError:
        """Describe a request that failed, without its secrets."""
        address = join_address(self.name, key)
        if isinstance(error, WebPageError):
            msg = f"The server sent a web page for {address}."
            return CorruptDataError(msg, remedy=CHECK_ADDRESS)
        if is_locked(error):
            asked = getattr(error, "login_kind", "")
            note_refusal(self._access.secrets, self._server, asked)
            msg = f"The server refuses to give {address}."
            return LoginNeededError(msg, self._server)
        reason = late or describe_failure(error, TIMEOUT)
        reason = self._access.secrets.hide_in(reason)
        if lacks_credentials(error):
            note_refusal(self._access.secrets)
            msg = f"There are no credentials for {address}: {reason}."
            return LoginNeededError(msg, self._server)
        return ServerError(address, reason)

    def _request_new(
        self, key: str, start: int | None, end: int | None, seconds: float
    ) -> Blob:
        """Read bytes; fails after `stop_reading`, or when the time is over."""
        answer = self._request_object(key, start, end, seconds)
        assert answer is not None  # no ETag is known
        return answer

    def _request_object(
        self,
        key: str,
        start: int | None,
        end: int | None,
        seconds: float,
        known_tag: str = "",
    ) -> Blob | None:
        """Read bytes and their ETag; None where the known one still holds."""
        most = LARGEST_DOCUMENT if is_document(key) else allowed_chunk()
        asked = self._make_request(key, start, end, most=most, known_tag=known_tag)
        return self._scope.wait_for(self.access.read(asked), seconds)

    def _make_request(
        self, key: str, start: int | None = None, end: int | None = None, **more: Any
    ) -> ObjectRequest:
        url = join_address(self.name, key)
        return ObjectRequest(url, self.access.secrets, start, end, **more)

    def _request_part(
        self,
        key: str,
        start: int,
        end: int | None,
        version: FileVersion | None,
        seconds: float,
    ) -> FilePart:
        """Read a part and its version; fails as `_request_new`."""
        condition = version.condition if version else ""
        asked = self._make_request(key, start, end, condition=condition, as_stored=True)
        return self._scope.wait_for(self.access.read_part(asked), seconds)

    def _request_revision(self, key: str, seconds: float) -> Revision:
        """Ask for a revision; fails as `_request_new`."""
        asked = self._make_request(key, as_stored=True)
        return self._scope.wait_for(self.access.ask_revision(asked), seconds)

    def has_folder(self, path: str) -> bool | None:
        """Return whether there is a folder; asked where it has no document of zarr.

        False from HTTP may also mean that the server shows no folders; None where it
        does not say.
        """
        try:
            names = self.list_names(path)
            if names is not None:
                return bool(names)
            # With a slash, to which some servers redirect.
            key = f"{path}/" if path else ""
            self._request_new(key, 0, 1, allowed_seconds())
        except FileNotFoundError:
            return False
        except WebPageError:
            return True  # a list of it
        except Exception as error:  # noqa: BLE001  each library's own kinds
            # It gives documents, and no list of a folder that is there.
            is_http = self.name.startswith("http")
            return True if is_locked(error) and is_http else None
        return True

    @override
    def explain_missing(self, path: str) -> OMEZarrError | None:
        where, is_there = join_address(self.name, path), self.has_folder(path)
        if is_there is None:
            msg = (
                f"There is no OME-Zarr metadata at {where}, and the server does not"
                " state whether there is a folder."
            )
            return NotOMEZarrError(msg, remedy="Check the address.")
        if is_there:
            return None
        if not self.name.startswith("http"):
            msg = f"There is nothing at {where}."
            return NodeNotFoundError(
                msg, remedy="Check the address; it may have moved."
            )
        return NodeNotFoundError(NOT_FOUND.format(where), remedy=NOT_SHOWN)

    @override
    def find_revision(self, key: str) -> None:
        """Return None: it would take a request; see `Store.find_revision`."""

    def ask_revision(self, key: str) -> Revision | None:
        """Ask the server for the revision of an object, by one request.

        It is its ETag, or the time of its last change where it has none. None where
        there is no such object, and where the server can be asked for neither.

        Raises
        ------
        AccessError, ServerError
            Where the server refuses, or fails.
        """
        return self._ask_patiently(
            key, lambda seconds: self._request_revision(key, seconds)
        )

    @override
    def list_names(self, prefix: str) -> tuple[str, ...] | None:
        """Names directly below `prefix`; None for HTTP, which has no listing."""
        if self.name.startswith("http"):
            return None

        def ask() -> list[str]:
            asked = self.access.list_names(f"{self.name}/{prefix}")
            return self._scope.wait_for(asked, allowed_seconds())

        return tuple(sorted(self._list(prefix, ask)))

    @override
    def list_keys(self, prefix: str) -> list[str]:
        if self.name.startswith("http"):
            return []
        address = f"{self.name}/{prefix}"
        # Also after `stop_reading`: a save may need it.
        ask = partial(self.call, lambda server: server.list_keys(address))
        # Below the hierarchy: the server lists those of the bucket.
        above = len(self.name.partition("://")[2].partition("/")[2])
        return [key[above:].lstrip("/") for key in self._list(prefix, ask)]

    def _list(self, prefix: str, ask: Callable[[], list[str]]) -> list[str]:
        """List what a bucket has; [] where there is no such folder."""
        try:
            return ask()
        except FileNotFoundError:
            return []
        except PermissionError:
            # Many logins may read and not list: another one is not asked for.
            failure: OMEZarrError = AccessError(
                f"The server refuses to list {self.name}/{prefix}.",
                remedy="Ask its owner for permission to list.",
            )
        except Exception as error:  # noqa: BLE001  each library's own kinds
            is_late = isinstance(error, TimeoutError)
            late = LATE.format(allowed_seconds()) if is_late else ""
            failure = self._failure_of(prefix, error, late)
        raise failure


def _restore_source(name: str, secrets: AddressSecrets) -> RemoteStore:
    """Make a source again, in another process."""
    source = RemoteStore(secrets.complete_address(name), dict(secrets.options))
    source.own_secrets = secrets  # the token is no part of an address
    return source
