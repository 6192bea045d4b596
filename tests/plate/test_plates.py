"""Whole plates, of every kind there is: each voxel of a picture is that of a field."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
import zarr

from mosaics import mosaic, stored, whole
from napari_ngff import open_node
from napari_ngff.plate.plate_layout import map_plate
from plates import pixels, write_array, write_group, write_image, write_plate

SHAPE = (1, 8, 8)


def linked_plate(root, zarr_format, grid, fields, labels=False, rows_there=None):
    """Write a plate whose wells share their files: hard links take little time."""
    height, width = grid
    one = write_plate(
        root.parent / f"one-{root.name}",
        zarr_format,
        (1, 1),
        fields,
        SHAPE,
        labelled=lambda well: ("cells",) if labels else (),
    )
    rows, columns = range(height), range(width)
    names = [
        f"{chr(65 + i // 26 - 1) if i > 25 else ''}{chr(65 + i % 26)}" for i in rows
    ]
    wells = [
        {"path": f"{names[r]}/{c + 1}", "rowIndex": r, "columnIndex": c}
        for r in rows
        for c in columns
    ]
    plate = {
        "rows": [{"name": name} for name in names],
        "columns": [{"name": str(c + 1)} for c in columns],
        "wells": wells,
    }
    write_group(root, {"plate": plate}, zarr_format)
    there = [w for w in wells if rows_there is None or w["path"][0] in rows_there]
    for well in there:
        shutil.copytree(one / "A/1", root / well["path"], copy_function=os.link)
    return root


def mark(root, well, field, zarr_format, value):
    """Give a field pixels of its own."""
    data = np.full(SHAPE, value, "u2")
    for level in (0, 1):
        part = data[..., :: 2**level, :: 2**level]
        folder = root / well / field / str(level)
        shutil.rmtree(folder)
        write_array(folder, part, zarr_format)


def check(root, joined, places, fields):
    """Compare fields at every level with what zarr reads of them."""
    across = int(np.ceil(np.sqrt(fields)))
    for level, source in enumerate(joined.pyramid.levels):
        picture, side = whole(source), 8 >> level
        assert picture.shape[-2:] == tuple(n >> level for n in joined_size(joined))
        for well, (row, column), k in places:
            y = (row * across + k // across) * side
            x = (column * across + k % across) * side
            shown = picture[..., y : y + side, x : x + side]
            field = stored(root / well / str(k), level)
            np.testing.assert_array_equal(shown, field, f"{well}/{k} at {level}")


def joined_size(joined):
    return joined.pyramid.levels[0].shape[-2:]


@pytest.mark.default_cases("grid0-4-2", "grid1-4-3")
@pytest.mark.parametrize(
    ("grid", "fields", "zarr_format"),
    [
        ((8, 12), 4, 2),
        ((8, 12), 4, 3),
        pytest.param((16, 24), 9, 3, marks=pytest.mark.slow),
        pytest.param((32, 48), 4, 2, marks=pytest.mark.slow),
        pytest.param((32, 48), 4, 3, marks=pytest.mark.slow),
    ],
)
def test_plates_of_every_usual_size(tmp_path, reads, grid, fields, zarr_format):
    root = linked_plate(tmp_path / "p", zarr_format, grid, fields)
    height, width = grid
    last = f"{'AF' if height == 32 else chr(64 + height)}/{width}"
    middle = f"{chr(64 + height // 2) if height < 50 else 'P'}/{width // 2}"
    places = [
        ("A/1", (0, 0), 0),
        (middle, (height // 2 - 1, width // 2 - 1), 1),
        (last, (height - 1, width - 1), fields - 1),
    ]
    for number, (well, _, k) in enumerate(places):
        mark(root, well, str(k), zarr_format, 40_000 + number)
    reads.clear()
    wells = map_plate(open_node(root).metadata.plate).wells
    # Of 0.4 the group's own two documents; no well.
    assert len(reads) <= 2
    assert len(wells) == height * width
    assert wells[-1].path == last

    joined = mosaic(root)
    reads.clear()
    coarse = whole(joined.pyramid.levels[-1])
    assert coarse.all()
    # A well's document; of a field its own, that of level 0, and a chunk.
    assert len(reads) <= height * width * (1 + 3 * fields) + 8
    reads.clear()
    whole(joined.pyramid.levels[-1])
    assert not reads
    check(root, joined, places, fields)
    count = 8 * int(np.ceil(np.sqrt(fields)))
    assert joined_size(joined) == (height * count, width * count)


def test_a_sparse_plate_reads_a_file_per_empty_well(tmp_path, reads):
    root = linked_plate(tmp_path / "p", 3, (16, 24), 4, rows_there="AP")
    joined = mosaic(root)
    reads.clear()
    coarse = whole(joined.pyramid.levels[-1])
    assert len([key for key in reads if key[0] not in "AP"]) == 14 * 24
    assert not coarse[:, 8:-8].any()
    check(root, joined, [("A/24", (0, 23), 3), ("P/1", (15, 0), 2)], 4)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_alike_fields_that_are_stored_otherwise(tmp_path, zarr_format):
    """The levels of alike fields are taken to be alike, until that turns out wrong."""
    root = write_plate(tmp_path / "p", zarr_format, (2, 3), 1, (1, 32, 32), levels=2)
    coarse = root / "B/2/0/1"
    data = stored(root / "B/2/0", 1)
    shutil.rmtree(coarse)
    zarr.create_array(
        coarse, data=data, chunks=(1, 8, 8), zarr_format=zarr_format, overwrite=True
    )
    shutil.rmtree(root / "B/3/0/1")
    reported = []
    joined = mosaic(root, reported=reported)
    picture = whole(joined.pyramid.levels[1])
    np.testing.assert_array_equal(picture[:, 16:, 16:32], data)
    np.testing.assert_array_equal(picture[:, :16, 32:], stored(root / "A/3/0", 1))
    assert not picture[:, 16:, 32:].any()


def test_damaged_and_missing_chunks_stay_empty(tmp_path):
    root = write_plate(tmp_path / "p", 3, (2, 3), 4)
    (root / "B/2/1/1/c/0/0/0").write_bytes(b"short")
    (root / "B/3/2/1/c/0/0/0").unlink()
    reported = []
    joined = mosaic(root, reported=reported)
    picture = whole(joined.pyramid.levels[1])
    assert not picture[:, 8:12, 12:16].any()
    assert not picture[:, 12:16, 16:20].any()
    assert np.count_nonzero(picture) == picture.size - 2 * 16
    assert [error.key for error in reported] == ["B/2/1/1/c/0/0/0"]


def test_fields_of_other_voxels_are_reported(tmp_path):
    root = write_plate(tmp_path / "p", 3, (1, 3), 1, placed=False)
    document = root / "A/2/0/zarr.json"
    document.write_text(document.read_text().replace("[1.0, 0.5, 0.5]", "[1, 1.3, 2]"))
    joined = mosaic(root)
    whole(joined.pyramid.levels[0])
    problems = joined.tiles.arrangements.problems
    assert list(problems) == ["A/2"]
    assert "voxels of 1.3 x 2, others of 0.5 x 0.5" in problems["A/2"]


def test_labels_in_half_of_the_wells_of_a_plate(tmp_path, reads):
    root = linked_plate(tmp_path / "p", 3, (8, 12), 4, labels=True)
    for row in "BDFH":
        for column in range(1, 13):
            for field in range(4):
                shutil.rmtree(root / f"{row}/{column}/{field}/labels")
    joined = mosaic(root, inside="labels/cells")
    picture = whole(joined.pyramid.levels[1])
    field = stored(root / "G/12/3/labels/cells", 1)
    np.testing.assert_array_equal(picture[6 * 8 + 4 : 7 * 8, -4:], field)
    assert not picture[7 * 8 :].any()
    assert np.count_nonzero(picture) == 4 * 12 * 4 * 16


def published(root, change, zarr_format=2):
    """Rewrite the document of a plate."""
    name = ".zattrs" if zarr_format == 2 else "zarr.json"
    document = json.loads((root / name).read_text())
    inner = document if zarr_format == 2 else document["attributes"]["ome"]
    change(inner["plate"])
    (root / name).write_text(json.dumps(document))
    return root


def swapped(plate):
    """As of BioImageTools' valid/plate-01: indices that contradict the path."""
    for well in plate["wells"]:
        well["rowIndex"], well["columnIndex"] = well["columnIndex"], well["rowIndex"]


