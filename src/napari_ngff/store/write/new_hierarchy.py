"""Writes a new hierarchy: aside in a folder, which is renamed in the end, or in S3.

Where one goes is known here alone, in `find_target`.
"""

from __future__ import annotations

import os
import shutil
import threading
import zlib
from abc import ABC, abstractmethod
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Self

from typing_extensions import override

from napari_ngff.addresses import is_url
from napari_ngff.errors import (
    CorruptDataError,
    TargetExistsError,
    UnsupportedError,
)
from napari_ngff.store.data_folder import data_folder
from napari_ngff.store.limits import NODE_DOCUMENTS
from napari_ngff.store.sources.archive_store import ArchiveStore, open_zip
from napari_ngff.store.sources.folder_store import FolderStore, FolderTransaction
from napari_ngff.store.sources.remote_store import RemoteStore
from napari_ngff.store.sources.zip_directory import DEFLATED
from napari_ngff.store.threads import CORES, share_work
from napari_ngff.store.write.bucket_transaction import refused_writing
from napari_ngff.store.write.fsync import FlushQueue
from napari_ngff.store.write.zip_packing import pack_hierarchy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from napari_ngff.store.store import Store

SINGLE = ".ozx"
"""Suffix of a single-file OME-Zarr."""

PART = 2**24
"""Bytes of a stored entry that are in memory at once; a shard may have gigabytes."""


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
        self._is_single = is_single(self.target)
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
        self._store = FolderStore(self.root)
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
        self._store.put_new(key, parts)
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


class Target(ABC):
    """Where a new hierarchy goes that is made in steps, by several processes.

    Attributes
    ----------
    name
        What is made in the end: a path, or the address of a bucket.
    notes
        Folder of what is noted meanwhile.
    store
        Gets the objects.
    """

    name: Path | str
    notes: str
    store: Store

    @abstractmethod
    def require_room(self, overwrite: bool) -> None:
        """Refuse to begin, or to place it, where something is that stays.

        Raises
        ------
        FileExistsError
            Where it exists, and may not or cannot be replaced.
        AccessError
            Where nothing may be written.
        """

    def require_free(self, *, ours: bool, resumes: bool) -> None:
        """Refuse to begin anew among objects that cannot be removed.

        Parameters
        ----------
        ours
            Whether an earlier run has put objects there.
        resumes
            Whether that was to be continued.

        Raises
        ------
        FileExistsError
            Where objects are there.
        """

    def discard(self) -> None:
        """Remove what was made of it.

        Raises
        ------
        UnsupportedError
            Where nothing is deleted.
        """
        shutil.rmtree(self.notes, ignore_errors=True)

    def place(
        self, overwrite: bool, progress: Callable[[int, int], None] | None
    ) -> None:
        """Give it its name, once all objects are there."""


class FolderTarget(Target):
    """A folder, or an archive, of this computer; it is made beside it."""

    def __init__(self, path: str | Path) -> None:
        self.name: Path = Path(os.path.realpath(path))
        self.notes = str(self.name.with_name(f".{self.name.name}.partial"))
        self.store = FolderStore(f"{self.notes}/new")

    @override
    def require_room(self, overwrite: bool) -> None:
        require_room(self.name, overwrite)

    @override
    def place(
        self, overwrite: bool, progress: Callable[[int, int], None] | None
    ) -> None:
        self.require_room(overwrite)
        if is_single(self.name):
            made = self.store.name
            pack_hierarchy(made, self.name, overwrite=overwrite, progress=progress)
            return
        parent = FolderTransaction(str(self.name.parent))
        key = f"{os.path.basename(self.notes)}/new"
        # What a worker left that was killed while it wrote.
        parent.remove_leftovers(key)
        with parent.replace_tree(self.name.name) as tree:
            tree.adopt_folder(key)
            tree.commit()


class BucketTarget(Target):
    """A place in a bucket of S3: objects are there at once, those of the root last."""

    def __init__(self, address: str) -> None:
        self.name: str = address.rstrip("/")
        name = sha256(self.name.encode()).hexdigest()[:16]
        self.notes = str(data_folder() / "conversions" / name)
        # A new one each time: permissions may have changed since the last one.
        self.store: RemoteStore = RemoteStore(self.name)

    @override
    def require_room(self, overwrite: bool) -> None:
        # Not `writable`, which does not wait for the answer in a main thread.
        if not self.store.ask_writable().result():
            raise refused_writing(self.name)
        if any(self.store.get(name, 0, 1) is not None for name in NODE_DOCUMENTS):
            raise FileExistsError(
                f"{self.name} already exists, and a bucket cannot replace all objects"
                " of an image at once. Choose another name, or remove it first."
            )

    @override
    def require_free(self, *, ours: bool, resumes: bool) -> None:
        # Others may have put theirs there.
        if not self.store.list_names(""):
            return
        msg = f"{self.name} holds other objects. Choose another name, or remove them."
        if ours and resumes:
            msg = (
                f"{self.name} holds parts of a conversion that cannot be continued."
                " Remove them, or choose another name."
            )
        elif ours:
            msg = (
                f"{self.name} holds parts of a conversion that was stopped. Continue it"
                " with --resume, choose another name, or remove them."
            )
        raise FileExistsError(msg)

    @override
    def discard(self) -> None:
        # What others have put there looks like what is ours.
        msg = f"Parts of a conversion stay in {self.name}."
        raise UnsupportedError(msg, remedy="Remove them in the bucket.")


