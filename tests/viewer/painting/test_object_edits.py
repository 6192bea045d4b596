from __future__ import annotations

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_ngff.labels import label_objects
from napari_ngff.labels.canvas import Canvas
from napari_ngff.viewer.painting import object_edits
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.object_edits import (
    cut_object,
    delete_object,
    join_objects,
    label_at,
    label_region,
    show_region,
)
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.streaming.regions import view_region
from painting import pyramid


def two_discs(**keywords):
    y, x = np.ogrid[:60, :90]
    discs = ((y - 30) ** 2 + (x - 30) ** 2 < 300) | (
        (y - 30) ** 2 + (x - 58) ** 2 < 300
    )
    pixels = np.where(discs, 5, 0).astype("u2")
    pixels[2:6, 2:6] = 9
    canvas = Canvas(pyramid(pixels, [(30, 45)]))
    return OMEZarrLabels(canvas, **keywords), pixels


def shown(layer):
    return np.asarray(layer.canvas.levels[0])


def test_touching_objects_are_cut_at_their_neck_and_joined_again():
    layer, pixels = two_discs()
    assert cut_object(layer, [(30, 20), (30, 70)]).apply_edits() == (5, 10)
    found = shown(layer)
    np.testing.assert_array_equal(found > 0, pixels > 0)
    left, right = (np.argwhere(found == value)[:, 1] for value in (5, 10))
    assert left.max() <= 45
    assert right.min() >= 43
    assert abs(len(left) - len(right)) < 60
    assert join_objects(layer, (30, 70), 5).apply_edits() == (10,)
    np.testing.assert_array_equal(shown(layer), pixels)
    layer.undo()
    layer.undo()
    np.testing.assert_array_equal(shown(layer), pixels)


def test_pieces_that_were_joined_are_parted_again():
    """Two places in one piece beside another are none that part anything."""
    layer, _ = two_discs()
    join_objects(layer, (3, 3), 5).apply_edits()
    assert cut_object(layer, [(30, 30), (3, 3)]).apply_edits() == (5, 10)
    found = shown(layer)
    assert set(np.unique(found[2:6, 2:6])) == {10}
    assert set(np.unique(found[10:])) == {0, 5}
    layer.undo()
    with pytest.raises(ValueError, match="different places"):
        cut_object(layer, [(30, 20), (30, 70), (3, 3)])


@pytest.mark.parametrize("edited", [2, 3])
def test_three_parts_in_a_stack(edited):
    pixels = np.zeros((5, 20, 60), "u1")
    pixels[1:4, 5:15, 5:55] = 3
    layer = OMEZarrLabels(Canvas(pyramid(pixels, [])))
    layer.n_edit_dimensions = edited
    found = cut_object(layer, [(2, 10, 8), (2, 10, 30), (2, 10, 52)])
    assert found.apply_edits() == (3, 4, 5)
    assert all(set(np.unique(z)) == {0, 3, 4, 5} for z in shown(layer)[1:4])
    np.testing.assert_array_equal(shown(layer) > 0, pixels > 0)


def test_clicks_that_mean_nothing_are_refused_and_change_nothing():
    layer, pixels = two_discs()
    for seeds in ([(0, 0), (30, 30)], [(30, 30)], [(30, 30), (3, 3)], [(30, 30)] * 2):
        with pytest.raises(ValueError, match="Click"):
            cut_object(layer, seeds)
    for at in ((0, 0), (30, 30), (-1, 4), (60, 0)):
        with pytest.raises(ValueError, match="Click"):
            join_objects(layer, at, 5)
    with pytest.raises(ValueError, match="Click"):
        delete_object(layer, (0, 0))
    with pytest.raises(ValueError, match="no voxel of label 7"):
        delete_object(layer, (3, 3), 7)
    np.testing.assert_array_equal(shown(layer), pixels)
    assert label_at(layer, (3, 3)) == 9


def lock(layer):
    classes_of_layer(layer).add_class("cell", 9)
    classes_of_layer(layer).change_class(9, locked=True)