def exchanged(plate):
    """As of the specification's minimal plate: rows and columns exchanged."""
    plate["rows"], plate["columns"] = plate["columns"], plate["rows"]


def unindexed(plate):
    """As of 0.1 to 0.3: no indices."""
    for well in plate["wells"]:
        del well["rowIndex"], well["columnIndex"]


def lower(plate):
    for row in plate["rows"]:
        row["name"] = row["name"].lower()


def nameless(plate):
    """Without what a plate may have: its name, acquisitions."""
    plate.pop("name")
    plate.pop("acquisitions")


@pytest.mark.parametrize("change", [swapped, exchanged, unindexed, lower, nameless])
def test_plates_as_they_are_published(tmp_path, change):
    root = write_plate(tmp_path / "p", 2, (2, 2), 1)
    joined = mosaic(published(root, change))
    picture = whole(joined.pyramid.levels[0])
    assert picture.shape == (1, 16, 16)
    seen = {
        path: (int(place[1]), int(place[2]))
        for path in ("A/1", "A/2", "B/1", "B/2")
        for field in [stored(root / path / "0")]
        if len(place := np.argwhere(picture == field[0, 0, 0])[0])
    }
    if change is not exchanged:
        assert seen == {"A/1": (0, 0), "A/2": (0, 8), "B/1": (8, 0), "B/2": (8, 8)}
    assert len(set(seen.values())) == 4
    for path, (y, x) in seen.items():
        shown = picture[:, y : y + 8, x : x + 8]
        np.testing.assert_array_equal(shown, stored(root / path / "0"))


