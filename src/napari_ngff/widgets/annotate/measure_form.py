"""The form that measures the labels of one layer, and shows tables of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from magicgui.widgets import (
    CheckBox,
    ComboBox,
    Container,
    Label,
    ProgressBar,
    PushButton,
)
from qtpy.compat import isalive

from napari_ngff.plate.tables.object_features import COLUMNS
from napari_ngff.plate.tables.table import WELL, WellTable, make_table
from napari_ngff.viewer.annotations.label_annotation import image_title
from napari_ngff.viewer.annotations.table_annotation import (
    ONLY_FILE,
    MeasuredLabels,
    TableAnnotation,
    list_tables,
    older_text,
    outdated_note,
)
from napari_ngff.viewer.layers.label_owners import image_address
from napari_ngff.viewer.painting.layer_measuring import (
    is_measurable,
    join_features,
    measure_saved,
    nodes_of,
    read_objects,
    unsaved_note,
)
from napari_ngff.viewer.services.latest_task import LatestTask, TaskTurn
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.connections import connect_while_alive
from napari_ngff.widgets.dialogs import ask_table_file, ask_table_to_load
from napari_ngff.widgets.form_dialog import show_form
from napari_ngff.widgets.theme_look import ThemeFollower, wrap_label

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.components import ViewerModel
    from napari.layers import Labels
    from napari.viewer import Viewer

    from napari_ngff.plate.tables.measure_labels import MeasureResult
    from napari_ngff.store.hierarchy.node import Node

TITLE = "Measure labels"
NO_LABELS = "There are no labels of an OME-Zarr."
LEFT = "Nothing is kept: the labels were left meanwhile."


class MeasureForm(Container):  # type: ignore[type-arg]
    """Ask which labels, measure them, and offer to save the table."""

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer = viewer
        self._annotations = session_of(viewer).annotations
        self._task = LatestTask(self._is_alive, self._show_progress)
        # The address of the image that was measured last, and its table.
        self._last: tuple[str, TableAnnotation] | None = None
        self._note = self._image = ""
        self.layer = ComboBox(label="Labels", choices=self._list_layers)
        self.groups = {
            group: CheckBox(text=f"with {group}", tooltip=", ".join(columns))
            for group, columns in COLUMNS.items()
        }
        self.button = PushButton(text="Measure")
        self.progress = ProgressBar(visible=False)
        self.cancel = PushButton(text="Cancel", visible=False)
        self.save_button = PushButton(text="Save table…", enabled=False)
        self.load_button = PushButton(text="Load table…")
        self.status = Label(value="")
        wrap_label(self.status)
        super().__init__(
            widgets=[
                self.layer,
                *self.groups.values(),
                self.button,
                # Above what comes and goes, so that it stays where it is.
                self.save_button,
                self.load_button,
                self.progress,
                self.cancel,
                self.status,
            ]
        )
        ThemeFollower(self.native, viewer)
        self.button.changed.connect(self.measure_layer)
        self.cancel.changed.connect(self._on_cancel)
        self.save_button.changed.connect(self._on_save)
        self.load_button.changed.connect(self._on_load)
        layers = viewer.layers.events
        for event in (layers.inserted, layers.removed):
            connect_while_alive(event, self.native, self._on_layers)
        self.native.destroyed.connect(self._task.cancel)
        changed = self._annotations.changed
        connect_while_alive(changed, self.native, self._on_painted)
        self.choose_selected()
        self.layer.changed.connect(self._show_note)
        self._show_note()

    def choose_selected(self) -> None:
        """Choose the selected labels, else visible ones, the topmost first."""
        selection = self._viewer.layers.selection
        if self.layer.choices:
            # Of equals the first of the reversed ones counts, which is on top.
            self.layer.value = max(
                reversed(self.layer.choices),
                key=lambda layer: (layer in selection, layer.visible),
            )

    def _on_painted(self) -> None:
        # The result of measuring stays as long as it is that of all strokes in what
        # the labels show.
        is_left = self._image != _shown_image(self.layer.value)
        if is_left or self._age() or self.status.value == self._note:
            self._show_note()

    def _age(self) -> str:
        """Say whether the chosen labels were painted since they were measured."""
        table = self.measured_table()
        return "" if table is None else table.age

    def _show_note(self, _: Any = None) -> None:
        layer = self.layer.value
        self._image = _shown_image(layer)
        self._note = unsaved_note(layer) if layer is not None else ""
        self._note = outdated_note(self._age()) or self._note
        self.status.value = self._note
        self.save_button.enabled = self.measured_table() is not None

    def measure_layer(self) -> None:
        """Begin to measure the chosen layer."""
        layer = self.layer.value
        if layer is None:
            self.status.value = NO_LABELS
            return
        self._note = self.status.value = unsaved_note(layer)
        nodes = nodes_of(layer)
        if nodes is None:  # not saved yet
            return
        measured, saver = None, getattr(layer, "saver", None)
        if saver is not None:
            labels, owner = saver.journal.subject, self._annotations
            measured = MeasuredLabels(owner, labels.name, [labels.image])
        groups = [group for group, box in self.groups.items() if box.value]
        self._start(
            lambda turn: measure_saved(nodes, groups, turn.report_progress),
            layer,
            partial(self._on_measured, layer, nodes, measured, self._note),
        )

    def _start(
        self, work: Callable[[TaskTurn], Any], layer: Labels, done: Callable[[Any], Any]
    ) -> None:
        """Do work for what a layer shows; its result is not for another field."""
        image = _shown_image(layer)

        def take(result: Any) -> None:
            if layer in self._viewer.layers and _shown_image(layer) == image:
                done(result)
            else:
                self._end_task(LEFT)

        self._show_busy(True)
        self._task.start(work, take, self._end_task)

    def measured_table(self) -> TableAnnotation | None:
        """Return the table of the chosen labels; None before there is one."""
        layer = self.layer.value
        # Another form may have measured it; this one may have saved it already.
        kept = list_tables(self._annotations)
        if self._last is not None and self._last[0] == _shown_image(layer):
            kept.append(self._last[1])
        shown = [] if layer is None else [layer]
        return next((table for table in kept if table.goes_with(shown)), None)

    def _on_measured(
        self,
        layer: Labels,
        nodes: tuple[Node, Node],
        measured: MeasuredLabels | None,
        note: str,
        result: MeasureResult,
    ) -> None:
        """Show the result, with what was not measured."""
        place, (image, labels) = image_title(self._annotations, layer), nodes
        table = make_table(result.frame, "measured", {WELL: ""}, labels.name)
        join_features(layer, table)
        # The window asks about the table before its labels go away.
        owner, name = self._annotations, layer.name
        # A table in the image is about labels in it, not about those of a sidecar.
        stores = {each.location.source.name for each in nodes}
        kept = TableAnnotation(
            owner,
            name,
            place,
            table,
            measured,
            layer=layer,
            node=image if len(stores) == 1 else None,
        )
        self._last = _shown_image(layer), kept
        text = f"Measured {result.rows_text}, as features of the layer."
        notes = text, result.size_note, kept.hint, note
        self._end_task(" ".join(filter(None, notes)))
        # Enter now saves the table instead of measuring again.
        self.save_button.native.setDefault(True)

    def _on_cancel(self) -> None:
        self._task.cancel()
        self._show_busy(False)

    def _end_task(self, text: str) -> None:
        """Show the result of a task."""
        self._show_busy(False)
        self.status.value = text

    def _on_save(self) -> None:
        table = self.measured_table()
        path = ask_table_file(self.native, name=table.labels if table else "")
        if path:
            self.save_table(path)

    def save_table(self, path: str) -> None:
        """Write the table into a file."""
        table = self.measured_table()
        if table is not None:
            note = f" {ONLY_FILE}" * table.unsaved + older_text(table.age)

            def finish(reason: str | None) -> None:
                if self._is_alive():
                    self._end_task(reason or f"Saved in {path}.{note}")

            table.write(path, finish)

    def _on_load(self) -> None:
        if self.layer.value is None:
            self.status.value = NO_LABELS
        elif path := ask_table_to_load(self.native):
            layer = self.layer.value
            done = partial(self._on_loaded, layer)
            self._start(lambda _: read_objects(path), layer, done)

    def _on_loaded(self, layer: Labels, table: WellTable) -> None:
        join_features(layer, table)
        rows = f"{len(table):,} row{'s' * (len(table) != 1)}"
        self._end_task(f"Loaded {rows} of {table.name}, as features of the layer.")

    def _show_busy(self, busy: bool) -> None:
        """Show the progress bar, or enable the buttons that can be pressed next."""
        for button in (self.button, self.load_button, self.save_button):
            button.enabled = not busy
        self.save_button.enabled = not busy and self.measured_table() is not None
        self.progress.visible = self.cancel.visible = busy
        # No range: the bar moves until the number of tasks is known.
        self._show_progress(0, 0)

    def _show_progress(self, done: int, total: int) -> None:
        self.progress.min, self.progress.max, self.progress.value = 0, total, done

    def _list_layers(self, _: Any = None) -> list[Labels]:
        return [layer for layer in self._viewer.layers if is_measurable(layer)]

    def _on_layers(self, _: Any = None) -> None:
        self.layer.reset_choices()

    def _is_alive(self) -> bool:
        return bool(isalive(self.native))  # type: ignore[no-untyped-call]


def _shown_image(layer: Labels | None) -> str:
    """Return the address of the image of the labels that a layer shows now."""
    return "" if layer is None else image_address(layer)


def show_measure_form(viewer: Viewer) -> MeasureForm:
    """Show the form in the viewer's window, a new one for the active labels."""
    form = show_form(
        viewer, TITLE, MeasureForm, lambda x: (x.layer.native, x.button.native)
    )
    form.choose_selected()
    return form
