"""A new hierarchy that is written aside and gets its name when all of it is there."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from napari_ngff.errors import AccessError
from napari_ngff.store.sources.folder_source import FolderSource
from napari_ngff.store.write.begin import begin_transaction
from napari_ngff.store.write.fsync import Flushing
from napari_ngff.store.write.named_errors import permitted
from napari_ngff.store.write.zip_packing import pack

if TYPE_CHECKING:
    from types import TracebackType

    from napari_ngff.store.write.transaction import Tree

__all__ = ["SINGLE", "Draft"]

SINGLE = ".ozx"
"""Ends the name of a single file."""

DOCUMENTS = ("zarr.json", ".zgroup", ".zarray")


class Draft:
    """A hierarchy on its way to `target`; a context, which ends with the name.

    Objects are written once, and forced to the disk while others are made. When all are
    there the folder is renamed; or packed, where `target` ends in `SINGLE`. Whatever
    stops that, and be it a power failure, leaves at `target` what was there before. An
    exception inside removes the draft.

    Parameters
    ----------
    target
        Folder or file to write; its parents are made. Of a link, what it leads to.
    overwrite
        Whether a zarr hierarchy or file of that name may be replaced.

    Attributes
    ----------
    root
        Path of the folder that is being written.

    Raises
    ------
    FileExistsError
        Where something is at `target`, and `overwrite` is False or it is no zarr.
    AccessError
        Where the system refuses to write there.
    ConflictError
        Where another is writing to that target.
    """

    def __init__(self, target: str | Path, *, overwrite: bool = False) -> None:
        self.target = Path(os.path.realpath(target))
        self.overwrite = overwrite
        self.root = ""
        self._folders: set[str] = set()
        self._tree: Tree | None = None
        self._flushing = Flushing()

    def __enter__(self) -> Self:
        transaction = begin_transaction(FolderSource(str(self.target.parent)))
        try:
            transaction.recover("")
            self._require_room()
            # Beside the target, so that renaming moves no bytes.
            self._tree = transaction.replace_tree(self.target.name)
            self.root = f"{transaction.root}/{self._tree.key}"
            os.mkdir(self.root)
        except (PermissionError, AccessError) as error:
            msg = f"No permission to write {self.target}."
            raise AccessError(msg, remedy="Choose another folder.") from error
        self._folders = {self.root}
        if not self._is_single:
            self._flushing.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self._flushing.stop()
            if self._tree is not None:
                self._tree.close()

    def put(self, key: str, data: bytes) -> None:
        """Write an object; from any thread, each key once."""
        path = f"{self.root}/{key}"
        self._make(path.rpartition("/")[0])
        with permitted(path), open(path, "xb", buffering=0) as file:
            left = memoryview(data)
            while left:
                # One call takes 2 GiB at most on Linux.
                left = left[file.write(left) :]
        if not self._is_single:
            self._flushing.add(path)

    def _make(self, folder: str) -> None:
        """Make a folder and those that it is in, unless they are there."""
        if folder not in self._folders:
            self._make(folder.rpartition("/")[0])
            with suppress(FileExistsError):  # by another thread
                os.mkdir(folder)
            self._folders.add(folder)

    def _require_room(self) -> None:
        if not os.path.lexists(self.target):
            return
        if not self.overwrite:
            msg = f"{self.target} already exists. Choose another name, or remove it."
            raise FileExistsError(msg)
        if self.target.is_dir() and not any(
            (self.target / name).exists() for name in DOCUMENTS
        ):
            msg = f"{self.target} is a folder, but not a zarr: it stays unchanged."
            raise FileExistsError(msg)

    def _finish(self) -> None:
        if self._is_single:
            pack(self.root, self.target, overwrite=self.overwrite)
            return
        self._flushing.finish()
        self._require_room()
        if self._tree is not None:
            self._tree.commit()

    @property
    def _is_single(self) -> bool:
        return self.target.suffix.lower() == SINGLE
