"""The browser in a real window: plates are dropped, clicked and walked."""

from __future__ import annotations

import gc
import shutil
import threading
import weakref

import numpy as np
import pytest
import zarr
from napari.layers import Image
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest

from mouse import drop_on_canvas, pump, until
from napari_ngff import open_node
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.browser_dock import BrowserDock
from napari_ngff.widgets.browser.controls import CanvasMode
from napari_ngff.widgets.browser.host import show_browser
from napari_ngff.widgets.docking import BROWSER, full_name
from plates import write_plate

pytestmark = pytest.mark.slow

LEFT = Qt.MouseButton.LeftButton
SHIFT = Qt.KeyboardModifier.ShiftModifier
CTRL = Qt.KeyboardModifier.ControlModifier
PLAIN = Qt.KeyboardModifier.NoModifier


@pytest.fixture(scope="module")
def plate(tmp_path_factory):
    """Four rows of six wells, two channels, four fields; D/6 is missing, C/2 broken."""
    where = tmp_path_factory.mktemp("plates") / "screen.ome.zarr"
    write_plate(where, grid=(4, 6), fields=4, shape=(2, 32, 32))
    shutil.rmtree(where / "C" / "2")
    return where


def making():
    """Return whether a thread makes thumbnails."""
    return any(t.name == "napari-ngff-preview" for t in threading.enumerate())


def dock_of(viewer):
    docks = viewer.window.dock_widgets.values()
    return next((d for d in docks if isinstance(d, BrowserDock)), None)


def opened(viewer, plate):
    """The browser that opens when a plate is dropped."""
    drop_on_canvas(viewer, plate)
    until(lambda: dock_of(viewer) is not None)
    found = dock_of(viewer)
    until(found.map.isVisible)
    until(lambda: found._canvas_mode() is CanvasMode.PLATE)
    return found


@pytest.fixture
def dock(viewer, plate):
    return opened(viewer, plate)


def click(dock, well, modifiers=PLAIN, *, double=False):
    place = dock.map.rectOf(well).center()
    QTest.mouseClick(dock.map.viewport(), LEFT, modifiers, place)
    if double:
        QTest.mouseDClick(dock.map.viewport(), LEFT, modifiers, place)


def at(dock, well, field):
    """Wait until a field is shown, here and on the canvas."""

    def there():
        position = dock.browser().position
        assert position is not None
        assert (position.well, position.field) == (well, field)
        assert dock._well == well
        current = dock.well.strip.currentItem()
        assert current is not None
        return current.data(Qt.ItemDataRole.UserRole) == field

    until(there)


def images(viewer):
    return [layer for layer in viewer.layers if isinstance(layer, Image)]


@pytest.mark.long
def test_it_opens_by_itself(viewer, dock):
    assert list(viewer.window.dock_widgets) == [full_name(BROWSER)]
    assert dock.title.text() == "Tiny (plate)"
    assert len(dock.map.state.map.wells) == 24
    until(lambda: len(dock.map.state.pictures) == 23)
    until(lambda: "C/2" in dock.map.state.problems)
    tip = dock.map.tipAt(dock.map.rectOf("C/2").center())
    assert tip.startswith("C2\n")
    assert len(tip.splitlines()[1]) > 10
    # It follows the theme.
    colors = {}
    for theme in ("dark", "light"):
        viewer.theme = theme
        pump(50)
        image = dock.map.viewport().grab().toImage()
        colors[theme] = image.pixelColor(1, 1).lightness()
    assert colors["dark"] < 80
    assert colors["light"] > 180


@pytest.mark.long
def test_it_does_not_open_for_images(viewer, tmp_path):
    drop_on_canvas(viewer, write_image(tmp_path / "a.ome.zarr", shape=(32, 32)))
    until(lambda: bool(viewer.layers))
    pump(100)
    assert dock_of(viewer) is None


@pytest.mark.long
def test_a_closed_browser_opens_for_the_next_plate(viewer, plate):
    gone = weakref.ref(opened(viewer, plate))
    dock_of(viewer).parent().destroyOnClose()
    assert dock_of(viewer) is None
    until(lambda: not making())
    until(lambda: gc.collect() and gone() is None)
    viewer.layers.clear()
    drop_on_canvas(viewer, plate)
    until(lambda: dock_of(viewer) is not None)


def test_a_click_shows_a_field(viewer, dock):
    click(dock, "B/3")
    at(dock, "B/3", "0")
    assert dock.well.strip.count() == 4
    assert "B3" in dock.status.text()
    assert dock.controls.buttons[CanvasMode.FIELD].isChecked()
    shown = images(viewer)
    assert [np.asarray(layer.data[0]).shape for layer in shown] == [(32, 32)] * 2


