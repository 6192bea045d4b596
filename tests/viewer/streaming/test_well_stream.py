"""Drawing in workers goes on after an error, and does not repeat it for ever."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.streaming import well_stream
from napari_ngff.viewer.streaming.well_stream import WellStream

BOX = ((0, 64), (0, 64))


@pytest.fixture
def tasks(monkeypatch):
    """Work that waits for a worker."""
    waiting = []
    monkeypatch.setattr(Window.current, "has_workers", True)
    monkeypatch.setattr(
        Window.current, "run", lambda work, done: waiting.append((work, done))
    )
    monkeypatch.setattr(well_stream, "is_slicing", lambda: True)
    return waiting


class Level:
    """Levels of a mosaic that fail at first."""

    chunks = (64, 64)
    planes = SimpleNamespace(suits=lambda _: True)

    def __init__(self):
        self.errors = [TypeError("odd")]
        self.drawn = []

    def draw_box(self, box, stop):
        if self.errors:
            raise self.errors.pop()
        self.drawn.append(box)
        return True


def work_off(tasks):
    while tasks:
        work, done = tasks.pop(0)
        done(work())


def test_an_error_is_shown_once_and_drawing_goes_on(tasks, monkeypatch):
    shown, level = [], Level()
    tiles = type("Tiles", (), {})()
    monkeypatch.setattr(Window.current, "notify", shown.append)
    redrawn, finished = [], []
    stream = WellStream(lambda: redrawn.append(1), lambda: finished.append(1))
    stream.connect_wells([tiles])
    assert tiles.defer(level, BOX)
    work_off(tasks)
    assert shown == ["The overview is not complete.\nUnexpected TypeError: odd"]
    assert not stream.is_busy
    assert finished == [1]
    assert not redrawn
    assert tiles.defer(level, BOX), "what is looked at later"
    work_off(tasks)
    assert level.drawn == [BOX]
    assert redrawn == [1]
    assert len(shown) == 1
