"""Label images in sidecars: shown with their image, and made of labels to be edited."""

from __future__ import annotations

import os
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import OMEZarrError, UnsupportedError
from napari_ngff.labels.places.copy_labels import MOST_COPIED, copy_labels
from napari_ngff.labels.places.sidecar import (
    open_sidecars,
    sidecar_folder,
    sidecar_location,
    why_elsewhere,
)
from napari_ngff.store.hierarchy.location import is_url
from napari_ngff.store.pyramids.pyramid import open_pyramid
from napari_ngff.viewer import window_services
from napari_ngff.viewer.label_layers import label_layer
from napari_ngff.viewer.layer_plan import (
    KEY,
    LayerOrigin,
    LayerPlan,
    frame_of,
    is_joined,
)
from napari_ngff.viewer.notices import shorten_name
from napari_ngff.viewer.painting.label_target import TARGET
from napari_ngff.viewer.placing.move_layers import LOOK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.painting.paint import OMEZarrLabels
    from napari_ngff.viewer.placing.layer_groups import ReadingNotes

__all__ = [
    "SidecarCopy",
    "edit_copy",
    "folder_of",
    "home_choices",
    "place_text",
    "with_sidecars",
]


def with_sidecars(
    image: Node, labels: Iterable[LayerPlan], reading: ReadingNotes
) -> list[LayerPlan]:
    """Add the labels that sidecars hold of an image to its own.

    Those of the same name take the places of the image's: they are copies of them that
    were edited.
    """
    found = open_sidecars(image)
    reading.note_problems(found.problems)
    own = {}
    for name, node in found.labels.items():
        pyramid, meant = reading.open_pyramid(node), node.metadata.image
        if pyramid is not None and meant is not None:
            own[name] = LayerPlan(name, node, pyramid, None, meant.label)
    shown = []
    for label in labels:
        mine = own.pop(label.name, None)
        if mine is not None:
            where = mine.node.location.source.name
            reading.messages.append(
                f"'{label.name}' is shown as edited in {where}, not as in the image."
            )
        shown.append(mine or label)
    return [*shown, *own.values()]


def home_choices(layer: Layer) -> list[tuple[str, bool | str]]:
    """List where new labels of an image layer can go, the usual place first.

    Returns
    -------
    list
        A text, and what `new_labels` takes for it: False for the image itself, True
        for a sidecar, "" where the user has to name a folder. Empty where the layer is
        of no single image in a file.
    """
    origin = layer.metadata.get(KEY)
    picture = origin.picture if isinstance(origin, LayerOrigin) else None
    if picture is None or is_joined(picture):
        return []
    try:
        place = sidecar_location(picture.node).source.name
    except (OMEZarrError, OSError):
        return []
    folder, name = os.path.split(place)
    near = os.path.dirname(os.path.realpath(picture.node.location.source.name))
    known = {near: "next to the image", str(sidecar_folder()): "in your data folder"}
    choices: list[tuple[str, bool | str]] = []
    if not why_elsewhere(picture.node):
        choices.append(("in the image", False))
    choices.append((f"{known.get(folder, folder)}: {name}", True))
    return [*choices, ("in another folder", "")]


