"""The form *Rebuild pyramid*: makes the coarser levels of an image again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.compat import isalive
from qtpy.QtCore import QSignalBlocker, QTimer
from qtpy.QtWidgets import (
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.store.convert.rebuild_preview import RebuildWords
from napari_ngff.viewer.converting.layer_sources import image_source, source_choices
from napari_ngff.viewer.converting.rebuild_task import RebuildTask
from napari_ngff.widgets.converting.field_grid import FieldGrid, wrapped_label
from napari_ngff.widgets.converting.job_bar import JobBar, watch_jobs
from napari_ngff.widgets.form_dialog import FormDialog, shown_form
from napari_ngff.widgets.saving.save_progress import may_start
from napari_ngff.widgets.theme_look import ThemeFollower

if TYPE_CHECKING:
    from napari.viewer import Viewer

    from napari_ngff.widgets.colors import ThemeColors

__all__ = ["RebuildForm", "show_rebuild_form"]

TITLE = "Rebuild pyramid"

TYPING = 350
"""Milliseconds after the last key, when the file is looked at."""

WIDE = 560
"""In pixels, for paths."""

METHODS = {
    "As usual: mean for images, nearest or mode for labels": "",
    "Mean (images)": "mean",
    "Mode (labels)": "mode",
    "Nearest": "nearest",
}

MOST_LEVELS = 12
"""Levels to choose from: a pixel of the last stands for 2,048 by 2,048."""


class RebuildForm(QWidget):
    """Asks, shows what it comes to, and follows the work.

    Parameters
    ----------
    task
        Decides everything that is shown.
    """

    def __init__(self, task: RebuildTask, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.task = task
        self.setMinimumWidth(WIDE)
        self.fields = FieldGrid(self)
        self.source = QComboBox(self)
        self.source.setEditable(True)
        self.source.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.method, self.levels = QComboBox(self), QComboBox(self)
        for text, method in METHODS.items():
            self.method.addItem(text, method)
        self.levels.addItem("As many as before", 0)
        for count in range(1, MOST_LEVELS + 1):
            self.levels.addItem(f"{count}", count)
        self.estimate, self.note, self.status = (wrapped_label(self) for _ in range(3))
        self.bar = JobBar(self)
        self.start = QPushButton("Rebuild", self)
        self.open = QPushButton("Open the result", self)
        self.open.setToolTip("The layers of the image are closed, and opened again.")
        self._waiting = QTimer(self)
        self._waiting.setSingleShot(True)
        self._waiting.setInterval(TYPING)
        self._arrange()
        self._connect()
        ThemeFollower(self, task.viewer, self._set_colors)

    def _arrange(self) -> None:
        browse = QPushButton("Browse…", self)
        browse.clicked.connect(self._browse_source)
        self.fields.addField("source", "&Image", self.source, beside=browse)
        self.fields.addField("method", "&Method", self.method)
        self.fields.addField("levels", "&Levels", self.levels)
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(self.open)
        buttons.addWidget(self.start)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 6, 6, 6)
        texts = self.estimate, self.note, self.bar, self.status
        for widget in (self.fields, *texts):
            layout.addWidget(widget)
        layout.addStretch(1)
        layout.addLayout(buttons)
        self.fields.orderTabs((self.bar.cancel, self.open, self.start))

    def _connect(self) -> None:
        self.source.currentTextChanged.connect(self._on_typed)
        for box in (self.method, self.levels):
            box.activated.connect(self.askTask)
        self._waiting.timeout.connect(self.askTask)
        self.start.clicked.connect(self.startTask)
        self.open.clicked.connect(self.openResult)
        self.bar.cancel.clicked.connect(self.task.cancel)
        self.task.changed.connect(self._show_task)

    def leave(self, _: Any = None) -> None:
        """Stop following the task, when the dialog is closed; its work continues."""
        self.task.changed.disconnect(self._show_task, missing_ok=True)

    # --- what the user does

    def words(self) -> RebuildWords:
        """Return what the fields have."""
        source = self.source.currentText().strip()
        levels, method = self.levels.currentData(), self.method.currentData()
        return RebuildWords(source, levels, method)

    def chooseSource(self, choices: list[str]) -> None:
        """Offer sources, and take the first."""
        with QSignalBlocker(self.source):
            self.source.clear()
            self.source.addItems(choices)
        self.askTask()

    def fillFields(self) -> None:
        """Show what the task was asked for before, by another form."""
        words = self.task.words
        with QSignalBlocker(self.source):
            self.source.setEditText(words.source)
        self.levels.setCurrentIndex(self.levels.findData(words.levels))
        self.method.setCurrentIndex(self.method.findData(words.method))
        self._show_task()

    def _on_typed(self, _: Any = None) -> None:
        # It starts only what was looked at.
        self.start.setEnabled(False)
        self._waiting.start()

    def askTask(self, _: Any = None) -> None:
        """Let the task look at what the fields have now."""
        self._waiting.stop()
        self.task.ask(self.words())
        self._show_task()

    def startTask(self) -> None:
        """Rebuild, when painted changes are saved."""
        task = self.task
        if task.can_start and may_start(self, task.unsaved(), "rebuild", needed=True):
            task.start()

    def openResult(self) -> None:
        """Open the image again, in place of its layers."""
        task, dialog = self.task, self.window()
        source = task.words.source
        # A plate keeps its layers: it shows another field by them.
        if not task.is_browsed and not task.close_layers():
            return
        task.viewer.open(source, plugin="napari-ngff")
        if isinstance(dialog, FormDialog) and isalive(dialog):  # type: ignore[no-untyped-call]
            dialog.accept()

    def _browse_source(self) -> None:
        path = QFileDialog.getExistingDirectory(self, "Folder of an image or labels")
        if path:
            self.source.setEditText(path)
            self.askTask()

    # --- what the task decides

    def _show_task(self) -> None:
        if not isalive(self):  # type: ignore[no-untyped-call]
            return
        task = self.task
        self.fields.setEnabled(not task.is_running)
        self.fields.showMistakes(task.mistakes)
        texts = {
            self.estimate: "" if task.is_running else task.estimate,
            self.note: task.note,
            self.status: task.status,
        }
        for label, text in texts.items():
            label.setText(text)
            label.setVisible(bool(text))
        self.bar.showJob(task.job)
        is_done = task.made is not None
        self.start.setVisible(not task.is_running and not is_done)
        self.start.setEnabled(task.can_start)
        self.open.setVisible(is_done)
        if is_done and not self.open.isDefault():
            self.open.setDefault(True)
            self.open.setFocus()
        elif not is_done and not self.start.isDefault():
            self.start.setDefault(True)

    def _set_colors(self, colors: ThemeColors) -> None:
        self.fields.setColors(colors.broken)


def show_rebuild_form(viewer: Viewer) -> RebuildForm:
    """Show the form in a dialog; the work that runs, if there is any."""
    viewer = getattr(viewer, "__wrapped__", viewer)
    form = shown_form(viewer, TITLE)
    if isinstance(form, RebuildForm):
        return form
    task = RebuildTask.running_in(viewer)
    is_new = task is None
    if task is None:
        task = RebuildTask(viewer)
        watch_jobs(task)
    form = RebuildForm(task)
    dialog = FormDialog(viewer, TITLE, form, form.method, form.start)
    dialog.finished.connect(form.leave)
    if is_new:
        # The image or labels of the layer itself; a plate has no pyramid.
        choices = [image_source(viewer), *source_choices(viewer)]
        form.chooseSource([text for text in dict.fromkeys(choices) if text])
    else:
        form.fillFields()
    dialog.show()
    return form
