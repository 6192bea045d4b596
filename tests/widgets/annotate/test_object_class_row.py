"""Objects get classes by the mouse and number keys, in a window."""

from __future__ import annotations

import numpy as np
import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QInputDialog

from mouse import CONTROL, canvas, click, pump, until
from napari_ngff.labels.object_classes import ObjectClass
from napari_ngff.viewer.annotations.object_class_annotation import find_classes
from napari_ngff.viewer.samples import write_plate
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.annotate.object_class_row import NO_OBJECT
from object_tables import stored
from plates import write_image

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def path(tmp_path):
    pixels = np.zeros((60, 90), "uint16")
    pixels[10:25, 10:25], pixels[10:25, 60:80], pixels[40:55, 30:50] = 3, 5, 8
    write_image(tmp_path / "cells.ome.zarr", pixels, 3, "yx", labels=("nuclei",))
    return tmp_path / "cells.ome.zarr"


@pytest.fixture
def row(viewer, path):
    """Return the row of the Objects page, for labels of another program."""
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


def name_classes(row, monkeypatch, *names):
    for name in names:
        answer = name, True
        monkeypatch.setattr(QInputDialog, "getText", lambda *_, a=answer, **k: a)
        QTest.mouseClick(row.make, LEFT)


def press(viewer, key, modifier=Qt.KeyboardModifier.NoModifier):
    viewer.window.activate()
    canvas(viewer).native.setFocus()
    pump()
    QTest.keyClick(canvas(viewer).native, key, modifier)
    pump()


def color_by(row, title):
    """Choose a column of the list, and wait for its colours."""
    table = row.parent().table
    table.color.setCurrentText(title)
    table.color.activated.emit(table.color.currentIndex())
    until(lambda: (table.objects.coloring is None) == (title == "own colours"))


def at(layer, y, x):
    return tuple(layer.data_to_world((y, x)))


def test_a_clicked_object_gets_the_class_of_a_key(viewer, path, row, monkeypatch):
    layer = viewer.layers["nuclei"]
    before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}
    name_classes(row, monkeypatch, "round", "long")
    layer.mode = "pick"
    for place, key in (((17, 17), "1"), ((17, 70), "2"), ((47, 40), "1")):
        click(viewer, at(layer, *place))
        press(viewer, getattr(Qt.Key, f"Key_{key}"))
    classes = find_classes(session_of(viewer).annotations, layer)
    assert dict(classes.classes.class_of) == {3: "round", 5: "long", 8: "round"}
    assert (layer.mode, layer.unsaved) == ("pick", False)
    assert row.choice.currentText() == "1  round"
    QTest.mouseClick(row.back, LEFT)
    assert row.choice.currentText() == "no class"
    press(viewer, Qt.Key.Key_9)
    assert 8 not in classes.classes.class_of
    press(viewer, Qt.Key.Key_S, CONTROL)
    until(lambda: not classes.unsaved)
    assert stored(path) == {"nuclei": {3: "round", 5: "long"}}
    after = {p: p.read_bytes() for p in before}
    assert after == before


def test_objects_have_the_colours_of_their_classes(viewer, path, row, monkeypatch):
    layer = viewer.layers["nuclei"]
    own = layer.colormap.map(np.array([3, 5, 8]))
    name_classes(row, monkeypatch, "round")
    layer.selected_label = 3
    row.classify("round")
    color_by(row, "class")
    (item,) = find_classes(session_of(viewer).annotations, layer).classes.classes
    assert isinstance(item, ObjectClass)
    seen = layer.colormap.map(np.array([3, 5, 8]))
    np.testing.assert_allclose(seen[0], np.array(item.color) / 255, atol=1e-6)
    np.testing.assert_array_equal(seen[1], seen[2])
    layer.selected_label = 5
    row.classify("round")
    until(lambda: np.array_equal(*layer.colormap.map(np.array([3, 5]))))
    color_by(row, "own colours")
    np.testing.assert_array_equal(layer.colormap.map(np.array([3, 5, 8])), own)
    assert not layer.unsaved


def test_keys_give_no_object_a_class_where_labels_are_classes(
    viewer, path, row, monkeypatch
):
    layer = viewer.layers["nuclei"]
    name_classes(row, monkeypatch, "round")
    layer.selected_label = 3
    page = row.parent()
    while not hasattr(page, "setKind"):
        page = page.parent()
    page.setKind("classes")
    pump()
    press(viewer, Qt.Key.Key_1)
    classes = find_classes(session_of(viewer).annotations, layer)
    assert dict(classes.classes.class_of) == {}


