"""Painting in 3D with the mouse: each stroke lands on the first visible voxel.

What is visible is taken from what napari draws: each pixel of the canvas is mapped into
the volume by the transformation of its visual, and the line is followed in small steps.
"""

from __future__ import annotations

import numpy as np
import pytest
from qtpy.QtCore import QEvent, QPointF

from mouse import LEFT, NONE, camera, canvas, pump, send, until
from napari_ngff.labels.canvas import Canvas
from napari_ngff.viewer.layers.label_colors import recolor_labels
from napari_ngff.viewer.painting import brush
from napari_ngff.viewer.painting.line_of_sight import crossed_voxels
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from painting import pyramid

OBLIQUE = (17, 33, 61)
"""Angles of a camera that looks along no axis and no diagonal."""

NEW = 77


def show(viewer, pixels, shapes=(), angles=OBLIQUE, level=None, **keywords):
    """Show labels in 3D from an angle, ready to be painted voxel by voxel."""
    layer = OMEZarrLabels(Canvas(pyramid(pixels, shapes)), **keywords)
    viewer.add_layer(layer)
    layer.n_edit_dimensions = 3
    layer.selected_label, layer.brush_on_screen = NEW, False
    viewer.dims.ndisplay = 3
    layer.brush_size = 1
    if level is not None:
        layer.locked_data_level = level
    viewer.reset_view()
    # Small, since tests draw without a graphics card.
    camera(viewer).zoom /= 2.5
    camera(viewer).angles = angles
    until(lambda: layer._slicing_state.screen_part() is not None)
    pump(100)
    return layer


def line_of(viewer, layer, pixel):
    """Points on the line of a pixel in the volume that is drawn, from the eye on."""
    visual = canvas(viewer).layer_to_visual[layer].node
    mapped = visual.get_transform("visual", "canvas")
    ends = [mapped.imap([*pixel, depth, 1]) for depth in (0.0, 1.0)]
    start, further = (end[:3] / end[3] for end in ends)
    # Towards the back: away from the eye, as the shader walks.
    way = (further - start)[::-1] / np.linalg.norm(further - start)
    towards = np.asarray(camera(viewer).view_direction) @ way
    return start[::-1], way * np.sign(towards)


def first_seen(viewer, layer, pixel, shown, step=1 / 64):
    """Voxel of the picture that is hit, by small steps; None for nothing."""
    start, way = line_of(viewer, layer, pixel)
    shape = np.array(shown.shape)
    middle = way @ (shape / 2 - start)
    reach = np.linalg.norm(shape)
    points = start + np.arange(middle - reach, middle + reach, step)[:, None] * way
    voxels = np.round(points).astype(int)
    inside = ((voxels >= 0) & (voxels < shape)).all(axis=1)
    voxels = voxels[inside]
    hits = np.flatnonzero(shown[tuple(voxels.T)])
    return tuple(map(int, voxels[hits[0]])) if len(hits) else None


def pixels_over(viewer, layer, shown, count, seed=1):
    """Random pixels of the canvas whose line hits a visible voxel, and the voxels.

    Not those with a line that passes an edge of a voxel closely: small steps may miss
    it.
    """
    random = np.random.default_rng(seed)
    middle = canvas(viewer).native.rect().center()
    found = []
    for offset in random.integers(-150, 150, (5000, 2)).tolist():
        pixel = [middle.x() + offset[0], middle.y() + offset[1]]
        hits = (
            first_seen(viewer, layer, (pixel[0] + x, pixel[1] + y), shown)
            for x in (-0.2, 0.2)
            for y in (-0.2, 0.2)
        )
        voxel = next(hits)
        if voxel is not None and all(hit == voxel for hit in hits):
            found.append((pixel, voxel))
        if len(found) == count:
            return found
    raise AssertionError("too few pixels")


def press(viewer, pixels, pause=2):
    """Press at the first pixel, move along the others, release at the last."""
    places = [QPointF(*pixel) for pixel in pixels]
    send(viewer, QEvent.Type.MouseMove, places[0], NONE, NONE)
    pump(pause)
    send(viewer, QEvent.Type.MouseButtonPress, places[0], LEFT, LEFT)
    for place in places[1:]:
        send(viewer, QEvent.Type.MouseMove, place, NONE, LEFT)
        pump(8)
    send(viewer, QEvent.Type.MouseButtonRelease, places[-1], LEFT, NONE)
    pump(pause)


def changed(layer, before):
    """Voxels of level 0 that differ from before."""
    voxels = np.argwhere(np.asarray(layer.data[0]) != before)
    return [tuple(map(int, voxel)) for voxel in voxels]


