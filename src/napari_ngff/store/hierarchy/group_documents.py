"""Reads the metadata documents of a group, or of an array.

Consolidated metadata serve as a list of what is there. Copies of documents may be
outdated, and labels that were written later are missing in them. So the documents
themselves are read, but many of them at once.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ngff.errors import CorruptDataError
from napari_ngff.store.hierarchy.location import PLAIN, Location
from napari_ngff.store.limits import find_constants, parse_json, parse_object
from napari_ngff.store.sources.read_ahead import ReadAhead
from napari_ngff.store.write.consolidated import COPIES, find_copies

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from napari_ngff.metadata.model import JSON

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
    def of_document(cls, document: JSON, name: str) -> CopiedDocuments:
        """List what a document has copies of; see `find_copies`."""
        names: Iterable[str] = find_copies(document, name) or ()
        if name != COPIES:
            names = [f"{path}/{name}" for path in names]
        parts = [name.rpartition("/") for name in names]
        # Without the document of the group itself, which was read already.
        usable = {
            f"{path}/{document}"
            for path, _, document in parts
            if document in NAMES and PLAIN.fullmatch(path)
        }
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


JSON_KINDS = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
"""Kinds of values in place of the object that a document is, in words."""

FIRST = {
    None: ("zarr.json", ".zattrs", ".zgroup", COPIES),
    2: (".zattrs",),
    3: ("zarr.json",),
}
"""Documents of a group that are asked for at once, by its Zarr format if it is known:
most groups have the one that is listed first."""


class GroupDocuments:
    """The documents of one group, or of one array.

    Parameters
    ----------
    location
        Of the group.
    known
        Documents that were read already, by name.

    Attributes
    ----------
    flaws
        What the document that was read last has and JSON has not.
    """

    def __init__(
        self, location: Location, known: Mapping[str, bytes] | None = None
    ) -> None:
        self.location = location
        self._known = known or {}
        self._ahead = ReadAhead(location.source)
        self.flaws: tuple[str, ...] = ()

    def ask(self, names: Iterable[str]) -> None:
        """Ask a server for several documents at once."""
        asked = [name for name in names if name not in self._known]
        self._ahead.ask(map(self.location.object_key, asked))

    def get(self, name: str) -> bytes | None:
        """Read the bytes of a document; None where there is none."""
        known = self._known.get(name)
        return known or self._ahead.get(self.location.object_key(name))

    def list_copies(self) -> CopiedDocuments:
        """List what the group has copies of, if its server was asked at first."""
        key = self.location.object_key(COPIES)
        document = parse_object(self._ahead.get_soon(key)) or {}
        return CopiedDocuments.of_document(document, COPIES)

    def read(self, name: str) -> JSON | None:
        """Read a document; None where there is none.

        Raises
        ------
        CorruptDataError
            Where it is not a JSON object.
        """
        raw, self.flaws = self.get(name), ()
        if raw is None:
            return None
        document = parse_document(f"{self.location}/{name}", raw)
        self.flaws = find_constants(raw)
        return document


def parse_document(where: str, raw: bytes) -> JSON:
    """Parse a metadata document; `where` is its place in a message.

    Raises
    ------
    CorruptDataError
        Where it is not a JSON object.
    """
    try:
        document = parse_json(raw)
    except ValueError as error:
        msg = f"{where} is not valid JSON: {error}."
        raise CorruptDataError(msg, remedy="Restore it from a copy.") from error
    if not isinstance(document, dict):
        kind = JSON_KINDS.get(type(document), "a number")
        msg = f"{where} holds {kind} instead of keys with values (a JSON object)."
        raise CorruptDataError(msg)
    return document
