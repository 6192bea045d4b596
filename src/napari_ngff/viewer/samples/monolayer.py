"""Drawings of cells on the bottom of a well, drifting from frame to frame.

Nuclei, actin fibres and mitochondria are textures in the coordinates of their cell, so
that they move with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from napari_ngff.viewer.samples.phantom import (
    PhantomPicture,
    expose_picture,
    make_noise,
    renumber_cells,
    soft_step,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from napari_ngff.viewer.samples.phantom import Floats, Integers

__all__ = ["Population", "draw_field"]

SIDE = 512  # of a texture tile in pixels
GRAIN = 36.0  # radius of a cell, in pixels of a texture tile


@dataclass(frozen=True, slots=True)
class Population:
    """What lives in a field.

    Attributes
    ----------
    radius
        Of a typical cell, in pixels.
    density
        Part of the places for a cell that are taken, 0 to 1.
    mitotic, apoptotic
        Part of the cells in that state, 0 to 1.
    fibres, mitochondria
        Brightness of these, 1 for healthy cells.
    """

    radius: float = 36.0
    density: float = 0.85
    mitotic: float = 0.05
    apoptotic: float = 0.02
    fibres: float = 1.0
    mitochondria: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class CellShapes:
    """One entry per cell; lengths in pixels, angles in radians."""

    centre: Floats  # (n, 2) as y, x
    drift: Floats  # (n, 2) per frame
    angle: Floats
    spin: Floats  # per frame
    radius: Floats
    length: Floats  # long over mean diameter
    brightness: Floats
    nucleus: Floats  # (n, 4): centre u, v and half axes along u, v, in radii
    ripple: Floats  # (n, 3, 2): amplitude and phase of the outline's harmonics
    origin: Integers  # (n, 2): where in the texture tiles
    kind: Integers


@dataclass(frozen=True, slots=True, eq=False)
class CellGround:
    """To whom each pixel belongs, and where in that cell it is; all "yx"."""

    owner: Integers  # index of the cell; 0 also outside
    near: Floats  # distance from the owner's centre, 1 at its free outline
    edge: Floats  # 0 in the centre, 1 at the outline or at the neighbour
    u: Floats  # along the cell, in radii
    v: Floats  # across


def draw_field(
    shape: tuple[int, int, int], population: Population, seed: int
) -> PhantomPicture:
    """Draw a monolayer of drifting cells.

    Parameters
    ----------
    shape
        Frames, height and width: "tyx".
    population
        What lives there.
    seed
        The same seed gives the same picture.
    """
    rng = np.random.default_rng(seed)
    frames, *size = shape
    tiles = NoiseTiles.generate_tiles(np.random.default_rng(7))
    cells = scatter_cells((size[0], size[1]), population, rng)
    channels = np.empty((frames, 3, *size), np.uint16)
    labels = np.empty((frames, *size), np.int32)
    nuclei = np.empty_like(labels)
    for t in range(frames):
        ground = divide_ground(cells, (size[0], size[1]), t, tiles)
        core = nuclear_distance(ground, cells, tiles)
        inside = (ground.near < 1) & (ground.edge < 0.99)
        labels[t] = np.where(inside, ground.owner + 1, 0)
        nuclei[t] = np.where(inside & (core < 1), ground.owner + 1, 0)
        stains = stain_cells(ground, core, cells, tiles, population)
        for c, light in enumerate(stains):
            channels[t, c] = expose_picture(light, (1.0, 1.0), 10.0, rng)
    kinds = renumber_cells(labels, nuclei, cells.kind)
    return PhantomPicture(channels, labels, nuclei, kinds)


@dataclass(frozen=True, slots=True, eq=False)
class NoiseTiles:
    """Periodic noise, mean 0 and variance 1, of `SIDE` by `SIDE` pixels."""

    soft: Floats
    spots: Floats
    grain: Floats
    fibres: Floats
    threads: Floats

    @classmethod
    def generate_tiles(cls, rng: np.random.Generator) -> NoiseTiles:
        """Make all tiles."""
        square = (SIDE, SIDE)
        return cls(
            soft=make_noise(square, (16, 16), rng),
            spots=make_noise(square, (3.2, 3.2), rng),
            grain=make_noise(square, (1.6, 1.6), rng),
            fibres=make_noise(square, (0.9, 13), rng),
            threads=make_noise(square, (2.1, 2.1), rng),
        )


def scatter_cells(
    size: tuple[int, int], population: Population, rng: np.random.Generator
) -> CellShapes:
    """Place cells at random so that none covers another, and give them their shapes."""
    radius = population.radius
    reach = np.array(size) + 2 * radius
    # Six for each square of one radius: enough to fill the ground.
    tries = int(6 * reach.prod() / radius**2)
    spots = rng.uniform(0, reach, (tries, 2)) - radius
    # 14 % of variation between cells.
    radii = radius * rng.normal(1, 0.14, tries).clip(0.7, 1.4)
    taken: list[int] = []
    for i in range(tries):
        gaps = np.linalg.norm(spots[taken] - spots[i], axis=1)
        if (gaps > 0.7 * (radii[taken] + radii[i])).all():
            taken.append(i)
    # Whole patches are free, as in a culture, rather than single places.
    patches = make_noise((64, 64), (5, 5), rng)
    row, column = (spots[taken] / reach * 63).astype(int).clip(0, 63).T
    rank = np.argsort(np.argsort(patches[row, column] + rng.normal(0, 0.5, len(taken))))
    keep = np.array(taken)[rank < max(1, round(population.density * len(taken)))]
    # Mitotic and apoptotic cells are round and smaller.
    rounded = population.mitotic + population.apoptotic
    odds = [1 - rounded, population.mitotic, population.apoptotic]
    kinds = rng.choice(3, len(keep), p=odds)
    shrink = np.array([1.0, 0.72, 0.5])[kinds]
    return shape_cells(spots[keep], radii[keep] * shrink, kinds, rng)


def shape_cells(
    centre: NDArray[np.float64],
    radius: NDArray[np.float64],
    kind: NDArray[np.int64],
    rng: np.random.Generator,
) -> CellShapes:
    """Draw shape, brightness and movement of each cell at random."""
    n = len(centre)
    round_one = kind > 0
    angle = rng.uniform(0, np.pi, n)
    heading = np.stack([np.sin(angle), np.cos(angle)], 1)
    speed = rng.normal(0, 0.07, (n, 1)) * radius[:, None]
    wide = rng.normal(0.43, 0.03, n)
    ratio = rng.uniform(1.08, 1.38, n)
    nucleus = np.stack(
        [
            rng.normal(0, 0.06, n),
            rng.normal(0, 0.04, n),
            np.choose(kind, [wide * np.sqrt(ratio), 0.15, 0.42]),
            np.choose(kind, [wide / np.sqrt(ratio), 0.5, 0.4]),
        ],
        1,
    )
    amplitude = np.array([0.09, 0.12, 0.08]) * rng.uniform(0.3, 1.4, (n, 3))
    amplitude[round_one] *= 0.3
    phase = rng.uniform(0, 2 * np.pi, (n, 3))
    dim = rng.lognormal(0, 0.22, n)
    values = {
        "centre": centre,
        "drift": heading * speed,
        "angle": angle,
        "spin": rng.normal(0, 0.03, n),
        "radius": radius,
        "length": np.where(round_one, 1.0, rng.uniform(1.05, 1.35, n)),
        "brightness": dim,
        "nucleus": nucleus,
        "ripple": np.stack([amplitude, phase], 2),
    }
    return CellShapes(
        **{key: value.astype(np.float32) for key, value in values.items()},
        origin=rng.integers(0, SIDE, (n, 2), np.int32),
        kind=kind.astype(np.int32),
    )


def divide_ground(
    cells: CellShapes, size: tuple[int, int], t: int, tiles: NoiseTiles
) -> CellGround:
    """Divide the ground among the cells in frame `t`."""
    y, x = np.indices(size, np.float32)
    indices = (np.indices(size) // 2) % SIDE
    # Noise bends the coordinates, so that borders between cells are not straight.
    pull = 0.11 * float(np.median(cells.radius))
    y += pull * tiles.soft[indices[0], indices[1]]
    x += pull * tiles.soft[indices[1], indices[0]]
    # Distances in radii of the nearest cell; 9 is farther than any cell reaches.
    near = np.full(size, 9, np.float32)
    second, u, v = near.copy(), np.zeros_like(near), np.zeros_like(near)
    owner = np.zeros(size, np.int32)
    for i in range(len(cells.radius)):
        cy, cx = cells.centre[i] + t * cells.drift[i]
        r, reach = cells.radius[i], 2 * cells.radius[i]
        rows = slice(max(0, int(cy - reach)), max(0, int(cy + reach)))
        columns = slice(max(0, int(cx - reach)), max(0, int(cx + reach)))
        part = rows, columns
        dy, dx = (y[part] - cy) / r, (x[part] - cx) / r
        turn = cells.angle[i] + t * cells.spin[i]
        sine, cosine = np.float32(np.sin(turn)), np.float32(np.cos(turn))
        along, across = cosine * dx + sine * dy, cosine * dy - sine * dx
        bearing = np.arctan2(across, along)
        outline = np.float32(1)
        for order, (amplitude, phase) in zip((2, 3, 5), cells.ripple[i], strict=True):
            outline = outline + amplitude * np.cos(order * bearing + phase)
        far = np.hypot(along / cells.length[i], across * cells.length[i]) / outline
        mine = far < near[part]
        second[part] = np.where(mine, near[part], np.minimum(second[part], far))
        for whole, drawn in ((near, far), (u, along), (v, across), (owner, i)):
            whole[part] = np.where(mine, drawn, whole[part])
    return CellGround(owner, near, np.maximum(near, near / second), u, v)


def nuclear_distance(
    ground: CellGround, cells: CellShapes, tiles: NoiseTiles
) -> Floats:
    """Return the distance from the centre of the owner's nucleus, 1 at its outline."""
    # Centre and half axes of the nucleus of the cell that owns each pixel, "yx" each.
    u, v, long, wide = np.moveaxis(cells.nucleus[ground.owner], -1, 0)
    dent = 1 + 0.05 * tiles.soft.take(texture_index(ground, cells))
    core: Floats = np.hypot((ground.u - u) / long, (ground.v - v) / wide) * dent
    return core


