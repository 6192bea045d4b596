"""Labels that others made are changed by a step of the person's own alone."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
import zarr
from napari._qt.dialogs.qt_notification import NapariQtNotification
from napari.utils.notifications import notification_manager
from qtpy.QtCore import QPoint, Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QPushButton

from mouse import CONTROL, canvas, drag, pump, until
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.browsing.positions import key_of
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of
from pipeline_plate import FIELDS, bytes_of, write_pipeline_plate

pytestmark = pytest.mark.slow

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def plate(tmp_path):
    return write_pipeline_plate(tmp_path / "screen.ome.zarr")


class Desk:
    """A window with a plate, its map and the annotate dock."""

    def __init__(self, viewer, plate):
        use_workers()
        self.viewer = viewer
        viewer.open(str(plate), plugin="napari-ngff")
        until(lambda: browser_of(viewer) is not None)
        self.browser = session_of(viewer).browser
        self.map = browser_of(viewer).map
        until(lambda: not self.browser.is_drawing)

    def annotate(self):
        _, dock = self.viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
        pump(100)
        return dock

    def rest(self):
        task, state = self.browser._task, self.browser.state
        until(lambda: task._steps is None and state.wanted is None)
        pump(30)

    def click_well(self, well):
        at = self.map.rectOf(well).center()
        QTest.mouseClick(self.map.viewport(), LEFT, pos=at)
        until(lambda: self.field and self.field.startswith(f"{well}/"))
        self.rest()

    @property
    def field(self):
        position = self.browser.position
        return None if position is None else key_of(position)

    def press(self, key):
        native = canvas(self.viewer).native
        native.setFocus()
        QTest.keyClick(native, key)
        pump(20)

    def save(self):
        """Press Ctrl+S."""
        native = canvas(self.viewer).native
        native.setFocus()
        QTest.keyClick(native, Qt.Key.Key_S, CONTROL)
        until(lambda: not any(x.saver.running or x.unsaved for x in self.painted()))

    def painted(self):
        layers = self.viewer.layers
        return [x for x in layers if isinstance(x, OMEZarrLabels) and x.saver]

    def go_on(self):
        before = self.field
        self.press(Qt.Key.Key_Period)
        until(lambda: self.field != before)
        self.rest()
        return self.field

    @property
    def active(self):
        return self.viewer.layers.selection.active

    def labels(self, name):
        found = [x for x in self.viewer.layers if isinstance(x, OMEZarrLabels)]
        return next((x for x in found if x.name == name), None)

    def stroke(self):
        """Drag over nuclei; gives the plane and row that were under the pointer."""
        image = next(x for x in self.viewer.layers if x._type_string == "image")
        low, high = image.extent.world[:, -2:]
        ends = [low + (high - low) * [0.4, part] for part in (0.2, 0.5, 0.8)]
        drag(self.viewer, ends)


def stored(plate, field, name):
    return zarr.open_array(plate / field / "labels" / name / "0", mode="r")[...]


def annotate_first_fields(desk):
    """A first day: labels of one's own with two classes, in two fields."""
    desk.click_well("A/1")
    image = next(x for x in desk.viewer.layers if x._type_string == "image")
    layer = desk.viewer.add_layer(new_labels(image, "pheno"))
    for name in ("round", "dividing"):
        classes_of_layer(layer).add_class(name)
    layer.mode = "paint"
    desk.press(Qt.Key.Key_1)
    desk.stroke()
    desk.go_on()
    desk.press(Qt.Key.Key_2)
    desk.stroke()
    desk.go_on()


def test_a_click_for_points_paints_no_labels_in_the_next_field(viewer, plate):
    desk = Desk(viewer, plate)
    annotate_first_fields(desk)
    points = viewer.add_points(ndim=viewer.dims.ndim, name="spots")
    points.mode = "add"
    middle = canvas(viewer).native.rect().center()
    QTest.mouseClick(canvas(viewer).native, LEFT, pos=middle)
    until(lambda: len(points.data) == 1)
    field = desk.go_on()
    assert points not in viewer.layers
    assert not isinstance(desk.active, OMEZarrLabels)
    QTest.mouseClick(canvas(viewer).native, LEFT, pos=middle)
    desk.stroke()
    desk.go_on()
    assert not (plate / field / "labels" / "pheno").exists()


NUMBERS = [getattr(Qt.Key, f"Key_{number}") for number in range(1, 10)]


