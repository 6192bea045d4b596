"""Attributes of a group in another version, and of a part of its images.

Keys that this package does not know stay. Multiscales of 0.4 and 0.5 stay as they are
written, since both versions state them alike; others are written from what was read.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import OptionError
from napari_ngff.metadata.dump import dump_multiscale, usual_color
from napari_ngff.metadata.version import V0_4, V0_5, Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from napari_ngff.metadata.model import JSON, Level, Multiscale, PlateMetadata
    from napari_ngff.store.hierarchy.node import Node

OME_KEYS = (
    "multiscales",
    "omero",
    "image-label",
    "labels",
    "plate",
    "well",
    "series",
    "scene",
    "bioformats2raw.layout",
)
"""Keys of OME-Zarr: at the root of Zarr v2, below ``ome`` in v3."""

VERSIONED_PARTS = ("plate", "well", "image-label")
"""Parts that state the version as well, up to 0.5."""

SAME_MULTISCALES = (V0_4, V0_5)
"""Versions that state multiscales alike."""

REWRITTEN_KEYS = (
    "version",
    "axes",
    "datasets",
    "coordinateSystems",
    "coordinateTransformations",
)
"""Keys of a multiscale that are written from what was read."""


@dataclass(frozen=True, slots=True)
class NewMultiscale:
    """A multiscale after a conversion.

    Attributes
    ----------
    multiscale
        With axes, and only the levels that are kept, as they were placed.
    shifts
        Path of a level -> its first voxel per axis, in voxels as they were.
    """

    multiscale: Multiscale
    shifts: Mapping[str, tuple[float, ...]]

    @property
    def is_cropped(self) -> bool:
        """Return whether any level begins elsewhere."""
        return any(any(shift) for shift in self.shifts.values())

    def place_levels(self) -> Multiscale:
        """Move the levels to their first voxels."""
        levels = tuple(_move_level(v, self.shifts) for v in self.multiscale.levels)
        return replace(self.multiscale, levels=levels)


def _move_level(level: Level, shifts: Mapping[str, tuple[float, ...]]) -> Level:
    shift = shifts.get(level.path)
    if shift is None or not any(shift):
        return level
    if level.transformation is not None:
        raise OptionError(
            f"Level {level.path!r} has more than a scale and a translation, and cannot"
            " be cropped.",
            "crop",
        )
    moved = zip(level.translation, level.scale, shift, strict=True)
    return replace(level, translation=tuple(t + s * n for t, s, n in moved))


@dataclass(frozen=True, slots=True)
class GroupChange:
    """What a conversion changes in the attributes of one group.

    Attributes
    ----------
    multiscales
        Of an image, as many as it has.
    channels
        Indices of the channels that are kept; None for all.
    starts
        First index of the axes t and z, for the index that is shown first.
    wells
        Paths of the wells that are kept; None for all.
    labels
        The list of a ``labels`` group; None to keep it.
    """

    multiscales: Sequence[NewMultiscale] = ()
    channels: Sequence[int] | None = None
    starts: tuple[tuple[str, int], ...] = ()
    wells: frozenset[str] | None = None
    labels: tuple[str, ...] | None = None

    def alters(self, node: Node, version: Version) -> bool:
        """Return whether the attributes of a group have to be written again."""
        known = node.metadata.version
        stated = node.metadata.image.multiscales if node.metadata.image else ()
        paths = [[level.path for level in m.levels] for m in stated]
        kept = [[v.path for v in n.multiscale.levels] for n in self.multiscales]
        return (
            (known is not None and known != version)
            or (version.zarr_format != node.zarr_format)
            or any(new.is_cropped for new in self.multiscales)
            or (bool(self.multiscales) and paths != kept)
            or self.channels is not None
            or any(start for _, start in self.starts)
            or self.wells is not None
            or self.labels is not None
        )


def convert_attributes(node: Node, version: Version, change: GroupChange) -> JSON:
    """Return the attributes of a group in another version.

    Raises
    ------
    ValueError
        Where the version cannot state what the group has.
    """
    if node.metadata.scene is not None and not version.has_systems:
        text = f"OME-Zarr {version} cannot state a scene."
        raise OptionError(text, "to_version")
    attributes = copy.deepcopy(node.attributes)
    home, others = split_home(attributes, node.zarr_format)
    stated = home.pop("version", None) if node.zarr_format == 3 else None
    found = node.metadata.version
    if change.multiscales and isinstance(home.get("multiscales"), list):
        alike = found in SAME_MULTISCALES and version in SAME_MULTISCALES
        home["multiscales"] = _list_multiscales(
            home["multiscales"], change, version, alike
        )
    for key in VERSIONED_PARTS:
        _state_version(home.get(key), version.has_part_versions, version)
    omero = home.get("omero")
    if isinstance(omero, dict):
        _state_version(omero, not version.has_ome_key and "version" in omero, version)
        _choose_channels(omero, change)
    if isinstance(home.get("plate"), dict) and node.metadata.plate is not None:
        _choose_wells(home["plate"], node.metadata.plate, version, change.wells)
    if change.labels is not None:
        home["labels"] = list(change.labels)
    if not version.has_ome_key:
        return home | others
    if not home and stated is None:
        return others
    return {"ome": {"version": version, **home}, **others}


def complete_label_lists(attributes: JSON, zarr_format: int) -> JSON:
    """Return attributes whose colours and properties name the same labels.

    As saved labels have them: other programs refuse lists that differ.
    """
    attributes = copy.deepcopy(attributes)
    label = split_home(attributes, zarr_format)[0].get("image-label")
    lists = label if isinstance(label, dict) else {}
    colors, properties = lists.get("colors"), lists.get("properties")
    if not (colors and isinstance(colors, list)) or not (
        properties and isinstance(properties, list)
    ):
        return attributes
    colored, described = _label_values(colors), _label_values(properties)
    for value in [value for value in described if value not in colored]:
        colors.append({"label-value": value, "rgba": list(usual_color(value))})
    for value in [value for value in colored if value not in described]:
        properties.append({"label-value": value})
    return attributes


def _label_values(entries: list[Any]) -> dict[int, None]:
    """List the labels of a list, in its order; some writers state them as 1.0."""
    values = [entry.get("label-value") for entry in entries if isinstance(entry, dict)]
    whole = [v for v in values if isinstance(v, int | float) and v == v // 1]
    return dict.fromkeys(map(int, whole))


def split_home(attributes: JSON, zarr_format: int) -> tuple[JSON, JSON]:
    """Split what is of OME-Zarr from keys of other programs."""
    inner = attributes.get("ome")
    if isinstance(inner, dict) and (
        zarr_format == 3 or not set(OME_KEYS) & set(attributes)
    ):
        return inner, {k: v for k, v in attributes.items() if k != "ome"}
    home = {key: attributes[key] for key in attributes if key in OME_KEYS}
    return home, {k: v for k, v in attributes.items() if k not in OME_KEYS}


def _state_version(part: Any, wanted: bool, version: Version) -> None:
    if isinstance(part, dict):
        part.pop("version", None)
        if wanted:
            part["version"] = version


def _list_multiscales(
    entries: list[Any], change: GroupChange, version: Version, alike: bool
) -> list[JSON]:
    """Write the multiscales that were read; entries that were not have no pixels."""
    usable = [e for e in entries if isinstance(e, dict) and _datasets_of(e)]
    if len(usable) != len(change.multiscales):
        raise ValueError("Its multiscales are damaged: repair them first.")
    made = []
    for entry, new in zip(usable, change.multiscales, strict=True):
        if alike and not new.is_cropped:
            made.append(_keep_entry(entry, new, version))
            continue
        # "type" and "metadata" of the entry stay as they were written.
        bare = replace(new.place_levels(), method=None, software=None)
        kept = {k: v for k, v in entry.items() if k not in REWRITTEN_KEYS}
        dumped, stated = dump_multiscale(bare, version), _datasets_of(entry)
        dumped["datasets"] = [stated.get(d["path"], {}) | d for d in dumped["datasets"]]
        if alike:
            dumped["axes"] = entry.get("axes", dumped["axes"])
        made.append(kept | dumped)
    return made


def _datasets_of(entry: JSON) -> dict[str, JSON]:
    """Return the datasets of a multiscale by their paths."""
    listed = entry.get("datasets")
    datasets = listed if isinstance(listed, list) else []
    paths = [d.get("path") if isinstance(d, dict) else None for d in datasets]
    pairs = zip(paths, datasets, strict=True)
    return {path.strip("/"): d for path, d in pairs if isinstance(path, str)}


def _keep_entry(entry: JSON, new: NewMultiscale, version: Version) -> JSON:
    kept = {level.path for level in new.multiscale.levels}
    entry = {key: value for key, value in entry.items() if key != "version"}
    if not version.has_ome_key:
        entry = {"version": version, **entry}
    entry["datasets"] = [
        dataset
        for dataset in entry["datasets"]
        if isinstance(dataset, dict) and str(dataset.get("path")).strip("/") in kept
    ]
    return entry


def _choose_channels(omero: JSON, change: GroupChange) -> None:
    listed = omero.get("channels")
    if change.channels is not None and isinstance(listed, list):
        omero["channels"] = [listed[i] for i in change.channels if i < len(listed)]
    shown = omero.get("rdefs")
    if isinstance(shown, dict):
        for name, start in change.starts:
            key = f"default{name.upper()}"
            if start and isinstance(shown.get(key), int):
                # The plane that is shown first, if it is still there.
                shown[key] = max(shown[key] - start, 0)


def _choose_wells(
    plate: JSON, read: PlateMetadata, version: Version, wells: Iterable[str] | None
) -> None:
    places = {well.path: well for well in read.wells}
    chosen = None if wells is None else set(wells)
    listed = plate.get("wells")
    entries = []
    for entry in listed if isinstance(listed, list) else []:
        path = entry.get("path") if isinstance(entry, dict) else None
        well = places.get(path.strip("/")) if isinstance(path, str) else None
        if well is None or (chosen is not None and well.path not in chosen):
            continue
        if version.has_well_indices:
            entry.setdefault("rowIndex", well.row)
            entry.setdefault("columnIndex", well.column)
        entries.append(entry)
    plate["wells"] = entries
