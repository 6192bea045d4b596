"""The inspector: the tree of a hierarchy, and details of the group chosen there."""

from __future__ import annotations

from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any

from qtpy.compat import isalive
from qtpy.QtCore import Qt
from qtpy.QtGui import QKeySequence, QShortcut  # type: ignore[attr-defined]
from qtpy.QtWidgets import (
    QHeaderView,
    QSplitter,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.check.repair import REPAIRS
from napari_ngff.store.hierarchy.location import image_of_list
from napari_ngff.store.hierarchy.node import Node, open_node
from napari_ngff.viewer.inspecting.inspection import (
    FileProblems,
    PlaceDetails,
    SavedLists,
    TreeEntry,
    check_group,
    count_text,
    describe_entry,
    describe_unreadable,
    node_of,
    repair_all,
    root_of,
)
from napari_ngff.viewer.reader import read_node
from napari_ngff.viewer.services.latest_task import LatestTask
from napari_ngff.viewer.services.window import Window, attempt_work
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.connections import (
    alive_check,
    connect_while_alive,
    enable_if,
    fill_layout,
    make_buttons,
    while_alive,
    wrapping_label,
    wrapping_row,
)
from napari_ngff.widgets.dialogs import ask_question, copy_text
from napari_ngff.widgets.docking import place_dock
from napari_ngff.widgets.inspector.hierarchy import HierarchyTree, TreeRow
from napari_ngff.widgets.inspector.pages import (
    FactPage,
    JsonPage,
    ProblemTable,
    UndoRepair,
)
from napari_ngff.widgets.inspector.system_chooser import SystemChooser
from napari_ngff.widgets.installation import install_widgets
from napari_ngff.widgets.opening import DropTarget
from napari_ngff.widgets.status_signs import ProblemSign, sign_of
from napari_ngff.widgets.theme_look import ThemeFollower

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.components import ViewerModel

    from napari_ngff.store.check.visit_groups import Finding
    from napari_ngff.store.hierarchy.location import Location

REPAIR_ANSWER = "Repair"

HINT = "Select a layer that was opened from OME-Zarr, or drop a folder here."
FACTS, PROBLEMS, JSON_TAB = range(3)


class Inspector(DropTarget):
    """Shows the hierarchy of the active layer, or of a folder that is dropped on it."""

    def __init__(
        self, napari_viewer: ViewerModel, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        install_widgets()
        self._viewer = napari_viewer
        self._session = session_of(napari_viewer)
        self._task = LatestTask(alive_check(self))
        self._nodes: dict[str, Node] = {}
        self._target: str | None = None
        self._entry: TreeEntry | None = None
        self._details = PlaceDetails("")
        self._stop = Event()
        # Of what was done to a group: shown until another group is.
        self._result, self._result_path = "", ""
        self.chooser = SystemChooser(napari_viewer, self)
        self.tree = HierarchyTree(self)
        self.facts = FactPage(self)
        self.problems = ProblemTable(self)
        self.json = JsonPage(self)
        self.tabs = QTabWidget(self)
        self.status = wrapping_label(self, HINT)
        self.open, self.reload, self.check, self.copyPath = make_buttons(
            self,
            (
                "&Open as layers",
                "Or double-click a row, or press Enter on it.",
                self.openLayers,
            ),
            ("&Reload", "", self.reloadTree),
            (
                "Check &all below",
                "Judges every group below by the specification.",
                self.checkAll,
            ),
            ("Copy path", "", self._copy_path),
        )
        self.undo = UndoRepair(self)
        self._build_layout()
        self._connect_signals()
        self._follow_selection()
        place_dock(napari_viewer, self)
        ThemeFollower(self, napari_viewer)

    def _build_layout(self) -> None:
        # Else Qt measures every row of a plate with 1,536 wells.
        self.tree.setUniformRowHeights(True)
        # A double-click opens layers; the arrow beside a row expands it.
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
        self.status.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
        )
        splitter = QSplitter(Qt.Orientation.Vertical, self)
        splitter.addWidget(self.tree)
        splitter.addWidget(self.tabs)
        splitter.setStretchFactor(1, 1)
        splitter.setChildrenCollapsible(False)
        buttons = self.open, self.check, self.reload, self.copyPath, self.undo
        parts = self.chooser, splitter, wrapping_row(*buttons), self.status
        fill_layout(QVBoxLayout(self), *parts, wide=splitter)
        self._enable_buttons(False)

    def _connect_signals(self) -> None:
        self.tree.loaded.connect(self._reveal_target)
        # Not `activated`, which is a single click on some desktops.
        self.tree.doubleClicked.connect(self.openLayers)
        keys = QShortcut(QKeySequence(Qt.Key.Key_Return), self.tree)
        # Only with the keyboard in the tree: Enter presses a button that has it.
        keys.setContext(Qt.ShortcutContext.WidgetShortcut)
        keys.activated.connect(self.openLayers)
        self.tree.currentItemChanged.connect(self._on_current)
        self.problems.wanted.connect(self.repairProblems)
        self.dropped.connect(self.showPath)
        self.chooser.reported.connect(self._show_lasting)
        self.chooser.saved.connect(self._on_transform_saved)
        self.undo.undone.connect(self._on_undone)
        self.undo.failed.connect(self.status.setText)
        selected = self._viewer.layers.selection.events.active
        connect_while_alive(selected, self, self._follow_selection)
        self._saved_lists = SavedLists(self._refresh_labels)

    # --- what others let it show

    def showNode(self, node: Node) -> None:
        """Show the hierarchy of a group, and select its row."""
        path = node.location.path
        self._target = path
        root = self.tree.rootEntry()
        # Another group of the same hierarchy: rows that were read stay.
        if root is not None and root.location.source.name == node.location.source.name:
            last = self._nodes.get(path)
            if last is not None and last is not node:
                # Opened again: its file may be another by now.
                self._refresh_row(self.tree.findRow(path))
            self._nodes[path] = node
            self._reveal_target()
            return
        self._nodes = {path: node}
        self._start_reading(lambda: root_of(node), self._set_root, self.status.setText)

    def showPath(self, path: str) -> None:
        """Show the hierarchy at a path or an address."""
        self._start_reading(
            partial(open_node, path), self._on_opened, self._on_unreadable
        )

    def showProblems(self, path: str) -> None:
        """Show the problems of the hierarchy at a path or an address."""
        self.showPath(path)
        self.tabs.setCurrentIndex(PROBLEMS)

    def reloadTree(self) -> None:
        """Read the hierarchy and the chosen group again."""
        root = self.tree.rootEntry()
        if root is not None:
            self._target = self._entry.location.path if self._entry else ""
            self.tree.setRoot(root)
            self._reveal_target()

    def checkAll(self) -> None:
        """Check all groups below the chosen one, or stop the check that runs."""
        # The button that starts a check also stops it.
        if self.check.text() == STOP:
            self._stop.set()
            return
        entry = self._entry
        if entry is None:
            return
        stop = Event()
        # A closed dock has no use for the rest of a check, which may take minutes.
        self.destroyed.connect(stop.set)
        self.status.setText("Checking all below…")

        def check_in_worker() -> tuple[Finding, ...]:
            return check_group(entry.read_node(), stop.is_set)

        self._start_reading(check_in_worker, self._on_checked, self._on_unchecked, stop)

    def repairProblems(self, code: str) -> None:
        """Ask, and then repair all problems of a code in the chosen group."""
        entry = self._entry
        if entry is None:
            return
        question = (
            f"Repair {entry.location.full_name}: {REPAIRS[code]}?\n\nThis fixes all"
            f" problems '{code}' in it and below. If the file is valid afterwards, the"
            " repair cannot be undone. If errors remain, Undo repair restores the file."
        )
        if ask_question(self, "Repair", question, [REPAIR_ANSWER]) != REPAIR_ANSWER:
            return
        self.status.setText("Repairing…")
        # A second repair of the same file must not begin before this one is done.
        self.problems.setEnabled(False)

        work = partial(attempt_work, partial(repair_all, entry, code))
        Window.current.run_work(work, partial(while_alive(self._on_fixed), entry))

    def openLayers(self) -> None:
        """Open the chosen group as layers."""
        entry = self._entry
        if entry is None or not self.open.isEnabled():
            return
        self.open.setEnabled(False)
        self.status.setText("Opening…")

        def read_in_worker() -> tuple[str, Any]:
            node = entry.read_node()
            return str(node), read_node(node)

        Window.current.run_work(partial(attempt_work, read_in_worker), self._on_read)

    # --- results of workers

    def _start_reading(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], None],
        failed: Callable[[str], None],
        stop: Event | None = None,
    ) -> None:
        """Read in a worker; the result of an earlier task is dropped."""
        self._stop.set()
        self._stop = stop or Event()
        self.check.setText(STOP if stop is not None else CHECK)
        self._task.start(lambda _: work(), done, failed)

    def _set_root(self, entry: TreeEntry) -> None:
        self._entry = None
        self.tree.setRoot(entry)
        self._reveal_target()

    def _on_opened(self, node: Node) -> None:
        self.tree.setRoot(None)
        self.showNode(node)

    def _on_unreadable(self, reason: str) -> None:
        self.tree.setRoot(None)
        self._show_details(
            PlaceDetails("", findings=(describe_unreadable("", reason),), error=reason)
        )

    def _reveal_target(self) -> None:
        """Select the row of the target group, as soon as the rows above it are read."""
        if self._target is None:
            return
        # May emit `loaded`, and so come here again, where rows are there at once.
        row = self.tree.readTowards(self._target)
        if row is None or self._target is None:
            return
        self._target = None
        self.tree.setCurrentItem(row)
        # The groups of the root are seen at once; each other row is read when opened.
        if self.tree.rootEntry() == row.entry:
            self.tree.expandItem(row)

    def _on_current(self, row: TreeRow | None, _: TreeRow | None = None) -> None:
        entry = self._entry = None if row is None else row.entry
        self._enable_buttons(entry is not None)
        if entry is not None:
            self.status.setText("Reading…")
            self._read_details(entry)

    def _read_details(self, entry: TreeEntry) -> None:
        sign = sign_of(self._viewer, ProblemSign)
        known = () if sign is None else sign.knownBelow(str(entry.location))
        work = partial(describe_entry, entry, known)
        self._start_reading(work, self._show_details, self.status.setText)

    def _show_details(self, details: PlaceDetails) -> None:
        self._details = details
        self._correct_sign(details.findings)
        self.facts.setDetails(details)
        if details.path != self._result_path:
            self._result = self._result_path = ""
        self.status.setText(details.error or self._result)
        self._show_findings(details.findings)
        self.json.setDocument(details.document or {})

    def _correct_sign(self, findings: tuple[Finding, ...]) -> None:
        """Let the sign in the status bar count the problems listed here."""
        sign, path = sign_of(self._viewer, ProblemSign), self._details.path
        if sign is not None:
            sign.correctCount(path, FileProblems(findings, path))

    def _show_findings(self, findings: tuple[Finding, ...]) -> None:
        self.problems.setEnabled(True)
        self.problems.setFindings(findings)
        text = f" ({count_text(findings)})" if findings else ""
        self.tabs.setTabText(PROBLEMS, f"Problems{text}")

    def _on_unchecked(self, reason: str) -> None:
        self.check.setText(CHECK)
        self.status.setText(reason)

    def _on_checked(self, findings: tuple[Finding, ...]) -> None:
        stopped = self._stop.is_set()
        self.check.setText(CHECK)
        self._show_findings(findings)
        # A check that was stopped knows only some of the problems.
        if not stopped:
            self._correct_sign(findings)
        self.tabs.setCurrentIndex(PROBLEMS)
        end = " so far; stopped." if stopped else ", here and below."
        self.status.setText(f"{count_text(findings)}{end}".capitalize())

    def _on_fixed(self, entry: TreeEntry, details: PlaceDetails | str) -> None:
        self.problems.setEnabled(True)
        if isinstance(details, str):
            self.status.setText(details)
            return
        # Another group may have been chosen while the repair ran.
        if entry is self._entry:
            self._task.cancel()
            self._show_details(details)
            self.tree.refreshRow(self.tree.findRow(entry.location.path))
        sign = sign_of(self._viewer, ProblemSign)
        if sign is not None:
            sign.judgeFile(details.path)
        self.undo.offerUndo(entry, details.kept)
        kept = f" Backup: {', '.join(details.kept)}." if details.kept else ""
        self.status.setText(f"Repaired. Reopen the image to see the change.{kept}")

    def _show_lasting(self, result: str) -> None:
        """Show a result of the active layer, also after its group is read again."""
        self.status.setText(result)
        node = node_of(self._viewer.layers.selection.active)
        if node is not None:
            self._keep_result(result, node.location)

    def _on_transform_saved(self, result: str) -> None:
        self._show_lasting(result)
        # Else its row is still being looked for, and is read then.
        if self._entry is not None:
            self._read_details(self._entry)

    def _keep_result(self, result: str, place: Location) -> None:
        """Show a result again once the group, which it has changed, is read again."""
        self._result, self._result_path = result, str(place)

    def _on_undone(self, result: str) -> None:
        if self._entry is not None:
            self._keep_result(result, self._entry.location)
        self.reloadTree()

    def _on_read(self, path_and_layers: tuple[str, Any] | str) -> None:
        if isinstance(path_and_layers, str):
            text = path_and_layers
        else:
            path, layers = path_and_layers
            # Also where the dock was closed meanwhile: the user asked for the layers.
            self._session.add(layers, path)
            text = f"{len(layers)} layer{'' if len(layers) == 1 else 's'} opened."
        if isalive(self):  # type: ignore[no-untyped-call]
            self.open.setEnabled(True)
            self.status.setText(text)

    # --- what others save

    def _refresh_labels(self, root: str, group: str) -> None:
        """Read the rows of a list of labels again, if they are in the tree."""
        top = self.tree.rootEntry() if isalive(self) else None  # type: ignore[no-untyped-call]
        image = None if top is None else image_of_list(top.location, root, group)
        if top is None or image is None:
            return
        path = join_key(top.location.path, image)
        # Where the list is new, it is a row below the image.
        row = self.tree.findRow(join_key(path, "labels")) or self.tree.findRow(path)
        self._refresh_row(row)

    def _refresh_row(self, row: TreeRow | None) -> None:
        """Read a row again, if it is in the tree, and what is below it."""
        if row is None:
            return
        entry, is_chosen = self._entry, row is self.tree.currentItem()
        self.tree.refreshRow(row)
        if is_chosen:
            self._on_current(row)
        elif entry is not None and self._entry is not entry:
            # Its row was removed, and is chosen again once it is read.
            self._target = self._target or entry.location.path
            self._reveal_target()

    # --- what the user does

    def _follow_selection(self, _: Any = None) -> None:
        node = node_of(self._viewer.layers.selection.active)
        if node is not None:
            self.showNode(node)

    def _copy_path(self) -> None:
        copy_text(self._details.path)
        self.status.setText("Path copied.")

    def _enable_buttons(self, on: bool) -> None:
        for button in (self.open, self.check, self.reload, self.copyPath):
            enable_if(on, button, "Choose a group in the list first.")


CHECK, STOP = "Check &all below", "Stop checkin&g"
