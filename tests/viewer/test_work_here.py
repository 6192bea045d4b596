"""Regions as plain layers and back, against plain numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image, Labels, Points, Shapes

from napari_ngff.labels.canvas import Canvas
from napari_ngff.viewer.bridge.merge_result import (
    merge,
    prepare_merge,
    worked_on,
)
from napari_ngff.viewer.bridge.work_region import WORK, work_here, work_size
from napari_ngff.viewer.painting.object_edits import label_region
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.streaming.regions import (
    rectangle_region,
    same_region,
    view_region,
)
from painting import pyramid

SHAPE = 5, 61, 83
COARSER = (5, 31, 42), (3, 11, 17)
PLACE = {"scale": (2.0, 0.5, 0.5), "translate": (7.0, -3.0, 11.0)}


def labels_layer(shape=SHAPE, coarser=COARSER, **keywords):
    random = np.random.default_rng(0)
    pixels = random.integers(0, 6, shape).astype("u2")
    canvas = Canvas(pyramid(pixels, coarser))
    return OMEZarrLabels(canvas, name="nuclei", **{**PLACE, **keywords}), pixels


def image_layer():
    levels = [
        one.pixels for one in pyramid(np.random.default_rng(2).random(SHAPE), COARSER)
    ]
    return Image(levels, multiscale=True, name="dapi", **PLACE)


def shown(layer):
    return np.asarray(layer.canvas.levels[0])


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_plain_layer_lies_where_its_level_lies(level):
    image = image_layer()
    region = ((1, 4), (9, 40), (20, 61))
    work = work_here(image, region, level)
    assert type(work.data) is np.ndarray
    assert not work.multiscale
    work_again = work_here(labels_layer()[0], region, level)
    assert type(work_again.data) is np.ndarray
    np.testing.assert_allclose(work.extent.world, work_again.extent.world)
    # Each voxel of it is the voxel of level 0 in its middle.
    for at in np.ndindex(*work.data.shape):
        near = np.array(image.world_to_data(work.data_to_world(at)))
        index = tuple(np.floor(near + 0.5 + 1e-9).astype(int))
        assert work.data[at] == image.data[0][index]
    # And it holds the region, with less than a voxel around.
    low, high = (
        np.array(work.data_to_world(at))
        for at in ((-0.5,) * 3, np.array(work.data.shape) - 0.5)
    )
    first, last = (
        np.array(image.data_to_world([span[i] - 0.5 for span in region]))
        for i in (0, 1)
    )
    assert ((low <= first + 1e-9) & (low > first - work.scale)).all()
    assert ((high >= last - 1e-9) & (high < last + work.scale)).all()


def test_a_plane_is_a_picture_of_two_axes():
    layer, pixels = labels_layer()
    work = work_here(layer, ((3, 4), (0, 20), (5, 30)))
    np.testing.assert_array_equal(work.data, pixels[3, :20, 5:30])
    assert tuple(work.scale) == (0.5, 0.5)
    assert work.metadata[WORK].before == (13.0,)
    assert work_size([layer], ((3, 4), (0, 20), (5, 30))) == work.data.nbytes


def test_a_result_of_the_field_before_is_not_merged_into_the_next():
    layer, pixels = labels_layer()
    work = work_here(layer, ((3, 4), (7, 52), (11, 80)))
    found = Labels(np.ones(work.data.shape, int), metadata=work.metadata)
    merge_ready = prepare_merge(found, layer, "overwrite", like=work)
    layer.exchange_canvas(layer.canvas.copy())
    with pytest.raises(ValueError, match="shows another image by now"):
        merge_ready.apply_merge()
    np.testing.assert_array_equal(shown(layer), pixels)


def test_a_rotated_layer_keeps_its_axes():
    layer, _ = labels_layer(rotate=10)
    work = work_here(layer, ((3, 4), (5, 20), (5, 30)))
    assert work.ndim == 3
    for corner in ((0, 0, 0), (0, 14, 24)):
        expected = layer.data_to_world(np.add(corner, (3, 5, 5)))
        np.testing.assert_allclose(work.data_to_world(corner), expected)


def test_merged_labels_are_back_to_the_voxel_and_undone_at_once():
    layer, pixels = labels_layer()
    work = work_here(layer, ((3, 4), (7, 52), (11, 80)))
    result = np.random.default_rng(1).integers(0, 9, work.data.shape)
    found = Labels(result, scale=work.scale, translate=work.translate)
    merge(found, layer, "overwrite", like=worked_on(found, [image_layer(), work]))
    expected = pixels.copy()
    expected[3, 7:52, 11:80] = result
    np.testing.assert_array_equal(shown(layer), expected)
    layer.undo()
    np.testing.assert_array_equal(shown(layer), pixels)
    layer.redo()
    np.testing.assert_array_equal(shown(layer), expected)


def test_a_result_that_says_no_place_lies_where_its_region_was():
    layer, pixels = labels_layer()
    work = work_here(layer, ((0, 5), (7, 30), (11, 80)))
    found = Labels(np.full(work.data.shape, 3))
    assert worked_on(found, [work]) is work
    merge(found, layer, "overwrite", like=work)
    expected = pixels.copy()
    expected[:, 7:30, 11:80] = 3
    np.testing.assert_array_equal(shown(layer), expected)


@pytest.mark.parametrize("level", [1, 2])
def test_each_voxel_takes_the_nearest_of_a_coarser_result(level):
    layer, pixels = labels_layer()
    work = work_here(layer, ((0, 5), (20, 50), (30, 70)), level)
    result = np.arange(1, work.data.size + 1).reshape(work.data.shape)
    merge(Labels(result, metadata=work.metadata), layer, "overwrite", like=work)
    expected = pixels.copy()
    low = [start for start, _ in work.metadata[WORK].box]
    shape = COARSER[level - 1]
    for at in np.ndindex(*SHAPE):
        index = [
            int((i + 0.5) * n // full) - start
            for i, n, full, start in zip(at, shape, SHAPE, low, strict=True)
        ]
        if all(0 <= i < n for i, n in zip(index, result.shape, strict=True)):
            expected[at] = result[tuple(index)]
    np.testing.assert_array_equal(shown(layer), expected)
    # At its own level it is the result itself.
    again = work_here(layer, ((0, 5), (20, 50), (30, 70)), level)
    np.testing.assert_array_equal(again.data, result)


def test_objects_are_laid_under_over_or_in_place_of_what_is_there():
    region = ((2, 3), (0, 61), (0, 83))
    result = np.zeros((61, 83), int)
    result[10:30, 10:40] = 1
    result[30:50, 10:40] = 7
    for how in ("overwrite", "background", "extend", "add", "replace"):
        layer, pixels = labels_layer()
        before = pixels[2]
        work = work_here(layer, region)
        shift = merge(Labels(result), layer, how, value=4, like=work)
        expected = {
            "overwrite": result,
            "background": np.where(before == 0, result, before),
            "extend": np.where((before == 0) & (result > 0), result + 5, before),
            "add": np.where(result, result + 5, before),
            "replace": np.where(
                (result > 0) & np.isin(before, (0, 4)),
                4,
                np.where(before == 4, 0, before),
            ),
        }[how]
        assert shift == (5 if how in ("extend", "add") else 0)
        np.testing.assert_array_equal(shown(layer)[2], expected, err_msg=how)
        np.testing.assert_array_equal(shown(layer)[[0, 1, 3, 4]], pixels[[0, 1, 3, 4]])
        layer.undo()
        np.testing.assert_array_equal(shown(layer), pixels)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("level", [0, 1])
def test_by_default_only_whole_objects_beside_all_labels_are_merged(seed, level):
    """Else a result whose cells are a little larger made slivers around each cell."""
    random = np.random.default_rng(seed)
    layer, _ = labels_layer()
    layer.data_setitem(np.indices(SHAPE).reshape(3, -1), 0)
    for at in random.integers((0, 0, 0), SHAPE, (6, 3)):
        layer.paint(at, int(random.integers(1, 9)))
    before = shown(layer)
    work = work_here(layer, ((0, 5), (0, 61), (0, 83)), level)
    result = np.zeros(work.data.shape, "u2")
    for number, at in enumerate(random.integers((0, 0, 0), result.shape, (30, 3)), 1):
        z, y, x = at
        result[z, y : y + 6, x : x + 6] = number
    # What "overwrite" would make of it: the objects on voxels of level 0.
    merge(Labels(result, metadata=work.metadata), layer, "overwrite", like=work)
    objects = shown(layer)
    layer.undo()
    touching = np.unique(objects[before > 0])
    wanted = np.where(np.isin(objects, touching), 0, objects)
    shift = merge(Labels(result, metadata=work.metadata), layer, like=work)
    expected = np.where(wanted > 0, wanted + shift, before)
    np.testing.assert_array_equal(shown(layer), expected)
    assert len(touching) > 1, "at least one object is left out"
    assert shift >= before.max()
    with pytest.raises(ValueError, match="no object that touches no label"):
        merge(Labels(result, metadata=work.metadata), layer, like=work)


def test_the_plane_of_a_merge_is_named():
    layer, _ = labels_layer(axis_labels=("z", "y", "x"))
    one = work_here(layer, ((2, 3), (0, 61), (0, 83)))
    found = np.ones(one.data.shape, int)
    assert prepare_merge(Labels(found), layer, "add", like=one).place == "z 2"
    some = work_here(layer, ((1, 3), (0, 61), (0, 83)))
    found = np.ones(some.data.shape, int)
    assert prepare_merge(Labels(found), layer, "add", like=some).place == ""


def test_new_ids_widen_the_labels_and_never_meet_old_ones():
    layer, pixels = labels_layer()
    layer.data_setitem((np.array([0]), np.array([0]), np.array([0])), 65_530)
    work = work_here(layer, ((1, 2), (0, 61), (0, 83)))
    result = np.arange(61 * 83).reshape(61, 83)
    assert merge(Labels(result), layer, "add", like=work) == 65_530
    assert layer.canvas.dtype == np.uint32
    found = shown(layer)
    np.testing.assert_array_equal(found[1].ravel()[1:], result.ravel()[1:] + 65_530)
    assert found[1, 0, 0] == pixels[1, 0, 0]
    assert layer.next_label() == 65_531 + result.max()


def test_what_cannot_be_merged_is_refused_and_changes_nothing():
    layer, pixels = labels_layer()
    turned = Labels(np.ones((5, 9, 9), int), rotate=5)
    flat = Labels(np.ones((9, 9), int))
    far = Labels(np.ones((5, 9, 9), int), translate=(7, 1000, 0))
    below = Labels(np.full((5, 9, 9), -1), **PLACE)
    for result, words in (
        (turned, "rotated or mirrored"),
        (flat, "give the plane"),
        (far, "outside of"),
        (below, "whole numbers"),
    ):
        with pytest.raises(ValueError, match=words):
            merge(result, layer)
    with pytest.raises(ValueError, match="Choose the class"):
        merge(Labels(np.ones((5, 9, 9), int), **PLACE), layer, "replace")
    layer.read_only = "it is a copy"
    with pytest.raises(ValueError, match="it is a copy"):
        merge(Labels(np.ones((5, 9, 9), int), **PLACE), layer)
    np.testing.assert_array_equal(shown(layer), pixels)


def test_regions_are_checked():
    image = image_layer()
    with pytest.raises(ValueError, match="no level 3, only 0 to 2"):
        work_here(image, level=3)
    with pytest.raises(ValueError, match="3 axes, and the region 2"):
        work_here(image, ((0, 3), (0, 3)))
    with pytest.raises(ValueError, match="is in the region"):
        work_here(image, ((0, 3), (61, 90), (0, 4)))
    with pytest.raises(ValueError, match="neither"):
        work_here(Points([[1, 2, 3]]))


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_the_view_is_a_region(order):
    viewer = ViewerModel()
    layer = viewer.add_layer(labels_layer()[0])
    viewer.dims.order = order
    viewer.dims.set_point(order[0], layer.data_to_world((3, 20, 40))[order[0]])
    viewer.canvas.size = 100, 160
    viewer.scene.camera.zoom = 10
    viewer.scene.camera.center = [
        layer.data_to_world((3, 20, 40))[axis] for axis in order
    ]
    region = view_region(viewer, layer)
    half = dict.fromkeys(order[:1], 0) | {order[1]: 5, order[2]: 8}
    for axis, (start, stop) in enumerate(region):
        at = (3, 20, 40)[axis]
        reach = half[axis] / PLACE["scale"][axis]
        assert start == max(0, int(at - reach + 0.5))
        assert stop == min(SHAPE[axis], math.ceil(at + reach + 0.5))
    viewer.dims.ndisplay = 3
    assert view_region(viewer, layer) == tuple((0, size) for size in SHAPE)


def test_a_rectangle_is_a_region():
    viewer = ViewerModel()
    layer = viewer.add_layer(labels_layer()[0])
    viewer.dims.set_current_step(0, 2)
    corners = (
        layer.data_to_world((2, 9.6, 20.2))[1:],
        layer.data_to_world((2, 31, 40))[1:],
    )
    (top, left), (bottom, right) = corners
    box = Shapes([[[top, left], [top, right], [bottom, right], [bottom, left]]])
    assert rectangle_region(viewer, layer, box) == ((2, 3), (10, 32), (20, 41))
    with pytest.raises(ValueError, match="no shapes"):
        rectangle_region(viewer, layer, Shapes(ndim=2))


def test_a_label_is_a_region():
    pixels = np.zeros(SHAPE, "u2")
    pixels[1:3, 8:20, 31:33] = 9
    layer = OMEZarrLabels(Canvas(pyramid(pixels, COARSER)))
    assert label_region(layer, 9) == ((1, 3), (8, 20), (31, 33))
    layer.data_setitem((np.array([4]), np.array([60]), np.array([2])), 9)
    assert label_region(layer, 9) == ((1, 5), (8, 61), (2, 33))
    with pytest.raises(ValueError, match="no voxel of label 8"):
        label_region(layer, 8)


def test_a_region_of_an_image_is_found_on_its_labels():
    image = image_layer()
    layer, _ = labels_layer()
    region = ((1, 4), (9, 40), (20, 61))
    assert same_region(image, region, layer) == region
    coarse, _ = labels_layer((5, 31, 42), (), scale=(2.0, 61 / 62, 83 / 84))
    coarse.translate = np.add(image.translate, (0, 15 / 62, 41 / 168))
    z, y, x = same_region(image, region, coarse)
    assert z == (1, 4)
    assert y == (4, 21)
    assert x == (10, 31)
