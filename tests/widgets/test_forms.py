"""The forms, through napari's own menu and commands."""

from __future__ import annotations

import functools
import gc
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from napari._app_model import get_app_model
from qtpy.QtCore import Qt, QThreadPool
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

from mouse import pump, until
from napari_ngff.viewer import session
from napari_ngff.viewer.samples import write_image
from napari_ngff.widgets.annotate.measure_form import MeasureForm
from napari_ngff.widgets.form_dialog import shown_form
from napari_ngff.widgets.forms import TITLE, UrlForm
from napari_ngff.widgets.new_labels_form import NewLabelsForm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from napari.viewer import Viewer
    from pytestqt.qtbot import QtBot


WINDOW = 1000, 750


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a web server on this machine that has ``cells.ome.zarr``."""
    folder = tmp_path_factory.mktemp("served")
    write_image(folder / "cells.ome.zarr", shape=(96, 128))
    handler = functools.partial(QuietHandler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def trigger(viewer: Viewer, text: str) -> None:
    """Choose an item of File > IO Utilities."""
    for action in viewer.window.file_menu.actions():
        if action.text() == "IO Utilities":
            action.menu().aboutToShow.emit()
            items = {item.text(): item for item in action.menu().actions()}
            items[text].trigger()
            return
    raise AssertionError


def url_form(viewer: Viewer) -> UrlForm:
    trigger(viewer, "Open URL… (OME-Zarr)")
    form = shown_form(viewer, TITLE)
    assert isinstance(form, UrlForm)
    return form


def close(form: UrlForm) -> None:
    """Do what the cross of its window does."""
    form.native.window().close()
    pump(50)


@pytest.mark.long
def test_address_typed_into_the_form_is_opened(
    viewer: Viewer, qtbot: QtBot, address: str
) -> None:
    form = url_form(viewer)
    url = f"{address}/cells.ome.zarr"
    until(lambda: QApplication.focusWidget() is form.address.native)
    qtbot.keyClicks(form.address.native, url)
    qtbot.keyClick(form.address.native, Qt.Key.Key_Return)
    assert not form.button.enabled
    until(lambda: shown_form(viewer, TITLE) is None)
    until(lambda: len(viewer.layers) == 5)  # one by one, so that the window goes on
    assert [layer.name for layer in viewer.layers][-2:] == ["nuclei", "cells"]
    assert {layer.source.path for layer in viewer.layers} == {url}
    assert {layer.source.reader_plugin for layer in viewer.layers} == {"napari-ngff"}


def test_wrong_address_is_reported_in_the_form(viewer: Viewer, address: str) -> None:
    form = url_form(viewer)
    form.address.value = f"{address}/nothing.ome.zarr"
    form.button.native.click()
    until(lambda: form.button.enabled)
    assert "nothing.ome.zarr" in form.status.value
    assert not viewer.layers
    form.address.value = f"{address}/cells.ome.zarr"
    form.button.native.click()
    until(lambda: len(viewer.layers) == 5)


@pytest.mark.long
def test_links_of_other_viewers_and_addresses_that_were_opened(
    viewer: Viewer, address: str
) -> None:
    form = url_form(viewer)
    assert not form.recent.isVisible()
    form.address.value = "https://neuroglancer-demo.appspot.com/#!{}"
    form.button.native.click()
    assert "names no zarr" in form.status.value
    assert form.button.enabled
    url = f"{address}/cells.ome.zarr"
    form.address.value = f"https://hms-dbmi.github.io/vizarr/?source={url}?sig=S3cret"
    form.button.native.click()
    until(lambda: len(viewer.layers) == 5)
    assert {layer.source.path for layer in viewer.layers} == {url}
    form = url_form(viewer)
    assert form.recent.isVisible()
    assert form.recent.count() == 1
    assert form.address.value == ""
    form.recent.setFocus()
    QTest.keyClick(form.recent, Qt.Key.Key_Down)
    assert form.address.value == url
    form.button.native.click()
    until(lambda: len(viewer.layers) == 10)


@pytest.mark.long
def test_form_that_is_closed_while_it_reads_still_opens(
    viewer: Viewer, address: str
) -> None:
    form = url_form(viewer)
    form.address.value = f"{address}/cells.ome.zarr"
    form.button.native.click()
    close(form)
    until(lambda: len(viewer.layers) == 5)


def test_form_is_shown_once(viewer: Viewer) -> None:
    assert url_form(viewer) is url_form(viewer)
    assert not viewer.window.dock_widgets


@pytest.mark.long
def test_viewer_keeps_its_session_when_the_form_is_gone(
    viewer: Viewer, address: str
) -> None:
    form = url_form(viewer)
    form.address.value = f"{address}/nothing.ome.zarr"
    form.button.native.click()
    until(lambda: "404 Not Found" in form.status.value)
    before = session.session_of(viewer)
    close(form)
    form = None
    gc.collect()
    assert session.session_of(viewer) is before
    assert before._viewer is viewer


def test_commands_are_in_the_palette(viewer: Viewer) -> None:
    commands = {command for command, _ in get_app_model().commands}
    assert {"napari-ngff.open_url", "napari-ngff.convert"} <= commands


def test_window_may_be_closed_while_the_form_reads(
    viewer: Viewer, address: str
) -> None:
    form = url_form(viewer)
    form.address.value = f"{address}/cells.ome.zarr"
    form.button.native.click()
    viewer.close()
    QThreadPool.globalInstance().waitForDone()
    pump(300)
    assert not viewer.layers


@pytest.mark.default_cases("NewLabelsForm")
@pytest.mark.parametrize("form", [MeasureForm, NewLabelsForm, UrlForm])
def test_a_long_sentence_leaves_the_canvas_its_room(viewer: Viewer, form: Any) -> None:
    shown = form(viewer)
    viewer.window.add_dock_widget(shown, area="right")
    pump(100)
    window = viewer.window._qt_window
    width = window.width()
    shown.status.value = f"No zarr array at {'/folder' * 30}. Check the path."
    pump(100)
    assert window.width() == width
    assert viewer.canvas.size[1] > 300
    label = shown.status.native
    assert label.height() >= label.heightForWidth(label.width())
    shown.status.value = "All is well."
    pump(100)
    assert label.width() > 0.6 * shown.native.width()
