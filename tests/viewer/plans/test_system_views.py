"""Scenes and coordinate systems as layers: where each pixel is in napari's world."""

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel
from napari.layers import Layer

from napari_ngff.metadata.model import Reference
from napari_ngff.viewer import reader
from napari_ngff.viewer.layers.move_layers import move_layers
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.plans.layer_plan import KEY
from napari_ngff.viewer.plans.system_views import list_choices
from napari_ngff.viewer.session import session_of
from scenes import (
    NM,
    UM,
    channel_scene,
    end,
    group,
    image,
    labelled,
    link,
    numbered,
    registered_scene,
    scene,
    system,
)

SHEAR = [[1, 0.5, 9], [0, 2, 8]]


@pytest.fixture
def messages(monkeypatch):
    reported = []
    monkeypatch.setattr(reader, "show_left_out", reported.extend)
    return reported


def opened(folder):
    """Show a folder in a viewer; returns its layers by name."""
    viewer = ViewerModel()
    for data in reader.read_paths(str(folder)):
        viewer.add_layer(Layer.create(*data))
    return viewer, {layer.name: layer for layer in viewer.layers}


def value_at(layer, *world):
    """Return what is at a world coordinate; None outside."""
    index = np.round(layer.world_to_data(world)).astype(int)
    data = np.asarray(layer.data[0] if layer.multiscale else layer.data)
    if (index < 0).any() or (index >= data.shape).any():
        return None
    return data[tuple(index)]


def units(layer):
    return [str(unit) for unit in layer.units]


# ---------------------------------------------------------------- scenes


def test_stitched_tiles_lie_side_by_side_with_their_labels(tmp_path, messages):
    world = system("world", "yx")
    places = {"tile_0": (0, 0), "tile_1": (0, 12), "tile_2": (8, 0), "tile_3": (8, 12)}
    links = [
        link(end("physical", name), end("world"), type="translation", translation=at)
        for name, at in places.items()
    ]
    scene(tmp_path, links, [world])
    made = {}
    for i, name in enumerate(places):
        made[name] = image(
            tmp_path / name, "yx", numbered(8, 6, first=1 + 100 * i), scale=[1, 2]
        )
        ids = numbered(8, 6, first=1 + 100 * i, dtype="u4")
        labelled(tmp_path / name, {f"cells {i}": ("yx", ids, {"scale": [1, 2]})})
    viewer, layers = opened(tmp_path)
    assert messages == []
    assert len(layers) == 8
    for i, (name, (y, x)) in enumerate(places.items()):
        for layer in (layers[name], layers[f"cells {i}"]):
            for index in ((0, 0), (7, 5), (3, 4)):
                world_point = y + index[0], x + 2 * index[1]
                assert value_at(layer, *world_point) == made[name][index]
            assert units(layer) == [UM, UM]
    np.testing.assert_allclose(viewer.dims.range[0][:2], (0, 15))


def test_an_image_in_nanometres_lies_on_one_in_micrometres(tmp_path, messages):
    scene(
        tmp_path,
        [
            link(end("physical", "a"), end("world"), type="identity"),
            link(
                end("physical", "b"),
                end("world"),
                type="scale",
                scale=[0.001, 0.001],
            ),
        ],
        [system("world", "yx")],
    )
    image(tmp_path / "a", "yx", numbered(8, 8), scale=[0.5, 0.5])
    small = image(tmp_path / "b", "yx", numbered(8, 8), scale=[250, 250], unit=NM)
    _, layers = opened(tmp_path)
    assert units(layers["a"]) == units(layers["b"]) == [UM, UM]
    assert value_at(layers["b"], 0.5, 1.75) == small[2, 7]
    np.testing.assert_allclose(layers["b"].extent.world[1], [1.75, 1.75])


