"""Deletes a label image from the folder of its image, and renames it there."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import OMEZarrError, UnsupportedError
from napari_ngff.labels.create_labels import documents_of
from napari_ngff.labels.places.label_list import change_list, claim_place, deleted
from napari_ngff.labels.places.label_location import LabelLocation, name_problem
from napari_ngff.store.hierarchy.summary import list_tables, region_of
from napari_ngff.store.limits import ATTRIBUTES_IN
from napari_ngff.store.write.consolidated import update_copies
from napari_ngff.store.write.replace_tree import link_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from napari_ngff.metadata.model import Multiscale
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.store import NewTree, Transaction


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
    transaction, home, entry, multiscale = _find_entry(label)
    documents = documents_of(home, entry, multiscale)
    tree: Any = transaction.replace_tree(label.location.path, entry, documents)
    key, listed = (transaction.root, label.location.path), list[str]()
    kept: NewTree = tree

    def remove_entry(names: list[str] | None) -> list[str]:
        listed[:] = home.find_unlisted() if names is None else names
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
        update_copies(transaction, documents_of(home, name, multiscale))
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


def rename_labels(image: Node, label: Node, name: str) -> None:
    """Rename a label image of an image, and refer to its new name in tables.

    Its files have both names until the list has the new one. Whoever is killed leaves
    it whole under one of them; the next change of its group does what is left to do.

    Raises
    ------
    UnsupportedError
        Where it is in an archive, an object store or a file of its own, or nothing can
        have this name.
    NameTakenError
        Where something has this name.
    ConflictError
        Where another process or window changes the same label image.
    CorruptDataError, OSError
        Where the list of labels cannot be read, or the system refuses; the old name
        stays.
    """
    transaction, home, old, multiscale = _find_entry(label)
    path, problem = label.location.path, name_problem(name)
    if path != image.location.object_key(f"labels/{label.name}"):
        problem = f"{label} is in a file of its own. Merge it into its image first."
    if problem:
        raise UnsupportedError(problem)
    named = documents_of(home, name, multiscale)
    newer: Any = claim_place(transaction, home, name, named, replace=False)
    with newer:
        references = list(_list_references(image, old, name))
        tables = {key.rpartition("/")[0] for key, *_ in references}
        documents = [*documents_of(home, old, multiscale), *sorted(tables)]
        older: Any = transaction.replace_tree(path, old, documents)
        with older:
            link_folder(older.place, newer.new)
            newer.commit()
            older.remove_old(name, references)

            def replace_old(names: list[str] | None) -> list[str]:
                names = home.find_unlisted() if names is None else names
                # One that is in no list comes to its end.
                new = (name if each == old else each for each in (*names, old))
                return list(dict.fromkeys(new))

            change_list(transaction, home, replace_old)
            older.set_aside()
            # What others have saved since the files were linked.
            link_folder(older.new, newer.place)


def _find_entry(label: Node) -> tuple[Transaction, LabelLocation, str, Multiscale]:
    """Find the list of a label image in a folder, its name there, and its levels.

    Raises
    ------
    UnsupportedError
        Where it is in an archive or in an object store.
    """
    location, image = label.location, label.metadata.image
    transaction = location.source.begin()
    if image is None or transaction.saves_together:
        msg = f"{label} is not in a folder, so that it could not be put back."
        raise UnsupportedError(msg, remedy="Unpack the file, and change it there.")
    above, inside, name = f"/{location.path}".rpartition("/labels/")
    # In a sidecar the group with the list is the whole hierarchy.
    group = f"{above}/labels".lstrip("/") if inside else ""
    entry, version = name if inside else location.path, label.metadata.version or ""
    home = LabelLocation(location.source, group, version)
    return transaction, home, entry, image.multiscales[0]


def _list_references(
    image: Node, labels: str, name: str
) -> Iterator[tuple[str, str, str]]:
    """List the tables about a label image: key, how they refer to it, and are to."""
    form = ATTRIBUTES_IN[image.zarr_format]
    for table in list_tables(image):
        with suppress(OMEZarrError):  # another table may be damaged
            attributes = image.child(f"tables/{table}").attributes
            if region_of(attributes) == labels:
                before = attributes["region"]["path"]
                after = before.rstrip("/").removesuffix(labels) + name
                key = image.location.object_key(f"tables/{table}/{form}")
                # The letters of a name may be escaped, or not.
                for escaped in (True, False):
                    write = partial(json.dumps, ensure_ascii=escaped)
                    yield key, write(before), write(after)
