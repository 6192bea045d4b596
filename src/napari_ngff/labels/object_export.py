"""Exports labels for other programs: outlines as GeoJSON, boxes as a table.

Outlines follow the edges of voxels: exact polygons with holes. A file appears under its
name when it is complete.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import uuid
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from napari_ngff.metadata.units import MICROMETER, drop_noise
from napari_ngff.store.arrays.boxes import Box, whole_box
from napari_ngff.store.write.replace_file import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from napari_ngff.labels.canvas_level import CanvasLevel
    from napari_ngff.labels.label_classes import LabelClass

PLANE = 1 << 28
"""Most voxels of a plane whose objects are outlined; it is in memory as a whole."""

SPACE = ("x", "y", "z")
VOXEL = "voxel"


def outline_features(
    level: CanvasLevel,
    axes: str,
    *,
    classes: Iterable[LabelClass] = (),
    pixel: tuple[float, float] = (1.0, 1.0),
    cancel: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Outline every object, plane by plane, in the form that QuPath reads.

    Parameters
    ----------
    level
        Of a canvas.
    axes
        A letter each, such as "tzyx"; the last two are y and x.
    classes
        Their names and colours become classifications.
    pixel
        Size of a voxel of the level along y and x, in pixels of the image.
    cancel
        Asked after each plane.

    Returns
    -------
    dict
        A FeatureCollection (RFC 7946, without its coordinate reference system: QuPath's
        are pixels of the image, x before y). An object of several pieces is a
        MultiPolygon. "plane" counts from 0; channel -1 stands for all.

    Raises
    ------
    ValueError
        Where a plane has more than `PLANE` voxels.
    """
    sizes = level.shape
    if sizes[-1] * sizes[-2] > PLANE:
        msg = (
            f"A plane of {sizes[-2]} x {sizes[-1]} voxels is too large to outline."
            " Choose a coarser level."
        )
        raise ValueError(msg)
    named = {item.value: item for item in classes}
    features = []
    for plane_index in itertools.product(*map(range, sizes[:-2])):
        box = (*((index, index + 1) for index in plane_index), *whole_box(sizes[-2:]))
        picture = level.read(box).reshape(sizes[-2:])
        # Not strict: the last two axes have no index of a plane.
        letters = dict(zip(axes, plane_index, strict=False))
        plane = {"c": -1, "z": letters.get("z", 0), "t": letters.get("t", 0)}
        for value, rings in _outline_labels(picture, pixel):
            # RFC 7946, 3.1.6 and 3.1.7; "plane" is QuPath's extension.
            geometry: dict[str, Any] = {"type": "MultiPolygon", "coordinates": rings}
            if len(rings) == 1:
                geometry = {"type": "Polygon", "coordinates": rings[0]}
            features.append(_make_feature(value, geometry | {"plane": plane}, named))
        if cancel():
            break
    return {"type": "FeatureCollection", "features": features}


def _outline_labels(
    picture: Any, pixel: tuple[float, float]
) -> Iterator[tuple[int, list[Any]]]:
    """Outline each label of a plane: polygons of closed rings of (x, y)."""
    # Ids may be as large as 2**64, and `find_objects` makes a list up to the largest;
    # so they are numbered first.
    values, compact = np.unique(picture, return_inverse=True)
    compact = compact.reshape(picture.shape) + 1  # background may be among them
    for value, part_slices in zip(
        values.tolist(), ndimage.find_objects(compact), strict=True
    ):
        if value == 0 or part_slices is None:
            continue
        first = [part.start for part in part_slices]
        outlines = []
        for polygon in find_polygons(picture[part_slices] == value):
            rings = [polygon.outer, *polygon.holes]
            # Edges between voxels in (y, x), turned into (x, y) below.
            placed = [drop_noise((ring + first) * pixel) for ring in rings]
            # "The first and last positions are equivalent" (RFC 7946, 3.1.6).
            closed = (np.concatenate([ring, ring[:1]]) for ring in placed)
            outlines.append([ring[:, ::-1].tolist() for ring in closed])
        yield value, outlines


