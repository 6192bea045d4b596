"""Wells as one lazy picture: every field at its place, at every level.

Axes, levels, type and size of a cell come from the first readable well. If a well turns
out not to fit when it is drawn, it is cut to its cell and noted in `WellCells.misfits`;
when the mosaic is opened again, it has room for all wells that are known by then. See
docs/design/007-plate-mosaic.md.

Coarser levels are added where all images lack them: napari reads the coarsest one
whole. Axes are added that other images have: wells may be imaged in different ways.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from napari_ngff.errors import OMEZarrError, UnsupportedError
from napari_ngff.plate import kept_planes
from napari_ngff.plate.kept_planes import make_room
from napari_ngff.plate.mosaic_level import MosaicLevel
from napari_ngff.plate.well_cells import (
    MosaicBounds,
    WellCell,
    WellCells,
    WellChoice,
)
from napari_ngff.store.arrays.lazy_array import ArraySource, BlankArray
from napari_ngff.store.hierarchy.node import Node, read_node
from napari_ngff.store.pyramids.pyramid import OnError, Pyramid, open_pyramid
from napari_ngff.store.threads import share_work

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from napari_ngff.metadata.model import Level, Multiscale
    from napari_ngff.plate.arrangement import (
        PlacedField,
        ScreenArrangements,
        WellArrangement,
    )
    from napari_ngff.plate.plate_contents import FieldImage
    from napari_ngff.plate.plate_layout import MapWell


def add_coarse_levels(
    model: Pyramid, far: tuple[int, int], size: tuple[int, int], itemsize: int
) -> Pyramid:
    """Add levels to an image's pyramid until the coarsest plane of the plate is small.

    Fields have no array for those levels: every n-th voxel of another one is shown, see
    `napari_ngff.plate.level_view`.

    Parameters
    ----------
    far
        Height and width of the plate, in voxels of level 0.
    size
        Height and width of the image, in voxels of level 0.
    itemsize
        Bytes of a voxel.
    """
    # Arrays and metadata of the levels, which stay equally long.
    levels, described = list(model.levels), list(model.multiscale.levels)

    def plane_bytes() -> int:
        sides = zip(far, size, levels[-1].shape[-2:], strict=True)
        # Of one plane of the plate at the coarsest level so far.
        return itemsize * math.prod(
            math.ceil(n * coarse / full) for n, full, coarse in sides
        )

    while plane_bytes() > kept_planes.PLANE_BYTES and max(levels[-1].shape[-2:]) > 1:
        coarse, description = _halve_level(levels[-1], described[-1])
        levels.append(coarse)
        described.append(description)
    multiscale = replace(model.multiscale, levels=tuple(described))
    return replace(model, multiscale=multiscale, levels=tuple(levels))


def _halve_level(array: ArraySource, level: Level) -> tuple[BlankArray, Level]:
    """Make the array and the metadata of a level that is half as high and wide."""
    shape = tuple(-(-n // 2) for n in array.shape[-2:])
    chunks = tuple(map(min, array.chunks[-2:], shape))
    # Not just doubled: an odd size is rounded up.
    scale = [
        step * fine / coarse
        for step, fine, coarse in zip(
            level.scale[-2:], array.shape[-2:], shape, strict=True
        )
    ]
    blank = BlankArray(
        (*array.shape[:-2], *shape), (*array.chunks[:-2], *chunks), array.dtype
    )
    # Without a path, by which `MosaicLevel` knows that images have no such array.
    return blank, replace(level, path="", scale=(*level.scale[:-2], *scale))


ORDER = ("t", "c", "z", "y", "x")
"""Of axes in an image: "time" first, then "channel", then "space" (0.4, axes)."""

Item = TypeVar("Item")


def add_missing_axes(model: Pyramid, images: Iterable[FieldImage]) -> Pyramid:
    """Add the axes t, c and z that other images have and the model lacks.

    Parameters
    ----------
    model
        Pyramid of an image. Returned as it is if a level has any other transformation
        than scale and translation.
    images
        Only those whose level 0 is open are looked at, so nothing is read.
    """
    if any(level.transformation for level in model.multiscale.levels):
        return model
    for image in images:
        array, names = image.opened_level, image.multiscale.axis_names
        if array is None or len(names) != array.ndim:
            continue
        for number, name in enumerate(names):
            # Asked anew each time, since the model grows.
            there = {known.lower() for known in model.multiscale.axis_names}
            if name in ORDER and name not in there and array.shape[number] > 1:
                model = _with_axis(model, image, number, array.shape[number])
    return model


def _with_axis(model: Pyramid, image: FieldImage, number: int, size: int) -> Pyramid:
    """Add one axis of an image, with its voxel size, to all levels.

    `number` is its index in that image, `size` its length at level 0.
    """
    theirs, described = image.multiscale, model.multiscale
    names = [name.lower() for name in described.axis_names]
    later = ORDER[ORDER.index(theirs.axis_names[number]) + 1 :]
    # Before the first axis that has to be behind it, and before y and x at the latest.
    position = next(
        (i for i, name in enumerate(names) if name in later), len(names) - 2
    )
    levels: list[Any] = []
    scales = []
    for i, (source, level) in enumerate(
        zip(model.levels, described.levels, strict=True)
    ):
        # That image may have fewer levels.
        other = theirs.levels[min(i, len(theirs.levels) - 1)]
        coarser = other.scale[number] / theirs.levels[0].scale[number]
        voxels = max(1, math.ceil(size / abs(coarser)))
        shape = _insert_value(source.shape, position, voxels)
        chunks = _insert_value(source.chunks, position, 1)
        # Never read: mosaics take shapes from the model, and pixels from the images.
        levels.append(BlankArray(shape, chunks, source.dtype))
        scales.append(
            replace(
                level,
                scale=_insert_value(level.scale, position, other.scale[number]),
                translation=_insert_value(
                    level.translation, position, other.translation[number]
                ),
            )
        )
    axes = _insert_value(described.axes, position, theirs.axes[number])
    multiscale = replace(described, axes=axes, levels=tuple(scales))
    return replace(model, multiscale=multiscale, levels=tuple(levels))


def _insert_value(values: Sequence[Item], index: int, value: Item) -> tuple[Item, ...]:
    return (*values[:index], value, *values[index:])


MOST_REASONS = 3
"""Number of reasons in the message if no well can be read."""

MOST_FAILURES = 3
"""Number of wells that a server did not give, after which no other is asked for."""

AHEAD = 16
"""Number of wells in which labels are looked for at the same time."""

ALL_READ = 16
"""Number of wells up to which all documents are read first, so that all cells fit."""


@dataclass(frozen=True, slots=True, eq=False)
class MosaicPyramid:
    """Wells, or the images of one well, as one pyramid.

    Attributes
    ----------
    node
        The image, or label image, that the picture was modelled on.
    first
        Path of the well of that image, and of the image in it.
    pyramid
        Levels are `MosaicLevel`; the last two axes are y and x.
    tiles
        The wells and their cells, shared by all levels.
    """

    node: Node
    first: tuple[str | None, str]
    pyramid: Pyramid
    tiles: WellCells

    @property
    def known_fields(self) -> tuple[WellArrangement, ...]:
        """The arrangements of the wells that were read already."""
        arrangements = (self.tiles.known_fields(tile) for tile in self.tiles.tiles)
        return tuple(
            arrangement for arrangement in arrangements if arrangement is not None
        )


def open_mosaic(
    arrangements: ScreenArrangements,
    wells: Sequence[MapWell] | None = None,
    choice: WellChoice | None = None,
    on_error: OnError | None = None,
    cell: tuple[int, int] | None = None,
) -> MosaicPyramid:
    """Join wells into one pyramid.

    Reads the plate's first readable well: its document, two documents of each of its
    images and one for each further level of the first; of at most `ALL_READ` wells
    all. Nothing of any other.

    Parameters
    ----------
    arrangements
        Of the screen.
    wells
        On the map, in the order in which they are looked at; None for the images of
        the screen's own node.
    choice
        What to show.
    on_error
        Called for each chunk that cannot be read, and once for each broken well.
    cell
        Height and width of a cell in voxels, as in the mosaic of the images; by default
        there is room for all wells that were read.

    Raises
    ------
    UnsupportedError
        Where no well can be read, or none has the labels; the message says why.
    LoginNeededError
        Where the server refuses a well before one can be read.
    """
    choice = choice or WellChoice()
    cells = _make_cells(wells)
    paths = [path for path, _, _ in cells]
    if len(paths) <= ALL_READ:
        _read_all(arrangements, paths, choice)
    template = _find_template(arrangements, paths, choice, on_error)
    # A cell has room for the largest well that was read by now, which is only the
    # first one when a large plate is opened.
    shown = choice.acquisition, choice.beside
    known = [a for path in paths if (a := arrangements.read_before(path, *shown))]
    cell = cell or (
        max(math.ceil(a.size[0]) for a in known),
        max(math.ceil(a.size[1]) for a in known),
    )
    top = min(row for _, row, _ in cells)
    first_column = min(column for _, _, column in cells)
    tiles = WellCells(
        tuple(
            WellCell(path, ((row - top) * cell[0], (column - first_column) * cell[1]))
            for path, row, column in cells
        ),
        cell,
        arrangements,
        choice,
    )
    images = list(_list_images(arrangements, known, choice))
    model, levels = _lay_out_levels(template, tiles, images, on_error)
    # On the plate a well lies where its cell is; one well alone where its fields are.
    corner = (float(top * cell[0]), float(first_column * cell[1]))
    if wells is None or len(wells) == 1:
        arrangement = arrangements.read_well(template.well, *shown)
        corner = arrangement.corner
    multiscale = _move_corner(model.multiscale, template.placed.image, corner)
    pyramid = Pyramid(multiscale, levels, template.pyramid.problems)
    return MosaicPyramid(
        template.node, (template.well, template.placed.field.path), pyramid, tiles
    )


def share_cells(mosaics: Sequence[MosaicPyramid]) -> list[tuple[int, int]]:
    """Return the cells that mosaics need so that their wells lie over each other.

    Returns
    -------
    list
        Height and width for each mosaic, in voxels of its level 0: the largest of all
        cells, in the unit of the axes.
    """
    scales = [
        tuple(abs(n) for n in mosaic.pyramid.multiscale.levels[0].scale[-2:])
        for mosaic in mosaics
    ]
    largest = [
        max(
            mosaic.tiles.cell[axis] * scale[axis]
            for mosaic, scale in zip(mosaics, scales, strict=True)
        )
        for axis in (0, 1)
    ]
    # Not less than its own cell by rounding: a well would be cut.
    return [
        (
            max(mosaic.tiles.cell[0], round(largest[0] / scale[0])),
            max(mosaic.tiles.cell[1], round(largest[1] / scale[1])),
        )
        for mosaic, scale in zip(mosaics, scales, strict=True)
    ]


def _read_all(
    arrangements: ScreenArrangements, paths: Sequence[str | None], choice: WellChoice
) -> None:
    """Read wells and their labels: remote ones at the same time, local ones in turn."""

    def read_one_well(number: int) -> None:
        path = paths[number]
        arrangement = arrangements.read_well(path, choice.acquisition, choice.beside)
        for placed in arrangement.fields:
            if choice.inside:
                # Only to have it read: who needs the labels gets the error again.
                with suppress(OMEZarrError, OSError):
                    _open_image(arrangements, path, placed, choice).open_level(0)

    concurrency = AHEAD if _is_remote(arrangements) else 1
    share_work(iter(range(len(paths))), read_one_well, len(paths), concurrency)


def _is_remote(arrangements: ScreenArrangements) -> bool:
    return arrangements.screen.node.location.source.traits.is_remote


def _open_image(
    arrangements: ScreenArrangements,
    path: str | None,
    placed: PlacedField,
    choice: WellChoice,
) -> FieldImage:
    """Open the image that a mosaic shows: labels of an image, or the image itself."""
    if not choice.inside:
        return placed.image
    return arrangements.screen.open_image(path, placed.field.path, choice.inside)


@dataclass(frozen=True, slots=True)
class MosaicTemplate:
    """The image, or label image, that a mosaic is modelled on."""

    well: str | None
    placed: PlacedField
    node: Node
    pyramid: Pyramid


def _make_cells(wells: Sequence[MapWell] | None) -> list[tuple[str | None, int, int]]:
    if wells is None:
        return [(None, 0, 0)]
    return [(well.path, well.row, well.column) for well in wells]


def _find_template(
    arrangements: ScreenArrangements,
    paths: Sequence[str | None],
    choice: WellChoice,
    on_error: OnError | None,
) -> MosaicTemplate:
    """Open the first readable image."""
    reasons: list[str] = []
    failures = 0
    for number, path in enumerate(paths):
        # The first well has the labels in most plates; if not, wells are read ahead.
        if choice.inside and number % AHEAD == 1 and _is_remote(arrangements):
            _read_all(arrangements, paths[number : number + AHEAD], choice)
        arrangement = arrangements.read_well(
            path, choice.acquisition, choice.beside, first_levels=True
        )
        for placed in arrangement.fields:
            try:
                template = _open_template(arrangements, path, placed, choice, on_error)
            except (OMEZarrError, OSError) as error:
                reasons.append(str(error))
                continue
            # An array without axes is no picture.
            if template.pyramid.levels[0].shape:
                return template
        problem = arrangements.problems.get(path)
        if problem is not None:
            reasons.append(f"{path}: {problem}" if path else problem)
        failures += arrangement.passing and not arrangement.fields
        refusal = arrangement.refusal
        if refusal is not None and not choice.inside:
            raise refusal.make_copy()
        # A server that is down is not asked for hundreds of wells, each until a
        # timeout.
        if len(paths) > ALL_READ and failures >= MOST_FAILURES:
            break
    more = f" And {len(reasons) - MOST_REASONS} more." * (len(reasons) > MOST_REASONS)
    what = choice.inside or "image"
    msg = f"There is no {what} that can be read. {' '.join(reasons[:MOST_REASONS])}"
    raise UnsupportedError(msg.strip() + more)


def _open_template(
    arrangements: ScreenArrangements,
    path: str | None,
    placed: PlacedField,
    choice: WellChoice,
    on_error: OnError | None,
) -> MosaicTemplate:
    """Open the image of a field, with its levels."""
    image = _open_image(arrangements, path, placed, choice)
    node = image.node or read_node(image.location, image.zarr_format)
    arrays = image.open_levels()
    pyramid = open_pyramid(node, on_error=on_error, arrays=arrays)
    return MosaicTemplate(path, placed, node, pyramid)


def _lay_out_levels(
    template: MosaicTemplate,
    tiles: WellCells,
    images: Sequence[FieldImage],
    on_error: OnError | None,
) -> tuple[Pyramid, tuple[MosaicLevel, ...]]:
    """Make the levels of a mosaic, and the pyramid that they are modelled on."""
    # In this order: axes that other images have, then room along all axes, then levels
    # that are coarser than all images.
    completed = add_missing_axes(template.pyramid, images)
    bounds = _find_bounds(completed, images)
    size, cell = template.placed.size, tiles.cell
    far = (
        max(tile.corner[0] for tile in tiles.tiles) + cell[0],
        max(tile.corner[1] for tile in tiles.tiles) + cell[1],
    )
    model = add_coarse_levels(completed, far, size, bounds.dtype.itemsize)
    # From the coarsest on, since each level stands in for missing wells of finer ones.
    levels: list[MosaicLevel] = []
    for number in reversed(range(len(model.levels))):
        coarser = levels[-1] if levels else None
        levels.append(
            MosaicLevel.lay_out(tiles, bounds, model, number, size, on_error, coarser)
        )
    make_room(bounds.channel_count)
    return model, tuple(reversed(levels))


def _list_images(
    arrangements: ScreenArrangements,
    known: Sequence[WellArrangement],
    choice: WellChoice,
) -> Iterator[FieldImage]:
    """List the images of the mosaic that are open already."""
    for arrangement in known:
        for placed in arrangement.fields:
            if not choice.inside:
                yield placed.image
                continue
            # Reads nothing: labels that were not opened yet may be found later, and the
            # mosaic is opened again then.
            location = placed.image.location.join_path(choice.inside)
            label = arrangements.screen.opened_before(location.path)
            if label is not None:
                yield label


def _find_bounds(template: Pyramid, images: Sequence[FieldImage]) -> MosaicBounds:
    """Find the room for all planes, channels and values of the known images."""
    names = template.multiscale.axis_names
    lead = list(template.levels[0].shape[:-2])
    dtype = template.levels[0].dtype
    for image in images:
        array = image.opened_level
        if array is None:
            continue
        for i, name in enumerate(names[:-2]):
            axis_names = image.multiscale.axis_names
            if name in axis_names and len(axis_names) == array.ndim:
                lead[i] = max(lead[i], array.shape[axis_names.index(name)])
        joined = np.promote_types(dtype, array.dtype)
        # Of uint64 and int64 numpy makes float64, which no label can be.
        if joined.kind != "f" or "f" in (dtype.kind, array.dtype.kind):
            dtype = joined
    return MosaicBounds(names, tuple(lead), dtype)


def _move_corner(
    multiscale: Multiscale, image: FieldImage, corner: tuple[float, float]
) -> Multiscale:
    """Move all levels so that the mosaic begins where its first cell is.

    A negative scale mirrors the image in its cell, and not the plate.
    """
    first = image.multiscale.levels[0]

    def moved(level: Level, axis: int) -> float:
        away = level.translation[axis] - first.translation[axis]
        start = corner[axis] * abs(first.scale[axis])
        return start + math.copysign(1, level.scale[axis]) * away

    levels = tuple(
        replace(
            level,
            scale=(*level.scale[:-2], *map(abs, level.scale[-2:])),
            translation=(*level.translation[:-2], moved(level, -2), moved(level, -1)),
        )
        for level in multiscale.levels
    )
    return replace(multiscale, levels=levels)
