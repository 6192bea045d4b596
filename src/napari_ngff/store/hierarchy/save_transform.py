"""Writes where an image lies into its metadata, or its scene's; never its arrays.

0.6 states it as a coordinate system of its own and a transformation that leads there.
0.4 and 0.5 have but a scale and a translation. Documents are written beside and
renamed, and what they say beyond that stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import CorruptDataError, UnsupportedError
from napari_ngff.metadata.compound import composed
from napari_ngff.metadata.model import CoordinateSystem, Link, Reference
from napari_ngff.metadata.systems_dump import dump_link, dump_system
from napari_ngff.metadata.transform import Affine, Scale, Transformation, Translation
from napari_ngff.store.hierarchy.coordinate_systems import intrinsic_of
from napari_ngff.store.hierarchy.edit_document import change_document

if TYPE_CHECKING:
    from napari_ngff.metadata.model import JSON, Axis
    from napari_ngff.metadata.transform import Matrix
    from napari_ngff.store.hierarchy.node import Node

__all__ = ["save_transform", "simplest"]

NEGLIGIBLE = 1e-9
"""Entries of a matrix below that, relative to the largest, are errors of rounding."""


def save_transform(
    image: Node,
    name: str,
    matrix: Matrix,
    axes: tuple[Axis, ...],
    scene: Node | None = None,
) -> str:
    """State where an image lies.

    Parameters
    ----------
    image
        In a folder of this computer.
    name
        Of the coordinate system, 0.6 only: a new one, or one that a transformation
        leads to directly from the image's intrinsic system, which is replaced.
    matrix
        Homogeneous, from the image's intrinsic system to that one.
    axes
        Of that system, one per row of `matrix` but the last.
    scene
        The group whose ``scene`` shall state it; the image itself by default.

    Returns
    -------
    str
        Path of the document that was written.

    Raises
    ------
    UnsupportedError
        Where the version cannot state it, the name is taken by another system, or the
        data are in an archive or far away; the message says what to do.
    AccessError
        Where the folder cannot be written.
    CorruptDataError
        Where the document is no longer what was read.
    """
    matrix = cleaned(np.asarray(matrix, dtype=np.float64))
    if not np.isfinite(matrix).all() or len(axes) != len(matrix) - 1:
        msg = f"{image}: these numbers are not a position for {len(axes)} axes."
        raise UnsupportedError(msg)
    version = image.metadata.version or ""
    if not name.strip() and (scene is not None or version >= "0.6"):
        msg = "A coordinate system needs a name."
        raise UnsupportedError(msg, remedy="Choose one.")
    if scene is not None:
        start = len(scene.location.path)
        path = image.location.path[start:].strip("/")
        return _save_in_scene(scene, image, path, name, (matrix, axes))
    if version >= "0.6":
        system = CoordinateSystem(name, axes)
        link = Link(
            Reference(name=intrinsic_of(image).name),
            Reference(name=name),
            simplest(matrix),
        )
        return change_document(
            image, lambda home: _put_image(image, home, system, link)
        )
    if "spatialdata_attrs" in image.attributes:
        msg = (
            f"{image} is an element of SpatialData, whose transformations are not"
            " changed here."
        )
        raise UnsupportedError(msg, remedy="Set them with spatialdata itself.")
    factors = np.diag(matrix)[:-1]
    flat = matrix.shape[0] == matrix.shape[1] and np.array_equal(
        matrix[:-1, :-1], np.diag(factors)
    )
    if version < "0.4" or not flat or (factors <= 0).any():
        what = "nothing of the kind" if version < "0.4" else "a scale and a translation"
        msg = (
            f"{image} is OME-Zarr {version}, which can state {what} for an image, not"
            " a rotation, a shear or a flip. Export it as 0.6 to save this."
        )
        raise UnsupportedError(msg)
    return change_document(
        image, lambda home: _put_scale(home, factors, matrix[:-1, -1])
    )


def cleaned(matrix: Matrix) -> Matrix:
    """Set to 0 what only rounding made different from it, column by column."""
    largest = abs(matrix).max(axis=0, keepdims=True)
    cleared: Matrix = np.where(abs(matrix) > NEGLIGIBLE * largest, matrix, 0.0)
    return cleared


def simplest(matrix: Matrix) -> Transformation:
    """Return the plainest transformation that a matrix is."""
    ndim = matrix.shape[1] - 1
    factors = np.diag(matrix[:-1, :-1])
    if matrix.shape[0] - 1 != ndim or not np.array_equal(
        matrix[:-1, :-1], np.diag(factors)
    ):
        return Affine.of(matrix)
    if (factors <= 0).any():
        return Affine.of(matrix)
    steps: list[Transformation] = []
    if (factors != 1).any():
        steps.append(Scale(tuple(factors.tolist())))
    if matrix[:-1, -1].any():
        steps.append(Translation(tuple(matrix[:-1, -1].tolist())))
    return composed(*steps)


def _save_in_scene(
    scene: Node,
    image: Node,
    path: str,
    name: str,
    place: tuple[Matrix, tuple[Axis, ...]],
) -> str:
    """Add a system to a scene, and the transformation from the image to it."""
    if scene.metadata.scene is None or (scene.metadata.version or "") < "0.6":
        msg = f"{scene} is not a scene of OME-Zarr 0.6."
        raise UnsupportedError(msg, remedy="Save into the image itself.")
    matrix, axes = place
    start = Reference(path, intrinsic_of(image).name)
    link = Link(start, Reference(name=name), simplest(matrix))
    system = CoordinateSystem(name, axes)

    def put(home: JSON) -> None:
        block = home.get("scene")
        _put(block if isinstance(block, dict) else home, system, link, scene)

    return change_document(scene, put)


def _put_image(node: Node, home: JSON, system: CoordinateSystem, link: Link) -> None:
    multiscale = first_multiscale(node, home)
    if system.name == link.input.name:
        msg = (
            f'"{system.name}" is the intrinsic system of {node}, which its levels lead'
            " to."
        )
        raise UnsupportedError(msg, remedy="Choose another name.")
    _put(multiscale, system, link, node)


def first_multiscale(node: Node, home: JSON) -> JSON:
    """Go to the multiscale that is shown."""
    listed = home.get("multiscales")
    first = listed[0] if isinstance(listed, list) and listed else listed
    if not isinstance(first, dict):
        msg = f"{node} has no multiscales any more; it was changed."
        raise CorruptDataError(msg, remedy="Open it again.")
    return first


def _put(holder: JSON, system: CoordinateSystem, link: Link, node: Node) -> None:
    """Put a system and a link into lists, in place of those that they replace."""
    systems = holder.setdefault("coordinateSystems", [])
    links = holder.setdefault("coordinateTransformations", [])
    if not isinstance(systems, list) or not isinstance(links, list):
        msg = f"{node}: coordinateSystems and coordinateTransformations must be lists."
        raise CorruptDataError(msg)
    written = dump_link(link)
    ends = written["input"], written["output"]
    same = [
        i
        for i, old in enumerate(links)
        if isinstance(old, dict) and (old.get("input"), old.get("output")) == ends
    ]
    dumped = dump_system(system)
    known = [s for s in systems if isinstance(s, dict) and s.get("name") == system.name]
    # The systems of a scene are common to images: another may lead there as well.
    shared = bool(link.input.path)
    if known and not same and not shared:
        msg = (
            f'There is a coordinate system "{system.name}" in {node} already, to which'
            " other transformations lead."
        )
        raise UnsupportedError(msg, remedy="Choose another name.")
    if known and len(known[0].get("axes", ())) != len(system.axes):
        msg = f'The coordinate system "{system.name}" of {node} has other axes.'
        raise UnsupportedError(msg)
    if not known:
        systems.append(dumped)
    if same:
        links[same[0]] = {
            key: value for key, value in links[same[0]].items() if key == "name"
        } | written
    else:
        links.append(written)


def _put_scale(home: JSON, factors: Any, offsets: Any) -> None:
    """Scale and shift what the transformations of a multiscale lead to (0.4, 0.5).

    Those of the multiscale apply after those of the datasets, "sequentially and in
    order", so all levels move together.
    """
    multiscale = home["multiscales"][0]
    scale, translation = np.ones(len(factors)), np.zeros(len(factors))
    for step in multiscale.get("coordinateTransformations") or ():
        if step.get("type") == "scale":
            scale, translation = scale * step["scale"], translation * step["scale"]
        elif step.get("type") == "translation":
            translation = translation + step["translation"]
    scale, translation = scale * factors, translation * factors + offsets
    multiscale["coordinateTransformations"] = [
        {"type": "scale", "scale": scale.tolist()},
        {"type": "translation", "translation": translation.tolist()},
    ]
