"""Parts of a coarser level that were made from blocks at hand."""

import numpy as np
import pytest

from napari_ngff.labels.saving.save_pass import ROOM, ReductionCache
from napari_ngff.store.arrays.boxes import box_of
from napari_ngff.store.pyramids.level_reduction import LevelReduction
from saving import reduced

SHAPE = (61, 83)
CELL = (16, 24)


@pytest.fixture
def pixels():
    return np.random.default_rng(1).integers(0, 3, SHAPE).astype("u4")


def carry(pixels, coarse, method, room=ROOM):
    """Put all blocks; return those of the coarser level that can be had."""
    reduction = LevelReduction.between_shapes(SHAPE, coarse, method)
    carried = ReductionCache([reduction], room)
    found = {}
    for cell in np.ndindex(4, 4):
        box = box_of(cell, CELL, SHAPE)
        block = pixels[tuple(slice(*span) for span in box)]
        carried.add_block(0, cell, box, block, 9 - block)
        part = carried.get_part(0, cell)
        if part is not None:
            found[cell] = part
    return found, carried


@pytest.mark.parametrize("method", ["nearest", "mode"])
@pytest.mark.parametrize("coarse", [(31, 42), (30, 41), (61, 42), (20, 27), (16, 21)])
def test_parts_are_those_of_the_whole_level(pixels, coarse, method):
    found, _ = carry(pixels, coarse, method)
    whole = reduced(pixels, coarse, method)
    for part in found.values():
        inside = tuple(slice(*span) for span in part.box)
        np.testing.assert_array_equal(part.values, whole[inside])
        assert part.touched.all()
    if coarse == (31, 42):
        assert len(found) == 16


def test_what_needs_two_blocks_is_read(pixels):
    found, _ = carry(pixels, (20, 27), "mode")  # three voxels make one
    assert len(found) < 16


def test_where_room_is_scarce_parts_are_compressed_and_then_left_out(pixels):
    everything, _ = carry(pixels, (31, 42), "mode")
    some, _ = carry(pixels, (31, 42), "mode", 1000)
    assert 1 < len(some) < 16
    for cell, part in some.items():
        np.testing.assert_array_equal(part.values, everything[cell].values)


def test_what_was_not_written_is_forgotten(pixels):
    _, carried = carry(pixels, (31, 42), "mode")
    carried.drop_blocks(0, [(0, 0)])
    assert carried.get_part(0, (0, 0)) is None
    assert carried.get_part(0, (1, 1)) is not None


@pytest.mark.parametrize("method", ["nearest", "mode"])
@pytest.mark.parametrize("coarse", [(31, 42), (30, 41), (61, 42)])
def test_only_what_is_below_an_edit_is_changed(pixels, coarse, method):
    reduction = LevelReduction.between_shapes(SHAPE, coarse, method)
    cell, box = (1, 2), box_of((1, 2), CELL, SHAPE)
    new = pixels.copy()
    new[20:27, 50:62] = 7
    carried = ReductionCache([reduction])
    inside = tuple(slice(*span) for span in box)
    carried.add_block(0, cell, box, new[inside], pixels[inside])
    target = reduction.target_box(box)
    # A file whose level follows no rule.
    before = np.full([b - a for a, b in target], 99, "u4")
    got = carried.get_part(0, cell).change_values(before, target)
    want = reduced(new, coarse, method)
    for position in np.ndindex(got.shape):
        voxel = tuple(a + i for (a, _), i in zip(target, position, strict=True))
        sources = reduction.source_box(tuple((i, i + 1) for i in voxel))
        below = tuple(slice(*span) for span in sources)
        edited = (new[below] != pixels[below]).any()
        assert got[position] == (want[voxel] if edited else 99)
    assert (got == 7).any()
    assert (got == 99).any()
