"""Chunks of servers that are kept on this disk, each with the version of its object.

What the server does not confirm by its ETag is never shown. It is asked for each object
each time that is needed, and once for an archive, when it is opened.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from napari_ngff.store.limits import is_document
from napari_ngff.store.sources.blob import Blob, Revision

if TYPE_CHECKING:
    from napari_ngff.store.disk_cache import DiskCache
    from napari_ngff.store.sources.file_part import ServerAccess

LARGEST_PART = 1 / 16
"""Of the limit: larger objects would take the place of too many others."""


class KeptChunks:
    """What is kept, and of whom.

    Parameters
    ----------
    files
        Where.
    keeps_private
        Whether also what is read with a login.
    """

    def __init__(self, files: DiskCache, *, keeps_private: bool) -> None:
        self._files = files
        self._keeps_private = keeps_private

    def may_keep(self, access: ServerAccess, key: str) -> bool:
        """Return whether an object may be kept; documents are always asked for."""
        return not is_document(key) and (self._keeps_private or access.is_public)

    def load(self, name: str) -> Blob | None:
        """Read what is kept; None where there is nothing, or it is damaged."""
        entry = self._files.load(name)
        if entry is None:
            return None
        header, _, _ = entry.partition(b"\n")
        rest, _, checksum = header.rpartition(b" ")
        tag, _, size = rest.rpartition(b" ")
        data = entry[len(header) + 1 :]
        if not (tag and size.isdigit()) or checksum != b"%08x" % zlib.crc32(data):
            return None
        self._files.note_use(name)
        return Blob(data, Revision.of_tag(tag.decode("latin-1"), int(size)))

    def keep(self, name: str, kept: Blob) -> None:
        """Keep bytes, unless they are too many or their version is unknown."""
        data, revision = kept.data, kept.revision
        if revision is None or len(data) > self._files.limit * LARGEST_PART:
            return
        known = f"{revision.tag} {revision.size} {zlib.crc32(data):08x}\n"
        self._files.keep(name, known.encode("latin-1"), data)


_chosen: list[KeptChunks] = []


def keep_chunks(chunks: KeptChunks | None) -> None:
    """Choose what is kept of all servers from now on; None for nothing."""
    _chosen[:] = [] if chunks is None else [chunks]


def kept_chunks_of(access: ServerAccess, key: str) -> KeptChunks | None:
    """Return where chunks of an object are kept; None for nowhere."""
    return next((one for one in _chosen if one.may_keep(access, key)), None)
