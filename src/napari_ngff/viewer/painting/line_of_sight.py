"""Finds the first visible voxel of labels along a line of sight in 3D.

napari looks at points of the line, and takes any label but the background. Here each
voxel that the line crosses counts, unless it is drawn transparent. Coordinates are
those of level 0, from the outer edges of the first voxels on.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.viewer.private.napari_layers import shown_axes, slicing_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from napari_ngff.viewer.painting.screen_part import ScreenPart

TILE = 32
"""Side of the cubes that are kept of a picture before a stroke changes them."""

SHORTEST = 1e-9
"""Part of a voxel below which a line does not count as crossing it."""

CLOSEST = 0.25
"""Least distance of two lines between which another one is looked along, in voxels."""


@dataclass(frozen=True, slots=True, eq=False)
class SightLine:
    """A line of sight through a layer, without ends.

    Attributes
    ----------
    point
        Any point of it, on all axes of the layer.
    way
        Its direction, away from the eye; 0 along axes that are not displayed.
    """

    point: Any
    way: Any

    @classmethod
    def of_event(cls, layer: Any, event: Any) -> SightLine:
        """Find the line of sight through the mouse."""
        position = np.asarray(event.position, float)
        further = position + np.asarray(event.view_direction, float)
        point = np.asarray(layer.world_to_data(position), float)
        way = np.asarray(layer.world_to_data(further), float) - point
        hidden = [axis not in shown_axes(layer) for axis in range(len(way))]
        # napari counts from the middle of the first voxel.
        return cls(point + 0.5, np.where(hidden, 0.0, way))

    def move_to(self, other: SightLine, share: float) -> SightLine:
        """Return a line between this one and another."""
        return SightLine(
            self.point + share * (other.point - self.point),
            self.way + share * (other.way - self.way),
        )

    def distance_to(self, other: SightLine, weights: Any) -> float:
        """Measure how far another line is, across this one.

        Parameters
        ----------
        weights
            Size of a voxel along each axis; 0 along those that are not displayed.
        """
        apart, way = (other.point - self.point) * weights, self.way * weights
        along = way / np.linalg.norm(way)
        return float(np.linalg.norm(apart - (apart @ along) * along))


@dataclass(frozen=True, slots=True, eq=False)
class VoxelHit:
    """The first visible voxel along a line.

    Attributes
    ----------
    label
        Its value at the level that is drawn.
    voxel
        The voxel of level 0 where the line enters it, on all axes of the layer.
    block
        The voxels of level 0 that it stands for: start and stop for each axis.
    """

    label: Any
    voxel: Any
    block: tuple[tuple[int, int], ...]


def crossed_voxels(start: Any, way: Any, shape: Any) -> tuple[Any, Any]:
    """Find all voxels that a line crosses in a box, from the eye on.

    Parameters
    ----------
    start, way
        A point of the line and its direction, in voxels from the edge of the first one.
    shape
        Of the box.

    Returns
    -------
    tuple
        Voxels, of shape (voxels, axes); and where the line enters each, as a multiple
        of `way` from `start`.
    """
    nothing = np.empty((0, len(shape)), np.int64), np.empty(0)
    start, way = np.asarray(start, float), np.asarray(way, float)
    moves = way != 0
    inside = (start >= 0) & (start < shape)
    if not moves.any() or not inside[~moves].all():
        return nothing
    ends = np.sort(
        [-start[moves] / way[moves], (shape - start)[moves] / way[moves]], axis=0
    )
    enter, leave = ends[0].max(), ends[1].min()
    if not enter < leave:
        return nothing
    # Between two crossings of faces a line is inside of one voxel.
    crossings = [np.array([enter, leave])]
    for axis in np.flatnonzero(moves):
        at = np.sort(start[axis] + np.array([enter, leave]) * way[axis])
        faces = np.arange(np.ceil(at[0]), np.floor(at[1]) + 1)
        crossings.append((faces - start[axis]) / way[axis])
    times = np.clip(np.sort(np.concatenate(crossings)), enter, leave)
    times = times[np.diff(times, prepend=-np.inf) * np.abs(way).max() > SHORTEST]
    times = np.append(times[times < leave], leave)
    middles = start + ((times[:-1] + times[1:]) / 2)[:, None] * way
    voxels = np.clip(np.floor(middles).astype(np.int64), 0, np.asarray(shape) - 1)
    return voxels, times[:-1]


@dataclass(frozen=True, slots=True, eq=False)
class DrawnSurface:
    """Labels as they are drawn in 3D, or were drawn when a stroke began.

    Attributes
    ----------
    part
        The level, and the part of it, that is drawn.
    raw, view
        Labels of the part, and what the graphics card has of them; on displayed axes.
    colormap
        Of the labels.
    kept
        Cubes of both as they were before they were changed, by their place.
    """

    part: ScreenPart
    raw: Any
    view: Any
    colormap: Any
    kept: dict[tuple[int, ...], tuple[Any, Any]] = field(default_factory=dict)

    @classmethod
    def of_layer(cls, layer: Any) -> DrawnSurface | None:
        """Take what a layer draws now; None where that is nothing."""
        state = slicing_of(layer)
        part, (raw, view) = state.screen_part(), state.pictures
        if part is None or len(part.displayed) != 3 or raw.shape != view.shape:
            return None
        sides = [part.box[axis][1] - part.box[axis][0] for axis in part.displayed]
        # napari asks for values in a thread of its own, also between two pictures.
        return cls(part, raw, view, layer.colormap) if raw.shape == (*sides,) else None

    def is_place_of(self, other: DrawnSurface) -> bool:
        """Return whether another surface is on the same axes, at the same time."""
        here, there = self.part, other.part
        if here.displayed != there.displayed:
            return False
        # Of two levels, only those axes can differ that are not displayed.
        return all(
            here.level.grid.block_sample(axis, here.box[axis][0])
            == there.level.grid.block_sample(axis, there.box[axis][0])
            for axis in range(len(here.box))
            if axis not in here.displayed
        )

    def keep(self, raw: Any, part: tuple[slice, ...]) -> None:
        """Keep a part of this picture that is about to be changed; not of another."""
        if raw is not self.raw:
            return
        for place in product(*map(tiles_of, part)):
            if place not in self.kept:
                cube = tuple(slice(at * TILE, (at + 1) * TILE) for at in place)
                self.kept[place] = self.raw[cube].copy(), self.view[cube].copy()

    def find_voxel(self, line: SightLine) -> VoxelHit | None:
        """Find the first visible voxel along a line; None where there is none."""
        axes, grid = list(self.part.displayed), self.part.level.grid
        shares = np.array([grid.sizes[axis] / grid.full[axis] for axis in axes])
        first = np.array([self.part.box[axis][0] for axis in axes])
        start, way = line.point[axes] * shares - first, line.way[axes] * shares
        voxels, times = crossed_voxels(start, way, np.array(self.raw.shape))
        labels, drawn = self.read_voxels(voxels)
        number = first_shown(labels, drawn, self.colormap)
        if number is None:
            return None
        entered = line.point + times[number] * line.way
        # Along the other axes as in 2D.
        entered = np.where(line.way == 0, np.round(line.point - 0.5), np.floor(entered))
        block = [(int(at), int(at) + 1) for at in entered]
        for axis, index in zip(axes, voxels[number] + first, strict=True):
            low = int(grid.block_start(axis, int(index)))
            high = int(grid.block_start(axis, int(index) + 1))
            block[axis] = low, high
            # Where it enters lies on a face, between two voxels.
            entered[axis] = min(max(entered[axis], low), high - 1)
        return VoxelHit(labels[number], entered, tuple(block))

    def read_voxels(self, voxels: Any) -> tuple[Any, Any]:
        """Read voxels of the picture: labels, and what the graphics card has."""
        index = tuple(voxels.T)
        labels, drawn = self.raw[index], self.view[index]
        if self.kept and len(voxels):
            places = voxels // TILE
            # A line is in one cube for a while.
            changes = np.flatnonzero((np.diff(places, axis=0) != 0).any(axis=1)) + 1
            for run in np.split(np.arange(len(voxels)), changes):
                cube = self.kept.get(tuple(places[run[0]].tolist()))
                if cube is not None:
                    inside = tuple((voxels[run] % TILE).T)
                    labels[run], drawn[run] = cube[0][inside], cube[1][inside]
        return labels, drawn


class StrokeSurface:
    """What was drawn in 3D when a stroke began, until the stroke ends.

    The paint of the stroke itself would lift the brush towards the eye, and what it
    erases would let the brush sink.
    """

    def __init__(self) -> None:
        self._surface: DrawnSurface | None = None

    def find(self, layer: Any) -> DrawnSurface | None:
        """Return what a layer drew at the first call of a stroke; None for nothing."""
        drawn, kept = DrawnSurface.of_layer(layer), self._surface
        if drawn is None or kept is None or not kept.is_place_of(drawn):
            self._surface = drawn
        return None if drawn is None else self._surface

    def keep(self, raw: Any, part: tuple[slice, ...]) -> None:
        """Keep a part of a picture that is about to be changed."""
        if self._surface is not None:
            self._surface.keep(raw, part)

    @contextmanager
    def until_end(self) -> Iterator[None]:
        """Forget what was drawn when the stroke ends, however that happens."""
        try:
            yield
        finally:
            self._surface = None


def tiles_of(part: slice) -> range:
    """Return the numbers of the cubes that a slice meets along one axis."""
    return range(part.start // TILE, -(-part.stop // TILE))


def first_shown(labels: Any, drawn: Any, colormap: Any) -> int | None:
    """Return the index of the first label that has a colour; None without one."""
    # The graphics card takes 0 for the background, whatever colour that has.
    candidates = np.flatnonzero(drawn)
    if not len(candidates):
        return None
    values, inverse = np.unique(labels[candidates], return_inverse=True)
    shown = np.asarray(colormap.map(values))[:, 3] > 0
    shown &= values != colormap.background_value
    found = candidates[shown[inverse]]
    return int(found[0]) if len(found) else None


def is_drawn(label: int, colormap: Any) -> bool:
    """Return whether a label has a colour."""
    return first_shown(np.array([label]), np.ones(1), colormap) is not None


def lines_between(
    before: SightLine, line: SightLine, count: int
) -> Iterator[SightLine]:
    """Give lines at equal distances from one to another, without the first."""
    for number in range(1, count):
        yield before.move_to(line, number / count)
    yield line
