"""Puts images and their labels into a coordinate system of their hierarchy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from napari_ngff.errors import UnsupportedError
from napari_ngff.metadata.model import Reference
from napari_ngff.metadata.version import Version
from napari_ngff.store.hierarchy.coordinate_systems import intrinsic_of
from napari_ngff.store.pyramids.resampled import BentImage
from napari_ngff.viewer.plans.layer_plan import LayerPlan, SystemView

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from napari_ngff.metadata.systems import Axis
    from napari_ngff.metadata.transform import Matrix, Transformation
    from napari_ngff.store.hierarchy.node import Node

SINGULAR = 1e-12
"""Least ratio of the smallest to the largest singular value of what can be shown."""


def view_in_system(picture: LayerPlan, system: Reference) -> LayerPlan | None:
    """Show an image in a system.

    Parameters
    ----------
    picture
        With `LayerPlan.systems`.
    system
        Its path from the hierarchy's root.

    Returns
    -------
    LayerPlan or None
        None where no invertible way, and no field that leads from the system to the
        image, connects them.
    """
    start = start_of(picture)
    if start == system:
        return replace(picture, view=None)
    if picture.systems is None:
        return None
    graph = picture.systems.graph
    axes = graph.systems.get(system, ())
    way = graph.way(start, system)
    if way is not None and way.is_linear:
        # Numbers of a file may overflow; `keeps_extent` refuses what comes out.
        with np.errstate(over="ignore", invalid="ignore"):
            matrix = way.matrix(len(picture.pyramid.multiscale.axes))
        return (
            replace(picture, view=SystemView(system, axes, matrix))
            if keeps_extent(matrix)
            else None
        )
    # A field is drawn by the way back: for each displayed voxel the place of its value;
    # see `store/pyramids/resampled.py`.
    pull = graph.way(system, start)
    return None if pull is None else _bend_image(picture, system, axes, pull)


def _bend_image(
    picture: LayerPlan,
    system: Reference,
    axes: tuple[Axis, ...],
    pull: Transformation,
) -> LayerPlan | None:
    """Show an image in a system from which `pull` leads to it; None if it has no place.

    `axes` are those of the system.
    """
    try:
        bent = BentImage.cover_image(picture.pyramid, pull, axes)
    except UnsupportedError:
        return None
    # The resampled pyramid lies in the displayed system already, so the matrix does
    # nothing.
    unchanged = np.eye(len(picture.pyramid.multiscale.axes) + 1)
    return replace(picture, view=SystemView(system, axes, unchanged, bent))


def start_of(picture: LayerPlan) -> Reference:
    """Return the system to which an image's own scale and translation lead.

    The intrinsic one, or that of the finest array where `Level.transformation` leads
    from there to the intrinsic one.
    """
    level = picture.pyramid.multiscale.levels[0]
    if level.transformation is not None:
        return Reference(picture.node.location.object_key(level.path))
    return intrinsic_of(picture.node)


def first_system(node: Node) -> Reference:
    """Choose the system in which an image is shown at first.

    The intrinsic one from 0.6 on. Before, only SpatialData states others: there the
    intrinsic one is that of pixels, and positions are in "global", else in the first.
    """
    intrinsic = intrinsic_of(node)
    image = node.metadata.image
    if image is None or (node.metadata.version or Version()).has_systems:
        return intrinsic
    links = image.multiscales[0].links
    names = [link.output.name for link in links if link.input.name == intrinsic.name]
    name = "global" if "global" in names else next(iter(names), intrinsic.name)
    return Reference(intrinsic.path, name)


def keeps_extent(matrix: Matrix) -> bool:
    """Return whether a matrix keeps an extent along all axes that it does not drop."""
    if not np.isfinite(matrix).all():
        return False
    linear = matrix[:-1, :-1]
    # Axes that the system drops, such as channels, have columns of 0.
    moving = linear[:, linear.any(axis=0)]
    if not moving.size:
        return False
    # Sorted from the largest: of a plane that collapses to a line the last one is 0.
    values = np.linalg.svd(moving, compute_uv=False)
    return bool(values[-1] > SINGULAR * values[0])


def follow_image(label: LayerPlan, image: LayerPlan) -> LayerPlan:
    """Place a label image in the system in which its image is shown.

    By the transformation that links their intrinsic systems, in either direction;
    without one these are "usually understood to be the same" (0.6), axis by axis.

    Raises
    ------
    UnsupportedError
        Where the link has no matrix.
    """
    label = replace(label, image=image, systems=image.systems, view=None, link=None)
    if image.systems is None:
        return label
    graph = image.systems.graph
    there = start_of(image)
    way = graph.way(start_of(label), there)
    intrinsic = intrinsic_of(image.node)
    # Where the image begins at its array, the label may still be linked to its
    # intrinsic system.
    if way is None and intrinsic != there:
        way = graph.way(intrinsic, there)
    if way is None:
        return label
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            matrix = way.matrix(len(label.pyramid.multiscale.axes))
    except ValueError as error:
        msg = f"{label.node} cannot be shown on its image: {error}"
        raise UnsupportedError(msg) from error
    return replace(label, link=matrix)


def place_linked(label: LayerPlan) -> LayerPlan:
    """Apply the `LayerPlan.link` of a label image.

    It leads into the image's intrinsic system, or at once into the displayed one where
    that takes more than a scale per axis.

    Raises
    ------
    UnsupportedError
        Where it lies askew in an image that a field bends.
    """
    image, matrix = label.image, label.link
    if image is None or matrix is None:
        return label
    axes = image.pyramid.multiscale.axes
    view = image.view
    with np.errstate(over="ignore", invalid="ignore"):
        folded = folded_in(label, matrix, axes)
        # First to the image, then with the image into the displayed system.
        whole = matrix if view is None or view.bent else view.matrix @ matrix
    if not keeps_extent(whole):
        msg = f"{label.node} has no extent on its image, or one beyond all numbers."
        raise UnsupportedError(msg)
    if folded is not None:
        return folded
    if view is None:
        return replace(label, view=SystemView(start_of(image), axes, whole))
    if view.bent is None:
        return replace(label, view=SystemView(view.system, view.axes, whole))
    msg = f"{label.node} is rotated or sheared against its image, which is warped."
    raise UnsupportedError(msg)


def folded_in(
    label: LayerPlan, matrix: Matrix, axes: tuple[Axis, ...]
) -> LayerPlan | None:
    """Return a label whose scale and translation lead to its image's intrinsic system.

    None where they cannot: then the label's axes are not those of the image.

    Raises
    ------
    UnsupportedError
        Where the result is too large for a number.
    """
    multiscale = label.pyramid.multiscale
    linear, offset = matrix[:-1, :-1], matrix[:-1, -1]
    diagonal = linear.shape == (len(axes), len(axes))
    if not diagonal or np.count_nonzero(linear - np.diag(np.diag(linear))):
        return None
    factors = np.diag(linear)
    placed = [factors * lv.scale for lv in multiscale.levels]
    placed += [factors * lv.translation + offset for lv in multiscale.levels]
    if not np.isfinite(placed).all():
        msg = f"The position of {label.node} on its image is not a finite number."
        raise UnsupportedError(msg)
    levels = tuple(
        replace(
            level,
            scale=tuple((factors * level.scale).tolist()),
            translation=tuple((factors * level.translation + offset).tolist()),
        )
        for level in multiscale.levels
    )
    multiscale = replace(multiscale, axes=axes, levels=levels)
    return replace(label, pyramid=replace(label.pyramid, multiscale=multiscale))


def scene_system(node: Node, images: Sequence[LayerPlan]) -> Reference | None:
    """Choose the system in which a scene is shown.

    "RECOMMENDED the scene's first"; where it has none, the one that most of its images
    can be shown in; of equal ones the first of those with most axes, which loses none.
    """
    scene = node.metadata.scene
    if scene is None or not images or images[0].systems is None:
        return None
    if scene.systems:
        return Reference(node.location.path, scene.systems[0].name)
    candidates = images[0].systems.graph.systems
    ranks = {
        system: (sum(view_in_system(i, system) is not None for i in images), len(axes))
        for system, axes in candidates.items()
        if system.name
    }
    return max(ranks, key=lambda system: ranks[system], default=None)


def list_choices(images: Iterable[LayerPlan]) -> dict[Reference, tuple[bool, ...]]:
    """List the systems that at least one of several images can be shown in.

    Returns
    -------
    dict
        For each system whether each of the images can come along.
    """
    pictures = list(images)
    choices: dict[Reference, tuple[bool, ...]] = {}
    for picture in pictures:
        intrinsic_axes = {intrinsic_of(picture.node): picture.pyramid.multiscale.axes}
        systems = (
            intrinsic_axes if picture.systems is None else picture.systems.graph.systems
        )
        for system, axes in systems.items():
            arrays = not system.name and all(axis.type == "array" for axis in axes)
            # The systems of arrays are of no use to a person: indices of voxels.
            if system in choices or arrays:
                continue
            reached = tuple(
                view_in_system(other, system) is not None for other in pictures
            )
            if any(reached):
                choices[system] = reached
    return choices


def system_name(system: Reference) -> str:
    """Return the text for a system: its name, and the group that defines it."""
    where = f" ({system.path})" if system.path else ""
    return f"{system.name or 'image'}{where}"
