"""From field to field with the mouse, in a window."""

from __future__ import annotations

import json

import pytest
from qtpy.QtCore import QPoint, Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QLineEdit

from mouse import pump, until
from napari_ngff.labels.label_classes import classes_of
from napari_ngff.labels.label_metadata import read_label_info
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.samples import write_plate
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.annotate.annotate_dock import AnnotateDock
from napari_ngff.widgets.annotate.class_table import NAME
from napari_ngff.widgets.docking import bring_forward
from plates import write_plate as write_runs

LEFT = Qt.MouseButton.LeftButton
FIELDS = ["A/1/0", "A/1/1", "A/2/0", "A/2/1"]


def begin(viewer, path):
    """Browse a plate, and begin a round in its first field."""
    viewer.open(str(path), plugin="napari-ngff")
    _, dock = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    browser = session_of(viewer).browser
    browser.show_field("A/1", "0")
    # A dock that just became a tab takes no clicks before it is in front.
    until(lambda: browser.position is not None and dock.round.begin.isEnabled())
    QTest.mouseClick(dock.round.begin, LEFT)
    until(lambda: dock.round.annotation is not None and dock.round.annotation.fields)
    pump()
    return dock.round


def go(bar, button):
    """Press a button, and wait for another field."""
    before = bar.annotation.current_key
    QTest.mouseClick(button, LEFT)
    until(
        lambda: (
            bar.annotation.current_key != before and bar.annotation.layer is not None
        )
    )
    pump()
    return bar.annotation.current_key


def test_fields_are_stepped_through_before_all_are_annotated(viewer, tmp_path):
    path = write_plate(tmp_path / "p.ome.zarr", grid=(1, 2), fields=2, shape=(32, 32))
    viewer.open(str(path), plugin="napari-ngff")
    _, dock = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    bar, browser = dock.round, session_of(viewer).browser
    pump()
    assert (bar.place.text(), bar.next.isVisible()) == ("Plate overview", True)
    browser.show_field("A/1", "0")
    until(lambda: bar.place.text() == "A1 - field 0")
    QTest.mouseClick(bar.next, LEFT)
    until(lambda: bar.place.text() == "A1 - field 1")
    QTest.mouseClick(bar.previous, LEFT)
    until(lambda: bar.place.text() == "A1 - field 0")
    assert not bar.state.isVisible()
    # Another plate: its fields are stepped through, no longer those of the first.
    other = write_plate(tmp_path / "q.ome.zarr", grid=(1, 2), fields=1, shape=(32, 32))
    viewer.open(str(other), plugin="napari-ngff")
    until(lambda: session_of(viewer).browser is not browser)
    session_of(viewer).browser.show_field("A/2", "0")
    until(lambda: bar.place.text().startswith("A2"))
    bring_forward(dock)  # the browser came in front of it
    until(bar.previous.isVisible)
    QTest.mouseClick(bar.previous, LEFT)
    until(lambda: bar.place.text().startswith("A1"))
    assert browser.position.field == "0"


@pytest.mark.long
def test_forth_back_and_to_what_is_to_do(viewer, tmp_path):
    path = write_plate(
        tmp_path / "plate.ome.zarr", grid=(1, 2), fields=2, shape=(32, 32)
    )
    bar = begin(viewer, path)
    assert list(bar.annotation.fields) == FIELDS
    assert (bar.bar.text(), bar.begin.isVisible()) == ("0 of 4 done", False)
    bar.state.setCurrentText("done")
    bar.state.activated.emit(bar.state.currentIndex())
    until(lambda: bar.bar.text() == "1 of 4 done")
    assert "3 to do" in bar.bar.toolTip()
    assert "1 done" in bar.bar.toolTip()
    assert go(bar, bar.next) == FIELDS[1]
    assert bar.state.currentText() == "to do"
    assert go(bar, bar.previous) == FIELDS[0]
    assert bar.state.currentText() == "done"
    assert go(bar, bar.previous) == FIELDS[3], "around"
    layer = bar.annotation.layer
    layer.paint((0,) * (layer.ndim - 2) + (9, 9), 1)
    assert go(bar, bar.todo) == FIELDS[1], "the first is done"
    assert (path / FIELDS[3] / "labels").exists(), "saved when left"
    until(lambda: "1 in progress" in bar.bar.toolTip())
    kept = json.loads((tmp_path / "plate.ome.zarr.annotation.json").read_text())
    assert {name: one["state"] for name, one in kept["fields"].items()} == {
        FIELDS[0]: "done",
        FIELDS[3]: "in progress",
    }
    assert bar.place.text()


@pytest.mark.long
def test_the_brush_stays_in_hand_when_a_round_begins(viewer, tmp_path):
    path = write_plate(
        tmp_path / "plate.ome.zarr", grid=(1, 2), fields=1, shape=(32, 32)
    )
    viewer.open(str(path), plugin="napari-ngff")
    _, dock = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    browser = session_of(viewer).browser
    browser.show_field("A/1", "0")
    until(lambda: browser.position is not None)
    layer = viewer.add_layer(new_labels(viewer.layers[0], "mitosis"))
    viewer.layers.selection.active = layer
    layer.mode = "paint"
    until(lambda: dock.round.begin.isEnabled())
    QTest.mouseClick(dock.round.begin, LEFT)
    until(lambda: dock.round.annotation is not None and dock.round.annotation.fields)
    pump()
    for well in ("A1", "A2"):
        assert dock.title.text() == f"mitosis - classes of {well} - field 0"
        assert dock.round.annotation.layer is viewer.layers.selection.active is layer
        assert layer.mode == "paint"
        go(dock.round, dock.round.next)


