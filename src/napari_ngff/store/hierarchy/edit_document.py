"""Changes a group's metadata document, and nothing else of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from napari_ngff.errors import AccessError, CorruptDataError
from napari_ngff.store.hierarchy.consolidated import consolidate
from napari_ngff.store.hierarchy.json_text import written_like
from napari_ngff.store.write.begin import begin_transaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.write.transaction import Transaction

__all__ = [
    "change_document",
]


def change_document(
    node: Node, put: Callable[[JSON], None], transaction: Transaction | None = None
) -> str:
    """Change what a group says of OME-Zarr, as it is in the file now, atomically.

    Parameters
    ----------
    node
        The group.
    put
        Changes the object with ``multiscales``, ``image-label`` and the like in place.
    transaction
        Of the hierarchy, for its caller to commit; else it is done at once.

    Returns
    -------
    str
        Path of the document that was written.

    Raises
    ------
    UnsupportedError
        Where the data cannot be written in place.
    AccessError
        Where the system refuses.
    CorruptDataError, ConflictError
        Where the document is no longer what was read.
    """
    own = transaction is None
    if transaction is None:
        transaction = begin_transaction(node.location.source)
    key = node.location.key("zarr.json" if node.zarr_format == 3 else ".zattrs")
    file = f"{transaction.root}/{key}"
    try:
        with transaction.alone():
            transaction.expect(key, transaction.revision(key))
            text = (transaction.source.get(key) or b"").decode()
            transaction.put_document(key, _changed(text, node, put).encode())
        consolidate(transaction, [node.location.path])
        if own:
            transaction.commit()
    except PermissionError as error:
        msg = f"No permission to write {file}."
        raise AccessError(msg, remedy="Ask its owner, or copy the data.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, CorruptDataError):
            raise
        msg = f"{file} cannot be changed: another program changed it ({error})."
        raise CorruptDataError(msg) from error
    return file


def _changed(text: str, node: Node, put: Callable[[JSON], None]) -> str:
    document = json.loads(text)
    attributes = document["attributes"] if node.zarr_format == 3 else document
    put(attributes.get("ome", attributes))
    return written_like(text, document)
