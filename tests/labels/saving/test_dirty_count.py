"""How many blocks wait for a save."""

import numpy as np

from napari_ngff.labels.edits import Edit
from napari_ngff.labels.runs import point_runs
from napari_ngff.labels.saving.dirty_count import MOST, ChangedBlocks
from napari_ngff.labels.shapes import Everywhere, Mask


def dot(*point):
    return Edit(Mask(point_runs(np.array([point]))), (0, 1), (), 5)


def test_blocks_are_counted_once_and_forgotten_with_their_edits():
    blocks = ChangedBlocks((100, 200), (0, 1), (10, 10))
    first, same, other = dot(5, 5), dot(7, 9), dot(55, 5)
    assert blocks.count_blocks(()) == 0
    assert blocks.count_blocks((first, same)) == 1
    assert blocks.count_blocks((first, same, other)) == 2
    assert blocks.count_blocks((first,)) == 1
    assert blocks.count_blocks((other,)) == 1
    assert blocks.count_blocks(()) == 0


def test_axes_of_the_file_count():
    blocks = ChangedBlocks((20, 100), (1, 0), (50, 10))
    assert blocks.count_blocks((dot(5, 10), dot(5, 60), dot(15, 60))) == 3


def test_counting_ends():
    size = 10 * int(MOST**0.5) * 4
    blocks = ChangedBlocks((size, size), (0, 1), (10, 10))
    everything = Edit(Everywhere((size, size)), (0, 1), (), 5, 1)
    assert MOST < blocks.count_blocks((everything,)) < MOST + 10
