"""Layers of one viewer in another coordinate system."""

from __future__ import annotations

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image

from napari_ngff import new_labels, read_layers, write
from napari_ngff.viewer.session import session_of

TURNED = {"rotate": (0, 0, 30), "scale": (2, 1, 1), "units": ("um",) * 3}


@pytest.fixture
def turned(tmp_path):
    """An image that lies turned in its system "world"."""
    pixels = np.zeros((3, 300, 300), "uint8")
    image = Image(pixels, name="one", axis_labels="zyx", **TURNED)
    viewer = ViewerModel()
    session_of(viewer)
    viewer.add_layer(
        *read_layers(str(write(tmp_path / "a.ome.zarr", [image], to_version="0.6")))
    )
    return viewer


def systems_of(viewer):
    session = session_of(viewer)
    assert "world" in [s.name for s in session.systems()]
    shown = session.system_of(viewer.layers[0])
    (other,) = [s for s in session.systems() if s != shown]
    return shown, other


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("saved", [False, True])
def test_new_labels_follow_their_image(turned, saved, level):
    image = turned.layers[0]
    labels = turned.add_layer(new_labels(image, "fresh", level=level))
    labels.paint((1, 10, 20), 3)
    if saved:
        assert labels.saver.save_now()
    shown, other = systems_of(turned)
    middle = (np.array(labels.level_shapes[0]) - 1) / 2
    over = image.world_to_data(labels.data_to_world(middle))
    before = image.data_to_world((2, 50, 7))
    for system in (other, shown, other):
        assert session_of(turned).show_system(system) == ()
        np.testing.assert_allclose(
            image.world_to_data(labels.data_to_world(middle)), over, atol=1e-6
        )
        assert labels.units == image.units
        assert session_of(turned).system_of(labels) == system
    assert not np.allclose(image.data_to_world((2, 50, 7)), before)
    # A stroke at a place of the image is stored in the voxel of that place.
    place = labels.world_to_data(image.data_to_world((2, 40, 12)))
    factor = 2**level
    assert np.rint(place[1:]).astype(int).tolist() == [40 // factor, 12 // factor]


def test_labels_whose_image_is_closed_are_named(turned):
    other = systems_of(turned)[1]
    labels = turned.add_layer(new_labels(turned.layers[0], "fresh"))
    labels.paint((1, 10, 20), 3)
    assert labels.saver.save_now()
    before = labels.data_to_world((1, 2, 3))
    turned.layers.pop(0)
    assert session_of(turned).show_system(other) == ("fresh",)
    assert labels.data_to_world((1, 2, 3)) == before
