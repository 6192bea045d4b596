"""Selects layers of an opened file, and shows the values of its labels."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ngff.store.sources.folder_source import local_folder
from napari_ngff.viewer.layers.label_owners import are_of_others, is_own_plan
from napari_ngff.viewer.plans.layer_plan import layer_kind, origin_of
from napari_ngff.viewer.private.napari_window import select_on_insert
from napari_ngff.viewer.streaming.volume_fit import name_level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.viewer.plans.layer_plan import LayerPlan


def keep_selected(viewer: ViewerModel, layer: Layer) -> None:
    """Keep the selection while a layer is inserted, if the selected one is better.

    napari selects each layer after its event of insertion. Of one file the first
    visible channel should be selected, or its visible labels; not those of others.
    """
    layers = viewer.layers
    before = layers.selection.active
    if before is None or before not in layers:
        return
    is_better = layer.visible and not (before.visible and _are_channels(before, layer))
    if is_better and not are_of_others(layer):
        return
    select_on_insert(viewer, False)


def show_value_alone(viewer: ViewerModel) -> None:
    """Remove the number of the level from a status such as "0, 57".

    In 3D it is named, since it may become a finer one.
    """
    status, layer = viewer.status, viewer.layers.selection.active
    if layer is None or not layer.multiscale or not isinstance(status, dict):
        return
    if origin_of(layer) is None and not hasattr(layer, "saver"):
        return
    line = before = str(status.get("coordinates", ""))
    both = str(status.get("value", ""))
    level, _, value = both.partition(", ")
    if value and level.isdecimal():
        line = line.replace(f": {both}", f": {value}", 1)
        status = {**status, "value": value}
    note = f"; {name_level(layer)}"
    if viewer.dims.ndisplay == 3 and not line.endswith(note):
        line += note
    if line != before:
        viewer.status = {**status, "coordinates": line}


def _are_channels(first: Layer, second: Layer) -> bool:
    """Return whether two layers are channels of one image."""
    if {layer_kind(first), layer_kind(second)} != {"image"}:
        return False
    origins = [origin_of(layer) for layer in (first, second)]
    nodes = {str(x.node) for x in origins if x is not None}
    return len(nodes) == 1


TOGETHER = 10.0
"""Seconds; labels whose times differ by less were written together, by a converter."""

MOST_FILES = 200
"""Most files of the coarsest level whose time is read; it rarely has more."""


def newest_labels(labels: Sequence[LayerPlan]) -> int:
    """Return the index of the labels that were changed last.

    It is known only of local folders, which come before labels of a server or an
    archive: beside those, a folder is a sidecar with the user's own labels. A save
    also writes the coarsest level, so its files are as new as the last save. Where it
    is not known, it is that of the first own labels, or else 0.
    """
    times = [_changed_at(label) for label in labels] if len(labels) > 1 else []
    known = {index: time for index, time in enumerate(times) if time is not None}
    newest = max(known, key=known.__getitem__, default=0)
    if known and known[newest] - known[min(known)] >= TOGETHER:
        return newest
    own = (index for index, label in enumerate(labels) if is_own_plan(label))
    return next(own, min(known, default=0))


def _changed_at(label: LayerPlan) -> float | None:
    """Return the time of the newest file of the coarsest level; None elsewhere."""
    location = label.node.location
    levels = label.pyramid.multiscale.levels
    root = local_folder(location.source)
    if root is None or not levels:
        return None
    folder = Path(root, location.object_key(levels[-1].path))
    files = (Path(top, name) for top, _, names in os.walk(folder) for name in names)
    times = [path.stat().st_mtime for path in islice(files, MOST_FILES)]
    return max(times, default=None)
