"""Tables that are written into images: whole, listed, and beside those of others."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys

import pandas as pd
import pytest
import zarr

import table_process
from napari_ngff import open_node
from napari_ngff.errors import NameTakenError
from napari_ngff.labels.places.listed_labels import rename_labels
from napari_ngff.plate.tables.feature_table import describe_features, write_tables
from napari_ngff.plate.tables.files import read_indexed_table
from napari_ngff.store.hierarchy.summary import list_tables, region_of
from napari_ngff.store.write.zip_packing import pack_hierarchy
from plates import write_plate
from table_process import ROWS, tables_of

FIELDS = 40


@pytest.fixture(scope="module", params=[2, 3])
def original(request, tmp_path_factory):
    return write_plate(
        tmp_path_factory.mktemp("tables") / "p.ome.zarr",
        request.param,
        grid=(2, 2),
        fields=FIELDS // 4,
        shape=(1, 4, 4),
        levels=1,
        labelled=lambda _: ("nuclei",),
    )


@pytest.fixture
def plate(original, tmp_path):
    return shutil.copytree(original, tmp_path / "p.ome.zarr")


def files_below(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def write(plate, number=1, name="measured", goes_on=lambda *_: True, only=None):
    node = open_node(str(plate))
    tables = tables_of(node, number)
    found = write_tables(node, name, {x: tables[x] for x in only or tables}, goes_on)
    return found and found[0]


def rounds_of(plate):
    """Return the round of the table of each field; None where it has none."""
    node, found = open_node(str(plate)), {}
    for path in tables_of(node, 0):
        image, found[path] = node.child(path), None
        if list_tables(image):
            frame = read_indexed_table(image, "measured")
            (found[path],) = set(frame["round"])
            assert frame.index.tolist() == list(range(1, ROWS + 1))
    return found


def test_a_killed_process_leaves_each_field_with_its_old_or_new_table(plate):
    rng, known = random.Random(7), dict.fromkeys(rounds_of(plate))
    for number in (1, 2):
        done = rng.randrange(FIELDS // 2)
        command = [sys.executable, table_process.__file__, plate, str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            while process.stdout.readline() != f"{done}\n":
                assert process.poll() is None
            process.kill()
        for place, (path, found) in enumerate(rounds_of(plate).items()):
            # The field at which it was killed may have either.
            allowed = {number} if place < done else {number, known[path]}
            assert found in allowed
            known[path] = found
    lacking = [path for path, found in known.items() if found != 2]
    assert 0 < len(lacking) < FIELDS
    # What was begun is no hindrance, and what is there already is not written.
    assert len(lacking) <= write(plate, 2) <= len(lacking) + 1
    assert set(rounds_of(plate).values()) == {2}
    assert write(plate, 2) == 0


def test_only_other_tables_are_written_and_cancel_keeps_what_is_written(plate):
    paths = list(tables_of(open_node(str(plate)), 0))
    assert write(plate, 1) == FIELDS
    before = files_below(plate)
    assert write(plate, 2, only=paths[3:5]) == 2
    changed = {p for p, data in files_below(plate).items() if before.get(p) != data}
    expected = {plate / path / "tables/measured/table.csv" for path in paths[3:5]}
    assert changed == expected
    assert write(plate, 3, goes_on=lambda done, _: done < 2) is None
    assert list(rounds_of(plate).values())[:6] == [3, 3, 1, 2, 2, 1]


def test_a_table_stays_with_labels_that_were_renamed(plate):
    path, other = list(tables_of(open_node(str(plate)), 0))[:2]
    write(plate, only=[path, other])
    image = open_node(str(plate)).child(path)
    rename_labels(image, image.child("labels/nuclei"), "cells")
    write(plate, 2, only=[path, other])
    node = open_node(str(plate))
    about = [
        region_of(node.child(f"{place}/tables/measured").attributes)
        for place in (path, other)
    ]
    assert about == ["cells", "nuclei"]
    assert set(read_indexed_table(node.child(path), "measured")["round"]) == {2}


@pytest.mark.parametrize("backend", ["csv", "json"])
def test_tables_of_other_programs_stay(plate, backend):
    ngio = pytest.importorskip("ngio")
    paths = list(tables_of(open_node(str(plate)), 0))
    frame = pd.DataFrame({"label": [1, 2], "area": [0.1, 2.5]}).set_index("label")
    image = ngio.open_ome_zarr_container(str(plate / paths[5]))
    table = ngio.tables.FeatureTable(frame, reference_label="nuclei")
    image.add_table("measured", table, backend=backend)
    before = files_below(plate)
    for name in ("measured", "Measured"):
        with pytest.raises(NameTakenError) as raised:
            write(plate, 1, name)
        assert raised.value.free == f"{name}2"
    assert files_below(plate) == before
    write(plate, 1, "measured2")
    after = files_below(plate)
    listing = {p for p in before if p.parent.name == "tables"}
    assert all(after[p] == before[p] for p in before.keys() - listing)
    assert list_tables(open_node(str(plate)).child(paths[5])) == (
        "measured",
        "measured2",
    )
    again = ngio.open_ome_zarr_container(str(plate / paths[5]))
    assert again.get_feature_table("measured").dataframe.equals(frame)
    written = again.get_feature_table("measured2")
    assert written.reference_label == "nuclei"
    assert written.dataframe["round"].tolist() == [1] * ROWS


@pytest.mark.parametrize("kind", ["listed by nothing", "without a document", "zip"])
def test_tables_that_no_list_names_are_listed_with_ours(plate, kind, tmp_path):
    # As SpatialData writes them.
    path = next(iter(tables_of(open_node(str(plate)), 0)))
    form = 2 if (plate / ".zgroup").exists() else 3
    group = zarr.open_group(plate / path / "tables", mode="w", zarr_format=form)
    for name in ("cells", "regions"):
        group.create_group(name, attributes={"region": name})
    (plate / path / "tables/README").write_text("no table")
    if kind == "without a document":
        (plate / path / "tables" / (".zgroup" if form == 2 else "zarr.json")).unlink()
    if kind == "zip" and form == 3:
        plate = tmp_path / "p.ozx"
        pack_hierarchy(tmp_path / "p.ome.zarr", plate)
    write(plate, 1, only=[path])
    image = open_node(str(plate)).child(path)
    assert list_tables(image) == ("cells", "regions", "measured")
    write(plate, 2, only=[path])
    assert list_tables(image) == ("cells", "regions", "measured")


@pytest.mark.parametrize("kind", ["several rows", "no row", "one row each"])
def test_ngio_anndata_and_pandas_read_what_was_written(plate, kind, tmp_path):
    ngio = pytest.importorskip("ngio")
    path = next(iter(tables_of(open_node(str(plate)), 0)))
    second = 3 if kind == "several rows" else 4
    columns = {"label": [3, second, 2**40], "t": [0, 1, 0], "area": [0.1, 1 / 3, 1e-9]}
    frame = pd.DataFrame(columns).assign(name=["a", 'b, "c"', "é"])
    frame = frame.iloc[: {"no row": 0}.get(kind, 3)]
    attributes = describe_features("nuclei", ["name"])
    tables = {path: (frame, attributes)}
    write_tables(open_node(str(plate)), "made", tables, lambda *_: True)
    rows = pd.read_csv(plate / path / "tables/made/table.csv", float_precision="high")
    assert rows.columns.tolist() == frame.columns.tolist()
    assert len(rows) == len(frame)
    table = ngio.open_ome_zarr_container(str(plate / path)).get_feature_table("made")
    assert table.dataframe["area"].tolist() == pytest.approx(frame["area"].tolist())
    assert table.dataframe["name"].tolist() == frame["name"].tolist()
    if kind == "one row each":
        assert table.load_as_anndata().n_obs == len(frame)
    ours = read_indexed_table(open_node(str(plate)).child(path), "made")
    assert ours["area"].tolist() == frame["area"].tolist()


@pytest.mark.parametrize("original", [3], indirect=True)
def test_an_archive_is_written_once(original, tmp_path):
    archive = tmp_path / "p.ozx"
    pack_hierarchy(original, archive)
    inode = os.stat(archive).st_ino
    assert write(archive, 1, goes_on=lambda done, _: done < 9) is None
    assert os.stat(archive).st_ino == inode
    assert write(archive, 1) == FIELDS
    assert set(rounds_of(archive).values()) == {1}
    assert write(archive, 1) == 0