def test_a_round_with_keys_leaves_a_segmentation_as_it_is(
    viewer, make_napari_viewer, plate
):
    before = bytes_of(plate)
    annotate_first_fields(Desk(viewer, plate))
    viewer.close()
    # Another day.
    desk = Desk(make_napari_viewer(show=True), plate)
    desk.click_well("B/1")  # which has none of these labels yet
    assert not isinstance(desk.active, OMEZarrLabels)
    dock = desk.annotate()
    until(lambda: dock.round.begin.isEnabled())
    QTest.mouseClick(dock.round.begin, LEFT)
    until(lambda: dock.round.annotation and dock.round.annotation.fields)
    desk.rest()
    assert dock.round.annotation.name == "pheno"
    painted = {}
    for key in (*NUMBERS[:2], *NUMBERS[3:5], *NUMBERS[:3]):
        assert desk.active is desk.labels("pheno")
        desk.press(key)
        desk.stroke()
        painted[desk.field] = int(desk.labels("pheno").selected_label)
        desk.go_on()
    desk.stroke()
    desk.go_on()
    desk.viewer.close()
    assert len(painted) == 7
    for field, label in painted.items():
        assert label in stored(plate, field, "pheno")
    # Of wells of any depth, also of those whose fields were annotated the day before.
    assert all(stored(plate, field, "pheno").any() for field in FIELDS)
    assert bytes_of(plate) == before


def test_number_keys_choose_no_tool_while_one_annotates(viewer, plate):
    desk = Desk(viewer, plate)
    desk.click_well("A/1")
    nuclei = desk.labels("nuclei")
    viewer.layers.selection.active = nuclei
    desk.press(Qt.Key.Key_1)
    assert nuclei.mode == "erase", "as in napari"
    nuclei.mode = "pan_zoom"
    dock = desk.annotate()
    shape = nuclei.data.shape[-2:]
    others = [
        viewer.add_labels(np.ones(shape, int)),
        viewer.add_points(np.ones((1, 2))),
        viewer.add_shapes(np.ones((1, 4, 2))),
    ]
    for layer in (nuclei, viewer.layers[0], *others):
        viewer.layers.selection.active = layer
        for key in NUMBERS[::4]:
            desk.press(key)
            assert layer.mode == "pan_zoom", (layer, key)
    viewer.window.remove_dock_widget(dock)
    desk.press(Qt.Key.Key_4)
    assert layer.mode != "pan_zoom", "as in napari again"
    # Only a class has a key, and a tool of the person's own.
    dock = desk.annotate()
    viewer.layers.selection.active = nuclei
    classes_of_layer(nuclei).add_class("mitotic", 3)
    desk.press(Qt.Key.Key_1)
    assert (nuclei.mode, nuclei.selected_label) == ("pan_zoom", 3)
    nuclei.mode = "paint"
    desk.press(Qt.Key.Key_1)
    assert nuclei.mode == "paint"


def test_a_segmentation_is_corrected_in_one_step(viewer, plate):
    """Select it, take a tool, paint: in this field and in those that follow."""
    before = bytes_of(plate)
    desk = Desk(viewer, plate)
    desk.click_well("A/1")
    dock = desk.annotate()
    nuclei = desk.labels("nuclei")
    viewer.layers.selection.active = nuclei
    nuclei.mode = "paint"
    until(lambda: dock.round.begin.isEnabled())
    QTest.mouseClick(dock.round.begin, LEFT)
    until(lambda: dock.round.annotation and dock.round.annotation.fields)
    assert dock.round.annotation.name == "nuclei"
    assert dock.round.title() == "Fields: nuclei"
    for _ in range(3):
        assert desk.active is desk.labels("nuclei")
        assert desk.active.mode == "paint"
        desk.stroke()
        desk.go_on()
    changed = {
        path.partition("/labels/")[0]
        for path, data in bytes_of(plate).items()
        if data != before[path]
    }
    assert len(changed) == 3


