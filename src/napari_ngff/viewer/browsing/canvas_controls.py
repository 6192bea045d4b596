"""What the canvas shows of a plate and takes from it: names, clicks, keys.

Arrows go to the neighbouring well: keys that neither napari (0.8, 0.9) nor painting
uses, but for left and right, which move the slider. They still do while a layer is
selected that is not the browser's. Other keys are in `region_steps`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.components.overlays import SceneOverlay

from napari_ngff.metadata.model import GroupKind
from napari_ngff.viewer.painting.brush import PAINTING
from napari_ngff.viewer.plans.layer_plan import layer_kind
from napari_ngff.viewer.private.napari_window import hide_brush_box
from napari_ngff.viewer.services.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from napari_ngff.plate.plate_layout import MapWell, PlateMap
    from napari_ngff.viewer.browsing.browser import Browser
    from napari_ngff.viewer.browsing.camera import Corners
    from napari_ngff.viewer.browsing.positions import Position


STILL = 4
"""Pixels by which the mouse may move in a click."""


LEFT, RIGHT = 1, 2


class CanvasClicks:
    """Watches the mouse on the canvas: clicks select wells, open fields, ask for menus.

    While a tool of a layer is in hand, clicks are left to it.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        viewer = browser.layers.viewer
        viewer.mouse_drag_callbacks.append(self._on_press)
        # A double click zooms in napari, and would do so on the field it opens.
        self._others = list(viewer.mouse_double_click_callbacks)
        viewer.mouse_double_click_callbacks[:] = [self._on_double]

    def close(self) -> None:
        """Leave the viewer as it was."""
        viewer = self._browser.layers.viewer
        if self._on_press in viewer.mouse_drag_callbacks:
            viewer.mouse_drag_callbacks.remove(self._on_press)
        doubles = viewer.mouse_double_click_callbacks
        if self._on_double in doubles:
            index = doubles.index(self._on_double)
            doubles[index : index + 1] = self._others

    def _find_field(
        self, viewer: Any, event: Any, *, compared: bool = False
    ) -> Position | None:
        """Find the field of an overview, or the compared one, under the mouse."""
        find = self._browser.compared_at if compared else self._browser.position_at
        return find(event.position) if viewer.dims.ndisplay == 2 else None

    def _on_press(self, viewer: Any, event: Any) -> Iterator[None] | None:
        active = viewer.layers.selection.active
        if _is_taken(viewer, event):
            if event.button == LEFT and active and active.mode in PAINTING:
                self._refuse_compared(viewer, event)
            return None
        position = self._find_field(viewer, event)
        if position is None and event.button == RIGHT:
            position = (
                self._find_field(viewer, event, compared=True) or self._browser.position
            )
        return None if position is None else self._watch_press(position, event)

    def _refuse_compared(self, viewer: Any, event: Any) -> None:
        """Show why nothing is painted on a compared field."""
        position = self._find_field(viewer, event, compared=True)
        if position is not None:
            name = self._browser.name_field(position)
            Window.current.show_passing(
                f"Not painted: this field is compared.\nOpen {name} to paint."
            )

    def _watch_press(self, position: Position, event: Any) -> Iterator[None]:
        start, button = tuple(event.pos), event.button
        yield
        while event.type == "mouse_move":
            # A drag moves the camera, and is no click.
            moved = (abs(a - b) for a, b in zip(event.pos, start, strict=True))
            if max(moved) > STILL:
                return
            yield
        if button == LEFT:
            self._browser.clicked.emit(position)
        elif button == RIGHT:
            self._browser.menu_wanted.emit(position)

    def _on_double(self, viewer: Any, event: Any) -> None:
        """Open the field of an overview, or a compared one; else do as napari does."""
        position = None
        if not _is_taken(viewer, event):
            position = self._find_field(viewer, event)
            position = position or self._find_field(viewer, event, compared=True)
        if position is not None and position.well is not None:
            self._browser.show_field(position.well, position.field or None)
            return
        for callback in self._others:
            callback(viewer, event)


def _is_taken(viewer: Any, event: Any) -> bool:
    """Return whether a click is napari's: with a modifier, or a tool in hand."""
    active = viewer.layers.selection.active
    return bool(event.modifiers) or (active is not None and active.mode != "pan_zoom")


