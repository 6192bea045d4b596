"""Objects in the annotate dock, and the form for other plugins, in a window."""

from __future__ import annotations

import csv
import json
import shutil
import threading
import time

import numpy as np
import pytest
import zarr
from napari.layers import Image, Labels
from qtpy.QtCore import QCoreApplication, QEvent, Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QFileDialog

import patience
from mouse import CONTROL, RIGHT, canvas, click, press_save, pump, until
from napari_ngff.labels.canvas import Canvas
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.annotations.object_class_annotation import NO_OBJECT
from napari_ngff.viewer.annotations.sidecars import file_text
from napari_ngff.viewer.bridge.merge_result import HOW
from napari_ngff.viewer.bridge.work_region import WORK
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.annotate import bridge_form
from napari_ngff.widgets.annotate.bridge_form import show_bridge_form
from napari_ngff.widgets.connections import READ_ONLY
from painting import Empty, Memory, pyramid
from pipeline_plate import write_pipeline_plate

LEFT = Qt.MouseButton.LeftButton
Y, X = 300, 500
"""Middle of two discs that touch."""


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return write_image(tmp_path_factory.mktemp("sample") / "cells.ome.zarr")


@pytest.fixture
def path(sample, tmp_path):
    return shutil.copytree(sample, tmp_path / "cells.ome.zarr")


@pytest.fixture
def dock(viewer, path):
    viewer.open(str(path), plugin="napari-ngff")
    _, widget = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    return widget


@pytest.fixture
def labels(viewer, dock):
    """New labels: two discs of label 5 that touch, and one of label 7 away."""
    from napari_ngff.viewer.painting.new_labels import new_labels

    layer = viewer.add_layer(new_labels(viewer.layers[0], "discs"))
    for other in viewer.layers[:-1]:
        other.visible = other is viewer.layers[0]
    viewer.layers.selection.active = layer
    layer.brush_size = 80
    for x, label in ((X - 38, 5), (X + 38, 5), (X + 200, 7)):
        layer.paint((0, Y, x), label)
    layer.selected_label = 5
    viewer.reset_view()
    pump(100)
    return layer


def world(layer, y, x):
    return tuple(layer.data_to_world((0, y, x))[-2:])


def voxel(layer, y, x):
    return int(layer.canvas.levels[0].read_points([[0], [y], [x]])[0])


def listed(dock):
    """Return the texts of the first column of the list of objects."""
    model = dock.objects.table.model
    return [model.index(row, 0).data() for row in range(model.rowCount())]


def chosen_row(dock):
    """Return the id in the selected row; None without any."""
    rows = dock.objects.list.selectionModel().selectedRows()
    return rows[0].data() if rows else None


def press(button):
    QTest.mouseClick(button, LEFT)
    pump()


def test_an_object_is_cut_by_two_clicks_and_joined_by_one(viewer, dock, labels):
    dock.setKind("objects")
    press(dock.objects.cut)
    click(viewer, world(labels, Y, X - 50))
    assert "another place of object 5" in dock.status.text()
    click(viewer, world(labels, Y, X + 50))
    until(lambda: voxel(labels, Y, X + 50) == 8)
    assert voxel(labels, Y, X - 50) == 5
    assert voxel(labels, Y, X - 4) == 5
    assert voxel(labels, Y, X + 4) == 8
    assert "is cut" in dock.status.text()
    type_key(dock.objects.id, Qt.Key.Key_Return)
    # The list, the box and the next click mean the same object.
    until(lambda: listed(dock) == ["5", "7", "8"])
    assert chosen_row(dock) == str(dock.objects.id.value()) == "5"
    press(dock.objects.join)
    assert not dock.objects.cut.isChecked()
    assert "part of object 5" in dock.status.text()
    click(viewer, world(labels, Y, X + 50))
    until(lambda: voxel(labels, Y, X + 50) == 5)
    until(lambda: listed(dock) == ["5", "7"])
    labels.undo()
    labels.undo()
    assert voxel(labels, Y, X + 50) == 5
    click(viewer, world(labels, Y + 200, X))
    until(lambda: "Click an object" in dock.status.text())