class SidecarCopy:
    """Copies the label image of a read-only layer into a sidecar, in a worker.

    Then the layer gives way to one that can be painted.

    Parameters
    ----------
    viewer
        That has the layer.
    layer
        Labels of an OME-Zarr.
    folder
        Where the sidecar is to be; next to the image by default, or in the user data
        folder.
    limit
        Bytes of voxels that are copied at most; None for any number.

    Attributes
    ----------
    made
        The new layer, when it is there.
    error
        Why there is none.

    Raises
    ------
    UnsupportedError
        Where the layer is not of a single label image with an image.
    """

    def __init__(
        self,
        viewer: ViewerModel,
        layer: Layer,
        folder: str | os.PathLike[str] | None = None,
        limit: int | None = MOST_COPIED,
    ) -> None:
        origin = layer.metadata.get(KEY)
        picture = origin.picture if isinstance(origin, LayerOrigin) else None
        if picture is None or picture.image is None or is_joined(picture):
            msg = f"{layer.name} is not a label image of a single OME-Zarr image."
            raise UnsupportedError(
                msg, remedy="Open the image itself, and choose one of its labels."
            )
        if not getattr(layer, "read_only", ""):
            raise UnsupportedError(f"{layer.name} can be edited where it is.")
        self._viewer, self._layer = weakref.ref(viewer), weakref.ref(layer)
        self._picture, self._image = picture, picture.image
        self._folder, self._limit = folder, limit
        self._cancelled = False
        self.made: Layer | None = None
        self.error: Exception | None = None

    def start(self) -> None:
        """Begin to copy; tell the user when it is done, or why not."""
        layer = self._layer()
        self._reason = getattr(layer, "read_only", "")
        window_services.run_work(self._copy_labels, self._show_copy)

    def cancel(self) -> None:
        """Stop copying; nothing is left of it. Removing the layer does so, too."""
        self._cancelled = True

    def _goes_on(self, done: int, total: int) -> bool:
        layer: Any = self._layer()
        viewer = self._viewer()
        if layer is None or viewer is None or layer not in viewer.layers:
            return False
        layer.read_only = f"being copied, {done} of {total} chunks."
        return not self._cancelled

    def _copy_labels(self) -> LayerPlan | Exception | None:
        try:
            node = copy_labels(
                self._picture.node,
                self._image.node,
                self._folder,
                limit=self._limit,
                goes_on=self._goes_on,
            )
            if node is None or node.metadata.image is None:
                return None
            pyramid, label = open_pyramid(node), node.metadata.image.label
        except (OMEZarrError, OSError, ValueError) as error:
            return error
        return replace(self._picture, node=node, pyramid=pyramid, label=label)

    def _show_copy(self, result: LayerPlan | Exception | None) -> None:
        from napari.utils.notifications import show_error

        layer: Any = self._layer()
        viewer = self._viewer()
        if layer is None or viewer is None or layer not in viewer.layers:
            return
        layer.read_only = self._reason
        if isinstance(result, Exception):
            self.error = result
            show_error(f"Not copied: {shorten_name(layer.name)}.\n{result}")
        elif result is not None:
            self._replace_layer(viewer, layer, result)

    def _replace_layer(self, viewer: ViewerModel, layer: Any, copy: LayerPlan) -> None:
        from napari.utils.notifications import show_info

        from napari_ngff.viewer.painting.painted_layers import as_layer

        data, keywords, kind = label_layer(copy, frame_of(self._image))
        look = {name: getattr(layer, name) for name in LOOK}
        made: Any = as_layer((data, {**keywords, **look}, kind))
        made.selected_label, made.contour = layer.selected_label, layer.contour
        index = viewer.layers.index(layer)
        viewer.layers.remove(layer)
        viewer.layers.insert(index, made)
        viewer.layers.selection.active = made
        self.made = made
        show_info(
            f"Ready to paint: {shorten_name(made.name)}\nChanges are saved in"
            f" {copy.node.location.source.name}; the image stays unchanged."
        )


def edit_copy(
    viewer: ViewerModel,
    layer: Layer | None = None,
    folder: str | os.PathLike[str] | None = None,
    *,
    limit: int | None = MOST_COPIED,
) -> SidecarCopy | None:
    """Copy read-only labels into a sidecar, and paint on the copy.

    Parameters
    ----------
    viewer
        That has the layer.
    layer
        The labels; the active layer by default.
    folder, limit
        See `SidecarCopy`.

    Returns
    -------
    LabelCopy or None
        Its ``made`` is the new layer when it is there. None where the layer is none to
        be copied; the user is told why.
    """
    from napari.utils.notifications import show_info

    layer = viewer.layers.selection.active if layer is None else layer
    if layer is None:
        show_info("Select a layer of labels first.")
        return None
    try:
        copy = SidecarCopy(viewer, layer, folder, limit)
    except UnsupportedError as error:
        show_info(f"Not copied: {shorten_name(layer.name)}.\n{error}")
        return None
    copy.start()
    return copy


def place_text(layer: OMEZarrLabels) -> str:
    """Name the file and the path in it; "" where there is none."""
    origin, target = layer.metadata.get(KEY), layer.metadata.get(TARGET)
    if isinstance(origin, LayerOrigin):
        return str(origin.node)
    node = getattr(target, "node", None)
    return f"{node}: new labels '{target.name}', not saved yet" if node else ""


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
