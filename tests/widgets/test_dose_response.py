"""The way of a screener over a plate of 384 wells, by mouse and keys alone."""

from __future__ import annotations

import sys
import time

import pytest
from qtpy.QtCore import QPoint, Qt, QTimer
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

from mouse import drop_on_canvas, pump, until
from napari_ngff.viewer.browsing.canvas_controls import NAMES_KEY
from napari_ngff.widgets.browser.host import browser_of
from plates import write_plate

pytestmark = pytest.mark.slow

LEFT = Qt.MouseButton.LeftButton
PLAIN = Qt.KeyboardModifier.NoModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier
ROWS = "ABCDEFGHIJKLMNOP"


class Tutorial:
    """Counts what the user does, and how long the window takes for it."""

    def __init__(self):
        self.steps = []
        self._begun = time.monotonic()

    def reached(self, title, actions):
        """Note what was reached by so many clicks, drops or lines of text."""
        now = time.monotonic()
        self.steps.append((title, actions, now - self._begun))
        self._begun = now

    def __str__(self):
        lines = [f"{t}: {n} actions, {s:.1f} s" for t, n, s in self.steps]
        actions, seconds = (sum(step[i] for step in self.steps) for i in (1, 2))
        return "\n".join([*lines, f"all: {actions} actions, {seconds:.1f} s"])


@pytest.fixture(scope="module")
def plate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("screen")
    lines = ["well,compound,dose"]
    for number, row in enumerate(ROWS):
        for column in range(1, 25):
            control = column in (1, 24)
            compound = "dmso" if control else f"compound {number // 2 + 1}"
            dose = 0 if control else 1000 / 2 ** (column - 2)
            lines.append(f"{row}{column:02},{compound},{dose:.6g}")
    (folder / "conditions.csv").write_text("\n".join(lines))
    write_plate(
        folder / "screen.ome.zarr",
        grid=(16, 24),
        fields=1,
        shape=(1, 16, 16),
        labelled=lambda _: ("nuclei",),
    )
    return folder


def choose_from_menu(button, text):
    """Press a button, and choose from its menu, which runs a loop of its own."""

    def choose():
        menu = button.menu()
        action = next(a for a in menu.actions() if a.text() == text)
        QTest.mouseClick(menu, LEFT, PLAIN, menu.actionGeometry(action).center())

    QTimer.singleShot(200, choose)
    QTest.mouseClick(button, LEFT)


def choose_from_box(box, text):
    QTest.mouseClick(box, LEFT)
    view = box.view()
    until(view.isVisible)
    pump(QApplication.doubleClickInterval() + 100)  # Qt takes no click before that
    row = view.visualRect(box.model().index(box.findText(text), 0))
    place = QPoint(20, row.center().y())
    QTest.mouseMove(view.viewport(), place)
    QTest.mouseClick(view.viewport(), LEFT, PLAIN, place)
    until(lambda: not view.isVisible())


def color_of(dock, well):
    rect = dock.map.rectOf(well)
    picture = dock.map.viewport().grab().toImage()
    return picture.pixelColor(rect.center().x(), rect.top() + rect.height() // 4).name()


def opened(viewer, plate):
    viewer.window.resize(1280, 800)
    viewer.open(str(plate / "screen.ome.zarr"), plugin="napari-ngff")
    until(lambda: browser_of(viewer) is not None)
    dock = browser_of(viewer)
    until(lambda: bool(dock.tables.tables().browser.known_labels))
    pump(500)
    assert dock.map.rectOf("A/1").width() >= 10
    assert viewer.canvas.size[1] >= 400
    return dock


def take_tutorial(viewer, dock, plate, tutorial):
    drop_on_canvas(viewer, plate / "conditions.csv")
    until(lambda: dock.map.state.coloring is not None)
    assert dock.tables.column.currentText() == "dose"
    assert dock.tables.log.isChecked()
    # Each dilution has a colour of its own, and each row the same ones.
    doses = [color_of(dock, f"C/{column}") for column in range(2, 24)]
    assert len(set(doses)) == 22
    assert [color_of(dock, f"P/{column}") for column in range(2, 24)] == doses
    tutorial.reached("conditions loaded, coloured by log dose", 1)

    choose_from_menu(dock.tables.measure, "nuclei in all fields")
    until(lambda: dock.tables.table.currentText() == "nuclei, measured")
    until(lambda: not dock.tables.progress.isVisible())
    tutorial.reached("384 wells measured", 2)

    choose_from_box(dock.tables.column, "area")
    until(lambda: dock.map.state.coloring.title == "area, mean of objects")
    choose_from_box(dock.tables.column, "dose")
    until(lambda: dock.map.state.coloring.title == "dose")
    assert [color_of(dock, f"C/{column}") for column in range(2, 24)] == doses
    tutorial.reached("coloured by area, and by log dose again", 4)

    QTest.keyClicks(dock.controls.filter, "compound = compound 3 and dose > 100")
    shown = {f"{row}/{column}" for row in "EF" for column in range(2, 6)}
    until(lambda: dock.map.state.shown == shown)
    tutorial.reached("one compound found by name and dose", 1)

    compare(viewer, dock, ("E/2", "E/5", "F/2", "E/1"))
    tutorial.reached("four wells compared", 4)


def compare(viewer, dock, wells):
    """Show a well, and three more beside it, under one contrast."""
    for number, well in enumerate(wells):
        place = dock.map.rectOf(well).center()
        QTest.mouseClick(dock.map.viewport(), LEFT, SHIFT if number else PLAIN, place)
        if not number:
            until(lambda: dock.browser().position is not None)
    until(lambda: len(dock.browser().pinned_fields) == 3)
    until(lambda: len(viewer.scene.overlays[NAMES_KEY].names.images) == 4)
    pump()
    images = [layer for layer in viewer.layers if layer._type_string == "image"]
    assert len(images) == 4
    images[0].contrast_limits = (5, 200)
    assert {tuple(image.contrast_limits) for image in images} == {(5, 200)}


def annotate_by_keys(viewer, tutorial):
    """Mark ten fields as done, without the mouse."""
    _, annotate = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    bar = annotate.round
    bar.begin.setFocus()
    QTest.keyClick(bar.begin, Qt.Key.Key_Space)
    until(lambda: bar.annotation is not None and len(bar.annotation.fields) == 384)
    tutorial.reached("annotation of all fields begun", 2)
    canvas = viewer.window._qt_viewer.canvas.native
    for number in range(10):
        QTest.keyClick(canvas, Qt.Key.Key_D, SHIFT)
        until(lambda n=number: bar.bar.value() == n + 1)
        before = bar.annotation.current_key
        QTest.keyClick(canvas, Qt.Key.Key_Period, PLAIN)
        until(lambda b=before: bar.annotation.current_key not in (b, None))
    tutorial.reached("ten fields done, by keys", 20)


@pytest.mark.long
def test_doses_are_seen_measured_and_compared(viewer, plate, capsys):
    dock = opened(viewer, plate)
    tutorial = Tutorial()
    take_tutorial(viewer, dock, plate, tutorial)
    annotate_by_keys(viewer, tutorial)
    with capsys.disabled():
        sys.stdout.write(f"\n{tutorial}\n")
    assert sum(step[1] for step in tutorial.steps) == 34
