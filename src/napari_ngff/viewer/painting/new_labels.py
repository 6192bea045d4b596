"""Makes new, empty labels for an image; their size does not matter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import UnsupportedError
from napari_ngff.labels.class_colors import FIRST_COLORS
from napari_ngff.labels.create_labels import level_factors
from napari_ngff.labels.places.label_location import LabelLocation, name_problem
from napari_ngff.labels.places.sidecar import choose_location, open_sidecars
from napari_ngff.metadata.model import KIND, LabelKind
from napari_ngff.store.arrays.drawable_pixels import DrawablePixels
from napari_ngff.store.arrays.lazy_array import ArrayWindow, BlankArray, LazyArray
from napari_ngff.store.pyramids.pyramid import LevelSource
from napari_ngff.viewer.layers.label_layers import label_colormap
from napari_ngff.viewer.layers.label_owners import (
    TARGET,
    LabelTarget,
    Sidecar,
    image_file,
)
from napari_ngff.viewer.plans.layer_plan import (
    LayerData,
    LayerPlan,
    is_joined,
    levels_in,
    origin_in,
    origin_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from napari.layers import Image, Layer

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.painting.paint import OMEZarrLabels

PLACEMENT = ("scale", "translate", "rotate", "shear", "affine", "units", "axis_labels")
"""Keywords of the position of a layer, which labels take over from their image."""

CHUNK = 512
"""Side of a chunk in the last two axes where the image states none."""

COMPARED_FIELD = "This field is shown for comparison. Open it to paint."

OVERVIEW = "Labels on a plate overview cannot be stored. Open a field first."
OTHER_PIXELS = (
    "Labels on this image cannot be stored, because it does not show the file's own"
    " pixels. Show the image in its own coordinate system first."
)

COARSEST = 1024
"""Voxels along y and x up to which labels of an image of one level need no coarser
level."""


@dataclass(frozen=True, slots=True)
class LabelChoices:
    """What the user chooses for new labels; see `new_labels`."""

    name: str
    level: int = 0
    dtype: np.dtype[Any] = np.dtype(np.uint16)  # noqa: RUF009  never changes
    sidecar: Sidecar = None
    overwrite: bool = False
    kind: LabelKind | None = LabelKind.CLASSES


def taken_names(layer: Image) -> list[str]:
    """List the names of the label images of a layer's image, also those in sidecars.

    Those on a server are the ones that it had when the image was opened: a window does
    not wait for it, and a save finds out about later ones.
    """
    origin = origin_of(layer)
    if origin is None:
        return []
    node, picture = origin.node, origin.picture
    known = picture.label_names if picture is not None else None
    if known is None or not node.location.source.traits.is_remote:
        known = tuple(label.name for label in node.labels().nodes)
    return [*known, *open_sidecars(node).labels]


def free_name(layer: Image, others: Sequence[str] = (), wish: str = "labels") -> str:
    """Return a free name: `wish`, or that with a number behind it."""
    taken = [*taken_names(layer), *others]
    numbers = range(1, len(taken) + 2)
    names = [wish, *(f"{wish}-{number + 1}" for number in numbers)]
    return next(name for name in names if not name_problem(name, taken))


def list_unsaved_names(image: Image, layers: Iterable[Layer]) -> list[str]:
    """List the names of an image's new labels, which are in no file before a save."""
    origin = origin_of(image)
    names = []
    for layer in layers:
        target = layer.metadata.get(TARGET)
        is_waiting = isinstance(target, LabelTarget) and origin_of(layer) is None
        if is_waiting and origin is not None and str(target.node) == str(origin.node):
            names.append(layer.name)
    return names


def storage_problem(layer: Image) -> str:
    """Return why labels of an image layer could not be saved; "" where they can."""
    origin = origin_of(layer)
    finest = layer.data[0] if layer.multiscale else layer.data
    if origin is not None and origin.is_compared:
        return COMPARED_FIELD
    if origin is None or _axis_order(finest) is not None:
        return ""
    is_overview = origin.picture is not None and is_joined(origin.picture)
    return OVERVIEW if is_overview else OTHER_PIXELS


