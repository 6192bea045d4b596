"""What code gets of ``layer.data``: dask arrays, whole and true, whatever is drawn."""

import operator
import pickle
import shutil

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from napari.components import ViewerModel

from napari_ngff.plugin import get_reader
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.samples import write_image, write_stack


@pytest.fixture(params=["cells", "stack", "flat"], scope="module")
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "a.ome.zarr"
    if request.param == "stack":
        write_stack(path, shape=(5, 64, 77))
    else:
        size = (1, 32, 40) if request.param == "flat" else (2, 101, 150)
        write_image(path, "0.5", shape=size)
    return path


@pytest.fixture
def labels(folder):
    """Labels of a file with an edit that is not saved."""
    read = get_reader(str(folder))(str(folder))
    layers = [as_layer(one) if isinstance(one, tuple) else one for one in read]
    layer = next(one for one in layers if one._type_string == "labels")
    ViewerModel().add_layer(layer)
    layer.brush_size = 5
    layer.paint((layer.data.shape[0] // 2, 10, 10), 7)
    return layer


def expected(labels, level=0):
    found = labels.canvas.levels[level]
    return found.read(tuple((0, size) for size in found.shape))


def test_a_level_is_a_dask_array_with_the_edits(labels):
    for number, level in enumerate(labels.data):
        assert isinstance(level, da.Array)
        whole = expected(labels, number)
        assert level.shape == whole.shape
        assert level.dtype == whole.dtype
        for found in (np.asarray(level), level.compute(), level.copy().compute()):
            assert type(found) is np.ndarray
            np.testing.assert_array_equal(found, whole)
    assert (np.asarray(labels.data[0]) == 7).any()


@pytest.mark.default_cases("cells-mod", "stack-lt", "flat-eq", "flat-add")
@pytest.mark.parametrize("name", ["eq", "ne", "lt", "gt", "add", "sub", "mul", "mod"])
def test_operators(labels, name):
    whole, level = expected(labels), labels.data[0]
    function = getattr(operator, name)
    np.testing.assert_array_equal(function(level, 3), function(whole, 3))
    more = whole + 1
    np.testing.assert_array_equal(function(level, level + 1), function(whole, more))
    np.testing.assert_array_equal(function(whole, level + 1), function(whole, more))


def test_ufuncs_and_reductions(labels):
    whole, level = expected(labels), labels.data[0]
    np.testing.assert_array_equal(np.sqrt(level), np.sqrt(whole))
    np.testing.assert_array_equal(np.maximum(level, 3), np.maximum(whole, 3))
    for name in ("max", "min", "sum", "any", "mean"):
        assert getattr(level, name)().compute() == getattr(whole, name)()
        assert getattr(np, name)(level) == getattr(np, name)(whole)
    np.testing.assert_array_equal(level.max(axis=0), whole.max(axis=0))
    np.testing.assert_array_equal(np.unique(level), np.unique(whole))
    assert int(np.count_nonzero(level == 7)) == np.count_nonzero(whole == 7)


@pytest.mark.default_cases(
    "cells-0",
    "cells-index3",
    "cells-index4",
    "cells-index5",
    "stack-index1",
    "flat-index2",
)
@pytest.mark.parametrize(
    "index",
    [
        np.s_[0],
        np.s_[-1, 3:9],
        np.s_[..., ::2],
        np.s_[..., 20:4:-3],
        np.s_[:, 5:6, [1, 4, 2]],
        np.s_[None, ..., 3],
    ],
)
def test_slices(labels, index):
    np.testing.assert_array_equal(labels.data[0][index], expected(labels)[index])


def test_masks_and_points(labels):
    whole, level = expected(labels), labels.data[0]
    np.testing.assert_array_equal(level[level > 0].compute(), whole[whole > 0])
    np.testing.assert_array_equal(level[whole == 7], whole[whole == 7])
    places = np.nonzero(whole == 7)
    np.testing.assert_array_equal(level[places], whole[places])


@pytest.mark.default_cases("cells")
def test_other_types_and_processes(labels):
    whole, level = expected(labels), labels.data[0]
    assert level.astype(float).compute().dtype == float
    np.testing.assert_array_equal(np.asarray(level, dtype="i8"), whole)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(level)), whole)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(level[..., 3:9])), whole[..., 3:9]
    )
    with dask.config.set(scheduler="processes", num_workers=1):
        assert level.max().compute() == whole.max()


