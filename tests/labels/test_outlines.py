from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import ndimage
from skimage.draw import polygon2mask

from napari_ngff.labels.object_export import find_polygons


def filled(rings, shape):
    """Voxels whose middle lies inside an odd number of rings."""
    inside = np.zeros(shape, int)
    for ring in rings:
        # Middles lie half a voxel further, where no edge is.
        inside += polygon2mask(shape, ring - 0.5)
    return inside % 2 == 1


@settings(deadline=None, max_examples=150)
@given(arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9))))
def test_they_hold_the_voxels_and_nothing_else(mask):
    found = find_polygons(mask)
    pieces, count = ndimage.label(mask)
    assert len(found) == count
    assert sum(one.area for one in found) == mask.sum()
    seen = set()
    for one in found:
        covered = filled([one.outer, *one.holes], mask.shape)
        (piece,) = set(pieces[covered].tolist())
        np.testing.assert_array_equal(covered, pieces == piece)
        assert one.area == covered.sum()
        seen.add(piece)
        for ring in (one.outer, *one.holes):
            steps = np.roll(ring, -1, axis=0) - ring
            assert ((steps == 0).sum(axis=1) == 1).all()  # along the edges
            turns = np.roll(steps == 0, -1, axis=0)
            assert (turns[:, 0] != (steps == 0)[:, 0]).all()  # no idle corner
            assert len({tuple(corner) for corner in ring.tolist()}) == len(ring)
    assert len(seen) == count


def test_a_ring_with_an_island_in_its_hole():
    mask = np.ones((7, 7), bool)
    mask[1:6, 1:6] = False
    mask[3, 3] = True
    ring, island = sorted(find_polygons(mask), key=lambda one: -one.area)
    assert ring.area == 24
    assert len(ring.holes) == 1
    assert sorted(map(tuple, island.outer.tolist())) == [(3, 3), (3, 4), (4, 3), (4, 4)]


def test_a_large_disc_is_outlined_in_no_time():
    y, x = np.ogrid[:2000, :2000]
    mask = (y - 1000) ** 2 + (x - 1000) ** 2 < 900**2
    (one,) = find_polygons(mask)
    assert one.area == mask.sum()