def test_several_hops_and_both_directions(tmp_path, messages):
    # world <- a ; b -> a ; c -> b backwards.
    scene(
        tmp_path,
        [
            link(
                end("world"),
                end("physical", "a"),
                type="translation",
                translation=[-10, -20],
            ),
            link(
                end("physical", "b"),
                end("physical", "a"),
                type="affine",
                affine=[[0, 2, 5], [-1, 0, 7]],
            ),
            link(
                end("physical", "b"),
                end("physical", "c"),
                type="scale",
                scale=[4, 2],
            ),
        ],
        [system("world", "yx")],
    )
    made = {name: image(tmp_path / name, "yx", numbered(6, 9)) for name in "abc"}
    _, layers = opened(tmp_path)
    assert messages == []
    for index in ((0, 0), (5, 8), (2, 3)):
        y, x = index
        assert value_at(layers["a"], y + 10, x + 20) == made["a"][index]
        at = 2 * x + 5 + 10, -y + 7 + 20
        assert value_at(layers["b"], *at) == made["b"][index]
        by, bx = y / 4, x / 2
        at = 2 * bx + 5 + 10, -by + 7 + 20
        assert value_at(layers["c"], *at) == made["c"][index]
    # The rotated one was turned as data: its affine moves no axis to another.
    assert layers["b"].data.shape == (9, 6)
    affine = layers["b"].affine.linear_matrix
    assert not affine[~np.eye(2, dtype=bool)].any()


def test_registered_images_bend_into_each_other(tmp_path, messages):
    registered_scene(tmp_path)
    made = {name: image(tmp_path / name, "yx", numbered(40, 40)) for name in "ab"}
    ids = numbered(40, 40, dtype="u4")
    labelled(tmp_path / "b", {"cells": ("yx", ids, {})})
    viewer, layers = opened(tmp_path)
    # b = 2 (a + 3): shown in a, where b lies from -3 to 16.5.
    assert ["b reaches beyond" in message for message in messages] == [True]
    np.testing.assert_allclose(layers["b"].extent.world, [[-3, -3], [16.5, 16.5]])
    for a in (0, 5, 12):
        b = 2 * (a + 3)
        assert value_at(layers["a"], a, a) == made["a"][a, a]
        assert value_at(layers["b"], a, a) == made["b"][b, b]
        assert value_at(layers["cells"], a, a) == ids[b, b]
    assert session_of(viewer).show_system(Reference("b", "physical")) == ()
    for b in (6, 20):
        a = b // 2 - 3
        assert value_at(layers["a"], b, b) == made["a"][a, a]
        assert value_at(layers["cells"], b, b) == ids[b, b]


@pytest.mark.parametrize("size", [16, 8])
def test_a_field_that_is_too_small_is_reported(tmp_path, messages, size):
    bend = {"type": "displacements", "path": "d"}
    scene(
        tmp_path,
        [link(end("world"), end("physical", "a"), **bend)],
        [system("world", "yx")],
    )
    pixels = image(tmp_path / "a", "yx", numbered(16, 16))
    zarr.create_array(tmp_path / "d", data=np.zeros((size, size, 2)))
    _, layers = opened(tmp_path)
    assert ["beyond the field" in message for message in messages] == [True] * (
        size < 16
    )
    assert value_at(layers["a"], 15, 15) == pixels[15, 15]


def test_channels_are_split_and_leave_the_rest_aligned(tmp_path, messages):
    channel_scene(tmp_path)
    multi = image(tmp_path / "multi", "cyx", numbered(2, 5, 6))
    single = image(tmp_path / "single", "yx", numbered(5, 6))
    viewer, layers = opened(tmp_path)
    assert viewer.dims.ndim == 2
    assert value_at(layers["multi: channel 1"], 3, 4) == multi[1, 3, 4]
    assert value_at(layers["single"], 3, 4) == single[3, 4]


def test_a_plane_in_a_volume_is_one_voxel_thick(tmp_path, messages):
    scene(
        tmp_path,
        [
            link(end("physical", "stack"), end("world"), type="identity"),
            link(
                end("physical", "plane"),
                end("world"),
                type="affine",
                affine=[[0, 0, 2], [0, 1, 0], [1, 0, 1]],
            ),
        ],
        [system("world", "zyx")],
    )
    image(tmp_path / "stack", "zyx", numbered(4, 6, 6))
    plane = image(tmp_path / "plane", "yx", numbered(5, 6))
    viewer, layers = opened(tmp_path)
    layer = layers["plane"]
    assert viewer.dims.ndim == 3
    assert layer.data.shape == (1, 6, 5)
    for index in ((0, 0), (4, 2)):
        assert value_at(layer, 2, index[1], index[0] + 1) == plane[index]
    assert value_at(layer, 3, 2, 2) is None


