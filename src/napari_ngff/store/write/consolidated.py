"""Updates consolidated metadata: copies of documents in the groups above them.

zarr-python reads such copies instead of the documents. It does not find what is missing
in them, and takes outdated copies for true.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.limits import V2_DOCUMENTS, dump_like, parse_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.store import Store, Transaction

COPIES = ".zmetadata"
"""Name of the file of Zarr v2 with copies of documents."""

KEY = "consolidated_metadata"
NOTHING = {"kind": "inline", "must_understand": False, "metadata": {}}


def update_copies(
    transaction: Transaction, paths: Iterable[str], *, forgets: bool = False
) -> None:
    """Update the copies of the documents of groups and arrays, where there are any.

    Parameters
    ----------
    transaction
        Of the hierarchy.
    paths
        Of the groups and arrays.
    forgets
        Whether to remove the copies, of documents that are about to change.

    Raises
    ------
    OSError
        Where the system refuses to write.
    """
    below = list(paths)
    # Any group above may hold copies, not only the root: zarr-python consolidates where
    # it is asked to.
    for above in sorted({folder for path in below for folder in _groups_above(path)}):
        # In Zarr v3 copies are inside of the document of the group, in v2 in a file of
        # their own.
        for name in ("zarr.json", COPIES):
            change = partial(
                _change_copies,
                transaction.source,
                above,
                name,
                [path for path in below if above in _groups_above(path)],
                forgets,
            )
            transaction.change_document(join_key(above, name), change)


def _change_copies(
    source: Store,
    above: str,
    name: str,
    paths: list[str],
    forgets: bool,
    raw: bytes | None,
) -> bytes | None:
    """Change the copies in a document of a group above; None for no change."""
    document = parse_object(raw) or {}
    copies = find_copies(document, name)
    if raw is None or copies is None:
        return None
    # Compared as text, since the copies are changed in place.
    before = json.dumps(copies)
    for path in paths:
        inner = path[len(above) :].lstrip("/")
        documents = _read_documents(source, path, name == "zarr.json")
        for end, content in documents.items():
            copied = join_key(inner, end)
            # Removed first: of a document that is gone no copy may stay.
            copies.pop(copied, None)
            if content is not None and not forgets:
                copies[copied] = content
    # Only if it changes: the document of a large plate has megabytes.
    if json.dumps(copies) == before:
        return None
    # zarr-python opens no group whose members are not side by side.
    items = sorted(copies.items())
    copies.clear()
    copies.update(items)
    return dump_like(raw.decode("utf-8", "replace"), document).encode()


def _groups_above(path: str) -> Iterator[str]:
    """List the groups above a path, the root first."""
    parts = path.split("/")
    return ("/".join(parts[:depth]) for depth in range(len(parts)))


def find_copies(document: JSON, name: str) -> JSON | None:
    """Find the copies in the document of a group of Zarr v3, or in a ``.zmetadata``."""
    home = document if name == COPIES else document.get(KEY)
    copies = home.get("metadata") if isinstance(home, dict) else None
    return copies if isinstance(copies, dict) else None


def _read_documents(source: Store, path: str, newer: bool) -> dict[str, Any]:
    """Read the documents of a group or an array, by the end of their key."""
    if not newer:
        return {
            name: parse_object(source.get(join_key(path, name)))
            for name in V2_DOCUMENTS
        }
    content = parse_object(source.get(join_key(path, "zarr.json")))
    # As zarr-python writes them: the copy of a group has no copies in it.
    if content is not None and content.get("node_type") == "group":
        content[KEY] = NOTHING
    return {"": content}
