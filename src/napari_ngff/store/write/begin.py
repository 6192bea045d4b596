"""Chooses the transaction for a source; the one module that knows all of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from napari_ngff.errors import UnsupportedError
from napari_ngff.store.sources.archive_store import ArchiveStore
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.sources.remote_store import RemoteStore
from napari_ngff.store.write.archive_transaction import ArchiveTransaction
from napari_ngff.store.write.bucket_transaction import ObjectTransaction
from napari_ngff.store.write.folder_transaction import FolderTransaction

if TYPE_CHECKING:
    from napari_ngff.store.store import Store, Transaction


def why_not_written(source: Store, path: str = "") -> str:
    """Describe why a path cannot be changed in place; "" if it can."""
    places: tuple[str, ...]
    if isinstance(source, FolderStore):
        places = (os.path.join(source.root, path),)
    elif isinstance(source, ArchiveStore) and source.is_local:
        # The new archive is written beside the old one, and renamed.
        file = os.path.realpath(source.path)
        places = file, os.path.dirname(file)
    elif isinstance(source, RemoteStore) and source.writable:
        places = ()
    else:
        return f"{source.name} cannot be written in place."
    for path_to_write in places:
        # Only asked, never tried: opening labels must not change the folder.
        if not os.access(path_to_write, os.W_OK):
            return f"there is no permission to write {path_to_write}."
    return ""


def begin_transaction(source: Store) -> Transaction:
    """Begin to change a source; the same transaction if the source belongs to one.

    Raises
    ------
    UnsupportedError
        Where it cannot be written.
    """
    # A source that has waiting objects must be changed by the transaction that holds
    # them.
    transaction: Transaction | None = getattr(source, "transaction", None)
    if transaction is not None:
        return transaction
    if isinstance(source, FolderStore):
        return FolderTransaction(source.root)
    if isinstance(source, ArchiveStore) and source.is_local:
        return ArchiveTransaction(source)
    if isinstance(source, RemoteStore) and source.writable:
        return ObjectTransaction(source)
    raise UnsupportedError(
        f"{source.name} cannot be written in place: it is not a folder, an archive"
        " or a bucket that you may write into.",
        remedy="Ask its owner for permission, or save a copy elsewhere.",
    )