def test_colours_and_keys_go_along_to_the_next_field(viewer, tmp_path, monkeypatch):
    root = write_plate(tmp_path / "p.ome.zarr", grid=(1, 2), fields=1, shape=(32, 32))
    viewer.open(str(root), plugin="napari-ngff")
    browser = session_of(viewer).browser
    browser.show_field("A/1", "0")
    until(lambda: browser.position is not None)
    _, dock = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    layer = next(x for x in viewer.layers if hasattr(x, "saver"))
    viewer.layers.selection.active = layer
    dock.setKind("objects")
    row = dock.objects.classes
    until(lambda: row.isVisible() and row.isEnabled())
    name_classes(row, monkeypatch, "round", "long")
    label = int(np.max(layer.data[0]))
    layer.selected_label = label
    row.classify("long")
    color_by(row, "class")
    grey = layer.colormap.map(np.array([60_000]))
    browser.show_field("A/2", "0")
    until(lambda: browser.position is not None and browser.position.well == "A/2")
    until(lambda: stored(root / "A/1/0") != {})
    pump(100)
    np.testing.assert_array_equal(layer.colormap.map(np.array([label])), grey)
    assert row.names == ["round", "long"]
    press(viewer, Qt.Key.Key_1)
    assert find_classes(session_of(viewer).annotations, layer) is None
    browser.show_field("A/1", "0")
    until(lambda: row.names == ["round", "long"])
    assert row.choice.findData("long") == 2
    until(lambda: (layer.colormap.map(np.array([label])) != grey).any())


@pytest.fixture
def page(row):
    """Return the page of objects."""
    page = row.parent()
    while not hasattr(page, "choose"):
        page = page.parent()
    return page


def classes_in(viewer):
    found = find_classes(session_of(viewer).annotations, viewer.layers["nuclei"])
    return {} if found is None else dict(found.classes.class_of)


def reports_of(row):
    reports = []
    row.reported.connect(reports.append)
    return reports


def test_a_key_without_a_chosen_object_changes_nothing(viewer, row, monkeypatch):
    name_classes(row, monkeypatch, "round")
    reports = reports_of(row)
    assert viewer.layers["nuclei"].selected_label == 1
    press(viewer, Qt.Key.Key_1)
    assert classes_in(viewer) == {}
    assert reports == [NO_OBJECT]


@pytest.mark.parametrize("how", ["as usual", "locked", "read-only", "hidden"])
def test_objects_are_chosen_whatever_may_be_painted(
    viewer, row, page, monkeypatch, how
):
    layer = viewer.layers["nuclei"]
    name_classes(row, monkeypatch, "round", "long")
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
        assert reports[0] == "These labels are hidden. Show them first."
    else:
        assert classes_in(viewer) == {3: "round", 5: "long"}
    click(viewer, at(layer, 30, 5))
    press(viewer, Qt.Key.Key_1)
    assert 0 not in classes_in(viewer)


def test_the_object_of_the_label_in_hand_can_be_picked(viewer, row, monkeypatch):
    layer = viewer.layers["nuclei"]
    name_classes(row, monkeypatch, "round")
    layer.selected_label = 3
    row.setObject(0)
    layer.mode = "pick"
    click(viewer, at(layer, 17, 17))
    press(viewer, Qt.Key.Key_1)
    assert classes_in(viewer) == {3: "round"}


def test_what_is_undone_is_named(viewer, row, monkeypatch):
    name_classes(row, monkeypatch, "round", "long")
    assert not row.back.isEnabled()
    viewer.layers["nuclei"].selected_label = 3
    row.classify("round")
    row.classify("long")
    reports = reports_of(row)
    QTest.mouseClick(row.back, LEFT)
    QTest.mouseClick(row.back, LEFT)
    assert reports == ["Object 3 is round.", "Object 3 is without a class."]
    assert not row.back.isEnabled()


def test_a_class_is_renamed(viewer, path, row, monkeypatch):
    assert not row.rename.isEnabled()
    name_classes(row, monkeypatch, "round", "long")
    viewer.layers["nuclei"].selected_label = 3
    row.classify("round")
    for answer, after in (("long", "round"), (" ball ", "ball")):
        monkeypatch.setattr(
            QInputDialog, "getText", lambda *_, a=answer, **k: (a, True)
        )
        QTest.mouseClick(row.rename, LEFT)
        assert row.choice.currentText() == f"1  {after}"
    assert row.names == ["ball", "long"]
    assert classes_in(viewer) == {3: "ball"}


def test_a_long_name_does_not_widen_the_dock(viewer, row, monkeypatch):
    width = viewer.window._qt_window.width(), row.minimumSizeHint().width()
    name_classes(row, monkeypatch, "x" * 300)
    viewer.layers["nuclei"].selected_label = 3
    row.classify("x" * 300)
    pump(100)
    assert (viewer.window._qt_window.width(), row.minimumSizeHint().width()) == width
