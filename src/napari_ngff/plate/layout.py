"""Where wells and fields lie: positions in voxels of level 0, from metadata alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.metadata.model import Plate

__all__ = ["Tile", "field_offsets", "grid_offsets", "plate_tiles"]

Offset = tuple[float, float]
"""Distance of a tile's first voxel from the mosaic's, along y and x, in voxels."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One picture of a mosaic.

    Attributes
    ----------
    path
        Inner path of the well, or of the image itself where `well` is False.
    offset
        Along y and x, in voxels of level 0, not negative.
    well
        True where `path` is a well whose first field is meant.
    """

    path: str
    offset: Offset
    well: bool = False


def grid_offsets(count: int, height: int, width: int) -> tuple[Offset, ...]:
    """Lay tiles of one size out row by row in a grid as square as can be."""
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
    if len(set(corners)) < len(corners):
        height = max(size[0] for size in sizes)
        width = max(size[1] for size in sizes)
        return grid_offsets(len(corners), height, width)
    top = min(corner[0] for corner in corners)
    left = min(corner[1] for corner in corners)
    return tuple((y - top, x - left) for y, x in corners)


def plate_tiles(
    plate: Plate, root: str, size: tuple[int, int], row: str | None = None
) -> tuple[Tile, ...]:
    """Place the first field of every well at its row and column.

    Parameters
    ----------
    plate
        The screen.
    root
        Inner path of the plate's group.
    size
        Height and width of a well, in voxels of level 0.
    row
        First part of the path of the wells to take; None for all.
    """
    wells = [w for w in plate.wells if row is None or w.path.startswith(f"{row}/")]
    top = min((well.row for well in wells), default=0) if row is not None else 0
    height, width = size
    return tuple(
        Tile(
            f"{root}/{well.path}" if root else well.path,
            (float((well.row - top) * height), float(well.column * width)),
            well=True,
        )
        for well in wells
    )
