"""What the tests of plates share."""

from __future__ import annotations

import pytest

from napari_ngff.store.sources.folder_store import FolderStore


@pytest.fixture
def reads(monkeypatch):
    """Keys that were read from folders."""
    keys = []
    read = FolderStore.read

    def counted(self, key, *arguments):
        keys.append(key)
        return read(self, key, *arguments)

    monkeypatch.setattr(FolderStore, "read", counted)
    return keys
