"""A kind of annotation made by the page about annotations alone."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from napari_ngff.viewer.annotations.file_annotation import image_node
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.services.window import RESTORE, Window
from napari_ngff.viewer.session import session_of
from recovering import User, opened

PAGE = Path(__file__).parents[3] / "docs/design/016-annotations.md"


@pytest.fixture
def kind():
    """Give the kind that the page shows."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names = {}
    exec(code, names)
    return names["NoteAnnotation"]


def test_a_note_of_the_page_is_saved_read_and_restored(tmp_path, monkeypatch, kind):
    user = User()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(Window, "current", user)
    monkeypatch.setattr(
        "napari_ngff.viewer.session.KINDS",
        (*session_of.__globals__["KINDS"], kind),
    )
    path = tmp_path / "in" / "cells.ome.zarr"
    write_image(path, shape=(32, 32))
    viewer = opened(path, monkeypatch)
    owner = session_of(viewer).annotations
    node = next(filter(None, map(image_node, viewer.layers)))
    note = kind(owner, node)
    owner.add(note)
    assert owner.list_savable() == []
    note.set_text("pale")
    assert owner.list_savable() == [note]
    note.save()
    assert owner.list_savable() == []
    assert (path.parent / "cells.notes/note.txt").read_text() == "pale"
    viewer = opened(path, monkeypatch)
    (note,) = [x for x in session_of(viewer).annotations if isinstance(x, kind)]
    assert note.text == "pale"
    note.set_text("pale, out of focus")
    # As a process that is killed: what it has journaled is there, and nobody holds it.
    note._journal.close()
    user.answer = RESTORE
    viewer = opened(path, monkeypatch)
    assert "1 note of 'note' (cells.ome.zarr" in user.take_asked()[0][0]
    (note,) = session_of(viewer).annotations.list_savable()
    assert note.text == "pale, out of focus"
    note.save()
    assert os.listdir(path.parent / "cells.notes") == ["note.txt"]
    assert (path.parent / "cells.notes/note.txt").read_text() == note.text
