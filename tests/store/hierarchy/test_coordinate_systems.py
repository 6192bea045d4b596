"""Systems of hierarchies on disk: what is found, loaded, and left out."""

import json
import re

import numpy as np
import pytest
import zarr

from napari_ngff import UnsupportedError, open_node, open_pyramid
from napari_ngff.metadata.model import Reference
from napari_ngff.store.hierarchy.coordinate_systems import (
    intrinsic_of,
    open_field,
    open_systems,
)
from napari_ngff.store.pyramids.resampled import BentImage, resample_pyramid
from napari_ngff.store.sources.folder_store import FolderStore

PHYSICAL, ATLAS = Reference("", "physical"), Reference("", "atlas")
POINTS = np.array([[0.0, 0.0], [3.0, 1.5], [6.5, 2.0]])


def axes(names, **types):
    return [{"name": n, "type": types.get(n, "space")} for n in names]


def system(name, names="yx", **types):
    return {"name": name, "axes": axes(names, **types)}


def group(folder, ome, version="0.6"):
    folder.mkdir(parents=True, exist_ok=True)
    attributes = {"ome": {"version": version} | ome}
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    (folder / "zarr.json").write_text(json.dumps(document))


def multiscale(*levels, systems=(), links=(), names="yx"):
    """Levels are (path, transformation)."""
    return {
        "coordinateSystems": [system("physical", names), *systems],
        "datasets": [
            {
                "path": path,
                "coordinateTransformations": [
                    t | {"input": {"path": path}, "output": {"name": "physical"}}
                ],
            }
            for path, t in levels
        ],
        "coordinateTransformations": list(links),
    }


def write(folder, link=None, pixels=None, version="0.6", **ends):
    """Write an image of 8 x 8 and a link from it to the system atlas."""
    to_atlas = {"input": {"name": "physical"}, "output": {"name": "atlas"}} | ends
    links = [] if link is None else [link | to_atlas]
    level = "0", {"type": "scale", "scale": [1, 1]}
    content = multiscale(level, systems=[system("atlas")], links=links)
    group(folder, {"multiscales": [content]}, version)
    pixels = np.arange(64, dtype="u2").reshape(8, 8) if pixels is None else pixels
    zarr.create_array(folder / "0", data=pixels)
    return open_node(folder)


def ways(node):
    found = open_systems([node])
    assert found.problems == ()
    return found.graph.find_ways(intrinsic_of(node))


@pytest.mark.parametrize("path", ["numbers", "/numbers", "deep/numbers"])
@pytest.mark.parametrize(
    ("kind", "numbers", "expected"),
    [
        (
            "affine",
            [[1, 2, 3], [4, 5, 6]],
            lambda y, x: (y + 2 * x + 3, 4 * y + 5 * x + 6),
        ),
        ("rotation", [[0, -1], [1, 0]], lambda y, x: (-x, y)),
        ("scale", [2, 3], lambda y, x: (2 * y, 3 * x)),
        ("translation", [2, 3], lambda y, x: (y + 2, x + 3)),
    ],
)
def test_numbers_are_loaded_from_arrays(tmp_path, kind, numbers, expected, path):
    node = write(tmp_path, {"type": kind, "path": path})
    zarr.create_array(tmp_path / path.strip("/"), data=np.array(numbers, dtype=float))
    moved = ways(node)[ATLAS].apply(POINTS)
    np.testing.assert_allclose(moved, np.stack(expected(*POINTS.T), axis=1))