def texture_index(ground: CellGround, cells: CellShapes, zoom: float = 1.0) -> Integers:
    """Return the flat index into a texture tile, in coordinates of each cell, "yx"."""
    scale = np.float32(GRAIN * zoom)
    row = (ground.v * scale).astype(np.int32) + cells.origin[:, 0].take(ground.owner)
    column = (ground.u * scale).astype(np.int32) + cells.origin[:, 1].take(ground.owner)
    return (row % SIDE) * np.int32(SIDE) + column % SIDE


def stain_cells(
    ground: CellGround,
    core: Floats,
    cells: CellShapes,
    tiles: NoiseTiles,
    population: Population,
) -> tuple[Floats, Floats, Floats]:
    """Return light of DNA, actin and mitochondria before the optics, in grey values."""
    kind = cells.kind[ground.owner]
    inside = soft_step(1 - ground.edge, 0.015) * (ground.near < 1.2)
    bright = cells.brightness[ground.owner] * inside
    texels = texture_index(ground, cells)
    soft = tiles.soft.take(texels)
    body = np.clip(1 - ground.edge**2, 0, 1)

    chromatin = 0.8 + 0.1 * tiles.grain.take(texels) + 0.1 * soft
    nucleoli = soft_step(tiles.spots.take(texels) - 1.5, 0.12)
    # Nucleoli have little DNA; they dissolve in mitosis.
    chromatin = np.where(kind == 0, chromatin * (1 - 0.45 * nucleoli), chromatin)
    condensed = np.array([1, 2.3, 2.6], np.float32)[kind]
    dna = 2600 * bright * soft_step(1 - core, 0.045) * chromatin * condensed

    bent = replace(ground, v=ground.v + 0.05 * soft + 0.12 * ground.u**2)
    fibres = np.clip(tiles.fibres.take(texture_index(bent, cells)) + 0.2, 0, None)
    fibres = fibres**1.5 * population.fibres * (kind == 0)
    fibres *= np.sqrt(body) * np.clip(0.65 + 0.45 * soft, 0.1, None)
    fibres *= 1 - 0.6 * soft_step(1 - core, 0.1)  # they pass below the nucleus
    ruffle = np.clip(
        tiles.soft.take(texture_index(ground, cells, 1.7)) + 0.3, 0.12, None
    )
    rim = ruffle * np.exp(-(((ground.edge - 0.94) / 0.06) ** 2))
    thick = np.array([0.3, 0.9, 1.1], np.float32)[kind]
    actin = 1500 * bright * (thick * body + 0.6 * fibres + 0.7 * rim)

    threads = np.exp(-((tiles.threads.take(texels) / 0.36) ** 2))
    threads *= soft_step(
        tiles.spots.take(texture_index(ground, cells, 0.7)) + 0.35, 0.25
    )
    ring = soft_step(core - 1.05, 0.06) * np.exp(-(((core - 1.15) / 0.95) ** 2))
    diffuse = np.where(kind == 0, 0.06, 0.5) * body
    mitochondria = 4000 * bright * np.clip(0.8 + 0.35 * soft, 0.1, None)
    mitochondria *= threads * ring * (kind == 0) + 0.25 * diffuse
    return dna, actin, mitochondria * population.mitochondria
