"""Consolidated metadata as a list of what is there, before it is read.

Copies of documents may be outdated, and labels that were written later are missing in
them. So the documents themselves are read, but many of them at once.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from napari_ngff.store.hierarchy.location import PLAIN
from napari_ngff.store.limits import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CopiedDocuments"]

NAMES = ("zarr.json", ".zattrs", ".zarray")
"""Documents that are read; ``.zgroup`` says nothing more."""


@dataclass(frozen=True, slots=True)
class CopiedDocuments:
    """The documents below a group of which it has copies.

    Attributes
    ----------
    names
        Paths relative to the group, sorted.
    """

    names: tuple[str, ...] = ()

    @classmethod
    def of_group(cls, document: Any) -> CopiedDocuments:
        """List what the document of a group of Zarr v3 has copies of."""
        home = document.get("consolidated_metadata")
        copies = home.get("metadata") if isinstance(home, dict) else None
        return cls._of_names(f"{path}/zarr.json" for path in _keys_of(copies))

    @classmethod
    def of_file(cls, raw: bytes | None) -> CopiedDocuments:
        """List what a ``.zmetadata`` has copies of, whatever is in it."""
        try:
            document = None if raw is None else parse_json(raw)
        except ValueError:
            return cls()
        copies = document.get("metadata") if isinstance(document, dict) else None
        return cls._of_names(_keys_of(copies))

    @classmethod
    def _of_names(cls, names: Iterable[str]) -> CopiedDocuments:
        usable = {name for name in names if _is_usable(name)}
        # Attributes of arrays are not read.
        ends = {name for name in usable if name.endswith("/.zarray")}
        unread = {f"{name.removesuffix('/.zarray')}/.zattrs" for name in ends}
        return cls(tuple(sorted(usable - unread)))

    def below(self, path: str) -> tuple[str, ...]:
        """List the documents of a group and of all groups below it."""
        if not path:
            return self.names
        start = bisect_left(self.names, f"{path}/")
        # "0" is the character after "/".
        return self.names[start : bisect_left(self.names, f"{path}0")]

    def shallow_first(self, path: str, most: int) -> tuple[str, ...]:
        """List at most so many documents of a group, those of groups above first."""
        inner = sorted(self.below(path), key=lambda name: name.count("/"))
        return tuple(inner[:most])


def _keys_of(copies: Any) -> Iterable[str]:
    return copies if isinstance(copies, dict) else ()


def _is_usable(name: str) -> bool:
    path, _, document = name.rpartition("/")
    # The document of the group itself was read already.
    return document in NAMES and PLAIN.fullmatch(path) is not None
