"""What a browser shows in its viewer: a mosaic of wells, or one image."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

from napari_ngff.viewer import frontend
from napari_ngff.viewer.browsing.actions import Actions
from napari_ngff.viewer.browsing.camera import (
    camera_of,
    canvas_of,
    fit,
    follow,
    is_whole,
    place_of,
)
from napari_ngff.viewer.browsing.expected import ExpectedLayers
from napari_ngff.viewer.browsing.misfits import Misfits
from napari_ngff.viewer.browsing.opener import Opener
from napari_ngff.viewer.browsing.places import corners_of, image_at
from napari_ngff.viewer.browsing.prefetching import prefetch, views_of
from napari_ngff.viewer.browsing.preparation import Preparation
from napari_ngff.viewer.browsing.requests import Requests
from napari_ngff.viewer.browsing.route import Route
from napari_ngff.viewer.browsing.slots import LayerSlots, Prepared, prepare
from napari_ngff.viewer.browsing.streaming import Stream, reread

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.metadata.model import Field
    from napari_ngff.plate.layout import MapWell
    from napari_ngff.plate.tiles import Tiles
    from napari_ngff.store.node import Node
    from napari_ngff.viewer.browsing.observer import Observer
    from napari_ngff.viewer.browsing.places import Corners
    from napari_ngff.viewer.browsing.positions import Position
    from napari_ngff.viewer.browsing.prefetching import LayerView
    from napari_ngff.viewer.browsing.requests import Request
    from napari_ngff.viewer.browsing.slots import Slot
    from napari_ngff.viewer.groups import Group

__all__ = ["Display"]


class Display:
    """The layers of one browser, and what they show.

    Parameters
    ----------
    viewer
        Where the layers are.
    node
        A plate, a well or a collection.
    wells
        Of the plate, in reading order; () elsewhere.
    observer
        Hears of changes.

    Attributes
    ----------
    position
        The image that is shown; None for a mosaic.
    shown
        Paths of the wells that are shown.
    runs
        Ids of the acquisitions to show; () for all fields together.
    labels
        Name of the labels that mosaics show.
    """

    def __init__(
        self,
        viewer: ViewerModel,
        node: Node,
        wells: Sequence[MapWell],
        observer: Observer,
    ) -> None:
        self._viewer = weakref.ref(viewer)
        self._node = node
        self._wells = tuple(wells)
        self._observer = observer
        self._misfits = Misfits()
        self._requests = Requests()
        self._closed = False
        self._mosaics: list[Tiles] = []
        self._expected = ExpectedLayers()
        self.position: Position | None = None
        self.shown: tuple[str, ...] = ()
        self.runs: tuple[int, ...] = ()
        self.labels: str | None = None
        self.opener = Opener(node, frontend.ErrorReport())
        self.route = Route(self.opener.arrangements.screen)
        self.actions = Actions(self._busy)
        self._slots = LayerSlots()
        self._preparation = Preparation(self.opener, self._title)
        self._stream = Stream(self._redraw, self._complete)
        viewer.layers.events.inserted.connect(self._on_inserted)

    def close(self) -> None:
        """Let the viewer alone, from now on; the layers stay."""
        self._closed = True
        self.actions.stop()
        self._stream.close()
        viewer = self._viewer()
        if viewer is not None:
            viewer.layers.events.inserted.disconnect(self._on_inserted)

    def stop(self) -> None:
        """Give up what is being read; what is shown stays."""
        self.actions.stop()
        self._requests.give_up()
        self._observer.busy(False)

    def _busy(self, busy: bool) -> None:
        if not busy:
            self._requests.end()
        self._observer.busy(busy)

    @property
    def heading(self) -> Callable[[], Position] | None:
        """Finds the image that is shown, or that will be; see `Requests.heading`."""
        return self._requests.heading(self.position)

    @property
    def order(self) -> Sequence[str | None]:
        """The wells in reading order; None for the node's own images."""
        return [well.path for well in self._wells] or [None]

    def owns(self, layer: Layer) -> bool:
        """Tell whether a layer is one of those that are shown here."""
        return layer in self._layers().values()

    def take_labels(self, layer: Layer, name: str) -> None:
        """Count labels as one of the layers that are shown here."""
        self._slots.take((0, "labels", name), layer)

    def _layers(self) -> dict[Slot, Layer]:
        viewer = self._viewer()
        return {} if viewer is None else self._slots.layers(viewer)

    @property
    def is_drawing(self) -> bool:
        """Whether wells of a mosaic are still coming in."""
        return self._stream.is_busy

    @property
    def problems(self) -> dict[str | None, str]:
        """Why wells cannot be shown (whole), by path."""
        return self._misfits.problems(self._mosaics) | self.opener.arrangements.problems

    def images(self) -> list[Layer]:
        """List the layers of channels that are shown."""
        found = self._layers()
        slots = [slot for slot in found if slot[1] == "image"]
        return [found[slot] for slot in sorted(slots, key=lambda s: (s[0], int(s[2])))]

    def channels(self) -> dict[int, Layer]:
        """Give the layers of channels, of the first of several acquisitions."""
        found = self._layers()
        slots = [slot for slot in sorted(found, key=str) if slot[:2] == (0, "image")]
        return {int(slot[2]): found[slot] for slot in slots}

    def _title(self, run: int | None) -> str:
        plate = self._node.metadata.plate
        name = (plate.name if plate is not None else "") or self._node.name
        return name if len(self.runs) < 2 else f"{name} acquisition {run}"

    def show_mosaic(
        self, paths: Sequence[str] | None, look: Callable[[], None] | None = None
    ) -> None:
        """Show wells as one picture.

        Parameters
        ----------
        paths
            Of the wells; None for all.
        look
            Moves the camera when they are there; it stays in its well if None.
        """
        if self._closed:
            return
        request = self._requests.mosaic(paths, look)
        wells = [w for w in self._wells if paths is None or w.path in paths]
        given = wells if self._wells else None

        runs, labels = self.runs or (None,), self.labels

        def work() -> tuple[Prepared, list[Tiles]]:
            groups, tiles = [], []
            for run in runs:
                title = self._title(run)
                found = self.opener.mosaic(title, given, run, labels)
                groups.append(found[0])
                tiles += found[1]
            return prepare(groups, estimate=True), tiles

        def steps(found: tuple[Prepared, list[Tiles]]) -> Iterator[None]:
            prepared, tiles = found
            stay = self._anchored()
            if not (yield from self._change(prepared, request, tiles)):
                return
            self._mosaics, self.position = tiles, None
            self.shown = tuple(well.path for well in wells)
            (look or stay)()
            self._redraw()
            self._observer.changed()
            self._complete()

        self.actions.do(work, steps)

    def go(
        self, find: Callable[[], Position], *, step: bool = False, switch: bool = False
    ) -> None:
        """Show the image that `find`, in a worker, finds.

        Parameters
        ----------
        step
            Whether nothing is to be done where it is shown already.
        switch
            Whether to choose its acquisition if that is not among the chosen.
        """
        if self._closed:
            return
        views, runs, viewer = self._views(), self.runs, self._viewer()
        # It will be brought in view whole, unless one is in view already.
        canvas = canvas_of(viewer) if viewer and self.position is None else None
        request = self._requests.image(find)

        def work() -> tuple[Position, Prepared]:
            position = request.go()
            if step and position == self.position:
                return position, Prepared()
            prepared = self._preparation.take(self.route, position, runs)
            prefetch(prepared, views, self.actions.since(), canvas)
            return position, prepared

        def steps(found: tuple[Position, Prepared]) -> Iterator[None]:
            position, prepared = found
            if not prepared.layers:
                self._requests.close(request)
                return
            viewer, images = self._viewer(), self.images()
            before = place_of(images[0]) if images and self.position else None
            if not (yield from self._change(prepared, request)):
                return
            self._mosaics, self.position = [], position
            run = position.acquisition
            if switch and self.runs and run is not None and run not in self.runs:
                self.runs = (run,)
            self.shown = () if position.well is None else (position.well,)
            images = self.images()
            if viewer is not None and images:
                if before is not None:
                    follow(viewer, before, place_of(images[0]))
                else:
                    fit(viewer, *images[0].extent.world[:, -2:])
            self._observer.changed()
            self._prefetch(position)

        self.actions.do(work, steps)

    def _views(self) -> dict[Slot, LayerView]:
        viewer = self._viewer()
        return {} if viewer is None else views_of(viewer, self._layers())

    def _prefetch(self, here: Position) -> None:
        """Let the images before and after one be prepared, until another is asked."""
        order, runs, route = self.order, self.runs, self.route
        views, wanted = self._views(), self.actions.since()
        nexts = [
            functools.partial(route.stepped, here, step, order, runs)
            for step in (1, -1)
        ]
        frontend.run_later(
            lambda: self._preparation.prefetch(route, nexts, runs, views, wanted)
        )

    def _change(
        self, prepared: Prepared, request: Request, tiles: Sequence[Tiles] = ()
    ) -> Generator[None, None, bool]:
        """Exchange what is shown; False where the user keeps what is there."""
        viewer = self._viewer()
        if viewer is None:
            return False
        ours = [layer for slot, layer in self._layers().items() if slot[1] == "labels"]
        if not frontend.settle(viewer, ours):
            self._requests.close(request)
            return False
        self._expected.clear()
        self._stream.connect(tiles)
        frontend.show(prepared.messages)
        yield from self._slots.show(viewer, prepared)
        self._requests.close(request)
        return True

    def _redraw(self) -> None:
        for layer in self._layers().values() if self._mosaics else ():
            reread(layer)
        self._observer.noticed()

    def _complete(self) -> None:
        """Make room where wells were found that do not fit."""
        self._observer.noticed()
        # What was asked for meanwhile will not be given up for it.
        if self._requests.open is None and self._misfits.try_new(self._mosaics):
            self.again()

    def fit_all(self) -> None:
        """Bring all that is shown in view."""
        viewer, images = self._viewer(), self.images()
        if viewer is not None and images:
            fit(viewer, *images[0].extent.world[:, -2:])

    def fit_well(self, well: str) -> None:
        """Bring a well of the mosaic in view; one that did not come is read again."""
        if self.opener.arrangements.retry([well]):
            self._redraw()
        viewer, corners = self._viewer(), self._corners(well)
        if viewer is not None and corners is not None:
            fit(viewer, *corners)

    def again(self) -> None:
        """Show the same wells once more, with what was chosen or found since."""
        request = self._requests.open
        if request is not None and request.find is None:
            self.show_mosaic(request.paths, request.look)
        elif request is None and self._mosaics and self.position is None:
            whole = len(self.shown) == len(self._wells)
            self.show_mosaic(None if whole else self.shown)

    def _anchored(self) -> Callable[[], None]:
        """Note what is looked at, to look there when wells lie elsewhere."""
        viewer = self._viewer()
        found = None if viewer is None else self.at(camera_of(viewer).center[-2:])
        well = found[0] if found is not None else None
        before, whole = self._corners(well), is_whole(self.images())

        def look() -> None:
            after = self._corners(well)
            if viewer is None or before is None or after is None:
                return
            if before[0] == after[0]:
                return
            if whole:
                self.fit_all()
            else:
                follow(viewer, before[0], after[0])

        return look

    def _corners(self, well: str | None) -> Corners | None:
        images = self.images()
        if not images or not self._mosaics:
            return None
        return corners_of(images[0], self._mosaics[0], well)

    def at(self, world: Sequence[float]) -> tuple[str | None, Field | None] | None:
        """Tell which image of a mosaic lies at a world coordinate; reads nothing."""
        layer = next(iter(self.images()), None)
        if layer is None or not self._mosaics or self.position is not None:
            return None
        found = image_at(layer, self._mosaics[0], world)
        if found is not None and found[0] is None and len(self.shown) == 1:
            return self.shown[0], found[1]
        return found

    # What a reader has made of the node.

    def adopt(
        self, groups: Sequence[Group], wells: Sequence[str] | None = None
    ) -> None:
        """Take over mosaics that are about to become layers; see `Browser.adopt`."""
        joined = self._expected.add(groups)
        if joined and joined[0].acquisition is None:
            self.runs = ()
        for group in groups:
            if group.labels:
                self.labels = group.labels[0].name
        if joined and str(joined[0].arrangements.screen.node) == str(self._node):
            # What was read there needs not be read again.
            self.opener.arrangements = joined[0].arrangements
            self.route = Route(joined[0].arrangements.screen)
        self._mosaics = joined
        self.shown = tuple(wells or (well.path for well in self._wells))
        self._stream.connect(joined)

    def _on_inserted(self, event: Any) -> None:
        slot = self._expected.slot(event.value)
        if slot is not None:
            self._slots.take(slot, event.value)
