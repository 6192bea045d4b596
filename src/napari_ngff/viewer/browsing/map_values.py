"""Values by which the wells of a map are coloured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Coloring", "colors"]


@dataclass(frozen=True, slots=True)
class Coloring:
    """Values for the map.

    Attributes
    ----------
    values
        By path of the well; None where there is none.
    limits
        Values of the first and the last colour.
    title
        What they are.
    """

    values: dict[str, float | None]
    limits: tuple[float, float]
    title: str


def colors() -> np.ndarray[Any, Any]:
    """Give colours from low to high that all eyes tell apart.

    Returns
    -------
    numpy.ndarray
        uint8, 256 rows of red, green, blue.
    """
    from napari.utils.colormaps import ensure_colormap

    found = ensure_colormap("viridis").map(np.linspace(0, 1, 256))
    rounded: np.ndarray[Any, Any] = np.rint(255 * found[:, :3]).astype(np.uint8)
    return rounded
