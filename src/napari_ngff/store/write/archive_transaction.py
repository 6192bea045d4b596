"""Changes a zip archive: objects wait, and `commit` writes a new archive."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from napari_ngff.errors import ConflictError, NodeNotFoundError, OMEZarrError
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.sources.revision import Revision
from napari_ngff.store.sources.zip_source import reload_all
from napari_ngff.store.write.file_lock import turn_lock
from napari_ngff.store.write.label_list_watch import announce_lists
from napari_ngff.store.write.waiting_transaction import WaitingTransaction, WaitingTree
from napari_ngff.store.write.writer_token import remove_left
from napari_ngff.store.write.zip_rewriting import rewrite_archive

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from napari_ngff.store.sources.zip_source import ZipSource
    from napari_ngff.store.write.transaction import GoesOn

__all__ = ["ArchiveTransaction"]


class ArchiveTransaction(WaitingTransaction):
    """Change the archive of a `ZipSource`; see `Transaction`.

    Memory: some 400 bytes for each entry of the archive while it is written, and some
    hundred for each object that waits.

    Parameters
    ----------
    archive
        It reads the newest archive of its path from now on.
    """

    wants_shards = True

    def __init__(self, archive: ZipSource) -> None:
        # The target of a link is replaced, not the link.
        self.path = os.path.realpath(archive.path)
        super().__init__(archive, archive.name, os.path.dirname(self.path))
        self.archive = archive

    # Reading.

    def find_revision(self, key: str) -> Revision | None:
        """Return the revision of an object; see `Transaction.find_revision`.

        Changes by other programs count, unless objects wait here.
        """
        with self._lock:
            if key in self._staged:
                staged = self._staged[key]
                return None if staged is None else staged.revision
            if not self._staged:
                # The file may be missing or incomplete while another program writes it:
                # reading continues in the old one, and `commit` raises.
                with suppress(OMEZarrError):
                    self._reopen_changed()
            return self._stored_revision(key)

    def _reopen_changed(self) -> None:
        """Open the archive again if another program replaced it.

        Raises
        ------
        NodeNotFoundError, AccessError, CorruptDataError, UnsupportedError
            As `ZipArchive`.
        """
        now = Revision.of_file(self.path)
        if now is None:
            msg = f"There is no file {self.path} any more. Put it back, and save again."
            raise NodeNotFoundError(msg)
        # By size, time and inode of the whole file: cheaper than comparing the entries.
        if now != self.archive.archive.file.revision:
            self.archive.reload()

    # Writing.

    def replace_tree(
        self, path: str, entry: str = "", documents: Sequence[str] = ()
    ) -> WaitingTree:
        """Begin a group that replaces another; see `Transaction`."""
        above, _, name = path.rpartition("/")
        # Beside, so that the old group can still be read while the new one is made.
        return WaitingTree(self, path, join_key(above, f".{name}.new"), documents)

    def make_tree(
        self, path: str, entry: str = "", documents: Sequence[str] = ()
    ) -> WaitingTree:
        """Begin a new group; an old one of its path is removed."""
        return WaitingTree(self, path, path, ())

    def recover(self, path: str) -> None:
        """Remove unfinished files of ended processes beside the archive."""
        remove_left(os.path.dirname(self.path))

    def remove_leftovers(self, prefix: str, dead: Collection[str] = ()) -> None:
        """Remove unfinished files of killed processes beside the archive."""
        remove_left(os.path.dirname(self.path))

    def commit(self, goes_on: GoesOn | None = None) -> bool:
        """Write the archive with all that waits; see `Transaction.commit`.

        Raises
        ------
        ConflictError
            As of `Transaction`.
        CorruptDataError, UnsupportedError
            Where the archive is damaged, or has encrypted entries.
        AccessError, OSError
            Where the folder cannot be written, or the disk has no room for a second
            archive. Objects continue to wait.
        """
        # Threads of this process; other processes wait at the lock of the archive in
        # `replace_archive`.
        with turn_lock(self.path):
            # Again, if another program replaced the archive while the new one was
            # written.
            while self._staged:
                self._drop_conflicts()
                self._secure_all()
                done = self._write_archive(goes_on)
                if done is not None:
                    return done
        return True

    def _drop_conflicts(self) -> None:
        """Drop objects that other programs have changed in the archive."""
        with self._lock:
            self._reopen_changed()
            # An object may be ours already, if an earlier commit failed after the
            # rename.
            changed = [
                key
                for key, base in self._bases.items()
                if self._stored_revision(key) not in (base, self.readable_revision(key))
            ]
            for key in changed:
                del self._staged[key], self._bases[key]
        if changed:
            more = f" and {len(changed) - 1} more" if changed[1:] else ""
            raise ConflictError(
                f"{self.root}/{changed[0]}{more} was changed by another program since"
                " it was read. It is left as it is, and nothing else is saved."
            )

    def _write_archive(self, goes_on: GoesOn | None) -> bool | None:
        """Write the new archive; None if the old one was changed meanwhile."""
        with self._lock:
            keys = tuple(self._staged)
            staged = {self.archive.entry_name(k): v for k, v in self._staged.items()}
        # With what waits: the version in the comment has to be that of the new
        # document.
        root = self.get("zarr.json")
        done = rewrite_archive(self.path, self.archive.archive, staged, root, goes_on)
        if not done:
            return done
        try:
            reload_all(self.path)
        finally:
            # After the reload: until then only the waiting objects are readable.
            self._forget_waiting()
        announce_lists(self.root, keys)
        return True
