"""Finds the files that layers come from, and opens a copy of them in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from napari_ngff.addresses import join_address
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.viewer.plans.layer_plan import layer_kind, origin_of
from napari_ngff.viewer.session import session_of
from napari_ngff.viewer.streaming.regions import view_region

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from napari.components import ViewerModel
    from napari.layers import Layer


def source_choices(viewer: ViewerModel) -> list[str]:
    """List addresses that the selected layer stands for, the likeliest first.

    Of a plate that is browsed the plate, then its image; of labels their image first.
    """
    layer = _chosen_layer(viewer)
    origin = origin_of(layer)
    if origin is None:
        return []
    location = origin.node.location
    root, path = location.source.name, location.path
    image = path.rpartition("/labels/")[0] if "/labels/" in f"/{path}" else path
    if path.startswith("labels/"):
        image = ""
    found = [join_address(root, image), join_address(root, path), root]
    browser = session_of(viewer).browser
    if browser is not None and layer is not None and browser.layers.owns_layer(layer):
        found.insert(0, str(browser.node))
    return list(dict.fromkeys(found))


def _chosen_layer(viewer: ViewerModel) -> Layer | None:
    """Return the selected layer, or the topmost one that comes from OME-Zarr."""
    active = viewer.layers.selection.active
    if origin_of(active) is not None:
        return active
    shown = [layer for layer in reversed(viewer.layers) if origin_of(layer)]
    return next((layer for layer in shown if layer.visible), next(iter(shown), None))


def visible_crop(viewer: ViewerModel, source: str) -> str:
    """Return the part of an image that is in view, as a crop is typed.

    Along the axes on the screen alone, such as "y=0:100,x=20:80".

    Raises
    ------
    ValueError
        Where no layer shows the image, or it is out of view.
    """
    for layer in viewer.layers:
        if _address_of(layer) == source:
            region = view_region(viewer, layer)
            axes = [axis - viewer.dims.ndim for axis in viewer.dims.displayed]
            return ",".join(
                f"{layer.axis_labels[axis]}={region[axis][0]}:{region[axis][1]}"
                for axis in axes
            )
    msg = "The window does not show this image."
    raise ValueError(msg)


def open_result(viewer: ViewerModel, source: str, target: Path | str) -> None:
    """Open what was made, as the reader does, in place of its source.

    The layers of the source stay, and are hidden: the copy would be drawn over them.
    """
    before = session_of(viewer).browser
    viewer.open(str(target), plugin="napari-ngff")
    hide_source(viewer, source)
    if session_of(viewer).browser is not before:
        # napari shows the whole of the first image only, and this may be a plate.
        viewer.reset_view()


def hide_source(viewer: ViewerModel, source: str) -> None:
    """Hide the layers of a source, over which its copy would be drawn."""
    browser = session_of(viewer).browser
    for layer in layers_below(viewer.layers, source):
        # A browser that still browses the source shows its next field by the channels
        # that it has. Labels stay those of the source: a stroke would be saved there.
        is_labels = layer_kind(layer) == "labels"
        if is_labels or browser is None or not browser.layers.owns_layer(layer):
            layer.visible = False


def layers_below(layers: Iterable[Any], source: str) -> list[Any]:
    """List the layers that show a group, or what is below it.

    Parameters
    ----------
    source
        Address of the group.
    """
    source = source.rstrip("/")
    found = []
    for layer in layers:
        address = _address_of(layer)
        if address == source or address.startswith(f"{source}/"):
            found.append(layer)
    return found


def _address_of(layer: Any) -> str:
    """Return the address of the group that a layer shows; "" for none."""
    saver, origin = getattr(layer, "saver", None), origin_of(layer)
    if saver is not None:
        # Of new labels, the origin is their image.
        return join_key(*saver.journal.place)
    if origin is None:
        return ""
    return str(origin.node)


def unsaved_layers(layers: Iterable[Any], source: str) -> list[Any]:
    """List layers whose painted changes are not saved in a group, or below it."""
    painted = [layer for layer in layers if getattr(layer, "saver", None) is not None]
    return [layer for layer in layers_below(painted, source) if layer.unsaved]
