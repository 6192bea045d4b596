"""A canvas as the data of a napari layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from napari.layers._multiscale_data import MultiScaleData

if TYPE_CHECKING:
    from napari_ngff.labels.canvas import Canvas

__all__ = ["CanvasData"]


class CanvasData(MultiScaleData):  # type: ignore[misc]
    """The levels of a canvas as dask arrays; all other indices go to level 0.

    napari's layers of several levels must hold a ``MultiScaleData`` (private; the same
    in 0.9), whose own indices are levels alone.

    Parameters
    ----------
    canvas
        The pyramid with its edits.
    """

    def __init__(self, canvas: Canvas) -> None:
        self.canvas = canvas
        super().__init__([level.lazy() for level in canvas.levels])

    def __deepcopy__(self, memo: dict[int, Any]) -> CanvasData:
        return CanvasData(self.canvas.copy())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int | np.integer):
            return self.canvas.levels[index].lazy()
        if isinstance(index, slice):
            return [level.lazy() for level in self.canvas.levels[index]]
        return self.canvas.levels[0].lazy()[index]

    def __iter__(self) -> Any:
        return (level.lazy() for level in self.canvas.levels)

    @property
    def dtype(self) -> Any:
        """Type of a label, which grows with what is painted."""
        return self.canvas.dtype

    def __setitem__(self, index: Any, value: Any) -> None:
        msg = "Set values with layer.data_setitem(indices, values): it can be undone."
        raise TypeError(msg)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            msg = "Labels with edits cannot be viewed without copying them."
            raise ValueError(msg)
        return self[0].__array__(dtype)

    def astype(self, dtype: Any, **_: Any) -> CanvasData:
        """Give the same labels and edits in another type of integers.

        Raises
        ------
        OverflowError
            Where a label that is known does not fit.
        """
        dtype = np.dtype(dtype)
        highest = self.canvas.highest_known()
        if dtype.kind not in "iu" or highest > np.iinfo(dtype).max:
            msg = f"Labels up to {highest} do not fit into {dtype}."
            raise OverflowError(msg)
        twin = self.canvas.copy()
        twin.widen(dtype)
        return CanvasData(twin)

    # `numpy.min` and `numpy.max` call these; napari does so before it converts.

    def min(self, **_: Any) -> int:
        """Smallest value, from the coarsest level and zero."""
        return min(0, int(np.min(np.asarray(self[-1]))))

    def max(self, **_: Any) -> int:
        """Largest value that is known without reading the finer levels."""
        return self.canvas.highest_known()
