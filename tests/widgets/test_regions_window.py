"""Regions by pointer and keys: a Fractal well, its fields, and new regions in it."""

from __future__ import annotations

import pytest
from qtpy.QtWidgets import QApplication

from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of
from person import Person, needs_pointer
from plates import SPACING
from region_tables import write_boxes, write_fractal_plate

ngio = pytest.importorskip("ngio")
pytestmark = needs_pointer


def test_a_person_goes_through_the_fields_of_a_well_and_adds_regions(viewer, tmp_path):
    plate = write_fractal_plate(tmp_path / "screen.ome.zarr")
    regions = session_of(viewer).regions
    well = plate / "A/1/0"

    def tutorial(person):
        person.drop(plate)
        browser = person.sees(lambda: browser_of(viewer))
        person.sees(lambda: len(browser.map.state.pictures) == 2)
        place = person.look(browser.map.rectOf("A/1").center)
        person.click(browser.map.viewport(), place)
        person.sees(lambda: session_of(viewer).browser.position is not None)
        centers = []
        for number in (1, 2):
            person.press("period")
            person.sees(lambda n=number: regions.place == f"FOV_{n}, {n} of 4")
            centers.append(person.look(lambda: viewer.scene.camera.center[-2:]))
        assert centers[0][0] == pytest.approx(centers[1][0])
        assert centers[0][1] < centers[1][1]
        dock = person.show_annotate().round
        person.click(dock.previous)
        person.sees(lambda: "FOV_1, 1 of 4" in dock.place.text())
        person.click(dock.regions)
        person.press("Home", "Down", "Return")  # New regions…
        person.sees(QApplication.activeModalWidget)
        person.types("glands")
        person.press("Return")
        drawn = person.sees(lambda: regions.drawn)
        image = person.look(lambda: viewer.layers[0])
        corners = [image.data_to_world(x)[-2:] for x in ((3, 4), (5, 7), (9, 12))]
        person.draw(corners)
        person.sees(lambda: drawn.unsaved and drawn.layer.nshapes == 1)
        person.press("ctrl+s")
        person.sees(lambda: not drawn.unsaved)
        (roi,) = ngio.open_ome_zarr_container(str(well)).get_table("glands").rois()
        assert roi.name == "region_1"
        ends = {"y": (3, 9), "x": (4, 12)}
        for axis, (low, high) in ends.items():
            start, length = roi[axis].start / SPACING, roi[axis].length / SPACING
            assert start - 0.5 == pytest.approx(low, abs=0.2)
            assert length == pytest.approx(high - low, abs=0.2)

    Person(viewer, 0).take(tutorial)


def test_the_list_has_the_tables_of_the_image_that_is_selected(viewer, tmp_path):
    paths = [tmp_path / f"{name}.ome.zarr" for name in "ab"]
    for path in paths:
        write_image(path, shape=(40, 60))
        write_boxes(path, {"F": {"y": (0, 4), "x": (0, 4)}}, names=(path.name[0],))

    def tutorial(person):
        person.drop(paths[0])
        person.sees(lambda: len(viewer.layers))
        dock = person.show_annotate().round

        def lists(name):
            listed = [dock.regions.itemText(n) for n in range(dock.regions.count())]
            shown = dock.regions.isVisible()
            return shown and listed == ["Whole image", "New regions…", name]

        person.sees(lambda: lists("a"))
        first, count = viewer.layers[0], len(viewer.layers)
        person.drop(paths[1])
        person.sees(lambda: len(viewer.layers) > count and lists("b"))
        person.look(lambda: setattr(viewer.layers.selection, "active", first))
        person.sees(lambda: lists("a"))

    Person(viewer, 0).take(tutorial)