def test_numbers_inside_of_other_transformations_are_loaded(tmp_path):
    inner = {"type": "affine", "path": "numbers"}
    part = {"transformation": inner, "inputAxes": [1, 0], "outputAxes": [0, 1]}
    sequence = {
        "type": "sequence",
        "transformations": [
            {"type": "bijection", "forward": inner, "inverse": {"type": "identity"}},
            {"type": "byDimension", "transformations": [part]},
        ],
    }
    node = write(tmp_path, sequence)
    zarr.create_array(tmp_path / "numbers", data=np.array([[1.0, 0, 5], [0, 2, 0]]))
    moved = ways(node)[ATLAS].apply(POINTS)
    y, x = POINTS.T
    np.testing.assert_allclose(moved, np.stack([2 * x + 5, 2 * (y + 5)], axis=1))


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        ({"type": "affine", "path": "nowhere"}, "nowhere"),
        ({"type": "affine", "path": "0"}, "axes"),
        ({"type": "displacements", "path": "nowhere"}, "nowhere"),
        ({"type": "displacements", "path": "0"}, "grid|displacement"),
        ({"type": "scale", "scale": [1, 2, 3]}, "3"),
        ({"type": "projectAxis", "createdOutputs": [0]}, "3 axes"),
        ({"type": "identity", "output": {"name": "gone"}}, "gone"),
        ({"type": "identity", "input": {"name": "physical", "path": "a"}}, "a/phys"),
        ({"type": "identity", "input": {"name": "x", "path": "../../.."}}, "x"),
    ],
)
def test_what_cannot_be_used_is_reported(tmp_path, link, reason):
    node = write(
        tmp_path / "image.zarr",
        link,
        **{k: link[k] for k in ("input", "output") if k in link},
    )
    found = open_systems([node])
    (problem,) = found.problems
    assert re.search(reason, problem.text)
    assert ATLAS not in found.graph.find_ways(intrinsic_of(node))


def test_a_scene_has_no_intrinsic_system(tmp_path):
    link = {"type": "identity", "input": "", "output": "world"}
    scene = {
        "coordinateSystems": [system("world")],
        "coordinateTransformations": [link],
    }
    group(tmp_path, {"scene": scene})
    (problem,) = open_systems([open_node(tmp_path)]).problems
    assert problem.code == "system-unknown"


def test_index_coordinates_of_every_level_are_systems(tmp_path):
    levels = [
        ("0", {"type": "scale", "scale": [2, 3]}),
        (
            "1",
            {
                "type": "sequence",
                "transformations": [
                    {"type": "scale", "scale": [4, 6]},
                    {"type": "translation", "translation": [1, 1.5]},
                ],
            },
        ),
    ]
    group(tmp_path, {"multiscales": [multiscale(*levels)]})
    zarr.create_array(tmp_path / "0", data=np.zeros((8, 8)))
    zarr.create_array(tmp_path / "1", data=np.zeros((4, 4)))
    graph = open_systems([open_node(tmp_path)]).graph
    moved = graph.way(Reference("1"), Reference("0")).apply(POINTS)
    np.testing.assert_allclose(moved, 2 * POINTS + 0.5)
    assert graph.way(Reference("1"), Reference("2")) is None
    assert graph.find_ways(Reference("nowhere")) == {}


def test_a_way_without_a_field_is_taken_first(tmp_path):
    ends = {"input": {"name": "physical"}, "output": {"name": "atlas"}}
    hop = [
        {"type": "identity", "input": ends["output"], "output": {"name": "middle"}},
        {
            "type": "translation",
            "translation": [-7, 0],
            "input": {"name": "middle"},
            "output": ends["input"],
        },
    ]
    links = [{"type": "displacements", "path": "d"} | ends, *hop]
    content = multiscale(
        ("0", {"type": "identity"}),
        systems=[system("atlas"), system("middle")],
        links=links,
    )
    group(tmp_path, {"multiscales": [content]})
    zarr.create_array(tmp_path / "0", data=np.zeros((8, 8)))
    zarr.create_array(tmp_path / "d", data=np.zeros((8, 8, 2)))
    way = ways(open_node(tmp_path))[ATLAS]
    assert way.is_linear
    np.testing.assert_allclose(way.apply(POINTS), POINTS + np.array([7, 0]))


# ---------------------------------------------------------------- fields


def bend(shape=(5, 4)):
    y, x = np.mgrid[: shape[0], : shape[1]].astype(float)
    return np.stack([10 + y, x * y], axis=-1)