NAMES_KEY = "ome_zarr_names"


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
    """The names over an overview, and the lines between its wells.

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
        """Return the names of rows and columns that have room, and whether wells have.

        Parameters
        ----------
        zoom
            Pixels of the screen per unit of the world.
        """
        height, width = (max(size * zoom, 1e-9) for size in self.cell)
        # Every second or third name where wells are too small for all of them.
        rows = self.rows[:: max(1, int(np.ceil(HIGH / height)))]
        columns = self.columns[:: max(1, int(np.ceil(WIDE / width)))]
        return rows, columns, min(height, width) >= ROOMY


class NamesOverlay(SceneOverlay):  # type: ignore[misc]
    """The overlay with the names; `widgets.browser.names_visual` draws it."""

    names: Any = None


_allowed: list[bool] = []


def allow_names() -> None:
    """Draw names from now on, since napari has a visual for `NamesOverlay`."""
    _allowed[:] = [True]


def names_of(browser: Browser) -> OverviewNames:
    """Find what to write over what a browser shows; reads nothing."""
    compared = browser.compared_corners()
    images = tuple(PlacedName(title, y, x) for title, (y, x) in compared)
    cells = browser.layers.well_cells() if browser.kind is GroupKind.PLATE else {}
    # The name of a single well is in the corner of the window already.
    if len(cells) < 2:
        return OverviewNames(images=images)
    wells = [w for w in browser.map.wells if w.path in cells]
    top = min(corners[0][0] for corners in cells.values())
    left_edge = min(corners[0][1] for corners in cells.values())
    (first, second) = next(iter(cells.values()))
    names = (PlacedName(w.name, *cells[w.path][0]) for w in wells)
    return OverviewNames(
        name_headers(browser.map, wells, cells, 0, left_edge),
        name_headers(browser.map, wells, cells, 1, top),
        tuple(names),
        images,
        lines_between(cells),
        (abs(second[0] - first[0]), abs(second[1] - first[1])),
    )


def name_headers(
    plate: PlateMap,
    wells: Sequence[MapWell],
    cells: Mapping[str, Corners],
    axis: int,
    edge: float,
) -> tuple[PlacedName, ...]:
    """Name the rows (axis 0) or columns (1), where they are in line."""
    names_by_middle: dict[float, set[str]] = {}
    for well in wells:
        low, high = (corner[axis] for corner in cells[well.path])
        name = plate.rows[well.row] if axis == 0 else plate.columns[well.column]
        names_by_middle.setdefault((low + high) / 2, set()).add(name)
    # Wells of several rows may be in one line of the mosaic, which no name would fit.
    if any(len(names) > 1 for names in names_by_middle.values()):
        return ()
    lined = sorted((middle, names.pop()) for middle, names in names_by_middle.items())
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
        # Without the outer edges, which are those of the image.
        for edge in edges[1:-1]:
            line = np.array([low, high])
            line[:, axis] = edge
            lines.append(line[:, ::-1])
    return np.array(lines) if lines else np.zeros((0, 2, 2))


WELL_KEYS = {"Left": (0, -1), "Right": (0, 1), "Up": (-1, 0), "Down": (1, 0)}
"""Rows and columns by key."""


AT_FIRST, CORNER = "bottom_right", "top_left"
"""Where napari 0.9 has its text, under notices and the scale bar; and where ours is."""


class NavigationKeys:
    """Connects a browser to the overlay, the status line and the keys of its viewer."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        viewer = browser.layers.viewer
        self._title = ""
        self._shown = ""
        self._status_title = ""
        self._clicks = CanvasClicks(browser)
        browser.closed.connect(self.close)
        viewer.mouse_move_callbacks.append(self._on_mouse_move)
        self._followed: list[tuple[Any, Callable[..., None]]] = [
            (browser.position_changed, self._on_position),
            (browser.layers_changed, self._update_names),
            (viewer.dims.events.current_step, self._on_step),
            (viewer.events.status, self._on_status),
            (viewer.layers.events.removed, self._on_removed),
            (viewer.layers.selection.events.active, self._on_status),
        ]
        for signal, slot in self._followed:
            signal.connect(slot)
        # Of layers that a reader made the browser learns when they come; last of all,
        # since the browser takes them first.
        viewer.layers.events.inserted.connect(self._update_names, position="last")
        for key, steps in WELL_KEYS.items():
            viewer.bind_key(key, bind_steps(self._go_well, steps), overwrite=True)

    def close(self) -> None:
        """Leave the viewer as it was."""
        self._clicks.close()
        self._show_names(None)
        viewer = self._browser.layers.viewer
        if self._on_mouse_move in viewer.mouse_move_callbacks:
            viewer.mouse_move_callbacks.remove(self._on_mouse_move)
        viewer.layers.events.inserted.disconnect(self._update_names)
        for signal, slot in self._followed:
            signal.disconnect(slot)
        for key in WELL_KEYS:
            viewer.bind_key(key, None)
        self.show_title("")

    def _update_names(self, event: Any = None) -> None:
        """Write the names of the wells that are shown now."""
        self._show_names(names_of(self._browser))

    def _show_names(self, names: OverviewNames | None) -> None:
        if not _allowed:
            return
        overlays = self._browser.layers.viewer.scene.overlays
        if NAMES_KEY not in overlays:
            overlays[NAMES_KEY] = NamesOverlay(blending="translucent_no_depth")
        overlays[NAMES_KEY].names = names
        overlays[NAMES_KEY].visible = names is not None

    def show_title(self, title: str) -> None:
        """Show a title; "" for none."""
        self._title = title
        self._write_text(title)

    def _on_removed(self, event: Any = None) -> None:
        """Remove the title with the last layer: it would stand over the next image."""
        if self._title and not self._browser.layers.viewer.layers:
            self.show_title("")

    def _on_position(self, position: Position | None) -> None:
        """Show the title of a field, and the status though the cursor has not moved."""
        viewer = self._browser.layers.viewer
        self.show_title("" if position is None else self._browser.name_field(position))
        if viewer.mouse_over_canvas and len(viewer.layers.selection) == 1:
            viewer.update_status_from_cursor()
        else:
            # With other selections napari 0.9 would copy its list of layers, and keep
            # 3 KB of that for ever.
            viewer.status = "Ready"
        self._on_status()  # nobody hears of a status like the one before

    def _write_text(self, text: str) -> None:
        viewer = self._browser.layers.viewer
        overlay = viewer.canvas.overlays.text
        if overlay.text not in ("", self._shown):
            return  # the user's own
        self._shown = text
        # Only from napari's own default: a corner that the user has chosen stays.
        if overlay.position == AT_FIRST:
            overlay.position = CORNER
        overlay.text = text
        overlay.visible = bool(text)
        # Placed before it is drawn; else napari would draw once more.
        hide_brush_box(viewer)
        viewer.canvas.overlay_tiling.events(type_name="placed")

    def _on_mouse_move(self, viewer: Any, event: Any) -> None:
        """Name the field under the cursor, or else the one on screen."""
        world = *viewer.dims.point[:-2], *viewer.cursor.position[-2:]
        position = self._browser.position_at(world)
        name = self._title if position is None else self._browser.name_field(position)
        # A field that is empty there, since others have more planes.
        end = self._browser.layers.describe_end(world)
        self._write_text(f"{name}: {end}" if end else name)

    def _on_step(self, event: Any = None) -> None:
        """Follow the slider while the cursor rests."""
        if self._shown and not self._title:
            self._on_mouse_move(self._browser.layers.viewer, event)

    def _on_status(self, event: Any = None) -> None:
        viewer, browser = self._browser.layers.viewer, self._browser
        # The caption names the last field under the cursor, also when that has left.
        title = self._shown if viewer.mouse_over_canvas else self._title
        active = viewer.layers.selection.active
        if active is not None:
            # The value is that of the layer, whose image may be another than that of
            # the caption. Strokes go into the image of the labels.
            is_ours = (
                browser.layers.owns_layer(active) or layer_kind(active) != "labels"
            )
            title = browser.title_of(active) or (title if is_ours else "")
        status, older = viewer.status, self._status_title
        is_dict = isinstance(status, dict)
        text = status.get("coordinates", "") if is_dict else status
        rest = text.removeprefix(f"{older}  ") if older else text
        self._status_title = title
        new = f"{title}  {rest}" if title else rest
        if new != text:
            viewer.status = {**status, "coordinates": new} if is_dict else new

    def _go_well(self, viewer: Any, rows: int, columns: int) -> None:
        active = viewer.layers.selection.active
        # Left and right move napari's slider while a layer of others is selected.
        if active is not None and not self._browser.layers.owns_layer(active):
            if columns:
                axis = viewer.dims.last_used
                step = viewer.dims.current_step[axis] + columns
                viewer.dims.set_current_step(axis, step)
            return
        self._browser.step_well(rows, columns)


def bind_steps(
    go: Callable[..., None], steps: tuple[int, ...]
) -> Callable[[Any], None]:
    """Return a function for a key that goes some steps in a viewer."""

    def press_key(viewer: Any) -> None:
        go(viewer, *steps)

    return press_key
