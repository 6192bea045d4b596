from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import zarr

from napari_ngff import open_node, open_pyramid
from napari_ngff.plate.layout import Tile, plate_tiles
from napari_ngff.plate.mosaic import TileImages, open_mosaic
from napari_ngff.viewer.samples import write_plate


@pytest.fixture(scope="module", params=["0.4", "0.5"])
def pristine(request, tmp_path_factory):
    where = tmp_path_factory.mktemp("mosaic") / "plate.ome.zarr"
    return write_plate(where, request.param, grid=(2, 3), fields=2, shape=(64, 48))


@pytest.fixture
def plate(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "plate.ome.zarr")


def mosaic(plate, told=None):
    node = open_node(plate)
    template = open_pyramid(open_node(plate / "A/1/0"))
    tiles = plate_tiles(node.metadata.plate, "", (64, 48))
    images = TileImages(tiles, node, "0")
    return open_mosaic(template, images, told.append if told is not None else None)


def field(plate, well, level, name="0"):
    path = plate / well / name / str(level)
    return zarr.open_array(path, mode="r")[...] if path.exists() else 0


@pytest.mark.parametrize("level", [0, 1])
def test_every_field_is_at_its_well(plate, level):
    source = mosaic(plate).levels[level]
    height, width = 64 >> level, 48 >> level
    assert source.shape[-2:] == (2 * height, 3 * width)
    for r, row in enumerate("AB"):
        for c, column in enumerate("123"):
            box = (
                (0, source.shape[0]),
                (r * height, (r + 1) * height),
                (c * width, (c + 1) * width),
            )
            expected = field(plate, f"{row}/{column}", level)
            np.testing.assert_array_equal(
                source.read(box), expected + np.zeros_like(source.read(box))
            )


def test_a_window_over_borders(plate):
    source = mosaic(plate).levels[0]
    full = source.read(tuple((0, size) for size in source.shape))
    assert full.any()
    part = source.read(((1, 2), (50, 70), (40, 100)))
    np.testing.assert_array_equal(part, full[1:2, 50:70, 40:100])


def test_wells_may_miss_and_break_and_differ(plate):
    shutil.rmtree(plate / "A" / "2")
    (document,) = [
        path for path in (plate / "A/3/0/0").iterdir() if path.name in ARRAY_DOCUMENTS
    ]
    document.write_text("{")
    smaller = plate / "B/1/0/0"
    kept = zarr.open_array(smaller, mode="r")[:, :20, :30]
    zarr_format = 2 if document.name == ".zarray" else 3
    shutil.rmtree(smaller)
    array = zarr.create_array(
        smaller, shape=kept.shape, dtype=kept.dtype, zarr_format=zarr_format
    )
    array[...] = kept
    told = []
    source = mosaic(plate, told).levels[0]
    full = source.read(tuple((0, size) for size in source.shape))
    source.read(tuple((0, size) for size in source.shape))
    assert not full[:, :64, 48:].any()
    np.testing.assert_array_equal(full[:, 64:84, :30], kept)
    assert not full[:, 84:, :48].any()
    assert ["A/3" in str(error) for error in told] == [True]


ARRAY_DOCUMENTS = (".zarray", "zarr.json")


def test_a_well_whose_field_has_another_name(plate):
    well = plate / "B/1"
    (well / "0").rename(well / "first")
    (document,) = [p for p in well.iterdir() if p.name in (".zattrs", "zarr.json")]
    text = document.read_text().replace('"path": "0"', '"path": "first"')
    assert json.loads(text)
    document.write_text(text)
    source = mosaic(plate).levels[0]
    found = source.read(((0, source.shape[0]), (64, 128), (0, 48)))
    np.testing.assert_array_equal(found, field(plate, "B/1", 0, "first"))


def test_opening_reads_nothing_of_the_other_wells(plate, monkeypatch):
    node = open_node(plate)
    template = open_pyramid(open_node(plate / "A/1/0"))
    read = []
    original = type(node.location.source).get

    def counted(self, key, *arguments):
        read.append(key)
        return original(self, key, *arguments)

    monkeypatch.setattr(type(node.location.source), "get", counted)
    tiles = plate_tiles(node.metadata.plate, "", (64, 48))
    source = open_mosaic(template, TileImages(tiles, node, "0")).levels[0]
    assert read == []
    source.read(((0, 1), (70, 80), (100, 110)))
    assert all(key.startswith("B/3/") for key in read)


def test_tiles_at_positions(plate):
    node = open_node(plate / "A/1")
    template = open_pyramid(node.child("0"))
    tiles = (Tile("A/1/0", (0.0, 0.0)), Tile("A/1/1", (10.0, 60.0)))
    source = open_mosaic(template, TileImages(tiles, node)).levels[0]
    assert source.shape[-2:] == (74, 108)
    found = source.read(((0, source.shape[0]), (10, 74), (60, 108)))
    np.testing.assert_array_equal(found, field(plate, "A/1", 0, "1"))
