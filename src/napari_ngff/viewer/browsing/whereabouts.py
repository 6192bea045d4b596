"""Tells where one is on a plate, and takes the keys that lead elsewhere.

Arrows go to the neighbouring well, ``,`` and ``.`` to the field before and after: keys
that neither napari (0.8, 0.9) nor painting uses, but for left and right, which move
the slider. They still do while a layer is selected that is not the browser's.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from napari_ngff.viewer.browsing.canvas_clicks import CanvasClicks
from napari_ngff.viewer.browsing.overview_names import NamesDrawing

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.components import ViewerModel

    from napari_ngff.viewer.browsing.positions import BrowsedImages


__all__ = ["FIELD_KEYS", "WELL_KEYS", "Whereabouts"]

WELL_KEYS = {"Left": (0, -1), "Right": (0, 1), "Up": (-1, 0), "Down": (1, 0)}
"""Rows and columns by key."""

FIELD_KEYS = {",": -1, ".": 1}

AT_FIRST, CORNER = "bottom_right", "top_left"
"""Where napari 0.9 has its text, under notices and the scale bar; and where ours is."""


class Whereabouts:
    """Connects a browser to the overlay, the status line and the keys of its viewer."""

    def __init__(self, viewer: ViewerModel, browser: BrowsedImages) -> None:
        self._viewer = weakref.ref(viewer)
        self._browser = weakref.ref(browser)
        self._title = ""
        self._shown = ""
        self.clicks = CanvasClicks(viewer, browser)
        self._names = NamesDrawing(viewer, browser)
        self._move = _weakly(self._moved)
        viewer.mouse_move_callbacks.append(self._move)
        viewer.events.status.connect(self._on_status)
        self._bound = [
            *((key, _weakly(self._go_well), steps) for key, steps in WELL_KEYS.items()),
            *((key, _weakly(self._go_field), (n,)) for key, n in FIELD_KEYS.items()),
        ]
        for key, go, steps in self._bound:
            viewer.bind_key(key, _pressed(go, steps), overwrite=True)

    def close(self) -> None:
        """Leave the viewer as it was."""
        self.clicks.close()
        self._names.close()
        viewer = self._viewer()
        if viewer is None:
            return
        if self._move in viewer.mouse_move_callbacks:
            viewer.mouse_move_callbacks.remove(self._move)
        viewer.events.status.disconnect(self._on_status)
        for key, _, _ in self._bound:
            viewer.bind_key(key, None)
        self.say("")

    def say(self, title: str) -> None:
        """Show a title; "" for none."""
        self._title = title
        self._write(title)

    def look(self) -> None:
        """Let the status line say what is under the cursor now, though it rests."""
        viewer = self._viewer()
        if viewer is None:
            return
        if viewer.mouse_over_canvas and len(viewer.layers.selection) == 1:
            viewer.update_status_from_cursor()
        else:
            # With other selections napari 0.9 would copy its list of layers, and keep
            # 3 KB of that for ever.
            viewer.status = "Ready"
        self._on_status()  # nobody hears of a status like the one before

    def _write(self, text: str) -> None:
        viewer = self._viewer()
        if viewer is None:
            return
        overlay = _overlay(viewer)
        if overlay.text not in ("", self._shown):
            return  # the user's own
        self._shown = text
        if overlay.position == AT_FIRST:
            overlay.position = CORNER
        overlay.text = text
        overlay.visible = bool(text)
        _settle(viewer)

    def _here(self) -> str:
        """Say what is under the cursor, or else what is shown."""
        viewer, browser = self._viewer(), self._browser()
        if viewer is None or browser is None:
            return ""
        position = browser.position_at(viewer.cursor.position)
        return self._title if position is None else browser.title(position)

    def _moved(self, viewer: Any, event: Any) -> None:
        self._write(self._here())

    def _on_status(self, event: Any = None) -> None:
        viewer, title = self._viewer(), self._shown
        if viewer is None or not title:
            return
        status = viewer.status
        if isinstance(status, dict):
            coordinates = status.get("coordinates", "")
            if not coordinates.startswith(title):
                viewer.status = {**status, "coordinates": f"{title}  {coordinates}"}
        elif not status.startswith(title):
            viewer.status = f"{title}  {status}"

    def _go_well(self, viewer: Any, rows: int, columns: int) -> None:
        browser = self._browser()
        if browser is None:
            return
        active = viewer.layers.selection.active
        if active is not None and not browser.owns(active):
            if columns:
                axis = viewer.dims.last_used
                step = viewer.dims.current_step[axis] + columns
                viewer.dims.set_current_step(axis, step)
            return
        browser.step_well(rows, columns)

    def _go_field(self, viewer: Any, step: int) -> None:
        browser = self._browser()
        if browser is not None:
            browser.step_field(step)


def _overlay(viewer: Any) -> Any:
    # napari 0.9 moved it, and deprecates where it was.
    canvas = getattr(viewer, "canvas", None)
    overlays = getattr(canvas, "overlays", None)
    return viewer.text_overlay if overlays is None else overlays.text


def _settle(viewer: Any) -> None:
    """Let overlays be placed before they are drawn; napari 0.9 would draw once more."""
    tiling = getattr(getattr(viewer, "canvas", None), "overlay_tiling", None)
    if tiling is not None:
        tiling.events(type_name="placed")


def _weakly(method: Any) -> Callable[..., None]:
    """Call a method as long as its object lives; napari would keep that for ever."""
    reference = weakref.WeakMethod(method)

    def call(*arguments: Any) -> None:
        bound = reference()
        if bound is not None:
            bound(*arguments)

    return call


def _pressed(go: Callable[..., None], steps: tuple[int, ...]) -> Callable[[Any], None]:
    def press(viewer: Any) -> None:
        go(viewer, *steps)

    return press
