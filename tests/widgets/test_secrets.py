"""Secrets of an address are in nothing that a window shows, logs or saves."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from locked_server import serving_locked
from mouse import pump, until
from napari_ngff.plugin import use_workers
from napari_ngff.store.arrays.region_read import cache
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.annotations.sidecars import edit_copy
from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.streaming.streamed_levels import fetcher
from napari_ngff.widgets.browser.host import show_browser
from napari_ngff.widgets.docking import INSPECTOR, show_dock
from napari_ngff.widgets.forms import show_open_url
from napari_ngff.widgets.login_dialog import LoginDialog
from napari_ngff.widgets.new_labels_form import show_new_labels
from plates import pixels, write_image, write_plate
from secret_search import (
    SecretSearch,
    all_logs,
    hover,
    shown_texts,
    texts_of_layers,
    texts_of_widgets,
)
from unreliable import OK

pytest.importorskip("aiohttp", reason="needs the extra [remote]")

PASSWORD, TOKEN = "S3cretWord", "t0kenS3cret"
BASIC = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
SEARCH = SecretSearch(PASSWORD, TOKEN)
QUERY = f"X-Amz-Signature={TOKEN}&sig={TOKEN}"


@pytest.fixture
def home(no_logins, tmp_path, monkeypatch):
    """An empty folder for all that is kept for the user."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(folder / kind.lower()))
    return folder


@pytest.fixture
def server(tmp_path):
    images = tmp_path / "images"
    write_image(images / "cells.zarr", pixels(1, (2, 64, 64)), 3, labels=("nuclei",))
    write_plate(images / "plate.zarr", labelled=lambda well: ("nuclei",))
    write_image(images / "torn.zarr", pixels(1, (2, 8, 8)), 3)
    (images / "torn.zarr" / "1" / "zarr.json").write_text("{")
    (images / "broken.zarr").mkdir()
    (images / "broken.zarr" / "zarr.json").write_text("{")
    with serving_locked(images, [f"Basic {BASIC}"], QUERY) as server:
        yield server
        server.answer = lambda path: OK


@pytest.fixture
def shown(viewer):
    """Every text that was shown or logged, filled while a test goes on."""
    with all_logs() as logs, shown_texts(viewer) as texts:
        yield texts
    assert SEARCH.in_texts([*texts, *logs.texts]) == []


def address(server, name):
    return f"http://me:{PASSWORD}@127.0.0.1:{server.server_port}/{name}?{QUERY}"


def cancel_login(viewer):
    """Wait for the dialog, and return what stands in it."""
    until(lambda: viewer.window._qt_window.findChildren(LoginDialog))
    dialog = viewer.window._qt_window.findChildren(LoginDialog)[0]
    text = dialog.status.text() + dialog.windowTitle()
    dialog.reject()
    return text


def test_an_image_its_labels_and_a_plate(viewer, home, server, shown):
    use_workers()
    viewer.open(address(server, "cells.zarr"), plugin="napari-ngff")
    until(lambda: not fetcher.is_busy)
    assert [layer.name for layer in viewer.layers][-1] == "nuclei"
    hover(viewer)
    # New labels, and a copy of those of the file; painted, in a journal, then saved.
    viewer.layers.selection.active = viewer.layers[0]
    show_new_labels(viewer).create_labels()
    new = viewer.layers.selection.active
    new.paint((20, 20), 4)
    nuclei = viewer.layers["nuclei"]
    viewer.layers.selection.active = nuclei
    edit_copy(viewer)
    until(lambda: viewer.layers["nuclei"] is not nuclei)
    copy = viewer.layers["nuclei"]
    copy.paint((30, 30), 9)
    journals = home / "data" / "napari-ngff"
    until(lambda: len(list(journals.rglob("edits*"))) >= 2)
    assert SEARCH.in_files(home) == []
    assert new.saver.save_now()
    assert copy.saver.save_now()
    hover(viewer)
    inspector = show_dock(viewer, INSPECTOR)
    inspector.showPath(address(server, "cells.zarr"))
    until(lambda: inspector.tree.rootEntry() is not None and inspector.open.isEnabled())
    shown += texts_of_widgets()
    shown += texts_of_layers(viewer)
    assert not server.refused
    assert SEARCH.in_texts(shown) == []
    assert SEARCH.in_files(home) == []
    # What was saved is found by the address without its secrets.
    viewer.layers.clear()
    viewer.open(f"{server.address}/cells.zarr", plugin="napari-ngff")
    assert np.asarray(viewer.layers["nuclei"].data[0])[30, 30] == 9


@pytest.mark.long
def test_a_plate_with_its_map_and_labels(viewer, home, server, shown):
    use_workers()
    viewer.open(address(server, "plate.zarr"), plugin="napari-ngff")
    dock = show_browser(viewer)
    until(lambda: dock.browser() is not None and len(dock.map.state.pictures) == 6)
    until(lambda: not dock.isBusy() and not dock.browser().is_drawing)
    dock.browser().show_field("A/2")
    until(lambda: dock.browser().position == Position("A/2", "0", 0))
    until(lambda: not dock.isBusy() and not fetcher.is_busy)
    hover(viewer)
    shown += texts_of_widgets()
    shown += texts_of_layers(viewer)
    assert not server.refused
    assert SEARCH.in_texts(shown) == []
    assert SEARCH.in_files(home) == []


@pytest.mark.long
def test_what_goes_wrong(viewer, home, server, shown):
    use_workers()
    for name in ("gone.zarr", "broken.zarr", "torn.zarr"):
        form = show_open_url(viewer)
        form.address.value = address(server, name)
        form.open_address()
        until(lambda form=form: viewer.layers or form.button.enabled)
        shown += texts_of_widgets()
    assert viewer.layers, "of the torn image one level is left"
    viewer.layers.clear()
    form = show_open_url(viewer)
    for answer in (403, 404, 500, "drop"):
        server.answer = lambda path, answer=answer: answer
        form.address.value = address(server, "cells.zarr")
        form.open_address()
        if answer == 403:
            asked = cancel_login(viewer)
            assert "did not accept" not in asked
            shown.append(asked)
        until(lambda: form.button.enabled)
        assert form.status.value
        shown += texts_of_widgets()
    server.answer = lambda path: OK
    form.open_address()
    until(lambda: viewer.layers and not fetcher.is_busy)
    # The server refuses, and is gone, while pixels are looked at.
    for answer in (403, 500, "drop"):
        server.answer = lambda path, answer=answer: answer
        cache.clear()
        with pytest.raises(OSError, match="127"):
            open_node(address(server, "cells.zarr"))
        for layer in viewer.layers:
            layer.refresh()
            np.asarray(layer.data[0] if layer.multiscale else layer.data)
        pump(100)
    server.shutdown()
    server.server_close()
    with pytest.raises(OSError, match="cannot be reached"):
        viewer.open(address(server, "other.zarr"), plugin="napari-ngff")
    inspector = show_dock(viewer, INSPECTOR)
    inspector.showPath(address(server, "other.zarr"))
    until(lambda: "reached" in inspector.status.text())
    hover(viewer)
    shown += texts_of_widgets()
    assert SEARCH.in_texts(shown) == []
    assert SEARCH.in_files(home) == []
