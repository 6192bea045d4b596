"""Thumbnails of images: reads pixels of a coarse level, and mixes their channels.

Images of a plate are assumed to have the levels, axes and channels of the first one
that is read, so that a thumbnail costs two small reads: the document of the array, and
a chunk. An image for which that fails is read by its own metadata.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from napari_ngff.errors import NodeNotFoundError, UnsupportedError
from napari_ngff.metadata.model import Channel, GroupKind, Omero
from napari_ngff.store.arrays.chunked_array import ChunkedArray, open_array
from napari_ngff.store.hierarchy.location import Location
from napari_ngff.store.hierarchy.node import read_node
from napari_ngff.store.pyramids.level_reduction import block_mean
from napari_ngff.store.pyramids.pyramid import open_pyramid
from napari_ngff.store.sources.server_logins import server_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.plate.previews.preview_cache import PreviewCache
    from napari_ngff.store.arrays.lazy_array import ArraySource
    from napari_ngff.store.store import Store

SIDE = 64
"""Longest side of a thumbnail in pixels."""

MOST_PIXELS = 1 << 24
"""Pixels of the largest plane that is read for a thumbnail."""

MOST_CHANNELS = 4
"""Most channels that are mixed; only active ones, if there are any."""

WHITE = (255, 255, 255)
TWO_COLORS = ((255, 0, 255), (0, 255, 0))
MANY_COLORS = ((0, 255, 255), (255, 255, 0), (255, 0, 255), (255, 0, 0))
"""As the layers have them where the file names none."""


class TooLargeError(UnsupportedError):
    """Even the coarsest level is too large for a thumbnail; nothing else is wrong."""


MANY = {
    GroupKind.PLATE: "a plate",
    GroupKind.WELL: "a well",
    GroupKind.COLLECTION: "a collection of images",
    GroupKind.SCENE: "a scene of images",
}
"""What is said of groups that have no one picture."""

Pixels = np.ndarray[Any, Any]
Limits = tuple[float, float]


class PreviewPlace(NamedTuple):
    """The image or the well of a thumbnail.

    Attributes
    ----------
    path
        Inner path of an image, or of a well where `well` is True: then its first
        field is meant.
    acquisition
        Id of the acquisition that this field has to be of; None for any.
    """

    path: str
    well: bool = False
    acquisition: int | None = None


@dataclass(frozen=True, slots=True)
class PreviewChannel:
    """One channel of a thumbnail.

    Attributes
    ----------
    index
        On the channel axis.
    color
        Red, green, blue, each 0-255.
    limits
        Contrast in intensity by the file, or None.
    """

    index: int
    color: tuple[int, int, int] = WHITE
    inverted: bool = False
    limits: Limits | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PreviewPixels:
    """The pixels of a thumbnail.

    Attributes
    ----------
    pixels
        Axes "cyx", at most `SIDE` high and wide, in intensity.
    looks
        One for each channel.
    summary
        Size, channels and type of an image that has them for itself, for people.
    """

    pixels: Pixels
    looks: tuple[PreviewChannel, ...]
    summary: str = ""


@dataclass(frozen=True, slots=True)
class PreviewPattern:
    """Which array, plane and channels of an image its thumbnail is made of.

    Attributes
    ----------
    field
        Path of the image below the well, "" for one that is named itself.
    level
        Path of the array below the image.
    fractions
        Position of the plane along each axis, 0 to 1; without meaning for y and x.
    channel
        Index of the channel axis, or None.
    steps
        Along y and x: -1 where the image counts downwards.
    """

    field: str
    level: str
    fractions: tuple[float, ...]
    channel: int | None
    looks: tuple[PreviewChannel, ...]
    summary: str
    steps: tuple[int, int]


class PreviewReader:
    """Reads the pixels of thumbnails; safe to use from several threads.

    Parameters
    ----------
    source
        Where places are.
    zarr_format
        Of all that is in it; None where that differs, or is not known.
    alike
        True for the images of a plate, which have channels in common.
    cache
        Keeps what was read on disk, or None.
    """

    def __init__(
        self,
        source: Store,
        zarr_format: int | None = None,
        *,
        alike: bool = True,
        cache: PreviewCache | None = None,
    ) -> None:
        self._source = source
        self._zarr_format = zarr_format
        self.alike = alike
        self._cache = cache
        self._patterns: dict[int | None, PreviewPattern] = {}
        self._lock = threading.Lock()

    @property
    def server(self) -> str:
        """The server that is asked, as logins are kept by."""
        return server_of(self._source.name)

    @property
    def is_remote(self) -> bool:
        """Return whether each read waits for a server."""
        return self._source.traits.is_remote

    def read(self, place: PreviewPlace) -> PreviewPixels:
        """Read a thumbnail, or find it in the cache.

        Raises
        ------
        OMEZarrError, OSError
            Where there is nothing to be shown; the message says why.
        """
        pattern = self._pattern_for(place)
        # On disk by all that decides about the pixels: place, level, plane and
        # channels.
        cache = self._cache
        summary = "" if self.alike else pattern.summary
        if cache is None:
            pixels = self._read_pixels(self._source, place, pattern)
            return PreviewPixels(pixels, pattern.looks[: len(pixels)], summary)
        with cache.open_entry(
            self._source, " ".join(map(str, (*place, pattern)))
        ) as entry:
            if entry.pixels is None:
                entry.pixels = self._read_pixels(entry.source, place, pattern)
            looks = pattern.looks[: len(entry.pixels)]
            return PreviewPixels(entry.pixels, looks, summary)

    def _pattern_for(self, place: PreviewPlace) -> PreviewPattern:
        if not self.alike:
            return self._read_image(self._source, place)
        # One thread reads the first image; the others wait, and need less for theirs.
        with self._lock:
            pattern = self._patterns.get(place.acquisition)
            # The pattern of an image that was named itself has no path of a field.
            if pattern is None or (place.well and not pattern.field):
                pattern = self._read_image(self._source, place)
                self._patterns[place.acquisition] = pattern
            return pattern

    def _read_image(self, source: Store, place: PreviewPlace) -> PreviewPattern:
        """Read from the metadata of an image what its thumbnail is made of."""
        node = read_node(Location(source, place.path), self._zarr_format)
        field = ""
        if place.well:
            field = self._first_field(source, place)
            node = node.child(field)
        elif node.kind in MANY:
            raise UnsupportedError(MANY[node.kind])
        pyramid = open_pyramid(node)
        multiscale = pyramid.multiscale
        # The coarsest level that is at least as large as a thumbnail.
        large = (i for i, s in enumerate(pyramid.levels) if max(s.shape[-2:]) >= SIDE)
        number = max(large, default=0)
        image = node.metadata.image
        omero = image.omero if image is not None else None
        channel = multiscale.channel_axis
        full = pyramid.levels[0].shape
        count = 1 if channel is None else full[channel]
        y, x = multiscale.levels[0].scale[-2:]
        return PreviewPattern(
            field,
            multiscale.levels[number].path,
            _choose_plane(multiscale.axis_names, full, omero),
            channel,
            _choose_channels(omero, count),
            _describe_pattern(multiscale.axis_names, pyramid.levels[0]),
            (1 if y > 0 else -1, 1 if x > 0 else -1),
        )

    def _first_field(self, source: Store, place: PreviewPlace) -> str:
        """Read the path of a well's first field, or of its first of an acquisition."""
        node = read_node(Location(source, place.path), self._zarr_format)
        fields = node.metadata.well.fields if node.metadata.well else ()
        if not fields:
            raise NodeNotFoundError(f"{node} lists no fields.")
        run = place.acquisition
        paths = [f.path for f in fields if run is None or f.acquisition == run]
        if not paths:
            raise NodeNotFoundError(f"{node} has no field of this acquisition.")
        return paths[0]

    def _read_pixels(
        self, source: Store, place: PreviewPlace, pattern: PreviewPattern
    ) -> Pixels:
        """Read and reduce a plane, "cyx", as the pattern or the image itself says."""
        field = pattern.field if place.well else ""
        if place.acquisition is not None:
            # Wells have different numbers of fields before those of an acquisition.
            field = self._first_field(source, place)
        path = "/".join(part for part in (place.path, field, pattern.level) if part)
        try:
            array = open_array(source, path, self._zarr_format)
        except NodeNotFoundError:
            array = None
        # Not like the first image of the plate: ask its own metadata.
        if array is None or array.ndim != len(pattern.fractions):
            pattern = self._read_image(source, place)
            parts = (place.path, pattern.field, pattern.level)
            path = "/".join(part for part in parts if part)
            array = open_array(source, path)  # perhaps of another format than the plate
        return reduce_channels(array, pattern)


