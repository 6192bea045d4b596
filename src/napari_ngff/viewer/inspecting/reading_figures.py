"""What was read for a layer, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ngff.store.arrays.region_read import cache
from napari_ngff.store.limits import size_text
from napari_ngff.store.sources.read_ahead import is_remote
from napari_ngff.store.sources.read_counts import counts_of
from napari_ngff.viewer.inspecting.inspection import node_of

if TYPE_CHECKING:
    from napari.layers import Layer

    from napari_ngff.store.sources.read_counts import ReadFigures

__all__ = ["LayerReading", "describe_reading", "reading_of"]


@dataclass(frozen=True, slots=True)
class LayerReading:
    """What was read for a layer and for the others of its file, until now.

    Attributes
    ----------
    name
        Path or address of the file.
    figures
        Of the file, since it was opened.
    is_remote
        Whether it is on a server.
    memory, memory_limit
        Bytes of the decoded chunks of all layers that are in memory, and at most.
    """

    name: str
    figures: ReadFigures
    is_remote: bool
    memory: int
    memory_limit: int


def reading_of(layer: Layer | None) -> LayerReading | None:
    """Return what was read for a layer; None for one that is not of OME-Zarr."""
    node = node_of(layer)
    if node is None:
        return None
    source = node.location.source
    return LayerReading(
        name=source.name,
        figures=counts_of(source).figures,
        is_remote=is_remote(source),
        memory=cache.nbytes,
        memory_limit=cache.limit,
    )


def describe_reading(reading: LayerReading) -> tuple[tuple[str, str], ...]:
    """Describe what was read: name and value of each line."""
    figures = reading.figures
    looked_up = figures.from_memory + figures.chunks
    part = f" ({100 * figures.from_memory / looked_up:.0f} %)" if looked_up else ""
    lines = [
        ("Chunks from memory", f"{figures.from_memory:,}{part}"),
        ("Chunks read", f"{figures.chunks:,} ({size_text(figures.chunk_bytes)})"),
    ]
    if reading.is_remote:
        received = size_text(figures.received)
        lines += [
            ("Read ahead", f"{figures.ahead:,} chunks, {figures.ahead_used:,} used"),
            ("Parts from this disk", f"{figures.kept:,}"),
            ("Requests", f"{figures.requests:,} ({received} received)"),
            ("Requests waiting", f"{figures.waiting:,}"),
        ]
    used, most = size_text(reading.memory), size_text(reading.memory_limit)
    lines.append(("Memory, all layers", f"{used} of {most}"))
    return tuple(lines)
