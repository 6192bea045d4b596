"""Goes from object to object, and joins or cuts the clicked ones."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QSignalBlocker, Qt, Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.labels.label_objects import known_ids
from napari_ngff.viewer.painting.brush import clicked_voxel
from napari_ngff.viewer.painting.layer_classes import unit_of_area
from napari_ngff.viewer.painting.object_edits import (
    ObjectRegrouping,
    cut_object,
    find_new_id,
    join_objects,
    label_at,
    label_region,
    neighbour_id,
    show_region,
)
from napari_ngff.widgets.annotate.object_class_row import ObjectClassRow
from napari_ngff.widgets.canvas_keys import CanvasKeys
from napari_ngff.widgets.connections import Connections, while_alive
from napari_ngff.widgets.narrow_controls import (
    NO_LABELS,
    enable_if,
    why_fixed,
    wrapping_row,
)
from napari_ngff.widgets.widget_tasks import WidgetTasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.components import ViewerModel

    from napari_ngff.labels.canvas import Canvas
    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.viewer.painting.paint import OMEZarrLabels

LARGEST = 2**31 - 1
"""The largest number that fits a QSpinBox; labels may be larger."""
MOST = 200
"""So many objects are listed."""


class ObjectPage(QWidget):
    """Shows objects by their id, and joins or cuts those that are clicked."""

    reported = Signal(str)
    """Emitted with the next step, the result or an error, for the user."""

    def __init__(self, viewer: ViewerModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._layer: OMEZarrLabels | None = None
        self._tasks = WidgetTasks(self)
        self._clicks: list[list[int]] = []
        self._click_handler = while_alive(self.takeClick)
        self._following = Connections(self)
        self.id = QSpinBox(self)
        self.id.setRange(0, LARGEST)
        self.id.setAccessibleName("Object id")
        self.id.setToolTip("The label that is painted with; type one to go there.")
        # Only a complete number: each digit would select a label on the way.
        self.id.setKeyboardTracking(False)
        self.previous = self._add_button(
            "Previous", "To the object with the id before."
        )
        self.next = self._add_button("&Next", "To the object with the next id.")
        self.unused = self._add_button(
            "New &id", "Paint with an id that is not used (M)."
        )
        self.jump = self._add_button("&Go there", "Brings the object into view.")
        self.join = self._add_button(
            "&Join by click", "Each object that is clicked becomes part of this one."
        )
        self.cut = self._add_button(
            "Cut &by click", "Click two places of an object: it is cut between them."
        )
        self.join.setCheckable(True)
        self.cut.setCheckable(True)
        self.classes = ObjectClassRow(viewer, self)
        self.list = QListWidget(self)
        CanvasKeys(self.list)
        self.list.setAccessibleName("Objects that were chosen")
        self.list.setToolTip("Objects that were chosen last; a click goes there.")
        self._build_layout()
        self._connect_signals()
        self.setLayer(None)

    def _add_button(self, title: str, tip: str) -> QPushButton:
        button = QPushButton(title, self)
        button.setToolTip(tip)
        return button

    def _build_layout(self) -> None:
        label = QLabel("Object", self)
        label.setBuddy(self.id)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        row = QHBoxLayout()
        row.addWidget(label)
        row.addWidget(self.id, 1)
        row.addWidget(self.jump)
        layout.addLayout(row)
        layout.addLayout(wrapping_row(self.previous, self.next, self.unused))
        layout.addLayout(wrapping_row(self.join, self.cut))
        layout.addWidget(self.classes)
        layout.addWidget(self.list, 1)

    def _connect_signals(self) -> None:
        self.id.valueChanged.connect(self._on_id)
        self.classes.reported.connect(self.reported)
        self.previous.clicked.connect(self.goToPrevious)
        self.next.clicked.connect(self.goToNext)
        self.unused.clicked.connect(self.useUnusedId)
        self.jump.clicked.connect(self.goToObject)
        self.list.itemClicked.connect(self._on_listed)
        # Enter on a row; itemClicked is the mouse.
        self.list.itemActivated.connect(self._on_listed)
        self.join.toggled.connect(self._on_join)
        self.cut.toggled.connect(self._on_cut)

    def setLayer(self, layer: OMEZarrLabels | None) -> None:
        """Work on another layer."""
        older = self._layer
        self._following.end()
        if older is not None and self._click_handler in older.mouse_drag_callbacks:
            older.mouse_drag_callbacks.remove(self._click_handler)
        self.join.setChecked(False)
        self.cut.setChecked(False)
        self._layer = layer
        self.list.clear()
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
        self.classes.setLayer(layer)

    def _on_editable(self, event: Any = None) -> None:
        lack = why_fixed(self._layer)
        enable_if(not lack, self.join, lack)
        enable_if(not lack, self.cut, lack)

    def _on_selected(self, event: Any = None) -> None:
        if self._layer is not None:
            label = int(self._layer.selected_label)
            # A label beyond the range of the box would come back as its largest number.
            with QSignalBlocker(self.id):
                self.id.setValue(min(label, LARGEST))
            self._list_object(label)
            if self.join.isChecked():
                self.reported.emit(self._next_step())

    def _list_object(self, label: int) -> None:
        """Put an object at the top of the list of chosen ones."""
        if label == 0:
            return
        self._forget_object(label)
        self.list.insertItem(0, str(label))
        self.list.setCurrentRow(0)
        while self.list.count() > MOST:
            self.list.takeItem(MOST)

    def _forget_object(self, label: int) -> None:
        for item in self.list.findItems(str(label), Qt.MatchFlag.MatchExactly):
            self.list.takeItem(self.list.row(item))

    def _on_listed(self, item: QListWidgetItem) -> None:
        self._show_label(int(item.text()))

    def _on_id(self, value: int) -> None:
        if self._layer is not None:
            self._layer.selected_label = value

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

    def goToNext(self) -> None:
        """Go to the object with the next id."""
        self._step_object(1)

    def goToPrevious(self) -> None:
        """Go to the object with the id before."""
        self._step_object(-1)

    def _step_object(self, step: int) -> None:
        layer = self._layer
        if layer is None:
            return
        label = int(layer.selected_label)

        def find_neighbour() -> tuple[int, Box] | str:
            neighbour = neighbour_id(known_ids(layer.canvas), label, step)
            if neighbour is None:
                return "Nothing is painted."
            return neighbour, label_region(layer, neighbour)

        self._find_object(find_neighbour)

    def goToObject(self) -> None:
        """Bring the object into view."""
        if self._layer is not None:
            self._show_label(int(self._layer.selected_label))

    def _show_label(self, label: int) -> None:
        layer = self._layer
        if layer is not None:
            self._find_object(lambda: (label, label_region(layer, label)))

    def _find_object(self, work: Callable[[], tuple[int, Box] | str]) -> None:
        self.reported.emit("Looking…")
        self._tasks.start_task("find", work, self._show_object)

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

    def _on_join(self, on: bool) -> None:
        self._on_tool(self.join, self.cut, on)

    def _on_cut(self, on: bool) -> None:
        self._on_tool(self.cut, self.join, on)

    def _on_tool(self, button: QPushButton, other: QPushButton, on: bool) -> None:
        self._clicks = []
        if on:
            other.setChecked(False)
        if self._layer is not None:
            # napari's own Escape is for polygons.
            end = while_alive(self.endClicks) if on else None
            self._layer.bind_key("Escape", end, overwrite=True)
        if on and self._layer is not None:
            # In a mode of painting, the click would paint as well.
            self._layer.mode = "pan_zoom"
            self.reported.emit(self._next_step())

    def endClicks(self, _: Any = None) -> None:
        """End joining and cutting, also between the two clicks of a cut."""
        self.join.setChecked(False)
        self.cut.setChecked(False)
        self.reported.emit("")

    def _forget_clicks(self, event: Any) -> None:
        """Begin a cut anew, since the layer shows another field."""
        self._clicks = []

    def _next_step(self) -> str:
        """Describe what the next click does."""
        if self.cut.isChecked() or self._layer is None:
            return self.cut.toolTip()
        label = int(self._layer.selected_label)
        return f"Each object that is clicked becomes part of object {label}."

    def takeClick(self, layer: Any, event: Any) -> Any:
        """Join or cut at a click; a drag is left to napari."""
        if not (self.join.isChecked() or self.cut.isChecked()):
            return
        # napari runs a generator through one drag: to the first yield at the press, on
        # at each move, and to its end at the release.
        dragged = False
        yield
        while event.type == "mouse_move":
            dragged = True
            yield
        own_layer = self._layer
        if dragged or own_layer is None or layer is not own_layer:
            return
        voxel = clicked_voxel(own_layer, event)
        if voxel is None:
            self.reported.emit("No object there. Click one that is visible.")
            return
        # Browsing may let the layer show another field before the worker is done.
        canvas = own_layer.canvas
        if self.join.isChecked():
            label = int(own_layer.selected_label)
            self._regroup_objects(
                lambda: join_objects(own_layer, voxel, label, canvas), self._report_join
            )
            return
        self._clicks.append(voxel)
        if len(self._clicks) == 1:
            label = label_at(own_layer, voxel)
            self.reported.emit(f"Click another place of object {label}.")
            return
        seeds, self._clicks = self._clicks, []
        self._regroup_objects(
            lambda: cut_object(own_layer, seeds, canvas), self._report_cut
        )

    def _regroup_objects(
        self,
        work: Callable[[], ObjectRegrouping],
        done: Callable[[ObjectRegrouping], None],
    ) -> None:
        def apply_result(regrouping: ObjectRegrouping | str) -> None:
            if isinstance(regrouping, str):
                self.reported.emit(regrouping)
            else:
                try:
                    # In the main thread, as every change of a layer.
                    regrouping.apply_edits()
                except ValueError as error:
                    self.reported.emit(f"Not changed: {error}")
                else:
                    done(regrouping)

        self._tasks.start_task("regroup", work, apply_result)

    def _report_join(self, regrouping: ObjectRegrouping) -> None:
        label, joined = regrouping.edits[0].label, regrouping.labels[0]
        self._forget_object(joined)
        self.reported.emit(f"{joined} is part of {label} now.")

    def _report_cut(self, regrouping: ObjectRegrouping) -> None:
        first, second = regrouping.labels
        self.reported.emit(f"{first} is cut; the other part is {second}.")
        self._list_object(second)
        # The object in hand stays the chosen one: the next click joins to it.
        self._on_selected()
