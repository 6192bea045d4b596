"""A new label image beside its image, of OME-Zarr 0.4, 0.5 or 0.6.

The arrays come first, then what is painted, then the metadata of the group, and last
its entry in the list of labels: until then no reader knows of it. Up to 0.3 a file
cannot state where its pixels are, and so not that labels fit: docs/design/005.
"""

from __future__ import annotations

import json
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from dataclasses import replace as changed
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import CorruptDataError
from napari_ngff.labels.places.home import LabelHome, home_in, is_name
from napari_ngff.labels.places.replacement import (
    UNFINISHED,
    Claim,
    drop_replaced,
    make_room,
    put_back,
)
from napari_ngff.labels.reduce import Reduction
from napari_ngff.metadata.dump import dump_image, dump_labels
from napari_ngff.metadata.model import Image, LabelInfo, Level, Multiscale
from napari_ngff.store.chunks import ChunkedArray, open_array
from napari_ngff.store.consolidated import consolidate
from napari_ngff.store.creation import NewArray, group_documents
from napari_ngff.store.holding import turn
from napari_ngff.store.objects import join
from napari_ngff.store.pyramid import open_pyramid
from napari_ngff.store.sink import FolderSink, sink_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.labels.reduce import Method
    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.node import Node
    from napari_ngff.store.pyramid import Pyramid
    from napari_ngff.store.sink import Sink

__all__ = ["METHOD", "NewLabels", "create_labels"]

METHOD: Method = "mode"
"""Of new labels: a voxel of a coarser level lies in the middle of its block, where the
transformations say, which is not true of the block's first voxel."""


@dataclass(frozen=True, slots=True)
class NewLabels:
    """A label image whose arrays are there and whose group is not.

    In an archive nothing is written before `register` and a commit of the sink.

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
    claim
        Keeps others from taking the place meanwhile.
    """

    home: LabelHome
    name: str
    multiscale: Multiscale
    arrays: tuple[ChunkedArray, ...]
    claim: Claim

    @property
    def ratios(self) -> list[list[float]]:
        """How much larger the voxels of each level are than those before, per axis."""
        return [
            [b / a for a, b in zip(fine.scale, coarse.scale, strict=True)]
            for fine, coarse in pairwise(self.multiscale.levels)
        ]

    def register(self, info: LabelInfo | None = None) -> None:
        """Write the group's metadata, and then enter it into the list of labels.

        In an archive both wait for a commit of the sink; see `Sink.commit`.

        Parameters
        ----------
        info
            Colours and properties; none of them where one cannot be stated in JSON.

        Raises
        ------
        CorruptDataError
            Where the list that is there cannot be read; it stays as it is.
        OSError
            Where the system refuses to write.
        """
        home, path = self.home, self.home.path(self.name)
        sink = sink_of(home.source)
        bare = LabelInfo(source=home.source_image(self.name))
        label = changed(info or bare, source=bare.source)
        try:
            content = dump_image(Image((self.multiscale,), label=label), home.version)
        except ValueError:
            content = dump_image(Image((self.multiscale,), label=bare), home.version)
        put_group(sink, path, stated(content, home))
        enter(sink, home, self.name)
        levels = (array.path for array in self.arrays)
        consolidate(sink, [home.group, path, *levels])
        drop_replaced(sink, path)
        self.claim.release()
        sink.delete(f"{path}/{UNFINISHED}")

    def abandon(self) -> None:
        """Remove what is not registered; a label image that it replaces is back."""
        listed = self.name in self.home.names()
        path = self.home.path(self.name)
        self.claim.release()
        put_back(sink_of(self.home.source), path, listed=listed)


