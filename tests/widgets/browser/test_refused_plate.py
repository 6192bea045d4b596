"""A plate whose server wants a login for its wells, in a real window."""

from __future__ import annotations

import re

import numpy as np
import pytest

from locked_server import LockedHandler, serving_locked
from mouse import pump, until
from napari_ngff.plugin import use_workers
from napari_ngff.store.sources import server_access
from napari_ngff.store.sources.server_logins import make_login, set_login
from napari_ngff.viewer.session import session_of
from napari_ngff.viewer.streaming.streamed_levels import fetcher
from napari_ngff.widgets.browser.host import browser_of
from napari_ngff.widgets.form_dialog import main_window
from napari_ngff.widgets.login_dialog import LoginDialog
from plates import write_plate

pytest.importorskip("aiohttp", reason="needs the extra [remote]")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_logins")]

TOKEN = "t0ken"


class WellsHandler(LockedHandler):
    """Wants a login for some paths alone."""

    wanted_for = r"/[A-H]/"

    def do_GET(self):
        if not re.search(self.wanted_for, self.path):
            self.headers["Authorization"] = f"Bearer {TOKEN}"
        super().do_GET()


class PixelsHandler(WellsHandler):
    """Wants a login for chunks."""

    wanted_for = r"/c/"


class RowsHandler(WellsHandler):
    """Wants a login for all rows but the first."""

    wanted_for = r"/[B-H]/"


class FieldsHandler(WellsHandler):
    """Wants one for the fields of these rows, not for their wells."""

    wanted_for = r"/[B-H]/\d+/\d"


@pytest.fixture
def drop_plate(viewer, tmp_path):
    write_plate(tmp_path / "p.ome.zarr", grid=(4, 6), fields=1, shape=(1, 32, 32))
    use_workers()

    def drop(server):
        address = f"{server.address}/p.ome.zarr"
        viewer.window._qt_viewer._qt_open([address], stack=False)

    yield tmp_path, drop
    until(lambda: not fetcher.is_busy)
    server_access.resume_reading()


def dialogs(viewer):
    found = main_window(viewer).findChildren(LoginDialog)
    return [dialog for dialog in found if dialog.isVisible()]


def test_the_login_is_asked_for_at_the_first_refused_well(viewer, drop_plate, reported):
    folder, drop = drop_plate
    with serving_locked(folder, [f"Bearer {TOKEN}"], handler=WellsHandler) as server:
        drop(server)
        until(lambda: dialogs(viewer))
        pump(300)
        (dialog,) = dialogs(viewer)
        assert len(server.refused) <= 2
        dialog.lines["token"].setText(TOKEN)
        dialog.accept()
        until(lambda: len(viewer.layers) and browser_of(viewer) is not None)
        until(lambda: len(browser_of(viewer).map.state.pictures) == 24)
        until(lambda: not fetcher.is_busy)
        pump(200)
        assert reported == []
        assert not dialogs(viewer)


def wait_until_quiet(server):
    """Wait until nothing is asked for: on a busy machine pictures come late."""

    def is_quiet():
        before = len(server.refused)
        pump(300)
        return not fetcher.is_busy and len(server.refused) == before

    until(is_quiet)


@pytest.mark.long
def test_thumbnails_that_were_refused_come_after_the_login(
    viewer, drop_plate, reported
):
    folder, drop = drop_plate
    with serving_locked(folder, [f"Bearer {TOKEN}"], handler=PixelsHandler) as server:
        drop(server)
        until(lambda: len(viewer.layers) and browser_of(viewer) is not None)
        dock = browser_of(viewer)
        until(lambda: len(dock.feed._refused) == 24)
        # The overview asks for its own pixels.
        until(lambda: not (fetcher.is_busy or dock.browser().is_drawing))
        wait_until_quiet(server)
        refused = len(server.refused)
        dock.feed.want_pictures()  # as by scrolling
        pump(300)
        assert len(server.refused) == refused, "a refused login is not tried again"
        assert not dock.map.state.pictures
        set_login(server.address, make_login(token=TOKEN))
        until(lambda: len(dock.map.state.pictures) == 24)
        layer = viewer.layers[0]
        until(lambda: np.count_nonzero(layer._slice.image.raw) > 0)
        until(lambda: not fetcher.is_busy)


@pytest.mark.long
@pytest.mark.parametrize("handler", [RowsHandler, FieldsHandler])
def test_wells_whose_documents_were_refused_come_after_the_login(
    viewer, drop_plate, reported, handler
):
    folder, drop = drop_plate
    with serving_locked(folder, [f"Bearer {TOKEN}"], handler=handler) as server:
        drop(server)
        until(lambda: len(viewer.layers) and browser_of(viewer) is not None)
        arrangements = session_of(viewer).browser.resolver.arrangements
        until(lambda: len(arrangements.refused) == 18)
        layer = viewer.layers[0]
        until(lambda: drawn_rows(layer) == [True, False, False, False])
        until(lambda: len(browser_of(viewer).feed._refused) == 18)  # thumbnails
        wait_until_quiet(server)
        refused = len(server.refused)
        layer.refresh()
        pump(300)
        assert len(server.refused) == refused, "a refused login is not tried again"
        set_login(server.address, make_login(token=TOKEN))
        until(lambda: drawn_rows(layer) == [True] * 4)
        until(lambda: not fetcher.is_busy)
        assert not arrangements.problems
        assert not arrangements.refused


def drawn_rows(layer):
    """Tell of which of the four rows of the plate there are pixels on the canvas."""
    rows = np.array_split(layer._slice.image.raw, 4)
    return [np.count_nonzero(row) > row.size // 2 for row in rows]
