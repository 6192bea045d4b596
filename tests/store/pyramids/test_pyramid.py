from __future__ import annotations

import itertools
import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zarr

from napari_ngff import ChunkError, UnsupportedError, open_node, open_pyramid
from napari_ngff.metadata.model import Severity
from napari_ngff.metadata.version import V0_3
from napari_ngff.store.sources import server_access
from napari_ngff.testing import write_image
from range_server import serving_ranges


def write(folder: Path, shapes, *, scales=None, axes="yx", dtype="u2", **attributes):
    """Write a 0.4 image whose level k is filled with k + 1."""
    datasets = []
    for k, shape in enumerate(shapes):
        chunks = [max(1, size) for size in shape]
        array = zarr.create_array(
            folder / str(k), shape=shape, dtype=dtype, chunks=chunks, zarr_format=2
        )
        array[...] = k + 1
        scale = scales[k] if scales else [2.0**k] * len(axes)
        datasets.append(
            {
                "path": str(k),
                "coordinateTransformations": [{"type": "scale", "scale": scale}],
            }
        )
    multiscale = {
        "version": "0.4",
        "axes": [{"name": name, "type": "space"} for name in axes],
        "datasets": datasets,
        **attributes,
    }
    (folder / ".zgroup").write_text('{"zarr_format": 2}')
    (folder / ".zattrs").write_text(json.dumps({"multiscales": [multiscale]}))
    return folder


def codes(pyramid):
    return [problem.code for problem in pyramid.problems]


def read(source):
    return source.read(tuple((0, size) for size in source.shape))


def test_levels_are_read_in_order(tmp_path):
    pyramid = open_pyramid(open_node(write(tmp_path / "a", [(8, 8), (4, 4)])))
    assert [level.shape for level in pyramid.levels] == [(8, 8), (4, 4)]
    assert [int(read(level).max()) for level in pyramid.levels] == [1, 2]
    assert codes(pyramid) == []


def test_levels_that_grow_are_sorted(tmp_path):
    folder = write(tmp_path / "a", [(4, 4), (8, 8)], scales=[[2, 2], [1, 1]])
    pyramid = open_pyramid(open_node(folder))
    assert [level.shape for level in pyramid.levels] == [(8, 8), (4, 4)]
    assert [level.path for level in pyramid.multiscale.levels] == ["1", "0"]
    assert codes(pyramid) == ["levels-unordered"]


def test_the_finest_level_is_that_of_the_smallest_voxels(tmp_path):
    """As webknossos pads coarser levels to whole chunks."""
    shapes, scales = [(10, 70), (32, 35), (32, 32)], [[1, 1], [2, 2], [4, 4]]
    folder = write(tmp_path / "a", shapes, scales=scales)
    pyramid = open_pyramid(open_node(folder))
    assert [level.path for level in pyramid.multiscale.levels] == ["0"]
    assert codes(pyramid) == ["level-grows", "level-grows"]
    folder = write(tmp_path / "b", [(9, 9), (8, 8), (8, 8)], scales=[[1, 1]] * 3)
    pyramid = open_pyramid(open_node(folder))
    assert [level.path for level in pyramid.multiscale.levels] == ["0", "1", "2"]


def test_a_wrong_scale_does_not_hide_the_largest_level(tmp_path):
    scales = [[3, 4], [2, 2], [4, 4]]
    folder = write(tmp_path / "a", [(20, 20), (10, 10), (5, 5)], scales=scales)
    pyramid = open_pyramid(open_node(folder))
    assert [level.path for level in pyramid.multiscale.levels] == ["0", "1", "2"]
    assert "level-grows" not in codes(pyramid)


def test_a_level_that_grows_on_one_axis_is_left_out(tmp_path):
    folder = write(tmp_path / "a", [(8, 8), (2, 9)])
    pyramid = open_pyramid(open_node(folder))
    assert [level.shape for level in pyramid.levels] == [(8, 8)]
    assert codes(pyramid) == ["level-grows"]


def test_a_level_of_tiny_chunks_is_left_out(tmp_path):
    folder = write(tmp_path / "a", [(400, 400), (200, 200)])
    document = json.loads((folder / "0/.zarray").read_text())
    document["chunks"] = [1, 1]
    (folder / "0/.zarray").write_text(json.dumps(document))
    pyramid = open_pyramid(open_node(folder))
    assert [level.shape for level in pyramid.levels] == [(200, 200)]
    assert codes(pyramid) == ["chunks-tiny"]
    assert "too small to be viewed" in pyramid.problems[0].text