def find_target(where: str | Path) -> Target:
    """Find where a new hierarchy goes.

    Parameters
    ----------
    where
        Path of a folder or an archive, or an address of S3.

    Raises
    ------
    UnsupportedError
        Where it is another address.
    """
    if not is_url(where):
        return FolderTarget(where)
    if not str(where).startswith("s3://"):
        raise UnsupportedError(
            f"{where} is not a folder or file of this computer, or an address of S3.",
            remedy="Convert to a folder, and upload it.",
        )
    if is_single(where):
        msg = "An .ozx file is written on this computer."
        raise UnsupportedError(msg, remedy="Convert it here, and upload it.")
    return BucketTarget(str(where))


def is_single(where: str | Path) -> bool:
    """Return whether a name is that of a single-file OME-Zarr."""
    return str(where).rstrip("/").lower().endswith(SINGLE)


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


def unpack_hierarchy(
    file: str | Path,
    folder: str | Path,
    *,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Write what an archive holds as a folder.

    Each entry is compared with its checksum. The folder is written aside and renamed,
    so that `folder` is always complete.

    Parameters
    ----------
    file
        An ``.ozx``, or a zip file with one OME-Zarr.
    folder
        The folder to make; its parents are made.
    overwrite
        Whether to replace `folder` if it is a zarr hierarchy.
    progress
        Called with the bytes that are written, and their total, from several threads
        but never at once. An error that it raises ends the unpacking, and nothing is
        left.

    Returns
    -------
    Path
        `folder`.

    Raises
    ------
    FileExistsError
        Where `folder` exists and `overwrite` is False, or it is not a zarr hierarchy.
    CorruptDataError
        Where the archive is damaged, or an entry would be written outside of `folder`.
    NodeNotFoundError, AccessError, UnsupportedError
        As `ArchiveStore`.
    ValueError
        Where `folder` has the name of an archive.
    OSError
        Where reading or writing fails.
    """
    folder = Path(folder)
    if is_single(folder):
        raise ValueError(f"{folder} is the name of an archive; choose another one.")
    source = open_zip(file)
    try:
        keys = list(source.list_keys(""))
        for key in keys:
            parts = key.split("/")
            # Out of the folder, or to a drive of Windows.
            if ".." in parts or "" in parts or "." in parts or ":" in parts[0]:
                raise CorruptDataError(
                    f"{source.path} has an entry {key!r}, which leads out of the"
                    " folder.",
                    remedy="Get the archive from a source that you trust.",
                )
        revisions = ((key, source.find_revision(key)) for key in keys)
        sizes = {key: known.size for key, known in revisions if known is not None}
        done, total = 0, sum(sizes.values())
        turn = threading.Lock()
        with NewHierarchy(folder, overwrite=overwrite) as new:

            def copy_entry(key: str) -> None:
                nonlocal done
                new.put_parts(key, _read_parts(source, key))
                with turn:
                    done += sizes[key]
                    if progress is not None:
                        progress(done, total)

            share_work(iter(keys), copy_entry, len(keys), CORES)
    finally:
        source.close()
    return folder


def _read_parts(source: ArchiveStore, key: str) -> Iterator[bytes]:
    """Yield the bytes of an entry; raises at the end if its checksum is wrong."""
    name = source.entry_name(key)
    archive = source.archive
    entry = archive.find_entry(name)
    if entry is None:
        raise archive.damage_error(f"no longer holds {name}")
    # Deflated entries are inflated as a whole, up to a limit of size.
    if entry.method == DEFLATED or entry.stored <= PART:
        yield archive.read(name, entry, verify=True)
        return
    checksum = 0
    for start in range(0, entry.stored, PART):
        part = slice(start, min(start + PART, entry.stored))
        data = archive.read_part(name, entry, part)
        checksum = zlib.crc32(data, checksum)
        yield data
    if checksum != entry.crc:
        raise archive.damage_error(f"has a wrong checksum at {name}")
