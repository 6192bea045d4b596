"""What a browser shows in its viewer: a mosaic of wells, or one image."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Protocol

from napari_ngff.errors import OMEZarrError
from napari_ngff.plate.mosaic_level import MosaicLevel
from napari_ngff.viewer import frontend
from napari_ngff.viewer.browsing.acting import Acting
from napari_ngff.viewer.browsing.camera import fit, follow, place_of
from napari_ngff.viewer.browsing.foresight import foresee, sights_of
from napari_ngff.viewer.browsing.route import Route
from napari_ngff.viewer.browsing.scenery import Scenery
from napari_ngff.viewer.browsing.stage import Act, Stage, act_of
from napari_ngff.viewer.browsing.streaming import Stream, reread
from napari_ngff.viewer.picture import KEY, LayerOrigin

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.metadata.model import Field
    from napari_ngff.plate.layout import MapWell
    from napari_ngff.plate.tiles import Tiles
    from napari_ngff.store.node import Node
    from napari_ngff.viewer.browsing.foresight import Sight
    from napari_ngff.viewer.browsing.positions import Position
    from napari_ngff.viewer.browsing.stage import Slot
    from napari_ngff.viewer.groups import Group
    from napari_ngff.viewer.picture import Picture

__all__ = ["Exhibit", "Told"]

READY = 4
"""So many images are kept prepared."""


class Told(Protocol):
    """Who is told of what an exhibit does; in the main thread."""

    def busy(self, busy: bool) -> None:
        """Hear that an action begins, or ends."""

    def changed(self) -> None:
        """Hear that something else is shown."""

    def noticed(self) -> None:
        """Hear that wells may have been found broken."""


class Exhibit:
    """The layers of one browser, and what they show.

    Parameters
    ----------
    viewer
        Where the layers are.
    node
        A plate, a well or a collection.
    wells
        Of the plate, in reading order; () elsewhere.
    told
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
        self, viewer: ViewerModel, node: Node, wells: Sequence[MapWell], told: Told
    ) -> None:
        self._viewer = weakref.ref(viewer)
        self._node = node
        self._wells = tuple(wells)
        self._told = told
        self._refitted: frozenset[str | None] = frozenset()
        self._mosaics: list[Tiles] = []
        self._ready: dict[Position, Act] = {}
        # By identity; they are kept, so that no other picture can get theirs.
        self._adopted: dict[int, tuple[Picture, int, str]] = {}
        self.position: Position | None = None
        self.shown: tuple[str, ...] = ()
        self.runs: tuple[int, ...] = ()
        self.labels: str | None = None
        self.scenery = Scenery(node, frontend.ErrorReport())
        self.route = Route(self.scenery.arrangements.screen)
        self.acting = Acting(told.busy)
        self._stage = Stage()
        self._stream = Stream(self._redraw, self._complete)
        viewer.layers.events.inserted.connect(self._on_inserted)

    def close(self) -> None:
        """Let the viewer alone; the layers stay."""
        self.acting.stop()
        self._stream.close()
        viewer = self._viewer()
        if viewer is not None:
            viewer.layers.events.inserted.disconnect(self._on_inserted)

    @property
    def order(self) -> Sequence[str | None]:
        """The wells in reading order; None for the node's own images."""
        return [well.path for well in self._wells] or [None]

    def owns(self, layer: Layer) -> bool:
        """Tell whether a layer is one of those that are shown here."""
        viewer = self._viewer()
        return viewer is not None and layer in self._stage.layers(viewer).values()

    def take_labels(self, layer: Layer, name: str) -> None:
        """Count labels as one of the layers that are shown here."""
        self._stage.take((0, "labels", name), layer)

    @property
    def is_drawing(self) -> bool:
        """Whether wells of a mosaic are still coming in."""
        return self._stream.is_busy

    def images(self) -> list[Layer]:
        """List the layers of channels that are shown."""
        viewer = self._viewer()
        found = self._stage.layers(viewer) if viewer is not None else {}
        return [found[slot] for slot in sorted(found, key=str) if slot[1] == "image"]

    def _title(self, run: int | None) -> str:
        name = self._node.metadata.plate.name if self._node.metadata.plate else ""
        name = name or self._node.name
        return name if len(self.runs) < 2 else f"{name} acquisition {run}"

    def show_mosaic(
        self, paths: Sequence[str] | None, look: Callable[[], None] = lambda: None
    ) -> None:
        """Show wells as one picture.

        Parameters
        ----------
        paths
            Of the wells; None for all.
        look
            Moves the camera when they are there.
        """
        wells = [w for w in self._wells if paths is None or w.path in paths]
        given = wells if self._wells else None

        def work() -> tuple[Act, list[Tiles]]:
            groups, tiles = [], []
            for run in self.runs or (None,):
                title = self._title(run)
                found = self.scenery.mosaic(title, given, run, self.labels)
                groups.append(found[0])
                tiles += found[1]
            return act_of(groups, estimate=True), tiles

        def steps(found: tuple[Act, list[Tiles]]) -> Iterator[None]:
            act, tiles = found
            self._stream.connect(tiles)
            if not (yield from self._change(act)):
                return
            self._mosaics, self.position = tiles, None
            self.shown = tuple(well.path for well in wells)
            look()
            self._redraw()
            self._told.changed()
            self._complete()

        self.acting.do(work, steps)

    def go(self, find: Callable[[], Position]) -> None:
        """Show the image that `find`, in a worker, finds."""
        sights = self._sights()

        def work() -> tuple[Position, Act]:
            position = find()
            act = self._ready.pop(position, None) or self._prepared(position)
            foresee(act, sights, self.acting.since())
            return position, act

        def steps(found: tuple[Position, Act]) -> Iterator[None]:
            position, act = found
            viewer, images = self._viewer(), self.images()
            before = place_of(images[0]) if images and self.position else None
            self._stream.close()
            if not (yield from self._change(act)):
                return
            self._mosaics, self.position = [], position
            self.shown = () if position.well is None else (position.well,)
            images = self.images()
            if viewer is not None and images:
                if before is not None:
                    follow(viewer, before, place_of(images[0]))
                else:
                    fit(viewer, *images[0].extent.world[:, -2:])
            self._told.changed()
            seen, wanted = self._sights(), self.acting.since()
            frontend.run_later(lambda: self._prefetch(position, seen, wanted))

        self.acting.do(work, steps)

    def _prepared(self, position: Position) -> Act:
        """Read what the layers of an image need; several where acquisitions are."""
        groups = []
        for run in self.runs or (position.acquisition,):
            at = self.route.in_run(position, () if run is None else (run,))
            title = self._title(run)
            groups += self.scenery.field(title, at.well, at.field)
        return act_of(groups, estimate=True)

    def _sights(self) -> dict[Slot, Sight]:
        viewer = self._viewer()
        return {} if viewer is None else sights_of(viewer, self._stage.layers(viewer))

    def _prefetch(
        self, here: Position, sights: dict[Slot, Sight], wanted: Callable[[], bool]
    ) -> None:
        """Prepare the images before and after one, until something else is asked."""
        for step in (1, -1):
            if not wanted():
                return
            try:
                position = self.route.stepped(here, step, self.order, self.runs)
                act = self._ready.get(position) or self._prepared(position)
            except (OMEZarrError, OSError):
                continue  # told when one goes there
            self._ready[position] = act
            foresee(act, sights, wanted)
        for old in list(self._ready)[:-READY]:
            self._ready.pop(old, None)

    def _change(self, act: Act) -> Generator[None, None, bool]:
        """Exchange what is shown; False where the user keeps what is there."""
        viewer = self._viewer()
        if viewer is None:
            return False
        ours = [s for s in self._stage.layers(viewer).items() if s[0][1] == "labels"]
        if not frontend.settle(viewer, [layer for _, layer in ours]):
            return False
        self._adopted.clear()
        frontend.show(act.messages)
        yield from self._stage.show(viewer, act)
        return True

    def _redraw(self) -> None:
        viewer = self._viewer()
        if viewer is not None and self._mosaics:
            for layer in self._stage.layers(viewer).values():
                reread(layer)
        self._told.noticed()

    def _complete(self) -> None:
        """Make room where wells were found that do not fit."""
        misfits = frozenset().union(*(tiles.misfits for tiles in self._mosaics))
        self._told.noticed()
        if misfits - self._refitted:
            self._refitted |= misfits
            self.again()

    def fit_all(self) -> None:
        """Bring all that is shown in view."""
        viewer, images = self._viewer(), self.images()
        if viewer is not None and images:
            fit(viewer, *images[0].extent.world[:, -2:])

    def fit_well(self, well: str) -> None:
        """Bring a well of the mosaic in view."""
        viewer, images = self._viewer(), self.images()
        box = self._mosaics[0].box(well) if self._mosaics else None
        if viewer is not None and images and box is not None:
            lead = (0.0,) * (images[0].ndim - 2)
            low, high = (images[0].data_to_world((*lead, *at))[-2:] for at in box)
            fit(viewer, low, high)

    def again(self) -> None:
        """Show the same wells once more, with what was chosen or found since."""
        if self._mosaics and self.position is None:
            whole = len(self.shown) == len(self._wells)
            self.show_mosaic(None if whole else self.shown)

    def at(self, world: Sequence[float]) -> tuple[str | None, Field | None] | None:
        """Tell which image of a mosaic lies at a world coordinate; reads nothing."""
        layer = next(iter(self.images()), None)
        if layer is None or not self._mosaics or self.position is not None:
            return None
        lead = (0.0,) * max(0, layer.ndim - len(world))
        place = layer.world_to_data((*lead, *tuple(world)[-layer.ndim :]))
        found = self._mosaics[0].at(*place[-2:])
        if found is not None and found[0] is None and len(self.shown) == 1:
            return self.shown[0], found[1]
        return found

    # What a reader has made of the node.

    def adopt(
        self, groups: Sequence[Group], wells: Sequence[str] | None = None
    ) -> None:
        """Take over mosaics that are about to become layers.

        Parameters
        ----------
        groups
            As `napari_ngff.viewer.contents.contents` gives them.
        wells
            Paths of the wells they show; all by default.
        """
        joined = []
        for number, group in enumerate(groups):
            pictures = [group.image, *group.labels]
            for picture in pictures:
                level = picture.pyramid.levels[0] if picture is not None else None
                if picture is None or not isinstance(level, MosaicLevel):
                    continue
                kind = "image" if picture is group.image else "labels"
                self._adopted[id(picture)] = picture, number, kind
                joined.append(level.tiles)
            if group.labels:
                self.labels = group.labels[0].name
        if joined and str(joined[0].arrangements.screen.node) == str(self._node):
            # What was read there needs not be read again.
            self.scenery.arrangements = joined[0].arrangements
            self.route = Route(joined[0].arrangements.screen)
        self._mosaics = joined
        self.shown = tuple(wells or (well.path for well in self._wells))
        self._stream.connect(joined)

    def _on_inserted(self, event: Any) -> None:
        origin = event.value.metadata.get(KEY)
        picture = origin.picture if isinstance(origin, LayerOrigin) else None
        found = self._adopted.get(id(picture))
        if found is not None and picture is not None:
            _, number, kind = found
            at: int | str = picture.name if kind == "labels" else origin.channel or 0
            self._stage.take((number, kind, at), event.value)
