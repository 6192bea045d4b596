"""An object is filled between its sections, and copied by keys, in a window."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import zarr
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest

from mouse import CONTROL, canvas, drag, press_save, pump, until
from napari_ngff import write
from napari_ngff.store.pyramids.level_reduction import LevelReduction
from painting import between_sections

LEFT, SHIFT = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ShiftModifier
SHAPE, SCALE = (2, 20, 300, 400), (1.0, 1.0, 0.5, 0.25)
LABEL, OTHER = 7, 3


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """A time series of stacks of long voxels, in shards, with labels of two levels."""
    random = np.random.default_rng(1)
    image = random.integers(0, 60, SHAPE).astype("u1")
    labels = np.zeros(SHAPE, "u2")
    labels[1, :, 130:150, 215:225] = OTHER
    place = {"axis_labels": tuple("tzyx"), "scale": SCALE}
    layers = [(image, {"name": "dna", **place}, "image")]
    layers.append((labels, {"name": "cells", **place}, "labels"))
    path = tmp_path_factory.mktemp("sections") / "stack.ome.zarr"
    return write(path, layers, shards=True)


@pytest.fixture
def path(sample, tmp_path):
    return shutil.copytree(sample, tmp_path / "stack.ome.zarr")


@pytest.fixture
def row(viewer, path):
    """Return the row of the dock, with labels at the second time point."""
    viewer.open(str(path), plugin="napari-ngff")
    _, dock = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    layer = viewer.layers["cells"]
    layer.visible = True
    viewer.layers.selection.active = layer
    layer.selected_label, layer.brush_size, layer.brush_on_screen = LABEL, 60, False
    viewer.dims.set_current_step((0, 1), (1, 4))
    viewer.reset_view()
    pump(200)
    return dock.sections


def labels_of(viewer):
    return np.asarray(viewer.layers["cells"].canvas.levels[0])


def hatched(viewer):
    """Count the pixels on the screen in the colour of the hatching."""
    pump(100)
    red, green, blue = np.moveaxis(viewer.screenshot(flash=False)[..., :3], -1, 0)
    return np.count_nonzero((red > 200) & (green < 60) & (blue > 200))


def show_plane(viewer, axis, index):
    viewer.dims.set_current_step(axis, index)
    pump(100)


def press(button):
    QTest.mouseClick(button, LEFT)


def paint_ends(viewer):
    """Paint the object in two sections, at places that are apart."""
    viewer.layers["cells"].mode = "paint"
    show_plane(viewer, 1, 4)
    drag(viewer, [(60, 40), (62, 46)])
    show_plane(viewer, 1, 14)
    drag(viewer, [(70, 48), (74, 52)])
    show_plane(viewer, 1, 9)
    return labels_of(viewer)


def test_an_object_is_filled_after_a_look(viewer, row, path):
    layer, before = viewer.layers["cells"], paint_ends(viewer)
    assert not hatched(viewer)
    press(row.look)
    until(row.fill.isVisible)
    # What is hatched is no edit: nothing is painted or unsaved by it.
    assert np.array_equal(labels_of(viewer), before)
    assert layer.canvas.log.end == 2
    assert hatched(viewer) > 50
    show_plane(viewer, 1, 4)
    assert not hatched(viewer), "it has the object already"
    show_plane(viewer, 1, 10)
    assert hatched(viewer) > 50
    show_plane(viewer, 0, 0)
    assert not hatched(viewer), "another time point"
    show_plane(viewer, 0, 1)
    press(row.cancel)
    assert not hatched(viewer)
    assert not row.fill.isVisible()
    press(row.look)
    until(row.fill.isVisible)
    # A stroke made since is not painted over, and what was seen holds no more.
    drag(viewer, [(40, 30), (42, 33)])
    assert not hatched(viewer)
    press(row.fill)
    assert "was changed meanwhile" in row.parent().status.text()
    layer.undo()
    np.testing.assert_array_equal(labels_of(viewer), before)
    press(row.look)
    until(row.fill.isVisible)
    press(row.fill)
    assert not hatched(viewer)
    between = between_sections(before[1] == LABEL, SCALE[2:])
    want = before.copy()
    want[1][between & (before[1] == 0)] = LABEL
    assert (want[1] == LABEL).any(axis=(1, 2)).sum() == 11
    np.testing.assert_array_equal(labels_of(viewer), want)
    press_save(viewer, layer)
    for number, level in enumerate(layer.canvas.levels):
        stored = zarr.open_array(path / "labels/cells" / str(number), mode="r")[...]
        np.testing.assert_array_equal(stored, np.asarray(level))
    np.testing.assert_array_equal(stored, reduced(want))
    QTest.keyClick(canvas(viewer).native, Qt.Key.Key_Z, CONTROL)
    until(lambda: np.array_equal(labels_of(viewer), before))


def reduced(labels):
    """The coarser level, made anew from the whole finer one."""
    shape = (*SHAPE[:2], SHAPE[2] // 2, SHAPE[3] // 2)
    box = tuple((0, n) for n in shape)
    return LevelReduction.between_shapes(SHAPE, shape, "mode").reduce(labels, box)


def test_keys_copy_the_object_to_the_next_section_and_the_next_frame(viewer, row):
    before = paint_ends(viewer)
    native, dims = canvas(viewer).native, viewer.dims
    show_plane(viewer, 1, 14)
    viewer.window.activate()
    native.setFocus()
    dims.last_used = 1
    for z in (15, 16):
        QTest.keyClick(native, Qt.Key.Key_Right, SHIFT)
        until(lambda z=z: dims.current_step[1] == z)
    dims.last_used = 0
    QTest.keyClick(native, Qt.Key.Key_Left, SHIFT)
    until(lambda: dims.current_step[0] == 0)
    # Of the other object nothing is replaced, so the next copies lack that, too.
    section = (before[1, 14] == LABEL) & (before[1, 15] == 0)
    want = before.copy()
    for place in ((1, 15), (1, 16), (0, 16)):
        want[place][section] = LABEL
    np.testing.assert_array_equal(labels_of(viewer), want)
    assert dims.current_step[1] == 16
    for _ in range(3):
        QTest.keyClick(native, Qt.Key.Key_Z, CONTROL)
    until(lambda: np.array_equal(labels_of(viewer), before))
