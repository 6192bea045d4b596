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
from napari_ngff.viewer.plans.layer_plan import KEY, SharedAxes, frame_of, picture_of
from napari_ngff.viewer.services.window import Window

if TYPE_CHECKING:
    from napari.layers import Layer

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.annotations.annotations import Annotations, ImageCopy

DRAWN = f"{KEY}-drawn"
"""Key of the metadata of a layer with the name of what it was read from."""


class DrawnAnnotation(FileAnnotation):
    """A layer that is drawn on an image of ours, with a file of its own.

    It goes where its image is moved, by hand or into another coordinate system.
    Coordinates in the file are those of the image, where it is seen on it.

    Attributes
    ----------
    layer_type
        The class of its layers.
    watched
        Events of a layer that come with changes.
    moves
        Those that come when it is moved.
    in_voxels
        Whether coordinates in the file are in voxels.
    """

    layer_type: ClassVar[Any]
    moves = ("affine", "rotate", "scale", "shear", "translate")
    watched: ClassVar[tuple[str, ...]] = ("name", "data", "features", *moves)

    in_voxels: ClassVar[bool] = False

    def __init__(
        self, owner: Annotations, node: Node, layer: Layer, image: Layer
    ) -> None:
        super().__init__(owner, node, layer)
        self._image, self._axes, order = image, axes_of(image), file_order(image)
        self._order, self._follows = order[:-2], False
        self._seen = voxels_to_world(image), world_matrix(layer)
        to_place = np.linalg.inv(image.affine.affine_matrix[:, [*order, -1]])
        self._from_voxels = to_place @ self._seen[0]
        self._from_voxels[:-1] /= length_factors(image)[order][:, None]
        if self.in_voxels:
            self._from_voxels = np.eye(image.ndim + 1)
        for name in self.moves:
            image.events[name].connect(self._on_move)
            layer.events[name].connect(self._on_move)
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

    @override
    def note_change(self, _: Any = None) -> None:
        if not self._follows:  # then its file stays as it is
            super().note_change()

    def _on_move(self, event: Any) -> None:
        # Not at once: a script may move both, in any order.
        if Window.current.has_workers and not self._follows:
            Window.current.run_after(0, self.follow_image)

    def follow_image(self) -> bool:
        """Go where the image was moved; False where that cannot be.

        A layer that was moved, too, stays where it is on the image.
        """
        layer, place, (before, seen) = self.layer, self._find_place(), self._seen
        if layer is None or place is None:
            return layer is None
        is_still = np.array_equal(world_matrix(layer), seen)
        if is_still and not np.array_equal(place, before):
            step = _fit_axes(place @ np.linalg.inv(before), layer.ndim)
            self._follows = True
            layer.affine = step @ layer.affine.affine_matrix
            self._follows = False
            if (count := layer.ndim) <= (image := self._image).ndim:
                layer.units = image.units[-count:]
                layer.axis_labels = image.axis_labels[-count:]
        self._seen = place, world_matrix(layer)
        return True

    def _find_place(self) -> Any:
        """Return the matrix from voxels of the image to the world.

        None where it shows another field, is bent by a field, or is sliced along other
        axes, which napari cannot do with points and shapes.
        """
        image, address = self._image, str(self.node)
        is_same = str(image_node(image)) == address
        is_same = is_same and file_order(image)[:-2] == self._order
        return voxels_to_world(image) if is_same else None

    def move_to_file(self, places: Any) -> Any:
        """Return coordinates of the layer as those in the file.

        Axes that only one of the two has come first, and are left out.
        """
        world = _transform(world_matrix(self.layer), places)
        count, place = min(world.shape[1], len(self._axes)), self._find_place()
        place = self._seen[0] if place is None else place
        to_file = self._from_voxels @ np.linalg.inv(place)
        return _transform(_fit_axes(to_file, count), world[:, -count:])

    @override
    def follow_copy(self, copy: ImageCopy) -> None:
        of_image = copy.to_voxels if self.in_voxels else copy.to_file
        to_image = np.linalg.inv(self._image.affine.affine_matrix)
        self._axes = {**copy.axes}
        self._from_voxels = of_image @ to_image @ voxels_to_world(self._image)

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
            Of the layer, in voxels of the image, with axes as in files: sliders go on
            by its planes.
        """
        order, data = np.argsort(file_order(image)[-count:]), content.get("data", ())
        is_array = isinstance(data, np.ndarray)
        content["data"] = data[:, order] if is_array else [x[:, order] for x in data]
        layer = cls.layer_type(
            name=name,
            ndim=count,
            scale=image.scale[-count:],
            translate=image.translate[-count:],
            affine=_fit_axes(image.affine.affine_matrix, count),
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


def _fit_axes(matrix: Any, ndim: int) -> Any:
    """Return a matrix for a number of axes, of which the last ones are the same."""
    fitted, count = np.eye(ndim + 1), min(ndim, len(matrix) - 1)
    ends = [*range(-count - 1, 0)]
    fitted[np.ix_(ends, ends)] = np.asarray(matrix)[np.ix_(ends, ends)]
    return fitted


def file_order(image: Layer) -> list[int]:
    """Return the axis of an image's layer for each one in files: its own order."""
    picture: Any = picture_of(image)
    own, shown = (
        SharedAxes.from_metadata(picture.pyramid).order,
        frame_of(picture).order,
    )
    is_same = {*own} == {*shown}
    return [shown.index(axis) for axis in own] if is_same else [*range(image.ndim)]


def voxels_to_world(image: Layer) -> Any:
    """Return the matrix from voxels, with axes as in files, to the world."""
    return world_matrix(image)[:, [*file_order(image), -1]]


def length_factors(image: Layer) -> Any:
    """Return how many micrometres the unit in files is, per axis of a layer."""
    picture: Any = picture_of(image)
    return frame_of(picture).length_factors


def axes_of(image: Layer) -> dict[str, str]:
    """Return the names of the axes in files, each with its unit or ""."""
    picture: Any = picture_of(image)
    frame, labels = frame_of(picture), image.axis_labels
    return {
        frame.axes[i].name or labels[i]: (
            "" if frame.stated else unit_name(frame.axes[i].unit) or ""
        )
        for i in file_order(image)
    }
