"""Hides layers while an extracted region is shown in 3D, and shows them again."""

from __future__ import annotations

import weakref
import zlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.viewer.services.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari.components import ViewerModel
    from napari.layers import Layer

VOLUME = "ome-zarr-volume"
"""Key of the ``metadata`` of a region in 3D, under which its `WorkRegion` is."""


def is_volume(layer: Layer) -> bool:
    """Return whether a layer is a region that was extracted to be shown in 3D."""
    return VOLUME in layer.metadata


@dataclass(frozen=True, slots=True, eq=False)
class VolumeCopy:
    """A region that is shown in 3D, as it was made.

    Attributes
    ----------
    name
        Of its layer.
    data
        Its pixels.
    checksum
        Of these.
    """

    name: str
    data: Any
    checksum: int


def sum_pixels(data: Any) -> int:
    """Return a checksum of an array; 2 GiB take a second."""
    pixels: Any = np.ascontiguousarray(data).reshape(-1).view("u1")
    return zlib.crc32(pixels)


def note_copies(layers: Iterable[Layer]) -> None:
    """Note how regions are that were just extracted, to find out later what changed."""
    for layer in layers:
        done = partial(note_copy, weakref.ref(layer), layer.name, layer.data)
        Window.current.run_work(partial(sum_pixels, layer.data), done)


def note_copy(at_layer: Any, name: str, data: Any, checksum: int) -> None:
    """Note an extracted region with the checksum of its pixels."""
    layer = at_layer()
    if layer is not None:
        _copies[layer] = VolumeCopy(name, data, checksum)


def remove_copies(viewer: ViewerModel) -> None:
    """Hide extracted regions, and remove those that are as they were made.

    One that was painted on, renamed or given other pixels stays, as a layer like any
    other.
    """
    for layer in [*filter(is_volume, viewer.layers)]:
        layer.visible = False
        data = layer.data
        done = partial(remove_copy, weakref.ref(viewer), weakref.ref(layer), data)
        Window.current.run_work(partial(sum_pixels, data), done)


def remove_copy(at_viewer: Any, at_layer: Any, data: Any, checksum: int) -> None:
    """Remove an extracted region with a checksum, or keep it for good."""
    viewer, layer = at_viewer(), at_layer()
    if viewer is None or layer is None or not Window.current.is_open(viewer):
        return
    if layer not in viewer.layers or not is_volume(layer):
        return
    made = _copies.pop(layer, None)
    if made is None or (
        (layer.name, checksum) == (made.name, made.checksum)
        and layer.data is data is made.data
    ):
        viewer.layers.remove(layer)
        return
    del layer.metadata[VOLUME]
    Window.current.show_passing(f"A changed copy is kept, hidden.\n{layer.name}")


def set_aside(viewer: ViewerModel, layers: Iterable[Layer]) -> None:
    """Hide layers, and note the selected one, until the viewer is switched to 2D."""
    hidden = _aside.setdefault(viewer, weakref.WeakSet())
    hidden.update(layers)
    active = viewer.layers.selection.active
    if active is not None and not is_volume(active):
        _selected[viewer] = weakref.WeakSet([active])
    for layer in hidden:
        layer.visible = False


def bring_back(viewer: ViewerModel) -> None:
    """Show and select the layers of `set_aside` again in 2D; remove the regions."""
    if viewer.dims.ndisplay != 2:
        return
    for layer in _aside.pop(viewer, ()):
        layer.visible = True
    selection = viewer.layers.selection
    for layer in _selected.pop(viewer, ()):
        # Another layer that the user has selected meanwhile stays selected.
        if layer in viewer.layers and (
            selection.active is None or is_volume(selection.active)
        ):
            selection.active = layer
    remove_copies(viewer)


_copies: weakref.WeakKeyDictionary[Any, VolumeCopy] = weakref.WeakKeyDictionary()
_aside: weakref.WeakKeyDictionary[Any, weakref.WeakSet[Any]] = (
    weakref.WeakKeyDictionary()
)
_selected: weakref.WeakKeyDictionary[Any, weakref.WeakSet[Any]] = (
    weakref.WeakKeyDictionary()
)
