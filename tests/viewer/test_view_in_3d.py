"""A region at a chosen level in 3D, against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image, Labels

from napari_ngff.labels.canvas import Canvas
from napari_ngff.viewer.bridge import view_volume
from napari_ngff.viewer.bridge.handover import list_results, list_sources
from napari_ngff.viewer.bridge.view_volume import plan_volume, view_in_3d
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.streaming.prepared_volume import TextureBudget
from painting import pyramid

SHAPE = 3, 8, 40, 60
COARSER = (3, 4, 20, 30), (3, 2, 10, 15)
REGION = (0, 3), (2, 3), (4, 20), (10, 50)


@pytest.fixture
def reported(monkeypatch):
    messages = []
    monkeypatch.setattr(Window, "show_passing", staticmethod(messages.append))
    return messages


@pytest.fixture
def viewer():
    viewer = ViewerModel()
    random = np.random.default_rng(0)
    pixels = random.integers(0, 200, SHAPE).astype("u1")
    levels = [one.pixels for one in pyramid(pixels, COARSER)]
    place = {"scale": (1, 4, 0.5, 0.5), "translate": (0, 3, 1, 2)}
    viewer.add_layer(Image(levels, multiscale=True, name="dapi", **place))
    labels = random.integers(0, 6, SHAPE).astype("u2")
    canvas = Canvas(pyramid(labels, COARSER))
    viewer.add_layer(OMEZarrLabels(canvas, name="nuclei", **place))
    viewer.dims.set_point(0, 1)
    return viewer


def test_the_whole_depth_of_a_region_is_shown_at_the_level(viewer):
    image, labels = viewer.layers
    shown = view_in_3d(viewer, [image, labels], REGION, level=1)
    assert viewer.dims.ndisplay == 3
    assert [type(one) for one in shown] == [Image, Labels]
    for plain, lazy in zip(shown, (image, labels), strict=True):
        assert type(plain.data) is np.ndarray
        expected = np.asarray(lazy.data[1])[1, :, 2:10, 5:25]
        np.testing.assert_array_equal(plain.data, expected)
        assert plain.visible
        assert "level 1" in plain.name
    # It lies where the region lies: voxel 0 of it in the middle of voxels 0 and 1.
    corner = shown[0].data_to_world((0, 0, 0))
    np.testing.assert_allclose(corner, image.data_to_world((1, 0.5, 4.5, 10.5))[1:])


def test_the_copies_are_for_looking_only(viewer):
    shown = view_in_3d(viewer, list(viewer.layers), REGION)
    assert not shown[1].editable
    assert list_results(viewer) == []
    assert not set(shown) & set(list_sources(viewer))


def test_what_is_not_shown_is_not_read_and_comes_back_in_2d(viewer):
    image, labels = viewer.layers
    labels.visible = False
    shown = view_in_3d(viewer, [image], REGION)
    assert not image.visible
    viewer.dims.ndisplay = 2
    assert image.visible
    assert not labels.visible, "hidden before"
    assert shown[0] not in viewer.layers
    # Once: what is hidden later stays hidden.
    image.visible = False
    viewer.dims.ndisplay = 3
    viewer.dims.ndisplay = 2
    assert not image.visible


def test_the_layer_selected_before_is_selected_again_in_2d(viewer):
    image, labels = viewer.layers
    selection = viewer.layers.selection
    selection.active = labels
    shown = view_in_3d(viewer, [image, labels], REGION)
    assert selection.active is shown[-1]
    viewer.dims.ndisplay = 2
    assert selection.active is labels
    assert labels.editable
    view_in_3d(viewer, [image, labels], REGION)
    selection.active = image  # by the user
    viewer.dims.ndisplay = 2
    assert selection.active is image


def test_another_region_takes_the_place_of_the_last(viewer):
    image, _ = list(viewer.layers)
    first = view_in_3d(viewer, [image], REGION)
    with pytest.raises(ValueError, match="Switch back to 2D"):
        plan_volume(viewer, [image], "whole", 0)
    viewer.dims.ndisplay = 2
    view_in_3d(viewer, [image], REGION, level=1)
    assert first[0] not in viewer.layers
    assert [one.name for one in viewer.layers][2:] == ["dapi (3D, level 1)"]


def test_a_second_region_in_3d_leaves_what_comes_back(viewer):
    image, labels = list(viewer.layers)
    viewer.layers.selection.active = labels
    for level in (0, 1):
        (shown,) = view_in_3d(viewer, [image], REGION, level)
        assert list(viewer.layers) == [image, labels, shown]
    viewer.dims.ndisplay = 2
    assert list(viewer.layers) == [image, labels]
    assert image.visible
    assert labels.visible
    assert viewer.layers.selection.active is labels


def paint_copy(layer):
    layer.editable = True
    layer.paint((1, 3, 4), 77)


def write_pixels(layer):
    layer.data[1, 2, 3] ^= 1


def rename_copy(layer):
    layer.name = "for the poster"


def replace_pixels(layer):
    layer.data = layer.data.copy()


@pytest.mark.parametrize(
    ("number", "change"),
    [(1, paint_copy), (0, write_pixels), (0, rename_copy), (0, replace_pixels)],
)
def test_a_copy_that_was_changed_stays(viewer, reported, number, change):
    layers = list(viewer.layers)
    shown = view_in_3d(viewer, layers, REGION)
    change(shown[number])
    viewer.dims.ndisplay = 2
    kept = shown[number]
    assert list(viewer.layers) == [*layers, kept]
    assert not kept.visible
    assert reported == [f"A changed copy is kept, hidden.\n{kept.name}"]
    (again,) = view_in_3d(viewer, [layers[0]], REGION)
    viewer.dims.ndisplay = 2
    assert list(viewer.layers) == [*layers, kept]
    assert again not in viewer.layers


def test_what_takes_too_much_memory_is_refused_and_nothing_changes(viewer, monkeypatch):
    image, labels = viewer.layers
    size = 8 * 16 * 40
    limit = TextureBudget(2 * size - 1, 2048)
    monkeypatch.setattr(view_volume, "budget_of", lambda _: limit)
    with pytest.raises(ValueError, match=r"nuclei takes .* Choose a coarser level"):
        view_in_3d(viewer, [image, labels], REGION)
    assert list(viewer.layers) == [image, labels]
    assert image.visible
    assert viewer.dims.ndisplay == 2
    view_in_3d(viewer, [image], REGION)


def test_no_side_is_longer_than_a_texture(viewer, monkeypatch):
    limit = TextureBudget(1 << 30, 39)
    monkeypatch.setattr(view_volume, "budget_of", lambda _: limit)
    with pytest.raises(ValueError, match="dapi is 40 voxels long"):
        view_in_3d(viewer, [viewer.layers[0]], REGION)
    view_in_3d(viewer, [viewer.layers[0]], REGION, level=1)


def test_flat_images_are_refused():
    viewer = ViewerModel()
    flat = [np.zeros((1, 64, 64), "u1"), np.zeros((1, 32, 32), "u1")]
    layer = viewer.add_image(flat, multiscale=True, name="flat")
    with pytest.raises(ValueError, match="flat is flat"):
        view_in_3d(viewer, [layer])


def test_the_plan_says_what_the_whole_depth_takes(viewer):
    found = plan_volume(viewer, [viewer.layers[0]], "whole", 0)
    assert found.regions == (((1, 2), (0, 8), (0, 40), (0, 60)),)
    assert found.nbytes == 8 * 40 * 60
    with pytest.raises(ValueError, match="Open an image"):
        plan_volume(viewer, [], "whole", 0)
