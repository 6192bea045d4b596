"""Refuses arrays whose codecs run what a file holds, before any library opens them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import UnsupportedError
from napari_ngff.store.limits import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["check_document", "is_array_document"]

DOCUMENTS = (".zarray", ".zmetadata", "zarr.json")

EXECUTING = ("pickle", "cloudpickle", "dill", "joblib", "marshal")
"""Codecs that run what they decode, as Python's ``pickle`` does."""

OF_OBJECTS = (
    "vlen-utf8",
    "vlen-bytes",
    "vlen-array",
    "json2",
    "msgpack2",
    "categorize",
)
"""Codecs that decode objects of Python, and make nothing but text and numbers."""


def is_array_document(key: str) -> bool:
    """Tell whether an object of a hierarchy may describe arrays."""
    return key.rpartition("/")[2] in DOCUMENTS


def check_document(raw: bytes, where: str) -> None:
    """Refuse a document of arrays that could not be decoded without running it.

    Parameters
    ----------
    raw
        A ``.zarray``, a ``zarr.json``, or consolidated metadata.
    where
        Its address, for the message.

    Raises
    ------
    UnsupportedError
        Where an array uses such a codec, or holds objects by an unknown one.
    """
    try:
        document = parse_json(raw)
    except (ValueError, RecursionError):
        return  # nobody can open it
    reason = next(filter(None, map(_reason, _arrays(document))), None)
    if reason:
        msg = f"{where} is not read: it holds {reason}, which can run programs."
        raise UnsupportedError(msg, remedy="Ask who made it for a copy without that.")


def _arrays(document: Any) -> Iterator[dict[str, Any]]:
    """Find the descriptions of arrays, also those in consolidated metadata."""
    open_ones = [document]
    while open_ones:
        found = open_ones.pop()
        if not isinstance(found, dict):
            continue
        yield found
        inside = found.get("consolidated_metadata")
        for holder in (found, inside):
            listed = holder.get("metadata") if isinstance(holder, dict) else None
            if isinstance(listed, dict):
                open_ones += listed.values()


def _reason(array: dict[str, Any]) -> str:
    """Say what of an array can run programs; "" for nothing."""
    names = [
        name.removeprefix("numcodecs.").lower()
        for part in ("filters", "compressor", "codecs")
        for name in _names(array.get(part))
    ]
    executing = next((name for name in names if name in EXECUTING), None)
    if executing is not None:
        return f"the codec {executing!r}"
    if _has_objects(array.get("dtype")) and not {*names} & {*OF_OBJECTS}:
        return "objects of Python"
    return ""


def _names(codecs: Any) -> Iterator[str]:
    """List the names of codecs, also of those inside others."""
    open_ones = [codecs]
    while open_ones:
        found = open_ones.pop()
        if isinstance(found, str):
            yield found
        elif isinstance(found, list):
            open_ones += found
        elif isinstance(found, dict):
            open_ones += found.values()


def _has_objects(dtype: Any) -> bool:
    """Tell whether a data type of Zarr v2 is one of objects, or has such a field."""
    if isinstance(dtype, list):
        fields = (field for field in dtype if isinstance(field, list))
        return any(_has_objects(field[1]) for field in fields if len(field) > 1)
    try:
        return isinstance(dtype, str) and np.dtype(dtype).hasobject
    except (TypeError, ValueError):
        return False