def test_a_field_in_a_group_has_its_vectors_where_their_type_says(tmp_path):
    """As the example of 0.6: axes cyx, two scales for three axes."""
    node = write(tmp_path, {"type": "coordinates", "path": "/t/field"})
    content = {
        "coordinateSystems": [system("physical", "cyx", c="coordinate")],
        "datasets": [
            {
                "path": "s0",
                "coordinateTransformations": [
                    {
                        "type": "scale",
                        "scale": [2, 4],
                        "input": {"path": "s0"},
                        "output": {"name": "physical"},
                    }
                ],
            }
        ],
    }
    group(tmp_path / "t" / "field", {"multiscales": [content]})
    zarr.create_array(tmp_path / "t/field/s0", data=np.moveaxis(bend(), -1, 0))
    moved = ways(node)[ATLAS].apply(np.array([[4.0, 8.0], [3.0, 4.0]]))
    np.testing.assert_allclose(moved, [[12, 4], [11.5, 1.5]])


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_field_in_an_array_has_its_metadata_there(tmp_path, wrapped):
    node = write(tmp_path, {"type": "displacements", "path": "d"})
    steps = [
        {"type": "scale", "scale": [1, 2, 4]},
        {"type": "translation", "translation": [0, 1, 1]},
    ]
    home = {
        "coordinateSystems": [system("0", "dyx", d="displacement")],
        "coordinateTransformations": [
            {"type": "sequence", "transformations": steps, "output": {"name": "0"}}
        ],
    }
    attributes = {"ome": home} if wrapped else home
    data = np.moveaxis(bend(), -1, 0)
    zarr.create_array(tmp_path / "d", data=data, attributes=attributes)
    moved = ways(node)[ATLAS].apply(np.array([[5.0, 9.0]]))
    np.testing.assert_allclose(moved, [[5 + 12, 9 + 4]])


def test_a_field_without_metadata_has_its_vectors_last(tmp_path):
    node = write(tmp_path, {"type": "displacements", "path": "d"})
    zarr.create_array(tmp_path / "d", data=bend())
    moved = ways(node)[ATLAS].apply(np.array([[2.0, 2.0]]))
    np.testing.assert_allclose(moved, [[14, 6]])


def test_a_field_of_one_axis_for_each(tmp_path):
    """As the example "xarrayLike" of 0.6."""
    parts = [
        {
            "transformation": {"type": "coordinates", "path": f"/{n}Coordinates"},
            "inputAxes": [i],
            "outputAxes": [i],
        }
        for i, n in enumerate("yx")
    ]
    node = write(tmp_path, {"type": "byDimension", "transformations": parts})
    zarr.create_array(tmp_path / "yCoordinates", data=np.arange(9.0) ** 2)
    zarr.create_array(tmp_path / "xCoordinates", data=10 * np.arange(9.0)[:, None])
    moved = ways(node)[ATLAS].apply(POINTS)
    np.testing.assert_allclose(moved, [[0, 0], [9, 15], [42.5, 20]])


def test_a_turned_grid_is_refused(tmp_path):
    node = write(tmp_path)
    turn = {"type": "rotation", "rotation": [[0, 1], [-1, 0]]}
    attributes = {"coordinateTransformations": [turn]}
    zarr.create_array(tmp_path / "d", data=bend(), attributes=attributes)
    with pytest.raises(UnsupportedError, match="scaled and shifted"):
        open_field(node, "d", 2)


# ------------------------------------------------------------- resampling


@pytest.fixture
def keys(monkeypatch):
    """Keys of all objects that are read."""
    asked = []
    original = FolderStore.read

    def get(self, key, start=None, length=None):
        asked.append(key)
        return original(self, key, start, length)

    monkeypatch.setattr(FolderStore, "read", get)
    return asked


def displaced(folder, shift, shape=(512, 512)):
    """Write two levels that a field moves by `shift` voxels from the atlas."""
    pixels = np.arange(np.prod(shape), dtype="u4").reshape(shape)
    levels = [
        ("0", {"type": "scale", "scale": [1, 1]}),
        (
            "1",
            {
                "type": "sequence",
                "transformations": [
                    {"type": "scale", "scale": [2, 2]},
                    {"type": "translation", "translation": [0.5, 0.5]},
                ],
            },
        ),
    ]
    link = {
        "type": "displacements",
        "path": "d",
        "input": {"name": "atlas"},
        "output": {"name": "physical"},
    }
    content = multiscale(*levels, systems=[system("atlas")], links=[link])
    group(folder, {"multiscales": [content]})
    zarr.create_array(folder / "0", data=pixels, chunks=(64, 64))
    zarr.create_array(folder / "1", data=pixels[::2, ::2], chunks=(64, 64))
    field = np.broadcast_to(np.array(shift, dtype=float), (*shape, 2))
    zarr.create_array(folder / "d", data=field, chunks=(64, 64, 2))
    node = open_node(folder)
    return node, pixels


