"""Goes from object to object, and joins, cuts or deletes the clicked ones."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QEvent, QObject, QSignalBlocker, Qt, Signal  # type: ignore[attr-defined]
from qtpy.QtGui import QKeyEvent
from qtpy.QtWidgets import (
    QAbstractButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.viewer.annotations.object_class_annotation import NO_OBJECT
from napari_ngff.viewer.painting.brush import PICK, clicked_voxel, find_label
from napari_ngff.viewer.painting.layer_classes import unit_of_area
from napari_ngff.viewer.painting.object_edits import (
    HIDDEN,
    ObjectEdits,
    cut_object,
    delete_object,
    find_new_id,
    is_same_time,
    join_objects,
    label_at,
    label_region,
    show_region,
)
from napari_ngff.widgets.annotate.object_class_panel import ObjectClassPanel
from napari_ngff.widgets.annotate.object_table import ObjectTable
from napari_ngff.widgets.browser.controls import make_caption
from napari_ngff.widgets.connections import (
    NO_LABELS,
    Connections,
    WidgetTasks,
    call_soon,
    enable_if,
    fill_layout,
    filled_row,
    make_buttons,
    while_alive,
    why_fixed,
    wrapping_row,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.components import ViewerModel

    from napari_ngff.labels.canvas import Canvas
    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.viewer.painting.paint import OMEZarrLabels

LARGEST = 2**31 - 1
"""The largest number that fits a QSpinBox; labels may be larger."""


class ObjectPage(QWidget):
    """Shows objects by their id; joins, cuts or deletes those that are clicked."""

    reported = Signal(str)
    """Emitted with the next step, the result or an error, for the user."""

    def __init__(self, viewer: ViewerModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._layer: OMEZarrLabels | None = None
        self._tasks = WidgetTasks(self)
        self._chosen = self._label = 0
        self._is_swapped = False
        self._clicks: list[list[int]] = []
        self._waiting: list[Callable[[], None]] = []
        self._click_handler = while_alive(self.takeClick)
        self._following = Connections(self)
        self.id = QSpinBox(self)
        self.id.setRange(0, LARGEST)
        self.id.setAccessibleName("Object id")
        self.id.setToolTip("The label that is painted with; type one to go there.")
        # Only a complete number: each digit would select a label on the way.
        self.id.setKeyboardTracking(False)
        self.unused, self.jump, self.delete_chosen = make_buttons(
            self,
            ("New &id", "Paint with an id that is not used (M).", self.useUnusedId),
            ("&Go there", "Brings the object into view.", self.goToObject),
            (
                "&Delete object",
                "Deletes this object in all planes (Del).",
                self.deleteObject,
            ),
        )
        self.choose, self.join, self.cut, self.delete = make_buttons(
            self,
            (
                "Choose by click",
                "The object that is clicked is chosen: for its class.",
                None,
            ),
            (
                "&Join by click",
                "Each object that is clicked becomes part of the chosen one.",
                None,
            ),
            (
                "Cut &by click",
                "Click two places of an object: it is cut between them.",
                None,
            ),
            ("Delete by click", "Each object that is clicked is deleted.", None),
        )
        self._tools = (self.choose, self.join, self.cut, self.delete)
        for button in self._tools:
            button.setCheckable(True)
            # Not by a group: of its buttons Tab reaches one alone.
            button.toggled.connect(self._on_tool)
        self.classes = ObjectClassPanel(viewer, self)
        self.table = ObjectTable(viewer, self)
        self.list = self.table.view
        self._build_layout()
        self._connect_signals()
        self.setLayer(None)

    def _build_layout(self) -> None:
        label = make_caption("Object", self.id, self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        fill_layout(
            layout,
            filled_row(label, self.id, self.jump, wide=self.id),
            wrapping_row(self.unused, self.delete_chosen),
            wrapping_row(*self._tools),
            self.classes,
            self.table,
            wide=self.table,
        )

    def _connect_signals(self) -> None:
        self.id.valueChanged.connect(self._on_id)
        # Also with the number that the box has: nobody may have chosen that object.
        line: Any = self.id.lineEdit()
        line.returnPressed.connect(self._take_id)
        self.classes.reported.connect(self.reported)
        self.classes.list_selected = self.table.listSelected
        self.table.chosen.connect(self._on_listed)

    def setLayer(self, layer: OMEZarrLabels | None) -> None:
        """Work on another layer."""
        older = self._layer
        self._following.end()
        if older is not None and self._click_handler in older.mouse_drag_callbacks:
            older.mouse_drag_callbacks.remove(self._click_handler)
        self.endClicks()
        self._layer = layer
        self._waiting.clear()
        self._tasks.cancel_others()
        if layer is not None:
            follow, events = self._following.connect, layer.events
            follow(events.data, self._forget_clicks)
            follow(events.editable, self._on_editable)
            follow(events.selected_label, self._on_selected)
            # Beside the tool of the layer: these callbacks run in every mode.
            layer.mouse_drag_callbacks.append(self._click_handler)
            self._on_selected()
        for widget in self.findChildren(QWidget):
            enable_if(layer is not None, widget, NO_LABELS)
        self._on_editable()
        self._chosen = 0  # nobody has chosen the label that is painted with
        self.classes.setLayer(layer)
        self.table.setLayer(layer)

    def _on_editable(self, event: Any = None) -> None:
        lack = why_fixed(self._layer)
        for button in (*self._tools[1:], self.delete_chosen):
            enable_if(not lack, button, lack)

    def _on_selected(self, event: Any = None) -> None:
        if self._layer is not None:
            label = int(self._layer.selected_label)
            # A label beyond the range of the box would come back as its largest number.
            with QSignalBlocker(self.id):
                self.id.setValue(min(label, LARGEST))
            self.table.showObject(label)
            # napari tells so of other colours, too.
            if label != self._label and not self._is_swapped:
                self._choose_object(label)
            self._label = label

    def _choose_object(self, label: int) -> None:
        """Work on an object, which a person has chosen in what is shown; 0 for none."""
        self._chosen = label
        self.table.showObject(label)
        self.classes.setObject(label)
        if self.join.isChecked():
            self.reported.emit(self._next_step(self.join))

    def _find_choice(self, layer: OMEZarrLabels, event: Any) -> None:
        """Choose the object at a click; none until its label is read."""
        self._choose_object(0)
        if layer.visible:
            find_label(layer, event, while_alive(self._take_choice))
        else:
            self.reported.emit(HIDDEN)

    def _take_choice(self, label: int) -> None:
        """Choose the object that was clicked."""
        layer = self._layer
        if layer is None:
            return
        layer.selected_label = label
        self._choose_object(label)
        if label == 0:
            self.reported.emit("No object there.")

    def _on_listed(self, label: int) -> None:
        if self._layer is not None:
            self._layer.selected_label = label
            self._choose_object(label)
            self._show_label(label)

    def _take_id(self) -> None:
        self._on_id(self.id.value())

    def _on_id(self, value: int) -> None:
        if self._layer is not None:
            self._layer.selected_label = value
            self._choose_object(value)

    def useUnusedId(self) -> None:
        """Paint with an id that is not used."""
        layer = self._layer
        if layer is not None:
            canvas = layer.canvas
            find = partial(find_new_id, layer, canvas)
            self._tasks.start_task("id", find, partial(self._select_unused, canvas))

    def _select_unused(self, canvas: Canvas, label: int | str) -> None:
        if isinstance(label, str):
            self.reported.emit(label)
        # Another field may have an object with this id.
        elif self._layer is not None and self._layer.canvas is canvas:
            self._layer.selected_label = label

    def goToObject(self) -> None:
        """Bring the object into view."""
        if self._layer is not None:
            self._show_label(int(self._layer.selected_label))

    def _show_label(self, label: int) -> None:
        layer, region = self._layer, self.table.objects.box_of(label)
        if region is not None:
            self._show_object((label, region))
        elif layer is not None:
            self.reported.emit("Looking…")
            find = partial(label_region, layer, label)
            self._tasks.start_task("find", lambda: (label, find()), self._show_object)

    def _show_object(self, label_and_region: tuple[int, Box] | str) -> None:
        layer = self._layer
        if isinstance(label_and_region, str) or layer is None:
            self.reported.emit(str(label_and_region))
            return
        label, region = label_and_region
        layer.selected_label = label
        show_region(self._viewer, layer, region)
        sizes = " x ".join(str(stop - start) for start, stop in region)
        self.reported.emit(f"Object {label}: {sizes} {unit_of_area(layer)}.")

    # --- clicks on the canvas

    def _on_tool(self, on: bool) -> None:
        button: Any = self.sender()
        self._clicks = []
        for other in self._tools if on else ():
            if other is not button:
                other.setChecked(False)
        if self._layer is not None:
            # napari's own Escape is for polygons.
            end = while_alive(self.endClicks) if on else None
            self._layer.bind_key("Escape", end, overwrite=True)
        if on and self._layer is not None:
            # In a mode of painting, the click would paint as well.
            self._layer.mode = "pan_zoom"
            self.reported.emit(self._next_step(button))

    def endClicks(self, _: Any = None) -> None:
        """End what clicks do, also between the two clicks of a cut."""
        for button in self._tools:
            button.setChecked(False)
        self.reported.emit("")

    def _forget_clicks(self, event: Any) -> None:
        """Begin anew, since the layer shows another field."""
        self._clicks = []
        self.reported.emit("")
        self._choose_object(0)
        # The layer gets the label in hand right after this, which may be none here.
        self._is_swapped = True
        call_soon(self._end_swap)

    def _end_swap(self) -> None:
        self._is_swapped = False

    def _next_step(self, button: QAbstractButton) -> str:
        """Describe what the next click does."""
        if button is not self.join:
            return str(button.toolTip())
        if self._chosen == 0:
            return "Click the object that others become part of."
        return f"Each object that is clicked becomes part of object {self._chosen}."

    def takeClick(self, layer: Any, event: Any) -> Any:
        """Do what was chosen at a click; a drag is left to napari."""
        # Not while a tool paints; nor behind another dock, where nobody sees what a
        # click does: such a dock is disabled, see `place_dock`.
        own_layer = self._layer
        if own_layer is None or layer is not own_layer or event.button != 1:
            return
        if not self.isEnabled():
            return
        if layer.mode == PICK:
            self._find_choice(layer, event)
        if layer.mode != "pan_zoom":
            return
        # napari runs a generator through one drag: to the first yield at the press, on
        # at each move, and to its end at the release.
        dragged = False
        yield
        while event.type == "mouse_move":
            dragged = True
            yield
        chosen = any(button.isChecked() for button in self._tools)
        if dragged or not chosen or own_layer is not self._layer:
            return
        # What others become part of is chosen first: nobody may have chosen the label
        # in hand, of which another field has another object.
        if self.choose.isChecked() or (self.join.isChecked() and not self._chosen):
            self._find_choice(layer, event)
            return
        voxel = clicked_voxel(own_layer, event)
        if voxel is None:
            self.reported.emit("No object there. Click one that is visible.")
        else:
            self._use_tool(own_layer, voxel)

    def _use_tool(self, layer: OMEZarrLabels, voxel: list[int]) -> None:
        # The canvas of now: browsing may let the layer show another field before the
        # worker is done.
        if self.join.isChecked():
            join = partial(join_objects, layer, voxel, self._chosen, layer.canvas)
            self._edit_objects(join, self._report_join)
        elif self.delete.isChecked():
            delete = partial(delete_object, layer, voxel, canvas=layer.canvas)
            self._edit_objects(delete, self._report_deletion)
        elif self._clicks and is_same_time(layer, self._clicks[0], voxel):
            seeds, self._clicks = [*self._clicks, voxel], []
            cut = partial(cut_object, layer, seeds, layer.canvas)
            self._edit_objects(cut, self._report_cut)
        else:
            start = "The first click was at another time point. " * len(self._clicks)
            self._clicks = [voxel]
            text = f"Click another place of object {label_at(layer, voxel)}."
            self.reported.emit(start + text)

    def deleteObject(self) -> None:
        """Delete the chosen object, in all planes of the time point on screen."""
        layer = self._layer
        if self._chosen == 0:
            self.reported.emit(NO_OBJECT)
        elif layer is not None:
            # So that Ctrl+Z undoes it.
            self._viewer.layers.selection.active = layer
            voxel = [
                round(float(i)) for i in layer.world_to_data(self._viewer.dims.point)
            ]
            delete = partial(delete_object, layer, voxel, self._chosen, layer.canvas)
            self._edit_objects(delete, self._report_deletion)

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        """Delete the chosen object at a key, while this page is in front."""
        is_meant = (
            isinstance(event, QKeyEvent)
            # PySide6 asks what has lost all of its attributes, see `EventWatcher`.
            and bool(vars(self))
            and event.type() == QEvent.Type.KeyPress
            # Macs have the second one alone.
            and event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace)
            and not (event.modifiers() or event.isAutoRepeat())
            and self.isVisible()
            and self.isEnabled()
            and self._layer is not None
            and self._viewer.layers.selection.active is self._layer
        )
        if is_meant:
            self.deleteObject()
        return is_meant

    def _edit_objects(
        self,
        work: Callable[[], ObjectEdits],
        done: Callable[[ObjectEdits], None],
    ) -> None:
        """Prepare edits and apply them, after those that were asked for before."""

        def apply_result(edits: ObjectEdits | str) -> None:
            if isinstance(edits, str):
                self.reported.emit(edits)
            else:
                try:
                    # In the main thread, as every change of a layer.
                    edits.apply_edits()
                except ValueError as error:
                    self.reported.emit(f"Not changed: {error}")
                else:
                    done(edits)
            del self._waiting[0]
            if self._waiting:
                self._waiting[0]()

        self._waiting.append(
            partial(self._tasks.start_task, "edit", work, apply_result)
        )
        if len(self._waiting) == 1:
            self._waiting[0]()

    def _report_join(self, edits: ObjectEdits) -> None:
        label, joined = edits.edits[0].label, edits.labels[0]
        self.reported.emit(f"{joined} is part of {label} now.")

    def _report_deletion(self, edits: ObjectEdits) -> None:
        (label,) = edits.labels
        if label == self._chosen:
            self._choose_object(0)
        self.reported.emit(f"Object {label} is deleted. Ctrl+Z undoes it.")

    def _report_cut(self, edits: ObjectEdits) -> None:
        first, second = edits.labels
        self.reported.emit(f"{first} is cut; the other part is {second}.")
        # The object in hand stays the chosen one: the next click joins to it.
        self._on_selected()
