"""Writes a new hierarchy: aside in a folder, which is renamed in the end, or in S3.

Objects are written as a whole, from any process: a worker that counts as lost may write
the same object as the one that does its work again.
"""

from __future__ import annotations

import os
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from napari_ngff.errors import LoginNeededError, ServerError, TargetExistsError
from napari_ngff.store.limits import NODE_DOCUMENTS
from napari_ngff.store.sources.folder_store import FolderStore, FolderTransaction
from napari_ngff.store.sources.remote_store import RemoteStore
from napari_ngff.store.sources.request_failure import (
    NoCredentialsError,
    describe_failure,
    is_brief,
)
from napari_ngff.store.sources.server_access import LATE, allowed_seconds
from napari_ngff.store.sources.server_logins import server_of
from napari_ngff.store.write.fsync import FlushQueue, flush_all, flush_file
from napari_ngff.store.write.replace_file import (
    make_folders,
    removed_on_error,
    rename_aside,
    write_aside,
)
from napari_ngff.store.write.writer_token import new_token
from napari_ngff.store.write.zip_packing import pack_hierarchy

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from napari_ngff.store.store import Store

SINGLE = ".ozx"
"""Suffix of a single-file OME-Zarr."""


class NewHierarchy:
    """A hierarchy that is being written; at the end of the context it gets its name.

    Objects are written once, and flushed while others are written. In the end the
    folder is renamed, or packed if `target` ends in `SINGLE`. Whatever stops that, even
    a power failure, `target` is as before. An exception inside removes the new
    hierarchy.

    Parameters
    ----------
    target
        Folder or file to write; its parents are made. Of a link, its target.
    overwrite
        Whether a zarr hierarchy or file of that name may be replaced.

    Attributes
    ----------
    root
        Path of the folder that is being written.

    Raises
    ------
    FileExistsError
        Where `target` exists, and `overwrite` is False or it is not a zarr hierarchy.
    AccessError
        Where the system refuses to write there.
    ConflictError
        Where another process writes to the same target.
    """

    def __init__(self, target: str | Path, *, overwrite: bool = False) -> None:
        self.target = Path(os.path.realpath(target))
        self.overwrite = overwrite
        self._is_single = self.target.suffix.lower() == SINGLE
        self.root = ""
        self._flushing = FlushQueue()

    def __enter__(self) -> Self:
        transaction = FolderTransaction(str(self.target.parent))
        # What a killed process left in this folder, before a new folder is made in it.
        transaction.recover("")
        require_room(self.target, self.overwrite)
        # Beside the target: a rename to another file system would copy all bytes.
        self._tree = transaction.replace_tree(self.target.name)
        self.root = self._tree.new
        os.mkdir(self.root)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._place_hierarchy()
        finally:
            self._flushing.stop_flushing()
            self._tree.close()

    def put(self, key: str, data: bytes) -> None:
        """Write an object; from any thread, each key once."""
        self.put_parts(key, (data,))

    def put_parts(self, key: str, parts: Iterable[bytes]) -> None:
        """Write an object that does not fit into memory; from any thread."""
        put_object(self.root, key, parts)
        # Of what is packed afterwards only the archive has to last.
        if not self._is_single:
            self._flushing.add_file(f"{self.root}/{key}")

    def _place_hierarchy(self) -> None:
        if self._is_single:
            pack_hierarchy(self.root, self.target, overwrite=self.overwrite)
            return
        self._flushing.finish_flushing()
        # Again: another program may have made the target meanwhile.
        require_room(self.target, self.overwrite)
        self._tree.commit()


def require_room(target: Path, overwrite: bool) -> None:
    """Refuse a target that exists and may not be replaced.

    Raises
    ------
    FileExistsError
        Where it exists and `overwrite` is False, or it is not a zarr hierarchy.
    """
    if not os.path.lexists(target):
        return
    if not overwrite:
        raise TargetExistsError(target)
    # A folder of other files is never replaced, whatever the caller allows. Attributes
    # alone make no zarr.
    documents = (target / name for name in NODE_DOCUMENTS if name != ".zattrs")
    if target.is_dir() and not any(document.exists() for document in documents):
        msg = f"{target} is a folder, but not a zarr: it stays unchanged."
        raise FileExistsError(msg)


def is_bucket(root: str) -> bool:
    """Return whether a new hierarchy is in a bucket, not in a folder."""
    return root.startswith("s3://")


def target_source(root: str) -> Store:
    """Return what reads a new hierarchy: of a path, or an address of S3."""
    return open_bucket(root) if is_bucket(root) else FolderStore(root)


@lru_cache(maxsize=8)
def open_bucket(root: str) -> RemoteStore:
    """Open a bucket, once in a process; who may write is known to the system."""
    return RemoteStore(root)


def put_object(root: str, key: str, parts: Iterable[bytes]) -> None:
    """Write an object of a new hierarchy.

    Raises
    ------
    AccessError
        Where the system or the server refuses.
    ServerError
        Where the server does not take it.
    OSError
        Where the disk does not.
    """
    if is_bucket(root):
        _put_remote(root, key, b"".join(parts))
        return
    path = f"{root}/{key}"
    aside = write_aside(path, parts, _token_of(os.getpid()), make_folders, flush=False)
    with removed_on_error(aside):
        rename_aside(aside, path)


def _put_remote(root: str, key: str, data: bytes) -> None:
    address = f"{root}/{key}"
    seconds = allowed_seconds(len(data))
    try:
        open_bucket(root).call(lambda server: server.put(address, data), len(data))
    except TimeoutError as error:
        raise ServerError(address, LATE.format(seconds)) from error
    except (PermissionError, NoCredentialsError) as error:
        raise refused_writing(address, root) from error
    except OSError as error:
        reason = describe_failure(error, seconds)
        raise ServerError(address, f"it could not be written ({reason})") from error


def copy_by_server(source: Store, key: str, root: str, new_key: str) -> bool | None:
    """Let a server of S3 copy an object to a new hierarchy; no byte of it comes here.

    Parameters
    ----------
    source, key
        Where the object is.
    root, new_key
        Where it gets to.

    Returns
    -------
    bool or None
        Whether there is such an object; None where the server does not copy it, which
        may still be read and written.
    """
    if not (isinstance(source, RemoteStore) and is_bucket(root)):
        return None
    pair = source.name, root
    target = open_bucket(root)
    # A bucket of the same name at another server is another one.
    if source.access.place != target.access.place or pair in _uncopied:
        return None
    addresses = f"{source.name}/{key}", f"{root}/{new_key}"
    try:
        target.call(lambda server: server.copy(*addresses))
    except FileNotFoundError:
        return False
    # Some users may not copy, some servers cannot.
    except OSError as error:
        # One that fails for a moment is asked again for the next object.
        if not is_brief(error):
            _uncopied.add(pair)
        return None
    return True


_uncopied: set[tuple[str, str]] = set()
"""Addresses between which the server does not copy."""


def refused_writing(address: str, root: str) -> LoginNeededError:
    """Return the error of a bucket that takes nothing from this user."""
    msg = f"No permission to write {address}."
    remedy = "Use a login that may write there, or ask the owner of the bucket."
    return LoginNeededError(msg, server_of(root), remedy)


@cache
def _token_of(process: int) -> str:
    """Return the token of a process: there is another one after a fork."""
    return new_token()


def flush_objects(root: str, keys: list[str]) -> None:
    """Wait until objects are on the disk, many at once; in a bucket they are."""
    if not is_bucket(root):
        flush_all(partial(flush_file, f"{root}/{key}") for key in keys)
