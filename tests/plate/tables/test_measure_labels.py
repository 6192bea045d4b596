"""Measuring labels equals scikit-image, whatever blocks, axes and workers."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from skimage.measure import regionprops_table

from napari_ngff import open_node
from napari_ngff.cli import main
from napari_ngff.errors import AccessError, NodeNotFoundError, UnsupportedError
from napari_ngff.plate.results.object_classifier import train_rule
from napari_ngff.plate.tables import labelled_image, measure_labels
from napari_ngff.plate.tables.labelled_image import CLASS, open_labelled
from napari_ngff.plate.tables.measure_labels import (
    FieldTask,
    count_field,
    measure,
    places_of,
)
from napari_ngff.plate.tables.object_features import choose_columns
from napari_ngff.plate.tables.table import PLACES
from plates import SPACING, write_image, write_plate

RNG = np.random.default_rng(5)


def blobs(shape, count=40, dtype="u4"):
    """Labels that are no squares, some in many pieces, ids with gaps."""
    seeds = RNG.integers(0, count, [max(1, n // 4) for n in shape])
    for axis in range(len(shape)):
        seeds = np.repeat(seeds, 4, axis)
    data = np.zeros(shape, dtype)
    part = tuple(slice(0, min(a, b)) for a, b in zip(shape, seeds.shape, strict=True))
    data[part] = seeds[part] * 3
    return data


def write_labelled(folder, pixels, labels, axes="cyx", corner=None, zarr_format=3):
    """An image with the labels "nuclei"."""
    write_image(folder, pixels, zarr_format, axes, corner=corner, labels=["nuclei"])
    shutil.rmtree(folder / "labels" / "nuclei")
    flat = axes.replace("c", "")[-labels.ndim :]
    factor = pixels.shape[-1] / labels.shape[-1]
    y, x = corner or (0, 0)
    planes = {
        "y": (SPACING * factor, SPACING * y),
        "x": (SPACING * factor, SPACING * x),
    }
    write_image(
        folder / "labels" / "nuclei", labels, zarr_format, flat, label={}, planes=planes
    )
    return folder


def expected(labels, channels, spacing, corner):
    """What scikit-image says of one image."""
    found = regionprops_table(
        labels,
        np.stack(channels, -1).astype(float),
        properties=(
            *("label", "num_pixels", "area", "centroid"),
            *("intensity_mean", "intensity_min", "intensity_max"),
        ),
        spacing=spacing,
    )
    columns = {"label": found["label"], "voxels": found["num_pixels"]}
    columns["volume" if labels.ndim > 2 else "area"] = found["area"]
    for i, name in enumerate("zyx"[-labels.ndim :]):
        columns[f"centroid_{name}"] = found[f"centroid-{i}"] + corner[i]
    for i in range(len(channels)):
        for kind in ("mean", "min", "max"):
            columns[f"{kind}_{i}"] = found[f"intensity_{kind}-{i}"]
    return pd.DataFrame(columns)


def same(found, wanted):
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False, rtol=1e-12)


@pytest.mark.parametrize("block", [1 << 23, 500])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_image_as_scikit_image(tmp_path, monkeypatch, block, zarr_format):
    monkeypatch.setattr(labelled_image, "BLOCK", block)
    labels = blobs((50, 70))
    pixels = RNG.integers(0, 60_000, (2, 50, 70)).astype("u2")
    where = write_labelled(
        tmp_path / "a", pixels, labels, corner=(10, 20), zarr_format=zarr_format
    )
    found = measure(open_node(str(where)), "nuclei")
    corner = 10 * SPACING, 20 * SPACING
    same(found.frame, expected(labels, pixels, (SPACING, SPACING), corner))
    assert found.problems == ()


def chunked(folder, data, chunks):
    """Write level 0 anew, in chunks."""
    import zarr

    array = zarr.create_array(
        str(folder / "0"), data=data, chunks=chunks, overwrite=True
    )
    assert array.nchunks > 10


def test_blocks_add_up_exactly(tmp_path, monkeypatch):
    monkeypatch.setattr(labelled_image, "BLOCK", 1000)
    labels = blobs((8, 60, 61), 300, "u2")
    pixels = RNG.normal(size=(2, 8, 60, 61)).astype("f4")
    where = write_labelled(tmp_path / "a", pixels, labels, "czyx")
    chunked(where, pixels, (1, 3, 16, 16))
    chunked(where / "labels" / "nuclei", labels, (2, 10, 11))
    node = open_node(str(where))
    boxes = list(open_labelled(node, "nuclei").list_blocks())
    assert len(boxes) > 20
    assert all(np.prod([b - a for a, b in box]) <= 1000 for box in boxes)
    seen = []
    found = measure(node, "nuclei", goes_on=lambda *a: seen.append(a) or True)
    wanted = expected(labels, pixels, (1, SPACING, SPACING), (0, 0, 0))
    same(found.frame, wanted)
    assert seen[-1] == (len(boxes), len(boxes))
    assert len(seen) > 1


def test_time_points_are_apart_and_flat_labels_fill_the_depth(tmp_path):
    pixels = RNG.integers(0, 255, (3, 4, 20, 20)).astype("u1")
    labels = blobs((20, 20), 6)
    where = write_labelled(tmp_path / "a", pixels, labels, "tzyx")
    found = measure(open_node(str(where)), "nuclei").frame
    assert found["t"].unique().tolist() == [0, 1, 2]
    one = found[found["t"] == 1].reset_index(drop=True)
    deep = np.broadcast_to(labels, (4, 20, 20))
    wanted = expected(deep, pixels[1:2], (1, SPACING, SPACING), (0, 0, 0))
    wanted = wanted.rename(columns=lambda name: name.removesuffix("_0"))
    same(one.drop(columns="t"), wanted)


def named(folder, names):
    """Give channels names."""
    path = folder / "zarr.json"
    document = json.loads(path.read_text())
    channels = [{"label": name, "color": "ffffff"} for name in names]
    document["attributes"]["ome"]["omero"] = {"channels": channels}
    path.write_text(json.dumps(document))


def test_it_says_what_rows_are(tmp_path):
    labels = np.zeros((2, 8, 8), "u4")
    labels[:, 2:4] = 7
    pixels = np.ones((2, 1, 8, 8), "u2")
    where = write_labelled(tmp_path / "a", pixels, labels, "tcyx")
    found = measure(open_node(str(where)), "nuclei")
    assert len(found.frame) == 2
    assert found.rows_text == "2 rows: 1 label at 2 timepoints"
    shutil.rmtree(where)
    write_labelled(where, pixels[0], labels[0])
    assert measure(open_node(str(where)), "nuclei").rows_text == "1 label"


def test_one_section_has_no_column_for_z(tmp_path):
    labels = blobs((1, 20, 20), 6)
    pixels = RNG.integers(0, 255, (1, 20, 20)).astype("u1")
    where = write_labelled(tmp_path / "a", pixels, labels, "zyx")
    found = measure(open_node(str(where)), "nuclei")
    assert "centroid_z" not in found.frame
    wanted = expected(labels[0], pixels, (SPACING, SPACING), (0, 0))
    same(found.frame, wanted.rename(columns=lambda name: name.removesuffix("_0")))
    assert found.size_note == ""
    deep = np.repeat(labels, 3, 0)
    where = write_labelled(tmp_path / "b", np.repeat(pixels, 3, 0), deep, "zyx")
    found = measure(open_node(str(where)), "nuclei")
    assert set(found.frame["centroid_z"]) == {1}
    assert found.size_note == ""


def in_units(folder, unit, micrometers, axes="yx"):
    """State lengths of an image and of its labels in another unit."""
    for group in (folder, folder / "labels/nuclei"):
        path = group / "zarr.json"
        document = json.loads(path.read_text())
        (multiscale,) = document["attributes"]["ome"]["multiscales"]
        places = [
            i for i, axis in enumerate(multiscale["axes"]) if axis["name"] in axes
        ]
        for i in places:
            multiscale["axes"][i].pop("unit")
            multiscale["axes"][i] |= {} if unit is None else {"unit": unit}
        for dataset in multiscale["datasets"]:
            for step in dataset["coordinateTransformations"]:
                for i in places:
                    step[step["type"]][i] /= micrometers
        path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("unit", "micrometers"),
    [("nanometer", 1e-3), ("mm", 1e3), ("um", 1), ("inch", 25400), ("meter", 1e6)],
)
def test_lengths_of_every_unit_are_micrometres(tmp_path, unit, micrometers):
    labels = blobs((30, 40), 9)
    pixels = RNG.integers(0, 255, (1, 30, 40)).astype("u1")
    where = write_labelled(tmp_path / "a", pixels, labels, corner=(10, 20))
    wanted = measure(open_node(str(where)), "nuclei").frame
    in_units(where, unit, micrometers)
    found = measure(open_node(str(where)), "nuclei")
    same(found.frame, wanted)
    assert found.size_note == ""


@pytest.mark.parametrize("unit", [None, "furlong", "second", "pixel"])
@pytest.mark.parametrize("axes", ["y", "x", "yx"])
def test_an_unknown_unit_is_named_and_never_a_micrometre(tmp_path, unit, axes):
    labels = blobs((30, 40), 9)
    pixels = RNG.integers(0, 255, (1, 30, 40)).astype("u1")
    where = write_labelled(tmp_path / "a", pixels, labels)
    in_units(where, "millimeter", 1e3)
    in_units(where, unit, 1, axes)
    found = measure(open_node(str(where)), "nuclei")
    assert found.frame["area"].iloc[0] == pytest.approx(
        found.frame["voxels"].iloc[0] * (SPACING / 1e3) ** 2
    )
    assert "Sizes are as the image states them" in found.size_note
    assert (unit or "no unit") in found.size_note


def test_fields_of_several_units_have_one_in_the_table(tmp_path):
    where = write_plate(
        tmp_path / "p",
        grid=(1, 2),
        fields=2,
        shape=(1, 16, 16),
        labelled=lambda _: ("nuclei",),
    )
    wanted = measure(open_node(str(where)), "nuclei").frame
    in_units(where / "A/1/1", "nanometer", 1e-3)
    in_units(where / "A/2/0", "mm", 1e3)
    found = measure(open_node(str(where)), "nuclei")
    same(found.frame, wanted)
    assert found.size_note == ""
    in_units(where / "A/2/1", None, 1)
    found = measure(open_node(str(where)), "nuclei")
    note = "Of some images: Sizes are as the image states them: no unit."
    assert found.size_note == note


def test_the_area_of_one_section_is_none_of_a_volume(tmp_path):
    labels = blobs((1, 20, 20), 6)
    pixels = RNG.integers(0, 255, (1, 20, 20)).astype("u1")
    where = write_labelled(tmp_path / "a", pixels, labels, "zyx")
    in_units(where, "micrometer", 1 / 7, "z")
    found = measure(open_node(str(where)), "nuclei").frame
    assert found["area"].tolist() == (found["voxels"] * SPACING**2).tolist()


@pytest.mark.parametrize("depths", [(3, 1), (1, 3), (1, 1, 3), (3, 3), (1, 1)])
def test_each_column_of_sizes_has_one_unit(tmp_path, depths):
    """Else the mean of a well would be of areas and of volumes."""
    root = write_plate(tmp_path / "p", grid=(1, 1), fields=len(depths))
    labels = blobs((20, 20), 6)
    for number, depth in enumerate(depths):
        shutil.rmtree(root / "A/1" / str(number))
        deep = np.repeat(labels[None], depth, 0)
        write_labelled(root / "A/1" / str(number), deep.astype("u2"), deep, "zyx")
    frame = measure(open_node(str(root)), "nuclei").frame
    for number, depth in enumerate(depths):
        rows = frame[frame["field"] == str(number)]
        own, other = ("volume", "area") if depth > 1 else ("area", "volume")
        np.testing.assert_allclose(rows[own], rows["voxels"] * SPACING**2)
        assert other not in rows or rows[other].isna().all()
    columns = list(frame)
    sizes = [name for name in ("area", "volume") if name in columns]
    start = columns.index("voxels") + 1
    assert columns[start : start + len(sizes)] == sizes


def with_classes(folder, names):
    """Name classes of the labels "nuclei"."""
    path = folder / "labels/nuclei/zarr.json"
    document = json.loads(path.read_text())
    rows = [{"label-value": v, "class-name": name} for v, name in names.items()]
    document["attributes"]["ome"]["image-label"] = {"properties": rows}
    path.write_text(json.dumps(document))


def test_rows_have_the_names_of_classes(tmp_path, plate):
    labels = np.zeros((1, 8, 8), "u4")
    labels[0, :2], labels[0, 4:] = 1, 4
    where = write_labelled(tmp_path / "a", np.ones((1, 8, 8), "u1"), labels[0])
    with_classes(where, {1: "mitosis", 2: "debris"})
    found = measure(open_node(str(where)), "nuclei")
    assert list(found.frame.columns)[:3] == ["label", "class", "voxels"]
    # None or NaN, by the release of pandas.
    assert found.frame["class"].fillna("").tolist() == ["mitosis", ""]
    assert found.rows_text == "2 labels"
    with_classes(where, dict.fromkeys(range(1, 300), "object"))
    assert "class" not in measure(open_node(str(where)), "nuclei").frame
    # Of a plate where one field has classes, and the first has none.
    copy = shutil.copytree(plate, tmp_path / "p")
    frame = measure(open_node(str(copy)), "nuclei").frame
    value = int(frame["label"][(frame["well"] == "A2") & (frame["field"] == "0")].max())
    with_classes(copy / "A/2/0", {value: "mitosis"})
    frame = measure(open_node(str(copy)), "nuclei").frame
    assert list(frame.columns)[:4] == ["well", "field", "label", "class"]
    assert frame["class"].dropna().unique().tolist() == ["mitosis"]


def test_numbers_have_no_noise(tmp_path):
    labels = np.zeros((4, 4), "u4")
    labels[1, 3] = 5
    where = write_labelled(tmp_path / "a", np.full((1, 4, 4), 0.1, "f8"), labels)
    for path in (where / "zarr.json", where / "labels/nuclei/zarr.json"):
        text = path.read_text().replace("0.5", "0.1").replace('"0.1"', '"0.5"')
        path.write_text(text)
    out = tmp_path / "out.csv"
    assert 3 * 0.1 != 0.3
    assert main(["measure", str(where), "--label", "nuclei", "--out", str(out)]) == 0
    row = dict(zip(*(line.split(",") for line in out.read_text().split()), strict=True))
    assert (row["centroid_x"], row["area"], row["mean_0"]) == ("0.3", "0.01", "0.1")


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (["DAPI", "GFP", "a, b"], ["DAPI", "GFP", "a, b"]),
        (["GFP", "GFP", "x"], ["GFP0", "GFP1", "x"]),
        (["1", "", ""], ["1", "_1", "2"]),
        (["a1", "a", "a"], ["a1", "a_1", "a2"]),
    ],
)
def test_no_two_channels_share_columns(tmp_path, names, columns):
    labels = blobs((20, 20), 6)
    pixels = RNG.integers(0, 255, (3, 20, 20)).astype("u1")
    where = write_labelled(tmp_path / "a", pixels, labels)
    named(where, names)
    found = measure(open_node(str(where)), "nuclei").frame
    wanted = expected(labels, pixels, (SPACING,) * 2, (0, 0))
    ends = dict(zip("012", columns, strict=True))
    wanted.columns = [
        name[:-1] + ends[name[-1]] if name[-1] in ends else name for name in wanted
    ]
    same(found, wanted)


def test_large_ids_and_none(tmp_path):
    labels = np.zeros((20, 20), "u8")
    labels[3, 4:6] = 2**63 + 5
    labels[5, 5] = 7
    where = write_labelled(tmp_path / "a", np.ones((1, 20, 20), "u1"), labels)
    found = measure(open_node(str(where)), "nuclei").frame
    assert found["label"].tolist() == [7, 2**63 + 5]
    assert found["voxels"].tolist() == [1, 2]
    where = write_labelled(tmp_path / "b", np.ones((1, 9, 9), "u1"), labels[8:17, :9])
    assert len(measure(open_node(str(where)), "nuclei").frame) == 0


def test_labels_of_a_coarser_level(tmp_path):
    pixels = RNG.integers(0, 255, (1, 40, 40)).astype("u1")
    labels = blobs((20, 20), 6)
    where = write_labelled(tmp_path / "a", pixels, labels)
    found = measure(open_node(str(where)), "nuclei").frame
    wanted = expected(labels, pixels[:, ::2, ::2], (2 * SPACING,) * 2, (0, 0))
    same(found, wanted)


def test_what_cannot_be_measured(tmp_path):
    pixels = np.ones((1, 40, 40), "u1")
    where = write_labelled(tmp_path / "a", pixels, blobs((30, 30)))
    with pytest.raises(UnsupportedError, match="no level of its image has"):
        measure(open_node(str(where)), "nuclei")
    with pytest.raises(NodeNotFoundError, match="no labels 'cells'"):
        measure(open_node(str(where)), "cells")


@pytest.mark.parametrize("damage", ["gone", "broken", "unordered", "first of 0.2"])
def test_labels_whose_finest_level_is_lost_are_not_measured(tmp_path, damage):
    pixels = RNG.integers(0, 255, (1, 40, 40)).astype("u1")
    zarr_format = 2 if damage == "first of 0.2" else 3
    where = write_labelled(
        tmp_path / "a", pixels, blobs((40, 40)), zarr_format=zarr_format
    )
    labels = where / "labels" / "nuclei"
    name = ".zattrs" if zarr_format == 2 else "zarr.json"
    document = json.loads((labels / name).read_text())
    attributes = document if zarr_format == 2 else document["attributes"]["ome"]
    multiscale = attributes["multiscales"][0]
    if damage == "unordered":
        multiscale["datasets"].reverse()
    if damage == "first of 0.2":
        whole = json.loads((where / name).read_text())
        for each in (multiscale, whole["multiscales"][0]):
            each["version"] = "0.2"
            for dataset in each["datasets"]:
                del dataset["coordinateTransformations"]
        (where / name).write_text(json.dumps(whole))
    (labels / name).write_text(json.dumps(document))
    assert len(measure(open_node(str(where)), "nuclei").frame)
    if damage == "broken":
        (labels / "0" / "zarr.json").write_text("{")
    else:
        shutil.rmtree(labels / "0")
    lost = r"nuclei: the finest level cannot be read: .*nuclei/0.* small labels"
    node = open_node(str(where))
    with pytest.raises(UnsupportedError, match=lost):
        measure(node, "nuclei")
    assert re.search(lost, count_field(node.location, zarr_format, "nuclei"))
    del multiscale["datasets"][-1 if damage == "unordered" else 0]
    (labels / name).write_text(json.dumps(document))
    if damage == "first of 0.2":  # which cannot say that its voxels are larger
        with pytest.raises(UnsupportedError, match="is not aligned with its image"):
            measure(open_node(str(where)), "nuclei")
    else:
        assert len(measure(open_node(str(where)), "nuclei").frame)


def test_an_image_without_its_finest_level_says_so(tmp_path):
    pixels = np.ones((1, 40, 40), "u1")
    where = write_labelled(tmp_path / "a", pixels, blobs((40, 40)))
    shutil.rmtree(where / "0")
    lost = r"no level of its image has: .* finest level of the image .*a/0"
    with pytest.raises(UnsupportedError, match=lost):
        measure(open_node(str(where)), "nuclei")
    where = write_labelled(tmp_path / "b", pixels, blobs((20, 20)))
    shutil.rmtree(where / "0")
    assert len(measure(open_node(str(where)), "nuclei").frame)


@pytest.fixture
def plate(tmp_path):
    """2 x 2 wells with 2 fields, labels in row A; A/2/1 is broken."""
    where = write_plate(
        tmp_path / "p.ome.zarr",
        grid=(2, 2),
        fields=2,
        shape=(2, 24, 24),
        labelled=lambda well: ("nuclei",) if well[0] == "A" else (),
    )
    for path in ("A/1/0", "A/1/1", "A/2/0"):
        folder = where / path / "labels" / "nuclei"
        shutil.rmtree(folder)
        corner = 0, 24 * int(path[-1])
        write_image(folder, blobs((24, 24), 9), 3, "yx", corner=corner, label={})
    (where / "A/2/1/labels/nuclei/0/zarr.json").write_text("{")
    (where / "A/2/1/labels/nuclei/1/zarr.json").write_text("{")
    return where


def test_a_plate_field_by_field(plate):
    node = open_node(str(plate))
    found = measure(node, "nuclei")
    assert found.without == 4
    assert len(found.problems) == 1
    assert "A/2/1" in found.problems[0]
    places = list(found.frame.groupby(["well", "field"], sort=False).groups)
    assert places == [("A1", "0"), ("A1", "1"), ("A2", "0")]
    alone = measure(node.child("A/1/1"), "nuclei").frame
    part = found.frame[(found.frame["well"] == "A1") & (found.frame["field"] == "1")]
    same(part.drop(columns=["well", "field"]).reset_index(drop=True), alone)


def test_rows_name_their_acquisition(tmp_path):
    runs = {"acquisitions": 2, "labelled": lambda well: ["nuclei"]}
    path = write_plate(tmp_path / "p.ome.zarr", grid=(1, 2), fields=2, **runs)
    frame = measure(open_node(path), "nuclei").frame
    assert list(frame.columns[:4]) == ["well", "field", "acquisition", "label"]
    names = frame.groupby("field")["acquisition"].unique().map(list)
    assert dict(names) == {
        "0": ["round 0"], "1": ["round 0"], "2": ["round 1"], "3": ["round 1"]
    }  # fmt: skip
    document = json.loads((path / "zarr.json").read_text())
    del document["attributes"]["ome"]["plate"]["acquisitions"][1]["name"]
    (path / "zarr.json").write_text(json.dumps(document))
    frame = measure(open_node(path), "nuclei").frame
    assert set(frame["acquisition"]) == {"round 0", "1"}


def test_chosen_wells_and_a_well_by_itself(plate):
    node = open_node(str(plate))
    found = measure(node, "nuclei", places_of(node, ["A/2"]))
    assert set(found.frame["well"]) == {"A2"}
    well = measure(node.child("A/1"), "nuclei").frame
    assert list(well.columns)[:2] == ["field", "label"]
    assert set(well["field"]) == {"0", "1"}
    without = r"none of the images that were looked at \(2\) has 'nuclei'\.$"
    with pytest.raises(NodeNotFoundError, match=without):
        measure(node, "nuclei", places_of(node, ["B/1"]))


def test_wells_and_fields_that_are_lost_are_named(plate, tmp_path, capsys):
    (plate / "B/1/zarr.json").write_text("{")
    shutil.rmtree(plate / "B/2")
    shutil.rmtree(plate / "A/1/1")
    for level in "01":
        shutil.rmtree(plate / "A/2/0/labels/nuclei" / level)
    found = measure(open_node(str(plate)), "nuclei")
    assert set(found.frame["field"]) == {"0"}
    assert set(found.frame["well"]) == {"A1"}
    assert found.without == 0
    for place in ("B/1", "B/2", "A/1/1", "A/2/0", "A/2/1"):
        assert sum(f"{plate / place}: " in problem for problem in found.problems) == 1
    chosen = measure(open_node(str(plate)), "nuclei", ["A/1", "B/2"])
    assert [str(plate / "A/1/1") in problem for problem in chosen.problems] == [0, 1]
    assert "B/2" in chosen.problems[0]
    out = tmp_path / "out.csv"
    assert main(["measure", str(plate), "--label", "nuclei", "--out", str(out)]) == 1
    assert capsys.readouterr().err.count("left out") == 5
    with pytest.raises(NodeNotFoundError, match=r"'nuclei': .*B/1"):
        measure(open_node(str(plate)), "nuclei", ["B/1"])


def test_ids_stay_whole_where_fields_differ_in_type(plate):
    large = np.zeros((24, 24), "u8")
    large[3, 4:6] = 2**63 + 5
    folder = plate / "A/2/0/labels/nuclei"
    shutil.rmtree(folder)
    write_image(folder, large, 3, "yx", label={})
    found = measure(open_node(str(plate)), "nuclei").frame
    assert found["label"].dtype == "uint64"
    assert found["label"].iloc[-1] == 2**63 + 5
    small = measure(open_node(str(plate)), "nuclei", ["A/1"]).frame
    assert found["label"].tolist()[:-1] == small["label"].tolist()


def test_labels_are_counted(plate):
    found = measure(open_node(str(plate)), "nuclei", task=count_field).frame
    data = np.frombuffer((plate / "A/1/0/labels/nuclei/0/c/0/0").read_bytes(), "u4")
    assert found["labels"].iloc[0] == len(np.unique(data[data > 0]))
    assert len(found) == 3


def test_it_can_be_given_up(plate):
    assert (
        measure(open_node(str(plate)), "nuclei", goes_on=lambda *_: False) is not None
    )
    node = open_node(str(plate))
    many = places_of(node) * 20
    assert measure(node, "nuclei", many, goes_on=lambda *_: False) is None


def test_the_command_writes_the_same(plate, tmp_path, capsys):
    out = tmp_path / "out.csv"
    code = main(["measure", str(plate), "--label", "nuclei", "--out", str(out)])
    said = capsys.readouterr()
    assert code == 1
    assert "4 images have no labels nuclei" in said.out
    assert "left out" in said.err
    wanted = measure(open_node(str(plate)), "nuclei").frame
    found = pd.read_csv(out, dtype={"field": str})
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False, rtol=1e-12)
    assert main(["measure", str(plate), "--label", "x", "--out", str(out)]) == 1
    assert "has 'x'" in capsys.readouterr().err


def test_the_command_looks_at_its_output_first(plate, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("napari_ngff.commands.measure.measure", pytest.fail)
    for name, code in (("none/out.csv", 1), ("out.xlsx", 2)):
        out = str(tmp_path / name)
        assert main(["measure", str(plate), "--label", "nuclei", "--out", out]) == code
        assert out in capsys.readouterr().err


def test_without_distributed_it_says_what_to_install(plate, monkeypatch):
    monkeypatch.setattr(
        "napari_ngff.store.convert.unit_runner.find_spec", lambda name: None
    )
    with pytest.raises(UnsupportedError, match=r"napari-ngff\[distributed\]"):
        measure(open_node(str(plate)), "nuclei", scheduler="tcp://127.0.0.1:1")


def learn_rule(measured):
    """Learn two classes of objects of all sizes."""
    kinds = np.where(measured["voxels"] > measured["voxels"].median(), "big", "small")
    clicked = measured.assign(**{CLASS: kinds})
    return train_rule(clicked[[*PLACES, CLASS, "voxels", "mean_0"]])


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_cluster_finds_the_same(plate):
    distributed = pytest.importorskip("distributed")
    node = open_node(str(plate))
    rule = learn_rule(measure(node, "nuclei").frame)
    task = FieldTask(choose_columns(["shape", "texture"]), rule.add_classes)
    wanted = measure(node, "nuclei", task=task)
    assert {"predicted", "std_0"} < {*wanted.frame}
    image = measure(node.child("A/1/0"), "nuclei", task=task)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address
        found = measure(node, "nuclei", scheduler=address, task=task)
        alone = measure(node.child("A/1/0"), "nuclei", scheduler=address, task=task)
    same(found.frame, wanted.frame)
    same(alone.frame, image.frame)
    assert found.problems == wanted.problems


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_scheduler_that_is_not_there(plate, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("napari_ngff.store.convert.unit_runner.WAIT", 1)
    with pytest.raises(AccessError, match="No scheduler of dask answers"):
        measure(open_node(str(plate)), "nuclei", scheduler="tcp://127.0.0.1:9")


def broken_task(*_):
    raise RuntimeError("napari_ngff is not installed here")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_workers_that_fail_are_reported(plate):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1,
        processes=False,
        protocol="tcp",
        host="127.0.0.1",
        dashboard_address=None,
    ) as cluster:
        address, node = cluster.scheduler_address, open_node(str(plate))
        with pytest.raises(AccessError, match=r"tcp://.* not finish: .*not installed"):
            measure(node, "nuclei", scheduler=address, task=broken_task)


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Eight fields in four wells: one has no labels, another one no label in them."""
    where = tmp_path_factory.mktemp("few") / "few.zarr"
    write_plate(where, grid=(2, 2), fields=2, shape=(1, 24, 24))
    for number, field in enumerate(sorted(where.glob("?/?/?"))):
        if number != 3:
            pixels = RNG.integers(0, 60_000, (1, 24, 24)).astype("u2")
            labels = blobs((24, 24), 9, "u2") * (number != 4)
            shutil.rmtree(field)
            write_labelled(field, pixels, labels.astype("u2"), corner=(7, 1.3))
    return where


