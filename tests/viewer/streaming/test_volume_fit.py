"""The level that is shown in 3D."""

from __future__ import annotations

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image

from napari_ngff.viewer.plans.layer_plan import KEY
from napari_ngff.viewer.session import session_of
from napari_ngff.viewer.streaming.prepared_volume import TextureBudget
from napari_ngff.viewer.streaming.volume_fit import finest_place

SHAPES = (2, 64, 128, 128), (2, 64, 64, 64), (2, 64, 32, 32)


@pytest.fixture
def layer():
    levels = [np.zeros(shape, "u1") for shape in SHAPES]
    return Image(levels, multiscale=True, metadata={KEY: "of ours"})


@pytest.mark.parametrize(
    ("budget", "level"),
    [(64 * 128 * 128, 0), (64 * 128 * 128 - 1, 1), (64 * 64 * 64 - 1, 2), (1, 2)],
)
def test_the_finest_level_within_the_budget_is_chosen(layer, budget, level):
    place = place_within(layer, TextureBudget(budget, 2048))
    assert place.level == level
    assert place.is_part == (budget == 1)


def place_within(layer, budget):
    viewer = ViewerModel()
    viewer.add_layer(layer)
    viewer.dims.ndisplay = 3
    return finest_place(viewer, layer, range(3), budget)


def test_no_level_is_larger_than_a_texture(layer):
    assert place_within(layer, TextureBudget(1 << 30, 100)).level == 1


def test_of_the_coarsest_level_the_middle_is_shown_if_it_does_not_fit(layer):
    place = place_within(layer, TextureBudget(20 * 20 * 20, 30))
    assert place.level == 2
    assert place.box[1:] == ((22, 42), (6, 26), (6, 26))


def test_switching_to_3d_shows_it_and_back_the_zoom_chooses_again(layer):
    viewer = ViewerModel()
    session_of(viewer)
    viewer.add_layer(layer)
    viewer.dims.ndisplay = 3
    assert layer.locked_data_level == 0
    assert layer._slice.image.raw.shape == SHAPES[0][1:]
    viewer.dims.ndisplay = 2
    assert layer.locked_data_level is None


@pytest.mark.filterwarnings("ignore:Inconsistent units")
def test_layers_of_different_units_are_shown_in_3d(layer):
    viewer = ViewerModel()
    session_of(viewer)
    layer.units = ("second", "um", "um", "um")
    viewer.add_layer(layer)
    viewer.add_image(np.zeros(SHAPES[0], "u1"), name="without units")
    assert viewer.dims.units is None
    viewer.dims.ndisplay = 3
    assert layer.locked_data_level == 0
    assert layer._slice.image.raw.shape == SHAPES[0][1:]


def test_a_level_that_was_chosen_stays(layer):
    viewer = ViewerModel()
    session_of(viewer)
    viewer.add_layer(layer)
    layer.locked_data_level = 1
    viewer.dims.ndisplay = 3
    assert layer.locked_data_level == 1
    viewer.dims.ndisplay = 2
    assert layer.locked_data_level == 1


def test_other_layers_are_left_alone():
    viewer = ViewerModel()
    session_of(viewer)
    other = viewer.add_image([np.zeros(s) for s in SHAPES], multiscale=True)
    viewer.dims.ndisplay = 3
    assert other.locked_data_level is None


@pytest.mark.parametrize("locked", [0, 1])
def test_a_locked_level_is_whole_when_other_axes_are_displayed(layer, locked):
    viewer = ViewerModel()
    session_of(viewer)
    viewer.add_layer(layer)
    layer.locked_data_level = locked
    for order in ((2, 3, 0, 1), (3, 0, 2, 1), (0, 1, 2, 3)):
        viewer.dims.order = order
        shape = [SHAPES[locked][axis] for axis in order[-2:]]
        assert sorted(layer._slice.image.raw.shape) == sorted(shape)
        assert layer.corner_pixels[1].max() == max(shape) - 1
