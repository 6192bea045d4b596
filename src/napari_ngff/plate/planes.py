"""Planes of mosaics, kept whole once they are drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from napari_ngff.store.cache import ByteCache

if TYPE_CHECKING:
    import threading

    import numpy as np

__all__ = ["PLANE_BYTES", "Plane", "kept", "make_room"]

PLANE_BYTES = 32 * 2**20
"""Planes of a level of at most so many bytes are kept whole."""

MOST_PLANES = 32
"""So many are kept at most, of plates of many channels."""


@dataclass(slots=True, eq=False)
class Plane:
    """One plane of a level, and which tiles have been drawn into it."""

    pixels: np.ndarray[Any, Any]
    drawn: set[int] = field(default_factory=set)
    locks: dict[int, threading.Lock] = field(default_factory=dict)


kept: ByteCache[Plane] = ByteCache(8 * PLANE_BYTES)
"""By the token of the level, and the indices of the plane in it."""


def make_room(channels: int) -> None:
    """Keep planes of all channels: that of the level on the screen and the coarsest."""
    kept.limit = max(kept.limit, min(2 * channels, MOST_PLANES) * PLANE_BYTES)
