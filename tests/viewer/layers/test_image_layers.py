from __future__ import annotations

import numpy as np
import pytest
from napari.layers import Layer

from napari_ngff.metadata.model import (
    Axis,
    Channel,
    GroupMetadata,
    ImageMetadata,
    LabelInfo,
    Level,
    Multiscale,
    Omero,
)
from napari_ngff.metadata.model import ContrastWindow as Contrast
from napari_ngff.metadata.units import unit_name
from napari_ngff.metadata.version import V0_5
from napari_ngff.store.hierarchy.location import Location
from napari_ngff.store.hierarchy.node import Node
from napari_ngff.store.pyramids.pyramid import Pyramid
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.layers.image_layers import image_layers
from napari_ngff.viewer.layers.label_layers import label_colormap, label_layer
from napari_ngff.viewer.plans.layer_plan import KEY, LayerPlan, SharedAxes
from napari_ngff.viewer.saving.layer_description import properties_of

TYPES = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}


class Memory:
    def __init__(self, pixels):
        self.pixels = pixels
        self.chunks = pixels.shape

    shape = property(lambda self: self.pixels.shape)
    dtype = property(lambda self: self.pixels.dtype)

    def read(self, box):
        return self.pixels[tuple(slice(a, b) for a, b in box)]


def picture(
    axes,
    shape,
    *,
    dtype="u2",
    scale=None,
    move=None,
    units=None,
    omero=None,
    label=None,
):
    """Make an image of one level whose voxels are all different."""
    units = units or {}
    pixels = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    level = Level("0", scale or (1.0,) * len(axes), move or (0.0,) * len(axes))
    described = tuple(Axis(name, TYPES.get(name), units.get(name)) for name in axes)
    multiscale = Multiscale("m", described, (level,))
    metadata = GroupMetadata(V0_5, image=ImageMetadata((multiscale,), omero, label))
    node = Node(Location(FolderStore("/nowhere")), 3, {}, metadata)
    pyramid = Pyramid(multiscale, (Memory(pixels),))
    return LayerPlan("cells", node, pyramid, omero, label)


def pixels(one):
    return one.pyramid.levels[0].pixels


def layers(one, **keywords):
    return [Layer.create(*data) for data in image_layers(one, **keywords)]


def test_each_channel_is_a_layer_without_the_channel_axis():
    one = picture(
        "tczyx",
        (2, 3, 4, 5, 6),
        scale=(10.0, 1.0, 2.0, 0.5, 0.25),
        move=(5.0, 9.0, 1.0, 2.0, 3.0),
        units={"t": "second", "z": "micrometer", "y": "micrometer", "x": "micrometer"},
    )
    found = layers(one)
    assert [layer.name for layer in found] == [f"cells: channel {i}" for i in range(3)]
    for i, layer in enumerate(found):
        np.testing.assert_array_equal(np.asarray(layer.data), pixels(one)[:, i])
        assert tuple(layer.scale) == (10, 2, 0.5, 0.25)
        assert tuple(layer.translate) == (5, 1, 2, 3)
        assert layer.axis_labels == ("t", "z", "y", "x")
        assert [str(u) for u in layer.units] == ["second"] + ["micrometer"] * 3
        assert layer.blending == "additive"
        assert layer.metadata[KEY].channel == i
    assert [layer.colormap.name for layer in found] == ["cyan", "yellow", "magenta"]


def test_a_channel_axis_anywhere_is_split():
    one = picture("yxc", (5, 6, 2))
    found = layers(one)
    np.testing.assert_array_equal(np.asarray(found[1].data), pixels(one)[..., 1])


def test_no_channel_axis_is_one_layer_with_the_first_channels_settings():
    omero = Omero(channels=(Channel("DNA", (255, 0, 0), Contrast(1, 2)),))
    (layer,) = layers(picture("yx", (5, 6), omero=omero))
    assert layer.name == "cells: DNA"
    assert tuple(layer.contrast_limits) == (1, 2)
    np.testing.assert_allclose(layer.colormap.map([1.0])[0], [1, 0, 0, 1])


def test_channels_look_as_the_file_says():
    channels = (
        Channel("DNA", (0, 0, 255), Contrast(10, 200, 0, 4095), True),
        Channel("actin", (0, 255, 0), None, False, inverted=True),
    )
    omero = Omero(channels=channels)
    first, second, third = layers(picture("cyx", (3, 5, 6), omero=omero))
    assert [first.name, second.name] == ["cells: DNA", "cells: actin"]
    assert third.name == "cells: channel 2"
    assert [first.visible, second.visible, third.visible] == [True, False, True]
    assert tuple(first.contrast_limits) == (10, 200)
    np.testing.assert_allclose(first.colormap.map([0.0, 0.5, 1.0])[:, 2], [0, 0.5, 1])
    np.testing.assert_allclose(second.colormap.map([0.0, 1.0])[:, 1], [1, 0])
    assert third.colormap.name == "magenta"


