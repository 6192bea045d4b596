"""Colours, properties and kind of labels, written into the metadata of their image.

Only these are replaced. All other keys of ``image-label``, and of the entries
of ``colors``, stay as they are. The arrays are never touched.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from napari_ngff.errors import CorruptDataError
from napari_ngff.metadata.dump import dump_label
from napari_ngff.metadata.model import JSON, KIND, LabelInfo
from napari_ngff.metadata.version import UNSTATED, Version
from napari_ngff.store.hierarchy.edit_document import change_document
from napari_ngff.store.hierarchy.node import Node, read_node

if TYPE_CHECKING:
    from napari_ngff.store.store import Transaction

VALUE = "label-value"

K = TypeVar("K")
V = TypeVar("V")


def read_label_info(node: Node) -> LabelInfo:
    """Read colours and properties as they are in the file now.

    Raises
    ------
    NodeNotFoundError, CorruptDataError
        Where the group is gone or cannot be read.
    """
    image = read_node(node.location, node.zarr_format).metadata.image
    return (image.label if image is not None else None) or LabelInfo()


def write_label_info(
    node: Node, info: LabelInfo, transaction: Transaction | None = None
) -> bool:
    """Replace colours and properties of a label image, if they differ.

    Parameters
    ----------
    node
        Group of the label image.
    info
        All colours and properties that there shall be; `LabelInfo.source` is not
        written where the file states one.
    transaction
        Of the hierarchy, where that is an archive; for it to commit.

    Returns
    -------
    bool
        Whether there was anything to write.

    Raises
    ------
    ValueError
        Where a property cannot be stated in JSON.
    UnsupportedError, AccessError, CorruptDataError
        See `change_document`.
    """
    # Compared first: a save without changes of metadata must not touch the document.
    there = read_label_info(node)
    if replace(there, source=info.source) == info:
        return False
    version = node.metadata.version or UNSTATED
    dump_label(info, version)  # raises ValueError before anything is changed
    change_document(
        node, lambda home: with_label_info(home, info, version), transaction
    )
    return True


def rebase_label_info(
    info: LabelInfo, before: LabelInfo, there: LabelInfo
) -> LabelInfo:
    """Repeat the changes of colours and properties on what a file says now.

    Parameters
    ----------
    info
        Colours and properties after the changes.
    before
        The same before the changes.
    there
        What the file says now: somebody else may have written meanwhile. Where both
        have changed the same entry, `info` counts.
    """
    properties = dict(there.properties)
    for value in dict.fromkeys([*before.properties, *info.properties]):
        rows = (version.properties.get(value, {}) for version in (info, before, there))
        row = _merge_changes(*rows)
        properties[value] = row
        # Removed here, and nothing of another program is left in it.
        if not row and value not in info.properties:
            del properties[value]
    colors = _merge_changes(info.colors, before.colors, there.colors)
    kind = there.kind if info.kind is before.kind else info.kind
    return replace(there, colors=colors, properties=properties, kind=kind)


def _merge_changes(
    now: dict[K, V], before: dict[K, V], there: dict[K, V]
) -> dict[K, V]:
    result = dict(there)
    for key in dict.fromkeys([*before, *now]):
        # Absent from `now` and from `before`: another program has added it, and it
        # stays.
        if key not in now:
            result.pop(key, None)
        elif key not in before or before[key] != now[key]:
            result[key] = now[key]
    return result


def with_label_info(home: JSON, info: LabelInfo, version: Version) -> None:
    """Put colours and properties into the attributes of a label image, in place.

    Parameters
    ----------
    home
        The object that has ``multiscales``.
    info
        See `write_label_info`.
    version
        Of the label image.

    Raises
    ------
    CorruptDataError
        Where ``image-label`` is no object.
    """
    new = dump_label(info, version)
    old = home.setdefault("image-label", {})
    if not isinstance(old, dict):
        raise CorruptDataError('"image-label" must be an object.', remedy="Correct it.")
    # The examples of 0.2 to 0.4 state `source` beside `image-label`, not in it.
    if not old and "source" in home:
        del new["source"]
    # An entry of `colors` may have keys of other programs beside "rgba", which stay.
    for key, replaced_key in (("colors", "rgba"), ("properties", None)):
        entries = _join_entries(old.pop(key, []), new.pop(key, []), replaced_key)
        if entries:
            old[key] = entries
    for key, value in new.items():
        old.setdefault(key, value)
    if info.kind is not None:
        old[KIND] = new[KIND]


def _join_entries(old: Any, new: list[JSON], replaced_key: str | None) -> list[JSON]:
    """Join a list of the file with the new one, in the order of the file.

    Parameters
    ----------
    replaced_key
        The key of an entry that is replaced; None for all keys.
    """
    wanted = {entry[VALUE]: entry for entry in new}
    kept: dict[Any, JSON] = {}
    for entry in old if isinstance(old, list) else ():
        value = entry.get(VALUE) if isinstance(entry, dict) else None
        # Some writers state labels as 1.0.
        if not isinstance(value, int | float) or int(value) != value:
            continue
        rest = (
            {}
            if replaced_key is None
            else {k: v for k, v in entry.items() if k != replaced_key}
        )
        kept[int(value)] = rest
    result = [
        rest | {VALUE: value} | wanted.get(value, {})
        for value, rest in kept.items()
        if value
        in wanted  # An entry that is to go stays if other programs wrote into it.
        or rest.keys() - {VALUE}
    ]
    return result + [entry for value, entry in wanted.items() if value not in kept]
