"""JSON written as it was written before."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from napari_ngff.metadata.model import JSON

__all__ = ["written_like"]


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
