"""Regions of an image: boxes in a table of the form of ngio.

A row is a box, with its start and its length along each axis. As in ngio, they are in
the unit of the image, whatever the columns are called, and count from the first edge of
its first voxel, wherever the image is placed. Tables in all backends are read, those of
CSV and JSON are changed; rows that nobody has changed keep each value. Form:
https://biovisioncenter.github.io/ngio/stable/table_specs/table_types/roi_table/
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import (
    ConflictError,
    CorruptDataError,
    UnsupportedError,
)
from napari_ngff.labels.places.label_location import name_key
from napari_ngff.plate.tables.feature_table import write_table
from napari_ngff.plate.tables.files import find_table
from napari_ngff.plate.tables.table import LABEL, column_texts
from napari_ngff.store.arrays.array_document import dump_document, group_documents
from napari_ngff.store.hierarchy.summary import list_tables
from napari_ngff.store.limits import ATTRIBUTES_IN, check_table, parse_object
from napari_ngff.store.sources.blob import Blob
from napari_ngff.viewer.annotations.object_class_table import read_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.sources.blob import Revision
    from napari_ngff.viewer.annotations.file_annotation import OlderFile

NEW = {
    "type": "roi_table",
    "table_version": "1",
    "fractal_table_version": "1",
    "backend": "csv",
    "index_key": "FieldIndex",
    "index_type": "str",
}
"""Attributes of a new table."""

DECIMALS = 3
"""Of voxels, to which regions are drawn: napari's shapes are no more exact."""

BESIDE = "Rename the layer to save its regions as a new table."


@dataclass(frozen=True, slots=True)
class RegionAxis:
    """An axis of an image: its name, the size of a voxel, and the number of voxels."""

    name: str
    scale: float
    size: int

    @property
    def columns(self) -> list[str]:
        """The columns with start and length."""
        column = f"{self.name}_{'second' if self.name == 't' else 'micrometer'}"
        return [column, f"len_{column}"]


@dataclass(frozen=True, slots=True, eq=False)
class RegionTable:
    """The regions of a table.

    Attributes
    ----------
    titles
        Names of the regions.
    boxes
        First and last edge in voxels, of shape (regions, axes of the image, 2). Along
        an axis that the table does not have, a region is as long as the image.
    frame
        All columns, as a pandas.DataFrame; each value as it is in the file.
    index
        Its column with the names of the regions; "" for none.
    file
        Key of the file with the rows, "" where they are in many, and its revision
        before it was read.
    """

    titles: list[str]
    boxes: np.ndarray[Any, Any]
    frame: Any = None
    index: str = ""
    file: tuple[str, Revision | None] = ("", None)


def read_region_table(node: Node, name: str, axes: Sequence[RegionAxis]) -> RegionTable:
    """Read a table of regions.

    Raises
    ------
    OMEZarrError, OSError, ValueError
        Where it cannot be read, or a region has no place in the plane.
    """
    import pandas as pd

    source, group = node.location.source, node.child(f"tables/{name}")
    backend, file = str(group.attributes.get("backend")).lower(), ""
    if "csv" in backend or "json" in backend:
        document = f"table/{ATTRIBUTES_IN[node.zarr_format]}"
        file = group.location.object_key("table.csv" if "csv" in backend else document)
    blob = (source.read(file) if file else None) or Blob(b"")
    raw, revision = blob.data, blob.revision
    check_table(len(raw), str(group))
    if not file:
        frame, _ = find_table(node, name)
    elif "csv" in backend:
        frame = read_text(raw)
    else:
        content = parse_object(raw) or {}
        frame = pd.DataFrame(content.get("attributes", content), dtype=object)
    named = group.attributes.get("index_key"), NEW["index_key"], LABEL
    index = next((str(x) for x in named if x in frame.columns), "")
    # As ngio does, regions without a name are counted.
    titles = column_texts(frame[index]) if index else map(str, range(len(frame)))
    boxes = np.stack([_edges_of(frame, axis, str(group)) for axis in axes], axis=1)
    return RegionTable([*titles], boxes, frame, index, (file, revision))


