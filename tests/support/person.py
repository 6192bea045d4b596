"""A person at napari's window: pointer and keys of the X server, dropped files.

The tutorial runs in a thread of its own and Qt's event loop in the main thread, as when
a user works: menus, dialogs and questions are answered like everything else.

    TUTORIAL_PICTURES=FOLDER   writes a picture of the screen after each step
    TUTORIAL_THEME=light       in the light theme
    TUTORIAL_SIZE=1920x1080    in a window of this size
"""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest
from napari._qt.dialogs.qt_notification import NapariQtNotification
from qtpy.QtCore import QEvent, QEventLoop, QObject, QPoint, Qt, QTimer, Signal
from qtpy.QtGui import QCursor, QGuiApplication
from qtpy.QtWidgets import QApplication, QFileDialog, QMenu, QPushButton, QScrollArea

import mouse
import patience
from napari_ngff.widgets.docking import ANNOTATE, full_name
from napari_ngff.widgets.form_dialog import shown_form
from tutorial_page import read_steps, shown_texts, without_keys

needs_pointer = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("xdotool") is None, reason="needs xdotool"),
    pytest.mark.skipif(not os.environ.get("DISPLAY"), reason="needs an X server"),
]

SIZE = tuple(map(int, os.environ.get("TUTORIAL_SIZE", "1280x800").split("x")))
PICTURES = Path(__file__).parents[2] / "docs/images/tutorials"

KINDS = {
    "mousemove": QEvent.Type.MouseMove,
    "mousedown": QEvent.Type.MouseButtonPress,
    "mouseup": QEvent.Type.MouseButtonRelease,
    "click": QEvent.Type.MouseButtonRelease,
}
"""What Qt is told of a command."""


class MainThread(QObject):
    """Calls functions in the main thread, also while a dialog waits for an answer."""

    asked = Signal(object)

    def __init__(self):
        super().__init__()
        self.asked.connect(self._call, Qt.ConnectionType.QueuedConnection)

    def _call(self, call):
        call()


class Listener(QObject):
    """Notes whether Qt has been told of what the X server was asked for."""

    def __init__(self, kind, place):
        super().__init__()
        self.kind, self.place = kind, place
        self.reported = kind is None or (place is not None and QCursor.pos() == place)
        QApplication.instance().installEventFilter(self)

    def eventFilter(self, watched, event):
        if event.type() == self.kind and (
            self.place is None or event.globalPosition().toPoint() == self.place
        ):
            self.reported = True
        return False


