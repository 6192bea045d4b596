"""Creates a label image for an image of OME-Zarr 0.4, 0.5 or 0.6.

The arrays are written first, then the labels that were painted, then the document of
the group, and last its entry in the list of labels: until then no reader knows of it.
Up to 0.3 a file cannot state where its pixels are, so labels could lie off:
docs/design/005.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as changed
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.labels.places.label_list import (
    add_to_list,
    claim_place,
    put_group,
    state_version,
)
from napari_ngff.labels.places.label_location import (
    LabelLocation,
    is_name,
    location_inside,
)
from napari_ngff.metadata.dump import dump_image
from napari_ngff.metadata.model import ImageMetadata, LabelInfo, Level, Multiscale
from napari_ngff.metadata.version import V0_4, V0_5
from napari_ngff.store.arrays.array_document import NewArray, shard_shape
from napari_ngff.store.arrays.chunked_array import ChunkedArray, open_array
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.pyramids.level_reduction import LevelReduction, Method
from napari_ngff.store.pyramids.pyramid import Pyramid, open_pyramid
from napari_ngff.store.pyramids.pyramid_writer import place_coarse_level
from napari_ngff.store.write.consolidated import update_copies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.store import NewTree, Transaction

METHOD: Method = "mode"
"""Of new labels: a voxel of a coarser level lies in the middle of its block, where the
transformations say, which is not true of the block's first voxel."""

SOFTWARE = "napari-ngff"
"""Marks new labels as made by this package; see `Multiscale.software`."""


