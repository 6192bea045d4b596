"""Changes an object store (S3): objects wait on this computer, and are put as a whole.

`ObjectTransaction.commit` puts chunks first, then the documents that name them, and the
list of labels last, so that no reader finds a document whose chunks are missing. Each
is put on the condition that the stored object is unchanged since it was read.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import md5
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from napari_ngff.errors import (
    AccessError,
    ConflictError,
    LoginNeededError,
    NameTakenError,
    OMEZarrError,
    ServerError,
    UnsupportedError,
)
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.limits import is_document
from napari_ngff.store.sources.blob import Blob, Revision
from napari_ngff.store.sources.read_ahead import WrappedStore
from napari_ngff.store.sources.request_failure import (
    ChangedObjectError,
    HttpAnswerError,
    NoCredentialsError,
    describe_failure,
    is_brief,
)
from napari_ngff.store.sources.server_access import LATE, allowed_seconds
from napari_ngff.store.sources.server_logins import server_of
from napari_ngff.store.store import GoesOn, conflict_error
from napari_ngff.store.threads import share_work
from napari_ngff.store.write.label_list_watch import read_list
from napari_ngff.store.write.waiting_transaction import (
    WaitingTransaction,
    WaitingTree,
)
from napari_ngff.store.write.writer_token import SUFFIX, is_alive, new_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from napari_ngff.store.store import Store

AT_ONCE = 16
"""Objects that are put at once."""

UNKNOWN = 501
"""Answer of stores that do not support conditions."""


class ObjectBucket(WrappedStore):
    """The objects below an address of S3, with their revisions.

    Parameters
    ----------
    source
        Reads the objects.
    call
        Calls a function with the server; see `RemoteStore.call`.

    Attributes
    ----------
    found_same
        See `Transaction`.
    """

    found_same = False

    def __init__(self, source: Store, call: Callable[..., Any]) -> None:
        super().__init__(source)
        self._call = call
        # Encrypted stores give tags other than the MD5 -> the MD5 that was expected.
        self._tags: dict[str, str] = {}

    @override
    def find_revision(self, key: str) -> Revision | None:
        """Ask for the revision of an object."""
        found = self._source.ask_revision(key)
        if found is None:
            return None
        return replace(found, tag=self._tags.get(found.tag, found.tag))

    @override
    def read(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> Blob | None:
        blob = super().read(key, start, length)
        if blob is None or blob.revision is None or blob.tag not in self._tags:
            return blob
        own = replace(blob.revision, tag=self._tags[blob.tag])
        return Blob(blob.data, own)

    def put_object(self, key: str, data: bytes, before: Revision | None) -> None:
        """Replace an object of a given revision.

        Raises
        ------
        ConflictError
            Where the object has another revision.
        """
        expected = None
        if before is not None:
            # Back from the MD5 that is used here to the tag that the server knows.
            given = {tag: given for given, tag in self._tags.items()}
            expected = given.get(before.tag, before.tag)
        with name_server_errors(f"{self.name}/{key}", len(data)):
            try:
                self._put_once(key, data, expected)
            except (FileNotFoundError, ChangedObjectError):
                # The answer to a first try may have been lost: then our object is
                # there.
                if self.get(key) != data:
                    raise conflict_error(self.name, [key]) from None
                self.found_same = True
            except HttpAnswerError as error:
                if error.status != UNKNOWN:
                    raise
                # The store knows no conditions: compared just before, which leaves a
                # moment for others.
                self._compare_revision(key, before)
                self._put_once(key, data, "")

    @override
    def put_new(self, key: str, parts: Iterable[bytes]) -> None:
        data, address = b"".join(parts), f"{self.name}/{key}"
        seconds = allowed_seconds(len(data))
        try:
            self._put_once(key, data, "")
        except TimeoutError as error:
            raise ServerError(address, LATE.format(seconds)) from error
        except (PermissionError, NoCredentialsError) as error:
            raise refused_writing(address) from error
        except OSError as error:
            reason = describe_failure(error, seconds)
            raise ServerError(address, f"it could not be written ({reason})") from error

    @override
    def copy_new(self, source: Store, key: str, new_key: str) -> bool | None:
        pair = source.name, self.name
        if pair in _uncopied:
            return None
        addresses = f"{source.name}/{key}", f"{self.name}/{new_key}"
        try:
            self._call(lambda server: server.copy(*addresses))
        except FileNotFoundError:
            return False
        # Some users may not copy, some servers cannot.
        except OSError as error:
            # One that fails for a moment is asked again for the next object.
            if not is_brief(error):
                _uncopied.add(pair)
            return None
        return True

    def _put_once(self, key: str, data: bytes, expected: str | None) -> None:
        address = f"{self.name}/{key}"
        given = self._call(
            lambda server: server.put(address, data, expected), len(data)
        )
        tag = tag_of(data)
        if given != tag:
            # The caller got the MD5 while the object waited; it stays the revision
            # from now on.
            self._tags[given] = tag

    def delete_object(self, key: str, before: Revision | None) -> None:
        """Remove an object of a given revision."""
        # S3 has no condition for that: compared before.
        self._compare_revision(key, before)
        address = f"{self.name}/{key}"
        with name_server_errors(address):
            self._call(lambda server: server.delete(address))

    def _compare_revision(self, key: str, before: Revision | None) -> None:
        if self.find_revision(key) not in (before, None):
            raise conflict_error(self.name, [key])


_uncopied: set[tuple[str, str]] = set()
"""Addresses between which the server does not copy."""


def refused_writing(address: str) -> LoginNeededError:
    """Return the error of a bucket that takes nothing from this user."""
    msg = f"No permission to write {address}."
    remedy = "Use a login that may write there, or ask the owner of the bucket."
    return LoginNeededError(msg, server_of(address), remedy)


@contextmanager
def name_server_errors(address: str, nbytes: int = 0) -> Iterator[None]:
    """Name the address in errors of a server that is changed."""
    seconds = allowed_seconds(nbytes)
    try:
        yield
    except OMEZarrError:
        raise
    except TimeoutError as error:
        raise OSError(errno.ETIMEDOUT, LATE.format(seconds), address) from error
    except (PermissionError, NoCredentialsError) as error:
        msg = f"The server refuses to write {address}."
        remedy = "Ask its owner for permission, or edit a copy of the labels."
        raise AccessError(msg, remedy=remedy) from error
    except OSError as error:
        reason = f"The request failed: {describe_failure(error, seconds)}"
        raise OSError(errno.EHOSTUNREACH, reason, address) from error


class ObjectTransaction(WaitingTransaction):
    """Change the bucket of a `RemoteStore`; see `Transaction`.

    A commit is not one step: if it is interrupted, some chunks are new and some old,
    and new labels are not listed, as after a save into a folder that was killed.
    """

    def __init__(self, bucket: ObjectBucket) -> None:
        self.bucket = bucket
        super().__init__(bucket, bucket.name)
        self.token = new_token()
        self._marks: list[str] = []
        self._replaced: tuple[str, ...] = ()

    @override
    def revision_of(self, data: bytes) -> Revision:
        # S3 has the MD5 as the tag.
        return Revision(len(data), 0, tag=tag_of(data))

    @override
    def replace_tree(
        self,
        path: str,
        entry: str = "",
        documents: Sequence[str] = (),
        *,
        in_place: bool = False,
    ) -> WaitingTree:
        """Begin a new group at a path where none is, `in_place`."""
        if not in_place:
            # No store replaces several objects in one step.
            msg = (
                f"{self.root}/{path} cannot be replaced in an object store. Make new"
                " labels, or edit a copy."
            )
            raise UnsupportedError(msg)
        above, _, name = path.rpartition("/")
        if self.bucket.list_keys(path):
            taken = f"{self.root}/{path} already exists, and is not replaced in an"
            raise NameTakenError(f"{taken} object store.", name, f"{name}-2")
        self._marks.append(join_key(above, f".{name}.{self.token}{SUFFIX}"))
        return super().replace_tree(path, entry, documents, in_place=True)

    @override
    def take_back(self, path: str) -> None:
        above, _, name = path.rpartition("/")
        mark = join_key(above, f".{name}.{self.token}{SUFFIX}")
        if mark in self._marks:
            self._marks.remove(mark)
            self._forget_saved()
            # If the server refuses, `recover` does it when the process has ended.
            with suppress(OSError):
                self._remove_unlisted(above, name, mark)

    def _remove_unlisted(self, above: str, name: str, mark: str) -> None:
        if name not in read_list(self.bucket.read, above):
            for key in self.bucket.list_keys(join_key(above, name)):
                self.bucket.delete_object(key, self.bucket.find_revision(key))
        # Last: without it nobody knows of the objects.
        self.bucket.delete_object(mark, self.bucket.find_revision(mark))

    @override
    def recover(self, path: str) -> None:
        """Remove labels that an ended process of this computer put and never listed."""
        above = path.rpartition("/")[0]
        # Marks lie beside the labels that they stand for.
        for marker in self.bucket.list_names(above) or ():
            name, _, token = marker[1:].removesuffix(SUFFIX).rpartition(".")
            if marker != f".{name}.{token}{SUFFIX}" or is_alive(token) is not False:
                continue
            self._remove_unlisted(above, name, join_key(above, marker))

    @override
    def commit(self, goes_on: GoesOn | None = None) -> bool:
        """Put what waits; see `Transaction.commit`.

        Raises
        ------
        ConflictError
            As of `Transaction`; documents continue to wait.
        AccessError, OSError
            Where the server refuses, or is not reached. Objects continue to wait.
        """
        if not self._waiting:
            return True
        # The journal and the before-images are on the disk before the first object is
        # replaced.
        self._secure_all()
        # First: by its mark `recover` finds labels whose list was never written.

        for mark in self._marks:
            self.bucket.put_object(mark, b"", None)
        total, self._replaced = len(self._waiting), self._find_replaced()
        for step in self._order_steps():
            done = total - len(self._waiting)
            if goes_on is not None and not goes_on(done, total):
                return False
            # All of a step are stored before the next step begins: documents name
            # only what is there.
            share_work(iter(step), self._save_object, len(step), AT_ONCE)
            self._raise_conflicts()
        while self._marks:
            mark = self._marks.pop()
            # All is there. A mark that the server keeps now is removed by `recover`.
            with suppress(OSError):
                self.bucket.delete_object(mark, self.bucket.find_revision(mark))
        self._forget_saved()
        self.found_same = self.bucket.found_same
        return True

    def _order_steps(self) -> list[list[str]]:
        """Order the objects in steps; the objects of a step are put at once."""
        # Chunks, documents from the innermost, removed documents from the outermost,
        # and chunks of removed arrays.
        gone = {
            key.rpartition("/")[0]
            for key, waiting in self._waiting.items()
            if waiting.content is None and is_document(key)
        }
        steps: dict[tuple[int, int], list[str]] = {}
        for key, waiting in self._waiting.items():
            is_removed = waiting.content is None
            depth = key.count("/")
            if not is_document(key):
                last = any(key.startswith(f"{folder}/") for folder in gone)
                step = (3, 0) if last and is_removed else (0, 0)
            else:
                # An array before its group, and that before the list of labels above.
                step = (2, depth) if is_removed else (1, -depth)
            steps.setdefault(step, []).append(key)
        return [steps[step] for step in sorted(steps)]

    def _save_object(self, key: str) -> None:
        waiting = self._waiting[key]
        try:
            if key.startswith(self._replaced):
                self._conflicts.append(key)
            elif (staged := waiting.content) is None:
                self.bucket.delete_object(key, waiting.before)
            else:
                data = staged.read_part(slice(0, staged.length))
                self.bucket.put_object(key, data, waiting.before)
        except ConflictError:
            self._conflicts.append(key)
        with self._lock:
            del self._waiting[key]


def tag_of(data: bytes) -> str:
    """Return the ETag that an object will have: its MD5."""
    return f'"{md5(data, usedforsecurity=False).hexdigest()}"'
