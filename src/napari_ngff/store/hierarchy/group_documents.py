"""Reads the metadata documents of a group, or of an array."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.errors import CorruptDataError
from napari_ngff.store.hierarchy.copied_documents import CopiedDocuments
from napari_ngff.store.limits import parse_json
from napari_ngff.store.sources.read_ahead import ReadAhead

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.hierarchy.location import Location

__all__ = ["GroupDocuments"]

COPIES = ".zmetadata"
"""Name of the file of Zarr v2 with copies of documents."""

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
    """

    def __init__(
        self, location: Location, known: Mapping[str, bytes] | None = None
    ) -> None:
        self.location = location
        self._known = known or {}
        self._ahead = ReadAhead(location.source)

    def ask_first(self, zarr_format: int | None) -> None:
        """Ask a server at once for all that shows whether there is a group."""
        self.ask(FIRST[zarr_format])

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
        return CopiedDocuments.of_file(self._ahead.get_soon(key))

    def read(self, name: str) -> JSON | None:
        """Read a document; None where there is none.

        Raises
        ------
        CorruptDataError
            Where it is not a JSON object.
        """
        raw = self.get(name)
        return None if raw is None else parse_document(f"{self.location}/{name}", raw)


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
