"""One level of a mosaic: finds the wells that a box meets, and draws them."""

from __future__ import annotations

import itertools
import math
import operator
import threading
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import (
    ChunkError,
    NodeNotFoundError,
    OMEZarrError,
    may_pass,
)
from napari_ngff.plate.kept_planes import KeptPlane, LevelPlanes
from napari_ngff.plate.level_view import (
    can_hold,
    cast_pixels,
    mirror_view,
    view_of,
)
from napari_ngff.plate.plate_layout import spread_numbers
from napari_ngff.store.arrays.boxes import Box, box_shape
from napari_ngff.store.arrays.chunked_array import ChunkedArray
from napari_ngff.store.arrays.lazy_array import ArrayWindow
from napari_ngff.store.pyramids.pyramid import LevelSource, OnError, Pyramid
from napari_ngff.store.threads import share_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from napari_ngff.metadata.model import Multiscale
    from napari_ngff.plate.arrangement import PlacedField
    from napari_ngff.plate.plate_contents import FieldImage
    from napari_ngff.plate.well_cells import Defer, MosaicBounds, WellCell, WellCells
    from napari_ngff.store.arrays.chunk_layout import ArrayLayout

FEW = 4
"""Number of wells up to which they are drawn in the thread that asks: no longer than
one large image takes."""

Pixels = np.ndarray[Any, Any]

Piece = tuple[tuple[slice, ...], Pixels]
"""Slices of a rectangle, and the pixels that belong there."""


Kind = tuple[int, int, tuple[int, int]]
"""Ids of the metadata and of the layout of level 0 of a field, and its size."""

MOST_KINDS = 64
"""Kinds of fields that are remembered; a plate has one as a rule, or one a position."""


@dataclass(frozen=True, slots=True, eq=False)
class AlikeFields:
    """Fields of equal metadata, one of which was found to need no check or change.

    Attributes
    ----------
    number, layout
        The level that is drawn as it is, and how it is stored.
    multiscale, first
        Kept alive, so that no other objects get their ids.
    """

    number: int
    layout: ArrayLayout
    multiscale: Multiscale
    first: ArrayLayout


