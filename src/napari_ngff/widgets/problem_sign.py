"""A sign in the status bar for files with problems, and notices that wait for it."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from napari._qt.dialogs.qt_notification import NapariQtNotification
from qtpy.compat import isalive
from qtpy.QtCore import QEvent, QObject, QThread, QTimer
from qtpy.QtWidgets import QApplication, QMainWindow, QMenu, QPushButton

from napari_ngff.viewer.inspection import FileProblems, find_problems
from napari_ngff.viewer.layer_plan import origin_of
from napari_ngff.viewer.napari_private import qt_window_of
from napari_ngff.viewer.notices import count_noun, last_part
from napari_ngff.viewer.session import session_of
from napari_ngff.viewer.window_services import (
    run_in_main,
    run_work,
    set_problem_host,
    show_notification,
)
from napari_ngff.widgets.docking import INSPECTOR, show_dock
from napari_ngff.widgets.workers import has_application_ended

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.metadata.model import Problem
    from napari_ngff.viewer.browsing.browser import Browser

__all__ = [
    "ProblemSign",
    "install_problem_sign",
    "is_event_loop_running",
    "is_window_shown",
    "problem_sign_of",
]

SETTLED = 500
"""Milliseconds after which a new window is drawn."""

SHOWN = 8000
"""Milliseconds for which a notification is shown."""

READ = 2
"""Seconds for which it is shown although another image is being opened."""


def install_problem_sign() -> None:
    """Show notices once there is a window, and problems in its status bar."""
    set_problem_host(show_notice, show_sign)


def show_notice(text: str, *, is_warning: bool = True) -> None:
    """Show a notification, in the main thread; later where no window is shown yet."""
    if QApplication.instance() is None:
        if not has_application_ended():  # then nobody sees it, and napari raises errors
            show_notification(text, is_warning=is_warning)
    else:
        run_in_main(partial(notify_in_window, text, is_warning=is_warning))


def notify_in_window(text: str, *, is_warning: bool = True) -> None:
    """Show a notification, once the window is shown."""
    window = hidden_window()
    if window is None:
        show_passing(text, is_warning=is_warning)
    else:
        LaterNotice(window, text, is_warning=is_warning)


def show_passing(text: str, *, is_warning: bool = True) -> None:
    """Show a notification that closes soon, or when another image is opened."""
    import napari

    viewer = napari.current_viewer()
    known = set(NapariQtNotification._instances)
    show_notification(text, is_warning=is_warning)
    browser = None if viewer is None else session_of(viewer).browser
    # napari returns nothing: the notification is the one that is new.
    for notice in set(NapariQtNotification._instances) - known:
        PassingNotice(notice, browser)


class PassingNotice(QObject):
    """Ends one notification of napari, unless it is expanded or under the mouse.

    napari 0.9 does so only where its window is active, and no other notification came.
    """

    def __init__(self, notice: NapariQtNotification, browser: Browser | None) -> None:
        super().__init__(notice)
        self._notice = notice
        self._began = time.monotonic()
        self._timer = QTimer(self)
        # Not a single shot: one under the mouse stays, and ends some time later.
        self._timer.setInterval(SHOWN)
        self._timer.timeout.connect(self._end_notice)
        self._timer.start()
        if browser is not None:
            browser.busy.connect(self._on_busy)

    def _on_busy(self, busy: bool) -> None:
        if busy and time.monotonic() - self._began > READ:
            self._end_notice()

    def _end_notice(self) -> None:
        if not isalive(self) or not isalive(self._notice):  # type: ignore[no-untyped-call]
            return
        if not self._notice.underMouse() and not self._notice.property("expanded"):
            self._timer.stop()
            self._notice.close_with_fade()


def hidden_window() -> QMainWindow | None:
    """Find the window of napari that is about to be shown for the first time."""
    import napari

    viewer = napari.current_viewer()
    window = qt_window_of(viewer)
    is_hidden = window is not None and isalive(window) and not window.isVisible()  # type: ignore[no-untyped-call]
    return window if is_hidden else None


class LaterNotice(QObject):
    """Shows one notification when a window has been shown."""

    def __init__(self, window: QMainWindow, text: str, *, is_warning: bool) -> None:
        super().__init__(window)
        self._text, self._is_warning = text, is_warning
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        """Wait for the window."""
        if event is not None and event.type() == QEvent.Type.Show:
            if watched is not None:
                # A window is also shown when it was minimised.
                watched.removeEventFilter(self)
            QTimer.singleShot(SETTLED, self._show_notice)
        return False

    def _show_notice(self) -> None:
        if isalive(self):  # type: ignore[no-untyped-call]
            show_passing(self._text, is_warning=self._is_warning)
            self.deleteLater()


def is_window_shown(viewer: Any) -> bool:
    """Tell whether the window of a viewer is on the screen."""
    window = qt_window_of(viewer)
    return window is not None and bool(isalive(window)) and window.isVisible()  # type: ignore[no-untyped-call]


def is_event_loop_running() -> bool:
    """Tell whether a user acts: a script runs outside of the event loop."""
    thread = QThread.currentThread()
    return thread is not None and thread.loopLevel() > 0


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
