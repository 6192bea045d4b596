"""A new hierarchy that is written aside and gets its name when all of it is there."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from napari_ngff.errors import AccessError
from napari_ngff.store.archives.packing import pack
from napari_ngff.store.exchange import exchange
from napari_ngff.store.flushing import FLUSHERS, Flushing, flush_folder
from napari_ngff.store.sink import PART
from napari_ngff.store.workers import share

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

__all__ = ["SINGLE", "Draft"]

SINGLE = ".ozx"
"""Ends the name of a single file."""

OLD = "old"
"""In a folder aside: what is replaced."""

LEFT_BEHIND = 3600
"""Seconds for which nobody wrote to a draft that nobody finishes any more."""

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
    """

    def __init__(self, target: str | Path, *, overwrite: bool = False) -> None:
        self.target = Path(os.path.realpath(target))
        self.overwrite = overwrite
        self.root = ""
        self._folders: set[str] = set()
        self._flushing = Flushing()

    def __enter__(self) -> Self:
        parent, name = self.target.parent, self.target.name
        try:
            _sweep(parent, name)
            self._require_room()
            parent.mkdir(parents=True, exist_ok=True)
            # Beside the target, so that renaming moves no bytes.
            self.root = tempfile.mkdtemp(PART, f".{name}.", parent)
        except PermissionError as error:
            msg = f"No permission to write {self.target}. Choose another folder."
            raise AccessError(msg) from error
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
            shutil.rmtree(self.root, ignore_errors=True)

    def put(self, key: str, data: bytes) -> None:
        """Write an object; from any thread, each key once."""
        path = f"{self.root}/{key}"
        self._make(path.rpartition("/")[0])
        with open(path, "xb", buffering=0) as file:
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
            msg = f"{self.target} is there already. Choose another name, or remove it."
            raise FileExistsError(msg)
        if self.target.is_dir() and not any(
            (self.target / name).exists() for name in DOCUMENTS
        ):
            msg = f"{self.target} is a folder, and no zarr: it is left as it is."
            raise FileExistsError(msg)

    def _finish(self) -> None:
        if self._is_single:
            pack(self.root, self.target, overwrite=self.overwrite)
            return
        self._flushing.finish()
        folders = iter(self._folders)
        share(folders, flush_folder, len(self._folders), FLUSHERS)
        os.chmod(self.root, 0o777 & ~_umask())  # mkdtemp made it private
        self._require_room()
        if not os.path.lexists(self.target):
            os.rename(self.root, self.target)
        elif not exchange(self.root, str(self.target)):
            self._replace()
        flush_folder(self._parent)

    def _replace(self) -> None:
        """Take the place of what is there, where the system cannot swap the two.

        Whoever is killed between the renames leaves what was there to `_sweep`.
        """
        aside = Path(tempfile.mkdtemp(PART, f".{self.target.name}.", self._parent))
        os.rename(self.target, aside / OLD)
        try:
            os.rename(self.root, self.target)
        except OSError:
            os.rename(aside / OLD, self.target)
            aside.rmdir()
            raise
        shutil.rmtree(aside, ignore_errors=True)

    @property
    def _parent(self) -> str:
        return str(self.target.parent)

    @property
    def _is_single(self) -> bool:
        return self.target.suffix.lower() == SINGLE


def _files(root: str) -> Iterator[str]:
    for folder, _, names in os.walk(root):
        for name in names:
            yield f"{folder}/{name}"


def _umask() -> int:
    """Ask the system; it tells only when it is set."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _sweep(parent: Path, name: str) -> None:
    """Remove drafts of the same name that a killed process left.

    What it was about to replace is put back.
    """
    oldest = time.time() - LEFT_BEHIND
    for other in parent.iterdir() if parent.is_dir() else ():
        if not (other.name.startswith(f".{name}.") and other.name.endswith(PART)):
            continue
        with suppress(OSError):
            times = [os.stat(path).st_mtime for path in _files(str(other))]
            if max([other.stat().st_mtime, *times]) < oldest:
                if (other / OLD).exists() and not (parent / name).exists():
                    os.rename(other / OLD, parent / name)
                shutil.rmtree(other)
