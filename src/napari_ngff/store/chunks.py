"""Reads regions of arrays chunk by chunk, without an event loop in between.

`open_array` reads one metadata document. Stores and codecs in common use are decoded
here, several chunks at a time; all others by zarr-python behind the same interface.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from napari_ngff.errors import (
    ChunkError,
    CorruptDataError,
    NodeNotFoundError,
)
from napari_ngff.store.cache import ByteCache
from napari_ngff.store.codecs import (
    ABSENT,
    IndirectError,
    Layout,
    Shape,
    parse_array,
)
from napari_ngff.store.fallback import ZarrReader
from napari_ngff.store.workers import share

if TYPE_CHECKING:
    from napari_ngff.store.source import Source

__all__ = ["Box", "ChunkedArray", "OnError", "cache", "indexes", "open_array"]

Box = tuple[tuple[int, int], ...]
"""``(start, stop)`` per axis, in voxels, inside the array."""

OnError = Callable[[ChunkError], None]

Array = npt.NDArray[Any]

cache: ByteCache[Array] = ByteCache(256 * 2**20)
"""Decoded chunks of all arrays of the process; set ``cache.limit`` in bytes."""

indexes: ByteCache[npt.NDArray[np.uint64]] = ByteCache(32 * 2**20)
"""Shard indexes of all arrays of the process."""

DOCUMENTS: tuple[tuple[Literal[2, 3], str], ...] = ((3, "zarr.json"), (2, ".zarray"))

tokens = itertools.count()


def open_array(
    source: Source, path: str, zarr_format: int | None = None
) -> ChunkedArray:
    """Open an array by reading its metadata document, and nothing else.

    Parameters
    ----------
    source
        Where the bytes are.
    path
        Of the array inside `source`, "" where the root is one.
    zarr_format
        2 or 3; None tries 3, then 2.

    Raises
    ------
    NodeNotFoundError
        Where there is no such document.
    CorruptDataError
        Where the document is damaged.
    UnsupportedError
        Where neither we nor the installed zarr can decode the array.
    """
    for number, name in DOCUMENTS:
        if zarr_format not in (None, number):
            continue
        key = join(path, name)
        raw = source.get(key)
        if raw is None:
            continue
        try:
            return ChunkedArray(source, path, parse_array(raw, number))
        except IndirectError as reason:
            reader = ZarrReader(source, path, raw, number, str(reason))
            return ChunkedArray(source, path, reader.layout, reader)
        except CorruptDataError as error:
            raise CorruptDataError(f"{source.name}/{key} {error}.") from error
    place = join(source.name, path)
    raise NodeNotFoundError(
        f"No zarr array at {place}. Check the path; a level may be missing on disk."
    )


class ChunkedArray:
    """A zarr array that reads boxes of voxels; array-like for whole indices.

    Made by `open_array`. Safe to read from many threads at once. Decoded chunks are
    kept in `cache` until `refresh`.

    Parameters
    ----------
    source, path
        Where the array is.
    layout
        What its metadata says.
    reader
        Decodes in our stead where we cannot.
    """

    def __init__(
        self,
        source: Source,
        path: str,
        layout: Layout,
        reader: ZarrReader | None = None,
    ) -> None:
        self.source = source
        self.path = path
        self.layout = layout
        self._reader = reader
        self._token = next(tokens)
        self._separator: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        if self._reader is not None:
            return open_array, (self.source, self.path, self.zarr_format)
        return ChunkedArray, (self.source, self.path, self.layout)

    def __repr__(self) -> str:
        return (
            f"<ChunkedArray {join(self.source.name, self.path)} "
            f"{self.shape} {self.dtype}>"
        )

    @property
    def shape(self) -> Shape:
        """Length of each axis in voxels."""
        return self.layout.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.layout.shape)

    @property
    def size(self) -> int:
        """Number of voxels."""
        return math.prod(self.layout.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what `read` returns: native byte order."""
        return self.layout.dtype.newbyteorder("=")

    @property
    def chunks(self) -> Shape:
        """Shape of what is decoded at once: of the inner chunk where sharded."""
        return self.layout.chunks

    @property
    def shards(self) -> Shape | None:
        """Shape of a stored object that holds several chunks, or None."""
        return self.layout.shards

    @property
    def fill_value(self) -> Any:
        """Of voxels that are not stored."""
        return self.layout.fill_value

    @property
    def zarr_format(self) -> int:
        """2 or 3."""
        return self.layout.zarr_format

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        """Zarr v3's names of the axes, or None."""
        return self.layout.dimension_names

    @property
    def codecs(self) -> tuple[str, ...]:
        """Names of the codecs in encoding order."""
        return self.layout.codecs

    @property
    def direct(self) -> bool:
        """Whether chunks are decoded here, not by zarr-python."""
        return self._reader is None

    def refresh(self) -> None:
        """Forget decoded chunks, after something wrote to the array."""
        self._token = next(tokens)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> Array:
        if copy is False:
            raise ValueError("A zarr array cannot be viewed without copying it.")
        everything = self.read(tuple((0, n) for n in self.shape))
        return everything if dtype is None else everything.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        """Read what integers, slices of step 1 and ``...`` select, as numpy would.

        Raises
        ------
        IndexError
            For any other index.
        """
        box, kept = normalise(index, self.shape)
        return self.read(box)[tuple(slice(None) if keep else 0 for keep in kept)]

    def read(
        self, box: Sequence[tuple[int, int]], on_error: OnError | None = None
    ) -> Array:
        """Read a box of voxels; what is not stored is the fill value.

        Parameters
        ----------
        box
            ``(start, stop)`` per axis, inside the array.
        on_error
            Called in this thread once for each chunk that cannot be read; its part
            of the box is the fill value then.

        Returns
        -------
        ndarray
            Shape of the box, dtype `dtype`, the caller's own.

        Raises
        ------
        ChunkError
            Without `on_error`: a chunk is damaged or unreadable, or the array was
            deleted since it was opened.
        """
        bounds = tuple((int(start), int(stop)) for start, stop in box)
        if len(bounds) != self.ndim:
            raise ValueError(f"a box of {len(bounds)} axes for {self.ndim}")
        job = Job(self, bounds, strict=on_error is None)
        if job.out.size:
            job.run()
        for error in job.failures:
            if on_error is None:
                raise error
            on_error(error)
        return job.out

    def error(self, key: str, cause: Exception) -> ChunkError:
        """Say that the object `key` of this array cannot be used, and why."""
        return ChunkError(self.source.name, join(self.path, key), str(cause))

    def object_key(self, position: Shape) -> str:
        """Key below the array of the stored object at `position` in their grid."""
        return self.layout.keys.encode(position, self._separator)

    def load_object(self, position: Shape) -> bytes | None:
        """Read a stored object whole; None where there is none."""
        data = self.source.get(join(self.path, self.object_key(position)))
        keys = self.layout.keys
        if keys.separator is not None or self._separator or self.ndim < 2:
            return data
        # Zarr v2 means "." where nothing is said; 0.2 to 0.4 files without the key
        # and with nested folders exist all the same. The first chunk decides.
        if data is not None:
            self._separator = "."
            return data
        data = self.source.get(join(self.path, keys.encode(position, "/")))
        if data is not None:
            self._separator = "/"
        return data

    def load_index(self, shard: Shape) -> npt.NDArray[np.uint64] | None:
        """Read the index of a shard; None where there is no such object."""
        found = indexes.get((self._token, shard))
        layout = self.layout.index
        if found is not None or layout is None:
            return found
        start = 0 if layout.at_start else -layout.nbytes
        key = join(self.path, self.object_key(shard))
        data = self.source.get(key, start, layout.nbytes)
        if data is None:
            return None
        try:
            index = layout.decode(data)
        except CorruptDataError as error:
            raise CorruptDataError(f"its index {error}") from error
        indexes.put((self._token, shard), index, index.nbytes)
        return index

    def load_part(self, shard: Shape, offset: int, length: int) -> bytes:
        """Read one chunk out of a shard.

        Raises
        ------
        CorruptDataError
            Where the index points to something impossible.
        """
        if length > self.layout.most_stored:
            raise CorruptDataError(f"its index tells of a chunk of {length} bytes")
        data = self.source.get(join(self.path, self.object_key(shard)), offset, length)
        found = 0 if data is None else len(data)
        if data is None or found < length:
            raise CorruptDataError(f"ends {length - found} bytes inside a chunk")
        return data


