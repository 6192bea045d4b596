"""The place where new labels will be saved, kept by their layer until then."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from napari_ngff.labels.kept_edits import place_text
from napari_ngff.store.hierarchy.location import ZIP_SUFFIXES

if TYPE_CHECKING:
    from napari.layers import Layer

    from napari_ngff.labels.places.label_location import LabelLocation
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.pyramids.pyramid import Pyramid

TARGET = "ome-zarr-target"
"""Where a layer's ``metadata`` keeps its `LabelTarget`."""

SAVE_AS = "File ▸ IO Utilities ▸ Save as…"
"""Where labels are saved together with an image that is not of an OME-Zarr."""

Sidecar = bool | str | os.PathLike[str] | None


@dataclass(frozen=True, slots=True)
class LabelTarget:
    """Where new labels are saved by their first save.

    Attributes
    ----------
    node
        The image's group; None where the image is not of an OME-Zarr.
    level
        Level of the image that is the finest of the labels.
    home
        The group that will list them; None where there is none.
    order
        The image's axis for each of the layer, None for a new one; None where the
        layer shows something else than the image's own voxels.
    sidecar
        As it was asked for, see `new_labels`.
    replaces
        Name of the label image that the first save may replace; "" for none.
    pyramid
        The image's levels as they were opened: a save into a file of this computer
        needs no server. None where they are to be opened again.
    image_file
        The file of an image that is not of an OME-Zarr; "" where it has none.
    """

    node: Node | None
    name: str
    level: int = 0
    home: LabelLocation | None = None
    order: tuple[int | None, ...] | None = None
    sidecar: Sidecar = None
    replaces: str = ""
    pyramid: Pyramid | None = None
    image_file: str = ""

    def __deepcopy__(self, memo: dict[int, Any]) -> LabelTarget:
        # napari copies a layer's metadata; this one never changes.
        return self


def has_no_file(layer: Layer) -> bool:
    """Return whether labels are new ones of an image that is not of an OME-Zarr.

    A save has no place for them; *Save as…* writes them together with the image.
    """
    target = layer.metadata.get(TARGET)
    return isinstance(target, LabelTarget) and target.node is None


def image_file(layer: Layer) -> str:
    """Return the file of an image that is not of an OME-Zarr; "" where it has none.

    By it, kept edits of its labels are found when it is opened again.
    """
    path = str(layer.source.path or "")
    # An OME-Zarr that another plugin reads: its labels are edited in layers of ours.
    is_other = os.path.isfile(path) and not path.lower().endswith(ZIP_SUFFIXES)
    return place_text(path, "") if is_other else ""
