"""Writes the pictures of samples as images with labels, in any version."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from colorsys import hsv_to_rgb
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from napari_ngff.metadata.dump import dump_image, dump_labels
from napari_ngff.metadata.model import (
    JSON,
    Axis,
    Channel,
    ContrastWindow,
    ImageMetadata,
    LabelInfo,
    Multiscale,
    Omero,
)
from napari_ngff.metadata.version import VERSIONS, Version
from napari_ngff.store.arrays.lazy_array import PlainSource
from napari_ngff.store.arrays.new_array import group_documents
from napari_ngff.store.pyramids.pyramid_writer import PyramidPlan, open_pyramid_writer
from napari_ngff.store.write.new_hierarchy import SINGLE, NewHierarchy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from napari_ngff.viewer.samples.drawing import CellPicture

Place = Mapping[str, tuple[float, float]]
TYPES = {"t": "time", "c": "channel"}
UNITS = {"t": "second", "z": "micrometer", "y": "micrometer", "x": "micrometer"}
CHANNELS = (  # label, colour, and the grey value shown at full brightness
    ("DNA", (64, 115, 255), 3900),
    ("Actin", (25, 255, 64), 3000),
    ("Mitochondria", (255, 38, 140), 2900),
)
BALL_CHANNELS = ("DNA", (64, 115, 255), 2800), ("Membrane", (25, 255, 64), 1700)
ALPHA = 100  # of label colours, out of 255: the picture stays visible below
KIND_COLORS = {  # none like that of a channel, also where it lies over DNA
    "interphase": (255, 225, 0),
    "mitotic": (255, 255, 255),
    "apoptotic": (255, 74, 0),
}
NUCLEUS_ALPHA = 255


class SampleOptions(TypedDict, total=False):
    """What every sample takes.

    Attributes
    ----------
    seed
        Same seed, same sample; 1 by default.
    chunk
        Side of a chunk along y and x in pixels, even; 256 by default.
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
class SampleSink:
    """A new hierarchy; see `SampleOptions`."""

    draft: NewHierarchy
    version: Version
    chunk: int
    shards: bool

    def create_group(self, path: str, attributes: JSON) -> None:
        """Create the group at `path`, relative to the root ("" for itself)."""
        for name, text in group_documents(attributes, self.version).items():
            self.draft.put(f"{path}/{name}".lstrip("/"), text)

    def write_picture(
        self,
        path: str,
        picture: CellPicture,
        place: Place,
        name: str,
    ) -> None:
        """Write an image with its labels "nuclei" and "cells" into the group at `path`.

        `place` has the axes of the labels, with the size of a pixel and the position of
        pixel 0 in micrometer or second; stated from 0.4 on.
        """
        picture, axes = picture.number_cells(), "".join(place)
        colored = f"tc{axes[1:]}" if axes.startswith("t") else f"c{axes}"
        image = ImageMetadata((), describe_channels(name, picture, colored))
        self._write_image(path, name, picture.channels, colored, place, image)
        labels = {"nuclei": picture.nuclei, "cells": picture.cells}
        self.create_group(f"{path}/labels", dump_labels(labels, self.version))
        for key, values in labels.items():
            info = describe_labels(key, values, picture.kinds, place)
            image = ImageMetadata((), label=info)
            self._write_image(f"{path}/labels/{key}", key, values, axes, place, image)

    def _write_image(
        self,
        path: str,
        name: str,
        pixels: NDArray[Any],
        axes: str,
        place: Place,
        image: ImageMetadata,
    ) -> None:
        """Write a pyramid and the metadata of `image`, which has no multiscale yet."""
        if not self.version.has_axes:  # 5D only
            missing = [i for i, letter in enumerate("tczyx") if letter not in axes]
            pixels, axes = np.expand_dims(pixels, missing), "tczyx"
        is_label = image.label is not None
        units = UNITS if self.version.has_transformations else {}
        kinds = tuple(Axis(n, TYPES.get(n, "space"), units.get(n)) for n in axes)
        stated = place if units else {}
        scale, start = zip(*(stated.get(n, (1.0, 0.0)) for n in axes), strict=True)
        form = pixels.shape, kinds, scale, (1,) * pixels.ndim
        plan = PyramidPlan.choose_shapes(*form, sharded=self.shards)
        if len(plan.shapes) < 3:
            plan = PyramidPlan.choose_shapes(*form, sharded=self.shards, levels=3)
        sides = {"z": 16, "y": self.chunk, "x": self.chunk}
        chunk = tuple(sides.get(letter, 1) for letter in axes)
        plan = replace(plan, chunk=chunk, tile=chunk)
        levels = plan.place_levels(scale, start)
        method = "mode" if is_label else "mean"
        image = replace(image, multiscales=(Multiscale(name, kinds, levels, method),))
        self.create_group(path, dump_image(image, self.version))
        open_pyramid_writer(
            self.draft, path, plan, kinds, pixels.dtype, self.version, is_label=is_label
        ).write_levels(PlainSource(pixels))
        if self.version.has_axis_names_only:
            # 0.3: "the axes values MUST be repeated in the field _ARRAY_DIMENSIONS".
            names = json.dumps({"_ARRAY_DIMENSIONS": list(axes)}).encode()
            for level in levels:
                self.draft.put(f"{path}/{level.path}/.zattrs".lstrip("/"), names)


