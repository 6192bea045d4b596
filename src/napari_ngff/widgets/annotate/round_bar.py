"""Goes from field to field, and shows the state of each field's annotation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.compat import isalive
from qtpy.QtCore import QSignalBlocker, Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QGroupBox,
    QLabel,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.errors import OMEZarrError
from napari_ngff.labels.label_classes import STATES
from napari_ngff.viewer import settings
from napari_ngff.viewer.browsing.annotation import begin_annotation
from napari_ngff.viewer.browsing.field_labels import label_name
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import show_browser
from napari_ngff.widgets.wrapping_row import WrappingRow

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.viewer.browsing.annotation import AnnotationRound
    from napari_ngff.viewer.browsing.browser import Browser
    from napari_ngff.viewer.browsing.positions import Position

__all__ = ["RoundBar"]


SMALLEST = 28
"""Least width of a button with one arrow, in pixels, to be hit easily."""


class RoundBar(QGroupBox):
    """Steps through fields, while a plate, a well or a collection is browsed."""

    reported = Signal(str)
    """Emitted with why annotation could not begin, for the user."""

    def __init__(self, viewer: ViewerModel, parent: QWidget | None = None) -> None:
        super().__init__("Fields", parent)
        self._viewer = viewer
        self.annotation: AnnotationRound | None = None
        self._browser: Browser | None = None
        self.begin = QPushButton("Annotate all fi&elds", self)
        self.begin.setToolTip(
            "The same labels and classes in every field, and how far each field is."
        )
        self.previous = QPushButton("◀", self)
        self.previous.setToolTip("Previous field (,)")
        self.previous.setAccessibleName("Previous field")
        self.next = QPushButton("▶", self)
        self.next.setToolTip("Next field (.)")
        self.next.setAccessibleName("Next field")
        for button in (self.previous, self.next):
            button.setMinimumWidth(SMALLEST)
        self.todo = QPushButton("Next unannotated", self)
        self.todo.setToolTip("Go to the next field that is still to do.")
        self.browse = QPushButton("Map", self)
        self.browse.setToolTip("Shows the map of the plate, or the list of images.")
        self.state = QComboBox(self)
        self.state.addItems(STATES)
        self.state.setAccessibleName("State of the field")
        self.state.setToolTip(
            "State of this field, saved in a file next to the plate.\n"
            "Shift+D: done. Shift+F: flagged."
        )
        self.autosave = QCheckBox("Save when moving on", self)
        self.autosave.setChecked(settings.saves_when_moving_on())
        self.autosave.setToolTip(
            "Labels are saved before another field is shown, whether you annotate all"
            " fields or not.\nIf off, you are asked each time."
        )
        self.place = QLabel(self)
        self.bar = QProgressBar(self)
        self.bar.setFormat("%v of %m done")
        self.bar.setAccessibleName("Fields that are done")
        self._build_layout()
        self._connect_signals()
        self._on_browsing(session_of(viewer).browser)

    def _build_layout(self) -> None:
        layout, way, how = QVBoxLayout(self), WrappingRow(), WrappingRow()
        # The name of the field gets the room, so the arrows stay where they are.
        way.addGroup(self.previous, self.place, self.next, grows=self.place)
        way.addGroup(self.todo, self.browse)
        self.place.setWordWrap(True)
        how.addGroup(self.state, grows=self.state)
        how.addGroup(self.autosave)
        layout.addWidget(self.begin)
        layout.addLayout(way)
        layout.addLayout(how)
        layout.addWidget(self.bar)

    def _connect_signals(self) -> None:
        self.begin.clicked.connect(self.startRound)
        self.previous.clicked.connect(self.goToPrevious)
        self.next.clicked.connect(self.goToNext)
        self.todo.clicked.connect(self._on_todo)
        self.browse.clicked.connect(self._on_browse)
        # `activated` is the user alone; the box also changes with each field.
        self.state.activated.connect(self._on_state)
        self.autosave.toggled.connect(self._on_autosave)
        session_of(self._viewer).browsing.connect(self._on_browsing)
        settings.changed.connect(self._on_settings)

    def _on_browsing(self, browser: Any = None) -> None:
        # A round belongs to one plate; another plate ends it.
        if self.annotation is not None and self.annotation.browser is not browser:
            self.annotation.changed.disconnect(self._on_changed)
            self.annotation.close()
            self.annotation = None
        self._follow_browser()
        self.showRound()

    def _follow_browser(self) -> None:
        """Show the field of the plate that is browsed now."""
        before, self._browser = self._browser, session_of(self._viewer).browser
        if before is not self._browser:
            if before is not None:
                before.position_changed.disconnect(self._on_position, missing_ok=True)
            if self._browser is not None:
                self._browser.position_changed.connect(self._on_position)

    def _on_position(self, position: Position | None) -> None:
        if isalive(self):  # type: ignore[no-untyped-call]
            self.showRound()

    def startRound(self) -> None:
        """Begin in the field that is shown, with labels named as the selected ones.

        Without any, with those of the fields that were begun before.
        """
        active = self._viewer.layers.selection.active
        try:
            self.annotation = begin_annotation(self._viewer, label_name(active) or "")
        except (ValueError, OMEZarrError, OSError) as error:
            self.reported.emit(str(error))
            return
        self.annotation.changed.connect(self._on_changed)
        self._on_changed()

    def _on_changed(self) -> None:
        self.showRound()

    def showRound(self) -> None:
        """Show the field; while all are annotated, its state and how many are done."""
        annotation, browser = self.annotation, self._browser
        self.setVisible(browser is not None)
        self.begin.setVisible(annotation is None)
        for widget in (self.todo, self.state, self.bar):
            widget.setVisible(annotation is not None)
        if browser is None:
            return
        position = browser.position
        title = "" if position is None else browser.name_field(position)
        self.place.setText(title or "Plate overview")
        if annotation is None:
            return
        with QSignalBlocker(self.state):
            self.state.setCurrentText(annotation.state)
        # An overview shows many fields, which have no state in common.
        self.state.setEnabled(position is not None)
        counts = annotation.progress
        # A bar from 0 to 0 would move as if something was being read.
        self.bar.setMaximum(max(1, len(annotation.fields)))
        self.bar.setValue(counts["done"])
        self.bar.setToolTip(", ".join(f"{n} {state}" for state, n in counts.items()))

    def goToNext(self) -> None:
        """Go to the next field."""
        if self._browser is not None:
            self._browser.step_field(1)

    def goToPrevious(self) -> None:
        """Go to the previous field."""
        if self._browser is not None:
            self._browser.step_field(-1)

    def _on_todo(self) -> None:
        if self.annotation is not None:
            self.annotation.next_to_do()

    def _on_browse(self) -> None:
        show_browser(self._viewer)

    def _on_state(self, index: int) -> None:
        if self.annotation is not None:
            self.annotation.set_state(STATES[index])

    def _on_settings(self, _: str = "", value: Any = None) -> None:
        if isalive(self):  # type: ignore[no-untyped-call]
            self.autosave.setChecked(settings.saves_when_moving_on())

    def _on_autosave(self, on: bool) -> None:
        if on != settings.saves_when_moving_on():
            settings.set_saves_when_moving_on(on)
