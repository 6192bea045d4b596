"""Changes a group's metadata document in a folder, and nothing else of it."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import AccessError, CorruptDataError, UnsupportedError
from napari_ngff.store.folder import FolderSource
from napari_ngff.store.holding import turn
from napari_ngff.store.sink import FolderSink

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.node import Node
    from napari_ngff.store.sink import Sink

__all__ = [
    "change_document",
    "read_text",
    "replace_text",
    "update_consolidated",
    "written_like",
]


def read_text(file: str) -> str:
    """Read a document as it is written."""
    with open(file, encoding="utf-8", newline="") as stream:
        return stream.read()


def replace_text(file: str, text: str) -> None:
    """Replace a document, or the one that a link leads to: never half."""
    folder, name = os.path.split(os.path.realpath(file))
    FolderSink(folder).put(name, text.encode())


def written_like(text: str, document: JSON) -> str:
    """Write a document with the indentation of the text that it was."""
    found = re.match(r"\s*\{\r?\n([ \t]+)", text)
    compact = None if found or ": " in text else (",", ":")
    indent = found[1] if found else None
    ascii_only = text.isascii()
    end = "\n" if text.endswith("\n") else ""
    return (
        json.dumps(document, indent=indent, separators=compact, ensure_ascii=ascii_only)
        + end
    )


def update_consolidated(root: str, path: str, attributes: JSON) -> None:
    """Change the copies of a group's attributes that groups above it may have.

    They are no source of truth and not kept: consolidating again makes them anew.
    """
    parts = path.split("/") if path else []
    for depth in range(len(parts) + 1):
        folder = os.path.join(root, *parts[:depth])
        inner = "/".join(parts[depth:])
        for name, keys in (
            ("zarr.json", ("consolidated_metadata", "metadata", inner, "attributes")),
            (".zmetadata", ("metadata", f"{inner}/.zattrs".lstrip("/"))),
        ):
            file = os.path.join(folder, name)
            if not os.path.exists(file) or (name == "zarr.json" and not inner):
                continue
            text = read_text(file)
            document: Any = json.loads(text)
            place = document
            for key in keys[:-1]:
                place = (place.get(key) if isinstance(place, dict) else None) or {}
            if keys[-1] in place:
                place[keys[-1]] = attributes
                replace_text(file, written_like(text, document))


def change_document(
    node: Node, put: Callable[[JSON], None], sink: Sink | None = None
) -> str:
    """Change what a group says of OME-Zarr, as it is in the file now, atomically.

    Parameters
    ----------
    node
        The group.
    put
        Changes the object with ``multiscales``, ``image-label`` and the like in place.
    sink
        Of the hierarchy, where that is no folder: what it gets waits for `Sink.commit`.

    Returns
    -------
    str
        Path of the document that was written.

    Raises
    ------
    UnsupportedError
        Where the data are in an archive and there is no `sink`, or far away.
    AccessError
        Where the system refuses.
    CorruptDataError
        Where the document is no longer what was read.
    """
    source = node.location.source
    name = "zarr.json" if node.zarr_format == 3 else ".zattrs"
    key = node.location.key(name)
    if isinstance(source, FolderSource):
        file = os.path.realpath(os.path.join(source.root, *key.split("/")))
    elif sink is None:
        msg = (
            f"{source.name} is not a folder of this computer. Download or unpack it to"
            " save into its metadata."
        )
        raise UnsupportedError(msg)
    else:
        file = f"{source.name}/{key}"
    try:
        if isinstance(source, FolderSource):
            with turn(source.root):
                text, attributes = _changed(read_text(file), node, put)
                replace_text(file, text)
                update_consolidated(source.root, node.location.path, attributes)
        elif sink is not None:
            raw = sink.source.get(key) or b""
            sink.put(key, _changed(raw.decode(), node, put)[0].encode())
    except PermissionError as error:
        msg = f"No permission to write {file}. Ask its owner, or copy the data."
        raise AccessError(msg) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, CorruptDataError):
            raise
        msg = f"{file} cannot be changed: it is not what was read ({error})."
        raise CorruptDataError(msg) from error
    return file


def _changed(text: str, node: Node, put: Callable[[JSON], None]) -> tuple[str, JSON]:
    document = json.loads(text)
    attributes = document["attributes"] if node.zarr_format == 3 else document
    put(attributes.get("ome", attributes))
    return written_like(text, document), attributes
