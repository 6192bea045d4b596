"""A new label image beside its image, of OME-Zarr 0.4, 0.5 or 0.6.

The arrays come first, then what is painted, then the metadata of the group, and last
its entry in the list of labels: until then no reader knows of it. Up to 0.3 a file
cannot state where its pixels are, and so not that labels fit: docs/design/005.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import CorruptDataError, UnsupportedError
from napari_ngff.labels.home import LabelHome, home_in
from napari_ngff.labels.reduce import Reduction
from napari_ngff.metadata.dump import dump_image, dump_labels
from napari_ngff.metadata.model import Image, LabelInfo, Level, Multiscale
from napari_ngff.store.chunks import ChunkedArray, open_array
from napari_ngff.store.folder import FolderSource
from napari_ngff.store.objects import join
from napari_ngff.store.pyramid import open_pyramid
from napari_ngff.store.sink import FolderSink

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.labels.reduce import Method
    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.node import Node
    from napari_ngff.store.pyramid import Pyramid

__all__ = ["METHOD", "NewLabels", "create_labels"]

METHOD: Method = "mode"
"""Of new labels: a voxel of a coarser level lies in the middle of its block, where the
transformations say, which is not true of the block's first voxel."""

UNFINISHED = ".unfinished"
"""Stands in the folder of a label image that is not in the list yet."""

GROUP: JSON = {"zarr_format": 3, "node_type": "group", "attributes": {}}

ZSTD = 1
"""Level of zstd; of labels it is ten times quicker than blosc, and smaller."""


@dataclass(frozen=True, slots=True)
class NewLabels:
    """A label image whose arrays are there and whose group is not.

    Attributes
    ----------
    home
        The group that is to list it.
    name
        Of its own group, there.
    multiscale
        Its axes, which are the image's without the channel, and its levels.
    arrays
        As many as the image has levels.
    """

    home: LabelHome
    name: str
    multiscale: Multiscale
    arrays: tuple[ChunkedArray, ...]

    @property
    def ratios(self) -> list[list[float]]:
        """How much larger the voxels of each level are than those before, per axis."""
        return [
            [b / a for a, b in zip(fine.scale, coarse.scale, strict=True)]
            for fine, coarse in pairwise(self.multiscale.levels)
        ]

    def register(self) -> None:
        """Write the group's metadata, and then enter it into the list of labels.

        Raises
        ------
        CorruptDataError
            Where the list that is there cannot be read; it stays as it is.
        OSError
            Where the system refuses to write.
        """
        home, path = self.home, self.home.path(self.name)
        sink = FolderSink(home.source.name)
        label = LabelInfo(source=home.source_image(self.name))
        info = Image((self.multiscale,), label=label)
        put_group(sink, path, stated(dump_image(info, home.version), home))
        enter(sink, home, self.name)
        sink.delete(f"{path}/{UNFINISHED}")


def create_labels(
    image: Node,
    name: str,
    dtype: np.dtype[Any],
    level: int = 0,
    home: LabelHome | None = None,
) -> NewLabels:
    """Create the arrays of a new label image.

    Parameters
    ----------
    image
        Group of the image.
    name
        Of the label image.
    dtype
        Type of integers.
    level
        Level of the image that is the finest of the labels. They have as many levels
        as the image all the same ("MUST"): further ones are halved along y and x.
    home
        Where they go; into the image by default.

    Raises
    ------
    UnsupportedError
        Where no labels can be written there; the message says why.
    FileExistsError
        Where the name is taken; the message has one that is free.
    ValueError
        Where the version cannot state what the labels would need.
    OSError
        Where the system refuses to write.
    """
    home = home or home_in(image)
    source = home.source
    if not isinstance(source, FolderSource):
        raise UnsupportedError(f"{source.name} is no folder, and cannot be written.")
    pyramid = open_pyramid(image)
    shapes, chunks, multiscale = _planned(pyramid, name, level)
    # Or refuse now.
    dump_image(Image((multiscale,), label=LabelInfo()), home.version)
    if {"/", "\\"} & set(name) or not name.strip(". "):
        raise ValueError(f"{name!r} is no name of a folder. Choose another.")
    sink = FolderSink(source.root)
    path = home.path(name)
    _make_room(source, path, name)
    sink.put(f"{path}/{UNFINISHED}", b"")
    for one, shape, size in zip(multiscale.levels, shapes, chunks, strict=True):
        names = multiscale.axis_names
        put_array(sink, f"{path}/{one.path}", (shape, size, dtype, names), home)
    arrays = (open_array(source, f"{path}/{one.path}") for one in multiscale.levels)
    return NewLabels(home, name, multiscale, tuple(arrays))