def _make_feature(
    value: int, geometry: dict[str, Any], named: dict[int, LabelClass]
) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "objectType": "annotation",
        "name": str(value),
        "measurements": {"label": value},
    }
    if value in named:
        label_class = named[value]
        properties["classification"] = {
            "name": label_class.name,
            # QuPath's colours have no alpha.
            "color": list(label_class.color[:3]),
        }
    return {
        "type": "Feature",
        # QuPath identifies objects by UUIDs.
        "id": str(uuid.uuid4()),
        "geometry": geometry,
        "properties": properties,
    }


def find_boxes(
    level: CanvasLevel, cancel: Callable[[], bool] = lambda: False
) -> dict[int, Box]:
    """Find the bounding box of each label, chunk by chunk, in an image of any size.

    Parameters
    ----------
    level
        Of a canvas.
    cancel
        Asked after each chunk.
    """
    boxes: dict[int, Box] = {}
    for chunk in level.chunks_in(whole_box(level.shape)):
        box = level.chunk_box(chunk)
        picture = level.read(box)
        values, compact = np.unique(picture, return_inverse=True)
        places = ndimage.find_objects(compact.reshape(picture.shape) + 1)
        for value, part_slices in zip(values.tolist(), places, strict=True):
            if value == 0 or part_slices is None:
                continue
            part_box = tuple(
                (part.start + a, part.stop + a)
                for part, (a, _) in zip(part_slices, box, strict=True)
            )
            # An object may reach over several chunks: its box grows with each.
            known = boxes.get(value, part_box)
            boxes[value] = tuple(
                (min(a, c), max(b, d))
                for (a, b), (c, d) in zip(part_box, known, strict=True)
            )
        if cancel():
            break
    return dict(sorted(boxes.items()))


def write_boxes(
    file: IO[str],
    boxes: dict[int, Box],
    axes: str,
    pixel: Sequence[float],
    unit: str = MICROMETER,
) -> None:
    """Write bounding boxes as a table of regions of interest, as ngio reads it.

    Parameters
    ----------
    file
        Open for text, with ``newline=""``.
    boxes
        By label, see `find_boxes`.
    axes
        A letter for each axis of the boxes.
    pixel
        Size of a voxel along each.
    unit
        Of these sizes, which the names of the columns state.
    """
    writer = csv.writer(file)
    starts_of = [f"{letter}_{unit}" for letter in SPACE]
    writer.writerow(["label", *starts_of, *(f"len_{name}" for name in starts_of)])
    for value, box in boxes.items():
        spans = dict(zip(axes, box, strict=True))
        sizes = dict(zip(axes, pixel, strict=True))
        starts, lengths = [], []
        for letter in SPACE:
            # ngio requires columns for z: an image without z has one plane of 1.
            low, high = spans.get(letter, (0, 1))
            size = sizes.get(letter, 1.0)
            starts.append(low * size)
            lengths.append((high - low) * size)
        writer.writerow([value, *drop_noise([*starts, *lengths]).tolist()])


Ring = npt.NDArray[np.int64]
"""Corners, axes (corner, y and x); the last is joined with the first. Integers are the
edges between voxels: voxel 0 reaches from 0 to 1."""


@dataclass(frozen=True, slots=True, eq=False)
class OutlinePolygon:
    """One piece of an object whose voxels are connected by faces.

    Attributes
    ----------
    outer
        Counterclockwise, where y points down.
    holes
        Clockwise.
    """

    outer: Ring
    holes: tuple[Ring, ...] = ()

    @property
    def area(self) -> int:
        """Number of voxels."""
        return sum(
            abs(_double_area(ring)) * sign // 2 for ring, sign in self._signed_rings()
        )

    def _signed_rings(self) -> list[tuple[Ring, int]]:
        return [(self.outer, 1), *((hole, -1) for hole in self.holes)]


