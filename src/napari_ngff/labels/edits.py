"""Edits of labels as values, and the ordered log of them.

An edit says: inside this shape (and, if given, only where the value is `source`), the
value becomes `label`. All coordinates are voxels of level 0.
"""

from __future__ import annotations

import base64
import math
import zlib
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.labels.dabs import SMALL
from napari_ngff.labels.raster import Raster
from napari_ngff.labels.shapes import Cover, Everywhere, Mask, Polygon, Stroke
from napari_ngff.labels.shapes import Shape as PlainShape
from napari_ngff.store.arrays.boxes import Box, box_shape
from napari_ngff.store.compression import from_zlib

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from napari_ngff.labels.level_grid import LevelGrid

Shape = PlainShape | Raster

MOST_PACKED = 64
"""Bytes of runs for a packed one: those of a shape are 20 at most."""


@dataclass(frozen=True, slots=True)
class LabelSet:
    """Labels as one value, which all edits of a stroke share: there may be a million.

    Attributes
    ----------
    packed
        The labels, ascending, as signed integers of 64 bits, little-endian.
    """

    packed: bytes = b""

    @classmethod
    def of_labels(cls, labels: Iterable[int]) -> LabelSet:
        """Make the set of some labels.

        Raises
        ------
        OverflowError
            Where one has more than 64 bits.
        """
        if not isinstance(labels, np.ndarray):
            signed = [x if x < 1 << 63 else x - (1 << 64) for x in map(int, labels)]
            labels = np.array(signed, np.int64)
        return cls(np.sort(labels.astype("<i8"), kind="stable").tobytes())

    def find_in(self, values: np.ndarray[Any, Any]) -> Any:
        """Return where values are among the labels."""
        if not self.packed:
            return np.zeros(values.shape, bool)
        labels, keys = np.frombuffer(self.packed, "<i8"), values.astype(np.int64)
        return labels.take(np.searchsorted(labels, keys), mode="clip") == keys

    def dump(self) -> str:
        """Convert it into what `json` takes."""
        return base64.b64encode(zlib.compress(self.packed, 1)).decode()

    @classmethod
    def load(cls, data: Any) -> LabelSet:
        """Read what `dump` returned, or a list of earlier versions.

        Raises
        ------
        ValueError, TypeError, OverflowError, zlib.error
            Where it is something else.
        """
        if not isinstance(data, str):
            return cls.of_labels(data)
        # So many bytes are more labels than anybody has objects.
        packed = from_zlib(base64.b64decode(data), 1 << 28)
        return cls.of_labels(np.frombuffer(packed, "<i8"))


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of labels.

    Attributes
    ----------
    shape
        What it covers, on the painted axes.
    axes
        The painted axes of the array, ascending.
    fixed
        ``(axis, index)`` of each other axis.
    label
        The new value; of a raster, the largest of its values.
    source
        The value that alone is replaced, or None for any.
    touch
        At a coarser level, whether a voxel changes where the shape covers any voxel
        of its block, so that thin strokes stay visible (True), or where it covers the
        block's sample (False). A voxel's value there, not those of its block, is
        compared with `source` and `spared`.
    spared
        Values that are never replaced.
    """

    shape: Shape
    axes: tuple[int, ...]
    fixed: tuple[tuple[int, int], ...]
    label: int
    source: int | None = None
    touch: bool = True
    spared: LabelSet = LabelSet()

    def __post_init__(self) -> None:
        # napari, pandas and plugins give NumPy's numbers, which JSON does not take.
        # The only way to set fields of a frozen dataclass.
        set_field = object.__setattr__
        set_field(self, "label", int(self.label))
        set_field(self, "source", None if self.source is None else int(self.source))
        set_field(self, "touch", bool(self.touch))
        set_field(self, "axes", tuple(int(axis) for axis in self.axes))
        set_field(
            self, "fixed", tuple((int(axis), int(index)) for axis, index in self.fixed)
        )

    @property
    def depends_on_labels(self) -> bool:
        """Return whether the result depends on the labels below."""
        return self.source is not None or bool(self.spared.packed)

    def replaced_mask(self, there: np.ndarray[Any, Any]) -> Any:
        """Return which of the present values it replaces."""
        matches: Any = np.ones(there.shape, bool)
        if self.source is not None:
            matches = there == self.source
        matches &= ~self.spared.find_in(there)
        return matches

    @property
    def bbox(self) -> Box:
        """Rectangle of level 0, on all axes, that the edit stays inside."""
        spans = dict(zip(self.axes, self.shape.bbox, strict=True))
        spans.update({axis: (index, index + 1) for axis, index in self.fixed})
        return tuple(spans[axis] for axis in range(len(spans)))

    def region_in(self, grid: LevelGrid, box: Box) -> Box | None:
        """Return the part of a level's box that the edit may change, or None."""
        spans = {
            axis: (p, p + 1)
            for axis, i in self.fixed
            for p in [grid.plane_index(axis, i)]
        }
        # A shape may reach beyond the image, where nothing is painted.
        for axis, (low, high) in zip(self.axes, self.shape.bbox, strict=True):
            low, high = max(low, 0), min(high, grid.full[axis])
            if low >= high:
                return None
            spans[axis] = (
                grid.holder_index(axis, low),
                grid.holder_index(axis, high - 1) + 1,
            )
        region = tuple(
            (max(start, spans[axis][0]), min(stop, spans[axis][1]))
            for axis, (start, stop) in enumerate(box)
        )
        return region if all(start < stop for start, stop in region) else None

    def regions_in(
        self, grid: LevelGrid, box: Box, before: Edit | None = None
    ) -> list[Box]:
        """Cut a box of a level to what the edit may change.

        Parameters
        ----------
        before
            The edit that was made last, if any: a stroke with the same brush changes
            nothing where that one went.
        """
        region = self.region_in(grid, box)
        if region is None:
            return []
        shape, other = self.shape, before.shape if before is not None else None
        if (
            not isinstance(shape, Stroke)
            or not isinstance(other, Stroke)
            or math.prod(box_shape(region)) <= SMALL
            # Label, axes, plane and condition must be the same, too.
            or replace(self, shape=other) != before
        ):
            return [region]
        painted = tuple(region[axis] for axis in self.axes)
        parts = shape.boxes_beyond(other, grid.on_axes(self.axes), painted, self.touch)
        cut = []
        for part in parts:
            # Fixed axes keep their one index; the part has the painted axes only.
            spans = list(region)
            for axis, span in zip(self.axes, part, strict=True):
                spans[axis] = span
            cut.append(tuple(spans))
        return cut

    def covered_voxels(self, grid: LevelGrid, region: Box) -> Cover:
        """Return which voxels of a region (see `region_in`) the shape covers.

        Returns
        -------
        ndarray or bool
            Axes of the level, of length 1 where fixed.
        """
        painted = tuple(region[axis] for axis in self.axes)
        mask = self.shape.covered_voxels(grid.on_axes(self.axes), painted, self.touch)
        if isinstance(mask, bool):
            return mask
        return np.expand_dims(mask, tuple(axis for axis, _ in self.fixed))

    def cover_and_values(
        self, grid: LevelGrid, region: Box
    ) -> tuple[Cover, np.ndarray[Any, Any]]:
        """Return which voxels of a region (see `region_in`) change, and their values.

        Returns
        -------
        Cover
            See `covered_voxels`.        ndarray
            The new values, on the axes of the level, of length 1 where fixed; without
            axes for a single value.
        """
        if not isinstance(self.shape, Raster):
            return self.covered_voxels(grid, region), np.asarray(self.label)
        painted = tuple(region[axis] for axis in self.axes)
        cover, values = self.shape.cover_and_values(grid.on_axes(self.axes), painted)
        fixed = tuple(axis for axis, _ in self.fixed)
        if not isinstance(cover, bool):
            cover = np.expand_dims(cover, fixed)
        return cover, np.expand_dims(values, fixed)


