"""Tutorial: regions of a slide are drawn, saved as a table, and gone through."""

from __future__ import annotations

import pandas as pd
import pytest
from qtpy.QtWidgets import QApplication

from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.session import session_of
from person import Person, needs_pointer

pytestmark = needs_pointer

CORNERS = [((100, 120), (420, 560)), ((480, 700), (730, 960))]
"""Of each region, in pixels: the first row and column, and the last."""


@pytest.mark.long
def test_regions_of_a_slide_are_drawn_and_gone_through(viewer, tmp_path):
    slide = write_image(tmp_path / "slide.ome.zarr", shape=(768, 1024))
    regions = session_of(viewer).regions

    def tutorial(person):
        person.drop(slide)
        image = person.layer("Cells: DNA")
        dock = person.show_annotate().round
        person.click(viewer.window._qt_viewer.viewerButtons.resetViewButton)
        person.click(dock.regions)
        person.press("Home", "Down", "Return")  # New regions…
        person.sees(QApplication.activeModalWidget)
        person.types("glands")
        person.press("Return")
        drawn = person.sees(lambda: regions.drawn)
        for number, (first, last) in enumerate(CORNERS, 1):
            middle = [sum(pair) / 2 for pair in zip(first, last, strict=True)]
            way = [image.data_to_world(voxel) for voxel in (first, middle, last)]
            person.draw(way)
            person.sees(lambda n=number: drawn.layer.nshapes == n)
        person.press("ctrl+s")
        person.sees(lambda: not drawn.unsaved)
        person.click(dock.next)
        person.sees(lambda: regions.place == "region_1, 1 of 2")
        person.step("regions")

    Person(viewer, "slide-regions").take(tutorial)
    table = pd.read_csv(slide / "tables/glands/table.csv")
    assert [*table["FieldIndex"]] == ["region_1", "region_2"]
    for row, (first, last) in zip(table.itertuples(), CORNERS, strict=True):
        assert abs(row.y_micrometer / 0.325 - first[0]) < 3
        assert abs(row.len_x_micrometer / 0.325 - (last[1] - first[1])) < 4
