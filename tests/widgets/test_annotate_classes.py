"""The classes of the annotate dock, with the mouse and the keys, in a window."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from napari.utils.notifications import notification_manager
from qtpy.QtCore import QPoint, Qt
from qtpy.QtGui import QColor
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QColorDialog, QFileDialog, QInputDialog, QLineEdit

from mouse import camera, canvas, click, drag, pump, until
from napari_ngff.viewer.painting import layer_classes
from napari_ngff.viewer.samples import write_image, write_stack
from napari_ngff.widgets.annotate.class_table import (
    COLOR,
    COUNT,
    LOCKED,
    NAME,
    VALUE,
    VISIBLE,
)

LEFT = Qt.MouseButton.LeftButton
WINDOW = 1000, 750


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return write_image(tmp_path_factory.mktemp("sample") / "cells.ome.zarr")


@pytest.fixture
def path(sample, tmp_path):
    return shutil.copytree(sample, tmp_path / "cells.ome.zarr")


@pytest.fixture
def dock(viewer):
    """The dock as napari opens it, which hands it a proxy of the viewer."""
    _, widget = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    pump(50)
    return widget


@pytest.fixture
def labels(viewer, dock, path):
    """New labels that are painted on, and nothing else in sight."""
    from napari_ngff.viewer.painting.new_labels import new_labels

    viewer.open(str(path), plugin="napari-ngff")
    layer = viewer.add_layer(new_labels(viewer.layers[0], "territories"))
    for other in viewer.layers:
        other.visible = other is layer
    viewer.layers.selection.active = layer
    layer.mode, layer.brush_size = "paint", 30
    viewer.reset_view()
    pump(200)
    return layer


def cell(dock, row, column):
    """Where a cell of the table is, for the mouse."""
    table = dock.classes.table
    at = table.visualRect(table.rows.index(row, column))
    table.scrollTo(table.rows.index(row, column))
    at = table.visualRect(table.rows.index(row, column))
    return table.viewport(), at


def press(dock, row, column, double=False):
    port, at = cell(dock, row, column)
    QTest.mouseClick(port, LEFT, pos=at.center())
    if double:
        QTest.mouseDClick(port, LEFT, pos=at.center())
    pump()


def tick(dock, row, column):
    port, at = cell(dock, row, column)
    QTest.mouseClick(port, LEFT, pos=QPoint(at.left() + 12, at.center().y()))
    pump()


def type_name(dock, name):
    """Type into the cell that is edited."""
    editors = dock.classes.table.findChildren(QLineEdit)
    editor = next(one for one in editors if one.isVisible())
    editor.selectAll()
    QTest.keyClicks(editor, name)
    QTest.keyClick(editor, Qt.Key.Key_Return)
    pump()


def add(dock, *names):
    """Press the button, and type each name."""
    for name in names:
        QTest.mouseClick(dock.classes.buttons["Add class"], LEFT)
        pump()
        type_name(dock, name)


def test_keys_choose_rows_and_the_brush_while_the_table_has_the_focus(
    viewer, dock, labels
):
    """Qt would choose the row whose cell begins with the number."""
    add(dock, "first", "removed", "second", "third")
    press(dock, 1, NAME)
    QTest.mouseClick(dock.classes.buttons["Remove"], LEFT)
    values = [item.value for item in dock.classes.classes.items]
    assert values == [1, 3, 4]
    for column in (VALUE, NAME):
        for number in (1, 2, 3):
            press(dock, number % 3, column)  # another row, and the focus
            labels.mode = "pan_zoom"
            QTest.keyClick(dock.classes.table, str(number))
            pump(50)
            assert labels.selected_label == values[number - 1], (column, number)
            assert labels.mode == "paint"


@pytest.mark.long
def test_areas_are_counted_in_pixels_and_those_of_stacks_in_voxels(viewer, tmp_path):
    image = write_image(tmp_path / "flat.ome.zarr", shape=(64, 64))
    stack = write_stack(tmp_path / "stack.ome.zarr", shape=(4, 64, 64))
    _, dock = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    titles = []
    for path in (image, stack):
        viewer.layers.clear()
        viewer.open(str(path), plugin="napari-ngff")
        viewer.layers.selection.active = viewer.layers["nuclei"]
        dock.setKind("classes")
        rows = dock.classes.table.rows
        titles.append(rows.headerData(COUNT, Qt.Orientation.Horizontal))
    assert titles == ["Pixels", "Voxels"]


def names(dock):
    return [one.name for one in dock.classes.classes.items]


def world(layer, y, x):
    return tuple(layer.data_to_world((0, y, x))[-2:])


def voxel(layer, y, x):
    return int(layer.canvas.levels[0].read_points([[0], [y], [x]])[0])


def type_key(viewer, key):
    native = canvas(viewer).native
    native.setFocus()
    QTest.keyClick(native, key)
    pump()


def test_classes_are_added_named_and_painted_with_by_number_keys(viewer, dock, labels):
    add(dock, "nucleus", "debris", "dividing")
    assert names(dock) == ["nucleus", "debris", "dividing"]
    assert [one.value for one in dock.classes.classes.items] == [1, 2, 3]
    for number, x in ((1, 200), (2, 400), (3, 600)):
        type_key(viewer, str(number))
        assert labels.selected_label == number
        assert dock.classes.table.currentClass().value == number
        click(viewer, world(labels, 300, x))
        assert voxel(labels, 300, x) == number
    labels.undo()
    assert voxel(labels, 300, 600) == 0


def test_a_key_without_class_takes_no_other_tool(viewer, dock, labels):
    type_key(viewer, "5")
    add(dock, "nucleus", "debris", "dividing")
    type_key(viewer, "4")
    assert labels.mode == "paint"
    assert [notice.message for notice in notification_manager.records] == [
        layer_classes.NO_CLASS.format(
            5, layer_classes.NONE.format("territories - classes")
        ),
        "No class is chosen.\nKey 4: the last class has key 3.",
    ]
    type_key(viewer, "1")
    assert labels.selected_label == 1


def test_a_class_key_in_another_layer_names_the_labels_to_select(viewer, dock, labels):
    add(dock, "nucleus", "debris")
    labels.selected_label = 1
    others = [viewer.add_points(), viewer.add_shapes(), viewer.layers[0]]
    for other in others:
        viewer.layers.selection.active = other
        mode = other.mode
        type_key(viewer, "2")
        notice = notification_manager.records[-1].message
        assert notice.startswith("No class is chosen.\n")
        assert notice.endswith(
            "Select the labels of the dock first: territories - classes."
        )
        assert (other.mode, labels.selected_label) == (mode, 1)
        assert viewer.layers.selection.active is other
    viewer.layers.selection.active = labels
    type_key(viewer, "2")
    assert labels.selected_label == 2


@pytest.mark.long
def test_a_click_on_a_row_selects_and_a_click_on_a_colour_asks(
    viewer, dock, labels, monkeypatch
):
    add(dock, "nucleus", "debris")
    press(dock, 0, VALUE)
    assert labels.selected_label == 1
    monkeypatch.setattr(QColorDialog, "getColor", lambda *_: QColor(1, 2, 3, 255))
    press(dock, 1, COLOR, double=True)
    assert dock.classes.classes.find_class(2).color == (1, 2, 3, 255)
    np.testing.assert_allclose(labels.get_color(2), [1 / 255, 2 / 255, 3 / 255, 1])
    press(dock, 1, NAME, double=True)
    type_name(dock, "dirt")
    assert names(dock) == ["nucleus", "dirt"]


@pytest.mark.long
def test_a_locked_class_is_not_painted_over_and_a_hidden_one_not_seen(
    viewer, dock, labels
):
    add(dock, "nucleus", "debris")
    type_key(viewer, "1")
    click(viewer, world(labels, 300, 300))
    tick(dock, 0, LOCKED)
    assert dock.classes.classes.find_class(1).locked
    type_key(viewer, "2")
    drag(viewer, [world(labels, 300, 200), world(labels, 300, 400)])
    assert voxel(labels, 300, 220) == 2
    assert voxel(labels, 300, 300) == 1
    tick(dock, 1, VISIBLE)
    assert labels.get_color(2)[3] == 0
    tick(dock, 1, VISIBLE)
    assert labels.get_color(2)[3] == 1


@pytest.mark.long
def test_the_brush_draws_over_what_is_chosen(viewer, dock, labels):
    add(dock, "nucleus", "debris")
    type_key(viewer, "1")
    click(viewer, world(labels, 300, 300))
    type_key(viewer, "2")
    dock.classes.over.setCurrentIndex(1)
    dock.classes.over.activated.emit(1)
    drag(viewer, [world(labels, 300, 200), world(labels, 300, 400)])
    assert voxel(labels, 300, 220) == 2
    assert voxel(labels, 300, 300) == 1
    dock.classes.over.setCurrentIndex(0)
    dock.classes.over.activated.emit(0)
    drag(viewer, [world(labels, 300, 200), world(labels, 300, 400)])
    assert voxel(labels, 300, 300) == 2


@pytest.mark.long
def test_order_merge_and_removal(viewer, dock, labels, monkeypatch):
    add(dock, "nucleus", "debris", "dividing")
    type_key(viewer, "2")
    click(viewer, world(labels, 300, 300))
    monkeypatch.setattr(QInputDialog, "getItem", lambda *_: ("dividing (3)", True))
    QTest.mouseClick(dock.classes.buttons["Merge into…"], LEFT)
    assert voxel(labels, 300, 300) == 3
    labels.undo()
    assert voxel(labels, 300, 300) == 2
    QTest.mouseClick(dock.classes.buttons["Up"], LEFT)
    assert names(dock) == ["debris", "nucleus", "dividing"]
    type_key(viewer, "1")
    assert labels.selected_label == 2
    QTest.mouseClick(dock.classes.buttons["Remove"], LEFT)
    assert names(dock) == ["nucleus", "dividing"]
    assert voxel(labels, 300, 300) == 2


@pytest.mark.long
def test_a_list_goes_to_other_labels_as_a_file(
    viewer, dock, labels, tmp_path, monkeypatch
):
    add(dock, "nucleus", "debris")
    file = tmp_path / "classes.json"
    for method in ("getSaveFileName", "getOpenFileName"):
        monkeypatch.setattr(QFileDialog, method, lambda *_: (str(file), ""))
    QTest.mouseClick(dock.classes.buttons["Export…"], LEFT)
    rows = json.loads(file.read_text())["classes"]
    assert [row["name"] for row in rows] == ["nucleus", "debris"]
    viewer.layers.selection.active = viewer.layers["cells"]
    dock.setKind("classes")
    pump()
    assert names(dock) == []
    QTest.mouseClick(dock.classes.buttons["Import…"], LEFT)
    assert names(dock) == ["nucleus", "debris"]
    file.write_text("{}")
    QTest.mouseClick(dock.classes.buttons["Import…"], LEFT)
    assert "Not imported" in dock.status.text()
    assert names(dock) == ["nucleus", "debris"]


@pytest.mark.long
def test_the_dock_follows_the_labels_that_are_selected(viewer, dock, labels):
    assert dock.title.text() == "territories - classes"
    add(dock, "nucleus")
    viewer.layers.selection.active = viewer.layers[0]
    pump()
    assert dock.title.text() == "territories - classes", "an image is no other labels"
    viewer.layers.selection.active = viewer.layers["cells"]
    pump()
    assert dock.title.text() == "cells - objects"
    viewer.layers["cells"].name = "zellen"
    assert dock.title.text() == "zellen - objects"
    viewer.layers.selection.active = labels
    pump()
    assert names(dock) == ["nucleus"]
    viewer.layers.remove(labels)
    pump()
    assert "make new ones" in dock.title.text()
    assert not dock.classes.buttons["Add class"].isEnabled()
    assert dock.make.isEnabled()


def test_count_says_how_much_is_painted(viewer, dock, labels):
    add(dock, "nucleus")
    click(viewer, world(labels, 300, 300))
    QTest.mouseClick(dock.classes.buttons["Count"], LEFT)
    until(lambda: dock.classes.table.rows.counts)
    whole = np.asarray(labels.data[0])
    assert dock.classes.table.rows.counts == {1: int((whole == 1).sum())}
    assert "painted" in dock.status.text()
    click(viewer, world(labels, 200, 200))
    assert dock.status.text() == "Counted before the latest strokes."
    press(dock, 0, NAME)
    QTest.mouseClick(dock.classes.buttons["Remove"], LEFT)
    assert names(dock) == []
    pump(50)
    click_link(dock.status, lambda: names(dock) == ["nucleus"])
    assert labels.unsaved
    assert dock.status.text() == "nucleus is on the list again."
    # As where the next field gives the layer its labels.
    QTest.mouseClick(dock.classes.buttons["Remove"], LEFT)
    QTest.mouseClick(dock.classes.buttons["Count"], LEFT)
    dock.classes.classes.read_again()
    assert not dock.classes.table.rows.counts
    assert dock.status.text() == ""
    dock.classes.followLink("undo")
    assert names(dock) == [], "the class was of other labels"


@pytest.mark.default_cases("2")
@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_count_that_is_estimated_says_about(viewer, dock, labels, monkeypatch, level):
    """Large images are counted at a coarser level."""
    add(dock, "nucleus")
    click(viewer, world(labels, 300, 300))
    levels = labels.canvas.levels
    monkeypatch.setattr(layer_classes, "COUNTED", levels[level].size)
    QTest.mouseClick(dock.classes.buttons["Count"], LEFT)
    until(lambda: dock.classes.table.rows.counts)
    table = dock.classes.table
    index = table.model().index(0, table.model().columnCount() - 1)
    until(lambda: table.viewport().rect().contains(table.visualRect(index)))
    true = int((np.asarray(labels.data[0]) == 1).sum())
    if level == 0:
        assert index.data() == f"{true:,}"
        assert dock.status.text() == "1 label is painted."
        return
    about, number = index.data().split()
    assert about == "about"
    assert int(number.replace(",", "")) == pytest.approx(true, rel=0.3)
    assert "numbers are estimates" in dock.status.text()


@pytest.mark.long  # test_layer_classes.py does so at random, without a window
def test_a_class_takes_no_object_that_was_joined_before(viewer, dock, path):
    """Join 2 into 1, and add a class: it was object 1, with all its pixels."""
    viewer.open(str(path), plugin="napari-ngff")
    layer = viewer.layers.selection.active = viewer.layers["nuclei"]
    until(lambda: dock.objects.isVisible())
    viewer.dims.set_point(0, 0)
    frame = np.asarray(layer.data[0][0])
    QTest.mouseClick(dock.objects.join, LEFT)
    for label in (1, 2):
        y, x = np.argwhere(frame == label).mean(axis=0).round()
        click(viewer, world(layer, y, x))
        until(lambda: layer.selected_label == 1)
    until(lambda: dock.status.text() == "2 is part of 1 now.")
    QTest.mouseClick(dock.objects.join, LEFT)
    dock.setKind("classes")
    QTest.mouseClick(dock.classes.buttons["Add class"], LEFT)
    until(lambda: dock.classes.classes.items)
    type_name(dock, "mitotic")
    (added,) = dock.classes.classes.items
    assert added.name == "mitotic"
    assert not (np.asarray(layer.data[0]) == added.value).any()
    assert layer.selected_label == added.value
    assert dock.status.text() == "", "neither the join nor the search"


def test_strokes_become_a_class_by_naming_their_label(viewer, dock, labels):
    click(viewer, world(labels, 300, 200))
    labels.selected_label = 2
    click(viewer, world(labels, 300, 400))
    add(dock, "other")
    assert labels.selected_label == 3, "which no pixel has"
    naming = dock.classes.buttons["Name label"]
    assert not naming.isEnabled(), "it has a name now"
    for label, name in ((2, "tumour"), (1, "necrosis")):
        labels.selected_label = label
        QTest.mouseClick(naming, LEFT)
        pump()
        type_name(dock, name)
    classes = dock.classes.classes.items
    assert [(item.value, item.name) for item in classes] == [
        (3, "other"),
        (2, "tumour"),
        (1, "necrosis"),
    ]
    assert voxel(labels, 300, 200) == 1
    assert voxel(labels, 300, 400) == 2


def test_classes_of_labels_that_cannot_be_saved_do_not_change(viewer, dock, labels):
    add(dock, "nucleus")
    # As of an image on a server.
    labels.exchange_canvas(labels.canvas, "the server takes nothing")
    pump()
    enabled = {name for name, one in dock.classes.buttons.items() if one.isEnabled()}
    assert enabled == {"Count", "Export…"}
    model = dock.classes.table.rows
    assert not model.flags(model.index(0, NAME)) & Qt.ItemFlag.ItemIsEditable
    tick(dock, 0, LOCKED)
    assert not dock.classes.classes.find_class(1).locked
    tick(dock, 0, VISIBLE)
    assert dock.classes.classes.find_class(1).hidden, "on the screen alone"


def click_link(label, is_done):
    """Click the link of a text, wherever it is."""
    spots = ((x, y) for y in range(2, label.height(), 6) for x in range(2, 400, 6))
    next(
        spot
        for spot in spots
        if QTest.mouseClick(label, LEFT, pos=QPoint(*spot)) or is_done()
    )


@pytest.mark.long
def test_everything_is_reached_and_reported_without_a_mouse(viewer, dock, labels):
    camera(viewer)
    for page in (dock.classes, dock.objects, dock.round):
        for button in page.findChildren(type(dock.make)):
            assert button.toolTip(), button.text()
            assert button.focusPolicy() & Qt.FocusPolicy.TabFocus, button.text()
    dock.classes.table.setFocus()
    QTest.keyClick(dock.classes.table, Qt.Key.Key_Tab)
    pump()
    assert not dock.classes.table.hasFocus(), "Tab leaves the table"