def is_shown(layers: Iterable[Layer], place: tuple[str, str]) -> bool:
    """Return whether one of several layers shows a group.

    Parameters
    ----------
    place
        Name of its hierarchy, and its path there.
    """
    origins = [origin_of(layer) for layer in layers]
    locations = [origin.node.location for origin in origins if origin is not None]
    return place in [(location.source.name, location.path) for location in locations]


def new_labels(
    layer: Image,
    name: str | None = None,
    *,
    level: int = 0,
    dtype: Any = np.uint16,
    sidecar: Sidecar = None,
    overwrite: bool = False,
    kind: str | None = LabelKind.CLASSES,
) -> OMEZarrLabels:
    """Make empty labels for an image layer; add them with ``viewer.add_layer``.

    Nothing is allocated, read of the pixels, or written. The labels have the image's
    axes, chunks, units and place, and levels of the same shapes.

    Parameters
    ----------
    layer
        The image; axes of the layer, so without the channel.
    name
        A free one by default.
    level
        The image's level that becomes the labels' finest: a coarser one is quicker to
        paint and to save.
    dtype
        Type of integers; it widens by itself where a label does not fit.
    sidecar
        True for an OME-Zarr of their own next to the image, or the folder in which
        that shall be; False for the image itself, None for that where it can be.
    overwrite
        Whether the first save may replace a label image of that name.
    kind
        "classes" or "objects": what each label is. None to leave it open: they are
        objects until they have classes.

    Raises
    ------
    ValueError
        Where the name cannot be used, or there is no such level.
    UnsupportedError
        Where labels of this image cannot be saved, as on a plate overview, or cannot
        go where `sidecar` says.
    """
    from napari_ngff.viewer.painting.painted_layers import as_layer

    reason = storage_problem(layer)
    if reason:
        raise UnsupportedError(reason)
    name = free_name(layer) if name is None else name
    taken = [used for used in taken_names(layer) if not (overwrite and used == name)]
    problem = name_problem(name, taken)
    if problem:
        raise ValueError(problem)
    chosen = LabelChoices(
        name,
        level,
        np.dtype(dtype),
        sidecar,
        overwrite,
        LabelKind(kind) if kind else None,
    )
    placed: dict[str, Any] = {key: getattr(layer, key) for key in PLACEMENT}
    levels = list(layer.data) if layer.multiscale else [layer.data]
    image = levels, {**placed, "metadata": layer.metadata}, "image"
    data = label_data(image, chosen)
    if origin_of(layer) is None:
        metadata = data[1]["metadata"]
        metadata[TARGET] = replace(metadata[TARGET], image_file=image_file(layer))
    new: OMEZarrLabels = as_layer(data)
    return new


