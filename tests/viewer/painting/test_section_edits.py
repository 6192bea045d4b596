"""Filling between sections of an object, and copying it, by the rules of the tools."""

from __future__ import annotations

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_ngff.labels.canvas import Canvas
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.painting.section_edits import edit_sections, hatch_section
from napari_ngff.viewer.session import session_of
from painting import between_sections, pyramid

SIZES = {"t": 3, "c": 2, "z": 12, "y": 30, "x": 40}
SCALES = {"t": 1.0, "c": 1.0, "z": 3.0, "y": 0.5, "x": 0.25}
LABEL, OTHER = 7, 3


def go_on(done, total):
    return 0 < done <= total


def opened(axes, pixels=None, **keywords):
    """Empty labels, or some, in a viewer, with chunks of several sections."""
    shape = tuple(SIZES[a] for a in axes)
    pixels = np.zeros(shape, "u2") if pixels is None else pixels
    chunks = tuple(5 if a in "zyx" else 1 for a in axes)
    coarse = tuple(
        n // 2 if a in "zyx" else n for a, n in zip(axes, shape, strict=True)
    )
    layer = OMEZarrLabels(
        Canvas(pyramid(pixels, [coarse], chunks)),
        axis_labels=tuple(axes),
        scale=[SCALES[a] for a in axes],
        translate=[10.0] * len(axes),
        **keywords,
    )
    viewer = ViewerModel()
    viewer.add_layer(layer)
    layer.selected_label = LABEL
    return viewer, layer


def shown(layer):
    return np.asarray(layer.canvas.levels[0])


def discs(shape, places, weights):
    """A stack with a disc in some of its sections, placed in shares of a section."""
    sizes = np.multiply(shape[1:], weights)
    rows, columns = np.ogrid[: shape[1], : shape[2]]
    stack = np.zeros(shape, bool)
    for index, (y, x, radius) in places.items():
        down, right = (
            rows * weights[0] - y * sizes[0],
            columns * weights[1] - x * sizes[1],
        )
        stack[index] = down**2 + right**2 <= (radius * min(sizes)) ** 2
        assert stack[index].any()
    return stack


PLACES = {
    1: (0.4, 0.4, 0.3),
    4: (0.5, 0.5, 0.4),
    5: (0.5, 0.6, 0.2),
    10: (0.6, 0.4, 0.3),
}


@pytest.mark.parametrize(
    ("axes", "order", "fixed"),
    [
        ("zyx", "zyx", {}),
        ("zyx", "yzx", {}),
        ("zyx", "xyz", {}),
        ("tzyx", "tzyx", {"t": 1}),
        ("tzyx", "tyxz", {"t": 2}),
        ("tczyx", "tczyx", {"t": 2, "c": 1}),
        ("tyx", "tyx", {}),
    ],
)
def test_sections_of_the_axis_on_screen_are_filled_by_one_step(axes, order, fixed):
    """The axis that the sections follow is none on screen: z, or another one after a
    roll; that of time alone where there is no z."""
    along = [a for a in order[:-2] if a in "zyx"] or ["t"]
    stack_axes = [along[-1], *sorted(order[-2:], key=axes.index)]
    shape = [SIZES[a] for a in stack_axes]
    weights = [SCALES[a] for a in stack_axes[1:]]
    places = {0: (0.4, 0.4, 0.3), 2: (0.5, 0.4, 0.2)} if shape[0] == 3 else PLACES
    stack = discs(shape, places, weights)
    pixels = np.zeros([SIZES[a] for a in axes], "u2")
    at = tuple(fixed.get(a, slice(None)) for a in axes)
    view = pixels[at]
    left = [a for a in axes if a not in fixed]
    view.transpose([left.index(a) for a in stack_axes])[stack] = LABEL
    viewer, layer = opened(axes, pixels.copy())
    viewer.dims.order = [axes.index(a) for a in order]
    for axis, index in fixed.items():
        step = index * SCALES[axis] + 10
        viewer.dims.set_point(axes.index(axis), step)
    edits = edit_sections(viewer, go_on)
    np.testing.assert_array_equal(shown(layer), pixels)
    edits.apply_edits()
    want = pixels.copy()
    part = want[at].transpose([left.index(a) for a in stack_axes])
    part[between_sections(stack, weights)] = LABEL
    np.testing.assert_array_equal(shown(layer), want)
    assert len(edits.edits) == len(set(range(min(places), max(places))) - set(places))
    layer.undo()
    np.testing.assert_array_equal(shown(layer), pixels)


def painted(**keywords):
    """A disc in two sections, and another object in all, right through the first."""
    shape = [SIZES[a] for a in "zyx"]
    weights = SCALES["y"], SCALES["x"]
    stack = discs(shape, {1: (0.4, 0.4, 0.3), 10: (0.5, 0.5, 0.3)}, weights)
    pixels = np.where(stack, LABEL, 0).astype("u2")
    pixels[2:10, 10:14] = OTHER
    return (
        *opened("zyx", pixels, **keywords),
        pixels,
        between_sections(stack, weights),
    )


def spare_all(layer):
    layer.only_over = 0


def draw_over_other(layer):
    layer.only_over = OTHER


def lock_other(layer):
    classes_of_layer(layer).add_class("nucleus", OTHER)
    classes_of_layer(layer).change_class(OTHER, locked=True)


def preserve(layer):
    layer.preserve_labels = True


