"""Prepares the next fields of a browser: reads in workers, and changes no layer."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import OMEZarrError, UnsupportedError, error_text, may_pass
from napari_ngff.metadata.model import GroupKind
from napari_ngff.plate.arrangement import ScreenArrangements
from napari_ngff.plate.mosaic import MosaicPyramid, open_mosaic, share_cells
from napari_ngff.plate.plate_contents import PlateContents
from napari_ngff.plate.well_cells import WellCells, WellChoice
from napari_ngff.store.hierarchy.node import Node, read_node
from napari_ngff.store.pyramids.pyramid import LevelSource
from napari_ngff.viewer.browsing.field_labels import LabelsInUse, look_at_labels
from napari_ngff.viewer.browsing.positions import FieldRoute, Position, own_first
from napari_ngff.viewer.browsing.shown_fields import (
    AcquisitionChange,
    FieldEntry,
    FieldNotices,
    FieldStep,
    ShownFields,
    Slot,
    WellStep,
)
from napari_ngff.viewer.layers.image_layers import image_layers, layers_of
from napari_ngff.viewer.layers.layer_groups import LayerGroup, mosaic_group
from napari_ngff.viewer.layers.node_contents import open_contents
from napari_ngff.viewer.painting.new_labels import label_data
from napari_ngff.viewer.plans.layer_plan import (
    KEY,
    LayerData,
    LayerPlan,
    is_joined,
    levels_in,
    origin_in,
)
from napari_ngff.viewer.services.error_report import ErrorReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.labels.used_labels import StoredLabels
    from napari_ngff.plate.plate_layout import MapWell, PlateMap


@dataclass(frozen=True, slots=True)
class PreparedFields:
    """Fields that are ready to become layers.

    Attributes
    ----------
    fields
        The fields, with all moves made.
    layers
        By slot, in the order of the layers.
    messages
        For the user: which parts are left out.
    groups
        The image of each group, with its acquisition; its field is "" in an overview,
        and where this field lacks the group.
    coarser
        For the user: why images are shown at a lower resolution than they have.
    tiles
        Wells of an overview, by acquisition and labels; () for a field.
    reason
        For the user: why the field cannot be read; "" where it can.
    may_come
        Whether it may be read later, as from a server that is busy.
    stored
        The labels of pixels, by slot; see `look_at_labels`.
    """

    fields: ShownFields
    layers: dict[Slot, LayerData] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
    groups: tuple[Position, ...] = (Position(None, ""),)
    coarser: tuple[str, ...] = ()
    tiles: tuple[WellCells, ...] = ()
    reason: str = ""
    may_come: bool = False
    stored: Mapping[Slot, StoredLabels | None] = field(default_factory=dict)

    @property
    def image_addresses(self) -> set[str]:
        """Addresses of the images that are shown."""
        origins = [
            origin_in(data[1]["metadata"])
            for slot, data in self.layers.items()
            if slot[1] == "image"
        ]
        return {str(origin.node) for origin in origins if origin is not None}


def prepare_layers(
    fields: ShownFields,
    groups: Sequence[LayerGroup | None],
    positions: Sequence[Position] = (),
    *,
    estimate: bool,
) -> PreparedFields:
    """Prepare groups, each shown over the one before; None where nothing is."""
    layers: dict[Slot, LayerData] = {}
    messages: list[str] = []
    coarser: list[str] = []
    for number, group in enumerate(groups):
        if group is None:
            continue
        if group.image is not None:
            coarser += missing_levels(group.image)
        images, labels, omitted = layers_of(group, fields.labels, estimate=estimate)
        messages += omitted
        for data in images:
            if number:  # what is drawn over another acquisition must not cover it
                data[1]["blending"] = "additive"
            layers[(number, "image", data[1]["metadata"][KEY].channel or 0)] = data
        for data in labels:
            # Of a field of another acquisition than that asked for there are none:
            # strokes would go into another field than the caption names.
            if not number or fields.position is None:
                layers[(number, "labels", data[1]["name"])] = data
    shown = tuple(positions or [Position(None, "")] * len(groups))
    return PreparedFields(fields, layers, tuple(messages), shown, tuple(coarser))


def missing_levels(image: LayerPlan) -> list[str]:
    """Return the reasons why the finest level of an image is not shown."""
    stated = image.node.metadata.image
    if stated is None or is_joined(image):
        return []
    readable = {level.path for level in image.pyramid.multiscale.levels}
    finest = stated.multiscales[0].levels[0].path
    if finest in readable:
        return []
    where = f"{image.node.location.object_key(finest)}:"
    return [p.text for p in image.pyramid.problems if p.where == where]


def with_channels(prepared: PreparedFields, added: Iterable[Slot]) -> PreparedFields:
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
    prepared: PreparedFields, in_use: Mapping[Slot, LabelsInUse]
) -> PreparedFields:
    """Add empty labels where the next field has none; a stroke writes them first.

    Not to a field of another acquisition that is seen with it, whose labels are not
    read: it may have such labels.
    """
    layers, messages = dict(prepared.layers), prepared.messages
    for slot, labels in in_use.items():
        image = next((d for s, d in layers.items() if s[:2] == (0, "image")), None)
        if slot in layers or slot[0] or image is None:
            continue
        try:
            layers[slot] = label_data(image, labels.choices)
        except (OMEZarrError, OSError, ValueError) as error:
            reason = f"No labels '{labels.choices.name}' in this field. {error}"
            messages = (*messages, reason)
    stored = look_at_labels(prepared.layers, in_use)
    return replace(prepared, layers=layers, messages=messages, stored=stored)


MOST_BYTES = 32 * 2**20
"""Most bytes that are read ahead of one level: more would push pixels on screen out of
the cache."""


MARGIN = 0.05
"""Part of the canvas that napari leaves free around an image that it fits."""


@dataclass(frozen=True, slots=True)
class LayerView:
    """The part of a layer that is in view.

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
    """Note the part in view of each visible layer; in the main thread."""
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


