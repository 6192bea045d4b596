"""Many images of one kind as one lazy pyramid: a plate, a row, or a well."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import ChunkError, NodeNotFoundError, OMEZarrError
from napari_ngff.store.chunks import ChunkedArray, open_array
from napari_ngff.store.node import read_node
from napari_ngff.store.pyramid import Pyramid
from napari_ngff.store.workers import LOCAL_CONCURRENCY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.plate.layout import Tile
    from napari_ngff.store.lazy import Box
    from napari_ngff.store.node import Node
    from napari_ngff.store.pyramid import OnError

__all__ = ["MosaicLevel", "TileImages", "open_mosaic"]


@dataclass(frozen=True, slots=True)
class TileImages:
    """The images that the tiles of a mosaic show.

    Attributes
    ----------
    tiles
        With offsets along y and x in voxels of level 0.
    node
        Any group of the hierarchy: its source and zarr format hold for all tiles.
    field
        Path below a well of the field that the first one shows ("0"); others are
        taken to have it too until they turn out not to.
    inside
        Path below each image of what is shown: "" or "labels/<name>".
    """

    tiles: tuple[Tile, ...]
    node: Node
    field: str = ""
    inside: str = ""

    def open_array(self, tile: Tile, level: str) -> ChunkedArray | None:
        """Open one array of a tile; None where the tile has none.

        Raises
        ------
        OMEZarrError, OSError
            Where it is there and cannot be read.
        """
        parts = (tile.path, self.field if tile.well else "", self.inside, level)
        array = self._open("/".join(part for part in parts if part))
        if array is not None or not tile.well:
            return array
        other = self._first_field(tile)
        if other is None or other == self.field:
            return None
        parts = (tile.path, other, self.inside, level)
        return self._open("/".join(part for part in parts if part))

    def _open(self, path: str) -> ChunkedArray | None:
        try:
            return open_array(self.node.location.source, path, self.node.zarr_format)
        except NodeNotFoundError:
            return None

    def _first_field(self, tile: Tile) -> str | None:
        try:
            place = type(self.node.location)(self.node.location.source, tile.path)
            well = read_node(place, self.node.zarr_format).metadata.well
        except NodeNotFoundError:
            return None
        return well.fields[0].path if well is not None and well.fields else None


@dataclass(frozen=True, slots=True, eq=False)
class MosaicLevel:
    """One level of a mosaic; the last two axes are y and x.

    Tiles of another size, or with fewer planes, are cropped or padded with 0.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    images: TileImages
    path: str
    factors: tuple[float, float]
    size: tuple[int, int]
    on_error: OnError | None = None
    _arrays: dict[str, ChunkedArray | None] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, box: Box) -> np.ndarray[Any, Any]:
        """Read a rectangle; only the tiles that it meets are opened."""
        out = np.zeros([stop - start for start, stop in box], self.dtype)
        met = [tile for tile in self.images.tiles if self._meets(tile, box)]
        concurrency = self.images.node.location.source.concurrency
        if concurrency > LOCAL_CONCURRENCY and len(met) > 1:
            with ThreadPoolExecutor(concurrency) as pool:
                list(pool.map(lambda tile: self._paste(tile, box, out), met))
        else:
            for tile in met:
                self._paste(tile, box, out)
        return out

    def _corner(self, tile: Tile) -> tuple[int, int]:
        y, x = (
            round(at / factor)
            for at, factor in zip(tile.offset, self.factors, strict=True)
        )
        return y, x

    def _meets(self, tile: Tile, box: Box) -> bool:
        return all(
            at < stop and at + size > start
            for at, size, (start, stop) in zip(
                self._corner(tile), self.size, box[-2:], strict=True
            )
        )

    def _paste(self, tile: Tile, box: Box, out: np.ndarray[Any, Any]) -> None:
        try:
            array = self._array(tile)
            if array is None or array.ndim != len(self.shape):
                return
            origin = (0,) * (len(box) - 2) + self._corner(tile)
            limit = (*self.shape[:-2], *self.size)
            source, target = [], []
            for at, full, most, (start, stop) in zip(
                origin, array.shape, limit, box, strict=True
            ):
                first = max(start - at, 0)
                last = min(stop - at, full, most)
                if last <= first:
                    return
                source.append((first, last))
                target.append(slice(first + at - start, last + at - start))
            out[tuple(target)] = array.read(tuple(source), self.on_error)
        except (OMEZarrError, OSError) as error:
            if self.on_error is None:
                raise
            self.on_error(_tile_error(self.images.node, tile, error))

    def _array(self, tile: Tile) -> ChunkedArray | None:
        with self._lock:
            if tile.path in self._arrays:
                return self._arrays[tile.path]
        try:
            array = self.images.open_array(tile, self.path)
        except (OMEZarrError, OSError):
            # Told once; asking again at every redraw would tell it again.
            with self._lock:
                self._arrays[tile.path] = None
            raise
        with self._lock:
            return self._arrays.setdefault(tile.path, array)


def open_mosaic(
    template: Pyramid, images: TileImages, on_error: OnError | None = None
) -> Pyramid:
    """Join tiles into one pyramid.

    Parameters
    ----------
    template
        The pyramid of one tile: the others are taken to have its axes (which end in
        y and x), levels, type and voxel size.
    images
        What the tiles show.
    on_error
        Told of each chunk or tile that cannot be read.
    """
    full = template.levels[0].shape
    levels = []
    for level, source in zip(template.multiscale.levels, template.levels, strict=True):
        size = source.shape[-2], source.shape[-1]
        factors = full[-2] / size[0], full[-1] / size[1]
        corners = [
            (round(t.offset[0] / factors[0]), round(t.offset[1] / factors[1]))
            for t in images.tiles
        ]
        height = max((y for y, _ in corners), default=0) + size[0]
        width = max((x for _, x in corners), default=0) + size[1]
        levels.append(
            MosaicLevel(
                (*source.shape[:-2], height, width),
                source.dtype,
                (*source.chunks[:-2], *size),
                images,
                level.path,
                factors,
                size,
                on_error,
            )
        )
    return Pyramid(template.multiscale, tuple(levels), template.problems)


def _tile_error(node: Node, tile: Tile, error: Exception) -> ChunkError:
    if isinstance(error, ChunkError):
        return error
    return ChunkError(node.location.source.name, tile.path, str(error))


def corner_in_voxels(pyramid: Pyramid) -> tuple[float, float]:
    """Return where an image's voxel 0 lies along y and x, in its own voxels."""
    level = pyramid.multiscale.levels[0]
    y, x = (level.translation[i] / level.scale[i] for i in (-2, -1))
    return y, x


def tile_sizes(pyramids: Sequence[Pyramid]) -> list[tuple[int, int]]:
    """Height and width of the first level of each, in voxels."""
    return [(p.levels[0].shape[-2], p.levels[0].shape[-1]) for p in pyramids]
