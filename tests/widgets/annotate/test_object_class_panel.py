"""Objects get classes by the mouse and number keys, in a window."""

from __future__ import annotations

import numpy as np
import pytest
from qtpy.QtCore import QPoint, Qt
from qtpy.QtGui import QColor
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QColorDialog, QLineEdit

from mouse import CONTROL, canvas, click, on_canvas, pump, until
from napari_ngff.labels.object_classes import ClassChanges, ObjectClass
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.annotations.object_class_annotation import (
    NO_OBJECT,
    find_classes,
)
from napari_ngff.viewer.annotations.object_class_table import write_classes
from napari_ngff.viewer.samples import write_plate
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.annotate.class_table import (
    COLOR,
    COUNT,
    LOCKED,
    NAME,
    VALUE,
    VISIBLE,
)
from object_tables import read_classes, stored
from plates import write_image

LEFT = Qt.MouseButton.LeftButton
WINDOW = 1000, 750


@pytest.fixture
def path(tmp_path):
    pixels = np.zeros((60, 90), "uint16")
    pixels[10:25, 10:25], pixels[10:25, 60:80], pixels[40:55, 30:50] = 3, 5, 8
    write_image(tmp_path / "cells.ome.zarr", pixels, 3, "yx", labels=("nuclei",))
    return tmp_path / "cells.ome.zarr"


@pytest.fixture
def panel(viewer, path):
    """Return the classes on the Objects page, for labels of another program."""
    viewer.open(str(path), plugin="napari-ngff")
    _, dock = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    layer = viewer.layers["nuclei"]
    layer.visible = True
    viewer.layers.selection.active = layer
    dock.setKind("objects")
    viewer.reset_view()
    until(lambda: dock.objects.isVisible() and dock.objects.classes.isEnabled())
    pump(100)
    return dock.objects.classes


def push(panel, title):
    QTest.mouseClick(panel.buttons[title], LEFT)
    pump()


def type_name(panel, name):
    """Type into the cell that is edited."""
    editors = panel.table.findChildren(QLineEdit)
    editor = next(one for one in editors if one.isVisible())
    editor.selectAll()
    QTest.keyClicks(editor, name)
    QTest.keyClick(editor, Qt.Key.Key_Return)
    pump()


def name_classes(panel, *names):
    for name in names:
        push(panel, "Add class")
        type_name(panel, name)


def point(panel, name, column):
    """Return where a cell of a class is, for the mouse."""
    table = panel.table
    cell = table.rows.index(table.rows.rowOf(name), column)
    table.scrollTo(cell)
    return cell, table.visualRect(cell)


def press_cell(panel, name, column, *, double=False):
    _, at = point(panel, name, column)
    QTest.mouseClick(panel.table.viewport(), LEFT, pos=at.center())
    if double:
        QTest.mouseDClick(panel.table.viewport(), LEFT, pos=at.center())
    pump()


def tick(panel, name, column):
    _, at = point(panel, name, column)
    at = QPoint(at.left() + 12, at.center().y())
    QTest.mouseClick(panel.table.viewport(), LEFT, pos=at)
    pump()


def rename(panel, name, new_name):
    press_cell(panel, name, NAME, double=True)
    type_name(panel, new_name)


def names_in(panel):
    return [item.name for item in panel.items]


def selected(panel):
    item = panel.table.currentClass()
    return "" if item is None else item.name


def counts_in(panel):
    return {x: point(panel, x, COUNT)[0].data() for x in names_in(panel)}


def press(viewer, key, modifier=Qt.KeyboardModifier.NoModifier):
    viewer.window.activate()
    canvas(viewer).native.setFocus()
    pump()
    QTest.keyClick(canvas(viewer).native, key, modifier)
    pump()


def color_by(panel, title):
    """Choose a column of the list, and wait for its colours."""
    table = panel.parent().table
    table.color.setCurrentText(title)
    table.color.activated.emit(table.color.currentIndex())
    until(lambda: (table.objects.colors.coloring is None) == (title == "own colours"))


def at(layer, y, x):
    return tuple(layer.data_to_world((y, x)))


PLACES = {3: (17, 17), 5: (17, 70), 8: (47, 40)}


def classes_in(viewer):
    found = find_classes(session_of(viewer).annotations, viewer.layers["nuclei"])
    return {} if found is None else dict(found.classes.class_of)


