"""Common parts of the simulated pictures of cells that samples have.

Cells share their ground as neighbours do: every pixel belongs to the cell that is
nearest in units of that cell's own warped radius. All of it follows from a seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "KINDS",
    "Floats",
    "Integers",
    "PhantomPicture",
    "blur_transfer",
    "expose_picture",
    "make_noise",
    "renumber_cells",
    "soft_step",
]

Floats = NDArray[np.float32]
Integers = NDArray[np.int32]

KINDS = ("interphase", "mitotic", "apoptotic")
"""Classes of cells, by their code."""

OFFSET = 112.0  # of the camera with its dark current, in grey values


@dataclass(frozen=True, slots=True, eq=False)
class PhantomPicture:
    """Pixels and the truth about them.

    Attributes
    ----------
    channels
        DNA, actin and (2D) mitochondria as uint16, axes "tcyx" or "czyx".
    cells, nuclei
        Label values as int32, axes "tyx" or "zyx"; the nucleus of a cell has the
        cell's value; values are 1 to n.
    kinds
        Label value to one of `KINDS`.
    """

    channels: NDArray[np.uint16]
    cells: Integers
    nuclei: Integers
    kinds: dict[int, str]


def make_noise(
    shape: Sequence[int], sigma: Sequence[float], rng: np.random.Generator
) -> Floats:
    """Make periodic Gaussian noise of `shape`, smoothed by `sigma` pixels per axis."""
    white = rng.standard_normal(shape, np.float32)
    smooth = convolve_image(white, blur_transfer(shape, sigma))
    normal: Floats = ((smooth - smooth.mean()) / smooth.std()).astype(np.float32)
    return normal


def convolve_image(image: Floats, kernel: Floats) -> Floats:
    """Convolve with a kernel given by its `blur_transfer`; the image is periodic."""
    axes = range(image.ndim)
    spectrum = np.fft.rfftn(image, axes=axes) * kernel
    result = np.fft.irfftn(spectrum, image.shape, axes)
    return result.astype(np.float32)


def blur_transfer(
    shape: Sequence[int], sigma: Sequence[float], glow: float = 0.0
) -> Floats:
    """Return the Fourier transform of a Gaussian, and of a wide one for the glow.

    The wide Gaussian stands for light from out of focus.
    """

    def gaussian(widths: Sequence[float]) -> Floats:
        exponent = np.zeros((), np.float32)
        for axis, (n, width) in enumerate(zip(shape, widths, strict=True)):
            last = axis == len(shape) - 1
            frequency = np.fft.rfftfreq(n) if last else np.fft.fftfreq(n)
            term = (2 * np.pi * width * frequency) ** 2 / 2
            exponent = exponent[..., None] + term.astype(np.float32)
        return np.exp(-exponent)

    sharp = gaussian(sigma)
    if not glow:
        return sharp
    wide = [width * glow for width in sigma]
    return np.float32(0.86) * sharp + np.float32(0.14) * gaussian(wide)


def soft_step(value: Floats, width: float) -> Floats:
    """Return values from 0 to 1 around 0, changing within about four times `width`."""
    step: Floats = 1 / (1 + np.exp(-np.clip(value / np.float32(width), -30, 30)))
    return step


def expose_picture(
    light: Floats, sigma: Sequence[float], glow: float, rng: np.random.Generator
) -> NDArray[np.uint16]:
    """Simulate the exposure: blur, darker corners, and photon noise.

    `sigma` is the blur along each axis in pixels; a part of the light goes `glow`
    times as far.
    """
    # The Fourier transform is periodic: without margins, edges would glow over to the
    # other side.
    margins = [math.ceil(2.5 * glow * width) for width in sigma]
    padded = np.pad(light, [(m, m) for m in margins], mode="edge")
    seen = convolve_image(padded, blur_transfer(padded.shape, sigma, glow))
    seen = seen[tuple(slice(m, -m) for m in margins)]
    across = [np.linspace(-1, 1, n, dtype=np.float32) ** 2 for n in seen.shape[-2:]]
    # Vignetting: 10 % less light at each edge.
    seen *= 1 - 0.1 * (across[0][:, None] + across[1])
    np.clip(seen, 0, None, out=seen)
    # Variance of photons (1.6 per grey value) and of reading out the camera (60).
    grain = np.sqrt(1.6 * seen + 60) * rng.standard_normal(seen.shape, np.float32)
    counts = np.clip(seen + grain + OFFSET, 0, 65535)
    pixels: NDArray[np.uint16] = counts.astype(np.uint16)
    return pixels


def renumber_cells(
    labels: Integers, nuclei: Integers, kind: Integers
) -> dict[int, str]:
    """Give the visible cells the numbers 1 to n, in place; return the kind of each."""
    visible = np.unique(labels)
    visible = visible[visible > 0]
    table = np.zeros(len(kind) + 1, np.int32)
    table[visible] = np.arange(1, len(visible) + 1)
    labels[...] = table[labels]
    nuclei[...] = table[nuclei]
    return {int(table[old]): KINDS[kind[old - 1]] for old in visible}
