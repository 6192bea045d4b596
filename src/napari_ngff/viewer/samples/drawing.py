"""Draws cells as a fluorescence microscope shows them, in 2D and in 3D."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.special import expit

Floats = NDArray[np.float32]
Integers = NDArray[np.int32]
Places = NDArray[np.float64]

# By class of a cell: radius; half axes of the nucleus along the cell, across and along
# z, in radii; brightness of DNA and of actin.
KINDS = ("interphase", "mitotic", "apoptotic")
SIZES = np.array([1, 0.72, 0.5])
NUCLEI = np.array([[0.5, 0.4, 0.45], [0.15, 0.5, 0.5], [0.42, 0.4, 0.4]], np.float32)
CONDENSED = np.array([1, 2.3, 2.6], np.float32)
THICK = np.array([0.35, 0.9, 1.1], np.float32)


@dataclass(frozen=True, slots=True)
class Population:
    """The cells of a picture.

    Attributes
    ----------
    radius
        Of a typical cell, in pixels.
    density, mitotic, apoptotic
        Part of the places that are taken; part of the cells in that state; 0 to 1.
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
class CellPicture:
    """Channels of a picture, its label images, and the class of each label value.

    A layer has DNA, actin and mitochondria, a ball DNA and membranes; c is the first
    axis or the one after t. A nucleus has the value of its cell.
    """

    channels: NDArray[np.uint16]
    cells: Integers
    nuclei: Integers
    kinds: dict[int, str]

    def cut_part(self, corner: Sequence[int], shape: Sequence[int]) -> CellPicture:
        """Cut a part out of a layer."""
        part = tuple(slice(c, c + n) for c, n in zip(corner, shape, strict=True))
        channels = self.channels[:, *part]
        return CellPicture(channels, self.cells[part], self.nuclei[part], self.kinds)

    def number_cells(self) -> CellPicture:
        """Give the visible cells the values 1 to n."""
        visible = np.unique(self.cells[self.cells > 0])
        table = np.zeros(max(self.kinds) + 1, np.int32)
        table[visible] = np.arange(1, len(visible) + 1)
        kinds = {int(table[old]): self.kinds[int(old)] for old in visible}
        cells, nuclei = table[self.cells], table[self.nuclei]
        return CellPicture(self.channels, cells, nuclei, kinds)


def draw_cells(
    shape: Sequence[int],
    population: Population,
    seed: int,
    time: int = 0,
    depth: float = 1.0,
) -> CellPicture:
    """Draw a layer of cells ("yx"), or a ball of cells ("zyx").

    The same seed gives the same cells, which drift with `time`, the number of a frame.
    `depth` is the size of a voxel along z over that along y and x.
    """
    rng = np.random.default_rng(seed)
    voxel = np.array([depth, 1, 1])[-len(shape) :]
    centres = place_cells(voxel * shape, population, rng)
    odds = population.mitotic, population.apoptotic
    kinds = rng.choice(3, len(centres), p=[1 - sum(odds), *odds])
    brightness = rng.lognormal(0, 0.2, len(centres)).astype(np.float32)
    owner, ground = divide_ground(shape, voxel, centres, kinds, population, time, rng)
    light = brightness[owner] * expit((1 - ground[0]) / 0.015)
    if len(shape) == 3:  # light is scattered: deep sections are darker
        light *= np.geomspace(1, 0.4, shape[0], dtype=np.float32)[:, None, None]
    camera = np.random.default_rng([seed, time])
    stains = stain_cells(ground, kinds[owner], population)
    cells = np.where(ground[0] < 0.99, owner + 1, 0)
    return CellPicture(
        np.stack([expose_light(light * stain, voxel, camera) for stain in stains]),
        cells,
        np.where(ground[1] < 1, cells, 0),
        {number: KINDS[kind] for number, kind in enumerate(kinds, 1)},
    )


def draw_frames(
    count: int, shape: Sequence[int], population: Population, seed: int
) -> CellPicture:
    """Draw frames of a layer of drifting cells; t is the first axis."""
    frames = [draw_cells(shape, population, seed, time) for time in range(count)]
    return CellPicture(
        np.stack([one.channels for one in frames]),
        np.stack([one.cells for one in frames]),
        np.stack([one.nuclei for one in frames]),
        frames[0].kinds,
    )


def place_cells(
    extent: Places, population: Population, rng: np.random.Generator
) -> Places:
    """Choose places at random, but not too near to each other, "yx" or "zyx"."""
    is_ball, radius = len(extent) == 3, population.radius
    reach = extent * [0.5, 0.42, 0.42] if is_ball else extent / 2 + radius
    tries = min(16000, int(6 * np.prod(2 * reach / radius)) + 1)
    spots = rng.uniform(-1, 1, (tries, len(extent)))
    spots[0] = 0
    if is_ball:
        spots = spots[(spots**2).sum(1) < 1]
    spots *= reach
    gap, taken = (1.2 if is_ball else 1.35) * radius, list[int]()
    for i, spot in enumerate(spots):
        if (((spots[taken] - spot) ** 2).sum(1) > gap**2).all():
            taken.append(i)
    centres: Places = spots[taken]
    if not is_ball:
        # Whole patches are free, as in a culture; the middle never is.
        waves, phases = rng.normal(0, 0.3 / radius, (2, 6)), rng.uniform(0, 6, 6)
        patches = np.sin(centres @ waves + phases).sum(1)
        patches[0] = -9
        kept = max(1, round(population.density * len(centres)))
        centres = centres[patches.argsort()[:kept]]
    return centres + extent / 2


