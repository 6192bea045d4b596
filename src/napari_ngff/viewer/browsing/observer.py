"""Who is told of what a display does."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Observer"]


class Observer(Protocol):
    """Who is told of what a display does; in the main thread."""

    def busy(self, busy: bool) -> None:
        """Hear that an action begins, or ends."""

    def changed(self) -> None:
        """Hear that something else is shown."""

    def noticed(self) -> None:
        """Hear that wells may have been found broken."""
