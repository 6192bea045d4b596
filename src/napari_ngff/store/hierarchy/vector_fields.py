"""Opens the fields of vectors of ``displacements`` and ``coordinates``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import NodeNotFoundError, UnsupportedError
from napari_ngff.metadata.cursor import Cursor
from napari_ngff.metadata.systems_parse import parse_systems
from napari_ngff.metadata.transform import Identity
from napari_ngff.metadata.transform_parse import parse_transformation
from napari_ngff.metadata.vector_field import VectorField
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.limits import parse_json

if TYPE_CHECKING:
    from napari_ngff.metadata.model import Axis
    from napari_ngff.metadata.transform import Matrix, Transformation
    from napari_ngff.store.hierarchy.location import Location
    from napari_ngff.store.hierarchy.node import Node

__all__ = ["open_field"]

VECTOR_TYPES = ("displacement", "coordinate")


def open_field(node: Node, path: str, ndim: int) -> VectorField:
    """Open a field of vectors; reads only metadata.

    Parameters
    ----------
    node
        The group that refers to it.
    path
        Relative to `node`: a multiscale group (0.6) or an array with the metadata of
        one in its own attributes (drafts). Of a group, the first level is used.
    ndim
        Number of axes of its input points.

    Returns
    -------
    VectorField
        Its axis of components is the one of type displacement or coordinate; without
        such a type "the last axis"; none if the array has as many axes as the points.

    Raises
    ------
    NodeNotFoundError, CorruptDataError, UnsupportedError
        Where there is no field, or its grid is not regular.
    """
    location = node.location.join_path(path)
    ome = _read_attributes(location)
    multiscale = next(iter(ome.at("multiscales").children()), None)
    array_location = location
    home = ome
    if multiscale is not None:
        dataset = next(iter(multiscale.at("datasets").children()), None)
        if dataset is None:
            msg = f"{location} has no level: 'datasets' is empty."
            raise UnsupportedError(msg)
        array_location, home = (
            location.join_path(dataset.at("path").read_path() or "."),
            multiscale,
        )
        # From the array to the system in which the input points are given.
        stated = dataset.at("coordinateTransformations").children()
    else:
        stated = ome.at("coordinateTransformations").children()
    array = open_array(array_location.source, array_location.path)
    systems = parse_systems(home.at("coordinateSystems"))
    # By their number: a field has systems of its points, too, which have one axis less.
    axes = next((s.axes for s in systems if len(s.axes) == array.ndim), ())
    vector_axis = _vector_axis(axes, array.ndim, ndim)
    # Axes of the array, in its order, without that of the components.
    grid = [i for i in range(array.ndim) if i != vector_axis]
    if len(grid) != ndim:
        msg = f"{array} has a grid of {len(grid)} axes, its input has {ndim}."
        raise UnsupportedError(msg)
    to_input = parse_transformation(stated[0]) if stated else Identity()
    whole = _on_grid(to_input or Identity(), grid, array.ndim)
    scale = np.diag(whole)[:-1]
    # One entry per row, all on the diagonal: interpolation needs a grid along the axes.
    if np.count_nonzero(whole[:-1, :-1]) != len(grid) or not scale.all():
        msg = f"{location}: the grid of a field must be scaled and shifted only."
        raise UnsupportedError(msg)
    return VectorField(
        array, vector_axis, tuple(scale.tolist()), tuple(whole[:-1, -1].tolist())
    )


def _read_attributes(location: Location) -> Cursor:
    """Read the attributes of a group or an array, those of OME-Zarr."""
    for name in ("zarr.json", ".zattrs"):
        raw = location.source.get(location.object_key(name))
        if raw is None:
            continue
        try:
            document: Any = parse_json(raw)
        except (ValueError, RecursionError):
            continue  # the error comes when the array is opened
        attributes = Cursor(document, "", [])
        if name == "zarr.json":
            attributes = attributes.at("attributes")
        return attributes.at("ome") if attributes.at("ome").is_present else attributes
    if location.source.get(location.object_key(".zarray")) is None:
        msg = f"There is no field of vectors at {location}."
        raise NodeNotFoundError(msg, remedy="Check the path.")
    return Cursor({}, "", [])


def _vector_axis(axes: tuple[Axis, ...], ndim: int, points: int) -> int | None:
    typed = [i for i, axis in enumerate(axes) if axis.type in VECTOR_TYPES]
    if typed:
        # The type decides, wherever the axis is; without types the last axis has the
        # components.
        return typed[0]
    return None if ndim == points else ndim - 1


def _on_grid(to_input: Transformation, grid: list[int], ndim: int) -> Matrix:
    """Return the part of a transformation for the axes of the grid."""
    # The axis of components may have an entry or not: examples of the specification
    # have two scales for three axes.
    try:
        whole = to_input.matrix(ndim)
    except ValueError:
        try:
            return to_input.matrix(len(grid))
        except ValueError as error:
            msg = f"The grid of a field does not fit its array: {error}"
            raise UnsupportedError(msg) from error
    return whole[np.ix_([*grid, -1], [*grid, -1])]