def click_each(viewer, layer, pixels, places):
    """Click each place with the present tool, and undo; misses as (place, painted)."""
    misses = []
    for pixel, voxel in places:
        press(viewer, [pixel])
        found = changed(layer, pixels)
        if found != [voxel]:
            misses.append((pixel, voxel, found))
        if found:
            layer.undo()
    return misses


def thin_sheet(side=40):
    """An oblique sheet, a voxel thick, in front of a wall."""
    z, y, x = np.mgrid[:side, :side, :side]
    pixels = np.zeros((side,) * 3, "uint16")
    pixels[np.abs(0.41 * z + 0.62 * y + 0.67 * x - 30) < 0.5] = 3
    pixels[38:] = 5
    return pixels


def two_walls(side=24):
    """Label 1 in front of label 2, for any camera; in a type that is coloured anew."""
    pixels = np.zeros((side,) * 3, "uint32")
    z, y, x = np.mgrid[:side, :side, :side] - side // 2
    distance = np.sqrt(z**2 + y**2 + x**2)
    pixels[distance < side // 2] = 1
    pixels[distance < side // 4] = 2
    return pixels


def hide_label(layer):
    layer.colormap = recolor_labels(layer.colormap, {1: np.zeros(4, np.float32)})


def select_only(layer):
    layer.selected_label, layer.show_selected_label = 2, True


def test_a_click_paints_the_first_visible_voxel(viewer):
    pixels = thin_sheet()
    layer = show(viewer, pixels)
    layer.mode = "paint"
    places = pixels_over(viewer, layer, pixels > 0, 10)
    assert click_each(viewer, layer, pixels, places) == []


@pytest.mark.long
# Of napari, about the picture in 2D before the volume is shown.
@pytest.mark.filterwarnings("ignore:Non-orthogonal slicing")
@pytest.mark.default_cases("stretched")
@pytest.mark.parametrize(
    "placed",
    [
        pytest.param({"scale": (3, 1, 0.5), "translate": (7, -2, 30)}, id="stretched"),
        pytest.param({"scale": (1, -2, 1)}, id="mirrored"),
        pytest.param({"rotate": (10, 20, 30), "scale": (1, 2, 1)}, id="rotated"),
    ],
)
def test_voxels_of_any_shape(viewer, placed):
    pixels = thin_sheet(24)
    layer = show(viewer, pixels, **placed)
    layer.mode = "erase"
    places = pixels_over(viewer, layer, pixels > 0, 10)
    assert click_each(viewer, layer, pixels, places) == []


@pytest.mark.long
@pytest.mark.parametrize("look", [hide_label, select_only])
def test_what_is_transparent_takes_no_stroke(viewer, look):
    pixels = two_walls()
    layer = show(viewer, pixels)
    look(layer)
    layer.mode = "erase"
    places = pixels_over(viewer, layer, pixels == 2, 3)
    assert click_each(viewer, layer, pixels, places) == []
    pixel, _ = places[0]
    layer.mode = "pick"
    layer.selected_label = 2 if layer.show_selected_label else NEW
    press(viewer, [pixel])
    assert layer.selected_label == 2
    assert value_under_mouse(viewer, layer) == 2
    layer.show_selected_label, layer.selected_label = False, NEW
    look is select_only and hide_label(layer)
    layer.mode = "fill"
    press(viewer, [pixel])
    assert np.array_equal(np.asarray(layer.data[0]), np.where(pixels == 2, NEW, pixels))


def value_under_mouse(viewer, layer):
    """The value for the status bar, which napari finds in a thread."""
    cursor = viewer.cursor
    found = layer.get_value(
        cursor.position,
        view_direction=cursor._view_direction,
        dims_displayed=list(viewer.dims.displayed),
        world=True,
    )
    return found and found[1]


def test_beside_what_is_visible_nothing_is_painted(viewer, monkeypatch):
    reported = []
    monkeypatch.setattr(brush, "show_info", reported.append)
    pixels = two_walls()
    layer = show(viewer, pixels)
    hide_label(layer)
    layer.mode, layer.selected_label = "paint", NEW
    inside = {pixel for pixel, _ in visible_pixels(viewer, layer, pixels == 2)}
    over = {pixel for pixel, _ in visible_pixels(viewer, layer, pixels == 1)}
    beside = sorted(over - inside)[:: len(over - inside) // 4]
    for pixel in beside:
        press(viewer, [pixel])
    assert changed(layer, pixels) == []
    assert len(reported) == len(beside), "it is not silent"
    assert reported[0].startswith("Nothing painted: no label is there.\n")
    press(viewer, [sorted(inside)[len(inside) // 2]])
    assert len(changed(layer, pixels)) == 1
    assert len(reported) == len(beside)


def visible_pixels(viewer, layer, shown, every=25):
    """A grid of pixels of the canvas over what is visible, each with its voxel."""
    middle = canvas(viewer).native.rect().center()
    for x in range(middle.x() - 150, middle.x() + 150, every):
        for y in range(middle.y() - 150, middle.y() + 150, every):
            voxel = first_seen(viewer, layer, (x, y), shown, step=1 / 16)
            if voxel is not None:
                yield (x, y), voxel


def ball(side=40):
    z, y, x = np.mgrid[:side, :side, :side] - (side - 1) / 2
    return np.where(z**2 + y**2 + x**2 < (side / 2 - 2) ** 2, 3, 0).astype("uint16")


def way_across(viewer, layer, shown, moves):
    """Pixels from one side of an object to the other, through its middle."""
    found = [pixel for pixel, _ in visible_pixels(viewer, layer, shown)]
    low, high = np.min(found, axis=0), np.max(found, axis=0)
    middle = (low + high) // 2
    across = np.linspace(low[0] + 3, high[0] - 3, moves)
    return [(int(x), int(middle[1])) for x in across]


@pytest.mark.long
@pytest.mark.parametrize("moves", [30, 3])
@pytest.mark.parametrize("mode", ["paint", "erase"])
def test_a_long_stroke_stays_on_the_surface(viewer, mode, moves):
    pixels = ball()
    layer = show(viewer, pixels)
    way = way_across(viewer, layer, pixels > 0, moves)
    facing = -np.asarray(camera(viewer).view_direction)
    layer.mode, layer.brush_size = mode, 7
    press(viewer, way)
    assert len(layer._undo_history) == 1
    centres = np.concatenate([edit.shape.dab_centres() for edit in layer.canvas.edits])
    # However far the mouse moves at once, no dab is farther than half a brush from the
    # last; a diagonal of a voxel is for what is rounded.
    steps = np.linalg.norm(np.diff(centres, axis=0), axis=1)
    assert steps.max() <= layer.brush_size / 2 + 3**0.5
    # Each centre is a voxel of the ball with air before it, on the near side.
    assert (pixels[tuple(centres.T)] > 0).all()
    from_middle = centres - (np.array(pixels.shape) - 1) / 2
    depth = pixels.shape[0] / 2 - 2 - np.linalg.norm(from_middle, axis=1)
    assert depth.max() < 1.8
    assert (from_middle @ facing > -2).all()
    # And no gap.
    drawn, painted = np.asarray(layer.data[0]), NEW if mode == "paint" else 0
    between = np.linspace(way[0], way[-1], 40)
    voxels = [first_seen(viewer, layer, pixel, pixels > 0) for pixel in between]
    assert {int(drawn[voxel]) for voxel in voxels} == {painted}
    layer.undo()
    assert changed(layer, pixels) == []


def test_the_next_stroke_is_on_the_paint_of_the_last(viewer):
    pixels = ball(24)
    layer = show(viewer, pixels)
    way = way_across(viewer, layer, pixels > 0, 5)
    layer.mode, layer.brush_size = "paint", 7
    press(viewer, way[2:3])
    drawn = np.asarray(layer.data[0])
    expected = first_seen(viewer, layer, way[2], drawn > 0)
    assert not pixels[expected]
    layer.brush_size, layer.selected_label = 1, 9
    press(viewer, way[2:3])
    assert changed(layer, drawn) == [expected]


@pytest.mark.long
@pytest.mark.parametrize("level", [1, 2])
def test_a_coarser_level_is_hit_where_it_is_drawn(viewer, level):
    pixels = thin_sheet(41)[:, :40, :39]
    layer = show(
        viewer, pixels, [(21, 20, 20), (11, 10, 10)], level=level, scale=(2, 1, 1)
    )
    until(lambda: layer.data_level == level)
    picture = layer._slice.image.raw.copy()
    shape, full = np.array(picture.shape), np.array(pixels.shape)
    assert tuple(shape) == layer.canvas.levels[level].shape
    layer.mode = "paint"
    for pixel, voxel in pixels_over(viewer, layer, picture > 0, 6):
        press(viewer, [pixel])
        (painted,) = changed(layer, pixels)
        assert tuple(((np.array(painted) + 0.5) * shape / full).astype(int)) == voxel
        layer.undo()
    # The bucket fills the object that is drawn, also where level 0 is empty there.
    layer.mode = "fill"
    press(viewer, [pixel])
    label = picture[voxel]
    drawn = np.asarray(layer.data[0])
    assert (drawn == NEW).any()
    assert (pixels[drawn == NEW] == label).all()


@pytest.mark.long
def test_a_finer_picture_during_a_stroke_does_not_move_it(viewer):
    pixels = ball()
    layer = show(viewer, pixels, [(20, 20, 20)], level=1)
    coarse = layer._slice.image.raw.copy()
    way = way_across(viewer, layer, coarse > 0, 9)
    layer.mode, layer.brush_size = "paint", 9
    places = [QPointF(*pixel) for pixel in way]
    send(viewer, QEvent.Type.MouseMove, places[0], NONE, NONE)
    send(viewer, QEvent.Type.MouseButtonPress, places[0], LEFT, LEFT)
    for number, place in enumerate(places):
        if number == 4:
            layer.locked_data_level = 0
        send(viewer, QEvent.Type.MouseMove, place, NONE, LEFT)
        pump(8)
    send(viewer, QEvent.Type.MouseButtonRelease, places[-1], LEFT, NONE)
    pump()
    centres = np.concatenate([edit.shape.dab_centres() for edit in layer.canvas.edits])
    assert len(centres) > 10
    assert (coarse[tuple(centres.T // 2)] > 0).all()


@pytest.mark.long
def test_the_picture_shows_the_label_that_is_picked(viewer):
    # Thick objects: napari draws by steps of 0.8 voxels, and leaves out thin corners.
    pixels = ball(30)
    pixels[:, 15:][pixels[:, 15:] > 0] = 5
    layer = show(viewer, pixels)
    colors = {3: (1, 0, 0, 1), 5: (0, 0, 1, 1)}
    layer.colormap = recolor_labels(
        layer.colormap, {label: np.array(c, "f4") for label, c in colors.items()}
    )
    layer.rendering, layer.opacity = "translucent", 1  # without shades
    pump(100)
    shot = viewer.screenshot(canvas_only=True, flash=False)
    ratio = shot.shape[1] / canvas(viewer).native.width()
    shown = layer._slice.image.raw
    layer.mode = "pick"
    for pixel, voxel in pixels_over(viewer, layer, shown > 0, 8, seed=3):
        x, y = (int((at + 0.5) * ratio) for at in pixel)
        layer.selected_label = NEW
        press(viewer, [pixel])
        assert layer.selected_label == shown[voxel]
        assert np.allclose(shot[y, x][:3] / 255, colors[layer.selected_label][:3])


@pytest.mark.long
@pytest.mark.parametrize(("tool", "label"), [("join", 3), ("delete", 0)])
def test_the_object_under_the_mouse_is_joined_or_deleted(viewer, tool, label):
    pixels = two_walls()
    half = pixels[..., pixels.shape[-1] // 2 :]
    half[half == 2] = 3
    layer = show(viewer, pixels)
    hide_label(layer)
    _, dock = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    viewer.layers.selection.active = layer
    getattr(dock.objects, tool).setChecked(True)
    pump()
    # To join, the object that stays is clicked first.
    for clicked in (3, 2) if tool == "join" else (2,):
        places = pixels_over(viewer, layer, pixels > 1, 40)
        press(viewer, [next(p for p, voxel in places if pixels[voxel] == clicked)])
        until(lambda: tool == "delete" or layer.selected_label == 3)
    expected = np.where(pixels == 2, label, pixels)
    until(lambda: np.array_equal(np.asarray(layer.data[0]), expected))


@pytest.mark.parametrize("scale", [(1, 1, 1), (1, 2, 0.5)])
def test_a_line_crosses_the_voxels_that_small_steps_find(scale):
    random, shape = np.random.default_rng(5), np.array([7, 9, 5])
    for _ in range(40):
        start, way = random.uniform(-3, 12, 3), random.normal(size=3) * scale
        way[random.integers(6) :][:1] = 0
        voxels, times = crossed_voxels(start, way, shape)
        points = start + np.arange(-60, 60, 1 / 512)[:, None] * way
        steps = np.floor(points).astype(int)
        steps = steps[((steps >= 0) & (steps < shape)).all(axis=1)]
        found = [tuple(voxel) for voxel in voxels.tolist()]
        assert list(dict.fromkeys(map(tuple, steps.tolist()))) == [
            voxel for voxel in found if voxel in set(map(tuple, steps.tolist()))
        ]
        moved = np.abs(np.diff(voxels, axis=0)).sum(axis=1)
        assert (moved == 1).all()
        entered = start + times[:, None] * way
        assert (np.abs(entered - voxels - 0.5) < 0.5 + 1e-6).all()
