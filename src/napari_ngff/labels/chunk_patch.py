"""The rasterised edits of one chunk of one level: values, and a mask of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.labels.raster import Raster
from napari_ngff.store.arrays.boxes import Box, enclose_boxes, slice_inside

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.labels.edits import Edit
    from napari_ngff.labels.level_grid import LevelGrid


class ChunkPatch:
    """The labels that the edits up to `end` paint in a chunk.

    Parameters
    ----------
    grid
        Of the level.
    box
        Of the chunk, on the level.
    dtype
        Of the values.

    Attributes
    ----------
    values, mask
        Shape of the box; None before the first edit that changes anything. An edit
        that covers the whole chunk takes no memory for it.
    end
        How many edits of the log it has seen.
    changed
        Number of edits up to the last one that may have changed anything.
    """

    __slots__ = (
        "_noted_from",
        "_records",
        "box",
        "changed",
        "dtype",
        "end",
        "grid",
        "mask",
        "values",
    )

    def __init__(self, grid: LevelGrid, box: Box, dtype: np.dtype[Any]) -> None:
        self.grid = grid
        self.box = box
        self.dtype = dtype
        self.end = 0
        self.changed = 0
        self.values: Any = None
        self.mask: Any = None
        # What was there before a step of the log: its first edit -> values, mask.
        self._records: dict[int, tuple[Any, Any]] = {}
        # The first edit from which on each change was noted.
        self._noted_from = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of voxels per axis."""
        return tuple(stop - start for start, stop in self.box)

    @property
    def nbytes(self) -> int:
        """Bytes of values, masks and records."""
        total = _array_bytes(self.values) + _array_bytes(self.mask)
        return total + sum(
            _array_bytes(v) + _array_bytes(m) for v, m in self._records.values()
        )

    @property
    def is_full(self) -> bool:
        """Return whether the edits cover the whole chunk."""
        # `np.broadcast_to` gives such strides: one value in memory for all voxels.
        return self.mask is not None and 0 in self.mask.strides

    def apply_edit(
        self,
        edit: Edit,
        read: Callable[[Box], Any],
        step: int,
        note: bool = True,
        before: Edit | None = None,
    ) -> bool:
        """Apply the next edit.

        Parameters
        ----------
        read
            Reads a box of the level as it is below the edits; called only for an
            edit that asks what is there.
        step
            Index of the first of the edits that are undone together with this one.
        note
            Whether to note what was there before the step.
        before
            The edit before it in the log, which the patch has seen.

        Returns
        -------
        bool
            Whether the edit concerns the chunk.
        """
        # Large fills are often followed by strokes of the same label: nothing to do.
        single = not isinstance(edit.shape, Raster)
        if single and self.is_full and self.values.flat[0] == edit.label:
            return False
        regions = edit.regions_in(self.grid, self.box, before)
        if edit.depends_on_labels and regions:
            # One read for all parts, since a store reads a whole chunk for any part of
            # it.
            regions = [enclose_boxes(regions)]
        changed = [
            self._apply_part(edit, region, read, step, note) for region in regions
        ]
        return any(changed)

    def _apply_part(
        self,
        edit: Edit,
        region: Box,
        read: Callable[[Box], Any],
        step: int,
        note: bool,
    ) -> bool:
        """Apply an edit in a part of the chunk; return whether it has any effect."""
        cover: Any
        label: Any
        cover, label = edit.cover_and_values(self.grid, region)
        part = slice_inside(region, self.box)
        if cover is not False and edit.depends_on_labels:
            cover = edit.replaced_mask(self._current_values(part, read(region))) & cover
            # True instead of an array: a full cover takes no memory below.
            cover = True if cover.all() else cover
        # Before the note: an edit that changes nothing must not cost a record.
        if cover is False or (cover is not True and not cover.any()):
            return False
        shared = self._note_before(step, note)
        # An array of no axes, or of the shape of the region for a raster.
        label = label.astype(self.dtype, copy=False)
        if cover is True and region == self.box and not label.ndim:
            self.values = np.broadcast_to(label, self.shape)
            self.mask = np.broadcast_to(np.True_, self.shape)
            return True
        if self.values is None:
            self.values = np.zeros(self.shape, self.dtype)
            self.mask = np.zeros(self.shape, bool)
        # The record has these very arrays, and a broadcast value cannot be written to.
        elif shared or not self.values.flags.writeable:
            self.values, self.mask = self.values.copy(), self.mask.copy()
        if cover is True:
            self.values[part] = label
            self.mask[part] = True
        else:
            np.copyto(self.values[part], label, where=cover)
            self.mask[part] |= cover
        return True

    def _current_values(self, part: Any, below: Any) -> Any:
        if self.values is None:
            return below
        return np.where(self.mask[part], self.values[part], below)

    def _note_before(self, step: int, note: bool) -> bool:
        """Record what is there; return whether record and patch now share arrays."""
        if not note:
            # A change without a record cannot be reverted, nor can any step before it.
            self._noted_from = step + 1
        if not note or step in self._records:
            return False
        self._records[step] = self.values, self.mask
        return True

    def revert_to(self, end: int) -> bool:
        """Go back to the state before the step that begins with edit `end`.

        Returns
        -------
        bool
            False where that is not known any more: the patch must not be used again.
        """
        if self.end <= end:
            return True
        if end < self._noted_from:
            return False
        later = [index for index in self._records if index >= end]
        # Each record is the state before its step, so the earliest one is before them
        # all.
        if later:
            self.values, self.mask = self._records[min(later)]
        for index in later:
            del self._records[index]
        self.end = end
        return True

    def forget_before(self, start: int) -> None:
        """Drop the records of steps before edit `start` of the log."""
        self._noted_from = max(self._noted_from, start)
        self._records = {i: r for i, r in self._records.items() if i >= start}


def _array_bytes(array: Any) -> int:
    """Return the bytes that an array really takes, 0 for a broadcast value."""
    return 0 if array is None or 0 in array.strides else int(array.nbytes)