def _planned(
    pyramid: Pyramid, name: str, first: int
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]], Multiscale]:
    """Decide shapes, chunks and transformations of all levels."""
    multiscale = pyramid.multiscale
    kept = [i for i in range(len(multiscale.axes)) if i != multiscale.channel_axis]
    levels = pyramid.levels[first:]
    shapes = [tuple(level.shape[i] for i in kept) for level in levels]
    while len(shapes) < len(pyramid.levels):
        last = shapes[-1]
        shapes.append((*last[:-2], -(-last[-2] // 2), -(-last[-1] // 2)))
    wanted = [tuple(level.chunks[i] for i in kept) for level in levels]
    wanted += wanted[-1:] * (len(shapes) - len(wanted))
    chunks = [
        tuple(min(c, n) for c, n in zip(sizes, shape, strict=True))
        for sizes, shape in zip(wanted, shapes, strict=True)
    ]
    stated = [
        [one.scale[i] for i in kept] for one in multiscale.levels[first : len(shapes)]
    ]
    finest = multiscale.levels[first]
    scale = np.array([finest.scale[i] for i in kept])
    translation = np.array([finest.translation[i] for i in kept])
    factors = np.ones(len(kept))
    made = [_level(0, scale, translation, factors)]
    for number, (fine, coarse) in enumerate(pairwise(shapes), 1):
        ratios = None
        if number < len(stated):
            finer = stated[number - 1]
            ratios = [b / a for a, b in zip(finer, stated[number], strict=True)]
        steps = Reduction.of(fine, coarse, METHOD, ratios).steps
        factors = factors * [one.factor or one.fine / one.coarse for one in steps]
        made.append(_level(number, scale, translation, factors))
    axes = tuple(multiscale.axes[i] for i in kept)
    return shapes, chunks, Multiscale(name, axes, tuple(made), METHOD)


def _level(number: int, scale: Any, translation: Any, factors: Any) -> Level:
    """Place a level so that its voxels lie in the middle of what they stand for."""
    place = translation + (factors - 1) / 2 * scale
    return Level(str(number), tuple((scale * factors).tolist()), tuple(place.tolist()))


def _make_room(source: FolderSource, path: str, name: str) -> None:
    """Refuse a name that is taken; clear what an interrupted creation left."""
    folder = f"{source.root}/{path}"
    if not os.path.lexists(folder):
        return
    names = set(os.listdir(folder)) if os.path.isdir(folder) else set()
    if UNFINISHED in names and not names & {"zarr.json", ".zattrs"}:
        shutil.rmtree(folder)
        return
    parent = os.path.dirname(folder)
    taken = {other.lower() for other in os.listdir(parent)}
    numbers = range(2, len(taken) + 3)
    free = next(f"{name}-{n}" for n in numbers if f"{name}-{n}".lower() not in taken)
    msg = f"There is something named {name} in {parent} already. {free} is free."
    raise FileExistsError(msg)


def put_array(
    sink: FolderSink,
    path: str,
    kind: tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any], tuple[str, ...]],
    home: LabelHome,
) -> None:
    """Write the metadata document of an array.

    Parameters
    ----------
    sink
        Of the home's hierarchy.
    path
        Of the array there.
    kind
        Its shape, shape of its chunks, type, and names of its axes.
    home
        Its version decides on the zarr format.
    """
    shape, chunks, dtype, names = kind
    if home.zarr_format == 2:
        document: JSON = {
            "zarr_format": 2,
            "shape": shape,
            "chunks": chunks,
            "dtype": dtype.newbyteorder("<").str,
            "compressor": {"id": "zstd", "level": ZSTD},
            "fill_value": 0,
            "order": "C",
            "filters": None,
            "dimension_separator": "/",
        }
        sink.put(f"{path}/.zarray", _json(document))
        return
    grid = {"name": "regular", "configuration": {"chunk_shape": chunks}}
    keys = {"name": "default", "configuration": {"separator": "/"}}
    codecs = [
        {"name": "bytes", "configuration": {"endian": "little"}},
        {"name": "zstd", "configuration": {"level": ZSTD, "checksum": False}},
    ]
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": dtype.name,
        "chunk_grid": grid,
        "chunk_key_encoding": keys,
        "fill_value": 0,
        "codecs": codecs,
        "attributes": {},
        "dimension_names": names,
        "storage_transformers": [],
    }
    sink.put(f"{path}/zarr.json", _json(document))


