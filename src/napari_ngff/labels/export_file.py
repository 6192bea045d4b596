"""Writes labels as files of other programs; each file appears when it is complete."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

from napari_ngff.labels.object_export import find_boxes, outline_features, write_boxes
from napari_ngff.store.write.replace_file import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from napari_ngff.labels.canvas_level import CanvasLevel
    from napari_ngff.labels.label_classes import LabelClass

__all__ = ["save_boxes", "save_outlines"]


def save_outlines(
    path: str,
    level: CanvasLevel,
    axes: str,
    classes: Iterable[LabelClass] = (),
    cancel: Callable[[], bool] | None = None,
) -> int:
    """Write the outlines of all objects as GeoJSON, in pixels of level 0.

    Parameters
    ----------
    level
        Of a canvas; of a coarser one outlines are as coarse.
    axes
        A letter each, such as "tzyx"; the last two are y and x.
    classes
        Their names and colours become classifications.
    cancel
        Asked after each plane; True ends it.

    Returns
    -------
    int
        Number of outlines; nothing is written where it was cancelled.

    Raises
    ------
    ValueError
        Where a plane is too large; see `geojson`.
    OSError
        Where it cannot be written.
    """
    full = level.canvas.shape
    # Voxels of level 0 per voxel of the level: QuPath's unit is the pixel of level 0.
    height, width = (full[i] / level.shape[i] for i in (-2, -1))
    stop = _CancelFlag(cancel)
    features = outline_features(
        level, axes, classes=classes, pixel=(height, width), cancel=stop
    )
    # In one piece at the end, so that a cancelled export leaves an older file alone.
    if not stop.cancelled:
        _write_text(path, json.dumps(features))
    return len(features["features"])


def save_boxes(
    path: str,
    level: CanvasLevel,
    axes: str,
    pixel: Sequence[float],
    cancel: Callable[[], bool] | None = None,
) -> int:
    """Write the bounding boxes of all labels as a table of regions of interest.

    Parameters
    ----------
    level
        Of a canvas; boxes of a coarser one are up to a voxel of it too large.
    axes
        A letter each.
    pixel
        Size of a voxel of level 0 along each axis, in micrometres.
    cancel
        Asked after each chunk; True ends it.

    Returns
    -------
    int
        Number of rows; nothing is written where it was cancelled.

    Raises
    ------
    OSError
        Where it cannot be written.
    """
    stop = _CancelFlag(cancel)
    boxes = find_boxes(level, cancel=stop)
    if not stop.cancelled:
        # Without translation: `csv` writes "\r\n" itself, and Windows would add a "\r".
        file = io.StringIO(newline="")
        full = level.canvas.shape
        sizes = zip(pixel, full, level.shape, strict=True)
        write_boxes(file, boxes, axes, [size * n / m for size, n, m in sizes])
        _write_text(path, file.getvalue())
    return len(boxes)


class _CancelFlag:
    """Asks whether to stop, and remembers that the answer was yes."""

    def __init__(self, ask: Callable[[], bool] | None) -> None:
        self._ask = ask
        self.cancelled = False

    def __call__(self) -> bool:
        self.cancelled = self.cancelled or (self._ask is not None and self._ask())
        return self.cancelled


def _write_text(path: str, text: str) -> None:
    replace_file(path, text.encode())
