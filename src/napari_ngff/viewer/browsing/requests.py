"""What was asked for and is not shown yet, and what the user reads of it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from napari_ngff.viewer import frontend
from napari_ngff.viewer.browsing.positions import Position, inline
from napari_ngff.viewer.notices import counted, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from napari_ngff.viewer.browsing.preparation import Prepared

__all__ = ["FieldNotices", "Observer", "Request", "Requests"]


@dataclass(slots=True, eq=False)
class Request:
    """An image, or a mosaic.

    Attributes
    ----------
    find
        Finds the image, once, and may read; None for a mosaic of the wells `paths`.
    look
        Moves the camera to the mosaic; None where it stays.
    found
        The image, when it was found.
    saves_before
        How many saves of labels there had been in this window.
    asked
        What is known of the image before it is found; the path of the image may be "".
    """

    find: Callable[[], Position] | None = None
    paths: Sequence[str] | None = None
    look: Callable[[], None] | None = None
    found: Position | None = None
    saves_before: int = 0
    asked: Position | None = None

    def go(self) -> Position:
        """Find the image; reads."""
        assert self.find is not None
        self.found = self.find()
        return self.found


class Observer(Protocol):
    """Who is told of what a display does; in the main thread."""

    def busy(self, busy: bool) -> None:
        """Hear that an action begins, or ends."""

    def changed(self) -> None:
        """Hear that something else is shown."""

    def noticed(self) -> None:
        """Hear that wells may have been found broken."""

    def saved(self, key: str) -> None:
        """Hear that labels of a field were saved; see `key_of`."""

    def title(self, position: Position) -> str:
        """Name an image."""


class Requests:
    """The latest request, as long as nothing came of it yet."""

    def __init__(self) -> None:
        self.open: Request | None = None
        self._failed: Position | None = None

    def image(
        self, find: Callable[[], Position], asked: Position | None = None
    ) -> Request:
        """Ask for an image."""
        self.open = Request(functools.cache(find), asked=asked)
        return self.open

    def mosaic(
        self, paths: Sequence[str] | None, look: Callable[[], None] | None
    ) -> Request:
        """Ask for a mosaic."""
        self.open = Request(None, paths, look)
        return self.open

    def close(self, request: Request) -> None:
        """Forget a request that is done, or that the user took back."""
        self._failed = None
        if self.open is request:
            self.open = None

    def give_up(self) -> None:
        """Forget what was asked for."""
        self.open = self._failed = None

    def end(self) -> None:
        """Hear that nothing goes on any more: what is open then has failed."""
        if self.open is not None:
            self._failed, self.open = self.open.found, None

    def heading(self, position: Position | None) -> Callable[[], Position] | None:
        """Tell what to step on from; None for a mosaic.

        That is the image asked for, so that who steps twice gets two steps further;
        or that which could not be shown, so that it is stepped over; or else the one
        that is shown.

        Returns
        -------
        callable or None
            Finds the image; may read.
        """
        if self.open is not None:
            return self.open.find
        here = self._failed or position
        return None if here is None else lambda: here


OVERVIEW, NEXT = "the overview", "the next image"


class FieldNotices:
    """Shows notices that begin with the result, and name the image.

    Parameters
    ----------
    title
        Names an image.
    """

    def __init__(self, title: Callable[[Position], str]) -> None:
        self._title = title
        self._coarse: set[Position] = set()  # of which the user knows it
        self._skipped: set[str | None] = set()

    def name(self, request: Request) -> str:
        """Name what was asked for, as in a sentence."""
        position = request.found or request.asked
        if position is not None:
            return inline(self._title(position))
        return OVERVIEW if request.find is None else NEXT

    def show_missing(self, request: Request, prepared: Prepared) -> None:
        """Show what of an image or an overview is left out."""
        result = f"Shown in part: {shorten(self.name(request))}"
        frontend.show(prepared.messages, result)

    def show_coarser(self, position: Position, prepared: Prepared) -> None:
        """Show once of an image that its finest level cannot be read."""
        if prepared.coarser and position not in self._coarse:
            self._coarse.add(position)
            title = inline(self._title(position))
            frontend.show(prepared.coarser, f"Low resolution: {shorten(title)}")

    def show_skipped(self, well: str | None, reasons: Mapping[Position, str]) -> None:
        """Show once of a well why its first images were left out; from any thread."""
        if not reasons or well in self._skipped:
            return
        self._skipped.add(well)
        what = inline(self._title(next(iter(reasons))))
        if len(reasons) > 1:
            title = inline(self._title(Position(well, "")))
            what = f"{len(reasons)} images" + (f" of {title}" if title else "")
        result = f"Not readable: {shorten(what)}"
        frontend.show(tuple(reasons.values()), result)

    def show_not_compared(self, reasons: Mapping[Position, str]) -> None:
        """Show why images do not stand beside the one on screen."""
        what = counted(len(reasons), "image")
        if len(reasons) == 1:
            what = inline(self._title(next(iter(reasons))))
        frontend.show(tuple(reasons.values()), f"Not compared: {shorten(what)}")