def put_group(sink: FolderSink, path: str, attributes: JSON) -> None:
    """Write the metadata of a group: of zarr v3 where its attributes have "ome"."""
    if "ome" not in attributes:
        sink.put(join(path, ".zgroup"), _json({"zarr_format": 2}))
        sink.put(join(path, ".zattrs"), _json(attributes))
        return
    sink.put(join(path, "zarr.json"), _json(GROUP | {"attributes": attributes}))


def stated(attributes: JSON, home: LabelHome) -> JSON:
    """State the version as the home does: it must be the same in a hierarchy."""
    if "ome" in attributes:
        attributes["ome"]["version"] = home.stated
    return attributes


def enter(sink: FolderSink, home: LabelHome, name: str) -> None:
    """Append a name to the list of labels; whatever else stands there stays.

    Raises
    ------
    CorruptDataError
        Where the list that is there cannot be read.
    """
    entry = home.entry(name)
    _between(sink, home)

    def append(names: list[str]) -> list[str]:
        return names if entry in names else [*names, entry]

    change_list(sink, home, append)


def change_list(
    sink: FolderSink, home: LabelHome, change: Callable[[list[str]], list[str]]
) -> None:
    """Change the list of labels and nothing else of its document.

    Raises
    ------
    CorruptDataError
        Where what is there cannot be read.
    """
    document = ".zattrs" if home.zarr_format == 2 else "zarr.json"
    key = join(home.group, document)
    raw = home.source.get(key)
    if raw is None:
        attributes = dump_labels(change([]), home.version)
        put_group(sink, home.group, stated(attributes, home))
        return
    content: Any = None
    with suppress(ValueError):
        content = json.loads(raw)
    try:
        place = content if home.zarr_format == 2 else _ome(content, home)
        place["labels"] = change(place.get("labels", []))
    except (AttributeError, KeyError, TypeError) as error:
        msg = (
            f"{sink.root}/{key} is no list of labels. Correct it; it is left as it is."
        )
        raise CorruptDataError(msg) from error
    sink.put(key, _json(content))


def _between(sink: FolderSink, home: LabelHome) -> None:
    """Make groups of the folders between the list and its label images.

    "Intermediate groups between "labels" and the images within it are allowed, but
    these MUST NOT contain metadata."
    """
    parts = home.below.split("/") if home.below else []
    for count in range(1, len(parts) + 1):
        path = join(home.group, "/".join(parts[:count]))
        key, content = f"{path}/zarr.json", GROUP
        if home.zarr_format == 2:
            key, content = f"{path}/.zgroup", {"zarr_format": 2}
        if home.source.get(key) is None:
            sink.put(key, _json(content))


def _ome(content: JSON, home: LabelHome) -> JSON:
    ome: JSON = content.setdefault("attributes", {}).setdefault("ome", {})
    ome.setdefault("version", home.stated)
    return ome


def _json(document: JSON) -> bytes:
    return json.dumps(document, indent=2).encode()
