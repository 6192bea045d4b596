"""All levels in one pass: equal to making each of the whole level before it."""

from __future__ import annotations

import itertools
import tracemalloc
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_ngff.metadata.model import Axis
from napari_ngff.store.arrays.array_document import NewArray
from napari_ngff.store.pyramids.level_reduction import LevelReduction
from napari_ngff.store.pyramids.pyramid_writer import (
    PyramidPlan,
    PyramidWriter,
    coarser_shape,
)
from napari_ngff.store.write.new_hierarchy import NewHierarchy

ZYX = (Axis("z", "space"), Axis("y", "space"), Axis("x", "space"))


@dataclass
class Pixels:
    """A source that knows what was read of it."""

    array: np.ndarray
    chunks: tuple[int, ...] = ()

    def __post_init__(self):
        self.shape, self.dtype = self.array.shape, self.array.dtype
        self.boxes = []

    def read(self, box):
        self.boxes.append(box)
        return self.array[tuple(slice(*span) for span in box)]


def blocks_of(array, factors):
    """Voxels of each block, by plain loops; the last ones may be smaller."""
    shape = coarser_shape(array.shape, factors)
    for place in np.ndindex(shape):
        part = tuple(
            slice(i * f, (i + 1) * f) for i, f in zip(place, factors, strict=True)
        )
        yield place, array[part]


def write(path, pixels, factors, chunks, reducer, *, version="0.5", **options):
    """Write a pyramid; return its levels as zarr-python reads them."""
    tile = options.pop("tile", chunks)
    concurrency = options.pop("concurrency", 2)
    shapes = [pixels.shape]
    for step in factors:
        shapes.append(coarser_shape(shapes[-1], step))
    names = tuple("tczyx"[-len(chunks) :])
    arrays = [
        (str(i), NewArray(shape, chunks, pixels.dtype, names, **options))
        for i, shape in enumerate(shapes)
    ]
    reducers = [
        reducer(fine, coarse, step)
        for (fine, coarse), step in zip(
            itertools.pairwise(shapes), factors, strict=True
        )
    ]
    with NewHierarchy(path) as draft:
        cascade = PyramidWriter(draft, arrays, reducers, version, tile)
        cascade.write_levels(Pixels(pixels), concurrency=concurrency)
        for level in cascade._levels:
            assert not level.partial
            assert not level.joiner.shards
    return [zarr.open_array(path / str(i), mode="r")[...] for i in range(len(shapes))]


def mean(fine, coarse, step):
    return LevelReduction.between_shapes(fine, coarse, "mean", step)


def mean_of(pixels, factors):
    """Means of all blocks; the last ones may be smaller."""
    shape = coarser_shape(pixels.shape, factors)
    return mean(pixels.shape, shape, factors).reduce(pixels, [(0, n) for n in shape])


def mode(fine, coarse, step):
    return LevelReduction.between_shapes(fine, coarse, "mode", step)


def nearest(fine, coarse, step):
    return LevelReduction.between_shapes(fine, coarse, "nearest", step)


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_each_level_is_made_of_the_whole_one_before(tmp_path_factory, data):
    shape = data.draw(st.tuples(*[st.integers(1, 40)] * 3))
    halved = data.draw(st.sampled_from([(1, 2, 2), (2, 2, 2)]))
    chunks = data.draw(st.tuples(*[st.sampled_from([2, 4, 6, 8])] * 3))
    times = data.draw(st.tuples(*[st.integers(1, 3)] * 3))
    tile = tuple(c * n for c, n in zip(chunks, times, strict=True))
    reducer = data.draw(st.sampled_from([mode, nearest, mean]))
    shards = data.draw(st.sampled_from([None, (1, 2, 2), (2, 1, 3)]))
    if shards is not None:
        shards = tuple(c * n for c, n in zip(chunks, shards, strict=True))
    seed = data.draw(st.integers(0, 99))
    pixels = np.random.default_rng(seed).integers(0, 4, shape).astype(np.uint16)
    path = tmp_path_factory.mktemp("cascade") / "new"
    levels = write(
        path, pixels, [halved] * 3, chunks, reducer, shards=shards, tile=tile
    )
    assert (levels[0] == pixels).all()
    for fine, coarse in itertools.pairwise(levels):
        step = reducer(fine.shape, coarse.shape, halved)
        box = tuple((0, n) for n in coarse.shape)
        whole = step.reduce(fine, box)
        np.testing.assert_array_equal(coarse, whole[tuple(map(slice, coarse.shape))])


INTEGERS = ["?", *(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8))]
FLOATS = ["f2", "f4", "f8", ">f8"]


def limits_of(dtype):
    if dtype.kind == "b":
        return 0, 1
    info = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    return info.min, info.max


@st.composite
def blocks(draw, dtypes):
    """Draw pixels of a type, many of them as large as it has, and factors."""
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    factors = draw(
        st.sampled_from(
            [(2, 2, 2), (1, 16, 17), (1, 32, 32), (8, 8, 8), (3, 1, 5), (1, 300, 1)]
        )
    )
    shape = draw(st.tuples(*[st.integers(1, 40)] * 3))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    low, high = limits_of(dtype)
    values = [low, high, draw(st.sampled_from([low, high, 0]))]
    pixels = random.choice(np.array(values, dtype), shape)
    if draw(st.booleans()) and dtype.kind in "iu":
        pixels = random.integers(low, high, shape, dtype, endpoint=True)
    return pixels, factors


