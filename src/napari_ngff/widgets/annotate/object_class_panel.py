"""The classes of objects in the dock, and which one the chosen object has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from napari.utils.notifications import show_warning
from qtpy.QtCore import Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import QVBoxLayout, QWidget

from napari_ngff.labels.object_classes import ObjectClass, ObjectClasses
from napari_ngff.viewer.annotations.object_class_annotation import (
    NO_OBJECT,
    ObjectClassAnnotation,
    begin_classes,
    find_classes,
    known_classes,
)
from napari_ngff.viewer.painting.layer_classes import KEYS
from napari_ngff.viewer.painting.object_edits import HIDDEN
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.annotate.class_table import OBJECTS, ClassTable
from napari_ngff.widgets.connections import (
    connect_while_alive,
    enable_if,
    fill_layout,
    make_buttons,
    while_alive,
    wrapping_row,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.components import ViewerModel

    from napari_ngff.viewer.painting.paint import OMEZarrLabels

HINT = "A click selects a class. Give class, or its number key, gives it to the object."

MOST_ROWS = 4
"""Classes that are seen at once, so that the list of objects has room below."""


class ObjectClassPanel(QWidget):
    """Shows the classes that objects may have, and gives them to objects.

    Its table asks it for them as it asks `LayerClasses` for labels that are classes.
    """

    reported = Signal(str)
    """Emitted with what was done, or why it was not, for the user."""

    unit, can_change = OBJECTS, True

    list_selected: Callable[[], list[int]] = list

    def __init__(self, viewer: ViewerModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._annotations = session_of(viewer).annotations
        self._layer: OMEZarrLabels | None = None
        self._object, self._selected = 0, ""
        self._shown = ObjectClasses()
        self.table = ClassTable(self)
        self.table.setToolTip(HINT)
        self.table.rows.setClasses(self)
        buttons = make_buttons(
            self,
            ("&Add class", "A further class that objects may have.", self._add),
            ("Give class", "The chosen object gets the selected class.", self._give),
            ("No class", "Takes the class off the chosen object.", self._take_off),
            ("Remove", "Takes the class off the list and its objects.", self._remove),
            (
                "Undo class",
                "Takes the last one that was given or removed back.",
                self._undo,
            ),
        )
        self.buttons = {button.text().replace("&", ""): button for button in buttons}
        fill_layout(QVBoxLayout(self), self.table, wrapping_row(*buttons), margin=0)
        connect_while_alive(self._annotations.changed, self, self.refresh)

    def setLayer(self, layer: OMEZarrLabels | None) -> None:
        """Show the classes of the objects of another layer."""
        if self._layer is not None:
            self._layer.takes_number = None
        self._layer = layer
        if layer is not None:
            layer.takes_number = while_alive(self.takeNumber)
        self.refresh()
        self.setObject(0)

    def setObject(self, label: int) -> None:
        """Work on another object, and select its class; 0 for none."""
        self._object = label
        self.select_class(self._shown.class_of.get(label, ""))

    # What the table asks for.

    @property
    def items(self) -> tuple[ObjectClass, ...]:
        """The classes in order."""
        return self._shown.classes

    @property
    def selected(self) -> ObjectClass | None:
        """The class of the selected row."""
        return next((x for x in self.items if x.name == self._selected), None)

    def select_class(self, name: str) -> None:
        """Select a class; no object gets it by that."""
        self._selected = name
        self.table.selectPaintedClass()
        self.refresh()

    def change_class(self, name: str, /, **parts: Any) -> None:
        """Change parts of a class: name, color, locked, hidden."""

        def change(classes: ObjectClassAnnotation) -> str:
            self._selected = parts.get("name", name)
            return classes.change_class(name, **parts)

        self._change(change)

    # What a person does.

    def takeNumber(self, number: int) -> None:
        """Give the chosen object the class of a number key."""
        if number > min(len(self.items), KEYS):
            self._refuse(f"No class has key {number}.")
        else:
            self.classify(self.items[number - 1].name)

    def _refuse(self, reason: str) -> None:
        # Keys work while the dock is behind another one.
        (self.reported.emit if self.isVisible() else show_warning)(reason)

    def _change(self, change: Callable[[ObjectClassAnnotation], str]) -> None:
        try:
            done = change(begin_classes(self._annotations, self._layer))
        except ValueError as error:
            self._refuse(str(error))
        else:
            self.reported.emit(done)
        self.select_class(self._selected)

    def classify(self, name: str) -> None:
        """Give the chosen object, or all selected ones, a class; "" for none."""
        if self._object:
            labels = self.list_selected() or [self._object]
            self._change(lambda classes: classes.classify(labels, name))
            self.setObject(self._object)
        else:
            is_hidden = self._layer is not None and not self._layer.visible
            self._refuse(HIDDEN if is_hidden else NO_OBJECT)

    def _give(self) -> None:
        self.classify(self._selected)

    def _take_off(self) -> None:
        self.classify("")

    def _add(self) -> None:
        self._change(self._add_class)

    def _add_class(self, classes: ObjectClassAnnotation) -> str:
        name = classes.add_class()
        self.select_class(name)
        self.table.editName(name)
        return ""

    def _remove(self) -> None:
        self._change(lambda classes: classes.remove_class(self._selected))

    def _undo(self) -> None:
        self._change(ObjectClassAnnotation.undo)
        self.setObject(self._object)

    def refresh(self, _: Any = None) -> None:
        """Show the classes as they are now, and enable what can be done."""
        layer, owner = self._layer, self._annotations
        enable_if(layer is not None, self, "")
        if layer is None:
            return
        now, found = known_classes(owner, layer), find_classes(owner, layer)
        if now is not self._shown:
            self._shown = now
            self.table.rows.setCounts(now.class_of.count_names())
            self.table.showFirst(MOST_ROWS)
        row = "" if self.selected else "Select a class first."
        lacks = {
            "Give class": row if self._object else NO_OBJECT,
            "No class": "" if self._object else NO_OBJECT,
            "Remove": row,
            "Undo class": "" if found and found.can_undo else "No object got a class.",
        }
        for title, lack in lacks.items():
            enable_if(not lack, self.buttons[title], lack)
