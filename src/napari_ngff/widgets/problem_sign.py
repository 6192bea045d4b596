"""A sign in the status bar for files with problems."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from qtpy.compat import isalive
from qtpy.QtWidgets import QApplication, QMainWindow, QMenu, QPushButton

from napari_ngff.viewer.inspecting.inspection import FileProblems, find_problems
from napari_ngff.viewer.layer_plan import origin_of
from napari_ngff.viewer.napari_private import qt_window_of
from napari_ngff.viewer.notices import count_noun, last_part
from napari_ngff.viewer.window_services import run_in_main, run_work, set_problem_host
from napari_ngff.widgets.docking import INSPECTOR, show_dock
from napari_ngff.widgets.notice_area import show_notice

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.metadata.model import Problem

__all__ = [
    "ProblemSign",
    "install_problem_sign",
    "problem_sign_of",
]


def install_problem_sign() -> None:
    """Show problems of files in the status bar."""
    set_problem_host(show_notice, show_sign)


def show_sign(viewer: Any, path: str, problems: tuple[Problem, ...]) -> None:
    """Show, in the main thread, that a file has problems."""
    if QApplication.instance() is not None:
        run_in_main(lambda: add_problems(viewer, path, problems))


def add_problems(viewer: Any, path: str, problems: tuple[Problem, ...]) -> None:
    """Add problems of a file to the sign of a window, if there is one."""
    window = qt_window_of(viewer)
    if window is None or not isalive(window):  # type: ignore[no-untyped-call]
        return
    sign = problem_sign_of(viewer) or ProblemSign(viewer, window)
    sign.addProblems(path, problems)


def problem_sign_of(viewer: Any) -> ProblemSign | None:
    """Find the sign of a viewer's window."""
    window = qt_window_of(viewer)
    sign: ProblemSign | None = None if window is None else window.findChild(ProblemSign)
    return sign


class ProblemSign(QPushButton):
    """Counts the problems of the files that are open; a click opens the inspector.

    It counts what the inspector lists of them.
    """

    def __init__(self, viewer: ViewerModel, window: QMainWindow) -> None:
        super().__init__(window)
        self._viewer = viewer
        self._known: dict[str, tuple[Problem, ...]] = {}
        self._judged: dict[str, FileProblems] = {}
        self._files = QMenu(self)
        self._files.triggered.connect(self._on_file)
        self.setFlat(True)
        self.setToolTip("Show the problems of the open files in the inspector.")
        self.clicked.connect(self.showProblems)
        viewer.layers.events.removed.connect(self._on_removed)
        bar = window.statusBar()
        assert bar is not None
        bar.addPermanentWidget(self)
        self._refresh_count()

    def addProblems(self, path: str, problems: tuple[Problem, ...]) -> None:
        """Note the problems found when a file was opened, and check it in a worker."""
        self._known[path] = problems
        self.judgeFile(path)

    def judgeFile(self, path: str) -> None:
        """Count the problems of the file at a path, or around it, again in a worker."""
        prefix = f"{path}/"
        for file, known in self._known.items():
            if prefix.startswith(f"{file}/"):
                done = partial(self._on_judged, file, known)
                run_work(partial(find_problems, file, known), done)

    def knownBelow(self, path: str) -> tuple[Problem, ...]:
        """Return the problems found when the file at or around a path was opened."""
        prefix = f"{path}/"
        return tuple(
            problem
            for file, known in self._known.items()
            if prefix.startswith(f"{file}/") or f"{file}/".startswith(prefix)
            for problem in known
        )

    def correctCount(self, path: str, problems: FileProblems) -> None:
        """Take over the problems that the inspector lists of a file."""
        if path in self._known:
            self._judged[path] = problems
            self._refresh_count()

    def showProblems(self) -> None:
        """Open the inspector where the problems are; of several files, ask which."""
        files = [path for path, file in self._judged.items() if file.error_count]
        if len(files) == 1:
            self.showFile(files[0])
            return
        self._files.clear()
        for path in files:
            count = count_noun(self._judged[path].error_count, "problem")
            action = self._files.addAction(f"{last_part(path)}: {count}")
            if action is not None:
                action.setData(path)
        self._files.popup(self.mapToGlobal(self.rect().topLeft()))

    def showFile(self, path: str) -> None:
        """Open the inspector where the problems of a file are."""
        inspector = show_dock(self._viewer, INSPECTOR)
        inspector.showProblems(self._judged[path].place)

    def _on_file(self, action: Any) -> None:
        self.showFile(action.data())

    def _on_judged(
        self, path: str, known: tuple[Problem, ...], problems: FileProblems
    ) -> None:
        # Opened again while it was checked: that check counts.
        if isalive(self) and self._known.get(path) is known:  # type: ignore[no-untyped-call]
            self.correctCount(path, problems)

    def _on_removed(self, event: Any = None) -> None:
        if not isalive(self):  # type: ignore[no-untyped-call]
            return
        origins = [origin_of(layer) for layer in self._viewer.layers]
        # A label, or a field of a plate, lies below what was opened.
        opened = [f"{x.node}/" for x in origins if x is not None]
        for path in list(self._known):
            if not any(node.startswith(f"{path}/") for node in opened):
                del self._known[path]
                self._judged.pop(path, None)
        self._refresh_count()

    def _refresh_count(self) -> None:
        total = sum(file.error_count for file in self._judged.values())
        self.setText(count_noun(total, "problem"))
        self.setVisible(total > 0)