def divide_ground(
    shape: Sequence[int],
    voxel: Places,
    centres: Places,
    kinds: NDArray[np.int64],
    population: Population,
    time: int,
    rng: np.random.Generator,
) -> tuple[Integers, list[Floats]]:
    """Give each pixel to the cell that is nearest in units of the cell's radius.

    Returns
    -------
    owner
        Index of the cell.
    ground
        Distance from its centre, 1 at its outline; the same of its nucleus; distance
        from its long axis in radii; and noise, soft and fine, that moves with the cell.
    """
    n = len(centres)
    radii = population.radius * SIZES[kinds] * rng.normal(1, 0.11, n).clip(0.75, 1.25)
    nuclei = NUCLEI[kinds] * rng.normal(1.15 if len(shape) == 3 else 1, 0.05, (n, 1))
    angles, lengths = rng.uniform(0, 2 * np.pi, n), rng.uniform(1, 1.3, n)
    heading = np.stack([np.sin(angles), np.cos(angles)], 1)
    centres[:, -2:] += heading * (time * rng.uniform(0.04, 0.1, n) * radii)[:, None]
    grain = population.radius / voxel
    tile = np.ceil(12 * grain).astype(int) + 4
    noise = [make_noise(tile, width * grain, rng) for width in (0.3, 0.05)]
    corners = rng.integers(0, np.ceil(7 * grain).astype(int), (n, len(shape)))
    owner = np.zeros(shape, np.int32)
    second, *ground = np.full((6, *shape), 9, np.float32)
    for i, (centre, radius) in enumerate(zip(centres, radii, strict=True)):
        first = np.floor((centre - 1.6 * radius) / voxel).astype(int)
        stop = np.clip(np.ceil((centre + 1.6 * radius) / voxel).astype(int), 0, shape)
        start = np.clip(first, 0, stop)
        box = tuple(map(slice, start, stop))
        steps = zip(np.ogrid[box], voxel, centre, strict=True)
        *z, y, x = (((k * v - c) / radius).astype(np.float32) for k, v, c in steps)
        deep, (sine, cosine) = (z[0] if z else np.float32(0)), heading[i]
        along, across = cosine * x + sine * y, cosine * y - sine * x
        shift = corners[i] - first
        soft, fine = (one[*map(slice, start + shift, stop + shift)] for one in noise)
        far = np.hypot(np.hypot(along / lengths[i], across * lengths[i]), deep)
        a, b, c = nuclei[i]
        core = np.hypot(np.hypot(along / a, across / b), deep / c) * (1 + 0.05 * soft)
        far *= 1 + 0.1 * soft
        near = ground[0][box]
        mine = far < near
        second[box] = np.where(mine, near, np.minimum(second[box], far))
        drawn = i, far, core, across, soft, fine
        for whole, part in zip((owner, *ground), drawn, strict=True):
            np.copyto(whole[box], part, where=mine)
    ground[0] = np.maximum(ground[0], ground[0] / second)  # 1 also at a neighbour
    return owner, ground


def stain_cells(
    ground: Sequence[Floats], kind: NDArray[np.int64], population: Population
) -> list[Floats]:
    """Return the light of each channel, in grey values."""
    edge, core, across, soft, fine = ground
    healthy, body = kind == 0, np.clip(1 - edge**2, 0, 1)
    nucleus = expit((1 - core) / 0.045)
    nucleoli = healthy * expit((soft - 1.4) / 0.12)
    dna = nucleus * (0.85 + 0.1 * fine) * (1 - 0.4 * nucleoli) * CONDENSED[kind]
    fibres = np.clip(np.sin(25 * across + 2 * soft), 0, 1) ** 3 * np.sqrt(body)
    fibres *= population.fibres * healthy * (1 - 0.6 * nucleus) * (0.9 + 0.3 * soft)
    rim = np.exp(-(((edge - 0.93) / 0.06) ** 2)) * np.clip(0.8 + 0.5 * soft, 0.2, None)
    actin = THICK[kind] * body + fibres + rim
    if edge.ndim == 3:
        return [2600 * dna, 1500 * actin]
    # The zero lines of noise are threads.
    threads = np.exp(-((fine / 0.36) ** 2)) * expit(2 * soft + 1.2) * (1 - nucleus)
    threads *= healthy * np.exp(-(((core - 1.15) / 0.95) ** 2))
    mitochondria = population.mitochondria * (threads + 0.04 * body)
    return [2600 * dna, 1500 * actin, 4000 * mitochondria]


def expose_light(
    light: Floats, voxel: Places, rng: np.random.Generator
) -> NDArray[np.uint16]:
    """Blur light, with a glow around what is bright, and add the noise of a camera."""
    sharp, glow = (gaussian_filter(light, s / voxel, truncate=3) for s in (0.9, 9.0))
    seen = 0.86 * sharp + 0.14 * glow
    # Variance of photons (1.6 per grey value) and of reading out the camera (60).
    seen += np.sqrt(1.6 * seen + 60) * rng.standard_normal(seen.shape, np.float32)
    pixels: NDArray[np.uint16] = (seen + 112).clip(0, 65535).astype(np.uint16)
    return pixels


def make_noise(shape: Places, sigma: Places, rng: np.random.Generator) -> Floats:
    """Make noise of mean 0 and variance 1 with grains of `sigma` pixels."""
    noise = gaussian_filter(rng.standard_normal(shape, np.float32), sigma)
    normal: Floats = (noise - noise.mean()) / noise.std()
    return normal