def test_a_missing_first_level_keeps_the_transform_of_the_next(tmp_path):
    folder = write(tmp_path / "a", [(8, 8), (4, 4)])
    (folder / "0").rename(tmp_path / "elsewhere")
    pyramid = open_pyramid(open_node(folder))
    assert [level.path for level in pyramid.multiscale.levels] == ["1"]
    assert pyramid.multiscale.levels[0].scale == (2.0, 2.0)
    assert codes(pyramid) == ["level-unreadable"]


def test_no_level_at_all_is_an_error_that_names_them(tmp_path):
    folder = write(tmp_path / "a", [(8, 8), (4, 4)])
    (folder / "0").rename(tmp_path / "elsewhere")
    (folder / "1").rename(tmp_path / "elsewhere-too")
    with pytest.raises(UnsupportedError) as caught:
        open_pyramid(open_node(folder))
    assert str(caught.value) == (
        f"No pixel data found in {folder}: levels 0, 1 are missing."
        " Restore them from a copy."
    )


def test_levels_that_cannot_be_read_are_named_with_the_reason(tmp_path):
    folder = write(tmp_path / "a", [(8, 8)])
    (folder / "0" / ".zarray").write_text("{ nothing")
    with pytest.raises(UnsupportedError, match=r"No pixel data .*a\. .*a/0.* JSON"):
        open_pyramid(open_node(folder))


def test_as_many_axes_as_the_array_has(tmp_path):
    folder = write(tmp_path / "a", [(8, 8)], axes="zyx")
    with pytest.raises(UnsupportedError, match=r"2 axes.*names 3 \(z, y, x\)"):
        open_pyramid(open_node(folder))


def test_axes_that_are_not_named_are_taken_from_the_right(tmp_path):
    folder = write(tmp_path / "a", [(3, 8, 8)], axes="zyx", scales=[[4, 2, 2]])
    document = json.loads((folder / ".zattrs").read_text())
    del document["multiscales"][0]["axes"]
    (folder / ".zattrs").write_text(json.dumps(document))
    pyramid = open_pyramid(open_node(folder))
    assert pyramid.multiscale.axis_names == ("z", "y", "x")
    assert pyramid.multiscale.levels[0].scale == (4.0, 2.0, 2.0)


def test_an_old_image_with_fewer_axes_than_five(tmp_path):
    folder = write(tmp_path / "a", [(8, 8)])
    text = json.dumps(
        {"multiscales": [{"version": "0.1", "datasets": [{"path": "0"}]}]}
    )
    (folder / ".zattrs").write_text(text)
    pyramid = open_pyramid(open_node(folder))
    assert pyramid.multiscale.axis_names == ("y", "x")
    assert codes(pyramid) == ["axes-count"]


def test_a_level_off_its_place_is_a_warning(tmp_path):
    folder = write(tmp_path / "a", [(27, 27), (6, 6)], scales=[[1, 1], [3, 3]])
    pyramid = open_pyramid(open_node(folder))
    (problem,) = pyramid.problems
    assert (problem.code, problem.severity) == ("level-misplaced", Severity.WARNING)
    # Voxel 5 lies at 15 by its metadata, at 4.5 * 5 + 1.75 = 24.25 by its shape.
    assert "2.1 of its voxels" in problem.text


@pytest.mark.parametrize("size", [4129, 4159, 27])
def test_levels_that_were_halved_are_in_their_place(tmp_path, size):
    write_image(tmp_path / "a.ome.zarr", shape=(size, 64))
    pyramid = open_pyramid(open_node(tmp_path / "a.ome.zarr"))
    assert codes(pyramid) == []


def test_old_versions_have_no_transformations_to_be_off(tmp_path):
    assert not V0_3.may_have_transformations
    folder = write(tmp_path / "a", [(27, 27), (6, 6)])
    datasets = [{"path": "0"}, {"path": "1"}]
    text = {
        "multiscales": [{"version": "0.3", "axes": ["y", "x"], "datasets": datasets}]
    }
    (folder / ".zattrs").write_text(json.dumps(text))
    assert codes(open_pyramid(open_node(folder))) == []


@pytest.mark.parametrize(("shape", "axes"), [((8,), "x"), ((0, 8), "yx")])
def test_what_cannot_be_a_picture_is_refused(tmp_path, shape, axes):
    folder = write(tmp_path / "a", [shape], axes=axes)
    with pytest.raises(UnsupportedError):
        open_pyramid(open_node(folder))


def test_a_broken_chunk_is_reported_or_raised(tmp_path):
    folder = write(tmp_path / "a", [(8, 8)])
    (folder / "0" / "0.0").write_bytes(b"nonsense")
    reported = []
    pyramid = open_pyramid(open_node(folder), on_error=reported.append)
    assert not read(pyramid.levels[0]).any()
    assert [error.key for error in reported] == ["0/0.0"]
    assert "0/0.0" in str(reported[0])
    with pytest.raises(ChunkError, match=r"0/0\.0"):
        read(open_pyramid(open_node(folder)).levels[0])


