"""Changes the metadata document of a group."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from napari_ngff.errors import CorruptDataError, name_errors
from napari_ngff.store.limits import ATTRIBUTES_IN, dump_like, parse_json
from napari_ngff.store.write.consolidated import update_copies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.store import Store, Transaction


def change_document(
    node: Node, put: Callable[[JSON], None], transaction: Transaction | None = None
) -> str:
    """Change the OME metadata of a group, as it is in the file now, in one step.

    Nothing is written where `put` changes nothing.

    Parameters
    ----------
    node
        The group.
    put
        Changes in place the object that has ``multiscales``, ``image-label`` and so on.
    transaction
        Of the hierarchy, which the caller commits; by default a new one, committed
        here.

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
        Where another program changed the document meanwhile.
    """
    # A transaction of the caller may hold more, which has to be saved together with
    # this.
    commits = transaction is None
    if transaction is None:
        transaction = node.location.source.begin()
    key = _document_key(node)
    file = f"{transaction.root}/{key}"
    with _named_errors(file):
        # Not what was parsed: others may have added keys.
        transaction.change_document(
            key, lambda raw: change_text((raw or b"").decode(), node, put).encode()
        )
        # After the document: whoever reads in between finds an outdated copy, never one
        # of a document that was not written.
        update_copies(transaction, [node.location.path])
        if commits:
            transaction.commit()
    return file


def change_documents(changes: Sequence[tuple[Node, Callable[[JSON], None]]]) -> str:
    """Change several groups, in order, and save all of them together.

    Nothing is written if one cannot be changed. The groups may be of several
    hierarchies: each change is written beside its document before the first takes its
    place. Returns the path of the first document, and raises what `change_document`
    does.
    """
    transactions: dict[Store, Transaction] = {}
    try:
        for node, put in changes:
            source = node.location.source
            if source not in transactions:
                transactions[source] = source.begin()
            transaction, key = transactions[source], _document_key(node)
            with _named_errors(f"{transaction.root}/{key}"):
                text = transaction.read_document(key)
                transaction.put(key, change_text(text, node, put).encode())
        for source, transaction in transactions.items():
            nodes = [node for node, _ in changes if node.location.source is source]
            with _named_errors(transaction.root):
                transaction.commit()
                update_copies(transaction, [node.location.path for node in nodes])
                transaction.commit()
    except BaseException:
        # Nobody commits them again: no unfinished file may stay.
        for transaction in transactions.values():
            transaction.drop_waiting()
        raise
    first = changes[0][0]
    return f"{transactions[first.location.source].root}/{_document_key(first)}"


def _document_key(node: Node) -> str:
    return node.location.object_key(ATTRIBUTES_IN[node.zarr_format])


@contextmanager
def _named_errors(file: str) -> Iterator[None]:
    try:
        with name_errors(file):
            yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        # It is a ValueError as well, and has its message already.
        if isinstance(error, CorruptDataError):
            raise
        msg = f"{file} cannot be changed: another program changed it ({error})."
        raise CorruptDataError(msg) from error


def change_text(text: str, node: Node, put: Callable[[JSON], None]) -> str:
    """Change a document; its indentation stays, and so does all that is equal."""
    document = parse_json(text)
    attributes = document["attributes"] if node.zarr_format == 3 else document
    # 0.5 and later keep it under "ome"; 0.4 keeps it in the attributes themselves.
    put(attributes.get("ome", attributes))
    return text if document == parse_json(text) else dump_like(text, document)
