from __future__ import annotations

import copy
import itertools
import pickle
import subprocess
import sys

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_ngff.store.arrays.lazy_array import ArrayWindow, LazyArray

PIXELS = np.arange(3 * 20 * 30, dtype=np.uint16).reshape(3, 20, 30)


class Counted:
    """An array in memory that notes the rectangles which are read."""

    def __init__(self, pixels=PIXELS, chunks=(1, 8, 8)):
        self.pixels = pixels
        self.chunks = chunks
        self.boxes = []

    @property
    def shape(self):
        return self.pixels.shape

    @property
    def dtype(self):
        return self.pixels.dtype

    def read(self, box):
        self.boxes.append(box)
        return self.pixels[tuple(slice(a, b) for a, b in box)]


def lazy(pixels=PIXELS, chunks=(1, 8, 8)):
    return LazyArray.of_window(ArrayWindow.whole_source(Counted(pixels, chunks)))


def test_it_is_a_dask_array_with_the_chunks_of_the_source():
    array = lazy()
    assert isinstance(array, da.Array)
    assert array.chunks == ((1, 1, 1), (8, 8, 4), (8, 8, 8, 6))
    assert array.dtype == np.uint16


def index_parts(size):
    bounds = st.integers(-size - 2, size + 2) | st.none()
    return st.one_of(
        st.integers(-size, size - 1),
        st.builds(slice, bounds, bounds),
        st.builds(slice, bounds, bounds, st.sampled_from([1, 2, 3])),
    )


@st.composite
def indices(draw):
    parts = [draw(index_parts(size)) for size in PIXELS.shape]
    parts = parts[: draw(st.integers(0, 3))]
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), Ellipsis)
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), None)
    return tuple(parts)


@given(indices(), indices())
def test_every_index_gives_what_numpy_gives(first, second):
    try:
        expected = PIXELS[first]
        expected = expected[second]
    except IndexError:
        return
    found = lazy()[first][second]
    assert found.shape == expected.shape
    np.testing.assert_array_equal(np.asarray(found), expected)
    np.testing.assert_array_equal(found.compute(scheduler="sync"), expected)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_transposing_stays_lazy(order):
    array = lazy().transpose(order)
    assert isinstance(array, LazyArray)
    np.testing.assert_array_equal(np.asarray(array), PIXELS.transpose(order))
    np.testing.assert_array_equal(array.compute(), PIXELS.transpose(order))
    np.testing.assert_array_equal(array[1:, 2], PIXELS.transpose(order)[1:, 2])


def test_fancy_indices_and_arithmetic_go_through_dask():
    array = lazy()
    np.testing.assert_array_equal(array[[2, 0]].compute(), PIXELS[[2, 0]])
    np.testing.assert_array_equal(array[array > 900].compute(), PIXELS[PIXELS > 900])
    np.testing.assert_array_equal((array + 1).compute(), PIXELS + 1)
    assert array.max().compute() == PIXELS.max()
    assert array.rechunk((3, 5, 5)).map_blocks(np.negative).sum().compute() == (
        (-PIXELS).astype(np.uint64).sum()
    )
    stacked = da.stack([array, array])
    np.testing.assert_array_equal(stacked[1].compute(), PIXELS)


def test_functions_of_numpy_and_operators_give_dask_arrays():
    array = lazy()
    found = {
        "mean": (np.mean(array), PIXELS.mean()),
        "stack": (np.stack([array, array], axis=1), np.stack([PIXELS, PIXELS], axis=1)),
        "ufunc": (np.sqrt(array, dtype="f8"), np.sqrt(PIXELS, dtype="f8")),
        "right": (3 - array.astype(int), 3 - PIXELS.astype(int)),
        "numpy first": (PIXELS * array, PIXELS * PIXELS),
        "dask first": (da.ones(30, dtype=int) + array, PIXELS + 1),
        "both": (array == array, PIXELS == PIXELS),
        "negative": (-array, -PIXELS),
        "where": (da.where(array > 5, array, 0), np.where(PIXELS > 5, PIXELS, 0)),
        "T": (array.T, PIXELS.T),
    }
    for name, (result, expected) in found.items():
        assert isinstance(result, da.Array), name
        np.testing.assert_allclose(result.compute(), expected, err_msg=name)
    assert bool((array[0, 0, 0] == 0) & (len(array) == 3))
    assert int(array[0, 0, 5]) == 5
    assert [int(plane.max()) for plane in array] == [599, 1199, 1799]
    with pytest.raises(TypeError):
        hash(array)
    with pytest.raises(AttributeError):
        _ = array.no_such_name


