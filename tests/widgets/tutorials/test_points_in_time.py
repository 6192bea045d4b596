"""Tutorial: points are set in several frames of a time series, and saved."""

from __future__ import annotations

import pandas as pd
import pytest
from napari.layers import Points

from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.session import session_of
from person import Person, needs_pointer

pytestmark = needs_pointer

PLACES = [(0, 130, 88), (0, 32, 246), (1, 133, 90), (2, 136, 92), (2, 36, 252)]
"""Frame, row and column in pixels."""


@pytest.mark.long
def test_points_are_set_in_frames_of_a_time_series(viewer, tmp_path):
    film = write_image(tmp_path / "film.ome.zarr", shape=(3, 256, 384))
    parts = viewer.window._qt_viewer

    def tutorial(person):
        person.drop(film)
        image = person.layer("Cells: DNA")
        person.click(parts.layerButtons.newPointsButton)
        points = person.sees(
            lambda: next((x for x in viewer.layers if isinstance(x, Points)), None)
        )
        person.press("2")  # adds points
        person.sees(lambda: points.mode == "add")
        for count, (frame, *place) in enumerate(PLACES, 1):
            while person.look(lambda: viewer.dims.current_step[0]) < frame:
                person.press("Right")
            voxel = (frame, *place)
            person.click_canvas(person.look(lambda v=voxel: image.data_to_world(v))[1:])
            person.sees(lambda n=count: len(points.data) == n)
        person.press("ctrl+s")
        person.sees(lambda: not session_of(viewer).annotations.list_savable())
        person.step("points")

    Person(viewer, "points-in-time").take(tutorial)
    (file,) = (tmp_path / "film.points").iterdir()
    table = pd.read_csv(file)
    assert [*table["t (second)"]] == [300.0 * frame for frame, *_ in PLACES]
    for axis, number in (("y", 1), ("x", 2)):
        drawn = table[f"{axis} (micrometer)"] / 0.325
        assert (drawn - [place[number] for place in PLACES]).abs().max() < 2
