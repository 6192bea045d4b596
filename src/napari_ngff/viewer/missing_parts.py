"""Lists the chunks that are missing on the screen, and has them read again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from napari_ngff.store.arrays.boxes import whole_box
from napari_ngff.store.arrays.lazy_array import ArrayWindow
from napari_ngff.store.pyramids.pyramid import LevelSource
from napari_ngff.viewer.browsing.field_labels import image_address
from napari_ngff.viewer.browsing.positions import inline_title
from napari_ngff.viewer.layer_plan import KEY, origin_of
from napari_ngff.viewer.notices import (
    FailureKind,
    count_noun,
    failure_text,
    kind_of,
    last_part,
)
from napari_ngff.viewer.pixel_fetcher import stream_signals
from napari_ngff.viewer.session import session_of
from napari_ngff.viewer.streamed_levels import stream_of
from napari_ngff.viewer.volumes.volume_slicing import prepared_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.errors import ChunkError
    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.store.arrays.chunked_array import ChunkedArray
    from napari_ngff.store.arrays.lazy_array import ArraySource

__all__ = ["MissingPart", "has_failed", "list_missing", "missing_text", "retry_missing"]

ArrayPart = tuple["ChunkedArray", "Box"]


@dataclass(frozen=True, slots=True)
class MissingPart:
    """The chunks of one image that are missing on the screen for one reason.

    Attributes
    ----------
    name
        Of the image.
    count
        Number of chunks.
    kind
        Why they are missing.
    error
        Of one of them.
    """

    name: str
    count: int
    kind: FailureKind
    error: ChunkError

    @property
    def text(self) -> str:
        """One or two sentences that name the image and its server."""
        return failure_text(self.name, self.count, self.kind, self.error.source_name)

    @property
    def is_damaged(self) -> bool:
        """Whether asking again does not help."""
        return self.kind is FailureKind.DAMAGED


def missing_text(parts: Sequence[MissingPart]) -> str:
    """Write "3 chunks missing", "1 chunk damaged", or both; "" for nothing."""
    damaged = sum(part.count for part in parts if part.is_damaged)
    absent = sum(part.count for part in parts) - damaged
    if not damaged:
        return f"{count_noun(absent, 'chunk')} missing" if absent else ""
    if not absent:
        return f"{count_noun(damaged, 'chunk')} damaged"
    return f"{count_noun(absent, 'chunk')} missing, {damaged} damaged"


def list_missing(viewer: ViewerModel) -> list[MissingPart]:
    """List what is missing on the screen; reads nothing."""
    found: dict[tuple[str, FailureKind, str], dict[int, ChunkError]] = {}
    for layer in viewer.layers:
        if not layer.visible or not layer.opacity or KEY not in layer.metadata:
            continue
        errors = [
            error
            for array, box in drawn_parts(layer)
            if array.has_failed
            for error in array.failures_in(box)
        ]
        for error in errors:
            group = image_name(viewer, layer), kind_of(error), error.source_name
            # Layers of one image share arrays.
            found.setdefault(group, {})[id(error)] = error
    return [
        MissingPart(name, len(errors), kind, next(iter(errors.values())))
        for (name, kind, _), errors in found.items()
    ]


def has_failed(viewer: ViewerModel) -> bool:
    """Tell whether any chunk of the images of a viewer could not be read."""
    return any(
        array.has_failed
        for layer in viewer.layers
        if KEY in layer.metadata
        for array, _ in all_parts(layer)
    )


def retry_missing(viewer: ViewerModel) -> None:
    """Have everything read again that is missing on the screen."""
    for layer in viewer.layers:
        stream = stream_of(layer) if KEY in layer.metadata and layer.visible else None
        if stream is not None:
            for view in stream.kept_views:
                view.unlock_failed()
            stream_signals.arrived.emit(stream)
        elif layer.visible and KEY in layer.metadata and has_failures(layer):
            layer.refresh(extent=False)


def has_failures(layer: Layer) -> bool:
    """Tell whether a chunk that a layer shows could not be read."""
    return any(array.failures_in(box) for array, box in drawn_parts(layer))


def image_name(viewer: ViewerModel, layer: Layer) -> str:
    """Name the image of a layer: "cells.ome.zarr", or "B3, field 2"; labels by both."""
    browser = session_of(viewer).browser
    name = last_part(image_address(layer))
    if browser is not None and browser.position and browser.owns_layer(layer):
        name = inline_title(browser.name_field(browser.position)) or name
    return f"{layer.name} of {name}" if layer._type_string == "labels" else name


def drawn_parts(layer: Layer) -> Iterator[ArrayPart]:
    """Give the arrays that a layer shows, and which boxes of them."""
    volume, canvas = prepared_of(layer), getattr(layer, "canvas", None)
    stream = stream_of(layer)
    if volume is not None and layer._slice_input.ndisplay == 3:
        place = volume.place
        yield from stored_parts(sources_of(layer, place.level), place.box)
    elif stream is not None:
        views = stream.drawn_views
        shown = [v for v in views if v.number == getattr(layer, "data_level", 0)]
        for view in shown or views:
            yield view.level.array, view.box
    elif canvas is not None:
        part = layer._slicing_state.screen_part()
        if part is not None:
            yield from stored_parts(sources_of(layer, part.level.number), part.box)
    else:
        yield from all_parts(layer)


def all_parts(layer: Layer) -> Iterator[ArrayPart]:
    """Give all arrays of a layer, whole."""
    canvas, origin = getattr(layer, "canvas", None), origin_of(layer)
    levels: Sequence[ArraySource] = ()
    if canvas is not None:
        levels = [
            one for n in range(len(canvas.levels)) for one in sources_of(layer, n)
        ]
    elif origin is not None and origin.picture is not None:
        levels = origin.picture.pyramid.levels
    for source in levels:
        yield from stored_parts([source], whole_box(source.shape))


def sources_of(layer: Layer, number: int) -> list[ArraySource]:
    """Give what a level of a layer is read from; labels also as they were saved."""
    canvas: Any = getattr(layer, "canvas", None)
    if canvas is not None:
        level = canvas.levels[number]
        return [level.saved or level.source]
    data = layer.data[number] if layer.multiscale else layer.data
    window = getattr(data, "window", None)
    return [] if window is None else [window]


def stored_parts(sources: Sequence[Any], box: Box) -> Iterator[ArrayPart]:
    """Give the arrays below sources, and the boxes of them that a box shows."""
    for source in sources:
        below, inside = source, box
        while below is not None and not isinstance(below, LevelSource):
            if isinstance(below, ArrayWindow):
                inside = below.box_below(inside)
            below = getattr(below, "source", None)
        if below is not None:
            yield below.array, inside
