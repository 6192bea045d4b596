"""Places the fields of a well, by the documents of its images."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from napari_ngff.errors import (
    LoginNeededError,
    NodeNotFoundError,
    OMEZarrError,
    error_text,
    is_refusal,
    may_pass,
    remedy_of,
)
from napari_ngff.plate.plate_layout import Offset, field_offsets, grid_offsets
from napari_ngff.store.threads import share_work

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from napari_ngff.metadata.model import WellField
    from napari_ngff.plate.plate_contents import FieldImage, PlateContents

ArrangementKey = tuple[str | None, int | None, tuple[int, ...]]
"""Path of the well, acquisition, and those that it is shown together with."""

MOST_FIELDS = 1000
"""Width of a well in fields, beyond which their places are taken for wrong: the largest
wells, of 35 mm, hold some 600 fields of 60 micrometers."""

PLACES = 6
"""Decimals of a voxel to which corners and sizes are rounded."""


class Remark(str):
    """Why a well or a field is not shown, or not whole, though nothing is broken."""

    __slots__ = ()


def reason_of(error: Exception) -> str:
    """Return the text of an error: a remark where a group is listed and not there."""
    gone = isinstance(error, NodeNotFoundError)
    return Remark(error) if gone else error_text(error)


EMPTY = Remark("It lists no usable images.")

SCATTERED = Remark(
    "Its fields are further apart than a well is wide. They are drawn side by side."
)


@dataclass(frozen=True, slots=True, eq=False)
class PlacedField:
    """A field of a well.

    Attributes
    ----------
    field
        Its path and acquisition.
    image
        The field, opened.
    offset
        From the well's upper left corner along y and x, in voxels of level 0.
    size
        Height and width in voxels of level 0.
    """

    field: WellField
    image: FieldImage
    offset: Offset
    size: tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class WellArrangement:
    """The readable fields of a well, in file order.

    Attributes
    ----------
    corner
        Where the upper left corner lies by the transformations, along y and x, in
        voxels of level 0.
    size
        Height and width of all fields together, in voxels of level 0.
    problems
        For each that cannot be read: its path and why.
    scattered
        Whether the places that the fields state are too far apart to be true.
    passing
        Whether asking again later may help.
    remedy
        What to do about the last of the problems, whose text ends with it.
    refusal
        The error of a server that refused the well; None for none.
    is_refused
        Whether the server refused the well, or fields of it: a login may help.
    positioned
        Whether the fields lie where their transformations say; else in a grid.
    """

    fields: tuple[PlacedField, ...] = ()
    corner: Offset = (0.0, 0.0)
    size: tuple[float, float] = (0.0, 0.0)
    problems: tuple[tuple[str, str], ...] = ()
    scattered: bool = False
    passing: bool = False
    remedy: str = ""
    refusal: LoginNeededError | None = None
    is_refused: bool = False
    positioned: bool = False

    @property
    def missing(self) -> bool:
        """Whether all problems are groups that are listed and not there."""
        return all(isinstance(reason, Remark) for _, reason in self.problems)

    @property
    def voxel_size(self) -> Offset:
        """Height and width of a voxel of level 0 of the first field."""
        # A negative scale flips the image; sizes are positive.
        y, x = self.fields[0].image.multiscale.levels[0].scale[-2:]
        return abs(y), abs(x)

    def field_at(self, y: float, x: float) -> PlacedField | None:
        """Find the field at a place in voxels; of several the last, which is on top."""
        for placed in reversed(self.fields):
            inside = [
                start - 0.5 <= coordinate < start + size - 0.5
                for coordinate, start, size in zip(
                    (y, x), placed.offset, placed.size, strict=True
                )
            ]
            if all(inside):
                return placed
        return None


class ScreenArrangements:
    """The arrangements of all wells, each read once; for several threads.

    Parameters
    ----------
    screen
        Opens the images.

    Attributes
    ----------
    problems
        Why wells, or fields of them, cannot be shown; by the well's path.
    passing
        Wells for which asking again later may help.
    refused
        Wells with documents or pixels that the server refused: a login may help.
    attempt
        How often wells were asked for again.
    """

    def __init__(self, screen: PlateContents) -> None:
        self.screen = screen
        self.problems: dict[str | None, str] = {}
        self.passing: set[str | None] = set()
        self.refused: set[str | None] = set()
        self.attempt = 0
        self._made: dict[ArrangementKey, WellArrangement] = {}
        self._lock = threading.Lock()

    def read_before(
        self, well: str | None, acquisition: int | None, beside: Sequence[int] = ()
    ) -> WellArrangement | None:
        """Return an arrangement that was read before; reads nothing."""
        return self._made.get((well, acquisition, tuple(beside)))

    def read_well(
        self,
        well: str | None,
        acquisition: int | None,
        beside: Sequence[int] = (),
        *,
        first_levels: bool = False,
    ) -> WellArrangement:
        """Read the documents of a well and of its images, unless that was done before.

        Parameters
        ----------
        well
            As for `PlateContents.list_fields`.
        acquisition
            Only its fields; None for all.
        beside
            Acquisitions that are shown over each other, this one among them: corner
            and size are those of all their fields together. () for this one alone.
        first_levels
            Whether all levels of the first image are opened, not only the finest.

        Returns
        -------
        WellArrangement
            An empty one where the well cannot be read.
        """
        key = well, acquisition, tuple(beside)
        arrangement = self._made.get(key)
        if arrangement is None and beside:
            alone = self.read_well(well, acquisition, first_levels=first_levels)
            others = [self.read_well(well, other) for other in beside]
            arrangement = self._made.setdefault(key, share_corner(alone, others))
        elif arrangement is None:
            made = self._arrange_well(well, acquisition, first_levels)
            arrangement = self._made.setdefault(key, made)
            self._note_problems(well, arrangement)
        return arrangement

    def _note_problems(self, well: str | None, arrangement: WellArrangement) -> None:
        """Note what of a well cannot be shown, or not at its place."""
        if arrangement.problems:
            # No path: the well itself cannot be read.
            text = "; ".join(
                f"field {path}: {reason}" if path else reason
                for path, reason in arrangement.problems
            )
            text = Remark(text) if arrangement.missing else text
            self.note_reason(well, text, passing=arrangement.passing)
        if arrangement.is_refused:
            with self._lock:
                self.refused.add(well)
        if arrangement.scattered:
            self.note_reason(well, SCATTERED)

    def note_reason(
        self, well: str | None, text: str, *, passing: bool = False
    ) -> None:
        """Note why something of a well is not shown; the first reason counts."""
        with self._lock:
            self.problems.setdefault(well, text)
            if passing:
                self.passing.add(well)

    def note_refusal(self, well: str | None, text: str) -> None:
        """Note that the server refused pixels of a well."""
        self.note_reason(well, text)
        with self._lock:
            self.refused.add(well)

    def retry_refused(self) -> bool:
        """Let what was refused be read again; return whether there is any."""
        self.screen.forget_refused()
        with self._lock:
            again, self.refused = self.refused, set()
            for key in [key for key in self._made if key[0] in again]:
                if key[2] or self._made[key].is_refused:
                    del self._made[key]
            for well in again:
                self.problems.pop(well, None)
            self.attempt += bool(again)
        return bool(again)

    def retry_wells(self, wells: Iterable[str | None] | None = None) -> bool:
        """Let wells be read again where that may help; return whether there are any.

        `wells` limits them; None for all.
        """
        with self._lock:
            again = self.passing if wells is None else self.passing.intersection(wells)
            if not again:
                return False
            self.passing = self.passing - again
            for key in [key for key in self._made if key[0] in again]:
                # Arrangements of other acquisitions of the well may be complete; those
                # of several together are made of these.
                if key[2] or self._made[key].passing:
                    del self._made[key]
            for well in again:
                self.problems.pop(well, None)
            # Planes draw wells again that failed in an earlier attempt.
            self.attempt += 1
        return True

    def _arrange_well(
        self, well: str | None, acquisition: int | None, first_levels: bool
    ) -> WellArrangement:
        try:
            listed = self.screen.list_fields(well)
        except (OMEZarrError, OSError) as error:
            refusal: LoginNeededError | None = None
            if isinstance(error, LoginNeededError):
                refusal = error.make_copy()
            return WellArrangement(
                problems=(("", reason_of(error)),),
                passing=may_pass(error),
                remedy=remedy_of(error),
                refusal=refusal,
                is_refused=is_refusal(error),
            )
        if not listed:
            return WellArrangement(problems=(("", EMPTY),))
        if acquisition is not None:
            listed = tuple(f for f in listed if f.acquisition == acquisition)
        opened: dict[int, FieldImage] = {}
        failed: dict[int, Exception] = {}

        def open_field(index: int) -> None:
            try:
                image = self.screen.open_image(well, listed[index].path)
                if first_levels and not index:
                    image.open_levels()
                # Its document has the size, and shows now whether pixels can be read.
                image.open_level(0)
                opened[index] = image
            except (OMEZarrError, OSError) as error:
                failed[index] = error

        # See `WellCells.concurrency`.
        concurrency = self.screen.node.location.source.traits.waits_at_once
        share_work(iter(range(len(listed))), open_field, len(listed), concurrency)
        return _place_fields(listed, opened, failed)


def _place_fields(
    listed: tuple[WellField, ...],
    opened: dict[int, FieldImage],
    failed: dict[int, Exception],
) -> WellArrangement:
    # In file order; threads finish in any.
    indices = sorted(opened)
    corners = tuple(opened[i].corner for i in indices)
    sizes = tuple(opened[i].size for i in indices)
    layout = _lay_out_fields(tuple(indices), len(listed), corners, sizes)
    return WellArrangement(
        tuple(
            PlacedField(listed[i], opened[i], offset, size)
            for i, offset, size in zip(indices, layout.offsets, sizes, strict=True)
        ),
        layout.top_left,
        layout.size,
        tuple((listed[i].path, reason_of(failed[i])) for i in sorted(failed)),
        layout.scattered,
        any(map(may_pass, failed.values())),
        remedy_of(failed[max(failed)]) if failed else "",
        is_refused=any(map(is_refusal, failed.values())),
        positioned=layout.positioned,
    )


def share_corner(
    arrangement: WellArrangement, others: Sequence[WellArrangement]
) -> WellArrangement:
    """Place the fields of an acquisition from the corner of several together.

    Where an acquisition has no positions, or those of two are further apart than a well
    is wide, each begins at the corner of the well.

    Parameters
    ----------
    arrangement
        Of the acquisition alone.
    others
        Of all that are shown over each other; the same one may be among them.
    """
    shown = [other for other in (arrangement, *others) if other.fields]
    if not arrangement.fields:
        return arrangement
    sizes = [_scale_offset(a.size, a.voxel_size) for a in shown]
    starts = [_scale_offset(a.corner, a.voxel_size) for a in shown]
    top_left = min(y for y, _ in starts), min(x for _, x in starts)
    ends = [
        max(start[i] + size[i] for start, size in zip(starts, sizes, strict=True))
        for i in (0, 1)
    ]
    room = ends[0] - top_left[0], ends[1] - top_left[1]
    related = _are_related(shown, room)
    if not related:
        top_left = starts[0]
        room = max(y for y, _ in sizes), max(x for _, x in sizes)
    height, width = arrangement.voxel_size
    corner, size = (
        (round(y / height, PLACES), round(x / width, PLACES))
        for y, x in (top_left, room)
    )
    return replace(
        arrangement,
        fields=_shift_fields(arrangement, corner),
        corner=corner,
        size=size,
        positioned=related,
    )


def _are_related(shown: Sequence[WellArrangement], room: tuple[float, float]) -> bool:
    """Return whether acquisitions have positions, and all fit into one well.

    `room` is the height and width that they take together, in physical units.
    """
    widest = [
        max(placed.size[i] * a.voxel_size[i] for a in shown for placed in a.fields)
        for i in (0, 1)
    ]
    return all(a.positioned for a in shown) and all(
        room[i] <= MOST_FIELDS * widest[i] for i in (0, 1)
    )


def _scale_offset(offset: Offset, voxel_size: Offset) -> Offset:
    return offset[0] * voxel_size[0], offset[1] * voxel_size[1]


def _shift_fields(
    arrangement: WellArrangement, corner: Offset
) -> tuple[PlacedField, ...]:
    """Return fields whose offsets count from another corner."""
    shift = arrangement.corner[0] - corner[0], arrangement.corner[1] - corner[1]
    return tuple(
        replace(
            placed, offset=(placed.offset[0] + shift[0], placed.offset[1] + shift[1])
        )
        for placed in arrangement.fields
    )


@dataclass(frozen=True, slots=True)
class FieldLayout:
    """Where the fields of a well are, as in `WellArrangement`."""

    offsets: tuple[Offset, ...]
    top_left: Offset
    size: tuple[float, float]
    scattered: bool
    positioned: bool


@lru_cache(maxsize=64)  # many wells of a plate have the same
def _lay_out_fields(
    indices: tuple[int, ...],
    count: int,
    corners: tuple[Offset, ...],
    sizes: tuple[tuple[int, int], ...],
) -> FieldLayout:
    """Place the fields of a well, of which `count` are listed and these were opened."""
    offsets = field_offsets(corners, sizes) if indices else ()
    top_left = corners[0] if corners else (0.0, 0.0)
    scattered = bool(indices) and any(
        max(o[axis] for o in offsets) > MOST_FIELDS * max(s[axis] for s in sizes)
        for axis in (0, 1)
    )
    positioned = not scattered and len(set(corners)) == len(corners)
    if not positioned:
        # In a grid by their number in the list, so that missing fields leave a gap.
        height = max(size[0] for size in sizes)
        width = max(size[1] for size in sizes)
        grid = grid_offsets(count, height, width)
        offsets = tuple(grid[i] for i in indices)
    elif corners:
        # Of all fields; in a grid the place of the first field has to do.
        top_left = min(y for y, _ in corners), min(x for _, x in corners)
    ends = [
        max((o[axis] + s[axis] for o, s in zip(offsets, sizes, strict=True)), default=0)
        for axis in (0, 1)
    ]
    return FieldLayout(offsets, top_left, (ends[0], ends[1]), scattered, positioned)
