"""Reads the first pixels of remote layers at once, where no window streams them."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import OMEZarrError
from napari_ngff.store.arrays.lazy_array import LazyArray
from napari_ngff.store.pyramids.pyramid import LevelSource
from napari_ngff.store.sources.read_ahead import call_at_once, is_remote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.store.sources.source import Source
    from napari_ngff.viewer.layer_plan import LayerData

__all__ = ["read_first_pixels"]

MOST_VOXELS = 10_000_000
"""Voxels of the coarsest level up to which napari 0.9 reads all of it for contrast
(``calc_data_range``)."""

PLANE = 2
"""Number of axes of a level of which napari draws all at once."""


def read_first_pixels(layers: Sequence[LayerData], *, shown: bool) -> None:
    """Decode the coarsest levels that napari reads next, one layer after the other.

    Decoded chunks stay in memory. Local pixels, and plates, are left to napari.

    Parameters
    ----------
    layers
        That are about to be made.
    shown
        Whether they are added to a viewer; otherwise they are only made.
    """
    calls, source = [], None
    for data, keywords, kind in layers:
        level = data[-1] if isinstance(data, list) else data
        home = _remote_source(level)
        if home is None or level.size > MOST_VOXELS:
            continue
        is_drawn = keywords.get("visible", True) and level.ndim == PLANE
        # napari measures the contrast of hidden layers, too; of 8 bits it takes all.
        is_measured = "contrast_limits" not in keywords and level.dtype != np.uint8
        if (kind == "image" and is_measured) or (
            is_drawn and (shown or kind == "labels")
        ):
            calls.append(partial(_decode_level, level))
            source = home
    if source is not None:
        call_at_once(source, calls)


def _remote_source(level: Any) -> Source | None:
    """Return the server of a level; None for other levels."""
    window = level.window if isinstance(level, LazyArray) else None
    inner = window.source if window is not None else None
    # Of images of true and false, and the like, the inner one is read.
    inner = getattr(inner, "source", inner)
    if not isinstance(inner, LevelSource) or not inner.array.direct:
        return None
    source = inner.array.source
    return source if is_remote(source) else None


def _decode_level(level: Any) -> None:
    # napari meets the same error, and reports it.
    with suppress(OMEZarrError, OSError):
        np.asarray(level)
