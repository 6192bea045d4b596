"""New, empty labels for an image, of any size in no time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import UnsupportedError
from napari_ngff.labels.blank import Blank
from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.places.home import name_problem
from napari_ngff.labels.places.sidecar import attached, home_of_new
from napari_ngff.store.lazy import LazyArray
from napari_ngff.store.pyramid import LevelSource
from napari_ngff.viewer.picture import KEY, LayerOrigin

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from napari.layers import Image, Layer

    from napari_ngff.labels.places.home import LabelHome
    from napari_ngff.store.node import Node
    from napari_ngff.viewer.painting.paint import OMEZarrLabels

__all__ = [
    "TARGET",
    "LabelTarget",
    "free_name",
    "is_shown",
    "new_labels",
    "taken_names",
]

TARGET = "ome-zarr-target"
"""Where a layer's ``metadata`` keeps its `LabelTarget`."""

CHUNK = 512
"""Side of a chunk in the last two axes where the image states none."""

COARSEST = 1024
"""An image of one level gets coarser levels of labels until one is no longer."""


@dataclass(frozen=True, slots=True)
class LabelTarget:
    """Where new labels belong.

    Attributes
    ----------
    node
        The image's group; None where the image is not of an OME-Zarr.
    level
        Level of the image that is the finest of the labels.
    home
        The group that will list them; None where there is none.
    """

    node: Node | None
    name: str
    level: int = 0
    home: LabelHome | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> LabelTarget:
        return self


def taken_names(layer: Image) -> list[str]:
    """List the label images that the layer's image has, in sidecars, too."""
    origin = layer.metadata.get(KEY)
    if not isinstance(origin, LayerOrigin):
        return []
    own = [node.name for node in origin.node.labels().nodes]
    return [*own, *attached(origin.node).labels]


def free_name(layer: Image, others: Sequence[str] = (), wish: str = "labels") -> str:
    """Propose a name that is not taken, similar to what is wished for."""
    taken = [*taken_names(layer), *others]
    numbers = range(1, len(taken) + 2)
    names = [wish, *(f"{wish}-{number + 1}" for number in numbers)]
    return next(name for name in names if not name_problem(name, taken))


def is_shown(layers: Iterable[Layer], place: tuple[str, str]) -> bool:
    """Tell whether one of some layers shows a group.

    Parameters
    ----------
    place
        Where its hierarchy is, and its path there.
    """
    origins = [layer.metadata.get(KEY) for layer in layers]
    nodes = [one.node.location for one in origins if isinstance(one, LayerOrigin)]
    return place in [(node.source.name, node.path) for node in nodes]


def new_labels(
    layer: Image,
    name: str | None = None,
    *,
    level: int = 0,
    dtype: Any = np.uint16,
    sidecar: bool | str | os.PathLike[str] | None = None,
    overwrite: bool = False,
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

    Raises
    ------
    ValueError
        Where the name cannot be used, or there is no such level.
    UnsupportedError
        Where labels cannot go where `sidecar` says.
    """
    from napari.utils.transforms import Affine

    from napari_ngff.viewer.painting.paint import OMEZarrLabels
    from napari_ngff.viewer.saving.attachment import attach_new

    name = free_name(layer) if name is None else name
    taken = [one for one in taken_names(layer) if not (overwrite and one == name)]
    problem = name_problem(name, taken)
    if problem:
        raise ValueError(problem)
    ndim = layer.ndim
    shapes = _shapes(layer)
    if not 0 <= level < len(shapes):
        msg = f"{layer.name} has no level {level}, only 0 to {len(shapes) - 1}."
        raise ValueError(msg)
    chunks = _chunks(layer)
    sources = [
        Blank(shape, tuple(np.minimum(chunks, shape).tolist()), np.dtype(dtype))
        for shape in shapes[level:]
    ]
    factor = np.divide(shapes[0], shapes[level])
    linear = Affine(
        scale=layer.scale, rotate=layer.rotate, shear=layer.shear, ndim=ndim
    ).linear_matrix
    origin = layer.metadata.get(KEY)
    node = origin.node if isinstance(origin, LayerOrigin) else None
    order = _order(layer)
    home = None if order is None else _home(node, sidecar)
    labels = OMEZarrLabels(
        Canvas(sources),
        name=name,
        scale=layer.scale * factor,
        # The middle of a voxel that holds several lies between theirs.
        translate=layer.translate + linear @ ((factor - 1) / 2),
        rotate=layer.rotate,
        shear=layer.shear,
        affine=layer.affine,
        units=layer.units,
        axis_labels=layer.axis_labels,
        metadata={TARGET: LabelTarget(node, name, level, home)},
    )
    attach_new(labels, node, name, level, order, home)
    if overwrite and labels.saver is not None:
        labels.saver.replaces = name
    return labels


def _home(
    node: Node | None, sidecar: bool | str | os.PathLike[str] | None
) -> LabelHome | None:
    """Choose where labels go; None where nobody has asked for what cannot be."""
    if node is None:
        return None
    try:
        return home_of_new(node, sidecar)
    except UnsupportedError:
        if sidecar is not None:
            raise
        return None  # whoever saves them is told


def _order(layer: Image) -> tuple[int | None, ...] | None:
    """Find the image's own axis for each of the layer; None where it has no array."""
    data = layer.data[0] if layer.multiscale else layer.data
    window = data.window if isinstance(data, LazyArray) else None
    if window is None or not isinstance(window.source, LevelSource):
        return None
    return window.axes


def _shapes(layer: Image) -> list[tuple[int, ...]]:
    """Shapes of the levels, without colours."""
    ndim = layer.ndim
    shapes = [tuple(int(n) for n in shape[:ndim]) for shape in layer.level_shapes]
    while not layer.multiscale and max(shapes[-1][-2:]) > COARSEST:
        last = shapes[-1]
        shapes.append((*last[:-2], -(-last[-2] // 2), -(-last[-1] // 2)))
    return shapes


def _chunks(layer: Image) -> tuple[int, ...]:
    """Shape of the image's chunks at level 0."""
    data = layer.data[0] if layer.multiscale else layer.data
    chunks = getattr(data, "chunks", None)
    if not chunks:
        return (1,) * (len(layer.scale) - 2) + (CHUNK, CHUNK)
    sizes = [int(c if isinstance(c, int) else max(c)) for c in chunks]
    ndim: int = layer.ndim
    return tuple(sizes[:ndim])
