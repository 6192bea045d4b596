"""Keys and buttons of the browser, by events of Qt."""

from __future__ import annotations

import gc
import threading

import pytest
from qtpy.compat import isalive
from qtpy.QtCore import QCoreApplication, QEvent, Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

from mouse import pump, until
from napari_ngff import open_node
from napari_ngff.labels.field_states import FieldStates
from napari_ngff.plate.previews.preview import PreviewReader
from napari_ngff.plugin import use_workers
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.plans.layer_plan import KEY
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.controls import CanvasMode
from napari_ngff.widgets.browser.host import browser_of, show_browser
from plates import pixels, write_image, write_plate

pytestmark = pytest.mark.slow

LEFT = Qt.MouseButton.LeftButton
PATIENCE = 60_000


@pytest.fixture
def dock(viewer, tmp_path, qtbot):
    where = write_plate(tmp_path / "p.ome.zarr", grid=(3, 4), fields=2)
    viewer.open(str(where), plugin="napari-ngff")
    dock = show_browser(viewer)
    qtbot.waitUntil(lambda: dock.browser() is not None, timeout=PATIENCE)
    qtbot.waitUntil(lambda: len(dock.map.state.pictures) == 12, timeout=PATIENCE)
    return dock


def shows(dock, well, field):
    place = dock.browser().position
    return place is not None and (place.well, place.field) == (well, field)


def test_keys_browse_with_the_dock_focused(viewer, dock, qtbot):
    dock.browser().show_field("B/2", "0")
    qtbot.waitUntil(lambda: shows(dock, "B/2", "0"), timeout=PATIENCE)
    layers = list(viewer.layers)
    for key, well, field in (
        (Qt.Key.Key_Period, "B/2", "1"),
        (Qt.Key.Key_Period, "B/3", "0"),
        (Qt.Key.Key_Comma, "B/2", "1"),
        (Qt.Key.Key_Down, "C/2", "1"),
        (Qt.Key.Key_Left, "C/1", "1"),
        (Qt.Key.Key_Up, "B/1", "1"),
        (Qt.Key.Key_Right, "B/2", "1"),
    ):
        # The map does not know the first two; they go on to the dock.
        QTest.keyClick(dock.map, key)
        qtbot.waitUntil(lambda w=well, f=field: shows(dock, w, f), timeout=PATIENCE)
    assert list(viewer.layers) == layers
    _, annotate = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    QTest.keyClick(annotate.classes.table, Qt.Key.Key_Comma)
    qtbot.waitUntil(lambda: shows(dock, "B/2", "0"), timeout=PATIENCE)


@pytest.mark.long
def test_keys_go_on_browsing_when_a_button_was_clicked(viewer, dock, qtbot):
    viewer.window.activate()
    click_well(dock, "B/2")
    qtbot.waitUntil(dock.map.hasFocus, timeout=PATIENCE)
    QTest.mouseClick(dock.controls.buttons[CanvasMode.FIELD], LEFT)
    qtbot.waitUntil(lambda: shows(dock, "B/2", "0"), timeout=PATIENCE)
    assert dock.map.hasFocus()
    QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Left)
    qtbot.waitUntil(lambda: shows(dock, "B/1", "0"), timeout=PATIENCE)
    qtbot.waitUntil(lambda: dock._listed == "B/1", timeout=PATIENCE)
    field = dock.well.map.rectOf("1").center()
    QTest.mouseClick(dock.well.map, LEFT, pos=field)
    qtbot.waitUntil(lambda: shows(dock, "B/1", "1"), timeout=PATIENCE)
    QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Right)
    qtbot.waitUntil(lambda: shows(dock, "B/2", "1"), timeout=PATIENCE)


