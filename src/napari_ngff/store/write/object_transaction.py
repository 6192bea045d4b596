"""Changes an object store (S3): objects wait on this computer, and are put whole.

`ObjectTransaction.commit` puts chunks first and the documents that point to them last,
the list of labels after all others: no reader meets a document whose chunks are
missing. Each is put on the condition that it is what it was when it was read.
"""

from __future__ import annotations

import errno
import json
from hashlib import md5
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import (
    AccessError,
    ConflictError,
    NameTakenError,
    UnsupportedError,
)
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.sources.revision import Revision
from napari_ngff.store.workers import share_work
from napari_ngff.store.write.waiting_transaction import (
    WaitingTransaction,
    WaitingTree,
    changed_by_others,
)
from napari_ngff.store.write.writer_token import SUFFIX, is_dead, new_token

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from napari_ngff.store.sources.remote_source import RemoteSource
    from napari_ngff.store.write.staged_objects import Staged
    from napari_ngff.store.write.transaction import GoesOn

__all__ = ["ObjectTransaction"]

DOCUMENTS = ("zarr.json", ".zattrs", ".zgroup", ".zarray", ".zmetadata")

AT_ONCE = 16
"""Objects that are put at once."""

REFUSED = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}

UNKNOWN = {"NotImplemented", "501"}
"""Answers of stores that know no conditions."""


class Bucket:
    """The objects below an address of S3, with their revisions.

    Parameters
    ----------
    source
        Reads them.
    """

    def __init__(self, source: RemoteSource) -> None:
        self.source = source
        self.name = source.name
        self._files = source.files
        bucket, _, self._below = source.name.split("://", 1)[1].partition("/")
        self._bucket = bucket
        # Tags that a store gives which are no MD5 -> those that were expected.
        self._tags: dict[str, str] = {}

    @property
    def concurrency(self) -> int:
        """As of its source."""
        return self.source.concurrency

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        """Read an object or a part of it; see `Source.get`."""
        return self.source.get(key, start, length)

    def find_revision(self, key: str) -> Revision | None:
        """Ask for the revision of an object."""
        try:
            found = self._call("head_object", key)
        except FileNotFoundError:
            return None
        tag = found["ETag"]
        return Revision(found["ContentLength"], 0, tag=self._tags.get(tag, tag))

    def list_keys(self, prefix: str) -> list[str]:
        """Keys of all objects below a folder."""
        self._files.invalidate_cache()
        root = f"{self.name}/{prefix}".rstrip("/")
        whole = self.name.split("://", 1)[1]
        return [one[len(whole) + 1 :] for one in self._files.find(root)]

    def put(self, key: str, data: bytes, before: Revision | None) -> None:
        """Put an object in the place of one of a given revision.

        Raises
        ------
        ConflictError
            Where another is there.
        """
        condition = {"IfNoneMatch": "*"}
        if before is not None:
            expected = {tag: given for given, tag in self._tags.items()}
            condition = {"IfMatch": expected.get(before.tag, before.tag)}
        try:
            self._put(key, data, condition)
        except FileNotFoundError as error:
            raise ConflictError(changed_by_others(f"{self.name}/{key}")) from error
        except OSError as error:
            code = _code(error)
            if code in UNKNOWN:
                self._compare(key, before)
                self._put(key, data, {})
            # An answer that got lost may have been that it is there.
            elif code in REFUSED and self.get(key) != data:
                taken = changed_by_others(f"{self.name}/{key}")
                raise ConflictError(taken) from error
            elif code not in REFUSED:
                raise

    def _put(self, key: str, data: bytes, condition: dict[str, str]) -> None:
        given = self._call("put_object", key, Body=data, **condition)["ETag"]
        tag = revision_of(data).tag
        if given != tag:
            self._tags[given] = tag

    def delete(self, key: str, before: Revision | None) -> None:
        """Remove an object of a given revision; S3 knows no condition for that."""
        self._compare(key, before)
        self._call("delete_object", key)

    def _compare(self, key: str, before: Revision | None) -> None:
        if self.find_revision(key) not in (before, None):
            raise ConflictError(changed_by_others(f"{self.name}/{key}"))

    def refresh(self) -> None:
        """Forget lists that were read before objects were put."""
        self._files.invalidate_cache()

    def _call(self, name: str, key: str, **given: Any) -> Any:
        place = f"{self._below}/{key}" if self._below else key
        try:
            return self._files.call_s3(name, Bucket=self._bucket, Key=place, **given)
        except PermissionError as error:
            msg = f"The server refuses to write {self.name}/{key}."
            remedy = "Ask its owner for permission, or edit a copy of the labels."
            raise AccessError(msg, remedy=remedy) from error
        except FileNotFoundError:
            raise
        except OSError as error:
            number = error.errno or errno.EIO
            place = f"{self.name}/{key}"
            raise OSError(number, error.strerror or str(error), place) from error


