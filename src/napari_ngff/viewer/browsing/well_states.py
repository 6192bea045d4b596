"""How many fields of each well of a plate are annotated, in progress, or flagged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ngff.errors import OMEZarrError
from napari_ngff.labels.states import TODO

if TYPE_CHECKING:
    from collections.abc import Mapping

    from napari_ngff.viewer.browsing.browser import Browser

__all__ = ["WellStates", "count_states"]


@dataclass(frozen=True, slots=True)
class WellStates:
    """The states of the fields of one well.

    Attributes
    ----------
    counts
        Number of fields by state; without those to do.
    total
        Number of fields of the well.
    """

    counts: Mapping[str, int]
    total: int

    def share(self, state: str) -> float:
        """Give the part of the fields that is in a state, 0-1."""
        return self.counts.get(state, 0) / max(1, self.total)

    @property
    def text(self) -> str:
        """What people read."""
        parts = [f"{count} {state}" for state, count in self.counts.items()]
        fields = "1 field" if self.total == 1 else f"{self.total} fields"
        return f"{fields}: {', '.join(parts)}"


def count_states(browser: Browser) -> dict[str, WellStates]:
    """Read the states of the fields of a plate; call it in a worker.

    Of wells without any state nothing is read.

    Returns
    -------
    dict
        By the well's path; wells of which all fields are to do are not in it.

    Raises
    ------
    CorruptDataError, OSError
        Where the states cannot be read.
    """
    counts: dict[str, dict[str, int]] = {}
    for key, state in browser.states.read().states().items():
        path, _, field = key.rpartition("/")
        if field and state != TODO:
            mine = counts.setdefault(path, {})
            mine[state] = mine.get(state, 0) + 1
    found = {}
    for well in browser.map.wells:
        if well.path in counts:
            stated = counts[well.path]
            try:
                total = len(browser.positions_of(well.path))
            except (OMEZarrError, OSError):
                total = sum(stated.values())
            found[well.path] = WellStates(stated, total)
    return found
