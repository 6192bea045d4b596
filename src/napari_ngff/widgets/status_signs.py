"""Signs in the status bar, and on the canvas the levels seen in 3D.

The latter is a widget: as a text of vispy, its first letters hold the window for 0.2 s.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from qtpy.compat import isalive
from qtpy.QtCore import QEvent, QObject, Qt, QTimer
from qtpy.QtWidgets import (
    QApplication,
    QLabel,
    QMainWindow,
    QMenu,
    QPushButton,
    QWidget,
)

from napari_ngff.viewer.inspecting.inspection import FileProblems, find_problems
from napari_ngff.viewer.plans.layer_plan import origin_of
from napari_ngff.viewer.private.napari_window import qt_viewer_of, qt_window_of
from napari_ngff.viewer.services.notices import count_noun, last_part
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import all_viewers, session_of
from napari_ngff.viewer.streaming.missing_parts import (
    MissingPart,
    MissingRetry,
    has_failed,
    list_missing,
    missing_text,
)
from napari_ngff.widgets.connections import connect_while_alive, while_alive
from napari_ngff.widgets.docking import INSPECTOR, show_dock
from napari_ngff.widgets.form_dialog import is_window_open

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.components import ViewerModel

    from napari_ngff.metadata.model import Problem


SignT = TypeVar("SignT", bound="QWidget")

INTERVAL = 500
"""Milliseconds between two looks at what is missing."""

TRY_AGAIN = "Try again now"


def watch_windows() -> None:
    """Look in all windows whether chunks are missing, until none is."""
    for viewer in all_viewers():
        if is_window_open(viewer):
            sign = sign_of(viewer, MissingSign)
            (sign or MissingSign(viewer, qt_window_of(viewer))).watch()


def sign_of(viewer: Any, kind: type[SignT]) -> SignT | None:
    """Find a sign in the window of a viewer, if it has one."""
    window = qt_window_of(viewer) if is_window_open(viewer) else None
    sign: SignT | None = None if window is None else window.findChild(kind)
    return sign


def put_in_status_bar(sign: QWidget, window: QMainWindow) -> None:
    """Show a widget in the status bar of a window for as long as it wants to be seen.

    Permanent: messages of napari take the place of all other widgets there. At the end:
    Qt warns of any other place, which is before napari's widgets.
    """
    bar = window.statusBar()
    assert bar is not None
    bar.addPermanentWidget(sign)


class MissingSign(QPushButton):
    """Counts the chunks that are missing on the screen; a click lists them."""

    def __init__(self, viewer: ViewerModel, window: QMainWindow) -> None:
        super().__init__(window)
        self._viewer = viewer
        self._retry = MissingRetry(viewer)
        self._menu = QMenu(self)
        self._menu.setToolTipsVisible(True)
        self._menu.aboutToShow.connect(self._fill_menu)
        self.setFlat(True)
        self.setMenu(self._menu)
        self._timer = QTimer(self)
        self._timer.setInterval(INTERVAL)
        self._timer.timeout.connect(self.showMissing)
        put_in_status_bar(self, window)
        self.hide()

    def watch(self) -> None:
        """Look now and then, until all chunks are there."""
        if not self._timer.isActive():
            self._timer.start()

    def showMissing(self) -> None:
        """Count what is missing now."""
        # Before the list: a worker may read the last chunk while that is shown.
        goes_on = has_failed(self._viewer)
        parts = list_missing(self._viewer, session_of(self._viewer).name_image)
        text = missing_text(parts)
        self.setText(text)
        self.setToolTip("\n".join(part.text for part in parts))
        self.setVisible(bool(text))
        self._retry.ask_sometimes()
        if not goes_on:
            self._timer.stop()

    def retry(self) -> None:
        """Have it read again now."""
        self._retry.ask_now()

    def _fill_menu(self) -> None:
        parts = list_missing(self._viewer, session_of(self._viewer).name_image)
        self._menu.clear()
        for part in parts:
            self._list_part(part)
        if not all(part.is_damaged for part in parts):
            self._menu.addSeparator()
            again = self._menu.addAction(TRY_AGAIN)
            if again is not None:
                again.triggered.connect(self.retry)

    def _list_part(self, part: MissingPart) -> None:
        action = self._menu.addAction(part.text.replace("&", "&&"))
        if action is not None:
            action.setEnabled(False)
            action.setToolTip(str(part.error))


TEXT = "Unsaved changes"

MOST_NAMED = 10
"""Layers, and images, that the tool tip lists."""


class UnsavedSign(QLabel):
    """Shows that a viewer has labels with unsaved changes, wherever the mouse is.

    Also that edits of an earlier session wait for the user to go to their image.

    napari's own status names that of the selected layer, after the values under the
    mouse: of many layers, or classes, these take all of the bar.
    """

    def __init__(self, viewer: ViewerModel, window: QMainWindow) -> None:
        super().__init__(TEXT, window)
        self.setContentsMargins(6, 0, 6, 0)
        put_in_status_bar(self, window)
        session = session_of(viewer)
        self._annotations, self._recovery = session.annotations, session.recovery
        for signal in (self._annotations.changed, self._recovery.places_changed):
            connect_while_alive(signal, self, self.showState)
        self.hide()

    def showState(self) -> None:
        """Show the sign where anything is unsaved."""
        names = [x.name for x in self._annotations.list_savable()]
        places = self._recovery.waiting_places
        self.setVisible(bool(names or places))
        lines = ["Ctrl+S saves:", *_shorten_list(names)] if names else []
        if places:
            lines += ["Restored when you go there:", *_shorten_list(places)]
        where = places[0] if len(places) == 1 else f"{len(places)} other images"
        self.setText(TEXT if names else f"Unsaved edits in {where}")
        self.setToolTip("\n".join(lines))


def _shorten_list(names: Sequence[str]) -> list[str]:
    return [*names[:MOST_NAMED], *(["…"] if len(names) > MOST_NAMED else [])]


def show_sign(viewer: Any, path: str, problems: tuple[Problem, ...]) -> None:
    """Show, in the main thread, that a file has problems."""
    if QApplication.instance() is not None:
        Window.current.run_in_main(lambda: add_problems(viewer, path, problems))


def add_problems(viewer: Any, path: str, problems: tuple[Problem, ...]) -> None:
    """Add problems of a file to the sign of a window, if there is one."""
    if is_window_open(viewer):
        sign = sign_of(viewer, ProblemSign)
        sign = sign or ProblemSign(viewer, qt_window_of(viewer))
        sign.addProblems(path, problems)


class ProblemSign(QPushButton):
    """Counts the errors of the files that are open; a click opens the inspector.

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
        connect_while_alive(viewer.layers.events.removed, self, self._on_removed)
        put_in_status_bar(self, window)
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
                done = partial(while_alive(self._on_judged), file, known)
                Window.current.run_work(partial(find_problems, file, known), done)

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
            count = count_noun(self._judged[path].error_count, "error")
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
        if self._known.get(path) is known:
            self.correctCount(path, problems)

    def _on_removed(self, event: Any = None) -> None:
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
        self.setText(count_noun(total, "error"))
        self.setVisible(total > 0)


