"""A kind of store of its own: hierarchies in the memory of this process.

All that a kind of store needs: how it is found, read, and changed.
"""

from __future__ import annotations

import zlib

from napari_ngff.store.sources.blob import Blob, Revision, Traits, clip_range
from napari_ngff.store.store import Store
from napari_ngff.store.write.waiting_transaction import WaitingTransaction

OBJECTS: dict[str, dict[str, bytes]] = {}
"""Address -> key -> bytes."""


def find_store(where, _options):
    """Find what an address such as ``memory://cells/labels/nuclei`` names."""
    scheme, _, path = str(where).partition("://")
    if scheme != "memory":
        return None
    name, _, inner = path.partition("/")
    return MemoryStore(f"memory://{name}"), inner


class MemoryStore(Store):
    """Read and change the objects of an address."""

    name = ""
    traits = Traits(1, is_lasting=False)

    def __init__(self, address):
        self.name = address
        self.objects = OBJECTS.setdefault(address, {})

    def read(self, key, start=None, length=None):
        data = self.objects.get(key)
        if data is None:
            return None
        part = clip_range(start or 0, length, len(data))
        return Blob(data[part], self.find_revision(key))

    def find_revision(self, key):
        data = self.objects.get(key)
        return None if data is None else Revision(len(data), zlib.crc32(data))

    def list_names(self, prefix):
        base = f"{prefix}/" if prefix else ""
        below = (key[len(base) :] for key in self.objects if key.startswith(base))
        return tuple(sorted({key.partition("/")[0] for key in below}))

    def why_not_written(self, path=""):
        return ""

    def begin(self):
        return MemoryTransaction(self, self.name)


class MemoryTransaction(WaitingTransaction):
    """Change the objects of a `MemoryStore`, all at once."""

    def commit(self, goes_on=None):
        self._secure_all()
        for key, waiting in list(self._waiting.items()):
            if self.stored.find_revision(key) != waiting.before:
                self._conflicts.append(key)
            elif waiting.content is None:
                self.stored.objects.pop(key, None)
            else:
                staged = waiting.content
                data = staged.read_part(slice(0, staged.length))
                self.stored.objects[key] = data
        self._forget_saved()
        self._raise_conflicts()
        return True
