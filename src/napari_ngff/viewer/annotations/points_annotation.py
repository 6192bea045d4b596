"""Points on an image: a CSV for each layer, in a folder beside the image.

``cells.ome.zarr`` has ``cells.points/NAME.csv``, the field ``B/3/0`` of a plate
``plate.points/B/3/0/NAME.csv``. Columns are ``index``, one for each axis of the image
with its unit, such as ``y (micrometer)``, and the properties of the points.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from napari.layers import Points
from typing_extensions import override

from napari_ngff.metadata.units import unit_name
from napari_ngff.store.hierarchy.location import POINTS_END
from napari_ngff.viewer.annotations.file_annotation import (
    FileAnnotation,
    find_image_shown,
    image_node,
)
from napari_ngff.viewer.layers.move_layers import world_matrix
from napari_ngff.viewer.plans.layer_plan import KEY, frame_of, layer_kind, picture_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.layers import Layer

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.annotations.annotations import Annotations

INDEX = "index"

OPENED = f"{KEY}-points"
"""In the metadata of layers that were made of a file."""


class PointsAnnotation(FileAnnotation):
    """One layer of points on an image of ours."""

    folder_ending, file_ending, noun = POINTS_END, ".csv", "point"

    def __init__(
        self, owner: Annotations, node: Node, layer: Layer, image: Layer
    ) -> None:
        super().__init__(owner, node, layer)
        # The image may be moved while its points are drawn: they stay where they are.
        self._columns = columns_of(image)
        self._to_image = np.linalg.inv(image.affine.affine_matrix)
        for event in (layer.events.data, layer.events.features, layer.events.name):
            event.connect(self.note_change)
        if len(layer.data):
            self._changes += 1

    @classmethod
    @override
    def attach(cls, owner: Annotations, layer: Any) -> None:
        super().attach(owner, layer)
        if layer_kind(layer) != "points" or owner.of_layer(layer) is not None:
            return
        image = find_image_shown(owner)
        is_ours = any(str(key).startswith(KEY) for key in layer.metadata)
        node = None if image is None else image_node(image)
        if node is not None and not (is_ours or layer.source.path):
            owner.add(cls(owner, node, layer, image))

    @override
    def count(self) -> int:
        layer = self.layer
        return 0 if layer is None else len(layer.data)

    @override
    def take_content(self) -> Callable[[], str]:
        layer = self.layer
        data, features = np.array(layer.data, float), layer.features.copy()
        # Axes that only one of the two has come first.
        columns = self._columns[-layer.ndim :]
        world = _transform(world_matrix(layer), data)[:, -len(columns) :]
        points = _transform(_common(self._to_image, len(columns)), world)
        return lambda: dump_points(points, columns, features)

    @classmethod
    @override
    def make(cls, owner: Annotations, image: Any, name: str, text: str) -> Any:
        points, features = parse_points(text, columns_of(image))
        count = points.shape[1]
        viewer = owner.viewer
        active = viewer.layers.selection.active
        # Of the voxels of the image, so that sliders go on by its planes.
        scale, translate = image.scale[-count:], image.translate[-count:]
        layer = Points(
            (points - translate) / scale,
            features=features,
            name=name,
            scale=scale,
            translate=translate,
            affine=_common(image.affine.affine_matrix, count),
            units=image.units[-count:],
            axis_labels=image.axis_labels[-count:],
            metadata={OPENED: name},
        )
        node = image_node(image)
        assert node is not None
        made = cls(owner, node, layer, image)
        made.note_unchanged()
        owner.add(made)
        viewer.add_layer(layer)
        viewer.layers.selection.active = active
        return made


def _transform(matrix: Any, points: Any) -> Any:
    return points @ matrix[:-1, :-1].T + matrix[:-1, -1]


def _common(matrix: Any, count: int) -> Any:
    """Return the part of a matrix that is about the last axes."""
    kept = [*range(len(matrix) - 1 - count, len(matrix) - 1), -1]
    return np.asarray(matrix)[np.ix_(kept, kept)]


def columns_of(image: Layer) -> list[str]:
    """Name the columns of coordinates: the axes of an image with their units."""
    picture = picture_of(image)
    assert picture is not None
    frame = frame_of(picture)
    names = []
    for number, axis in enumerate(frame.axes):
        unit = "" if frame.stated else unit_name(axis.unit)
        name = axis.name or image.axis_labels[number]
        names.append(f"{name} ({unit})" if unit else name)
    return names


def dump_points(points: Any, columns: list[str], features: pd.DataFrame) -> str:
    """Write points and their properties as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([INDEX, *columns, *map(str, features.columns)])
    rows = zip(points.tolist(), features.to_numpy(object).tolist(), strict=True)
    for number, (point, values) in enumerate(rows):
        writer.writerow([number, *point, *values])
    return text.getvalue()


def parse_points(text: str, columns: list[str]) -> tuple[Any, pd.DataFrame]:
    """Read points and their properties from CSV.

    Raises
    ------
    ValueError
        Where the columns of coordinates are not those of the image.
    """
    header = next(csv.reader(io.StringIO(text)), [])
    # Points that lie on all sections lack the first axes.
    ends = [columns[first:] for first in range(len(columns))]
    names = next((x for x in ends if header[: 1 + len(x)] == [INDEX, *x]), None)
    if names is None:
        raise ValueError(f"its first columns are not {', '.join([INDEX, *columns])}.")
    rows = io.StringIO(text)
    frame = pd.read_csv(rows, header=None, skiprows=1, names=[*range(len(header))])
    frame.columns, end = pd.Index(header), 1 + len(names)
    points = frame.iloc[:, 1:end].to_numpy(float)
    return points, frame.iloc[:, end:]
