"""Tables that were loaded for a plate: read again, forgotten, or saved in it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import warnings
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
import zarr
from napari.components import ViewerModel

from napari_ngff import open_node
from napari_ngff.plate.tables.files import read_listed_table
from napari_ngff.store.data_folder import data_folder
from napari_ngff.store.hierarchy.summary import list_tables
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.browsing.plate_tables import PlateTables
from napari_ngff.viewer.browsing.table_offers import (
    TableOffer,
    TableOrigin,
    find_offers,
)
from napari_ngff.viewer.session import session_of
from plates import write_plate

CONDITIONS = pd.DataFrame(
    {
        "well": ["A1", "a02", "B1", "B1"],
        "dose": [0.1, 0.5, 0.1, None],
        "drug": ["None", "NA", "x, y", "x"],
        "batch": ["01", "1", "", "1"],
        "is_control": [True, False, None, False],
    }
)


@pytest.fixture(scope="module", params=[3])
def original(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("remembered") / "p.ome.zarr"
    return write_plate(root, request.param, grid=(2, 3), fields=2, levels=1)


@pytest.fixture
def plate(original, tmp_path):
    return shutil.copytree(original, tmp_path / "screen.ome.zarr")


def open_again(plate, viewer=None):
    """Open a plate as a new process does; what it says is kept."""
    browser = session_of(viewer or ViewerModel()).browse(open_node(str(plate)))
    tables = PlateTables(browser)
    tables.said = []
    tables.message_sent.connect(tables.said.append)
    tables.find_tables()
    return tables


def write_csv(path):
    CONDITIONS.to_csv(path, index=False)


def write_spreadsheet(path):
    """Write a CSV as a German Excel does."""
    CONDITIONS.to_csv(path, index=False, sep=";", decimal=",", encoding="utf-8-sig")


def write_database(path):
    """Write two tables into one file, as CellProfiler does."""
    with closing(sqlite3.connect(path)) as file:
        images = {"ImageNumber": [1, 2], "Image_Metadata_Well": ["A01", "B01"]}
        pd.DataFrame(images).to_sql("T_Per_Image", file, index=False)
        rows = {"ImageNumber": [1, 1, 2], "Nuclei_Number_Object_Number": [1, 5, 1]}
        frame = pd.DataFrame({**rows, "Nuclei_Area": [3.5, 4.5, 6]})
        frame.to_sql("T_Per_Nuclei", file, index=False)


KINDS = {
    "doses.csv": write_csv,
    "my doses 2.csv": write_spreadsheet,
    "doses.parquet": lambda path: CONDITIONS.to_parquet(path),
    "screen.db": write_database,
}


def tables_by_title(tables):
    return {x.title: y.to_frame() for x, y in tables.joined.tables.items()}


def assert_same(found, expected):
    assert set(found) == set(expected)
    for title, frame in expected.items():
        pd.testing.assert_frame_equal(found[title], frame, check_categorical=False)


@pytest.mark.parametrize("name", KINDS)
def test_loaded_files_are_read_again_until_they_are_forgotten(plate, tmp_path, name):
    path = tmp_path / name
    KINDS[name](path)
    first = open_again(plate)
    assert first.joined.tables == {}
    first.load_file(os.path.relpath(path))
    loaded = tables_by_title(first)
    assert name in loaded
    first.close()
    again = open_again(plate)
    assert_same(tables_by_title(again), loaded)
    assert again.joined.chosen is None
    again.filter_wells("A1" if name == "screen.db" else "dose = 0.5")
    assert again.view.problem == ""
    again.forget_file(name)
    assert again.joined.tables == {}
    again.close()
    assert open_again(plate).joined.offers == first.joined.offers[len(loaded) :]
    assert path.exists()


def test_files_stay_while_other_plates_are_opened_in_the_same_window(plate, tmp_path):
    other = shutil.copytree(plate, tmp_path / "other.ome.zarr")
    path, session = tmp_path / "doses.csv", session_of(ViewerModel())
    write_csv(path)
    session.browse(open_node(str(plate)))
    session.open_tables().load_file(str(path))
    expected = tables_by_title(session.open_tables())
    session.browse(open_node(str(other)))
    assert session.open_tables().joined.tables == {}
    session.browse(open_node(str(plate)))
    assert_same(tables_by_title(session.open_tables()), expected)


def test_a_file_that_is_gone_or_has_changed_is_told(plate, tmp_path):
    path = tmp_path / "doses.csv"
    write_csv(path)
    open_again(plate).load_file(str(path))
    again = "Read again: doses.csv."
    assert open_again(plate).said == [again]
    path.write_text("well,dose\nA1,7\n")
    os.utime(path, (1e9, 1e9))
    changed = open_again(plate)
    since = "doses.csv has changed since it was read the last time."
    assert changed.said == [f"{again} {since}"]
    assert tables_by_title(changed)["doses.csv"]["dose"].tolist() == [7]
    assert open_again(plate).said == [again], "a change is told once"
    moved = path.rename(tmp_path / "moved.csv")
    gone = open_again(plate)
    (said,) = gone.said
    assert said.startswith("Not read: ")
    assert str(path) in said
    assert gone.note == said
    # It may be on a drive that is not there at the moment.
    (offer,) = [x for x in gone.joined.offers if x.path]
    gone.choose_table(offer)
    assert gone.joined.chosen is None
    assert str(path) in gone.note
    moved.rename(path)
    gone.choose_table(offer)
    assert gone.table.columns == ("dose",)


def test_a_file_takes_the_place_of_another_one_of_its_name(plate, tmp_path):
    paths = [tmp_path / folder / "doses.csv" for folder in "ab"]
    tables = open_again(plate)
    for number, path in enumerate(paths):
        path.parent.mkdir()
        path.write_text(f"well,dose\nA1,{number}\n")
        tables.load_file(str(path))
    paths[0].unlink()
    again = open_again(plate)
    assert again.said == ["Read again: doses.csv."]
    assert tables_by_title(again)["doses.csv"]["dose"].tolist() == [1]
    again.forget_file("doses.csv")
    assert open_again(plate).joined.tables == {}


def make_group(folder, attributes):
    """Make a group of the format of the plate or image above it."""
    zarr_format = 2 if (folder.parent / ".zgroup").exists() else 3
    zarr.create_group(folder, zarr_format=zarr_format, attributes=attributes)


@pytest.mark.parametrize("noted", ["[]", '"a"', "{", '{"a": 3, "b": ["c"]}'])
def test_a_damaged_note_forgets_files_and_stops_nothing(plate, tmp_path, noted):
    path = tmp_path / "doses.csv"
    write_csv(path)
    open_again(plate).load_file(str(path))
    (note,) = (data_folder() / "tables").glob("*.json")
    note.write_text(noted)
    again = open_again(plate)
    assert (again.said, again.joined.tables) == ([], {})
    again.load_file(str(path))
    assert list(tables_by_title(open_again(plate))) == ["doses.csv"]


def test_conditions_of_other_programs_without_wells_are_only_offered(plate):
    make_group(plate / "tables", {"tables": ["drugs"]})
    attributes = {"backend": "csv", "type": "condition_table"}
    make_group(plate / "tables/drugs", attributes)
    (plate / "tables/drugs/table.csv").write_text("drug,dose\na,1\n")
    tables = open_again(plate)
    assert (tables.said, tables.joined.tables) == ([], {})
    tables.choose_table(TableOffer(TableOrigin.PLATE, "drugs"))
    assert "no column names wells" in tables.note


def files_below(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("original", [3, 2], indirect=True)
@pytest.mark.parametrize("name", KINDS)
def test_a_file_is_saved_into_the_plate(plate, tmp_path, name):
    path, group = tmp_path / name, plate / "tables"
    KINDS[name](path)
    make_group(group, {"tables": ["other"], "mine": 1})
    make_group(group / "other", {"backend": "csv", "type": "odd"})
    (group / "other/table.csv").write_text("well,n\nA1,1.50\n")
    before = files_below(plate)
    tables = open_again(plate)
    tables.load_file(str(path))
    rows = tables.table.to_frame()
    assert tables.why_not_saved == ""
    tables.save_in_plate()
    table = tables.joined.chosen.name
    assert tables.note == f"Saved into screen.ome.zarr: {table}."
    assert table == {"screen.db": "screen_Nuclei"}.get(name, path.stem)
    changed = {p for p, data in files_below(plate).items() if before.get(p) != data}
    assert {p.relative_to(plate).parts[0] for p in changed} <= {"tables", "zarr.json"}
    assert not any("other" in p.parts for p in changed)
    assert list_tables(open_node(str(plate))) == ("other", table)
    tables.close()
    path.unlink()
    again = open_again(plate)
    # Objects are not read unasked; and their file has other tables.
    has_objects = name == "screen.db"
    offers = [] if has_objects else [TableOffer(TableOrigin.PLATE, table)]
    assert list(again.joined.tables) == offers
    assert again.said[0].startswith("Not" if has_objects else f"Read again: {table}.")
    again.choose_table(TableOffer(TableOrigin.PLATE, table))
    assert_same({table: again.table.to_frame()}, {table: rows.replace("", np.nan)})
    assert again.table.region == ("Nuclei" if has_objects else "")


@pytest.mark.parametrize("name", ["doses.csv", "others.csv"])
def test_columns_stay_where_they_are_when_their_table_is_saved(plate, tmp_path, name):
    tables = open_again(plate)
    for title in ("doses.csv", "others.csv"):
        write_csv(tmp_path / title)
        tables.load_file(str(tmp_path / title))
    tables.choose_table(next(x for x in tables.joined.offers if x.name == name))
    before = [(x.name, x.offer.name) for x in tables.joined.list_columns()]
    tables.save_in_plate()
    saved = name.removesuffix(".csv")
    after = [(x.name, x.offer.name) for x in tables.joined.list_columns()]
    assert after == [(x, saved if of == name else of) for x, of in before]
    # Wells have the names that the plate gives them, in files as in the plate.
    tables.save_table(str(tmp_path / "saved.csv"))
    found = [tmp_path / "saved.csv", plate / "tables" / saved / "table.csv"]
    wells = [pd.read_csv(path)["well"].tolist() for path in found]
    assert wells == [["A1", "A2", "B1", "B1"]] * 2


def test_ngio_pandas_and_anndata_read_conditions(plate, tmp_path):
    ngio = pytest.importorskip("ngio")
    path = tmp_path / "doses.csv"
    # ngio makes no AnnData of truth values some of which are missing.
    CONDITIONS.drop(columns="is_control").to_csv(path, index=False)
    tables = open_again(plate)
    tables.load_file(str(path))
    tables.save_in_plate()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stored = ngio.open_ome_zarr_plate(str(plate)).get_table("doses")
        assert stored.table_type() == "condition_table"
        rows = CONDITIONS["dose"].tolist()[:3]
        assert stored.dataframe["dose"].tolist()[:3] == rows
        assert stored.anndata.X.shape[0] == 4
    found = pd.read_csv(plate / "tables/doses/table.csv")
    assert found["well"].tolist() == ["A1", "A2", "B1", "B1"]
    assert found["dose"].tolist()[:3] == rows


def test_a_save_replaces_ours_and_never_that_of_another_program(plate, tmp_path):
    path, said = tmp_path / "doses.csv", []
    for dose in (1, 2):
        path.write_text(f"well,dose\nA1,{dose}\n")
        tables = open_again(plate)
        tables.load_file(str(path))
        tables.save_in_plate()
        said.append(tables.note)
        found = read_listed_table(open_node(str(plate)), "doses").frame
        assert found["dose"].tolist() == [dose]
    assert said == ["Saved into screen.ome.zarr: doses."] * 2
    folder = plate / "tables/doses"
    for document in folder.glob("*z*"):
        text = document.read_text().replace("napari-ngff:table", "another")
        document.write_text(text)
    before = files_below(folder)
    tables.load_file(str(path))
    tables.save_in_plate()
    assert tables.note == "Saved into screen.ome.zarr: doses2."
    assert files_below(folder) == before


@pytest.mark.parametrize("name", ["con.csv", "...csv", "a*b.csv", "__x.csv"])
def test_names_that_no_group_has_become_conditions(plate, tmp_path, name):
    path = tmp_path / name
    write_csv(path)
    tables = open_again(plate)
    tables.load_file(str(path))
    tables.save_in_plate()
    assert tables.note == "Saved into screen.ome.zarr: conditions."


def test_a_plate_that_cannot_be_written_says_what_happens(plate, tmp_path, monkeypatch):
    why = "There is no permission."
    monkeypatch.setattr(FolderStore, "why_not_written", lambda *_: why)
    path = tmp_path / "doses.csv"
    write_csv(path)
    tables = open_again(plate)
    tables.load_file(str(path))
    happens = "The file is remembered, and read again with the plate."
    assert tables.why_not_saved == f"{why} {happens}"


@pytest.mark.parametrize("original", [3, 2], indirect=True)
@pytest.mark.parametrize("place", ["B/3/1", "A/1/0"])
def test_tables_of_images_are_found_in_whatever_well(plate, place):
    make_group(plate / place / "tables", {"tables": ["nuclei_measured"]})
    offers = find_offers(open_again(plate).browser)
    assert TableOffer(TableOrigin.IMAGES, "nuclei_measured") in offers
