"""Writes sample pictures into one new OME-Zarr hierarchy of one version."""

from __future__ import annotations

import colorsys
import json
import math
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from napari_ngff.metadata.dump import dump_image, dump_labels
from napari_ngff.metadata.model import (
    Axis,
    Channel,
    ContrastWindow,
    ImageMetadata,
    LabelInfo,
    Multiscale,
    Omero,
)
from napari_ngff.metadata.version import VERSIONS, Version
from napari_ngff.store.arrays.new_array import group_documents
from napari_ngff.store.pyramids.level_reduction import LevelReduction
from napari_ngff.store.pyramids.pyramid_plan import PyramidPlan
from napari_ngff.store.pyramids.pyramid_writer import MeanReducer, PyramidWriter
from napari_ngff.store.write.new_hierarchy import SINGLE, NewHierarchy
from napari_ngff.viewer.composing.array_source import PlainSource
from napari_ngff.viewer.samples.phantom import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from napari_ngff.metadata.model import JSON
    from napari_ngff.viewer.samples.phantom import Integers, PhantomPicture

__all__ = ["SampleOptions", "SampleSink", "open_sink"]

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
"""Alpha of label colours, out of 255: the picture stays visible below."""


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
    """A hierarchy being written.

    Attributes
    ----------
    draft
        Where it is written.
    version
        Of OME-Zarr.
    chunk
        Side of a chunk along y and x in pixels.
    shards
        Whether to shard.
    """

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
        picture: PhantomPicture,
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
        placement = self.place_axes(spacing, origin or {})
        omero = describe_channels(name, picture.channels, axes)
        self.write_image(
            path, picture.channels, axes, placement, ImageMetadata((), omero), name
        )
        labels = {"nuclei": picture.nuclei, "cells": picture.cells}
        self.create_group(f"{path}/labels", dump_labels(labels, self.version))
        for key, values in labels.items():
            info = describe_labels(values, picture.kinds, axes, spacing, key)
            self.write_image(
                f"{path}/labels/{key}",
                values,
                axes.replace("c", ""),
                placement,
                ImageMetadata((), label=info),
                key,
            )

    def place_axes(
        self, spacing: Mapping[str, float], origin: Mapping[str, float]
    ) -> dict[str, tuple[float, float]]:
        """Return scale and translation by axis letter, where the version has any."""
        if not self.version.has_transformations:
            return {}
        return {n: (spacing.get(n, 1.0), origin.get(n, 0.0)) for n in "tczyx"}

    def write_image(
        self,
        path: str,
        pixels: Pixels,
        axes: str,
        place: Mapping[str, tuple[float, float]],
        image: ImageMetadata,
        name: str,
    ) -> None:
        """Write a pyramid and the metadata of `image`, which has no multiscale yet."""
        if not self.version.has_axes:  # 5D only
            missing = [i for i, letter in enumerate("tczyx") if letter not in axes]
            # In the order of 0.1 and 0.2, which have no "axes".
            pixels, axes = np.expand_dims(pixels, missing), "tczyx"
        is_label = image.label is not None
        kinds = tuple(
            Axis(n, TYPES.get(n, "space"), UNITS.get(n) if place else None)
            for n in axes
        )
        sizes = [place.get(n, (1.0, 0.0)) for n in axes]
        scale, start = zip(*sizes, strict=True)
        outline = self.plan_levels(pixels.shape, kinds, scale)
        multiscale = Multiscale(
            name,
            kinds,
            outline.place_levels(scale, start),
            "mode" if is_label else "mean",
        )
        whole = ImageMetadata((multiscale,), image.omero, image.label)
        self.create_group(path, dump_image(whole, self.version))
        arrays = [
            (f"{path}/{level}".lstrip("/"), new)
            for level, new in outline.describe_arrays(
                pixels.dtype, tuple(axes), shuffle=not is_label
            )
        ]
        reducers = [
            (
                LevelReduction.between_shapes(fine, coarse, "mode", step)
                if is_label
                else MeanReducer(step),
                step,
            )
            for fine, coarse, step in outline.steps
        ]
        cascade = PyramidWriter(
            self.draft, arrays, reducers, self.version, outline.tile
        )
        cascade.write_levels(PlainSource(pixels))
        if self.version.has_axis_names_only:
            # 0.3: "the axes values MUST be repeated in the field _ARRAY_DIMENSIONS".
            names = json.dumps({"_ARRAY_DIMENSIONS": list(axes)}).encode()
            for level, _ in arrays:
                self.draft.put(f"{level}/.zattrs", names)

    def plan_levels(
        self, shape: tuple[int, ...], axes: tuple[Axis, ...], scale: tuple[float, ...]
    ) -> PyramidPlan:
        """Cut into at least three levels, and chunks of 16 planes."""
        ones = (1,) * len(shape)
        plan = PyramidPlan.choose_shapes(shape, axes, scale, ones, sharded=self.shards)
        if len(plan.shapes) < 3:
            plan = PyramidPlan.choose_shapes(
                shape, axes, scale, ones, sharded=self.shards, levels=3
            )
        wish = {"z": 16, "y": self.chunk, "x": self.chunk}
        chunk = tuple(wish.get(axis.name, 1) for axis in axes)
        return replace(plan, chunk=chunk, tile=chunk)


@contextmanager
def open_sink(
    where: Path, version: str, options: SampleOptions
) -> Iterator[SampleSink]:
    """Write a hierarchy aside, and put it at `where` when all of it is there.

    Raises
    ------
    FileExistsError
        Where something is there and ``overwrite`` is not set.
    ValueError
        Where there is no such version, or it cannot be an ``.ozx`` file or sharded.
    """
    single = where.suffix == SINGLE
    shards = options.get("shards", single)
    if version not in VERSIONS:
        raise ValueError(f"{version!r} is none of the versions {', '.join(VERSIONS)}.")
    if Version(version).zarr_format == 2 and (single or shards):
        what = "an .ozx file" if single else "sharded"
        raise ValueError(f"OME-Zarr {version} cannot be {what}: write 0.5 or newer.")
    chunk = options.get("chunk", 256)
    if chunk % 2:
        raise ValueError(f"The side of a chunk must be even, not {chunk}.")
    with NewHierarchy(where, overwrite=options.get("overwrite", False)) as draft:
        yield SampleSink(draft, Version(version), chunk, shards)


def describe_channels(name: str, channels: Pixels, axes: str) -> Omero:
    """Return names, colours and contrast; the first plane to show is the middle one."""
    names = CHANNELS[: channels.shape[axes.index("c")]]
    if "z" in axes:
        names = (names[0], ("Membrane", names[1][1], 1700))
    return Omero(
        name,
        tuple(
            Channel(label, color, ContrastWindow(115, end, 0, 65535), active=True)
            for label, color, end in names
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
