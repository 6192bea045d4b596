"""Saves the position of an image into its metadata, or that of its scene.

0.6 states it as a coordinate system and a transformation to it; 0.4 and 0.5 have only a
scale and a translation. Arrays, and all other metadata, stay as they are.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_ngff.errors import CorruptDataError, UnsupportedError
from napari_ngff.metadata.compound_transform import compose_steps
from napari_ngff.metadata.model import (
    JSON,
    Axis,
    CoordinateSystem,
    Multiscale,
    Reference,
    SystemLink,
)
from napari_ngff.metadata.systems_dump import dump_link, dump_system
from napari_ngff.metadata.transform import (
    Affine,
    Matrix,
    Scale,
    Transformation,
    Translation,
)
from napari_ngff.metadata.version import Version
from napari_ngff.store.hierarchy.coordinate_systems import intrinsic_of
from napari_ngff.store.hierarchy.edit_document import change_document, change_documents

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari_ngff.store.hierarchy.node import Node

Array = npt.NDArray[np.float64]

NEGLIGIBLE = 1e-9
"""Entries of a matrix that are smaller, relative to the largest, are rounding
errors."""


def save_transform(
    image: Node,
    name: str,
    matrix: Matrix,
    axes: tuple[Axis, ...],
    scene: Node | None = None,
    labels: Sequence[Node] = (),
) -> str:
    """Save the position of an image.

    Parameters
    ----------
    image
        The image, in a local folder.
    name
        Name of the coordinate system, 0.6 only. If the image has a transformation from
        its intrinsic system to one of this name, it is replaced.
    matrix
        Homogeneous, from the image's intrinsic system to that one.
    axes
        Axes of that system, one per row of `matrix` but the last.
    scene
        The group whose ``scene`` states it; by default the image itself.
    labels
        Label images of the image. In 0.4 and 0.5 each states a position of its own,
        and is moved as the image is; in 0.6 they follow it.

    Returns
    -------
    str
        Path of the document that was written.

    Raises
    ------
    UnsupportedError
        Where the version cannot state it, another system has the name, or the data
        cannot be written where they are.
    AccessError
        Where the folder cannot be written.
    CorruptDataError
        Where another program changed the document meanwhile.
    """
    matrix = np.asarray(matrix, dtype=np.float64)
    # Rounding errors become 0, by column: offsets may be far larger than the other
    # entries.
    largest = abs(matrix).max(axis=0, keepdims=True)
    matrix = np.where(abs(matrix) > NEGLIGIBLE * largest, matrix, 0.0)
    # A shift alone must not change the size of a voxel in the file.
    matrix[:, :-1][abs(matrix[:, :-1] - 1) < NEGLIGIBLE] = 1
    if not np.isfinite(matrix).all() or len(axes) != len(matrix) - 1:
        msg = f"{image}: these numbers are not a position for {len(axes)} axes."
        raise UnsupportedError(msg)
    version = image.metadata.version or Version()
    if not name.strip() and (scene is not None or version.has_systems):
        msg = "A coordinate system needs a name."
        raise UnsupportedError(msg, remedy="Choose one.")
    if scene is not None or version.has_systems:
        return _save_system(image, scene, CoordinateSystem(name, axes), matrix)
    # SpatialData keeps its own transformations there, and reads nothing else.
    if "spatialdata_attrs" in image.attributes:
        msg = (
            f"{image} is an element of SpatialData, whose transformations are not"
            " changed here."
        )
        raise UnsupportedError(msg, remedy="Set them with spatialdata itself.")
    # Without the last entry, which is the 1 of homogeneous coordinates.
    factors = np.diag(matrix)[:-1]
    flat = matrix.shape[0] == matrix.shape[1] and np.array_equal(
        matrix[:-1, :-1], np.diag(factors)
    )
    # 0.4, "coordinateTransformations": "MUST contain exactly one scale", and a
    # translation at most.
    if not version.has_transformations or not flat or (factors <= 0).any():
        what = "nothing of the kind"
        if version.has_transformations:
            what = "a scale and a translation"
        msg = (
            f"{image} is OME-Zarr {version}, which can state {what} for an image, not"
            " a rotation, a shear or a flip. Export it as 0.6 to save this."
        )
        raise UnsupportedError(msg)
    return _save_plain(image, factors, matrix[:-1, -1], labels)


def _save_plain(
    image: Node, factors: Array, offsets: Array, labels: Sequence[Node]
) -> str:
    """Save a scale and a translation, and move the labels by as much (0.4, 0.5)."""
    for label in labels:
        _check_movable(label, image)
    # The layer was moved from where it was opened. The file may hold a newer position
    # by now: to save a layer twice must not move it twice.
    # Computed here, not in `put_scale`, which gets the document as it is at that
    # moment.
    shown = _first_of(image)
    opened = entry_of(image, shown, image.attributes.get("ome", image.attributes))
    stated = _add_scale(opened, factors, offsets)
    moved: dict[str, tuple[float, float]] = {}

    def put_scale(home: JSON) -> None:
        multiscale = entry_of(image, shown, home)
        scale, translation = _join_steps(multiscale, len(factors))
        multiscale["coordinateTransformations"] = stated
        # How much the file moves by this; nothing if it was saved before.
        new_scale, new_translation = _join_steps(multiscale, len(factors))
        ratio = new_scale / scale
        moves = zip(ratio, new_translation - ratio * translation, strict=True)
        moved.update(zip(shown.axis_names, moves, strict=True))

    def put_label(label: Node, home: JSON) -> None:
        content = label.metadata.image
        for known in content.multiscales if content is not None else ():
            moves = np.array([moved.get(name, (1, 0)) for name in known.axis_names])
            if (moves != (1, 0)).any():
                multiscale = entry_of(label, known, home)
                multiscale["coordinateTransformations"] = _add_scale(
                    multiscale, moves[:, 0], moves[:, 1]
                )

    # The image's first: it states how much labels move.
    changes: list[tuple[Node, Callable[[JSON], None]]] = [(image, put_scale)]
    changes += [(label, partial(put_label, label)) for label in labels]
    return change_documents(changes)


def _check_movable(label: Node, image: Node) -> None:
    """Refuse labels that could not be moved along with their image."""
    version = label.metadata.version or Version()
    units = {axis.name: axis.unit for axis in _first_of(image).axes}
    shown = label.metadata.image
    multiscales = shown.multiscales if shown is not None else ()
    if not all(multiscale.axes for multiscale in multiscales):
        msg = f"The labels {label} cannot be moved with their image: they have no axes."
        raise UnsupportedError(msg, remedy="Correct their metadata, or remove them.")
    axes = [axis for multiscale in multiscales for axis in multiscale.axes]
    is_plain = version.has_transformations and not version.has_systems
    if not is_plain or any(units.get(a.name, a.unit) != a.unit for a in axes):
        msg = (
            f"The labels {label} cannot be moved with their image: they are OME-Zarr"
            f" {version}, or have other units."
        )
        raise UnsupportedError(msg, remedy="Convert the image with its labels to 0.6.")


def _first_of(image: Node) -> Multiscale:
    assert image.metadata.image is not None
    return image.metadata.image.multiscales[0]


def simplify_matrix(matrix: Matrix) -> Transformation:
    """Return the simplest transformation that has this matrix."""
    ndim = matrix.shape[1] - 1
    factors = np.diag(matrix[:-1, :-1])
    if matrix.shape[0] - 1 != ndim or not np.array_equal(
        matrix[:-1, :-1], np.diag(factors)
    ):
        return Affine.from_matrix(matrix)
    # A flip is an affine matrix: readers take a scale for the size of a voxel.
    if (factors <= 0).any():
        return Affine.from_matrix(matrix)
    steps: list[Transformation] = []
    # An identity has no steps at all: `compose_steps` then returns the identity.
    if (factors != 1).any():
        steps.append(Scale(tuple(factors.tolist())))
    if matrix[:-1, -1].any():
        steps.append(Translation(tuple(matrix[:-1, -1].tolist())))
    return compose_steps(*steps)


def _save_system(
    image: Node, scene: Node | None, system: CoordinateSystem, matrix: Matrix
) -> str:
    """Add a system to an image or a scene, and the transformation from the image."""
    group, path = scene or image, ""
    if scene is not None:
        version = scene.metadata.version or Version()
        if scene.metadata.scene is None or not version.has_systems:
            msg = f"{scene} is not a scene of OME-Zarr 0.6."
            raise UnsupportedError(msg, remedy="Save into the image itself.")
        # As a scene refers to its images.
        path = image.location.path[len(scene.location.path) :].strip("/")
    start = Reference(path, intrinsic_of(image).name)
    if scene is None and system.name == start.name:
        msg = f'"{system.name}" is the intrinsic system of {image}, which its levels'
        raise UnsupportedError(f"{msg} lead to.", remedy="Choose another name.")
    link = SystemLink(start, Reference(name=system.name), simplify_matrix(matrix))

    def put(home: JSON) -> None:
        holder = home.get("scene", home)
        if scene is None:
            holder = entry_of(image, _first_of(image), home)
        _put_link(holder if isinstance(holder, dict) else home, system, link, group)

    return change_document(group, put)


def entry_of(node: Node, multiscale: Multiscale, home: JSON) -> JSON:
    """Return the entry of a document that a multiscale was read from."""
    stated = home.get("multiscales")
    listed = stated if isinstance(stated, list) else [stated]
    entry = listed[multiscale.index] if multiscale.index < len(listed) else None
    if not isinstance(entry, dict):
        msg = f"{node} has no such multiscale any more; it was changed."
        raise CorruptDataError(msg, remedy="Open it again.")
    return entry


def _put_link(
    holder: JSON, system: CoordinateSystem, link: SystemLink, node: Node
) -> None:
    """Add a system and a link to the lists, or replace those of the same ends."""
    systems = holder.setdefault("coordinateSystems", [])
    links = holder.setdefault("coordinateTransformations", [])
    if not isinstance(systems, list) or not isinstance(links, list):
        msg = f"{node}: coordinateSystems and coordinateTransformations must be lists."
        raise CorruptDataError(msg)
    written = dump_link(link)
    # A link is the same if its ends are: its numbers are what is being changed.
    ends = written["input"], written["output"]
    same = [
        i
        for i, old in enumerate(links)
        if isinstance(old, dict) and (old.get("input"), old.get("output")) == ends
    ]
    dumped = dump_system(system)
    known = [s for s in systems if isinstance(s, dict) and s.get("name") == system.name]
    # The systems of a scene are common to images: another may lead there as well.
    # Only links of a scene name the path of an image; those of an image lead from
    # itself.
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


def _add_scale(multiscale: JSON, factors: Any, offsets: Any) -> list[JSON]:
    """Return the transformations of a multiscale, a scale and an offset added (0.4)."""
    # Those of the multiscale apply after those of the datasets, "sequentially and in
    # order", so one change moves all levels.
    scale, translation = _join_steps(multiscale, len(factors))
    # The new matrix comes last: it acts on what the steps before have made.
    scale, translation = scale * factors, translation * factors + offsets
    return [
        {"type": "scale", "scale": scale.tolist()},
        {"type": "translation", "translation": translation.tolist()},
    ]


def _join_steps(multiscale: JSON, ndim: int) -> tuple[Array, Array]:
    """Return the steps of a multiscale as one scale and one translation after it."""
    scale, translation = np.ones(ndim), np.zeros(ndim)
    # All steps become one scale and one translation, the only form that 0.4 allows.
    for step in multiscale.get("coordinateTransformations") or ():
        if step.get("type") == "scale":
            scale, translation = scale * step["scale"], translation * step["scale"]
        elif step.get("type") == "translation":
            translation = translation + step["translation"]
    return scale, translation
