from __future__ import annotations

from napari_ngff.metadata.model import Plate, WellReference
from napari_ngff.plate.layout import field_offsets, grid_offsets, plate_tiles


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


def test_wells_lie_at_their_row_and_column():
    wells = (WellReference("A/1", 0, 0), WellReference("C/12", 2, 11))
    plate = Plate("p", ("A", "B", "C"), tuple("123456789abc"), wells)
    tiles = plate_tiles(plate, "root", (10, 20))
    assert [(tile.path, tile.offset) for tile in tiles] == [
        ("root/A/1", (0, 0)),
        ("root/C/12", (20, 220)),
    ]
    (row,) = plate_tiles(plate, "", (10, 20), "C")
    assert (row.path, row.offset) == ("C/12", (0, 220))
