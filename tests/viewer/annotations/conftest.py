"""A person who works without a window."""

from __future__ import annotations

import pytest

from napari_ngff.viewer.services.window import Window
from recovering import User


@pytest.fixture
def user(tmp_path, monkeypatch):
    """Give a person, what they are told, and journals of their own."""
    person = User()
    person.told = []
    person.notify = lambda text, **_: person.told.append(text)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(Window, "current", person)
    return person
