"""What a display keeps beside its layers: listeners, expected layers, extra layers."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Protocol

from napari_ngff.plate.mosaic_level import MosaicLevel
from napari_ngff.viewer.picture import KEY, LayerOrigin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.plate.tiles import WellCells
    from napari_ngff.viewer.browsing.positions import Position
    from napari_ngff.viewer.browsing.slots import Slot
    from napari_ngff.viewer.groups import Group
    from napari_ngff.viewer.picture import Picture

__all__ = ["ExpectedLayers", "FieldExtras", "Misfits", "Observer"]


class Observer(Protocol):
    """Who is told of what a display does; in the main thread."""

    def busy(self, busy: bool) -> None:
        """Hear that an action begins, or ends."""

    def changed(self) -> None:
        """Hear that something else is shown."""

    def noticed(self) -> None:
        """Hear that wells may have been found broken."""

    def saved(self, key: str) -> None:
        """Hear that labels of a field were saved; see `key_of`."""

    def title(self, position: Position) -> str:
        """Name an image."""


Misfit = tuple[int | None, str, str | None]
"""Acquisition, labels and well."""


class Misfits:
    """Remembers for which wells room was made; once for each."""

    def __init__(self) -> None:
        self._tried: set[Misfit] = set()

    def try_new(self, mosaics: Sequence[WellCells]) -> bool:
        """Tell whether room has to be made for wells, which count as tried then."""
        new = {misfit for misfit, _ in _found(mosaics)} - self._tried
        self._tried |= new
        return bool(new)

    def problems(self, mosaics: Sequence[WellCells]) -> dict[str | None, str]:
        """Tell why wells are not shown whole that there still is no room for."""
        misfits = _found(mosaics)
        return {misfit[2]: why for misfit, why in misfits if misfit in self._tried}


def _found(mosaics: Iterable[WellCells]) -> Iterator[tuple[Misfit, str]]:
    for tiles in mosaics:
        for well, why in list(tiles.misfits.items()):
            yield (tiles.acquisition, tiles.inside, well), why


class ExpectedLayers:
    """Tells which layers show them."""

    def __init__(self) -> None:
        # By identity; they are kept, so that no other picture can get theirs.
        self._pictures: dict[int, tuple[Picture, int, str]] = {}

    def clear(self) -> None:
        """Await no more layers."""
        self._pictures.clear()

    def add(self, groups: Sequence[Group]) -> list[WellCells]:
        """Await the layers of groups; return the wells of those that are mosaics."""
        joined = []
        for number, group in enumerate(groups):
            for picture in (group.image, *group.labels):
                if picture is None:
                    continue
                kind = "image" if picture is group.image else "labels"
                self._pictures[id(picture)] = picture, number, kind
                level = picture.pyramid.levels[0]
                if isinstance(level, MosaicLevel):
                    joined.append(level.tiles)
        return joined

    def slot(self, layer: Layer) -> Slot | None:
        """Tell what a layer shows of them; None where it shows none."""
        origin = layer.metadata.get(KEY)
        picture = origin.picture if isinstance(origin, LayerOrigin) else None
        expected = self._pictures.get(id(picture))
        if expected is None or picture is None:
            return None
        _, number, kind = expected
        return number, kind, picture.name if kind == "labels" else origin.channel or 0


class FieldExtras:
    """Points, shapes, copies and results of plugins, each with the field it lies on.

    They are in memory alone, so none is removed. What the user opened from a file has
    a path, and is none of them.
    """

    def __init__(self) -> None:
        self._positions: weakref.WeakKeyDictionary[Layer, Position]
        self._positions = weakref.WeakKeyDictionary()
        self._hidden: weakref.WeakSet[Layer] = weakref.WeakSet()

    def add(self, layer: Layer, position: Position | None) -> None:
        """Note a layer that was added while a field is on screen."""
        if position is not None and layer.source.path is None:
            self._positions[layer] = position

    def discard(self, layers: Iterable[Layer]) -> None:
        """Forget layers that belong to the field itself, or to one beside it."""
        for layer in layers:
            self._positions.pop(layer, None)

    def show_those_of(self, viewer: ViewerModel, position: Position | None) -> None:
        """Show the layers of a field, and hide those of others."""
        for layer, own in list(self._positions.items()):
            if layer not in viewer.layers:
                continue
            if own == position and layer in self._hidden:
                layer.visible = True
                self._hidden.discard(layer)
            elif own != position and layer.visible:
                layer.visible = False
                self._hidden.add(layer)
                viewer.layers.selection.discard(layer)