def bent(node):
    pyramid = open_pyramid(node)
    pull = open_systems([node]).graph.way(ATLAS, PHYSICAL)
    return resample_pyramid(
        pyramid, BentImage.cover_image(pyramid, pull, pyramid.multiscale.axes)
    )


def test_every_level_is_moved_and_lies_where_napari_puts_it(tmp_path):
    node, pixels = displaced(tmp_path, (3, -2))
    pyramid = bent(node)
    fine, coarse = pyramid.levels
    assert (fine.shape, coarse.shape) == ((512, 512), (256, 256))
    assert fine.dtype == pixels.dtype
    first, second = pyramid.multiscale.levels
    np.testing.assert_allclose([first.scale, first.translation], [(1, 1), (-3, 2)])
    np.testing.assert_allclose(
        [second.scale, second.translation], [(2, 2), (-2.5, 2.5)]
    )
    np.testing.assert_array_equal(fine.read(((10, 20), (30, 50))), pixels[10:20, 30:50])
    np.testing.assert_array_equal(
        coarse.read(((10, 20), (30, 50))), pixels[20:40:2, 60:100:2]
    )


@pytest.mark.parametrize("dtype", ["u1", "i8", "u8", "f2", "f8"])
def test_the_brightest_voxels_are_as_bright_elsewhere(tmp_path, dtype):
    info = np.finfo(dtype) if dtype[0] == "f" else np.iinfo(dtype)
    half = {"type": "translation", "translation": [0.5, 0.5]}
    way = {"input": {"name": "atlas"}, "output": {"name": "physical"}}
    node = write(tmp_path, half, np.full((8, 8), info.max, dtype), **way)
    seen = bent(node).levels[0].read(((1, 7), (1, 7)))
    np.testing.assert_allclose(seen.astype(float), float(info.max), rtol=1e-12)


def test_a_block_reads_only_what_it_shows(tmp_path, keys):
    node, _ = displaced(tmp_path, (3, -2))
    pyramid = bent(node)
    keys.clear()
    pyramid.levels[0].read(((130, 140), (200, 210)))
    chunks = {key for key in keys if "/c/" in key}
    assert chunks - {"d/c/1/3/0", "d/c/2/3/0"} == {"0/c/2/3"}


def test_opening_a_field_reads_metadata_alone(tmp_path, keys):
    node, _ = displaced(tmp_path, (3, -2))
    keys.clear()
    open_systems([node])
    assert not [key for key in keys if "/c/" in key]


def test_a_field_without_values_reaches_nothing(tmp_path):
    node, _ = displaced(tmp_path, (float("nan"), 0))
    moved = open_systems([node]).graph.way(ATLAS, PHYSICAL).apply(POINTS)
    assert np.isnan(moved[:, 0]).all()
    with pytest.raises(UnsupportedError, match="nowhere"):
        bent(node)


def test_coordinates_of_the_nearest_vector_show_an_image(tmp_path):
    link = {"type": "coordinates", "path": "d", "interpolation": "nearest"}
    ends = {"input": {"name": "atlas"}, "output": {"name": "physical"}}
    node = write(tmp_path, link, **ends)
    there = np.stack(np.mgrid[:8, :8], axis=-1) * 0.75 + [2, -1]
    zarr.create_array(tmp_path / "d", data=there)
    pyramid = bent(node)
    level, (array,) = pyramid.multiscale.levels[0], pyramid.levels
    found = array.read(tuple((0, n) for n in array.shape))
    assert min(found.shape) >= 5
    pixels = np.arange(64).reshape(8, 8)
    for index, value in np.ndenumerate(found):
        at = np.array(level.translation) + np.array(level.scale) * index
        y, x = there[tuple(np.clip(np.floor(at + 0.5), 0, 7).astype(int))]
        inside = -0.5 <= y <= 7.5 and -0.5 <= x <= 7.5
        wanted = pixels[min(round(y), 7), min(round(x), 7)] if inside else 0
        y0, x0 = np.clip(np.floor([y, x]), 0, 7).astype(int)
        near = pixels[y0 : y0 + 2, max(x0, 0) : x0 + 2]
        assert value == wanted or (inside and near.min() <= value <= near.max())
