"""The place of a new label image, and what stood there before.

What is to be replaced is moved aside, and is gone only when the new label image is
whole and in the list. A creation that was interrupted is undone by the next.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

from napari_ngff.errors import NameTakenError

__all__ = ["REPLACED", "UNFINISHED", "drop_replaced", "make_room", "put_back"]

UNFINISHED = ".unfinished"
"""Stands in the folder of a label image that is not in the list yet."""

REPLACED = ".replaced"
"""Ends the name of the folder to which a label image is moved that is replaced."""

DOCUMENTS = frozenset(("zarr.json", ".zattrs"))


def make_room(folder: str, *, replace: bool) -> None:
    """Make sure that nothing is at a place, or refuse.

    Parameters
    ----------
    folder
        Of the new label image.
    replace
        Whether to move aside what is there.

    Raises
    ------
    NameTakenError
        Where something is there that shall stay.
    OSError
        Where the system refuses to move it.
    """
    put_back(folder)
    if not os.path.lexists(folder):
        return
    aside = f"{folder}{REPLACED}"
    if replace and not os.path.lexists(aside):
        os.rename(folder, aside)
        return
    parent, name = os.path.split(folder)
    taken = {other.lower() for other in os.listdir(parent)}
    numbers = range(2, len(taken) + 3)
    free = next(f"{name}-{n}" for n in numbers if f"{name}-{n}".lower() not in taken)
    what = f"{name}{REPLACED}" if replace else name
    msg = f"There is something named {what} in {parent} already. {free} is free."
    raise NameTakenError(msg, name, free)


def put_back(folder: str) -> None:
    """Remove a label image that was not finished; what it replaces is there again.

    Where all of it is there what it replaces goes.
    """
    names = set(os.listdir(folder)) if os.path.isdir(folder) else set()
    if UNFINISHED in names and names & DOCUMENTS:
        drop_replaced(folder)
    elif UNFINISHED in names:
        shutil.rmtree(folder)
    # Killed between the two moves, there is no folder.
    if not os.path.lexists(folder) and os.path.lexists(f"{folder}{REPLACED}"):
        os.rename(f"{folder}{REPLACED}", folder)


def drop_replaced(folder: str) -> None:
    """Remove what was moved aside, now that the new label image is in the list."""
    # It is whole and harmless where the system does not let it go.
    with suppress(OSError):
        shutil.rmtree(f"{folder}{REPLACED}")