def _edges_of(frame: Any, axis: RegionAxis, path: str) -> np.ndarray[Any, Any]:
    """Return the first and the last edge of each region along an axis, in voxels."""
    import pandas as pd

    numbers = frame.reindex(columns=[*axis.columns]).apply(
        pd.to_numeric, errors="coerce"
    )
    edges = np.cumsum(numbers.to_numpy(float) / axis.scale, axis=1)
    lost = ~(np.isfinite(edges).all(axis=1) & (edges[:, 1] >= edges[:, 0]))
    if axis.name in ("y", "x") and lost.any():
        row = int(np.argmax(lost))
        is_empty = ~np.isfinite(numbers.iloc[row])  # else the length is negative
        names = " and ".join(numbers.columns[is_empty]) or axis.columns[1]
        msg = f"Row {row + 1} of {path} has no valid number in {names}."
        raise CorruptDataError(msg, remedy="Correct it by the program that wrote it.")
    edges[lost] = 0, axis.size
    return edges


def planes_of(
    boxes: np.ndarray[Any, Any], axes: Sequence[RegionAxis]
) -> np.ndarray[Any, Any]:
    """Return the middle plane of regions along each axis; -1 where they have them all.

    Of shape (regions, axes).
    """
    low, high = np.round(boxes[..., 0], DECIMALS), np.round(boxes[..., 1], DECIMALS)
    sizes = np.array([axis.size for axis in axes])
    middle = np.clip(np.floor((low + high) / 2), 0, sizes - 1)
    return np.where((low <= 0) & (high >= sizes), -1, middle).astype(int)


def draw_boxes(boxes: np.ndarray[Any, Any], axes: Sequence[RegionAxis]) -> Any:
    """Return the corners of regions in their middle planes, in voxels as napari counts.

    Of shape (regions, 4, axes). Axes along which all regions are whole come first in
    those of the image, and are left out.
    """
    planes = planes_of(boxes, axes)[:, :-2]
    first = int(np.argmax(np.append((planes >= 0).any(axis=0), True)))
    lead = np.maximum(planes[:, first:], 0)
    # The edges of y and x at each of the four corners, in turn.
    flat = np.stack([boxes[:, -2, [0, 0, 1, 1]], boxes[:, -1, [0, 1, 1, 0]]], axis=2)
    return np.concatenate([np.repeat(lead[:, None], 4, axis=1), flat - 0.5], axis=2)


def boxes_of(corners: Sequence[Any], axes: Sequence[RegionAxis]) -> Any:
    """Return the boxes around corners; as long as the image along axes that they lack.

    The reverse of `draw_boxes`, but that a box has one plane.
    """
    boxes = np.empty((len(corners), len(axes), 2))
    boxes[:] = [(0, axis.size) for axis in axes]
    for box, each in zip(boxes, corners, strict=True):
        low, high = np.round([np.min(each, axis=0), np.max(each, axis=0)], DECIMALS)
        ends = np.stack([low, high], axis=1) + 0.5
        ends[:-2] = np.round(ends[:-2, :1] - 0.5) + np.array([0, 1])
        box[-len(ends) :] = ends
    return boxes


def write_regions(
    node: Node, name: str, older: OlderFile, drawn: JSON, axes: Sequence[RegionAxis]
) -> Revision | None:
    """Write the regions of a layer into their table, or into a new one.

    Parameters
    ----------
    older
        Path and revision of the table that was read; "" for none. Of another name, its
        rows are copied, and it stays as it is.
    drawn
        Lists of the ``titles``, ``kinds`` and ``corners`` of the shapes, and the
        ``rows`` that they have in the older table, -1 for new ones.

    Returns
    -------
    Revision or None
        Of the file with the rows. Row 0 is the first shape.

    Raises
    ------
    ConflictError
        Where another program has changed the table, or made one of that name.
    UnsupportedError
        Where its form is not one that is written.
    ValueError
        Where a shape is no upright rectangle, or its name is no number of an object.
    OSError
        Where it cannot be written.
    """
    table, attributes, at = _new_table(axes), NEW, os.path.basename(older[0])
    if at:
        table = read_region_table(node, at, axes)
        attributes = node.child(f"tables/{at}").attributes
    key, revision = table.file
    if at and revision != older[1]:
        msg = f"Another window or program has changed the table {at}."
        raise ConflictError(msg, remedy=BESIDE)
    if at == name and not key:
        raise UnsupportedError(f"The form of {at} is not changed here.", remedy=BESIDE)
    numbers = attributes.get("index_type") == "int"
    if numbers and not all(map(str.isdecimal, drawn["titles"])):
        msg = f"In the table {at}, the name of each region is the number of an object."
        raise ValueError(f"{msg} {BESIDE}")
    merged = merge_regions(table, drawn, axes)
    data = merged.to_csv(index=False, lineterminator="\n").encode()
    if at == name:
        if not key.endswith(".csv"):
            document: Any = parse_object(node.location.source.get(key) or b"")
            values = merged.where(merged.notna(), None).to_dict("list")
            document.get("attributes", document).update(values)
            data = dump_document(document)
        end = key.partition(f"tables/{name}/")[2]
        return write_table(node, name, {end: data}, table.file)
    if name_key(name) in map(name_key, list_tables(node)):
        msg = f"There is a table {name}, or one that differs in case alone."
        raise ConflictError(msg, remedy="Rename the layer.")
    # What AnnData states of its form does not hold for CSV.
    kept = {x: y for x, y in attributes.items() if not x.startswith("encoding")}
    version = "0.4" if node.zarr_format == 2 else "0.5"
    files = group_documents({**kept, "backend": "csv"}, version) | {"table.csv": data}
    key = node.location.object_key(f"tables/{name}/table.csv")
    return write_table(node, name, files, (key, None))


