"""Images, labels and plates that are read slowly, to walk over; for tests."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zarr
from slow_codec import SlowCodec

from plates import write_image, write_plate
from unreliable import Handler

DELAY = 0.004
"""Seconds that each chunk takes."""

LEVELS = 3


class SlowHandler(Handler):
    def do_GET(self):
        time.sleep(DELAY)
        super().do_GET()


def image_pixels(axes, sizes, level, number=0):
    """Values that tell their place, the level and the number of the image."""
    steps = [2**level if axis in "yx" else 1 for axis in axes]
    spans = [slice(0, n, step) for n, step in zip(sizes, steps, strict=True)]
    weights = {"t": 9001, "c": 17011, "z": 997, "y": 3, "x": 1}
    places = np.mgrid[tuple(spans)]
    values = sum(weights[axis] * at for axis, at in zip(axes, places, strict=True))
    return (values + 2003 * level + 401 * number + 1).astype("uint16")


def label_pixels(axes, sizes, level, number=0):
    """Blocks of 16 x 16 pixels, of other values in each plane and level."""
    steps = [2**level if axis in "yx" else 1 for axis in axes]
    spans = [slice(0, n, step) for n, step in zip(sizes, steps, strict=True)]
    weights = {"t": 5000, "z": 400, "y": 20, "x": 1}
    values = 1 + 50_000 * level + 1000 * number
    for axis, at in zip(axes, np.mgrid[tuple(spans)], strict=True):
        values = values + weights[axis] * (at // 16 if axis in "yx" else at)
    return values.astype("uint32")


def write_chunks(folder, pixels, axes, codec=None):
    """Write a level in chunks of one plane: small ones, fewer where zarr reads them."""
    sides = {"y": 32, "x": 48} if codec is None else {"y": 96, "x": 128}
    chunks = [sides.get(axis, 1) for axis in axes]
    form = {} if codec is None else {
        "zarr_format": 2, "compressors": codec,
        "chunk_key_encoding": {"name": "v2", "separator": "/"},
    }  # fmt: skip
    zarr.create_array(folder, data=pixels, chunks=chunks, overwrite=True, **form)


def write_pyramid(folder, axes, sizes, codec=None, label_axes="", number=0):
    """Write an image, and its labels if they have axes."""
    names = ("cells",) if label_axes else ()
    small = np.zeros([8] * len(axes), "uint16")
    write_image(folder, small, 3 if codec is None else 2, axes, LEVELS, labels=names)
    kinds = [(folder, axes, image_pixels)]
    if label_axes:
        at = folder / "labels" / "cells"
        small = np.zeros([8] * len(label_axes), "uint32")
        shutil.rmtree(at)
        write_image(at, small, 3, label_axes, LEVELS, label={})
        kinds.append((at, label_axes, label_pixels))
    by_name = dict(zip(axes, sizes, strict=True))
    for place, names, values in kinds:
        shape = [by_name[axis] for axis in names]
        for level in range(LEVELS):
            pixels = values(names, shape, level, number)
            write_chunks(place / str(level), pixels, names, codec)


def write_fields(root, labelled=True):
    """Write a plate of two wells with two fields each, in chunks."""
    names = ("cells",) if labelled else ()
    write_plate(
        root, grid=(1, 2), fields=2, shape=(2, 160, 192), levels=LEVELS,
        labelled=lambda _: names,
    )  # fmt: skip
    for number, field in enumerate(sorted(root.glob("A/?/?"))):
        for level in range(LEVELS):
            pixels = image_pixels("cyx", (2, 160, 192), level, number)
            write_chunks(field / str(level), pixels, "cyx")
            for labels in field.glob("labels/cells"):
                pixels = label_pixels("yx", (160, 192), level, number)
                write_chunks(labels / str(level), pixels, "yx")


@dataclass(frozen=True)
class Place:
    """What is walked over.

    Attributes
    ----------
    write
        Writes it at a path.
    acts
        What is done there.
    image_axes, label_axes
        Of its arrays, as they are stored.
    is_remote
        Whether it is on a server.
    begins_in_3d
        Whether walks begin in 3D.
    memory
        MiB that volumes may take; 0 for as much as there is.
    """

    write: Callable[[Path], None]
    acts: tuple[str, ...]
    image_axes: str
    label_axes: str = ""
    is_remote: bool = False
    begins_in_3d: bool = False
    memory: int = 0


LOOKS = "pan", "zoom", "lock"
SLIDES = "slide", "slide", "toggle", "roll", "transpose", "fold"
PAINTS = "paint", "paint", "undo", "redo", "replace"
SOLID = ("paint_solid",) * 6


def pyramid(axes, sizes, **more):
    return lambda folder: write_pyramid(folder, axes, sizes, **more)


DEEP = {"t": 2, "c": 2, "z": 4, "y": 131, "x": 171}


def deep(axes, label_axes="", **more):
    sizes = [DEEP[axis] for axis in axes]
    return pyramid(axes, sizes, label_axes=label_axes, **more)


PLACES = {
    "2D": Place(
        pyramid("yx", (640, 801), codec=SlowCodec(1000 * DELAY)),
        (*LOOKS, "pan", "zoom"),
        "yx",
    ),
    "channels": Place(
        deep("tczyx"), (*LOOKS, *SLIDES, "hide"), "tczyx", is_remote=True
    ),
    "3D": Place(
        pyramid("tzyx", (2, 16, 163, 201)), (*LOOKS, *SLIDES, "turn"), "tzyx",
        begins_in_3d=True, memory=1,
    ),
    "labels": Place(
        deep("zyx", "zyx"), (*LOOKS, *SLIDES, *PAINTS, *SOLID, "save"), "zyx", "zyx"
    ),
    "remote labels": Place(
        deep("zyx", "zyx"), (*LOOKS, *SLIDES, *PAINTS, *SOLID), "zyx", "zyx",
        is_remote=True,
    ),
    "sections": Place(
        deep("tczyx"), (*LOOKS, "pan", "slide", "transpose", "thicken", "thicken"),
        "tczyx",
    ),
    "remote sections": Place(
        pyramid("tzyx", (2, 9, 163, 201)), (*LOOKS, *SLIDES, *["thicken"] * 4), "tzyx",
        is_remote=True,
    ),
    "transposed axes": Place(
        deep("czyx", "xyz"), (*LOOKS, *SLIDES, *SLIDES, *PAINTS), "czyx", "xyz"
    ),
    "fields": Place(
        write_fields, (*LOOKS, *PAINTS, "field", "field", "well", "overview"),
        "cyx", "yx",
    ),
    "mosaic": Place(
        write_fields, (*LOOKS, "pan", "zoom", "field", "overview", "overview"),
        "cyx", "yx",
    ),
}  # fmt: skip
