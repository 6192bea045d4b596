"""Of several plates, collections and folders one is seen; the others are listed."""

from __future__ import annotations

import random
import shutil

import numpy as np
import pytest
import zarr
from napari._qt.dialogs.qt_notification import NapariQtNotification
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QPushButton
from test_measured_asked import Replies

from mouse import camera, canvas, drop, pump, until
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.annotations.object_class_annotation import begin_classes
from napari_ngff.viewer.browsing.table_offers import MeasureScope, TableOrigin
from napari_ngff.viewer.layers.label_owners import image_address
from napari_ngff.viewer.reader import read_paths, show_listed
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.services.notices import last_part
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of, show_browser
from napari_ngff.widgets.dialogs import CANCEL, SAVE
from plates import write_group, write_image, write_plate


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Whatever is browsed, in sizes and places of its own."""
    top = tmp_path_factory.mktemp("files")
    two = {"shape": (2, 32, 32), "levels": 2, "labelled": lambda _: ("cells",)}
    write_plate(top / "a.zarr", grid=(2, 3), fields=2, **two)
    write_plate(top / "b.zarr", grid=(1, 2), fields=1, shape=(1, 200, 90))
    shutil.copytree(top / "a.zarr" / "A", top / "row.zarr" / "A")
    for name in ("one", "two"):
        write_image(top / "images" / name, np.ones((2, 16, 16), "u2"), 3)
    write_group(top / "series", {"bioformats2raw.layout": 3}, 3)
    for name, side in (("0", 64), ("1", 40)):
        write_image(top / "series" / name, np.ones((1, side, side), "u2"), 3)
    return top


PLACES = ("a.zarr", "a.zarr/B/2", "b.zarr", "row.zarr/A/1", "images", "series")


def settle(viewer):
    until(lambda: session_of(viewer).browser is not None)
    browser = session_of(viewer).browser
    until(lambda: browser.state.wanted is None and not browser.is_drawing)
    pump(50)


def seen(viewer):
    """Give the addresses of the images that are seen."""
    return {image_address(layer) for layer in viewer.layers if layer.visible}


def is_in_view(viewer, layers):
    """Whether the middle of some layers is on the canvas, and more than a dot."""
    low, high = np.array([x.extent.world[:, -2:] for x in layers]).mean(axis=0)
    size = np.array(canvas(viewer).size[-2:]) / camera(viewer).zoom
    offset = np.abs((low + high) / 2 - camera(viewer).center[-2:])
    return (offset < size / 2).all() and ((high - low) > size / 20).any()


def require_last_alone(viewer, path):
    addresses = seen(viewer)
    browser = session_of(viewer).browser
    assert addresses
    root = str(browser.node)
    assert str(path).startswith(root)
    assert {a for a in addresses if not f"{a}/".startswith(f"{root}/")} == set()
    shown = [layer for layer in viewer.layers if layer.visible]
    images = [layer for layer in shown if layer._type_string == "image"]
    assert len({layer.name for layer in images}) == len(images)
    assert all(browser.layers.owns_layer(layer) for layer in shown)
    assert is_in_view(viewer, images)


@pytest.mark.default_cases("2")
@pytest.mark.parametrize("seed", range(3))
def test_only_what_was_opened_last_is_seen(viewer, files, seed):
    use_workers()
    chosen = random.Random(seed)
    # What is shown again is seen with the layers that were added to it: each once.
    places = {place.split("/")[0]: place for place in chosen.sample(PLACES, 4)}
    for path in (files / place for place in places.values()):
        viewer.open(str(path), plugin="napari-ngff")
        settle(viewer)
        require_last_alone(viewer, path)
        if chosen.random() < 0.5:
            browser = session_of(viewer).browser
            browser.step_field(1)
            settle(viewer)
            require_last_alone(viewer, path)
        viewer.add_points([[3, 3]], name=f"on {path.name}")


def listed(viewer):
    """Give what the list of plates shows: names, the chosen one, and if it is seen."""
    box = browser_of(viewer).plates
    names = [box.itemText(row) for row in range(box.count())]
    return names, box.currentText(), box.isVisible()


def shown_name(viewer):
    browser = session_of(viewer).browser
    return "" if browser is None else last_part(str(browser.node))


def choose(viewer, name):
    """Choose a plate in the list by keys."""
    box = browser_of(viewer).plates
    box.setFocus()
    step = box.findText(name) - box.currentIndex()
    for _ in range(abs(step)):
        QTest.keyClick(box, Qt.Key.Key_Down if step > 0 else Qt.Key.Key_Up)
    until(lambda: listed(viewer)[1] == name == shown_name(viewer))
    settle(viewer)


def test_of_two_that_are_opened_together_the_last_is_seen_and_both_are_listed(
    viewer, files
):
    use_workers()
    paths = [str(files / name) for name in ("a.zarr", "b.zarr")]
    viewer.open(paths[0], plugin="napari-ngff")
    assert listed(viewer) == (["a.zarr"], "a.zarr", False)
    viewer.open([*paths], plugin="napari-ngff")
    settle(viewer)
    require_last_alone(viewer, paths[-1])
    names = ["a.zarr", "b.zarr"]
    assert listed(viewer) == (names, "b.zarr", True)
    count = len(viewer.layers)
    for number in (0, 1, 0):
        choose(viewer, names[number])
        require_last_alone(viewer, paths[number])
    assert len(viewer.layers) == count == 4, "each was read once"


def test_plates_of_a_folder_are_listed_and_the_first_is_seen(viewer, files, tmp_path):
    use_workers()
    for name in ("p2.zarr", "p1.zarr", "p3.zarr"):
        shutil.copytree(files / "b.zarr", tmp_path / name)
    drop(show_browser(viewer), tmp_path)
    until(lambda: shown_name(viewer) == "p1.zarr")
    settle(viewer)
    require_last_alone(viewer, tmp_path / "p1.zarr")
    assert listed(viewer)[0] == [tmp_path.name, "p1.zarr", "p2.zarr", "p3.zarr"]
    for name in ("p2.zarr", "p1.zarr"):  # the later one counts, though it comes first
        show_listed(session_of(viewer), str(tmp_path / name))
    until(lambda: len(viewer.layers) == 2)
    settle(viewer)
    require_last_alone(viewer, tmp_path / "p1.zarr")
    choose(viewer, "p2.zarr")
    require_last_alone(viewer, tmp_path / "p2.zarr")
    shutil.rmtree(tmp_path / "p3.zarr")
    QTest.keyClick(browser_of(viewer).plates, Qt.Key.Key_Down)
    until(lambda: listed(viewer)[1] == "p2.zarr")  # again, as the other is gone
    require_last_alone(viewer, tmp_path / "p2.zarr")


def look(viewer):
    """Give what is seen: layers, those that are selected, view, filter and field."""
    shown = [layer for layer in viewer.layers if layer.visible]
    names = {(layer.name, layer in viewer.layers.selection) for layer in shown}
    view = np.round([camera(viewer).zoom, *camera(viewer).center[-2:]], 2)
    filter_line = browser_of(viewer).controls.filter.text()
    return names, view.tolist(), filter_line, session_of(viewer).browser.position


def work_on_field(viewer, folder):
    """Paint, classify, draw a point, load a table, filter, and zoom."""
    labels = next(x for x in viewer.layers if x._type_string == "labels")
    labels.paint((3, 3), 77)
    classes = begin_classes(session_of(viewer).annotations, labels)
    classes.add_class("round")
    classes.classify(77, "round")
    viewer.add_points([[3, 3]], name="mine")
    (folder / "layout.csv").write_text("well,dose\nA1,1\nB2,3\n")
    dock, tables = browser_of(viewer), session_of(viewer).open_tables()
    dock.tables.load_file(str(folder / "layout.csv"))
    until(lambda: tables.table is not None)
    dock.controls.filter.setText("dose > 2")
    until(lambda: set(tables.view.wells or ()) == {"B/2"})
    camera(viewer).zoom *= 2
    camera(viewer).center = (0, 9, 7)
    return labels, tables, classes


def test_a_plate_comes_back_as_it_was_left(viewer, files, tmp_path):
    use_workers()
    path = shutil.copytree(files / "a.zarr", tmp_path / "a.zarr")
    viewer.open(str(path), plugin="napari-ngff")
    session_of(viewer).browser.show_field("B/2", "1")
    settle(viewer)
    labels, tables, classes = work_on_field(viewer, tmp_path)
    before = look(viewer)
    for how in ("list", "open"):
        if how == "open":  # measuring continues
            tables.measure_labels("cells", MeasureScope.ALL)
        viewer.open(str(files / "b.zarr"), plugin="napari-ngff")
        until(lambda: shown_name(viewer) == "b.zarr")
        settle(viewer)
        session_of(viewer).browser.step_field(1)
        settle(viewer)
        assert browser_of(viewer).controls.filter.text() == ""
        if how == "list":
            choose(viewer, "a.zarr")
        else:
            viewer.open(str(path), plugin="napari-ngff")
            until(lambda: shown_name(viewer) == "a.zarr")
            settle(viewer)
        assert look(viewer) == before
        notices = viewer.window._qt_window.findChildren(NapariQtNotification)
        told = [x.message.text() for x in notices if x.isVisible()]
        assert not [text for text in told if "Plates: a.zarr" in text]
        assert classes.unsaved
        assert classes in session_of(viewer).annotations.list_savable()
        assert session_of(viewer).open_tables() is tables
        assert labels.unsaved
        assert labels.data[0][3, 3] == 77
    until(lambda: tables.joined.chosen.source is TableOrigin.MEASURED)
    assert len(set(tables.table.frame["well"])) == 6
    # The next field gets other labels, and what was painted is saved in its own.
    session_of(viewer).browser.step_field(-1)
    settle(viewer)
    assert not labels.unsaved
    saved = zarr.open_array(path / "B" / "2" / "1" / "labels" / "cells" / "0", mode="r")
    assert saved[3, 3] == 77


def test_layers_that_come_late_are_hidden(viewer, files):
    """As from a server, while another plate was opened."""
    use_workers()
    paths = [str(files / name) for name in ("a.zarr", "b.zarr")]
    late = read_paths(paths[0])
    assert shown_name(viewer) == "a.zarr"
    viewer.open(paths[1], plugin="napari-ngff")
    session_of(viewer).add(late, paths[0])
    settle(viewer)
    require_last_alone(viewer, paths[1])
    choose(viewer, "a.zarr")
    require_last_alone(viewer, paths[0])


def press_close(viewer):
    """Press the button of the notice that a plate is hidden."""

    def button():
        notices = viewer.window._qt_window.findChildren(NapariQtNotification)
        buttons = [b for x in notices for b in x.findChildren(QPushButton)]
        return next((b for b in buttons if b.text() == "Close instead"), None)

    until(button)
    QTest.mouseClick(button(), Qt.MouseButton.LeftButton)


def test_a_plate_is_closed_after_its_unsaved_work_was_asked_about(
    viewer, files, tmp_path, monkeypatch
):
    use_workers()
    monkeypatch.setattr(settings, "saves_when_moving_on", lambda: False)
    path = shutil.copytree(files / "a.zarr", tmp_path / "a.zarr")
    viewer.open(str(path), plugin="napari-ngff")
    browser = session_of(viewer).browser
    browser.show_field("B/2", "1")
    settle(viewer)
    browser.toggle_pin("A/1")
    until(lambda: browser.pinned_fields)
    labels, *_ = work_on_field(viewer, tmp_path)
    viewer.open(str(files / "b.zarr"), plugin="napari-ngff")
    settle(viewer)
    before = set(viewer.layers)
    user = Replies(CANCEL)
    press_close(viewer)
    until(lambda: user.asked)
    pump(100)
    assert set(viewer.layers) == before
    assert labels.unsaved
    assert listed(viewer)[0] == ["a.zarr", "b.zarr"]
    user = Replies(SAVE)
    press_close(viewer)
    until(lambda: listed(viewer)[0] == ["b.zarr"])
    assert len(user.asked) == 1
    assert (path / "B" / "2" / "1" / "tables" / "cells_classes").exists()
    left = {layer for layer in viewer.layers if not layer.visible}
    assert left == {viewer.layers["mine"]}, "in memory alone"
    saved = zarr.open_array(path / "B" / "2" / "1" / "labels" / "cells" / "0", mode="r")
    assert saved[3, 3] == 77
    require_last_alone(viewer, files / "b.zarr")


def test_strokes_on_the_plate_before_are_kept_and_named(viewer, files, tmp_path):
    use_workers()
    path = shutil.copytree(files / "a.zarr", tmp_path / "a.zarr")
    viewer.open(str(path), plugin="napari-ngff")
    session_of(viewer).browser.show_field("A/1", "0")
    settle(viewer)
    labels = next(x for x in viewer.layers if x._type_string == "labels")
    labels.paint((3, 3), 77)
    viewer.add_points([[3, 3]])
    viewer.open(str(files / "b.zarr"), plugin="napari-ngff")
    settle(viewer)
    require_last_alone(viewer, files / "b.zarr")
    assert labels.unsaved
    native = canvas(viewer).native
    native.setFocus()
    QTest.keyClick(native, Qt.Key.Key_S, Qt.KeyboardModifier.ControlModifier)
    until(lambda: not labels.unsaved)


def test_an_image_or_labels_may_lie_over_a_plate(viewer, files):
    use_workers()
    viewer.open(str(files / "a.zarr"), plugin="napari-ngff")
    settle(viewer)
    before = seen(viewer)
    viewer.open(str(files / "images" / "one"), plugin="napari-ngff")
    pump(100)
    assert seen(viewer) == before | {str(files / "images" / "one")}
