"""The form *Convert OME-Zarr*: another version, other chunks, a part, or one file."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from qtpy.compat import isalive
from qtpy.QtCore import QSignalBlocker, QTimer
from qtpy.QtWidgets import (
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QMenu,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.store.convert.conversion import TARGETS
from napari_ngff.store.convert.convert_words import CODECS, ConvertWords
from napari_ngff.viewer.converting.conversion_task import ConversionTask
from napari_ngff.viewer.converting.layer_sources import (
    open_result,
    source_choices,
    visible_crop,
)
from napari_ngff.widgets.converting.field_grid import FieldGrid, wrapped_label
from napari_ngff.widgets.converting.job_bar import JobBar, watch_jobs
from napari_ngff.widgets.form_dialog import FormDialog, shown_form
from napari_ngff.widgets.login_dialog import (
    LoginAnswer,
    find_kept_login,
    store_login,
)
from napari_ngff.widgets.save_as import ask_target
from napari_ngff.widgets.saving.save_progress import may_start
from napari_ngff.widgets.theme_look import ThemeFollower

if TYPE_CHECKING:
    from napari.viewer import Viewer

    from napari_ngff.store.convert.source_facts import SourceFacts
    from napari_ngff.widgets.colors import ThemeColors

__all__ = ["ConvertForm", "show_convert_form"]

TITLE = "Convert OME-Zarr"

TYPING = 350
"""Milliseconds after the last key, when files are looked at."""

WIDE = 620
"""In pixels, for paths."""

POLICIES = {"Stop with an error": "stop", "Leave them out, and list them": "skip"}


class ConvertForm(QWidget):
    """Asks, shows what it comes to, and follows the conversion.

    Parameters
    ----------
    task
        Decides everything that is shown.
    """

    def __init__(self, task: ConversionTask, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.task = task
        self.setMinimumWidth(WIDE)
        self.fields = FieldGrid(self)
        self.source, self.target = self._path_box(), QLineEdit(self)
        self.target.setToolTip("A name that ends in .ozx makes one file.")
        self.facts = wrapped_label(self)
        self.version = QComboBox(self)
        for version in TARGETS:
            self.version.addItem(f"OME-Zarr {version}", str(version))
        self.version.setCurrentIndex(self.version.findData(task.words.to_version))
        self.shards = self._text_box(("auto",))
        self.codec = self._text_box(CODECS)
        names = "chunks", "crop", "levels", "channels", "wells"
        self.lines = {name: QLineEdit(self) for name in names}
        self.unreadable = QComboBox(self)
        for text, policy in POLICIES.items():
            self.unreadable.addItem(text, policy)
        self.estimate, self.note, self.status = (wrapped_label(self) for _ in range(3))
        self.bar = JobBar(self)
        self.start, self.afresh = QPushButton(self), QPushButton("Start again", self)
        self.discard = QPushButton("Delete parts", self)
        self.discard.setToolTip("Delete what the stopped conversion has left.")
        self.open = QPushButton("Open the result", self)
        self._login: LoginAnswer | None = None
        self._waiting = QTimer(self)
        self._waiting.setSingleShot(True)
        self._waiting.setInterval(TYPING)
        self._arrange()
        self._connect()
        ThemeFollower(self, task.viewer, self._set_colors)

    def _path_box(self) -> QComboBox:
        box = QComboBox(self)
        box.setEditable(True)
        box.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        policy = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        box.setSizeAdjustPolicy(policy)
        box.setToolTip("A folder, a group in it, an .ozx or zip file, or an address.")
        return box

    def _text_box(self, texts: tuple[str, ...]) -> QComboBox:
        box = QComboBox(self)
        box.setEditable(True)
        box.addItems(["", *texts])
        return box

    def _arrange(self) -> None:
        fields = self.fields
        fields.addField("source", "&Convert", self.source, beside=self._browse_button())
        fields.addNote(self.facts)
        browse = QPushButton("Browse…", self)
        browse.clicked.connect(self._browse_target)
        fields.addField("target", "&Save as", self.target, beside=browse)
        fields.addField("to_version", "&Version", self.version)
        fields.addMore()
        titles: dict[str, tuple[str, QComboBox | QLineEdit]] = {
            "chunks": ("C&hunks", self.lines["chunks"]),
            "shards": ("Sha&rds", self.shards),
            "codec": ("Com&pression", self.codec),
            "crop": ("Crop", self.lines["crop"]),
            "levels": ("&Levels", self.lines["levels"]),
            "channels": ("Cha&nnels", self.lines["channels"]),
            "wells": ("&Wells", self.lines["wells"]),
            "unreadable": ("&Unreadable chunks", self.unreadable),
        }
        visible = QPushButton("Visible part", self)
        visible.setToolTip("Keep only the part of the image that the window shows.")
        visible.clicked.connect(self.cropToView)
        for name, (title, field) in titles.items():
            beside = visible if name == "crop" else None
            fields.addField(name, title, field, beside=beside, folded=True)
        self.shards.setToolTip("Few large files of many chunks: auto, or y=4096,x=4096")
        self.codec.setToolTip("Such as zstd:5, blosc:lz4:5, gzip:6 or none")
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        for button in (self.discard, self.afresh, self.open, self.start):
            buttons.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 6, 6, 6)
        texts = self.estimate, self.note, self.bar, self.status
        for widget in (fields, *texts):
            layout.addWidget(widget)
        layout.addStretch(1)
        layout.addLayout(buttons)
        ends = self.bar.cancel, self.discard, self.afresh, self.open, self.start
        fields.orderTabs(ends)

    def _browse_button(self) -> QPushButton:
        button, menu = QPushButton("Browse…", self), QMenu(self)
        menu.addAction("Folder…", self._browse_folder)
        menu.addAction("File (.ozx, .zip)…", self._browse_file)
        button.setMenu(menu)
        return button

    def _connect(self) -> None:
        lines = [self.target, *self.lines.values()]
        boxes = [self.source, self.shards, self.codec]
        for line in lines:
            line.textEdited.connect(self._on_typed)
        for box in boxes:
            box.currentTextChanged.connect(self._on_typed)
        for choice in (self.version, self.unreadable):
            choice.activated.connect(self._on_typed)
        self._waiting.timeout.connect(self.askTask)
        self.start.clicked.connect(partial(self.startTask, False))
        self.afresh.clicked.connect(partial(self.startTask, True))
        self.discard.clicked.connect(self.task.discard)
        self.open.clicked.connect(self.openResult)
        self.bar.cancel.clicked.connect(self.task.cancel)
        self.task.changed.connect(self._show_task)
        self.task.proposed.connect(self._show_words)
        self.task.login_needed.connect(self._ask_login)

    def leave(self, _: Any = None) -> None:
        """Stop following the task, when the dialog is closed; its work continues."""
        self.task.changed.disconnect(self._show_task, missing_ok=True)
        self.task.proposed.disconnect(self._show_words, missing_ok=True)
        self.task.login_needed.disconnect(self._ask_login, missing_ok=True)

    # --- what the user does

    def words(self) -> ConvertWords:
        """Return what the fields have."""
        texts = {name: line.text().strip() for name, line in self.lines.items()}
        return ConvertWords(
            source=self.source.currentText().strip(),
            target=self.target.text().strip(),
            to_version=self.version.currentData(),
            shards=self.shards.currentText().strip(),
            codec=self.codec.currentText().strip(),
            unreadable=self.unreadable.currentData(),
            **texts,
        )

    def _on_typed(self, _: Any = None) -> None:
        # It starts only what was looked at.
        self.start.setEnabled(False)
        self._waiting.start()

    def askTask(self) -> None:
        """Let the task look at what the fields have now."""
        self._waiting.stop()
        self.task.ask(self.words())
        self._show_task()

    def chooseSource(self, choices: list[str]) -> None:
        """Offer sources, and take the first."""
        with QSignalBlocker(self.source):
            self.source.clear()
            self.source.addItems(choices)
        self.askTask()

    def fillFields(self) -> None:
        """Show what the task was asked for before, by another form."""
        words = self.task.words
        boxes = (self.source, words.source), (self.shards, words.shards)
        for box, text in (*boxes, (self.codec, words.codec)):
            with QSignalBlocker(box):
                box.setEditText(text)
        for name, line in self.lines.items():
            line.setText(getattr(words, name))
        self.unreadable.setCurrentIndex(self.unreadable.findData(words.unreadable))
        self._show_words()
        self._show_task()

    def startTask(self, afresh: bool) -> None:
        """Convert, after the question about unsaved changes."""
        self.askTask()
        if self.task.can_start and may_start(self, self.task.unsaved(), "convert"):
            self.task.start(afresh=afresh)

    def cropToView(self) -> None:
        """Crop to what the window shows of the image."""
        task = self.task
        if task.facts is None or task.viewer is None:
            return
        try:
            crop = visible_crop(task.viewer, task.facts.node.location)
        except ValueError as error:
            self.fields.showMistakes({**task.mistakes, "crop": str(error)})
            return
        self.lines["crop"].setText(crop)
        self.askTask()

    def openResult(self) -> None:
        """Open what was made, as the reader does."""
        result, viewer = self.task.result, self.task.viewer
        if result is not None and viewer is not None:
            dialog = self.window()
            open_result(viewer, self.task.facts, result.target)
            if isinstance(dialog, FormDialog) and isalive(dialog):  # type: ignore[no-untyped-call]
                dialog.accept()

    def _browse_folder(self) -> None:
        path = QFileDialog.getExistingDirectory(self, "Folder of an OME-Zarr")
        if path:
            self.source.setEditText(path)
            self.askTask()

    def _browse_file(self) -> None:
        kinds = "OME-Zarr in one file (*.ozx *.zip)"
        path, _ = QFileDialog.getOpenFileName(self, "File of an OME-Zarr", "", kinds)
        if path:
            self.source.setEditText(path)
            self.askTask()

    def _browse_target(self) -> None:
        path = ask_target(self.task.viewer, "Convert to", self.target.text())
        if path:
            self.target.setText(path)
            self.askTask()

    def _ask_login(self, server: str) -> None:
        """Ask for the login of a server; the task goes on with it."""
        find_kept_login(self.task.viewer, server, self._take_login)

    def _take_login(self, answer: LoginAnswer | None) -> None:
        if answer is not None and isalive(self):  # type: ignore[no-untyped-call]
            self._login = answer
            self.task.go_on_after_login()

    def _keep_login(self) -> None:
        """Keep a login that its server has accepted, if that was asked for."""
        login, self._login = self._login, None
        if login is not None and login.is_kept:
            store_login(login)

    # --- what the task decides

    def _show_words(self) -> None:
        """Show the target and the version that are proposed, and what can be chosen."""
        words, facts = self.task.words, self.task.facts
        if not isalive(self) or facts is None:  # type: ignore[no-untyped-call]
            return
        self._keep_login()
        if self.target.text() != words.target:
            self.target.setText(words.target)
        for index in range(self.version.count()):
            stated = self.version.itemData(index)
            same = " (as it is)" if stated == facts.version else ""
            self.version.setItemText(index, f"OME-Zarr {stated}{same}")
        self.version.setCurrentIndex(self.version.findData(words.to_version))
        self._show_hints(facts)

    def _show_hints(self, facts: SourceFacts) -> None:
        if self.task.is_running:
            # Hints stay as bright as values in fields that are switched off.
            for name in self.lines:
                self.lines[name].setPlaceholderText("")
            return
        hints = {
            "chunks": f"as they are: {facts.chunks}" if facts.chunks else "as they are",
            "crop": f"all; such as {_crop_example(facts)}",
            "levels": f"all {facts.levels}; such as 0,2 or 1:",
            "channels": f"all; such as {', '.join(facts.channels[:3])}",
            "wells": f"all {len(facts.wells):,}; such as {facts.wells[0]}, B*"
            if facts.wells
            else "",
        }
        for name, hint in hints.items():
            self.lines[name].setPlaceholderText(hint)
        for box, now in ((self.shards, facts.shards), (self.codec, facts.codecs)):
            line = box.lineEdit()
            assert line is not None
            line.setPlaceholderText(f"as it is: {now}" if now else "none")
        there = {
            "crop": bool(facts.axes),
            "levels": facts.levels > 1,
            "channels": len(facts.channels) > 1,
            "wells": bool(facts.wells),
        }
        absent = [name for name, known in there.items() if not known]
        self.fields.setAbsent(absent)
        # What was chosen for another source could not be seen, nor removed.
        stale = [self.lines[name] for name in absent if self.lines[name].text()]
        for line in stale:
            line.clear()
        if stale:
            self._waiting.start()

    def _show_task(self) -> None:
        if not isalive(self):  # type: ignore[no-untyped-call]
            return
        task = self.task
        self.fields.setEnabled(not task.is_running)
        self.fields.showMistakes(task.mistakes)
        if task.facts is not None:
            self._show_hints(task.facts)
        _show_text(self.facts, task.facts.text if task.facts else _reading(task))
        _show_text(self.estimate, "" if task.is_running else task.estimate)
        _show_text(self.note, task.note)
        _show_text(self.status, task.status)
        self.bar.showJob(task.job)
        is_done = task.result is not None
        if is_done:
            self._keep_login()
        self.start.setText(task.action)
        self.start.setVisible(not task.is_running and not is_done)
        self.start.setEnabled(task.can_start)
        for button in (self.afresh, self.discard):
            button.setVisible(task.is_resumable and not task.is_running)
        self.open.setVisible(is_done)
        button = self.open if is_done else self.start
        if not button.isDefault():
            button.setDefault(True)
            if is_done:
                # Not where it becomes possible again: the user is typing.
                button.setFocus()

    def _set_colors(self, colors: ThemeColors) -> None:
        self.fields.setColors(colors.broken)


def _show_text(label: Any, text: str) -> None:
    label.setText(text)
    label.setVisible(bool(text))


def _reading(task: ConversionTask) -> str:
    return "Reading…" if task.is_busy else ""


def _crop_example(facts: SourceFacts) -> str:
    """Write half of the last axis, as a crop is typed."""
    name, size = facts.axes[-1] if facts.axes else ("x", 2)
    return f"{name}=0:{max(1, size // 2)}"


def show_convert_form(viewer: Viewer) -> ConvertForm:
    """Show the form in a dialog; the conversion that runs, if there is one."""
    viewer = getattr(viewer, "__wrapped__", viewer)
    form = shown_form(viewer, TITLE)
    if isinstance(form, ConvertForm):
        return form
    task = ConversionTask.running_in(viewer)
    is_new = task is None
    if task is None:
        task = ConversionTask(viewer)
        watch_jobs(task)
    form = ConvertForm(task)
    dialog = FormDialog(viewer, TITLE, form, form.source, form.start)
    dialog.finished.connect(form.leave)
    if is_new:
        form.chooseSource(source_choices(viewer))
    else:
        form.fillFields()
    dialog.show()
    return form
