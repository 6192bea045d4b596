"""What is written over an overview of wells, and over compared images."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.components.overlays import SceneOverlay
from napari.layers.base._base_constants import Blending

from napari_ngff.metadata.model import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from napari.components import ViewerModel

    from napari_ngff.plate.layout import MapWell, PlateMap
    from napari_ngff.viewer.browsing.places import Corners
    from napari_ngff.viewer.browsing.positions import BrowsedImages

__all__ = [
    "NamesDrawing",
    "NamesOverlay",
    "OverviewNames",
    "PlacedName",
    "allow_names",
    "names_of",
]

KEY = "ome_zarr_names"

ROOMY = 44
"""Pixels of a well from which on its name is written into it."""

WIDE, HIGH = 30, 18
"""Pixels that the name of a column, and of a row, need."""


@dataclass(frozen=True, slots=True)
class PlacedName:
    """A name and its place in the world."""

    text: str
    y: float
    x: float


@dataclass(frozen=True, slots=True, eq=False)
class OverviewNames:
    """All names, and the lines that part the wells.

    Attributes
    ----------
    rows, columns
        Left of the first well and above it.
    wells
        At the upper left corner of each.
    images
        At the upper left corner of compared images.
    lines
        World coordinates, x and y, of two ends each: shape (lines, 2, 2).
    cell
        Height and width of a well in the world.
    """

    rows: tuple[PlacedName, ...] = ()
    columns: tuple[PlacedName, ...] = ()
    wells: tuple[PlacedName, ...] = ()
    images: tuple[PlacedName, ...] = ()
    lines: np.ndarray[Any, Any] = field(default_factory=lambda: np.zeros((0, 2, 2)))
    cell: tuple[float, float] = (1.0, 1.0)

    def seen_at(
        self, zoom: float
    ) -> tuple[tuple[PlacedName, ...], tuple[PlacedName, ...], bool]:
        """Give the rows and columns that have room, and whether wells have.

        Parameters
        ----------
        zoom
            Pixels of the screen per unit of the world.
        """
        height, width = (max(size * zoom, 1e-9) for size in self.cell)
        rows = self.rows[:: max(1, int(np.ceil(HIGH / height)))]
        columns = self.columns[:: max(1, int(np.ceil(WIDE / width)))]
        return rows, columns, min(height, width) >= ROOMY


class NamesOverlay(SceneOverlay):  # type: ignore[misc]
    """What napari draws them by; `widgets.browser.names_visual` is its visual."""

    blending: Blending = Blending.TRANSLUCENT_NO_DEPTH
    names: Any = None


class NamesDrawing:
    """Keeps the names over what a browser shows as they should be.

    Nothing is drawn before `allow_names`, since napari would not know how.
    """

    def __init__(self, viewer: ViewerModel, browser: BrowsedImages) -> None:
        self._viewer = weakref.ref(viewer)
        self._browser = weakref.ref(browser)
        browser.layers_changed.connect(self.update)
        # Of layers that a reader made the browser learns when they come; last of all,
        # since the display takes them first.
        viewer.layers.events.inserted.connect(self._on_inserted, position="last")

    def _on_inserted(self, event: Any = None) -> None:
        self.update()

    def update(self) -> None:
        """Write what fits what is shown now."""
        browser, overlay = self._browser(), self._overlay()
        if browser is not None and overlay is not None:
            overlay.names = names_of(browser)
            overlay.visible = True

    def close(self) -> None:
        """Write nothing any more."""
        browser = self._browser()
        if browser is not None:
            browser.layers_changed.disconnect(self.update, missing_ok=True)
        viewer, overlay = self._viewer(), self._overlay()
        if viewer is not None:
            viewer.layers.events.inserted.disconnect(self._on_inserted)
        if overlay is not None:
            overlay.names, overlay.visible = None, False

    def _overlay(self) -> NamesOverlay | None:
        scene = getattr(self._viewer(), "scene", None)
        if scene is None or not _allowed:
            return None
        if KEY not in scene.overlays:
            scene.overlays[KEY] = NamesOverlay()
        found: NamesOverlay = scene.overlays[KEY]
        return found


_allowed: list[bool] = []


def allow_names() -> None:
    """Let names be drawn: napari has a visual for `NamesOverlay`."""
    _allowed[:] = [True]


def names_of(browser: BrowsedImages) -> OverviewNames:
    """Find what to write over what a browser shows; reads nothing."""
    compared = browser.compared()
    images = tuple(PlacedName(title, y, x) for title, (y, x) in compared)
    cells = browser.well_cells() if browser.kind is Kind.PLATE else {}
    if len(cells) < 2:
        return OverviewNames(images=images)
    wells = [w for w in browser.map.wells if w.path in cells]
    top = min(corners[0][0] for corners in cells.values())
    left_edge = min(corners[0][1] for corners in cells.values())
    (first, second) = next(iter(cells.values()))
    names = (PlacedName(w.name, *cells[w.path][0]) for w in wells)
    return OverviewNames(
        headers(browser.map, wells, cells, 0, left_edge),
        headers(browser.map, wells, cells, 1, top),
        tuple(names),
        images,
        lines_between(cells),
        (abs(second[0] - first[0]), abs(second[1] - first[1])),
    )


def headers(
    plate: PlateMap,
    wells: Sequence[MapWell],
    cells: Mapping[str, Corners],
    axis: int,
    edge: float,
) -> tuple[PlacedName, ...]:
    """Name the rows (axis 0) or columns (1); none where they are not in line."""
    found: dict[float, set[str]] = {}
    for well in wells:
        low, high = (corner[axis] for corner in cells[well.path])
        name = plate.rows[well.row] if axis == 0 else plate.columns[well.column]
        found.setdefault((low + high) / 2, set()).add(name)
    if any(len(names) > 1 for names in found.values()):
        return ()
    lined = sorted((middle, names.pop()) for middle, names in found.items())
    if axis == 0:
        return tuple(PlacedName(name, middle, edge) for middle, name in lined)
    return tuple(PlacedName(name, edge, middle) for middle, name in lined)


def lines_between(cells: Mapping[str, Corners]) -> np.ndarray[Any, Any]:
    """Give the lines between neighbouring wells, each as long as all of them."""
    corners = np.array(list(cells.values()))  # wells, corners, (y, x)
    low, high = corners.min(axis=(0, 1)), corners.max(axis=(0, 1))
    lines = []
    for axis in (0, 1):
        edges = np.unique(np.round(corners[:, :, axis], 9))
        for edge in edges[1:-1]:
            line = np.array([low, high])
            line[:, axis] = edge
            lines.append(line[:, ::-1])
    return np.array(lines) if lines else np.zeros((0, 2, 2))
