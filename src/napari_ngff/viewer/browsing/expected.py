"""Mosaics that a reader made, and that are about to become layers of a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.plate.mosaic_level import MosaicLevel
from napari_ngff.viewer.picture import KEY, LayerOrigin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.layers import Layer

    from napari_ngff.plate.tiles import Tiles
    from napari_ngff.viewer.browsing.slots import Slot
    from napari_ngff.viewer.groups import Group
    from napari_ngff.viewer.picture import Picture

__all__ = ["ExpectedLayers"]


class ExpectedLayers:
    """Tells which layers show them."""

    def __init__(self) -> None:
        # By identity; they are kept, so that no other picture can get theirs.
        self._pictures: dict[int, tuple[Picture, int, str]] = {}

    def clear(self) -> None:
        """Await no more layers."""
        self._pictures.clear()

    def add(self, groups: Sequence[Group]) -> list[Tiles]:
        """Await the layers of groups; returns the wells of those that are mosaics."""
        joined = []
        for number, group in enumerate(groups):
            for picture in (group.image, *group.labels):
                level = picture.pyramid.levels[0] if picture is not None else None
                if picture is None or not isinstance(level, MosaicLevel):
                    continue
                kind = "image" if picture is group.image else "labels"
                self._pictures[id(picture)] = picture, number, kind
                joined.append(level.tiles)
        return joined

    def slot(self, layer: Layer) -> Slot | None:
        """Tell what a layer shows of them; None where it shows none."""
        origin = layer.metadata.get(KEY)
        picture = origin.picture if isinstance(origin, LayerOrigin) else None
        found = self._pictures.get(id(picture))
        if found is None or picture is None:
            return None
        _, number, kind = found
        return number, kind, picture.name if kind == "labels" else origin.channel or 0
