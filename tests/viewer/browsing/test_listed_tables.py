"""Tables of plates are taken for the same only where nothing else can be meant."""

from __future__ import annotations

import pandas as pd
import pytest

from napari_ngff.plate.tables.table import make_table
from napari_ngff.viewer.browsing.listed_tables import find_alike, stack_tables
from napari_ngff.viewer.browsing.table_offers import TableOffer, TableOrigin

FILE, COUNT = TableOrigin.FILE, TableOrigin.COUNT
MEASURED, IMAGES = TableOrigin.MEASURED, TableOrigin.IMAGES
DOSES, AREAS, LABELS = ("well", "dose"), ("well", "field", "label", "area"), ("well",)


def make_tables(*parts):
    """Tables by their offers, each of an origin, a name and columns."""
    found = {}
    for source, name, columns in parts:
        region = name.removesuffix("_measured") if source in (MEASURED, IMAGES) else ""
        row = {column: [1] for column in columns} | {"well": ["A1"]}
        table = make_table(pd.DataFrame(row), name, region=region)
        found[TableOffer(source, name)] = table.place_on({"A/1": "A1"})
    return found


CASES = {
    "same name": ([(FILE, "a", DOSES)], [(FILE, "a", AREAS)], "a"),
    "same columns": ([(FILE, "a", DOSES)], [(FILE, "b", DOSES)], "b"),
    "name first": (
        [(FILE, "a", DOSES)],
        [(FILE, "b", DOSES), (FILE, "a", DOSES)],
        "a",
    ),
    "other columns": ([(FILE, "a", DOSES)], [(FILE, "b", AREAS)], None),
    "two like it": (
        [(FILE, "a", DOSES)],
        [(FILE, "b", DOSES), (FILE, "c", DOSES)],
        None,
    ),
    "two here": (
        [(FILE, "a", DOSES), (FILE, "d", DOSES)],
        [(FILE, "b", DOSES)],
        None,
    ),
    "other labels counted": ([(COUNT, "a", LABELS)], [(COUNT, "b", LABELS)], None),
    "other labels": ([(MEASURED, "a", AREAS)], [(MEASURED, "b", AREAS)], None),
    "saved": (
        [(MEASURED, "a", AREAS)],
        [(IMAGES, "b_measured", AREAS), (IMAGES, "a_measured", AREAS)],
        "a_measured",
    ),
    "not saved": ([(IMAGES, "a_measured", AREAS)], [(MEASURED, "a", AREAS)], "a"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_table_of_another_plate_is_found(name):
    own, others, wanted = CASES[name]
    own, others = make_tables(*own), make_tables(*others)
    found = find_alike(next(iter(own)), own, others)
    assert (found and found.name) == wanted


@pytest.mark.parametrize("values", [["x", "y"], [1, 2], [None, None]])
def test_wells_fields_and_images_without_objects_keep_their_plate(values):
    rows = {"well": ["A1", "A2"], "field": ["0", "1"], "value": [1.5, 2.5]}
    first = make_table(pd.DataFrame(rows), "first")
    second = make_table(pd.DataFrame(rows | {"value": values}), "second")
    names = {"A/1": "A1", "A/2": "A2"}
    tables = [x.place_on(names) for x in (first, second)]
    tables[1] = type(second)(
        "second", tables[1].frame, without=(("A/1", "3", ""),), names=names
    )
    joined = stack_tables((("p/", tables[0]), ("q/", tables[1])))
    wells = ["p/A/1", "p/A/2", "q/A/1", "q/A/2"]
    assert [*joined.frame["well"]] == wells
    assert [*joined.frame["field"]] == ["0", "1", "0", "1"]
    assert joined.without == (("q/A/1", "3", ""),)
    assert joined.names == dict(zip(wells, ["A1", "A2"] * 2, strict=True))
    found = joined.frame["value"].tolist()
    kept = values if values[0] == 1 else [float("nan")] * 2
    assert found == pytest.approx([1.5, 2.5, *kept], nan_ok=True)
    assert joined.is_numeric("value")
