"""Journals whose label images are gone for good.

A store that is not there may be on a disk that is only unplugged, and its edits can be
recovered when it is back. So a journal goes only where its store was deleted for sure:
the very folder that held the store is there, on the same file system, and the store is
not; and that after a long time, for it may yet be moved back.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["AGE", "folder_identity", "remove_orphans"]

AGE = 90
"""Days since anything was written to a journal."""


def folder_identity(store: str) -> list[int] | None:
    """Name the folder that holds a store, so that it is known again.

    Returns
    -------
    list or None
        Of its file system and of its number there; None where the system does not tell,
        and for what is no file.
    """
    above = os.path.dirname(os.path.abspath(store))
    if not hasattr(os, "statvfs"):
        return None
    try:
        system, number = os.statvfs(above).f_fsid, os.stat(above).st_ino
    except OSError:
        return None
    return [system, number] if system else None


def remove_orphans(home: Path, edits: str, now: float | None = None) -> None:
    """Delete the journals of stores that were deleted long ago.

    Parameters
    ----------
    home
        Folder of all journals.
    edits
        Name of the file of a journal whose first line tells its place.
    now
        In seconds since 1970.
    """
    oldest = (now or time.time()) - AGE * 86400
    for file in home.glob(f"*/*/{edits}"):
        # Others may be at work there, too.
        with suppress(OSError):
            if file.stat().st_mtime < oldest and _is_orphan(_read_head(file)):
                shutil.rmtree(file.parent)
                file.parent.parent.rmdir()


def _is_orphan(head: dict[str, Any]) -> bool:
    store, above = head.get("place", [""])[0], head.get("above")
    gone = bool(store) and not os.path.lexists(store)
    return gone and above is not None and folder_identity(store) == above


def _read_head(file: Path) -> dict[str, Any]:
    with file.open(encoding="utf-8") as lines, suppress(ValueError):
        head = json.loads(lines.readline())
        if isinstance(head, dict):
            return head
    return {}
