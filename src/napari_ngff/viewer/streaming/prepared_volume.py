"""Reads volumes for 3D in a worker, and prepares them for the graphics card."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.store.arrays.boxes import Box, box_shape
from napari_ngff.viewer.plans.layer_plan import layer_kind
from napari_ngff.viewer.private.napari_layers import texture_values
from napari_ngff.viewer.private.napari_window import graphics_limits
from napari_ngff.viewer.services import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from napari.layers import Layer

    from napari_ngff.labels.canvas import Canvas
    from napari_ngff.labels.edits import Edit


SLAB = 1 << 24
"""Bytes that are read at once: many chunks, so that several threads read them, and few
enough that a reading nobody waits for ends soon."""

TEXTURE_TYPES = tuple(map(np.dtype, ("u1", "u2", "f4")))
"""Types of voxels that napari sends as they are; others become floats of 32 bits."""

Pixels = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class VolumePlace:
    """What a volume shows.

    Attributes
    ----------
    level
        Number of the level.
    box
        In voxels of the level, axes of the layer; one voxel along those not displayed.
    displayed
        The displayed axes, in the order of the axes of the picture.
    is_part
        Whether the level reaches beyond the box.
    """

    level: int
    box: Box
    displayed: tuple[int, ...]
    is_part: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Voxels along each displayed axis."""
        sizes = box_shape(self.box)
        return tuple(sizes[axis] for axis in self.displayed)


@dataclass(frozen=True, slots=True, eq=False)
class LabelLook:
    """How labels become numbers of colours.

    Attributes
    ----------
    colormap
        Of the layer.
    selected
        The only label that is shown; None for all.
    """

    colormap: Any
    selected: int | None

    @classmethod
    def of_layer(cls, layer: Layer) -> LabelLook | None:
        """Note the look of labels; None for an image."""
        if layer_kind(layer) != "labels":
            return None
        colormap = layer.colormap
        return cls(colormap, colormap.selection if colormap.use_selection else None)

    def is_same(self, other: LabelLook | None) -> bool:
        """Return whether labels get the same numbers."""
        return (
            other is not None
            and self.colormap is other.colormap
            and self.selected == other.selected
        )


@dataclass(frozen=True, slots=True)
class EditMark:
    """A state of the edits of a canvas.

    Attributes
    ----------
    version, reversals
        Of the canvas.
    count
        Number of the first edits that stay as they are: those before an open step,
        whose strokes may still be joined.
    """

    version: int
    reversals: int
    count: int

    @classmethod
    def of_canvas(cls, canvas: Canvas) -> EditMark:
        """Note the present state."""
        with canvas.lock:
            count = canvas.log.settled_count
            return cls(canvas.version, canvas.reversals, count)

    def edits_since(self, canvas: Canvas) -> Sequence[Edit]:
        """List the edits that a picture of this state may not show."""
        return canvas.edits[self.count :]


@dataclass(frozen=True, slots=True, eq=False)
class VolumeReading:
    """What a worker needs to prepare a volume.

    Attributes
    ----------
    place
        What is to be read.
    array
        The level of the layer, lazy.
    look
        Of labels; None for an image.
    canvas
        Of labels that can be painted; None for others.
    data
        All levels of the layer.
    """

    place: VolumePlace
    array: Any
    look: LabelLook | None
    canvas: Canvas | None
    data: Any

    @classmethod
    def of_layer(cls, layer: Layer, place: VolumePlace) -> VolumeReading:
        """Plan to read a part of a layer as it is now; called in the main thread."""
        array = layer.data[place.level] if layer.multiscale else layer.data
        canvas = getattr(layer, "canvas", None)
        look = LabelLook.of_layer(layer)
        return cls(place, array, look, canvas, layer.data)

    def is_same(self, other: VolumeReading) -> bool:
        """Return whether the same is read for the same layer."""
        is_look = self.look is other.look or (
            self.look is not None and self.look.is_same(other.look)
        )
        return is_look and self.place == other.place and self.data is other.data


@dataclass(slots=True, eq=False)
class PreparedVolume:
    """A volume that can be shown without a wait.

    Attributes
    ----------
    place
        What it shows.
    raw, view
        Values of the layer, and what is sent to the graphics card, on displayed axes.
    look
        With which `view` was made; None for an image.
    data
        Of the layer: with other ones it shows something else.
    mark
        The edits that `raw` has; None without a canvas.
    locks
        Whether the level was locked to show it, and not by the user.
    """

    place: VolumePlace
    raw: Pixels
    view: Pixels
    look: LabelLook | None
    data: Any
    mark: EditMark | None = None
    locks: bool = False

    def note_edits(self, canvas: Canvas) -> None:
        """Note that all edits were put onto what is on the screen."""
        mark = self.mark
        # Where edits are undone that a file has, all of a coarser level may change.
        if mark is not None and (
            not self.place.level or mark.reversals == canvas.reversals
        ):
            self.mark = EditMark.of_canvas(canvas)


