"""A kind of annotation made by the page about annotations alone."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from napari_ngff.viewer.annotations.file_annotation import image_node
from napari_ngff.viewer.samples import write_image, write_plate
from napari_ngff.viewer.services.window import RESTORE, Window
from napari_ngff.viewer.session import session_of
from recovering import User, opened

PAGE = Path(__file__).parents[3] / "docs/design/016-annotations.md"


@pytest.fixture
def kind():
    """Give the kind that the page shows."""
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    names = {}
    exec(code, names)
    return names["NoteAnnotation"]


@pytest.fixture
def user(tmp_path, monkeypatch, kind):
    """Give a user whose session knows the kind."""
    person = User()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(Window, "current", person)
    known = session_of.__globals__["KINDS"]
    monkeypatch.setattr("napari_ngff.viewer.session.KINDS", (*known, kind))
    return person


def add_note(viewer, kind, text):
    owner = session_of(viewer).annotations
    node = next(filter(None, map(image_node, viewer.layers)))
    note = kind(owner, node)
    owner.add(note)
    note.set_text(text)
    return note


def list_notes(viewer, kind):
    return [x for x in session_of(viewer).annotations if isinstance(x, kind)]


def test_a_note_of_the_page_is_saved_read_and_restored(
    tmp_path, monkeypatch, kind, user
):
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


def test_a_note_of_a_field_is_saved_before_another_is_shown(
    tmp_path, monkeypatch, kind, user
):
    path = write_plate(tmp_path / "a.ome.zarr", grid=(1, 2), fields=1)
    viewer = opened(path, monkeypatch)
    browser = session_of(viewer).browser
    for well, text in (("A/1", "pale"), ("A/2", "crowded")):
        browser.show_field(well, "0")
        add_note(viewer, kind, text)
    browser.show_field("A/1", "0")
    assert [note.text for note in list_notes(viewer, kind)] == ["pale"]
    browser.show_field("A/2", "0")
    assert [note.text for note in list_notes(viewer, kind)] == ["crowded"]
    assert session_of(viewer).annotations.list_savable() == []


def test_a_note_goes_with_the_last_channel_of_its_image(
    tmp_path, monkeypatch, kind, user
):
    path = tmp_path / "cells.ome.zarr"
    write_image(path, shape=(32, 32))
    viewer = opened(path, monkeypatch)
    owner, note = session_of(viewer).annotations, add_note(viewer, kind, "pale")
    first, *others = [x for x in viewer.layers if image_node(x) is not None]
    assert owner.list_unsaved([first]) == ([] if others else [note])
    assert owner.list_unsaved([first, *others]) == [note]
    assert note in owner.choose_to_save(viewer.layers["nuclei"])
    note.save()
    # Of a file that another window has changed since, the new text counts.
    (tmp_path / "cells.notes/note.txt").write_text("sharp")
    viewer.layers.clear()
    assert list_notes(viewer, kind) == []
    for layer in opened(path, monkeypatch).layers.copy():
        viewer.add_layer(layer)
    assert [note.text for note in list_notes(viewer, kind)] == ["sharp"]
