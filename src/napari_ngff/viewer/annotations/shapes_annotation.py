"""Shapes on an image: a GeoJSON for each layer, in a folder beside the image.

``cells.ome.zarr`` has ``cells.shapes/NAME.geojson``, the field ``B/3/0`` of a plate
``plate.shapes/B/3/0/NAME.geojson``. What is in it: `shapes_file`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from napari.layers import Layer, Shapes
from napari.layers.base import ActionType
from typing_extensions import override

from napari_ngff.store.hierarchy.location import SHAPES_END
from napari_ngff.viewer.annotations.drawn_annotation import DrawnAnnotation, axes_of
from napari_ngff.viewer.annotations.shapes_file import (
    STYLES,
    dump_shapes,
    parse_shapes,
)
from napari_ngff.viewer.layers.move_layers import world_matrix
from napari_ngff.viewer.services.notices import count_noun, shorten_name
from napari_ngff.viewer.services.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.annotations.annotations import Annotations


class ShapesAnnotation(DrawnAnnotation):
    """One layer of shapes on an image of ours."""

    folder_ending, file_ending, noun = SHAPES_END, ".geojson", "shape"
    layer_type, in_voxels = Shapes, True
    watched = (*DrawnAnnotation.watched, "edge_color", "face_color", "edge_width")

    def __init__(
        self, owner: Annotations, node: Node, layer: Layer, image: Layer
    ) -> None:
        # The collection without its shapes, and the feature of each shape.
        self._rest: dict[str, Any] = {"features": []}
        self.file_notes: list[dict[str, Any]] = []
        super().__init__(owner, node, layer, image)
        self._pixel = np.abs(image.scale[-2:]).min()
        self._look_before, self._table = self._look(), layer.features.copy()

    @override
    def on_change(self, event: Any) -> None:
        # Some events come without a change, such as that of a selection.
        if getattr(event, "action", None) == ActionType.REMOVED:
            for index in sorted(event.data_indices, reverse=True):
                del self.file_notes[index]
        seen, table = self._look(), self.layer.features.iloc[: self.layer.nshapes]
        if seen != self._look_before or not table.equals(self._table):
            self._look_before, self._table = seen, table.copy()
            self.note_change()

    def _look(self) -> object:
        """Return what is equal as long as no shape is changed."""
        layer, count = self.layer, self.layer.nshapes
        # New shapes come last, and have nothing else in the file.
        del self.file_notes[count:]
        self.file_notes += ({} for _ in range(len(self.file_notes), count))
        # A drawing that napari gives up leaves rows without a shape.
        colors = layer.edge_color[:count], layer.face_color[:count]
        arrays = [world_matrix(layer), *colors, *layer.data]
        return self.name, layer.edge_width, [each.tobytes() for each in arrays]

    @override
    def count(self) -> int:
        layer = self.layer
        return 0 if layer is None else layer.nshapes + len(self._rest["features"])

    @override
    def take_content(self) -> Callable[[], str]:
        layer, data = self.layer, self.layer.data
        ends = np.cumsum([len(corners) for corners in data])
        corners = np.concatenate([np.empty((0, layer.ndim)), *data])
        voxels = self.move_to_file(corners)
        widths = np.array(layer.edge_width) * (
            np.abs(layer.scale[-2:]).min() / self._pixel
        )
        colors = [x[: len(data)].copy() for x in (layer.edge_color, layer.face_color)]
        types, rest = list(map(str, layer.shape_type)), self._rest
        kept = [*self.file_notes]
        table = layer.features.iloc[: len(data)].astype(object).rename(columns=str)

        def encode() -> str:
            values = table.where(table.notna(), None).to_numpy().tolist()
            rows = (dict(zip(table, row, strict=True)) for row in values)
            looks = zip(types, widths, *colors, strict=True)
            styles = (dict(zip(STYLES, look, strict=True)) for look in looks)
            parts = np.split(voxels, ends)[:-1]
            shapes = zip(parts, styles, rows, kept, strict=True)
            return dump_shapes(shapes, rest, [*self._axes])

        return encode

    @classmethod
    @override
    def parser(cls, image: Any) -> Callable[[str], Any]:
        axes = [*axes_of(image)]
        return lambda text: parse_shapes(text, axes)

    @classmethod
    @override
    def make(cls, owner: Annotations, image: Any, name: str, content: Any) -> Any:
        looks, kept, rest = content
        count = looks["data"][0].shape[1] if kept else 2
        # napari warns of an empty list of colours.
        made = cls.show_layer(owner, image, name, count, **(looks if kept else {}))
        made.file_notes, made._rest = kept, rest
        if others := rest["features"]:
            text = (
                f"{count_noun(len(others), 'feature')} of '{name}' cannot be shapes of"
                " napari, such as polygons with holes. Saving keeps them in the file."
            )
            Window.current.show_messages(
                (text,), f"Partly shown: {shorten_name(name)}."
            )
        return made
