"""What a widget asks workers; the answer to what was asked before is dropped."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from qtpy.compat import isalive

from napari_ngff.errors import OMEZarrError
from napari_ngff.viewer.frontend import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from qtpy.QtWidgets import QWidget

__all__ = ["Questions"]


class Questions:
    """Questions of one widget, by subject: a later one takes the place of another.

    Parameters
    ----------
    widget
        No answers come once it is gone.
    """

    def __init__(self, widget: QWidget) -> None:
        self._widget = weakref.ref(widget)
        self._numbers: dict[str, int] = {}

    def ask(
        self, subject: str, work: Callable[[], Any], done: Callable[[Any], None]
    ) -> None:
        """Let a worker look; `done` gets what it finds, or a text that says why not."""
        number = self._numbers[subject] = self._numbers.get(subject, 0) + 1

        def look() -> Any:
            if self._numbers[subject] != number:
                return None  # another question came before its turn
            try:
                return work()
            except (OMEZarrError, OSError) as error:
                return str(error)

        def take(found: Any) -> None:
            if self._numbers[subject] == number and self._is_alive():
                done(found)

        run(look, take)

    def drop(self, *kept: str) -> None:
        """Take no answer to what was asked so far, but of the subjects `kept`."""
        for subject in self._numbers:
            self._numbers[subject] += subject not in kept

    def _is_alive(self) -> bool:
        widget = self._widget()
        return widget is not None and bool(isalive(widget))  # type: ignore[no-untyped-call]
