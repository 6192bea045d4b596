"""Converts pixels of types that viewers cannot draw into types that they can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from napari_ngff.store.arrays.lazy_array import ArraySource

if TYPE_CHECKING:
    from napari_ngff.store.arrays.boxes import Box


def drawn_numbers(block: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Convert booleans to 0 and 1, and complex numbers to magnitudes."""
    # A boolean is stored as a byte of 0 or 1, so a view shows numbers without copying.
    return block.view(np.uint8) if block.dtype.kind == "b" else np.abs(block)


LARGEST_EXACT = 2**53
"""Largest number up to which float64 has every integer."""


def label_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Choose the type of integers for labels of a stored type."""
    if dtype.kind == "f":
        # Signed: floats may be negative. A float32 has integers up to 2**24, which
        # int32 holds.
        return np.dtype(np.int32 if dtype.itemsize <= 4 else np.int64)
    return np.dtype(np.uint8) if dtype.kind == "b" else dtype


def as_labels(block: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Round to integers of `label_type`; NaN and infinity become 0."""
    dtype = label_type(block.dtype)
    if block.dtype.kind != "f":
        return block.astype(dtype, copy=False)
    # In float64, since float16 and float32 cannot hold the limits of an integer type
    # exactly.
    numbers = np.rint(np.where(np.isfinite(block), block, 0).astype(np.float64))
    limits = np.iinfo(dtype)
    low, high = max(limits.min, -LARGEST_EXACT), min(limits.max, LARGEST_EXACT)
    return np.clip(numbers, low, high).astype(dtype)


@dataclass(frozen=True, slots=True)
class _OtherType(ArraySource):
    """A source whose elements are read as another type: of pixels, numbers."""

    source: ArraySource

    @property
    @override
    def shape(self) -> tuple[int, ...]:
        return self.source.shape

    @property
    @override
    def chunks(self) -> tuple[int, ...]:
        return self.source.chunks

    @property
    @override
    def dtype(self) -> np.dtype[Any]:
        return self._convert(np.empty(0, self.source.dtype)).dtype

    def _convert(self, block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return drawn_numbers(block)

    @override
    def read(self, box: Box) -> np.ndarray[Any, Any]:
        return self._convert(self.source.read(box))


@dataclass(frozen=True, slots=True)
class DrawablePixels(_OtherType):
    """A source of booleans as 0 and 1, or of complex numbers as magnitudes."""


@dataclass(frozen=True, slots=True)
class RoundedLabels(_OtherType):
    """A source of labels that are stored as floats, as integers."""

    def _convert(self, block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return as_labels(block)


def drawable_labels(source: ArraySource) -> ArraySource:
    """Return a source of labels as it is, or as integers where it has floats."""
    return RoundedLabels(source) if source.dtype.kind == "f" else source


def drawable_pixels(source: ArraySource) -> ArraySource:
    """Return a source as it is, or as numbers where viewers cannot draw its type."""
    return DrawablePixels(source) if source.dtype.kind in "bc" else source