MARGIN = 8
"""Pixels to the edges of the canvas."""

LOOK = "color: white; background: rgba(0, 0, 0, 160); padding: 2px 5px;"
"""Readable on bright and on dark pixels, in both themes."""


def show_text(viewer: ViewerModel, text: str) -> None:
    """Show a text on the canvas of a viewer; "" hides it."""
    label, canvas = sign_of(viewer, LevelLabel), canvas_of(viewer)
    if label is None and canvas is not None and text:
        label = LevelLabel(canvas)
    if label is not None:
        label.showText(text)


def canvas_of(viewer: ViewerModel) -> QWidget | None:
    """Find the widget of a viewer's canvas; None without a window."""
    view = qt_viewer_of(viewer)
    if view is None or not isalive(view):  # type: ignore[no-untyped-call]
        return None
    canvas: QWidget = view.canvas.native
    return canvas


class LevelLabel(QLabel):
    """A text at the lower left of a canvas; the mouse goes through it."""

    def __init__(self, canvas: QWidget) -> None:
        super().__init__(canvas)
        self._canvas = canvas
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setStyleSheet(LOOK)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        canvas.installEventFilter(self)

    def showText(self, text: str) -> None:
        """Show a text; "" hides the label."""
        self.setText(text)
        self.setVisible(bool(text))
        self._place()

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        """Stay in the corner."""
        if event is not None and event.type() == QEvent.Type.Resize:
            self._place()
        return False

    def _place(self) -> None:
        self.adjustSize()
        self.move(MARGIN, self._canvas.height() - self.height() - MARGIN)
