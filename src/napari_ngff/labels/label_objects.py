"""Finds and splits the objects of a label image, of which each has one id.

`flood_region` finds the connected region of one label around a voxel, chunk by chunk;
`find_object` also the parts that are not connected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import ndimage

from napari_ngff.labels.runs import mask_runs, runs_mask, sort_runs
from napari_ngff.labels.shapes import Mask
from napari_ngff.store.arrays.boxes import Box, box_shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from napari_ngff.labels.canvas_level import CanvasLevel, Chunk
    from napari_ngff.labels.level_grid import Indices

FILL_BUDGET = 1 << 25
"""Most voxels that are read to fill a region, in whole chunks: about a second of
work."""

TOO_LARGE = f"The object is larger than {FILL_BUDGET // 10**6} million pixels."
ONE_PLACE = "Click different places of one object."


def flood_region(
    level: CanvasLevel,
    seed: Sequence[int],
    axes: Sequence[int],
    budget: int = FILL_BUDGET,
) -> Indices | None:
    """Find the voxels of the seed's value that are connected with it by faces.

    Parameters
    ----------
    level
        Level 0 of a canvas.
    seed
        Index of a voxel, on all axes.
    axes
        Along which to go, ascending; the others stay at the seed.

    Returns
    -------
    ndarray or None
        Runs on `axes`; None where more than `budget` voxels would have to be read.
    """
    return _FloodRegions(level, seed, axes, budget).find_runs()


def find_object(
    level: CanvasLevel,
    seed: Sequence[int],
    axes: Sequence[int],
    label: int | None = None,
    chunks: Iterable[Chunk] = (),
) -> Indices:
    """Find the voxels of an object, by `flood_region` or by its label.

    Parameters
    ----------
    label, chunks
        Its label, and chunks that are searched for it, as are those that it reaches
        from there. The seed then counts only on the other axes.

    Returns
    -------
    ndarray
        Runs on `axes`; without a row where no chunk has the label.

    Raises
    ------
    ValueError
        Where more than `FILL_BUDGET` voxels would have to be read.
    """
    runs = _FloodRegions(level, seed, axes, FILL_BUDGET, label).find_runs(chunks)
    if runs is None:
        raise ValueError(TOO_LARGE)
    return runs


class _FloodRegions:
    """The regions of the chunks that were read so far, and the rest to be done.

    With a label, all its voxels in one chunk are one region.
    """

    def __init__(
        self,
        level: CanvasLevel,
        seed: Sequence[int],
        axes: Sequence[int],
        budget: int,
        label: int | None = None,
    ) -> None:
        self.level = level
        self.seed = tuple(seed)
        self.axes = tuple(axes)
        self.voxels_left = budget
        self.label = label
        self.value = (
            level.read_points([np.array([i]) for i in seed])[0]
            if label is None
            else label
        )
        # Of each chunk, the number of the region that each voxel is in, 0 for none; and
        # the numbers of the regions that are connected with the seed.
        self.regions: dict[Chunk, Any] = {}
        self.connected: dict[Chunk, set[int]] = {}

    def chunk_box(self, chunk: Chunk) -> Box:
        return tuple(
            span if axis in self.axes else (self.seed[axis], self.seed[axis] + 1)
            for axis, span in enumerate(self.level.chunk_box(chunk))
        )

    def label_regions(self, chunk: Chunk) -> Any:
        """Give each region of a chunk a number, from 1."""
        if chunk not in self.regions:
            box = self.chunk_box(chunk)
            self.voxels_left -= int(np.prod(box_shape(box)))
            same = self.level.read(box) == self.value
            # By faces, scipy's default, as napari's own fill bucket.
            numbers, count = (same, 1) if self.label else ndimage.label(same)
            # scipy gives 32 bits per voxel; most chunks have fewer than 256 regions.
            self.regions[chunk] = numbers.astype(np.min_scalar_type(count))
        return self.regions[chunk]

    def list_neighbours(self, chunk: Chunk, number: int) -> Iterator[tuple[Chunk, int]]:
        """List the regions of other chunks that touch a region of one."""
        mine = self.label_regions(chunk)
        for axis in self.axes:
            for side in (-1, 1):
                index = chunk[axis] + side
                if not 0 <= index * self.level.chunks[axis] < self.level.shape[axis]:
                    continue
                # Where the region reaches the face between both chunks.
                face = np.take(mine, 0 if side < 0 else -1, axis) == number
                if not face.any():
                    continue
                other = (*chunk[:axis], index, *chunk[axis + 1 :])
                # Before the other chunk is read, which may take long.
                if self.voxels_left < 0:
                    return
                theirs = np.take(
                    self.label_regions(other), -1 if side < 0 else 0, axis
                )[face]
                for neighbour in np.unique(theirs[theirs > 0]):
                    yield other, int(neighbour)

    def find_runs(self, chunks: Iterable[Chunk] = ()) -> Indices | None:
        # A stack instead of recursion: a region may wind through thousands of chunks.
        todo = [(chunk, 1) for chunk in chunks]
        if self.label is None:
            first = tuple(
                i // c for i, c in zip(self.seed, self.level.chunks, strict=True)
            )
            inner_seed = tuple(
                i - start
                for i, (start, _) in zip(self.seed, self.chunk_box(first), strict=True)
            )
            todo = [(first, int(self.label_regions(first)[inner_seed]))]
        seen = set(todo)
        while todo and self.voxels_left >= 0:
            chunk, number = todo.pop()
            self.connected.setdefault(chunk, set()).add(number)
            new = set(self.list_neighbours(chunk, number)) - seen
            seen |= new
            todo += new
        if self.voxels_left < 0:
            return None
        return sort_runs([self.chunk_runs(c, n) for c, n in self.connected.items()])

    def chunk_runs(self, chunk: Chunk, numbers: set[int]) -> Indices:
        box = self.chunk_box(chunk)
        fixed = tuple(axis for axis in range(len(box)) if axis not in self.axes)
        mask = np.isin(self.regions[chunk], list(numbers)).squeeze(axis=fixed)
        return mask_runs(mask, [box[axis][0] for axis in self.axes])


def split_object(
    level: CanvasLevel,
    seeds: Sequence[Sequence[int]],
    axes: Sequence[int],
    weights: Sequence[float],
) -> list[Indices]:
    """Split an object where it is narrowest, into one part for each seed.

    Seeds in pieces that do not touch part these from each other. Other objects are
    split by watershed on the distance from their border (Vincent and Soille 1991).

    Parameters
    ----------
    level
        Level 0 of a canvas.
    seeds
        Indices of voxels of the same object, on all axes; at least two.
    axes
        Along which the object is connected, ascending; the seeds share the others.
    weights
        Size of a voxel along each of these.

    Returns
    -------
    list
        Runs on `axes` for each seed.

    Raises
    ------
    ValueError
        Where seeds lie in the same voxel, or some in one piece and some in another, or
        the object is too large to be read.
    """
    # Importing scikit-image takes longer than most splits.
    from skimage.segmentation import watershed

    runs = find_object(level, seeds[0], axes)
    box = Mask(runs).bbox
    mask, origin = runs_mask(runs, box), [start for start, _ in box]
    # The number of the seed at its voxel, 0 elsewhere, as `watershed` takes it.
    markers = np.zeros(mask.shape, np.int32)
    places: list[tuple[int, ...]] = []
    for number, seed in enumerate(seeds, 1):
        seed_index = tuple(int(seed[a]) - o for a, o in zip(axes, origin, strict=True))
        inside = all(0 <= i < n for i, n in zip(seed_index, mask.shape, strict=True))
        if not inside or not mask[seed_index]:
            return _find_pieces(level, seeds, axes)
        if markers[seed_index]:
            raise ValueError(ONE_PLACE)
        markers[seed_index] = number
        places.append(seed_index)
    # Padded, since an object also ends at the border of its box.
    depth = ndimage.distance_transform_edt(np.pad(mask, 1), sampling=weights)
    depth = depth[(slice(1, -1),) * mask.ndim]
    for number in range(1, len(seeds) + 1):
        if _mark_ascent(depth, markers, number):
            continue
        # Two seeds lie on one hill, where depth cannot part them. On a flat surface the
        # watershed gives each voxel to its nearest seed.
        markers[markers > 0] = 0
        for again, seed in enumerate(places, 1):
            markers[seed] = again
        depth = np.zeros_like(depth)
        break
    parts: Any = watershed(-depth, markers, mask=mask)
    return [mask_runs(parts == n, origin) for n in range(1, len(seeds) + 1)]


def _find_pieces(
    level: CanvasLevel, seeds: Sequence[Sequence[int]], axes: Sequence[int]
) -> list[Indices]:
    """Find the pieces of an object that do not touch, each by one seed."""
    pieces = [find_object(level, seed, axes) for seed in seeds]
    if len({piece.tobytes() for piece in pieces}) < len(seeds):
        raise ValueError(ONE_PLACE)
    return pieces


def _mark_ascent(depth: Any, markers: Any, number: int) -> bool:
    """Mark the way from a seed to the top of its hill; False where another seed did.

    Without it a seed at the foot of a hill would lose the hill: the seed that reaches
    its top first would flood over the saddle.
    """
    top_index = tuple(int(i[0]) for i in np.nonzero(markers == number))
    while True:
        around = tuple(slice(max(i - 1, 0), i + 2) for i in top_index)
        near = depth[around]
        top = np.unravel_index(int(near.argmax()), near.shape)
        if near[top] <= depth[top_index]:
            return True
        top_index = tuple(int(i) + s.start for i, s in zip(top, around, strict=True))
        if markers[top_index] not in (0, number):
            return False
        markers[top_index] = number