def test_more_settings_than_channels_are_ignored():
    omero = Omero(channels=(Channel("a"), Channel("b"), Channel("c")))
    assert len(layers(picture("cyx", (2, 5, 6), omero=omero))) == 2


def test_a_greyscale_image_is_grey():
    omero = Omero(channels=(Channel("a", (255, 0, 0)),) * 2, greyscale=True)
    found = layers(picture("cyx", (2, 5, 6), omero=omero))
    assert [layer.colormap.name for layer in found] == ["gray", "gray"]


@pytest.mark.parametrize(
    ("active", "expected"),
    [((None,) * 24, 3), ((True,) * 2 + (False,) * 22, 2), ((False,) * 24, 3)],
)
def test_of_many_channels_only_the_active_ones_are_shown(active, expected):
    omero = Omero(channels=tuple(Channel(active=one) for one in active))
    found = image_layers(picture("cyx", (24, 5, 6), omero=omero))
    assert sum(keywords["visible"] for _, keywords, _ in found) == expected


def test_without_units_napari_gets_none():
    _, keywords, _ = image_layers(picture("zyx", (2, 5, 6)))[0]
    assert "units" not in keywords


def test_units_that_napari_does_not_know_become_pixels():
    units = {"z": "furlong", "y": "µm", "x": "micrometer"}
    (layer,) = layers(picture("zyx", (2, 5, 6), units=units))
    assert [str(unit) for unit in layer.units] == ["pixel", "micrometer", "micrometer"]


@pytest.mark.parametrize(
    ("written", "shown"),
    {
        "seconds": "second",
        "Seconds": "second",
        "micrometers": "micrometer",
        "micrometre": "micrometer",
        "Micrometres": "micrometer",
        "µm": "micrometer",
        "μm": "micrometer",
        "microns": "micrometer",
        "Å": "angstrom",
        "\N{ANGSTROM SIGN}": "angstrom",
        "Angstrom": "angstrom",
        "ms": "millisecond",
        "us": "microsecond",
        "msec": "millisecond",
        "feet": "foot",
        "Mm": None,
        "S": None,
        "a.u.": None,
        "celsius": None,
    }.items(),
)
def test_units_as_people_write_them(written, shown):
    assert unit_name(written) == shown


def test_the_sliders_start_where_rdefs_says():
    omero = Omero(default_t=1, default_z=3)
    one = picture("tzyx", (2, 4, 5, 6), scale=(10, 2, 1, 1), move=(5, 0, 0, 0))
    one = LayerPlan("cells", one.node, one.pyramid, omero)
    _, keywords, _ = image_layers(one)[0]
    assert keywords["metadata"][KEY].start == ((0, 15), (1, 6))


@pytest.mark.parametrize("dtype", ["bool", "i1", "u1", "i8", "f2", "f4", "f8", "c8"])
def test_every_number_type_becomes_a_layer(dtype):
    one = picture("yx", (5, 6), dtype=dtype)
    (layer,) = layers(one)
    expected = np.abs(pixels(one)) if dtype == "c8" else pixels(one)
    np.testing.assert_array_equal(np.asarray(layer.data), expected)


# ---------------------------------------------------------------- labels


def test_a_label_gets_the_axes_of_its_image():
    um = dict.fromkeys("zyx", "micrometer")
    image = picture("tczyx", (2, 3, 4, 5, 6), units=um, scale=(1, 1, 2, 0.5, 0.5))
    label = picture("tczyx", (2, 1, 4, 5, 6), scale=(1, 1, 2, 0.5, 0.5))
    layer = Layer.create(*label_layer(label, SharedAxes.from_pyramid(image.pyramid)))
    assert layer.axis_labels == ("t", "z", "y", "x")
    assert [str(unit) for unit in layer.units] == ["pixel"] + ["micrometer"] * 3
    np.testing.assert_array_equal(np.asarray(layer.data), pixels(label)[:, 0])