def test_layers_stay_when_fields_are_browsed(viewer, dock):
    click(dock, "A/1")
    at(dock, "A/1", "0")
    before = images(viewer)
    before[0].contrast_limits = (3, 77)
    before[1].visible = False
    before[0].colormap = "magma"
    viewer.scene.camera.zoom *= 1.7
    camera = viewer.scene.camera.zoom, viewer.scene.camera.center
    seen = set()
    for field in ("1", "2", "3"):
        QTest.mouseClick(
            dock.well.map, LEFT, PLAIN, dock.well.map.rectOf(field).center()
        )
        at(dock, "A/1", field)
        seen.add(int(np.asarray(before[0].data[0]).ravel()[0]))
    click(dock, "D/5")
    at(dock, "D/5", "0")
    dock.map.setFocus()
    QTest.keyClick(dock.map, Qt.Key.Key_Left)
    until(lambda: dock.browser().position.well == "D/4")
    assert len(seen) == 3, "the pixels are those of each field"
    assert images(viewer) == before
    assert before[0].contrast_limits == [3, 77]
    assert before[0].colormap.name == "magma"
    assert not before[1].visible
    assert (viewer.scene.camera.zoom, viewer.scene.camera.center) == camera


@pytest.mark.long
def test_a_double_click_shows_the_whole_picture_there(viewer, dock):
    # It does not leave it for a field meanwhile.
    before = list(viewer.layers)
    click(dock, "B/2", double=True)
    pump(dock._click.interval() + 300)
    assert dock._canvas_mode() is CanvasMode.PLATE
    assert list(viewer.layers) == before

    click(dock, "A/1")
    at(dock, "A/1", "0")
    click(dock, "D/5", double=True)
    until(lambda: dock._canvas_mode() is CanvasMode.PLATE)

    def seen():
        center = viewer.scene.camera.center[-2:]
        return dock.browser().position_at(center).well == "D/5"

    until(seen)


def test_wells_are_selected_filtered_and_laid_out(viewer, dock, qtbot):
    # Selected ones are shown together.
    assert not dock.controls.buttons[CanvasMode.SELECTED].isEnabled()
    dock.map.setSelected(["A/1", "A/2", "B/1"])
    QTest.mouseClick(dock.controls.buttons[CanvasMode.SELECTED], LEFT)
    until(lambda: set(dock.browser().shown_wells) == {"A/1", "A/2", "B/1"})
    until(lambda: dock.controls.buttons[CanvasMode.SELECTED].isChecked())
    QTest.mouseClick(dock.controls.buttons[CanvasMode.PLATE], LEFT)
    until(lambda: dock._canvas_mode() is CanvasMode.PLATE)
    # The filter dims, and Enter selects.
    qtbot.keyClicks(dock.controls.filter, "B, 4")
    shown = {*(f"B/{i}" for i in range(1, 7)), *(f"{row}/4" for row in "ACD")}
    until(lambda: dock.map.state.shown == shown)
    QTest.keyClick(dock.controls.filter, Qt.Key.Key_Return)
    until(lambda: len(dock.map.selected()) == 9)
    dock.controls.filter.clear()
    until(lambda: dock.map.state.shown is None)
    # Another plate is chosen for the map.
    assert dock.map.state.map.shape == (4, 6)
    box = dock.controls.geometry_box
    box.setCurrentIndex(box.findData(96))
    box.activated.emit(box.currentIndex())
    assert dock.map.state.map.shape == (8, 12)
    click(dock, "D/5")
    at(dock, "D/5", "0")
    # A broken well says so; the map stays at the field on screen, and its fields.
    until(lambda: dock.well.strip.count() > 0)
    listed = dock.well.strip.count()
    dock.goToWell("C/2")
    until(lambda: "C/2" in dock.status.text())
    assert dock.map.state.current == "D/5"
    assert dock.well.strip.count() == listed
    click(dock, "A/1")
    at(dock, "A/1", "0")


@pytest.mark.long
def test_shift_pins(viewer, dock):
    click(dock, "A/1")
    at(dock, "A/1", "0")
    count = len(viewer.layers)
    click(dock, "B/4", SHIFT)
    until(lambda: "B/4" in dock.map.state.pinned)
    until(lambda: len(viewer.layers) == 2 * count)
    assert dock.browser().position.well == "A/1"
    click(dock, "B/4", SHIFT)
    until(lambda: not dock.map.state.pinned)
    until(lambda: len(viewer.layers) == count)


def choose_acquisition(controls, number, modifiers=PLAIN):
    """Click a row of the menu of acquisitions."""
    menu = controls.menu
    menu.popup(controls.acquisitions.mapToGlobal(controls.acquisitions.rect().center()))
    until(menu.isVisible)
    where = menu.actionGeometry(menu.actions()[number]).center()
    QTest.mouseClick(menu, LEFT, modifiers, where)


