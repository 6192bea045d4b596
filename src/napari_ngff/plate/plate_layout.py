"""Places of wells on the map of a plate, and of fields inside a well."""

from __future__ import annotations

import math
from dataclasses import dataclass
from string import ascii_uppercase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.metadata.model import PlateMetadata, WellReference

Offset = tuple[float, float]
"""Distance of a tile's first voxel from the mosaic's, along y and x, in voxels."""

PLATE = "plate"
"""Name of the column with titles of plates, in results of several."""

GEOMETRIES: dict[int, tuple[int, int]] = {
    6: (2, 3),
    24: (4, 6),
    48: (6, 8),
    96: (8, 12),
    384: (16, 24),
    1536: (32, 48),
}
"""Rows and columns of the usual plates, by number of wells (ANSI SLAS 4-2004 and the
makers' catalogues)."""


@dataclass(frozen=True, slots=True)
class MapWell:
    """A well on the map of its plate.

    Attributes
    ----------
    path
        Inner path relative to the plate ("B/03"); says which well it is.
    name
        For people: "B03".
    row, column
        0-based place on the map.
    plate
        Title of its plate, where several are joined.
    """

    path: str
    name: str
    row: int
    column: int
    plate: str = ""


@dataclass(frozen=True, slots=True)
class PlateMap:
    """The map of a plate: a grid, and the wells on it; all other places are gaps.

    Attributes
    ----------
    rows, columns
        Headers of the grid, from the top and from the left.
    wells
        In reading order, row by row.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    wells: tuple[MapWell, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return len(self.rows), len(self.columns)

    @property
    def plates(self) -> tuple[str, ...]:
        """Titles of the plates that are joined; none for a single plate."""
        return tuple(dict.fromkeys(well.plate for well in self.wells if well.plate))

    def find_neighbour(self, well: MapWell, rows: int, columns: int) -> MapWell | None:
        """Find the next well in a direction, over gaps.

        Parameters
        ----------
        well
            Where to start.
        rows, columns
            -1, 0 or 1; down and right are positive.

        Returns
        -------
        MapWell or None
            None at the border.
        """
        # Two wells of one place: the last one, as in a mosaic, where it is drawn on
        # top.
        places = {(w.row, w.column): w for w in self.wells}
        row, column = well.row + rows, well.column + columns
        height, width = self.shape
        while (rows or columns) and 0 <= row < height and 0 <= column < width:
            if (row, column) in places:
                return places[row, column]
            row, column = row + rows, column + columns
        return None


def map_plate(plate: PlateMetadata, geometry: int | None = None) -> PlateMap:
    """Place the wells of a plate on a map.

    Rows named by letters and columns by numbers lie where plates have them, listed or
    not: "B" is the second row even where "A" is not listed. All others lie in the
    order in which the plate lists them.

    Parameters
    ----------
    plate
        The screen.
    geometry
        A key of `GEOMETRIES`; None for the smallest that holds all listed rows,
        columns and wells. The map is larger where they do not fit.
    """
    lettered = [letters_index(name) for name in plate.rows]
    numbered = [
        int(name) if name.isascii() and name.isdecimal() else 0
        for name in plate.columns
    ]
    # All or none: half of the wells by name and half by order would overlap.
    usual = (
        all(i is not None and i < MAX_SIDE for i in lettered)
        and all(0 < n <= MAX_SIDE for n in numbered)
        and len(set(lettered)) == len(lettered)
        and len(set(numbered)) == len(numbered)
    )
    if not usual:
        wells = [_map_well(plate, w, w.row, w.column) for w in plate.wells]
        return PlateMap(plate.rows, plate.columns, _in_order(wells))
    places = [i for i in lettered if i is not None]
    wells = [
        _map_well(plate, w, places[w.row], numbered[w.column] - 1) for w in plate.wells
    ]
    least = max(places, default=-1) + 1, max(numbered, default=0)
    height, width = _choose_size(least, geometry)
    rows = dict(zip(places, plate.rows, strict=True))
    columns = dict(zip(numbered, plate.columns, strict=True))
    return PlateMap(
        tuple(rows.get(i, row_letters(i)) for i in range(height)),
        tuple(columns.get(n, str(n)) for n in range(1, width + 1)),
        _in_order(wells),
    )


def _choose_size(least: tuple[int, int], geometry: int | None) -> tuple[int, int]:
    """Choose the rows and columns of a map that has at least some; see `map_plate`."""
    # `GEOMETRIES` goes from small to large: the first one that fits is the smallest.
    fitting = (
        size
        for size in GEOMETRIES.values()
        if size[0] >= least[0] and size[1] >= least[1]
    )
    chosen = GEOMETRIES[geometry] if geometry else next(fitting, least)
    return max(chosen[0], least[0]), max(chosen[1], least[1])


MAX_SIDE = 64
"""Number of rows or columns beyond which a name is not taken for a place: the usual
plates have at most 48."""


def row_letters(index: int) -> str:
    """Return the name of a row by its 0-based index: A to Z, then AA, AB..."""
    letters = ""
    number = index + 1
    while number:
        # Bijective base 26: there is no letter for 0, so Z is followed by AA.
        number, letter = divmod(number - 1, 26)
        letters = ascii_uppercase[letter] + letters
    return letters


def letters_index(name: str) -> int | None:
    """Return the 0-based index of a row by its letters; None for other names."""
    if not 0 < len(name) <= 2 or any(c not in ascii_uppercase for c in name.upper()):
        return None
    index = 0
    for letter in name.upper():
        index = index * 26 + ascii_uppercase.index(letter) + 1
    return index - 1


def _map_well(
    plate: PlateMetadata, well: WellReference, row: int, column: int
) -> MapWell:
    above, beside = plate.rows[well.row], plate.columns[well.column]
    # "1" and "2" would make "12", so a dash parts two numbers.
    digits = above[-1:].isdecimal() and beside[:1].isdecimal()
    name = f"{above}-{beside}" if digits else above + beside
    return MapWell(well.path, name, row, column)


def _in_order(wells: list[MapWell]) -> tuple[MapWell, ...]:
    return tuple(sorted(wells, key=lambda well: (well.row, well.column)))


def grid_offsets(count: int, height: int, width: int) -> tuple[Offset, ...]:
    """Place tiles of one size row by row, in a grid that is as square as possible."""
    columns = max(1, math.ceil(math.sqrt(count)))
    return tuple(
        (float(i // columns * height), float(i % columns * width)) for i in range(count)
    )


def field_offsets(
    corners: Sequence[Offset], sizes: Sequence[tuple[int, int]]
) -> tuple[Offset, ...]:
    """Place the fields of a well.

    Parameters
    ----------
    corners
        Of each field along y and x, from its transformation, in voxels of level 0.
    sizes
        Height and width of each, in voxels.

    Returns
    -------
    tuple
        The corners, from 0 on, where they differ from field to field. The
        specification gives no other positions: else a near-square grid.
    """
    # Two fields at the same place: translations that say nothing, such as all 0.
    if len(set(corners)) < len(corners):
        height = max(size[0] for size in sizes)
        width = max(size[1] for size in sizes)
        return grid_offsets(len(corners), height, width)
    top = min(corner[0] for corner in corners)
    first_column = min(corner[1] for corner in corners)
    return tuple((y - top, x - first_column) for y, x in corners)


def overlap_of(field: tuple[Offset, Offset], other: tuple[Offset, Offset]) -> float:
    """Return the part of the smaller of two fields that the other covers, 0-1.

    Each is its corner and its size, along y and x.
    """
    area, smaller = 1.0, 1.0
    for axis in (0, 1):
        low = max(field[0][axis], other[0][axis])
        ends = (corner[axis] + size[axis] for corner, size in (field, other))
        area *= max(0.0, min(ends) - low)
        smaller *= min(field[1][axis], other[1][axis])
    return area / smaller if smaller else 0.0


def spread_numbers(total: int, count: int) -> list[int]:
    """List numbers below `total`, at most `count`, from the first to the last."""
    last = max(total - 1, 0)
    spread = [i * last // max(1, count - 1) for i in range(count)]
    return list(dict.fromkeys(spread))
