"""Drawings of a ball of cells as a stack of optical sections."""

from __future__ import annotations

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

__all__ = ["draw_spheroid"]


def draw_spheroid(
    shape: tuple[int, int, int], spacing: tuple[float, float, float], seed: int
) -> PhantomPicture:
    """Draw a ball of cells that fills the stack; it gets dimmer with depth.

    Parameters
    ----------
    shape, spacing
        Voxels and their size along "zyx", the latter in any one unit; 13 cells
        lie across the smaller of height and width.
    seed
        The same seed gives the same picture: DNA and membranes.
    """
    rng = np.random.default_rng(seed)
    extent = np.array(shape) * spacing
    radius = float(extent[1:].min()) / 26
    centres = fill_ball(extent * [0.5, 0.42, 0.42], 1.5 * radius, rng)
    kind = rng.choice(3, len(centres), p=[0.93, 0.05, 0.02])
    owner, core, near, edge = divide_volume(shape, spacing, centres, radius, rng)
    inside = near < 1
    labels = np.where(inside, owner + 1, 0)
    size = np.array([0.62, 0.48, 0.4], np.float32)[kind][owner]
    bright = rng.lognormal(0, 0.2, len(centres)).astype(np.float32)
    bright *= np.array([1, 2.2, 2.6], np.float32)[kind]
    width = [0.05 * radius / s for s in spacing]
    chromatin = 0.85 + 0.22 * make_noise(shape, [3 * w for w in width], rng)
    dna = 2600 * bright[owner] * chromatin * soft_step(size - core, 0.04)
    membrane = np.exp(-(((edge - 0.98) / 0.09) ** 2)) + 0.12 * np.clip(1 - edge, 0, 1)
    # Light is scattered: deep sections are darker.
    depth = np.exp(-0.9 * np.linspace(0, 1, shape[0], dtype=np.float32))
    # A microscope resolves less along z.
    blur = [1.6 * width[0], width[1], width[2]]
    channels = np.stack(
        [
            expose_picture(light * inside * depth[:, None, None], blur, 9.0, rng)
            for light in (dna, 1900 * membrane)
        ]
    )
    nuclei = np.where(inside & (core < size), labels, 0).astype(np.int32)
    labels = labels.astype(np.int32)
    kinds = renumber_cells(labels, nuclei, kind.astype(np.int32))
    return PhantomPicture(channels, labels, nuclei, kinds)


def fill_ball(
    half: NDArray[np.float64], gap: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Places "zyx" in an ellipsoid of half axes `half`, at least `gap` apart."""
    spots = rng.uniform(-1, 1, (12000, 3))
    spots = spots[(spots**2).sum(1) < 1] * half
    taken: list[int] = []
    for i, spot in enumerate(spots):
        if (((spots[taken] - spot) ** 2).sum(1) > gap**2).all():
            taken.append(i)
    places: NDArray[np.float64] = spots[taken]
    return places


def divide_volume(
    shape: tuple[int, int, int],
    spacing: tuple[float, float, float],
    centres: NDArray[np.float64],
    radius: float,
    rng: np.random.Generator,
) -> tuple[Integers, Floats, Floats, Floats]:
    """Return the owner of each voxel, and distances from its centre and its edge.

    As `monolayer.divide_ground` does it, in radii and around the middle of the volume.
    """
    grid = [
        ((np.arange(n) - (n - 1) / 2) * s / radius).astype(np.float32)
        for n, s in zip(shape, spacing, strict=True)
    ]
    dent = 1 + 0.09 * make_noise(shape, [0.35 * radius / s for s in spacing], rng)
    near = np.full(shape, 9, np.float32)
    second, core = near.copy(), near.copy()
    owner = np.zeros(shape, np.int32)
    swell = rng.normal(1.12, 0.06, len(centres))
    for i, centre in enumerate(centres / radius):
        spans = [
            np.searchsorted(g, (c - 1.7, c + 1.7))
            for g, c in zip(grid, centre, strict=True)
        ]
        part = tuple(slice(*span) for span in spans)
        z, y, x = (
            (g[p] - c) / swell[i] for g, p, c in zip(grid, part, centre, strict=True)
        )
        plain = np.sqrt(z[:, None, None] ** 2 + y[:, None] ** 2 + x**2)
        plain = plain.astype(np.float32)
        far = plain * dent[part]
        plain = plain + np.float32(0.5) * (far - plain)
        mine = far < near[part]
        second[part] = np.where(mine, near[part], np.minimum(second[part], far))
        for whole, drawn in ((near, far), (core, plain), (owner, i)):
            whole[part] = np.where(mine, drawn, whole[part])
    return owner, core, near, np.maximum(near, near / second)