class EditLog:
    """Edits in order, in steps that are undone together.

    Attributes
    ----------
    edits
        All of them, those that were undone last.
    starts
        Index of the first edit of each step.
    end
        Number of edits that are not undone.
    undo_limit
        Number of the first edits that cannot be undone.
    """

    def __init__(self, ndim: int) -> None:
        self.edits: list[Edit] = []
        self.starts: list[int] = []
        self.end = self.undo_limit = 0
        # First edit of the step that is open, if one is.
        self._open: int | None = None
        # The rectangle of each edit, axes (edit, axis, start or stop), with room for
        # more. One comparison finds those that meet a chunk among thousands.
        self._boxes = np.empty((256, ndim, 2), np.int64)

    def copy(self) -> EditLog:
        """Make a log of the same edits."""
        twin = EditLog(self._boxes.shape[1])
        twin.edits, twin.starts = list(self.edits), list(self.starts)
        twin.end, twin._boxes = self.end, self._boxes.copy()
        twin.undo_limit = self.undo_limit
        return twin

    @property
    def last_edit(self) -> Edit | None:
        """The last edit that is not undone."""
        return self.edits[self.end - 1] if self.end else None

    @property
    def settled_count(self) -> int:
        """Number of the first edits that are not joined with others any more."""
        return self.end if self._open is None else min(self._open, self.end)

    def begin_step(self) -> None:
        """Let all edits from now on be one step of undo."""
        if self._open is None:
            self._open = self.end

    def close_step(self) -> list[Edit]:
        """End the step; its strokes are joined where they follow each other.

        Returns
        -------
        list
            What the step now consists of.
        """
        start, self._open = self._open, None
        if start is None or start == self.end:
            return []
        joined = join_edits(self.edits[start : self.end])
        # Nothing follows the step: adding to it has dropped what was undone.
        self.edits[start:] = joined
        for index, edit in enumerate(joined, start):
            self._boxes[index] = edit.bbox
        self.end = len(self.edits)
        return joined

    def add_edit(self, edit: Edit) -> None:
        """Append an edit; undone edits are dropped."""
        del self.edits[self.end :]
        # Steps that begin here or later are those that were undone.
        del self.starts[bisect_left(self.starts, self.end) :]
        if self._open is None or self._open == self.end:
            self.starts.append(self.end)
        if self.end == len(self._boxes):
            # Doubled, so that adding many edits stays linear in their number.
            self._boxes = np.concatenate([self._boxes, np.empty_like(self._boxes)])
        self._boxes[self.end] = edit.bbox
        self.edits.append(edit)
        self.end += 1

    def add_edits(self, edits: Sequence[Edit]) -> None:
        """Append edits, each a step of its own."""
        for edit in edits:
            self.add_edit(edit)

    def insert_lasting(self, index: int, edits: Sequence[Edit]) -> None:
        """Insert edits before one that can be undone; they and all before them cannot.

        Undone edits after that place can still be redone.
        """
        count = len(edits)
        self.edits[index:index] = edits
        boxes = np.array([edit.bbox for edit in self.edits], np.int64)
        self._boxes = np.concatenate([boxes, np.empty_like(self._boxes)])
        later = [start + count for start in self.starts if start > index]
        # A step that is cut in two becomes two steps.
        cut = [index + count] if index + count < len(self.edits) else []
        self.starts = [s for s in self.starts if s < index] + [index, *cut, *later]
        self.end += count
        self.undo_limit = index + count
        if self._open is not None:
            self._open += count

    @property
    def can_undo(self) -> bool:
        """Return whether there is a step to undo."""
        return self.end > self.undo_limit

    def step_start(self, index: int) -> int:
        """Index of the first edit of the step that an edit belongs to."""
        return self.starts[bisect_right(self.starts, index) - 1]

    def undo(self) -> list[Edit]:
        """Undo the last step; return its edits."""
        self.close_step()
        if not self.can_undo:
            return []
        start = max(self.step_start(self.end - 1), self.undo_limit)
        moved = self.edits[start : self.end]
        self.end = start
        return moved

    def redo(self) -> list[Edit]:
        """Redo the next step; return its edits."""
        self.close_step()
        if self.end == len(self.edits):
            return []
        after = bisect_right(self.starts, self.end)
        stop = self.starts[after] if after < len(self.starts) else len(self.edits)
        moved = self.edits[self.end : stop]
        self.end = stop
        return moved

    def edits_touching(self, box: Box, start: int = 0) -> list[int]:
        """Find the edits, from `start` on, whose rectangle meets a box.

        Parameters
        ----------
        box
            Of level 0.
        """
        low, high = np.array(box, np.int64).T
        boxes = self._boxes[start : self.end]
        meets = (boxes[:, :, 0] < high) & (boxes[:, :, 1] > low)
        return [int(i) + start for i in np.flatnonzero(meets.all(axis=1))]


