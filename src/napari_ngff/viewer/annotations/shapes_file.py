"""Shapes as GeoJSON (RFC 7946) in the form of QuPath: pixels of level 0, x before y.

As in QuPath, the first pixel reaches from 0 to 1; napari has its middle at 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from napari_ngff.store.limits import parse_json
from napari_ngff.viewer.annotations.drawings import ellipse_outline

STYLES = ("shape_type", "edge_width", "edge_color", "face_color")
"""What napari has of the looks of a shape; the width is in voxels."""

STYLE = "napari"
"""Property with these, and with the position along other axes."""

CLASS, CLASSIFICATION = "class", "classification"
"""Column of features that is a property in QuPath, and that property."""

CORNER = 0.5
"""From the middle of a pixel to its corner."""

LEAST = {"LineString": 2, "Polygon": 4}
"""Geometries that are shapes of napari, with the least number of their positions."""


def dump_shapes(
    shapes: Iterable[tuple[Any, ...]], rest: dict[str, Any], axes: Sequence[str]
) -> str:
    """Write shapes as a FeatureCollection, each feature in a line.

    Parameters
    ----------
    shapes
        Of each: its corners in voxels, axes (corner, axis); its `STYLES`; a row of the
        features of the layer, with None where there is nothing; its feature in the file
        before.
    rest
        See `parse_shapes`.
    axes
        Names of the axes of the image.
    """
    made = (_make_feature(axes, *shape) for shape in shapes)
    # One by one: a long call of the encoder would stop all other threads, and many
    # lists at once make Python look for garbage for as long.
    text = ",\n".join(
        json.dumps(each, default=_plain) for each in chain(made, rest["features"])
    )
    head = json.dumps({"type": "FeatureCollection"} | _without(rest, "features"))
    return f'{head[:-1]}, "features": [\n{text}\n]}}\n'


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _make_feature(
    axes: Sequence[str],
    corners: Any,
    style: dict[str, Any],
    values: dict[str, Any],
    kept: dict[str, Any],
) -> dict[str, Any]:
    known = kept.get("properties") or {}
    properties = {"objectType": "annotation"} | _without(known, STYLE, *values)
    name = str(values.pop(CLASS, None) or "")
    if name != _class_name(known):
        properties[CLASSIFICATION] = {
            "name": name,
            "color": [round(255 * float(part)) for part in style["edge_color"][:3]],
        }
    if not name:
        properties.pop(CLASSIFICATION, None)
    properties |= {key: value for key, value in values.items() if value is not None}
    geometry, position = _make_geometry(
        corners, style["shape_type"], kept.get("geometry") or {}, axes
    )
    properties[STYLE] = style | ({"position": position} if position else {})
    feature = {"type": "Feature"} | _without(kept, "bbox")
    return feature | {"geometry": geometry, "properties": properties}


def _make_geometry(
    corners: Any, kind: str, known: dict[str, Any], axes: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a geometry, and the position along other axes than x and y."""
    # Every sixteenth corner of an ellipse is at the end of an axis.
    outline = ellipse_outline(corners, 64) if kind == "ellipse" else corners
    # napari has float32.
    flat = np.round(outline[:, :-3:-1] + CORNER, 6).tolist()
    form: dict[str, Any] = {"type": "LineString", "coordinates": flat}
    if kind not in ("path", "line") and len(flat) > 2:
        form = {"type": "Polygon", "coordinates": [[*flat, flat[0]]]}
    # QuPath takes the box around it.
    form |= {"isEllipse": True} if kind == "ellipse" and _is_upright(corners) else {}
    plane, position = known.get("plane") or {}, {}
    others = np.round(outline[:, :-2].T, 6).tolist()
    for axis, values in zip(axes[-corners.shape[1] : -2], others, strict=True):
        position[axis] = values if len({*values}) > 1 else values[0]
        if axis in ("z", "t"):
            plane = {"c": -1} | plane | {axis: round(values[0])}
    form |= {"plane": plane} if plane else {}
    return _without(known, "isEllipse", "bbox") | form, position


def _is_upright(corners: Any) -> bool:
    return bool(np.abs(np.diff(corners[:, -2:], axis=0)).min(axis=1).max() < 1e-6)


def _without(members: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in members.items() if key not in names}


def _class_name(properties: dict[str, Any]) -> str:
    """Return the name of a classification, in any form of QuPath; "" for none."""
    found = properties.get(CLASSIFICATION)
    if isinstance(found, dict):
        found = found.get("name") or ": ".join(map(str, found.get("names", [])))
    return found if isinstance(found, str) else ""


