"""Where the labels of a layer are saved, for people."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from napari_ngff.store.location import is_url
from napari_ngff.viewer.painting.new_labels import TARGET
from napari_ngff.viewer.picture import KEY, LayerOrigin

if TYPE_CHECKING:
    from napari_ngff.viewer.painting.paint import OMEZarrLabels

__all__ = ["folder_of", "place_text"]


def place_text(layer: OMEZarrLabels) -> str:
    """Name the file and the path in it; "" where there is none."""
    origin, target = layer.metadata.get(KEY), layer.metadata.get(TARGET)
    if isinstance(origin, LayerOrigin):
        return str(origin.node)
    node = getattr(target, "node", None)
    return f"{node} (new labels {target.name})" if node is not None else ""


def folder_of(layer: OMEZarrLabels) -> str:
    """Return the folder to look into; "" where there is none on this computer."""
    origin, target = layer.metadata.get(KEY), layer.metadata.get(TARGET)
    node = getattr(target, "node", None)
    if isinstance(origin, LayerOrigin):
        node = origin.node
    if node is None or is_url(node.location.source.name):
        return ""
    root = node.location.source.name
    inner = os.path.join(root, node.location.path)
    around = (inner, root, os.path.dirname(root))
    return next((folder for folder in around if os.path.isdir(folder)), "")
