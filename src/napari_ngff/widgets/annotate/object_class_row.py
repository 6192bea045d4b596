"""The class of the object that is chosen: by a number key or in a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from napari.utils.notifications import show_warning
from qtpy.QtCore import QSignalBlocker, Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import (
    QHBoxLayout,
    QInputDialog,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.labels.object_classes import ObjectClasses
from napari_ngff.viewer.annotations.object_class_annotation import (
    begin_classes,
    find_classes,
    known_classes,
)
from napari_ngff.viewer.painting.layer_classes import KEYS
from napari_ngff.viewer.services.notices import shorten_name
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.annotate.class_table import make_swatch
from napari_ngff.widgets.connections import (
    choice_box,
    connect_while_alive,
    enable_if,
    while_alive,
    wrapping_row,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.components import ViewerModel

    from napari_ngff.viewer.annotations.object_class_annotation import (
        ObjectClassAnnotation,
    )
    from napari_ngff.viewer.painting.paint import OMEZarrLabels

HINT = "The class of the chosen object. Choose one by a click, then press 1 to 9."

NO_OBJECT = "No object is chosen. Click one by Choose by click, or type its id."


class ObjectClassRow(QWidget):
    """Gives objects classes."""

    reported = Signal(str)
    """Emitted with what was done, or why it was not, for the user."""

    def __init__(self, viewer: ViewerModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._annotations = session_of(viewer).annotations
        self._layer: OMEZarrLabels | None = None
        self._object = 0
        self._shown: ObjectClasses | None = None
        self.choice = choice_box(self, "Class of the object", HINT)
        self.make = QPushButton("New class…", self)
        self.make.setToolTip("A further class that objects may have.")
        self.rename = QPushButton("Rename class…", self)
        self.rename.setToolTip("Another name for the class that is shown above.")
        self.back = QPushButton("Undo class", self)
        self.back.setToolTip("Takes the last class back that an object got.")
        row, label = QHBoxLayout(), QLabel("Class", self)
        label.setBuddy(self.choice)
        row.addWidget(label)
        row.addWidget(self.choice, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(row)
        layout.addLayout(wrapping_row(self.make, self.rename, self.back))
        self.choice.activated.connect(self._on_choice)
        self.make.clicked.connect(self.addClass)
        self.rename.clicked.connect(self.renameClass)
        self.back.clicked.connect(self.undo)
        connect_while_alive(self._annotations.changed, self, self.refresh)

    @property
    def classes(self) -> ObjectClassAnnotation | None:
        """The classes of the objects of the layer; None for none yet."""
        layer = self._layer
        return None if layer is None else find_classes(self._annotations, layer)

    def setLayer(self, layer: OMEZarrLabels | None) -> None:
        """Work on the objects of another layer."""
        if self._layer is not None:
            self._layer.takes_number = None
        self._layer, self._shown, self._object = layer, None, 0
        if layer is not None:
            layer.takes_number = while_alive(self.takeNumber)
        self.refresh()

    def setObject(self, label: int) -> None:
        """Work on another object; 0 for none."""
        self._object = label
        self._show_class()

    def takeNumber(self, number: int) -> None:
        """Give the chosen object the class of a number key."""
        names = self.names
        if number > min(len(names), KEYS):
            self._refuse(f"No class has key {number}.")
        else:
            self.classify(names[number - 1])

    def _refuse(self, reason: str) -> None:
        # Keys work while the dock is behind another one.
        (self.reported.emit if self.isVisible() else show_warning)(reason)

    @property
    def names(self) -> list[str]:
        """Names of the classes in their order."""
        return self._now.names

    @property
    def _now(self) -> ObjectClasses:
        layer = self._layer
        if layer is None:
            return ObjectClasses()
        return known_classes(self._annotations, layer)

    def classify(self, name: str) -> None:
        """Give the chosen object a class; "" for none."""
        layer, label = self._layer, self._object
        try:
            if layer is None or label == 0:
                raise ValueError(NO_OBJECT)
            begin_classes(self._annotations, layer).classify(label, name)
        except ValueError as error:
            self._refuse(str(error))
            self._show_class()
        else:
            self._report_class(label, name)

    def _report_class(self, label: int, name: str) -> None:
        text = shorten_name(name) if name else "without a class"
        self.reported.emit(f"Object {label} is {text}.")

    def _on_choice(self, index: int) -> None:
        self.classify(str(self.choice.itemData(index)))

    def addClass(self) -> None:
        """Ask for the name of a further class."""
        self._ask_name("New class", "", lambda classes, name: classes.add_class(name))

    def renameClass(self) -> None:
        """Ask for another name of the class that is shown."""
        before = str(self.choice.currentData())
        self._ask_name("Rename class", before, lambda x, n: x.rename_class(before, n))

    def _ask_name(
        self, title: str, name: str, use: Callable[[ObjectClassAnnotation, str], None]
    ) -> None:
        """Ask for the name of a class, and use it."""
        if self._layer is None:
            return
        try:
            classes = begin_classes(self._annotations, self._layer)
            question = "Name of the class:"
            name, is_given = QInputDialog.getText(self, title, question, text=name)
            if is_given:
                use(classes, name.strip())
        except ValueError as error:
            self.reported.emit(str(error))

    def undo(self) -> None:
        """Take the last class back that an object got."""
        if self.classes is not None and self.classes.can_undo:
            self._report_class(*self.classes.undo())

    # What is seen.

    def refresh(self, _: Any = None) -> None:
        """Show the classes as they are now."""
        now, classes = self._now, self.classes
        enable_if(self._layer is not None, self, "")
        can_undo = classes is not None and classes.can_undo
        enable_if(can_undo, self.back, "No object got a class since this was opened.")
        if now is self._shown:
            return
        self._shown = now
        with QSignalBlocker(self.choice):
            self.choice.clear()
            self.choice.addItem("no class", "")
            for number, item in enumerate(now.classes, 1):
                key = f"{number}  " if number <= KEYS else ""
                swatch = make_swatch(item.color)
                self.choice.addItem(swatch, f"{key}{item.name}", item.name)
        self._show_class()

    def _show_class(self) -> None:
        now = self._shown or ObjectClasses()
        at = self.choice.findData(now.class_of.get(self._object, ""))
        with QSignalBlocker(self.choice):
            self.choice.setCurrentIndex(max(at, 0))
        enable_if(at > 0, self.rename, "Choose an object of the class first.")
