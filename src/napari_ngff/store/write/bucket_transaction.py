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
    NameTakenError,
    UnsupportedError,
)
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.limits import is_document
from napari_ngff.store.sources.request_failure import describe_failure, error_code
from napari_ngff.store.sources.server_access import LATE, allowed_seconds
from napari_ngff.store.sources.source import Blob, Revision, WrappedSource
from napari_ngff.store.threads import share_work
from napari_ngff.store.write.label_list_watch import read_list
from napari_ngff.store.write.transaction import GoesOn, conflict_error
from napari_ngff.store.write.waiting_transaction import (
    WaitingTransaction,
    WaitingTree,
)
from napari_ngff.store.write.writer_token import SUFFIX, is_alive, new_token

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from napari_ngff.store.sources.remote_source import RemoteSource

AT_ONCE = 16
"""Objects that are put at once."""

# Of AWS; MinIO and others answer with the number of HTTP.
REFUSED = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}

UNKNOWN = {"NotImplemented", "501"}
"""Answers of stores that do not support conditions."""


class ObjectBucket(WrappedSource):
    """The objects below an address of S3, with their revisions.

    Parameters
    ----------
    source
        Reads the objects.
    """

    def __init__(self, source: RemoteSource) -> None:
        super().__init__(source)
        self._remote = source
        bucket, _, self._below = source.name.split("://", 1)[1].partition("/")
        self._bucket = bucket
        # Encrypted stores give tags other than the MD5 -> the MD5 that was expected.
        self._tags: dict[str, str] = {}

    @property
    def _files(self) -> Any:
        # Of the source, which may get another login meanwhile.
        return self._remote.files

    @override
    def find_revision(self, key: str) -> Revision | None:
        """Ask for the revision of an object."""
        try:
            head = self._call_server("head_object", key)
        except FileNotFoundError:
            return None
        tag = head["ETag"]
        return Revision(head["ContentLength"], 0, tag=self._tags.get(tag, tag))

    @override
    def read(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> Blob | None:
        blob = super().read(key, start, length)
        if blob is None or blob.revision is None or blob.tag not in self._tags:
            return blob
        own = replace(blob.revision, tag=self._tags[blob.tag])
        return Blob(blob.data, own)

    @override
    def list_keys(self, prefix: str) -> list[str]:
        # s3fs keeps listings: it would not see what other programs have put since.
        self._files.invalidate_cache()
        root = f"{self.name}/{prefix}".rstrip("/")
        whole = self.name.split("://", 1)[1]
        seconds = allowed_seconds()
        with _named_errors(root, seconds):
            found = self._files.find(root, timeout=seconds)
        return [path[len(whole) + 1 :] for path in found]

    def put_object(self, key: str, data: bytes, before: Revision | None) -> None:
        """Replace an object of a given revision.

        Raises
        ------
        ConflictError
            Where the object has another revision.
        """
        # "*" is any object: it is put only if there is none.
        condition = {"IfNoneMatch": "*"}
        if before is not None:
            # Back from the MD5 that is used here to the tag that the server knows.
            expected = {tag: given for given, tag in self._tags.items()}
            condition = {"IfMatch": expected.get(before.tag, before.tag)}
        try:
            self._put_once(key, data, condition)
        except FileNotFoundError as error:
            raise conflict_error(self.name, [key]) from error
        except OSError as error:
            code = error_code(error)
            if code in UNKNOWN:
                # The store knows no conditions: compared just before, which leaves a
                # moment for others.
                self._compare_revision(key, before)
                self._put_once(key, data, {})
            # The answer to a first try may have been lost: then our object is there.
            elif code in REFUSED and self.get(key) != data:
                raise conflict_error(self.name, [key]) from error
            elif code not in REFUSED:
                raise

    def _put_once(self, key: str, data: bytes, condition: dict[str, str]) -> None:
        given = self._call_server("put_object", key, Body=data, **condition)["ETag"]
        tag = tag_of(data)
        if given != tag:
            # The caller got the MD5 while the object waited; it stays the revision
            # from now on.
            self._tags[given] = tag

    def delete_object(self, key: str, before: Revision | None) -> None:
        """Remove an object of a given revision."""
        # S3 has no condition for that: compared before.
        self._compare_revision(key, before)
        self._call_server("delete_object", key)

    def _compare_revision(self, key: str, before: Revision | None) -> None:
        if self.find_revision(key) not in (before, None):
            raise conflict_error(self.name, [key])

    def forget_lists(self) -> None:
        """Drop the lists of s3fs, which do not have the new objects."""
        self._files.invalidate_cache()

    def _call_server(self, name: str, key: str, **given: Any) -> Any:
        # By `call_s3`, since the interface of fsspec has no conditions.
        path = f"{self._below}/{key}" if self._below else key
        given |= {"Bucket": self._bucket, "Key": path}
        seconds = allowed_seconds(len(given.get("Body", b"")))
        with _named_errors(f"{self.name}/{key}", seconds):
            return self._files.call_s3(name, timeout=seconds, **given)


@contextmanager
def _named_errors(address: str, seconds: float) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise OSError(errno.ETIMEDOUT, LATE.format(seconds), address) from error
    except PermissionError as error:
        msg = f"The server refuses to write {address}."
        remedy = "Ask its owner for permission, or edit a copy of the labels."
        raise AccessError(msg, remedy=remedy) from error
    except FileNotFoundError:
        raise
    except OSError as error:
        number = error.errno or errno.EIO
        raise OSError(number, error.strerror or str(error), address) from error
    except Exception as error:  # those of botocore are of no common kind
        reason = f"The request failed: {describe_failure(error, seconds)}"
        raise OSError(errno.EHOSTUNREACH, reason, address) from error


class ObjectTransaction(WaitingTransaction):
    """Change the bucket of a `RemoteSource`; see `Transaction`.

    A commit is not one step: if it is interrupted, some chunks are new and some old,
    and new labels are not listed, as after a save into a folder that was killed.
    """

    def __init__(self, source: RemoteSource) -> None:
        self.bucket = ObjectBucket(source)
        super().__init__(self.bucket, source.name)
        self.token = new_token()
        self._marks: list[str] = []

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
        if name not in read_list(self.bucket, above):
            for key in self.bucket.list_keys(join_key(above, name)):
                self.bucket.delete_object(key, self.bucket.find_revision(key))
        # Last: without it nobody knows of the objects.
        self.bucket.delete_object(mark, self.bucket.find_revision(mark))

    @override
    def recover(self, path: str) -> None:
        """Remove labels that an ended process of this computer put and never listed."""
        self.bucket.forget_lists()
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
        total = len(self._waiting)
        try:
            for step in self._order_steps():
                done = total - len(self._waiting)
                if goes_on is not None and not goes_on(done, total):
                    return False
                # All of a step are stored before the next step begins: documents name
                # only what is there.
                share_work(iter(step), self._save_object, len(step), AT_ONCE)
                self._raise_conflicts()
        finally:
            self.bucket.forget_lists()
        while self._marks:
            mark = self._marks.pop()
            # All is there. A mark that the server keeps now is removed by `recover`.
            with suppress(OSError):
                self.bucket.delete_object(mark, self.bucket.find_revision(mark))
        self._forget_saved()
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
            if (staged := waiting.content) is None:
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
