"""Labels are measured where the window shows them, or refused."""

from __future__ import annotations

import random

import numpy as np
import pytest
import zarr

from napari_ngff import open_node, read_layers
from napari_ngff.errors import UnsupportedError
from napari_ngff.plate.tables.labelled_image import open_labelled
from napari_ngff.plate.tables.object_features import measure_image
from plates import write_group
from scenes import end, group, image, link

SHAPE = 24, 30


def write(folder, pixels, scale, start, unit=None, label=None):
    """Write one level of the axes y and x, or z, y and x."""
    group = zarr.open_group(folder, mode="a", zarr_format=3)
    group.create_array("0", data=pixels)
    axes = [{"name": name, "type": "space"} for name in "zyx"[-pixels.ndim :]]
    axes = [axis | ({"unit": unit} if unit else {}) for axis in axes]
    steps = [
        {"type": "scale", "scale": list(map(float, scale))},
        {"type": "translation", "translation": list(map(float, start))},
    ]
    datasets = [{"path": "0", "coordinateTransformations": steps}]
    ome = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}
    group.attrs["ome"] = ome | ({} if label is None else {"image-label": label})


def write_both(folder, place, label_place, labels, unit=None, label_unit=None):
    pixels = np.arange(np.prod(SHAPE)).reshape(SHAPE).astype("u2")
    write(folder, pixels, *place, unit)
    write_group(folder / "labels", {"labels": ["cells"]}, 3)
    write(folder / "labels/cells", labels, *label_place, label_unit or unit, {})
    return pixels


def shown_row(folder, pixels, value):
    """Say of an object what the window shows: centroid, area and mean below it."""
    image, cells = read_layers(folder)
    labels = np.asarray(cells.data[0] if cells.multiscale else cells.data)
    world = np.array([cells.data_to_world(i) for i in np.argwhere(labels == value)])
    below = np.round([image.world_to_data(w) for w in world]).astype(int)
    area = len(world) * abs(np.prod(cells.scale))
    return {
        "centroid_y": world[:, 0].mean(),
        "centroid_x": world[:, 1].mean(),
        "area": area,
        "mean": pixels[tuple(below.T)].mean(),
    }


def blob(shape=SHAPE):
    labels = np.zeros(shape, "u2")
    labels[..., 2:9, 3:12] = 5
    return labels


@pytest.mark.default_cases(
    "0", "3", "6", "9", "12", "15", "18", "21", "24", "27", "30", "33", "36", "39"
)
@pytest.mark.parametrize("seed", range(40))
def test_labels_are_measured_where_they_are_shown_or_refused(tmp_path, seed):
    chance = random.Random(seed)
    scale = [chance.choice([0.5, 1.0, 0.3, -0.5]) for _ in SHAPE]
    start = [chance.choice([0.0, 10.0, -3.1]) for _ in SHAPE]
    label_scale, label_start = [*scale], [*start]
    axis = chance.choice([0, 1])
    change = chance.choice(["none", "none", "scale", "sign", "start", "all", "noise"])
    if change == "scale":
        label_scale[axis] *= chance.choice([2, 0.5, 1.1, 0.9])
    elif change == "sign":
        label_scale[axis] *= -1
    elif change == "start":
        label_start[axis] += chance.choice([20, -5, 1.0, -2])
    elif change == "all":
        label_scale, label_start = [1.0, 1.0], [0.0, 0.0]
    elif change == "noise":
        label_scale[axis] *= 1 + 1e-7
        label_start[axis] += 1e-7
    place, other = (scale, start), (label_scale, label_start)
    pixels = write_both(tmp_path / "i", place, other, blob())
    if change not in ("none", "noise") and other != place:
        with pytest.raises(UnsupportedError, match="is not aligned with its image"):
            open_labelled(open_node(tmp_path / "i"), "cells")
        return
    frame = measure_image(open_labelled(open_node(tmp_path / "i"), "cells"))
    (row,) = frame.to_dict("records")
    shown = shown_row(tmp_path / "i", pixels, 5)
    assert {key: row[key] for key in shown} == pytest.approx(shown, rel=1e-6)


@pytest.mark.parametrize(
    ("units", "factor", "fits"),
    [
        (("micrometer", "nanometer"), 1000, True),
        (("micrometer", "nanometer"), 1, False),
        (("millimeter", "micrometer"), 1000, True),
        (("micrometer", "furlong"), 1, True),
        ((None, "micrometer"), 1, True),
        ((None, None), 1, True),
    ],
)
def test_units_count(tmp_path, units, factor, fits):
    label_place = [0.5 * factor] * 2, [3.0 * factor] * 2
    write_both(tmp_path / "i", ([0.5] * 2, [3.0] * 2), label_place, blob(), *units)
    node = open_node(tmp_path / "i")
    if fits:
        assert len(measure_image(open_labelled(node, "cells"))) == 1
    else:
        with pytest.raises(UnsupportedError, match="is not aligned with its image"):
            open_labelled(node, "cells")


def test_one_plane_of_a_stack_is_not_measured_as_if_it_were_all(tmp_path):
    pixels = np.arange(4 * 24 * 30).reshape(4, *SHAPE).astype("u2")
    for name, start, fits in (("a", 7.0, True), ("b", 9.0, False)):
        write(tmp_path / name, pixels, [2, 1, 1], [7, 0, 0])
        write_group(tmp_path / name / "labels", {"labels": ["cells"]}, 3)
        labels = blob((1, *SHAPE))
        write(
            tmp_path / name / "labels/cells", labels, [2, 1, 1], [start, 0, 0], label={}
        )
        node = open_node(tmp_path / name)
        if fits:
            assert measure_image(open_labelled(node, "cells"))["voxels"][0] == 4 * 63
        else:
            with pytest.raises(UnsupportedError, match="is not aligned with its image"):
                open_labelled(node, "cells")


@pytest.mark.parametrize(
    ("turn", "fits"),
    [
        (None, False),
        ({"type": "translation", "translation": [5, -2]}, True),
        ({"type": "translation", "translation": [5, 0]}, False),
        ({"type": "rotation", "rotation": [[0, -1], [1, 0]]}, False),
    ],
)
def test_the_link_to_the_image_counts(tmp_path, turn, fits):
    folder = tmp_path / "i"
    ends = end("physical", "labels/cells"), end("physical")
    links = [link(*ends, **turn)] if turn else []
    image(folder, "yx", np.ones(SHAPE, "u2"), scale=[0.5, 0.5], links=links)
    labels = folder / "labels"
    group(labels, {"labels": ["cells"]})
    image(labels / "cells", "yx", blob(), scale=[0.5, 0.5], move=[-5, 2], label=True)
    if fits:
        (row,) = measure_image(open_labelled(open_node(folder), "cells")).to_dict(
            "records"
        )
        assert (row["centroid_y"], row["area"]) == (2.5, 63 / 4)
    else:
        with pytest.raises(UnsupportedError, match="its image"):
            open_labelled(open_node(folder), "cells")
