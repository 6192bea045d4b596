"""Changes a group's metadata document in a folder, and nothing else of it."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

from napari_ngff.store.sink import FolderSink

if TYPE_CHECKING:
    from napari_ngff.metadata.model import JSON

__all__ = ["read_text", "replace_text", "update_consolidated", "written_like"]


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
