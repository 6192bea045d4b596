"""Regions of an image: a layer of rectangles that is a table of the image.

Such a layer comes when a person chooses its table. Where the image cannot be written,
``cells.ome.zarr`` has ``cells.regions/NAME.json`` beside it, or in the user's data,
which comes with the image.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from napari_ngff.plate.tables.feature_table import is_writable
from napari_ngff.store.hierarchy.location import REGIONS_END
from napari_ngff.store.limits import parse_object
from napari_ngff.viewer.annotations.annotations import CopiedPart
from napari_ngff.viewer.annotations.drawn_annotation import (
    DrawnAnnotation,
    axes_of,
    file_order,
    length_factors,
)
from napari_ngff.viewer.annotations.region_table import (
    RegionAxis,
    RegionTable,
    boxes_of,
    draw_boxes,
    read_region_table,
    write_regions,
)
from napari_ngff.viewer.annotations.shapes_annotation import ShapesAnnotation
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.streaming.regions import level_shapes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from napari.layers import Layer

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.annotations.annotations import Annotations, ImageCopy
    from napari_ngff.viewer.annotations.file_annotation import OlderFile

NAME = "name"
"""Property of the shapes with the names of the regions."""

EDGE = 400
"""Widths of an edge in an image; thinner, it would not be seen in a large one."""


def region_axes(image: Layer) -> tuple[RegionAxis, ...]:
    """Return the axes of the image of a layer, as tables of regions have them."""
    sizes, scale = level_shapes(image)[0], abs(image.scale) / length_factors(image)
    axes = zip(axes_of(image), file_order(image), strict=True)
    return tuple(RegionAxis(x.lower(), float(scale[i]), sizes[i]) for x, i in axes)


class RegionsAnnotation(ShapesAnnotation):
    """One layer of regions on an image of ours."""

    folder_ending, file_ending, noun = REGIONS_END, ".json", "region"
    keeps_empty = True
    watched = DrawnAnnotation.watched  # colours are not in a table
    axes: tuple[RegionAxis, ...] = ()
    _saving: tuple[dict[str, Any], ...] = ()

    @property
    def table(self) -> RegionTable:
        """The regions as they are on screen."""
        corners = [self.move_to_file(each) for each in self.layer.data]
        return RegionTable(self._titles, boxes_of(corners, self.axes))

    @property
    def _titles(self) -> list[str]:
        layer = self.layer
        return [*layer.features[NAME].iloc[: layer.nshapes].fillna("").astype(str)]

    @override
    def on_change(self, event: Any) -> None:
        super().on_change(event)
        self.layer.feature_defaults[NAME] = free_title(self._titles)

    @override
    def take_content(self) -> Callable[[], str]:
        layer, move = self.layer, self.move_to_file
        drawn = {
            "titles": self._titles,
            "kinds": [str(kind) for kind in layer.shape_type],
            "corners": [move(each).tolist() for each in layer.data],
            "rows": [kept.get("row", -1) for kept in self.file_notes],
            "names": [kept.get(NAME) for kept in self.file_notes],
        }
        return lambda: json.dumps(drawn)

    @classmethod
    @override
    def parser(cls, image: Any) -> Callable[[str], Any]:
        return lambda text: parse_object(text.encode()) or {}  # damaged

    @classmethod
    @override
    def make(cls, owner: Annotations, image: Any, name: str, content: Any) -> Any:
        corners = [np.array(each, float) for each in content["corners"]]
        titles, width = content["titles"], max(level_shapes(image)[0][-2:]) / EDGE
        made = cls.show_layer(
            owner,
            image,
            name,
            corners[0].shape[1] if corners else 2,
            data=corners,
            shape_type=content["kinds"] or "rectangle",
            features={NAME: np.array(titles, object)},
            feature_defaults={NAME: free_title(titles)},
            text={"string": f"{{{NAME}}}", "anchor": "upper_left"},
            edge_color="#ffd166",
            face_color="transparent",
            edge_width=width,
        )
        made.layer.current_edge_width = width  # of new ones
        made.axes = region_axes(image)
        made.file_notes = [
            {"row": row, NAME: stored}
            for row, stored in zip(
                content["rows"], content.get("names", titles), strict=True
            )
        ]
        return made

    @classmethod
    def open_table(
        cls, owner: Annotations, image: Layer, name: str, table: RegionTable
    ) -> None:
        """Show the regions of a table on its image."""
        content = {
            "titles": table.titles,
            "kinds": ["rectangle"] * len(table.titles),
            "corners": draw_boxes(table.boxes, region_axes(image)),
            "rows": range(len(table.titles)),
        }
        made = cls.make(owner, image, name, content)
        made.note_file((f"{made.node}/tables/{name}", table.file[1]))

    @classmethod
    def begin(cls, owner: Annotations, image: Layer, name: str) -> None:
        """Make new regions of an image, which are unsaved when one is drawn."""
        content = dict.fromkeys(("titles", "kinds", "corners", "rows"), ())
        layer = cls.make(owner, image, name, content).layer
        owner.viewer.layers.selection.active = layer
        layer.mode = "add_rectangle"

    @override
    def plan_copy(self, copy: ImageCopy) -> CopiedPart | str | None:
        is_in_image = self._path.startswith(f"{self.node}/tables/")
        if is_in_image and not self.unsaved:
            return None  # all tables of an image go along
        part = super().plan_copy(copy)
        if not isinstance(part, CopiedPart):
            return part or "save their unsaved changes in the image" * is_in_image
        if copy.is_scaled:
            return "the voxels have another size in the new file"
        make, at, axes = part.make, os.path.basename(self._path), self.axes

        def save_into(image: Node) -> None:
            ((file, data),) = make("").items()
            stored = read_region_table(image, at, axes).file[1] if is_in_image else None
            older = at * is_in_image, stored
            name = file.removesuffix(self.file_ending)
            write_regions(image, name, older, parse_object(data) or {}, axes)

        return CopiedPart(part.title, save_into=save_into, layer=self.layer)

    @override
    def find_target(self) -> str:
        path = super().find_target()
        name = os.path.basename(path).removesuffix(self.file_ending)
        return f"{self.node}/tables/{name}" if is_writable(self.node) else path

    @override
    def save(self, *, quiet: bool = False) -> None:
        if not self.running and self.unsaved:
            self._part_names()
            self._saving = tuple(self.file_notes)
        super().save(quiet=quiet)

    def _part_names(self) -> None:
        """Give regions names of their own, but for those that the file has so.

        ngio finds a region by its name, and reads one of each.
        """
        before, stored = self._titles, [kept.get(NAME) for kept in self.file_notes]
        titles = [
            x if x in (old, "") else None for x, old in zip(before, stored, strict=True)
        ]
        for place in [i for i, title in enumerate(titles) if title is None]:
            wanted, others = before[place], [*before, *titles]
            titles[place] = free_title(others, wanted) if wanted in titles else wanted
        if titles != before:
            self.layer.features = self.layer.features.iloc[: len(titles)].assign(
                **{NAME: np.array(titles, object)}
            )
            texts = tuple(
                f"'{old}' is now '{new}'."
                for old, new in zip(before, titles, strict=True)
                if old != new
            )
            Window.current.show_messages(texts, "Each region has its own name.")

    @override
    def write_stored(
        self, path: str, encode: Callable[[], str], older: OlderFile
    ) -> OlderFile:
        top = f"{self.node}/tables/"
        is_table = older[0].startswith(top)
        if not path.startswith(top):
            return super().write_stored(path, encode, ("", None) if is_table else older)
        name, before = path.removeprefix(top), older if is_table else ("", None)
        drawn = self.parser(None)(encode())
        revision = write_regions(self.node, name, before, drawn, self.axes)
        # In the file, they are in the order in which they were drawn.
        for row, kept in enumerate(self._saving):
            kept.update({"row": row, NAME: drawn["titles"][row]})
        return path, revision


def free_title(taken: Collection[str | None], start: str = "region") -> str:
    """Return a name that no region has."""
    names = (f"{start}_{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)