@dataclass(frozen=True, slots=True, eq=False)
class MosaicLevel:
    """One level of a mosaic, as an `ArraySource` of `store/arrays/lazy_array.py`.

    Attributes
    ----------
    factors
        Voxels of level 0 of the images per voxel of this level, along y and x.
    edges
        First voxel of each row and each column of tiles, and the end of the last one.
    number
        Index of the level in `model`.
    model
        The pyramid of the image that the mosaic is modelled on.
    planes
        The planes that were drawn.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    tiles: WellCells
    factors: tuple[float, float]
    edges: tuple[list[int], list[int]]
    number: int
    model: Pyramid
    planes: LevelPlanes
    on_error: OnError | None = None
    # By the path of the image; None for one that has no level to show.
    _views: dict[str, ArrayWindow | None] = field(default_factory=dict)
    _alike: dict[Kind, AlikeFields] = field(default_factory=dict)

    @classmethod
    def lay_out(
        cls,
        tiles: WellCells,
        bounds: MosaicBounds,
        model: Pyramid,
        number: int,
        size: tuple[int, int],
        on_error: OnError | None = None,
        coarser: MosaicLevel | None = None,
    ) -> MosaicLevel:
        """Lay out one level.

        Parameters
        ----------
        size
            Height and width of the image that `model` is of, or whose labels, in
            voxels of its level 0.
        coarser
            The next level.
        """
        source = model.levels[number]
        factors = size[0] / source.shape[-2], size[1] / source.shape[-1]
        far = [
            max(tile.corner[axis] for tile in tiles.tiles) + tiles.cell[axis]
            for axis in (0, 1)
        ]
        plane = [max(1, math.ceil(n / f)) for n, f in zip(far, factors, strict=True)]
        # Coarser levels of the model may also have fewer planes.
        lead = [
            math.ceil(most * coarse / full)
            for most, coarse, full in zip(
                bounds.lead, source.shape, model.levels[0].shape, strict=False
            )
        ]
        shape = (*lead, *plane)
        chunks = (*source.chunks[:-2], *map(min, source.chunks[-2:], plane))
        # Rounded one by one, not by adding up: factors need not be whole numbers.
        rows, columns = (
            [_round_half_up(start / factor) for start in range(0, most + cell, cell)]
            for most, cell, factor in zip(far, tiles.cell, factors, strict=True)
        )
        below = coarser.planes if coarser is not None else None
        return cls(
            shape,
            bounds.dtype,
            chunks,
            tiles,
            factors,
            (rows, columns),
            number,
            model,
            LevelPlanes(shape, bounds.dtype, bounds.channel_count, factors, below),
            on_error,
        )

    def read(self, box: Box) -> Pixels:
        """Read a box; only the wells that it meets are opened."""
        met = self.tiles_meeting(box)
        if self._by_planes(box, met):
            return self._read_planes(box, met)
        out = np.zeros(box_shape(box), self.dtype)
        self._for_each(met, lambda number: self._paste_well(number, box, out))
        return out

    def _by_planes(self, box: Box, met: list[int]) -> bool:
        """Return whether drawn planes are used; what is quick is read anew instead."""
        if len(self.tiles.tiles) <= FEW and self.tiles.concurrency == 1:
            return False
        quick = self._is_quick(met)
        if self.planes.keeps_whole:
            return not quick or any(
                map(self.planes.known_plane, self._plane_indices(box))
            )
        # The main thread asks for what the window shows. Others may want a whole level,
        # which is read for them without being kept.
        return (
            self.planes.is_small_enough(box) and not quick and self._defer is not None
        )

    def _is_quick(self, numbers: list[int]) -> bool:
        """Return whether wells are few, local, and have arrays of this level."""
        has_array = bool(self.model.multiscale.levels[self.number].path)
        return has_array and len(numbers) <= FEW and self.tiles.concurrency == 1

    def draw_box(self, box: Box, stop: Callable[[], bool] = lambda: False) -> bool:
        """Draw all wells of a box, so that reading it is quick.

        Parameters
        ----------
        stop
            Asked before each well whether to leave the rest.

        Returns
        -------
        bool
            Whether all is drawn.
        """
        met = self.tiles_meeting(box)
        for lead in self._plane_indices(box):
            plane = self.planes.plane_at(lead, box[-2:], self.tiles_meeting)
            self._draw_plane(plane, lead, met, stop)
        return not stop()

    def tiles_meeting(self, box: Box) -> list[int]:
        """List the numbers of the tiles that a box meets."""
        rows, columns = (
            range(bisect_right(edges, start) - 1, bisect_left(edges, stop))
            for edges, (start, stop) in zip(self.edges, box[-2:], strict=True)
        )
        grid = self.tiles.grid
        # In ascending order, so that wells of one place are drawn in the plate's order.
        numbers = [grid.get((row, column), ()) for row in rows for column in columns]
        return sorted(itertools.chain.from_iterable(numbers))

    def sample_areas(self, count: int) -> list[Box]:
        """List rows and columns of some wells that can be read, spread over the plate.

        Reads the documents of these wells, and of no others.
        """
        tiles = self.tiles.tiles
        spread = spread_numbers(len(tiles), count)
        # The mosaic is modelled on one that is known.
        known = (n for n, tile in enumerate(tiles) if self.tiles.known_fields(tile))
        numbers = list(dict.fromkeys([*spread, *itertools.islice(known, 1)]))
        found: set[int] = set()

        def read_one_well(number: int) -> None:
            if self.tiles.read_fields(tiles[number], self.on_error).fields:
                found.add(number)

        self._for_each(numbers, read_one_well)
        return [self._cell_area(number) for number in numbers if number in found]

    def _cell_area(self, number: int) -> Box:
        """Return the rows and columns of a tile's cell."""
        spans = []
        for axis in (0, 1):
            cell = self.tiles.tiles[number].corner[axis] // self.tiles.cell[axis]
            start, stop = self.edges[axis][cell : cell + 2]
            most = self.shape[axis - 2]
            spans.append((min(start, most - 1), max(min(stop, most), start + 1)))
        return tuple(spans)

    def _plane_indices(self, box: Box) -> Iterable[tuple[int, ...]]:
        return itertools.product(*(range(*span) for span in box[:-2]))

    def _read_planes(self, box: Box, met: list[int]) -> Pixels:
        out = np.empty(box_shape(box), self.dtype)
        for lead in self._plane_indices(box):
            plane = self.planes.plane_at(lead, box[-2:], self.tiles_meeting)
            undrawn = plane.tiles_left(met, self.tiles.arrangements.attempt)
            # A worker draws what takes long; until it is done coarser levels stand in.
            deferred = undrawn and self._read_deferred(undrawn, box)
            if not deferred:
                self._draw_plane(plane, lead, undrawn)
            index = tuple(i - span[0] for i, span in zip(lead, box, strict=False))
            out[index] = plane.view_box(box[-2:])
            if deferred:
                self._stand_in(lead, undrawn, box[-2:], out[index])
        return out

    def _stand_in(
        self, lead: tuple[int, ...], numbers: list[int], area: Box, out: Pixels
    ) -> None:
        """Fill missing wells from coarser levels."""
        for number in numbers:
            spans, places = [], []
            tile = self.tiles.tiles[number]
            for edges, start, cell, (first, last) in zip(
                self.edges, tile.corner, self.tiles.cell, area, strict=True
            ):
                low, high = edges[start // cell], edges[start // cell + 1]
                spans.append((max(low, first), min(high, last)))
                places.append(slice(spans[-1][0] - first, spans[-1][1] - first))
            enlarged = self.planes.stand_in(lead, number, tuple(spans))
            if enlarged is not None:
                out[tuple(places)] = enlarged

    @property
    def _defer(self) -> Defer | None:
        """Function that has wells drawn in a worker; None except in the main thread."""
        main = threading.current_thread() is threading.main_thread()
        return self.tiles.defer if main else None

    def _read_deferred(self, numbers: list[int], box: Box) -> bool:
        """Ask for tiles to be drawn in a worker; return whether they will be."""
        defer = self._defer
        quick = self.planes.keeps_whole and self._is_quick(numbers)
        return defer is not None and not quick and defer(self, box)

    def _draw_plane(
        self,
        plane: KeptPlane,
        lead: tuple[int, ...],
        numbers: list[int],
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        box = (*((i, i + 1) for i in lead), *plane.box)
        out = plane.pixels.reshape((1,) * len(lead) + plane.pixels.shape)
        arrangements = self.tiles.arrangements

        def draw_tile(number: int) -> None:
            # A lock for each tile: a second thread that wants it, such as for the
            # contrast, waits and then finds it drawn.
            with plane.locks.setdefault(number, threading.Lock()):
                attempt = arrangements.attempt
                if not plane.tiles_left([number], attempt) or stop():
                    return
                self._paste_well(number, box, out)
                # Only what may come later is drawn again, in the next attempt.
                well = self.tiles.tiles[number].well
                if well in arrangements.passing or well in arrangements.refused:
                    plane.failed[number] = attempt
                else:
                    plane.drawn.add(number)

        self._for_each(plane.tiles_left(numbers, arrangements.attempt), draw_tile)

    def _for_each(self, numbers: list[int], step: Callable[[int], None]) -> None:
        share_work(iter(numbers), step, len(numbers), self.tiles.concurrency)

    def _paste_well(self, number: int, box: Box, out: Pixels) -> None:
        """Draw one well, field over field in the order of the file."""
        tile = self.tiles.tiles[number]
        arrangement = self.tiles.read_fields(tile, self.on_error)
        (y, x), cell, size = tile.corner, self.tiles.cell, arrangement.size
        # A well is cut where the next cell begins.
        limits = self.edges[0][y // cell[0] + 1], self.edges[1][x // cell[1] + 1]
        # Places of fields are fractions of voxels; half a one more is not larger.
        if size[0] > cell[0] + 0.5 or size[1] > cell[1] + 0.5:
            size_text = " x ".join(str(math.ceil(n)) for n in size)
            self.tiles.note_cut(
                tile, f"It is larger ({size_text}) than the first well."
            )
        (top, bottom), (first_column, last_column) = box[-2:]
        met: list[tuple[PlacedField, Box]] = []
        for placed in arrangement.fields:
            rows, columns = spans = self._field_spans(tile, placed, limits)
            outside = rows[0] >= bottom or columns[0] >= last_column
            if not (outside or rows[1] <= top or columns[1] <= first_column):
                met.append((placed, spans))
        for piece in self._read_pieces(tile, met, box, out):
            if piece is not None:
                target, pixels = piece
                out[target] = pixels

    def _read_pieces(
        self, tile: WellCell, met: list[tuple[PlacedField, Box]], box: Box, out: Pixels
    ) -> Iterable[Piece | None]:
        """Read fields; return in their order the pieces of a box that they fill.

        One by one they are put there at once where that is possible.
        """
        if self.tiles.concurrency == 1:
            # A generator: one piece is in memory at a time.
            return (self._read_piece(tile, *field_box, box, out) for field_box in met)
        pieces: dict[int, Piece | None] = {}

        def read_indexed(index: int) -> None:
            pieces[index] = self._read_piece(tile, *met[index], box)

        share_work(
            iter(range(len(met))), read_indexed, len(met), self.tiles.concurrency
        )
        # In the order of the file, since fields may overlap and the last one is on top.
        return (pieces[index] for index in sorted(pieces))

    def _read_piece(
        self,
        tile: WellCell,
        placed: PlacedField,
        spans: Box,
        box: Box,
        out: Pixels | None = None,
    ) -> Piece | None:
        """Read the part of a field that is inside a box.

        None where nothing is, or where it was put into `out`.
        """
        try:
            try:
                return self._read_cut(tile, placed, spans, box, out)
            except ChunkError as error:
                if may_pass(error):
                    raise
                # A layout was lent to it; by its own document it may be stored
                # otherwise.
                return self._read_cut(tile, placed, spans, box, out, lent=False)
        except (OMEZarrError, OSError) as error:
            if self.on_error is None and not isinstance(error, NodeNotFoundError):
                raise
            # Missing fields are usual in plates, and leave a gap.
            if not isinstance(error, NodeNotFoundError):
                field_error = OMEZarrError.at_place(error, f"field {placed.field.path}")
                self.tiles.report_once(
                    tile, field_error, self.on_error, passing=may_pass(error)
                )
            return None

    def _read_cut(
        self,
        tile: WellCell,
        placed: PlacedField,
        spans: Box,
        box: Box,
        out: Pixels | None,
        *,
        lent: bool = True,
    ) -> Piece | None:
        """Read the intersection of a field and a box; see `FieldImage.like_opened`."""
        view = self._choose_view(tile, placed, lent=lent)
        if view is None:
            return None
        # Where this field may be drawn: all planes, its rows and columns.
        room = *((0, n) for n in self.shape[:-2]), *spans
        source, target = [], []
        is_plain = view.is_plain
        shape = view.source.shape if is_plain else view.shape
        for (low, high), (start, stop), n in zip(box, room, shape, strict=True):
            first, last = max(low, start), min(high, stop, start + n)
            if last <= first:
                return None
            source.append((first - start, last - start))
            target.append(slice(first - low, last - low))
        part, inside, array = tuple(target), tuple(source), view.source
        assert isinstance(array, ChunkedArray)
        if array.has_lent_layout:
            # Without `on_error`: a chunk that a lent layout cannot read is no error
            # yet.
            pixels = array.read(inside) if is_plain else view.read(inside)
            return part, cast_pixels(pixels, self.dtype)
        on_error = self.tiles.note_and_report(tile, self.on_error)
        # Straight into the picture, without a copy, wherever nothing has to be changed.
        if out is not None and is_plain and view.dtype == self.dtype:
            array.read(inside, on_error, out=out[part])
            return None
        view = replace(view, source=LevelSource(array, on_error))
        return part, cast_pixels(view.read(inside), self.dtype)

    def _field_spans(
        self, tile: WellCell, placed: PlacedField, limits: tuple[int, int]
    ) -> Box:
        """Return start and stop of a field along y and x, in voxels of this level."""
        spans = []
        for axis, factor in enumerate(self.factors):
            corner = tile.corner[axis] + placed.offset[axis]
            # Ends where a next field would begin, so that no gap is left by rounding;
            # one voxel at least, so that no field vanishes.
            start = _round_half_up(corner / factor)
            stop = max(start + 1, _round_half_up((corner + placed.size[axis]) / factor))
            spans.append((start, min(stop, limits[axis], self.shape[axis - 2])))
        return tuple(spans)

    def _choose_view(
        self, tile: WellCell, placed: PlacedField, *, lent: bool = True
    ) -> ArrayWindow | None:
        """Find the array of a field that fits this level; None if there is none."""
        path = placed.image.location.path
        if lent and path in self._views:
            return self._views[path]
        image = placed.image
        try:
            if self.tiles.choice.inside:
                screen = self.tiles.arrangements.screen
                image = screen.open_image(
                    tile.well, placed.field.path, self.tiles.choice.inside
                )
            view = self._view_like_known(image, placed.size) if lent else None
            if view is not None:
                self._views[path] = view
                return view
            view = view_of(image, placed.size, self, lent=lent)
            view = mirror_view(view, image.multiscale, self.model.multiscale)
        except (OMEZarrError, OSError) as error:
            # Else each redraw would read it again, and report it again.
            if not may_pass(error):
                self._views[path] = None
            raise
        self._views[path] = view
        fits = self._check_view(tile, placed, view)
        if not fits:
            # The mosaic is opened again with room for level 0, as far as it is open.
            image.open_levels()
        fits &= self.tiles.check_voxels(tile, placed, self.model)
        if fits and lent and image is placed.image:
            self._note_alike(image, placed.size, view)
        return view

    def _note_alike(
        self, image: FieldImage, size: tuple[int, int], view: ArrayWindow
    ) -> None:
        """Remember that fields like this one need no check, and are drawn as it is."""
        opened, array = image.opened_level, view.source
        paths = [level.path for level in image.multiscale.levels]
        model = self.model.multiscale.levels[self.number].path
        if (
            opened is None
            or model not in paths
            or not view.is_plain
            or not isinstance(array, ChunkedArray)
            or len(self._alike) >= MOST_KINDS
        ):
            return
        key = id(image.multiscale), id(opened.layout), size
        self._alike[key] = AlikeFields(
            paths.index(model), array.layout, image.multiscale, opened.layout
        )

    def _view_like_known(
        self, image: FieldImage, size: tuple[int, int]
    ) -> ArrayWindow | None:
        """Find the level of a field like one before; None for the first of its kind."""
        opened = image.opened_level
        if opened is None:
            return None
        alike = self._alike.get((id(image.multiscale), id(opened.layout), size))
        if alike is None:
            return None
        array = image.like_opened(alike.number)
        return ArrayWindow.whole_source(array) if array.layout is alike.layout else None

    def _check_view(
        self, tile: WellCell, placed: PlacedField, view: ArrayWindow
    ) -> bool:
        """Note what of a field is not shown; return whether all of it is."""
        # Axes of the field that the mosaic does not have.
        hidden = set(range(len(view.box))) - set(view.order)
        hides = any(view.source.shape[axis] > 1 for axis in hidden)
        is_larger = any(map(operator.gt, view.shape, self.shape[:-2]))
        what = f"Field {placed.field.path}"
        if self.tiles.choice.inside:
            what += f", {self.tiles.choice.inside},"
        if hides or is_larger:
            text = f"{what} has more planes or channels, which are not shown here."
            self.tiles.note_cut(tile, text)
        holds = can_hold(self.dtype, view.dtype)
        if not holds:
            text = f"{what} has values of type {view.dtype}"
            self.tiles.note_cut(tile, f"{text}, those beyond {self.dtype} are cut off.")
        return holds and not hides and not is_larger


def _round_half_up(value: float) -> int:
    # Not `round`, which takes halves to even numbers: neighbours would overlap.
    return math.floor(value + 0.5)
