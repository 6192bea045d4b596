"""Steps through regions, such as the fields of a well that is one image."""

from __future__ import annotations

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.reader import read_paths
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.session import session_of
from plates import SPACING
from region_tables import SIDE, write_fractal_plate


@pytest.fixture(scope="module")
def fractal(tmp_path_factory):
    return write_fractal_plate(tmp_path_factory.mktemp("in") / "screen.ome.zarr")


def browsed(root, well="A/1"):
    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(root))
    browser.show_field(well, "0")
    return viewer, browser


def press(viewer, key):
    viewer.keymap[next(x for x in viewer.keymap if str(x) == key)](viewer)


def seen(viewer):
    """The place in the middle of the view, in voxels of the image."""
    image = next(x for x in viewer.layers if x._type_string == "image")
    world = viewer.scene.camera.center[-2:]
    return tuple((np.subtract(world, image.translate[-2:]) / SPACING).tolist())


MIDDLES = [
    (y * SIDE + SIDE / 2 - 0.5, x * SIDE + SIDE / 2 - 0.5)
    for y in (0, 1)
    for x in (0, 1)
]


def test_keys_go_through_the_fields_of_a_well_and_to_the_next_one(fractal):
    viewer, browser = browsed(fractal)
    regions = session_of(viewer).regions
    for number, middle in enumerate(MIDDLES, 1):
        press(viewer, ".")
        assert seen(viewer) == pytest.approx(middle)
        assert regions.place == f"FOV_{number}, {number} of 4"
    press(viewer, ",")
    assert seen(viewer) == pytest.approx(MIDDLES[2])
    press(viewer, ".")
    press(viewer, ".")
    assert browser.position.well == "A/2"
    press(viewer, ".")
    assert regions.place == "FOV_1, 1 of 4"
    assert [x for x in viewer.layers if x._type_string == "shapes"] == []


def test_keys_go_to_the_fields_of_a_well_unless_regions_are_chosen(tmp_path):
    root = write_fractal_plate(tmp_path / "p.ome.zarr", ["A/1"], fields=2)
    viewer, browser = browsed(root)
    press(viewer, ".")
    assert browser.position.field == "1"
    press(viewer, ",")
    assert browser.position.field == "0"
    regions = session_of(viewer).regions
    regions.choose("FOV_ROI_table")
    press(viewer, ".")
    assert browser.position.field == "0"
    assert regions.place == "FOV_1, 1 of 4"
    for _ in range(4):
        press(viewer, ".")
    assert browser.position.field == "1"
    # The boxes go and come with their field.
    press(viewer, ".")
    (shapes,) = (x for x in viewer.layers if x._type_string == "shapes")
    assert str(regions.drawn.node).endswith("A/1/1")
    assert shapes is regions.drawn.layer
    regions.choose("")
    assert [x for x in viewer.layers if x._type_string == "shapes"] == []


def test_boxes_come_with_their_field_whenever_its_layers_tell(tmp_path):
    root = write_fractal_plate(tmp_path / "p.ome.zarr", ["A/1"], fields=3)
    viewer, browser = browsed(root)
    session = session_of(viewer)
    session.annotations.changed.connect(session.regions.follow)
    for layer in viewer.layers:  # they tell while they change, one after the other
        layer.events.data.connect(session.annotations.note_change)
        layer.events.set_data.connect(session.annotations.note_change)
    session.regions.choose("FOV_ROI_table")
    for step in (1, 1, -1, -1):
        browser.step_field(step)
        (shapes,) = (x for x in viewer.layers if x._type_string == "shapes")
        assert (shapes.name, shapes.visible) == ("FOV_ROI_table", True)
        drawn = session.regions.drawn
        assert drawn.layer is shapes
        assert str(drawn.node).endswith(f"A/1/{browser.position.field}")


def test_a_plate_whose_layers_are_gone_is_not_put_over_another_image(fractal, tmp_path):
    viewer, browser = browsed(fractal)
    viewer.layers.clear()
    path = str(write_image(tmp_path / "f.zarr", shape=(48, 48)))
    session_of(viewer).add(read_paths(path), path)
    labels = viewer.add_layer(new_labels(viewer.layers[0]))
    before = list(viewer.layers)
    assert browser.title_of(labels) == ""
    assert session_of(viewer).name_image(labels).endswith("of f.zarr")
    press(viewer, ".")
    assert list(viewer.layers) == before
    viewer.layers.clear()
    browser.show_field("A/1", "0")
    other = viewer.add_points()
    assert browser.title_of(other) == browser.title_of(viewer.layers[0]) != ""
