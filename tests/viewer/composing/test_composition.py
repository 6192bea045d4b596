"""Which layers are one image, and what is refused with which reason."""

from __future__ import annotations

import numpy as np
import pytest
from napari.layers import Image, Labels
from napari.utils import DirectLabelColormap

from napari_ngff.errors import UnsupportedError
from napari_ngff.viewer.composing.composition import compose_layers
from napari_ngff.viewer.composing.layer_axes import layer_axes, place_of

PLANE = np.arange(12, dtype=np.uint16).reshape(3, 4)


def composed(*layers, name="stem"):
    return compose_layers([layer.as_layer_data_tuple() for layer in layers], name)


def axes_of(layer):
    return [(a.name, a.type, a.unit) for a in composed(layer).image.axes]


def whole(source):
    return source.read(tuple((0, n) for n in source.shape))


@pytest.mark.parametrize(
    ("ndim", "letters"), [(2, "yx"), (3, "zyx"), (4, "tzyx"), (5, "tczyx")]
)
def test_axes_without_names_are_the_usual_ones(ndim, letters):
    layer = Image(np.ones((2,) * ndim))
    assert "".join(name for name, _, _ in axes_of(layer)) == letters


def test_a_unit_of_time_makes_a_time_series():
    layer = Image(np.ones((2, 3, 4)), units=("s", "um", "um"))
    assert axes_of(layer) == [
        ("t", "time", "second"),
        ("y", "space", "micrometer"),
        ("x", "space", "micrometer"),
    ]


def test_axes_are_put_in_order():
    pixels = np.arange(24).reshape(2, 3, 4).astype(np.uint8)
    layer = Image(pixels, axis_labels=("y", "t", "x"), scale=(1, 2, 3))
    image = composed(layer).image
    assert [axis.name for axis in image.axes] == ["t", "y", "x"]
    assert image.place.scale == (2, 1, 3)
    np.testing.assert_array_equal(whole(image.source), pixels.transpose(1, 0, 2))


def test_images_of_one_shape_are_channels_of_one():
    image = composed(
        Image(PLANE, name="cells: DNA", colormap="blue", contrast_limits=(1, 9)),
        Image(PLANE[::-1], name="cells: actin", colormap="gray_r", visible=False),
    ).image
    assert image.name == "cells"
    assert [axis.name for axis in image.axes] == ["c", "y", "x"]
    np.testing.assert_array_equal(whole(image.source), [PLANE, PLANE[::-1]])
    first, second = image.channels
    assert (first.label, first.color, first.active) == ("DNA", (0, 0, 255), True)
    window = first.window
    assert (window.start, window.end, window.min, window.max) == (1, 9, 0, 65535)
    assert (second.color, second.inverted) == ((255, 255, 255), True)
    assert second.active is False


def test_colours_without_contrast_limits_get_those_of_the_pixels():
    pixels = np.linspace(100, 6000, 64 * 64).reshape(64, 64).astype(np.uint16)
    (channel,) = compose_layers(
        [(pixels, {"name": "DNA", "colormap": "blue"}, "image")], "stem"
    ).image.channels
    assert 100 <= channel.window.start < 200
    assert 5900 < channel.window.end <= 6000


def test_channels_get_a_type_that_holds_all_of_them():
    small = Image(np.array([[200, 1]], np.uint8))
    large = Image(np.array([[-5, 7]], np.int16))
    source = composed(small, large).image.source
    assert source.dtype == np.int16
    np.testing.assert_array_equal(whole(source), [[[200, 1]], [[-5, 7]]])


def test_colours_become_channels():
    pixels = np.random.default_rng(0).integers(0, 255, (5, 6, 3)).astype(np.uint8)
    image = composed(Image(pixels, rgb=True, scale=(2, 3))).image
    assert image.place.scale == (1, 2, 3)
    np.testing.assert_array_equal(whole(image.source), pixels.transpose(2, 0, 1))
    assert [channel.color for channel in image.channels] == [
        (255, 0, 0),
        (0, 255, 0),
        (0, 0, 255),
    ]


def test_labels_take_colours_and_properties_along():
    colors = {None: (0, 0, 0, 0), 3: (1, 0, 0, 1), 8: (0, 1, 0, 0.5)}
    labels = Labels(
        PLANE,
        name="a/b",
        colormap=DirectLabelColormap(color_dict=colors),
        features={"index": [3, 8], "area": [1.5, np.nan], "kind": ["x", "y"]},
    )
    found = composed(Image(PLANE), labels, Labels(PLANE, name="a_b")).labels
    assert [label.name for label in found] == ["a_b", "a_b-2"]
    assert found[0].label.colors == {3: (255, 0, 0, 255), 8: (0, 255, 0, 128)}
    assert found[0].label.properties == {
        3: {"area": 1.5, "kind": "x"},
        8: {"kind": "y"},
    }
    assert found[1].label.colors == {}


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        ([Image(PLANE), Image(PLANE[:2])], r"shapes are \(3, 4\) and \(2, 4\)"),
        ([Image(PLANE), Image(PLANE, scale=(2, 2))], "positions differ"),
        ([Image(PLANE), Image(PLANE, units="um")], "axes differ"),
        ([Image(PLANE), Labels(np.ones((2, 3, 4), int))], "its axes are z, y, x"),
        ([Image(PLANE), Labels(PLANE, rotate=30)], "turned or sheared"),
        ([Image(PLANE > 3)], "not bool"),
        ([Image(np.ones((1,) * 6))], "2 to 5 axes, this one has 6"),
        ([Image(PLANE, units="bar")], "no unit bar"),
        ([Image(np.ones((2, 2), np.int64)), Image(np.ones((2, 2)))], "No type"),
        ([], "no layers"),
    ],
)
def test_what_is_no_single_image_is_refused_with_the_reason(layers, reason):
    with pytest.raises(UnsupportedError, match=reason):
        composed(*layers)


def test_layers_that_are_no_pixels_are_refused():
    with pytest.raises(UnsupportedError, match="spots is points"):
        compose_layers([(np.zeros((3, 2)), {"name": "spots"}, "points")], "")
    with pytest.raises(UnsupportedError, match="not complex128"):
        compose_layers([(PLANE.astype(complex), {}, "image")], "")
    with pytest.raises(UnsupportedError, match="no pixels"):
        compose_layers([(PLANE[:0], {}, "image")], "")


def test_place_of_a_turned_layer_is_that_of_napari():
    layer = Image(
        PLANE,
        scale=(2, 3),
        translate=(5, 7),
        rotate=30,
        shear=[0.2],
        affine=np.diag([1, 2, 1]),
    )
    place = place_of(layer.as_layer_data_tuple()[1], 2)
    assert place.affine is not None
    for point in [(0, 0), (1, 2), (2, 3)]:
        inner = np.multiply(place.scale, point) + place.translation
        np.testing.assert_allclose(
            (place.affine @ [*inner, 1])[:-1], layer.data_to_world(point), atol=1e-9
        )


def test_an_affine_that_only_scales_needs_no_affine():
    layer = Image(PLANE, scale=(2, 3), affine=np.diag([10, 10, 1]))
    place = place_of(layer.as_layer_data_tuple()[1], 2)
    assert (place.scale, place.affine) == ((20, 30), None)


def test_types_follow_from_the_place_where_nothing_else_states_them():
    keywords = {"axis_labels": ("phase", "up", "right")}
    assert [axis.type for axis in layer_axes(keywords, 3)] == [None, "space", "space"]
