"""Colours of wells and objects by the values of a column, numbers or categories."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import median
from typing import Any

import numpy as np

from napari_ngff.labels.class_colors import PALETTE

Color = tuple[int, ...]
"""Red, green and blue, 0-255."""

CATEGORY_COLORS: tuple[Color, ...] = tuple(
    color[:3] for color in (*PALETTE[:7], PALETTE[8])
)
"""Of categories, for all eyes; without the pale grey, which is that of no well."""

FEW = len(CATEGORY_COLORS)
"""Categories of objects above this number are drawn as one: they have no patterns."""

PATTERNS = 3
"""Number of patterns in which each colour is drawn, if there are more categories."""

MOST_CATEGORIES = PATTERNS * len(CATEGORY_COLORS)
"""Categories above this number are drawn as one: "other"."""

LOG_SPAN = 100
"""Numbers of a wider span have a logarithmic scale, if most of them are small."""

SMALL = 0.1
"""Half of the numbers lie below this part of the largest where a log scale suits."""


@dataclass(frozen=True, slots=True)
class Coloring:
    """Values for the map, and their colours.

    Attributes
    ----------
    values
        By path of the well; None where there is none. Of categories: their index.
    limits
        Values of the first and the last colour.
    title
        What they are.
    colors
        Of numbers from the lower limit to the upper one; or of each category.
    is_log
        Whether equal factors, not equal differences, have colours equally far apart.
    categories
        Their names, in order; () for numbers.
    """

    values: Mapping[str, float | None]
    limits: tuple[float, float]
    title: str
    colors: Sequence[Color]
    is_log: bool = False
    categories: tuple[str, ...] = ()

    def value_of(self, path: str) -> float | None:
        """Return the value of a well; None if it is missing or NaN."""
        value = self.values.get(path)
        return None if value is None or math.isnan(value) else value

    def color_of(self, value: float) -> Color:
        """Return the colour of a value; beyond the limits that of the nearer limit."""
        part = value if self.categories else self.position_of(value) * 255
        return self.colors[round(part)]

    def position_of(self, value: float) -> float:
        """Return the position of a number between the limits, 0-1."""
        low, high = self.limits
        if self.is_log:
            if value <= 0:
                return 0.0
            low, high, value = (math.log10(v) for v in (low, high, value))
        # All values are equal: the middle of the colours.
        if not high > low:
            return 0.5
        return min(max((value - low) / (high - low), 0.0), 1.0)

    def describe_value(self, path: str) -> str:
        """Return the value of a well as text, with six digits."""
        value = self.value_of(path)
        if value is None:
            return "no value"
        return self.categories[round(value)] if self.categories else f"{value:.6g}"


def color_numbers(
    values: Mapping[str, float | None], title: str, *, is_log: bool
) -> Coloring:
    """Colour wells by numbers.

    Parameters
    ----------
    is_log
        Whether the scale is logarithmic. Never where no number is positive.
    """
    known = list_known(values)
    # A logarithm has no place for 0 and less.
    positive = [value for value in known if value > 0 and is_log]
    used = positive or known or [0.0, 1.0]
    limits = min(used), max(used)
    return Coloring(values, limits, title, map_colors(), bool(positive))


def list_known(values: Mapping[str, float | None]) -> list[float]:
    """List the values that are there and finite."""
    return [v for v in values.values() if v is not None and math.isfinite(v)]


def suits_log(values: Mapping[str, float | None]) -> bool:
    """Return whether the numbers of wells suit a logarithmic scale, as doses do.

    That is if none is negative, the positive ones span more than a factor of
    `LOG_SPAN`, and half of these are small relative to the largest.
    """
    known = list_known(values)
    positive = [value for value in known if value > 0]
    if not positive or min(known) < 0:
        return False
    spread = max(positive) > LOG_SPAN * min(positive)
    return spread and median(positive) <= SMALL * max(positive)


def color_objects(
    values: Any, class_colors: Mapping[str, Color], *, is_log: bool
) -> tuple[Coloring, Any]:
    """Colour objects by a column; see `color_numbers` and `color_categories`.

    Parameters
    ----------
    values
        A pandas.Series: numbers, or text with None where there is none. A few different
        whole numbers count as text.

    Returns
    -------
    coloring
        Without values.
    numbers
        Of the colour of each object in it; NaN where the object has no value.
    """
    import pandas as pd

    title, is_number = str(values.name), values.dtype.kind in "iuf"
    found: Any = values.dropna().unique() if is_number else ()
    if not is_number or (len(found) <= FEW and (found % 1 == 0).all()):
        codes, found = pd.factorize(values)
        names = [f"{value:.0f}" if is_number else value for value in found]
        texts = dict(zip(names, names, strict=True))
        most = MOST_CATEGORIES if class_colors else FEW
        coloring = color_categories(texts, names, title, class_colors, most)
        numbers = [coloring.values[name] for name in names]
        return replace(coloring, values={}), np.array([*numbers, np.nan])[codes]
    known = found[np.isfinite(found)]
    parts = [part for part in (known[known > 0], known) if len(part)]
    ends = {
        f"{i}{end}": float(getattr(part, end)())
        for i, part in enumerate(parts)
        for end in ("min", "max")
    }
    coloring = color_numbers(ends, title, is_log=is_log)
    (low, high), places = coloring.limits, values.to_numpy(float)
    places = np.clip(np.where(np.isfinite(places), places, np.nan), low, high)
    if coloring.is_log:
        low, high, places = math.log(low), math.log(high), np.log(places)
    places = (places - low) / (high - low) if high > low else places * 0 + 0.5
    return replace(coloring, values={}), np.rint(places * (len(coloring.colors) - 1))


def color_categories(
    texts: Mapping[str, str | None],
    names: Iterable[str | None],
    title: str,
    class_colors: Mapping[str, Color],
    most: int = MOST_CATEGORIES,
) -> Coloring:
    """Colour wells by categories.

    Parameters
    ----------
    texts
        By path of the well.
    names
        All texts there are, also in wells that a filter leaves out: colours stay.
    class_colors
        By the name of a category that is a class of labels: as on the canvas.
    most
        Categories above this number are drawn as one.
    """
    # Sorted, so that colours do not depend on the order of rows.
    categories = ordered = sorted(set(filter(None, names)), key=natural_key)
    if len(ordered) > most:
        categories = ordered[: most - 1]
        categories.append(f"other ({len(ordered) - len(categories)})")
    places = {name: min(i, len(categories) - 1) for i, name in enumerate(ordered)}
    values = {
        path: None if text is None else float(places[text])
        for path, text in texts.items()
    }
    taken = {class_colors.get(name) for name in categories}
    free = [color for color in CATEGORY_COLORS if color not in taken]
    others = itertools.cycle(free or CATEGORY_COLORS)
    colors = [class_colors.get(name) or next(others) for name in categories]
    # Without any name nothing is a category, and no well has a value.
    colors = colors or list(map_colors())
    return Coloring(values, (0.0, 1.0), title, colors, False, tuple(categories))


def natural_key(text: str) -> tuple[tuple[int, int | str], ...]:
    """Order texts as people do: "dose 2" before "dose 10"."""
    return tuple(
        (0, int(part)) if part.isdecimal() else (1, part.casefold())
        for part in re.split(r"(\d+)", text)
        if part
    )


@cache
def map_colors() -> tuple[Color, ...]:
    """Return 256 colours from low to high, suited to colour blindness."""
    from napari.utils.colormaps import ensure_colormap

    ramp = ensure_colormap("viridis").map(np.linspace(0, 1, 256))
    return tuple(map(tuple, np.rint(255 * ramp[:, :3]).astype(int).tolist()))
