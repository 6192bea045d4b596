"""A mark on the canvas that names the levels seen in 3D."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.viewer.private.napari_layers import is_blank
from napari_ngff.viewer.streaming.volume_slicing import prepared_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari.layers import Layer


def name_level(layer: Layer) -> str:
    """Name the level that is seen of a layer, as "level 1 of 0 to 3"; 0 is the finest.

    napari and files count the levels like this, too.
    """
    return f"level {layer.data_level} of 0 to {len(layer.data) - 1}"


def level_text(layers: Iterable[Layer]) -> str:
    """Name the level that is seen of each layer; "" for none.

    Layers are named where they differ.
    """
    seen: dict[str, list[str]] = {}
    for layer in layers:
        if is_blank(layer):
            text = "being read"
        elif layer.multiscale and len(layer.data) > 1:
            text = name_level(layer)
            if is_part(layer):
                text += ", the part in view"
        elif is_part(layer):
            text = "the part in view"
        else:
            continue
        seen.setdefault(text, []).append(layer.name)
    if len(seen) < 2:
        return next(iter(seen), "")
    return "\n".join(f"{text}: {', '.join(names)}" for text, names in seen.items())


def is_part(layer: Layer) -> bool:
    """Return whether only a part of a layer is shown."""
    volume = prepared_of(layer)
    return volume is not None and volume.place.is_part