@contextmanager
def open_sink(
    where: str | Path, version: str, options: SampleOptions
) -> Iterator[SampleSink]:
    """Write a hierarchy aside, and put it at `where` when all of it is there.

    Errors are those of `write_image`.
    """
    single = Path(where).suffix == SINGLE
    shards, chunk = options.get("shards", single), options.get("chunk", 256)
    if version not in VERSIONS:
        raise ValueError(f"{version!r} is none of the versions {', '.join(VERSIONS)}.")
    if Version(version).zarr_format == 2 and (single or shards):
        what = "an .ozx file" if single else "sharded"
        raise ValueError(f"OME-Zarr {version} cannot be {what}: write 0.5 or newer.")
    if chunk % 2:
        raise ValueError(f"The side of a chunk must be even, not {chunk}.")
    with NewHierarchy(where, overwrite=options.get("overwrite", False)) as draft:
        yield SampleSink(draft, Version(version), chunk, shards)


def describe_channels(name: str, picture: CellPicture, axes: str) -> Omero:
    """Return names, colours and contrast; the first plane to show is the middle one."""
    sizes = dict(zip(axes, picture.channels.shape, strict=True))
    looks = BALL_CHANNELS if "z" in axes else CHANNELS
    channels = [
        Channel(label, color, ContrastWindow(115, end, 0, 65535), active=True)
        for label, color, end in looks[: sizes["c"]]
    ]
    return Omero(name, tuple(channels), default_t=0, default_z=sizes.get("z", 0) // 2)


def describe_labels(
    name: str,
    values: NDArray[np.int32],
    kinds: Mapping[int, str],
    place: Place,
) -> LabelInfo:
    """Return class and mean size of each label, and a colour: nuclei by their class."""
    frames = values if "t" in place else values[None]
    length = max(kinds, default=0) + 1
    counts = np.array([np.bincount(one.ravel(), minlength=length) for one in frames])
    pixel = math.prod(size for axis, (size, _) in place.items() if axis != "t")
    sizes = counts.sum(0) * pixel / np.maximum(1, (counts > 0).sum(0))
    key = "volume" if "z" in place else "area"
    colors: dict[int, tuple[int, int, int, int]] = {}
    properties: dict[int, JSON] = {}
    for value, kind in kinds.items():
        if not sizes[value]:
            continue
        # The golden angle keeps hues of neighbouring values apart.
        vivid = hsv_to_rgb(value * 0.381966 % 1, 0.65, 255)
        red, green, blue = KIND_COLORS[kind] if name == "nuclei" else map(round, vivid)
        alpha = NUCLEUS_ALPHA if name == "nuclei" else ALPHA
        colors[value] = red, green, blue, alpha
        properties[value] = {"class": kind, key: round(float(sizes[value]), 2)}
    return LabelInfo(colors, properties)
