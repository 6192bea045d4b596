from __future__ import annotations

import pytest

from napari_ngff.metadata.model import PlateMetadata, WellReference
from napari_ngff.plate.plate_layout import (
    GEOMETRIES,
    field_offsets,
    grid_offsets,
    map_plate,
    row_letters,
)


def test_a_grid_is_as_square_as_can_be():
    assert grid_offsets(1, 5, 7) == ((0, 0),)
    assert grid_offsets(3, 5, 7) == ((0, 0), (0, 7), (5, 0))
    assert max(y for y, _ in grid_offsets(9, 1, 1)) == 2


def test_fields_with_positions_lie_there_from_zero_on():
    sizes = [(10, 10)] * 3
    corners = [(5.0, -20.0), (5.0, -10.5), (15.0, -20.0)]
    assert field_offsets(corners, sizes) == ((0, 0), (0, 9.5), (10, 0))


def test_fields_at_one_place_are_laid_out():
    offsets = field_offsets([(0.0, 0.0)] * 4, [(10, 10), (12, 9), (10, 10), (10, 10)])
    assert offsets == ((0, 0), (0, 10), (12, 0), (12, 10))


def test_one_field_is_where_it_is():
    assert field_offsets([(3.0, 4.0)], [(10, 10)]) == ((0, 0),)


def plate(rows, columns, *places):
    wells = [WellReference(f"{rows[r]}/{columns[c]}", r, c) for r, c in places]
    return PlateMetadata("p", tuple(rows), tuple(columns), tuple(wells))


def places(found):
    return {well.name: (well.row, well.column) for well in found.wells}


def test_rows_and_columns_that_are_not_listed_are_gaps():
    found = map_plate(plate("BD", ["03", "11"], (0, 0), (1, 1)))
    assert places(found) == {"B03": (1, 2), "D11": (3, 10)}
    assert found.shape == GEOMETRIES[96]
    assert found.rows[:5] == ("A", "B", "C", "D", "E")
    assert found.columns[1:4] == ("2", "03", "4")


@pytest.mark.parametrize(("wells", "size"), GEOMETRIES.items())
def test_each_usual_plate_is_recognised_by_its_last_well(wells, size):
    last = plate([row_letters(size[0] - 1)], [str(size[1])], (0, 0))
    assert map_plate(last).shape == size
    assert map_plate(last, 1536).shape == GEOMETRIES[1536]


def test_a_chosen_plate_that_is_too_small_grows():
    found = map_plate(plate("H", ["12"], (0, 0)), 6)
    assert found.shape == (8, 12)


def test_letters_go_on_after_z():
    assert [row_letters(i) for i in (0, 25, 26, 31, 51, 52)] == [
        "A", "Z", "AA", "AF", "AZ", "BA",
    ]  # fmt: skip
    found = map_plate(plate(["Z", "AF"], ["48"], (0, 0), (1, 0)))
    assert places(found) == {"Z48": (25, 47), "AF48": (31, 47)}


@pytest.mark.parametrize(
    ("rows", "columns", "names"),
    [
        (["1", "2"], ["A", "B"], ["1A", "2B"]),
        (["r1", "r2"], ["1", "2"], ["r1-1", "r2-2"]),
        (["A", "A1"], ["1", "1x"], ["A1", "A1-1x"]),
        (["A", "a"], ["1", "01"], ["A1", "a01"]),
        (["A", "B"], ["1", "1000"], ["A1", "B1000"]),
    ],
)
def test_other_names_lie_in_the_order_of_the_plate(rows, columns, names):
    found = map_plate(plate(rows, columns, (0, 0), (1, 1)))
    assert places(found) == {names[0]: (0, 0), names[1]: (1, 1)}
    assert found.shape == (2, 2)


def test_a_plate_without_wells_has_a_map():
    assert map_plate(plate("A", ["1"])).shape == GEOMETRIES[6]
    assert map_plate(PlateMetadata("", (), (), ())).wells == ()


def test_neighbours_are_found_over_gaps():
    found = map_plate(plate("AC", ["1", "5"], (0, 0), (0, 1), (1, 0)))
    first = found.wells[0]
    names = [
        (found.find_neighbour(first, *step) or first).name
        for step in ((0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (0, 0))
    ]
    assert names == ["A5", "C1", "A1", "A1", "A1", "A1"]
