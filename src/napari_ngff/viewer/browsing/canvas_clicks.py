"""Clicks on an overview in the canvas: they select wells, open fields, ask for menus.

While a tool of a layer is in hand, clicks are left to it.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from psygnal import Signal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from napari.components import ViewerModel

    from napari_ngff.viewer.browsing.positions import BrowsedImages, Position

__all__ = ["CanvasClicks"]

STILL = 4
"""Pixels by which the mouse may move in a click."""

LEFT, RIGHT = 1, 2


class CanvasClicks:
    """Watches the mouse on the canvas of a viewer, for one browser."""

    clicked = Signal(object)
    """Emitted with the `Position` in the overview that was clicked."""
    menu_wanted = Signal(object)
    """Emitted with what was clicked by the right button: in the overview, or the field
    that is shown."""

    def __init__(self, viewer: ViewerModel, browser: BrowsedImages) -> None:
        self._viewer = weakref.ref(viewer)
        self._browser = weakref.ref(browser)
        self._press = _weakly(self._on_press)
        self._double = _weakly(self._on_double)
        viewer.mouse_drag_callbacks.append(self._press)
        # A double click zooms in napari, and would do so on the field it opens.
        self._others = list(viewer.mouse_double_click_callbacks)
        viewer.mouse_double_click_callbacks[:] = [self._double]

    def close(self) -> None:
        """Leave the viewer as it was."""
        viewer = self._viewer()
        if viewer is None:
            return
        if self._press in viewer.mouse_drag_callbacks:
            viewer.mouse_drag_callbacks.remove(self._press)
        doubles = viewer.mouse_double_click_callbacks
        if self._double in doubles:
            index = doubles.index(self._double)
            doubles[index : index + 1] = self._others

    def _place(self, event: Any) -> Position | None:
        """Find what is under the mouse; None where a click is not for us."""
        viewer, browser = self._viewer(), self._browser()
        if viewer is None or browser is None or viewer.dims.ndisplay != 2:
            return None
        active = viewer.layers.selection.active
        if event.modifiers or (active is not None and active.mode != "pan_zoom"):
            return None
        return browser.position_at(event.position)

    def _on_press(self, viewer: Any, event: Any) -> Iterator[None] | None:
        browser = self._browser()
        position = self._place(event)
        if browser is not None and position is None and event.button == RIGHT:
            active = viewer.layers.selection.active
            if active is None or active.mode == "pan_zoom":
                position = browser.position
        return None if position is None else self._watch(position, event)

    def _watch(self, place: Position, event: Any) -> Iterator[None]:
        start, button = tuple(event.pos), event.button
        yield
        while event.type == "mouse_move":
            moved = (abs(a - b) for a, b in zip(event.pos, start, strict=True))
            if max(moved) > STILL:
                return
            yield
        if button == LEFT:
            self.clicked.emit(place)
        elif button == RIGHT:
            self.menu_wanted.emit(place)

    def _on_double(self, viewer: Any, event: Any) -> None:
        """Open the field of an overview; else do as napari does."""
        position = self._place(event)
        if position is not None and position.well is not None:
            browser = self._browser()
            if browser is not None:
                browser.show_field(position.well, position.field or None)
            return
        for callback in self._others:
            callback(viewer, event)


def _weakly(method: Any) -> Callable[[Any, Any], Any]:
    """Call a method as long as its object lives; napari would keep that for ever."""
    reference = weakref.WeakMethod(method)

    def call(viewer: Any, event: Any) -> Any:
        bound = reference()
        return None if bound is None else bound(viewer, event)

    return call