@dataclass(frozen=True, slots=True)
class NewLabels:
    """A label image whose arrays exist, but not yet its group and its place in a list.

    In an archive nothing is written before `register` and a commit of the transaction.

    Attributes
    ----------
    location
        The group that is to list it.
    name
        Of its own group in the list.
    multiscale
        Axes (those of the image without the channel) and levels.
    arrays
        The levels, as many as those of the image.
    tree
        Keeps others from taking the path meanwhile.
    """

    location: LabelLocation
    name: str
    multiscale: Multiscale
    arrays: tuple[ChunkedArray, ...]
    tree: NewTree

    @property
    def ratios(self) -> list[list[float]]:
        """Size of each level's voxels relative to the next finer level's, per axis."""
        return [
            [b / a for a, b in zip(fine.scale, coarse.scale, strict=True)]
            for fine, coarse in pairwise(self.multiscale.levels)
        ]

    def register(self, info: LabelInfo | None = None) -> None:
        """Write the document of the group, then enter it into the list of labels.

        Where all is saved together both wait for `Transaction.commit`.

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
        home, path = self.location, self.location.path_of(self.name)
        transaction = home.source.begin()
        # `image-label` with `source` alone: what a label image needs at least.
        bare = LabelInfo(source=home.source_image(self.name))
        label = changed(info or bare, source=bare.source)
        # A property that JSON cannot state must not keep the voxels from being saved.
        try:
            content = dump_image(
                ImageMetadata((self.multiscale,), label=label), home.version
            )
        except ValueError:
            content = dump_image(
                ImageMetadata((self.multiscale,), label=bare), home.version
            )
        put_group(transaction, path, state_version(content, home))
        # In this order no reader meets a name whose label image is not complete; the
        # copies are last, since zarr-python believes them.
        self.tree.commit()
        add_to_list(transaction, home, self.name)
        update_copies(transaction, documents_of(home, self.name, self.multiscale))
        self.tree.close()

    def abandon(self) -> None:
        """Remove labels that are not registered; those they would replace come back."""
        self.tree.abandon()


def create_labels(
    image: Node,
    name: str,
    dtype: np.dtype[Any],
    level: int = 0,
    home: LabelLocation | None = None,
    *,
    replace: bool = False,
    pyramid: Pyramid | None = None,
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
        Whether to replace a label image of that name. It stays until the new one is
        registered.
    pyramid
        The image's levels, where they are open; they are opened by default.

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
    home = home or location_inside(image)
    transaction = home.source.begin()
    # Only this source reads what is put before it is committed.
    home = changed(home, source=transaction.source)
    shapes, chunks, multiscale = _plan_levels(
        open_pyramid(image) if pyramid is None else pyramid,
        name,
        level,
        _count_levels(image),
    )
    # Raises where the version cannot state it, before anything is written.
    dump_image(ImageMetadata((multiscale,), label=LabelInfo()), home.version)
    if "/" in name or not is_name(name):
        raise ValueError(f"{name!r} cannot be the name of a folder. Choose another.")
    path = home.path_of(name)
    tree = claim_place(
        transaction, home, name, documents_of(home, name, multiscale), replace
    )
    for level_metadata, shape, size in zip(
        multiscale.levels, shapes, chunks, strict=True
    ):
        shards = None
        if home.source.traits.has_directory and home.zarr_format == 3:
            # Zarr v2 has no shards.
            shards = shard_shape(shape, size, dtype.itemsize)
        array = NewArray(shape, size, dtype, multiscale.axis_names, shards)
        put_array(transaction, f"{path}/{level_metadata.path}", array, home)
    level_paths = (
        f"{path}/{level_metadata.path}" for level_metadata in multiscale.levels
    )
    arrays = (open_array(home.source, level_path) for level_path in level_paths)
    return NewLabels(home, name, multiscale, tuple(arrays), tree)


def documents_of(home: LabelLocation, name: str, multiscale: Multiscale) -> list[str]:
    """Return the paths of the groups and arrays that change with a label image."""
    path = home.path_of(name)
    levels = (join_key(path, level.path) for level in multiscale.levels)
    return [home.group, path, *levels]


def _count_levels(image: Node) -> int:
    """Count the levels that an image states, also those that are not shown."""
    stated = image.metadata.image.multiscales if image.metadata.image else ()
    return len(stated[0].levels) if stated else 0


def _plan_levels(
    pyramid: Pyramid, name: str, first: int, stated_levels: int
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]], Multiscale]:
    """Plan shapes, chunks and transformations of all levels."""
    multiscale = pyramid.multiscale
    # A label applies to all channels of a pixel.
    kept = [i for i in range(len(multiscale.axes)) if i != multiscale.channel_axis]
    shapes = [tuple(level.shape[i] for i in kept) for level in pyramid.levels]
    # "MUST have the same number of entries (scale levels) as the original image".
    while len(shapes) < first + max(len(pyramid.levels), stated_levels):
        last = shapes[-1]
        # Rounded up, so that the last row and column are in a block, too.
        shapes.append((*last[:-2], -(-last[-2] // 2), -(-last[-1] // 2)))
    if first < len(pyramid.levels):
        larger = level_factors(pyramid, first)[kept]
    else:
        # The finest level of the labels is coarser than all levels of the image.
        larger = np.divide(shapes[0], shapes[first])
    shapes = shapes[first:]
    levels = pyramid.levels[min(first, len(pyramid.levels) - 1) :]
    wanted = [tuple(level.chunks[i] for i in kept) for level in levels]
    wanted += wanted[-1:] * (len(shapes) - len(wanted))
    # Zarr stores whole chunks: one larger than its array would be padded.
    chunks = [
        tuple(min(c, n) for c, n in zip(sizes, shape, strict=True))
        for sizes, shape in zip(wanted, shapes, strict=True)
    ]
    stated = [
        [item.scale[i] for i in kept] for item in multiscale.levels[first : len(shapes)]
    ]
    whole = np.array([multiscale.levels[0].scale[i] for i in kept])
    corner = np.array([multiscale.levels[0].translation[i] for i in kept])
    # The centre of a voxel is the centre of the voxels of level 0 that it stands for:
    # (larger - 1) / 2 of them from the centre of the first.
    scale, translation = whole * larger, corner + (larger - 1) / 2 * whole
    placed = _place_levels(shapes, stated, scale, translation)
    axes = tuple(multiscale.axes[i] for i in kept)
    return shapes, chunks, Multiscale(name, axes, placed, METHOD, software=SOFTWARE)


def level_factors(pyramid: Pyramid, number: int) -> np.ndarray[Any, Any]:
    """Find how much larger the voxels of a level are than those of level 0.

    As the transformations state, where the shapes agree to a voxel; else by the ratio
    of the shapes. New labels lie by this, whatever translation the level states: one
    of 0, as many images have, would move them against what they are painted on.

    Returns
    -------
    ndarray
        One factor per axis of the image.
    """
    first, level = (pyramid.multiscale.levels[index] for index in (0, number))
    fine, coarse = (np.array(pyramid.levels[index].shape) for index in (0, number))
    stated = np.abs(np.divide(level.scale, first.scale))
    # Off by less than one coarse voxel, as a level of odd size is; more is an error.
    fits = np.abs(stated * coarse - fine) < np.maximum(stated, 1)
    factors: np.ndarray[Any, Any] = np.where(fits, stated, fine / coarse)
    return factors


def _place_levels(
    shapes: Sequence[tuple[int, ...]],
    stated: Sequence[Sequence[float]],
    scale: Any,
    translation: Any,
) -> tuple[Level, ...]:
    """Place levels of these shapes, the finest by its scale and translation.

    `stated` are the scales of the levels that the image has, too.
    """
    factors = np.ones(len(shapes[0]))
    placed = [place_coarse_level("0", scale, translation, factors)]
    for number, (fine, coarse) in enumerate(pairwise(shapes), 1):
        # The image's scales show what is meant where the shapes allow two factors.
        ratios = None
        if number < len(stated):
            finer = stated[number - 1]
            ratios = [b / a for a, b in zip(finer, stated[number], strict=True)]
        steps = LevelReduction.between_shapes(fine, coarse, METHOD, ratios).steps
        factors = factors * [item.factor or item.fine / item.coarse for item in steps]
        placed.append(place_coarse_level(str(number), scale, translation, factors))
    return tuple(placed)


def put_array(
    transaction: Transaction, path: str, array: NewArray, home: LabelLocation
) -> None:
    """Write the document of an array at a path of the label location's hierarchy."""
    name, text = array.make_document(V0_4 if home.zarr_format == 2 else V0_5)
    transaction.put(join_key(path, name), text)
