"""A session of annotation as a person has it, by events that the X server makes."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
import zarr
from qtpy.QtGui import QCursor
from qtpy.QtWidgets import QApplication, QLineEdit, QScrollArea

from mouse import canvas, drop_on_canvas, on_canvas, pump, until
from napari_ngff.cli import main
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.samples import write_plate
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.annotate.class_table import NAME
from napari_ngff.widgets.browser.host import browser_of
from napari_ngff.widgets.form_dialog import shown_form
from pointer import x

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("xdotool") is None, reason="needs xdotool"),
    pytest.mark.skipif(not os.environ.get("DISPLAY"), reason="needs an X server"),
]

NAMES = "nucleus", "debris", "dividing"
FIELDS = 5
NAME_OF_LABELS = "phenotypes"


def press(widget, at=None):
    """Click the middle of a widget, or a point of it, with the real pointer."""

    area = widget.parentWidget()
    while not isinstance(area, QScrollArea | None):
        area = area.parentWidget()

    def over():
        if area is not None:
            area.ensureWidgetVisible(widget)
        place = widget.mapToGlobal(at or widget.rect().center())
        if QCursor.pos() == place:
            return True
        x("mousemove", place.x(), place.y())
        return False  # the window may have been laid out anew meanwhile

    until(over)
    x("click", 1)
    pump(100)


def show_dock(viewer):
    _, dock = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    viewer.window.resize(1500, 900)
    viewer.window._qt_window.raise_()
    viewer.window._qt_window.activateWindow()
    pump(300)
    return dock


def stroke(viewer, layer, y, x0, x1):
    """Draw a line with the real pointer, from (y, x0) to (y, x1) in voxels."""
    native = canvas(viewer).native
    ends = []
    for at in (x0, x1):
        world = layer.data_to_world((0,) * (layer.ndim - 2) + (y, at))[-2:]
        ends.append(native.mapToGlobal(on_canvas(viewer, world).toPoint()))
    x("mousemove", ends[0].x(), ends[0].y())
    x("mousedown", 1)
    x("mousemove", ends[1].x(), ends[1].y())
    x("mouseup", 1)
    pump(150)


def voxel(layer, y, at):
    zeros = [[0]] * (layer.ndim - 2)
    return int(layer.canvas.levels[0].read_points([*zeros, [y], [at]])[0])


def editors(dock):
    found = dock.classes.table.findChildren(QLineEdit)
    return [one for one in found if one.isVisible()]


def add_classes(viewer, dock):
    for name in NAMES:
        press(dock.classes.buttons["Add class"])
        until(lambda: editors(dock))
        editors(dock)[0].selectAll()
        x("type", "--delay", "20", name)
        pump(200)
        x("key", "Return")
        until(lambda n=name: n in [one.name for one in dock.classes.classes.items])
    assert [one.name for one in dock.classes.classes.items] == list(NAMES)


def annotate_field(viewer, dock):
    """Paint the three classes by their keys, and take one more stroke back."""
    layer = dock.round.annotation.layer
    layer.mode, layer.brush_size = "paint", 20
    viewer.reset_view()
    pump(200)
    middle = canvas(viewer).native
    place = middle.mapToGlobal(middle.rect().center())
    x("mousemove", place.x(), place.y())
    height, width = layer.data.shape[-2:]
    for key in (1, 2, 3):
        x("key", key)
        until(lambda k=key: layer.selected_label == k)
        y = height * key // 5
        stroke(viewer, layer, y, width // 4, width // 2)
        until(lambda k=key, at=y: voxel(layer, at, width // 3) == k)
    last = height * 4 // 5
    stroke(viewer, layer, last, width // 4, width // 2)
    until(lambda: voxel(layer, last, width // 3) == 3)
    x("key", "ctrl+z")
    until(lambda: voxel(layer, last, width // 3) == 0)
    return layer


def opened(viewer, path):
    """Drop the plate; gives the dock, and who walks."""
    drop_on_canvas(viewer, path)
    until(lambda: len(viewer.layers) and browser_of(viewer) is not None)
    return show_dock(viewer), session_of(viewer).browser


def begin(viewer, dock, browser):
    """Make labels in the first field, with three classes, and begin the round."""
    browser.show_field(browser.map.wells[0].path)
    until(lambda: browser.position is not None)
    viewer.layers.selection.active = viewer.layers[0]
    press(dock.make)
    until(lambda: shown_form(viewer, "New labels") is not None)
    form = shown_form(viewer, "New labels")
    until(lambda: QApplication.focusWidget() is form.called.native)
    x("type", "--delay", "20", NAME_OF_LABELS)
    until(lambda: form.called.value == NAME_OF_LABELS)
    x("key", "Return")
    until(lambda: NAME_OF_LABELS in viewer.layers)
    assert shown_form(viewer, "New labels") is None
    pump(200)
    viewer.window.resize(1500, 900)
    pump(200)
    add_classes(viewer, dock)
    press(dock.round.begin)
    until(lambda: dock.round.annotation is not None and dock.round.annotation.fields)
    assert dock.round.annotation.name == NAME_OF_LABELS
    return dock.round.annotation


def go_on(dock, found):
    here = found.current_key
    press(dock.round.next)
    until(lambda: found.current_key != here and found.layer is not None)


def annotate_fields(viewer, dock, browser):
    """Annotate some fields; gives their keys. The third one is done."""
    found = begin(viewer, dock, browser)
    walked = []
    for number in range(FIELDS):
        walked.append(found.current_key)
        annotate_field(viewer, dock)
        if number == 2:
            dock.round.state.setCurrentText("done")
            dock.round.state.activated.emit(dock.round.state.currentIndex())
            until(lambda: found.state == "done")
        go_on(dock, found)
    assert len(set(walked)) == FIELDS
    assert found.progress["done"] == 1
    assert found.progress["in progress"] == FIELDS - 1
    press(dock.round.todo)
    until(lambda: found.current_key not in walked and found.layer is not None)
    pump(500)
    press(dock.round.browse)
    until(lambda: not browser_of(viewer).visibleRegion().isEmpty())
    press(browser_of(viewer).annotate)
    until(lambda: not dock.visibleRegion().isEmpty())
    return walked


def same_as_painted(path, field, colors):
    """What another program finds on the disk."""
    folder = path / field / "labels" / NAME_OF_LABELS
    info = open_node(folder).metadata.image.label
    assert [info.colors[value] for value in (1, 2, 3)] == colors
    names = [info.properties[v]["napari-ngff:class-name"] for v in (1, 2, 3)]
    assert names == list(NAMES)
    pixels = zarr.open_array(folder / "0", mode="r")[...]
    assert set(np.unique(pixels)) == {0, 1, 2, 3}
    height, width = pixels.shape[-2:]
    for key in (1, 2, 3):
        assert (pixels[..., height * key // 5, width // 3] == key).any()


@pytest.mark.long
def test_a_plate_is_annotated_closed_and_opened_again(
    viewer, make_napari_viewer, tmp_path
):
    if QApplication.platformName() != "xcb":
        pytest.skip("the window is not on the X server")
    path = write_plate(tmp_path / "plate.ome.zarr", grid=(2, 3), fields=3)
    dock, browser = opened(viewer, path)
    walked = annotate_fields(viewer, dock, browser)
    first = browser.map.wells[0].path
    until(lambda: first in browser_of(viewer).map.state.states)
    shown = browser_of(viewer).map.state.states
    assert shown[first].share_of("done") == pytest.approx(1 / 3)
    viewer.close()
    pump(200)

    # Another window, later.
    again = make_napari_viewer(show=True)
    dock, browser = opened(again, path)
    browser.show_field(*walked[2].rsplit("/", 1))
    until(lambda: browser.position is not None)
    layer = next(one for one in again.layers if one.name.startswith(NAME_OF_LABELS))
    layer.visible = True
    again.layers.selection.active = layer
    pump(100)
    model = dock.classes.table.rows
    texts = [model.index(row, NAME).data() for row in range(model.rowCount())]
    assert texts == list(NAMES)
    press(dock.round.begin)
    until(lambda: dock.round.annotation is not None and dock.round.annotation.fields)
    assert dock.round.state.currentText() == "done"
    colors = [one.color for one in classes_of_layer(layer).items]
    for field in walked:
        same_as_painted(path, field, colors)
    assert main(["check", str(path)]) == 0
