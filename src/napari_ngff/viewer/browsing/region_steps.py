"""Goes through the regions of the image on screen, by keys or in a dock.

Those of a table that a person has chosen, at first of `FIELDS`: in a well that Fractal
has joined to one image, its rows are the fields.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import OMEZarrError, error_text
from napari_ngff.store.hierarchy.summary import list_region_tables
from napari_ngff.viewer.annotations.drawn_annotation import DrawnAnnotation, file_order
from napari_ngff.viewer.annotations.file_annotation import find_image_shown, image_node
from napari_ngff.viewer.annotations.region_table import (
    RegionAxis,
    RegionTable,
    planes_of,
    read_region_table,
)
from napari_ngff.viewer.annotations.regions_annotation import (
    RegionsAnnotation,
    region_axes,
)
from napari_ngff.viewer.browsing.canvas_controls import bind_steps
from napari_ngff.viewer.painting.object_edits import show_region
from napari_ngff.viewer.services.notices import shorten_name
from napari_ngff.viewer.services.window import Signal, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari.layers import Layer

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.annotations.annotations import Annotations
    from napari_ngff.viewer.browsing.browser import Browser

FIELDS = "FOV_ROI_table"
"""Table of the fields of view of an image, as Fractal names it."""

MARGIN = 0.1
"""Widths of a region that are left on each side of it."""

MOST_SHOWN = 2000
"""Rectangles of a layer; with more, napari is slow."""

STEP_KEYS = {",": -1, ".": 1}


class RegionSteps:
    """Shows and steps through regions in one viewer.

    Parameters
    ----------
    find_browser
        Returns what is browsed in it, or None.

    Attributes
    ----------
    names
        Of the tables of the image on screen.
    chosen
        The one that a person chose; "" for none.
    shown
        Address of the image, and the table that was chosen then.
    place
        The region where the last step led, as "FOV_2, 2 of 4"; "" for none.
    """

    changed = Signal()
    """Emitted when another image, table or region is the present one."""

    def __init__(
        self, annotations: Annotations, find_browser: Callable[[], Browser | None]
    ) -> None:
        self._annotations, self._viewer = annotations, annotations.viewer
        self._find_browser = find_browser
        self.names, self.chosen, self.place = tuple[str, ...](), "", ""
        self.shown = "", ""
        self._table: RegionTable | None = None
        self._at: int | None = None
        # Steps that wait for the regions to be read; None where none need wait.
        self._asked: list[int] | None = None
        for key, step in STEP_KEYS.items():
            go = bind_steps(lambda _, step: self.step(step), (step,))
            self._viewer.bind_key(key, go, overwrite=True)

    @property
    def drawn(self) -> RegionsAnnotation | None:
        """The layer with the boxes of the chosen table."""
        ours = (x for x in self._annotations if isinstance(x, RegionsAnnotation))
        shown = self.shown[0], self.chosen
        return next((x for x in ours if (str(x.node), x.name) == shown), None)

    def _find_image(self) -> Any:
        """Find the image that is selected, or else is drawn on; None for none."""
        active = self._viewer.layers.selection.active
        drawn = self._annotations.of_layer(active)
        node = drawn.node if isinstance(drawn, DrawnAnnotation) else image_node(active)
        layers = [active, *self._viewer.layers] if node is not None else []
        own = (x for x in layers if str(image_node(x)) == str(node))
        return next(own, None) or find_image_shown(self._annotations)

    def follow(self, _: Any = None) -> None:
        """Look which image is on screen, and read its regions if it is another one."""
        image, browser = self._find_image(), self._find_browser()
        node = image_node(image)
        # Layers change one after the other: meanwhile, they are of two fields.
        is_changing = (
            browser is not None
            and browser.state.wanted is not None
            and browser.layers.owns_layer(image)
        )
        shown = "" if node is None else str(node), self.chosen
        if is_changing or shown == self.shown:
            return
        self.shown, self.names, self.place = shown, (), ""
        self._table = self._at = None
        self._asked = None if node is None else self._asked or []
        if node is not None:
            read = partial(_read_regions, node, region_axes(image), self.chosen)
            Window.current.run_work(read, partial(self._take_regions, image, shown))
        self.changed.emit()

    def _take_regions(
        self,
        image: Layer,
        shown: tuple[str, str],
        found: tuple[tuple[str, ...], RegionTable | Exception | None],
    ) -> None:
        if shown != self.shown or str(image_node(image)) != shown[0]:
            return  # another image is on screen, or another table was chosen
        self.names, table = found
        if isinstance(table, Exception):
            text = f"{shorten_name(self.chosen or FIELDS)}: its regions are not shown."
            Window.current.show_messages((error_text(table),), text)
            table = None
        self._table, asked, self._asked = table, self._asked or (), None
        if self.drawn is not None:
            self.names = tuple(dict.fromkeys([*self.names, self.chosen]))
        elif table is not None and self.chosen in self.names:
            if len(table.titles) <= MOST_SHOWN:
                owner, name = self._annotations, self.chosen
                RegionsAnnotation.open_table(owner, image, name, table)
            else:
                text = "Too many regions for boxes.\nSteps go through them."
                Window.current.show_passing(text)
        for step in asked:
            self.step(step)
        self.changed.emit()

    def choose(self, name: str, *, is_new: bool = False) -> None:
        """Show the boxes of a table, and step through them from now on; "" for none.

        Boxes of before go, unless they are not saved.

        Parameters
        ----------
        is_new
            Whether to make regions of that name, unless there are some.
        """
        older, image = self.drawn, self._find_image()
        if older is not None and older.name != name and not older.unsaved:
            older.remove_shown()
        begins = is_new and bool(name) and name not in self.names
        self.chosen, self.shown = name, ("", "")
        if begins and image is not None:
            RegionsAnnotation.begin(self._annotations, image, name)
        self.follow()

    def step(self, step: int) -> None:
        """Go to the next region (1), or the one before (-1), or to such a field.

        The regions are those that were chosen; else, in an image that is the only one
        of its well, those of `FIELDS`. After the last one follows the next field.
        """
        browser = self._find_browser()
        if browser is not None and not self.chosen and _has_fields(browser):
            browser.step_field(step)
            return
        self.follow()
        if self._asked is not None:
            self._asked.append(step)
            return
        table = self._table if self.drawn is None else self.drawn.table
        count = 0 if table is None else len(table.titles)
        at = (0 if step > 0 else count - 1) if self._at is None else self._at + step
        if table is not None and 0 <= at < count and not (browser and count == 1):
            self._at, self.place = at, f"{table.titles[at]}, {at + 1:,} of {count:,}"
            self._show_region(table.boxes[at])
            self.changed.emit()
        elif browser is not None:
            browser.step_field(step)

    def _show_region(self, box: np.ndarray[Any, Any]) -> None:
        """Fit the view to a region; sliders go to its middle, unless it has all."""
        image, viewer = self._find_image(), self._viewer
        order = file_order(image)
        planes = planes_of(box[None], region_axes(image))[0][np.argsort(order)]
        now = np.round(image.world_to_data(viewer.dims.point[-image.ndim :]))
        planes = np.where(planes < 0, now, planes)
        region = np.stack([planes, planes + 1], axis=1)
        region[order[-2:]] = box[-2:]
        show_region(viewer, image, region, MARGIN)
        viewer.status = self.place


def _has_fields(browser: Browser) -> bool:
    """Return whether steps go to other fields of the well, or of the collection."""
    at = browser.position
    # They are read already, as one of them is on screen.
    listed = [] if at is None else browser.positions_of(at.well)
    return at is None or [x.acquisition for x in listed].count(at.acquisition) > 1


def _read_regions(
    node: Node, axes: Sequence[RegionAxis], chosen: str
) -> tuple[tuple[str, ...], RegionTable | Exception | None]:
    """List the tables of an image, and read the chosen one, or that of its fields."""
    names = list_region_tables(node)
    name = next((x for x in (chosen, FIELDS) if x in names), "")
    try:
        return names, read_region_table(node, name, axes) if name else None
    except (OMEZarrError, OSError, ValueError) as error:
        return names, error
