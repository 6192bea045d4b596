"""Preferences of the plugin in napari's own dialog, by real clicks."""

from __future__ import annotations

import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QCheckBox

from choices import set_preference
from mouse import pump, until
from napari_ngff.viewer.services import settings


@pytest.fixture
def page(viewer):
    """The page of the plugin."""
    settings.autosave_minutes()
    viewer.window._open_preferences_dialog()
    dialog = viewer.window._pref_dialog
    until(dialog.isVisible)
    names = [dialog._list.item(row).text() for row in range(dialog._list.count())]
    dialog._list.setCurrentRow(names.index("OME-Zarr"))
    pump(100)
    yield dialog._stack.currentWidget()
    set_preference("moving_on", True)
    dialog.close()


def test_a_click_is_followed_at_once(viewer, page):
    reported = []
    settings.changed.connect(lambda *change: reported.append(change))
    try:
        _, moving_on, _ = page.findChildren(QCheckBox)
        QTest.mouseClick(moving_on, Qt.MouseButton.LeftButton)
        assert reported == [("moving_on", False)]
        assert not settings.saves_when_moving_on()
        QTest.mouseClick(moving_on, Qt.MouseButton.LeftButton)
        assert reported[1:] == [("moving_on", True)]
    finally:
        settings.changed.disconnect()
    assert settings.saves_when_moving_on()


def test_cancel_takes_a_change_back(viewer, page):
    dialog = viewer.window._pref_dialog
    *_, keeps_private = page.findChildren(QCheckBox)
    QTest.mouseClick(keeps_private, Qt.MouseButton.LeftButton)
    assert settings._get_setting("disk_cache_private")
    QTest.mouseClick(dialog._button_cancel, Qt.MouseButton.LeftButton)
    assert not dialog.isVisible()
    assert not settings._get_setting("disk_cache_private")
