"""The annotate dock: classes or objects of the selected labels, by their kind.

Its bar leads from field to field, and shows the state of each field's annotation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QSignalBlocker, Qt, QUrl, Signal  # type: ignore[attr-defined]
from qtpy.QtGui import QDesktopServices
from qtpy.QtWidgets import (
    QComboBox,
    QFrame,
    QGroupBox,
    QInputDialog,
    QProgressBar,
    QScrollArea,
    QSizePolicy,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)
from superqt import QElidingLabel

from napari_ngff.errors import OMEZarrError
from napari_ngff.labels.field_states import STATES
from napari_ngff.metadata.model import LabelKind
from napari_ngff.viewer.annotations.sidecars import file_text, folder_of
from napari_ngff.viewer.browsing.annotation import AnnotationRound, labels_in_hand
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.session import begin_annotation, session_of
from napari_ngff.widgets.annotate.class_page import ClassPage
from napari_ngff.widgets.annotate.object_page import ObjectPage
from napari_ngff.widgets.annotate.section_row import SectionRow
from napari_ngff.widgets.browser.host import show_browser
from napari_ngff.widgets.canvas_keys import leave_space_key
from napari_ngff.widgets.connections import (
    NO_LABELS,
    Connections,
    call_soon,
    choice_box,
    connect_while_alive,
    enable_if,
    fill_layout,
    filled_row,
    make_buttons,
    wrapping_label,
    wrapping_row,
)
from napari_ngff.widgets.docking import place_dock
from napari_ngff.widgets.installation import install_widgets
from napari_ngff.widgets.new_labels_form import show_new_labels
from napari_ngff.widgets.status_signs import canvas_of
from napari_ngff.widgets.theme_look import ThemeFollower

if TYPE_CHECKING:
    from napari.components import ViewerModel


OTHER_KINDS = (LabelKind.OBJECTS, LabelKind.CLASSES)
"""What labels become, by the number of the page that is shown."""

UNSAVED = "These labels cannot be changed: this holds until napari is closed."

SMALLEST = 28
"""Least width of a button with one arrow, in pixels, to be hit easily."""

WHOLE, NEW_REGIONS = "Whole image", "New regions…"
REGIONS = "The arrows go through these regions, then to the next field."


class RoundBar(QGroupBox):
    """Steps through fields, while a plate, a well or a collection is browsed."""

    reported = Signal(str)
    """Emitted with why annotation could not begin, for the user."""

    def __init__(self, viewer: ViewerModel, parent: QWidget | None = None) -> None:
        super().__init__("Fields", parent)
        self._viewer = viewer
        self.annotation: AnnotationRound | None = None
        self._regions = session_of(viewer).regions
        self._following, self._following_round = Connections(self), Connections(self)
        self.begin, self.previous, self.next, self.todo, self.browse = make_buttons(
            self,
            (
                "Annotate all fi&elds",
                "The same labels and classes in all fields, and how far each is.",
                self.startRound,
            ),
            ("◀", "Previous field, or region (,)", self.goToPrevious),
            ("▶", "Next field, or region (.)", self.goToNext),
            (
                "Next unannotated",
                "Go to the next field that is still to do.",
                self._on_todo,
            ),
            (
                "Map",
                "Shows the map of the plate, or the list of images.",
                self._on_browse,
            ),
        )
        self.previous.setAccessibleName("Previous field")
        self.next.setAccessibleName("Next field")
        for button in (self.previous, self.next):
            button.setMinimumWidth(SMALLEST)
        self.regions = choice_box(self, "Regions", REGIONS)
        self.state = QComboBox(self)
        self.state.addItems(STATES)
        self.state.setAccessibleName("State of the field")
        self.state.setToolTip(
            "State of this field, saved in a file next to the plate.\n"
            "Shift+D: done. Shift+F: flagged."
        )
        self.place = wrapping_label(self)
        self.bar = QProgressBar(self)
        self.bar.setFormat("%v of %m done")
        self.bar.setAccessibleName("Fields that are done")
        fill_layout(
            QVBoxLayout(self),
            self.begin,
            # The name of the field gets the room, so the arrows stay where they are.
            filled_row(self.previous, self.place, self.next, wide=self.place),
            self.regions,
            wrapping_row(self.todo, self.browse, self.state),
            self.bar,
        )
        self._connect_signals()
        self._on_browsing(session_of(viewer).browser)

    def _connect_signals(self) -> None:
        # `activated` is the user alone; the box also changes with each field.
        self.state.activated.connect(self._on_state)
        self.regions.activated.connect(self._on_regions)
        session = session_of(self._viewer)
        connect_while_alive(self._regions.changed, self, self.showRound)
        connect_while_alive(session.browsing, self, self._on_browsing)
        changed, layers = session.annotations.changed, self._viewer.layers
        connect_while_alive(changed, self, self._regions.follow)
        for event in (layers.selection.events.active, layers.events.removed):
            connect_while_alive(event, self, self._on_selected)
        self._regions.follow()

    def _on_browsing(self, browser: Any = None) -> None:
        # A round belongs to one plate; another plate ends it.
        if self.annotation is not None and self.annotation.browser is not browser:
            self._following_round.end()
            self.annotation.close()
            self.annotation = None
        self._following.end()
        if browser is not None:
            self._following.connect(browser.position_changed, self.showRound)
            self._following.connect(browser.busy, self._regions.follow)
        self.showRound()

    def _on_selected(self, event: Any = None) -> None:
        self._regions.follow()
        # Other labels may be annotated from now on.
        self.showRound()

    def startRound(self) -> None:
        """Begin in the field that is shown, with labels named as those in hand.

        Without any, with those of the fields that were begun before.
        """
        try:
            name = labels_in_hand(self._viewer)
            self.annotation = begin_annotation(self._viewer, name)
        except (ValueError, OMEZarrError, OSError) as error:
            self.reported.emit(str(error))
            return
        self._following_round.end()
        self._following_round.connect(self.annotation.changed, self.showRound)
        self.showRound()

    def showRound(self) -> None:
        """Show the field; while all are annotated, its state and how many are done."""
        annotation = self.annotation
        browser = session_of(self._viewer).find_browsed()
        self._show_regions()
        other = "" if annotation is None else labels_in_hand(self._viewer)
        is_other = annotation is None or other not in ("", annotation.name)
        self.begin.setVisible(browser is not None and is_other)
        self.browse.setVisible(browser is not None)
        for widget in (self.todo, self.state, self.bar):
            widget.setVisible(annotation is not None)
        if browser is None:
            return
        position = browser.position
        title = "" if position is None else browser.name_field(position)
        places = title or "Plate overview", self._regions.place
        self.place.setText("\n".join(filter(None, places)))
        name = "" if annotation is None else annotation.name
        self.setTitle(f"Fields: {name}" if name else "Fields")
        if annotation is None:
            return
        with QSignalBlocker(self.state):
            self.state.setCurrentText(annotation.state)
        # An overview shows many fields, which have no state in common.
        enable_if(position is not None, self.state, "Show a field to choose its state.")
        counts, run = annotation.progress, annotation.run
        plate = browser.node.metadata.plate
        self.bar.setFormat("%v of %m done")
        if plate is not None and run is not None:
            self.bar.setFormat(f"%v of %m done, {plate.name_acquisition(run)}")
        # A bar from 0 to 0 would move as if something was being read.
        self.bar.setMaximum(max(1, len(annotation.fields)))
        self.bar.setValue(counts["done"])
        self.bar.setToolTip(", ".join(f"{n} {state}" for state, n in counts.items()))

    def _show_regions(self) -> None:
        """Show the tables of regions of the image on screen."""
        regions = self._regions
        browsed = session_of(self._viewer).find_browsed()
        self.setVisible(browsed is not None or bool(regions.shown[0]))
        self.setTitle("Regions")
        self.place.setText(regions.place)
        self.regions.setVisible(bool(regions.shown[0]))  # an overview has none
        with QSignalBlocker(self.regions):
            self.regions.clear()
            # New ones are seen also where the list is long.
            self.regions.addItems([WHOLE, NEW_REGIONS, *regions.names])
            self.regions.setCurrentText(regions.chosen)  # the first, if "" is

    def _on_regions(self, index: int) -> None:
        name, is_new = self.regions.currentText(), index == 1
        if is_new:
            name, _ = QInputDialog.getText(self, name, "Name of the regions:")
        self._regions.choose(name.strip() if index else "", is_new=is_new)
        self.showRound()

    def goToNext(self) -> None:
        """Go to the next region or field."""
        self._regions.step(1)

    def goToPrevious(self) -> None:
        """Go to the previous region or field."""
        self._regions.step(-1)

    def _on_todo(self) -> None:
        if self.annotation is not None:
            self.annotation.next_to_do()

    def _on_browse(self) -> None:
        show_browser(self._viewer)

    def _on_state(self, index: int) -> None:
        if self.annotation is not None:
            self.annotation.set_state(STATES[index])


class AnnotateDock(QWidget):
    """Shows the controls of the labels that are selected in the viewer."""

    def __init__(
        self, napari_viewer: ViewerModel, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        install_widgets()
        # napari hands docks a proxy, whose layers are others at each look.
        napari_viewer = getattr(napari_viewer, "__wrapped__", napari_viewer)
        self._viewer = napari_viewer
        session_of(napari_viewer).take_number_keys()
        self._layer: OMEZarrLabels | None = None
        self._shown_kind: LabelKind | None = None
        self._following, self._following_saver = Connections(self), Connections(self)
        self.title = wrapping_label(self, NO_LABELS)
        self.path = PathLabel(self)
        self.make, self.kind = make_buttons(
            self,
            (
                "New la&bels…",
                "Empty labels for an image, painted on at once.",
                self._on_make,
            ),
            ("", "Another meaning of the labels. No pixel changes.", self._on_kind),
        )
        self.classes = ClassPage(self._viewer, self)
        self.objects = ObjectPage(napari_viewer, self)
        self.pages = QStackedWidget(self)
        # Else napari adds an empty space below.
        self.pages.setSizePolicy(
            QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding
        )
        self.kind.hide()
        self.sections = SectionRow(napari_viewer, self)
        self.round = RoundBar(napari_viewer, self)
        self.status = wrapping_label(self)
        self._build_layout()
        leave_space_key(self)
        canvas = canvas_of(napari_viewer) or self  # without a window there is none
        # The window has the keyboard until the canvas is clicked; a list would search
        # its rows for a key.
        for watched in (self.objects.list, canvas, canvas.window() or self, self):
            watched.installEventFilter(self.objects)
        self._connect_signals()
        self._follow_selection()
        place_dock(napari_viewer, self)
        ThemeFollower(self, napari_viewer)
        # A report of two lines must not move the buttons under the mouse.
        self.status.setMinimumHeight(2 * self.fontMetrics().lineSpacing())

    def showReport(self, text: str) -> None:
        """Show what happened; Tab goes there only while there is a link."""
        flags = Qt.TextInteractionFlag.TextSelectableByMouse
        if "<a " in text:
            flags |= Qt.TextInteractionFlag.LinksAccessibleByMouse
            flags |= Qt.TextInteractionFlag.LinksAccessibleByKeyboard
        self.status.setTextInteractionFlags(flags)
        self.status.setText(text)

    def _build_layout(self) -> None:
        self.showReport("")
        for page in (self.classes, self.objects):
            # Beside a browser there may be little room.
            area = QScrollArea(self)
            area.setFrameShape(QFrame.Shape.NoFrame)
            area.setWidgetResizable(True)
            area.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # Tab goes to its controls
            area.setWidget(page)
            self.pages.addWidget(area)
        fill_layout(
            QVBoxLayout(self),
            filled_row(self.title, self.kind, self.make, wide=self.title),
            self.path,
            self.pages,
            self.sections,
            self.round,
            self.status,
            wide=self.pages,
        )

    def _connect_signals(self) -> None:
        # No lambdas: Qt would keep what they hold, and so this dock, for ever.
        for page in (self.classes, self.objects, self.sections, self.round):
            page.reported.connect(self.showReport)
        self.status.linkActivated.connect(self.classes.followLink)
        layers = self._viewer.layers
        # Labels are deselected before they are gone.
        for event in (layers.selection.events.active, layers.events.removed):
            connect_while_alive(event, self, self._follow_selection)

    def _follow_selection(self, event: Any = None) -> None:
        """Show the selected labels; they stay while a layer of another kind is."""
        active = self._viewer.layers.selection.active
        # Labels that were removed are let go of, although nothing else is selected yet.
        if self._layer is not None and self._layer not in self._viewer.layers:
            self._show_labels(None)
        if isinstance(active, OMEZarrLabels) and active is not self._layer:
            self._show_labels(active)

    def _show_labels(self, layer: OMEZarrLabels | None) -> None:
        self._following.end()
        self._layer = layer
        if layer is not None:
            self._following.connect(layer.events.name, self._on_name)
            self._following.connect(layer.events.data, self._on_data)
            self._following.connect(classes_of_layer(layer).changed, self._follow_kind)
        self.showReport("")
        self._show_page()
        self.sections.endFilling()
        self._show_place()

    def _find_kind(self) -> LabelKind | None:
        return None if self._layer is None else classes_of_layer(self._layer).kind

    def _follow_kind(self, _: Any = None) -> None:
        if self._find_kind() is not self._shown_kind:
            self._show_page()

    def _show_page(self) -> None:
        """Show the page for the kind of the labels; the other one lets go of them."""
        self._shown_kind = self._find_kind()
        number = int(self._shown_kind is LabelKind.OBJECTS)
        pages = self.classes, self.objects
        pages[1 - number].setLayer(None)
        pages[number].setLayer(self._layer)
        self.pages.setCurrentIndex(number)
        self.kind.setVisible(self._layer is not None)
        self.kind.setText(f"To {OTHER_KINDS[number]}")
        self._on_name()

    def setKind(self, kind: str) -> None:
        """Let each label be a class, or one object."""
        layer = self._layer
        if layer is not None and kind != self._shown_kind:
            classes_of_layer(layer).change_kind(LabelKind(kind))
            self.showReport(UNSAVED if layer.refusal else "")

    def _on_kind(self) -> None:
        self.setKind(OTHER_KINDS[self.pages.currentIndex()])

    def _on_data(self, event: Any = None) -> None:
        # The layer shows labels of another field, and gets their saver only after this.
        call_soon(self._show_place)

    def _show_place(self, _: Any = None) -> None:
        """Show the file of the labels, which changes with the field and the save."""
        layer = self._layer
        self._on_name()  # with the field
        if layer is None:
            self.path.setPath("", "")
        else:
            self.path.setPath(file_text(layer), folder_of(layer))
        if layer is not None and layer.saver is not None:
            # The saver changes with the field, so each look connects the one of now.
            self._following_saver.end()
            self._following_saver.connect(layer.saver.saved, self._show_place)

    def _on_make(self) -> None:
        show_new_labels(self._viewer)

    def _on_name(self, event: Any = None) -> None:
        layer, browser = self._layer, session_of(self._viewer).browser
        field = "" if layer is None or browser is None else browser.title_of(layer)
        name = NO_LABELS if layer is None else f"{layer.name} - {self._shown_kind}"
        self.title.setText(f"{name} of {field}" if field else name)
        font = self.title.font()
        font.setBold(layer is not None)
        self.title.setFont(font)


MARGIN = 8
"""Pixels beside a text, which the stylesheet leaves."""


class PathLabel(QElidingLabel):
    """The end of a path, with the field and the labels; a click shows its folder."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._folder = ""
        self.setElideMode(Qt.TextElideMode.ElideLeft)
        self.setEllipsesWidth(MARGIN)
        self.setAccessibleName("Where the labels are saved")

    def setPath(self, path: str, folder: str) -> None:
        """Show another path; a click shows the folder, if there is one."""
        self._folder = folder
        self.setText(path)
        self.setVisible(bool(path))
        self.setToolTip(f"{path}\nClick to show the folder." if folder else path)

    def mouseReleaseEvent(self, event: Any) -> None:
        """Show the folder in the system's file manager."""
        if self._folder:
            QDesktopServices.openUrl(QUrl.fromLocalFile(self._folder))
