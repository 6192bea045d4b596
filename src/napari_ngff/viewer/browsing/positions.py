"""Positions of images on a plate, in a well or in a collection; finds the next one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ngff.errors import NodeNotFoundError, OMEZarrError
from napari_ngff.plate.plate_layout import Offset, PlateMap, overlap_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from napari_ngff.metadata.model import WellField
    from napari_ngff.plate.arrangement import (
        PlacedField,
        ScreenArrangements,
        WellArrangement,
    )
    from napari_ngff.plate.plate_contents import FieldImage

SAME_PLACE = 0.5
"""Part of the smaller of two fields that the other covers, from which both are fields
of one place: rounds of imaging move by a few micrometers."""

WELLS_ASKED = 8
"""Most wells, spread over the plate, whose labels are read for their names."""


@dataclass(frozen=True, slots=True)
class Position:
    """One image of a plate, a well or a collection.

    Attributes
    ----------
    well
        Path of the well relative to the plate ("B/03"); None in a well that was
        opened without its plate, and in a collection.
    field
        Path of the image relative to the well, or to the collection; "" where only
        the well is known.
    acquisition
        Id, or None where the file states none.
    """

    well: str | None
    field: str
    acquisition: int | None = None


def key_of(position: Position) -> str:
    """Return the path of a field below the plate, the well or the collection."""
    parts = (position.well, position.field)
    return "/".join(part for part in parts if part)


def own_first(position: Position, runs: tuple[int, ...]) -> tuple[int, ...]:
    """Put the acquisition of a field before the others, if it is among them."""
    own = position.acquisition
    if own is None or own not in runs:
        return runs
    return own, *(run for run in runs if run != own)


def inline_title(title: str) -> str:
    """Return the title of an image as in a sentence: "B3, field 2"."""
    return title.replace(" - ", ", ")


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """The place of an image in its well.

    Attributes
    ----------
    position
        Of the image.
    corner, size
        Along y and x, in the unit of `WellFields`; from the well's upper left corner.
    title
        Title for the user: "field 2", "field 2 - day 1" where a well has several
        acquisitions, or the name of an image of a collection.
    problem
        Reason why it cannot be shown; "" where it can.
    """

    position: Position
    corner: tuple[float, float]
    size: tuple[float, float]
    title: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class WellFields:
    """The images of a well in file order.

    Attributes
    ----------
    unit
        Of corners and sizes, such as "micrometer"; "" for voxels.
    """

    fields: tuple[FieldPlace, ...]
    unit: str = ""


def placed_of(
    arrangements: ScreenArrangements, well: str | None
) -> dict[str, tuple[WellArrangement, PlacedField]]:
    """Read the places of the images of a well, from one corner.

    Images of several acquisitions lie over each other; in one arrangement they would
    count as images without places.

    Raises
    ------
    OMEZarrError, OSError
        Where the well cannot be read.
    """
    listed = arrangements.screen.list_fields(well)
    runs = runs_of(listed)
    beside = tuple(run for run in runs if run is not None)
    arranged = [arrangements.read_well(well, run, beside) for run in runs]
    return {
        placed_field.field.path: (arrangement, placed_field)
        for arrangement in arranged
        for placed_field in arrangement.fields
    }


def runs_of(fields: Iterable[WellField]) -> tuple[int | None, ...]:
    """Return the acquisitions by which the images of a well are arranged."""
    runs = tuple(dict.fromkeys(field.acquisition for field in fields))
    return runs if len(runs) > 1 and None not in runs else (None,)


class FieldRoute:
    """Finds the next field of a screen.

    All methods read the documents of wells, and raise what `PlateContents.list_fields`
    raises.

    Parameters
    ----------
    arrangements
        Of the screen, which opens the wells.
    show_skipped
        Shows which images of a well are skipped, and why.
    """

    def __init__(
        self,
        arrangements: ScreenArrangements,
        show_skipped: Callable[[str | None, Mapping[Position, str]], None],
    ) -> None:
        self._arrangements = arrangements
        self._screen = arrangements.screen
        self._show_skipped = show_skipped

    def find_entry(
        self, well: str | None, field: str | None, runs: Sequence[int]
    ) -> Position:
        """Find an image of a well by its path; the first one of a run by default.

        In a well that has none of the run, the first one that there is. Where the
        first cannot be opened, the first that can.

        Raises
        ------
        NodeNotFoundError
            Where there is none.
        """
        fields = self._screen.list_fields(well)
        if field:
            among = [f for f in fields if f.path == field]
        else:
            among = _fields_of_run(fields, runs) or list(fields)
        if not among:
            what = f"no image {field}" if field else "no image"
            msg = f"There is {what} in {self._screen.location_of(well, '')}."
            raise NodeNotFoundError(msg)
        field_found = among[0] if field else self._first_readable(well, among)
        return Position(well, field_found.path, field_found.acquisition)

    def _first_readable(
        self, well: str | None, among: Sequence[WellField]
    ) -> WellField:
        """Skip images that cannot be opened, and show once which these are."""
        reasons: dict[Position, str] = {}
        for field in among:
            try:
                check_readable(self._screen.open_image(well, field.path))
            except (OMEZarrError, OSError) as error:
                reasons[Position(well, field.path, field.acquisition)] = str(error)
                continue
            self._show_skipped(well, reasons)
            return field
        return among[0]

    def find_alike(
        self, well: str | None, start: Position, chosen: Sequence[int] = ()
    ) -> Position:
        """Find the image of another well with the same name, else the same number.

        If the well of `start` has none of the `chosen` acquisitions, `start` is of
        another one; the image that is found is of the first chosen one again.
        """
        fields = self._screen.list_fields(well)
        runs = () if start.acquisition is None else (start.acquisition,)
        back = bool(chosen) and start.acquisition not in (None, *chosen)
        same = [f for f in fields if f.path == start.field]
        same = [f for f in same if f.acquisition == start.acquisition]
        if same and not back:
            return Position(well, same[0].path, same[0].acquisition)
        among = _fields_of_run(fields, chosen if back else runs)
        start_fields = _fields_of_run(self._screen.list_fields(start.well), runs)
        if not among:
            return self.find_entry(well, None, ())
        # Wells may differ in their number of fields; the last stands for those missing.
        number = [f.path for f in start_fields].index(start.field)
        partner = among[min(number, len(among) - 1)]
        return Position(well, partner.path, partner.acquisition)

    def find_beside(
        self,
        plate: PlateMap,
        start: Position,
        rows: int,
        columns: int,
        chosen: Sequence[int],
    ) -> Position:
        """Find the same image in the next readable well of a direction."""
        well = next((well for well in plate.wells if well.path == start.well), None)
        failed: Exception | None = None
        while well is not None:
            well = plate.find_neighbour(well, rows, columns)
            try:
                if well is not None:
                    return self.find_alike(well.path, start, chosen)
            except (OMEZarrError, OSError) as error:
                # The nearest well is the one that was meant: its reason is shown.
                failed = failed or error
        if failed is not None:
            raise failed
        return start

    def find_next(
        self,
        start: Position,
        step: int,
        wells: Sequence[str | None],
        runs: Sequence[int],
    ) -> Position:
        """Find the image before or after one, in the next readable well at the end.

        Parameters
        ----------
        step
            -1 or 1.
        wells
            In order; after the last comes the first.
        runs
            Acquisitions to stay in; the first of them counts.
        """
        # A field of another acquisition comes before the first of the chosen one.
        among = [
            f.path for f in _fields_of_run(self._screen.list_fields(start.well), runs)
        ]
        number = among.index(start.field) if start.field in among else -1
        if 0 <= number + step < len(among):
            return self.find_entry(start.well, among[number + step], runs)
        first = list(wells).index(start.well)
        # As far as the well itself, which may be the only one with readable images.
        for distance in range(1, len(wells) + 1):
            well = wells[(first + step * distance) % len(wells)]
            try:
                fields = _fields_of_run(self._screen.list_fields(well), runs)
            except (OMEZarrError, OSError):
                continue  # the map shows the well crossed out
            if fields:
                next_field = fields[0 if step > 0 else -1]
                return Position(well, next_field.path, next_field.acquisition)
        return start

    def find_in_run(self, start: Position, runs: Sequence[int]) -> Position:
        """Find the image at the same place in the first of some acquisitions.

        Where there is none, the last one up to its number.
        """
        if not runs:
            return start
        partner = self.find_partner(start, runs[0])
        if partner is not None:
            return partner
        own_run, among = self._fields_of_runs(start, runs[0])
        if not among:
            return start
        number = own_run.index(start.field) if start.field in own_run else 0
        return Position(start.well, among[min(number, len(among) - 1)], runs[0])

    def find_partner(self, start: Position, run: int | None) -> Position | None:
        """Find the image of an acquisition at the place of an image; None without one.

        Where the acquisitions have no place in common, the image with the same number.
        """
        if run is None or start.acquisition in (None, run):
            return start
        own_run, among = self._fields_of_runs(start, run)
        pairs = self._pair_fields(start, run) if among else {}
        if pairs:
            path = pairs.get(start.field)
            return None if path is None else Position(start.well, path, run)
        number = own_run.index(start.field) if start.field in own_run else 0
        # No image stands for a missing one here: it would be shown as its partner.
        if number >= len(among):
            return None
        return Position(start.well, among[number], run)

    def _fields_of_runs(self, start: Position, run: int) -> tuple[list[str], list[str]]:
        """List the paths of the images of an image's acquisition, and of another."""
        fields = self._screen.list_fields(start.well)
        own_run = [f.path for f in _fields_of_run(fields, [start.acquisition])]
        return own_run, [f.path for f in _fields_of_run(fields, [run])]

    def _pair_fields(self, start: Position, run: int) -> dict[str, str]:
        """Pair the images of two acquisitions that lie in the same place of a well."""
        assert start.acquisition is not None
        beside = start.acquisition, run
        own, other = (
            self._arrangements.read_well(start.well, run, beside) for run in beside
        )
        if not (own.positioned and other.positioned):
            return {}
        rectangles = list_rectangles(other)
        pairs = {}
        for path, rectangle in list_rectangles(own).items():
            covered = {
                partner: overlap_of(rectangle, place)
                for partner, place in rectangles.items()
            }
            nearest = max(covered, key=covered.__getitem__)
            if covered[nearest] >= SAME_PLACE:
                pairs[path] = nearest
        return pairs


def list_rectangles(arrangement: WellArrangement) -> dict[str, tuple[Offset, Offset]]:
    """List the corner and size of each field in the unit of the axes, by its path."""
    height, width = arrangement.voxel_size
    return {
        placed.field.path: (
            (placed.offset[0] * height, placed.offset[1] * width),
            (placed.size[0] * height, placed.size[1] * width),
        )
        for placed in arrangement.fields
    }


def check_readable(image: FieldImage) -> None:
    """Open the finest level of an image that can be read.

    Raises
    ------
    OMEZarrError, OSError
        That of the finest level, where none can be read.
    """
    failed: Exception | None = None
    for level in range(len(image.multiscale.levels)):
        try:
            image.open_level(level)
        except (OMEZarrError, OSError) as error:
            failed = failed or error
        else:
            return
    if failed is not None:
        raise failed


def _fields_of_run(
    fields: Sequence[WellField], runs: Sequence[int | None]
) -> list[WellField]:
    """Choose the fields of the first of some acquisitions; all without any."""
    return [f for f in fields if not runs or f.acquisition == runs[0]]
