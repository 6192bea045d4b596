"""Into 3D and back in a real window: the next stroke is in the section of before."""

from __future__ import annotations

import numpy as np
import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest

from mouse import CONTROL, LEFT, canvas, click, drag, pump, turn_wheel, until
from napari_ngff.viewer.layers.volume_layers import is_volume
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.samples import write_stack
from napari_ngff.viewer.streaming.streamed_levels import are_pixels_coming
from napari_ngff.widgets.annotate.region_form import show_volume_form

SHAPE = 16, 96, 96
SECTION = 10


@pytest.fixture
def spots(viewer, tmp_path):
    """New labels of a stack, at section 14, closely and beside the middle."""
    viewer.window.resize(700, 560)  # drawn sooner
    stack = write_stack(tmp_path / "stack.ome.zarr", shape=SHAPE)
    viewer.open(str(stack), plugin="napari-ngff")
    pump(300)
    layer = viewer.add_layer(new_labels(viewer.layers[0], "spots"))
    layer.mode, layer.brush_size = "paint", 5
    viewer.dims.set_current_step(0, SECTION)
    pump(100)
    turn_wheel(viewer, (15, 17), 2)
    until(lambda: not are_pixels_coming())
    pump(100)
    return layer


def press_button(viewer):
    button = viewer.window._qt_viewer.viewerButtons.ndisplayButton
    QTest.mouseClick(button, LEFT)


def press_key(viewer):
    viewer.window.activate()
    canvas(viewer).native.setFocus()
    pump(50)
    QTest.keyClick(canvas(viewer).native, Qt.Key.Key_Y, CONTROL)


def set_dims(viewer):
    viewer.dims.ndisplay = 5 - viewer.dims.ndisplay


def press_dock(viewer):
    """Show the region in view by the dock; back by the button of napari."""
    if viewer.dims.ndisplay == 3:
        press_button(viewer)
        return
    page = show_volume_form(viewer)
    pump(300)
    until(page.button.isEnabled)
    QTest.mouseClick(page.button, LEFT)
    until(lambda: any(map(is_volume, viewer.layers)))


@pytest.mark.long
@pytest.mark.parametrize("switch", [press_button, press_key, set_dims, press_dock])
def test_the_next_stroke_is_in_the_section_of_before(viewer, spots, switch):
    section = viewer.dims.point
    seen = viewer.scene.camera.center, viewer.scene.camera.zoom
    switch(viewer)
    until(lambda: viewer.dims.ndisplay == 3)
    pump(300)
    turn_wheel(viewer, (15, 17), -3)
    drag(viewer, [(10, 10), (15, 20), (20, 30)])  # turns the camera, unless it paints
    switch(viewer)
    until(lambda: viewer.dims.ndisplay == 2)
    pump(200)
    assert viewer.dims.point == section
    assert (viewer.scene.camera.center, viewer.scene.camera.zoom) == seen
    assert viewer.layers.selection.active is spots
    until(lambda: not any(map(is_volume, viewer.layers)))
    spots.selected_label = 9
    click(viewer, (15, 17))
    stored = spots.canvas.levels[0].read(tuple((0, size) for size in SHAPE))
    assert set(np.nonzero(stored == 9)[0]) == {SECTION}
    y, x = (np.round(np.divide((15, 17), 0.325))).astype(int)
    assert stored[SECTION, y, x] == 9