def join_edits(edits: Sequence[Edit]) -> list[Edit]:
    """Join edits that continue one stroke."""
    joined: list[Edit] = []
    for edit in edits:
        stroke = _join_strokes(joined[-1], edit) if joined else None
        if stroke is not None:
            joined[-1] = replace(edit, shape=stroke)
        else:
            joined.append(edit)
    return joined


def _join_strokes(first: Edit, second: Edit) -> Stroke | None:
    """Join the strokes of two edits that differ in nothing else."""
    stroke, other = first.shape, second.shape
    if not isinstance(stroke, Stroke) or not isinstance(other, Stroke):
        return None
    return stroke.followed_by(other) if replace(second, shape=stroke) == first else None


def dump_edit(edit: Edit, before: Edit | None = None) -> dict[str, Any]:
    """Convert an edit into what `json` takes.

    Parameters
    ----------
    before
        The edit that was dumped before it: what both spare is not dumped again.
    """
    shape = edit.shape
    # The names of these classes are part of the file format of journals.
    described: dict[str, Any] = {"kind": type(shape).__name__.lower()}
    if isinstance(shape, Raster):
        described |= shape.dump()
    elif isinstance(shape, Mask):
        # Level 1: a mask of a large object is written while the user paints on.
        # Little-endian, whatever machine writes and whatever machine recovers.
        packed = zlib.compress(shape.runs.astype("<i8").tobytes(), 1)
        described["runs"] = base64.b64encode(packed).decode()
    else:
        described |= {name: getattr(shape, name) for name in shape.__slots__}
    same = before is not None and before.spared == edit.spared
    return {
        "shape": described,
        "axes": list(edit.axes),
        "fixed": [list(pair) for pair in edit.fixed],
        "label": edit.label,
        "source": edit.source,
        "touch": edit.touch,
        "spared": None if same else edit.spared.dump(),
    }