@pytest.mark.long
def test_wells_stay_selected_until_another_is_gone_to(dock, qtbot):
    dock.browser().show_field("B/2", "0")
    qtbot.waitUntil(lambda: shows(dock, "B/2", "0"), timeout=PATIENCE)
    for well in ("A/1", "C/4"):
        click_well(dock, well, Qt.KeyboardModifier.ControlModifier)
    chosen = ("A/1", "B/2", "C/4")
    assert dock.map.selected() == chosen
    click_well(dock, "A/3", Qt.KeyboardModifier.ShiftModifier)
    qtbot.waitUntil(lambda: dock.map.state.pinned == {"A/3"}, timeout=PATIENCE)
    assert dock.map.selected() == chosen
    dock.controls.labels_chosen.emit("cells")
    assert dock.map.selected() == chosen
    QTest.keyClick(dock.map, Qt.Key.Key_Period)
    qtbot.waitUntil(lambda: shows(dock, "B/2", "1"), timeout=PATIENCE)
    assert dock.map.selected() == chosen
    QTest.keyClick(dock.map, Qt.Key.Key_Right)
    qtbot.waitUntil(lambda: shows(dock, "B/3", "1"), timeout=PATIENCE)
    assert dock.map.selected() == ("B/3",)


@pytest.mark.long
def test_arrows_frame_the_well_of_a_mosaic_that_they_lead_to(dock, qtbot):
    dock.browser().show_mosaic()
    qtbot.waitUntil(lambda: dock._canvas_mode() is CanvasMode.PLATE, timeout=PATIENCE)
    QTest.mouseDClick(dock.map.viewport(), LEFT, pos=dock.map.rectOf("B/2").center())
    for key, well in ((Qt.Key.Key_Right, "B/3"), (Qt.Key.Key_Up, "A/3")):
        QTest.keyClick(dock.map, key)
        assert dock.map.state.current == well
        qtbot.waitUntil(lambda w=well: dock._listed == w, timeout=PATIENCE)
        assert dock._canvas_mode() is CanvasMode.PLATE


@pytest.mark.long
def test_labels_of_wells_that_were_seen_are_offered(viewer, tmp_path, qtbot):
    where = write_plate(
        tmp_path / "q.ome.zarr",
        grid=(4, 6),
        fields=1,
        labelled=lambda well: {"D/6": ("last",), "B/2": ("cells",)}.get(well, ()),
    )
    viewer.open(str(where), plugin="napari-ngff")
    dock = show_browser(viewer)
    box = dock.controls.labels

    def offered(*names):
        return [box.itemData(i) for i in range(box.count())] == [None, *names]

    qtbot.waitUntil(lambda: offered("last"), timeout=PATIENCE)
    click_well(dock, "B/2")
    qtbot.waitUntil(lambda: offered("last", "cells"), timeout=PATIENCE)
    qtbot.waitUntil(lambda: shows(dock, "B/2", "0"), timeout=PATIENCE)
    assert box.isVisible()


@pytest.mark.long
def test_a_well_whose_fields_can_be_listed_is_reported_to_be_no_other(
    viewer, tmp_path, qtbot
):
    where = write_plate(tmp_path / "q.ome.zarr", grid=(2, 2), fields=2)
    (where / "A" / "2" / "zarr.json").write_text("{")
    (where / "B" / "1" / "0" / "zarr.json").write_text("{")
    viewer.open(str(where), plugin="napari-ngff")
    dock = show_browser(viewer)
    click_well(dock, "A/2")
    qtbot.waitUntil(lambda: "A/2" in dock.status.text(), timeout=PATIENCE)
    click_well(dock, "B/1")
    qtbot.waitUntil(lambda: "A/2" not in dock.status.text(), timeout=PATIENCE)


def test_cancel_gives_up_what_is_read(viewer, dock, qtbot, monkeypatch):
    dock.browser().show_field("A/1", "0")
    qtbot.waitUntil(lambda: shows(dock, "A/1", "0"), timeout=PATIENCE)
    qtbot.waitUntil(lambda: not dock.cancel.isVisible(), timeout=PATIENCE)
    go_on = threading.Event()
    get = FolderStore.read

    def slow(self, key, *part):
        if key.startswith("C/4"):
            assert go_on.wait(60)
        return get(self, key, *part)

    monkeypatch.setattr(FolderStore, "read", slow)
    place = dock.map.rectOf("C/4").center()
    QTest.mouseClick(dock.map.viewport(), LEFT, Qt.KeyboardModifier.NoModifier, place)
    qtbot.waitUntil(dock.cancel.isVisible, timeout=PATIENCE)
    QTest.mouseClick(dock.cancel, LEFT)
    assert not dock.cancel.isVisible()
    assert not dock.progress.isVisible()
    go_on.set()
    QTest.qWait(300)
    assert shows(dock, "A/1", "0")
    assert not dock.cancel.isVisible()