class Stopped(BaseException):
    """Like a command that is killed."""


def measure_until(monkeypatch, count, *call):
    """Run the command, which is killed after so many fields; return those it read."""
    read = []

    def open_and_stop(node, labels):
        if len(read) == count:
            raise Stopped
        read.append(str(node))
        return open_labelled(node, labels)

    monkeypatch.setattr(measure_labels, "open_labelled", open_and_stop)
    try:
        assert main(["measure", *map(str, call)]) == 0
    except Stopped:
        assert len(read) == count
    return read


@pytest.fixture(scope="module")
def rule_file(few):
    """A file of a rule that was learned of the objects of ``few``."""
    file = few.with_name("rule.json")
    file.write_text(
        learn_rule(measure(open_node(str(few)), "nuclei").frame).dump_text()
    )
    return file


@pytest.mark.parametrize("columns", ["", "shape,texture", "shape --rule"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_measuring_is_resumed(
    few, rule_file, tmp_path, monkeypatch, capsys, suffix, columns
):
    monkeypatch.setattr(measure_labels, "CORES", 1)
    monkeypatch.setattr(measure_labels, "PER_WORKER", 1)
    at_once, out = tmp_path / f"at_once.{suffix}", tmp_path / f"out.{suffix}"
    names, _, rule = columns.partition(" ")
    call = [few, "--label", "nuclei", *(["--columns", names] if names else [])]
    call += [*([rule, rule_file] if rule else []), "--out"]
    every = measure_until(monkeypatch, None, *call, at_once)
    wanted = capsys.readouterr().out
    aside = tmp_path / f"out.{suffix}.part"
    read = measure_until(monkeypatch, 2, *call, out)
    with aside.open("r+") as file:  # the last line is cut off
        file.truncate(aside.stat().st_size - 9)
    read[1:] = measure_until(monkeypatch, 3, *call, out, "--resume")
    assert not out.exists()
    read += measure_until(monkeypatch, None, *call, out, "--resume")
    assert read == every
    if suffix == "csv":
        assert out.read_bytes() == at_once.read_bytes()
    else:
        pd.testing.assert_frame_equal(pd.read_parquet(out), pd.read_parquet(at_once))
    assert capsys.readouterr().out == wanted.replace("at_once", "out")
    assert not aside.exists()


def test_tables_of_others_are_not_resumed(few, rule_file, tmp_path, monkeypatch):
    monkeypatch.setattr(measure_labels, "CORES", 1)
    monkeypatch.setattr(measure_labels, "PER_WORKER", 1)
    other = shutil.copytree(few, tmp_path / "other.zarr")
    call, shape = (
        ["--label", "nuclei", "--out", tmp_path / "out.csv"],
        "--columns=shape",
    )
    for first, then in (
        ([few], [other, "--resume"]),
        ([few], [few, shape, "--resume"]),
        ([few, shape], [few, "--resume"]),
        ([few], [few, "--rule", rule_file, "--resume"]),
        ([few, "--rule", rule_file], [few, "--resume"]),
        ([few], [few]),
    ):
        measure_until(monkeypatch, 3, *first, *call)
        assert len(measure_until(monkeypatch, None, *then, *call)) == 7
