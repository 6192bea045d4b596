"""Draws names and gaps over an overview, quickly enough while it is moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from vispy.scene import Node
from vispy.scene.visuals import Line
from vispy.visuals.transforms import STTransform

from napari_ngff.viewer.browsing.canvas_controls import (
    NamesOverlay,
    OverviewNames,
    PlacedName,
    allow_names,
)
from napari_ngff.viewer.private.lost import relies_on
from napari_ngff.viewer.private.visuals import NAMES, SceneVisual, Text, draw_by

GAP = 2
"""Width of the gaps between wells, in pixels of the screen."""

SIZE = 9
"""Size of letters, in points."""

ASIDE = ((-1, -1), (1, -1), (-1, 1), (1, 1))
"""Offsets of the shades of a letter, in pixels of the screen."""

WHITE, BLACK = (1, 1, 1, 1), (0, 0, 0, 1)

MODE = {
    "depth_test": False,
    "cull_face": False,
    "blend": True,
    "blend_func": ("src_alpha", "one_minus_src_alpha", "one", "one"),
    "blend_equation": "func_add",
}
"""As napari draws what is translucent and in front of all."""


@relies_on("_font_info _on_blending_change _on_visible_change _should_be_visible")
class NamesVisual(SceneVisual):  # type: ignore[misc]
    """Lines and texts in the world; written again only when a zoom changes the room."""

    overlay: NamesOverlay

    def __init__(self, **keywords: Any) -> None:
        super().__init__(node=Node(), **keywords)
        self.gaps = Line(pos=np.zeros((2, 2)), connect="segments", width=GAP)
        self.rows = self._make_text("right", "center")
        # Anchors are upside down here: y of the canvas points down.
        self.columns = self._make_text("center", "top")
        # Black copies around white letters, visible on dark and on light images.
        self.shades = tuple(self._make_text("left", "bottom") for _ in ASIDE)
        self.wells = self._make_text("left", "bottom")
        self.images = self._make_text("left", "top")
        for shade in self.shades:
            shade.transform = STTransform()
        for child in (
            *(self.gaps, self.rows, self.columns),
            *(*self.shades, self.wells, self.images),
        ):
            child.set_gl_state(**MODE)
            child.parent = self.node
        self._drawn: tuple[Any, ...] = ()
        self.overlay.events.names.connect(self._on_names)
        self._camera = self.viewer.scene.camera
        self._camera.events.zoom.connect(self._on_zoom)
        self.viewer.dims.events.ndisplay.connect(self._on_visible_change)
        self.viewer.canvas.events.background_color.connect(self._on_names)
        self._on_names()
        self._on_visible_change()

    def _make_text(self, across: str, down: str) -> Text:
        return Text(
            text=[""],
            pos=np.zeros((1, 2)),
            font_info=self._font_info,
            font_size=SIZE,
            anchor_x=across,
            anchor_y=down,
        )

    def _should_be_visible(self) -> bool:
        return bool(self.overlay.visible) and self.viewer.dims.ndisplay == 2

    def _on_blending_change(self) -> None:
        """Keep the blending: the node itself draws nothing, so it has no state."""

    def _on_names(self) -> None:
        names = self._current_names()
        ground = self.viewer.canvas.background_color
        light = float(np.mean(ground[:3])) > 0.5
        ink, other = (BLACK, WHITE) if light else (WHITE, BLACK)
        for text in (self.rows, self.columns, self.images):
            text.color = ink
        self.wells.color = WHITE
        for shade in self.shades:
            shade.color = BLACK
        self.gaps.visible = bool(len(names.lines))
        if len(names.lines):
            self.gaps.set_data(pos=names.lines.reshape(-1, 2), color=(*other[:3], 1))
        write_names(self.images, names.images)
        self._drawn = ()
        self._on_zoom()

    def _current_names(self) -> OverviewNames:
        names = self.overlay.names
        return names if isinstance(names, OverviewNames) else OverviewNames()

    def _on_zoom(self) -> None:
        names = self._current_names()
        rows, columns, roomy = names.seen_at(self._camera.zoom)
        for shade, (x, y) in zip(self.shades, ASIDE, strict=True):
            # Pixels of the screen in units of the world.
            shade.transform.translate = x / self._camera.zoom, y / self._camera.zoom
        # Writing texts takes long; a zoom changes only how many of them there are.
        drawn = len(rows), len(columns), roomy
        if drawn == self._drawn:
            return
        self._drawn = drawn
        write_names(self.rows, rows)
        write_names(self.columns, columns)
        wells = [PlacedName(f" {n.text}", n.y, n.x) for n in names.wells]
        for text in (*self.shades, self.wells):
            write_names(text, wells if roomy else ())

    def close(self) -> None:
        """Disconnect from the viewer."""
        self.overlay.events.names.disconnect(self._on_names)
        self._camera.events.zoom.disconnect(self._on_zoom)
        self.viewer.dims.events.ndisplay.disconnect(self._on_visible_change)
        super().close()


def write_names(text: Text, names: Sequence[PlacedName]) -> None:
    """Show names in one text visual; none hides it."""
    text.visible = bool(names)
    if names:
        text.text = [name.text for name in names]
        text.pos = np.array([(name.x, name.y) for name in names])


def install_names() -> None:
    """Let napari draw names by this visual from now on."""
    if draw_by(NamesOverlay, NamesVisual, NAMES):
        allow_names()
