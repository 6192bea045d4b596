"""Where wells of a mosaic lie in the world."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.layers import Layer

    from napari_ngff.metadata.model import Field
    from napari_ngff.plate.tiles import Place, WellCells

__all__ = ["Corners", "cells_of", "corners_of", "image_at"]

Corners = tuple["Place", "Place"]
"""World coordinates along y and x."""


def corners_of(layer: Layer, tiles: WellCells, well: str | None) -> Corners | None:
    """Return the first and the last corner of a well; None where it is not there.

    Parameters
    ----------
    layer
        Shows the wells.
    """
    box = tiles.box(well)
    if box is None:
        return None
    lead = (0.0,) * (layer.ndim - 2)
    (top, left), (bottom, right) = (
        layer.data_to_world((*lead, *at))[-2:] for at in box
    )
    return (float(top), float(left)), (float(bottom), float(right))


def cells_of(layer: Layer, tiles: WellCells) -> dict[str, Corners]:
    """Return the first and the last corner of each well's cell, by its path.

    Parameters
    ----------
    layer
        Shows the wells; it is not turned.
    """
    lead = (0.0,) * (layer.ndim - 2)
    start, end = (layer.data_to_world((*lead, n, n))[-2:] for n in (-0.5, 0.5))
    height, width = tiles.cell
    cells = {}
    for tile in tiles.tiles:
        y, x = tile.corner
        ends = [
            tuple(
                float(first + at * (last - first))
                for first, last, at in zip(start, end, place, strict=True)
            )
            for place in ((y, x), (y + height, x + width))
        ]
        if tile.well is not None:
            cells[tile.well] = ((ends[0][0], ends[0][1]), (ends[1][0], ends[1][1]))
    return cells


def image_at(
    layer: Layer, tiles: WellCells, world: Sequence[float]
) -> tuple[str | None, Field | None] | None:
    """Tell which image lies at a world coordinate; as `WellCells.at`."""
    lead = (0.0,) * max(0, layer.ndim - len(world))
    point = layer.world_to_data((*lead, *tuple(world)[-layer.ndim :]))
    return tiles.at(*point[-2:])
