"""Writes the objects of a new hierarchy, in a folder or in a bucket of S3.

Each is written as a whole, from any process: a worker that counts as lost may write the
same object as the one that does its work again.
"""

from __future__ import annotations

import os
import zlib
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from napari_ngff.errors import LoginNeededError, ServerError
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.sources.remote_store import RemoteStore
from napari_ngff.store.sources.request_failure import (
    NoCredentialsError,
    describe_failure,
    is_brief,
)
from napari_ngff.store.sources.server_access import LATE, allowed_seconds
from napari_ngff.store.sources.server_logins import server_of
from napari_ngff.store.write.fsync import flush_all, flush_file
from napari_ngff.store.write.replace_file import (
    make_folders,
    removed_on_error,
    rename_aside,
    write_aside,
)
from napari_ngff.store.write.writer_token import new_token

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari_ngff.store.store import Store


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
    aside = write_aside(path, parts, _token(), make_folders, flush=False)
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


def sum_revision(root: str, key: str) -> tuple[int, int] | None:
    """Return size and a checksum of the ETag of an object that a server has copied.

    None where there is no such object.
    """
    revision = open_bucket(root).ask_revision(key)
    if revision is None:
        return None
    return revision.size, zlib.crc32(revision.tag.encode())


def refused_writing(address: str, root: str) -> LoginNeededError:
    """Return the error of a bucket that takes nothing from this user."""
    msg = f"No permission to write {address}."
    remedy = "Use a login that may write there, or ask the owner of the bucket."
    return LoginNeededError(msg, server_of(root), remedy)


_tokens: dict[int, str] = {}


def _token() -> str:
    """Return the token of this process; another one after a fork."""
    return _tokens.setdefault(os.getpid(), new_token())


def flush_objects(root: str, keys: list[str]) -> None:
    """Wait until objects are on the disk, many at once; in a bucket they are."""
    if not is_bucket(root):
        flush_all(partial(flush_file, f"{root}/{key}") for key in keys)