def test_a_clicked_object_gets_the_class_of_a_key(viewer, path, panel):
    layer = viewer.layers["nuclei"]
    before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}
    name_classes(panel, "round", "long")
    layer.mode = "pick"
    for label, key in ((3, "1"), (5, "2"), (8, "1")):
        click(viewer, at(layer, *PLACES[label]))
        press(viewer, getattr(Qt.Key, f"Key_{key}"))
    assert classes_in(viewer) == {3: "round", 5: "long", 8: "round"}
    assert (layer.mode, layer.unsaved) == ("pick", False)
    assert selected(panel) == "round"
    assert counts_in(panel) == {"round": "2", "long": "1"}
    push(panel, "Undo class")
    assert selected(panel) == ""
    press(viewer, Qt.Key.Key_9)
    assert 8 not in classes_in(viewer)
    press(viewer, Qt.Key.Key_S, CONTROL)
    classes = find_classes(session_of(viewer).annotations, layer)
    until(lambda: not classes.unsaved)
    assert stored(path) == {"nuclei": {3: "round", 5: "long"}}
    after = {p: p.read_bytes() for p in before}
    assert after == before


def test_classes_are_edited_in_the_table_and_stored(viewer, path, panel, monkeypatch):
    layer = viewer.layers["nuclei"]
    reports = reports_of(panel)
    name_classes(panel, "round", "long", "odd")
    assert panel.table.isColumnHidden(VALUE)
    for label, name in ((3, "round"), (5, "long"), (8, "long")):
        layer.selected_label = label
        press_cell(panel, name, NAME)
        assert classes_in(viewer).get(label) is None, "a click selects a row"
        push(panel, "Give class")
    rename(panel, "long", "round")
    assert (names_in(panel), reports[-1]) == (
        ["round", "long", "odd"],
        "There is a class round already.",
    )
    rename(panel, "long", " flat ")
    assert selected(panel) == "flat"
    monkeypatch.setattr(QColorDialog, "getColor", lambda *_: QColor(1, 2, 3, 255))
    press_cell(panel, "flat", COLOR, double=True)
    tick(panel, "round", LOCKED)
    tick(panel, "flat", VISIBLE)
    press_cell(panel, "odd", NAME)
    push(panel, "Remove")
    assert reports[-1] == "'odd' is off the list and off 0 objects."
    press(viewer, Qt.Key.Key_S, CONTROL)
    until(lambda: stored(path) != {})
    (table,) = read_classes(path)
    assert dict(table.classes.class_of) == {3: "round", 5: "flat", 8: "flat"}
    assert table.classes.classes == (
        ObjectClass("round", panel.items[0].color, locked=True),
        ObjectClass("flat", (1, 2, 3, 255), hidden=True),
    )


def test_hidden_objects_are_neither_seen_nor_chosen(viewer, panel):
    layer, ids = viewer.layers["nuclei"], np.array([3, 5, 8])
    own = layer.colormap.map(ids)
    name_classes(panel, "round", "long")
    for label, name in ((3, "round"), (5, "long")):
        layer.selected_label = label
        panel.classify(name)
    tick(panel, "round", VISIBLE)
    until(lambda: layer.colormap.map(ids)[0, 3] == 0)
    np.testing.assert_array_equal(layer.colormap.map(ids)[1:], own[1:])
    assert not layer.unsaved
    color_by(panel, "class")
    assert [*layer.colormap.map(ids)[:, 3]] == [0, 1, 1]
    page = panel.parent()
    for choose in (lambda: QTest.mouseClick(page.choose, LEFT), pick(layer)):
        choose()
        click(viewer, at(layer, *PLACES[5]))
        assert selected(panel) == "long"
        click(viewer, at(layer, *PLACES[3]))
        assert selected(panel) == ""
        press(viewer, Qt.Key.Key_2)
        assert classes_in(viewer) == {3: "round", 5: "long"}
    color_by(panel, "own colours")
    assert layer.colormap.map(ids)[0, 3] == 0
    tick(panel, "round", VISIBLE)
    until(lambda: layer.colormap.map(ids)[0, 3] == 1)
    np.testing.assert_array_equal(layer.colormap.map(ids), own)


def alphas(layer):
    return layer.colormap.map(np.array([3, 5, 8]))[:, 3].tolist()


