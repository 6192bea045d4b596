"""Colours of our docks, besides those of napari's stylesheet."""

from __future__ import annotations

from dataclasses import dataclass

from qtpy.QtGui import QColor

STRENGTH = 0.62
"""Share of the text's colour in lines, which must be visible on `gap`."""


@dataclass(frozen=True, slots=True)
class ThemeColors:
    """Colours of one theme of napari.

    Text stands out from what is behind it by at least 4.5 to 1, and signs by 3 to 1
    (WCAG 2.2); on pictures, which have any colour, signs are drawn on `shade`.
    """

    background: QColor
    gap: QColor
    well: QColor
    line: QColor
    text: QColor
    current: QColor
    chosen: QColor
    mark: QColor
    broken: QColor
    shade: QColor

    @classmethod
    def from_theme(cls, theme: str) -> ThemeColors:
        """Return the colours of a theme, by its name."""
        from napari.utils.theme import get_theme

        napari_theme = get_theme(theme)

        def theme_color(name: str) -> QColor:
            return QColor(*getattr(napari_theme, name).as_rgb_tuple()[:3])

        # napari's themes have no such colours, so they follow the kind of theme.
        dark = napari_theme.type == "dark"
        return cls(
            theme_color("background"),
            theme_color("foreground"),
            theme_color("secondary"),
            mix_colors(theme_color("text"), theme_color("background"), STRENGTH),
            theme_color("text"),
            theme_color("current"),
            QColor("#ffd166" if dark else "#b34700"),
            QColor("#06d6a0" if dark else "#00745a"),
            QColor("#ff5c5c" if dark else "#c1121f"),
            QColor("black" if dark else "white"),
        )


def mix_colors(first: QColor, other: QColor, share: float) -> QColor:
    """Mix two colours; `share` is the part of the first."""
    parts = zip(first.getRgb()[:3], other.getRgb()[:3], strict=True)
    return QColor(*(round(share * a + (1 - share) * b) for a, b in parts))
