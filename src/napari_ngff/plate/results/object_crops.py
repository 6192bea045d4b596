"""Crops of objects: the pixels around each, mixed as on the canvas, and its outline."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from napari_ngff.errors import NodeNotFoundError
from napari_ngff.plate.tables.labelled_image import (
    LabelledImage,
    add_blocks,
    open_labelled,
)
from napari_ngff.store.arrays.boxes import whole_box
from napari_ngff.store.arrays.lazy_array import ArrayWindow
from napari_ngff.store.pyramids.pyramid import Pyramid, open_pyramid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from napari_ngff.store.hierarchy.node import Node

SIDE = 192
"""Pixels along a side of a crop; a level has half of them there, or is the finest."""

CENTROID, OUTLINE = "centroid_", (255, 214, 10)


class CropView(NamedTuple):
    """What crops show.

    Attributes
    ----------
    looks
        Of each channel that is drawn: its index, contrast limits and gamma, and colours
        of 256 intensities (red, green, blue, 0-255) as the bytes of float32.
    size
        Side of a crop, in the unit of the table of objects.
    planes
        Name and index of axes that are not of space, such as the time point.
    has_outline
        Whether the outline of the object is drawn.
    """

    looks: tuple[tuple[int, tuple[float, float], float, bytes], ...]
    size: float
    planes: tuple[tuple[str, int], ...] = ()
    has_outline: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class CropField:
    """An image with its labels, open to read crops; safe to use from several threads.

    Attributes
    ----------
    node
        The image.
    labelled
        Both, at the level that has the size of the labels.
    pyramid
        All levels of the image.
    """

    node: Node
    labelled: LabelledImage
    pyramid: Pyramid
    _found: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def open(cls, node: Node, labels: str) -> CropField:
        """Open an image and its labels; see `open_labelled` for errors."""
        return cls(node, open_labelled(node, labels), open_pyramid(node))

    def find_objects(self, outer: tuple[int, ...]) -> Any:
        """Find all objects at an index on the axes that are not of space, only once.

        Returns
        -------
        LabelStatistics
            Of no channel.
        """
        if outer not in self._found:
            image = replace(self.labelled, names=())
            boxes = (
                box
                for box in image.list_blocks()
                if tuple(box[axis][0] for axis in image.outer_axes) == outer
            )
            self._found.update(add_blocks(map(image.measure_block, boxes)))
        return self._found[outer]

    def find_size(self) -> float:
        """Return the side of crops in which 95 % of the objects have some room."""
        found = self.find_objects((0,) * len(self.labelled.outer_axes))
        sides = (found.stops - found.starts)[:, -2:] * self.labelled.voxel_size[-2:]
        return 1.5 * float(np.percentile(sides.max(axis=1), 95)) if len(sides) else 0.0

    def read_crop(self, label: int, row: Mapping[str, Any], view: CropView) -> Any:
        """Read the crop of an object: of the coarsest level that has enough pixels.

        Parameters
        ----------
        row
            Of a table as of `LabelledImage.tabulate_blocks`. Where it has no centroid,
            or the object is not around it, the object is looked for.

        Returns
        -------
        ndarray
            uint8, axes "yxc" with red, green, blue.

        Raises
        ------
        OMEZarrError, OSError
            Where there is no such object, or it cannot be read.
        """
        labelled, middle = (
            self.labelled,
            self._find_middle({**dict(view.planes), **row}),
        )
        steps = (np.arange(SIDE) + 0.5) / SIDE - 0.5
        grid = np.outer(view.size / np.array(labelled.voxel_size[-2:]), steps)
        shape = [labelled.image.shape[axis] for axis in labelled.order]
        sample = partial(sample_plane, labelled.read_labels, shape)
        mask = sample(np.nan_to_num(middle), grid) == label
        if np.isnan(middle).any() or not mask.any():
            outer = tuple(int(middle[axis]) for axis in labelled.outer_axes)
            found = self.find_objects(outer)
            places = np.flatnonzero(found.labels == label)
            if not len(places):
                raise NodeNotFoundError(f"There is no object {label} in the labels.")
            middle = (found.moments[places] / found.counts[places, None])[0]
            mask = sample(middle, grid) == label
        pixels = self._mix_channels(middle, grid, view)
        if view.has_outline:
            wide = np.pad(mask, 2, mode="edge")
            inner = wide[4:, 2:-2] & wide[:-4, 2:-2] & wide[2:-2, 4:] & wide[2:-2, :-4]
            pixels[mask & ~inner] = OUTLINE
        # As the canvas shows an image that counts downwards.
        y, x = np.sign(labelled.scale[-2:]).astype(int)
        return pixels[::y, ::x].copy()

    def _find_middle(self, known: Mapping[str, Any]) -> Any:
        """Find the index of an object; NaN along y and x where that is not known."""
        labelled, middle = self.labelled, list[float]()
        for axis, each in enumerate(labelled.axes):
            centroid = float(known.get(f"{CENTROID}{each.name}", np.nan))
            if axis in labelled.outer_axes:
                middle.append(int(known.get(each.name, 0)))
            elif axis in labelled.inner_axes[-2:] or not np.isnan(centroid):
                middle.append(labelled.find_index(axis, centroid))
            else:
                middle.append((labelled.image.shape[labelled.order[axis]] - 1) / 2)
        return np.array(middle)

    def _mix_channels(self, middle: Any, grid: Any, view: CropView) -> Any:
        """Mix channels, as layers with the blending "additive" are."""
        labelled, mixed = self.labelled, np.zeros((SIDE, SIDE, 3), np.float32)
        order, levels = [*labelled.order], self.pyramid.multiscale.levels
        scales = [np.array(x.scale)[order] / labelled.scale for x in levels]
        # A level that is bent is not where it would be read.
        enough = [
            number
            for number, level in enumerate(levels)
            if level.transformation is None
            and (np.ptp(grid, axis=1) / scales[number][-2:] >= SIDE // 2 - 1).all()
        ]
        number = max(enough, default=0)
        source, scale = self.pyramid.levels[number], scales[number]
        moved = np.array(levels[number].translation)[order] - labelled.translation
        at = (middle - moved / labelled.scale) / scale
        count = 1 if labelled.channel is None else source.shape[labelled.channel]
        looks = (look for look in view.looks if look[0] < count)
        for channel, (low, high), gamma, colors in looks:
            box = list(whole_box(source.shape))
            if labelled.channel is not None:
                box[labelled.channel] = channel, channel + 1
            window = ArrayWindow(source, labelled.order, tuple(box))
            plane = sample_plane(window.read, window.shape, at, grid / scale[-2:, None])
            share = (plane.astype(np.float32) - low) / max(high - low, 1e-12)
            share = np.clip(np.nan_to_num(share), 0, 1) ** gamma
            palette = np.frombuffer(colors, np.float32).reshape(256, 3)
            mixed += palette[(share * 255).astype(np.uint8)]
        return np.minimum(mixed, 255).astype(np.uint8)


def sample_plane(
    read: Callable[[Any], Any], shape: Sequence[int], middle: Any, grid: Any
) -> Any:
    """Read the nearest voxels of a grid around a point; 0 outside of the image.

    Parameters
    ----------
    read
        Called with a box.
    middle
        Index along all axes; the nearest plane is read.
    grid
        Distances along y and along x, in voxels, ascending, shape (2, n).
    """
    places = np.round(middle[-2:, None] + grid).astype(int)
    sizes = np.array(shape)
    planes = np.clip(np.round(middle[:-2]), 0, sizes[:-2] - 1).astype(int)
    inside = (places >= 0) & (places < sizes[-2:, None])
    places = np.clip(places, 0, sizes[-2:, None] - 1)
    first, last = np.append(planes, places[:, 0]), np.append(planes, places[:, -1])
    box = tuple(zip(first.tolist(), (last + 1).tolist(), strict=True))
    block = read(box).reshape((last - first + 1)[-2:])
    rows, columns = places - places[:, :1]
    return block[np.ix_(rows, columns)] * np.outer(*inside)
