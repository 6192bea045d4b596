"""Estimates a conversion before it starts: its files, and the bytes that it reads.

Everything is counted from metadata, by the plan of the conversion itself, of which no
document is written. The size of chunks is measured at some of them.
"""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from napari_ngff.store.arrays.boxes import box_of
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.arrays.stored_objects import ArrayObjects, join_key
from napari_ngff.store.convert.array_task import ArrayTask, CopyTask
from napari_ngff.store.convert.conversion_plan import ConversionPlan
from napari_ngff.store.convert.work_unit import find_separator

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.metadata.model import Problem
    from napari_ngff.store.arrays.chunked_array import ChunkedArray
    from napari_ngff.store.convert.conversion_plan import ConversionRequest
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.sources.revision import Revision
    from napari_ngff.store.sources.source import Source

__all__ = ["ConversionEstimate", "StoredSizes", "estimate_conversion", "free_bytes"]

DRAFTS = 16
"""Documents that are kept: those of the array that was planned last are enough."""

SAMPLES, ALL_SAMPLES = 12, 600
"""Chunks of one array, and of all, whose size is measured."""


@dataclass(frozen=True, slots=True)
class ConversionEstimate:
    """What a conversion reads and writes.

    Attributes
    ----------
    pieces
        Number of units of work.
    files
        Most objects that are written; empty chunks are left out.
    nbytes
        Bytes of the voxels.
    read
        About how many bytes are read; None where the source gives no sizes.
    encoded
        Bytes of the voxels that are decoded and encoded; of others, chunks are copied.
    problems
        What cannot be read, a text each.
    """

    pieces: int = 0
    files: int = 0
    nbytes: int = 0
    read: int | None = None
    encoded: int = 0
    problems: tuple[str, ...] = ()


class DraftDocuments:
    """The newest documents of a new hierarchy, in memory; a `Source`."""

    name = "draft"
    concurrency = 1
    problems: tuple[Problem, ...] = ()

    def __init__(self) -> None:
        self.count = 0
        self._documents: dict[str, bytes] = {}

    def put(self, key: str, data: bytes) -> None:
        """Keep a document for a while."""
        self.count += 1
        self._documents[key] = data
        if len(self._documents) > DRAFTS:
            del self._documents[next(iter(self._documents))]

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        """Read a document; see `Source.get`."""
        data = self._documents.get(key)
        if data is None or start is None:
            return data
        return data[start:][:length]

    def find_revision(self, key: str) -> Revision | None:
        """Return None: what is here does not change."""
        del key
        return None

    def list_names(self, prefix: str) -> tuple[str, ...]:
        """Return nothing: no one lists drafts."""
        del prefix
        return ()


@dataclass(slots=True)
class StoredSizes:
    """Measures how many bytes chunks take, at some of them.

    Attributes
    ----------
    source
        Of the chunks.
    voxels
        Bytes of the voxels of what was measured.
    stored
        Bytes that these take.
    left
        Chunks that may still be measured.
    """

    source: Source
    voxels: int = 0
    stored: int = 0
    left: int = ALL_SAMPLES
    _seen: set[str] = field(default_factory=set)

    def measure_array(self, array: ChunkedArray) -> None:
        """Measure chunks, or shards, that are spread over an array."""
        if array.path in self._seen or self.left <= 0:
            return
        self._seen.add(array.path)
        unit = array.shards or array.chunks
        grid = tuple(-(-n // m) for n, m in zip(array.shape, unit, strict=True))
        count = math.prod(grid)
        objects = ArrayObjects(array.source, array.path, array.layout)
        find_separator(objects)
        many = min(SAMPLES, self.left, count)
        self.left -= many
        for number in range(many):
            index = (2 * number + 1) * count // (2 * many)
            cell = tuple(int(i) for i in np.unravel_index(index, grid or (1,)))
            cell = cell[: len(grid)]
            found = objects.find_revision(cell)
            box = box_of(cell, unit, array.shape)
            size = math.prod(stop - start for start, stop in box)
            self.voxels += size * array.dtype.itemsize
            self.stored += 0 if found is None else found.size

    def measure_files(self, task: CopyTask) -> int:
        """Return about how many bytes files take that are copied."""
        keys = [join_key(task.source, name) for name in task.names[:SAMPLES]]
        found = [self.source.find_revision(key) for key in keys]
        size = sum(one.size for one in found if one is not None)
        return size * len(task.names) // max(1, len(keys))

    def read_bytes(self, nbytes: int) -> int | None:
        """Return about how many bytes voxels of so many bytes take."""
        if not self.stored or not self.voxels:
            return None if nbytes else 0
        return round(nbytes * self.stored / self.voxels)


def estimate_conversion(
    node: Node,
    request: ConversionRequest,
    goes_on: Callable[[int], bool] = lambda count: True,
) -> ConversionEstimate:
    """Estimate a conversion; writes nothing.

    Parameters
    ----------
    node
        What becomes the root.
    request
        What is asked for.
    goes_on
        Called with the number of arrays that are counted; False stops, and what is
        counted so far is returned.

    Raises
    ------
    ValueError, UnsupportedError
        Where something cannot be stated or stored as it is asked for.
    OMEZarrError, OSError
        Where metadata cannot be read.
    """
    drafts = DraftDocuments()
    plan = ConversionPlan(node, request, drafts.name, drafts.put, drafts=drafts)
    sizes = StoredSizes(node.location.source)
    pieces = files = nbytes = encoded = copied = computed = 0
    for number, task in enumerate(plan.list_tasks()):
        pieces += task.count
        if isinstance(task, ArrayTask):
            voxels = math.prod(task.region.shape) * task.itemsize
            nbytes += voxels
            encoded += 0 if task.keeps_chunks else voxels
            files += _count_objects(task, drafts)
            if task.method:
                computed += voxels  # from a level that is new itself
            else:
                source = node.location.source
                sizes.measure_array(open_array(source, task.source, task.zarr_format))
        elif isinstance(task, CopyTask):
            files += len(task.names)
            copied += sizes.measure_files(task)
        if not goes_on(number + 1):
            break
    read = sizes.read_bytes(nbytes - computed)
    return ConversionEstimate(
        pieces,
        files + drafts.count + len(plan.root),
        nbytes,
        None if read is None else read + copied,
        encoded,
        tuple(plan.problems),
    )


def _count_objects(task: ArrayTask, drafts: DraftDocuments) -> int:
    array = open_array(drafts, task.target)
    unit = array.shards or array.chunks
    return math.prod(-(-n // m) for n, m in zip(array.shape, unit, strict=True))


def free_bytes(target: Path | str) -> int | None:
    """Return the free bytes of the disk of a target; None for one on a server."""
    if not isinstance(target, Path):
        return None
    folder = target.parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