@settings(deadline=None, max_examples=40)
@given(blocks(INTEGERS))
def test_means_of_integers_are_exact(drawn):
    pixels, factors = drawn
    found = mean_of(pixels, factors)
    assert found.dtype == pixels.dtype
    assert found.shape == coarser_shape(pixels.shape, factors)
    for place, block in blocks_of(pixels, factors):
        total = int(block.sum(dtype=object))
        assert int(found[place]) == (2 * total + block.size) // (2 * block.size)


@settings(deadline=None, max_examples=40)
@given(blocks(FLOATS))
def test_means_of_floats_never_overflow(drawn):
    pixels, factors = drawn
    found = mean_of(pixels, factors)
    assert found.dtype == pixels.dtype
    assert found.shape == coarser_shape(pixels.shape, factors)
    for place, block in blocks_of(pixels, factors):
        values, counts = np.unique(block, return_counts=True)
        pairs = zip(values.tolist(), counts.tolist(), strict=True)
        exact = sum(Fraction(value) * count for value, count in pairs) / block.size
        largest = float(np.abs(block).max())
        error = abs(Fraction(float(found[place])) - exact)
        assert error <= largest * float(np.finfo(pixels.dtype).eps)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_means_of_no_numbers_are_none(value):
    pixels = np.ones((4, 4))
    pixels[0, 0] = value
    found = mean_of(pixels, (2, 2))
    np.testing.assert_array_equal(found, [[value, 1], [1, 1]])


def test_nothing_is_stored_of_what_is_empty(tmp_path):
    pixels = np.zeros((64, 64), np.uint32)
    pixels[:16, :16] = 7
    write(tmp_path / "new", pixels, [(2, 2)], (16, 16), mode)
    stored = [p for p in (tmp_path / "new" / "0").rglob("*") if p.is_file()]
    assert sorted(p.name for p in stored) == ["0", "zarr.json"]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_a_zero_keeps_its_sign(tmp_path, dtype):
    pixels = np.zeros((64, 64), dtype)
    pixels[:16, :16] = -0.0
    (level,) = write(tmp_path / "new", pixels, [], (16, 16), mean)
    np.testing.assert_array_equal(np.signbit(level), np.signbit(pixels))
    stored = [p for p in (tmp_path / "new" / "0" / "c").rglob("*") if p.is_file()]
    assert len(stored) == 1


def test_version_0_4_is_zarr_v2(tmp_path):
    pixels = np.arange(70 * 50, dtype=np.int16).reshape(70, 50)
    levels = write(
        tmp_path / "new", pixels, [(2, 2)], (32, 32), mean, version="0.4", shuffle=True
    )
    assert (levels[0] == pixels).all()
    assert (tmp_path / "new" / "0" / ".zarray").exists()
    assert (tmp_path / "new" / "0" / "1" / "1").exists()


def test_source_is_read_once_in_its_own_chunks(tmp_path):
    pixels = np.ones((8, 600, 600), np.uint8)
    outline = PyramidPlan.choose_shapes(pixels.shape, ZYX, (1, 1, 1), (4, 300, 300))
    source = Pixels(pixels)
    with NewHierarchy(tmp_path / "new") as draft:
        arrays = outline.describe_arrays(pixels.dtype, ("z", "y", "x"), shuffle=False)
        reducers = [mean(*step) for step in outline.steps]
        PyramidWriter(draft, arrays, reducers, "0.5", outline.tile).write_levels(source)
    assert outline.tile == (4, 300, 300)
    assert len(source.boxes) == len(set(source.boxes)) == 8
    assert {a % 300 for box in source.boxes for a, _ in box[1:]} == {0}


@pytest.mark.parametrize("size", [2048, 4096])
def test_memory_does_not_grow_with_the_image(tmp_path, size):
    class Computed(Pixels):
        def read(self, box):
            y, x = (np.arange(*span, dtype=np.uint32) for span in box)
            return (y[:, None] // 40) * 1000 + x // 40

    source = Computed(np.broadcast_to(np.uint32(0), (size, size)))
    outline = PyramidPlan.choose_shapes((size, size), ZYX[1:], (1, 1), (1, 1), levels=5)
    arrays = outline.describe_arrays(source.dtype, ("y", "x"), shuffle=False)
    reducers = [
        LevelReduction.between_shapes(fine, coarse, "mode", step)
        for fine, coarse, step in outline.steps
    ]
    with NewHierarchy(tmp_path / "new") as draft:
        cascade = PyramidWriter(draft, arrays, reducers, "0.5", outline.tile)
        tracemalloc.start()
        cascade.write_levels(source, concurrency=2)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 32e6


def test_an_error_of_the_source_ends_it(tmp_path):
    class Broken(Pixels):
        def read(self, box):
            raise OSError("The source is gone.")

    outline = PyramidPlan.choose_shapes((600, 600), ZYX[1:], (1, 1), (1, 1))
    arrays = outline.describe_arrays(np.dtype("uint8"), ("y", "x"), shuffle=False)
    reducers = [mean(*step) for step in outline.steps]
    source = Broken(np.zeros((600, 600), np.uint8))
    with pytest.raises(OSError, match="gone"), NewHierarchy(tmp_path / "new") as draft:
        PyramidWriter(draft, arrays, reducers, "0.5", (512, 512)).write_levels(source)
    assert list(tmp_path.iterdir()) == []
