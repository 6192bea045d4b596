"""Changes the list of the label images of an image, and writes documents of groups.

A label image is listed last: until then no reader knows of it.

`claim_place` reserves the name of a new one, whether it is free or to be replaced.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from napari_ngff.errors import ConflictError, CorruptDataError, NameTakenError
from napari_ngff.labels.places.label_location import LabelLocation, name_key
from napari_ngff.metadata.dump import dump_labels
from napari_ngff.metadata.version import V0_4, V0_5
from napari_ngff.store.arrays.array_document import group_documents, put_new_group
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.limits import ATTRIBUTES_IN, parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.store import NewTree, Transaction

deleted: WeakValueDictionary[tuple[str, str], NewTree] = WeakValueDictionary()
"""What this process has deleted and can put back: root and path -> what keeps it."""


def claim_place(
    transaction: Transaction,
    home: LabelLocation,
    name: str,
    documents: Sequence[str],
    replace: bool,
) -> NewTree:
    """Reserve the path of a new label image, so that no other process takes it.

    Parameters
    ----------
    transaction
        Of the hierarchy.
    home
        The group that is to list it.
    name
        Of the label image.
    documents
        See `Transaction.replace_tree`.
    replace
        Whether another label image of that name may be replaced.

    Raises
    ------
    NameTakenError
        Where something is there that shall stay, or others make labels of that name.
    ConflictError
        Where others make labels of that name, and `replace` is set.
    OSError
        Where the system refuses.
    """
    path = home.path_of(name)
    # New labels make a deletion final: what is deleted would keep the name.
    older = deleted.pop((transaction.root, path), None)
    if older is not None:
        older.close()
    # First: what a dead process left must neither count as taken nor be overwritten.
    transaction.recover(path)
    require_free(transaction, path, replace=replace)
    try:
        # Refused where another process makes labels of that name, which are in no list
        # yet, so that `require_free` did not find them.
        return transaction.replace_tree(
            path, home.list_entry(name), documents, in_place=True
        )
    except ConflictError as error:
        if replace:
            raise  # a question whether to replace it would be asked again and again
        raise _taken_error(transaction, path) from error


def require_free(transaction: Transaction, path: str, *, replace: bool = False) -> None:
    """Refuse a path at which something exists, or would be on some system.

    Parameters
    ----------
    replace
        Whether what has exactly this name may be replaced.

    Raises
    ------
    NameTakenError
    """
    above, _, name = path.rpartition("/")
    others = set(transaction.source.list_names(above) or ())
    if replace:
        others.discard(name)
    if name_key(name) in map(name_key, others):
        raise _taken_error(transaction, path)


def _taken_error(transaction: Transaction, path: str) -> NameTakenError:
    above, _, name = path.rpartition("/")
    taken = set(map(name_key, transaction.source.list_names(above) or ()))
    numbers = range(2, len(taken) + 3)
    free = next(f"{name}-{n}" for n in numbers if name_key(f"{name}-{n}") not in taken)
    msg = f"There is something named {name} in {transaction.root}/{above} already."
    return NameTakenError(f"{msg} {free} is free.", name, free)


def put_group(transaction: Transaction, path: str, attributes: JSON) -> None:
    """Write the document of a group: zarr v3 if its attributes have "ome", else v2."""
    version = V0_5 if "ome" in attributes else V0_4
    for name, text in group_documents(attributes, version).items():
        transaction.put(join_key(path, name), text)


def state_version(attributes: JSON, home: LabelLocation) -> JSON:
    """State the version of the hierarchy, which must be the same everywhere in it."""
    if "ome" in attributes:
        # As stated, with the number of a draft, such as 0.6.dev2.
        attributes["ome"]["version"] = home.stated
    return attributes


def add_to_list(transaction: Transaction, home: LabelLocation, name: str) -> None:
    """Append a name to the list of labels; everything else in it stays.

    A new list also gets the label images that exist already, since readers that show
    them without a list would no longer look for them.

    Raises
    ------
    CorruptDataError
        Where the list that is there cannot be read.
    """
    entry = home.list_entry(name)

    def append(names: list[str] | None) -> list[str]:
        if names is None:
            names = [name for name in home.find_unlisted() if name != entry]
        return names if entry in names else [*names, entry]

    change_list(transaction, home, append)


def change_list(
    transaction: Transaction,
    home: LabelLocation,
    change: Callable[[list[str] | None], list[str]],
) -> None:
    """Change the list of labels (None if there is none), and nothing else.

    Raises
    ------
    CorruptDataError
        Where what is there cannot be read.
    """
    key = join_key(home.group, ATTRIBUTES_IN[home.zarr_format])

    def change_text(raw: bytes | None) -> bytes:
        if raw is None:
            attributes = state_version(dump_labels(change(None), home.version), home)
            return put_new_group(transaction, home.group, attributes, home.version)
        # What is no JSON is refused below, like any other thing that is not a list.
        content: Any = None
        with suppress(ValueError):
            content = parse_json(raw)
        try:
            attributes = (
                content if home.zarr_format == 2 else _ome_attributes(content, home)
            )
            listed = attributes.get("labels")
            if "labels" in attributes and not isinstance(listed, list):
                raise TypeError(f"{listed!r} is not a list")
            attributes["labels"] = change(listed)
        except (AttributeError, KeyError, TypeError) as error:
            msg = f"{transaction.root}/{key} is not a list of labels."
            raise CorruptDataError(
                msg, remedy="Correct it; it is left as it is."
            ) from error
        # The whole document again: keys of other programs stay.
        return json.dumps(content, indent=2).encode()

    transaction.change_document(key, change_text)


def _ome_attributes(content: JSON, home: LabelLocation) -> JSON:
    ome: JSON = content.setdefault("attributes", {}).setdefault("ome", {})
    ome.setdefault("version", home.stated)
    return ome
