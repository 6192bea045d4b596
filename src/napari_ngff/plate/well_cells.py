"""The wells of a mosaic, each in its cell."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import (
    LISTED,
    ChunkError,
    OMEZarrError,
    is_refusal,
    may_pass,
)
from napari_ngff.plate.arrangement import (
    PlacedField,
    Remark,
    ScreenArrangements,
    WellArrangement,
)

if TYPE_CHECKING:
    from napari_ngff.metadata.model import WellField
    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.store.pyramids.pyramid import OnError, Pyramid


@dataclass(frozen=True, slots=True)
class WellChoice:
    """What is shown of the wells.

    Attributes
    ----------
    acquisition
        Id of the fields' acquisition; None for the fields of all.
    inside
        "" for the images, "labels/<name>" for labels of them.
    beside
        Ids of all acquisitions that are shown over each other, each a picture of its
        own: their fields lie in the same place of a cell. () for one picture.
    """

    acquisition: int | None = None
    inside: str = ""
    beside: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WellCell:
    """A well of a mosaic, and the corner of its cell.

    Attributes
    ----------
    well
        Its path; None for the screen's own node.
    corner
        Along y and x from the mosaic's corner, in voxels of level 0 of the images.
    """

    well: str | None
    corner: tuple[int, int]


Place = tuple[float, float]

Defer = Callable[[Any, "Box"], bool]


@dataclass(slots=True, eq=False, weakref_slot=True)
class WellCells:
    """The wells of a mosaic, which all its levels share.

    Attributes
    ----------
    tiles
        The wells, each in a cell of the grid.
    cell
        Height and width, in voxels of level 0 of the images.
    arrangements
        Of the fields in the wells.
    choice
        What is shown of the wells.
    defer
        Asked in the main thread, for a rectangle of many unread wells, whether it lets
        `MosaicLevel.draw_box` draw them elsewhere; missing pixels are 0 until then.
    misfits
        Wells that do not fit (larger, deeper, of a wider type) and were cut or clipped
        -> why. The mosaic is opened again later, with room for them.
    grid
        Row and column -> numbers of the tiles there.
    """

    tiles: tuple[WellCell, ...]
    cell: tuple[int, int]
    arrangements: ScreenArrangements
    choice: WellChoice = WellChoice()
    defer: Defer | None = None
    misfits: dict[str | None, str] = field(default_factory=dict)
    grid: dict[tuple[int, int], list[int]] = field(init=False, default_factory=dict)
    _reported: set[str | None] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        for number, tile in enumerate(self.tiles):
            # A list, since a file may put two wells in one place.
            (y, x), (height, width) = tile.corner, self.cell
            self.grid.setdefault((y // height, x // width), []).append(number)

    @property
    def concurrency(self) -> int:
        """Number of threads that are of use: one for local files."""
        # One thread for local files: decoding many small chunks holds the interpreter,
        # so a second one makes it slower (docs/design/007).
        return self.arrangements.screen.node.location.source.traits.waits_at_once

    def known_fields(self, tile: WellCell) -> WellArrangement | None:
        """Return the arrangement of a well that was read before, or None."""
        choice = self.choice
        return self.arrangements.read_before(
            tile.well, choice.acquisition, choice.beside
        )

    def image_at(
        self, y: float, x: float
    ) -> tuple[str | None, WellField | None] | None:
        """Find the well, and the image in it, at a place; reads nothing.

        Parameters
        ----------
        y, x
            In voxels of level 0 of the images, from the mosaic's corner.

        Returns
        -------
        tuple or None
            The image is None where it is not known, or where there is none.
        """
        for tile in self.tiles:
            # Voxel i reaches from i - 0.5 to i + 0.5.
            in_cell = y - tile.corner[0], x - tile.corner[1]
            inside = [
                -0.5 <= offset < size - 0.5
                for offset, size in zip(in_cell, self.cell, strict=True)
            ]
            if all(inside):
                known = self.known_fields(tile)
                placed = known.field_at(*in_cell) if known is not None else None
                return tile.well, placed.field if placed is not None else None
        return None

    def size_at(self, y: float, x: float, axis: str) -> int | None:
        """Return the size of the image at a place along an axis; None where unknown.

        1 if it lacks the axis. Reads nothing; see `image_at`.
        """
        well, field = self.image_at(y, x) or (None, None)
        choice = self.choice
        known = self.arrangements.read_before(well, choice.acquisition, choice.beside)
        for placed in known.fields if known is not None else ():
            level = placed.image.opened_level
            if placed.field is field and level is not None:
                names = [name.lower() for name in placed.image.multiscale.axis_names]
                return level.shape[names.index(axis)] if axis in names else 1
        return None

    def corners_of(self, well: str | None) -> tuple[Place, Place] | None:
        """Return the upper left and lower right corner of a well, as (y, x) in voxels.

        None for a well that is not in the mosaic.
        """
        for tile in self.tiles:
            if tile.well == well:
                known = self.known_fields(tile)
                size = known.size if known is not None and known.fields else self.cell
                y, x = tile.corner
                ends = [min(n, most) for n, most in zip(size, self.cell, strict=True)]
                return (y - 0.5, x - 0.5), (y + ends[0] - 0.5, x + ends[1] - 0.5)
        return None

    def read_fields(self, tile: WellCell, on_error: OnError | None) -> WellArrangement:
        """Read where the fields of a well are; report once what is broken."""
        choice = self.choice
        arrangement = self.arrangements.read_well(
            tile.well, choice.acquisition, choice.beside
        )
        if arrangement.problems:
            reasons = (f"field {p}: {r}" if p else r for p, r in arrangement.problems)
            text = "; ".join(reasons).removesuffix(arrangement.remedy).rstrip()
            remedy = LISTED if arrangement.missing else arrangement.remedy
            error = OMEZarrError(text, remedy=remedy)
            self.report_once(tile, error, on_error, passing=arrangement.passing)
        return arrangement

    def report_once(
        self,
        tile: WellCell,
        error: OMEZarrError,
        on_error: OnError | None,
        *,
        passing: bool = False,
    ) -> None:
        """Report, once for each well, that something of it cannot be read."""
        self.arrangements.note_reason(tile.well, str(error), passing=passing)
        # Many chunks of a well may fail at the same time, in several threads.
        with self._lock:
            new = tile.well not in self._reported
            self._reported.add(tile.well)
        if new and on_error is not None:
            on_error(self._well_error(tile, error))

    def _well_error(self, tile: WellCell, error: Exception) -> ChunkError:
        """Make the error of a whole well: its key is that of a group."""
        location = self.arrangements.screen.node.location
        key = location.object_key(tile.well or "").rstrip("/")
        return ChunkError(location.source.name, key, error, key)

    def note_and_report(
        self, tile: WellCell, on_error: OnError | None
    ) -> OnError | None:
        """Wrap `on_error` so that it also notes wells whose chunks may come later."""
        if on_error is None:
            return None

        def report_error(error: ChunkError) -> None:
            if may_pass(error):
                self.arrangements.note_reason(tile.well, str(error), passing=True)
                well_error = self._well_error(tile, error)
                well_error.__cause__ = error
                on_error(well_error)
                return
            if is_refusal(error):
                self.arrangements.note_refusal(tile.well, str(error))
            on_error(error)

        return report_error

    def check_voxels(self, tile: WellCell, placed: PlacedField, model: Pyramid) -> bool:
        """Note where voxels have another size than those of the model; else True."""
        # Labels may have other voxels than images; they are not compared.
        if self.choice.inside:
            return True
        first = placed.image.multiscale.levels[0]
        field_scale, usual = first.scale[-2:], model.multiscale.levels[0].scale[-2:]
        # 1 %: writers round. A flip changes only the sign.
        if field_scale != usual and not np.allclose(
            np.abs(field_scale), np.abs(usual), rtol=0.01
        ):
            sizes = [
                " x ".join(f"{abs(n):g}" for n in scale)
                for scale in (field_scale, usual)
            ]
            text = f"Field {placed.field.path} has voxels of {sizes[0]}, others of"
            text += f" {sizes[1]}. It is drawn voxel for voxel, so not to scale."
            self.arrangements.note_reason(tile.well, Remark(text))
            return False
        return True

    def note_cut(self, tile: WellCell, reason: str) -> None:
        """Note that a well does not fit."""
        # The first reason counts; one is enough to open the mosaic again.
        self.misfits.setdefault(tile.well, Remark(reason))


@dataclass(frozen=True, slots=True, eq=False)
class MosaicBounds:
    """The axes of a mosaic, its size along them, and its type.

    Attributes
    ----------
    axes
        Names; the last two are those of y and x.
    lead
        Sizes of the others at level 0.
    """

    axes: tuple[str, ...]
    lead: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def channel_count(self) -> int:
        """Number of channels."""
        return dict(zip(self.axes, self.lead, strict=False)).get("c", 1)