def prefetch_layers(
    prepared: PreparedFields,
    views: Mapping[Slot, LayerView],
    wanted: Callable[[], bool],
    canvas: tuple[float, float] | None = None,
) -> None:
    """Decode, in a worker, the pixels that napari will draw of prepared images.

    napari 0.9 slices in the main thread: a chunk that has to come from a disk or over
    a network then would block the window. Decoded chunks stay in memory.

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
    for slot, data in prepared.layers.items():
        # Of a hidden layer napari reads nothing.
        view = views.get(slot)
        levels = levels_in(data)
        alike = view is not None and len(view.point) == levels[0].ndim
        if view is None or not alike or not wanted():
            continue
        last = len(levels) - 1
        # The coarsest level is that of the thumbnail in the list of layers.
        parts = [(min(view.level, last), False), (last, True)]
        if canvas is not None:
            parts.append((fitted_level(levels, tuple(view.corners), canvas), True))
        for number, whole in parts:
            window = getattr(levels[number], "window", None)
            # Decoded chunks of other levels do not stay in memory.
            if window is not None and isinstance(window.source, LevelSource):
                index = _part_in_view(view, levels, number, whole)
                size = math.prod(part.stop - part.start for part in index)
                if size * levels[number].dtype.itemsize <= MOST_BYTES:
                    # napari meets the same error, and reports it.
                    with suppress(OMEZarrError, OSError):
                        np.asarray(levels[number][index])


def fitted_level(
    levels: Sequence[Any], axes: Sequence[int], canvas: tuple[float, float]
) -> int:
    """Return the level that napari will draw of an image that fills the view.

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


def _part_in_view(
    view: LayerView, levels: Sequence[Any], number: int, whole: bool
) -> tuple[slice, ...]:
    """Return the slices of the part in view of a level, cut to its shape."""
    index = []
    for axis, size in enumerate(levels[number].shape):
        if axis in view.corners:
            start, stop = (0, size) if whole else view.corners[axis]
            stop += not whole
        else:
            factor = levels[0].shape[axis] / size
            # The plane of this level that contains the voxel of level 0 at the slider.
            start = math.floor(view.point[axis] / factor + 0.5)
            stop = start + 1
        start = min(max(start, 0), size - 1)
        index.append(slice(start, min(max(stop, start + 1), size)))
    return tuple(index)


@dataclass(frozen=True, slots=True)
class SeenLayers:
    """The layers on screen while other fields are prepared, as values.

    Attributes
    ----------
    views
        Of the layers, see `views_of`.
    added
        Channels beyond the first, see `LayerSlots.added_channels`.
    labels
        Labels to continue with in the next field.
    canvas
        Height and width in pixels, where a field will be brought in view whole.
    position
        The field, where a step may lead to the same one; else None.
    hidden
        Names of hidden labels that the next overview has, too.
    """

    views: Mapping[Slot, LayerView]
    added: frozenset[Slot]
    labels: Mapping[Slot, LabelsInUse]
    canvas: tuple[float, float] | None
    position: Position | None
    hidden: tuple[str, ...] = ()


READY = 4
"""Most images that are kept prepared."""