def test_acquisitions_are_chosen(viewer, tmp_path):
    where = write_plate(
        tmp_path / "runs.ome.zarr", grid=(2, 2), fields=2, acquisitions=2
    )
    drop_on_canvas(viewer, where)
    until(lambda: dock_of(viewer) is not None)
    dock = dock_of(viewer)
    controls = dock.controls
    until(lambda: len(controls.menu.actions()) == 3)
    until(controls.acquisitions.isVisible)
    for number, modifiers, ids, text in (
        (2, PLAIN, (1,), "round 1"),
        (1, CTRL, (0, 1), "round 0, round 1"),
        (2, CTRL, (0,), "round 0"),
        (2, CTRL, (0, 1), "round 0, round 1"),
        (2, PLAIN, (1,), "round 1"),
        (2, PLAIN, (1,), "round 1"),
        (0, CTRL, (), "all"),
        (1, PLAIN, (0,), "round 0"),
        (0, PLAIN, (), "all"),
    ):
        choose_acquisition(controls, number, modifiers)
        until(lambda ids=ids: dock.browser().chosen_acquisitions == ids)
        until(lambda text=text: controls.acquisitions.text() == text)
        ticked = [a.data() for a in controls.menu.actions() if a.isChecked()]
        assert ticked == [*(ids or (None,))]


@pytest.mark.long
def test_thumbnails_of_wells_are_of_the_chosen_acquisition(viewer, tmp_path):
    where = write_plate(
        tmp_path / "runs.ome.zarr", grid=(1, 2), fields=1, acquisitions=2
    )
    for well in "12":  # what the second saw is dark
        array = zarr.open_array(where / f"A/{well}/1/0", mode="r+")
        array[:] = array[:] // 4
    drop_on_canvas(viewer, where)
    until(lambda: dock_of(viewer) is not None)
    dock = dock_of(viewer)

    def picture():
        found = dock.map.state.pictures.get("A/2")
        return found and found.pixelColor(found.width() - 1, found.height() - 1).name()

    until(picture)
    pump(300)
    first = picture()
    until(lambda: len(dock.controls.menu.actions()) == 3)
    choose_acquisition(dock.controls, 2, CTRL)
    until(lambda: dock.browser().chosen_acquisitions == (0, 1))
    pump(300)
    assert picture() == first, "the first of the chosen ones"
    choose_acquisition(dock.controls, 2)
    until(lambda: dock.browser().chosen_acquisitions == (1,))
    until(lambda: picture() not in (None, first))


@pytest.mark.long
def test_labels_are_chosen(viewer, tmp_path):
    where = write_plate(
        tmp_path / "labelled.ome.zarr",
        grid=(2, 2),
        fields=1,
        labelled=lambda well: ("nuclei", "cells") if well != "A/1" else (),
    )
    drop_on_canvas(viewer, where)
    until(lambda: dock_of(viewer) is not None)
    dock = dock_of(viewer)
    box = dock.controls.labels
    until(lambda: box.count() == 3)
    box.setCurrentIndex(box.findData("cells"))
    box.activated.emit(box.currentIndex())
    until(lambda: dock.browser().labels == "cells")
    until(lambda: any("cells" in layer.name for layer in viewer.layers))
    until(lambda: not dock.progress.isVisible())
    pump(200)  # what is still drawn holds the window


@pytest.mark.long
def test_hidden_layers_do_not_keep_the_extent_of_the_plate(viewer, dock):
    wide = viewer.layers.extent.world[1][-1]
    viewer.layers[0].visible = False
    click(dock, "A/1")
    at(dock, "A/1", "0")
    assert viewer.layers.extent.world[1][-1] < wide / 8


@pytest.mark.long
def test_a_well_of_its_own_shows_its_fields(viewer, plate):
    drop_on_canvas(viewer, plate / "B" / "3")
    until(lambda: dock_of(viewer) is not None)
    dock = dock_of(viewer)
    until(lambda: dock.well.strip.count() == 4)
    assert dock.browser().shown_wells == ("B/3",)
    place = dock.well.map.rectOf("2").center()
    QTest.mouseClick(dock.well.map, LEFT, PLAIN, place)
    until(lambda: (p := dock.browser().position) is not None and p.field == "2")


@pytest.mark.long
def test_the_wells_of_a_row_of_its_own_are_selected(viewer, plate):
    drop_on_canvas(viewer, plate / "B")
    until(lambda: dock_of(viewer) is not None)
    dock = dock_of(viewer)
    until(lambda: dock._canvas_mode() is CanvasMode.SELECTED)
    assert dock.map.selected() == tuple(f"B/{i}" for i in range(1, 7))
    assert dock.controls.buttons[CanvasMode.SELECTED].isEnabled()


def test_files_are_not_read_in_the_main_thread(viewer, tmp_path, monkeypatch):
    where = write_plate(tmp_path / "p.ome.zarr", grid=(16, 24), fields=1)
    node = open_node(where)
    threads = set()
    get = FolderStore.read

    def noting(source, key, *part):
        threads.add(threading.current_thread())
        return get(source, key, *part)

    monkeypatch.setattr(FolderStore, "read", noting)
    dock = show_browser(viewer)
    session_of(viewer).browse(node)
    until(lambda: len(dock.map.state.pictures) == 384)
    dock.goToWell("B/3")
    dock._click.stop()
    until(lambda: dock.well.strip.count() == 1)
    assert len(threads) > 1
    assert threading.main_thread() not in threads
