"""Painted labels against napari's own, and against plain rules at coarser levels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from napari.components import ViewerModel
from napari.layers import Labels

from napari_ngff.labels import dabs, edits, shapes
from napari_ngff.labels.canvas import Canvas
from napari_ngff.viewer.painting.paint import FIRST_BRUSH, OMEZarrLabels
from painting import pyramid, sampled, touched


@dataclass(frozen=True)
class Case:
    shape: tuple
    coarser: tuple
    order: tuple
    edited: int = 2
    scale: tuple = ()
    chunks: tuple = ()


CASES = {
    "2D": Case((61, 83), ((31, 42), (16, 21)), (0, 1)),
    "2D odd, by thirds": Case((50, 77), ((17, 26), (6, 9)), (0, 1), chunks=(13, 19)),
    "2D transposed": Case((61, 83), ((31, 42),), (1, 0)),
    "2D anisotropic": Case((61, 83), ((31, 83), (10, 17)), (0, 1), scale=(2.0, 0.7)),
    "planes of 3D": Case((7, 40, 52), ((7, 20, 26), (4, 10, 13)), (0, 1, 2)),
    "3D, z first": Case((7, 40, 52), ((4, 20, 26),), (1, 0, 2), scale=(3.0, 1, 1)),
    "3D, rolled": Case((7, 40, 52), ((4, 20, 26), (2, 7, 9)), (2, 0, 1)),
    "3D brush": Case((9, 30, 42), ((5, 15, 21), (3, 8, 11)), (0, 1, 2), 3),
    "3D brush, anisotropic": Case(
        (9, 30, 42), ((9, 15, 21), (4, 7, 10)), (0, 1, 2), 3, (2.5, 1.0, 1.0)
    ),
    "time series": Case((3, 5, 24, 30), ((3, 5, 12, 15), (3, 3, 6, 8)), (0, 1, 2, 3)),
}


@st.composite
def programs(draw, case):
    def point():
        spread = [st.floats(-3, n + 3, width=32) for n in case.shape]
        at = [draw(one) for one in spread]
        for axis in case.order[: -case.edited]:
            at[axis] = plane[axis]
        return at

    plane = [draw(st.integers(0, n - 1)) for n in case.shape]
    tools = ["dab", "drag", "erase", "fill", "polygon", "set", "undo", "redo"]
    actions = []
    for _ in range(draw(st.integers(1, 8))):
        tool = draw(st.sampled_from(tools))
        points = [point() for _ in range(draw(st.integers(3, 6)))]
        actions.append(
            (
                tool,
                points,
                draw(st.integers(0, 4)),
                draw(st.sampled_from([1, 2, 5, 10, 23])),
                draw(st.booleans()),
                draw(st.booleans()),
            )
        )
    return plane, actions, draw(st.integers(0, len(case.coarser)))


def act(layer, action):
    """Do one thing with a layer, as one step of undo; errors count as an answer."""
    tool, points, label, size, preserve, contiguous = action
    layer.brush_size, layer.preserve_labels = size, preserve
    layer.contiguous = contiguous
    if label:
        layer.selected_label = label
    try:
        with layer.block_history():
            if tool == "dab":
                layer.paint(points[0], label)
            elif tool in ("drag", "erase"):
                layer.mode = "paint" if tool == "drag" else "erase"
                label = label if tool == "drag" else 0
                for start, stop in zip([points[0], *points], points, strict=False):
                    layer._draw(label, start, stop)
            elif tool == "fill":
                layer.fill(points[0], label)
            elif tool == "polygon":
                layer.paint_polygon(points, label)
            elif tool == "set":
                shape = np.array(layer.data.shape)
                index = np.clip(np.round(points).astype(int), 0, shape - 1)
                layer.data_setitem(tuple(index.T), label)
    except (IndexError, NotImplementedError) as error:
        return type(error)
    return None


def show(viewer, case, plane, layers):
    viewer.layers.clear()
    for layer in layers:
        viewer.add_layer(layer)
    viewer.dims.order = case.order
    scale = case.scale or (1,) * len(case.shape)
    for axis in case.order[:-2]:
        viewer.dims.set_point(axis, plane[axis] * scale[axis])
    for layer in layers:
        layer.n_edit_dimensions = case.edited


def blobs(shape, seed=0):
    small = np.random.default_rng(seed).integers(0, 4, [-(-n // 7) for n in shape])
    big = np.kron(small, np.ones((7,) * len(shape), int))
    return big[tuple(slice(n) for n in shape)].astype("u2")


def expected(canvas, number):
    """A level by the stated rule: edit for edit, in plain numpy."""
    level = canvas.levels[number]
    values = level.source.pixels.copy()
    full = canvas.levels[0]
    whole = tuple((0, n) for n in full.shape)
    for edit in canvas.edits:
        region = edit.region_in(full.grid, whole)
        if region is None:
            continue
        mask = np.zeros(full.shape, bool)
        mask[tuple(slice(*span) for span in region)] = edit.covered_voxels(
            full.grid, region
        )
        axes = list(edit.axes)
        shape = list(full.shape)
        at = [slice(None)] * len(shape)
        for axis, index in edit.fixed:
            factor = full.shape[axis] / level.shape[axis]
            at[axis] = int(min(np.round(index / factor), level.shape[axis] - 1))
            shape[axis] = 1
            mask = mask.take([index], axis)
        for axis in axes:
            shape[axis] = level.shape[axis]
        mask = (touched if edit.touch else sampled)(mask, shape)
        part = values[tuple(at)]
        mask = mask.reshape(part.shape)
        if edit.source is not None:
            mask &= part == edit.source
        part[mask] = edit.label
    return values


@pytest.mark.default_cases("3D brush")
@pytest.mark.parametrize("name", ["2D anisotropic", "3D brush"])
def test_a_large_brush_is_like_napari_and_by_rule_too(name, monkeypatch):
    # Of a brush beyond this size, a step looks at its crescent only.
    for module in (dabs, edits, shapes):
        monkeypatch.setattr(module, "SMALL", 20)
    monkeypatch.setattr(dabs, "BAND", 4)
    test_like_napari_at_level_0_and_by_rule_above(name)


@pytest.mark.default_cases(
    "2D odd, by thirds", "planes of 3D", "3D brush, anisotropic", "time series"
)
@pytest.mark.parametrize("name", CASES)
def test_like_napari_at_level_0_and_by_rule_above(name):
    case = CASES[name]
    viewer = ViewerModel()

    @settings(max_examples=8, deadline=None, derandomize=True, database=None)
    @given(programs(case))
    def run(program):
        plane, actions, shown = program
        pixels = blobs(case.shape)
        scale = case.scale or None
        chunks = case.chunks or None
        canvas = Canvas(pyramid(pixels, case.coarser, chunks))
        ours = OMEZarrLabels(canvas, scale=scale)
        stock = Labels(pixels.copy(), scale=scale)
        show(viewer, case, plane, [ours, stock])
        ours.locked_data_level = shown
        states = [stock.data.copy()]
        at = 0
        for action in actions:
            if action[0] in ("undo", "redo"):
                step = -1 if action[0] == "undo" else 1
                if 0 <= at + step < len(states):
                    at += step
                getattr(ours, action[0])()
                stock.data[...] = states[at]
            else:
                before = len(ours._undo_history)
                assert act(ours, action) == act(stock, action)
                if len(ours._undo_history) > before:
                    del states[at + 1 :]
                    states.append(stock.data.copy())
                    at += 1
            np.testing.assert_array_equal(np.asarray(ours.data), stock.data)
        for number in range(len(canvas.levels)):
            np.testing.assert_array_equal(
                np.asarray(canvas.levels[number]), expected(canvas, number)
            )
        picture = ours._slice.image.raw.copy()
        texture = np.array(ours._slice.image.view)
        ours.refresh()
        np.testing.assert_array_equal(picture, ours._slice.image.raw)
        np.testing.assert_array_equal(texture, ours._slice.image.view)

    run()


@pytest.mark.parametrize("plane", [-2, -1, -0.6, 6.6, 7])
def test_code_cannot_paint_outside_of_the_planes(plane):
    layer = OMEZarrLabels(Canvas(pyramid(blobs((7, 40, 52)), ())))
    corners = [(plane, 5, 5), (plane, 5, 15), (plane, 15, 15)]
    for paint in (
        lambda: layer.paint(corners[0], 9),
        lambda: layer.fill(corners[0], 9),
        lambda: layer.paint_polygon(corners, 9),
    ):
        with pytest.raises(IndexError, match="no plane"):
            paint()
    assert layer.canvas.edits == ()


def test_a_polygon_is_painted_where_it_is_finished_and_taken_away():
    viewer = ViewerModel()
    pixels = np.zeros((7, 40, 52), "u2")
    layer = viewer.add_layer(OMEZarrLabels(Canvas(pyramid(pixels, ()))))
    viewer.add_image(np.zeros((9, 40, 52)))
    overlay, layer.selected_label = layer._overlays["polygon"], 9
    for planes, painted in [((1, 1, 3), {3}), ((3, 8, 8), {3}), ((8, 8, 2), {2, 3})]:
        for plane, corner in zip(planes, [(5, 5), (5, 15), (15, 15)], strict=True):
            viewer.dims.set_point(0, plane)
            overlay.points = [*overlay.points, (float(plane), *corner)]
        overlay.add_polygon_to_labels(layer)
        assert overlay.points == []
        changed = np.argwhere(np.asarray(layer.data) == 9)
        assert set(changed[:, 0].tolist()) == painted
    overlay.points = [(2.0, 5, 5), (2.0, 5, 15), (2.0, 15, 15)]
    layer.n_edit_dimensions = 3
    with pytest.raises(NotImplementedError):
        overlay.add_polygon_to_labels(layer)
    assert overlay.points == []


@pytest.mark.filterwarnings("ignore:Non-orthogonal slicing")
def test_oblique_labels_are_painted_where_they_are_drawn():
    matrix = np.eye(4)
    matrix[2, 0], matrix[1, 0], matrix[0, 2] = 0.7, -0.4, 0.1
    viewer = ViewerModel()
    layer = OMEZarrLabels(
        Canvas(pyramid(np.zeros((9, 40, 52), "u2"), ())), affine=matrix, scale=(2, 1, 1)
    )
    viewer.add_layer(layer)
    for plane in range(8):
        viewer.dims.set_point(0, 2.0 * plane)
        drawn = layer._transforms[1:].simplified.set_slice([1, 2])
        for place in [(3.0, 4.0), (20.0, 30.0)]:
            layer.paint(layer.world_to_data((2.0 * plane, *drawn(place))), 3)
            picture = layer._slice.image.raw
            assert picture[tuple(map(int, place))] == 3


def test_a_brush_far_away_is_no_larger_than_controls_can_show():
    layer = OMEZarrLabels(Canvas(pyramid(np.zeros((8, 8), "u2"), ())))
    for pixel_size in (1e9, 1e300, np.inf):
        layer.fit_brush(pixel_size)
        assert 1000 < layer.brush_size < 2**31
    layer.fit_brush(1.0)
    assert layer.brush_size == FIRST_BRUSH