def test_a_renamed_class_is_renamed_in_all_fields_by_a_link(viewer, tmp_path):
    path = write_plate(tmp_path / "p.ome.zarr", grid=(1, 2), fields=2, shape=(32, 32))
    bar = begin(viewer, path)
    dock, name = bar.window().findChild(AnnotateDock), bar.annotation.layer.name
    dock.classes.addClass()
    until(lambda: dock.classes.classes.items)
    rename(dock, "mitotic")
    assert "all fields" not in dock.status.text(), "it is new"
    for _ in range(2):
        layer = bar.annotation.layer
        layer.paint((0,) * (layer.ndim - 2) + (9, 9), 1)
        go(bar, bar.next)
    assert [x.name for x in dock.classes.classes.items] == ["mitotic"]
    rename(dock, "M <phase>")
    assert dock.status.text().startswith("'mitotic' is renamed to 'M &lt;phase&gt;' in")
    click_link(dock.status, lambda: "2 other fields" in dock.status.text())
    for field in FIELDS[:2]:
        info = read_label_info(open_node(path / field / "labels" / name))
        assert [x.name for x in classes_of(info)] == ["M <phase>"]


def rename(dock, name):
    """Type another name for the first class."""
    rows = dock.classes.table.rows
    dock.classes.table.edit(rows.index(0, NAME))
    editor = dock.classes.table.findChild(QLineEdit)
    editor.setText(name)
    QTest.keyClick(editor, Qt.Key.Key_Return)
    until(lambda: rows.classes.items[0].name == name)


def click_link(label, is_done):
    """Click the link of a text, wherever it is."""
    spots = [(x, y) for y in range(2, label.height(), 6) for x in range(2, 400, 6)]
    for spot in spots:
        QTest.mouseClick(label, LEFT, pos=QPoint(*spot))
        if "Rename" not in label.text():
            break
    until(is_done)


def test_other_labels_that_are_selected_can_be_annotated_in_turn(viewer, tmp_path):
    path = write_plate(tmp_path / "p.ome.zarr", grid=(1, 2), fields=2, shape=(32, 32))
    bar = begin(viewer, path)
    first = bar.annotation.name
    bar.annotation.set_state("done")
    until(lambda: bar.bar.text() == "1 of 4 done")
    image = next(x for x in viewer.layers if x._type_string == "image")
    viewer.layers.selection.active = viewer.add_layer(new_labels(image, "fast"))
    until(bar.begin.isVisible)
    QTest.mouseClick(bar.begin, LEFT)
    until(lambda: bar.title() == "Fields: fast" and bar.annotation.fields)
    assert (bar.bar.text(), bar.state.currentText()) == ("0 of 4 done", "to do")
    assert not bar.begin.isVisible()
    viewer.layers.selection.active = viewer.layers[first]
    QTest.mouseClick(bar.begin, LEFT)
    until(lambda: bar.bar.text() == "1 of 4 done")
    assert (bar.title(), bar.state.currentText()) == (f"Fields: {first}", "done")


def test_states_are_set_by_keys(viewer, tmp_path):
    path = write_plate(
        tmp_path / "plate.ome.zarr", grid=(1, 2), fields=2, shape=(32, 32)
    )
    bar = begin(viewer, path)
    canvas = viewer.window._qt_viewer.canvas.native
    shift = Qt.KeyboardModifier.ShiftModifier

    def press(key, *, modifier=shift):
        QTest.keyClick(canvas, key, modifier)

    press(Qt.Key.Key_D)
    until(lambda: bar.bar.text() == "1 of 4 done")
    press(Qt.Key.Key_Period, modifier=Qt.KeyboardModifier.NoModifier)
    until(lambda: bar.annotation.current_key == FIELDS[1])
    assert bar.state.currentText() == "to do"
    press(Qt.Key.Key_F)
    until(lambda: bar.state.currentText() == "flagged")
    press(Qt.Key.Key_F)
    until(lambda: bar.state.currentText() == "in progress")
    stored = json.loads(next(tmp_path.glob("*.annotation.json")).read_text())
    states = {field: entry["state"] for field, entry in stored["fields"].items()}
    assert states == {FIELDS[0]: "done", FIELDS[1]: "in progress"}


def test_the_progress_names_the_acquisition_of_its_fields(viewer, tmp_path):
    path = write_runs(tmp_path / "p", grid=(1, 2), fields=1, acquisitions=2)
    bar = begin(viewer, path)
    assert bar.bar.text() == "0 of 2 done, round 0"
    bar.annotation.set_state("done")
    until(lambda: bar.bar.text() == "1 of 2 done, round 0")
    session_of(viewer).browser.choose_acquisitions((1,))
    until(lambda: bar.bar.text() == "0 of 2 done, round 1")
