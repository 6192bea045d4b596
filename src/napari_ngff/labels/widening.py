"""Makes room in a file for labels that its type of integers does not hold."""

from __future__ import annotations

import json
import os
import shutil
from itertools import product
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import NodeNotFoundError, UnsupportedError
from napari_ngff.labels.cells import box_of, cells_in
from napari_ngff.store.chunks import open_array
from napari_ngff.store.folder import FolderSource
from napari_ngff.store.objects import DOCUMENTS, join
from napari_ngff.store.sink import FolderSink
from napari_ngff.store.writing import ArrayWriter

if TYPE_CHECKING:
    import numpy as np

    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.chunks import Box, ChunkedArray

__all__ = ["widened"]

ASIDE, BEFORE = ".widening", ".before-widening"


def widened(array: ChunkedArray, dtype: np.dtype[Any]) -> ChunkedArray:
    """Give an array another type of integers; all else stays as it is.

    A copy is made beside it, block by block, and renamed when it is complete. Between
    two renames there is an instant without the array; the old one is then at
    ``<path>.before-widening``.

    Parameters
    ----------
    array
        In a folder.
    dtype
        That holds all values of the old one.

    Returns
    -------
    ChunkedArray
        The new array, at the same place.

    Raises
    ------
    UnsupportedError
        Where only zarr-python can encode the array.
    CorruptDataError
        Where a block cannot be read; the array stays as it is.
    OSError
        Where the system refuses; the array stays as it is.
    """
    root, path = array.source.name, array.path
    if not array.direct:
        msg = (
            f"{root}/{path} holds {array.dtype}, the labels need {dtype}, and its"
            f" codecs ({', '.join(array.codecs)}) are not known here. Convert it."
        )
        raise UnsupportedError(msg)
    old = open_array(FolderSource(root), path, array.zarr_format)
    place, aside, kept = (f"{root}/{path}{end}" for end in ("", ASIDE, BEFORE))
    for folder in (aside, kept):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        _copy(old, dtype, f"{path}{ASIDE}")
        os.rename(place, kept)
        os.rename(aside, place)
    except BaseException:
        if not os.path.exists(place):
            os.rename(kept, place)
        shutil.rmtree(aside, ignore_errors=True)
        raise
    shutil.rmtree(kept, ignore_errors=True)
    return open_array(FolderSource(root), path, array.zarr_format)


def _copy(old: ChunkedArray, dtype: np.dtype[Any], path: str) -> None:
    source, sink = old.source, FolderSink(old.source.name)
    name = DOCUMENTS[old.layout.zarr_format]
    raw = source.get(join(old.path, name))
    if raw is None:
        raise NodeNotFoundError(f"{source.name}/{old.path} is gone.")
    sink.put(f"{path}/{name}", json.dumps(_retyped(json.loads(raw), dtype)).encode())
    attributes = source.get(join(old.path, ".zattrs"))
    if attributes is not None:
        sink.put(f"{path}/.zattrs", attributes)
    new = open_array(FolderSource(source.name), path, old.zarr_format)
    reader, writer = ArrayWriter(old), ArrayWriter(new)

    def change(box: Box, block: Any) -> bool:
        block[...] = old.read(box)
        return True

    counts = (-(-n // size) for n, size in zip(old.shape, writer.unit, strict=True))
    for unit in product(*map(range, counts)):
        if sink.mark(reader.key(unit)) is not None:
            box = box_of(unit, writer.unit, old.shape)
            writer.update(unit, set(cells_in(box, writer.cell)), change)


def _retyped(document: JSON, dtype: np.dtype[Any]) -> JSON:
    """Change the type in the document of an array, and what goes with it."""
    if document["zarr_format"] == 2:
        big = document["dtype"].startswith(">")
        return document | {"dtype": dtype.newbyteorder(">" if big else "<").str}
    codecs = document["codecs"]
    if codecs[0]["name"] == "sharding_indexed":
        codecs = codecs[0]["configuration"]["codecs"]
    for codec in codecs:
        settings = codec.setdefault("configuration", {})
        if codec["name"] == "bytes":
            settings.setdefault("endian", "little")
        elif "typesize" in settings:
            settings["typesize"] = dtype.itemsize
    return document | {"data_type": dtype.name}
