"""Exports labels for other programs: outlines as GeoJSON, boxes as a table."""

from __future__ import annotations

import csv
import itertools
import uuid
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from scipy import ndimage

from napari_ngff.labels.outlines import find_polygons
from napari_ngff.store.arrays.boxes import box_shape, whole_box
from napari_ngff.store.number_noise import drop_noise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from napari_ngff.labels.canvas_level import CanvasLevel
    from napari_ngff.labels.label_classes import LabelClass
    from napari_ngff.store.arrays.boxes import Box

__all__ = ["PLANE", "find_boxes", "outline_features", "write_boxes"]

PLANE = 1 << 28
"""Most voxels of a plane whose objects are outlined; it is in memory as a whole."""

MICROMETERS = ("x", "y", "z")
COLUMNS = ("label", *(f"{a}_micrometer" for a in MICROMETERS))
COLUMNS += tuple(f"len_{a}_micrometer" for a in MICROMETERS)


def outline_features(
    level: CanvasLevel,
    axes: str,
    region: Box | None = None,
    *,
    classes: Iterable[LabelClass] = (),
    pixel: tuple[float, float] = (1.0, 1.0),
    corner: tuple[float, float] = (0.0, 0.0),
    cancel: Callable[[], bool] | None = None,
) -> dict[str, Any]:
    """Outline every object, plane by plane, in the form that QuPath reads.

    Parameters
    ----------
    level
        Of a canvas.
    axes
        A letter each, such as "tzyx"; the last two are y and x.
    region
        In voxels of the level; all by default.
    classes
        Their names and colours become classifications.
    pixel, corner
        Along y and x: size of a voxel of the level, and where its first voxel begins,
        in pixels of the image, of which the first begins at 0.
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
    region = region or whole_box(level.shape)
    sizes = box_shape(region)
    if sizes[-1] * sizes[-2] > PLANE:
        msg = (
            f"A plane of {sizes[-2]} x {sizes[-1]} voxels is too large to outline."
            " Choose a coarser level, or a smaller region."
        )
        raise ValueError(msg)
    named = {item.value: item for item in classes}
    features = []
    for plane_index in itertools.product(*(range(*span) for span in region[:-2])):
        box = (*((index, index + 1) for index in plane_index), *region[-2:])
        picture = level.read(box).reshape(sizes[-2:])
        # Not strict: the last two axes have no index of a plane.
        letters = dict(zip(axes, plane_index, strict=False))
        plane = {"c": -1, "z": letters.get("z", 0), "t": letters.get("t", 0)}
        start = region[-2][0], region[-1][0]
        for value, rings in _outline_labels(picture, start, pixel, corner):
            # RFC 7946, 3.1.6 and 3.1.7; "plane" is QuPath's extension.
            geometry: dict[str, Any] = {"type": "MultiPolygon", "coordinates": rings}
            if len(rings) == 1:
                geometry = {"type": "Polygon", "coordinates": rings[0]}
            features.append(_make_feature(value, geometry | {"plane": plane}, named))
        if cancel is not None and cancel():
            break
    return {"type": "FeatureCollection", "features": features}


def _outline_labels(
    picture: Any,
    start: tuple[int, int],
    pixel: tuple[float, float],
    corner: tuple[float, float],
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
        first = [
            part.start + offset for part, offset in zip(part_slices, start, strict=True)
        ]
        outlines = []
        for polygon in find_polygons(picture[part_slices] == value):
            rings = [polygon.outer, *polygon.holes]
            # Edges between voxels in (y, x), turned into (x, y) below.
            placed = [drop_noise((ring + first) * pixel + corner) for ring in rings]
            outlines.append([_close_ring(ring[:, ::-1]) for ring in placed])
        yield value, outlines


def _close_ring(ring: Any) -> list[list[float]]:
    # "The first and last positions are equivalent" (RFC 7946, 3.1.6).
    points: list[list[float]] = ring.tolist()
    return [*points, points[0]]


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
    level: CanvasLevel,
    region: Box | None = None,
    cancel: Callable[[], bool] | None = None,
) -> dict[int, Box]:
    """Find the bounding box of each label, chunk by chunk, in an image of any size.

    Parameters
    ----------
    level
        Of a canvas.
    region
        In voxels of the level; all by default.
    cancel
        Asked after each chunk.
    """
    region = region or whole_box(level.shape)
    boxes: dict[int, Box] = {}
    for chunk in level.chunks_in(region):
        box = tuple(
            (max(a, low), min(b, high))
            for (a, b), (low, high) in zip(level.chunk_box(chunk), region, strict=True)
        )
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
        if cancel is not None and cancel():
            break
    return dict(sorted(boxes.items()))


def write_boxes(
    file: IO[str],
    boxes: dict[int, Box],
    axes: str,
    pixel: Sequence[float],
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
        Size of a voxel along each, in micrometres.
    """
    writer = csv.writer(file)
    writer.writerow(COLUMNS)
    for value, box in boxes.items():
        spans = dict(zip(axes, box, strict=True))
        sizes = dict(zip(axes, pixel, strict=True))
        starts, lengths = [], []
        for letter in MICROMETERS:
            # ngio requires columns for z: an image without z has one plane of 1.
            low, high = spans.get(letter, (0, 1))
            size = sizes.get(letter, 1.0)
            starts.append(low * size)
            lengths.append((high - low) * size)
        writer.writerow([value, *drop_noise([*starts, *lengths]).tolist()])
