"""Converts the look of an image layer into the rendering settings of OME-Zarr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.metadata.model import Channel, ContrastWindow
from napari_ngff.viewer.layer_plan import origin_in

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["channel_of", "rgb_channels"]

PRIMARY = (
    ("red", (255, 0, 0)),
    ("green", (0, 255, 0)),
    ("blue", (0, 0, 255)),
    ("alpha", (255, 255, 255)),
)


def channel_of(keywords: Mapping[str, Any], dtype: np.dtype[Any]) -> Channel | None:
    """Describe a channel by its name, colour, contrast and whether it is visible.

    A colormap becomes the colour of its brighter end, and gamma is left out: there is
    no more in OME-Zarr.

    Parameters
    ----------
    keywords
        Of the layer.
    dtype
        Of its pixels.

    Returns
    -------
    Channel or None
        None where neither colours nor contrast are given.
    """
    colormap, limits = keywords.get("colormap"), keywords.get("contrast_limits")
    if colormap is None and limits is None:
        return None
    color, inverted = _brightest_color("gray" if colormap is None else colormap)
    start, end = _dtype_range(dtype) if limits is None else (float(n) for n in limits)
    low, high = _dtype_range(dtype)
    origin = origin_in(keywords.get("metadata", {}))
    stated = origin.contrast if origin is not None else None
    # The range of the slider, as the file had it: napari does not keep it in the layer.
    if stated is not None and stated.min is not None and stated.max is not None:
        low, high = stated.min, stated.max
    return Channel(
        str(keywords.get("name", "")) or None,
        color,
        # OME-Zarr wants start and end between min and max.
        ContrastWindow(start, end, min(low, start), max(high, end)),
        bool(keywords.get("visible", True)),
        inverted,
    )


def rgb_channels(count: int, dtype: np.dtype[Any]) -> tuple[Channel, ...]:
    """Describe the channels of an image in colours; axes (..., `count`)."""
    low, high = _dtype_range(dtype)
    # Colours are shown from 0 on, also of signed types.
    window = ContrastWindow(max(low, 0.0), high, low, high)
    return tuple(
        Channel(label, color, window, label != "alpha")
        for label, color in PRIMARY[:count]
    )


def _dtype_range(dtype: np.dtype[Any]) -> tuple[float, float]:
    if dtype.kind == "f":
        # Floats have no range of their own; images of floats often go from 0 to 1.
        return 0.0, 1.0
    return float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)


def _brightest_color(colormap: Any) -> tuple[tuple[int, int, int], bool]:
    """Return the brighter end of a colormap, and whether that is its first colour."""
    from napari.utils.colormaps import ensure_colormap

    colors = np.asarray(ensure_colormap(colormap).colors, float)[:, :3]
    # A map from white to a dark colour is one that OME-Zarr calls "inverted".
    inverted = bool(colors[0].sum() > colors[-1].sum())
    end = np.rint(255 * colors[0 if inverted else -1]).astype(int)
    return (int(end[0]), int(end[1]), int(end[2])), inverted