def test_a_flat_label_is_as_thick_as_its_image():
    image = picture("tzyx", (2, 4, 5, 6), scale=(1, 2, 0.5, 0.5), move=(0, 10, 0, 0))
    label = picture("yx", (5, 6), scale=(0.5, 0.5))
    layer = Layer.create(*label_layer(label, SharedAxes.from_pyramid(image.pyramid)))
    assert layer.data.shape == (1, 1, 5, 6)
    for z in (10, 12, 14, 16):
        for t in (0, 1):
            index = np.round(layer.world_to_data((t, z, 0, 0)))
            assert tuple(index) == (0, 0, 0, 0)
    below, above = (
        layer.world_to_data((0, 8.9, 0, 0)),
        layer.world_to_data((0, 17.1, 0, 0)),
    )
    assert round(below[1]) == -1
    assert round(above[1]) == 1


def test_one_plane_that_says_where_it_is_stays_there():
    image = picture("zyx", (4, 5, 6))
    label = picture("zyx", (1, 5, 6), move=(2.0, 0, 0))
    layer = Layer.create(*label_layer(label, SharedAxes.from_pyramid(image.pyramid)))
    assert tuple(layer.scale) == (1, 1, 1)
    assert tuple(layer.translate) == (2, 0, 0)


def test_a_label_in_nanometres_lies_on_its_image_in_micrometres():
    image = picture("yx", (5, 6), units=dict.fromkeys("yx", "micrometer"))
    label = picture(
        "yx", (5, 6), units=dict.fromkeys("yx", "nanometer"), scale=(1000.0, 500.0)
    )
    layer = Layer.create(*label_layer(label, SharedAxes.from_pyramid(image.pyramid)))
    np.testing.assert_allclose(layer.scale, (1, 0.5))
    assert [str(unit) for unit in layer.units] == ["micrometer"] * 2


def test_labels_of_other_axis_order_are_turned():
    image = picture("zyx", (4, 5, 6))
    label = picture("xyz", (6, 5, 4))
    layer = Layer.create(*label_layer(label, SharedAxes.from_pyramid(image.pyramid)))
    np.testing.assert_array_equal(np.asarray(layer.data), pixels(label).T)


def test_listed_values_have_their_colour_and_others_are_seen():
    info = LabelInfo(colors={0: (0, 0, 255, 51), 2: (255, 0, 0, 255)})
    layer = Layer.create(*label_layer(picture("yx", (5, 6), label=info)))
    assert layer.opacity == 1
    np.testing.assert_allclose(layer.get_color(2), (1, 0, 0, 1))
    np.testing.assert_allclose(layer.colormap.map(0), (0, 0, 1, 0.2), atol=1e-6)
    for other in (1, 29, 5000):
        assert layer.get_color(other)[3] > 0.5
    assert tuple(layer.get_color(1)) != tuple(layer.get_color(3))


@pytest.mark.parametrize("others", [{}, {1: (9, 9, 9, 255)}])
@pytest.mark.parametrize("color", [(255, 0, 0, 255), (0, 0, 0, 255)])
def test_an_opaque_background_of_the_file_hides_no_image(color, others):
    info = LabelInfo(colors={0: color, **others})
    layer = Layer.create(*label_layer(picture("yx", (5, 6), label=info)))
    assert layer.colormap.map(0)[3] == 0
    assert layer.get_color(1)[3] > 0.5


def test_background_stays_clear_unless_listed():
    assert label_colormap({1: (1, 2, 3, 255)}).map(0)[3] == 0


def test_properties_become_features():
    rows = {4: {"area": 3, "class": "a"}, 9: {"area": 5}, 7: {"score": None}}
    info = LabelInfo(properties=rows)
    layer = Layer.create(*label_layer(picture("yx", (5, 6), label=info)))
    assert list(layer.features["index"]) == [4, 9, 7]
    assert list(layer.features["area"])[:2] == [3, 5]
    assert layer.features["area"].isna().tolist() == [False, False, True]
    assert list(layer.features["class"]) == ["a", None, None]
    assert "colormap" not in label_layer(picture("yx", (5, 6), label=info))[1]


def test_numbers_with_gaps_stay_numbers():
    rows = {
        4: {"count": 2**60 + 1, "area": 3.5, "ok": True, "mixed": 1},
        9: {"name": "a", "mixed": 2.5},
    }
    layer = Layer.create(
        *label_layer(picture("yx", (5, 6), label=LabelInfo(properties=rows)))
    )
    types = {name: str(dtype) for name, dtype in layer.features.dtypes.items()}
    assert types == {
        "index": "int64",
        "count": "Int64",
        "area": "Float64",
        "ok": "boolean",
        "mixed": "object",
        "name": "object",
    }
    assert layer.features["count"][0] == 2**60 + 1
    assert layer.features["count"].isna().tolist() == [False, True]
    assert layer.features["area"].mean() == 3.5
    assert properties_of(layer.features, {}) == rows