def hide_class(layer):
    classes_of_layer(layer).add_class("cell", 9)
    classes_of_layer(layer).change_class(9, hidden=True)


def hide_layer(layer):
    layer.visible = False


def show_another(layer):
    layer.selected_label, layer.show_selected_label = 5, True


def make_read_only(layer):
    layer.read_only = "they are stored in wax."


@pytest.mark.parametrize(
    ("refuse", "reason"),
    [
        (lock, "Label 9 is locked. Unlock it first."),
        (hide_class, "Label 9 is hidden. Show it first."),
        (hide_layer, "These labels are hidden. Show them first."),
        (show_another, "Label 9 is hidden. Show it first."),
        (make_read_only, "cannot be edited: they are stored in wax."),
    ],
)
@pytest.mark.parametrize(
    "change",
    [
        lambda layer: join_objects(layer, (3, 3), 5),
        lambda layer: cut_object(layer, [(2, 2), (5, 5)]),
        lambda layer: delete_object(layer, (3, 3)),
        lambda layer: delete_object(layer, (50, 80), 9),
    ],
)
def test_what_may_not_be_changed_or_is_not_seen_is_refused(change, refuse, reason):
    layer, pixels = two_discs()
    refuse(layer)
    with pytest.raises(ValueError, match=reason):
        change(layer).apply_edits()
    np.testing.assert_array_equal(shown(layer), pixels)


AXES = {
    "yx": (40, 60),
    "zyx": (5, 40, 60),
    "tyx": (3, 40, 60),
    "tzyx": (2, 4, 40, 60),
    "cyx": (2, 40, 60),
}


def scattered(axes, seed):
    """Objects of several parts that cross chunks, some in several time points."""
    random = np.random.default_rng(seed)
    pixels = np.zeros(AXES[axes], "u2")
    for _ in range(12):
        low = [int(random.integers(size)) for size in pixels.shape]
        box = [slice(a, a + int(random.integers(1, 25))) for a in low]
        pixels[tuple(box)] = random.integers(1, 5)
    return pixels


@pytest.mark.default_cases("yx-2", "zyx-3", "tyx-2", "tzyx-2", "cyx-2")
@pytest.mark.parametrize("edited", [2, 3])
@pytest.mark.parametrize("axes", AXES)
def test_an_object_is_deleted_or_joined_in_all_planes_of_one_time_point(axes, edited):
    for seed in range(6):
        pixels = scattered(axes, seed)
        layer = OMEZarrLabels(
            Canvas(pyramid(pixels, [], chunks=(2, 2, 16, 16)[-pixels.ndim :])),
            axis_labels=tuple(axes),
        )
        layer.n_edit_dimensions = min(edited, layer.ndim)
        places = np.argwhere(pixels)
        at = tuple(places[seed * 37 % len(places)].tolist())
        label = int(pixels[at])
        space = [
            slice(None) if axis in "zyx" else i
            for axis, i in zip(axes, at, strict=True)
        ]
        left, joined = pixels.copy(), pixels.copy()
        left[tuple(space)][left[tuple(space)] == label] = 0
        joined[tuple(space)][joined[tuple(space)] == label] = 77
        # By a click, and by its id: the place then says the time point alone.
        away = [0 if axis in "zyx" else i for axis, i in zip(axes, at, strict=True)]
        for change, expected in (
            (delete_object(layer, at), left),
            (delete_object(layer, away, label), left),
            (join_objects(layer, at, 77), joined),
        ):
            assert change.apply_edits() == (label,)
            np.testing.assert_array_equal(shown(layer), expected)
            layer.undo()
            np.testing.assert_array_equal(shown(layer), pixels)


