"""What the user reads of an image that is not shown, or not as it should be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.viewer import frontend
from napari_ngff.viewer.browsing.positions import Position, inline
from napari_ngff.viewer.notices import counted, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from napari_ngff.viewer.browsing.requests import Request
    from napari_ngff.viewer.browsing.slots import Prepared

__all__ = ["FieldNotices"]

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
