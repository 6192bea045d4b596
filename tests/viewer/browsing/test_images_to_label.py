"""The names of images for new labels."""

from __future__ import annotations

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.browsing.images_to_label import image_choices
from napari_ngff.viewer.samples import write_plate
from napari_ngff.viewer.session import session_of


@pytest.fixture
def viewer(tmp_path):
    viewer = ViewerModel()
    path = write_plate(tmp_path / "p.ome.zarr", grid=(1, 2), fields=2, shape=(64, 64))
    session_of(viewer).browse(open_node(path)).show_field("A/1", "0")
    return viewer


def names(viewer):
    browser = session_of(viewer).browser
    return [name for name, _ in image_choices(viewer.layers, browser)]


def test_a_field_is_named_as_on_the_canvas(viewer):
    assert names(viewer) == ["A1 - field 0"]
    browser = session_of(viewer).browser
    browser.show_field("A/2", "1")
    assert names(viewer) == [browser.name_field(browser.position)] == ["A2 - field 1"]
    browser.toggle_pin("A/1", "1")
    assert names(viewer) == ["A2 - field 1", "A1 - field 1"]


def test_an_overview_and_other_images_keep_their_names(viewer):
    session_of(viewer).browser.show_mosaic()
    viewer.add_image(np.zeros((64, 64), "u1"), name="mine")
    plain = [name for name, _ in image_choices(viewer.layers)]
    assert names(viewer) == plain
    assert plain[-1] == "mine"
