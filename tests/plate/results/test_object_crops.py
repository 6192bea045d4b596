"""Crops of objects are the pixels of their field, from the level that is enough."""

from __future__ import annotations

import numpy as np
import pytest

from crops import nearest, write_field
from napari_ngff.errors import NodeNotFoundError
from napari_ngff.plate.results.object_crops import OUTLINE, SIDE, CropField, CropView
from napari_ngff.plate.tables.labelled_image import open_labelled
from napari_ngff.plate.tables.object_features import measure_image
from napari_ngff.store.hierarchy.node import open_node

RAMP = np.outer(np.arange(256), np.ones(3)).astype(np.float32).tobytes()
RED = np.outer(np.arange(256), (1, 0, 0)).astype(np.float32).tobytes()
LOOKS = ((0, (0.0, 255.0), 1.0, RED),)


def rows_of(folder):
    frame = measure_image(open_labelled(open_node(folder), "nuclei"), ())
    return {row["label"]: row for row in frame.to_dict("records")}


@pytest.mark.parametrize(
    ("axes", "shape", "step", "corner"),
    [
        ("cyx", (2, 80, 120), 0.5, (0, 0)),
        ("cyx", (1, 90, 64), 2.0, (7, -30)),
        ("czyx", (2, 5, 64, 64), 0.25, (100, 3)),
        ("tcyx", (3, 1, 64, 64), 1.0, (0, 5)),
        ("yx", (64, 64), 0.5, (0, 0)),
        ("cyx", (1, 64, 64), -0.5, (20, 20)),
    ],
)
@pytest.mark.parametrize("sides", [10, 30, 250, 450])
@pytest.mark.parametrize("has_table", [True, False])
def test_crop_is_what_numpy_cuts(tmp_path, axes, shape, step, corner, sides, has_table):
    pixels, labels = write_field(tmp_path / "f", axes, shape, step, corner)
    field = CropField.open(open_node(tmp_path / "f"), "nuclei")
    label = int(labels.max()) - 1
    row = rows_of(tmp_path / "f")[label] if has_table else {}
    size = sides * abs(step)
    time = shape[0] - 1 if axes[0] == "t" else 0
    view = CropView(LOOKS, size, (("t", time),), has_outline=False)
    crop = field.read_crop(label, {**row, "t": time}, view)
    assert crop.shape == (SIDE, SIDE, 3)
    plane = pixels.take(0, axes.index("c")) if "c" in axes else pixels
    mask = labels == label
    if axes[0] in "tz" or "z" in axes:
        z = time if axes[0] == "t" else shape[axes.index("z")] // 2
        plane, mask = plane[z], mask[z]
    middle = np.argwhere(mask).mean(axis=0)
    # The coarsest of three levels with 96 pixels there, or the finest.
    number = max((i for i in range(3) if sides / 2**i >= SIDE / 2), default=0)
    level = plane[:: 2**number, :: 2**number]
    expected = nearest(level, middle / 2**number, size, abs(step) * 2**number)
    if step < 0:
        expected = expected[::-1, ::-1]
    assert np.array_equal(crop[..., 0], expected)
    assert not crop[..., 1:].any()


def test_outline_is_of_the_object_alone(tmp_path):
    _, labels = write_field(tmp_path / "f", "cyx", (1, 80, 80), 1.0)
    field = CropField.open(open_node(tmp_path / "f"), "nuclei")
    crop = field.read_crop(6, {}, CropView((), 36.0))
    drawn = (crop == OUTLINE).all(axis=2)
    inside = nearest(labels == 6, np.argwhere(labels == 6).mean(axis=0), 36, 1)
    assert drawn.any()
    assert not (drawn & ~inside).any()
    assert inside[SIDE // 2, SIDE // 2]
    assert not drawn[SIDE // 2, SIDE // 2]


def test_centroid_of_another_object_is_not_believed(tmp_path):
    write_field(tmp_path / "f", "cyx", (1, 80, 80), 1.0)
    field = CropField.open(open_node(tmp_path / "f"), "nuclei")
    view = CropView(LOOKS, 15.0)
    rows = rows_of(tmp_path / "f")
    wrong = field.read_crop(2, {**rows[9], "label": 2}, view)
    assert np.array_equal(wrong, field.read_crop(2, rows[2], view))
    with pytest.raises(NodeNotFoundError, match="no object 99"):
        field.read_crop(99, rows[2], view)


def test_size_has_room_for_most_objects(tmp_path):
    write_field(tmp_path / "f", "cyx", (1, 80, 80), 0.5)
    field = CropField.open(open_node(tmp_path / "f"), "nuclei")
    assert field.find_size() == pytest.approx(1.5 * 12 * 0.5)


def test_channels_are_added_with_their_contrast(tmp_path):
    pixels, _ = write_field(tmp_path / "f", "cyx", (2, 64, 64), 1.0)
    field = CropField.open(open_node(tmp_path / "f"), "nuclei")
    looks = ((0, (50.0, 150.0), 1.0, RAMP), (1, (0.0, 255.0), 2.0, RED))
    crop = field.read_crop(1, {}, CropView(looks, 24.0, has_outline=False))
    first, second = (nearest(x.astype(float), (9.5, 9.5), 24, 1) for x in pixels)
    inside = nearest(np.ones((64, 64)), (9.5, 9.5), 24, 1)
    gray = np.floor(np.clip((first - 50) / 100, 0, 1) * 255)
    red = np.floor((second / 255) ** 2 * 255)
    assert np.abs(crop[..., 1] - gray * inside).max() <= 1
    assert np.abs(crop[..., 0] - np.minimum(gray + red, 255) * inside).max() <= 2
