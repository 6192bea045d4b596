"""Refuses arrays whose codecs run programs of a file, before a library opens them."""

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
"""Codecs that decode objects of Python, which are only text and numbers."""


def is_array_document(key: str) -> bool:
    """Return whether an object of a hierarchy may describe arrays."""
    return key.rpartition("/")[2] in DOCUMENTS


def check_document(raw: bytes, where: str) -> None:
    """Refuse a document of arrays whose decoding could run programs of the file.

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
        return  # no library can open it either
    reason = next(filter(None, map(_find_danger, _find_arrays(document))), None)
    if reason:
        msg = f"{where} is not read: it holds {reason}, which can run programs."
        raise UnsupportedError(msg, remedy="Ask who made it for a copy without that.")


def _find_arrays(document: Any) -> Iterator[dict[str, Any]]:
    """Find the descriptions of arrays, also those in consolidated metadata."""
    # A list, not recursion: a file may be nested deeper than Python's stack.
    pending = [document]
    while pending:
        value = pending.pop()
        if not isinstance(value, dict):
            continue
        yield value
        inside = value.get("consolidated_metadata")
        for holder in (value, inside):
            listed = holder.get("metadata") if isinstance(holder, dict) else None
            if isinstance(listed, dict):
                pending += listed.values()


def _find_danger(array: dict[str, Any]) -> str:
    """Name the part of an array that can run programs; "" for none."""
    names = [
        # Zarr v3 has the codecs of v2 with this prefix.
        name.removeprefix("numcodecs.").lower()
        for part in ("filters", "compressor", "codecs")
        for name in _list_codecs(array.get(part))
    ]
    # Any text of the codecs counts, also in their settings: too much is refused
    # rather than too little.
    executing = next((name for name in names if name in EXECUTING), None)
    if executing is not None:
        return f"the codec {executing!r}"
    if _has_objects(array.get("dtype")) and not {*names} & {*OF_OBJECTS}:
        return "objects of Python"
    return ""


def _list_codecs(codecs: Any) -> Iterator[str]:
    """List the names of codecs, also of those inside others."""
    pending = [codecs]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, dict):
            pending += value.values()


def _has_objects(dtype: Any) -> bool:
    """Return whether a data type of Zarr v2 is one of objects, or has such a field."""
    if isinstance(dtype, list):
        fields = (field for field in dtype if isinstance(field, list))
        return any(_has_objects(field[1]) for field in fields if len(field) > 1)
    try:
        return isinstance(dtype, str) and np.dtype(dtype).hasobject
    except (TypeError, ValueError):
        return False