class ObjectTransaction(WaitingTransaction):
    """Change what a `RemoteSource` of S3 reads; see `Transaction`.

    Not all at once: what ends a commit leaves some chunks new and some old, and new
    labels unlisted. Both are as after a save into a folder that was killed.
    """

    def __init__(self, source: RemoteSource) -> None:
        self.bucket = Bucket(source)
        super().__init__(self.bucket, source.name)
        self.token = new_token()
        self._marks: list[str] = []
        self._conflicts: list[str] = []

    def _revision_of(self, staged: Staged) -> Revision:
        return revision_of(staged.read(slice(0, staged.length)))

    def replace_tree(
        self, path: str, entry: str = "", documents: Sequence[str] = ()
    ) -> WaitingTree:
        """Refuse: its objects cannot be replaced in one step."""
        msg = (
            f"{self.root}/{path} cannot be replaced in an object store. Make new"
            " labels, or edit a copy."
        )
        raise UnsupportedError(msg)

    def make_tree(
        self, path: str, entry: str = "", documents: Sequence[str] = ()
    ) -> WaitingTree:
        """Begin what is to come to a place where nothing is."""
        above, _, name = path.rpartition("/")
        if self.bucket.list_keys(path):
            taken = f"{self.root}/{path} already exists, and is not replaced in an"
            raise NameTakenError(f"{taken} object store.", name, f"{name}-2")
        self._marks.append(join_key(above, f".{name}.{self.token}{SUFFIX}"))
        return WaitingTree(self, path, path, documents)

    def recover(self, path: str) -> None:
        """Remove labels that a dead process of this computer put and never listed."""
        self.bucket.refresh()
        above = path.rpartition("/")[0]
        for found in self.bucket.source.list_names(above) or ():
            name, _, token = found[1:].removesuffix(SUFFIX).rpartition(".")
            if found != f".{name}.{token}{SUFFIX}" or not is_dead(token):
                continue
            if name not in self._listed(above):
                for key in self.bucket.list_keys(join_key(above, name)):
                    self.bucket.delete(key, self.bucket.find_revision(key))
            mark = join_key(above, found)
            self.bucket.delete(mark, self.bucket.find_revision(mark))

    def _listed(self, group: str) -> list[Any]:
        for name in ("zarr.json", ".zattrs"):
            raw = self.bucket.get(join_key(group, name))
            if raw is not None and name == "zarr.json":
                return list(json.loads(raw)["attributes"]["ome"].get("labels", ()))
            if raw is not None:
                return list(json.loads(raw).get("labels", ()))
        return []

    def sweep(self, prefix: str, dead: Collection[str] = ()) -> None:
        """Nothing lies aside: objects are put whole."""

    def commit(self, goes_on: GoesOn | None = None) -> bool:
        """Put what waits; see `Transaction.commit`.

        Raises
        ------
        ConflictError
            As of `Transaction`; documents go on waiting.
        AccessError, OSError
            Where the server refuses, or is not reached. What waits goes on waiting.
        """
        if not self._staged:
            return True
        self._secure()
        for mark in self._marks:
            self.bucket.put(mark, b"", None)
        total = len(self._staged)
        try:
            for step in self._steps():
                done = total - len(self._staged)
                if goes_on is not None and not goes_on(done, total):
                    return False
                share_work(iter(step), self._save, len(step), AT_ONCE)
                conflicts, self._conflicts = self._conflicts, []
                if conflicts:
                    raise ConflictError("\n".join(conflicts))
        finally:
            self.bucket.refresh()
        while self._marks:
            mark = self._marks.pop()
            self.bucket.delete(mark, self.bucket.find_revision(mark))
        self._done()
        return True

    def _steps(self) -> list[list[str]]:
        """Order what waits: each step is put at once, and before the next."""
        gone = {_folder(k) for k, one in self._staged.items() if one is None
                and _is_document(k)}  # fmt: skip
        steps: dict[tuple[int, int], list[str]] = {}
        for key, one in self._staged.items():
            depth = key.count("/")
            if not _is_document(key):
                last = any(key.startswith(f"{folder}/") for folder in gone)
                step = (3, 0) if last and one is None else (0, 0)
            else:
                step = (1, -depth) if one is not None else (2, depth)
            steps.setdefault(step, []).append(key)
        return [steps[step] for step in sorted(steps)]

    def _save(self, key: str) -> None:
        one: Staged | None = self._staged[key]
        try:
            if one is None:
                self.bucket.delete(key, self._bases[key])
            else:
                data = one.read(slice(0, one.length))
                self.bucket.put(key, data, self._bases[key])
        except ConflictError as error:
            self._conflicts.append(str(error))
        with self._lock:
            del self._staged[key], self._bases[key]


def revision_of(data: bytes) -> Revision:
    """Tell the revision that an object will have, as stores of S3 make it."""
    digest = md5(data, usedforsecurity=False).hexdigest()
    return Revision(len(data), 0, tag=f'"{digest}"')


def _is_document(key: str) -> bool:
    return key.rpartition("/")[2] in DOCUMENTS


def _folder(key: str) -> str:
    return key.rpartition("/")[0]


def _code(error: OSError) -> str:
    """Give the code of an answer of S3, as botocore told it to s3fs."""
    cause: BaseException | None = error
    while cause is not None:
        response = getattr(cause, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code", ""))
        cause = cause.__cause__ or cause.__context__
    return ""
