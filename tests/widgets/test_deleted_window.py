"""Labels are deleted and renamed in their file by the menu; the message undoes it."""

from __future__ import annotations

import zarr
from napari._qt.dialogs.qt_notification import NapariQtNotification
from napari.utils.notifications import notification_manager
from qtpy.QtCore import Qt, QTimer
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QInputDialog, QPushButton
from test_measured_asked import Replies

from mouse import pump, until
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.samples import write_image
from napari_ngff.widgets.dialogs import CANCEL
from person import Person, needs_pointer

pytestmark = needs_pointer


def choose_in_menu(viewer):
    (menu,) = [
        action.menu()
        for action in viewer.window.layers_menu.actions()
        if action.menu() is not None and action.text().replace("&", "") == "Annotate"
    ]
    (action,) = [x for x in menu.actions() if x.text().startswith("Delete labels from")]
    action.trigger()


def test_the_menu_of_the_layer_in_the_list_offers_it_for_labels_alone(viewer, tmp_path):
    folder = write_image(tmp_path / "cells.ome.zarr", shape=(64, 64))
    viewer.open(str(folder), plugin="napari-ngff")
    names = viewer.window._qt_viewer.layers
    seen = {}

    def read_menu():
        menu = QApplication.activePopupWidget()
        kind = viewer.layers.selection.active._type_string
        texts = [x.text() for x in menu.actions() if x.isVisible() and x.isEnabled()]
        seen[kind] = [text for text in texts if "labels " in text]
        menu.close()

    for layer in (viewer.layers["nuclei"], viewer.layers[0]):
        viewer.layers.selection.active = layer
        QTimer.singleShot(300, read_menu)
        place = names.visualRect(names.model().index(0, 0)).center()
        pointed = names.mapToGlobal(place)
        names.itemDelegate().show_context_menu(None, names.model(), pointed, names)
    offered = ["Rename labels in file…", "Delete labels from file…"]
    assert seen == {"labels": offered, "image": []}


def test_labels_go_by_the_menu_and_come_back_by_the_message(viewer, tmp_path):
    use_workers()
    folder = write_image(tmp_path / "cells.ome.zarr", shape=(64, 64))
    viewer.open(str(folder), plugin="napari-ngff")
    layer = viewer.layers["nuclei"]
    viewer.layers.selection.active = layer
    user = Replies(CANCEL)
    choose_in_menu(viewer)
    until(lambda: user.asked)
    text, buttons = user.asked[0]
    assert text.startswith("Delete nuclei of cells.ome.zarr")
    assert buttons == ["Delete", CANCEL]
    pump(100)
    assert (folder / "labels/nuclei").exists()
    user = Replies("Delete")
    choose_in_menu(viewer)
    until(lambda: layer not in viewer.layers)
    assert len(user.asked) == 1
    assert not (folder / "labels/nuclei").exists()
    parent = viewer.window._qt_window

    def undo_button():
        notices = parent.findChildren(NapariQtNotification)
        buttons = [b for x in notices for b in x.findChildren(QPushButton)]
        return next((b for b in buttons if b.text() == "Undo"), None)

    until(undo_button)
    QTest.mouseClick(undo_button(), Qt.MouseButton.LeftButton)
    until(lambda: layer in viewer.layers)
    assert (folder / "labels/nuclei").exists()
    notification_manager.records.clear()


def test_labels_are_renamed_by_the_menu_and_painted_on(viewer, tmp_path):
    use_workers()
    folder = write_image(tmp_path / "cells.ome.zarr", shape=(64, 64))
    viewer.open(str(folder), plugin="napari-ngff")
    layer = viewer.layers["nuclei"]
    viewer.layers.selection.active = layer

    def is_saved(name, label):
        saved = zarr.open_array(folder / "labels" / name / "0", mode="r")
        return (saved[...] == label).any()

    def paint(person, label):
        def take_brush():
            layer.mode, layer.selected_label = "paint", label

        person.look(take_brush)
        person.draw([layer.data_to_world(at) for at in ((20, 20), (30, 30))])
        person.sees(lambda: layer.unsaved)
        person.save(layer)

    def tutorial(person):
        ask(person)
        person.types("cells")
        person.press("Return")
        person.sees(lambda: "already exists" in asked().labelText())
        person.press("ctrl+a")
        rename(person)
        person.click_button("Undo")
        person.sees(lambda: layer.name == "nuclei" and not layer.is_exchanging)
        assert not (folder / "labels/kerne").exists()
        ask(person)
        rename(person)
        paint(person, 71)
        assert is_saved("kerne", 71)
        assert not (folder / "labels/nuclei").exists()

    def ask(person):
        person.choose("Layers", "Annotate", "Rename labels in file… (OME-Zarr)")
        person.sees(asked)

    def asked():
        dialog = QApplication.activeModalWidget()
        return dialog if isinstance(dialog, QInputDialog) else None

    def rename(person):
        person.types("kerne")
        person.press("Return")
        person.sees(lambda: layer.name == "kerne" and not layer.is_exchanging)

    Person(viewer, "rename").take(tutorial)
    notification_manager.records.clear()