def seen_at(viewer, layer, place):
    """Return whether a pixel of the screen has a colour of its own."""
    picture = viewer.screenshot(canvas_only=True, flash=False)
    spot = on_canvas(viewer, at(layer, *place)).toPoint()
    return bool(np.ptp(picture[spot.y(), spot.x(), :3].astype(int)) > 9)


def test_hidden_objects_are_not_seen_before_the_dock_is_opened(viewer, path):
    node = open_node(path)
    hidden = ObjectClass("round", (9, 8, 7, 255), hidden=True)
    write_classes(node, ClassChanges("nuclei", (hidden,), {3: "round", 8: "round"}))
    viewer.open(str(path), plugin="napari-ngff")
    layer = viewer.layers["nuclei"]
    layer.visible = True
    until(lambda: alphas(layer) == [0, 1, 0])
    own = layer.colormap.color_dict
    viewer.reset_view()
    pump(100)
    assert [seen_at(viewer, layer, PLACES[x]) for x in (3, 5, 8)] == [0, 1, 0]
    viewer.layers.selection.active = layer
    _, dock = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    panel = dock.objects.classes
    until(lambda: names_in(panel) == ["round"])
    color_by(panel, "class")
    assert alphas(layer) == [0, 1, 0]
    viewer.open(str(path), plugin="napari-ngff")
    other = viewer.layers[-1]
    viewer.layers.selection.active = other
    for each in (layer, other):
        until(lambda each=each: alphas(each) == [0, 1, 0])
    find_classes(session_of(viewer).annotations, layer).classify(8, "")
    for each in (layer, other):
        until(lambda each=each: alphas(each) == [0, 1, 1])
        assert {*each.colormap.color_dict} == {*own}
        assert not each.unsaved


def pick(layer):
    return lambda: setattr(layer, "mode", "pick")


def test_objects_of_a_locked_class_do_not_change(viewer, panel):
    layer = viewer.layers["nuclei"]
    reports, page = reports_of(panel.parent()), panel.parent()
    name_classes(panel, "round", "long")
    layer.selected_label = 3
    panel.classify("round")
    tick(panel, "round", LOCKED)
    before = np.array(layer.data[0])
    locked = "Object 3 is 'round', a class that is locked."
    press(viewer, Qt.Key.Key_2)
    assert reports[-1].startswith(locked)
    push(panel, "Remove")
    assert reports[-1].startswith("'round' is locked.")
    for button, first in ((page.join, 5), (page.delete, 3), (page.join, 3)):
        layer.selected_label = 8 - first
        QTest.mouseClick(button, LEFT)
        click(viewer, at(layer, *PLACES[first]))
        until(lambda: reports[-1].startswith(locked))
        reports.append("")
    QTest.mouseClick(page.cut, LEFT)
    for x in (12, 22):
        click(viewer, at(layer, 17, x))
    until(lambda: reports[-1].startswith(locked))
    assert classes_in(viewer) == {3: "round"}
    np.testing.assert_array_equal(np.array(layer.data[0]), before)
    layer.brush_size, layer.selected_label = 41, 8
    for mode in ("fill", "erase", "paint"):
        layer.mode = mode
        click(viewer, at(layer, *PLACES[3]))
        np.testing.assert_array_equal(np.array(layer.data[0]) == 3, before == 3)
    assert np.count_nonzero(np.array(layer.data[0]) == 8) > (before == 8).sum() + 500
    tick(panel, "round", LOCKED)
    click(viewer, at(layer, *PLACES[3]))
    assert not (np.array(layer.data[0]) == 3).any()


def press_row(panel, label, modifier=Qt.KeyboardModifier.NoModifier):
    table = panel.parent().table
    cell = table.model.index(table.model.placeOf(label), 0)
    spot = table.view.visualRect(cell).center()
    QTest.mouseClick(table.view.viewport(), LEFT, modifier, spot)
    pump()


SHIFT = Qt.KeyboardModifier.ShiftModifier


