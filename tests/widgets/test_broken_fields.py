"""A plate with wells and fields that cannot be read: map, caption and canvas agree."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from napari.utils.notifications import notification_manager
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest

from choices import unpin_all
from mouse import pump, until
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of
from plates import write_plate

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def root(tmp_path):
    """A plate that lacks a well, the finest level of a field, and all of a field."""
    shape = (1, 32, 32)
    path = write_plate(tmp_path / "p.ome.zarr", grid=(2, 3), fields=2, shape=shape)
    shutil.rmtree(path / "A/3")
    shutil.rmtree(path / "B/2/0/0")
    (path / "B/3/0/zarr.json").write_text("{")
    return path


@pytest.fixture
def dock(viewer, root):
    use_workers()
    viewer.open(str(root), plugin="napari-ngff")
    until(lambda: browser_of(viewer) is not None)
    dock = browser_of(viewer)
    until(lambda: dock.browser() is not None and not dock.isBusy())
    session_of(viewer).browser.show_field("A/1", "0")
    until(lambda: dock.browser().position == Position("A/1", "0", 0))
    until(lambda: not dock.isBusy())
    until(lambda: any("1 well is damaged" in text for text in notices()))
    notification_manager.records.clear()
    yield dock
    notification_manager.records.clear()


def click_well(dock, path):
    QTest.mouseClick(dock.map.viewport(), LEFT, pos=dock.map.rectOf(path).center())


def notices():
    return [str(record.message) for record in notification_manager.records]


def caption(viewer):
    return viewer.canvas.overlays.text.text


@pytest.mark.default_cases("field")
@pytest.mark.parametrize("absent", ["A/3", "A/2/1"], ids=["well", "field"])
def test_what_is_listed_and_not_there_is_told_and_not_called_broken(
    viewer, tmp_path, absent
):
    shape = (1, 32, 32)
    path = write_plate(tmp_path / "p.ome.zarr", grid=(2, 3), fields=2, shape=shape)
    shutil.rmtree(path / absent)
    (path / "B/3/zarr.json").write_text("{")
    notification_manager.records.clear()
    use_workers()
    viewer.open(str(path), plugin="napari-ngff")
    until(lambda: any("1 well lacks images" in text for text in notices()))
    until(lambda: any("1 well is damaged" in text for text in notices()))
    (told,) = [text for text in notices() if "lacks" in text]
    assert absent in told
    assert "Restore it from a copy, or remove it from the list." in told
    dock = browser_of(viewer)
    until(lambda: len(dock.map.state.problems) == 2 and not dock.isBusy())
    picture = dock.map.viewport().grab().toImage()
    colors = dock.map._colors
    for well, is_red in ((absent[:3], False), ("B/3", True), ("B/1", False)):
        rect = dock.map.rectOf(well)
        center = picture.pixelColor(rect.center() * picture.devicePixelRatio())
        assert (center == colors.broken) == is_red, well
        assert (center == colors.line) == (well == absent[:3]), well
    notification_manager.records.clear()


def test_a_click_on_an_unreadable_well_leaves_the_frame_at_the_field(viewer, dock):
    click_well(dock, "A/3")
    until(notices)
    until(lambda: not dock.isBusy())
    assert [text.splitlines()[0] for text in notices()] == ["Not shown: A3"]
    assert "A/3" in dock.map.state.problems, "it is crossed"
    assert dock.browser().position == Position("A/1", "0", 0)
    assert dock.map.state.current == "A/1"
    assert dock.map.selected() == ("A/1",)
    assert dock._listed == "A/1"
    assert caption(viewer) == "A1 - field 0"
    # The next key leads on from what is on screen.
    click_well(dock, "B/1")
    until(lambda: dock.map.state.current == "B/1")
    assert dock.browser().position.well == "B/1"


@pytest.mark.default_cases("click")
@pytest.mark.parametrize("by", ["click", "keys", "list"])
def test_a_field_of_a_coarser_level_is_shown_with_one_notice(viewer, dock, root, by):
    browser = dock.browser()
    if by == "click":
        click_well(dock, "B/2")
    elif by == "keys":
        browser.show_field("B/1", "1")
        until(lambda: browser.position == Position("B/1", "1", 0))
        until(lambda: not dock.isBusy())
        QTest.keyClick(dock.map, Qt.Key.Key_Period)
    else:
        browser.show_field("B/2", "1")
        until(lambda: dock._listed == "B/2" and dock.well.map.rectOf("1").isValid())
        dock.goToField("0")
    until(lambda: browser.position == Position("B/2", "0", 0))
    until(lambda: not dock.isBusy())
    assert caption(viewer) == "B2 - field 0"
    assert dock.map.state.current == "B/2"
    shown = np.asarray(viewer.layers[0].data[0])
    assert shown.shape[-2:] == (16, 16), "the coarser level"
    assert shown.all()
    until(notices)
    (notice,) = notices()
    first, *rest = notice.splitlines()
    assert first == "Low resolution: B2, field 0"
    assert any("B/2/0/0" in line for line in rest), "and where"
    browser.show_field("A/1", "0")
    until(lambda: browser.position.well == "A/1")
    browser.show_field("B/2", "0")
    until(lambda: browser.position.well == "B/2")
    pump(100)
    assert len(notices()) == 1, "once is enough"


@pytest.mark.long
def test_what_is_skipped_is_named(viewer, dock):
    click_well(dock, "B/3")
    until(lambda: dock.browser().position == Position("B/3", "1", 0))
    assert notices()[0].splitlines()[0] == "Not readable: B3, field 0"
    until(lambda: dock._listed == "B/3")
    dock.goToField("0")
    until(lambda: len(notices()) > 1)
    assert notices()[1].splitlines()[0] == "Not shown: B3, field 0"
    dock.pinWell("A/3")
    until(lambda: len(notices()) > 2)
    assert notices()[2].splitlines()[0] == "Not compared: A3"


@pytest.mark.long
def test_the_camera_comes_back_when_a_comparison_is_taken_back(viewer, dock):
    camera = viewer.scene.camera
    before = camera.zoom, camera.center
    add, take = (lambda path: dock.pinWell(path) for _ in range(2))
    add("B/1")
    until(lambda: dock.browser().pinned_fields and not dock.isBusy())
    assert camera.zoom < 0.7 * before[0]
    add("A/2")
    until(lambda: len(dock.browser().pinned_fields) == 2 and not dock.isBusy())
    for well in ("B/1", "A/2"):
        take(well)
        until(lambda w=well: w not in [p.well for p in dock.browser().pinned_fields])
    until(lambda: not dock.isBusy())
    assert camera.zoom == pytest.approx(before[0], rel=1e-4)
    np.testing.assert_allclose(camera.center, before[1], atol=0.1)
    # At the field that is on screen by then.
    add("B/1")
    until(lambda: dock.browser().pinned_fields and not dock.isBusy())
    dock.goToWell("A/2")
    until(lambda: dock.browser().position.well == "A/2" and not dock.isBusy())
    unpin_all(dock.browser())
    low, high = viewer.layers[0].extent.world[:, -2:]
    np.testing.assert_allclose(camera.center[-2:], (low + high) / 2, atol=0.5)
    assert camera.zoom == pytest.approx(before[0], rel=1e-3)
    # Who has moved since stays there.
    add("B/1")
    until(lambda: dock.browser().pinned_fields and not dock.isBusy())
    camera.zoom *= 3
    camera.center = (0, *low)
    moved = camera.zoom, camera.center
    unpin_all(dock.browser())
    assert (camera.zoom, camera.center) == moved


@pytest.mark.long
def test_the_selected_layer_stays_in_view_when_pins_go(viewer, dock):
    listed = viewer.window._qt_viewer.layers
    viewer.window._qt_viewer.dockLayerList.setMaximumHeight(150)
    viewer.layers.selection.active = viewer.layers[0]
    for well in ("A/2", "B/1", "B/3"):
        dock.pinWell(well)
    until(lambda: len(dock.browser().pinned_fields) == 3 and not dock.isBusy())

    def is_seen():
        (index,) = listed.selectionModel().selectedIndexes()
        rect = listed.visualRect(index)
        return listed.viewport().rect().contains(rect.center())

    until(is_seen)
    unpin_all(dock.browser())
    until(is_seen)


@pytest.mark.long
def test_the_status_line_shows_the_value_alone(viewer, dock):
    layer = viewer.layers[0]
    viewer.layers.selection.active = layer
    viewer.mouse_over_canvas = True
    viewer.cursor.position = tuple(layer.extent.world.mean(axis=0))
    viewer.update_status_from_cursor()
    until(lambda: isinstance(viewer.status, dict) and viewer.status.get("value"))
    value = viewer.status["value"]
    assert value.isdecimal()
    assert int(value) == layer.get_value(viewer.cursor.position, world=True)[1]
    assert viewer.status["coordinates"].endswith(f"]: {value}")
