"""Reads lists of label images, and calls listeners after one of them was saved.

All changes of a hierarchy go through its transactions, so each list that this process
saves is announced: by a save, a merge, a repair or a script.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.limits import ATTRIBUTES_IN, parse_json

if TYPE_CHECKING:
    from napari_ngff.store.sources.blob import Blob

ListListener = Callable[[str, str], Any]
"""A method that is called with the root of a hierarchy, and the path of the group whose
list was saved; in any thread, and while the hierarchy may be locked for others."""

_listeners: set[weakref.ref[ListListener]] = set()


def watch_lists(listener: ListListener) -> None:
    """Call a method for each list that is saved, as long as its object is alive."""
    _listeners.add(weakref.WeakMethod(listener, _listeners.discard))


def announce_lists(root: str, keys: Iterable[str]) -> None:
    """Announce the lists of labels among documents that were saved.

    Parameters
    ----------
    root
        Of the hierarchy.
    keys
        Of the documents, and of any other objects.
    """
    for key in keys:
        group, _, name = key.rpartition("/")
        if name in ATTRIBUTES_IN.values() and group.rpartition("/")[2] == "labels":
            for known in _listeners.copy():
                listener = known()
                if listener is not None:
                    listener(root, group)


def read_list(read: Callable[[str], Blob | None], group: str) -> list[Any]:
    """Read the list of label images of a group; [] where there is none.

    Raises
    ------
    OSError
        Where a document cannot be read: it may list something.
    """
    for name in ATTRIBUTES_IN.values():
        blob = read(join_key(group, name))
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            content = parse_json(b"" if blob is None else blob.data)
            if name == "zarr.json":
                content = content["attributes"].get("ome") or content["attributes"]
            return list(content["labels"])
    return []
