"""Deletes journals whose label images were deleted.

A missing store may be on a disk that is only unplugged, and its edits can be recovered
when it is back. So a journal is deleted only if its store was certainly deleted: the
same folder that held it exists, on the same file system, and the store does not. This
is done only after a long time, since the store may have been moved, and come back.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from napari_ngff.errors import CorruptDataError
from napari_ngff.labels.saving.journal_records import EDITS, JournalHead, read_head

AGE = 90
"""Days without a write after which the journal of a deleted store is deleted."""


def folder_identity(store: str) -> list[int] | None:
    """Identify the folder that holds a store by numbers, not by its path.

    Returns
    -------
    list or None
        Identifier of the file system, and number of the folder there (inode); None
        where the system does not say, and for a store that is no file.
    """
    above = os.path.dirname(os.path.abspath(store))
    # Windows has none.
    if not hasattr(os, "statvfs"):
        return None
    try:
        system, number = os.statvfs(above).f_fsid, os.stat(above).st_ino
    except OSError:
        return None
    # 0 is what file systems without an identifier state.
    return [system, number] if system else None


def remove_orphans(home: Path, now: float | None = None) -> None:
    """Delete the journals of stores that were deleted long ago.

    Parameters
    ----------
    home
        Folder of all journals.
    now
        In seconds since 1970.
    """
    oldest = (now or time.time()) - AGE * 86400
    for file in home.glob(f"*/*/{EDITS}"):
        # Other processes clean up, too: a journal may be gone at any moment. One that
        # cannot be read stays.
        with suppress(OSError, CorruptDataError):
            if file.stat().st_mtime < oldest and _is_orphan(read_head(file.parent)):
                shutil.rmtree(file.parent)
                file.parent.parent.rmdir()


def _is_orphan(head: JournalHead | None) -> bool:
    # `lexists`: a link whose target is on an unplugged disk is not gone.
    if head is None or not head.store or os.path.lexists(head.store):
        return False
    return head.above is not None and folder_identity(head.store) == head.above