def test_dropped_axes_become_sliders(tmp_path, messages):
    scene(
        tmp_path,
        [
            link(
                end("physical", "movie"),
                end("world"),
                type="projectAxis",
                droppedInputs=[0],
            )
        ],
        [system("world", "yx")],
    )
    movie = image(tmp_path / "movie", "tyx", numbered(3, 4, 5))
    _, layers = opened(tmp_path)
    (layer,) = layers.values()
    assert layer.axis_labels == ("t", "y", "x")
    assert value_at(layer, 2, 3, 1) == movie[2, 3, 1]


def test_without_a_system_of_its_own_most_images_decide(tmp_path, messages):
    shift = {"type": "translation", "translation": [0, 10]}
    scene(
        tmp_path,
        [
            link(end("physical", "a"), end("physical", "b"), **shift),
            link(end("physical", "b"), end("physical", "c"), **shift),
        ],
    )
    made = {name: image(tmp_path / name, "yx", numbered(4, 5)) for name in "abc"}
    _, layers = opened(tmp_path)
    assert messages == []
    # In the first image's own system: those after it lie before it.
    assert [
        value_at(layers[n], 1, x) for n, x in zip("abc", (2, -8, -18), strict=True)
    ] == [made[n][1, 2] for n in "abc"]


@pytest.mark.parametrize("names", [("plane", "stack"), ("stack", "plane")])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("backwards", [False, True])
def test_a_plane_is_shown_in_the_volume_without_a_system_of_the_scene(
    tmp_path, messages, names, axis, backwards
):
    plane_name, stack_name = names
    place = [0.0, 1.0, 2.0]
    place[axis] = 3.0
    # Columns of the axes of the plane, and of the place.
    matrix = np.column_stack([np.delete(np.eye(3), axis, 1), place])
    start, goal = end("physical", plane_name), end("physical", stack_name)
    steps = [
        {"type": "projectAxis", "createdOutputs": [axis]},
        {"type": "translation", "translation": place},
    ]
    step = {"type": "sequence", "transformations": steps}
    others = [end("physical", stack_name), end("physical", "beside")]
    if backwards:
        others.reverse()
    shift = {"type": "translation", "translation": [0, 0, 50]}
    links = [link(*others, **shift), link(start, goal, **step)]
    scene(tmp_path, reversed(links) if backwards else links)
    for name in (stack_name, "beside"):
        stack = image(tmp_path / name, "zyx", numbered(6, 7, 8))
    inner = "zyx"[:axis] + "zyx"[axis + 1 :]
    plane = image(tmp_path / plane_name, inner, numbered(3, 4))
    viewer, layers = opened(tmp_path)
    assert messages == []
    assert viewer.dims.ndim == 3
    here, there = layers[plane_name], layers[stack_name]
    for index in ((0, 0), (2, 1)):
        at = matrix @ [*index, 1]
        world = np.array(there.data_to_world(at))
        assert value_at(here, *world) == plane[index]
        assert value_at(there, *world) == stack[tuple(at.astype(int))]
        world[axis] += 1
        assert value_at(here, *world) is None


def test_what_cannot_be_reached_is_shown_and_named(tmp_path, messages):
    scene(
        tmp_path,
        [
            link(end("physical", "a"), end("world"), type="identity"),
            link(end("physical", "lost"), end("gone"), type="identity"),
            link(
                end("physical", "flat"),
                end("world"),
                type="affine",
                affine=[[1, 1, 0], [1, 1, 0]],
            ),
        ],
        [system("world", "yx")],
    )
    for name, unit in (("a", UM), ("lost", None), ("flat", NM)):
        image(tmp_path / name, "yx", numbered(4, 5), move=[3, 3], unit=unit)
    _, layers = opened(tmp_path)
    assert [units(layers[n])[0] for n in ("a", "lost", "flat")] == [UM, UM, UM]
    assert sorted(layers) == ["a", "flat", "lost"]
    assert tuple(layers["lost"].translate) == (3, 3)
    assert tuple(layers["flat"].translate) == (0.003, 0.003)
    reported = " ".join(messages)
    assert "lost is shown in its own" in reported
    assert "flat is shown in its own" in reported
    assert "a is shown in its own" not in reported