def test_saved_labels_are_the_same_in_another_process(folder, tmp_path):
    path = shutil.copytree(folder, tmp_path / "a.ome.zarr")
    model = ViewerModel()
    for one in get_reader(str(path))(str(path)):
        model.add_layer(as_layer(one) if isinstance(one, tuple) else one)
    layer = next(one for one in model.layers if one._type_string == "labels")
    layer.paint((0, 8, 8), 7)
    assert layer.saver.save_now()
    layer.undo()
    layer.paint((0, 20, 20), 11)
    whole = expected(layer)
    found = pickle.loads(pickle.dumps(layer.data[0]))
    np.testing.assert_array_equal(found, whole)
    np.testing.assert_array_equal(layer.data[0], whole)


def test_the_whole_is_asked_without_a_level(labels):
    whole = expected(labels)
    assert np.max(labels.data) == labels.data.max() == whole.max()
    assert np.min(labels.data) == labels.data.min() == whole.min()
    np.testing.assert_array_equal(np.max(labels.data, axis=0), whole.max(axis=0))
    lut = np.arange(labels.data.max() + 1) * 2
    np.testing.assert_array_equal(lut[labels.data], whole * 2)
    np.testing.assert_array_equal(labels.data == 7, whole == 7)
    np.testing.assert_array_equal(labels.data != whole, whole != whole)


def test_labels_that_only_the_finest_level_has(tmp_path):
    path = write_image(tmp_path / "a.ome.zarr", "0.5", shape=(1, 64, 64))
    levels = [zarr.open_array(path / f"labels/cells/{k}") for k in (0, 1)]
    pixels = levels[0][...]
    pixels[0, 5, 5] = 300
    levels[0][...] = pixels
    assert levels[1][...].max() < 300
    layers = get_reader(str(path))(str(path))
    (layer,) = (one for one in layers if getattr(one, "name", "") == "cells")
    assert np.max(layer.data) == layer.data.max() == 300
    with pytest.raises(OverflowError, match="Labels up to 300 do not fit"):
        layer.data.astype("u1")
    assert np.asarray(layer.data.astype("u8"))[0, 5, 5] == 300


def test_what_is_painted_later_is_in_what_is_asked_for_later(labels):
    before = labels.data[0].compute()
    labels.paint((before.shape[0] // 2, 25, 25), 7001)
    after = labels.data[0].compute()
    assert not (before == 7001).any()
    assert (after == 7001).any()
    np.testing.assert_array_equal(after, expected(labels))


def test_values_are_not_set_behind_the_back_of_undo(labels):
    with pytest.raises(TypeError, match="data_setitem"):
        labels.data[0][0] = 3


def test_new_labels_are_dask_arrays_too(folder):
    model = ViewerModel()
    for layer in get_reader(str(folder))(str(folder)):
        model.add_layer(as_layer(layer) if isinstance(layer, tuple) else layer)
    made = new_labels(model.layers[0], "mine")
    made.paint((0, 5, 5), 4)
    assert (made.data[0] == 4).any().compute()
    assert pickle.loads(pickle.dumps(made.data[0])).max().compute() == 4


def test_images_are_dask_arrays(folder):
    layer = as_layer(get_reader(str(folder))(str(folder))[0])
    level = layer.data[0] if layer.multiscale else layer.data
    whole = np.asarray(level)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(level)), whole)
    np.testing.assert_array_equal(level[..., ::-2].compute(), whole[..., ::-2])
    np.testing.assert_array_equal(level > 3, whole > 3)
