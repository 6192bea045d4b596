"""What two processes change at the same time: each file that several of ours share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.labels.field_states import FieldStates
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.samples import write_plate

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ROUNDS = 200
"""Changes of each process."""


class States:
    """The states of the fields of a plate, beside it."""

    def __init__(self, folder: Path) -> None:
        self.plate = folder / "screen.ome.zarr"
        if not self.plate.exists():
            write_plate(self.plate, grid=(1, 2), fields=1, shape=(32, 32))
        self.states = FieldStates(open_node(self.plate))

    def change(self, name: str) -> None:
        """Change one of many things in the file."""
        self.states.set_state(name, "done")

    def read(self) -> Iterable[str]:
        """Read the names of all that was changed."""
        return FieldStates(open_node(self.plate)).all_states()


KINDS = {"states": States}


def change_all(kind, folder, names, start) -> None:
    """Make the changes of one process."""
    shared = KINDS[kind](folder)
    start.wait()
    for name in names:
        shared.change(name)
