"""Values by which the wells of a map are coloured."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.labels.classes import PALETTE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "CATEGORY_COLORS",
    "MOST_CATEGORIES",
    "Coloring",
    "color_categories",
    "color_numbers",
    "colors",
    "suits_log",
]

CATEGORY_COLORS = tuple(color[:3] for color in (*PALETTE[:7], PALETTE[8]))
"""Of categories, for all eyes; without the pale grey, which is that of no well."""

PATTERNS = 3
"""In so many ways the same colours are drawn, when there are more categories."""

MOST_CATEGORIES = PATTERNS * len(CATEGORY_COLORS)
"""More are drawn as one: "other"."""

LOG_SPAN = 100
"""Numbers of a wider span have a logarithmic scale, if most of them are small."""

SMALL = 0.1
"""Half of the numbers lie below this part of the largest where a log scale suits."""


@dataclass(frozen=True, slots=True)
class Coloring:
    """Values for the map.

    Attributes
    ----------
    values
        By path of the well; None where there is none. Of categories: their index.
    limits
        Values of the first and the last colour.
    title
        What they are.
    is_log
        Whether equal factors, not equal differences, have colours equally far apart.
    categories
        Their names, in order; () for numbers.
    """

    values: Mapping[str, float | None]
    limits: tuple[float, float]
    title: str
    is_log: bool = False
    categories: tuple[str, ...] = ()


def color_numbers(
    values: Mapping[str, float | None],
    title: str,
    limits: tuple[float, float] | None = None,
    is_log: bool | None = None,
) -> Coloring:
    """Colour wells by numbers.

    Parameters
    ----------
    limits
        Values of the first and the last colour; None for all there are.
    is_log
        None for what suits, see `suits_log`. Never where no number is positive.
    """
    known = [v for v in values.values() if v is not None and math.isfinite(v)]
    positive = [v for v in known if v > 0]
    log = bool(positive) and (suits_log(known) if is_log is None else is_log)
    used = positive if log else known
    found = (min(used), max(used)) if used else (0.0, 1.0)
    if limits is not None and not (log and limits[0] <= 0):
        found = limits
    return Coloring(values, found, title, log)


def suits_log(values: Iterable[float]) -> bool:
    """Tell whether numbers are better seen on a logarithmic scale, as doses are.

    None may be negative, the positive ones have to span more than `LOG_SPAN`, and half
    of them to be small beside the largest.
    """
    known = list(values)
    positive = [value for value in known if value > 0]
    if not positive or min(known) < 0:
        return False
    spread = max(positive) > LOG_SPAN * min(positive)
    return spread and median(positive) <= SMALL * max(positive)


def color_categories(
    texts: Mapping[str, str | None], names: Iterable[str], title: str
) -> Coloring:
    """Colour wells by what their texts are.

    Parameters
    ----------
    texts
        By path of the well.
    names
        All texts there are, also in wells that a filter leaves out: colours stay.
    """
    ordered = sorted(set(names), key=natural_key)
    shown = ordered
    if len(ordered) > MOST_CATEGORIES:
        shown = [*ordered[: MOST_CATEGORIES - 1]]
        shown.append(f"other ({len(ordered) - len(shown)})")
    places = {name: min(i, len(shown) - 1) for i, name in enumerate(ordered)}
    values = {
        path: None if text is None else float(places[text])
        for path, text in texts.items()
    }
    return Coloring(values, (0.0, max(1.0, len(shown) - 1)), title, False, tuple(shown))


def natural_key(text: str) -> tuple[tuple[int, int | str], ...]:
    """Order texts as people do: "dose 2" before "dose 10"."""
    return tuple(
        (0, int(part)) if part.isdecimal() else (1, part.casefold())
        for part in re.split(r"(\d+)", text)
        if part
    )


def colors() -> np.ndarray[Any, Any]:
    """Give colours from low to high that all eyes tell apart.

    Returns
    -------
    numpy.ndarray
        uint8, 256 rows of red, green, blue.
    """
    from napari.utils.colormaps import ensure_colormap

    ramp = ensure_colormap("viridis").map(np.linspace(0, 1, 256))
    rounded: np.ndarray[Any, Any] = np.rint(255 * ramp[:, :3]).astype(np.uint8)
    return rounded