def find_polygons(mask: npt.NDArray[np.bool_]) -> list[OutlinePolygon]:
    """Outline the voxels that are set in a mask.

    Pieces that touch at a corner only are apart. No ring meets itself ("simple",
    OGC 06-103r4, 6.1.11).

    Parameters
    ----------
    mask
        Axes (y, x).
    """
    rings = _trace_rings(mask)
    outer = [ring for ring in rings if _double_area(ring) > 0]
    holes = [ring for ring in rings if _double_area(ring) < 0]
    # One piece has all holes; most objects are such.
    if len(outer) == 1:
        return [OutlinePolygon(outer[0], tuple(holes))]
    # Else each hole belongs to the piece that its ring bounds.
    pieces = _label_pieces(mask)
    owned: dict[int, list[Ring]] = {}
    for hole in holes:
        owned.setdefault(_piece_of(hole, pieces, inner=True), []).append(hole)
    return [
        OutlinePolygon(ring, tuple(owned.get(_piece_of(ring, pieces), ())))
        for ring in outer
    ]


def _label_pieces(mask: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    # By faces, scipy's default, so that pieces that touch at a corner are apart.
    from scipy import ndimage

    pieces: npt.NDArray[Any] = ndimage.label(mask)[0]
    return pieces


def _piece_of(ring: Ring, pieces: npt.NDArray[Any], inner: bool = False) -> int:
    """Return the number of the piece that a ring bounds, by its topmost edge.

    Below that edge lies the piece; or a hole, and the piece above it.
    """
    ends = np.roll(ring, -1, axis=0)
    # Only a horizontal edge has a voxel above it and one below it.
    flat = ring[:, 0] == ends[:, 0]
    top = int(np.argmin(np.where(flat, ring[:, 0], np.iinfo(np.int64).max)))
    y, x = int(ring[top, 0]), int(min(ring[top, 1], ends[top, 1]))
    return int(pieces[y - 1, x] if inner else pieces[y, x])


def _double_area(ring: Ring) -> int:
    """Return twice the area inside a ring; negative for a hole."""
    # Shoelace formula.
    y, x = ring.T
    after = np.roll(x, -1), np.roll(y, -1)
    return int(np.sum(y * after[0] - x * after[1]))


def _trace_rings(mask: npt.NDArray[np.bool_]) -> list[Ring]:
    """Follow the edges between voxels that are set and voxels that are not."""
    # So that voxels at the border have a neighbour that is not set.
    padded = np.pad(mask, 1)
    # Each edge runs with the object on its left, y pointing down: from start to stop.
    starts, stops = [], []
    for shift, start, stop in (
        ((-1, 0), (0, 1), (0, 0)),  # above
        ((1, 0), (1, 0), (1, 1)),  # below
        ((0, -1), (0, 0), (1, 0)),  # left
        ((0, 1), (1, 1), (0, 1)),  # right
    ):
        beside = np.roll(padded, (-shift[0], -shift[1]), (0, 1))
        # Less the padding.
        voxels = np.argwhere(padded & ~beside) - 1
        starts.append(voxels + start)
        stops.append(voxels + stop)
    return _join_edges(np.concatenate(starts), np.concatenate(stops), mask.shape[1] + 1)


def _join_edges(starts: Ring, stops: Ring, width: int) -> list[Ring]:
    """Join edges to rings without corners on straight lines."""
    following: dict[int, list[int]] = {}
    # A corner as one number, row by row; `width` counts corners, one more than voxels.
    keys = (starts[:, 0] * width + starts[:, 1]).tolist()
    ends = (stops[:, 0] * width + stops[:, 1]).tolist()
    for edge, key in enumerate(keys):
        following.setdefault(key, []).append(edge)
    steps = (stops - starts).tolist()
    rings = []
    free = [True] * len(keys)
    for first in range(len(keys)):
        if not free[first]:
            continue
        edge, corners = first, []
        while free[edge]:
            free[edge] = False
            after = following[ends[edge]]
            # Where two pieces touch at a corner, turn into the same one.
            chosen = after[0]
            if len(after) > 1:
                y, x = steps[edge]
                chosen = next(
                    edge_after for edge_after in after if steps[edge_after] == [-x, y]
                )
            if steps[chosen] != steps[edge]:
                corners.append(ends[edge])
            edge = chosen
        for loop in _split_loops(corners):
            ring = np.array(loop, np.int64)
            rings.append(np.stack([ring // width, ring % width], axis=1))
    return rings


def _split_loops(corners: list[int]) -> list[list[int]]:
    """Cut a ring where it meets itself: a hole that touches its border is a ring."""
    loops: list[list[int]] = []
    way: list[int] = []
    position: dict[int, int] = {}
    for corner in corners:
        if corner in position:
            loop = way[position[corner] :]
            del way[position[corner] :]
            for passed in loop:
                del position[passed]
            loops.append(loop)
        position[corner] = len(way)
        way.append(corner)
    return [*loops, way]


def save_outlines(
    path: str,
    level: CanvasLevel,
    axes: str,
    classes: Iterable[LabelClass] = (),
    cancel: Callable[[], bool] = lambda: False,
) -> int:
    """Write the outlines of all objects as GeoJSON, in pixels of level 0.

    Parameters
    ----------
    level
        Of a canvas; of a coarser one outlines are as coarse.
    axes
        A letter each, such as "tzyx"; the last two are y and x.
    classes
        Their names and colours become classifications.
    cancel
        Asked after each plane; True ends it.

    Returns
    -------
    int
        Number of outlines; nothing is written where it was cancelled.

    Raises
    ------
    ValueError
        Where a plane is too large; see `geojson`.
    OSError
        Where it cannot be written.
    """
    full = level.canvas.shape
    # Voxels of level 0 per voxel of the level: QuPath's unit is the pixel of level 0.
    height, width = (full[i] / level.shape[i] for i in (-2, -1))
    features = outline_features(
        level, axes, classes=classes, pixel=(height, width), cancel=cancel
    )
    # In one piece at the end, so that a cancelled export leaves an older file alone.
    if not cancel():
        replace_file(path, json.dumps(features).encode())
    return len(features["features"])


def axis_letters(names: Sequence[str]) -> str:
    """Return a letter for each axis: its own name, or a usual one if that is longer."""
    letters = "".join(names).lower()
    plain = len(letters) == len(names) == len(set(letters))
    return letters if plain else "uvwtzyx"[-len(names) :]


def unit_of_boxes(axes: str, pixel: Sequence[float | None]) -> str:
    """Return "voxel" where the size of a voxel is unknown, else "micrometer"."""
    sizes = dict(zip(axes, pixel, strict=True))
    unknown = [letter for letter in SPACE if sizes.get(letter, 1.0) is None]
    return VOXEL if unknown else MICROMETER


def save_boxes(
    path: str,
    level: CanvasLevel,
    axes: str,
    pixel: Sequence[float | None],
    cancel: Callable[[], bool] = lambda: False,
) -> int:
    """Write the bounding boxes of all labels as a table of regions of interest.

    In voxels of level 0 where `unit_of_boxes` says so.

    Parameters
    ----------
    level
        Of a canvas; boxes of a coarser one are up to a voxel of it too large.
    axes
        A letter each.
    pixel
        Size of a voxel of level 0 along each axis, in micrometres; None if unknown.
    cancel
        Asked after each chunk; True ends it.

    Returns
    -------
    int
        Number of rows; nothing is written where it was cancelled.

    Raises
    ------
    OSError
        Where it cannot be written.
    """
    boxes = find_boxes(level, cancel)
    if not cancel():
        # Without translation: `csv` writes "\r\n" itself, and Windows would add a "\r".
        file = io.StringIO(newline="")
        full = level.canvas.shape
        unit = unit_of_boxes(axes, pixel)
        # Where voxels are counted downwards, a box is not shorter than nothing.
        known = [abs(size or 1.0) if unit == MICROMETER else 1.0 for size in pixel]
        sizes = zip(known, full, level.shape, strict=True)
        write_boxes(file, boxes, axes, [size * n / m for size, n, m in sizes], unit)
        replace_file(path, file.getvalue().encode())
    return len(boxes)
