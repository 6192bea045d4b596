"""Walks a plate, a well or a collection of images in one viewer; no Qt.

`session_of(viewer).browse(node)` gives the `Browser`. Methods named as questions
(`fields_of`, `label_names`) read files: call them through `session.run`. Actions read
in a worker by themselves and change layers in the main thread; of two actions only
the later one counts.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psygnal import Signal

from napari_ngff.plate.layout import MapWell, PlateMap, map_plate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from napari.components import ViewerModel

    from napari_ngff.metadata.model import Acquisition, Kind
    from napari_ngff.store.node import Node

__all__ = ["Browser", "FieldPlace", "Position", "WellFields"]


@dataclass(frozen=True, slots=True)
class Position:
    """One image of a plate, a well or a collection.

    Attributes
    ----------
    well
        Path of the well relative to the plate ("B/03"); None in a well that was
        opened without its plate, and in a collection.
    field
        Path of the image relative to the well, or to the collection.
    acquisition
        Id, or None where the file states none.
    """

    well: str | None
    field: str
    acquisition: int | None = None


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """Where an image lies in its well.

    Attributes
    ----------
    position
        Which image.
    corner, size
        Along y and x, in the unit of `WellFields`; from the well's upper left corner.
    title
        For people: "field 2", or the name of an image of a collection.
    problem
        Why it cannot be shown; "" where it can.
    """

    position: Position
    corner: tuple[float, float]
    size: tuple[float, float]
    title: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class WellFields:
    """The images of a well in file order.

    Attributes
    ----------
    unit
        Of corners and sizes, such as "micrometer"; "" for voxels.
    """

    fields: tuple[FieldPlace, ...]
    unit: str = ""


class Browser:
    """What is looked at of one plate, well or collection in one viewer."""

    position_changed = Signal(object)
    """Emitted with the `Position` that is shown now; None for a mosaic."""
    wells_changed = Signal()
    """Emitted when `problems` has changed: a well was found broken."""
    layers_changed = Signal()
    """Emitted when wells or fields shown, pins, acquisitions or labels have changed."""
    busy = Signal(bool)
    """Emitted with True when an action starts to read, False when all is shown."""

    def __init__(self, viewer: ViewerModel, node: Node) -> None:
        self._viewer = weakref.ref(viewer)
        self._node = node
        self._geometry: int | None = None

    @property
    def node(self) -> Node:
        """The plate, the well (opened without a plate) or the collection."""
        return self._node

    @property
    def kind(self) -> Kind | None:
        """Of the node: `Kind.PLATE`, `Kind.WELL`, `Kind.COLLECTION` or `Kind.SCENE`."""
        return self._node.kind

    @property
    def map(self) -> PlateMap:
        """The map, from the plate's metadata alone; empty where there is no plate."""
        plate = self._node.metadata.plate
        if plate is None:
            return PlateMap((), (), ())
        return map_plate(plate, self._geometry)

    @property
    def geometry(self) -> int | None:
        """Number of wells of the plate that the map shows; None for what fits.

        Can be set to a key of `napari_ngff.plate.layout.GEOMETRIES`.
        """
        return self._geometry

    @geometry.setter
    def geometry(self, wells: int | None) -> None:
        self._geometry = wells

    @property
    def problems(self) -> dict[str, str]:
        """Why wells cannot be shown (whole), by path; those that are known by now."""
        raise NotImplementedError

    @property
    def acquisitions(self) -> tuple[Acquisition, ...]:
        """Of the plate; () where it names none."""
        raise NotImplementedError

    @property
    def chosen(self) -> tuple[int, ...]:
        """Ids of the acquisitions that are shown; () for all fields together."""
        raise NotImplementedError

    @property
    def labels(self) -> str | None:
        """Name of the labels that mosaics show."""
        raise NotImplementedError

    @property
    def position(self) -> Position | None:
        """What is shown; None while it is a mosaic, or nothing."""
        raise NotImplementedError

    @property
    def shown_wells(self) -> tuple[str, ...]:
        """Paths of the wells of the mosaic, or the one of the field."""
        raise NotImplementedError

    @property
    def pinned(self) -> tuple[Position, ...]:
        """What is shown beside for comparison."""
        raise NotImplementedError

    # Questions: they read.

    def fields_of(self, well: str | None) -> WellFields:
        """Read the images of a well, or of the collection, and where they lie.

        Raises
        ------
        OMEZarrError, OSError
            Where the well cannot be read.
        """
        raise NotImplementedError

    def label_names(self, well: str | None = None) -> tuple[str, ...]:
        """Read the names of the labels of a well's images (of the first readable
        well by default).
        """
        raise NotImplementedError

    # Actions.

    def show_mosaic(self, wells: Iterable[str] | None = None) -> None:
        """Show wells as one picture: all fields of all of them, or of some."""
        raise NotImplementedError

    def show_field(self, well: str | None, field: str | None = None) -> None:
        """Show one image as ordinary layers; the well's first one by default.

        What is shown of another image already is replaced under the same layers.
        """
        raise NotImplementedError

    def step_well(self, rows: int, columns: int) -> None:
        """Go to the next well in a direction, over gaps; to the field like this one."""
        raise NotImplementedError

    def step_field(self, step: int) -> None:
        """Go to the next field (1) or the one before (-1), over the well's borders."""
        raise NotImplementedError

    def choose_acquisitions(self, ids: Sequence[int]) -> None:
        """Show the fields of one acquisition, or of several as layers of their own."""
        raise NotImplementedError

    def choose_labels(self, name: str | None) -> None:
        """Show the labels of this name in mosaics; None for none."""
        raise NotImplementedError

    def pin(self, well: str | None, field: str | None = None) -> None:
        """Show a further image beside what is shown, or take it away if it is there."""
        raise NotImplementedError

    def unpin_all(self) -> None:
        """Take away all that is shown for comparison."""
        raise NotImplementedError

    def zoom_to(self, well: str) -> None:
        """Bring a well of the mosaic in view; shows the plate's mosaic first."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Give up what is being read; what is shown stays."""
        raise NotImplementedError

    # Where things are.

    def position_at(self, world: Sequence[float]) -> Position | None:
        """Tell which image of the mosaic lies at a world coordinate; reads nothing."""
        raise NotImplementedError

    def title(self, position: Position) -> str:
        """Say where that is: "B03 - field 2 - acquisition 0"."""
        raise NotImplementedError

    def well_at(self, path: str) -> MapWell | None:
        """Find a well of the map by its path."""
        raise NotImplementedError
