"""Shuffled colours of painted labels, against napari's own in the same window."""

from __future__ import annotations

import numpy as np
import pytest
from napari.layers import Labels
from napari.utils.colormaps import DirectLabelColormap
from napari.utils.colormaps import label_colormap as cyclic_colormap
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest

from mouse import camera, drag, pump
from napari_ngff.labels.canvas import Canvas
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.layers.label_colors import recolor_labels
from napari_ngff.viewer.layers.label_layers import label_colormap
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from painting import pyramid

SHAPES = [(128, 192), (64, 96), (32, 48)]


def cells():
    ids = np.arange(1, 1 + 8 * 12).reshape(8, 12)
    return np.kron(ids, np.ones((16, 16), int)).astype("u2") * (
        np.indices(SHAPES[0]).sum(axis=0) % 16 > 2
    )


def picture(viewer):
    pump(150)
    return viewer.screenshot(canvas_only=True, flash=False)


def stock_twin(labels, level, colormap):
    """napari's layer of one level with the same voxels in the same place."""
    factor = SHAPES[0][0] / SHAPES[level][0]
    twin = Labels(
        np.asarray(labels.data[level]),
        scale=(factor,) * 2,
        translate=((factor - 1) / 2,) * 2,
    )
    if colormap is not None:
        twin.colormap = colormap
    return twin


@pytest.mark.long
@pytest.mark.parametrize("direct", [False, True], ids=["cyclic", "from the file"])
def test_shuffled_colours_are_napari_s_at_every_level(viewer, direct):
    use_workers()
    labels = viewer.add_layer(OMEZarrLabels(Canvas(pyramid(cells(), SHAPES[1:]))))
    colors = {None: "gray", 0: "transparent", 5: "red", 40: "#00ff0080"}
    colormap = DirectLabelColormap(color_dict=colors) if direct else None
    if colormap is not None:
        labels.colormap = colormap
    camera(viewer).center = (0, 64, 96)
    camera(viewer).zoom = 4
    before = picture(viewer)
    button = viewer.window._qt_viewer.controls.widgets[labels].colormap_update
    for level in (0, 1, 2):
        labels.locked_data_level = level
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)
        assert (picture(viewer) != before).any()
        labels.mode, labels.brush_size = "paint", 7
        labels.selected_label = 200 + level
        drag(viewer, [(20 + 40 * level, 30), (25 + 40 * level, 150)])
        labels.mode = "pan_zoom"
        labels.new_colormap(seed=level)
        ours = picture(viewer)
        labels.visible = False
        twin = viewer.add_layer(stock_twin(labels, level, colormap))
        twin.new_colormap(seed=level)
        np.testing.assert_array_equal(ours, picture(viewer))
        np.testing.assert_array_equal(
            labels.get_color(200 + level), twin.get_color(200 + level)
        )
        viewer.layers.remove(twin)
        labels.visible = True


def drawn(viewer, ids, colormap):
    """All labels; one alone; all, and another colour for label 2."""
    layer = viewer.add_layer(Labels(ids, colormap=colormap, opacity=1))
    viewer.reset_view()
    pictures = [picture(viewer)]
    layer.selected_label = 3
    layer.show_selected_label = True
    pictures.append(picture(viewer))
    layer.show_selected_label = False
    layer.colormap = recolor_labels(layer.colormap, {2: np.array((1, 0, 0, 1))})
    pictures.append(picture(viewer))
    viewer.layers.remove(layer)
    return pictures


@pytest.mark.default_cases("False")
@pytest.mark.parametrize("alone", [False, True])
def test_own_colours_of_more_labels_than_16_bits_count_are_left_at_once(viewer, alone):
    use_workers()
    ids = cells().astype("u4")
    labels = viewer.add_layer(OMEZarrLabels(Canvas(pyramid(ids, SHAPES[1:]))))
    labels.selected_label, labels.show_selected_label = 5, alone
    pump(50)
    colors = {value: (value % 256, 99, 0, 255) for value in range(1, 70_000)}
    labels.colormap = label_colormap(colors)
    own = picture(viewer)
    labels.colormap = cyclic_colormap(49)
    ours = picture(viewer)
    assert (ours != own).any()
    labels.visible = False
    twin = viewer.add_layer(stock_twin(labels, 0, None))
    twin.selected_label, twin.show_selected_label = 5, alone
    twin.colormap = cyclic_colormap(49)
    np.testing.assert_array_equal(ours, picture(viewer))


@pytest.mark.long
@pytest.mark.parametrize("count", [90, 400])
def test_colours_of_a_file_are_drawn_as_napari_draws_them(viewer, count):
    random = np.random.default_rng(count)
    drawn(viewer, np.ones((16, 24), int), None)  # the canvas takes its size
    for dtype in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"):
        largest = min(count, np.iinfo(dtype).max)
        ids = np.kron(random.integers(0, largest + 1, (16, 24)), np.ones((8, 8), int))
        ids[:8, :16] = [2] * 8 + [3] * 8
        parts = random.integers(0, 256, (largest, 4)).tolist()
        colors = {value: tuple(part) for value, part in enumerate(parts, 1)}
        listed = {v: np.array(part) / 255 for v, part in colors.items()}
        listed |= {None: "gray", 0: "transparent"}
        theirs = drawn(
            viewer, ids.astype(dtype), DirectLabelColormap(color_dict=listed)
        )
        ours = drawn(viewer, ids.astype(dtype), label_colormap(colors))
        for mine, stock in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(mine, stock, dtype)
        assert all((one != ours[0]).any() for one in ours[1:])