class Job:
    """One call of `ChunkedArray.read`.

    Attributes
    ----------
    out
        The voxels of the box.
    failures
        Of single chunks, or of whole shards.
    """

    def __init__(self, array: ChunkedArray, box: Box, strict: bool) -> None:
        self.array = array
        self.box = box
        self.strict = strict
        self.out = np.empty([stop - start for start, stop in box], array.dtype)
        self.failures: list[ChunkError] = []
        self.missing = False
        self.shards: dict[Shape, npt.NDArray[np.uint64] | None] = {}
        self.token = array._token
        ranges = covering(box, array.chunks)
        self.count = math.prod(len(r) for r in ranges)
        self.cells = itertools.product(*ranges)
        # A read larger than the cache would only push everything out of it.
        self.keep = self.count * array.layout.chunk_nbytes <= cache.limit // 2

    def run(self) -> None:
        """Fill `out`."""
        array = self.array
        workers = array.source.concurrency
        if array._reader is not None:
            self.read_by_zarr(array._reader)
        else:
            if array.layout.index is not None and array.shards is not None:
                ranges = covering(self.box, array.shards)
                count = math.prod(len(r) for r in ranges)
                share(
                    self.until_failure(itertools.product(*ranges)),
                    self.open_shard,
                    min(workers, count),
                )
            share(
                self.until_failure(self.cells), self.read_cell, min(workers, self.count)
            )
        if self.missing and not (self.strict and self.failures):
            self.check_array()

    def until_failure(self, positions: Iterable[Shape]) -> Iterator[Shape]:
        """Stop early where one failure is enough."""
        for position in positions:
            if self.strict and self.failures:
                return
            yield position

    def open_shard(self, shard: Shape) -> None:
        """Read the index of a shard."""
        self.shards[shard] = None
        try:
            index = self.array.load_index(shard)
        except (CorruptDataError, OSError) as error:
            self.fail(self.array.object_key(shard), error)
            return
        self.shards[shard] = index
        if index is None:
            self.missing = True

    def read_cell(self, cell: Shape) -> None:
        """Copy what the box wants of one chunk."""
        key = (self.token, cell)
        chunk = cache.get(key)
        if chunk is None:
            chunk = self.load(cell)
            if chunk is not None and self.keep:
                cache.put(key, chunk, chunk.nbytes)
        source, target = overlap(cell, self.array.chunks, self.box)
        if chunk is None:
            self.out[target] = self.array.fill_value
        else:
            self.out[target] = chunk[source]

    def load(self, cell: Shape) -> Array | None:
        """Read and decode a chunk; None where it is missing or broken."""
        array = self.array
        index = array.layout.index
        place = cell
        try:
            if index is None:
                data = array.load_object(cell)
                if data is None:
                    self.missing = True
                    return None
            else:
                place = tuple(c // n for c, n in zip(cell, index.grid, strict=True))
                entries = self.shards[place]
                if entries is None:
                    return None
                inside = tuple(c % n for c, n in zip(cell, index.grid, strict=True))
                offset, length = entries[inside].tolist()
                if offset == length == ABSENT:
                    return None
                data = array.load_part(place, offset, length)
            return array.layout.decode(data)
        except (CorruptDataError, OSError) as error:
            self.fail(array.object_key(place), error)
            return None

    def read_by_zarr(self, reader: ZarrReader) -> None:
        """Have zarr read the box at once, or chunk by chunk where that fails."""
        self.missing = True
        try:
            self.out[...] = reader.read(self.box)
        except CorruptDataError:
            for cell in self.until_failure(self.cells):
                _, target = overlap(cell, self.array.chunks, self.box)
                part = tuple(
                    (start + t.start, start + t.stop)
                    for (start, _), t in zip(self.box, target, strict=True)
                )
                try:
                    self.out[target] = reader.read(part)
                except CorruptDataError as error:
                    self.out[target] = self.array.fill_value
                    self.fail(reader.key(cell), error)

    def check_array(self) -> None:
        """Tell a missing chunk from an array that was deleted while it was open."""
        name = dict(DOCUMENTS)[self.array.layout.zarr_format]
        try:
            found = self.array.source.get(join(self.array.path, name), 0, 1)
        except OSError as error:
            self.fail(name, error)
            return
        if found is None:
            self.fail(name, FileNotFoundError("the array is gone: deleted or moved"))

    def fail(self, key: str, cause: Exception) -> None:
        """Note a failure."""
        error = self.array.error(key, cause)
        error.__cause__ = cause
        self.failures.append(error)


def join(parent: str, name: str) -> str:
    """Path of `name` below `parent`, either of which may be ""."""
    return f"{parent}/{name}" if parent and name else parent or name


def covering(box: Box, lengths: Shape) -> list[range]:
    """Positions per axis, in a grid of cells of `lengths`, that a box touches."""
    return [
        range(start // n, -(-stop // n))
        for (start, stop), n in zip(box, lengths, strict=True)
    ]


def overlap(
    cell: Shape, lengths: Shape, box: Box
) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Where a cell and a box meet: inside the cell, and inside the box."""
    inside: list[slice] = []
    target: list[slice] = []
    for position, n, (start, stop) in zip(cell, lengths, box, strict=True):
        origin = position * n
        low, high = max(start, origin), min(stop, origin + n)
        inside.append(slice(low - origin, high - origin))
        target.append(slice(low - start, high - start))
    return tuple(inside), tuple(target)


def normalise(index: Any, shape: Shape) -> tuple[Box, tuple[bool, ...]]:
    """Index -> box, and whether each axis stays."""
    items = list(index) if isinstance(index, tuple) else [index]
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1 or len(items) - len(dots) > len(shape):
        raise IndexError(f"index {index!r} for {len(shape)} axes")
    at = dots[0] if dots else len(items)
    rest = [slice(None)] * (len(shape) - len(items) + len(dots))
    items[at : at + 1] = rest
    box: list[tuple[int, int]] = []
    kept: list[bool] = []
    for item, n in zip(items, shape, strict=True):
        if isinstance(item, slice):
            start, stop, step = item.indices(n)
            if step != 1:
                raise IndexError("only slices of step 1 can be read")
            box.append((start, max(start, stop)))
            kept.append(True)
            continue
        number = item.__index__() if hasattr(item, "__index__") else None
        if number is None or not -n <= number < n:
            raise IndexError(f"index {item!r} for an axis of {n}")
        box.append((number % n, number % n + 1))
        kept.append(False)
    return tuple(box), tuple(kept)
