"""Copies of documents that groups above them may keep: consolidated metadata.

zarr-python reads these instead of the documents where they are there. What is not in
them is not found, and what is outdated in them is taken for true.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from napari_ngff.store.arrays.stored_objects import join
from napari_ngff.store.hierarchy.json_text import written_like
from napari_ngff.store.limits import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.sources.source import Source
    from napari_ngff.store.write.transaction import Transaction

__all__ = ["consolidate", "forget"]

V2 = (".zgroup", ".zarray", ".zattrs")
KEY = "consolidated_metadata"
NOTHING = {"kind": "inline", "must_understand": False, "metadata": {}}


def consolidate(transaction: Transaction, paths: Iterable[str]) -> None:
    """Bring all copies of the documents of groups and arrays up to date.

    Nothing is done where no group above them has any.

    Parameters
    ----------
    transaction
        Of the hierarchy.
    paths
        Of the groups and arrays.

    Raises
    ------
    OSError
        Where the system refuses to write.
    """
    _change(transaction, list(paths), forgets=False)


def forget(transaction: Transaction, paths: Iterable[str]) -> None:
    """Remove the copies of documents that are about to change; see `consolidate`."""
    _change(transaction, list(paths), forgets=True)


def _change(transaction: Transaction, paths: list[str], *, forgets: bool) -> None:
    with transaction.alone():
        _change_alone(transaction, paths, forgets=forgets)


def _change_alone(transaction: Transaction, paths: list[str], *, forgets: bool) -> None:
    source = transaction.source
    for above in sorted({folder for path in paths for folder in _above(path)}):
        below = [path for path in paths if above in _above(path)]
        for name in ("zarr.json", ".zmetadata"):
            key = join(above, name)
            raw = source.get(key)
            if raw is None:
                continue
            document, copies = _copies(raw, name)
            if copies is None:
                continue
            before = json.dumps(copies)
            for path in below:
                inner = path[len(above) :].lstrip("/")
                own = _documents(source, path, name == "zarr.json")
                for end, content in own.items():
                    place = join(inner, end)
                    copies.pop(place, None)
                    if content is not None and not forgets:
                        copies[place] = content
            if json.dumps(copies) != before:
                text = raw.decode("utf-8", "replace")
                transaction.put_document(key, written_like(text, document).encode())


def _above(path: str) -> Iterator[str]:
    """List the groups above a path, the root first."""
    parts = path.split("/")
    return ("/".join(parts[:depth]) for depth in range(len(parts)))


def _copies(raw: bytes, name: str) -> tuple[JSON, JSON | None]:
    """Parse a document and find the copies in it; None where it has none."""
    try:
        document = parse_json(raw)
    except ValueError:
        return {}, None
    home = document.get(KEY) if name == "zarr.json" else document
    copies = home.get("metadata") if isinstance(home, dict) else None
    return document, copies if isinstance(copies, dict) else None


def _documents(source: Source, path: str, newer: bool) -> dict[str, Any]:
    """Read the documents of a group or an array: end of the key -> what is copied."""
    if not newer:
        return {name: _read(source, join(path, name)) for name in V2}
    content = _read(source, join(path, "zarr.json"))
    if content is not None and content.get("node_type") == "group":
        content[KEY] = NOTHING
    return {"": content}


def _read(source: Source, key: str) -> JSON | None:
    raw = source.get(key)
    try:
        content = None if raw is None else parse_json(raw)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None
