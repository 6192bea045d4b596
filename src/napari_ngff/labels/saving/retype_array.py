"""Changes the integer type of arrays, for labels that the old type cannot hold."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import NodeNotFoundError, UnsupportedError
from napari_ngff.store.arrays.array_writer import (
    ArrayWriter,
    replace_unchanged,
    require_encodable,
)
from napari_ngff.store.arrays.boxes import box_of, cells_in
from napari_ngff.store.arrays.chunked_array import Box, ChunkedArray, open_array
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.limits import ARRAY_DOCUMENT, parse_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.sources.blob import Revision
    from napari_ngff.store.store import NewTree, Revisions, Transaction


def retype_arrays(
    arrays: list[ChunkedArray], dtype: np.dtype[Any], transaction: Transaction
) -> None:
    """Widen the levels of a pyramid, each in its place in the list; see `retype_array`.

    Level 0 last: it must not hold more than the others.
    """
    # In the list level by level: after an error it has what is in the file.
    for number in reversed(range(len(arrays))):
        old = arrays[number]
        if old.dtype != dtype:
            try:
                arrays[number] = retype_array(old, dtype, transaction)
            except OSError:
                # It may have its place already, where only flushing its name failed.
                with suppress(OSError):
                    source = transaction.source
                    arrays[number] = open_array(source, old.path, old.zarr_format)
                raise


def retype_array(
    array: ChunkedArray, dtype: np.dtype[Any], transaction: Transaction
) -> ChunkedArray:
    """Give an array another integer type, and change nothing else.

    A copy is made beside it, block by block, and takes its place when it is complete;
    see `Transaction.replace_tree`.

    Parameters
    ----------
    array
        That `transaction` can write.
    dtype
        That holds all values of the old one.
    transaction
        Where to write.

    Returns
    -------
    ChunkedArray
        The new array, at the same place.

    Raises
    ------
    UnsupportedError
        Where only zarr-python can decode the array.
    CorruptDataError
        Where a block cannot be read; the array stays as it is.
    ConflictError
        Where another program changes it again and again; the array stays as it is.
    OSError
        Where the system refuses; the array stays as it is.
    """
    path = array.path

    def copy_array(tree: NewTree) -> Revisions:
        # Opened anew: other objects may wait in the transaction since `array` was
        # opened.
        old = open_array(transaction.source, path, array.zarr_format)
        return _copy_objects(old, dtype, tree.key, transaction)

    replace_unchanged(transaction, path, copy_array)
    return open_array(transaction.source, path, array.zarr_format)


def _copy_objects(
    old: ChunkedArray, dtype: np.dtype[Any], path: str, transaction: Transaction
) -> dict[str, Revision | None]:
    """Copy an array in another type; return the revisions of what was copied."""
    copied: dict[str, Revision | None] = {}
    source = old.source
    name = ARRAY_DOCUMENT[old.layout.zarr_format]
    raw = source.get(join_key(old.path, name))
    if raw is None:
        raise NodeNotFoundError(f"{source.name}/{old.path} is gone.")
    transaction.put(
        f"{path}/{name}", json.dumps(_retype_document(parse_json(raw), dtype)).encode()
    )
    # Zarr v2 keeps attributes in a document of their own.
    attributes = source.get(join_key(old.path, ".zattrs"))
    if attributes is not None:
        transaction.put(f"{path}/.zattrs", attributes)
    new = open_array(source, path, old.zarr_format)
    reader, writer = ArrayWriter(old, transaction), ArrayWriter(new, transaction)

    def copy_cell(box: Box, block: Any) -> bool:
        # NumPy converts while it assigns; the new type holds all old values.
        block[...] = old.read(box)
        return True

    counts = (-(-n // size) for n, size in zip(old.shape, writer.unit, strict=True))
    for unit in product(*map(range, counts)):
        # Chunks that do not exist are the fill value, before and after.
        key = reader.unit_key(unit)
        # Before it is read: a change in between is then seen.
        copied[key] = transaction.find_revision(key)
        if copied[key] is not None:
            box = box_of(unit, writer.unit, old.shape)
            writer.update_cells(
                unit, set(cells_in(box, writer.array.chunks)), copy_cell
            )
    return copied


def _retype_document(document: JSON, dtype: np.dtype[Any]) -> JSON:
    """Return the document of an array with another type, and codecs that fit it."""
    if document["zarr_format"] == 2:
        # v2 states the byte order in the type, v3 in the codec "bytes".
        big = document["dtype"].startswith(">")
        text = dtype.newbyteorder(">" if big else "<").str
        # Filters are settings for numbers of the old type.
        return document | {"dtype": text, "filters": None}
    codecs = document["codecs"]
    # The codecs of a shard's chunks are inside of it.
    if codecs[0]["name"] == "sharding_indexed":
        codecs = codecs[0]["configuration"]["codecs"]
    for codec in codecs:
        settings = codec.setdefault("configuration", {})
        if codec["name"] == "bytes":
            # May be left out for types of one byte only (zarr v3, codec "bytes").
            settings.setdefault("endian", "little")
        elif "typesize" in settings:
            # Blosc shuffles bytes by the size of an item.
            settings["typesize"] = dtype.itemsize
    return document | {"data_type": dtype.name}


def open_widened(
    arrays: Sequence[ChunkedArray], transaction: Transaction
) -> list[ChunkedArray] | None:
    """Open arrays that another window gave a wider type; None if all are as they were.

    Raises
    ------
    ConflictError, NodeNotFoundError
        Where they were replaced by others, or are gone.
    """
    # First, since it opens an archive again that another program replaced.
    transaction.refresh()
    try:
        now = [open_array(transaction.source, a.path, a.zarr_format) for a in arrays]
    except NodeNotFoundError:
        _refuse_changed(arrays, transaction)
        raise
    pairs = list(zip(arrays, now, strict=True))
    if all(new.layout.is_stored_like(old.layout) for old, new in pairs):
        return None
    if not all(_is_widened(old, new) for old, new in pairs):
        _refuse_changed(arrays, transaction)
    return now


def _refuse_changed(arrays: Sequence[ChunkedArray], transaction: Transaction) -> None:
    """Raise the error of `ArrayWriter` for an array that is another, or gone."""
    for array in arrays:
        ArrayWriter(array, transaction)


def _is_widened(old: ChunkedArray, now: ChunkedArray) -> bool:
    """Return whether an array has the same chunks as before, in a type as wide."""
    grids = [(a.shape, a.chunks, a.shards) for a in (old, now)]
    return grids[0] == grids[1] and np.can_cast(old.dtype, now.dtype, "safe")


def require_types(arrays: Sequence[ChunkedArray]) -> None:
    """Refuse levels that cannot be written, or hold fewer labels than level 0."""
    fine = arrays[0].dtype
    for array in arrays:
        require_encodable(array)
        if not np.can_cast(fine, array.dtype, "safe"):
            msg = (
                f"{array} cannot hold the labels of level 0, {fine}. Convert the"
                " levels to one type."
            )
            raise UnsupportedError(msg)