def label_data(image: LayerData, chosen: LabelChoices) -> LayerData:
    """Make the data of a layer of new labels; reads only metadata of the image's file.

    Parameters
    ----------
    image
        Levels and keywords of a channel of the image.
    chosen
        The name has to be free.

    Raises
    ------
    ValueError
        Where the image has no such level.
    UnsupportedError
        Where labels cannot go where `chosen` says.
    """
    levels, keywords = levels_in(image), image[1]
    ndim = len(keywords["scale"])
    shapes = _level_shapes(levels, ndim)
    name, level = chosen.name, chosen.level
    if not 0 <= level < len(shapes):
        msg = f"The image has no level {level}, only 0 to {len(shapes) - 1}."
        raise ValueError(msg)
    chunks = _chunk_shape(levels[0], ndim)
    arrays = [
        LazyArray.of_window(
            ArrayWindow.whole_source(
                # Zeros that take no memory: the canvas keeps only what is painted.
                BlankArray(shape, tuple(map(min, chunks, shape)), chosen.dtype)
            )
        )
        for shape in shapes[level:]
    ]
    origin = origin_in(keywords["metadata"])
    node = origin.node if origin is not None else None
    order = _axis_order(levels[0])
    home = None if order is None else _choose_location(node, chosen.sidecar)
    replaces = name if chosen.overwrite else ""
    picture = origin.picture if origin is not None else None
    target = LabelTarget(
        node,
        name,
        level,
        home,
        order,
        chosen.sidecar,
        replaces,
        picture.pyramid if picture is not None else None,
    )
    factor = _level_factors(picture, order, level, shapes)
    placed = {key: keywords[key] for key in PLACEMENT if keywords.get(key) is not None}
    # The middle of a voxel that holds several lies between theirs.
    shift = _linear_matrix(placed, ndim) @ ((factor - 1) / 2)
    placed["translate"] = np.asarray(keywords["translate"]) + shift
    placed["scale"] = np.asarray(keywords["scale"]) * factor
    keywords = {
        **placed,
        "name": name,
        "colormap": label_colormap(FIRST_COLORS),
        "metadata": {TARGET: target, KIND: chosen.kind},
    }
    return arrays, keywords, "labels"


def _linear_matrix(placed: dict[str, Any], ndim: int) -> np.ndarray[Any, Any]:
    """Return the matrix that takes voxels to world coordinates, but for `affine`."""
    from napari.utils.transforms import Affine

    given = {key: placed[key] for key in ("scale", "rotate", "shear") if key in placed}
    matrix: np.ndarray[Any, Any] = Affine(**given, ndim=ndim).linear_matrix
    return matrix


def _choose_location(node: Node | None, sidecar: Sidecar) -> LabelLocation | None:
    """Return the place for labels; None where the usual one is not possible.

    Raises
    ------
    UnsupportedError
        Where the place that was asked for is not possible.
    """
    if node is None:
        return None
    try:
        return choose_location(node, sidecar)
    except UnsupportedError:
        if sidecar is not None:
            raise
        return None  # the first save reports it


def _axis_order(finest: Any) -> tuple[int | None, ...] | None:
    """Return the image's axis for each axis of the layer; None without an array."""
    window = finest.window if isinstance(finest, LazyArray) else None
    if window is None:
        return None
    source = window.source
    inner = source.source if isinstance(source, DrawablePixels) else source
    return window.order if isinstance(inner, LevelSource) else None


def _level_factors(
    picture: LayerPlan | None,
    order: Sequence[int | None] | None,
    level: int,
    shapes: Sequence[Sequence[int]],
) -> np.ndarray[Any, Any]:
    """Return the size of voxels of a level relative to the finest, per axis."""
    # Without metadata by the shapes, as napari does it.
    if picture is None or order is None or level >= len(picture.pyramid.levels):
        return np.divide(shapes[0], shapes[level])
    stated = level_factors(picture.pyramid, level)
    return np.array([1.0 if axis is None else stated[axis] for axis in order])


def _level_shapes(levels: Sequence[Any], ndim: int) -> list[tuple[int, ...]]:
    """Return the shapes of the levels, without colours."""
    shapes = [tuple(int(n) for n in level.shape[:ndim]) for level in levels]
    while len(levels) == 1 and max(shapes[-1][-2:]) > COARSEST:
        last = shapes[-1]
        # Rounded up, as `coarser_shape`: the file gets levels of these shapes.
        shapes.append((*last[:-2], -(-last[-2] // 2), -(-last[-1] // 2)))
    return shapes


def _chunk_shape(finest: Any, ndim: int) -> tuple[int, ...]:
    """Return the shape of the image's chunks at level 0."""
    chunks = getattr(finest, "chunks", None)
    if not chunks:
        return (1,) * (ndim - 2) + (CHUNK, CHUNK)
    # zarr states a length per axis, dask the lengths of all chunks along it.
    sizes = [int(c if isinstance(c, int) else max(c)) for c in chunks]
    return tuple(sizes[:ndim])