@pytest.mark.default_cases("clicks1-labels1")
@pytest.mark.parametrize(
    ("clicks", "labels"),
    [
        ([(3, None), (8, SHIFT)], [3, 5, 8]),
        ([(3, None), (8, SHIFT), (5, CONTROL)], [3, 8]),
        ([(3, None), (8, SHIFT), (5, None)], [5]),
    ],
)
def test_all_selected_rows_get_a_class_at_once(viewer, panel, clicks, labels):
    reports = reports_of(panel)
    name_classes(panel, "round", "long")
    table = panel.parent().table
    until(lambda: table.model.rowCount() == 3)
    for label, modifier in clicks:
        press_row(panel, label, modifier or Qt.KeyboardModifier.NoModifier)
    count = f"{len(labels)} objects are" if labels[1:] else f"Object {labels[0]} is"
    QTest.keyClick(table.view, Qt.Key.Key_1)
    assert classes_in(viewer) == dict.fromkeys(labels, "round")
    assert reports[-1] == f"{count} round."
    press_cell(panel, "long", NAME)
    push(panel, "Give class")
    assert classes_in(viewer) == dict.fromkeys(labels, "long")
    push(panel, "No class")
    assert (classes_in(viewer), reports[-1]) == ({}, f"{count} without a class.")
    for name in ("long", "round"):
        push(panel, "Undo class")
        assert classes_in(viewer) == dict.fromkeys(labels, name)
        assert reports[-1] == f"{count} {name}."
    # One that is clicked on the canvas is the only one from then on.
    viewer.layers["nuclei"].mode = "pick"
    click(viewer, at(viewer.layers["nuclei"], *PLACES[labels[-1]]))
    press(viewer, Qt.Key.Key_2)
    expected = dict.fromkeys(labels, "round") | {labels[-1]: "long"}
    assert classes_in(viewer) == expected


def test_no_selected_row_gets_a_class_where_one_is_locked(viewer, panel):
    reports = reports_of(panel)
    name_classes(panel, "round", "long")
    until(lambda: panel.parent().table.model.rowCount() == 3)
    press_row(panel, 5)
    press(viewer, Qt.Key.Key_2)
    tick(panel, "long", LOCKED)
    before = classes_in(viewer)
    press_row(panel, 3)
    press_row(panel, 8, SHIFT)
    press(viewer, Qt.Key.Key_1)
    assert classes_in(viewer) == before
    assert reports[-1].startswith("Object 5 is 'long', a class that is locked.")


def test_a_removed_class_is_put_back_with_its_objects(viewer, panel):
    name_classes(panel, "round", "long")
    for label in PLACES:
        viewer.layers["nuclei"].selected_label = label
        panel.classify("round")
    reports = reports_of(panel)
    push(panel, "Remove")
    assert (names_in(panel), classes_in(viewer)) == (["long"], {})
    push(panel, "Undo class")
    assert names_in(panel) == ["round", "long"]
    assert classes_in(viewer) == dict.fromkeys(PLACES, "round")
    assert reports == [
        "'round' is off the list and off 3 objects.",
        "'round' is on the list and on 3 objects again.",
    ]
    push(panel, "No class")
    assert reports[-1] == "Object 8 is without a class."
    assert counts_in(panel) == {"round": "2", "long": "0"}


def test_objects_have_the_colours_of_their_classes(viewer, path, panel):
    layer = viewer.layers["nuclei"]
    own = layer.colormap.map(np.array([3, 5, 8]))
    name_classes(panel, "round")
    layer.selected_label = 3
    panel.classify("round")
    color_by(panel, "class")
    (item,) = find_classes(session_of(viewer).annotations, layer).classes.classes
    seen = layer.colormap.map(np.array([3, 5, 8]))
    np.testing.assert_allclose(seen[0], np.array(item.color) / 255, atol=1e-6)
    np.testing.assert_array_equal(seen[1], seen[2])
    layer.selected_label = 5
    panel.classify("round")
    until(lambda: np.array_equal(*layer.colormap.map(np.array([3, 5]))))
    color_by(panel, "own colours")
    np.testing.assert_array_equal(layer.colormap.map(np.array([3, 5, 8])), own)
    assert not layer.unsaved


def test_keys_give_no_object_a_class_where_labels_are_classes(viewer, path, panel):
    layer = viewer.layers["nuclei"]
    name_classes(panel, "round")
    layer.selected_label = 3
    page = panel.parent()
    while not hasattr(page, "setKind"):
        page = page.parent()
    page.setKind("classes")
    pump()
    press(viewer, Qt.Key.Key_1)
    assert classes_in(viewer) == {}


