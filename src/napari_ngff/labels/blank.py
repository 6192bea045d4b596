"""Levels of a label image that does not exist yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from napari_ngff.labels.grid import Box

__all__ = ["Blank"]


@dataclass(frozen=True, slots=True)
class Blank:
    """An array of zeros that takes no memory; an `ArraySource`."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]

    def read(self, box: Box) -> np.ndarray[Any, Any]:
        """Read a rectangle of zeros."""
        return np.zeros([stop - start for start, stop in box], self.dtype)
