"""Draws the outline of a polygon or a ring in the right place while it is painted.

napari 0.9 draws them in the wrong place on a tile of a coarser level: it subtracts the
tile's corner twice (docs/design/004-polygon-overlay.md). The two classes here replace
napari's on layers of ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.viewer.painting.brush import PolygonOutline, RingOutline
from napari_ngff.viewer.private.lost import relies_on
from napari_ngff.viewer.private.napari_layers import shown_axes, tile_transform
from napari_ngff.viewer.private.visuals import (
    OUTLINES,
    PolygonVisual,
    RingVisual,
    draw_by,
)

if TYPE_CHECKING:
    from napari_ngff.viewer.painting.paint import OMEZarrLabels


class _InPlace:
    """Finds places on the tile that is on the screen, for both visuals."""

    layer: OMEZarrLabels

    def tile_factors(self) -> Any:
        """Return how many voxels of level 0 a voxel of the tile has, per shown axis."""
        scale = tile_transform(self.layer).scale
        return np.asarray(scale)[shown_axes(self.layer)]

    def on_tile(self, points: Any) -> Any:
        """Move points, in voxels of level 0, to the visual's (x, y).

        The visual's parent subtracts the corner of the tile, and nothing else.
        """
        displayed = shown_axes(self.layer)
        factors = self.tile_factors()
        # napari moves a tile by half a voxel of its level, less half one of level 0.
        displayed_points = np.asarray(points, float)[..., displayed]
        return ((displayed_points - (factors - 1) / 2) / factors)[..., ::-1]


@relies_on(
    "_line _nodes _nodes_kwargs _on_enabled_change _on_mouse_double_click"
    " _on_mouse_press _on_points_change _polygon"
)
class PlacedPolygon(_InPlace, PolygonVisual):  # type: ignore[misc]
    """A polygon that is being drawn."""

    _refused = False
    """Whether a notice has said of this polygon that it cannot be drawn here."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.layer.events.set_data.connect(self._on_points_change)

    def _on_enabled_change(self) -> None:
        self._refused = False
        super()._on_enabled_change()

    def _on_mouse_press(self, layer: Any, event: Any) -> None:
        begins = self.overlay.enabled and not self.overlay.points
        self._refused = begins and layer.refuses_plane(quiet=self._refused)
        if not self._refused:
            super()._on_mouse_press(layer, event)

    def _on_mouse_double_click(self, layer: Any, event: Any) -> None:
        self._refused = False  # the next click begins another one
        super()._on_mouse_double_click(layer, event)

    def _on_points_change(self) -> None:
        points = self.overlay.points
        if not points:
            super()._on_points_change()
            return
        tile_points = self.on_tile(points)
        self._polygon.visible = len(tile_points) > 2 and self._fill(tile_points)
        self._line.visible = len(tile_points) > 1 and not self._polygon.visible
        if self._line.visible:
            self._line.set_data(pos=tile_points)
        self._nodes.set_data(pos=tile_points, **self._nodes_kwargs)

    def _fill(self, tile_points: Any) -> bool:
        """Fill the outline; return False where vispy cannot, as one that is crossed."""
        try:
            self._polygon.pos = tile_points
        except Exception:  # noqa: BLE001  of many types: where it gave up
            self._polygon.pos = np.array([(0, 0), (0, 1), (1, 1)])
            return False
        return True

    def close(self) -> None:
        """Disconnect from the layer."""
        self.layer.events.set_data.disconnect(self._on_points_change)
        super().close()


@relies_on("_circle _on_geometry_change _start_stroke")
class PlacedRing(_InPlace, RingVisual):  # type: ignore[misc]
    """The circle at the start of a ring, in which the ring is closed."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.layer.events.set_data.connect(self._on_geometry_change)

    def _start_stroke(self, layer: Any, event: Any) -> None:
        if not layer.refuses_plane():
            super()._start_stroke(layer, event)

    def _on_geometry_change(self, event: Any = None) -> None:
        if not self.overlay.active:
            super()._on_geometry_change()
            return
        factors = self.tile_factors()
        self._circle.center = tuple(self.on_tile(self.overlay.center))
        self._circle.radius = tuple(float(self.overlay.radius) / factors[::-1])
        self._circle.visible = True

    def close(self) -> None:
        """Disconnect from the layer."""
        self.layer.events.set_data.disconnect(self._on_geometry_change)
        super().close()


def install_overlays() -> None:
    """Have outlines of our layers drawn by these."""
    draw_by(PolygonOutline, PlacedPolygon, OUTLINES)
    draw_by(RingOutline, PlacedRing, OUTLINES)
