"""No frame on the canvas shows two fields, or a field at another's place."""

from __future__ import annotations

import numpy as np
import pytest
from vispy.gloo.util import _screenshot

from mouse import canvas, pump, until
from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.services import latest_task
from napari_ngff.viewer.session import session_of
from plates import write_array, write_plate

GREYS = {"A/1": 60, "A/2": 110, "B/1": 160, "B/2": 210}
"""Grey of all pixels of the fields of a well, of 255."""


@pytest.fixture
def frames(viewer, tmp_path):
    """Open a plate of plain grey wells; collects all frames that are drawn then."""
    root = write_plate(tmp_path / "p", grid=(2, 2), fields=2, shape=(3, 48, 48))
    for well, grey in GREYS.items():
        for field in ("0", "1"):
            for level, size in (("0", 48), ("1", 24)):
                pixels = np.full((3, size, size), grey, "uint16")
                write_array(root / well / field / level, pixels, 3)
    viewer.open(str(root), plugin="napari-ngff")
    for layer in viewer.layers:
        layer.contrast_limits = 0, 255
        layer.colormap, layer.blending = "gray", "translucent_no_depth"
    scene = canvas(viewer)._scene_canvas
    drawn = []

    def grab(event):
        drawn.append(_screenshot()[..., 0].astype(int))

    scene.events.draw.connect(grab, position="last")
    yield drawn
    scene.events.draw.disconnect(grab)


def greys(frame):
    """Find the wells whose grey is seen, but for single pixels at edges."""
    found = []
    for well, grey in GREYS.items():
        if np.count_nonzero(np.abs(frame - grey) <= 2) > 50:
            found.append(well)
    return found


def box(frame, grey):
    """Find the rows and columns of a grey, but for pixels at edges of drawn text."""
    ends = []
    for axis in (1, 0):
        counts = np.count_nonzero(np.abs(frame - grey) <= 2, axis=axis)
        lines = np.flatnonzero(counts > 0.3 * counts.max())
        ends += [lines[0], lines[-1]]
    return np.array(ends)


def settle(browser, position):
    until(lambda: browser.position == position)
    pump(300)


@pytest.mark.long
def test_each_frame_shows_one_field_at_its_place(viewer, frames, monkeypatch):
    # As with many layers: the window may draw after each of them.
    monkeypatch.setattr(latest_task, "STEP_SECONDS", -1)
    browser = session_of(viewer).browser
    settle(browser, None)
    frames.clear()
    browser.show_field("A/1", "0")
    settle(browser, Position("A/1", "0", 0))
    places = {}
    for frame in frames:
        wells = greys(frame)
        assert wells in (["A/1"], list(GREYS)), "the field, or the overview before"
        if wells == ["A/1"]:
            places[tuple(box(frame, GREYS["A/1"]))] = 1
    assert len(places) == 1, f"the field was drawn at several places: {list(places)}"
    whole = np.array(next(iter(places)))
    parts = (whole[[1, 3]] - whole[[0, 2]]) / frames[-1].shape
    assert parts.max() > 0.5, "it fills the canvas"

    for well in ("B/1", "B/2", "A/2"):
        frames.clear()
        before = browser.position.well
        browser.show_field(well)
        settle(browser, Position(well, "0", 0))
        assert frames, "it was drawn"
        for frame in frames:
            wells = greys(frame)
            assert wells in ([well], [before]), f"a frame shows {wells}"
            np.testing.assert_allclose(box(frame, GREYS[wells[0]]), whole, atol=2)
