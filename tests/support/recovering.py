"""A person who opens files and is offered what was not saved, without a window."""

from __future__ import annotations

from napari.components import ViewerModel
from napari.layers import Image

from napari_ngff.plugin import get_reader
from napari_ngff.viewer import reader as reader_module
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.services.notices import describe_edits
from napari_ngff.viewer.services.window import LATER, Window

waiting = []
"""Work that a window would do when it is idle, and what comes of it."""


def idle():
    while waiting:
        work, done = waiting.pop(0)
        done(work())


class User(Window):
    """Answers as a user would, and remembers what was asked."""

    def __init__(self):
        self.answer = LATER
        self.asked = []

    def can_ask(self, viewer):
        return True

    def offer_edits(self, viewer, found):
        self.asked.append([describe_edits(kept) for kept in found])
        return self.answer, found

    def take_asked(self):
        asked, self.asked = self.asked, []
        return asked


class BusyUser(User):
    """The same, where work waits for `idle`."""

    has_workers = True

    def run(self, work, done):
        waiting.append((work, done))

    def run_later(self, work):
        pass


def be_asked(home, monkeypatch):
    """Have a person asked, and the journals in a folder."""
    user = BusyUser()
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    waiting.clear()
    monkeypatch.setattr(Window, "current", user)
    return user


def opened(path, monkeypatch):
    """Open a path in a new viewer."""
    viewer = ViewerModel()
    monkeypatch.setattr(reader_module, "current_viewer", lambda: viewer)
    for one in get_reader(str(path))(str(path)):
        viewer.add_layer(as_layer(one) if isinstance(one, tuple) else one)
    idle()
    return viewer


def image_of(viewer):
    return next(layer for layer in viewer.layers if isinstance(layer, Image))
