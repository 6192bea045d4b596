"""Describes what is converted: axes, levels, channels and wells that can be chosen."""

from __future__ import annotations

import glob
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ngff.errors import OMEZarrError
from napari_ngff.metadata.axes import AXES_BEFORE_0_3
from napari_ngff.metadata.model import GroupKind
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.hierarchy.summary import list_branches

if TYPE_CHECKING:
    from napari_ngff.metadata.model import Level
    from napari_ngff.store.arrays.chunked_array import ChunkedArray
    from napari_ngff.store.hierarchy.node import Node

__all__ = ["SourceFacts", "note_beside", "read_facts"]

TIMES = "\N{MULTIPLICATION SIGN}"

PLAIN_CODECS = ("bytes", "crc32c", "sharding_indexed", "transpose")
"""Codecs that compress nothing."""

STATES_END, LABELS_END = ".annotation.json", ".labels.ome.zarr"
"""Ends of names of what belongs to a hierarchy and is beside it."""

DEEP = 4
"""Groups between a plate, or a collection, and one of its images."""

KINDS = {
    GroupKind.PLATE: "Plate",
    GroupKind.WELL: "Well",
    GroupKind.IMAGE: "Image",
    GroupKind.LABEL: "Labels",
    GroupKind.LABELS: "List of labels",
    GroupKind.COLLECTION: "Several images",
    GroupKind.SCENE: "Scene",
    GroupKind.SERIES: "List of images",
}


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What a source has; images are described by the first one.

    Attributes
    ----------
    node
        Its group.
    version
        Of OME-Zarr, such as "0.5"; "" where none is stated.
    axes
        Name and size of each axis of level 0.
    levels
        Number of levels.
    channels
        Their names, or numbers as text.
    wells
        Names of the wells of a plate.
    chunks, shards
        Of level 0, as they are typed, such as "y=256,x=256"; "" without any.
    codecs
        Of level 0, such as "blosc".
    is_label
        Whether it is a label image.
    """

    node: Node
    version: str = ""
    axes: tuple[tuple[str, int], ...] = ()
    levels: int = 0
    channels: tuple[str, ...] = ()
    wells: tuple[str, ...] = ()
    chunks: str = ""
    shards: str = ""
    codecs: str = ""
    is_label: bool = False

    @property
    def text(self) -> str:
        """One line for a person."""
        kind = self.node.kind
        parts = [KINDS.get(kind, "Group") if kind is not None else "Group"]
        if self.version:
            parts.append(f"OME-Zarr {self.version}")
        if self.wells:
            parts.append(f"{len(self.wells):,} wells")
        if self.axes:
            sizes = f" {TIMES} ".join(f"{name} {size:,}" for name, size in self.axes)
            parts.append(sizes if self.node.metadata.image else f"images of {sizes}")
        if self.levels:
            parts.append(f"{self.levels} level{'' if self.levels == 1 else 's'}")
        return ", ".join(parts)


def read_facts(source: str) -> SourceFacts:
    """Open a source, and describe it; reads metadata alone.

    Parameters
    ----------
    source
        A path or an address.

    Raises
    ------
    OMEZarrError, OSError
        Where it cannot be opened.
    """
    node = open_node(source)
    plate = node.metadata.plate
    wells: tuple[str, ...] = ()
    if plate is not None:
        wells = tuple(
            f"{plate.rows[well.row]}{plate.columns[well.column]}"
            for well in plate.wells
        )
    version = str(node.metadata.version or "")
    image = _find_image(node)
    if image is None:
        return SourceFacts(node, version, wells=wells)
    return _describe_image(node, image, version, wells)


def _find_image(node: Node) -> Node | None:
    """Find the first image in a group, or the group itself."""
    for _ in range(DEEP):
        if node.metadata.image is not None:
            return node
        try:
            branches = list_branches(node)
            if not branches:
                return None
            node = node.child(branches[0])
        except (OMEZarrError, OSError):
            return None
    return None


def _describe_image(
    node: Node, image: Node, version: str, wells: tuple[str, ...]
) -> SourceFacts:
    found = image.metadata.image
    assert found is not None
    multiscale = found.multiscales[0]
    array = _open_finest(image, multiscale.levels)
    version = version or str(image.metadata.version or "")
    is_label = found.label is not None
    if array is None:
        count = len(multiscale.levels)
        return SourceFacts(node, version, (), count, wells=wells, is_label=is_label)
    names = multiscale.axis_names
    if len(names) != array.ndim:  # before 0.3 no axes are stated
        names = tuple(axis.name for axis in AXES_BEFORE_0_3[-array.ndim :])
    channel = multiscale.channel_axis
    if channel is None and "c" in names and not is_label:
        channel = names.index("c")
    labels = [c.label for c in found.omero.channels] if found.omero else []
    channels: list[str] = []
    if channel is not None:
        labels += [None] * (array.shape[channel] - len(labels))
        channels = [label or str(i) for i, label in enumerate(labels)]
    return SourceFacts(
        node,
        version,
        tuple(zip(names, array.shape, strict=True)),
        len(multiscale.levels),
        tuple(channels[: array.shape[channel]] if channel is not None else ()),
        wells,
        _write_lengths(names, array.chunks),
        _write_lengths(names, array.shards) if array.shards else "",
        ", ".join(name for name in array.codecs if name not in PLAIN_CODECS),
        is_label,
    )


def _open_finest(image: Node, levels: tuple[Level, ...]) -> ChunkedArray | None:
    for level in levels:
        key = image.location.object_key(level.path)
        with suppress(OMEZarrError, OSError):
            return open_array(image.location.source, key, image.zarr_format)
    return None


def _write_lengths(names: tuple[str, ...], lengths: tuple[int, ...]) -> str:
    """Write lengths as they are typed; those of one voxel are left out."""
    pairs = zip(names, lengths, strict=True)
    return ",".join(f"{name}={length}" for name, length in pairs if length > 1)


def note_beside(root: str) -> tuple[str, ...]:
    """Name what belongs to a hierarchy and is beside it, so that it is not copied.

    Parameters
    ----------
    root
        Path or address of the hierarchy.

    Returns
    -------
    tuple of str
        A sentence, or nothing.
    """
    path = Path(root)
    if not path.exists():
        return ()
    stem = path.name.partition(".")[0]
    # States of fields have the whole name: that of an archive is another one.
    begins = {STATES_END: f"{path.name}.", LABELS_END: f"{stem}."}
    others = sorted(x.name for x in path.parent.glob(f"{glob.escape(stem)}.*"))
    names = ", ".join(
        name
        for name in others
        if any(name.startswith(b) and name.endswith(e) for e, b in begins.items())
    )
    text = f"Not copied, since it is beside the source: {names}."
    return (text,) if names else ()
