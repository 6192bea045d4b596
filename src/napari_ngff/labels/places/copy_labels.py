"""Copies a label image into another hierarchy, object by object if possible.

Memory, for each thread: a stored object; or three decoded chunks where the zarr format
changes, and where copies are compared. The process's cache of decoded chunks
(`napari_ngff.store.arrays.chunked_array.cache`) is not included.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from napari_ngff.errors import ConflictError, CorruptDataError, UnsupportedError
from napari_ngff.labels.create_labels import put_array
from napari_ngff.labels.places.label_list import (
    add_to_list,
    put_group,
    require_free,
    state_version,
)
from napari_ngff.labels.places.sidecar import (
    MOST_COPIED,
    remember_sidecar,
    sidecar_location,
)
from napari_ngff.metadata.dump import dump_image
from napari_ngff.metadata.model import JSON, LabelInfo
from napari_ngff.store.arrays.array_document import NewArray
from napari_ngff.store.arrays.array_writer import ArrayWriter
from napari_ngff.store.arrays.boxes import box_of
from napari_ngff.store.arrays.chunked_array import ChunkedArray, open_array
from napari_ngff.store.arrays.drawable_pixels import as_labels, label_type
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.hierarchy.location import Location
from napari_ngff.store.hierarchy.node import CLAIMS, Node, read_node, without_links
from napari_ngff.store.limits import ARRAY_DOCUMENT, parse_json
from napari_ngff.store.threads import share_work

if TYPE_CHECKING:
    from napari_ngff.labels.places.label_location import LabelLocation
    from napari_ngff.store.arrays.chunk_layout import Shape
    from napari_ngff.store.store import Transaction

GoesOn = Callable[[int, int], bool]
"""Called with how many objects are done, and of how many; returns whether to go on."""


def open_arrays(label: Node) -> dict[str, ChunkedArray]:
    """Open the arrays of a label image, by their paths below it."""
    image = label.metadata.image
    if image is None:
        raise UnsupportedError(f"{label} is not a label image.")
    source, location = label.location.source, label.location
    paths = [
        level.path for multiscale in image.multiscales for level in multiscale.levels
    ]
    return {
        path: open_array(source, location.object_key(path), label.zarr_format)
        for path in paths
    }


def copy_labels(
    label: Node,
    image: Node,
    folder: str | os.PathLike[str] | None = None,
    *,
    limit: int | None = MOST_COPIED,
    goes_on: GoesOn | None = None,
) -> Node | None:
    """Copy a label image into the sidecar of its image, to be edited there.

    Parameters
    ----------
    label, image
        Groups of the label image and of its image.
    folder
        Where the sidecar is to be; see `sidecar_location`.
    limit
        Bytes of decoded voxels that are copied at most; None for any number.
    goes_on
        Called with the progress; returns whether to go on.

    Returns
    -------
    Node or None
        The copy; None where it was cancelled, and nothing is left.

    Raises
    ------
    UnsupportedError
        Where it is too large, or there can be no sidecar.
    FileExistsError
        Where the sidecar has one of this name already.
    ChunkError, OSError
        Where a block cannot be read, or the system refuses to write.
    """
    home = sidecar_location(image, folder)
    name = label.name
    if name in home.label_names():
        msg = f"{home.source.name} has a copy of {name} already. Open {image} again."
        raise FileExistsError(msg)
    # Of all levels, decoded.
    size = sum(a.size * a.dtype.itemsize for a in open_arrays(label).values())
    if limit is not None and size > limit:
        msg = (
            f"{label} holds {size / 2**30:.3g} GiB, and would have to be copied whole"
            f" before it can be edited; up to {limit / 2**30:.3g} GiB can be."
        )
        raise UnsupportedError(
            msg,
            remedy=(
                "Download it and open the copy, or paint the changes in new labels."
            ),
        )
    transaction, path = home.source.begin(), home.path_of(name)
    try:
        transaction.recover(path)
        # Written aside first: half a copy would look like labels that end there.
        with transaction.replace_tree(path, home.list_entry(name)) as tree:
            # Under the lock of the tree: no other process can take the name any more.
            require_free(transaction, path)
            copy = LabelCopy(without_links(label), home, name, tree.key)
            if not copy.write(transaction, goes_on):
                return None
            tree.commit()
            add_to_list(transaction, home, name)
    except ConflictError as error:
        msg = (
            f"There is something named {name} in {transaction.root} that is being"
            f" copied or made by another window. Open {image} again then."
        )
        raise FileExistsError(msg) from error
    finally:
        with suppress(OSError):
            os.rmdir(transaction.root)  # where it was made for this copy alone
    remember_sidecar(image, home)
    return home.open_label(name)


@dataclass(frozen=True, slots=True)
class LabelCopy:
    """A copy of a label image.

    Attributes
    ----------
    label
        What is copied.
    location
        The list of labels to which the copy belongs, in a folder.
    name
        Of the copy.
    folder
        Path where the copy is made, in the home's hierarchy; nothing is there yet.
    """

    label: Node
    location: LabelLocation
    name: str
    folder: str

    def write(self, transaction: Transaction, goes_on: GoesOn | None = None) -> bool:
        """Copy the arrays, then the document of the group.

        Returns
        -------
        bool
            Whether nobody cancelled it.

        Raises
        ------
        ValueError
            Where the home's version cannot state what the label image does; before
            anything is written.
        ChunkError
            Where a block cannot be read.
        OSError
            Where the system refuses to write.
        """
        attributes = self._copy_attributes()
        arrays = open_arrays(self.label)
        total = sum(math.prod(_object_counts(array)) for array in arrays.values())
        tally = _CopyTally(total, goes_on)
        for path, array in arrays.items():
            copy_path = join_key(self.folder, path)
            copy = self._copy_raw if self._can_copy_raw(array) else self._copy_converted
            copy(transaction, array, copy_path, tally)
            if tally.stopped:
                return False
        put_group(transaction, self.folder, attributes)
        transaction.commit()
        return True

    def _can_copy_raw(self, array: ChunkedArray) -> bool:
        """Return whether stored objects can be copied as they are."""
        # Keys and bytes of objects are the same only in the same zarr format, with a
        # separator that is stated, and if the type can be painted on and encoded.
        known = array.ndim < 2 or array.layout.keys.separator is not None
        paintable = array.direct and label_type(array.dtype) == array.dtype
        return array.zarr_format == self.location.zarr_format and known and paintable

    def _copy_raw(
        self,
        transaction: Transaction,
        array: ChunkedArray,
        target: str,
        tally: _CopyTally,
    ) -> None:
        source, keys = array.source, array.layout.keys

        def copy_object(position: Shape) -> None:
            key = keys.make_key(position)
            data = source.get(join_key(array.path, key))
            # A chunk that does not exist is the fill value, which the document states.
            if data is not None:
                transaction.put(join_key(target, key), data)
            tally.count_object()

        document = ARRAY_DOCUMENT[array.zarr_format]
        transaction.put(
            join_key(target, document),
            source.get(join_key(array.path, document)) or b"",
        )
        # Zarr v3 has the attributes in the document of the array.
        attributes = source.get(join_key(array.path, ".zattrs"))
        if array.zarr_format == 2 and attributes is not None:
            transaction.put(join_key(target, ".zattrs"), attributes)
        _for_each_object(array, copy_object, tally)

    def _copy_converted(
        self,
        transaction: Transaction,
        array: ChunkedArray,
        target: str,
        tally: _CopyTally,
    ) -> None:
        image = self.label.metadata.image
        assert image is not None
        names = image.multiscales[0].axis_names
        # A copy is made to be painted, and labels are integers.
        dtype = label_type(array.dtype)
        # Without shards: each chunk is then an object that one thread writes.
        new = NewArray(array.shape, array.chunks, dtype, names)
        put_array(transaction, target, new, self.location)
        writer = ArrayWriter(open_array(transaction.source, target), transaction)

        def convert_object(position: Shape) -> None:
            for cell in _object_chunks(array, position):
                box = box_of(cell, array.chunks, array.shape)
                pixels = as_labels(array.read(box))

                def set_pixels(
                    _: object, block: np.ndarray, pixels: object = pixels
                ) -> bool:
                    # Of background alone no chunk is written: it is the fill value.
                    block[...] = pixels
                    return bool(block.any())

                writer.update_cells(cell, [cell], set_pixels)
            tally.count_object()

        _for_each_object(array, convert_object, tally)

    def _copy_attributes(self) -> JSON:
        """Return the attributes of the label image with a new source."""
        source, home = self.location.source_image(self.name), self.location
        given = self.label.attributes
        # Of the same version: as written, with all that this package does not know.
        if self.label.metadata.version == home.stated:
            content: JSON = deepcopy(given)
            attributes = content["ome"] if home.zarr_format == 3 else content
            label = attributes.setdefault("image-label", {})
            if isinstance(label, dict):
                stated = label.get("source")
                kept = stated if isinstance(stated, dict) else {}
                label["source"] = {**kept, "image": source}
            return content
        image = self.label.metadata.image
        assert image is not None
        info = replace(image.label or LabelInfo(), source=source)
        made = dump_image(replace(image, label=info), home.version)
        # Attributes of other programs are taken along.
        others = {key: given[key] for key in given if key not in CLAIMS}
        return {**others, **state_version(made, home)}

    def is_complete(self) -> bool:
        """Return whether a copy is there, with the same attributes and voxels.

        Raises
        ------
        OMEZarrError, OSError
            Where anything is missing, cannot be read, or differs.
        """
        there = read_node(Location(self.location.source, self.folder)).attributes
        # As what is there: JSON has no tuples.
        if there != parse_json(json.dumps(self._copy_attributes())):
            return False
        self.compare_voxels()
        return True

    def compare_voxels(self) -> None:
        """Compare all voxels with those of the label image as it is now.

        Raises
        ------
        CorruptDataError
            Where they differ.
        """
        copies = {
            path: open_array(self.location.source, join_key(self.folder, path))
            for path in open_arrays(self.label)
        }
        for path, array in open_arrays(self.label).items():
            copy = copies[path]
            if copy.shape != array.shape:
                raise CorruptDataError(f"{self.label} has another size than its copy.")

            def compare_object(position: Shape, array: ChunkedArray = array) -> None:
                for cell in _object_chunks(array, position):
                    box = box_of(cell, array.chunks, array.shape)
                    wanted = as_labels(array.read(box))
                    # B023: `compare_object` runs only while `copy` is this one.
                    if not np.array_equal(wanted, copy.read(box)):  # noqa: B023
                        raise CorruptDataError(
                            f"The copy of {self.label} differs at {array.path}, {box}:"
                            " it was changed meanwhile, or the disk is at fault."
                        )

            _for_each_object(array, compare_object, _CopyTally(0, None))


class _CopyTally:
    """Counts finished objects, in all threads."""

    def __init__(self, total: int, goes_on: GoesOn | None) -> None:
        self.stopped = False
        self._total, self._goes_on = total, goes_on
        self._done = 0
        self._lock = threading.Lock()

    def count_object(self) -> None:
        # The caller's function is called by one thread at a time.
        with self._lock:
            self._done += 1
            if self._goes_on is not None and not self._goes_on(self._done, self._total):
                self.stopped = True


def _for_each_object(
    array: ChunkedArray, step: Callable[[Shape], None], tally: _CopyTally
) -> None:
    """Call `step` for the position of each stored object, in several threads."""
    grid = _object_counts(array)

    def list_positions() -> Iterator[Shape]:
        for position in itertools.product(*map(range, grid)):
            if tally.stopped:
                return
            yield position

    share_work(list_positions(), step, math.prod(grid), array.source.traits.at_once)


def _object_counts(array: ChunkedArray) -> Shape:
    """Count the stored objects per axis."""
    unit = array.shards or array.chunks
    return tuple(-(-n // c) for n, c in zip(array.shape, unit, strict=True))


def _object_chunks(array: ChunkedArray, position: Shape) -> Iterator[Shape]:
    """List the chunks of a stored object that are inside the array."""
    # A shard at the border reaches beyond the array; its chunks there do not exist.
    unit = array.shards or array.chunks
    spans = []
    for i, u, c, n in zip(position, unit, array.chunks, array.shape, strict=True):
        spans.append(range(i * u // c, -(-min((i + 1) * u, n) // c)))
    yield from itertools.product(*spans)
