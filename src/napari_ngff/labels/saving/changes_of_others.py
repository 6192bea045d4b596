"""What another program changed in saved blocks, as edits of the log."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_ngff.errors import UnsupportedError
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.raster import Raster
from napari_ngff.store.arrays.boxes import AxisOrder, Box, order_block, order_box

Array = npt.NDArray[Any]


def find_changes(
    box: Box, now: Array, states: Sequence[Array], order: AxisOrder
) -> list[Edit]:
    """Find what leads from the most similar of some states of a block to its present.

    Parameters
    ----------
    box
        Of the block, axes of the file.
    now
        The block as the file has it.
    states
        The block as our own saves can have left it.
    order
        From the axes of the canvas to those of the file.

    Returns
    -------
    list of Edit
        One; none where the block is one of the states.

    Raises
    ------
    UnsupportedError
        Where a part of the block has changed that the canvas does not show.
    """
    expected = min(states, key=lambda state: np.count_nonzero(state != now))
    changed = np.asarray(now != expected)
    count = np.count_nonzero(changed)
    if not count:
        return []
    shown, values = order_block(changed, order), order_block(now, order)
    if np.count_nonzero(shown) < count:
        msg = "Another program changed voxels that are on no axis of the layer."
        raise UnsupportedError(msg)
    present = set(np.unique(values[shown]).tolist())
    # What others left alone has a value that none of their voxels has.
    clear = next(value for value in itertools.count() if value not in present)
    dtype = np.result_type(values.dtype, np.min_scalar_type(clear))
    raster = Raster(
        np.where(shown, values, clear).astype(dtype),
        tuple(float(start) for start, _ in order_box(box, order)),
        (1.0,) * shown.ndim,
        clear,
    )
    return [Edit(raster, tuple(range(shown.ndim)), (), max(present))]
