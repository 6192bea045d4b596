"""Takes a label image out of the folder of its image, so that it can be put back."""

from __future__ import annotations

import os
from itertools import count
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import UnsupportedError
from napari_ngff.labels.create_labels import documents_of
from napari_ngff.labels.places.label_list import change_list, deleted
from napari_ngff.labels.places.label_location import LabelLocation
from napari_ngff.store.hierarchy.consolidated import update_copies
from napari_ngff.store.write.begin import begin_transaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.write.transaction import NewTree


def delete_labels(label: Node) -> tuple[Callable[[], str], Callable[[], None]]:
    """Take a label image off the list, and put its folder aside.

    The next change of its group removes what a process that is killed has left aside.
    New labels of its name make this final, since it would keep the name.

    Returns
    -------
    undo
        Puts it back, with every byte and at its place in the list, and returns its name
        there: another one where there are labels of its own again. It raises
        `UnsupportedError` where this is final.
    finish
        Removes it, unless it was put back; to be called in any case.

    Raises
    ------
    UnsupportedError
        Where it is in an archive or in an object store.
    ConflictError
        Where another process or window changes the same label image.
    CorruptDataError, OSError
        Where the list of labels cannot be read, or the system refuses; the label image
        stays.
    """
    location, image = label.location, label.metadata.image
    transaction = begin_transaction(location.source)
    if image is None or transaction.saves_together:
        msg = f"{label} is not in a folder, so that it could not be put back."
        raise UnsupportedError(msg, remedy="Unpack the file, and delete it there.")
    above, inside, name = f"/{location.path}".rpartition("/labels/")
    # In a sidecar the group with the list is the whole hierarchy.
    group = f"{above}/labels".lstrip("/") if inside else ""
    entry, version = name if inside else location.path, label.metadata.version or ""
    home = LabelLocation(location.source, group, version)
    documents = documents_of(home, entry, image.multiscales[0])
    tree: Any = transaction.replace_tree(location.path, entry, documents)
    key, listed = (transaction.root, label.location.path), list[str]()
    kept: NewTree = tree

    def remove_entry(names: list[str] | None) -> list[str]:
        listed.extend(home.find_unlisted() if names is None else names)
        return [name for name in listed if name != entry]

    def undo() -> str:
        if deleted.pop(key, None) is not kept:
            raise UnsupportedError(
                f"New labels were saved as {label}: the deleted ones are gone."
            )
        place, name = tree.place, entry
        numbers = count(2)
        while os.path.lexists(tree.place) and os.path.lexists(tree.new):
            name = f"{entry} {next(numbers)}"
            tree.place = place + name.removeprefix(entry)
        tree.put_back()

        def add_entry(names: list[str] | None) -> list[str]:
            # Others may have added names since.
            places = {name: place for place, name in enumerate(listed)}
            return sorted(
                dict.fromkeys([*(names or ()), name]),
                key=lambda name: places.get(name, len(places)),
            )

        if listed:  # else the list could not be read
            change_list(transaction, home, add_entry)
        update_copies(transaction, documents_of(home, name, image.multiscales[0]))
        tree.close()
        return name

    deleted[key] = kept
    try:
        # In this order no reader meets a name whose label image is not there.
        tree.remove_old()
        change_list(transaction, home, remove_entry)
        tree.set_aside()
        update_copies(transaction, documents)
    except BaseException:
        undo()
        raise
    return undo, tree.close
