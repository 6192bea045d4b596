"""Makes plain layers of regions of lazy ones, for other plugins.

Most plugins take only arrays of one level in memory. Their results are put back by
`napari_ngff.viewer.bridge.merge_result`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from napari.layers import Image, Labels, Layer

from napari_ngff.labels.level_grid import LevelGrid
from napari_ngff.store.arrays.boxes import Box, box_shape
from napari_ngff.viewer.painting.canvas_labels import CanvasLabels
from napari_ngff.viewer.streaming.regions import level_shapes, same_region, whole_region

WORK = "ome-zarr-work"
"""Where the ``metadata`` of a plain layer keeps its `WorkRegion`."""


@dataclass(frozen=True, slots=True)
class WorkRegion:
    """The region that a plain layer was made of; it is in ``layer.metadata[WORK]``.

    Attributes
    ----------
    name
        Of the layer.
    level
        Level of that layer.
    box
        In voxels of that level, axes of the layer.
    before
        World coordinate along each leading axis that the plain layer lacks.
    """

    name: str
    level: int
    box: Box
    before: tuple[float, ...] = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> WorkRegion:
        # napari copies a layer's metadata; this one never changes.
        return self


def work_size(
    layers: Iterable[Layer], region: Box | None = None, level: int = 0
) -> int:
    """Return the bytes that the plain layers of a region will take; see `work_here`."""
    layers = list(layers)
    total = 0
    for layer in layers:
        box = _level_box(layer, _region_of(layers[0], region, layer), level)
        data = layer.data[level] if layer.multiscale else layer.data
        colours = data.shape[layer.ndim :]
        sizes = box_shape(box)
        total += int(np.prod([*sizes, *colours])) * np.dtype(data.dtype).itemsize
    return total


def work_here(
    layer: Layer, region: Box | None = None, level: int = 0
) -> Image | Labels:
    """Make a plain layer, of one numpy array, of a region of a lazy one.

    Parameters
    ----------
    layer
        Image or labels.
    region
        ``(start, stop)`` per axis of the layer, in voxels of level 0; all by default.
        See `napari_ngff.viewer.streaming.regions`.
    level
        From which to read.

    Returns
    -------
    Image or Labels
        With scale and translation such that each voxel lies where it lies in the
        pyramid. Leading axes of length 1 are dropped, down to two: most plugins want
        a plane, or a stack, alone.

    Raises
    ------
    ValueError
        Where it is another kind of layer, has no such level, or the region is empty.
    """
    if not isinstance(layer, Image | Labels):
        raise ValueError(f"{layer.name} is neither an image nor labels.")
    box = _level_box(layer, region or whole_region(layer), level)
    data = layer.data[level] if layer.multiscale else layer.data
    if isinstance(layer, CanvasLabels):
        # With the edits that are not saved yet, which the stored level does not have.
        pixels = layer.canvas.read(level, box)
    else:
        pixels = np.array(data[tuple(slice(*span) for span in box)])
    shapes = level_shapes(layer)
    # Voxels of level 0 in one of this level, per axis; as napari has it, by shapes
    # alone.
    factor = np.divide(shapes[0], shapes[level])
    first = np.array([start for start, _ in box])
    # The middle of a voxel that holds several lies between theirs.
    corner = first * factor + (factor - 1) / 2
    dropped = _count_dropped(layer, box)
    work = WorkRegion(
        layer.name, level, box, tuple(layer.data_to_world(corner)[:dropped])
    )
    keywords: dict[str, Any] = {
        "name": f"{layer.name} (work)",
        "scale": (layer.scale * factor)[dropped:],
        "translate": (layer.translate + _linear_matrix(layer) @ corner)[dropped:],
        "units": layer.units[dropped:],
        "axis_labels": layer.axis_labels[dropped:],
        "opacity": layer.opacity,
        "blending": layer.blending,
        "metadata": {WORK: work},
    }
    # With axes dropped there is neither rotation nor affine; see `_count_dropped`.
    if not dropped:
        keywords |= {
            "rotate": layer.rotate,
            "shear": layer.shear,
            "affine": layer.affine,
        }
    # Dropped axes have length 1, so this copies nothing.
    pixels = pixels.reshape(pixels.shape[dropped:])
    if isinstance(layer, Labels):
        return Labels(pixels, colormap=layer.colormap, **keywords)
    if not layer.rgb:
        keywords |= {
            "colormap": layer.colormap,
            "contrast_limits": layer.contrast_limits,
            "gamma": layer.gamma,
        }
    return Image(pixels, rgb=layer.rgb, **keywords)


def _region_of(first: Layer, region: Box | None, layer: Layer) -> Box:
    """Return the region of a layer for a region of the first layer."""
    if region is None or layer is first:
        return region or whole_region(layer)
    return same_region(first, region, layer)


def _level_box(layer: Layer, region: Box, level: int) -> Box:
    """Return the voxels of a level that a region touches."""
    shapes = level_shapes(layer)
    if not 0 <= level < len(shapes):
        msg = f"{layer.name} has no level {level}, only 0 to {len(shapes) - 1}."
        raise ValueError(msg)
    if len(region) != layer.ndim:
        msg = f"{layer.name} has {layer.ndim} axes, and the region {len(region)}."
        raise ValueError(msg)
    grid = LevelGrid(shapes[0], shapes[level])
    spans = [
        (max(int(a), 0), min(int(b), n))
        for (a, b), n in zip(region, shapes[0], strict=True)
    ]
    if any(a >= b for a, b in spans):
        raise ValueError(f"Nothing of {layer.name} is in the region {region}.")
    return tuple(
        (int(grid.holder_index(axis, a)), int(grid.holder_index(axis, b - 1)) + 1)
        for axis, (a, b) in enumerate(spans)
    )


def _count_dropped(layer: Layer, box: Box) -> int:
    """Count the leading axes of length 1 that a plain layer can do without."""
    # An affine, a rotation or a shear may mix axes: then none of them can be left out.
    apart = np.allclose(layer.affine.affine_matrix, np.eye(layer.ndim + 1))
    apart &= np.allclose(_linear_matrix(layer), np.diag(layer.scale))
    if not apart:
        return 0
    count = 0
    while len(box) - count > 2 and box[count][1] - box[count][0] == 1:
        count += 1
    return count


def _linear_matrix(layer: Layer) -> Any:
    """Return the linear part of the matrix from voxels to the intrinsic system."""
    from napari.utils.transforms import Affine

    return Affine(
        scale=layer.scale, rotate=layer.rotate, shear=layer.shear, ndim=layer.ndim
    ).linear_matrix