def reduce_channels(array: ChunkedArray, pattern: PreviewPattern) -> Pixels:
    """Read the channels of one plane, reduced to means of blocks.

    Raises
    ------
    TooLargeError
        Where the plane is too large to be read for a thumbnail.
    ChunkError
        Where a chunk cannot be read.
    """
    height, width = array.shape[-2:]
    if height * width > MOST_PIXELS:
        raise TooLargeError(
            f"The coarsest level, {array.path}, has {height} by {width} pixels: too"
            " many for a thumbnail. Add coarser levels."
        )
    box = [
        (index, index + 1)
        for index in (
            min(int(fraction * size), size - 1)
            for fraction, size in zip(pattern.fractions, array.shape, strict=True)
        )
    ]
    # All of y and x; one index along the other axes.
    box[-2:] = [(0, height), (0, width)]
    planes = []
    for look in pattern.looks:
        if pattern.channel is not None:
            if look.index >= array.shape[pattern.channel]:
                break
            box[pattern.channel] = (look.index, look.index + 1)
        planes.append(block_means(array.read(box).reshape(height, width)))
    if not planes:
        raise UnsupportedError(f"{array.path} has none of the channels shown.")
    y, x = pattern.steps
    return np.stack(planes)[:, ::y, ::x]


def block_means(plane: Pixels) -> Pixels:
    """Reduce a plane "yx" to at most `SIDE` pixels a side; its type stays."""
    # Complex pixels have no order, so their magnitudes are shown.
    plane = np.abs(plane) if plane.dtype.kind == "c" else plane
    factor = math.ceil(max(plane.shape) / SIDE)
    y, x = (max(1, min(factor, size)) for size in plane.shape)
    # Whole blocks only: a row or column that is left over would be of fewer pixels.
    height, width = plane.shape[0] // y * y, plane.shape[1] // x * x
    plane = plane.view(np.uint8) if plane.dtype.kind == "b" else plane
    return block_mean(plane[:height, :width], (y, x))


