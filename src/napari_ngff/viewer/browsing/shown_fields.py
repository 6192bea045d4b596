"""The state of a browser: the fields that are wanted, failed or shown, of one type."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from napari_ngff.viewer.browsing.positions import Position, inline_title
from napari_ngff.viewer.services.notices import count_noun, shorten_name
from napari_ngff.viewer.services.window import Window


def renumber_slots(
    slots: Collection[Slot], before: Sequence[Position], after: Sequence[Position]
) -> dict[Slot, Slot]:
    """Find the slots of layers that stay those of their acquisition.

    Groups of acquisitions that are gone take those that came, in order. Labels of the
    first group belong to the field that was asked for, and go along to the next one
    that is. Layers that nothing takes over get numbers beyond.

    Parameters
    ----------
    slots
        Of all layers.
    before, after
        The image of each group.
    """
    old, new = ([group.acquisition for group in groups] for groups in (before, after))
    numbers = {n: new.index(run) for n, run in enumerate(old) if run in new}
    free = (n for n in itertools.count() if n not in numbers.values())
    for number in range(len(old)):
        if number not in numbers:
            numbers[number] = next(free)
    renumbered = {}
    for number, kind, key in slots:
        stays = kind == "labels" and not number
        slot = (number if stays else numbers.get(number, number), kind, key)
        # Labels of the same name give way, and are removed.
        if kind == "labels" and not stays and not slot[0] and slot in slots:
            slot = (len(old) + len(new), kind, key)
        renumbered[number, kind, key] = slot
    return renumbered


Slot = tuple[int, str, int | str]
"""Which of the groups; "image" or "labels"; number of the channel or name of labels."""


OVERVIEW, NEXT_IMAGE = "the overview", "the next image"


@dataclass(frozen=True, slots=True)
class FieldEntry:
    """Go to the field of the position, or to the first one where it names none."""


@dataclass(frozen=True, slots=True)
class WellStep:
    """Go on by rows and columns of the map, to the field like this one."""

    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class FieldStep:
    """Go to the next field (1), or to the one before (-1)."""

    step: int


@dataclass(frozen=True, slots=True)
class AcquisitionChange:
    """Go to the field of the first chosen acquisition at the same place."""


FieldMove = FieldEntry | WellStep | FieldStep | AcquisitionChange


@dataclass(frozen=True, slots=True)
class ShownFields:
    """An overview of wells, or one field.

    Attributes
    ----------
    wells
        Paths of the wells of the overview, or of the well of the field.
    position
        The field; None for an overview.
    acquisitions
        Ids of the chosen acquisitions; () for all fields together.
    labels
        Name of the labels that are visible; None for none of an overview, and for
        those of a field that were changed last.
    moves
        From the position to the field that is wanted; a worker makes them, since they
        read. () where the position is the field.
    zoom_well
        What the camera shows of an overview: path of a well, "" for all wells, None
        for the well that is in view.
    """

    wells: tuple[str, ...] = ()
    position: Position | None = None
    acquisitions: tuple[int, ...] = ()
    labels: str | None = None
    moves: tuple[FieldMove, ...] = ()
    zoom_well: str | None = None

    @property
    def last_move(self) -> FieldMove | None:
        """The last of the moves; None where there are none."""
        return self.moves[-1] if self.moves else None

    @property
    def named_position(self) -> Position | None:
        """The field, if it is known before the moves are made; else None."""
        known = self.last_move is None or self.moves == (FieldEntry(),)
        return self.position if known else None

    def add_move(self, move: FieldMove) -> ShownFields:
        """Return these fields with one move more."""
        return replace(self, moves=(*self.moves, move))


class BrowsingState:
    """The fields that are wanted, failed and shown; set only in the main thread.

    Attributes
    ----------
    wanted
        The fields that were asked for last and are not shown yet.
    failed
        The field that cannot be shown; None after anything else was, or where the
        field may come at the next try.
    shown
        What is on screen.
    acquisitions, labels
        What is chosen for all that is asked for from now on; see `ShownFields`.
    """

    def __init__(self) -> None:
        self.wanted: ShownFields | None = None
        self.failed: ShownFields | None = None
        self.shown = ShownFields()
        self.acquisitions: tuple[int, ...] = ()
        self.labels: str | None = None

    @property
    def start(self) -> ShownFields | None:
        """The field that steps start from; None where they start from an overview.

        Two quick steps lead two fields further, and a field that failed is stepped
        over.
        """
        fields = self.wanted or self.failed or self.shown
        return None if fields.position is None else fields

    def with_choices(self, fields: ShownFields) -> ShownFields:
        """Return fields with the acquisitions and labels that are chosen now."""
        return replace(fields, acquisitions=self.acquisitions, labels=self.labels)

    def finish_wanted(self, fields: ShownFields) -> None:
        """Forget wanted fields that are shown now, or that the user has cancelled."""
        self.failed = None
        if self.wanted is fields:
            self.wanted = None

    def cancel_wanted(self, fields: ShownFields) -> bool:
        """Forget wanted fields, since the user stays; choose what is on screen again.

        Returns
        -------
        bool
            Whether other acquisitions were chosen.
        """
        self.finish_wanted(fields)
        before, self.acquisitions = self.acquisitions, self.shown.acquisitions
        return before != self.acquisitions

    def fail_wanted(self, failed: ShownFields | None) -> None:
        """Note the field that cannot be shown; None if none is to be stepped over."""
        self.failed, self.wanted = failed, None

    def set_shown(self, asked: ShownFields, resolved: ShownFields) -> None:
        """Note what is shown now; acquisitions and labels may be chosen already."""
        self.shown = resolved
        # Only if resolving changed them; else a choice made meanwhile holds.
        if resolved.acquisitions != asked.acquisitions:
            self.acquisitions = resolved.acquisitions  # the field is of another one


class FieldNotices:
    """Shows notices that begin with the result, and name the image.

    Parameters
    ----------
    name_field
        Names a field for the user.
    """

    def __init__(self, name_field: Callable[[Position], str]) -> None:
        self.name_field = name_field
        self._coarse: set[Position] = set()  # images whose notice was shown
        self._skipped: set[str | None] = set()
        self._other_runs: set[Position] = set()

    def name_fields(self, fields: ShownFields) -> str:
        """Return the name of fields, as in a sentence."""
        if fields.position is None:
            return OVERVIEW
        position = fields.named_position
        return (
            NEXT_IMAGE if position is None else inline_title(self.name_field(position))
        )

    def show_failed(self, fields: ShownFields, reason: str) -> None:
        """Show the reason why wanted fields are not shown."""
        Window.current.show_messages(
            (reason,), f"Not shown: {shorten_name(self.name_fields(fields))}"
        )

    def show_missing(self, fields: ShownFields, messages: tuple[str, ...]) -> None:
        """Show which parts of an image or an overview are left out."""
        Window.current.show_messages(
            messages, f"Shown in part: {shorten_name(self.name_fields(fields))}"
        )

    def show_coarser(self, position: Position, reasons: tuple[str, ...]) -> None:
        """Show once of an image that its finest level cannot be read."""
        if reasons and position not in self._coarse:
            self._coarse.add(position)
            title = inline_title(self.name_field(position))
            Window.current.show_messages(
                reasons, f"Low resolution: {shorten_name(title)}"
            )

    def show_skipped(self, well: str | None, reasons: Mapping[Position, str]) -> None:
        """Show once of a well why its first images were left out; from any thread."""
        if not reasons or well in self._skipped:
            return
        self._skipped.add(well)
        what = inline_title(self.name_field(next(iter(reasons))))
        if len(reasons) > 1:
            title = inline_title(self.name_field(Position(well, "")))
            what = f"{len(reasons)} images" + (f" of {title}" if title else "")
        Window.current.show_messages(
            tuple(reasons.values()), f"Not readable: {shorten_name(what)}"
        )

    def show_other_acquisition(self, position: Position) -> None:
        """Show once of an image that it stands for one of another acquisition.

        From any thread.
        """
        if position not in self._other_runs:
            self._other_runs.add(position)
            title = inline_title(self.name_field(position))
            Window.current.show_messages(
                ("This well has no image of the chosen acquisition.",),
                f"Shown: {shorten_name(title)}",
            )

    def show_not_compared(self, reasons: Mapping[Position, str]) -> None:
        """Show why images are not shown for comparison."""
        what = count_noun(len(reasons), "image")
        if len(reasons) == 1:
            what = inline_title(self.name_field(next(iter(reasons))))
        Window.current.show_messages(
            tuple(reasons.values()), f"Not compared: {shorten_name(what)}"
        )
