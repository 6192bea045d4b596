"""Where sample pictures go: one new OME-Zarr hierarchy of one version."""

from __future__ import annotations

import colorsys
import math
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import zarr
from numpy.typing import NDArray

from napari_ngff.metadata.dump import VERSIONS, dump_image, dump_labels
from napari_ngff.metadata.model import (
    Axis,
    Channel,
    Image,
    LabelInfo,
    Level,
    Multiscale,
    Omero,
    Window,
)
from napari_ngff.store.packing import pack
from napari_ngff.viewer.samples.phantom import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from napari_ngff.metadata.model import JSON
    from napari_ngff.viewer.samples.phantom import Integers, Picture

__all__ = ["Options", "Sink", "open_sink"]

Pixels = NDArray[Any]

TYPES = {"t": "time", "c": "channel"}
UNITS = {"t": "second", "z": "micrometer", "y": "micrometer", "x": "micrometer"}
CHANNELS = (  # label, colour, and the grey value shown at full brightness
    ("DNA", (64, 115, 255), 3900),
    ("Actin", (25, 255, 64), 3000),
    ("Mitochondria", (255, 38, 140), 2900),
)
KIND_COLORS = dict(
    zip(KINDS, ((66, 150, 255), (255, 64, 190), (255, 170, 20)), strict=True)
)
ALPHA = 100
"""Of label colours, out of 255: the picture stays visible below."""


class Options(TypedDict, total=False):
    """What every sample takes.

    Attributes
    ----------
    seed
        Same seed, same sample; 1 by default.
    chunk
        Side of a chunk along y and x in pixels; 256 by default.
    shards
        Whether to shard, up to four chunks by four; by default in ``.ozx`` files only
        (a SHOULD of RFC-9). Needs 0.5 or newer.
    overwrite
        Whether to replace what is there; False by default.
    """

    seed: int
    chunk: int
    shards: bool
    overwrite: bool


@dataclass(frozen=True, slots=True)
class Sink:
    """A hierarchy being written.

    Attributes
    ----------
    folder
        Its root.
    version
        Of OME-Zarr.
    chunk
        Side of a chunk along y and x in pixels.
    shards
        Whether to shard.
    """

    folder: Path
    version: str
    chunk: int
    shards: bool

    def create_group(self, path: str, attributes: JSON) -> zarr.Group:
        """Create the group at `path`, relative to the root ("" for itself)."""
        return zarr.create_group(
            str(self.folder.joinpath(*path.split("/"))),  # never out of the folder
            zarr_format=3 if self.version >= "0.5" else 2,
            attributes=attributes,
        )

    def write_picture(
        self,
        path: str,
        picture: Picture,
        axes: str,
        spacing: Mapping[str, float],
        name: str,
        origin: Mapping[str, float] | None = None,
    ) -> None:
        """Write an image with its labels "nuclei" and "cells".

        Parameters
        ----------
        path
            Of the image's group, relative to the root.
        picture
            Labels have no c axis.
        axes
            Letters of the channels' axes, such as "tcyx".
        spacing, origin
            Axis letter to size of a pixel and to place of pixel 0, in micrometer or
            second; 1 and 0 where missing. Stated from 0.4 on.
        name
            Of the image.
        """
        place = self.place(spacing, origin or {})
        omero = describe_channels(name, picture.channels, axes)
        self.write_image(path, picture.channels, axes, place, Image((), omero), name)
        labels = {"nuclei": picture.nuclei, "cells": picture.cells}
        self.create_group(f"{path}/labels", dump_labels(labels, self.version))
        for key, values in labels.items():
            info = describe_labels(values, picture.kinds, axes, spacing, key)
            self.write_image(
                f"{path}/labels/{key}",
                values,
                axes.replace("c", ""),
                place,
                Image((), label=info),
                key,
            )

    def place(
        self, spacing: Mapping[str, float], origin: Mapping[str, float]
    ) -> dict[str, tuple[float, float]]:
        """Return scale and translation by axis letter, where the version has any."""
        if self.version <= "0.3":
            return {}
        return {n: (spacing.get(n, 1.0), origin.get(n, 0.0)) for n in "tczyx"}

    def write_image(
        self,
        path: str,
        pixels: Pixels,
        axes: str,
        place: Mapping[str, tuple[float, float]],
        image: Image,
        name: str,
    ) -> None:
        """Write a pyramid and the metadata of `image`, which has no multiscale yet."""
        if self.version <= "0.2":  # which know 5D only
            missing = [i for i, letter in enumerate("tczyx") if letter not in axes]
            pixels, axes = np.expand_dims(pixels, missing), "tczyx"
        is_label = image.label is not None
        levels = build_pyramid(pixels, is_label)
        multiscale = Multiscale(
            name,
            tuple(
                Axis(n, TYPES.get(n, "space"), UNITS.get(n) if place else None)
                for n in axes
            ),
            tuple(locate(k, axes, place) for k in range(len(levels))),
            "mode" if is_label else "mean",
        )
        whole = Image((multiscale,), image.omero, image.label)
        group = self.create_group(path, dump_image(whole, self.version))
        for k, level in enumerate(levels):
            self.write_array(group, str(k), level, axes)

    def write_array(
        self, group: zarr.Group, name: str, pixels: Pixels, axes: str
    ) -> None:
        """Write one level."""
        wish = {"z": 16, "y": self.chunk, "x": self.chunk}
        sizes = pixels.shape
        chunks = tuple(min(n, wish.get(a, 1)) for a, n in zip(axes, sizes, strict=True))
        options: dict[str, Any]
        if self.version >= "0.5":
            options = {"dimension_names": list(axes)}
        else:
            separator = "." if self.version == "0.1" else "/"
            options = {"chunk_key_encoding": {"name": "v2", "separator": separator}}
        if self.shards:
            options["shards"] = tuple(
                c * min(4, math.ceil(n / c)) if a in wish else 1
                for a, n, c in zip(axes, sizes, chunks, strict=True)
            )
        if self.version == "0.3":
            options["attributes"] = {"_ARRAY_DIMENSIONS": list(axes)}
        group.create_array(name, data=pixels, chunks=chunks, fill_value=0, **options)


