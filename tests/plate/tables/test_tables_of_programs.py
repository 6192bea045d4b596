"""Tables as other programs write them: databases of CellProfiler, tables of OMERO."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

from napari_ngff.errors import OMEZarrError
from napari_ngff.plate.tables.files import DATABASES, read_tables

KINDS = "Nuclei", "Cell", "Cell_Wall"
"""One begins with the name of another."""


def write_database(path, *, prefix, places, apart, seed=0):
    """Write images of four wells with two sites, as *ExportToDatabase* does."""
    rng, images, objects = np.random.default_rng(seed), [], []
    for number, (well, site) in enumerate([(w, s) for w in "1234" for s in "01"], 1):
        place = {"Image_Metadata_Well": f"B{well.zfill(2)}"}
        if places == "row and column":
            place = {"Image_Metadata_Row": "B", "Image_Metadata_Column": int(well)}
        place |= {"Image_Metadata_Site": int(site), "Image_Count_Nuclei": number}
        images.append({"ImageNumber": number, **place})
        for label in range(1, int(rng.integers(0, 5)) + 1):
            row = {"ImageNumber": number, "ObjectNumber": label}
            for kind in KINDS:
                # Not each nucleus has a wall.
                is_there = kind != "Cell_Wall" or rng.random() < 0.5
                row[f"{kind}_Number_Object_Number"] = label if is_there else None
                row[f"{kind}_AreaShape_Area"] = rng.random() if is_there else None
            objects.append(row)
    images, objects = pd.DataFrame(images), pd.DataFrame(objects)
    with closing(sqlite3.connect(path)) as file:
        images.to_sql(f"{prefix}Per_Image", file, index=False)
        pd.DataFrame({"a": [1]}).to_sql(f"{prefix}Per_Experiment", file, index=False)
        for kind in KINDS if apart else ():
            own = [f"{kind}_Number_Object_Number", f"{kind}_AreaShape_Area"]
            rows = objects[["ImageNumber", *own]].dropna(subset=own)
            rows.to_sql(f"{prefix}Per_{kind}", file, index=False)
        if not apart:
            objects.to_sql(f"{prefix}Per_Object", file, index=False)
    return images, objects


@pytest.mark.parametrize("suffix", DATABASES)
@pytest.mark.parametrize("prefix", ["", "MyExpt_"])
@pytest.mark.parametrize("places", ["well", "row and column"])
@pytest.mark.parametrize("apart", [True, False])
def test_objects_of_each_kind_get_the_wells_of_their_images(
    tmp_path, suffix, prefix, places, apart
):
    path = tmp_path / f"screen{suffix}"
    images, objects = write_database(path, prefix=prefix, places=places, apart=apart)
    before = path.read_bytes()
    tables = {table.name: table for table in read_tables(path)}
    assert tables.keys() == {f"screen: {kind}" for kind in (*KINDS, "images")}
    wells = [f"B/{1 + number // 2}" for number in range(8)]
    for kind in KINDS:
        table = tables[f"screen: {kind}"]
        assert table.region == kind
        id_, area = f"{kind}_Number_Object_Number", f"{kind}_AreaShape_Area"
        expected = objects.dropna(subset=[id_])
        assert table.frame["label"].tolist() == expected[id_].astype(int).tolist()
        assert table.frame[area].tolist() == expected[area].tolist()
        assert table.frame["well"].tolist() == [
            wells[number - 1] for number in expected["ImageNumber"]
        ]
        assert "Metadata_Site" in table.columns
        others = [x for x in table.columns if x.endswith("_Area")]
        assert others == [area]
    found = tables["screen: images"].frame
    assert found["well"].tolist() == wells
    assert found["Image_Count_Nuclei"].tolist() == images["Image_Count_Nuclei"].tolist()
    assert path.read_bytes() == before
    assert [x.name for x in tmp_path.iterdir()] == [path.name]


def test_what_is_no_such_database_is_refused_with_its_name(tmp_path):
    path = tmp_path / "a.db"
    with pytest.raises(FileNotFoundError):
        read_tables(path)
    path.write_bytes(b"no database" * 100)
    with pytest.raises(OMEZarrError, match=r"a\.db is not read by SQLite"):
        read_tables(path)
    path.unlink()
    with closing(sqlite3.connect(path)) as file:
        pd.DataFrame({"ImageNumber": [1]}).to_sql("Per_Object", file)
        # A view may never end.
        file.execute(
            "CREATE VIEW x_Per_Image AS WITH RECURSIVE c(ImageNumber) AS"
            " (SELECT 1 UNION ALL SELECT ImageNumber + 1 FROM c) SELECT * FROM c"
        )
    with pytest.raises(OMEZarrError, match="has no table Per_Image"):
        read_tables(path)


def test_object_numbers_of_a_spreadsheet_are_labels(tmp_path):
    path = tmp_path / "Nuclei.csv"
    path.write_text(
        "ImageNumber,ObjectNumber,Metadata_Well,AreaShape_Area,Number_Object_Number\n"
        "1,1,B02,3.5,1\n1,2,B02,4.5,2\n2,1,B03,1,1\n"
    )
    table = read_tables(path)[0]
    assert table.place_columns == ("label",)
    assert table.frame["label"].tolist() == [1, 2, 1]
    assert table.frame["well"].tolist() == ["B/2", "B/2", "B/3"]


@pytest.mark.parametrize("first", ["", "# header plate,l,s,s,d,l,image,roi\n"])
@pytest.mark.parametrize("ids", ["ids", "names"])
def test_tables_of_omero_are_read_by_the_names_of_wells(tmp_path, first, ids):
    path = tmp_path / "omero.csv"
    lines = ["Plate,Well,Well Name,Drug,Dose,Dataset,Image,Roi"]
    for number, name in enumerate(("a1", "A2", "b1")):
        well = 1000 + number if ids == "ids" else name.upper()
        lines.append(f"P7,{well},{name},x,0.{number},7,{50 + number},{90 + number}")
    if ids == "names":
        lines = [line.replace("Well Name", "Other") for line in lines]
    path.write_text(first + "\n".join(lines) + "\n")
    table = read_tables(path)[0]
    assert table.frame["well"].tolist() == ["A/1", "A/2", "B/1"]
    assert table.frame["Dose"].tolist() == [0, 0.1, 0.2]
    assert {"Plate", "Image", "Roi", "Dataset", "Drug"} <= {*table.columns}
    assert table.place_columns == ()
