"""Painting with the mouse and the keys, in a window, on labels of 100,000 squared."""

from __future__ import annotations

import numpy as np
import pytest
from napari.layers import Image
from napari.settings import get_settings
from qtpy.QtCore import QEvent, QPointF, Qt
from qtpy.QtTest import QTest

from mouse import (
    CONTROL,
    LEFT,
    NONE,
    RIGHT,
    camera,
    canvas,
    click,
    drag,
    move,
    on_canvas,
    pump,
    send,
    until,
)
from napari_ngff.labels.canvas import Canvas
from napari_ngff.plugin import new_labels as show_form
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.painting import brush, canvas_labels, paint
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.widgets.form_dialog import close_form, shown_form
from painting import Empty, pyramid

SIDE = 100_000
MIDDLE = SIDE // 2
ZOOMS = [2.0, 0.05, 0.006]
ALT = Qt.KeyboardModifier.AltModifier


def wide(dtype="u2"):
    return Canvas([Empty((-(-SIDE // 2**k),) * 2, dtype=dtype) for k in range(9)])


@pytest.fixture
def labels(viewer):
    use_workers()
    layer = viewer.add_layer(OMEZarrLabels(wide(), name="labels"))
    layer.mode = "paint"
    yield layer
    assert not layer._staged_history


@pytest.fixture
def reported(monkeypatch):
    messages = []
    for module in (canvas_labels, paint):
        monkeypatch.setattr(module, "show_warning", messages.append)
    return messages


def look(viewer, zoom, at=(MIDDLE, MIDDLE)):
    camera(viewer).center = (0, *at)
    camera(viewer).zoom = zoom
    pump(150)
    return lambda y, x: (at[0] + y / zoom, at[1] + x / zoom)


def voxel(layer, point):
    return int(layer.canvas.levels[0].read_points([[round(i)] for i in point])[0])


def settle(layer):
    """Wait for what asynchronous slicing still reads, and for its picture."""
    pump(20)
    until(lambda: layer.loaded)
    pump(200)


def same_after_reslicing(viewer, layer):
    settle(layer)
    before = viewer.screenshot(canvas_only=True, flash=False)
    picture = layer._slice.image.raw.copy()
    layer.refresh()
    settle(layer)
    after = viewer.screenshot(canvas_only=True, flash=False)
    np.testing.assert_array_equal(picture, layer._slice.image.raw)
    np.testing.assert_array_equal(before, after)


@pytest.mark.default_cases("plain-async")
@pytest.mark.parametrize("wait", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("look_", ["plain", "contour", "selected"])
def test_a_stroke_is_whole_at_every_zoom(viewer, labels, wait, look_, monkeypatch):
    monkeypatch.setattr(get_settings().experimental, "async_", wait)
    labels.contour = 2 if look_ == "contour" else 0
    labels.show_selected_label = look_ == "selected"
    for label, zoom in enumerate(ZOOMS, 1):
        at = look(viewer, zoom)
        labels.selected_label = label
        labels.brush_size = max(3, int(9 / zoom))
        way = [at(70 * np.sin(i / 4), 6 * i - 90) for i in range(31)]
        drag(viewer, way)
        assert [voxel(labels, point) for point in way] == [label] * len(way)
        assert len(labels._undo_history) == label
        same_after_reslicing(viewer, labels)
    QTest.keyClick(
        canvas(viewer).native, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier
    )
    assert voxel(labels, way[0]) == 0
    same_after_reslicing(viewer, labels)
    both = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    QTest.keyClick(canvas(viewer).native, Qt.Key.Key_Z, both)
    assert voxel(labels, way[0]) == len(ZOOMS)
    same_after_reslicing(viewer, labels)


def test_the_way_to_where_the_button_is_released_is_painted(viewer, labels):
    # napari's canvas holds moves back for 5 ms, and its own brush then drops them.
    at = look(viewer, 2.0)
    labels.brush_size = 3
    way = [at(0, 0), at(0, 40), at(0, 90)]
    drag(viewer, way, pause=0)
    pump(50)
    assert [voxel(labels, point) for point in way] == [1, 1, 1]


def test_alt_erases_and_does_not_resize(viewer, labels):
    at = look(viewer, 2.0)
    labels.brush_size = 8
    drag(viewer, [at(0, -60), at(0, 60)])
    move(viewer, at(0, -20), ALT)
    move(viewer, at(0, 0), ALT)
    drag(viewer, [at(0, 0), at(0, 10)], modifiers=ALT)
    assert labels.brush_size == 8
    assert labels.mode == "paint"
    assert [voxel(labels, at(0, x)) for x in (-40, 5, 40)] == [1, 0, 1]


def test_bucket_picker_and_eraser_by_mouse(viewer, labels, reported):
    at = look(viewer, 0.05)
    labels.brush_size = 100
    ring = [at(80 * np.cos(a), 80 * np.sin(a)) for a in np.linspace(0, 6.4, 50)]
    drag(viewer, ring)
    labels.mode, labels.selected_label = "fill", 2
    click(viewer, at(0, 0))
    assert voxel(labels, at(30, 30)) == 2
    assert voxel(labels, at(0, 110)) == 0
    same_after_reslicing(viewer, labels)
    click(viewer, at(0, 140))
    assert "larger than" in reported[0]
    assert voxel(labels, at(0, 140)) == 0
    labels.mode = "pick"
    click(viewer, at(80, 0))
    assert labels.selected_label == 1
    labels.mode = "erase"
    drag(viewer, [at(0, -20), at(0, 20)])
    assert voxel(labels, at(0, 0)) == 0
    same_after_reslicing(viewer, labels)


@pytest.mark.default_cases("0.05")
@pytest.mark.parametrize("zoom", ZOOMS)
def test_a_polygon_is_drawn_where_it_is_clicked(viewer, labels, zoom):
    camera(viewer).zoom = zoom
    at = look(viewer, zoom, (MIDDLE + 0.3 / zoom, MIDDLE))
    labels.mode = "polygon"
    corners = [at(*c) for c in [(-60, -80), (-50, 90), (70, 60), (40, -90)]]
    for corner in corners:
        click(viewer, corner)
    pump(60)
    picture = viewer.screenshot(canvas_only=True, flash=False)
    ratio = picture.shape[1] / canvas(viewer).native.width()
    for corner in corners:
        place = on_canvas(viewer, corner)
        y, x = round(place.y() * ratio), round(place.x() * ratio)
        around = picture[y - 2 : y + 3, x - 2 : x + 3, :3]
        assert (around.min(axis=-1) > 200).any(), "no knot where it was clicked"
    click(viewer, corners[-1], double=True)
    assert voxel(labels, at(0, 0)) == 1
    same_after_reslicing(viewer, labels)


def test_an_outline_that_touches_itself_is_drawn_and_painted(viewer, labels):
    look(viewer, 2.0)
    labels.mode = "polygon"
    overlay, random = labels._overlays["polygon"], np.random.default_rng(0)
    for _ in range(40):
        corners = MIDDLE + random.integers(0, 4, (random.integers(3, 7), 2)) + 0.5
        overlay.points = corners.tolist()
        labels.selected_label += 1  # which fills the outline in another colour
    overlay.add_polygon_to_labels(labels)
    assert (overlay.points, len(labels._undo_history)) == ([], 1)


@pytest.mark.long
def test_a_ring_by_the_right_button_is_filled_or_given_up(viewer, labels):
    at = look(viewer, 0.05)
    labels.brush_size = 120
    ring = [at(70 * np.cos(a), 70 * np.sin(a)) for a in np.linspace(0, 6.28, 40)]
    click(viewer, ring[0], button=RIGHT)
    for point in ring[1:20]:
        move(viewer, point)
    assert voxel(labels, ring[10]) == 1
    QTest.keyClick(canvas(viewer).native, Qt.Key.Key_Escape)
    assert voxel(labels, ring[10]) == 0
    assert labels.canvas.edits == ()
    same_after_reslicing(viewer, labels)
    click(viewer, ring[0], button=RIGHT)
    for point in ring[1:]:
        move(viewer, point)
    assert voxel(labels, at(0, 0)) == 1
    assert len(labels._undo_history) == 1
    same_after_reslicing(viewer, labels)


def test_keys_and_controls(viewer, labels):
    controls = viewer.window._qt_viewer.controls.widgets[labels]
    native = canvas(viewer).native
    at = look(viewer, 0.05)
    labels.brush_size = 50
    QTest.keyClick(native, Qt.Key.Key_BracketRight)
    assert labels.brush_size == 55
    QTest.keyClick(native, Qt.Key.Key_BracketLeft)
    assert labels.brush_size == 50
    labels.selected_label = 7
    drag(viewer, [at(0, 0), at(0, 10)])
    QTest.keyClick(native, Qt.Key.Key_M)
    assert labels.selected_label == 8
    labels.selected_label = 3
    button = getattr(controls._label_control, "new_label_button", None)
    if button is not None:  # since napari 0.9
        button.click()
        assert labels.selected_label == 8


@pytest.mark.long
def test_a_brush_in_screen_pixels_keeps_its_size_there(viewer, labels):
    controls = viewer.window._qt_viewer.controls.widgets[labels]
    at = look(viewer, 0.05)
    move(viewer, at(0, 0))
    labels.brush_size = 400
    controls.brush_unit.setCurrentIndex(1)
    at = look(viewer, 2.0)
    move(viewer, at(0, 0))
    assert labels.brush_size == 10
    at = look(viewer, 0.05)
    drag(viewer, [at(0, 0), at(0, 10)])
    assert labels.brush_size == 400
    controls.brush_unit.setCurrentIndex(0)
    at = look(viewer, 2.0)
    move(viewer, at(0, 0))
    assert labels.brush_size == 400


@pytest.mark.long
def test_the_brush_of_new_labels_looks_the_same_at_every_zoom(viewer):
    image = viewer.add_image(np.zeros((4000, 4000), "u2"), contrast_limits=(0, 1))
    labels = viewer.add_layer(new_labels(image))
    labels.mode = "paint"
    use_workers()
    pump(100)
    for zoom in (0.1, 1.0, 4.0):
        at = look(viewer, zoom)
        move(viewer, at(0, 0))
        assert labels.brush_size == round(16 / zoom)
    # The first colours are seen on black.
    for value in range(1, 8):
        assert max(labels.colormap.map(value)[:3]) > 0.6


@pytest.mark.long
def test_ctrl_erases_as_alt_does(viewer, labels):
    at = look(viewer, 1.0)
    labels.mode, labels.brush_size, labels.selected_label = "paint", 20, 5
    line = [at(0, 0), at(0, 40)]
    drag(viewer, line)
    place = tuple(int(v) for v in labels.world_to_data(at(0, 20)))
    before = np.asarray(labels.data[0][place]).item()
    assert before == 5
    for modifiers in (CONTROL, Qt.KeyboardModifier.AltModifier):
        drag(viewer, line, modifiers=modifiers)
        assert np.asarray(labels.data[0][place]).item() == 0
        drag(viewer, line)
        assert np.asarray(labels.data[0][place]).item() == 5


@pytest.mark.long
def test_one_click_of_the_bucket_warns_once(viewer, labels, reported):
    at = look(viewer, 1.0)
    labels.mode, labels.selected_label = "fill", 4
    click(viewer, at(0, 0))
    assert len(reported) == 1
    assert reported[0].startswith("Nothing was filled.")


def test_hidden_labels_say_once_why_they_take_no_paint(viewer, labels, monkeypatch):
    at = look(viewer, 1.0)
    reported = []
    monkeypatch.setattr(brush, "show_info", reported.append)
    line = [at(0, 0), at(0, 30)]
    labels.visible = False
    drag(viewer, line)
    drag(viewer, line)
    assert reported == ["These labels are hidden.\nShow 'labels' to paint."]
    assert not labels.unsaved
    labels.visible = True
    assert labels.mode == "paint"
    drag(viewer, [at(0, 0), at(0, 30)])
    assert labels.unsaved
    labels.mode = "pan_zoom"
    labels.visible = False
    drag(viewer, line)
    assert len(reported) == 1  # who only moves about is not told
    labels.mode = "erase"
    drag(viewer, line)
    assert len(reported) == 2
    labels.visible = True
    assert labels.mode == "erase"


def test_a_level_that_no_texture_holds_is_refused(viewer, labels, reported):
    controls = viewer.window._qt_viewer.controls.widgets[labels]
    box = controls._multiscale_level_control.level_combobox
    box.setCurrentIndex(3)
    assert labels.locked_data_level is None
    assert box.currentIndex() == 0
    assert "25000 voxels" in reported[0]
    box.setCurrentIndex(9)
    assert labels.locked_data_level == 8


def test_a_label_beyond_the_type_widens_it(viewer, monkeypatch):
    reported = []
    monkeypatch.setattr(canvas_labels, "show_info", reported.append)
    use_workers()
    layer = viewer.add_layer(OMEZarrLabels(wide("u1")))
    layer.mode, layer.brush_size = "paint", 30
    at = look(viewer, 2.0)
    drag(viewer, [at(-50, 0), at(-50, 50)])
    controls = viewer.window._qt_viewer.controls.widgets[layer]
    for label, dtype in ((300, "uint16"), (70_000, "uint32")):
        layer.selected_label = label
        assert layer.dtype == dtype
        assert layer._slice.image.raw.dtype == dtype
        drag(viewer, [at(label % 70, 0), at(label % 70, 50)])
        assert voxel(layer, at(label % 70, 20)) == label
        assert controls._label_control.selection_spinbox.maximum() >= label
        same_after_reslicing(viewer, layer)
    assert voxel(layer, at(-50, 20)) == 1
    assert len(reported) == 2


@pytest.mark.long
@pytest.mark.parametrize("wait", [False, True], ids=["sync", "async"])
def test_three_dimensions_show_edits(viewer, wait, monkeypatch):
    monkeypatch.setattr(get_settings().experimental, "async_", wait)
    use_workers()
    pixels = np.zeros((20, 64, 64), "u2")
    pixels[6:14, 16:48, 16:48] = 3

    layer = viewer.add_layer(
        OMEZarrLabels(Canvas(pyramid(pixels, [(20, 32, 32), (10, 16, 16)])))
    )
    layer.n_edit_dimensions = 3
    viewer.dims.ndisplay = 3
    viewer.reset_view()
    pump(200)
    middle = canvas(viewer).native.rect().center()
    for mode, label in (("paint", 5), ("erase", 5), ("fill", 9)):
        layer.mode, layer.selected_label, layer.brush_size = mode, label, 5
        before = len(layer.canvas.edits)
        drag_at(viewer, middle)
        assert len(layer.canvas.edits) > before, mode
        same_after_reslicing(viewer, layer)
        assert label in np.asarray(layer.data) or mode == "erase"
    layer.mode = "pick"
    layer.selected_label = 1
    drag_at(viewer, middle)
    assert layer.selected_label == 9


def drag_at(viewer, pixel):

    at = QPointF(pixel)
    send(viewer, QEvent.Type.MouseMove, at, NONE, NONE)
    pump()
    send(viewer, QEvent.Type.MouseButtonPress, at, LEFT, LEFT)
    pump()
    send(viewer, QEvent.Type.MouseButtonRelease, at, LEFT, NONE)
    pump(50)


def test_the_form_makes_labels_for_the_active_image(viewer):
    image = viewer.add_image(np.zeros((3, 40, 60), "u1"), scale=(2, 0.5, 0.5))
    show_form(viewer)
    form = shown_form(viewer, "New labels")
    assert form.called.value == "labels"
    form.called.value = "a/b"
    form.create_labels()
    assert "cannot be the name" in form.status.value
    form.called.value = "nuclei"
    form.create_labels()
    layer = viewer.layers["nuclei"]
    assert isinstance(layer, OMEZarrLabels)
    assert layer.data.shape == image.data.shape
    assert viewer.layers.selection.active is layer
    assert shown_form(viewer, "New labels") is None


def test_no_image_no_labels(viewer):
    show_form(viewer)
    form = shown_form(viewer, "New labels")
    assert not form.button.enabled
    viewer.add_image(np.zeros((40, 60), "u1"))
    form.reset_choices()
    assert form.button.enabled
    close_form(form)


def test_new_labels_of_any_size_take_no_time_and_memory(viewer):
    image = Image(
        [np.broadcast_to(np.uint8(0), (-(-SIDE // 2**k),) * 2) for k in range(9)],
        multiscale=True,
        contrast_limits=(0, 1),
    )
    layer = new_labels(image)
    assert layer.data.shape == (SIDE, SIDE)
    assert layer.canvas.nbytes == 0
