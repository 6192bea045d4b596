"""Wells that a mosaic has no room for, until it is made anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from napari_ngff.plate.tiles import Tiles

__all__ = ["Misfits"]

Misfit = tuple[int | None, str, str | None]
"""Acquisition, labels and well."""


class Misfits:
    """Remembers for which wells room was made; once for each."""

    def __init__(self) -> None:
        self._tried: set[Misfit] = set()

    def try_new(self, mosaics: Sequence[Tiles]) -> bool:
        """Tell whether room has to be made for wells, which count as tried then."""
        new = {misfit for misfit, _ in _found(mosaics)} - self._tried
        self._tried |= new
        return bool(new)

    def problems(self, mosaics: Sequence[Tiles]) -> dict[str | None, str]:
        """Tell why wells are not shown whole that there still is no room for."""
        found = _found(mosaics)
        return {misfit[2]: why for misfit, why in found if misfit in self._tried}


def _found(mosaics: Iterable[Tiles]) -> Iterator[tuple[Misfit, str]]:
    for tiles in mosaics:
        for well, why in list(tiles.misfits.items()):
            yield (tiles.acquisition, tiles.inside, well), why
