"""Tables that were measured in a window and are in no file yet."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from napari.layers import Layer

    from napari_ngff.plate.tables.table import WellTable

__all__ = ["MeasuredTable", "MeasuredTables"]


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredTable:
    """One table.

    Attributes
    ----------
    labels
        Name of the labels that were measured.
    place
        Their image, field, plate or collection, for people.
    frame
        A pandas.DataFrame, as a file gets it.
    layer
        Weak reference to the layer whose labels were measured; None where the table
        does not go away with a layer.
    node
        Address of the plate or collection whose browser measured it, else "".
    table
        The same table as that browser shows it; None for one of a layer.
    """

    labels: str
    place: str
    frame: Any
    layer: weakref.ref[Layer] | None = None
    node: str = ""
    table: WellTable | None = None

    @property
    def title(self) -> str:
        """The table for people: "measured table of nuclei (B3 - field 2)"."""
        return f"measured table of {self.labels} ({self.place})"

    @classmethod
    def of_layer(cls, layer: Layer, place: str, frame: Any) -> MeasuredTable:
        """Make the table of the labels of a layer."""
        return cls(layer.name, place, frame, weakref.ref(layer))

    def is_of(self, layer: Layer) -> bool:
        """Return whether the labels of this layer were measured."""
        return self.layer is not None and self.layer() is layer

    def replaces(self, other: MeasuredTable) -> bool:
        """Return whether this is a later measurement of the same labels."""
        if self.layer is None and other.layer is None:
            return (self.node, self.labels) == (other.node, other.labels)
        return self.layer is not None and other.layer == self.layer


class MeasuredTables:
    """The measured tables of one viewer, until each is saved or discarded."""

    def __init__(self) -> None:
        self._tables: list[MeasuredTable] = []

    def add_table(self, table: MeasuredTable) -> None:
        """Keep a table in place of an earlier measurement of the same labels."""
        self._tables = [each for each in self._tables if not table.replaces(each)]
        self._tables.append(table)

    def forget_table(self, table: MeasuredTable) -> None:
        """Drop a table that is in a file now, or that was discarded."""
        self._tables = [each for each in self._tables if each is not table]

    def list_of_layers(self, layers: Iterable[Layer]) -> list[MeasuredTable]:
        """List the tables that go away with layers, or with what these show."""
        known = list(layers)
        return self._find(lambda table: any(map(table.is_of, known)))

    def list_of_window(self, layers: Iterable[Layer]) -> list[MeasuredTable]:
        """List the tables that go away with a window and all of its layers."""
        detached = self._find(lambda table: table.layer is None)
        return [*detached, *self.list_of_layers(layers)]

    def list_of_node(self, node: str) -> list[MeasuredTable]:
        """List the tables of a plate or collection, by its address."""
        return self._find(lambda table: table.node == node != "")

    def detach_layer(self, table: MeasuredTable) -> None:
        """Keep a table although its layer shows other labels from now on."""
        self.forget_table(table)
        self._tables.append(MeasuredTable(table.labels, table.place, table.frame))

    def _find(self, is_wanted: Callable[[MeasuredTable], bool]) -> list[MeasuredTable]:
        # Without those of layers that a script has dropped.
        self._tables = [
            table
            for table in self._tables
            if table.layer is None or table.layer() is not None
        ]
        return [table for table in self._tables if is_wanted(table)]