@contextmanager
def open_sink(where: Path, version: str, options: Options) -> Iterator[Sink]:
    """Write a hierarchy aside, and put it at `where` when all of it is there.

    Raises
    ------
    FileExistsError
        Where something is there and ``overwrite`` is not set.
    ValueError
        Where there is no such version, or it cannot be an ``.ozx`` file or sharded.
    """
    single = where.suffix == ".ozx"
    overwrite = options.get("overwrite", False)
    shards = options.get("shards", single)
    if version not in VERSIONS:
        raise ValueError(f"{version!r} is none of the versions {', '.join(VERSIONS)}.")
    if version <= "0.4" and (single or shards):
        what = "an .ozx file" if single else "sharded"
        raise ValueError(f"OME-Zarr {version} cannot be {what}: write 0.5 or newer.")
    if where.exists() and not overwrite:
        raise FileExistsError(f"{where} is there already; remove it or overwrite it.")
    where.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that renaming moves no bytes.
    aside = Path(tempfile.mkdtemp(f"-{where.name}", ".", where.parent))
    try:
        yield Sink(aside / "new", version, options.get("chunk", 256), shards)
        if single:
            pack(aside / "new", where, overwrite=overwrite)
        else:
            if where.exists():
                where.rename(aside / "old")
            (aside / "new").rename(where)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def build_pyramid(pixels: Pixels, is_label: bool) -> list[Pixels]:
    """Halve y and x at least twice, and until they are at most 256."""
    levels = [pixels]
    while len(levels) < 3 or max(levels[-1].shape[-2:]) > 256:
        levels.append(halve(levels[-1], is_label))
    return levels


def halve(pixels: Pixels, is_label: bool) -> Pixels:
    """Take the mean, of labels the mode, of blocks of 2 by 2 along y and x."""
    pairs = []
    for n in pixels.shape[-2:]:
        first = 2 * np.arange(max(1, n // 2))
        pairs.append((first, np.minimum(first + 1, n - 1)))
    a, b, c, d = (pixels[..., y[:, None], x] for y in pairs[0] for x in pairs[1])
    if is_label:
        rest = np.where((b == c) | (b == d), b, np.where(c == d, c, a))
        mode: Pixels = np.where((a == b) | (a == c) | (a == d), a, rest)
        return mode
    mean = (a.astype(np.uint32) + b + c + d + 2) // 4
    return mean.astype(pixels.dtype)


def locate(k: int, axes: str, place: Mapping[str, tuple[float, float]]) -> Level:
    """Return level `k`: its first pixel's centre is that of a block of level 0."""
    scale, translation = [], []
    for letter in axes:
        size, start = place.get(letter, (1.0, 0.0))
        factor = 2**k if letter in "yx" else 1
        scale.append(size * factor)
        translation.append(start + size * (factor - 1) / 2)
    return Level(str(k), tuple(scale), tuple(translation))


def describe_channels(name: str, channels: Pixels, axes: str) -> Omero:
    """Return names, colours and contrast; the first plane to show is the middle one."""
    shown = CHANNELS[: channels.shape[axes.index("c")]]
    if "z" in axes:
        shown = (shown[0], ("Membrane", shown[1][1], 1700))
    return Omero(
        name,
        tuple(
            Channel(label, color, Window(115, end, 0, 65535), active=True)
            for label, color, end in shown
        ),
        default_t=0,
        default_z=channels.shape[axes.index("z")] // 2 if "z" in axes else 0,
    )


def describe_labels(
    values: Integers,
    kinds: Mapping[int, str],
    axes: str,
    spacing: Mapping[str, float],
    name: str,
) -> LabelInfo:
    """Return class and mean size of each label, and a colour: nuclei by their class."""
    frames = values if "t" in axes else values[None]
    counts = np.array(
        [
            np.bincount(frame.ravel(), minlength=max(kinds, default=0) + 1)
            for frame in frames
        ]
    )
    pixel = math.prod(spacing[a] for a in "zyx" if a in spacing)
    size = counts.sum(0) * pixel / np.maximum(1, (counts > 0).sum(0))
    key = "volume" if "z" in axes else "area"
    colors: dict[int, tuple[int, int, int, int]] = {}
    properties: dict[int, JSON] = {}
    for value, kind in kinds.items():
        if not size[value]:
            continue
        if name == "nuclei":
            color = KIND_COLORS[kind]
        else:  # the golden angle keeps hues of neighbouring values apart
            rgb = colorsys.hsv_to_rgb(value * 0.381966 % 1, 0.65, 1)
            color = (round(rgb[0] * 255), round(rgb[1] * 255), round(rgb[2] * 255))
        colors[value] = (*color, ALPHA)
        properties[value] = {"class": kind, key: round(float(size[value]), 2)}
    return LabelInfo(colors, properties)
