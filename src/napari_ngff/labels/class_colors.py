"""Colours of classes, which people tell apart."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

RGBA = tuple[int, int, int, int]
"""Red, green, blue, alpha, each 0-255."""

PALETTE = (
    (230, 159, 0, 255),
    (86, 180, 233, 255),
    (0, 158, 115, 255),
    (240, 228, 66, 255),
    (0, 114, 178, 255),
    (213, 94, 0, 255),
    (204, 121, 167, 255),
    (221, 221, 221, 255),
    (136, 34, 85, 255),
)
"""Red, green, blue, alpha of new classes, which people with any usual kind of colour
blindness can tell apart: the eight of Okabe and Ito (2008) without black; pale grey and
the wine of Tol (2021)."""

FIRST_COLORS = dict(enumerate(PALETTE, 1))
"""Colours of the first values of new labels; napari's own begin with a dark brown."""

APART = 25.0
"""Distance in CIELAB at which colours are clearly apart: that of the nearest two of
`PALETTE`."""

OTHERS = tuple(
    (red, green, blue, 255)
    for red, green, blue in itertools.product(range(0, 256, 51), repeat=3)
)
"""Colours where those of `PALETTE` are in use."""

BLACK = (0, 0, 0)

TO_XYZ = np.array(
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
)
"""From linear sRGB, relative to white."""


def free_color(
    classes: Iterable[RGBA], usual: RGBA = PALETTE[0], labels: Iterable[Any] = ()
) -> RGBA:
    """Propose a colour for a new class.

    The usual one, or else another of the palette, if it is clearly apart from all that
    are in use; else the colour that is farthest from them.

    Parameters
    ----------
    classes
        Colours of the other classes.
    usual
        The colour that the new class would have beside no other.
    labels
        Colours of labels without a class. Of many, some are near to any colour: then
        the new one is clearly apart from those of classes alone.
    """
    candidates: list[RGBA] = [usual, *PALETTE, *OTHERS]
    from_classes = _find_nearest(candidates, [BLACK, *classes])
    nearest = np.minimum(from_classes, _find_nearest(candidates, [BLACK, *labels]))
    for number in range(1 + len(PALETTE)):
        if nearest[number] >= APART:
            return candidates[number]
    if (from_classes >= APART).any():
        nearest[from_classes < APART] = 0
    return candidates[int(nearest.argmax())]


def _find_nearest(colors: Iterable[Any], others: Iterable[Any]) -> Any:
    """Return the distance of each colour to the nearest of others, in CIELAB."""
    first, second = _to_lab(colors), _to_lab(others)
    return np.linalg.norm(first[:, None] - second, axis=2).min(axis=1)


def _to_lab(colors: Iterable[Any]) -> Any:
    """Convert colours of sRGB, 0-255, to CIELAB: L*, a*, b* per row."""
    rgb = np.array([tuple(color)[:3] for color in colors]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = linear @ TO_XYZ.T / TO_XYZ.sum(axis=1)
    curved = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    x, y, z = curved.T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)
