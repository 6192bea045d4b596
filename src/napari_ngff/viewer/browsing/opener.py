"""Prepares what a browser shows: reads, and touches no layer; for worker threads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from napari_ngff.errors import UnsupportedError
from napari_ngff.plate.arrangement import ScreenArrangements
from napari_ngff.plate.mosaic import WellChoice, open_mosaic
from napari_ngff.plate.screen import Screen
from napari_ngff.store.hierarchy.node import read_node
from napari_ngff.viewer.contents import contents
from napari_ngff.viewer.groups import mosaic_group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.plate.layout import MapWell
    from napari_ngff.plate.mosaic import Mosaic
    from napari_ngff.plate.tiles import WellCells
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.pyramids.pyramid import OnError
    from napari_ngff.viewer.browsing.positions import Position
    from napari_ngff.viewer.groups import Group

__all__ = ["Opener"]


class Opener:
    """Pictures of one plate, well or collection.

    Parameters
    ----------
    node
        Of the browser.
    on_error
        Told of what cannot be read.
    """

    def __init__(self, node: Node, on_error: OnError) -> None:
        self.arrangements = ScreenArrangements(Screen(node))
        self._on_error = on_error

    def mosaic(
        self,
        name: str,
        wells: Sequence[MapWell] | None,
        run: int | None,
        label: str | None,
    ) -> tuple[Group, list[WellCells]]:
        """Join wells, and labels of them.

        Raises
        ------
        UnsupportedError
            Where none can be read.
        """
        here = self.arrangements
        here.retry()
        joined = open_mosaic(here, wells, WellChoice(run), self._on_error)
        labels: list[tuple[str, Mosaic]] = []
        if label is not None:
            choice = WellChoice(run, f"labels/{label}")
            try:
                found = open_mosaic(here, wells, choice, self._on_error)
                labels.append((label, found))
            except UnsupportedError:
                pass  # no well has them: nothing is what there is to see
        group = mosaic_group(name, joined, labels)
        return group, [joined.tiles, *(mosaic.tiles for _, mosaic in labels)]

    def field(self, name: str, position: Position) -> list[Group]:
        """Open one image and its labels, as if it were opened by itself.

        Raises
        ------
        OMEZarrError, OSError
            Where it cannot be read.
        """
        screen = self.arrangements.screen
        location = screen.place(position.well, position.field)
        node = read_node(location, screen.node.zarr_format)
        field_contents = contents(node, self._on_error)
        return [
            replace(group, image=replace(group.image, name=name))
            if group.image is not None and name
            else group
            for group in field_contents.groups[:1]
        ]
