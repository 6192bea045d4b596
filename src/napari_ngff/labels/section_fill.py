"""Finds an object in its sections, and its shape in the sections between them.

Shape-based interpolation (Raya and Udupa 1990; Herman, Zheng and Bucholtz 1992): from
one section to the next that has the object, the signed distance from its outline,
positive inside, changes in equal steps.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.ndimage import distance_transform_edt

from napari_ngff.labels.runs import mask_runs, runs_mask, sort_runs
from napari_ngff.labels.shapes import Mask
from napari_ngff.store.arrays.boxes import (
    Box,
    box_shape,
    cell_ranges,
    enclose_boxes,
    intersect_boxes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari_ngff.labels.canvas_level import CanvasLevel
    from napari_ngff.labels.level_grid import Indices

# Most pixels of the rectangle around an object: the distances in two sections take
# about 60 bytes for each, together 1 GB.
LARGEST = 1 << 24


def find_in_sections(
    level: CanvasLevel,
    box: Box,
    axes: Sequence[int],
    label: int,
    report: Callable[[int, int], bool],
) -> dict[int, Indices]:
    """Find the pixels of a label in each section of a box.

    Parameters
    ----------
    level
        Level 0 of a canvas.
    box
        Of length 1 on all but three axes.
    axes
        The one along which sections follow each other, and the two of a section,
        ascending.
    report
        Called with how many chunks are done, and of how many; returns whether to
        continue.

    Returns
    -------
    dict
        Runs on the two axes of a section, by its index.
    """
    found: dict[int, list[Indices]] = defaultdict(list)
    total = math.prod(map(len, cell_ranges(box, level.chunks)))
    # Not section by section: a chunk may have many, and a section more than the memory.
    for number, chunk in enumerate(level.chunks_in(box), 1):
        cut = intersect_boxes(box, level.chunk_box(chunk))
        starts, stops = zip(*(cut[axis] for axis in axes), strict=True)
        stack = np.moveaxis(level.read(cut) == label, axes, range(3)).reshape(
            np.subtract(stops, starts)
        )
        for index in np.flatnonzero(stack.any(axis=(1, 2))).tolist():
            found[starts[0] + index].append(mask_runs(stack[index], starts[1:]))
        if not report(number, total):
            raise InterruptedError
    return {index: sort_runs(found[index]) for index in sorted(found)}


def fill_between(
    sections: dict[int, Indices],
    sizes: Sequence[int],
    weights: Sequence[float],
    report: Callable[[int, int], bool],
) -> dict[int, Indices]:
    """Find the shape of an object in the sections that lack it, between those with it.

    Parameters
    ----------
    sections
        Runs of the object in each section that has it.
    sizes
        Number of pixels of a section along its two axes.
    weights
        Size of a pixel along each of them.

    Raises
    ------
    ValueError
        Where the rectangle around the object has more than `LARGEST` pixels.
    """
    gaps = [pair for pair in pairwise(sorted(sections)) if pair[1] - pair[0] > 1]
    if not gaps:
        return {}
    box = enclose_boxes([Mask(runs).bbox for runs in sections.values()])
    # The nearest pixel that is not of the object is one beyond it, or within.
    box = tuple(
        (max(a - 1, 0), min(b + 1, n)) for (a, b), n in zip(box, sizes, strict=True)
    )
    if math.prod(box_shape(box)) > LARGEST:
        raise ValueError(
            f"The rectangle around the object has {math.prod(box_shape(box)):,} pixels"
            f" in each section; at most {LARGEST:,} can be filled. Paint parts of it"
            " with labels of their own, fill between their sections, and join them."
        )
    filled = {}
    shapes: dict[int, Any] = {}
    for number, (first, last) in enumerate(gaps, 1):
        # Of two gaps in a row, the section between them is measured once.
        shapes = {
            index: shapes.get(index) or measure_shape(sections[index], box, weights)
            for index in (first, last)
        }
        (mask, near), (other, far) = shapes[first], shapes[last]
        # What is inside of both is so between them, as is what is outside of both.
        differs = np.nonzero(mask ^ other)
        near, far = near[differs], far[differs]
        for index in range(first + 1, last):
            section = mask & other
            section[differs] = (last - index) * near + (index - first) * far > 0
            if section.any():
                filled[index] = mask_runs(section, [start for start, _ in box])
        if not report(number, len(gaps)):
            raise InterruptedError
    return filled


def measure_shape(runs: Indices, box: Box, weights: Sequence[float]) -> tuple[Any, Any]:
    """Return a mask of an object, and the signed distances from its outline."""
    mask = runs_mask(runs, box)
    if mask.all():  # a section without any outline: as far from it as can be
        return mask, np.full(mask.shape, math.hypot(*np.multiply(mask.shape, weights)))
    return mask, distance_transform_edt(mask, weights) - distance_transform_edt(
        ~mask, weights
    )
