"""Writes a new hierarchy aside, and renames it when it is complete."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Self

from napari_ngff.errors import TargetExistsError
from napari_ngff.store.limits import NODE_DOCUMENTS
from napari_ngff.store.sources.folder_store import FolderTransaction
from napari_ngff.store.write.fsync import FlushQueue
from napari_ngff.store.write.new_objects import put_object
from napari_ngff.store.write.zip_packing import pack_hierarchy

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType


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
