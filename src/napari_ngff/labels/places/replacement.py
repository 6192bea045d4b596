"""The place of a new label image, and what stood there before.

What is to be replaced is moved aside, and is gone only when the new label image is
whole and in the list. A creation that was interrupted is undone by the next. In an
archive all of it waits in the sink, and nothing has to be moved or undone.
"""

from __future__ import annotations

import os
import shutil
import weakref
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from napari_ngff.errors import NameTakenError
from napari_ngff.store.holding import hold, is_held
from napari_ngff.store.sink import PART, FolderSink

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari_ngff.store.sink import Sink

__all__ = [
    "REPLACED",
    "UNFINISHED",
    "Claim",
    "drop_replaced",
    "make_room",
    "put_back",
]

UNFINISHED = ".unfinished"
"""Stands in the folder of a label image that is not in the list yet."""

REPLACED = ".replaced"
"""Ends the name of the folder to which a label image is moved that is replaced."""

DOCUMENTS = frozenset(("zarr.json", ".zattrs"))


class Claim:
    """The place of a label image that is not finished: nobody else may take it.

    Whoever ends in any way has no claim any more, and what is there is put back. An
    archive needs none: of two that write there the second is told.

    Parameters
    ----------
    sink
        Of the hierarchy.
    path
        Of the label image there.
    """

    def __init__(self, sink: Sink, path: str) -> None:
        sink.put(f"{path}/{UNFINISHED}", b"")
        self._files = ExitStack()
        if isinstance(sink, FolderSink):
            with suppress(OSError):  # where there are no locks
                self._files.enter_context(hold(f"{sink.root}/{path}/{UNFINISHED}"))
        weakref.finalize(self, self._files.close)

    def release(self) -> None:
        """Give it up: all is there, or nothing of it shall be."""
        self._files.close()


def make_room(sink: Sink, path: str, *, replace: bool, listed: bool = True) -> None:
    """Make sure that nothing is at a place, or refuse.

    Parameters
    ----------
    sink
        Of the hierarchy.
    path
        Of the new label image there.
    replace
        Whether to move aside what is there.
    listed
        Whether the list of labels has the name.

    Raises
    ------
    NameTakenError
        Where something is there that shall stay.
    OSError
        Where the system refuses to move it.
    """
    put_back(sink, path, listed=listed)
    above, _, name = path.rpartition("/")
    if not isinstance(sink, FolderSink):
        siblings = sink.source.names(above) or ()
        if name not in siblings:
            return
        if not replace:
            raise _taken(name, f"{sink.root}/{above}", siblings)
        sink.clear(path)
        return
    folder = f"{sink.root}/{path}"
    if not os.path.lexists(folder):
        return
    aside = f"{folder}{REPLACED}"
    claimed = is_held(f"{folder}/{UNFINISHED}")
    if replace and not claimed and not os.path.lexists(aside):
        os.rename(folder, aside)
        return
    what = f"{name}{REPLACED}" if replace and not claimed else name
    parent = os.path.dirname(folder)
    raise _taken(name, parent, os.listdir(parent), what)


def _taken(
    name: str, parent: str, siblings: Iterable[str], what: str = ""
) -> NameTakenError:
    taken = {other.lower() for other in siblings}
    numbers = range(2, len(taken) + 3)
    free = next(f"{name}-{n}" for n in numbers if f"{name}-{n}".lower() not in taken)
    msg = f"There is something named {what or name} in {parent} already."
    return NameTakenError(f"{msg} {free} is free.", name, free)


def put_back(sink: Sink, path: str, *, listed: bool = True) -> None:
    """Remove a label image that was not finished; what it replaces is there again.

    Where all of it is there, in the list, too, what it replaces goes.
    """
    if not isinstance(sink, FolderSink):
        return
    folder = f"{sink.root}/{path}"
    if is_held(f"{folder}/{UNFINISHED}"):
        return
    is_folder = os.path.isdir(folder)
    names = set(os.listdir(folder)) if is_folder else set()
    # Of a creation that was killed at its very first step.
    nothing = is_folder and all(name.endswith(PART) for name in names)
    if UNFINISHED in names and names & DOCUMENTS and listed:
        drop_replaced(sink, path)
    elif UNFINISHED in names or nothing:
        shutil.rmtree(folder)
    # Killed between the two moves, there is no folder.
    if not os.path.lexists(folder) and os.path.lexists(f"{folder}{REPLACED}"):
        os.rename(f"{folder}{REPLACED}", folder)


def drop_replaced(sink: Sink, path: str) -> None:
    """Remove what was moved aside, now that the new label image is in the list."""
    if not isinstance(sink, FolderSink):
        return
    # It is whole and harmless where the system does not let it go.
    with suppress(OSError):
        shutil.rmtree(f"{sink.root}/{path}{REPLACED}")