def test_a_cut_in_another_frame_begins_again_and_goes_through_all_sections(
    viewer, dock
):
    pixels = np.zeros((2, 3, 40, 90), "u2")
    pixels[:, :, 5:35, 5:85] = 3
    axes = ("t", "z", "y", "x")
    layer = OMEZarrLabels(Canvas(pyramid(pixels, [])), name="film", axis_labels=axes)
    viewer.layers.clear()
    viewer.add_layer(layer)
    dock.setKind("objects")
    viewer.dims.set_point((0, 1), (0, 1))
    viewer.reset_view()
    pump(100)
    press(dock.objects.cut)
    click(viewer, (20, 15))
    viewer.dims.set_point((0, 1), (1, 0))
    pump(100)
    click(viewer, (20, 75))
    text = "The first click was at another time point. Click another place of object 3."
    until(lambda: dock.status.text() == text)
    viewer.dims.set_point(1, 2)
    pump(100)
    click(viewer, (20, 15))
    until(lambda: "is cut" in dock.status.text())
    first, second = np.asarray(layer.data[0])
    np.testing.assert_array_equal(first, pixels[0])
    assert all(set(np.unique(section)) == {0, 3, 4} for section in second)


def object_in(layer, number):
    """Return an object of a field, and where it is in the world."""
    pixels = np.asarray(layer.canvas.levels[0])
    label = np.unique(pixels)[number]
    places = np.argwhere(pixels == label)
    at = layer.data_to_world(places[len(places) // 2])
    return int(label), tuple(at[-2:])


def show_field(viewer, well):
    browser = session_of(viewer).browser
    browser.show_field(well, "0")
    until(lambda: browser.position is not None and browser.position.well == well)
    pump(100)


def test_only_an_object_that_was_chosen_in_this_field_gets_others(viewer, tmp_path):
    root = write_pipeline_plate(tmp_path / "plate.ome.zarr")
    viewer.open(str(root), plugin="napari-ngff")
    show_field(viewer, "A/1")
    _, dock = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    layer = viewer.layers["nuclei"]
    viewer.layers.selection.active = layer
    dock.setKind("objects")
    page = dock.objects
    page.id.setValue(6)
    assert page.classes._object == 6
    show_field(viewer, "C/1")
    before = np.asarray(layer.canvas.levels[0])
    (first, there), (second, here), (third, away) = (
        object_in(layer, number) for number in (2, 3, 4)
    )
    press(page.join)
    assert dock.status.text() == "Click the object that others become part of."
    click(viewer, there)
    until(lambda: f"part of object {first}." in dock.status.text())
    click(viewer, here)
    until(lambda: dock.status.text() == f"{second} is part of {first} now.")
    joined = np.where(before == second, first, before)
    np.testing.assert_array_equal(np.asarray(layer.canvas.levels[0]), joined)
    # An object that is deleted is not chosen any more: for no tool and no class.
    type_key(canvas(viewer).native, DELETE)
    until(lambda: dock.status.text().startswith(f"Object {first} is deleted."))
    page.classes.classify("round")
    assert dock.status.text() == NO_OBJECT
    click(viewer, away)
    until(lambda: f"part of object {third}." in dock.status.text())
    left = np.where(joined == first, 0, joined)
    np.testing.assert_array_equal(np.asarray(layer.canvas.levels[0]), left)
    # The id in the box is chosen by Enter, also where it was there before.
    layer.undo()
    page.id.setValue(first)
    type_key(canvas(viewer).native, DELETE)
    until(lambda: dock.status.text().startswith(f"Object {first} is deleted."))
    layer.undo()
    type_key(page.id, Qt.Key.Key_Return)
    assert f"part of object {first}." in dock.status.text()


def type_key(widget, key, modifier=Qt.KeyboardModifier.NoModifier):
    widget.setFocus()
    QTest.keyClick(widget, key, modifier)
    pump()


def test_escape_ends_clicks_and_the_first_point_of_a_cut(viewer, dock, labels):
    dock.setKind("objects")
    native, edits = canvas(viewer).native, labels.canvas.edits
    ended = []
    for button, keyboard in (
        (dock.objects.cut, native),
        (dock.objects.join, native),
        (dock.objects.delete, native),
        (dock.objects.cut, dock.objects.list),
    ):
        press(button)
        assert dock.status.text()
        if button is dock.objects.cut:
            click(viewer, world(labels, Y, X - 50))
            assert "another place of object 5" in dock.status.text()
        type_key(keyboard, Qt.Key.Key_Escape)
        assert not button.isChecked()
        ended.append(dock.status.text())
        click(viewer, world(labels, Y, X + 50))
        pump(100)
        assert voxel(labels, Y, X + 50) == 5
        assert labels.canvas.edits == edits
    assert ended == ["", "", "", ""]
    # Escape is napari's again, for polygons.
    labels.mode = "polygon"
    for x in (X, X + 40):
        click(viewer, world(labels, Y, x))
    assert labels._overlays["polygon"].points
    type_key(native, Qt.Key.Key_Escape)
    assert not labels._overlays["polygon"].points


DELETE, BACKSPACE = Qt.Key.Key_Delete, Qt.Key.Key_Backspace


def delete_by_click(viewer, dock, labels):
    press(dock.objects.delete)
    assert dock.status.text() == "Each object that is clicked is deleted."
    click(viewer, world(labels, Y, X - 50))


DELETIONS = {
    "button": lambda viewer, dock, labels: press(dock.objects.delete_chosen),
    "click": delete_by_click,
    "Del on the canvas": lambda viewer, dock, labels: type_key(
        canvas(viewer).native, DELETE
    ),
    "Backspace on the canvas": lambda viewer, dock, labels: type_key(
        canvas(viewer).native, BACKSPACE
    ),
    "Del before the canvas is clicked": lambda viewer, dock, labels: type_key(
        viewer.window._qt_window, DELETE
    ),
    "Del in the list": lambda viewer, dock, labels: type_key(dock.objects.list, DELETE),
    "Del in the dock": lambda viewer, dock, labels: type_key(dock.objects.jump, DELETE),
}


def test_an_object_is_deleted_and_is_back_after_one_undo(viewer, dock, labels):
    dock.setKind("objects")
    before = np.asarray(labels.data[0])
    for way, delete in DELETIONS.items():
        labels.selected_label = 7
        labels.selected_label = 5
        delete(viewer, dock, labels)
        until(lambda: dock.status.text() == "Object 5 is deleted. Ctrl+Z undoes it.")
        expected = np.where(before == 5, 0, before)
        np.testing.assert_array_equal(np.asarray(labels.data[0]), expected, way)
        # The other one is neither chosen nor marked.
        until(lambda: listed(dock) == ["7"])
        assert chosen_row(dock) is None
        type_key(canvas(viewer).native, Qt.Key.Key_Z, CONTROL)
        np.testing.assert_array_equal(np.asarray(labels.data[0]), before, way)
        dock.objects.endClicks()
    # An image is selected, and the dock keeps the labels.
    type_key(dock.objects.id, Qt.Key.Key_Return)
    viewer.layers.selection.active = viewer.layers[0]
    press(dock.objects.delete_chosen)
    until(lambda: voxel(labels, Y, X - 50) == 0)
    type_key(canvas(viewer).native, Qt.Key.Key_Z, CONTROL)
    assert voxel(labels, Y, X - 50) == 5


def test_a_deleted_object_is_deleted_in_the_file(viewer, dock, labels):
    dock.setKind("objects")
    press_save(viewer, labels)
    dock.objects.id.setValue(7)
    type_key(canvas(viewer).native, DELETE)
    until(lambda: voxel(labels, Y, X + 200) == 0)
    expected = np.asarray(labels.data[0])
    press_save(viewer, labels)
    levels = [level.source for level in labels.canvas.levels]
    group = zarr.open_group(file_text(labels), mode="r")
    assert len(levels) == len([*group.arrays()])
    np.testing.assert_array_equal(group["0"][:].reshape(expected.shape), expected)
    assert all(set(np.unique(array[:])) == {0, 5} for _, array in group.arrays())


def test_delete_and_backspace_stay_those_of_napari_elsewhere(viewer, dock, labels):
    """In a text, on another page, with another layer, in the layer list."""
    edits, native = labels.canvas.edits, canvas(viewer).native
    points = viewer.add_points(np.zeros((2, 3)))
    viewer.layers.selection.active = labels
    for key in (DELETE, BACKSPACE):
        type_key(native, key)  # the page of classes is in front
        dock.setKind("objects")
        dock.objects.id.lineEdit().selectAll()
        type_key(dock.objects.id, key)
        assert dock.objects.id.lineEdit().text() == ""
        dock.objects.id.setValue(5)
        type_key(native, key, Qt.KeyboardModifier.ShiftModifier)
        points.selected_data = {0}
        viewer.layers.selection.active = points
        type_key(native, key)
        assert len(points.data) == (1 if key == DELETE else 0)
        other = viewer.add_image(np.zeros((3, 3)))
        type_key(viewer.window._qt_viewer.layers, key)
        assert other not in viewer.layers
        viewer.layers.selection.active = labels
        dock.setKind("classes")
    pump(100)
    assert labels in viewer.layers
    assert labels.canvas.edits == edits
    assert dock.status.text() == ""


class Held(Memory):
    """Labels that a worker gets only once they are released."""

    released = threading.Event()

    def read(self, box):
        if threading.current_thread() is not threading.main_thread():
            assert self.released.wait(patience.PATIENCE)
        return super().read(box)


def test_each_of_several_quick_clicks_is_done_in_turn(viewer, dock):
    pixels = np.zeros((200, 300), "u2")
    for number in range(4):
        pixels[40:160, 20 + 70 * number : 70 + 70 * number] = number + 1
    layer = OMEZarrLabels(Canvas([Held(pixels, (200, 300))]), name="labels")
    viewer.layers.clear()
    viewer.add_layer(layer)
    dock.setKind("objects")
    Held.released.clear()
    press(dock.objects.delete)
    # The canvas is narrower once the dock has its width.
    width = None
    while width != (width := canvas(viewer).size[-1]):
        pump(200)
    viewer.reset_view()
    pump(100)
    for number in range(3):
        click(viewer, (100, 45 + 70 * number))
    press(dock.objects.join)
    layer.selected_label = 9
    click(viewer, (100, 45 + 70 * 3))
    assert not layer.canvas.edits
    Held.released.set()
    until(lambda: dock.status.text() == "4 is part of 9 now.")
    assert set(np.unique(np.asarray(layer.data[0]))) == {0, 9}
    layer.undo()
    layer.undo()
    assert set(np.unique(np.asarray(layer.data[0]))) == {0, 3, 4}


def test_read_only_labels_say_why_no_object_is_deleted(viewer, dock, labels):
    dock.setKind("objects")
    page, edits = dock.objects, labels.canvas.edits
    labels.selected_label = 7
    labels.locked = True
    for button in (page.join, page.cut, page.delete, page.delete_chosen):
        assert not button.isEnabled()
        assert button.toolTip() == READ_ONLY
    type_key(canvas(viewer).native, DELETE)
    until(lambda: "untick Locked" in dock.status.text())
    assert labels.canvas.edits == edits
    labels.locked = False
    assert page.delete.isEnabled()
    assert page.delete.toolTip() == "Each object that is clicked is deleted."


def test_a_click_does_one_thing(viewer, dock, labels):
    """It does not delete what a tool paints on, nor while another page is in front."""
    dock.setKind("objects")
    press(dock.objects.delete)
    labels.mode, labels.selected_label, labels.brush_size = "paint", 3, 5
    click(viewer, world(labels, Y, X - 50))
    assert voxel(labels, Y, X - 50) == 3
    assert voxel(labels, Y, X - 40) == 5
    labels.mode = "pan_zoom"
    click(viewer, world(labels, Y, X - 40), button=RIGHT)
    dock.setKind("classes")
    click(viewer, world(labels, Y, X - 40))
    pump(100)
    assert voxel(labels, Y, X - 40) == 5


def test_a_message_of_one_page_is_not_left_under_the_others(viewer, dock, labels):
    dock.setKind("objects")
    dock.objects.id.setValue(7)
    press(dock.objects.jump)
    until(lambda: dock.status.text().startswith("Object 7: "))
    dock.setKind("classes")
    assert dock.status.text() == ""


def click_row(dock, row):
    view = dock.objects.list
    place = view.visualRect(view.model().index(row, 0)).center()
    QTest.mouseClick(view.viewport(), LEFT, pos=place)
    pump()


def test_all_objects_are_listed_and_gone_to(viewer, dock, labels):
    dock.setKind("objects")
    page = dock.objects
    until(lambda: listed(dock) == ["5", "7"])
    labels.mode = "pick"
    click(viewer, world(labels, Y, X + 200))
    assert chosen_row(dock) == "7"
    assert page.id.value() == 7
    for row, label, place in ((0, 5, X), (1, 7, X + 200)):
        click_row(dock, row)
        assert labels.selected_label == label
        assert f"Object {label}" in dock.status.text()
        camera, middle = viewer.scene.camera, world(labels, Y, place)
        np.testing.assert_allclose(
            camera.center[-2:], middle, atol=2 * labels.scale[-1]
        )
        # The arrows go there as well.
        page.list.setFocus()
        QTest.keyClick(page.list, Qt.Key.Key_Down if row == 0 else Qt.Key.Key_Up)
        assert labels.selected_label == 12 - label
    page.id.setValue(99)
    press(page.jump)
    until(lambda: "no voxel of label 99" in dock.status.text())
    press(page.unused)
    until(lambda: labels.selected_label == 8)


@pytest.mark.long
def test_work_here_and_merge(viewer, dock, labels):
    page = show_bridge_form(viewer)
    pump()
    assert "2 layers" in page.form.memory.text()
    assert "MB" in page.form.memory.text()
    before = page.form.memory.text()
    page.form.level.setCurrentIndex(1)
    page.form.level.activated.emit(1)
    assert page.form.memory.text() != before
    page.form.level.setCurrentIndex(0)
    page.form.level.activated.emit(0)
    count = len(viewer.layers)
    press(page.take)
    until(lambda: len(viewer.layers) == count + 2)
    image, work = viewer.layers[-2:]
    assert (type(image), type(work)) == (Image, Labels)
    assert isinstance(image.data, np.ndarray)
    assert viewer.layers.selection.active is labels
    result = np.zeros(work.data.shape, "u1")
    result[10:60, 20:90] = 3
    viewer.add_labels(result, name="found")
    viewer.layers.selection.active = labels
    page.result.setCurrentText("found")
    assert page.how.currentText() == "only objects that touch no label"
    page.how.setCurrentIndex(list(HOW).index("add"))
    viewer.layers.selection.active = image
    press(page.put)
    until(lambda: "is merged" in page.status.text())
    (_, _), (top, _), (left, _) = work.metadata[WORK].box
    assert voxel(labels, top + 10, left + 20) == 10
    assert voxel(labels, top + 9, left + 20) == 0
    assert voxel(labels, Y, X - 50) == 5
    type_key(canvas(viewer).native, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert voxel(labels, top + 10, left + 20) == 0, "as the message says"


@pytest.mark.long
def test_the_memory_shown_follows_the_view(viewer, dock, labels):
    page = show_bridge_form(viewer)
    pump()
    before = page.form.memory.text()
    viewer.scene.camera.zoom *= 8
    until(lambda: page.form.memory.text() != before)
    assert "kB" in page.form.memory.text()


@pytest.mark.long
def test_what_cannot_be_merged_is_reported(viewer, dock, labels):
    page = show_bridge_form(viewer)
    viewer.add_labels(np.ones((3, 3), "u1"), translate=(1e6, 1e6), name="far")
    viewer.layers.selection.active = labels
    pump()
    page.result.setCurrentText("far")
    press(page.put)
    until(lambda: "Not merged" in page.status.text())
    assert page.put.isEnabled()


@pytest.mark.long
def test_shapes_become_labels(viewer, dock, labels):
    page = show_bridge_form(viewer)
    corners = [world(labels, y, x) for y, x in ((100, 100), (100, 150), (150, 150))]
    viewer.add_shapes([np.array(corners)], shape_type="polygon")
    press(page.shapes)
    assert page.status.text() == "Painted 1 shape. Ctrl+Z undoes it."
    assert voxel(labels, 110, 140) == 8
    type_key(canvas(viewer).native, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert voxel(labels, 110, 140) == 0


@pytest.mark.long
def test_labels_are_exported_with_what_is_not_saved(
    viewer, dock, labels, tmp_path, monkeypatch
):
    page = show_bridge_form(viewer)
    box, asked_for = page.export, []
    for button, name in ((box.outlines, "out.geojson"), (box.boxes, "out.csv")):
        monkeypatch.setattr(
            QFileDialog,
            "getSaveFileName",
            lambda *asked, n=name: (
                asked_for.append(asked[2]) or (str(tmp_path / n), "")
            ),
        )
        press(button)
        until(lambda: "written to" in page.status.text())
        assert box.outlines.isEnabled()
        page.status.setText("")
    assert asked_for == [f"{labels.name}.geojson", f"{labels.name}.csv"]
    found = json.loads((tmp_path / "out.geojson").read_text())["features"]
    assert sorted(one["properties"]["name"] for one in found) == ["5", "7"]
    with open(tmp_path / "out.csv", newline="") as file:
        rows = {row["label"]: row for row in csv.DictReader(file)}
    size = labels.scale[-1]
    assert set(rows) == {"5", "7"}
    assert float(rows["7"]["len_x_micrometer"]) == pytest.approx(81 * size, abs=size)
    start = (X + 200 - 40) * size
    assert float(rows["7"]["x_micrometer"]) == pytest.approx(start, abs=size)


def test_a_closed_form_cancels_its_export(viewer, dock, labels, tmp_path, monkeypatch):
    begun, ended = threading.Event(), threading.Event()

    def write(layer, path, level, is_stopped):
        begun.set()
        while not is_stopped():
            time.sleep(0.01)
        ended.set()
        return ""

    use_workers()
    path = str(tmp_path / "out.geojson")
    monkeypatch.setattr(bridge_form, "export_outlines", write)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (path, ""))
    form = show_bridge_form(viewer)
    press(form.export.outlines)
    until(begun.is_set)
    form.window().close()
    until(ended.is_set)


@pytest.mark.long
def test_closing_leaves_nothing_behind(viewer):
    _, dock = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    layer = viewer.add_layer(OMEZarrLabels(Canvas([Empty((64, 64))]), name="labels"))
    pump(50)
    assert dock.title.text() == "labels - objects"
    dock.parent().destroyOnClose()
    del dock
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    pump(50)
    layer.selected_label = 7
    classes_of_layer(layer).add_class("nucleus")
    viewer.layers.remove(layer)
    viewer.add_labels(np.zeros((3, 3), int))
    pump(50)
