"""Tables that were measured in a window and are in no file yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from napari_ngff.viewer.unexpected import Signal

if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable, Iterable, Sequence

    from napari.layers import Layer

    from napari_ngff.labels.saving.journal_records import JournalSubject
    from napari_ngff.plate.tables.table import WellTable
    from napari_ngff.viewer.saving.layer_saver import LayerSaver

OLDER = "It was measured before the latest strokes"
OUTDATED = "This table was measured before the latest strokes: save and measure again."


@dataclass(frozen=True, slots=True)
class MeasuredLabels:
    """What a table was measured of, and when.

    Attributes
    ----------
    name
        Name of the labels in their file.
    images
        Addresses of images, or of groups with all of their images.
    saves
        How many saves of strokes `MeasuredTables` knew when measuring began.
    """

    name: str
    images: tuple[str, ...]
    saves: int

    def include(self, labels: JournalSubject) -> bool:
        """Return whether labels are among those that were measured."""
        places = (f"{image}/" for image in self.images)
        return labels.name == self.name and f"{labels.image}/".startswith(tuple(places))


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
    measured
        What was measured, in order; () for labels that cannot be painted here.
    """

    labels: str
    place: str
    frame: Any
    layer: weakref.ref[Layer] | None = None
    node: str = ""
    table: WellTable | None = None
    measured: tuple[MeasuredLabels, ...] = ()

    @property
    def title(self) -> str:
        """The table for people: "measured table of nuclei (B3 - field 2)"."""
        return f"measured table of {self.labels} ({self.place})"

    def is_of(self, layer: Layer) -> bool:
        """Return whether the labels of this layer were measured."""
        return self.layer is not None and self.layer() is layer

    def replaces(self, other: MeasuredTable) -> bool:
        """Return whether this is a later measurement of the same labels.

        Later ones of a plate have the rows of the earlier ones; see `join_measured`.
        """
        if self.layer is None and other.layer is None:
            return (self.node, self.labels) == (other.node, other.labels)
        return self.layer is not None and other.layer == self.layer


class MeasuredTables:
    """The measured tables of one viewer, until each is saved or discarded."""

    save_noted = Signal()
    """Emitted when strokes were saved, which earlier tables lack."""

    def __init__(self) -> None:
        self._tables: list[MeasuredTable] = []
        # Labels whose strokes were saved, in order.
        self._saves: list[JournalSubject] = []

    def begin_measuring(self, name: str, images: Iterable[str]) -> MeasuredLabels:
        """Return what a table will be of that is measured from now on."""
        return MeasuredLabels(name, tuple(filter(None, images)), len(self._saves))

    def note_save(self, labels: JournalSubject) -> None:
        """Note that strokes were saved: tables of these labels are older."""
        self._saves.append(labels)
        self.save_noted.emit()

    def lacks_strokes(
        self, measured: Sequence[MeasuredLabels], layers: Iterable[Any]
    ) -> bool:
        """Return whether labels were painted since they were measured last.

        Parameters
        ----------
        measured
            What was measured, in order.
        layers
            All layers of the viewer.
        """
        savers: list[LayerSaver | None] = [getattr(x, "saver", None) for x in layers]
        # A save that runs has written strokes before it is listed.
        painted = [x for x in savers if x and (x.has_unsaved_strokes or x.running)]
        saves = [*self._saves, *(saver.journal.subject for saver in painted)]
        for number, labels in enumerate(saves if measured else ()):
            times = [part.saves for part in measured if part.include(labels)]
            if times and max(times) <= number:
                return True
        return False

    def add_table(self, table: MeasuredTable) -> None:
        """Keep a table in place of an earlier measurement of the same labels."""
        self._tables = [each for each in self._tables if not table.replaces(each)]
        self._tables.append(table)

    def forget_table(self, table: MeasuredTable) -> None:
        """Drop a table that is in a file now, or that was discarded."""
        self._tables = [each for each in self._tables if each is not table]

    def has_table(self, table: MeasuredTable) -> bool:
        """Return whether a table is kept."""
        return table in self._tables

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

    def detach_layer(self, table: MeasuredTable) -> MeasuredTable:
        """Keep a table although its layer shows other labels from now on."""
        self.forget_table(table)
        self._tables.append(replace(table, layer=None))
        return self._tables[-1]

    def _find(self, is_wanted: Callable[[MeasuredTable], bool]) -> list[MeasuredTable]:
        # Without those of layers that a script has dropped.
        self._tables = [
            table
            for table in self._tables
            if table.layer is None or table.layer() is not None
        ]
        return [table for table in self._tables if is_wanted(table)]