def test_scenes_of_the_drafts(tmp_path, messages):
    shift = {"type": "translation", "translation": [5, 7]}
    content = {
        "coordinateSystems": [system("world", "yx")],
        "coordinateTransformations": [
            shift | {"input": "a/physical", "output": "world"}
        ],
    }
    group(tmp_path, content, "0.6.dev1")
    pixels = image(tmp_path / "a", "yx", numbered(4, 5))
    _, layers = opened(tmp_path)
    assert value_at(layers["a"], 6, 10) == pixels[1, 3]


# ---------------------------------------------------------------- labels


@pytest.mark.parametrize("backwards", [False, True])
def test_labels_follow_their_link_in_either_direction(tmp_path, messages, backwards):
    ends = [end("physical", "labels/cells"), end("physical")]
    shift, factor = {"translation": [4, 6]}, {"scale": [2, 2]}
    steps = [{"type": "scale"} | factor, {"type": "translation"} | shift]
    if backwards:
        ends.reverse()
        steps = [
            {"type": "translation", "translation": [-4, -6]},
            {"type": "scale", "scale": [0.5, 0.5]},
        ]
    to_label = link(*ends, type="sequence", transformations=steps)
    shear = link(
        end("physical"), end("atlas"), type="affine", affine=[[1, 0.5, 9], [0, 2, 8]]
    )
    image(
        tmp_path,
        "yx",
        numbered(8, 8),
        systems=[system("atlas", "yx")],
        links=[to_label, shear],
    )
    ids = numbered(4, 4, dtype="u4")
    labelled(tmp_path, {"cells": ("yx", ids, {"unit": None})})
    _, layers = opened(tmp_path)
    assert units(layers["cells"]) == [UM, UM]
    for index in ((0, 0), (3, 1)):
        y, x = 2 * index[0] + 4, 2 * index[1] + 6
        assert value_at(layers["cells"], y, x) == ids[index]
    left = move_layers(layers.values(), Reference(name="atlas"))
    assert left == ()
    for index in ((0, 0), (3, 1)):
        y, x = 2 * index[0] + 4, 2 * index[1] + 6
        assert value_at(layers["cells"], y + 0.5 * x + 9, 2 * x + 8) == ids[index]


def test_labels_askew_on_their_image(tmp_path, messages):
    turn = {"type": "rotation", "rotation": [[0.6, 0.8], [-0.8, 0.6]]}
    image(
        tmp_path,
        "yx",
        numbered(8, 8),
        systems=[system("atlas", "yx")],
        links=[
            link(end("physical", "labels/cells"), end("physical"), **turn),
            link(end("physical"), end("atlas"), type="affine", affine=SHEAR),
        ],
    )
    ids = numbered(4, 4, dtype="u4")
    labelled(tmp_path, {"cells": ("yx", ids, {})})
    _, layers = opened(tmp_path)
    for index in ((0, 0), (3, 1)):
        at = np.array([[0.6, 0.8], [-0.8, 0.6]]) @ index
        assert value_at(layers["cells"], *at) == ids[index]
    assert move_layers(layers.values(), Reference(name="atlas")) == ()
    for index in ((0, 0), (3, 1)):
        at = np.array([[0.6, 0.8], [-0.8, 0.6]]) @ index
        assert value_at(layers["cells"], *np.array(SHEAR) @ (*at, 1)) == ids[index]


def test_labels_without_a_link_follow_into_a_scene(tmp_path, messages):
    rows = [[0, 2, 0, 5], [1, 0, 0, 6], [0, 0, 3, 7]]
    scene(
        tmp_path,
        [link(end("physical", "a"), end("world"), type="affine", affine=rows)],
        [system("world", "zyx")],
    )
    image(tmp_path / "a", "zyx", numbered(3, 4, 5))
    ids = numbered(4, 5, dtype="u4")
    labelled(tmp_path / "a", {"flat": ("yx", ids, {})})
    _, layers = opened(tmp_path)
    layer = layers["flat"]
    for z in (0, 1, 2):
        for y, x in ((0, 0), (3, 4)):
            at = np.array(rows) @ (z, y, x, 1)
            assert value_at(layer, *at) == ids[y, x]