def list_keys(encoding, ndim):
    name, separator = encoding
    grid = np.ndindex((2,) * ndim)
    prefix = ["c"] if name == "default" else []
    return [separator.join([*prefix, *map(str, cell)]) for cell in grid]


ENCODINGS = list(itertools.product(("v2", "default"), "./"))


def write_renamed(tmp_path, stated, stored, ndim):
    """Write an image whose chunks have other names than its documents state."""
    shapes = {"0": 8, "1": 2}
    for level, size in shapes.items():
        array = zarr.create_array(
            tmp_path / level, shape=(size,) * ndim, chunks=(size // 2,) * ndim,
            dtype="u1", chunk_key_encoding={"name": stated[0], "separator": stated[1]},
        )  # fmt: skip
        array[...] = 7
        moved = list(zip(list_keys(stated, ndim), list_keys(stored, ndim), strict=True))
        aside = tmp_path / f"{level}.aside"
        for old, new in moved:
            (aside / new).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / level / old).rename(aside / new)
        (aside / "zarr.json").write_bytes((tmp_path / level / "zarr.json").read_bytes())
        shutil.rmtree(tmp_path / level)
        aside.rename(tmp_path / level)
    axes = [{"name": name, "type": "space"} for name in "zyx"[-ndim:]]
    datasets = [
        {
            "path": level,
            "coordinateTransformations": [
                {"type": "scale", "scale": [8.0 / size] * ndim}
            ],
        }
        for level, size in shapes.items()
    ]
    ome = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}
    group = {"zarr_format": 3, "node_type": "group", "attributes": {"ome": ome}}
    (tmp_path / "zarr.json").write_text(json.dumps(group))


@pytest.mark.parametrize("ndim", [2, 3])
@pytest.mark.parametrize("stored", ENCODINGS)
@pytest.mark.parametrize("stated", ENCODINGS)
def test_chunks_whose_names_contradict_the_document_are_a_problem(
    tmp_path, stated, stored, ndim
):
    write_renamed(tmp_path, stated, stored, ndim)
    pyramid = open_pyramid(open_node(tmp_path))
    told = [p for p in pyramid.problems if p.code == "chunk-names"]
    # Said once, and only where the picture is not what is stored.
    assert len(told) == (not read(pyramid.levels[0]).any())
    assert (stated != stored) == bool(told)
    for problem in told:
        text = str(problem)
        assert any(key.split("/")[0] in text for key in list_keys(stored, ndim))


@pytest.mark.parametrize("stored", ENCODINGS)
def test_names_of_chunks_are_compared_in_archives_on_servers(tmp_path, stored):
    pytest.importorskip("aiohttp", reason="needs the extra [remote]")
    folder = tmp_path / "image"
    write_renamed(folder, ("default", "/"), stored, 2)
    with zipfile.ZipFile(tmp_path / "image.zip", "w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder).as_posix())
    with serving_ranges(tmp_path) as server:
        pyramid = open_pyramid(open_node(f"{server.address}/image.zip"))
        is_empty = not read(pyramid.levels[0]).any()
    server_access.resume_reading()
    assert codes(pyramid) == ["chunk-names"] * is_empty
    assert is_empty == (stored != ("default", "/"))


def test_types_and_names_that_disagree_are_noted(tmp_path):
    folder = write(tmp_path / "a", [(8, 8), (4, 4)])
    zarr.create_array(
        folder / "1", shape=(4, 4), dtype="f4", zarr_format=2, overwrite=True
    )
    assert codes(open_pyramid(open_node(folder))) == ["level-dtype"]


def test_dimension_names_that_disagree_lose(tmp_path):
    axes = [{"name": name, "type": "space"} for name in "yx"]
    scale = {"type": "scale", "scale": [1.0, 1.0]}
    ome = {
        "version": "0.5",
        "multiscales": [
            {
                "axes": axes,
                "datasets": [{"path": "0", "coordinateTransformations": [scale]}],
            }
        ],
    }
    group = zarr.create_group(tmp_path / "a", zarr_format=3, attributes={"ome": ome})
    group.create_array("0", shape=(4, 4), dtype="u1", dimension_names=["a", "b"])
    pyramid = open_pyramid(open_node(tmp_path / "a"))
    assert pyramid.multiscale.axis_names == ("y", "x")
    assert codes(pyramid) == ["dimension-names"]
    assert np.array_equal(read(pyramid.levels[0]), np.zeros((4, 4)))
