"""A label array as the shape of an edit, such as the result of another plugin."""

from __future__ import annotations

import base64
import math
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_ngff.store.arrays.boxes import Box, box_shape
from napari_ngff.store.compression import from_zlib

if TYPE_CHECKING:
    from napari_ngff.labels.level_grid import LevelGrid
    from napari_ngff.labels.shapes import Cover


@dataclass(frozen=True, slots=True, eq=False)
class Raster:
    """Labels on a grid of their own, each voxel of level 0 taking the nearest.

    A voxel of a coarser level takes the value of its sample. A stroke may grow there to
    stay visible, but in a picture of many labels none may grow over the others.

    Attributes
    ----------
    values
        Integers, on the painted axes; not changed any more.
    origin
        Where the first voxel begins along each painted axis: an edge, not a centre,
        in voxels of level 0, of which voxel 0 begins at 0.
    step
        Size of a voxel along each painted axis, in voxels of level 0.
    clear
        The value that leaves what is there; None where each value is painted.
    """

    values: npt.NDArray[Any]
    origin: tuple[float, ...]
    step: tuple[float, ...]
    clear: int | None = None

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Raster)
            and (self.origin, self.step, self.clear)
            == (other.origin, other.step, other.clear)
            and np.array_equal(self.values, other.values)
        )

    def __hash__(self) -> int:
        # Not the values, which may be many; equal ones still have equal hashes.
        return hash((self.origin, self.step, self.clear, self.values.shape))

    @property
    def bbox(self) -> Box:
        """Rectangle of level 0 that it stays inside."""
        # Voxels of level 0 whose centre, at + 1/2, is inside.
        return tuple(
            (math.ceil(first - 0.5), math.ceil(first + size * step - 0.5))
            for first, step, size in zip(
                self.origin, self.step, self.values.shape, strict=True
            )
        )

    def covered_voxels(self, grid: LevelGrid, box: Box, touch: bool) -> Cover:
        """Return which voxels of a box of a level it covers."""
        return self.cover_and_values(grid, box)[0]

    def cover_and_values(
        self, grid: LevelGrid, box: Box
    ) -> tuple[Cover, npt.NDArray[Any]]:
        """Return which voxels of a box of a level it covers, and their labels.

        The labels of voxels that it does not cover are any.
        """
        covered, values = self._sample_values(grid, box)
        if self.clear is not None:
            covered = covered & (values != self.clear)
        if covered.all():
            return True, values
        return (covered if covered.any() else False), values

    def _sample_values(self, grid: LevelGrid, box: Box) -> tuple[Any, npt.NDArray[Any]]:
        """Return which voxels of a level's box lie in the picture, and their values."""
        inside: Any = np.ones(box_shape(box), bool)
        index = []
        for axis, span in enumerate(box):
            # First and last are the same voxel for samples.
            sample, _ = grid.block_bounds(axis, span, False)
            size = self.values.shape[axis]
            voxel = np.floor((sample + 0.5 - self.origin[axis]) / self.step[axis])
            shape = (-1,) + (1,) * (len(box) - axis - 1)
            inside &= ((voxel >= 0) & (voxel < size)).reshape(shape)
            # Outside the nearest value is read, and `inside` says that it does not
            # count.
            index.append(np.clip(voxel, 0, size - 1).astype(np.int64))
        values: npt.NDArray[Any] = self.values[np.ix_(*index)]
        return inside, values

    def dump(self) -> dict[str, Any]:
        """Convert it into what `json` takes."""
        # A journal may be recovered on another machine: the byte order is stated.
        dtype = self.values.dtype.newbyteorder("<")
        packed = zlib.compress(self.values.astype(dtype).tobytes(), 1)
        return {
            "values": base64.b64encode(packed).decode(),
            "dtype": dtype.str,
            "size": list(self.values.shape),
            "origin": list(self.origin),
            "step": list(self.step),
            "clear": self.clear,
        }

    @classmethod
    def load(cls, data: dict[str, Any]) -> Raster:
        """Read what `dump` returned, also from JSON.

        Raises
        ------
        ValueError, KeyError, TypeError, zlib.error
            Where it is something else.
        """
        size, dtype = tuple(data["size"]), np.dtype(data["dtype"])
        most = math.prod(size) * dtype.itemsize
        raw = bytes(from_zlib(base64.b64decode(data["values"]), most))
        values = np.frombuffer(raw, dtype).reshape(size)
        return cls(values, tuple(data["origin"]), tuple(data["step"]), data["clear"])


def cut_labels(data: Any) -> tuple[npt.NDArray[Any], tuple[int, ...]]:
    """Copy the smallest box of an array that has all its labels.

    Returns
    -------
    tuple
        The labels, in the smallest type, and the first index along each axis.

    Raises
    ------
    ValueError
        Where one is negative, or all are 0.
    """
    corners = []
    for index in np.ndindex(data.shape[:-2]):
        plane = np.asarray(data[index]) != 0
        rows, columns = (np.flatnonzero(plane.any(axis)) for axis in (1, 0))
        if rows.size:
            corners += [(*index, rows[end], columns[end]) for end in (0, -1)]
    if not corners:
        raise ValueError("All labels are 0.")
    low, high = np.min(corners, 0), np.max(corners, 0) + 1
    values = np.asarray(data[tuple(map(slice, low, high))])
    if values.min() < 0:
        raise ValueError("Some labels are negative, which no label image can have.")
    return values.astype(np.min_scalar_type(int(values.max()))), tuple(low.tolist())
