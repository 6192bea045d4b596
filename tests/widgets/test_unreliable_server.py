"""In a window: a plate on a server that fails for a while, or does not answer."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from napari.utils import progress
from napari.utils.notifications import notification_manager
from qtpy.QtCore import QThreadPool
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

from mouse import LEFT, pump, until
from napari_ngff.labels.places.sidecar import sidecar_folder
from napari_ngff.store.sources import remote_store as remote
from napari_ngff.store.sources import server_access
from napari_ngff.testing import write_image
from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.painting.new_labels import taken_names
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.streaming.streamed_levels import fetcher
from napari_ngff.widgets.browser.controls import CanvasMode
from napari_ngff.widgets.browser.host import show_browser
from napari_ngff.widgets.new_labels_form import show_new_labels
from patience import PATIENCE
from plates import write_plate
from unreliable import BUSY, HANG, OK, serving

pytest.importorskip("aiohttp", reason="needs the extra [remote]")


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "PAUSES", ())
    with serving(tmp_path) as server:
        yield server
        server.answer = lambda path: OK
        server.over.set()
    server_access.resume_reading()


@pytest.fixture
def reported(monkeypatch):
    messages = []

    def show(texts, result=""):
        messages.extend(texts)

    monkeypatch.setattr(Window, "show_messages", staticmethod(show))
    return messages


def browsed(viewer, server, tmp_path, **options):
    write_plate(tmp_path / "p.zarr", **options)
    viewer.open(f"{server.address}/p.zarr", plugin="napari-ngff")
    dock = show_browser(viewer)
    until(lambda: dock.browser() is not None)
    return dock


def calm(dock):
    until(lambda: not (dock.isBusy() or dock.browser().is_drawing))


def click(dock, well):
    QTest.mouseClick(dock.map.viewport(), LEFT, pos=dock.map.rectOf(well).center())


def wells_of(viewer, grid):
    """Pixels of the coarsest level that is on the screen, by row and column."""
    picture = np.asarray(viewer.layers[0].data[-1])
    rows, columns = grid
    picture = picture.reshape(rows, -1, columns, picture.shape[-1] // columns)
    return picture.transpose(0, 2, 1, 3)


@pytest.mark.long
def test_a_well_comes_when_it_is_clicked_after_the_server_is_back(
    viewer, server, reported, tmp_path
):
    server.answer = lambda path: BUSY if path.startswith("/p.zarr/B/2/") else OK
    dock = browsed(viewer, server, tmp_path, grid=(3, 4))
    until(
        lambda: len(dock.map.state.pictures) == 11 and "B/2" in dock.map.state.problems
    )
    calm(dock)
    assert list(dock.map.state.problems) == ["B/2"]
    text = dock.map.state.problems["B/2"]
    assert f"{server.address}/p.zarr/B/2/" in text
    assert "503 Service Unavailable" in text
    until(lambda: reported)  # once no more failures come
    pump(500)
    assert len(reported) == 1  # not one for each chunk

    click(dock, "B/2")
    until(lambda: len(reported) == 2)
    assert "503" in reported[-1]
    calm(dock)
    assert dock.browser().position is None

    server.answer = lambda path: OK
    click(dock, "B/2")
    until(lambda: dock.browser().position == Position("B/2", "0", 0))
    until(lambda: "B/2" in dock.map.state.pictures and not dock.map.state.problems)
    calm(dock)
    QTest.mouseClick(dock.controls.buttons[CanvasMode.PLATE], LEFT)
    until(lambda: len(dock.browser().shown_wells) == 12)
    calm(dock)
    assert wells_of(viewer, (3, 4)).all()
    assert len(reported) == 2


@pytest.mark.long
def test_an_arrow_tries_a_well_again_that_did_not_come(
    viewer, server, reported, tmp_path
):
    dock = browsed(viewer, server, tmp_path, grid=(1, 6), fields=1)
    calm(dock)
    browser = dock.browser()
    browser.show_field("A/3")
    until(lambda: browser.position is not None and browser.position.well == "A/3")
    calm(dock)
    server.answer = lambda path: BUSY if path.startswith("/p.zarr/A/5/") else OK
    browser.step_well(0, 1)  # it was read ahead
    until(lambda: browser.position.well == "A/4")
    calm(dock)
    reported.clear()
    browser.step_well(0, 1)
    until(lambda: reported)
    calm(dock)
    assert browser.position.well == "A/4"
    server.answer = lambda path: OK
    browser.step_well(0, 1)
    until(lambda: browser.position.well != "A/4")
    assert browser.position.well == "A/5"


@pytest.mark.long
def test_a_double_click_reads_a_well_of_the_mosaic_again(
    viewer, server, reported, tmp_path
):
    part = "/p.zarr/B/2/1/1/c/0/0/0"
    server.answer = lambda path: BUSY if path == part else OK
    dock = browsed(viewer, server, tmp_path, grid=(3, 4))
    until(lambda: "B/2" in dock.map.state.problems)
    calm(dock)
    server.answer = lambda path: OK
    at = dock.map.rectOf("B/2").center()
    QTest.mouseDClick(dock.map.viewport(), LEFT, pos=at)
    until(lambda: not dock.map.state.problems)
    calm(dock)
    assert viewer.layers[0]._slice.image.raw.all()  # what is drawn
    assert wells_of(viewer, (3, 4)).all()  # what a script reads
    assert not dock.map.state.problems


@pytest.mark.long
def test_labels_of_a_plate_come_together(viewer, server, reported, tmp_path):
    drawn = []
    plate = {"grid": (3, 4), "labelled": lambda well: ("nuclei",)}
    dock = browsed(viewer, server, tmp_path, **plate)
    calm(dock)
    viewer.layers["nuclei"].visible = True  # a plate opens with labels hidden
    calm(dock)
    viewer.layers["nuclei"].events.set_data.connect(lambda: drawn.append(1))
    QTest.mouseClick(dock.controls.buttons[CanvasMode.PLATE], LEFT)
    until(lambda: drawn)
    calm(dock)
    assert np.asarray(viewer.layers["nuclei"].data[-1]).all()
    assert len(drawn) < 12


@pytest.mark.long
def test_nobody_waits_for_a_server_when_the_last_window_closes(
    viewer, server, reported, tmp_path
):
    dock = browsed(viewer, server, tmp_path, grid=(3, 4))
    calm(dock)
    server.answer = lambda path: HANG
    server.asked.clear()
    dock.browser().show_field("C/4")
    until(lambda: server.asked)
    pump(50)
    workers = QThreadPool.globalInstance()
    assert workers.activeThreadCount()
    QApplication.instance().lastWindowClosed.emit()
    assert workers.waitForDone(1000 * PATIENCE)
    assert not server.over.is_set()
    server.answer = lambda path: OK
    pump(300)  # the program goes on
    dock.browser().show_field("C/3")
    until(lambda: dock.browser().position == Position("C/3", "0", 0))


def test_new_labels_do_not_wait_for_a_server(viewer, server, reported, tmp_path):
    write_image(tmp_path / "cells.zarr", "0.5", shape=(2, 64, 64))
    viewer.open(f"{server.address}/cells.zarr", plugin="napari-ngff")
    image = next(x for x in viewer.layers if x._type_string == "image")
    until(lambda: np.asarray(image._slice.image.raw).any())
    before = len(server.asked)
    server.answer = lambda path: HANG
    viewer.layers.selection.active = image
    form = show_new_labels(viewer)
    assert form.called.value == "labels"
    form.called.value = "mine"
    form.button.native.click()
    assert viewer.layers.selection.active.name == "mine"
    # Names that the server has are known from before.
    assert set(taken_names(image)) == {"cells", "nuclei"}
    assert len(server.asked) == before


@pytest.fixture
def labelled(viewer, server, tmp_path):
    """Read-only labels of an image on the server, selected."""
    write_image(tmp_path / "cells.zarr", "0.5", shape=(4, 128, 128))
    viewer.open(f"{server.address}/cells.zarr", plugin="napari-ngff")
    layer = viewer.layers["nuclei"]
    until(lambda: not fetcher.is_busy)
    viewer.layers.selection.active = layer
    notification_manager.records.clear()
    yield layer
    notification_manager.records.clear()


def choose_copy(viewer):
    """Press the button in the layer controls."""
    layer = viewer.layers.selection.active
    viewer.window._qt_viewer.controls.widgets[layer].saving.copy_button.click()


def notices():
    return [str(record.message) for record in notification_manager.records]


def copy_bars():
    bars = [bar for bar in progress._all_instances if bar.desc]
    return [bar for bar in bars if bar.desc.startswith("Copying nuclei")]


@pytest.mark.long
def test_labels_are_copied_by_the_button_though_the_server_stops_for_a_while(
    viewer, server, labelled
):
    resumed = threading.Event()
    server.answer = lambda path: OK if resumed.wait(PATIENCE) else BUSY
    choose_copy(viewer)
    until(copy_bars)
    assert "being copied" in labelled.get_status((0, 0, 0))["coordinates"]
    # A second choice does not begin another copy.
    choose_copy(viewer)
    assert notices()[-1].startswith("Not copied: nuclei.\nIt is being copied already")
    viewer.dims.ndisplay = 3
    pump(200)
    viewer.dims.ndisplay = 2
    resumed.set()
    until(lambda: viewer.layers["nuclei"] is not labelled)
    made = viewer.layers["nuclei"]
    assert made.editable
    assert viewer.layers.selection.active is made
    assert notices()[-1].startswith("Ready to paint: nuclei\n")
    assert len(list(sidecar_folder().iterdir())) == 1
    until(lambda: not copy_bars())


@pytest.mark.long
def test_a_copy_that_a_server_refuses_is_reported_and_can_be_tried_again(
    viewer, server, labelled
):
    reason = labelled.read_only
    server.answer = lambda path: BUSY
    choose_copy(viewer)
    until(notices)
    assert notices()[0].startswith("Not copied: nuclei.\n")
    assert "503" in notices()[0]
    assert "Try again." in notices()[0]
    assert labelled.read_only == reason
    assert not list(sidecar_folder().rglob("zarr.json"))
    server.answer = lambda path: OK
    choose_copy(viewer)
    until(lambda: viewer.layers["nuclei"] is not labelled)
    assert viewer.layers["nuclei"].editable


@pytest.mark.long
def test_removing_the_labels_ends_their_copy_with_a_notice(viewer, server, labelled):
    resumed = threading.Event()
    server.answer = lambda path: OK if resumed.wait(PATIENCE) else BUSY
    choose_copy(viewer)
    viewer.layers.remove(labelled)
    resumed.set()
    until(notices)
    assert "nuclei" in notices()[-1]
    assert "not shown any more" in notices()[-1]
    assert "nuclei" not in viewer.layers