def texture_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which napari sends voxels of an image."""
    return dtype if dtype in TEXTURE_TYPES else np.dtype("f4")


def prepare_volume(
    reading: VolumeReading, stops: Callable[[], bool]
) -> PreparedVolume | None:
    """Read a volume and make what is sent to the graphics card, in a worker.

    Returns
    -------
    PreparedVolume or None
        None where it was stopped, or the labels got another type meanwhile.
    """
    canvas = reading.canvas
    # Before the first voxel is read: of edits made meanwhile some may be missing.
    mark = None if canvas is None else EditMark.of_canvas(canvas)
    raw: Pixels | None = None
    view: Pixels | None = None
    for part, slab in read_slabs(reading):
        if raw is None:
            raw = np.empty(reading.place.shape, slab.dtype)
        if stops() or slab.dtype != raw.dtype:
            return None
        raw[part] = slab
        drawn = draw_slab(raw[part], reading.look)
        if drawn.dtype == raw.dtype and np.shares_memory(drawn, raw):
            view = raw
            continue
        if view is None:
            view = np.empty(reading.place.shape, drawn.dtype)
        view[part] = drawn
    if raw is None or view is None or stops():
        return None
    return PreparedVolume(reading.place, raw, view, reading.look, reading.data, mark)


def draw_slab(slab: Pixels, look: LabelLook | None) -> Pixels:
    """Make what is sent to the graphics card of values of a layer."""
    if look is None:
        return slab.astype(texture_type(slab.dtype), copy=False)
    drawn: Pixels = texture_values(look.colormap, slab)
    return drawn


def read_slabs(reading: VolumeReading) -> Iterator[tuple[slice, Pixels]]:
    """Read a volume in slabs of whole chunks: slices of the first axis, and voxels."""
    place, array = reading.place, reading.array
    axis = place.displayed[0]
    start, stop = place.box[axis]
    chunk = int(getattr(array, "chunksize", (1,) * len(place.box))[axis])
    plane = int(np.prod(place.shape[1:])) * array.dtype.itemsize
    depth = max(1, SLAB // max(1, plane * chunk)) * chunk
    # Of what is read, axes are in the order of the layer.
    order = np.argsort(np.argsort(place.displayed))
    index: list[Any] = [
        slice(*span) if axis in place.displayed else span[0]
        for axis, span in enumerate(place.box)
    ]
    first = start
    while first < stop:
        last = min(stop, (first // depth + 1) * depth)
        index[axis] = slice(first, last)
        yield (
            slice(first - start, last - start),
            np.transpose(np.asarray(array[tuple(index)]), order),
        )
        first = last


SIDE = 2048
"""Voxels per axis that a texture of three axes holds on most machines."""

UNKNOWN = 512 << 20
"""Bytes of all volumes where the graphics reports no memory."""

LEAST, MOST = 256 << 20, 2 << 30
"""Bytes between which the budget is chosen by what the graphics reports."""

PART = 4
"""Part of the memory of the graphics that volumes take; windows and napari's own
textures are there, too."""


@dataclass(frozen=True, slots=True)
class TextureBudget:
    """What volumes may take.

    Attributes
    ----------
    memory
        Bytes of all volumes together.
    side
        Voxels along one axis.
    """

    memory: int
    side: int


def budget_of(viewer: Any) -> TextureBudget:
    """Return the budget of the volumes of a viewer: as chosen, or by its graphics."""
    side, memory = graphics_limits(viewer)
    chosen = settings.volume_memory() << 20
    if not chosen and memory is not None:
        chosen = min(max(LEAST, memory // PART), MOST)
    return TextureBudget(chosen or UNKNOWN, SIDE if side is None else side)


def share_budget(wanted: Sequence[int], memory: int) -> list[int]:
    """Share memory: in equal parts, and what some do not want goes to the others.

    Parameters
    ----------
    wanted
        Bytes of each at its best.

    Returns
    -------
    list of int
        Bytes that each may take.
    """
    shares = [0] * len(wanted)
    left = memory
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    for done, index in enumerate(order):
        share = left // (len(order) - done)
        shares[index] = share
        left -= min(share, wanted[index])
    return shares
