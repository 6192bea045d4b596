"""Which image comes next: reads the documents of wells, and little of images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.errors import NodeNotFoundError, OMEZarrError
from napari_ngff.viewer.browsing.positions import Position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.metadata.model import Field
    from napari_ngff.plate.screen import FieldImage, Screen
    from napari_ngff.viewer.browsing.field_notices import FieldNotices

__all__ = ["Route"]


class Route:
    """Ways through the images of a screen.

    All methods read the documents of wells, and raise what `Screen.fields` raises.

    Parameters
    ----------
    screen
        Opens the wells.
    notices
        Show which images are skipped.
    """

    def __init__(self, screen: Screen, notices: FieldNotices) -> None:
        self._screen = screen
        self._notices = notices

    def entry(
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
        fields = self._screen.fields(well)
        if field:
            among = [f for f in fields if f.path == field]
        else:
            among = _of(fields, runs) or list(fields)
        if not among:
            what = f"no image {field}" if field else "no image"
            msg = f"There is {what} in {self._screen.place(well, '')}."
            raise NodeNotFoundError(msg)
        found = among[0] if field else self._first_readable(well, among)
        return Position(well, found.path, found.acquisition)

    def _first_readable(self, well: str | None, among: Sequence[Field]) -> Field:
        """Skip images that cannot be opened, and show once which these are."""
        reasons: dict[Position, str] = {}
        for field in among:
            try:
                check_readable(self._screen.image(well, field.path))
            except (OMEZarrError, OSError) as error:
                reasons[Position(well, field.path, field.acquisition)] = str(error)
                continue
            self._notices.show_skipped(well, reasons)
            return field
        return among[0]

    def alike(
        self, well: str | None, here: Position, chosen: Sequence[int] = ()
    ) -> Position:
        """Find the image of another well that is like one: of its name, or number.

        Where `here` is of none of the `chosen` acquisitions, since its well has none
        of them, the other is of the first of them again.
        """
        fields = self._screen.fields(well)
        runs = () if here.acquisition is None else (here.acquisition,)
        back = bool(chosen) and here.acquisition not in (None, *chosen)
        same = [f for f in fields if f.path == here.field]
        same = [f for f in same if f.acquisition == here.acquisition]
        if same and not back:
            return Position(well, same[0].path, same[0].acquisition)
        among = _of(fields, chosen if back else runs)
        mine = _of(self._screen.fields(here.well), runs)
        if not among:
            return self.entry(well, None, ())
        number = [f.path for f in mine].index(here.field)
        found = among[min(number, len(among) - 1)]
        return Position(well, found.path, found.acquisition)

    def stepped(
        self,
        here: Position,
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
        among = [f.path for f in _of(self._screen.fields(here.well), runs)]
        number = among.index(here.field) if here.field in among else -1
        if 0 <= number + step < len(among):
            return self.entry(here.well, among[number + step], runs)
        start = list(wells).index(here.well)
        for distance in range(1, len(wells) + 1):
            well = wells[(start + step * distance) % len(wells)]
            try:
                fields = _of(self._screen.fields(well), runs)
            except (OMEZarrError, OSError):
                continue
            if fields:
                found = fields[0 if step > 0 else -1]
                return Position(well, found.path, found.acquisition)
        return here

    def in_run(self, here: Position, runs: Sequence[int]) -> Position:
        """Find the image of the first of some acquisitions at the place of one."""
        if not runs or here.acquisition in (None, runs[0]):
            return here
        fields = self._screen.fields(here.well)
        mine = [f.path for f in _of(fields, [here.acquisition])]
        among = _of(fields, runs)
        if not among:
            return here
        number = mine.index(here.field) if here.field in mine else 0
        found = among[min(number, len(among) - 1)]
        return Position(here.well, found.path, found.acquisition)

    def partner(self, here: Position, run: int | None) -> Position | None:
        """Find the image of an acquisition at the place of one; None where none is."""
        if run is None or here.acquisition in (None, run):
            return here
        fields = self._screen.fields(here.well)
        mine = [f.path for f in _of(fields, [here.acquisition])]
        among = _of(fields, [run])
        number = mine.index(here.field) if here.field in mine else 0
        if number >= len(among):
            return None
        return Position(here.well, among[number].path, run)


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
            image.array(level)
        except (OMEZarrError, OSError) as error:
            failed = failed or error
        else:
            return
    if failed is not None:
        raise failed


def _of(fields: Sequence[Field], runs: Sequence[int | None]) -> list[Field]:
    """Choose the fields of the first of some acquisitions; all without any."""
    return [f for f in fields if not runs or f.acquisition == runs[0]]