class Person:
    """What a user can do, see and look up; used in the thread of a tutorial.

    Parameters
    ----------
    viewer
        Whose window is used.
    name
        Of the page in docs/tutorials; its pictures begin with it. A person without
        such a page does something else.
    """

    def __init__(self, viewer, name):
        self.name = name
        self.steps = []
        self._wanted = read_steps(name)
        self._seen = set()
        self._main = MainThread()
        self._failed = []
        self._listener = None
        self.sits_at(viewer)
        mouse.pump(200)

    def take(self, tutorial):
        """Take a tutorial; fails where it does, or where its pictures are others.

        Widgets are let go of in the main thread alone: where another thread holds one
        last, or collects it, Qt deletes it while events for it may be on their way.
        """
        loop = QEventLoop()
        thread = threading.Thread(
            target=self._run, args=(tutorial, loop), name="person", daemon=True
        )
        gc.disable()
        try:
            thread.start()
            loop.exec()
            thread.join()
        finally:
            gc.enable()
        if self._failed:
            raise self._failed[0]
        if "TUTORIAL_PICTURES" not in os.environ:
            kept = {path.stem for path in PICTURES.glob(f"{self.name}-*.png")}
            assert kept == set(self.steps), "docs/images/make.py tutorials"

    def _run(self, tutorial, loop):
        try:
            tutorial(self)
            if self._wanted:
                self.look(lambda: self._follow_page(None))
        except BaseException as error:  # noqa: BLE001  raised in the main thread
            self._failed.append(error)
            self.look(lambda: self._picture(f"failed-{self.name}"))
        self.look(self._close_popups if self._failed else lambda: None)
        self._main.asked.emit(loop.quit)

    def _close_popups(self):
        for find in (QApplication.activePopupWidget, QApplication.activeModalWidget):
            while (widget := find()) is not None:
                widget.close()

    # --- looking

    def look(self, find):
        """Call a function in the main thread; gives what it returns, or raises."""
        found, done = [], threading.Event()

        def call():
            try:
                found.append((find(), None))
            except BaseException as error:  # noqa: BLE001  raised to who asks
                found.append((None, error))
            done.set()

        self._main.asked.emit(call)
        assert done.wait(patience.PATIENCE), "the window does not answer"
        value, error = found[0]
        if error is not None:
            raise error
        return value

    def sees(self, condition):
        """Wait until a condition holds in the main thread, asserting nothing false.

        Gives its value.
        """
        values = []

        def check():
            values[:] = [self.look(condition)]
            return values[0]

        patience.until(check)
        return values[0]

    def sits_at(self, viewer):
        """Go on at another window."""
        self.viewer = viewer
        viewer.theme = os.environ.get("TUTORIAL_THEME", "dark")
        window = viewer.window._qt_window
        # What napari's fixture closes at the end has to be there.
        window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
        window.setGeometry(0, 0, *SIZE)
        window.raise_()
        window.activateWindow()

    def window_is_closed(self):
        """See that the user's answer closed the window; lets the viewer go."""
        viewer = self.viewer  # not the window: see `take`
        self.sees(lambda: not viewer.window._qt_window.isVisible())
        self.look(viewer.close)

    def select_all_layers(self):
        """Click the first layer of the list, and the last with Shift."""
        listed = self.viewer.window._qt_viewer.layers
        for row, held in ((0, None), (len(self.viewer.layers) - 1, "shift")):
            place = self.look(lambda n=row: row_place(listed, n))
            self.click(listed.viewport(), place, holding=held)
        self.sees(lambda: len(self.viewer.layers.selection) == len(self.viewer.layers))

    def remove_layers(self):
        """Remove all layers by the button of the list."""
        self.select_all_layers()
        self.click(self.viewer.window._qt_viewer.layerButtons.deleteButton)
        self.sees(lambda: len(self.viewer.layers) == 0)

    def layer(self, name):
        """Wait for a layer."""
        layers = self.viewer.layers
        return self.sees(lambda: name in layers and layers[name])

    def rest(self, seconds=0.1):
        """Let the window draw."""
        time.sleep(seconds)
        self.look(lambda: None)

    def step(self, name):
        """End a step: nothing is cut off by the screen, and a picture may be taken."""
        self.steps.append(f"{self.name}-{name}")
        self.rest(0.6 if "TUTORIAL_PICTURES" in os.environ else 0.1)
        self.look(self._check_window)

    def _follow_page(self, picture):
        """The page leads to this picture, by names that the window has shown since."""
        self._note_texts()
        (wanted, names), *self._wanted = self._wanted
        assert wanted == picture, f"docs/tutorials/{self.name}.md"
        unseen = {
            name for name in names if not any(t.startswith(name) for t in self._seen)
        }
        assert not unseen, f"docs/tutorials/{self.name}.md names {unseen}"
        self._seen.clear()

    def _note_texts(self):
        if self._wanted:
            self._seen |= shown_texts()

    def _check_window(self):
        if self._wanted:
            self._follow_page(self.steps[-1])
        frame = self.viewer.window._qt_window.frameGeometry()
        assert (frame.width(), frame.height()) == SIZE, f"the window is {frame}"
        self._picture(self.steps[-1])

    def _picture(self, name):
        folder = os.environ.get("TUTORIAL_PICTURES")
        if folder:
            picture = QGuiApplication.primaryScreen().grabWindow(0, 0, 0, *SIZE)
            picture.save(os.path.join(folder, f"{name}.png"))

    # --- pointer and keys

    def x(self, *command):
        """Run xdotool, and wait until the window has what its pointer did."""
        name, *rest = command
        if name != "mousemove":
            self.look(self._note_texts)
        place = QPoint(*rest) if name == "mousemove" else None
        self.look(lambda: self._listen(KINDS.get(name), place))
        subprocess.run(
            ["xdotool", *map(str, command)], check=True, timeout=patience.PATIENCE
        )
        self.sees(lambda: self._listener.reported)
        self.look(self._end_listening)
        self.rest(0.03)  # napari's canvas holds moves back for 5 ms

    # Only the main thread holds the listener: see `take`.
    def _listen(self, kind, place):
        self._listener = Listener(kind, place)

    def _end_listening(self):
        self._listener = None

    def press(self, *keys):
        """Press keys by their names in X, such as ctrl+s."""
        self.x("key", "--delay", 40, *keys)
        self.rest()

    def types(self, text):
        self.x("type", "--delay", 8, text)
        self.rest()

    def point(self, widget, at=None):
        """Move the pointer over a widget, which must be there to be seen."""

        def place():
            area = widget.parentWidget()
            while not isinstance(area, QScrollArea | None):
                area = area.parentWidget()
            if area is not None:
                area.ensureWidgetVisible(widget)
            found = widget.mapToGlobal(at or widget.rect().center())
            over = QApplication.widgetAt(found)
            seen = over is widget or (over is not None and widget.isAncestorOf(over))
            return seen and (found.x(), found.y())

        before = None
        while before != (before := self.sees(place)):
            self.x("mousemove", *before)

    def click(self, widget, at=None, *, button=1, times=1, holding=None):
        """Click a widget, or what a function finds in the main thread."""
        if callable(widget) and not isinstance(widget, QObject):
            widget = self.sees(widget)
        self.point(widget, at)
        if holding:
            self.x("keydown", holding)
        for _ in range(times):
            self.x("click", button)
        if holding:
            self.x("keyup", holding)
        self.rest()

    def make_labels(self, name, step=None):
        """Make new labels by the menu, a name and Enter; gives their layer."""
        self.choose("File", "New Layer", "New labels… (OME-Zarr)")
        form = self.sees(lambda: shown_form(self.viewer, "New labels"))
        self.sees(lambda: QApplication.focusWidget() is form.called.native)
        self.types(name)
        if step:
            self.step(step)
        self.press("Return")
        layer = self.layer(name)
        self.rest(0.3)
        return layer

    def save(self, layer):
        """Press Ctrl+S, and see that labels are saved."""
        self.press("ctrl+s")
        self.sees(lambda: not layer.unsaved and not layer.saver.running)

    def show_annotate(self):
        """Open the annotate dock by the menu."""
        self.choose("Layers", "Annotate", "Annotate (OME-Zarr)")
        name = full_name(ANNOTATE)
        dock = self.sees(lambda: self.viewer.window.dock_widgets.get(name))
        self.sees(dock.isVisible)
        return dock

    def click_button(self, text):
        """Click the visible button with a text, in whatever window."""
        self.click(lambda: button_with(text))

    def choose(self, *titles):
        """Choose from the menus of the window."""
        bar = self.look(self.viewer.window._qt_window.menuBar)
        self._choose_in(bar, titles[0])
        self.choose_in_menu(*titles[1:])

    def choose_in_menu(self, *titles):
        """Choose from the menu that is open, and those that it opens."""
        for title in titles:
            self._choose_in(self.sees(lambda t=title: menu_with(t)), title)
        self.rest()

    def _choose_in(self, menu, title):
        def place():
            return menu.actionGeometry(action_of(menu, title)).center()

        self.click(menu, self.look(place))

    # --- the canvas

    def on_canvas(self, point):
        """Place of the screen at a world position (y, x)."""

        def place():
            native = mouse.canvas(self.viewer).native
            at = native.mapToGlobal(mouse.on_canvas(self.viewer, point).toPoint())
            return at.x(), at.y()

        return self.look(place)

    def draw(self, points, *, button=1):
        """Press at the first world position, move along the others, release."""
        self.x("mousemove", *self.on_canvas(points[0]))
        self.x("mousedown", button)
        for point in points[1:]:
            self.x("mousemove", *self.on_canvas(point))
        self.x("mouseup", button)
        self.rest()

    def click_canvas(self, point, *, button=1, times=1):
        self.x("mousemove", *self.on_canvas(point))
        for _ in range(times):
            self.x("click", button)
        self.rest()

    def wheel(self, point, notches):
        """Turn the wheel over a world position: up is closer."""
        self.x("mousemove", *self.on_canvas(point))
        button = "4" if notches > 0 else "5"
        for _ in range(abs(notches)):
            # Qt is told of a wheel, not of a button.
            subprocess.run(["xdotool", "click", button], check=True)
            self.rest(0.05)

    # --- files and dialogs

    def drop(self, *paths, on=None):
        """Drop files from a file manager, on the canvas or a widget."""
        target = on or self.viewer.window._qt_viewer
        # From the event loop, as a drop is.
        self.look(lambda: QTimer.singleShot(0, lambda: mouse.drop(target, *paths)))

    def file_dialog(self):
        """Wait for a dialog that asks for a file."""

        def find():
            dialog = QApplication.activeModalWidget()
            return isinstance(dialog, QFileDialog) and dialog

        return self.sees(find)

    def notices(self):
        """Texts of the notices that are to be seen in the window."""
        return self.look(self.notices_now)

    def notices_now(self):
        shown = self.viewer.window._qt_window.findChildren(NapariQtNotification)
        return [one.message.text() for one in shown if one.isVisible()]


def row_place(listed, row):
    """Place of a row in a list of napari."""
    index = listed.model().index(row, 0)
    listed.scrollTo(index)
    return listed.visualRect(index).center()


def button_with(text):
    """Find the button that is to be seen with a text, of a question if one is open."""
    asking = QApplication.activeModalWidget()
    found = {
        button
        for window in ([asking] if asking else QApplication.topLevelWidgets())
        for button in window.findChildren(QPushButton)
        if button.isVisible() and without_keys(button.text()) == text
    }
    return found.pop() if len(found) == 1 else None


def menu_with(title):
    """Find the open menu that has an entry."""
    for menu in QApplication.topLevelWidgets():
        if isinstance(menu, QMenu) and menu.isVisible() and action_of(menu, title):
            return menu
    return None


def action_of(menu, title):
    """Find an entry of a menu, by its text without the mnemonic."""
    return next((a for a in menu.actions() if without_keys(a.text()) == title), None)