def parse_shapes(
    text: str, axes: Sequence[str]
) -> tuple[dict[str, Any], list[Any], dict[str, Any]]:
    """Read a FeatureCollection.

    Shapes have as many of the last axes as any of them states. Without a plane they
    lie in all planes.

    Parameters
    ----------
    axes
        Names of the axes of the image.

    Returns
    -------
    content : dict
        Of a layer of shapes of napari, as its keywords.
    kept : list
        The feature of each shape, without its coordinates.
    rest : dict
        The collection without them: its features are no shapes of napari.

    Raises
    ------
    ValueError
        Where it is none.
    """
    document = parse_json(text, _pack_coordinates)
    # QuPath also writes a list.
    rest = {"features": document} if isinstance(document, list) else document
    if not isinstance(rest, dict) or not isinstance(rest.get("features"), list):
        raise ValueError("it is not a FeatureCollection of GeoJSON.")
    parsed = [(each, _parse_feature(each)) for each in rest["features"]]
    rest["features"] = [feature for feature, shape in parsed if shape is None]
    kept = [feature for feature, shape in parsed if shape is not None]
    shapes = [shape for _, shape in parsed if shape is not None]
    styles, rows = [x[1] for x in shapes], [x[2] for x in shapes]
    stated = {axis for style in styles for axis in style["position"]}
    first = min((axes.index(axis) for axis in stated.intersection(axes)), default=-2)
    corners = []
    for (flat, style, _), feature in zip(shapes, kept, strict=True):
        places = (style["position"].get(name, 0) for name in axes[first:-2])
        columns = [np.broadcast_to(np.array(x, float), len(flat)) for x in places]
        style["shape_type"], found = _find_shape(
            np.column_stack([*columns, flat]), style["shape_type"], feature["geometry"]
        )
        corners.append(found)
    content = {key: [style[key] for style in styles] for key in STYLES}
    content |= {"data": corners, "features": pd.DataFrame(rows)}
    return content, kept, _without(rest, "bbox")


def _pack_coordinates(found: dict[str, Any]) -> dict[str, Any]:
    """Make the coordinates of a geometry an array, where they are those of a shape.

    As a function that the parser calls, it lets other threads go on meanwhile.
    """
    if found.get("type") in LEAST:
        with suppress(ValueError, TypeError, KeyError):
            found["coordinates"] = np.array(found["coordinates"], float)
    return found


def _parse_feature(feature: Any) -> tuple[Any, dict[str, Any], dict[str, Any]] | None:
    """Read the outline of a shape in y and x, its style and its values.

    None where it is no shape of napari.
    """
    try:
        geometry, properties = feature["geometry"], feature.get("properties") or {}
        least, rings = LEAST[geometry["type"]], geometry["coordinates"]
        # More rings are holes.
        (line,) = [rings] if geometry["type"] == "LineString" else rings
        outline = np.array(line, float).reshape(len(line), 2)[:, ::-1] - CORNER
        style = _find_style(properties, geometry.get("plane") or {})
        if len(outline) < least or not np.isfinite(outline).all():
            return None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    del geometry["coordinates"]
    values = {
        key: value
        for key, value in properties.items()
        if isinstance(value, str | int | float)
        and key not in ("objectType", CLASSIFICATION, STYLE, CLASS)
    }
    if name := _class_name(properties):
        values[CLASS] = name
    is_closed = least == 4 and (outline[0] == outline[-1]).all()
    return outline[:-1] if is_closed else outline, style, values


def _find_style(properties: dict[str, Any], plane: dict[str, Any]) -> dict[str, Any]:
    """Return how napari shows a shape; by default in its colour in QuPath."""
    named = properties.get(CLASSIFICATION)
    rgb = properties.get("color") or (isinstance(named, dict) and named.get("color"))
    # Red where there is none, as in QuPath.
    color = [part / 255 for part in (rgb if isinstance(rgb, list) else [255, 0, 0])]
    looks = ("", 1.0, [*color[:3], 1.0], [*color[:3], 0.2])
    style: dict[str, Any] = dict(zip(STYLES, looks, strict=True))
    style |= properties.get(STYLE) or {}
    # A plane has whole numbers.
    stated = {axis: plane[axis] for axis in ("z", "t") if axis in plane}
    return style | {"position": stated | style.get("position", {})}


def _find_shape(outline: Any, wished: str, geometry: dict[str, Any]) -> tuple[str, Any]:
    """Return the type of a shape in napari, and its corners.

    The outline counts, which another program may have changed.
    """
    count, is_ellipse = len(outline), geometry.get("isEllipse") is True
    if geometry["type"] == "LineString":
        return "line" if count == 2 and wished != "path" else "path", outline
    if count == 4 and (wished == "rectangle" or (not wished and _is_upright(outline))):
        return "rectangle", outline
    if is_ellipse or wished == "ellipse":
        middle = outline.mean(axis=0)
        ends = outline[[0, count // 4]] - middle
        corners = middle + np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) @ ends
        again = ellipse_outline(corners, count)
        if np.allclose(again, outline, rtol=0, atol=CORNER / 10):
            return "ellipse", corners
    if is_ellipse:
        low, high = outline.min(axis=0), outline.max(axis=0)
        ends = [*low[:-1], high[-1]], [*high[:-1], low[-1]]
        return "ellipse", np.array([low, ends[0], high, ends[1]])
    return "polygon", outline