@pytest.mark.long
def test_enter_selects_what_the_filter_leaves(viewer, dock, qtbot):
    line = dock.controls.filter
    QTest.keyClicks(line, "B A1")
    QTest.keyClick(line, Qt.Key.Key_Return)
    wells = {"A/1", "B/1", "B/2", "B/3", "B/4"}
    qtbot.waitUntil(lambda: set(dock.map.selected()) == wells, timeout=PATIENCE)
    QTest.mouseClick(dock.controls.buttons[CanvasMode.SELECTED], LEFT)
    qtbot.waitUntil(lambda: len(dock.browser().shown_wells) == 5, timeout=PATIENCE)


@pytest.mark.long
def test_a_pin_that_fails_leaves_no_half_of_a_field(viewer, dock, qtbot, monkeypatch):
    monkeypatch.setattr("napari_ngff.viewer.services.latest_task.STEP_SECONDS", -1)
    browser = dock.browser()
    reported = []
    browser.busy.connect(reported.append)
    browser.show_field("A/2", "1")
    shown = "A/2/1"

    def origins():
        return [str(layer.metadata[KEY].node) for layer in viewer.layers]

    qtbot.waitUntil(lambda: any(o.endswith(shown) for o in origins()), timeout=PATIENCE)
    messages = []
    monkeypatch.setattr(
        Window, "show_messages", staticmethod(lambda found, _: messages.extend(found))
    )
    browser.toggle_pin("A/2", "77")
    qtbot.waitUntil(lambda: reported[-1:] == [False], timeout=PATIENCE)
    assert "no image 77" in messages[0]
    qtbot.waitUntil(lambda: shows(dock, "A/2", "1"), timeout=PATIENCE)
    assert all(o.endswith(shown) for o in origins())


@pytest.fixture
def gate(dock, monkeypatch):
    """Fields of wells, which come when the gate is open."""
    browser, opened = dock.browser(), threading.Event()
    opened.set()
    fields_of = browser.fields_of

    def later(well):
        assert opened.wait(PATIENCE / 1000)
        return fields_of(well)

    monkeypatch.setattr(browser, "fields_of", later)
    yield opened
    opened.set()


def click_well(dock, path, modifier=Qt.KeyboardModifier.NoModifier):
    place = dock.map.rectOf(path).center()
    QTest.mouseClick(dock.map.viewport(), LEFT, modifier, place)


def click_field(dock, path):
    view = dock.well.map
    QTest.mouseClick(view, LEFT, pos=view.rectOf(path).center())


@pytest.mark.long
def test_a_hint_stands_where_the_fields_of_a_well_will_be(dock, qtbot):
    assert dock.well.hint.isVisible()
    assert dock.well.hint.text() == "Click a well to see its fields."
    assert not dock.well.strip.isVisible()
    click_well(dock, "A/2")
    assert not dock.well.hint.isVisible()
    qtbot.waitUntil(lambda: dock.well.strip.count() == 2, timeout=PATIENCE)
    assert dock.well.map.isVisible()


def test_a_click_on_a_field_shows_the_one_that_was_seen(dock, gate, qtbot):
    click_well(dock, "A/1")
    qtbot.waitUntil(lambda: shows(dock, "A/1", "0"), timeout=PATIENCE)
    gate.clear()
    click_well(dock, "A/2")  # the fields of A/1 are still there
    click_field(dock, "1")
    gate.set()
    qtbot.waitUntil(lambda: shows(dock, "A/1", "1"), timeout=PATIENCE)


@pytest.mark.long
def test_fields_have_thumbnails_however_quickly_one_comes_back(dock, gate, qtbot):
    click_well(dock, "A/1")
    qtbot.waitUntil(lambda: len(dock.well.map._pictures) == 2, timeout=PATIENCE)
    pictures = dock.well.map._pictures
    gate.clear()
    dock._show_well("A/2")
    dock._show_well("A/1")
    gate.set()
    qtbot.waitUntil(lambda: dock.well.map._pictures is not pictures, timeout=PATIENCE)
    qtbot.waitUntil(lambda: len(dock.well.map._pictures) == 2, timeout=PATIENCE)


