"""What a widget asks workers; the answer to what was asked before is dropped."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from qtpy.compat import isalive

from napari_ngff.viewer.frontend import attempt, run

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
        self._waiting: dict[str, Callable[[Any], None]] = {}

    def ask(
        self, subject: str, work: Callable[[], Any], done: Callable[[Any], None]
    ) -> None:
        """Let a worker look; `done` gets what it finds, or a text that says why not."""
        numbers = self._numbers
        number = numbers[subject] = numbers.get(subject, 0) + 1
        self._waiting[subject] = done
        # The worker may outlive the widget, which must not live on for it.
        asked_by = weakref.ref(self)

        def look() -> Any:
            if numbers[subject] != number:
                return None  # another question came before its turn
            return attempt(work)

        def take(found: Any) -> None:
            questions = asked_by()
            if questions is not None and numbers[subject] == number:
                questions._answer(subject, found)

        run(look, take)

    def _answer(self, subject: str, found: Any) -> None:
        done = self._waiting.pop(subject)
        if self._is_alive():
            done(found)

    def drop(self, *kept: str) -> None:
        """Take no answer to what was asked so far, but of the subjects `kept`."""
        for subject in self._numbers.keys() - set(kept):
            self._numbers[subject] += 1
            self._waiting.pop(subject, None)

    def _is_alive(self) -> bool:
        widget = self._widget()
        return widget is not None and bool(isalive(widget))  # type: ignore[no-untyped-call]