def test_the_padlock_is_beside_save_and_holds_in_each_field(viewer, plate):
    before = bytes_of(plate)
    desk = Desk(viewer, plate)
    desk.click_well("A/1")
    nuclei = desk.labels("nuclei")
    viewer.layers.selection.active = nuclei
    nuclei.mode = "paint"
    pump(50)
    controls = viewer.window._qt_viewer.controls.widgets[nuclei].saving
    tick(controls.padlock)
    assert controls.padlock.isChecked()
    assert (nuclei.mode, nuclei.editable) == ("pan_zoom", False)
    for _ in range(2):
        nuclei.mode = "paint"
        desk.stroke()
        assert not nuclei.canvas.edits
        desk.go_on()
        assert controls.padlock.isChecked()
    assert bytes_of(plate) == before
    tick(controls.padlock)
    assert not controls.padlock.isChecked()
    nuclei.mode = "paint"
    desk.stroke()
    assert nuclei.canvas.edits
    desk.save()
    assert bytes_of(plate) != before


def tick(box):
    QTest.mouseClick(box, LEFT, pos=QPoint(8, box.height() // 2))
    pump(20)


def voxels_changed(plate, field, before):
    return int((stored(plate, field, "nuclei") != before).sum())


def offers():
    """Notifications with a button."""
    return [one for one in notification_manager.records if one.actions]


def test_the_first_save_is_reported_with_its_voxels_and_undone(
    viewer, plate, monkeypatch
):
    # It stays, although others fade: those of a window that is in use.
    monkeypatch.setattr(NapariQtNotification, "DISMISS_AFTER", 100)
    viewer.window.activate()
    until(viewer.window._qt_window.isActiveWindow)
    notification_manager.records.clear()
    desk = Desk(viewer, plate)
    desk.click_well("A/1")
    before = {at: stored(plate, at, "nuclei") for at in FIELDS[:2]}
    viewer.layers.selection.active = desk.labels("nuclei")
    desk.active.mode = "paint"
    for number, field in enumerate(FIELDS[:2], 1):
        assert desk.field == field
        desk.active.selected_label = 700 + number
        desk.stroke()
        desk.go_on()
        assert len(offers()) == 1, "the first one alone"
    count = voxels_changed(plate, FIELDS[0], before[FIELDS[0]])
    assert count > 5
    assert voxels_changed(plate, FIELDS[1], before[FIELDS[1]]) > 5
    lines = str(offers()[0].message).splitlines()
    assert lines[0] == f"{count} voxels of 'nuclei' changed."
    assert "'nuclei' of A1 - field 0" in lines[1]
    shown = viewer.window._qt_window.findChildren(NapariQtNotification)
    (button,) = [b for one in shown for b in buttons_of(one) if b.text() == "Undo"]
    QTest.mouseClick(button, LEFT)
    until(lambda: desk.field == FIELDS[0])
    until(lambda: not voxels_changed(plate, FIELDS[0], before[FIELDS[0]]))
    desk.rest()
    assert voxels_changed(plate, FIELDS[1], before[FIELDS[1]]) > 5
    # Whoever paints there again is asked again.
    viewer.layers.selection.active = desk.labels("nuclei")
    desk.active.mode = "paint"
    desk.stroke()
    desk.save()
    assert len(offers()) == 2


def buttons_of(notice):
    return notice.row2_widget.findChildren(QPushButton)


def test_labels_annotated_last_are_seen_and_selected_again(
    viewer, make_napari_viewer, plate
):
    """Wherever they are: in no field of the first well, and beside a segmentation."""
    desk = Desk(viewer, plate)
    desk.click_well("C/1")
    image = next(x for x in viewer.layers if x._type_string == "image")
    layer = viewer.add_layer(new_labels(image, "pheno"))
    classes_of_layer(layer).add_class("round")
    layer.mode = "paint"
    desk.stroke()
    desk.go_on()
    viewer.close()
    later = time.time() + 3600  # as if the segmentation was made again
    for path in plate.glob("*/*/*/labels/nuclei/*/**/*"):
        os.utime(path, (later, later))

    desk = Desk(make_napari_viewer(show=True), plate)
    overview = desk.labels("pheno")
    assert overview.visible
    assert [x.name for x in desk.viewer.layers if isinstance(x, OMEZarrLabels)] == [
        "nuclei",
        "pheno",
    ]
    assert not desk.labels("nuclei").visible
    assert desk.browser.labels == "pheno"
    desk.click_well("A/1")
    assert desk.labels("pheno") is None
    assert desk.active._type_string == "image"
    desk.click_well("C/1")
    assert desk.active is desk.labels("pheno")
    assert desk.active.visible
    assert not desk.labels("nuclei").visible
    assert np.asarray(desk.active.data[0]).any()