class FieldResolver:
    """Turns `ShownFields` into `PreparedFields`; all of it reads, in workers.

    Parameters
    ----------
    node
        Of the browser.
    notices
        Show which images are skipped.
    read_map
        Returns the map of the plate.
    """

    def __init__(
        self, node: Node, notices: FieldNotices, read_map: Callable[[], PlateMap]
    ) -> None:
        self._node = node
        self.notices = notices
        self._read_map = read_map
        self._wells = read_map().wells
        # In reading order; None for the images of a node without wells.
        self._order = tuple(well.path for well in self._wells) or (None,)
        self._on_error = ErrorReport()
        self._ready: dict[ShownFields, PreparedFields] = {}
        self.save_count = 0  # of labels: what was read before may be old
        self.use_arrangements(ScreenArrangements(PlateContents(node)))

    def use_arrangements(self, arrangements: ScreenArrangements) -> None:
        """Read through arrangements of a reader, which has read the wells already."""
        self.arrangements = arrangements
        self.route = FieldRoute(arrangements, self.notices.show_skipped)

    def resolve_fields(
        self, wanted: ShownFields, seen: SeenLayers, is_newest: Callable[[], bool]
    ) -> PreparedFields:
        """Read what the layers of wanted fields need.

        Where a field is found but cannot be read, the result has the reason. Where a
        step leads to the field on screen, the result has no layers.

        Raises
        ------
        OMEZarrError, OSError
            Where no field can be found, or no well of an overview can be read.
        """
        if wanted.position is None:
            asked = set(seen.hidden) if wanted.labels is None else {wanted.labels}
            return self._prepare_overview(wanted, asked)
        position = self._find_field(wanted)
        last = wanted.last_move
        acquisitions, run = wanted.acquisitions, position.acquisition
        named = last == FieldEntry() and wanted.position.field
        if acquisitions and run is not None and run not in acquisitions:
            if not named:
                self.notices.show_other_acquisition(position)
            acquisitions = (run,) if named else acquisitions
        wells = () if position.well is None else (position.well,)
        fields = ShownFields(wells, position, acquisitions, wanted.labels)
        if isinstance(last, WellStep | FieldStep) and position == seen.position:
            return PreparedFields(fields)
        try:
            key = ShownFields((), position, wanted.acquisitions, wanted.labels)
            # Taken out: its layers belong to the browser from now on, and may be
            # changed there.
            prepared = self._ready.pop(key, None) or self._prepare_field(key)
            prepared = with_channels(replace(prepared, fields=fields), seen.added)
            prefetch_layers(prepared, seen.views, is_newest, seen.canvas)
            return with_labels_in_use(prepared, seen.labels)
        except Exception as error:  # noqa: BLE001
            # Codecs raise whatever they like. A field that this disk cannot read would
            # be in the way of the arrow keys for good.
            may_come = self._node.location.source.traits.is_remote and may_pass(error)
            return PreparedFields(fields, reason=error_text(error), may_come=may_come)

    def prefetch_neighbours(
        self,
        shown: ShownFields,
        views: Mapping[Slot, LayerView],
        is_newest: Callable[[], bool],
    ) -> None:
        """Prepare the fields before and after one, until others are asked for."""
        for step in (1, -1):
            if not is_newest():
                return
            saves = self.save_count
            try:
                position = self._find_field(shown.add_move(FieldStep(step)))
                key = ShownFields((), position, shown.acquisitions, shown.labels)
                prepared = self._ready.get(key) or self._prepare_field(key)
            except (OMEZarrError, OSError):
                continue  # reported when one goes there
            if saves != self.save_count:
                continue  # labels of it may have been saved meanwhile
            self._ready[key] = prepared
            prefetch_layers(prepared, views, is_newest)
        for old in list(self._ready)[:-READY]:
            self._ready.pop(old, None)

    def forget_field(self, address: str) -> None:
        """Drop a prepared field, since labels of it were saved."""
        # Workers that prepare this field now will see that their result is old.
        self.save_count += 1
        for key, prepared in list(self._ready.items()):
            if address in prepared.image_addresses:
                self._ready.pop(key, None)

    def _find_field(self, wanted: ShownFields) -> Position:
        """Find the field that moves lead to; note the problem of a well that fails."""
        try:
            return self._make_moves(wanted)
        except (OMEZarrError, OSError) as error:
            asked = wanted.named_position
            if asked is not None and not may_pass(error):
                self.arrangements.read_well(asked.well, None)
            raise

    def _make_moves(self, wanted: ShownFields) -> Position:
        position, runs, route = wanted.position, wanted.acquisitions, self.route
        assert position is not None
        for move in wanted.moves:
            runs = own_first(position, runs)
            match move:
                case FieldEntry():
                    field = position.field or None
                    position = route.find_entry(position.well, field, runs)
                case WellStep(rows, columns):
                    plate = self._read_map()
                    position = route.find_beside(plate, position, rows, columns, runs)
                case FieldStep(step):
                    position = route.find_next(position, step, self._order, runs)
                case AcquisitionChange() if position.acquisition not in runs:
                    position = route.find_in_run(position, runs)
        return position

    def _prepare_overview(self, wanted: ShownFields, names: set[str]) -> PreparedFields:
        wells = [well for well in self._wells if well.path in wanted.wells]
        runs = wanted.acquisitions
        # A server may answer now for wells that failed before.
        self.arrangements.retry_wells()
        placed = wells if self._wells else None
        groups: list[LayerGroup] = []
        tiles: list[WellCells] = []
        for joined in self._open_mosaics(placed, runs):
            title = self._title_of(joined.tiles.choice.acquisition, runs)
            labels = self._open_label_mosaics(joined, placed, names)
            groups.append(mosaic_group(title, joined, labels))
            tiles += [joined.tiles, *(mosaic.tiles for _, mosaic in labels)]
        fields = replace(wanted, zoom_well=None)
        positions = [Position(None, "", run) for run in runs or (None,)]
        prepared = prepare_layers(fields, groups, positions, estimate=True)
        return replace(prepared, tiles=tuple(tiles))

    def _open_mosaics(
        self, wells: Sequence[MapWell] | None, runs: tuple[int, ...]
    ) -> list[MosaicPyramid]:
        """Join wells, once for each acquisition, in cells of one size.

        Raises where no well of an acquisition can be read.
        """
        beside = runs if len(runs) > 1 else ()
        choices = [WellChoice(run, beside=beside) for run in runs or (None,)]
        cells: list[tuple[int, int] | None] = [None] * len(choices)
        while True:
            mosaics = [
                open_mosaic(self.arrangements, wells, choice, self._on_error, cell)
                for choice, cell in zip(choices, cells, strict=True)
            ]
            # Acquisitions may know other wells, and have voxels of another size.
            shared = share_cells(mosaics)
            if cells[0] is not None or shared == [m.tiles.cell for m in mosaics]:
                return mosaics
            cells = [*shared]

    def _open_label_mosaics(
        self, joined: MosaicPyramid, wells: Sequence[MapWell] | None, names: set[str]
    ) -> list[tuple[str, MosaicPyramid]]:
        """Join the labels of wells in the same cells, whatever was read meanwhile."""
        found = []
        for name in sorted(names):
            choice = replace(joined.tiles.choice, inside=f"labels/{name}")
            with suppress(UnsupportedError):  # no well has labels of this name
                cell, report = joined.tiles.cell, self._on_error
                mosaic = open_mosaic(self.arrangements, wells, choice, report, cell)
                found.append((name, mosaic))
        return found

    def _prepare_field(self, fields: ShownFields) -> PreparedFields:
        position, runs = fields.position, fields.acquisitions
        assert position is not None
        # First its own acquisition: labels belong to the field that was asked for.
        wanted: list[int | None] = [position.acquisition]
        if runs and position.acquisition in (None, *runs):
            wanted = [*own_first(position, runs)]
        groups: list[LayerGroup | None] = []
        positions: list[Position] = []
        for run in wanted:
            partner = self.route.find_partner(position, run)
            positions.append(partner or Position(position.well, "", run))
            title = self._title_of(run, runs)
            # A place keeps its slot, so that layers of acquisitions stay apart.
            groups += [None] if partner is None else self.open_field(title, partner)
        # Acquisitions that this well lacks are chosen still.
        positions += [Position(position.well, "", r) for r in runs[len(groups) :]]
        groups += [None] * (len(runs) - len(groups))
        return prepare_layers(fields, groups, positions, estimate=True)

    def open_field(self, name: str, position: Position) -> list[LayerGroup]:
        """Open one image and its labels, as when it is opened alone.

        Raises
        ------
        OMEZarrError, OSError
            Where it cannot be read.
        """
        screen = self.arrangements.screen
        location = screen.location_of(position.well, position.field)
        node = read_node(location, screen.node.zarr_format)
        field_contents = open_contents(node, self._on_error)
        return [
            replace(group, image=replace(group.image, name=name))
            if group.image is not None and name
            else group
            for group in field_contents.groups[:1]
        ]

    def _title_of(self, run: int | None, runs: tuple[int, ...]) -> str:
        """Return the name of an acquisition's layers; "" for those of their images."""
        if self._node.kind in (GroupKind.COLLECTION, GroupKind.SERIES, GroupKind.SCENE):
            return ""
        plate = self._node.metadata.plate
        name = (plate.name if plate is not None else "") or self._node.name
        if len(runs) < 2 or plate is None or run is None:
            return name
        # First what differs: napari cuts out the middle of long names in its list.
        return f"{plate.name_acquisition(run)}, {name}"
