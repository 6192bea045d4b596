"""What was asked for and is not shown yet: who asks again goes on from there."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari_ngff.viewer.browsing.positions import Position

__all__ = ["Request", "Requests"]


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