@pytest.mark.parametrize("clicked", [True, False])
def test_an_object_is_deleted_that_a_coarse_level_shows_in_part(monkeypatch, clicked):
    """Its tails, one pixel wide, are in no coarser level, and cross chunks."""
    pixels = np.zeros((128, 160), "u2")
    pixels[40:56, 40:56] = 3
    pixels[45, 2:150] = 3
    pixels[100:116, 8:24] = 3
    pixels[2:118, 100] = 4
    canvas = Canvas(pyramid(pixels, [(32, 40), (16, 20)], chunks=(16, 16)))
    assert not (np.asarray(canvas.levels[1])[:, 25:] == 3).any()
    layer = OMEZarrLabels(canvas)
    monkeypatch.setattr(object_edits, "SEARCHED", 32 * 40)
    prepared = delete_object(layer, (45, 149)) if clicked else None
    prepared = prepared or delete_object(layer, (0, 0), 3)
    prepared.apply_edits()
    np.testing.assert_array_equal(shown(layer), np.where(pixels == 3, 0, pixels))
    # A click knows where what no coarser level shows is.
    if clicked:
        delete_object(layer, (2, 100)).apply_edits()
        assert not shown(layer).any()


def test_objects_in_too_many_pixels_are_not_changed(monkeypatch):
    monkeypatch.setattr(label_objects, "FILL_BUDGET", 5000)
    pixels = np.full((80, 80), 3, "u1")
    pixels[60:70, 60:70] = 4
    layer = OMEZarrLabels(Canvas(pyramid(pixels, [])))
    for change in (
        lambda: join_objects(layer, (3, 3), 5),
        lambda: cut_object(layer, [(3, 3), (8, 8)]),
        lambda: delete_object(layer, (3, 3)),
        lambda: delete_object(layer, (65, 65), 3),
    ):
        with pytest.raises(ValueError, match="larger than 33 million pixels"):
            change()
    delete_object(layer, (0, 0), 4).apply_edits()
    np.testing.assert_array_equal(shown(layer), np.where(pixels == 4, 0, pixels))


def test_no_object_is_deleted_at_a_time_point_that_the_labels_lack():
    layer = OMEZarrLabels(
        Canvas(pyramid(np.ones((2, 8, 8), "u1"), [])), axis_labels=("t", "y", "x")
    )
    for frame in (-1, 2):
        with pytest.raises(ValueError, match="no labels at this time point"):
            delete_object(layer, (frame, 3, 3), 1)


def test_an_object_is_brought_into_view():
    viewer = ViewerModel()
    layer = viewer.add_layer(two_discs(scale=(2.0, 0.5), translate=(7, 8))[0])
    show_region(viewer, layer, label_region(layer, 9))
    (top, bottom), (left, right) = view_region(viewer, layer)
    assert top <= 2
    assert 16 <= bottom <= 20, "three objects are left below it"
    assert left <= 2
    assert right >= 6
    pixels = np.ones((60, 90), "u1")
    whole = viewer.add_layer(OMEZarrLabels(Canvas(pyramid(pixels, []))))
    show_region(viewer, whole, label_region(whole, 1))
    fitting = min(np.array(viewer.canvas.size) / pixels.shape)
    assert viewer.scene.camera.zoom == pytest.approx(fitting, rel=0.02)


def test_objects_of_the_field_before_are_not_changed_in_the_next():
    layer, pixels = two_discs()
    joined = join_objects(layer, (30, 70), 9)
    cut = cut_object(layer, [(30, 20), (30, 70)])
    deleted = delete_object(layer, (30, 30))
    layer.exchange_canvas(Canvas(pyramid(pixels, [(30, 45)])))
    for prepared in (joined, cut, deleted):
        with pytest.raises(ValueError, match="shows another image by now"):
            prepared.apply_edits()
    np.testing.assert_array_equal(shown(layer), pixels)
    canvas = Canvas(pyramid(np.zeros_like(pixels), [(30, 45)]))
    # A worker that begins after the step still looks at what was clicked.
    with pytest.raises(ValueError, match="Click an object"):
        join_objects(layer, (30, 70), 9, canvas)
    with pytest.raises(ValueError, match="Click or choose"):
        delete_object(layer, (30, 70), canvas=canvas)
