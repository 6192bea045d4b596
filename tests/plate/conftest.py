"""What the tests of plates share."""

from __future__ import annotations

import pytest

from napari_ngff.store.sources.folder_source import FolderSource


@pytest.fixture
def reads(monkeypatch):
    """Keys that were read from folders."""
    keys = []
    read = FolderSource.read

    def counted(self, key, *arguments):
        keys.append(key)
        return read(self, key, *arguments)

    monkeypatch.setattr(FolderSource, "read", counted)
    return keys