def load_edit(data: dict[str, Any], before: Edit | None = None) -> Edit:
    """Read what `dump_edit` returned, also from JSON.

    Raises
    ------
    ValueError, KeyError, TypeError, OverflowError, zlib.error
        Where it is something else.
    """
    described = {key: _to_tuples(value) for key, value in data["shape"].items()}
    kind = described.pop("kind")
    axes, spared = tuple(data["axes"]), data.get("spared", [])
    shape: Shape
    if kind == "mask":
        packed = base64.b64decode(described["runs"])
        raw = bytes(from_zlib(packed, MOST_PACKED * len(packed)))
        shape = Mask(
            # `astype` copies to the machine's byte order: `frombuffer` is read-only.
            np.frombuffer(raw, "<i8").astype(np.int64).reshape(-1, len(axes) + 1)
        )
    elif kind == "raster":
        shape = Raster.load(described)
    elif kind in _KINDS:
        shape = _KINDS[kind](**described)
    else:
        msg = f"There is no shape {kind!r} of an edit."
        raise ValueError(msg)
    return Edit(
        shape,
        axes,
        _to_tuples(data["fixed"]),
        data["label"],
        data["source"],
        data["touch"],
        # Journals of earlier versions have no such field.
        before.spared if before and spared is None else LabelSet.load(spared),
    )


_KINDS: dict[str, Any] = {
    "stroke": Stroke,
    "polygon": Polygon,
    "everywhere": Everywhere,
}


# JSON has lists alone, and the fields of shapes are tuples, which can be hashed.
def _to_tuples(value: Any) -> Any:
    return tuple(_to_tuples(v) for v in value) if isinstance(value, list) else value
