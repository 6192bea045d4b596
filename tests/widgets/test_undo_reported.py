"""Ctrl+Z where nothing can be undone, in a real window."""

from __future__ import annotations

import numpy as np
import pytest
import zarr
from napari.layers import Labels
from napari.utils.notifications import notification_manager
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest

from mouse import CONTROL, canvas, drag, pump, until
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.session import session_of
from plates import write_plate

pytestmark = pytest.mark.slow


@pytest.fixture
def field(viewer, tmp_path):
    """The first of two fields with labels, to paint on."""
    use_workers()
    where = write_plate(
        tmp_path / "p.ome.zarr",
        grid=(1, 2),
        fields=1,
        shape=(1, 32, 32),
        labelled=lambda _: ("nuclei",),
    )
    viewer.open(str(where), plugin="napari-ngff")
    until(lambda: session_of(viewer).browser is not None)
    show_well(viewer, "A/1")
    notification_manager.records.clear()
    yield where
    notification_manager.records.clear()


def show_well(viewer, well):
    browser = session_of(viewer).browser
    browser.show_field(well, "0")
    until(lambda: browser.position is not None and browser.position.well == well)
    # Also if it was shown before: no stroke is taken while a field comes in.
    until(lambda: browser._task._steps is None and browser.state.wanted is None)
    layer = next(x for x in viewer.layers if isinstance(x, Labels))
    viewer.layers.selection.active = layer
    layer.visible = True
    pump(100)
    return layer


def press_undo(viewer):
    viewer.window.activate()
    canvas(viewer).native.setFocus()
    pump(50)
    QTest.keyClick(canvas(viewer).native, Qt.Key.Key_Z, CONTROL)
    pump(50)


def notices():
    return [str(record.message) for record in notification_manager.records]


def test_a_stroke_of_a_field_that_was_left_is_undone(viewer, field, monkeypatch):
    monkeypatch.setattr(settings, "saves_when_moving_on", lambda: True)
    layer = show_well(viewer, "A/1")
    before = np.asarray(layer.data[0])
    layer.mode, layer.selected_label = "paint", 7
    drag(viewer, [(4, 4), (4, 10)])
    assert layer.unsaved
    show_well(viewer, "A/2")
    layer = show_well(viewer, "A/1")
    assert not layer.unsaved
    assert (np.asarray(layer.data[0]) != before).any()
    notification_manager.records.clear()
    press_undo(viewer)
    np.testing.assert_array_equal(np.asarray(layer.data[0]), before)
    assert layer.unsaved
    press_undo(viewer)
    (text,) = notices()
    assert text.startswith("No stroke to undo since these labels were opened.\n")
    show_well(viewer, "A/2")
    stored = zarr.open_array(field / "A/1/0/labels/nuclei/0", mode="r")[...]
    np.testing.assert_array_equal(stored, before)
