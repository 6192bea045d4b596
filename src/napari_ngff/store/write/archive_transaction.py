"""Changes a zip archive: what is put waits, and `commit` writes it anew."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from napari_ngff.errors import ConflictError, NodeNotFoundError, OMEZarrError
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.sources.revision import Revision
from napari_ngff.store.sources.zip_source import reload_all
from napari_ngff.store.write.file_lock import thread_turn
from napari_ngff.store.write.waiting_transaction import WaitingTransaction, WaitingTree
from napari_ngff.store.write.writer_token import remove_left
from napari_ngff.store.write.zip_rewriting import rewrite

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from napari_ngff.store.sources.zip_source import ZipSource
    from napari_ngff.store.write.transaction import GoesOn

__all__ = ["ArchiveTransaction"]


class ArchiveTransaction(WaitingTransaction):
    """Write into what a `ZipSource` reads; see `Transaction`.

    Memory: some 400 bytes for each entry of the archive while it is written, and some
    hundred for each object that waits.

    Parameters
    ----------
    archive
        From then on its reads are those of the newest archive of its path.
    """

    wants_shards = True

    def __init__(self, archive: ZipSource) -> None:
        # Where a link leads to: that is what is replaced.
        self.path = os.path.realpath(archive.path)
        super().__init__(archive, archive.name, os.path.dirname(self.path))
        self.archive = archive

    # Reading.

    def find_revision(self, key: str) -> Revision | None:
        """Tell the revision of an object; see `Transaction.find_revision`.

        What other programs have written is seen, unless something waits here.
        """
        with self._lock:
            if key in self._staged:
                staged = self._staged[key]
                return None if staged is None else staged.revision
            if not self._staged:
                # While another writes there, the old file is as good; not to commit.
                with suppress(OMEZarrError):
                    self._follow()
            return self._stored(key)

    def _follow(self) -> None:
        """Read what another program has put in the place of the archive.

        Raises
        ------
        NodeNotFoundError, AccessError, CorruptDataError, UnsupportedError
            As `ZipArchive`.
        """
        now = Revision.of_file(self.path)
        if now is None:
            msg = f"There is no file {self.path} any more. Put it back, and save again."
            raise NodeNotFoundError(msg)
        if now != self.archive.archive.file.revision:
            self.archive.reload()

    # Writing.

    def replace_tree(
        self, path: str, entry: str = "", documents: Sequence[str] = ()
    ) -> WaitingTree:
        """Begin what is to take the place of a group; see `Transaction`."""
        above, _, name = path.rpartition("/")
        return WaitingTree(self, path, join_key(above, f".{name}.new"), documents)

    def make_tree(
        self, path: str, entry: str = "", documents: Sequence[str] = ()
    ) -> WaitingTree:
        """Begin what is to come to a place: what is there is as good as removed."""
        return WaitingTree(self, path, path, ())

    def recover(self, path: str) -> None:
        """Remove what dead processes left beside the archive."""
        remove_left(os.path.dirname(self.path))

    def sweep(self, prefix: str, dead: Collection[str] = ()) -> None:
        """Remove what a writer that was killed left beside the archive."""
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
            archive. What waits goes on waiting.
        """
        with thread_turn(self.path):
            while self._staged:
                self._compare()
                self._secure()
                done = self._write(goes_on)
                if done is not None:
                    return done
        return True

    def _compare(self) -> None:
        """Drop what waits for a place that others have changed."""
        with self._lock:
            self._follow()
            # What is there may be ours, where the system did not flush its name.
            changed = [
                key
                for key, base in self._bases.items()
                if self._stored(key) not in (base, self.readable_revision(key))
            ]
            for key in changed:
                del self._staged[key], self._bases[key]
        if changed:
            more = f" and {len(changed) - 1} more" if changed[1:] else ""
            raise ConflictError(
                f"{self.root}/{changed[0]}{more} was changed by another program since"
                " it was read. It is left as it is, and nothing else is saved."
            )

    def _write(self, goes_on: GoesOn | None) -> bool | None:
        """Write the archive anew; None where the old one was changed meanwhile."""
        with self._lock:
            staged = {self.archive.entry_name(k): v for k, v in self._staged.items()}
        root = self.get("zarr.json")
        done = rewrite(self.path, self.archive.archive, staged, root, goes_on)
        if not done:
            return done
        try:
            reload_all(self.path)
        finally:
            # Not before: what waited is what the new file has.
            self._done()
        return True