def test_a_created_axis_is_not_an_axis_of_the_same_name(tmp_path, messages):
    scene(
        tmp_path,
        [
            link(
                end("physical", "a"),
                end("world"),
                type="projectAxis",
                createdOutputs=[1],
            )
        ],
        [system("world", "zyx")],
    )
    image(tmp_path / "a", "yx", numbered(4, 5))
    ids = numbered(4, 5, dtype="u4")
    labelled(tmp_path / "a", {"cells": ("yx", ids, {})})
    _, layers = opened(tmp_path)
    assert layers["cells"].data.shape == (4, 1, 5)
    assert value_at(layers["cells"], 3, 0, 2) == ids[3, 2]


def test_labels_that_numbers_cannot_place_are_left_out(tmp_path, messages):
    huge = {"type": "scale", "scale": [1e200, 1e200]}
    image(
        tmp_path,
        "yx",
        numbered(8, 8),
        links=[link(end("physical", "labels/cells"), end("physical"), **huge)],
    )
    ids = numbered(4, 4, dtype="u4")
    labelled(tmp_path, {"cells": ("yx", ids, {"scale": [1e200, 1e200]})})
    _, layers = opened(tmp_path)
    assert len(layers) == 1
    assert ["cells" in message for message in messages] == [True]


def test_a_label_alone_lies_where_its_image_says(tmp_path, messages):
    shift = {"type": "translation", "translation": [4, 6]}
    image(
        tmp_path,
        "yx",
        numbered(8, 8),
        links=[link(end("physical", "labels/cells"), end("physical"), **shift)],
    )
    ids = numbered(4, 4, dtype="u4")
    labelled(tmp_path, {"cells": ("yx", ids, {})})
    _, layers = opened(tmp_path / "labels" / "cells")
    (layer,) = layers.values()
    assert value_at(layer, 5, 8) == ids[1, 2]


# --------------------------------------------------------------- systems


def test_permuted_volumes_are_sliced_along_the_sliders(tmp_path, messages):
    """mapAxis as data: one position of the first slider shows one plane of x."""
    image(
        tmp_path,
        "zyx",
        pixels := numbered(3, 4, 5),
        systems=[system("turned", "zyx", NM)],
        links=[link(end("physical"), end("turned"), type="mapAxis", mapAxis=[2, 0, 1])],
    )
    viewer, layers = opened(tmp_path)
    (layer,) = layers.values()
    assert move_layers([layer], Reference(name="turned")) == ()
    assert layer.data.shape == (5, 3, 4)
    assert units(layer) == [UM] * 3
    np.testing.assert_allclose(
        np.diff(layer.extent.world, axis=0)[0], [0.004, 0.002, 0.003]
    )
    viewer.dims.set_point(0, 4)
    np.testing.assert_array_equal(layer._slice.image.raw, pixels[:, :, 4])
    assert move_layers([layer], Reference(name="physical")) == ()
    assert layer.data.shape == (3, 4, 5)
    assert units(layer) == [UM] * 3


