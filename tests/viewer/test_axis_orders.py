"""Images of any order of axes: x is to the right, and strokes are saved in place."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel

from napari_ngff.plugin import get_reader
from napari_ngff.viewer.bridge.work_region import work_here
from plates import SPACING, write_image

SIZES = {"t": 2, "c": 2, "z": 4, "y": 6, "x": 9}
POINT = {"t": 1, "c": 0, "z": 3, "y": 2, "x": 7}
ORDERS = [
    *map("".join, permutations("yx")),
    *map("".join, permutations("zyx")),
    "txyz",
    "xyzt",
    "xyzc",
    "cxtyz",
]


def place_in(axes):
    return tuple(POINT[axis] for axis in axes)


def opened(folder):
    return get_reader(str(folder))(str(folder))


@pytest.fixture(params=ORDERS)
def axes(request):
    return request.param


@pytest.fixture
def folder(tmp_path, axes):
    data = np.zeros([SIZES[axis] for axis in axes], "u2")
    data[place_in(axes)] = 100
    write_image(tmp_path / "image", data, 2, axes=axes, levels=1, labels=("found",))
    return tmp_path / "image"


def test_x_is_to_the_right(folder, axes):
    viewer = ViewerModel()
    for data, keywords, kind in opened(folder)[:1]:
        (layer,) = [getattr(viewer, f"add_{kind}")(data, **keywords)]
    shown = "".join(layer.axis_labels)
    assert shown.endswith("zyx" if "z" in axes else "yx")
    assert sorted(shown) == sorted(axes.replace("c", ""))
    assert viewer.dims.order == tuple(range(layer.ndim))
    voxel = np.argwhere(np.asarray(layer.data) == 100)[0]
    assert tuple(voxel) == place_in(shown)
    sizes = [SPACING if axis in "yx" else 1.0 for axis in shown]
    np.testing.assert_allclose(layer.data_to_world(voxel), voxel * sizes)


def test_strokes_and_regions_are_where_they_are_seen(folder, axes):
    layers = opened(folder)
    labels = next(x for x in layers if not isinstance(x, tuple))
    shown = "".join(labels.axis_labels)
    assert (np.asarray(labels.data[0])[place_in(shown)]) == 100
    labels.brush_on_screen, labels.brush_size = False, 1
    labels.paint(place_in(shown), 7)
    assert labels.saver.save_now()
    stored = zarr.open_array(folder / "labels" / "found" / "0", mode="r")[...]
    inner = axes.replace("c", "")
    assert np.argwhere(stored == 7).tolist() == [list(place_in(inner))]
    region = tuple((POINT[axis], POINT[axis] + 1) for axis in shown)
    assert np.asarray(work_here(labels, region).data).ravel().tolist() == [7]