def create_labels(
    image: Node,
    name: str,
    dtype: np.dtype[Any],
    level: int = 0,
    home: LabelHome | None = None,
    *,
    replace: bool = False,
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
    replace
        Whether to replace a label image of that name. It is moved aside until the new
        one is registered, and is back after `NewLabels.abandon`.

    Raises
    ------
    UnsupportedError
        Where no labels can be written there; the message says why.
    NameTakenError
        Where the name is taken.
    ValueError
        Where the version cannot state what the labels would need.
    OSError
        Where the system refuses to write.
    """
    home = home or home_in(image)
    sink = sink_of(home.source)
    # In an archive: what is put there is seen through the sink alone, until all is.
    home = changed(home, source=sink.source)
    pyramid = open_pyramid(image)
    shapes, chunks, multiscale = _planned(pyramid, name, level)
    # Or refuse now.
    dump_image(Image((multiscale,), label=LabelInfo()), home.version)
    if "/" in name or not is_name(name):
        raise ValueError(f"{name!r} is no name of a folder. Choose another.")
    path = home.path(name)
    make_room(sink, path, replace=replace, listed=name in home.names())
    claim = Claim(sink, path)
    for one, shape, size in zip(multiscale.levels, shapes, chunks, strict=True):
        array = NewArray(shape, size, dtype, multiscale.axis_names)
        put_array(sink, f"{path}/{one.path}", array, home)
    places = (f"{path}/{one.path}" for one in multiscale.levels)
    arrays = (open_array(home.source, place) for place in places)
    return NewLabels(home, name, multiscale, tuple(arrays), claim)


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


def put_array(sink: Sink, path: str, array: NewArray, home: LabelHome) -> None:
    """Write the metadata document of an array at a path of the home's hierarchy."""
    name, text = array.document("0.4" if home.zarr_format == 2 else "0.5")
    sink.put(join(path, name), text)


def put_group(sink: Sink, path: str, attributes: JSON) -> None:
    """Write the metadata of a group: of zarr v3 where its attributes have "ome"."""
    version = "0.5" if "ome" in attributes else "0.4"
    for name, text in group_documents(attributes, version).items():
        sink.put(join(path, name), text)


def stated(attributes: JSON, home: LabelHome) -> JSON:
    """State the version as the home does: it must be the same in a hierarchy."""
    if "ome" in attributes:
        attributes["ome"]["version"] = home.stated
    return attributes


def enter(sink: Sink, home: LabelHome, name: str) -> None:
    """Append a name to the list of labels; whatever else stands there stays.

    Raises
    ------
    CorruptDataError
        Where the list that is there cannot be read.
    """
    entry = home.entry(name)

    def append(names: list[str]) -> list[str]:
        return names if entry in names else [*names, entry]

    change_list(sink, home, append)


def change_list(
    sink: Sink, home: LabelHome, change: Callable[[list[str]], list[str]]
) -> None:
    """Change the list of labels and nothing else of its document.

    Raises
    ------
    CorruptDataError
        Where what is there cannot be read.
    """
    document = ".zattrs" if home.zarr_format == 2 else "zarr.json"
    key = join(home.group, document)
    alone = turn(sink.root) if isinstance(sink, FolderSink) else nullcontext()
    with alone:
        _change_list(sink, home, key, change)


def _change_list(
    sink: Sink, home: LabelHome, key: str, change: Callable[[list[str]], list[str]]
) -> None:
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
        listed = place.get("labels", [])
        if not isinstance(listed, list):
            raise TypeError(f"{listed!r} is no list")
        place["labels"] = change(listed)
    except (AttributeError, KeyError, TypeError) as error:
        msg = (
            f"{sink.root}/{key} is no list of labels. Correct it; it is left as it is."
        )
        raise CorruptDataError(msg) from error
    sink.put(key, _json(content))


def _ome(content: JSON, home: LabelHome) -> JSON:
    ome: JSON = content.setdefault("attributes", {}).setdefault("ome", {})
    ome.setdefault("version", home.stated)
    return ome


def _json(document: JSON) -> bytes:
    return json.dumps(document, indent=2).encode()
