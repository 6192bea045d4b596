"""Makes a canvas the data of a napari layer."""

from __future__ import annotations

from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.store.arrays.lazy_array import dask_array_type
from napari_ngff.viewer.private.slicing import LevelList

if TYPE_CHECKING:
    from napari_ngff.labels.canvas import Canvas

SHOWS_OTHER = "{} shows another image by now. Try again there."

NOT_REPLACED = (
    "The data of these labels are a file and its edits, and cannot be replaced. Change"
    " them with data_setitem, or add a new layer."
)


class CanvasData(LevelList):  # type: ignore[misc]
    """The levels of a canvas as dask arrays; all other indices go to level 0.

    napari's layers of several levels must hold a `LevelList`, whose own indices are
    levels alone.

    Parameters
    ----------
    canvas
        The pyramid with its edits.
    """

    def __init__(self, canvas: Canvas) -> None:
        self.canvas = canvas
        super().__init__([level.as_dask() for level in canvas.levels])

    def __deepcopy__(self, memo: dict[int, Any]) -> CanvasData:
        # napari copies layers deeply when it duplicates them: strokes on one must not
        # change the other.
        return CanvasData(self.canvas.copy())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int | np.integer):
            return self.canvas.levels[index].as_dask()
        if isinstance(index, slice):
            # Slices select levels, as in napari's class; only a tuple of indices goes
            # to the voxels.
            return [level.as_dask() for level in self.canvas.levels[index]]
        return self.canvas.levels[0].as_dask()[index]

    def __iter__(self) -> Any:
        return (level.as_dask() for level in self.canvas.levels)

    @property
    def dtype(self) -> Any:
        """Type of a label, which grows with what is painted."""
        return self.canvas.dtype

    # napari's own compares the list of levels, so `data == 3` would not look at voxels.

    def __eq__(self, other: object) -> Any:
        if _is_value(other):
            return self[0] == other
        return super().__eq__(other)

    def __ne__(self, other: object) -> Any:
        if _is_value(other):
            return self[0] != other
        return not super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]

    def __setitem__(self, index: Any, value: Any) -> None:
        msg = "Set values with layer.data_setitem(indices, values): it can be undone."
        raise TypeError(msg)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            msg = "Labels with edits cannot be viewed without copying them."
            raise ValueError(msg)
        return self[0].__array__(dtype)

    def check_replacement(self, data: object, *, is_saved: bool) -> None:
        """Raise TypeError if a layer of these labels cannot get other data.

        If they are saved, it gets those of the same file only, such as a result of
        `astype`: others would be saved into the file of this layer without what they
        show.
        """
        if not isinstance(data, CanvasData) or data.shapes != self.shapes:
            raise TypeError(NOT_REPLACED)
        ours, other = self.canvas.levels[0], data.canvas.levels[0]
        if is_saved and ours.source is not other.source:
            raise TypeError(NOT_REPLACED)

    def astype(self, dtype: Any, **_: Any) -> CanvasData:
        """Return the same labels and edits in another type of integers.

        Raises
        ------
        OverflowError
            Where a label does not fit. All are read, unless any of the old type does.
        """
        dtype = np.dtype(dtype)
        if dtype.kind not in "iu":
            raise OverflowError(f"Labels cannot be {dtype}: they are integers.")
        if not np.can_cast(self.dtype, dtype, "safe"):
            limits = np.iinfo(dtype)
            if (highest := self.max()) > limits.max or self.min() < limits.min:
                msg = f"Labels up to {highest} do not fit into {dtype}."
                raise OverflowError(msg)
        twin = self.canvas.copy()
        twin.change_dtype(dtype)
        return CanvasData(twin)

    # `numpy.min` and `numpy.max` call these; napari does so before it converts.

    def min(self, **options: Any) -> Any:
        """Smallest value, or the smallest ones along an axis, of all voxels."""
        return _to_number(self[0].min(**options))

    def max(self, **options: Any) -> Any:
        """Largest value, or the largest ones along an axis, of all voxels."""
        return _to_number(self[0].max(**options))


def _to_number(array: Any) -> Any:
    return array if array.ndim else int(array.compute())


def _is_value(other: object) -> bool:
    """Return whether voxels are compared, not lists of levels."""
    dask_array = dask_array_type()
    kinds = (Number, np.ndarray, np.generic)
    return isinstance(other, kinds if dask_array is None else (*kinds, dask_array))
