"""In which state a source is read, object by object, and what of it changed since.

A number of four bytes stands for the state of one object: in memory and in notes there
is nothing else of it.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial

from typing_extensions import override

from napari_ngff.store.sources.read_ahead import call_at_once, reading_ahead
from napari_ngff.store.sources.source import Blob, Revision, Source, WrappedSource

NUMBERS = struct.Struct("<QqQ")

ABSENT = 0
"""Stands for an object that is not there."""


def note_objects(
    source: Source, keys: Iterable[str], *, asks: bool = True
) -> array[int]:
    """Note the state of objects, in their order.

    Parameters
    ----------
    source
        Where they are.
    keys
        Of the objects.
    asks
        Whether a server is asked, by a request for each; otherwise those on a server
        have no state.
    """
    find = source.ask_revision if asks else source.find_revision
    calls = [partial(find, key) for key in keys]
    return array("I", map(_sum_revision, call_at_once(source, calls)))


def _sum_revision(revision: Revision | None) -> int:
    if revision is None:
        return ABSENT
    numbers = NUMBERS.pack(revision.size, revision.stamp, revision.file)
    return zlib.crc32(numbers + revision.tag.encode()) or 1


def find_changed_key(
    before: array[int], after: array[int], keys: Iterable[str]
) -> str | None:
    """Return the first object whose state is another one; None if all are as before."""
    if before == after:
        return None
    trios = zip(keys, before, after, strict=True)
    return next((key for key, old, new in trios if old != new), None)


class DocumentLog(WrappedSource):
    """Read documents of a source, and keep a checksum of each.

    Attributes
    ----------
    sums
        Key -> checksum of its bytes, of those that are there.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.sums: dict[str, int] = {}

    @override
    def read(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> Blob | None:
        blob = super().read(key, start, length)
        if blob is not None and start is None:
            self.sums.setdefault(key, zlib.crc32(blob.data))
        return blob

    def reading_ahead(self, keys: Sequence[str]) -> AbstractContextManager[None]:
        """Ask a server for objects now; see `reading_ahead` of `read_ahead`."""
        return reading_ahead(self._source, keys)