def test_a_level_that_is_more_than_scaled(tmp_path, messages):
    rows = [[0, 2, 1], [1, 0.5, 0]]
    pixels = image(
        tmp_path, "yx", numbered(4, 5), dataset={"type": "affine", "affine": rows}
    )
    ids = numbered(4, 5, dtype="u4")
    labelled(tmp_path, {"cells": ("yx", ids, {})})
    _, layers = opened(tmp_path)
    *_, first = [layer for name, layer in layers.items() if name != "cells"]
    for index in ((0, 0), (3, 2)):
        at = np.array(rows) @ (*index, 1)
        assert value_at(first, *at) == pixels[index]
        assert value_at(layers["cells"], *index) == ids[index]


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (
            {"type": "mapAxis", "mapAxis": {"x": "dim_0", "y": "dim_1"}},
            lambda i, j: (j, i),
        ),
        ({"type": "scale", "path": "numbers"}, lambda i, j: (3 * i, 5 * j)),
        (
            {
                "type": "inverseOf",
                "transformation": {"type": "translation", "path": "numbers"},
            },
            lambda i, j: (i - 3, j - 5),
        ),
    ],
)
def test_levels_of_the_first_drafts(tmp_path, messages, dataset, expected):
    pixels = numbered(4, 6)
    multiscale = {
        "coordinateSystems": [system("physical", "yx")],
        "datasets": [
            {
                "path": "0",
                "coordinateTransformations": [
                    dataset | {"input": "0", "output": "physical"}
                ],
            },
            {
                "path": "1",
                "coordinateTransformations": [
                    dataset | {"input": "1", "output": "physical"}
                ],
            },
        ],
    }
    group(tmp_path, {"multiscales": [multiscale]}, "0.6.dev1")
    zarr.create_array(tmp_path / "0", data=pixels)
    zarr.create_array(tmp_path / "1", data=pixels[::2, ::2])
    zarr.create_array(tmp_path / "numbers", data=np.array([3.0, 5.0]))
    _, layers = opened(tmp_path)
    (layer,) = layers.values()
    assert layer.axis_labels == ("y", "x")
    for index in ((0, 0), (3, 1), (2, 5)):
        assert value_at(layer, *expected(*index)) == pixels[index]
    origin = layer.metadata[KEY]
    assert "level-misplaced" not in {p.code for p in origin.picture.pyramid.problems}


def test_a_bent_image_takes_its_labels_and_channels_along(tmp_path, messages):
    y, x = np.mgrid[:16, :16].astype(float)
    inner = {"type": "coordinates", "path": "bend"}
    pull = {
        "type": "byDimension",
        "transformations": [
            {
                "transformation": {"type": "identity"},
                "inputAxes": [0],
                "outputAxes": [0],
            },
            {"transformation": inner, "inputAxes": [1, 2], "outputAxes": [1, 2]},
        ],
    }
    pixels = image(
        tmp_path,
        "cyx",
        numbered(2, 16, 16),
        systems=[system("atlas", "cyx")],
        links=[link(end("atlas"), end("physical"), **pull)],
    )
    # From the atlas to the image: the lower half is taken from 2 voxels further.
    field = np.stack([y, x + 2 * (y >= 8)], axis=-1)
    zarr.create_array(tmp_path / "bend", data=field)
    ids = numbered(16, 16, dtype="u4")
    labelled(tmp_path, {"cells": ("yx", ids, {})})
    _, layers = opened(tmp_path)
    names = [name for name in layers if name != "cells"]
    assert move_layers(layers.values(), Reference(name="atlas")) == ()
    for i, name in enumerate(names):
        assert value_at(layers[name], 3, 4) == pixels[i, 3, 4]
        assert value_at(layers[name], 12, 4) == pixels[i, 12, 6]
    assert value_at(layers["cells"], 12, 4) == ids[12, 6]
    assert move_layers(layers.values(), Reference(name="physical")) == ()
    assert value_at(layers["cells"], 12, 4) == ids[12, 4]


def test_painted_labels_are_made_anew_where_their_data_change(tmp_path, messages):
    image(
        tmp_path,
        "yx",
        numbered(16, 16),
        systems=[system("atlas", "yx")],
        links=[link(end("atlas"), end("physical"), type="displacements", path="d")],
    )
    zarr.create_array(tmp_path / "d", data=np.full((16, 16, 2), 2.0))
    ids = numbered(16, 16, dtype="u4")
    labelled(tmp_path, {"cells": ("yx", ids, {})})
    viewer = ViewerModel()
    for data in reader.read_paths(str(tmp_path)):
        viewer.add_layer(as_layer(data))
    session = session_of(viewer)
    viewer.layers[1].opacity = 0.3
    assert viewer.layers[1].editable
    assert session.show_system(Reference(name="atlas")) == ()
    labels = viewer.layers[1]
    assert (labels.name, labels.opacity) == ("cells", 0.3)
    assert labels.get_value((3, 4), world=True)[1] == ids[5, 6]
    assert not labels.editable
    assert "bends" in labels.read_only
    assert session.show_system(Reference(name="physical")) == ()
    labels = viewer.layers[1]
    assert labels.editable
    labels.paint((3, 4), 9)
    left = session.show_system(Reference(name="atlas"))
    assert left == ("cells (unsaved edits)",)
    assert viewer.layers[1] is labels