def test_a_click_gives_way_to_what_is_done_after_it(dock, qtbot):
    click_well(dock, "A/2")
    assert dock._click.isActive()  # a second click may follow
    QTest.mouseClick(dock.controls.buttons[CanvasMode.PLATE], LEFT)
    qtbot.wait(dock._click.interval() + 100)
    qtbot.waitUntil(lambda: dock._canvas_mode() is CanvasMode.PLATE, timeout=PATIENCE)
    assert dock.browser().position is None


@pytest.mark.long
def test_thumbnails_of_a_list_arrive_though_another_tab_is_in_front(
    viewer, tmp_path, qtbot, monkeypatch
):
    for name in "ab":
        write_image(tmp_path / "images" / f"{name}.zarr", pixels(1, (1, 8, 8)), 3)
    opened, begun = threading.Event(), threading.Event()
    read = PreviewReader.read

    def later(self, place):
        begun.set()
        assert opened.wait(PATIENCE / 1000)
        return read(self, place)

    monkeypatch.setattr(PreviewReader, "read", later)
    use_workers()
    dock = show_browser(viewer)
    dock.showPath(str(tmp_path / "images"))
    qtbot.waitUntil(begun.is_set, timeout=PATIENCE)
    dock.parent().hide()
    opened.set()
    qtbot.waitUntil(lambda: len(dock.feed._done) == 2, timeout=PATIENCE)
    dock.parent().show()
    texts = [item.text() for item in dock.images.list._items.values()]
    assert all("1 channel" in text for text in texts)


@pytest.mark.long
def test_a_dock_does_not_go_while_thumbnails_arrive(viewer, tmp_path, monkeypatch):
    viewer.open(str(write_plate(tmp_path / "p.ome.zarr")), plugin="napari-ngff")
    docks = [show_browser(viewer)]
    feed, plate_map, seen = docks[0].feed, docks[0].map, []
    until(lambda: len(plate_map.state.pictures) == 6)

    def hand_out(found):
        gc.collect()
        seen.append(isalive(plate_map))

    monkeypatch.setattr(feed, "_hand_out", hand_out)
    gc.disable()
    try:
        docks.pop().parent().destroyOnClose()
        assert isalive(plate_map)
        feed.deliver_ready()
    finally:
        gc.enable()
    assert seen == [True]
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def test_a_closed_dock_follows_the_browser_no_longer(viewer, tmp_path):
    viewer.open(str(write_plate(tmp_path / "p.ome.zarr")), plugin="napari-ngff")
    dock = show_browser(viewer)
    browser = dock.browser()
    before = len(browser.position_changed), len(browser.layers_changed)
    dock.parent().destroyOnClose()
    # It lives until Python's garbage is collected: nothing of it may be called.
    after = len(browser.position_changed), len(browser.layers_changed)
    assert after == (before[0], before[1] - 1), "tables are of the session"


@pytest.mark.long
def test_states_of_annotation_are_on_the_map_before_a_round_begins(
    viewer, tmp_path, qtbot
):
    where = write_plate(tmp_path / "p.ome.zarr", grid=(2, 3), fields=2)
    states = FieldStates(open_node(str(where)))
    states.set_state("A/1/0", "done")
    states.set_state("A/2/1", "flagged")
    viewer.open(str(where), plugin="napari-ngff")
    until(lambda: browser_of(viewer) is not None)
    view = browser_of(viewer).map
    until(lambda: set(view.state.states) == {"A/1", "A/2"})
    assert view.tipAt(view.rectOf("A/1").center()) == "A1\n2 fields: 1 done"
    view.setCurrent("A/1")  # its frame does not hide the bar
    pump()
    mark = view._colors.mark
    picture = view.viewport().grab().toImage()
    rect = view.rectOf("A/1")
    at = [
        picture.pixelColor(rect.left() + 4, y) for y in range(rect.top(), rect.bottom())
    ]
    assert mark in at
    end = [
        picture.pixelColor(rect.right() - 6, y)
        for y in range(rect.top(), rect.bottom())
    ]
    assert mark not in end
    corner = view.rectOf("A/2").topLeft()
    assert picture.pixelColor(corner.x() + 2, corner.y() + 2) == view._colors.broken
    session_of(viewer).browser.states.set_state("B/3/0", "in progress")
    until(lambda: "B/3" in view.state.states)
