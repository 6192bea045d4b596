"""Arrays of images and of label images against their metadata."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import OMEZarrError
from napari_ngff.metadata.model import Problem, Severity
from napari_ngff.store.arrays.boxes import Box, box_of, cells_in, whole_box
from napari_ngff.store.pyramids.pyramid import LevelSource, Pyramid, open_pyramid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from napari_ngff.store.arrays.chunked_array import ChunkedArray
    from napari_ngff.store.hierarchy.node import Node

SINCE = {"level-dtype": 6, "dimension-names": 5}
UNTIL = {"dimension-names": 5}
"""First and last minor version in which a problem that opening finds breaks a MUST; in
the other versions it is a warning."""


def open_pyramids(
    node: Node, minor: int
) -> tuple[tuple[Pyramid, ...], list[tuple[str, Problem]]]:
    """Open all multiscales of an image, one read for each array.

    Returns
    -------
    pyramids, findings
        Those that could be opened, and path and problem of what is wrong there.
    """
    pyramids, findings = [], []
    image = node.metadata.image
    for index in range(len(image.multiscales) if image is not None else 0):
        try:
            pyramid = open_pyramid(node, index)
        except (OMEZarrError, OSError) as error:
            problem = Problem(
                "image-unreadable",
                Severity.ERROR,
                f"multiscales/{index}",
                str(error),
                "It is not shown.",
            )
            findings.append((node.location.path, problem))
            continue
        pyramids.append(pyramid)
        for problem in pyramid.problems:
            # Problems of a pyramid state the path of the array before a colon, which a
            # finding has as its own value.
            path, _, where = problem.where.partition(":")
            findings.append(
                (path, lower_severity(replace(problem, where=where), minor))
            )
    return tuple(pyramids), findings


def lower_severity(problem: Problem, minor: int) -> Problem:
    """Turn an error into a warning where the version has no such rule."""
    first, last = SINCE.get(problem.code, 1), UNTIL.get(problem.code, 6)
    if first <= minor <= last:
        return problem
    return replace(problem, severity=Severity.WARNING)


def check_pyramid(
    node: Node, pyramid: Pyramid, minor: int
) -> Iterator[tuple[str, Problem]]:
    """Compare arrays with the rules that reading does not depend on.

    Yields the path of an array or a group, and the problem.
    """
    for array in arrays_of(pyramid):
        yield from ((array.path, problem) for problem in _check_array(array, minor))
    omero = node.metadata.image.omero if node.metadata.image else None
    axis = pyramid.multiscale.channel_axis
    # Without a channel axis there is no length to compare with.
    if omero is not None and omero.channels and axis is not None:
        size = pyramid.levels[0].shape[axis]
        if len(omero.channels) != size:
            text = (
                f'"channels: Array matching the c dimension size." Here they are '
                f"{len(omero.channels)} for {size}."
            )
            consequence = "The first ones count; others get colours of napari's."
            yield (
                node.location.path,
                Problem(
                    "channel-count",
                    Severity.WARNING,
                    "omero/channels",
                    text,
                    consequence,
                ),
            )


def _check_array(array: ChunkedArray, minor: int) -> Iterator[Problem]:
    """Compare one array with the rules for how it is stored."""
    # Names that differ are found when the pyramid is opened; that there are none is an
    # error in 0.5 alone.
    if minor == 5 and array.zarr_format == 3 and array.layout.dimension_names is None:
        text = (
            '"The dimension_names attribute in the zarr.json of the Zarr array of a'
            ' multiscale level MUST match the names in the axes metadata." Here'
            " there is none."
        )
        yield Problem("dimension-names", Severity.ERROR, "", text)
    # 0.1 had flat chunks, and from 0.5 on Zarr v3 has its own rule for keys.
    if minor in (2, 3, 4) and array.layout.keys.separator != "/":
        text = (
            '"Chunks are stored with the nested directory layout." Here the '
            "dimension_separator is another, or none."
        )
        yield Problem("chunk-separator", Severity.WARNING, "", text)


def check_label(
    node: Node, pyramid: Pyramid, image: Pyramid | None
) -> Iterator[tuple[str, Problem]]:
    """Compare a label image with the rules, and with the `image` that it belongs to.

    Yields the path of an array or a group, and the problem.
    """
    path = node.location.path
    for array in arrays_of(pyramid):
        if array.dtype.kind not in "iu":
            text = (
                '"The pixels of the label images MUST be integer data types." Here they'
                f" are {array.dtype}."
            )
            yield array.path, Problem("label-dtype", Severity.ERROR, "", text)
    if node.metadata.image is not None and node.metadata.image.label is None:
        text = (
            '"The OME-Zarr Metadata in this image-level zarr.json file SHOULD contain '
            'another key, image-label."'
        )
        yield path, Problem("image-label-missing", Severity.WARNING, "", text)
    if image is not None:
        yield from ((path, problem) for problem in _compare_levels(pyramid, image))


def _compare_levels(pyramid: Pyramid, image: Pyramid) -> Iterator[Problem]:
    """Compare the levels of a label image, and their shape, with those of its image."""
    count, wanted = len(pyramid.levels), len(image.levels)
    if count != wanted:
        text = (
            '"The JSON array associated with the datasets key MUST have the same '
            'number of entries (scale levels) as the original unlabeled image." Here '
            f"they are {count} for {wanted}."
        )
        yield Problem("label-levels", Severity.ERROR, "multiscales/0", text)
    sizes = dict(zip(image.multiscale.axis_names, image.levels[0].shape, strict=True))
    # By name, not by position: labels may lack axes of the image, such as c.
    label_axes = zip(
        pyramid.multiscale.axis_names, pyramid.levels[0].shape, strict=True
    )
    for name, size in label_axes:
        in_image = sizes.get(name)
        if size not in (1, in_image):
            other = f"{in_image} in the image"
            if in_image is None:
                other = f"the image has no axis {name}"
            text = (
                '"Each dimension of the label should be either the same as the '
                "corresponding dimension of the image, or 1 if that dimension of the "
                f'label is irrelevant." Here {name} is {size}, but {other}.'
            )
            yield Problem("label-shape", Severity.WARNING, "multiscales/0", text)


def check_ids(
    node: Node, pyramid: Pyramid, cancel: Callable[[], bool]
) -> Iterator[tuple[str, Problem]]:
    """Report ids of coarser levels that the finer level does not have there.

    Reads all levels; see `count_strangers`. Yields the path of a level or a group, and
    the problem.
    """
    for fine, coarse in itertools.pairwise(arrays_of(pyramid)):
        # Ids that are not integers are an error of their own; see `check_label`.
        if coarse.dtype.kind not in "iu":
            return
        try:
            strangers = count_strangers(fine, coarse, cancel)
        except (OMEZarrError, OSError) as error:
            problem = Problem("chunk-unreadable", Severity.ERROR, "", str(error))
            yield coarse.path, problem
            return
        if strangers:
            text = (
                f"{strangers} voxels of level {coarse.path} have ids that the finer "
                "level does not have there: ids were interpolated."
            )
            consequence = "Zoomed out, other objects are shown than zoomed in."
            yield (
                node.location.path,
                Problem(
                    "label-levels-interpolated",
                    Severity.WARNING,
                    "multiscales/0/datasets",
                    text,
                    consequence,
                ),
            )


def count_strangers(
    fine: ChunkedArray,
    coarse: ChunkedArray,
    cancel: Callable[[], bool] | None = None,
) -> int:
    """Count voxels of a level whose id the finer level does not have there.

    Reads both levels once, a stored object of the coarser one at a time.

    Parameters
    ----------
    fine, coarse
        Two levels of one pyramid, of equal axes.
    cancel
        Asked before each object whether to stop.

    Returns
    -------
    int
        0 for a level made by nearest, stride or mode, with whatever offset: one voxel
        of the finer level more on each side counts as there.
    """
    pairs = list(zip(fine.shape, coarse.shape, strict=True))
    factors = [n / m for n, m in pairs]
    # One voxel more on each side: writers take different voxels of a block, and round
    # differently. Those that take every n-th voxel may leave some over at the end.
    margins = [1 + (n % m if n % m < n // m else 0) for n, m in pairs]
    strangers = 0
    for cell in cells_in(whole_box(coarse.shape), coarse.shards or coarse.chunks):
        if cancel is not None and cancel():
            break
        box = box_of(cell, coarse.shards or coarse.chunks, coarse.shape)
        sources = tuple(
            # Rounded up: the last voxel of a box may stand for a part of a block only.
            (max(start * n // m - before, 0), min(-(-stop * n // m) + 1, n))
            for (start, stop), n, m, before in zip(
                box, fine.shape, coarse.shape, margins, strict=True
            )
        )
        ids, below = coarse.read(box), fine.read(sources)
        strangers += count_unmatched(ids, below, (box, sources), factors, margins)
    return strangers


def count_unmatched(
    ids: npt.NDArray[Any],
    below: npt.NDArray[Any],
    boxes: tuple[Box, Box],
    factors: Sequence[float],
    margins: Sequence[int],
) -> int:
    """Count ids of a block of the coarser level that no voxel `below` them has."""
    # Per axis: the first finer voxel that each voxel of the box stands for, as an
    # index of `below`. Factors need not be whole numbers, where sizes are odd.
    first = [
        np.floor(np.arange(start, stop) * factor).astype(int) - corner
        for (start, stop), (corner, _), factor in zip(*boxes, factors, strict=True)
    ]
    reach = [
        range(-before, math.ceil(factor) + 1)
        for before, factor in zip(margins, factors, strict=True)
    ]
    # The voxel itself first: it settles nearly all, and the rest are few.
    corners = np.ix_(
        *(f.clip(0, n - 1) for f, n in zip(first, below.shape, strict=True))
    )
    differs = below[corners] != ids
    # Positions, shape (axes, unmatched), and their ids: both shrink with each offset.
    positions, unmatched = np.array(differs.nonzero()), ids[differs]
    for offset in itertools.product(*reach):
        index = tuple(
            (starts[axis] + step).clip(0, size - 1)
            for starts, axis, step, size in zip(
                first, positions, offset, below.shape, strict=True
            )
        )
        differs = below[index] != unmatched
        positions, unmatched = positions[:, differs], unmatched[differs]
        if not unmatched.size:
            break
    return int(unmatched.size)


def arrays_of(pyramid: Pyramid) -> Iterator[ChunkedArray]:
    """Return the stored arrays of the levels; none for computed levels."""
    return (s.array for s in pyramid.levels if isinstance(s, LevelSource))