@pytest.mark.parametrize(
    ("rule", "replaced"),
    [
        (lambda layer: None, {0}),
        (spare_all, {0}),
        (lock_other, {0}),
        (preserve, {0}),
        (draw_over_other, {OTHER}),
    ],
)
def test_background_is_replaced_or_what_draw_over_names(rule, replaced):
    viewer, layer, pixels, filled = painted()
    rule(layer)
    layer.selected_label = LABEL
    edits = edit_sections(viewer, go_on)
    edits.apply_edits()
    changed = filled & np.isin(pixels, list(replaced))
    np.testing.assert_array_equal(shown(layer), np.where(changed, LABEL, pixels))


def lock(layer):
    classes_of_layer(layer).add_class("cell", LABEL)
    classes_of_layer(layer).change_class(LABEL, locked=True)


def hide(layer):
    layer.visible = False


def make_read_only(layer):
    layer.read_only = "they are stored in wax."


def select(label):
    def select_it(layer):
        layer.selected_label = label

    return select_it


def keep_everything(layer):
    layer.only_over = 9


@pytest.mark.parametrize(
    ("refuse", "reason"),
    [
        (lock, "Label 7 is locked. Unlock it first."),
        (hide, "These labels are hidden. Show them first."),
        (make_read_only, "cannot be edited: they are stored in wax."),
        (select(0), "a label other than 0"),
        (select(8), "no pixel of label 8"),
        (keep_everything, "one that Draw over keeps"),
    ],
)
def test_what_may_not_be_filled_or_copied_is_refused(refuse, reason):
    viewer, layer, pixels, _ = painted()
    viewer.dims.set_current_step(0, 1)
    refuse(layer)
    for step in (0, 1):
        with pytest.raises(ValueError, match=reason):
            edit_sections(viewer, go_on, step).apply_edits()
    np.testing.assert_array_equal(shown(layer), pixels)


def test_labels_without_sections_and_objects_without_a_gap_are_refused():
    viewer, layer = opened("yx")
    with pytest.raises(ValueError, match="has one section"):
        edit_sections(viewer, go_on)
    viewer, layer, _, _ = painted()
    layer.selected_label = OTHER
    with pytest.raises(ValueError, match="or between two with the object"):
        edit_sections(viewer, go_on)


def test_in_3d_the_same_is_filled_and_nothing_is_copied():
    viewer, layer, pixels, filled = painted()
    viewer.dims.ndisplay = 3
    with pytest.raises(ValueError, match="in 2D"):
        edit_sections(viewer, go_on, 1)
    edit_sections(viewer, go_on).apply_edits()
    changed = filled & (pixels == 0)
    np.testing.assert_array_equal(shown(layer), np.where(changed, LABEL, pixels))


def test_what_is_filled_is_hatched_on_its_section_until_the_labels_change():
    viewer, _, pixels, filled = painted()
    edits = edit_sections(viewer, go_on)
    for index in range(12):
        viewer.dims.set_current_step(0, index)
        lines = hatch_section(viewer, edits).reshape(-1, 2, 2)
        hatched = np.zeros(pixels.shape[1:], bool)
        for (left, top), (right, bottom) in (lines - 10) / (SCALES["x"], SCALES["y"]):
            assert top == bottom or left == right
            hatched[round(top), round(left + 0.5) : round(right + 0.5)] = True
        changed = filled[index] & (pixels[index] == 0)
        np.testing.assert_array_equal(hatched, changed)
    edits.apply_edits()
    assert not np.ptp(hatch_section(viewer, edits), axis=0).any()


def test_strokes_made_meanwhile_are_kept_and_those_of_another_field():
    viewer, layer, _, _ = painted()
    for step in (0, 1):
        viewer.dims.set_current_step(0, 1)
        edits = edit_sections(viewer, go_on, step)
        layer.paint((5, 13, 17), 9)
        before = shown(layer)
        with pytest.raises(ValueError, match="was changed meanwhile"):
            edits.apply_edits()
        np.testing.assert_array_equal(shown(layer), before)
        edits = edit_sections(viewer, go_on, step)
        fresh = Canvas(pyramid(before, [(6, 15, 20)]))
        fresh.version = edits.version  # they count alike
        layer.exchange_canvas(fresh)
        layer.refresh()
        viewer.dims.set_current_step(0, 5 if step == 0 else 2)
        assert not np.ptp(hatch_section(viewer, edits), axis=0).any()
        with pytest.raises(ValueError, match="shows another image by now"):
            edits.apply_edits()
        np.testing.assert_array_equal(shown(layer), before)


def test_an_object_is_copied_along_the_slider_that_was_moved_last():
    viewer, layer = opened("tzyx")
    viewer.dims.set_current_step((0, 1), (1, 4))
    layer.paint((1, 4, 10, 10), LABEL)
    layer.paint((1, 4, 20, 20), OTHER)
    layer.paint((1, 5, 10, 11), OTHER)
    section = shown(layer)[1, 4] == LABEL
    viewer.dims.last_used = 1
    layer.only_over = 0
    before = shown(layer)
    for _ in range(3):
        session_of(viewer).copy_object(1)
    assert viewer.dims.current_step[:2] == (1, 7)
    session_of(viewer).copy_object(-1)  # it is there already
    assert viewer.dims.current_step[:2] == (1, 7)
    found = shown(layer)
    assert (found[1, 5][before[1, 5] == OTHER] == OTHER).all()
    for z in (5, 6, 7):
        want = section & (before[1, 5] == 0)
        np.testing.assert_array_equal(found[1, z] == LABEL, want)
    viewer.dims.last_used = 0
    session_of(viewer).copy_object(-1)
    assert viewer.dims.current_step[:2] == (0, 7)
    np.testing.assert_array_equal(shown(layer)[0, 7], found[1, 7])
    for _ in range(4):
        layer.undo()
    np.testing.assert_array_equal(shown(layer), before)
