"""Docks of ours are tabs beside each other, with the room that they need."""

from __future__ import annotations

import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QMainWindow

from mouse import canvas, pump, until
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.samples import write_plate
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.browser_dock import MAP_KEY
from napari_ngff.widgets.browser.host import browser_of, show_browser
from napari_ngff.widgets.docking import ANNOTATE, full_name

CLASSES = "nucleus", "debris", "dividing", "dead"


def seen(widget):
    """Return whether a person sees a widget, not only the tab that it is behind."""
    return widget.isVisible() and not widget.visibleRegion().isEmpty()


def open_plate(viewer, tmp_path, width, height):
    viewer.window.resize(width, height)
    pump(100)
    path = write_plate(tmp_path / "plate.ome.zarr", grid=(2, 3), fields=2)
    viewer.open(str(path), plugin="napari-ngff")
    until(lambda: browser_of(viewer) is not None)
    pump(200)
    return browser_of(viewer)


def open_dock(viewer):
    _, dock = viewer.window.add_plugin_dock_widget("napari-ngff", ANNOTATE)
    pump(400)
    return dock


def begin_round(viewer, dock):
    browser = session_of(viewer).browser
    browser.show_field(browser.map.wells[0].path)
    until(lambda: browser.position is not None and len(viewer.layers) > 1)
    labels = viewer.add_layer(new_labels(viewer.layers[0], "phenotypes"))
    viewer.layers.selection.active = labels
    for name in CLASSES:
        dock.classes.classes.add_class(name)
    dock.round.startRound()
    until(lambda: dock.round.annotation.fields)
    pump(200)


@pytest.mark.default_cases("size0")
@pytest.mark.parametrize("size", [(1366, 768), (1200, 900), (1600, 1000)])
def test_docks_of_ours_are_tabs_and_show_all_that_annotating_needs(
    viewer, tmp_path, size
):
    browser = open_plate(viewer, tmp_path, *size)
    dock = open_dock(viewer)
    begin_round(viewer, dock)
    window = dock.window()
    assert (window.width(), window.height()) == size, "it does not outgrow the screen"
    assert seen(dock)
    assert not seen(browser)
    table = dock.classes.table
    for row in range(len(CLASSES)):
        whole = table.visualRect(table.model().index(row, 2))
        assert table.viewport().visibleRegion().contains(whole), row
    bar = dock.round
    for widget in (bar.previous, bar.next, bar.todo, bar.state, bar.bar, bar.browse):
        assert widget.visibleRegion().boundingRect() == widget.rect()


@pytest.mark.long
def test_buttons_lead_from_the_map_to_the_classes_and_back(viewer, tmp_path):
    browser = open_plate(viewer, tmp_path, 1200, 900)
    QTest.mouseClick(browser.annotate, Qt.MouseButton.LeftButton)
    until(lambda: full_name(ANNOTATE) in viewer.window.dock_widgets)
    dock = viewer.window.dock_widgets[full_name(ANNOTATE)]
    until(lambda: seen(dock))
    begin_round(viewer, dock)
    QTest.mouseClick(dock.round.browse, Qt.MouseButton.LeftButton)
    until(lambda: seen(browser) and not seen(dock))
    QTest.mouseClick(browser.annotate, Qt.MouseButton.LeftButton)
    until(lambda: seen(dock) and not seen(browser))


@pytest.mark.long
def test_the_key_of_the_map_leads_from_the_tab_in_front(viewer, tmp_path):
    browser = open_plate(viewer, tmp_path, 1200, 900)
    dock = open_dock(viewer)
    assert seen(dock)
    assert not seen(browser)
    viewer.window.activate()
    canvas(viewer).native.setFocus()
    pump(50)
    QTest.keySequence(canvas(viewer).native, MAP_KEY)
    until(browser.map.hasFocus)
    assert seen(browser)


@pytest.mark.long
def test_keys_do_nothing_in_a_dock_behind_another_tab(viewer, tmp_path):
    browser = open_plate(viewer, tmp_path, 1200, 900)
    QTest.mouseClick(browser.annotate, Qt.MouseButton.LeftButton)
    until(lambda: full_name(ANNOTATE) in viewer.window.dock_widgets)
    dock = viewer.window.dock_widgets[full_name(ANNOTATE)]
    until(lambda: seen(dock))
    begin_round(viewer, dock)
    window = dock.window()
    window.activateWindow()
    until(window.isActiveWindow)

    def move_last_up():
        classes = dock.classes.classes
        classes.select_class(classes.items[-1].value)
        before = [one.name for one in classes.items]
        QTest.keyClick(window, Qt.Key.Key_U, Qt.KeyboardModifier.AltModifier)
        pump(500)  # a key holds its button down for a while
        return [one.name for one in classes.items] != before

    assert move_last_up()
    QTest.mouseClick(dock.round.browse, Qt.MouseButton.LeftButton)
    until(lambda: seen(browser) and not seen(dock))
    assert not move_last_up()
    QTest.mouseClick(browser.annotate, Qt.MouseButton.LeftButton)
    until(lambda: seen(dock) and not seen(browser))
    assert move_last_up()


@pytest.mark.long
def test_the_button_and_the_menu_show_the_same_dock(viewer, tmp_path):
    browser = open_plate(viewer, tmp_path, 1200, 900)
    QTest.mouseClick(browser.annotate, Qt.MouseButton.LeftButton)
    names = ["Annotate (OME-Zarr)", "Plate browser (OME-Zarr)"]
    until(lambda: sorted(viewer.window.dock_widgets) == names)
    menus = {a.text(): a.menu() for a in viewer.window.layers_menu.actions()}
    menus["Annotate"].aboutToShow.emit()
    items = {item.text(): item for item in menus["Annotate"].actions()}
    dock = viewer.window.dock_widgets[names[0]]
    items[names[0]].trigger()
    pump(200)
    assert sorted(viewer.window.dock_widgets) == names
    assert not seen(dock)  # the menu has hidden it


def test_a_dock_of_another_plugin_leaves_the_map_room(viewer, tmp_path):
    browser = open_plate(viewer, tmp_path, 1300, 900)
    viewer.window.add_plugin_dock_widget("napari", "Features table widget")
    pump(300)
    assert browser.map.height() >= 150
    assert browser.height() >= browser.minimumSizeHint().height(), "no rows overlap"


@pytest.mark.long
def test_a_dock_stays_where_the_user_puts_it(viewer, tmp_path):
    browser = open_plate(viewer, tmp_path, 1200, 900)
    dock = open_dock(viewer)
    window = dock.window()
    assert isinstance(window, QMainWindow)
    window.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, dock.parent())
    dock.parent().hide()
    pump(50)
    dock.parent().show()
    pump(200)
    assert window.dockWidgetArea(dock.parent()) == Qt.DockWidgetArea.LeftDockWidgetArea
    assert seen(dock)
    assert seen(browser)


@pytest.mark.long
def test_what_is_opened_again_is_in_front(viewer, tmp_path):
    browser = open_plate(viewer, tmp_path, 1200, 900)
    dock = open_dock(viewer)
    browser.parent().hide()
    pump(50)
    assert show_browser(viewer) is browser
    until(lambda: seen(browser) and not seen(dock))