def mix_channels(preview: PreviewPixels, limits: Sequence[Limits]) -> Pixels:
    """Mix the channels of a thumbnail.

    Parameters
    ----------
    limits
        Contrast of each channel, in intensity.

    Returns
    -------
    ndarray
        uint8, axes "yxc" with red, green, blue.
    """
    out = np.zeros((*preview.pixels.shape[1:], 3), np.float32)
    for pixels, look, (low, high) in zip(
        preview.pixels, preview.looks, limits, strict=False
    ):
        intensity = (pixels.astype(np.float32) - low) / max(high - low, 1e-12)
        intensity = np.clip(np.nan_to_num(intensity), 0, 1)
        if look.inverted:
            intensity = 1 - intensity
        # Added, like layers with napari's blending "additive".
        out += intensity[..., None] * np.array(look.color, np.float32)
    return np.minimum(out, 255).astype(np.uint8)


def _describe_pattern(names: Sequence[str], level: ArraySource) -> str:
    sizes = {name.lower(): n for name, n in zip(names, level.shape, strict=True)}
    height, width = level.shape[-2:]
    parts = [f"{width} \N{MULTIPLICATION SIGN} {height}"]
    if (sections := sizes.get("z", 1)) > 1:
        parts.append(f"{sections} sections")
    if (times := sizes.get("t", 1)) > 1:
        parts.append(f"{times} time points")
    channels = sizes.get("c", 1)
    parts.append(f"{channels} channel{'' if channels == 1 else 's'}")
    return ", ".join([*parts, str(level.dtype)])


def _choose_plane(
    names: Sequence[str], shape: Sequence[int], omero: Omero | None
) -> tuple[float, ...]:
    """Choose the plane of ``rdefs``, else the middle z of the first t."""
    wanted = {"t": omero.default_t, "z": omero.default_z} if omero is not None else {}
    fractions = []
    for name, size in zip(names, shape, strict=True):
        index = wanted.get(name.lower())
        if index is not None and index < size:
            # A fraction, since other images of the plate may have another length.
            fractions.append((index + 0.5) / size)
        else:
            fractions.append(0.5 if name.lower() == "z" else 0.0)
    return tuple(fractions)


def _choose_channels(omero: Omero | None, count: int) -> tuple[PreviewChannel, ...]:
    """Choose the channels of a thumbnail, and their colours."""
    given = list(omero.channels) if omero is not None else []
    # As many as the array has, whatever the metadata lists.
    channels = (given + [Channel()] * count)[:count]
    active = [i for i, c in enumerate(channels) if c.active is not False]
    looks = []
    for i in (active or range(count))[:MOST_CHANNELS]:
        channel = channels[i]
        cycle = (WHITE,) if count == 1 else TWO_COLORS if count == 2 else MANY_COLORS
        color = channel.color or cycle[i % len(cycle)]
        if omero is not None and omero.greyscale:
            color = WHITE
        window = channel.window
        limits = None
        if window is not None and window.start is not None and window.end is not None:
            limits = window.start, window.end
        looks.append(PreviewChannel(i, color, channel.inverted, limits))
    return tuple(looks)
