"""Classes of the selected labels: choose, add, change, share."""

from __future__ import annotations

import html
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qtpy.compat import isalive
from qtpy.QtCore import QSignalBlocker, Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import (
    QComboBox,
    QFileDialog,
    QFormLayout,
    QGridLayout,
    QInputDialog,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.errors import error_text
from napari_ngff.labels.label_classes import LabelClass, dump_classes, load_classes
from napari_ngff.store.write.replace_file import replace_file
from napari_ngff.viewer.browsing.field_labels import ChangedFields, label_name
from napari_ngff.viewer.painting.layer_classes import (
    classes_of_layer,
    count_voxels,
    is_estimated,
)
from napari_ngff.viewer.services.latest_task import LatestTask
from napari_ngff.viewer.services.notices import count_noun, shorten_name
from napari_ngff.viewer.services.window import Window, attempt_work
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.activity_bar import FieldsBar
from napari_ngff.widgets.annotate.class_table import ClassTable
from napari_ngff.widgets.connections import (
    NO_LABELS,
    Connections,
    WidgetTasks,
    alive_check,
    enable_if,
    fill_layout,
    make_buttons,
    why_fixed,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.components import ViewerModel

    from napari_ngff.viewer.browsing.positions import Position
    from napari_ngff.viewer.painting.paint import OMEZarrLabels

FILES = "Classes (*.json)"
EVERYTHING, BACKGROUND = "everything", "background only"

NAMED = "Choose a label without a name: press M for a new one."

KEEPING = ("Count", "Export…")
"""Buttons that change no class, so that labels that are read-only have them too."""

UNDO, RENAME = "undo", "rename"
"""Links in a report: put a removed class back; rename a class in all fields."""


class ClassPage(QWidget):
    """The table of classes, and buttons that change them."""

    reported = Signal(str)
    """Emitted with a message for the user, such as why something failed."""

    def __init__(self, viewer: ViewerModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._layer: OMEZarrLabels | None = None
        self._unnamed: int | None = None  # label of a new class until it has a name
        self._new_name: tuple[str, tuple[str, str]] | None = None  # and of which labels
        self._tasks = WidgetTasks(self)
        self._following = Connections(self)
        self._search = LatestTask(alive_check(self))  # for a label of a new class
        self._removed: tuple[LabelClass, int] | None = None
        # Whether the last report is of these labels alone.
        self._has_reported = False
        self.table = ClassTable(self)
        self.table.rows.renamed.connect(self._on_renamed)
        self.over = QComboBox(self)
        self.over.setAccessibleName("Draw over")
        self.over.setToolTip("What the brush, the bucket and the polygon replace.")
        self.over.activated.connect(self._on_over)
        buttons = make_buttons(
            self,
            ("&Add class", "A new class, painted with at once.", self.addClass),
            (
                "Name label",
                "Makes the label in hand a class: its pixels get a name.",
                self.nameLabel,
            ),
            (
                "Remove",
                "Removes the class from the list. Its pixels stay.",
                self.removeClass,
            ),
            ("&Merge into…", "Makes all its pixels another class.", self.mergeClass),
            ("&Up", "The first nine have a number key each.", self.moveUp),
            ("Dow&n", "The first nine have a number key each.", self.moveDown),
            ("Coun&t", "Counts the pixels of each class.", self.countPixels),
            (
                "E&xport…",
                "Saves names and colours for other images.",
                self.exportClasses,
            ),
            ("I&mport…", "Adds names and colours of other images.", self.importClasses),
        )
        self.buttons = {button.text().replace("&", ""): button for button in buttons}
        form = QFormLayout()
        form.addRow("Draw over", self.over)
        layout = QVBoxLayout(self)
        # Four pixels below the tabs; the dock itself has margins at the sides.
        layout.setContentsMargins(0, 4, 0, 0)
        grid = QGridLayout()
        for number, button in enumerate(buttons):
            grid.addWidget(button, number // 3, number % 3)
        fill_layout(layout, self.table, grid, form, wide=self.table)
        self.setLayer(None)

    def setLayer(self, layer: OMEZarrLabels | None) -> None:
        """Show the classes of another layer."""
        self._following.end()
        follow = self._following.connect
        self._layer = layer
        self.classes = classes_of_layer(layer) if layer is not None else None
        classes = self.classes
        if layer is not None:
            follow(layer.events.editable, self.refreshChoices)
            follow(layer.edited, self._on_edited)
        self._forget_counts()
        self.table.rows.setClasses(classes)
        if classes is not None:
            follow(classes.changed, self.table.rows.refreshRows)
            follow(classes.changed, self.refreshChoices)
            follow(classes.labels_replaced, self._forget_counts)
        self.refreshChoices()

    def _forget_counts(self) -> None:
        """Drop a count, and a removed class: they are of other labels."""
        self._tasks.cancel_others()
        self._search.cancel()
        if self.table.rows.counts:
            self.table.rows.setCounts({})
        if self._has_reported:
            self._has_reported, self._removed = False, None
            self.reported.emit("")

    def refreshChoices(self, event: Any = None) -> None:
        """Enable the buttons that can do something, and list what may be drawn over."""
        classes = self.classes
        label = self._layer.selected_label if self._layer is not None else 0
        is_new = label > 0 and classes is not None and classes.selected is None
        # Classes can be added to an empty list; all else needs one to work on.
        empty = "" if classes is not None and classes.items else "Add a class first."
        lacks = {"Add class": "", "Import…": "", "Name label": "" if is_new else NAMED}
        for title, button in self.buttons.items():
            lack = why_fixed(self._layer, title not in KEEPING) or lacks.get(
                title, empty
            )
            enable_if(not lack, button, lack)
        with QSignalBlocker(self.over):
            self.over.clear()
            self.over.addItem(EVERYTHING, None)
            self.over.addItem(BACKGROUND, 0)
            for label_class in classes.items if classes is not None else ():
                self.over.addItem(f"{label_class.name} only", label_class.value)
            only = self._layer.only_over if self._layer is not None else None
            # -1, for a class that was removed, is shown as "everything".
            self.over.setCurrentIndex(max(0, self.over.findData(only)))
        enable_if(classes is not None, self.over, NO_LABELS)
        self.table.selectPaintedClass()

    def _on_edited(self) -> None:
        if self.table.rows.counts:
            self.reported.emit("Counted before the latest strokes.")

    def addClass(self) -> None:
        """Add a class with a label that no pixel has, and let its name be typed."""
        layer = self._layer
        if layer is None:
            return
        used = layer.canvas.used
        if used.is_known:
            self._add_class()
        else:
            self._show_report("Looking for a label that no pixel has…")
            self._search.start(
                lambda turn: used.look_at_all(lambda: not turn.is_newest()),
                self._add_class,
                lambda reason: self.reported.emit(f"No class is added: {reason}"),
            )

    def _add_class(self, found: Any = None) -> None:
        if self.classes is not None:
            if found is not None:
                self._show_report("")
            self._edit_name(self.classes.add_class())

    def _edit_name(self, label_class: LabelClass) -> None:
        """Let the name of a new class be typed, which is made up."""
        self._unnamed = label_class.value
        self.table.editName(label_class.value)

    def nameLabel(self) -> None:
        """Make the label that is painted with a class; its pixels stay."""
        if self.classes is not None and self._layer is not None:
            value = int(self._layer.selected_label)
            try:
                self._edit_name(self.classes.add_class(value=value))
            except ValueError as error:
                self.reported.emit(str(error))

    def removeClass(self) -> None:
        """Take the selected class off the list."""
        label_class = self.table.currentClass()
        if self.classes is not None and label_class is not None:
            row = self.table.rows.rowOf(label_class.value)
            self.classes.remove_class(label_class.value)
            self._removed, self._has_reported = (label_class, row), True
            name = html.escape(label_class.name)
            kept = f"Its pixels keep label {label_class.value}."
            link = self._make_link(UNDO, "Undo")
            self.reported.emit(f"{name} is off the list. {kept} {link}")

    def _make_link(self, target: str, text: str) -> str:
        # Qt's own blue cannot be read on a dark theme.
        color = self.table.palette().text().color().name()
        return f'<a href="{target}" style="color: {color}">{text}</a>'

    def followLink(self, link: str) -> None:
        """Do what a link in a report offers."""
        if link == UNDO:
            self._put_back()
        elif link == RENAME:
            self._rename_in_fields()

    def _put_back(self) -> None:
        """Put back the class that was removed last."""
        removed, self._removed = self._removed, None
        if self.classes is None or removed is None:
            return
        label_class, row = removed
        try:
            self.classes.put_back(label_class, row)
        except ValueError as error:
            self.reported.emit(f"Not put back: {error}")
        else:
            self.reported.emit(f"{label_class.name} is on the list again.")

    def _on_renamed(self, before: LabelClass, name: str) -> None:
        """Offer to rename a class in the other fields: each field has its own list."""
        is_new, self._unnamed = before.value == self._unnamed, None
        browser, layer = session_of(self._viewer).browser, self._layer
        labels = None if layer is None else label_name(layer)
        if (
            is_new
            or browser is None
            or labels is None
            or not browser.layers.owns_layer(layer)
        ):
            return
        self._new_name, self._has_reported = (labels, (before.name, name)), True
        link = self._make_link(RENAME, "Rename it in all fields")
        text = f"'{before.name}' is renamed to '{name}' in this field."
        self.reported.emit(f"{html.escape(text, quote=False)} {link}")

    def _rename_in_fields(self) -> None:
        browser, wanted = session_of(self._viewer).browser, self._new_name
        if browser is None or wanted is None:
            return
        self._new_name, bar = None, FieldsBar(desc="Rename a class", total=1)
        rename = partial(browser.rename_class, *wanted, bar.report)
        work = partial(attempt_work, rename)
        show = partial(self._show_renamed, browser.name_field, wanted[1], bar)
        Window.current.run_work(work, show)

    def _show_report(self, text: str) -> None:
        if isalive(self):  # type: ignore[no-untyped-call]
            self._has_reported = True
            self.reported.emit(text)

    def _show_renamed(
        self,
        name_field: Callable[[Position], str],
        names: tuple[str, str],
        bar: FieldsBar,
        result: ChangedFields | str,
    ) -> None:
        bar.close()
        if isinstance(result, str):
            title = f"Not renamed: {shorten_name(names[0])}"
            Window.current.show_messages((result,), title)
            return
        count = count_noun(len(result.changed), "other field")
        text = f"'{names[0]}' is renamed to '{names[1]}' in {count}."
        if bar.is_canceled:
            text = f"Cancelled. {text}"
        if result.unchanged:
            fields = ", ".join(map(name_field, result.unchanged))
            text += f" These have classes of both names, and keep them: {fields}."
        self._show_report(html.escape(text, quote=False))
        result.show_failures(name_field, "Not renamed")

    def moveUp(self) -> None:
        """Move the selected class up."""
        self._move_class(-1)

    def moveDown(self) -> None:
        """Move the selected class down."""
        self._move_class(1)

    def _move_class(self, step: int) -> None:
        label_class = self.table.currentClass()
        if self.classes is not None and label_class is not None:
            row = self.table.rows.rowOf(label_class.value)
            self.classes.move_class(label_class.value, max(0, row + step))

    def mergeClass(self) -> None:
        """Ask which class the selected one becomes."""
        merged, classes = self.table.currentClass(), self.classes
        if classes is None or merged is None:
            return
        others = [other for other in classes.items if other != merged]
        names = [f"{other.name} ({other.value})" for other in others]
        if not names:
            self.reported.emit("There is no other class.")
            return
        name, chosen = QInputDialog.getItem(
            self,
            "Merge classes",
            f"All pixels of {merged.name} become:",
            names,
            0,
            False,
        )
        if chosen:
            try:
                classes.merge_class(merged.value, others[names.index(name)].value)
            except ValueError as error:
                self.reported.emit(str(error))

    def countPixels(self) -> None:
        """Count the pixels of each class in a worker."""
        layer = self._layer
        if layer is not None:
            self._has_reported = True
            self.reported.emit("Counting…")
            self._tasks.start_task(
                "count", lambda: count_voxels(layer), self._show_counts
            )

    def _show_counts(self, counts: dict[int, int] | str) -> None:
        if isinstance(counts, str):
            self.reported.emit(counts)
        else:
            about = self._layer is not None and is_estimated(self._layer)
            self.table.rows.setCounts(counts, estimated=about)
            labels = "1 label is" if len(counts) == 1 else f"{len(counts)} labels are"
            how = " Counted at a coarser level: the numbers are estimates."
            self.reported.emit(f"{labels} painted.{how if about else ''}")

    def exportClasses(self) -> None:
        """Ask for a file, and write the list."""
        if self.classes is None:
            return
        path, _ = QFileDialog.getSaveFileName(self, "Export classes", "", FILES)
        if path:
            try:
                # Written aside first: a full disk leaves the list that was there.
                replace_file(path, dump_classes(self.classes.items).encode())
            except OSError as error:
                self.reported.emit(f"Not exported: {error_text(error)}")

    def importClasses(self) -> None:
        """Ask for a file, and add its list."""
        if self.classes is None:
            return
        path, _ = QFileDialog.getOpenFileName(self, "Import classes", "", FILES)
        if path:
            try:
                text = Path(path).read_text(encoding="utf-8")
                self.classes.share_classes(load_classes(text))
            except (OSError, ValueError) as error:
                self.reported.emit(f"Not imported: {error_text(error)}")

    def _on_over(self, index: int) -> None:
        if self.classes is not None:
            self.classes.draw_over(self.over.itemData(index))
