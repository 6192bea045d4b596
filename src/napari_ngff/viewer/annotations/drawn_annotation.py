"""What a person draws on an image in a layer of napari: points and shapes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from typing_extensions import override

from napari_ngff.metadata.units import unit_name
from napari_ngff.viewer.annotations.file_annotation import (
    FileAnnotation,
    find_image_shown,
    image_node,
)
from napari_ngff.viewer.layers.move_layers import world_matrix
from napari_ngff.viewer.plans.layer_plan import KEY, frame_of, picture_of

if TYPE_CHECKING:
    from napari.layers import Layer

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.annotations.annotations import Annotations, ImageCopy

DRAWN = f"{KEY}-drawn"
"""Key of the metadata of a layer with the name of what it was read from."""


class DrawnAnnotation(FileAnnotation):
    """A layer that is drawn on an image of ours, with a file of its own.

    Attributes
    ----------
    layer_type
        The class of its layers.
    watched
        Events of a layer that come with changes.
    in_voxels
        Whether coordinates in the file are in voxels.
    """

    layer_type: ClassVar[Any]
    watched: ClassVar[tuple[str, ...]] = (
        *("name", "data", "features"),
        *("affine", "rotate", "scale", "shear", "translate"),
    )

    in_voxels: ClassVar[bool] = False

    def __init__(
        self, owner: Annotations, node: Node, layer: Layer, image: Layer
    ) -> None:
        super().__init__(owner, node, layer)
        # The image may be moved while it is drawn on: what is drawn stays where it is.
        self._axes = axes_of(image)
        self._to_file = self._to_image = np.linalg.inv(image.affine.affine_matrix)
        for name in self.watched:
            layer.events[name].connect(self.on_change)
        if self.count():
            self._changes += 1

    @classmethod
    @override
    def attach(cls, owner: Annotations, layer: Any) -> None:
        super().attach(owner, layer)
        if not isinstance(layer, cls.layer_type) or owner.of_layer(layer) is not None:
            return
        image = find_image_shown(owner)
        is_ours = any(str(key).startswith(KEY) for key in layer.metadata)
        node = None if image is None else image_node(image)
        if node is not None and not (is_ours or layer.source.path):
            owner.add(cls(owner, node, layer, image))

    @property
    @override
    def name(self) -> str:
        # napari adds a number where the layer of another image has the name, too.
        name, given = str(self.layer.name), self.layer.metadata.get(DRAWN)
        return given if given and re.sub(r" \[\d+\]$", "", name) == given else name

    @override
    def count(self) -> int:
        layer = self.layer
        return 0 if layer is None else len(layer.data)

    def on_change(self, event: Any) -> None:
        """Note that the layer may have been changed."""
        self.note_change()

    def move_to_file(self, places: Any) -> Any:
        """Return coordinates of the layer as those in the file.

        Axes that only one of the two has come first, and are left out.
        """
        world = _transform(world_matrix(self.layer), places)
        count = min(world.shape[1], len(self._axes))
        return _transform(_common(self._to_file, count), world[:, -count:])

    @override
    def follow_copy(self, copy: ImageCopy) -> None:
        of_image = copy.to_voxels if self.in_voxels else copy.to_file
        self._axes, self._to_file = {**copy.axes}, of_image @ self._to_image

    @classmethod
    def show_layer(
        cls, owner: Annotations, image: Layer, name: str, count: int, **content: Any
    ) -> Any:
        """Show what a file has on its image; the layer that is selected stays so.

        Parameters
        ----------
        count
            Number of the last axes of the image that it has.
        content
            Of the layer, in voxels of the image: sliders go on by its planes.
        """
        layer = cls.layer_type(
            name=name,
            ndim=count,
            scale=image.scale[-count:],
            translate=image.translate[-count:],
            affine=_common(image.affine.affine_matrix, count),
            units=image.units[-count:],
            axis_labels=image.axis_labels[-count:],
            metadata={DRAWN: name},
            **content,
        )
        viewer, node = owner.viewer, image_node(image)
        assert node is not None
        made = cls(owner, node, layer, image)
        owner.add(made)
        active = viewer.layers.selection.active
        viewer.add_layer(layer)
        made.note_unchanged()
        owner.note_change()
        viewer.layers.selection.active = active
        return made


def _transform(matrix: Any, points: Any) -> Any:
    return points @ matrix[:-1, :-1].T + matrix[:-1, -1]


def _common(matrix: Any, count: int) -> Any:
    """Return the part of a matrix that is about the last axes."""
    kept = [*range(len(matrix) - 1 - count, len(matrix) - 1), -1]
    return np.asarray(matrix)[np.ix_(kept, kept)]


def axes_of(image: Layer) -> dict[str, str]:
    """Return the names of the axes of an image, each with its unit or ""."""
    picture: Any = picture_of(image)
    frame = frame_of(picture)
    return {
        axis.name or label: "" if frame.stated else unit_name(axis.unit) or ""
        for axis, label in zip(frame.axes, image.axis_labels, strict=True)
    }
