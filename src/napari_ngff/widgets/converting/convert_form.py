"""The form *Convert OME-Zarr*: another version, other chunks, a part, or one file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.compat import isalive
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFileDialog,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QMenu,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)
from superqt import QCollapsible

from napari_ngff.store.convert.request import TARGETS, ConvertOptions
from napari_ngff.viewer.converting.conversion_task import (
    ConversionTask,
    LongJob,
    conversion_task_of,
    open_result,
    propose_target,
    source_choices,
    unsaved_layers,
    visible_crop,
)
from napari_ngff.viewer.private.napari_window import qt_window_of
from napari_ngff.widgets.activity_bar import watch_work
from napari_ngff.widgets.connections import (
    Connections,
    fill_layout,
    make_buttons,
    while_alive,
    wrapping_label,
)
from napari_ngff.widgets.form_dialog import FormDialog, shown_form
from napari_ngff.widgets.login_dialog import (
    LoginAnswer,
    find_kept_login,
    store_login,
)
from napari_ngff.widgets.save_as import ask_target
from napari_ngff.widgets.saving.unsaved_question import may_start

if TYPE_CHECKING:
    from napari.viewer import Viewer


TITLE = "Convert OME-Zarr"

WIDE = 560
"""In pixels, for paths."""

EXAMPLES = {
    "chunks": ("C&hunks", "as they are; such as y=1024,x=1024"),
    "shards": ("Sha&rds", "as they are, or auto for .ozx; such as y=4096,x=4096"),
    "codec": ("Com&pression", "as it is; such as zstd:5, blosc:lz4:5 or none"),
    "levels": ("&Levels", "all; such as 0,2 or 1:"),
}
"""Titles and examples of the options that are typed."""


class ConvertForm(QWidget):
    """Asks what to convert, and follows the conversion.

    Parameters
    ----------
    viewer
        Its layers are proposed as the source.
    task
        Converts, and knows how that goes on.
    """

    def __init__(self, viewer: Viewer, task: ConversionTask) -> None:
        super().__init__()
        self.viewer, self.task = viewer, task
        self._login: LoginAnswer | None = None
        self.setMinimumWidth(WIDE)
        self.source, self.target = QComboBox(), QLineEdit()
        self.source.setEditable(True)
        self.source.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        policy = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        self.source.setSizeAdjustPolicy(policy)
        self.source.setToolTip("A folder, a group in it, an .ozx file, or an address.")
        self.target.setToolTip("A name that ends in .ozx makes one file.")
        self.version = QComboBox()
        self.version.addItems([str(version) for version in TARGETS])
        self.version.setCurrentText("0.5")
        self.lines = {name: QLineEdit() for name in EXAMPLES}
        self.visible = QCheckBox("Only the part of the image that the window shows")
        self.more = QCollapsible("More options")
        self.more.setDuration(0)
        self.status = wrapping_label()
        self.bar = JobBar(self)
        tip = "Delete what the stopped conversion has left."
        self.start, self.discard, self.open = make_buttons(
            self,
            ("Convert", "", self.start_task),
            ("Delete parts", tip, self.task.discard),
            ("Open the result", "", self.open_result),
        )
        self._arrange()
        self._connect()
        self.source.addItems(source_choices(viewer))
        if task.call is not None:
            self.source.setEditText(task.call.source)
            self.target.setText(task.call.target)
        self._show_task()

    def _arrange(self) -> None:
        browse, menu = QPushButton("Browse…"), QMenu(self)
        menu.addAction("Folder…", self._browse_folder)
        menu.addAction("File (.ozx, .zip)…", self._browse_file)
        browse.setMenu(menu)
        choose = QPushButton("Browse…")
        choose.clicked.connect(self._browse_target)
        rows = QFormLayout()
        for title, field, button in (
            ("&From", self.source, browse),
            ("&Save as", self.target, choose),
        ):
            row, label = QHBoxLayout(), QLabel(title)
            label.setBuddy(field)
            fill_layout(row, field, button, wide=field)
            rows.addRow(label, row)
        rows.addRow("&Version", self.version)
        options = QWidget()
        typed = QFormLayout(options)
        for name, (title, example) in EXAMPLES.items():
            self.lines[name].setPlaceholderText(example)
            typed.addRow(title, self.lines[name])
        typed.addRow(self.visible)
        self.more.addWidget(options)
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        fill_layout(buttons, self.discard, self.open, self.start)
        parts = rows, self.more, self.bar, self.status, buttons
        fill_layout(QVBoxLayout(self), *parts)

    def _connect(self) -> None:
        self.source.currentTextChanged.connect(self._propose_target)
        self.bar.cancel.clicked.connect(self.task.cancel)
        self._following = Connections(self)
        self._following.connect(self.task.changed, self._show_task)
        self._following.connect(self.task.login_needed, self._ask_login)

    def leave(self, _: Any = None) -> None:
        """Stop following the task, when the dialog is closed; its work continues."""
        self._following.end()

    def start_task(self) -> None:
        """Convert, after the question about unsaved changes."""
        source = self.source.currentText().strip()
        texts = {name: line.text().strip() for name, line in self.lines.items()}
        options = ConvertOptions(to_version=self.version.currentText())
        options |= {name: text for name, text in texts.items() if text}  # type: ignore[typeddict-item]
        if self.visible.isChecked():
            try:
                options["crop"] = visible_crop(self.viewer, source)
            except ValueError as error:
                self.status.setText(str(error))
                return
        if may_start(self, unsaved_layers(self.viewer.layers, source), "convert"):
            self._begin(source, self.target.text().strip(), options)

    def _begin(self, source: str, target: str, options: ConvertOptions) -> None:
        job = self.task.start(source, target, options)
        if job is not None:
            watch_job(self.viewer, job)

    def open_result(self) -> None:
        """Open what was made, as the reader does, and close the form."""
        result, call = self.task.result, self.task.call
        if result is None or call is None:
            return
        dialog = self.window()
        open_result(self.viewer, call.source, result.target)
        if isinstance(dialog, FormDialog) and isalive(dialog):  # type: ignore[no-untyped-call]
            dialog.accept()

    def _propose_target(self, source: str) -> None:
        self.target.setText(propose_target(source.strip()))

    def _browse_folder(self) -> None:
        path = QFileDialog.getExistingDirectory(self, "Folder of an OME-Zarr")
        if path:
            self.source.setEditText(path)

    def _browse_file(self) -> None:
        kinds = "OME-Zarr in one file (*.ozx *.zip)"
        path, _ = QFileDialog.getOpenFileName(self, "File of an OME-Zarr", "", kinds)
        if path:
            self.source.setEditText(path)

    def _browse_target(self) -> None:
        path = ask_target(self.viewer, "Convert to", self.target.text())
        if path:
            self.target.setText(path)

    def _ask_login(self, server: str) -> None:
        """Ask for the login of a server; the task goes on with it."""
        find_kept_login(self.viewer, server, while_alive(self._take_login))

    def _take_login(self, answer: LoginAnswer | None) -> None:
        if answer is not None:
            self._login = answer
            call = self.task.call
            assert call is not None
            self._begin(call.source, call.target, call.options)

    def _show_task(self) -> None:
        task = self.task
        is_running, is_done = task.job is not None, task.result is not None
        self.status.setText(task.status)
        self.bar.showJob(task.job)
        self.start.setEnabled(not is_running)
        self.discard.setVisible(task.is_unfinished and not is_running)
        self.open.setVisible(is_done)
        if is_done and not self.open.isDefault():
            self.open.setDefault(True)
            self.open.setFocus()
        elif not is_done and not self.start.isDefault():
            self.start.setDefault(True)
        if is_done and self._login is not None and self._login.is_kept:
            # Its server has accepted it.
            store_login(self._login)
            self._login = None


def show_convert_form(viewer: Viewer) -> ConvertForm:
    """Show the form in a dialog; the conversion that runs, if there is one."""
    form = shown_form(viewer, TITLE)
    if isinstance(form, ConvertForm):
        return form
    task = conversion_task_of(viewer)
    form = ConvertForm(viewer, task)
    dialog = FormDialog(viewer, TITLE, form, form.source, form.start)
    dialog.finished.connect(form.leave)
    dialog.show()
    return form


WHOLE = 1000
"""Steps of a bar: Qt counts in 32 bits, files have more bytes."""


class JobBar(QWidget):
    """A progress bar with a button that cancels."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.progress = QProgressBar(self)
        self.cancel = QPushButton("Cancel", self)
        parts = self.progress, self.cancel
        fill_layout(QHBoxLayout(self), *parts, wide=self.progress, margin=0)

    def showJob(self, job: LongJob | None) -> None:
        """Show how far a job is; None hides the bar."""
        self.setVisible(job is not None)
        # Enter presses it when it has the focus; the dialog took that from all others.
        self.cancel.setAutoDefault(job is not None)
        if job is None:
            return
        self.cancel.setEnabled(not job.is_cancelled)
        step = job.step
        if step is None or not step.total:
            self.progress.setRange(0, 0)  # moves, without an end
            return
        self.progress.setRange(0, WHOLE)
        self.progress.setValue(WHOLE * step.done // step.total)


def watch_job(viewer: Any, job: LongJob) -> None:
    """Show a job in the activity dock, and stop it with the window."""
    window = qt_window_of(viewer)
    if window is not None:
        # Else it would go on in a process that nobody sees.
        window.destroyed.connect(job.cancel)

    def part() -> float:
        step = job.step
        return step.done / step.total if step and step.total else 0

    watch_work(job, job.title, job.stepped, part, job.ended)
