"""The offer to become the default reader, by real clicks in the status bar."""

from __future__ import annotations

import pytest
from napari.settings import get_settings
from qtpy.QtCore import QEventLoop, Qt, QTimer
from qtpy.QtTest import QTest

from mouse import pump, until
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.services.settings import is_default_reader
from napari_ngff.widgets.forms import DefaultReaderOffer


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return write_image(tmp_path / "cells.ome.zarr", shape=(64, 64))


def offers(viewer):
    pump(50)
    return viewer.window._qt_window.findChildren(DefaultReaderOffer)


def opened_by_user(viewer, path):
    """Open a path while the event loop runs, with our reader chosen."""
    loop = QEventLoop()

    def act():
        try:
            viewer.open(str(path), plugin="napari-ngff")
        finally:
            loop.quit()

    QTimer.singleShot(0, act)
    loop.exec()


@pytest.mark.long
@pytest.mark.parametrize("answer", ["Always", "No"])
def test_it_is_offered_once_after_the_first_file(viewer, path, answer):
    use_workers()
    opened_by_user(viewer, path)
    assert offers(viewer) == []  # it is the default already
    get_settings().plugins.extension2reader = {}
    opened_by_user(viewer, path)
    (offer,) = offers(viewer)
    assert offer.isVisible()
    button = offer.yes if answer == "Always" else offer.no
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    until(lambda: offers(viewer) == [])
    assert is_default_reader() == (answer == "Always")
    get_settings().plugins.extension2reader = {}
    opened_by_user(viewer, path)
    assert offers(viewer) == []


@pytest.mark.long
def test_a_script_gets_no_offer(viewer, path):
    use_workers()
    get_settings().plugins.extension2reader = {}
    viewer.open(str(path), plugin="napari-ngff")
    assert offers(viewer) == []