def test_a_prefix_before_the_wells(tmp_path):
    """0.1's own example: "2020-10-10/A/1"."""
    root = write_plate(tmp_path / "p", 2, (2, 2), 1)
    (root / "2020-10-10").mkdir()
    for row in "AB":
        (root / row).rename(root / "2020-10-10" / row)

    def prefixed(plate):
        unindexed(plate)
        for well in plate["wells"]:
            well["path"] = f"2020-10-10/{well['path']}"

    joined = mosaic(published(root, prefixed))
    picture = whole(joined.pyramid.levels[0])
    field = stored(root / "2020-10-10/B/2/0")
    np.testing.assert_array_equal(picture[:, 8:, 8:], field)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_fields_of_any_name(tmp_path, zarr_format):
    root = write_plate(tmp_path / "p", zarr_format, (1, 2), 1)
    names = ["field_a", "Fov-2", "x.1"]
    for well in ("A/1", "A/2"):
        for i, name in enumerate(names):
            write_image(root / well / name, pixels(i + 7, SHAPE), zarr_format)
        images = [{"path": name} for name in names]
        write_group(root / well, {"well": {"images": images}}, zarr_format)
    picture = whole(mosaic(root).pyramid.levels[0])
    assert picture.shape == (1, 16, 32)
    np.testing.assert_array_equal(picture[:, 8:, 16:24], pixels(9, SHAPE))
    assert not picture[:, 8:, 24:].any()


def test_a_plate_of_bioformats2raw(tmp_path):
    root = write_plate(tmp_path / "p", 2, (2, 3), 4)
    document = json.loads((root / ".zattrs").read_text())
    document["bioformats2raw.layout"] = 3
    (root / ".zattrs").write_text(json.dumps(document))
    write_group(root / "OME", {}, 2)
    (root / "OME/METADATA.ome.xml").write_text("<OME/>")
    check(root, mosaic(root), [("B/3", (1, 2), 3), ("A/2", (0, 1), 2)], 4)
