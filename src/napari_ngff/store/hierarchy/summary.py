"""Describes nodes as JSON values."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

from napari_ngff.errors import NodeNotFoundError, OMEZarrError
from napari_ngff.store.hierarchy.coordinate_systems import scene_paths
from napari_ngff.store.hierarchy.node import Node, unreadable_problem
from napari_ngff.store.limits import limit_alike
from napari_ngff.store.pyramids.pyramid import LevelSource, open_with_labels
from napari_ngff.store.sources.read_ahead import call_at_once

if TYPE_CHECKING:
    from napari_ngff.metadata.model import JSON, Multiscale, Omero, Problem
    from napari_ngff.store.arrays.chunked_array import ChunkedArray

LABEL_DEPTH = 2
"""Number of slashes in the path of a label image's document."""

MOST_AHEAD = 64
"""Most documents that a server is asked for before it is known that they are used."""


def summarize_node(node: Node) -> JSON:
    """Describe a group and what is directly in it.

    Returns
    -------
    dict
        JSON values: ``path``, ``kind``, ``version``, ``zarr_format``, ``problems`` and,
        where they apply, ``image``, ``labels``, ``plate``, ``well``, ``images``,
        ``systems``, ``tables``.
    """
    metadata = node.metadata
    problems = list(node.problems)
    described: JSON = {
        "path": str(node),
        "kind": str(node.kind) if node.kind else None,
        "version": metadata.version,
        "zarr_format": node.zarr_format,
    }
    if metadata.image is not None:
        keys = [
            node.location.object_key(name)
            for name in node.copied.below("labels")
            if name.count("/") == LABEL_DEPTH
        ]
        source, opened = node.location.source, []
        calls = [
            lambda: opened.append(open_with_labels(node)),
            lambda: described.update(_describe_tables(node, problems)),
        ]
        with source.reading_ahead(keys[:MOST_AHEAD]):
            call_at_once(source, calls)
        pyramid, labels = opened[0]
        if isinstance(pyramid, OMEZarrError):
            described["image"] = {"error": str(pyramid)}
        elif isinstance(pyramid, Exception):
            raise pyramid
        else:
            problems += pyramid.problems
            # As opened from the file, each level has its array; only computed levels
            # have none.
            arrays = [s.array for s in pyramid.levels if isinstance(s, LevelSource)]
            described["image"] = _describe_image(
                pyramid.multiscale, arrays, metadata.image.omero
            )
        # Also where no level can be opened: labels have documents of their own.
        problems += labels.problems
        described["labels"] = [label.name for label in labels.nodes]
    else:
        described |= _describe_tables(node, problems)
    if metadata.labels is not None:
        described["labels"] = list(metadata.labels)
    if metadata.plate is not None:
        plate = metadata.plate
        described["plate"] = {
            "name": plate.name,
            "rows": list(plate.rows),
            "columns": list(plate.columns),
            "wells": len(plate.wells),
            "field_count": plate.field_count,
            "acquisitions": [asdict(a) for a in plate.acquisitions],
        }
    if metadata.well is not None:
        described["well"] = {"fields": [asdict(f) for f in metadata.well.fields]}
    if metadata.collection is not None:
        described["images"] = list(node.series())
    if metadata.scene is not None:
        described["images"] = list(scene_paths(node))
        described["systems"] = [system.name for system in metadata.scene.systems]
    limited = limit_alike(("", problem) for problem in problems)
    # Last, when opening and listing have added theirs.
    described["problems"] = [asdict(problem) for _, problem in limited]
    return described


def list_branches(node: Node) -> tuple[str, ...]:
    """List the paths of groups below a node that its metadata names."""
    metadata = node.metadata
    if metadata.plate is not None:
        return tuple(well.path for well in metadata.plate.wells)
    if metadata.collection is not None:
        return node.series()
    if metadata.well is not None:
        return tuple(f.path for f in metadata.well.fields)
    if metadata.scene is not None:
        return scene_paths(node)
    if metadata.image is not None:
        try:
            listed = node.child("labels").label_paths(metadata.version)
        except (OMEZarrError, OSError):
            return ()
        return tuple(f"labels/{path}" for path in listed)
    return metadata.labels or ()


def list_tables(node: Node, path: str = "") -> tuple[str, ...]:
    """List the tables of a plate, a well or an image, or of a store of SpatialData.

    Parameters
    ----------
    path
        Of an image below the node, which itself is not read.
    """
    try:
        group = node.child(f"{path}/tables".lstrip("/"))
        listed = group.attributes.get("tables")
    except NodeNotFoundError:
        return ()
    if listed is None:  # SpatialData lists them nowhere
        return tuple(group.location.list_groups())
    names = listed if isinstance(listed, list) else []
    return tuple(name for name in names if isinstance(name, str) and name)


def region_of(attributes: JSON) -> str:
    """Return the name of the labels that a table is about; "" where it says none."""
    region = attributes.get("region")
    path = region.get("path") if isinstance(region, dict) else None
    return path.rstrip("/").rpartition("/")[2] if isinstance(path, str) else ""


def list_region_tables(node: Node) -> tuple[str, ...]:
    """List the tables of an image that have regions."""
    names = []
    with suppress(OMEZarrError, OSError):  # the inspector tells of a damaged list
        for name in list_tables(node):
            # Tables of old versions state no type; their names do.
            kind = node.child(f"tables/{name}").attributes.get("type", name)
            names += [name] * ("roi_table" in str(kind).lower())
    return tuple(names)


def _describe_tables(node: Node, problems: list[Problem]) -> JSON:
    copied = node.copied
    # A server is not asked for what its copies do not have.
    if (
        node.location.source.traits.is_remote
        and copied.names
        and not copied.below("tables")
    ):
        return {}
    try:
        tables = list_tables(node)
    except (OMEZarrError, OSError) as error:
        where = node.location.object_key("tables")
        problems.append(unreadable_problem(where, error))
        return {}
    return {"tables": list(tables)} if tables else {}


def _describe_image(
    multiscale: Multiscale, arrays: list[ChunkedArray], omero: Omero | None
) -> JSON:
    levels = []
    for level, array in zip(multiscale.levels, arrays, strict=True):
        levels.append(
            {
                "path": level.path,
                "shape": list(array.shape),
                "chunks": list(array.chunks),
                "shards": list(array.shards) if array.shards else None,
                "dtype": str(array.dtype),
                "codecs": list(array.layout.codecs),
                "scale": list(level.scale),
                "translation": list(level.translation),
            }
        )
    first = multiscale.levels[0]
    # In the units of the axes, between the outer edges of the first and the last voxel.
    size = [abs(s) * n for s, n in zip(first.scale, arrays[0].shape, strict=True)]
    channels = [
        {
            "label": channel.label,
            "color": "".join(f"{b:02X}" for b in channel.color or ()) or None,
            "window": asdict(channel.window) if channel.window else None,
            "active": channel.active,
        }
        for channel in (omero.channels if omero else ())
    ]
    return {
        "name": multiscale.name,
        "axes": [asdict(axis) for axis in multiscale.axes],
        "systems": [system.name for system in multiscale.systems],
        "physical_size": size,
        "levels": levels,
        "channels": channels,
    }
