"""What a browser shows in its viewer: a mosaic of wells, or one image."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import OMEZarrError, may_pass
from napari_ngff.metadata.model import Kind
from napari_ngff.viewer import frontend
from napari_ngff.viewer.browsing.camera import (
    MARGIN,
    OVERVIEW_MARGIN,
    camera_of,
    canvas_of,
    cells_of,
    corners_of,
    fit,
    follow,
    image_at,
    is_whole,
    place_of,
    size_of,
)
from napari_ngff.viewer.browsing.field_labels import (
    image_address,
    label_name,
    save_before_leaving,
)
from napari_ngff.viewer.browsing.layer_slots import (
    ExpectedLayers,
    FieldExtras,
    LayerSlots,
)
from napari_ngff.viewer.browsing.positions import Position, Route
from napari_ngff.viewer.browsing.preparation import (
    Opener,
    Preparation,
    Prepared,
    prefetch,
    prepare,
    views_of,
    with_channels,
    with_labels_in_use,
)
from napari_ngff.viewer.browsing.requests import FieldNotices, Requests
from napari_ngff.viewer.browsing.streaming import Misfits, Stream, reread
from napari_ngff.viewer.latest_task import LayerTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.metadata.model import Field
    from napari_ngff.plate.layout import MapWell
    from napari_ngff.plate.tiles import WellCells
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.browsing.camera import Corners
    from napari_ngff.viewer.browsing.field_labels import LabelsInUse
    from napari_ngff.viewer.browsing.preparation import LayerView, Slot
    from napari_ngff.viewer.browsing.requests import Observer, Request
    from napari_ngff.viewer.groups import Group
    from napari_ngff.viewer.latest_task import TaskTurn
    from napari_ngff.viewer.saving.report import SaveResult
    from napari_ngff.viewer.saving.saver import LayerSaver

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
        self._followed: weakref.WeakSet[LayerSaver] = weakref.WeakSet()
        self._requests = Requests()
        self._closed = False
        self._mosaics: list[WellCells] = []
        self._expected = ExpectedLayers()
        self.position: Position | None = None
        self.shown: tuple[str, ...] = ()
        self.runs: tuple[int, ...] = ()
        self.labels: str | None = None
        self.opener = Opener(node, frontend.ErrorReport())
        self.notices = FieldNotices(observer.title)
        self.route = Route(self.opener.arrangements.screen, self.notices.show_skipped)
        self._task = LayerTask(self._busy, self._hold_drawing, self._is_open)
        self._slots = LayerSlots()
        self._saved_images: list[str] = []  # addresses, in the order of saves
        self._extras = FieldExtras()
        self._preparation = Preparation(self.opener, self._title)
        self._stream = Stream(self._redraw, self._complete)
        viewer.layers.events.inserted.connect(self._on_inserted)

    def close(self) -> None:
        """Let the viewer alone, from now on; the layers stay."""
        self._closed = True
        self._task.cancel()
        self._stream.close()
        viewer = self._viewer()
        if viewer is not None:
            viewer.layers.events.inserted.disconnect(self._on_inserted)

    def stop(self) -> None:
        """Give up what is being read; what is shown stays."""
        self._task.cancel()
        self._requests.give_up()
        self._observer.busy(False)

    def _is_open(self) -> bool:
        viewer = self._viewer()
        return viewer is not None and frontend.is_open(viewer)

    def _hold_drawing(self) -> Callable[[], None]:
        viewer = self._viewer()
        return (lambda: None) if viewer is None else frontend.hold_drawing(viewer)

    def _busy(self, busy: bool) -> None:
        if not busy:
            self._requests.end()
            self._observer.noticed()
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
        if self._node.kind in (Kind.COLLECTION, Kind.SERIES, Kind.SCENE):
            return ""  # each image has a name of its own
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
        request.saves_before = len(self._saved_images)
        wells = [w for w in self._wells if paths is None or w.path in paths]
        given = wells if self._wells else None

        runs, labels = self.runs or (None,), self.labels

        def work(_: TaskTurn) -> tuple[Prepared, list[WellCells]]:
            groups, tiles = [], []
            for run in runs:
                title = self._title(run)
                found = self.opener.mosaic(title, given, run, labels)
                groups.append(found[0])
                tiles += found[1]
            return prepare(groups, estimate=True), tiles

        def steps(found: tuple[Prepared, list[WellCells]]) -> Iterator[None]:
            prepared, tiles = found
            stay = self._anchored()
            yield from self._change(prepared, request, tiles)
            self._mosaics, self.position = tiles, None
            self._show_extras()
            self.shown = tuple(well.path for well in wells)
            (look or stay)()
            self._redraw()
            self._observer.changed()
            self._complete()

        def leave(_: Any, proceed: Callable[[bool], None]) -> None:
            images: set[str] | None = None if self.labels else set()
            again = functools.partial(self.show_mosaic, paths, look)
            self._leave(request, proceed, images, again)

        self._task.start(work, steps, leave, lambda: self.notices.name(request))

    def go(
        self,
        find: Callable[[], Position],
        *,
        asked: Position | None = None,
        step: bool = False,
        switch: bool = False,
    ) -> None:
        """Show the image that `find`, in a worker, finds.

        Parameters
        ----------
        asked
            What is known of it before; without a path of the image, any of the well.
        step
            Whether nothing is to be done where it is shown already.
        switch
            Whether to choose its acquisition if that is not among the chosen.
        """
        if self._closed:
            return
        views, runs, viewer = self._views(), self.runs, self._viewer()
        in_use = self._labels_in_use()
        added = self._slots.added_channels(viewer) if viewer else ()
        # It will be brought in view whole, unless one is in view already.
        canvas = canvas_of(viewer) if viewer and self.position is None else None
        request = self._requests.image(find, asked)
        request.saves_before = len(self._saved_images)

        def work(turn: TaskTurn) -> tuple[Position, Prepared]:
            position = self._found(request)
            if step and position == self.position:
                return position, Prepared()
            prepared = self._preparation.take(self.route, position, runs)
            prepared = with_channels(prepared, added)
            prefetch(prepared, views, turn.is_newest, canvas)
            return position, with_labels_in_use(prepared, in_use)

        def leave(
            found: tuple[Position, Prepared], proceed: Callable[[bool], None]
        ) -> None:
            position, prepared = found
            if not prepared.layers:
                self._requests.close(request)
                proceed(False)
                return
            again = functools.partial(self.go, lambda: position, switch=switch)
            self._leave(request, proceed, prepared.images, again)

        def steps(found: tuple[Position, Prepared]) -> Iterator[None]:
            position, prepared = found
            look = self._camera_move()
            # Labels may have been made while this field was read.
            prepared = with_labels_in_use(prepared, self._labels_in_use())
            yield from self._change(prepared, request)
            self._mosaics, self.position = [], position
            self._show_extras()
            run = position.acquisition
            if switch and self.runs and run is not None and run not in self.runs:
                self.runs = (run,)
            self.shown = () if position.well is None else (position.well,)
            look()
            self._observer.changed()
            self.notices.show_coarser(position, prepared)
            self._prefetch(position)

        self._task.start(work, steps, leave, lambda: self.notices.name(request))

    def _found(self, request: Request) -> Position:
        """Find the image that is asked for; where its well fails, note the problem."""
        try:
            return request.go()
        except (OMEZarrError, OSError) as error:
            if request.asked is not None and not may_pass(error):
                self.opener.arrangements.of(request.asked.well, None)
            raise

    def _camera_move(self) -> Callable[[], None]:
        """Note what is in view; return how to look at the image that comes next.

        At the same place of the next field; images of a collection that differ in size
        have no such place, and come in view whole.
        """
        images = self.images() if self.position is not None else []
        before = place_of(images[0]) if images else None
        size = size_of(images[0]) if images else ()

        def look() -> None:
            viewer, after = self._viewer(), self.images()
            if viewer is None or not after:
                return
            if before is not None and (self._wells or size == size_of(after[0])):
                follow(viewer, before, place_of(after[0]))
            else:
                fit(viewer, *after[0].extent.world[:, -2:])

        return look

    def _views(self) -> dict[Slot, LayerView]:
        viewer = self._viewer()
        return {} if viewer is None else views_of(viewer, self._layers())

    def _prefetch(self, here: Position) -> None:
        """Let the images before and after one be prepared, until another is asked."""
        order, runs, route = self.order, self.runs, self.route
        views, wanted = self._views(), self._task.current_turn().is_newest
        nexts = [
            functools.partial(route.stepped, here, step, order, runs)
            for step in (1, -1)
        ]
        frontend.run_later(
            lambda: self._preparation.prefetch(route, nexts, runs, views, wanted)
        )

    def _labels_in_use(self) -> dict[Slot, LabelsInUse]:
        viewer = self._viewer()
        return {} if viewer is None else self._slots.labels_in_use(viewer)

    def _leave(
        self,
        request: Request,
        proceed: Callable[[bool], None],
        images: set[str] | None,
        again: Callable[[], None],
    ) -> None:
        """Save the labels of what is shown, or ask; then `proceed` with the answer.

        Parameters
        ----------
        images
            Addresses of the images to show next; None for any.
        again
            Called instead where labels of one of these were saved after it was read.
        """
        viewer = self._viewer()
        ours = [layer for slot, layer in self._layers().items() if slot[1] == "labels"]

        def answer(may_go: bool) -> None:
            saved = set(self._saved_images[request.saves_before :])
            if may_go and (saved if images is None else saved & images):
                again()
                return
            if not may_go:
                self._requests.close(request)
            proceed(may_go)

        if viewer is None:
            answer(False)
        else:
            save_before_leaving(viewer, ours, answer)

    def _change(
        self, prepared: Prepared, request: Request, tiles: Sequence[WellCells] = ()
    ) -> Iterator[None]:
        """Exchange what is shown; the labels that go are saved, or given up."""
        viewer = self._viewer()
        if viewer is None:
            return
        self._labels_in_use()  # as they are now, for a field after an overview
        self._expected.clear()
        self._stream.connect(tiles)
        self.notices.show_missing(request, prepared)
        # Channels may have been added while this was read.
        added = self._slots.added_channels(viewer)
        yield from self._slots.show(viewer, with_channels(prepared, added))
        self.keep(self._layers().values())
        self._requests.close(request)

    def _show_extras(self) -> None:
        viewer = self._viewer()
        if viewer is not None:
            self._extras.discard(self._layers().values())
            self._extras.show_those_of(viewer, self.position)
            active = viewer.layers.selection.active
            visible = [layer for layer in self._layers().values() if layer.visible]
            if visible and (active is None or not active.visible):
                viewer.layers.selection.active = visible[-1]

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
            margin = OVERVIEW_MARGIN if len(self.cells()) > 1 else MARGIN
            low, high = images[0].extent.world[:, -2:]
            fit(viewer, low, high, margin)

    def approach(self, path: str) -> bool:
        """Bring an image in view that is on screen with others; False without one."""
        viewer, address = self._viewer(), str(self._node.location.joined(path))
        for layer in self.images():
            if viewer is not None and image_address(layer) == address:
                fit(viewer, *layer.extent.world[:, -2:])
                viewer.layers.selection.active = layer
                return True
        return False

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

    def cells(self) -> dict[str, Corners]:
        """Give the corners of the wells of a mosaic in the world; {} for an image."""
        images = self.images() if self._mosaics and self.position is None else []
        return cells_of(images[0], self._mosaics[0]) if images else {}

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
        for group in groups if joined else ():
            if group.labels:
                self.labels = group.labels[0].name
        if joined and str(joined[0].arrangements.screen.node) == str(self._node):
            # What was read there needs not be read again.
            self.opener.arrangements = joined[0].arrangements
            self.route = Route(joined[0].arrangements.screen, self.notices.show_skipped)
        self._mosaics = joined
        self.shown = tuple(wells or (well.path for well in self._wells))
        image = groups[0].image if len(groups) == 1 and not joined else None
        if image is not None:
            inner = image.node.location.path[len(self._node.location.path) :]
            self.position = Position(None, inner.strip("/"))
        self._stream.connect(joined)

    def _on_inserted(self, event: Any) -> None:
        layer = event.value
        slot = self._expected.slot(layer)
        if slot is not None:
            self._slots.take(slot, layer)
            self.keep([layer])
            if self.position is not None and len(self._layers()) == 1:
                self._observer.changed()
        elif not (self._take_channel(layer) or self._take_labels(layer)):
            self._extras.add(layer, self.position)

    def _take_channel(self, layer: Layer) -> bool:
        """Count a channel that was added to those on screen as one of them."""
        viewer = self._viewer()
        return viewer is not None and self._slots.take_channel(viewer, layer)

    def _take_labels(self, layer: Layer) -> bool:
        """Count labels that were made for an image on screen as part of its field."""
        name, ours = label_name(layer), self._layers()
        if name is None or self._mosaics or layer in ours.values():
            return False
        if not layer.editable:
            return False
        images = {s: x for s, x in ours.items() if s[1] == "image"}
        for (group, _, _), image in images.items():
            slot: Slot = group, "labels", name
            if slot not in ours and image_address(image) == image_address(layer):
                self._slots.take(slot, layer)
                self.keep([layer])
                return True
        return False

    def keep(self, layers: Iterable[Layer]) -> None:
        """Count layers as part of fields on screen, and follow the saves of labels."""
        for layer in layers:
            self._extras.discard([layer])
            saver = getattr(layer, "saver", None)
            if saver is not None and saver not in self._followed:
                self._followed.add(saver)
                report = functools.partial(self._on_saved, weakref.ref(layer))
                saver.saved.connect(report)

    def _on_saved(self, layer: weakref.ref[Layer], result: SaveResult) -> None:
        labels, outcome = layer(), result.outcome
        if labels is None or outcome is None or not outcome.blocks:
            return
        address, root = image_address(labels), str(self._node)
        self._saved_images.append(address)
        self._preparation.forget(address)
        if address.startswith(root):
            inner = address[len(root) :].strip("/")
            self.opener.arrangements.screen.forget(inner)
            self._observer.saved(inner)
