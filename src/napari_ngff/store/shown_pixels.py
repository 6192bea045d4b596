"""Pixels of types that no viewer draws, as numbers that it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from napari_ngff.store.boxes import Box
    from napari_ngff.store.lazy import ArraySource

__all__ = ["ShownPixels", "shown_pixels"]


@dataclass(frozen=True, slots=True)
class ShownPixels:
    """A source of truth values as 0 and 1, or of complex numbers as magnitudes."""

    source: ArraySource

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements per axis."""
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element."""
        stored = self.source.dtype
        return np.dtype(np.uint8) if stored.kind == "b" else stored.type(0).real.dtype

    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of what is read at once."""
        return self.source.chunks

    def read(self, box: Box) -> np.ndarray[Any, Any]:
        """Read a rectangle."""
        block = self.source.read(box)
        return block.view(np.uint8) if block.dtype.kind == "b" else np.abs(block)


def shown_pixels(source: ArraySource) -> ArraySource:
    """Give a source as it is, or as numbers where a viewer cannot draw its type."""
    return ShownPixels(source) if source.dtype.kind in "bc" else source
