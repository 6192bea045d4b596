"""Measured tables as annotations: asked about before they go away."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from napari.utils.notifications import show_error

from napari_ngff.plate.tables.files import write_frame
from napari_ngff.viewer.notices import shorten_name
from napari_ngff.viewer.saving.annotations import Annotation, AnnotationState
from napari_ngff.viewer.saving.measured_tables import OLDER
from napari_ngff.viewer.unexpected import attempt_work
from napari_ngff.viewer.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari_ngff.viewer.saving.annotations import Annotations
    from napari_ngff.viewer.saving.measured_tables import MeasuredTable, MeasuredTables


class TableAnnotation(Annotation):
    """One measured table, until a file has it or it is discarded."""

    asks_for_file = True

    def __init__(
        self, owner: Annotations, measured: MeasuredTables, table: MeasuredTable
    ) -> None:
        super().__init__(owner)
        self._measured, self._table, self._running = measured, table, False

    @property
    def title(self) -> str:
        """The table for people: "measured table of nuclei (B3 - field 2)"."""
        return self._table.title

    @property
    def description(self) -> str:
        """A sentence that it is not saved, and whether it is older than strokes."""
        text, layers = super().description, self.owner.viewer.layers
        if not self._measured.lacks_strokes(self._table.measured, layers):
            return text
        return f"{text} {OLDER}; to include them, cancel, save and measure again."

    @property
    def state(self) -> AnnotationState:
        """Unsaved while it is kept, unless its labels were removed by a script."""
        kept = self._measured.list_of_window(self.owner.viewer.layers)
        return AnnotationState(self._table in kept, self._running)

    @property
    def is_over(self) -> bool:
        """Whether it was saved, discarded or replaced."""
        return not self._measured.has_table(self._table)

    def goes_with(self, layers: Iterable[Any]) -> bool:
        """Return whether labels of one of the layers were measured."""
        return any(map(self._table.is_of, layers))

    def save(self, *, quiet: bool = False) -> None:
        """Ask for a file, and write the table in a worker."""
        table, viewer = self._table, self.owner.viewer
        title = f"Save {table.title}"
        path = Window.current.ask_table_file(viewer, title, table.labels)
        if path:
            self._running = True
            work = partial(attempt_work, partial(write_frame, table.frame, path))
            Window.current.run_work(work, self._end_save)

    def _end_save(self, reason: str | None) -> None:
        self._running = False
        if reason is None:
            self.leave(keep=False)
        else:
            show_error(f"Not saved: {shorten_name(self._table.title)}.\n{reason}")

    def leave(self, *, keep: bool) -> None:
        """Keep the table until the window closes, or drop it."""
        measured = self._measured
        if keep:
            self._table = measured.detach_layer(self._table)
        else:
            measured.forget_table(self._table)
