"""Prepares what a browser shows next: reads in workers, and touches no layer."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import OMEZarrError, UnsupportedError
from napari_ngff.plate.arrangement import ScreenArrangements
from napari_ngff.plate.mosaic import WellChoice, open_mosaic
from napari_ngff.plate.screen import Screen
from napari_ngff.store.arrays.lazy_array import LazyArray
from napari_ngff.store.hierarchy.node import read_node
from napari_ngff.store.pyramids.pyramid import LevelSource
from napari_ngff.viewer.contents import contents
from napari_ngff.viewer.groups import mosaic_group
from napari_ngff.viewer.layers import image_layers, layers_of
from napari_ngff.viewer.painting.new_labels import label_data
from napari_ngff.viewer.picture import KEY, LayerOrigin, is_joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.plate.layout import MapWell
    from napari_ngff.plate.mosaic import Mosaic
    from napari_ngff.plate.tiles import WellCells
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.pyramids.pyramid import OnError
    from napari_ngff.viewer.browsing.field_labels import LabelsInUse
    from napari_ngff.viewer.browsing.positions import Position, Route
    from napari_ngff.viewer.groups import Group
    from napari_ngff.viewer.picture import LayerData, Picture

__all__ = [
    "LayerView",
    "Opener",
    "Preparation",
    "Prepared",
    "Slot",
    "prefetch",
    "prepare",
    "views_of",
]

Slot = tuple[int, str, int | str]
"""Which of the groups; "image" or "labels"; number of the channel or name of labels."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is to be shown next, ready to become layers.

    Attributes
    ----------
    layers
        By slot, in the order of the layers.
    messages
        For the user: what had to be left out.
    groups
        How many there are, with those of which nothing is shown here.
    coarser
        For the user: why images are shown at a lower resolution than they have.
    """

    layers: dict[Slot, LayerData] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
    groups: int = 1
    coarser: tuple[str, ...] = ()

    @property
    def images(self) -> set[str]:
        """Addresses of the images that are shown."""
        origins = [
            data[1]["metadata"].get(KEY)
            for slot, data in self.layers.items()
            if slot[1] == "image"
        ]
        return {str(one.node) for one in origins if isinstance(one, LayerOrigin)}


def prepare(groups: Sequence[Group | None], *, estimate: bool) -> Prepared:
    """Prepare groups, each shown over the one before; None where nothing is."""
    layers: dict[Slot, LayerData] = {}
    messages: list[str] = []
    coarser: list[str] = []
    for number, group in enumerate(groups):
        if group is None:
            continue
        if group.image is not None:
            coarser += missing_levels(group.image)
        images, labels, left = layers_of(group, estimate=estimate)
        messages += left
        for data in images:
            layers[(number, "image", data[1]["metadata"][KEY].channel or 0)] = data
        for data in labels:
            layers[(number, "labels", data[1]["name"])] = data
    return Prepared(layers, tuple(messages), len(groups), tuple(coarser))


def missing_levels(image: Picture) -> list[str]:
    """Tell why levels finer than all that are shown cannot be read."""
    stated = image.node.metadata.image
    if stated is None or is_joined(image):
        return []
    shown = {level.path for level in image.pyramid.multiscale.levels}
    finest = stated.multiscales[0].levels[0].path
    if finest in shown:
        return []
    where = f"{image.node.location.key(finest)}:"
    return [p.text for p in image.pyramid.problems if p.where == where]


def with_channels(prepared: Prepared, added: Iterable[Slot]) -> Prepared:
    """Add channels beyond the first where an image has them; reads nothing."""
    layers = dict(prepared.layers)
    for slot in added:
        image = next((d for s, d in layers.items() if s[:2] == slot[:2]), None)
        origin = None if image is None else image[1]["metadata"][KEY]
        if slot in layers or origin is None or origin.picture is None:
            continue
        for data in image_layers(origin.picture, shown=[int(slot[2])]):
            layers[slot] = data
    return replace(prepared, layers=layers)


def with_labels_in_use(
    prepared: Prepared, in_use: Mapping[Slot, LabelsInUse]
) -> Prepared:
    """Add empty labels of the same names where the next field has none of them.

    Reads metadata of the field; nothing is written before somebody paints.
    """
    layers, messages = dict(prepared.layers), prepared.messages
    for slot, labels in in_use.items():
        group = slot[0]
        image = next((d for s, d in layers.items() if s[:2] == (group, "image")), None)
        if slot in layers or image is None:
            continue
        try:
            layers[slot] = label_data(image, labels.choices)
        except (OMEZarrError, OSError, ValueError) as error:
            reason = f"No labels '{labels.choices.name}' in this field. {error}"
            messages = (*messages, reason)
    return replace(prepared, layers=layers, messages=messages)


MOST_BYTES = 32 * 2**20
"""What is larger would push out of the cache what is shown."""


MARGIN = 0.05
"""Share of the canvas that napari leaves free around what it brings in view."""


@dataclass(frozen=True, slots=True)
class LayerView:
    """What is seen of a layer.

    Attributes
    ----------
    level
        Index of the level that napari draws.
    point
        Voxel of level 0 at which the sliders stand, for each axis of the layer.
    corners
        First and last voxel of that level that are in view, by axis; only for axes of
        the picture.
    """

    level: int
    point: tuple[float, ...]
    corners: dict[int, tuple[int, int]]


def views_of(
    viewer: ViewerModel, layers: Mapping[Slot, Layer]
) -> dict[Slot, LayerView]:
    """Tell what is seen of visible layers; in the main thread."""
    views = {}
    for slot, layer in layers.items():
        lead = viewer.dims.ndim - layer.ndim
        displayed = [axis - lead for axis in viewer.dims.displayed if axis >= lead]
        if not layer.visible or len(displayed) != 2:
            continue
        point = layer.world_to_data(viewer.dims.point[lead:])
        first, last = np.asarray(layer.corner_pixels)
        corners = {axis: (int(first[axis]), int(last[axis])) for axis in displayed}
        level = layer.data_level if layer.multiscale else 0
        views[slot] = LayerView(level, tuple(map(float, point)), corners)
    return views


def prefetch(
    prepared: Prepared,
    views: Mapping[Slot, LayerView],
    wanted: Callable[[], bool],
    canvas: tuple[float, float] | None = None,
) -> None:
    """Decode what will be seen of images where others are seen now; in a worker.

    Parameters
    ----------
    prepared
        The images.
    views
        Of those that are shown, see `views_of`.
    wanted
        Asked before each layer whether to go on.
    canvas
        Its height and width in pixels, where the images will be brought in view whole.
    """
    for slot, (data, _, _) in prepared.layers.items():
        view = views.get(slot)
        levels = data if isinstance(data, list) else [data]
        alike = view is not None and len(view.point) == levels[0].ndim
        if view is None or not alike or not wanted():
            continue
        last = len(levels) - 1
        # The coarsest level is that of the thumbnail in the list of layers.
        parts = [(min(view.level, last), False), (last, True)]
        if canvas is not None:
            parts.append((fitted_level(levels, tuple(view.corners), canvas), True))
        for number, whole in parts:
            if keeps(levels[number]):
                index = _index(view, levels, number, whole)
                size = math.prod(part.stop - part.start for part in index)
                if size * levels[number].dtype.itemsize <= MOST_BYTES:
                    # napari meets the same error, and tells it.
                    with suppress(OMEZarrError, OSError):
                        np.asarray(levels[number][index])


def fitted_level(
    levels: Sequence[Any], axes: Sequence[int], canvas: tuple[float, float]
) -> int:
    """Foresee the level of an image that is brought in view whole.

    The coarsest that has more voxels there than the canvas has pixels, as napari 0.9
    chooses (`compute_multiscale_level`).

    Parameters
    ----------
    axes
        Those of y and x.
    canvas
        Height and width in pixels.
    """
    whole = levels[0].shape
    most = max(whole[axis] / size for axis, size in zip(axes, canvas, strict=True))
    most /= 1 - MARGIN
    enough = [
        number
        for number, level in enumerate(levels)
        if all(most * level.shape[axis] > whole[axis] for axis in axes)
    ]
    return enough[-1] if enough else 0


def keeps(level: Any) -> bool:
    """Tell whether what is read of a level is kept decoded."""
    window = level.window if isinstance(level, LazyArray) else None
    source = window.source if window is not None else None
    return isinstance(source, LevelSource) and source.array.direct


def _index(
    view: LayerView, levels: Sequence[Any], number: int, whole: bool
) -> tuple[slice, ...]:
    """Choose the part of a level; of all axes as many voxels as there are."""
    index = []
    for axis, size in enumerate(levels[number].shape):
        if axis in view.corners:
            start, stop = (0, size) if whole else view.corners[axis]
            stop += not whole
        else:
            factor = levels[0].shape[axis] / size
            start = math.floor(view.point[axis] / factor + 0.5)
            stop = start + 1
        start = min(max(start, 0), size - 1)
        index.append(slice(start, min(max(stop, start + 1), size)))
    return tuple(index)


class Opener:
    """Pictures of one plate, well or collection.

    Parameters
    ----------
    node
        Of the browser.
    on_error
        Told of what cannot be read.
    """

    def __init__(self, node: Node, on_error: OnError) -> None:
        self.arrangements = ScreenArrangements(Screen(node))
        self._on_error = on_error

    def mosaic(
        self,
        name: str,
        wells: Sequence[MapWell] | None,
        run: int | None,
        label: str | None,
    ) -> tuple[Group, list[WellCells]]:
        """Join wells, and labels of them.

        Raises
        ------
        UnsupportedError
            Where none can be read.
        """
        here = self.arrangements
        here.retry()
        joined = open_mosaic(here, wells, WellChoice(run), self._on_error)
        labels: list[tuple[str, Mosaic]] = []
        if label is not None:
            choice = WellChoice(run, f"labels/{label}")
            try:
                found = open_mosaic(here, wells, choice, self._on_error)
                labels.append((label, found))
            except UnsupportedError:
                pass  # no well has them: nothing is what there is to see
        group = mosaic_group(name, joined, labels)
        return group, [joined.tiles, *(mosaic.tiles for _, mosaic in labels)]

    def field(self, name: str, position: Position) -> list[Group]:
        """Open one image and its labels, as if it were opened by itself.

        Raises
        ------
        OMEZarrError, OSError
            Where it cannot be read.
        """
        screen = self.arrangements.screen
        location = screen.place(position.well, position.field)
        node = read_node(location, screen.node.zarr_format)
        field_contents = contents(node, self._on_error)
        return [
            replace(group, image=replace(group.image, name=name))
            if group.image is not None and name
            else group
            for group in field_contents.groups[:1]
        ]


READY = 4
"""So many images are kept prepared."""


Runs = tuple[int, ...]


class Preparation:
    """Prepares images; everything here reads, in worker threads.

    Parameters
    ----------
    opener
        Opens them.
    title
        Names layers, by the acquisition or None.
    """

    def __init__(self, opener: Opener, title: Callable[[int | None], str]) -> None:
        self._opener = opener
        self._title = title
        self._ready: dict[tuple[Position, Runs], Prepared] = {}
        self._saves = 0

    def take(self, route: Route, position: Position, runs: Runs) -> Prepared:
        """Give what the layers of an image need; several where acquisitions are."""
        return self._ready.pop((position, runs), None) or self._made(
            route, position, runs
        )

    def forget(self, address: str) -> None:
        """Prepare an image anew next time: labels of it were saved."""
        self._saves += 1
        for key, prepared in list(self._ready.items()):
            if address in prepared.images:
                self._ready.pop(key, None)

    def prefetch(
        self,
        route: Route,
        positions: Sequence[Callable[[], Position]],
        runs: Runs,
        views: Mapping[Slot, LayerView],
        wanted: Callable[[], bool],
    ) -> None:
        """Prepare images that may be asked for next, as long as they are wanted."""
        for find in positions:
            if not wanted():
                return
            saves = self._saves
            try:
                position = find()
                prepared = self._ready.get((position, runs))
                prepared = prepared or self._made(route, position, runs)
            except (OMEZarrError, OSError):
                continue  # told when one goes there
            if saves != self._saves:
                continue  # labels of it may have been saved meanwhile
            self._ready[position, runs] = prepared
            prefetch(prepared, views, wanted)
        for old in list(self._ready)[:-READY]:
            self._ready.pop(old, None)

    def _made(self, route: Route, position: Position, runs: Runs) -> Prepared:
        wanted: Sequence[int | None] = [position.acquisition]
        if runs and position.acquisition in (None, *runs):
            wanted = runs
        groups: list[Group | None] = []
        for run in wanted:
            partner = route.partner(position, run)
            title = self._title(run)
            groups += [None] if partner is None else self._opener.field(title, partner)
        # Acquisitions that this well lacks are chosen still.
        groups += [None] * (len(runs) - len(groups))
        return prepare(groups, estimate=True)