def test_choices_show_which_images_cannot_come_along(tmp_path, messages):
    scene(
        tmp_path,
        [
            link(end("physical", "a"), end("world"), type="identity"),
            link(end("physical", "b"), end("gone"), type="identity"),
        ],
        [system("world", "yx")],
    )
    for name in "ab":
        image(tmp_path / name, "yx", numbered(4, 5))
    _, layers = opened(tmp_path)
    found = list_choices([layers[n].metadata[KEY].picture for n in "ab"])
    assert found == {
        Reference("", "world"): (True, False),
        Reference("a", "physical"): (True, False),
        Reference("b", "physical"): (False, True),
    }


def test_the_session_shows_all_layers_in_a_system(tmp_path, messages):
    scene(
        tmp_path,
        [
            link(end("physical", "a"), end("world"), type="scale", scale=[9, 9]),
            link(end("physical", "b"), end("gone"), type="identity"),
        ],
        [system("world", "yx")],
    )
    for name in "ab":
        image(tmp_path / name, "yx", numbered(4, 5))
    viewer, layers = opened(tmp_path)
    session = session_of(viewer)
    reported = []
    session.system_shown.connect(reported.append)
    physical = Reference("a", "physical")
    assert session.systems()[physical] == ("b",)
    assert session.show_system(physical) == ("b",)
    assert reported == [physical]
    np.testing.assert_allclose(layers["a"].extent.world, [[0, 0], [3, 4]])
    assert session.show_system(Reference("", "world")) == ("b",)
    np.testing.assert_allclose(layers["a"].extent.world, [[0, 0], [27, 36]])


def stack_with_systems(folder):
    """Write ten planes, each of its own value, that lie in four systems."""
    pixels = np.zeros((10, 6, 8), "u2") + np.arange(1, 11, dtype="u2")[:, None, None]
    start = end("physical")
    links = [
        link(start, end("nano"), type="scale", scale=[1000, 1000, 1000]),
        link(start, end("tall"), type="scale", scale=[3, 1, 1]),
        link(start, end("time"), type="projectAxis", createdOutputs=[0]),
        link(start, end("turned"), type="mapAxis", mapAxis=[1, 2, 0]),
    ]
    systems = [
        system("nano", "zyx", NM),
        system("tall", "zyx"),
        system("time", "tzyx"),
        system("turned", "abz"),
    ]
    image(folder, "zyx", pixels, systems=systems, links=links)


def test_another_system_shows_the_plane_that_was_seen(tmp_path, messages):
    stack_with_systems(tmp_path)
    viewer, layers = opened(tmp_path)
    layer = next(iter(layers.values()))
    viewer.dims.set_current_step(0, 7)
    assert np.unique(layer._slice.image.raw) == [8]
    names = ["nano", "tall", "time", "physical", "turned", "time", "nano", "turned"]
    for name in names:
        session_of(viewer).show_system(Reference("", name))
        index = layer.world_to_data(viewer.dims.point)
        z = {"time": 1, "turned": 2}.get(name, 0)
        assert index[z] == pytest.approx(7), name
        if name != "turned":
            assert np.unique(layer._slice.image.raw).tolist() == [8], name
            assert layer._slice.image.raw.shape == (6, 8), name
            assert viewer.dims.current_step[z] == 7, name
        assert viewer.dims.point[z] == pytest.approx({"tall": 21}.get(name, 7))


@pytest.mark.parametrize("width", [3, 4])
@pytest.mark.parametrize("names", ["zyx", "yx"])
def test_a_narrow_image_is_no_colour_picture(tmp_path, messages, names, width):
    pixels = numbered(40, 50, width)[:: 1 if names == "zyx" else 40].squeeze()
    image(tmp_path, names, pixels)
    viewer, layers = opened(tmp_path)
    layer = next(iter(layers.values()))
    assert not layer.rgb
    assert layer.ndim == len(names)
    assert viewer.dims.ndim == len(names)
