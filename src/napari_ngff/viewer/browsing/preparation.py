"""Images that are made ready: what was asked for, and what may be asked for next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.errors import OMEZarrError
from napari_ngff.viewer.browsing.prefetching import prefetch
from napari_ngff.viewer.browsing.slots import Prepared, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from napari_ngff.viewer.browsing.opener import Opener
    from napari_ngff.viewer.browsing.positions import Position
    from napari_ngff.viewer.browsing.prefetching import LayerView
    from napari_ngff.viewer.browsing.route import Route
    from napari_ngff.viewer.browsing.slots import Slot
    from napari_ngff.viewer.groups import Group

__all__ = ["Preparation"]

READY = 4
"""So many images are kept prepared."""

Runs = tuple[int, ...]


class Preparation:
    """Prepares images; everything here reads, in worker threads.

    Parameters
    ----------
    opener
        Opens them.
    title
        Names layers, by the acquisition or None.
    """

    def __init__(self, opener: Opener, title: Callable[[int | None], str]) -> None:
        self._opener = opener
        self._title = title
        self._ready: dict[tuple[Position, Runs], Prepared] = {}
        self._saves = 0

    def take(self, route: Route, position: Position, runs: Runs) -> Prepared:
        """Give what the layers of an image need; several where acquisitions are."""
        return self._ready.pop((position, runs), None) or self._made(
            route, position, runs
        )

    def forget(self, address: str) -> None:
        """Prepare an image anew next time: labels of it were saved."""
        self._saves += 1
        for key, prepared in list(self._ready.items()):
            if address in prepared.images:
                self._ready.pop(key, None)

    def prefetch(
        self,
        route: Route,
        positions: Sequence[Callable[[], Position]],
        runs: Runs,
        views: Mapping[Slot, LayerView],
        wanted: Callable[[], bool],
    ) -> None:
        """Prepare images that may be asked for next, as long as they are wanted."""
        for find in positions:
            if not wanted():
                return
            saves = self._saves
            try:
                position = find()
                prepared = self._ready.get((position, runs))
                prepared = prepared or self._made(route, position, runs)
            except (OMEZarrError, OSError):
                continue  # told when one goes there
            if saves != self._saves:
                continue  # labels of it may have been saved meanwhile
            self._ready[position, runs] = prepared
            prefetch(prepared, views, wanted)
        for old in list(self._ready)[:-READY]:
            self._ready.pop(old, None)

    def _made(self, route: Route, position: Position, runs: Runs) -> Prepared:
        wanted: Sequence[int | None] = [position.acquisition]
        if runs and position.acquisition in (None, *runs):
            wanted = runs
        groups: list[Group | None] = []
        for run in wanted:
            partner = route.partner(position, run)
            title = self._title(run)
            groups += [None] if partner is None else self._opener.field(title, partner)
        # Acquisitions that this well lacks are chosen still.
        groups += [None] * (len(runs) - len(groups))
        return prepare(groups, estimate=True)
