"""The overview of a plate in the canvas: names, gaps, clicks and the menu."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from napari.utils.notifications import notification_manager
from qtpy.QtCore import Qt
from qtpy.QtGui import QContextMenuEvent, QGuiApplication
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

from mouse import (
    RIGHT,
    camera,
    canvas,
    click,
    drag,
    drop_on_canvas,
    on_canvas,
    pump,
    until,
)
from napari_ngff.viewer.browsing.canvas_controls import NAMES_KEY, names_of
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of
from plates import write_image, write_plate

WINDOW = 1000, 750
LEFT = Qt.MouseButton.LeftButton
SHIFT = Qt.KeyboardModifier.ShiftModifier
PLAIN = Qt.KeyboardModifier.NoModifier


@pytest.fixture
def dock(viewer, tmp_path):
    where = write_plate(
        tmp_path / "p.ome.zarr",
        grid=(3, 4),
        fields=4,
        shape=(1, 32, 32),
        labelled=lambda well: ("nuclei",) if well[0] == "A" else (),
    )
    viewer.open(str(where), plugin="napari-ngff")
    until(lambda: browser_of(viewer) is not None)
    found = browser_of(viewer)
    browser = found.browser()
    browser.choose_labels(None)
    until(lambda: not browser.is_drawing and bool(browser.layers.well_cells()))
    viewer.layers.selection.active = viewer.layers[0]
    pump(400)
    return found


def middle(dock, well, part=(0.25, 0.25)):
    """World coordinate of a place in a well of the overview."""
    low, high = np.array(dock.browser().layers.well_cells()[well])
    return low + (high - low) * part


def visual(viewer):
    overlay = viewer.scene.overlays[NAMES_KEY]
    return canvas(viewer)._viewer_overlay_to_visual[overlay][0]


@pytest.mark.long
def test_wells_have_names_and_gaps(viewer, dock):
    names = names_of(dock.browser())
    assert [one.text for one in names.rows] == ["A", "B", "C"]
    assert [one.text for one in names.columns] == ["1", "2", "3", "4"]
    assert len(names.wells) == 12
    drawn = visual(viewer)
    assert drawn.node.visible
    camera(viewer).zoom *= 0.2
    pump()
    assert not drawn.wells.visible
    camera(viewer).zoom *= 5
    pump()
    assert drawn.wells.visible
    # The gap: what is on the screen between B2 and B3 is the canvas, not the image.
    picture = canvas(viewer).native.grabFramebuffer()
    at = on_canvas(viewer, middle(dock, "B/2", (0.7, 1.0))).toPoint()
    inside = on_canvas(viewer, middle(dock, "B/2", (0.7, 0.8))).toPoint()
    dark = [picture.pixelColor(at.x() + x, at.y()).lightness() for x in (-1, 0, 1)]
    assert min(dark) == 0
    assert picture.pixelColor(inside).lightness() > 0
    # Nothing is made anew while the view is moved.
    before = drawn.wells.pos
    for step in range(5):
        camera(viewer).center = (0, 10 + step, 10 + step)
        pump(10)
    assert drawn.wells.pos is before


@pytest.mark.long
def test_a_plate_has_names_as_soon_as_it_is_open(viewer, tmp_path):
    where = write_plate(tmp_path / "p.ome.zarr", grid=(2, 3), fields=1)
    viewer.open(str(where), plugin="napari-ngff")
    assert [one.text for one in viewer.scene.overlays[NAMES_KEY].names.rows] == [
        "A",
        "B",
    ]
    assert visual(viewer).node.visible
    until(lambda: browser_of(viewer) is not None)


@pytest.mark.long
def test_a_field_has_no_names_of_wells(viewer, dock):
    dock.browser().show_field("A/1")
    until(lambda: dock.browser().position is not None)
    until(lambda: not len(viewer.scene.overlays[NAMES_KEY].names.wells))
    assert not visual(viewer).wells.visible
    assert not visual(viewer).gaps.visible


def test_a_double_click_on_the_canvas_opens_the_field_under_the_mouse(viewer, dock):
    zoom = camera(viewer).zoom
    click(viewer, middle(dock, "B/3", (0.75, 0.25)), double=True)
    until(lambda: dock.browser().position is not None)
    position = dock.browser().position
    assert (position.well, position.field) == ("B/3", "2")
    assert dock.map.selected() == ("B/3",)
    # On a field a double click zooms, as everywhere in napari.
    pump(300)
    zoom = camera(viewer).zoom
    click(viewer, viewer.layers[0].extent.world[:, -2:].mean(axis=0), double=True)
    assert camera(viewer).zoom == pytest.approx(2 * zoom)
    assert dock.browser().position == position


def test_a_compared_field_takes_no_paint_and_opens_by_a_double_click(viewer, dock):
    dock.browser().show_field("A/1", "0")
    until(lambda: dock.browser().position is not None and not dock.isBusy())
    dock.browser().toggle_pin("A/2", "0")
    until(lambda: dock.browser().pinned_fields and not dock.isBusy())
    own = next(x for x in viewer.layers if x.editable and x._type_string == "labels")
    viewer.layers.selection.active = own
    low, high = viewer.layers[-1].extent.world[:, -2:]
    own.mode = "paint"
    notification_manager.records.clear()
    drag(viewer, [(low + high) / 2, (low + 3 * high) / 4])
    assert not own.saver.has_unsaved_strokes
    (record,) = notification_manager.records
    assert str(record.message) == (
        "Not painted: this field is compared.\nOpen A2 - field 0 to paint."
    )
    own.mode = "pan_zoom"
    click(viewer, (low + high) / 2, button=RIGHT)
    assert list(entries(dock))[:2] == ["Open A2 - field 0", "Stop comparing"]
    dock._menu.close()
    click(viewer, (low + high) / 2, double=True)
    until(lambda: dock.browser().position.well == "A/2")


def entries(dock):
    until(dock._menu.isVisible)
    return {action.text(): action for action in dock._menu.actions()}


def choose(dock, text):
    action = entries(dock)[text]
    place = dock._menu.actionGeometry(action).center()
    QTest.mouseClick(dock._menu, LEFT, PLAIN, place)
    until(lambda: not dock._menu.isVisible())


@pytest.mark.long
def test_the_menu_of_the_canvas(viewer, dock):
    click(viewer, middle(dock, "A/2", (0.25, 0.75)), button=RIGHT)
    texts = list(entries(dock))
    assert texts[0].startswith("Open ")
    assert "field 1" in texts[0]
    assert texts[1:] == ["Compare", "Inspect", "Copy name"]
    choose(dock, "Copy name")
    copied = QGuiApplication.clipboard().text()
    assert texts[0] == f"Open {copied}"
    click(viewer, middle(dock, "A/2", (0.25, 0.75)), button=RIGHT)
    choose(dock, texts[0])
    until(lambda: dock.browser().position is not None)
    assert dock.browser().position.field == "1"


@pytest.mark.long
def test_the_menu_of_the_map_compares_and_inspects(viewer, dock):
    def ask(well):
        port = dock.map.viewport()
        place = dock.map.rectOf(well).center()
        reason = QContextMenuEvent.Reason.Mouse
        event = QContextMenuEvent(reason, place, port.mapToGlobal(place))
        QApplication.sendEvent(port, event)

    dock.browser().show_field("A/1")
    until(lambda: dock.browser().position is not None)
    ask("B/2")
    choose(dock, "Compare")
    until(lambda: [one.well for one in dock.browser().pinned_fields] == ["B/2"])
    until(lambda: len(viewer.scene.overlays[NAMES_KEY].names.images) == 2)
    names = viewer.scene.overlays[NAMES_KEY].names.images
    assert "1" in names[0].text
    assert "2" in names[1].text
    assert names[1].x > names[0].x
    ask("B/2")
    choose(dock, "Stop comparing")
    until(lambda: not dock.browser().pinned_fields)
    until(lambda: not viewer.scene.overlays[NAMES_KEY].names.images)
    ask("B/2")
    choose(dock, "Inspect")
    docks = viewer.window.dock_widgets.values
    until(lambda: any(type(one).__name__ == "Inspector" for one in docks()))


@pytest.mark.long
def test_compared_wells_have_one_contrast(viewer, dock):
    dock.browser().show_field("A/1")
    until(lambda: dock.browser().position is not None)
    place = dock.map.rectOf("B/2").center()
    QTest.mouseClick(dock.map.viewport(), LEFT, SHIFT, place)
    until(lambda: len(dock.browser().pinned_fields) == 1)
    images = [x for x in viewer.layers if x._type_string == "image"]
    assert len(images) == 2
    images[0].contrast_limits = (10, 500)
    assert images[1].contrast_limits == [10, 500]
    images[1].contrast_limits = (20, 400)
    assert images[0].contrast_limits == [20, 400]


@pytest.mark.long
def test_tools_of_layers_keep_their_clicks(viewer, dock):
    viewer.layers[0].mode = "transform"
    click(viewer, middle(dock, "B/3"))
    pump(100)
    assert dock.map.selected() == ()


@pytest.mark.long
def test_the_first_arrow_leads_to_the_first_well(viewer, dock):
    for well in ("A/1", "A/2"):
        QTest.keyClick(dock.map, Qt.Key.Key_Right)
        until(lambda w=well: dock.map.state.current == w)
        center = np.array(viewer.scene.camera.center[-2:])
        np.testing.assert_allclose(center, middle(dock, well, (0.5, 0.5)), atol=1)


def test_a_click_on_the_canvas_selects_a_well_and_an_arrow_its_neighbour(viewer, dock):
    click(viewer, middle(dock, "B/1", (0.5, 0.5)))
    until(lambda: dock.map.selected() == ("B/1",))
    assert dock.map.state.current == "B/1"
    assert dock.browser().position is None
    until(lambda: dock._listed == "B/1")
    for well in ("B/2", "A/2"):
        key = Qt.Key.Key_Right if well == "B/2" else Qt.Key.Key_Up
        QTest.keyClick(dock.map, key)
        until(lambda w=well: dock.map.state.current == w)
        center = np.array(viewer.scene.camera.center[-2:])
        np.testing.assert_allclose(center, middle(dock, well, (0.5, 0.5)), atol=1)


@pytest.mark.long
def test_arrows_take_the_selection_along(viewer, dock):
    QTest.mouseClick(dock.map.viewport(), LEFT, PLAIN, dock.map.rectOf("A/1").center())
    until(lambda: dock.browser().position is not None)
    QTest.keyClick(dock.map, Qt.Key.Key_Right)
    until(lambda: dock.browser().position.well == "A/2")
    assert dock.map.selected() == ("A/2",)
    dock.browser().show_mosaic()
    until(lambda: dock.browser().position is None)
    click(viewer, middle(dock, "B/2"))
    dock.browser().zoom_to("B/2")
    pump(200)
    QTest.keyClick(dock.map, Qt.Key.Key_Right)
    until(lambda: dock.map.state.current == "B/3")
    assert dock.map.selected() == ("B/3",)


@pytest.mark.long
def test_a_table_that_is_dropped_on_the_canvas_is_loaded(viewer, dock, tmp_path):
    path = tmp_path / "conditions.csv"
    path.write_text("well,dose\nA1,3\n")
    drop_on_canvas(viewer, path)
    until(lambda: dock.map.state.coloring is not None)
    assert dock.tables.table.currentText() == "conditions.csv"


@pytest.mark.long
def test_the_map_has_a_key(viewer, dock):
    viewer.window.activate()
    canvas(viewer).native.setFocus()
    pump(50)
    modifiers = Qt.KeyboardModifier.ControlModifier | SHIFT
    QTest.keyClick(canvas(viewer).native, Qt.Key.Key_M, modifiers)
    until(dock.map.hasFocus)


@pytest.mark.long
def test_float_labels_are_drawn_in_the_overview(viewer, tmp_path):
    where = write_plate(
        tmp_path / "p.ome.zarr",
        grid=(2, 2),
        fields=2,
        shape=(1, 32, 32),
        labelled=lambda _: ("nuclei",),
    )
    for field in where.glob("[AB]/[12]/[01]"):
        shutil.rmtree(field / "labels/nuclei")
        mask = np.full((32, 32), 6.8, "f4")
        write_image(field / "labels/nuclei", mask, 3, axes="yx", label={})
    viewer.open(str(where), plugin="napari-ngff")
    until(lambda: browser_of(viewer) is not None)
    browser = browser_of(viewer).browser()
    until(lambda: not browser.is_drawing and bool(browser.layers.well_cells()))
    labels = viewer.layers["nuclei"]
    labels.visible = True
    pump(200)
    until(lambda: not browser.is_drawing)
    shown = np.asarray(labels._slice.image.raw)
    assert set(np.unique(shown)) == {0, 7} or np.all(shown == 7)
    assert np.count_nonzero(shown == 7) > 0.5 * shown.size
    assert "overview" in labels.read_only


@pytest.mark.long
def test_another_browser_gives_the_mouse_back(viewer, dock):
    before = dock.browser()
    assert len(viewer.mouse_double_click_callbacks) == 1
    session_of(viewer).browse(before.node)
    assert len(viewer.mouse_double_click_callbacks) == 1
    session_of(viewer).browser.close()
    callbacks = viewer.mouse_double_click_callbacks
    assert [one.__name__ for one in callbacks] == ["double_click_to_zoom"]
    assert not viewer.scene.overlays[NAMES_KEY].visible
