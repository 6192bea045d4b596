"""Opens the writer of a new pyramid, of an image or of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from napari_ngff.labels.create_labels import METHOD
from napari_ngff.store.pyramids.level_reduction import LevelReduction
from napari_ngff.store.pyramids.pyramid_writer import MeanReducer, PyramidWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from napari_ngff.metadata.model import Axis
    from napari_ngff.store.pyramids.pyramid_plan import PyramidPlan
    from napari_ngff.store.write.new_hierarchy import NewHierarchy


def open_pyramid_writer(
    draft: NewHierarchy,
    path: str,
    plan: PyramidPlan,
    axes: Sequence[Axis],
    dtype: np.dtype[Any],
    version: str,
    *,
    is_label: bool,
) -> PyramidWriter:
    """Create the arrays of a pyramid in the group at `path`, and return their writer.

    Coarser levels are the mean of an image, or the mode of labels.
    """
    names = tuple(axis.name for axis in axes)
    arrays = [
        (f"{path}/{level}".lstrip("/"), new)
        for level, new in plan.describe_arrays(dtype, names, shuffle=not is_label)
    ]
    reducers = [
        (
            LevelReduction.between_shapes(fine, coarse, METHOD, factors)
            if is_label
            else MeanReducer(factors),
            factors,
        )
        for fine, coarse, factors in plan.steps
    ]
    return PyramidWriter(draft, arrays, reducers, version, plan.tile)