def _new_table(axes: Sequence[RegionAxis]) -> RegionTable:
    import pandas as pd

    # ngio asks for those of z also where an image has no planes.
    columns = [x for axis in (*axes, RegionAxis("z", 1, 1)) for x in axis.columns]
    frame = pd.DataFrame(columns=[NEW["index_key"], *dict.fromkeys(columns)])
    return RegionTable([], np.empty((0, len(axes), 2)), frame, NEW["index_key"])


def merge_regions(table: RegionTable, drawn: JSON, axes: Sequence[RegionAxis]) -> Any:
    """Return the rows of a table with what was drawn; see `write_regions`."""
    rows, lead = np.array(drawn["rows"], int), len(axes) - 2
    rows = np.where(rows < len(table.titles), rows, -1)  # those of another table
    frame = table.frame.reset_index(drop=True).astype(object)
    merged = frame.reindex(rows).reset_index(drop=True)  # -1 is in no table
    older = np.concatenate([table.boxes, np.zeros((1, lead + 2, 2))])[rows]
    boxes = boxes_of(drawn["corners"], axes)
    # Corners of shapes are of 32 bits.
    slack = 2 * 10.0**-DECIMALS + 4e-7 * abs(boxes)
    changed = ~(abs(boxes - older) < slack)
    # One that was moved alone is as long as before.
    changed[..., 1] = abs(np.diff(boxes - older)[..., 0]) >= slack.sum(axis=2)
    planes = np.maximum(planes_of(older, axes), 0)[:, :lead]
    changed[:, :lead] = (boxes[:, :lead, 0] != planes)[..., None]
    changed[:, : lead + 2 - min((len(x[0]) for x in drawn["corners"]), default=2)] = (
        False
    )
    changed[rows < 0] = True
    for number in np.flatnonzero(changed.any(axis=(1, 2))):
        _check_upright(*(drawn[x][number] for x in ("titles", "kinds", "corners")))
    flat = [x for x in RegionAxis("z", 1, 1).columns if x in merged]
    merged.loc[rows < 0, flat] = [0.0, 1.0][: len(flat)]
    boxes[..., 1] -= boxes[..., 0]
    for place, axis in enumerate(axes):
        for end, column in enumerate(axis.columns):
            if column in merged:
                which = changed[:, place, end]
                merged.loc[which, column] = boxes[which, place, end] * axis.scale
    titles = np.array(drawn["titles"], object)
    renamed = titles != np.array([*table.titles, None], object)[rows]
    if table.index:
        merged.loc[renamed, table.index] = titles[renamed]
    return merged


def _check_upright(title: str, kind: str, corners: Any) -> None:
    """Refuse a shape that is no upright rectangle in one plane.

    Raises
    ------
    ValueError
        Where it is not.
    """
    low, high = np.min(corners, axis=0), np.max(corners, axis=0)
    at_end = np.minimum(corners - low, high - corners) < 10.0**-DECIMALS
    is_box = kind in ("rectangle", "polygon") and len(corners) == 4 and at_end.all()
    if not is_box or (high > low).tolist() != [False] * (len(low) - 2) + [True, True]:
        msg = f"Regions are upright rectangles, and '{title}' is another shape."
        raise ValueError(f"{msg} Delete it, and add a rectangle in its place.")
