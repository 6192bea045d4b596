"""The look of our docks: letters as large as napari's, and a visible focus.

napari's stylesheet gives tables, line edits and trees no size of letters and most
widgets no sign of the focus, and the colour of selected rows hardly differs from that
of others (napari 0.9).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QObject
from qtpy.QtGui import QColor
from qtpy.QtWidgets import QSizePolicy, QWidget

from napari_ngff.viewer.services import settings
from napari_ngff.widgets.connections import connect_while_alive

if TYPE_CHECKING:
    from collections.abc import Callable

    from magicgui.widgets import Label
    from napari.components import ViewerModel


SHEET = """
QPushButton:checked {{ border-bottom: 2px solid {text}; padding-bottom: 2px; }}
QPushButton:focus, QToolButton:focus, QComboBox:focus, QLineEdit:focus,
QAbstractSpinBox:focus, QAbstractItemView:focus,
QPlainTextEdit:focus {{
  border: 2px solid {chosen};
}}
QPushButton:focus {{ padding: 2px; }}
QComboBox:focus {{ padding: 1px 8px 1px 6px; }}
QLineEdit:focus {{ padding: 0px; }}
QCheckBox::indicator {{ width: 14px; height: 14px; border: 1px solid {line}; }}
QCheckBox:focus {{ border: 2px solid {chosen}; padding: -1px; }}
QAbstractItemView::indicator {{
  width: 12px; height: 12px; border: 1px solid {text};
}}
QAbstractItemView::indicator:checked {{ image: url("theme_{theme}:/check.svg"); }}
QLineEdit {{ placeholder-text-color: {hint}; }}
QTabBar::tab:selected {{ background: {current}; }}
QTabBar::tab:selected:focus {{ border: 2px solid {text}; padding: 2px 5px; }}
QAbstractItemView::item:selected {{
  color: {text}; background: {current};
  border-top: 1px solid {chosen}; border-bottom: 1px solid {chosen};
}}
QHeaderView::section {{ font-size: {size}pt; }}
"""
HINT = 0.75
"""Share of the text's colour in the hint of an empty line."""


class ThemeFollower(QObject):
    """Lets a widget and its children follow the theme and the size of letters.

    Parameters
    ----------
    widget
        What a dock holds.
    viewer
        Of the window with the widget.
    set_colors
        Called with the colours, now and whenever the theme changes.
    """

    def __init__(
        self,
        widget: QWidget,
        viewer: ViewerModel,
        set_colors: Callable[[ThemeColors], None] | None = None,
    ) -> None:
        super().__init__(widget)
        self._widget, self._viewer, self._set_colors = widget, viewer, set_colors
        for emitter in (viewer.events.theme, settings.letter_event()):
            connect_while_alive(emitter, self, self._follow_theme)
        self._follow_theme()

    def _follow_theme(self, _: Any = None) -> None:
        theme = self._viewer.theme
        colors = ThemeColors.from_theme(theme)
        names = {name: getattr(colors, name).name() for name in SIGNS}
        hint = mix_colors(colors.text, colors.background, HINT).name()
        size, font = settings.letter_size(), self._widget.font()
        font.setPointSize(size)
        self._widget.setFont(font)
        self._widget.setStyleSheet(
            SHEET.format(hint=hint, size=size, theme=theme, **names)
        )
        if self._set_colors is not None:
            self._set_colors(colors)


SIGNS = "text", "line", "chosen", "current"


def wrap_label(label: Label) -> None:
    """Wrap the text of a form's label in the width that there is.

    magicgui makes a label as wide as its text (0.10).
    """
    usual = QSizePolicy.Policy.Preferred
    label.native.setWordWrap(True)
    label.native.setSizePolicy(usual, usual)


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
