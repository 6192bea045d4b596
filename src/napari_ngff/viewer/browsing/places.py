"""Where wells of a mosaic lie in the world."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.layers import Layer

    from napari_ngff.metadata.model import Field
    from napari_ngff.plate.tiles import Place, Tiles

__all__ = ["Corners", "corners_of", "image_at"]

Corners = tuple["Place", "Place"]
"""World coordinates along y and x."""


def corners_of(layer: Layer, tiles: Tiles, well: str | None) -> Corners | None:
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


def image_at(
    layer: Layer, tiles: Tiles, world: Sequence[float]
) -> tuple[str | None, Field | None] | None:
    """Tell which image lies at a world coordinate; as `Tiles.at`."""
    lead = (0.0,) * max(0, layer.ndim - len(world))
    place = layer.world_to_data((*lead, *tuple(world)[-layer.ndim :]))
    return tiles.at(*place[-2:])
