"""Writes JSON in the style of an earlier text."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from napari_ngff.metadata.model import JSON


def dump_like(text: str, document: JSON) -> str:
    """Write a document with the indentation of its earlier text."""
    # People read and compare these files: only what was changed should differ.
    indented = re.match(r"\s*\{\r?\n([ \t]+)", text)
    compact = None if indented or ": " in text else (",", ":")
    indent = indented[1] if indented else None
    ascii_only = text.isascii()
    end = "\n" if text.endswith("\n") else ""
    return (
        json.dumps(document, indent=indent, separators=compact, ensure_ascii=ascii_only)
        + end
    )
