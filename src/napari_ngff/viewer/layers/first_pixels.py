"""Reads the first pixels of remote layers at once, where no window streams them."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.plate.mosaic_level import MosaicLevel
from napari_ngff.store.arrays.lazy_array import LazyArray
from napari_ngff.store.pyramids.pyramid import LevelSource, innermost_source
from napari_ngff.store.sources.read_ahead import call_at_once, is_remote
from napari_ngff.viewer.plans.layer_plan import is_joined, origin_of
from napari_ngff.viewer.private.napari_layers import forget_thumbnail
from napari_ngff.viewer.private.slicing import is_slicing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.store.arrays.chunked_array import ChunkedArray
    from napari_ngff.viewer.layers.layer_groups import LayerGroup
    from napari_ngff.viewer.plans.layer_plan import LayerData

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
    calls, source, known = [], None, set()
    for data, keywords, kind in layers:
        level = data[-1] if isinstance(data, list) else data
        array = _remote_array(level)
        if array is None or level.size > MOST_VOXELS:
            continue
        is_drawn = keywords.get("visible", True) and level.ndim == PLANE
        # napari measures the contrast of hidden layers, too; of 8 bits it takes all.
        is_measured = "contrast_limits" not in keywords and level.dtype != np.uint8
        chunks = _first_chunk(level, array)
        if chunks not in known and (
            (kind == "image" and is_measured)
            or (is_drawn and (shown or kind == "labels"))
        ):
            calls.append(partial(_decode_level, level))
            source = array.source
            known.add(chunks)
    if source is not None:
        call_at_once(source, calls)


def _remote_array(level: Any) -> ChunkedArray | None:
    """Return the array of a level that a server has; None for other levels."""
    window = level.window if isinstance(level, LazyArray) else None
    inner = innermost_source(window)
    if not isinstance(inner, LevelSource):
        return None
    return inner.array if is_remote(inner.array.source) else None


def _first_chunk(level: Any, array: ChunkedArray) -> tuple[Any, ...]:
    """Return which chunks a level consists of: channels may share theirs."""
    spans = zip(level.window.box, array.chunks, strict=True)
    return array.path, *(start // max(size, 1) for (start, _), size in spans)


def _decode_level(level: Any) -> None:
    # napari meets the same error, whatever a codec raises, and reports it.
    with suppress(Exception):
        np.asarray(level)


def draw_overviews_later(
    groups: Iterable[LayerGroup], find_viewer: Callable[[], Any]
) -> None:
    """Let overviews of remote plates be empty in viewers without a window.

    Nobody sees them, and drawing them takes several requests for each well. Code that
    asks for the data gets all pixels.

    Parameters
    ----------
    groups
        About to become layers.
    find_viewer
        Returns napari's viewer with a window, or None.
    """

    def leave_empty(level: Any, box: Box) -> bool:
        return find_viewer() is None and is_slicing()

    for group in groups:
        for plan in (group.image, *group.labels):
            level = plan.pyramid.levels[0] if plan is not None else None
            if isinstance(level, MosaicLevel) and level.tiles.concurrency > 1:
                level.tiles.defer = leave_empty


def forget_drawing(layer: Any) -> None:
    """Let a layer be drawn anew by the next viewer: it may have a window."""
    origin = origin_of(layer)
    plan = origin.picture if origin is not None else None
    if plan is not None and is_joined(plan):
        forget_thumbnail(layer)
