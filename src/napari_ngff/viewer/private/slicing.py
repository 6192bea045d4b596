"""How napari slices layers (0.9 and 0.10): its requests, their answers, and when."""

from __future__ import annotations

from functools import cache
from types import CodeType
from typing import Any

import numpy as np

from napari_ngff.viewer.private.lost import import_private, tell_lost
from napari_ngff.viewer.private.napari_window import is_called_by

READS = "Pixels are read while the window waits."
PAINTS = "Labels cannot be painted."

# A request has the state of a layer that a slice depends on, reads it, and is answered
# by the pixels.
ImageRequest = import_private("napari.layers.image._slice:_ImageSliceRequest", READS)
LabelsRequest = import_private("napari.layers.labels._slice:_LabelsSliceRequest", READS)
SliceAnswer = import_private(
    "napari.layers._scalar_field._slice:_ScalarFieldSliceResponse", READS
)
Picture = import_private("napari.layers._scalar_field._slice:_ScalarFieldView", READS)
LabelsSlicing = import_private(
    "napari.layers.labels.labels:_LabelsSlicingState", PAINTS
)
# Layers of several levels must hold one.
LevelList = import_private("napari.layers._multiscale_data:MultiScaleData", PAINTS)


def level_spans(request: Any, level: int) -> Any:
    """Return where a request cuts a level: a point, and margins on both sides."""
    return request._thick_slice_at_level(level)


def read_thumbnail_of(request: Any) -> Any:
    """Read the thumbnail of a request again."""
    spans = level_spans(request, request.thumbnail_level)
    values = request._project_thick_slice(request.data_at_thumbnail_level, spans)
    return np.transpose(values, request._get_order())


def is_slicing() -> bool:
    """Return whether napari is slicing a layer, to draw it, in the calling thread.

    napari has no other sign of it: a script that runs in the main thread asks the same
    array for the same part. `check_slicing` tests whether it holds.
    """
    code = _slicing_code()
    return code is not None and is_called_by(code)


@cache
def _slicing_code() -> CodeType | None:
    """Find the function that all slicing in the main thread goes through."""
    function = getattr(LabelsSlicing, "set_view_slice", None)
    code: CodeType | None = getattr(function, "__code__", None)
    return code


class SlicingProbe:
    """An array that notes whether it is read while napari slices, as `is_slicing`."""

    shape, ndim, dtype = (2, 2), 2, np.dtype("u1")
    is_sliced: bool | None = None

    def __getitem__(self, index: Any) -> Any:
        self.is_sliced = is_slicing()
        return np.zeros(self.shape, self.dtype)[index]

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self[:]


@cache
def check_slicing() -> None:
    """Tell, once, if it is no longer noticed that napari slices."""
    from napari.layers import Image

    probe = SlicingProbe()
    Image(probe, contrast_limits=(0, 1))
    # None where napari slices in other threads, by a preference.
    if probe.is_sliced is False:
        tell_lost(READS, "slices of layers")
