"""Saves the position to which a user moved an image, as a transformation."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from napari_ngff.errors import OMEZarrError, UnsupportedError
from napari_ngff.labels.create_labels import level_factors
from napari_ngff.labels.places.label_location import location_inside
from napari_ngff.labels.places.sidecar import open_sidecars
from napari_ngff.store.hierarchy.coordinate_systems import intrinsic_of
from napari_ngff.store.hierarchy.save_transform import save_transform
from napari_ngff.viewer.layers.label_layers import label_layer
from napari_ngff.viewer.layers.label_owners import TARGET, LabelTarget
from napari_ngff.viewer.layers.move_layers import (
    finest_axes,
    host_image,
    is_new,
    move_layers,
    world_matrix,
)
from napari_ngff.viewer.plans.layer_plan import (
    KEY,
    LayerOrigin,
    LayerPlan,
    SharedAxes,
    frame_of,
    is_joined,
    origin_of,
    picture_of,
)
from napari_ngff.viewer.plans.system_views import start_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from napari.layers import Layer

    from napari_ngff.metadata.model import Reference
    from napari_ngff.metadata.systems import Axis
    from napari_ngff.metadata.transform import Matrix
    from napari_ngff.store.hierarchy.node import Node


def save_alignment(layer: Layer, name: str, scene: Node | None = None) -> str:
    """Save the position of a layer as a coordinate system of its image, or of a scene.

    Parameters
    ----------
    layer
        An image of ours, moved with napari's transform tool or from code.
    name
        Of the coordinate system (0.6).
    scene
        The scene in whose metadata it is saved; those of the image by default.

    Returns
    -------
    str
        Path of the document that was written.

    Raises
    ------
    UnsupportedError, AccessError, CorruptDataError
        See `save_transform`; and for labels, which follow their image, for plates and
        for wells.
    """
    picture = picture_of(layer)
    if picture is None:
        msg = f"{layer.name} was not opened from OME-Zarr."
        raise UnsupportedError(msg, remedy="Save it first.")
    if picture.image is not None or picture.label is not None:
        msg = f"{layer.name} is a label image, which follows its image."
        raise UnsupportedError(msg, remedy="Move that.")
    if picture.multiscale:
        msg = f"{layer.name} is not the first multiscale of its image."
        raise UnsupportedError(msg, remedy="Move and save the first.")
    if is_joined(picture):
        msg = f"{layer.name} joins many images."
        raise UnsupportedError(msg, remedy="Open one of them to move and save it.")
    matrix, axes = placement_of(layer, picture)
    labels = list_labels(picture.node)
    return save_transform(picture.node, name, matrix, axes, scene, labels)


def is_movable(layer: Layer | None) -> bool:
    """Return whether the position of a layer can be saved: not that of labels."""
    picture = picture_of(layer)
    return picture is not None and picture.image is None and picture.label is None


def list_labels(image: Node) -> list[Node]:
    """Return the label images of an image, also those in other files of this computer.

    Those that cannot be read are left out: nobody sees where they are.
    """
    labels: list[Node] = []
    # No place for labels, such as in an old version: then there are none.
    with suppress(UnsupportedError):
        inside = location_inside(image)
        for name in inside.label_names():
            with suppress(OMEZarrError, OSError):
                labels.append(inside.open_label(name))
    return [*labels, *open_sidecars(image).labels.values()]


def move_along(layer: Layer, layers: Iterable[Layer]) -> None:
    """Move the other layers of an image to where its file has them now.

    Its other channels and its labels are moved by as much as the user moved the layer
    since its position was saved last. Those that the user has moved, too, stay where
    they are. New labels, which are in no file yet, are put on the image.
    """
    step, origin = unsaved_move(layer), origin_of(layer)
    image = host_image(picture_of(layer))
    if step is None or origin is None or image is None:
        return
    for other in layers:
        if other is layer or not _is_of_image(other, image) or other.ndim != layer.ndim:
            continue
        if is_new(other):
            _put_on_image(other, layer)
            continue
        own = other.metadata[KEY]
        before = _saved_place(other, own)
        if np.allclose(world_matrix(other), before):
            other.affine = step @ other.affine.affine_matrix
        other.metadata[KEY] = replace(own, saved_place=step @ before)
    layer.metadata[KEY] = replace(origin, saved_place=world_matrix(layer))


def follow_system(
    layer: Layer, layers: Iterable[Layer], system: Reference
) -> tuple[Layer, ...]:
    """Show all layers of an image in the system in which its position was saved.

    The layer itself stays where it is seen.

    Returns
    -------
    tuple
        The layers of the image that cannot come along.
    """
    image = host_image(picture_of(layer))
    if image is None:
        return ()
    of_image = [other for other in layers if _is_of_image(other, image)]
    left = move_layers([other for other in of_image if not is_new(other)], system)
    for other in of_image:
        if is_new(other) and other.ndim == layer.ndim:
            _put_on_image(other, layer)
            other.axis_labels, other.units = layer.axis_labels, layer.units
    return left


def unsaved_move(layer: Layer) -> Matrix | None:
    """Return how the user moved a layer since its position was opened or saved.

    None where it is not shown as in its file, such as in another coordinate system.
    """
    origin = origin_of(layer)
    image = host_image(picture_of(layer))
    if origin is None or image is None or image.view is not None:
        return None
    move: Matrix = world_matrix(layer) @ np.linalg.inv(_saved_place(layer, origin))
    return move


def _saved_place(layer: Layer, origin: LayerOrigin) -> Matrix:
    """Return the matrix from voxels to the world that the file has for a layer."""
    if origin.saved_place is not None:
        return origin.saved_place
    picture, image = origin.picture, host_image(origin.picture)
    assert picture is not None
    assert image is not None
    place = np.eye(layer.ndim + 1)
    keywords = frame_of(image).layer_keywords()
    if picture is not image:
        keywords = label_layer(picture, frame_of(image))[1]
    place[:-1, :-1], place[:-1, -1] = np.diag(keywords["scale"]), keywords["translate"]
    return place


def _put_on_image(labels: Layer, image: Layer) -> None:
    """Put new labels on the layer of their image, as their first save will do."""
    target: LabelTarget = labels.metadata[TARGET]
    axes = _match_axes(image, target.order, labels.ndim)
    shape = np.array(image.level_shapes[0])[axes]
    factors = shape / labels.level_shapes[0][: labels.ndim]
    pyramid, order = target.pyramid, target.order
    if pyramid is not None and order is not None and target.level < len(pyramid.levels):
        stated = level_factors(pyramid, target.level)
        factors = np.array([1.0 if axis is None else stated[axis] for axis in order])
    grid = np.zeros((labels.ndim + 1, labels.ndim + 1))
    grid[axes, range(labels.ndim)], grid[-1, -1] = factors, 1
    # The middle of a voxel that holds several lies between theirs.
    grid[axes, -1] = (factors - 1) / 2
    move = world_matrix(image) @ grid @ np.linalg.inv(world_matrix(labels))
    labels.affine = move @ labels.affine.affine_matrix


def _match_axes(
    image: Layer, order: Sequence[int | None] | None, ndim: int
) -> list[int]:
    """Return the axis of an image's layer for each axis of its new labels.

    They differ where the image was turned by more than 45° since the labels were made.
    """
    shown = finest_axes(image)[0]
    if order is None or {*shown} != {*order}:
        return list(range(ndim))
    return [shown.index(axis) for axis in order]


def _is_of_image(layer: Layer, image: LayerPlan) -> bool:
    target = layer.metadata.get(TARGET)
    if isinstance(target, LabelTarget):
        return str(target.node) == str(image.node)
    host = host_image(picture_of(layer))
    return host is not None and str(host.node) == str(image.node)


def placement_of(layer: Layer, picture: LayerPlan) -> tuple[Matrix, tuple[Axis, ...]]:
    """Return the transformation from an image's intrinsic system to a layer's position.

    Returns
    -------
    matrix
        Homogeneous; channels, which are layers, stay where they are.
    axes
        Of the system that the matrix leads to: the displayed axes, and channel.

    Raises
    ------
    UnsupportedError
        Where a field bends the image.
    """
    view = picture.view
    if view is not None and view.bent is not None:
        msg = f"{layer.name} is bent by a field."
        raise UnsupportedError(msg, remedy="Show its own coordinate system first.")
    frame = SharedAxes.from_pyramid(picture.pyramid, view)
    if frame.stated is not None:
        msg = f"{layer.name} is shown in pixels."
        raise UnsupportedError(msg, remedy="Correct the scale in its file first.")
    ndim = len(frame.order)
    # What the file states for level 0; what is left is what the user did.
    to_physical = np.diag((*frame.scale, 1.0))
    to_physical[:-1, -1] = frame.translation
    whole = world_matrix(layer) @ np.linalg.inv(to_physical)
    whole[:-1] /= frame.length_factors[:, None]  # the world is in micrometres

    axes = list(frame.shown)
    count = len(picture.pyramid.multiscale.axes)
    # (axes of the layer, axes of the image + 1), then a row more for each channel axis.
    result = np.zeros((ndim, count + 1))
    for layer_axis, image_axis in enumerate(frame.order):
        if image_axis is not None:
            result[:, image_axis] = whole[:-1, layer_axis]
    result[:, -1] = whole[:-1, -1]
    for channel in set(range(count)) - set(frame.order):
        # In its own system the channel keeps its place; elsewhere it goes behind time,
        # as OME-Zarr orders axes.
        after = channel if view is None else sum(axis.type == "time" for axis in axes)
        row = np.eye(count + 1)[channel]
        result = np.insert(result, after, row, axis=0)
        axes.insert(after, picture.pyramid.multiscale.axes[channel])
    return _from_intrinsic(picture, np.vstack([result, np.eye(count + 1)[-1]])), tuple(
        axes
    )


def _from_intrinsic(picture: LayerPlan, matrix: Matrix) -> Matrix:
    """Return a matrix that begins at the intrinsic system, whatever layers begin at."""
    start, intrinsic = start_of(picture), intrinsic_of(picture.node)
    if start == intrinsic or picture.systems is None:
        return matrix
    way = picture.systems.graph.way(intrinsic, start)
    if way is None or not way.is_linear:
        msg = f"{picture.name} has no coordinate system of its own to start from."
        raise UnsupportedError(msg)
    product: Matrix = matrix @ way.matrix(len(matrix) - 1)
    return product
