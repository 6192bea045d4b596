"""The inspector: the tree of a hierarchy, and all that is told of the chosen place."""

from __future__ import annotations

from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any

from qtpy.compat import isalive
from qtpy.QtCore import QModelIndex, QSize, Qt
from qtpy.QtGui import QGuiApplication, QKeySequence, QShortcut  # type: ignore[attr-defined]
from qtpy.QtWidgets import (
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QPushButton,
    QSplitter,
    QTabWidget,
    QTreeView,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.store.check.repair import REPAIRS
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.inspection import (
    FileProblems,
    PlaceDetails,
    TreeEntry,
    check_group,
    count_text,
    describe_entry,
    describe_unreadable,
    errors_of,
    node_of,
    repair_all,
    root_of,
    write_report,
)
from napari_ngff.viewer.latest_task import LatestTask
from napari_ngff.viewer.notices import count_noun
from napari_ngff.viewer.reader import read_node
from napari_ngff.viewer.session import session_of
from napari_ngff.viewer.window_services import attempt_work, run_work
from napari_ngff.widgets.dialogs import ask_question
from napari_ngff.widgets.docking import DockPlacement
from napari_ngff.widgets.drops import DropTarget
from napari_ngff.widgets.inspector.hierarchy import HierarchyModel
from napari_ngff.widgets.inspector.pages import FactPage, JsonPage, UndoRepair
from napari_ngff.widgets.inspector.problem_table import ProblemTable
from napari_ngff.widgets.inspector.system_chooser import SystemChooser
from napari_ngff.widgets.installation import install_widgets
from napari_ngff.widgets.problem_sign import problem_sign_of
from napari_ngff.widgets.theme_look import ThemeFollower
from napari_ngff.widgets.widget_tasks import alive_check

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.components import ViewerModel

    from napari_ngff.store.check.visit_groups import Finding
    from napari_ngff.store.hierarchy.node import Node

__all__ = ["Inspector"]

REPAIR_ANSWER = "Repair"

HINT = "Select a layer that was opened from OME-Zarr, or drop a folder here."
FACTS, PROBLEMS, JSON_TAB = range(3)


class Inspector(DropTarget):
    """Follows the active layer; a folder that is dropped on it is shown as well."""

    def __init__(
        self, napari_viewer: ViewerModel, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        install_widgets()
        self._viewer = napari_viewer
        self._session = session_of(napari_viewer)
        self._task = LatestTask(alive_check(self))
        self._target: str | None = None
        self._entry: TreeEntry | None = None
        self._details = PlaceDetails("")
        self._stop = Event()
        self.chooser = SystemChooser(napari_viewer, self)
        self.model = HierarchyModel(self)
        self.tree = QTreeView(self)
        self.facts = FactPage(self)
        self.problems = ProblemTable(self)
        self.json = JsonPage(self)
        self.tabs = QTabWidget(self)
        self.status = QLabel(HINT, self)
        self.open = QPushButton("&Open as layers", self)
        self.reload = QPushButton("&Reload", self)
        self.check = QPushButton("Check &all below", self)
        self.undo = UndoRepair(self)
        self.copyPath = QPushButton("Copy path", self)
        self.copyReport = QPushButton("Copy repor&t", self)
        self._build_layout()
        self._connect_signals()
        self._follow_selection()
        DockPlacement(self)
        ThemeFollower(self, napari_viewer)

    def _build_layout(self) -> None:
        self.tree.setModel(self.model)
        self.tree.setUniformRowHeights(True)
        self.tree.setExpandsOnDoubleClick(False)
        self.tree.setAccessibleName("Hierarchy")
        header = self.tree.header()
        assert header is not None
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self.tabs.addTab(self.facts, "Facts")
        self.tabs.addTab(self.problems, "Problems")
        self.tabs.addTab(self.json, "JSON")
        self.open.setToolTip("Or double-click a row, or press Enter on it.")
        self.check.setToolTip("Judges every group below by the specification.")
        self.status.setWordWrap(True)
        self.status.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
        )
        splitter = QSplitter(Qt.Orientation.Vertical, self)
        splitter.addWidget(self.tree)
        splitter.addWidget(self.tabs)
        splitter.setStretchFactor(1, 1)
        splitter.setChildrenCollapsible(False)
        layout = QVBoxLayout(self)
        layout.addWidget(self.chooser)
        layout.addWidget(splitter, 1)
        layout.addLayout(in_row(self.open, self.check, self.reload, self.undo))
        layout.addLayout(in_row(self.copyPath, self.copyReport))
        layout.addWidget(self.status)
        self._enable_buttons(False)

    def _connect_signals(self) -> None:
        self.model.loaded.connect(self._reveal_target)
        # Not `activated`, which is a single click on some desktops.
        self.tree.doubleClicked.connect(self.openLayers)
        keys = QShortcut(QKeySequence(Qt.Key.Key_Return), self.tree)
        keys.setContext(Qt.ShortcutContext.WidgetShortcut)
        keys.activated.connect(self.openLayers)
        selection = self.tree.selectionModel()
        assert selection is not None
        selection.currentChanged.connect(self._on_current)
        self.problems.wanted.connect(self.repairProblems)
        self.dropped.connect(self.showPath)
        self.chooser.reported.connect(self.status.setText)
        self.undo.undone.connect(self.reloadTree)
        self.undo.failed.connect(self.status.setText)
        self.open.clicked.connect(self.openLayers)
        self.reload.clicked.connect(self.reloadTree)
        self.check.clicked.connect(self.checkAll)
        self.copyPath.clicked.connect(self._copy_path)
        self.copyReport.clicked.connect(self._copy_report)
        self._viewer.layers.selection.events.active.connect(self._follow_selection)

    def sizeHint(self) -> QSize:
        """Leave room for sentences."""
        return QSize(460, 640)

    # --- what is shown

    def showNode(self, node: Node) -> None:
        """Show the hierarchy of a group, and choose its row."""
        self._target = node.location.path
        root = self.model.rootEntry()
        if root is not None and root.location.source.name == node.location.source.name:
            self._reveal_target()
            return
        self._start_reading(lambda: root_of(node), self._set_root, self.status.setText)

    def showPath(self, path: str) -> None:
        """Show what lies at a path or an address."""
        self._start_reading(
            partial(open_node, path), self._on_opened, self._on_unreadable
        )

    def showProblems(self, path: str) -> None:
        """Show the problems of what lies at a path or an address."""
        self.showPath(path)
        self.tabs.setCurrentIndex(PROBLEMS)

    def reloadTree(self) -> None:
        """Read the hierarchy and the chosen place again."""
        root = self.model.rootEntry()
        if root is not None:
            self._target = self._entry.location.path if self._entry else ""
            self.model.setRoot(root)
            self._reveal_target()

    def checkAll(self) -> None:
        """Judge all that is below the chosen place, or stop doing so."""
        if self.check.text() == STOP:
            self._stop.set()
            return
        entry = self._entry
        if entry is None:
            return
        stop = Event()
        self.destroyed.connect(stop.set)
        self.status.setText("Checking all below…")

        def check_in_worker() -> tuple[Finding, ...]:
            return check_group(entry.read_node(), stop.is_set)

        self._start_reading(check_in_worker, self._on_checked, self._on_unchecked, stop)

    def repairProblems(self, code: str) -> None:
        """Ask, and then repair all problems of a code in the chosen place."""
        entry = self._entry
        if entry is None:
            return
        question = (
            f"Repair {entry.location.name}: {REPAIRS[code]}?\n\nThis fixes all problems"
            f" '{code}' in it and below. A backup is kept until the file is valid."
        )
        if ask_question(self, "Repair", question, [REPAIR_ANSWER]) != REPAIR_ANSWER:
            return
        self.status.setText("Repairing…")
        self.problems.setEnabled(False)

        work = partial(attempt_work, partial(repair_all, entry, code))
        run_work(work, lambda found: self._on_fixed(entry, found))

    def openLayers(self) -> None:
        """Open the chosen place as layers."""
        entry = self._entry
        if entry is None or not self.open.isEnabled():
            return
        self.open.setEnabled(False)
        self.status.setText("Opening…")

        def read_in_worker() -> tuple[str, Any]:
            node = entry.read_node()
            return str(node), read_node(node)

        run_work(partial(attempt_work, read_in_worker), self._on_read)

    # --- answers

    def _start_reading(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], None],
        failed: Callable[[str], None],
        stop: Event | None = None,
    ) -> None:
        """Let a worker read; the answer to an earlier task is dropped."""
        self._stop.set()
        self._stop = stop or Event()
        self.check.setText(STOP if stop is not None else CHECK)
        self._task.start(lambda _: work(), done, failed)

    def _set_root(self, entry: TreeEntry) -> None:
        self._entry = None
        self.model.setRoot(entry)
        self._reveal_target()

    def _on_opened(self, node: Node) -> None:
        self.model.setRoot(None)
        self.showNode(node)

    def _on_unreadable(self, reason: str) -> None:
        self.model.setRoot(None)
        self._show_details(
            PlaceDetails("", findings=(describe_unreadable("", reason),), error=reason)
        )

    def _reveal_target(self) -> None:
        """Choose the row that is waited for, as soon as it is there."""
        if self._target is None:
            return
        index = self.model.indexTowards(self._target)
        if index is None or self._target is None:
            return
        self._target = None
        self.tree.setCurrentIndex(index)
        if self.model.rootEntry() == self.model.entryAt(index):
            self.tree.expand(index)

    def _on_current(self, index: QModelIndex, _: QModelIndex) -> None:
        entry = self.model.entryAt(index)
        self._entry = entry
        self._enable_buttons(entry is not None)
        if entry is not None:
            self.status.setText("Reading…")
            sign = problem_sign_of(self._viewer)
            known = () if sign is None else sign.knownBelow(str(entry.location))
            work = partial(describe_entry, entry, known)
            self._start_reading(work, self._show_details, self.status.setText)

    def _show_details(self, details: PlaceDetails) -> None:
        self._details = details
        self._correct_sign(details.findings)
        self.facts.setDetails(details)
        self.status.setText(details.error)
        self._show_findings(details.findings)
        self.json.setDocument(details.document or {})

    def _correct_sign(self, findings: tuple[Finding, ...]) -> None:
        """Let the sign count what is listed of a file."""
        sign, path = problem_sign_of(self._viewer), self._details.path
        if sign is not None:
            sign.correctCount(path, FileProblems(findings, path))

    def _show_findings(self, findings: tuple[Finding, ...]) -> None:
        self.problems.setEnabled(True)
        self.problems.setFindings(findings)
        errors = len(errors_of(findings))
        counts = [str(errors)] * bool(errors)
        if len(findings) > errors:
            counts.append(count_noun(len(findings) - errors, "warning"))
        text = f" ({', '.join(counts)})" if counts else ""
        self.tabs.setTabText(PROBLEMS, f"Problems{text}")

    def _on_unchecked(self, reason: str) -> None:
        self.check.setText(CHECK)
        self.status.setText(reason)

    def _on_checked(self, found: tuple[Finding, ...]) -> None:
        stopped = self._stop.is_set()
        self.check.setText(CHECK)
        self._show_findings(found)
        if not stopped:
            self._correct_sign(found)
        self.tabs.setCurrentIndex(PROBLEMS)
        end = " so far; stopped." if stopped else ", here and below."
        self.status.setText(f"{count_text(found)}{end}".capitalize())

    def _on_fixed(self, entry: TreeEntry, found: PlaceDetails | str) -> None:
        if not isalive(self):  # type: ignore[no-untyped-call]
            return
        self.problems.setEnabled(True)
        if isinstance(found, str):
            self.status.setText(found)
            return
        if entry is self._entry:
            self._task.cancel()
            self._show_details(found)
            self.model.refreshRow(self.tree.currentIndex())
        sign = problem_sign_of(self._viewer)
        if sign is not None:
            sign.judgeFile(found.path)
        self.undo.offerUndo(entry, found.kept)
        kept = f" Backup: {', '.join(found.kept)}." if found.kept else ""
        self.status.setText(f"Repaired. Reopen the image to see the change.{kept}")

    def _on_read(self, found: tuple[str, Any] | str) -> None:
        if isinstance(found, str):
            text = found
        else:
            path, layers = found
            self._session.add(layers, path)
            text = f"{len(layers)} layer{'' if len(layers) == 1 else 's'} opened."
        if isalive(self):  # type: ignore[no-untyped-call]
            self.open.setEnabled(True)
            self.status.setText(text)

    # --- what the user does

    def _follow_selection(self, _: Any = None) -> None:
        if isalive(self):  # type: ignore[no-untyped-call]
            node = node_of(self._viewer.layers.selection.active)
            if node is not None:
                self.showNode(node)

    def _copy_path(self) -> None:
        self._copy_text(self._details.path, "Path copied.")

    def _copy_report(self) -> None:
        self._copy_text(write_report(self._details), "Report copied.")

    def _copy_text(self, text: str, said: str) -> None:
        clipboard = QGuiApplication.clipboard()
        if clipboard is not None:
            clipboard.setText(text)
            self.status.setText(said)

    def _enable_buttons(self, on: bool) -> None:
        buttons = self.open, self.check, self.reload, self.copyPath, self.copyReport
        for button in buttons:
            button.setEnabled(on)


CHECK, STOP = "Check &all below", "Stop checkin&g"


def in_row(*widgets: QWidget) -> QHBoxLayout:
    """Put widgets side by side."""
    layout = QHBoxLayout()
    for widget in widgets:
        layout.addWidget(widget)
    return layout
