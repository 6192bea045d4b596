"""Rows get the field and the acquisition that only the plate knows."""

from __future__ import annotations

import itertools

import pandas as pd
import pytest

from napari_ngff import open_node
from napari_ngff.errors import ServerError
from napari_ngff.plate.plate_contents import PlateContents
from napari_ngff.plate.tables.table import locate_rows, make_table
from plates import write_plate


@pytest.fixture(scope="module")
def plates(tmp_path_factory):
    """2 x 2 wells of one acquisition with 3 fields, and of two with 2 each."""
    folder = tmp_path_factory.mktemp("places")
    for runs, fields in ((1, 3), (2, 2)):
        write_plate(folder / str(runs), grid=(2, 2), fields=fields, acquisitions=runs)
    return {runs: open_node(str(folder / str(runs))) for runs in (1, 2)}


def objects(**columns):
    table = make_table(pd.DataFrame(columns), "objects")
    return table.place_on({well: well for well in ("A/1", "A/2", "B/1", "B/2")})


@pytest.mark.parametrize("well", ["Metadata_Well", "metadata_well", "Well"])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("kind", [int, float, str])
@pytest.mark.parametrize("lost", [None, 0, 1, 2])
def test_sites_are_fields_where_they_are_the_same(plates, well, first, kind, lost):
    """Sites that are counted from 1, or lack one, may be other fields."""
    sites = [first + n for n in range(3) if n != lost]
    rows = list(itertools.product(["A01", "B2"], sites))
    found = locate_rows(
        plates[1],
        objects(
            **{
                well: [name for name, _ in rows],
                "Metadata_Site": [kind(site) for _, site in rows],
                "area": range(len(rows)),
            }
        ),
    )
    assert found.frame["well"].tolist() == [
        {"A01": "A/1", "B2": "B/2"}[name] for name, _ in rows
    ]
    fits = first == 0 and lost is None
    assert ("field" in found.place_columns) == fits
    assert ("Metadata_Site" in found.columns) != fits
    if fits:
        assert found.frame["field"].tolist() == [str(site) for _, site in rows]
        assert found.of_field("B/2", "1").frame["area"].tolist() == [4]


def test_a_site_that_one_well_lacks_is_a_field(plates):
    """As where an image has no object."""
    rows = [("A1", 0), ("A1", 1), ("A1", 2), ("B1", 1)]
    wells, sites = zip(*rows, strict=True)
    table = objects(Metadata_Well=wells, Metadata_Site=sites, area=range(4))
    assert locate_rows(plates[1], table).place_columns == ("field",)
    # Nor is a site a field that its well does not have.
    table = objects(Metadata_Well=[*wells, "B1"], Metadata_Site=[*sites, 3], a=range(5))
    assert locate_rows(plates[1], table).place_columns == ()


def test_rows_of_fields_get_their_acquisition(plates):
    table = objects(well=["A1", "a02", "B1", "H9"], field=[0, 3, 9, 0], area=range(4))
    found = locate_rows(plates[2], table)
    assert found.frame["acquisition"].tolist() == ["round 0", "round 1", "", ""]
    hidden = found.hide_acquisitions({"round 1"})
    assert hidden.frame["area"].tolist() == [0, 2, 3]
    # Nothing to add: one acquisition, none asked for, or stated already.
    for node, columns in (
        (plates[1], {"well": ["A1"], "field": ["0"], "a": [1]}),
        (plates[2], {"well": ["A1"], "a": [1]}),
        (plates[2], {"well": ["A1"], "field": ["0"], "Acquisition": ["x"]}),
    ):
        before = objects(**columns)
        assert locate_rows(node, before) is before


def test_a_server_that_gives_no_well_is_no_plate_without_acquisitions(
    plates, monkeypatch
):
    """Rows of unknown fields would count in every acquisition."""

    def fail(self, well):
        raise ServerError("http://host/plate/A/1", "no answer")

    monkeypatch.setattr(PlateContents, "_read_fields", fail)
    with pytest.raises(ServerError, match="no answer"):
        locate_rows(plates[2], objects(well=["A1"], field=[0], area=[1]))