def test_colours_and_keys_go_along_to_the_next_field(viewer, tmp_path):
    root = write_plate(tmp_path / "p.ome.zarr", grid=(1, 2), fields=1, shape=(32, 32))
    viewer.open(str(root), plugin="napari-ngff")
    browser = session_of(viewer).browser
    browser.show_field("A/1", "0")
    until(lambda: browser.position is not None)
    _, dock = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    layer = next(x for x in viewer.layers if hasattr(x, "saver"))
    viewer.layers.selection.active = layer
    dock.setKind("objects")
    panel = dock.objects.classes
    until(lambda: panel.isVisible() and panel.isEnabled())
    name_classes(panel, "round", "long")
    label = int(np.max(layer.data[0]))
    layer.selected_label = label
    panel.classify("long")
    color_by(panel, "class")
    grey = layer.colormap.map(np.array([60_000]))
    browser.show_field("A/2", "0")
    until(lambda: browser.position is not None and browser.position.well == "A/2")
    until(lambda: stored(root / "A/1/0") != {})
    pump(100)
    np.testing.assert_array_equal(layer.colormap.map(np.array([label])), grey)
    assert names_in(panel) == ["round", "long"]
    press(viewer, Qt.Key.Key_1)
    assert find_classes(session_of(viewer).annotations, layer) is None
    browser.show_field("A/1", "0")
    until(lambda: counts_in(panel)["long"] == "1")
    until(lambda: (layer.colormap.map(np.array([label])) != grey).any())


@pytest.fixture
def page(panel):
    """Return the page of objects."""
    return panel.parent()


def reports_of(widget):
    reports = []
    widget.reported.connect(reports.append)
    return reports


def test_a_key_without_a_chosen_object_changes_nothing(viewer, panel):
    name_classes(panel, "round")
    reports = reports_of(panel)
    assert viewer.layers["nuclei"].selected_label == 1
    press(viewer, Qt.Key.Key_1)
    assert classes_in(viewer) == {}
    assert reports == [NO_OBJECT]


@pytest.mark.default_cases("locked", "hidden")
@pytest.mark.parametrize("how", ["as usual", "locked", "read-only", "hidden"])
def test_objects_are_chosen_whatever_may_be_painted(viewer, panel, page, how):
    layer = viewer.layers["nuclei"]
    name_classes(panel, "round", "long")
    layer.locked = how == "locked"
    if how == "read-only":
        layer.read_only = "no permission"
    QTest.mouseClick(page.choose, LEFT)
    click(viewer, at(layer, 17, 17))
    press(viewer, Qt.Key.Key_1)
    layer.visible = how != "hidden"
    reports = reports_of(page)
    click(viewer, at(layer, 17, 70))
    press(viewer, Qt.Key.Key_2)
    if how == "hidden":
        assert classes_in(viewer) == {3: "round"}
        assert {*reports} == {"These labels are hidden. Show them first."}
    else:
        assert classes_in(viewer) == {3: "round", 5: "long"}
    click(viewer, at(layer, 30, 5))
    press(viewer, Qt.Key.Key_1)
    assert 0 not in classes_in(viewer)


def test_the_object_of_the_label_in_hand_can_be_picked(viewer, panel):
    layer = viewer.layers["nuclei"]
    name_classes(panel, "round")
    layer.selected_label = 3
    panel.setObject(0)
    layer.mode = "pick"
    click(viewer, at(layer, 17, 17))
    press(viewer, Qt.Key.Key_1)
    assert classes_in(viewer) == {3: "round"}


def test_what_is_undone_is_named(viewer, panel):
    name_classes(panel, "round", "long")
    assert not panel.buttons["Undo class"].isEnabled()
    viewer.layers["nuclei"].selected_label = 3
    panel.classify("round")
    panel.classify("long")
    reports = reports_of(panel)
    push(panel, "Undo class")
    push(panel, "Undo class")
    assert reports == ["Object 3 is round.", "Object 3 is without a class."]
    assert not panel.buttons["Undo class"].isEnabled()


def test_a_long_name_does_not_widen_the_dock(viewer, panel):
    name_classes(panel, "short")
    width = viewer.window._qt_window.width(), panel.minimumSizeHint().width()
    rename(panel, "short", "x" * 300)
    viewer.layers["nuclei"].selected_label = 3
    panel.classify("x" * 300)
    pump(100)
    assert (viewer.window._qt_window.width(), panel.minimumSizeHint().width()) == width
