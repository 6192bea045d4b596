"""Prepares what a browser shows: reads, and touches no layer; for worker threads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from napari_ngff.errors import UnsupportedError
from napari_ngff.plate.arrangement import Arrangements
from napari_ngff.plate.mosaic import Choice, open_mosaic
from napari_ngff.plate.screen import Screen
from napari_ngff.store.node import read_node
from napari_ngff.viewer.groups import Group
from napari_ngff.viewer.picture import Frame, Picture

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from napari_ngff.plate.layout import MapWell
    from napari_ngff.plate.mosaic import Mosaic
    from napari_ngff.plate.tiles import Tiles
    from napari_ngff.store.node import Node
    from napari_ngff.store.pyramid import OnError
    from napari_ngff.viewer.browsing.positions import Position

__all__ = ["Scenery", "mosaic_group"]


def mosaic_group(
    name: str,
    mosaic: Mosaic,
    labels: Iterable[tuple[str, Mosaic]] = (),
) -> Group:
    """Make a group of wells that were joined, and of their labels by name."""
    image = mosaic.node.metadata.image
    omero = image.omero if image is not None else None
    pictures = []
    for label, joined in labels:
        # Value 7 of one field is another object than value 7 of the next, so what the
        # first says of it does not hold for the rest.
        own = joined.node.metadata.image
        alone = sum(len(a.fields) for a in joined.known) == 1
        info = own.label if own is not None and alone else None
        pictures.append(Picture(label, joined.node, joined.pyramid, None, info))
    picture = Picture(name, mosaic.node, mosaic.pyramid, omero)
    return Group(picture, tuple(pictures), Frame.of(mosaic.pyramid))


class Scenery:
    """Pictures of one plate, well or collection.

    Parameters
    ----------
    node
        Of the browser.
    on_error
        Told of what cannot be read.
    """

    def __init__(self, node: Node, on_error: OnError) -> None:
        self.arrangements = Arrangements(Screen(node))
        self._on_error = on_error

    def mosaic(
        self,
        name: str,
        wells: Sequence[MapWell] | None,
        run: int | None,
        label: str | None,
    ) -> tuple[Group, list[Tiles]]:
        """Join wells, and labels of them.

        Raises
        ------
        UnsupportedError
            Where none can be read.
        """
        here = self.arrangements
        joined = open_mosaic(here, wells, Choice(run), self._on_error)
        labels: list[tuple[str, Mosaic]] = []
        if label is not None:
            choice = Choice(run, f"labels/{label}")
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
        from napari_ngff.viewer.contents import contents

        screen = self.arrangements.screen
        place = screen.place(position.well, position.field)
        node = read_node(place, screen.node.zarr_format)
        found = contents(node, self._on_error)
        return [
            replace(group, image=replace(group.image, name=name))
            if group.image is not None
            else group
            for group in found.groups[:1]
        ]