def test_copies_are_arrays_of_dask():
    array = lazy()
    for twin in (pickle.loads(pickle.dumps(array)), copy.deepcopy(array)):
        assert type(twin) is da.Array
        np.testing.assert_array_equal(twin.compute(scheduler="sync"), PIXELS)


def test_dask_is_imported_when_it_is_needed():
    script = """
import sys
import dask, numpy as np
from napari_ngff.store.arrays.lazy_array import ArrayWindow, LazyArray

pixels = np.arange(600, dtype="u2").reshape(20, 30)

class Source:
    shape, dtype, chunks = pixels.shape, pixels.dtype, (8, 8)
    read = lambda self, box: pixels[tuple(slice(*span) for span in box)]

array = LazyArray.of_window(ArrayWindow.whole_source(Source()))
assert dask.is_dask_collection(array)
assert np.asarray(array[3:5]).sum() == pixels[3:5].sum()
assert array.shape == (20, 30) and array.nbytes == 1200 and array.chunks[0] == (8, 8, 4)
before = "dask.array" in sys.modules
graph = array.__dask_graph__()
(found,) = dask.compute(array, scheduler="sync")
assert (found == pixels).all()
assert len(graph) == 12
import dask.array as da
assert isinstance(array, da.Array)
print(before)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_slicing_reads_nothing_and_asarray_only_the_window():
    source = Counted()
    window = LazyArray.of_window(ArrayWindow.whole_source(source))[1, 3:9, 4:5]
    assert source.boxes == []
    np.asarray(window)
    assert source.boxes == [((1, 2), (3, 9), (4, 5))]


def test_the_graph_has_only_the_chunks_of_the_window():
    array = lazy()[0, 9:12, 0:9]
    assert len(dict(array.__dask_graph__())) == 2


def test_too_many_indices_and_out_of_bounds_raise():
    with pytest.raises(IndexError):
        lazy()[0, 0, 0, 0]
    with pytest.raises(IndexError):
        lazy()[3]


def test_assignment_is_seen_afterwards():
    array = lazy()[0]
    array[2:4, :] = 7
    expected = PIXELS[0].copy()
    expected[2:4] = 7
    np.testing.assert_array_equal(np.asarray(array), expected)
    np.testing.assert_array_equal(np.asarray(array[3]), expected[3])


def test_copies_of_equal_windows_share_a_name_and_others_do_not():
    array = lazy()
    assert array[0].name == array[0].name
    assert array[0].name != array[1].name
    assert array.name != lazy().name


def test_tasks_know_nothing_of_each_other():
    # A cache of task results must not take one array's blocks for another's.
    one, other = lazy(), lazy(PIXELS + 1)
    with dask.config.set(scheduler="sync"):
        a, b = dask.compute(one[0], other[0])
    np.testing.assert_array_equal(a + 1, b)


def test_asarray_takes_a_dtype():
    assert np.asarray(lazy(), dtype=np.float32).dtype == np.float32


def test_a_window_takes_every_other_element():
    box = ((1, 2), (1, 20), (0, 29))
    window = ArrayWindow(Counted(), (2, 1), box, (1, 3, 2))
    expected = PIXELS[1, 1::3, :29:2].T
    assert window.shape == expected.shape
    np.testing.assert_array_equal(window.read(), expected)
    np.testing.assert_array_equal(window[4:9, 2], expected[4:9, 2])
    np.testing.assert_array_equal(window[3:3], expected[3:3])
    box = ((2, 5), (1, 3))
    np.testing.assert_array_equal(window.read(box), expected[2:5, 1:3])


def test_a_window_drops_moves_and_adds_axes():
    window = ArrayWindow(Counted(), (2, None, 1), ((1, 2), (0, 20), (0, 30)))
    assert window.shape == (30, 1, 20)
    np.testing.assert_array_equal(window.read(), PIXELS[1].T[:, None])
    assert window.chunk_lengths() == ((8, 8, 8, 6), (1,), (8, 8, 4))
    part = window.select_index((slice(2, 4), 0))
    assert part is not None
    np.testing.assert_array_equal(part.read(), PIXELS[1].T[2:4])


def test_opening_does_not_depend_on_the_number_of_chunks():
    shape = (1, 100_000, 100_000)
    source = Counted(np.broadcast_to(np.uint8(3), shape), (1, 64, 64))
    array = LazyArray.of_window(ArrayWindow.whole_source(source))
    assert array.npartitions > 10**6
    assert np.asarray(array[0, 50_000:50_010, 7:9]).sum() == 60
    assert "graph" not in repr(array)
    layers = array.as_dask().dask.layers.values()
    assert not any(layer.is_materialized() for layer in layers)
