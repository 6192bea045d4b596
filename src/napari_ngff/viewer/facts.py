"""What a group or an array is, in words, from metadata alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from napari_ngff.errors import OMEZarrError
from napari_ngff.store.pyramid import LevelSource, open_pyramid
from napari_ngff.store.systems import level_transformation
from napari_ngff.viewer.sentences import TIMES, sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from napari_ngff.metadata.model import Link, Metadata
    from napari_ngff.store.chunks import ChunkedArray
    from napari_ngff.store.node import Node

__all__ = ["facts_of", "facts_of_array", "sentences_of"]


def facts_of(node: Node) -> Iterator[tuple[str, str]]:
    """Tell what a group is: the name and the value of each fact."""
    metadata = node.metadata
    version = f"OME-Zarr {metadata.version}" if metadata.version else "OME-Zarr"
    kind = str(node.kind or "group")
    yield "Kind", f"{kind}, {version}, Zarr {node.zarr_format}"
    if metadata.plate is not None:
        plate = metadata.plate
        grid = f"{len(plate.rows)} rows {TIMES} {len(plate.columns)} columns"
        yield "Plate", f"{plate.name or 'unnamed'}: {grid}, {len(plate.wells)} wells"
        if plate.acquisitions:
            names = (a.name or str(a.id) for a in plate.acquisitions)
            yield "Acquisitions", ", ".join(names)
    if metadata.well is not None:
        yield "Fields", ", ".join(f.path for f in metadata.well.fields)
    if metadata.labels is not None:
        yield "Labels", ", ".join(metadata.labels) or "none"
    if metadata.scene is not None:
        names = (system.name for system in metadata.scene.systems)
        yield "Coordinate systems", ", ".join(names) or "none of its own"
    if metadata.image is not None:
        yield from _image(node)


def _image(node: Node) -> Iterator[tuple[str, str]]:
    try:
        pyramid = open_pyramid(node)
    except OMEZarrError as error:
        yield "Levels", str(error)
        return
    multiscale = pyramid.multiscale
    arrays = [s.array for s in pyramid.levels if isinstance(s, LevelSource)]
    if multiscale.name:
        yield "Name", multiscale.name
    yield "Axes", ", ".join(multiscale.axis_names)
    sizes = (
        f"{axis.name} {abs(scale) * count:g} {axis.unit or ''}".rstrip()
        for axis, scale, count in zip(
            multiscale.axes, multiscale.levels[0].scale, arrays[0].shape, strict=True
        )
        if axis.type != "channel"
    )
    yield "Physical size", ", ".join(sizes)
    omero = node.metadata.image.omero if node.metadata.image else None
    if omero is not None and omero.channels:
        labels = (c.label or f"channel {i}" for i, c in enumerate(omero.channels))
        yield "Channels", ", ".join(labels)
    if len(multiscale.systems) > 1:
        yield "Coordinate systems", ", ".join(s.name for s in multiscale.systems)
    yield "Size", f"{_bytes(sum(map(_size, arrays)))} uncompressed, an estimate"
    for level, array in zip(multiscale.levels, arrays, strict=True):
        (_, shape), *rest, _ = facts_of_array(array)
        texts = (f"{name.lower()} {value}" for name, value in rest)
        yield f"Level {level.path}", "; ".join((shape, *texts))


def facts_of_array(array: ChunkedArray) -> list[tuple[str, str]]:
    """Tell what an array is; the last fact is its size."""
    shards = array.shards
    facts = [
        ("Shape", f"{_times(array.shape)} {array.dtype}"),
        ("Chunks", _times(array.chunks)),
    ]
    if shards is not None:
        facts.append(("Shards", _times(shards)))
    facts.append(("Codecs", ", ".join(array.codecs) or "none"))
    facts.append(("Size", f"{_bytes(_size(array))} uncompressed, an estimate"))
    return facts


def _times(sizes: Sequence[int]) -> str:
    return f" {TIMES} ".join(map(str, sizes))


def _size(array: ChunkedArray) -> int:
    return math.prod(array.shape) * array.dtype.itemsize


def _bytes(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} TB"


def sentences_of(metadata: Metadata) -> Iterator[str]:
    """Say what each transformation of a group does, and between which systems."""
    links: list[tuple[Link, Sequence[str]]] = []
    if metadata.image is not None:
        multiscale = metadata.image.multiscales[0]
        names = multiscale.axis_names
        goal = multiscale.intrinsic or "intrinsic"
        for level in multiscale.levels:
            text = sentence(level_transformation(level), names)
            yield f"Level {level.path} → {goal}: {text}"
        known = {s.name: [a.name for a in s.axes] for s in multiscale.systems}
        links += [(link, known.get(link.input.name, ())) for link in multiscale.links]
    if metadata.scene is not None:
        known = {s.name: [a.name for a in s.axes] for s in metadata.scene.systems}
        links += [
            (link, () if link.input.path else known.get(link.input.name, ()))
            for link in metadata.scene.links
        ]
    for link, axes in links:
        ends = (
            " in ".join(part for part in (end.name, end.path) if part) or "intrinsic"
            for end in (link.input, link.output)
        )
        yield f"{' → '.join(ends)}: {sentence(link.transformation, axes)}"
