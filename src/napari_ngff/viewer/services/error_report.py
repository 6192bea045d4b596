"""Reports chunks that cannot be read, without a message for each."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from napari_ngff.viewer.services.notices import (
    FailureKind,
    failure_text,
    kind_of,
    last_part,
)
from napari_ngff.viewer.services.window import Window

if TYPE_CHECKING:
    from napari_ngff.errors import ChunkError

GATHER = 0.5
"""Seconds in which failures are counted before they are shown."""

OUTAGE = 30.0
"""Seconds without a failure after which the next one is of another outage."""


Failures = tuple[FailureKind, str]
"""Why something cannot be read, and what: "chunk", or "well" of an overview."""


class ErrorReport:
    """Reports unreadable chunks to the user: soon after the first, then seldom.

    One for each file that is opened; called from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Those of the last outage, and the number that was shown last.
        self._found: dict[Failures, dict[str, ChunkError]] = {}
        self._shown: dict[Failures, int] = {}
        self._waiting: set[Failures] = set()
        self._last = 0.0

    def __call__(self, error: ChunkError) -> None:
        """Show how many there are: soon, and when there are ten times as many."""
        window = Window.current
        window.run_in_main(window.show_missing)
        kind = kind_of(error), "well" if error.key == error.group else "chunk"
        with self._lock:
            self._forget_outage()
            found = self._found.setdefault(kind, {})
            is_known = error.key in found
            found[error.key] = error.without_frames()
            shown = self._shown.get(kind, 0)
            if is_known or kind in self._waiting or len(found) < max(1, 10 * shown):
                return
            self._waiting.add(kind)
        window.run_after(GATHER, partial(self._show_count, kind))

    def _forget_outage(self) -> None:
        """Forget what may have come since, where the last failure was long ago."""
        now = time.monotonic()
        if now - self._last > OUTAGE:
            for kind in [one for one in self._found if one[0] in PASSING]:
                del self._found[kind]
                self._shown.pop(kind, None)
        self._last = now

    def _show_count(self, kind: Failures) -> None:
        with self._lock:
            errors = tuple(self._found.get(kind, {}).values())
            self._waiting.discard(kind)
            self._shown[kind] = len(errors)
        if errors:
            first = errors[0]
            inner = first.group if kind[1] == "chunk" else ""
            name = last_part("/".join(filter(None, (first.source_name, inner))))
            address = first.source_name
            Window.current.show_messages(
                (str(first),),
                failure_text(name, len(errors), kind[0], address, kind[1]),
            )


PASSING = (FailureKind.UNREACHED, FailureKind.REFUSED, FailureKind.UNREADABLE)
"""Failures after which a chunk may come; a damaged one stays so."""
