"""Shapes, chunks and places of new pyramids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_ngff.metadata.model import Axis
from napari_ngff.store.pyramids.pyramid_writer import PyramidPlan

TYPES = {"t": "time", "c": "channel"}


def outline(letters, shape, scale=None, source=None, **options):
    axes = tuple(Axis(a, TYPES.get(a, "space")) for a in letters)
    ones = (1,) * len(shape)
    return PyramidPlan.choose_shapes(
        shape, axes, scale or ones, source or ones, **options
    )


def test_planes_are_halved_until_they_are_small():
    found = outline("yx", (1025, 300))
    assert found.shapes == ((1025, 300), (513, 150), (257, 75), (129, 38))
    assert found.chunk == (512, 512)


@pytest.mark.parametrize(
    ("letters", "shape", "scale", "steps"),
    [
        ("zyx", (64, 2048, 2048), (1, 1, 1), [1, 1, 1]),
        ("zyx", (600, 2048, 2048), (1, 1, 1), [2, 2, 1]),
        ("zyx", (600, 2048, 2048), (3, 1, 1), [1, 1, 2]),
        ("tyx", (600, 2048, 2048), (1, 1, 1), [1, 1, 1]),
        ("cyx", (600, 2048, 2048), (1, 1, 1), [1, 1, 1]),
    ],
)
def test_z_is_halved_where_it_is_long_and_as_fine(letters, shape, scale, steps):
    assert [step[0] for step in outline(letters, shape, scale).factors] == steps


def test_levels_of_labels_are_as_many_as_those_of_their_image():
    assert outline("yx", (100, 100), levels=4).shapes[-1] == (13, 13)
    assert len(outline("yx", (9000, 9000), levels=2).shapes) == 2
    assert outline("yx", (1, 1), levels=3).shapes == ((1, 1),) * 3


def test_a_voxel_lies_in_the_middle_of_its_block():
    found = outline("yx", (512, 512)).place_levels((0.5, 2.0), (10.0, 20.0))
    assert [(one.scale, one.translation) for one in found] == [
        ((0.5, 2.0), (10.0, 20.0)),
        ((1.0, 4.0), (10.25, 21.0)),
    ]


def test_shards_hold_up_to_four_chunks_by_four():
    arrays = outline("zyx", (3, 5000, 700), sharded=True).describe_arrays(
        "u2", (), shuffle=False
    )
    assert [new.shards for _, new in arrays[:3]] == [
        (1, 2048, 1024),
        (1, 2048, 350),
        (1, 1536, 175),
    ]


@pytest.mark.parametrize(
    ("source", "chunk"),
    [
        (1, 512), (64, 512), (100, 500), (250, 500), (256, 512), (300, 300),
        (1000, 1000), (1024, 1024), (2048, 1024), (3000, 1000), (333, 512),
        (9999, 512), (20000, 512),
    ],
)  # fmt: skip
def test_chunks_follow_those_of_the_source(source, chunk):
    found = outline("yx", (10000, 10000), source=(source, source))
    assert found.chunk == (chunk, chunk)


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 400))
def test_chunks_hold_whole_blocks_and_tiles_whole_chunks(size, source, depth):
    found = outline("zyx", (depth, size, size), source=(depth, source, source))
    for step in found.factors:
        for axis, factor in enumerate(step):
            chunk = found.chunk[axis]
            assert chunk % factor == 0 or chunk >= found.shapes[0][axis]
    for tile, chunk in zip(found.tile, found.chunk, strict=True):
        assert tile % chunk == 0
