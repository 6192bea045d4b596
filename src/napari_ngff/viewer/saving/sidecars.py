"""Shows label images of sidecars with their image, and copies labels into sidecars."""

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
    LayerPlan,
    frame_of,
    is_joined,
    origin_of,
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
    """Return the labels of an image with those of its sidecars.

    A label image of a sidecar replaces one of the image with the same name, since it
    is an edited copy.
    """
    sidecars = open_sidecars(image)
    reading.note_problems(sidecars.problems)
    in_sidecars = {}
    for name, node in sidecars.labels.items():
        pyramid, label_image = reading.open_pyramid(node), node.metadata.image
        if pyramid is not None and label_image is not None:
            in_sidecars[name] = LayerPlan(name, node, pyramid, None, label_image.label)
    # In the order of the image's labels; those of sidecars alone follow.
    plans = []
    for label in labels:
        edited = in_sidecars.pop(label.name, None)
        if edited is not None:
            where = edited.node.location.source.name
            reading.messages.append(
                f"'{label.name}' is shown as edited in {where}, not as in the image."
            )
        plans.append(edited or label)
    return [*plans, *in_sidecars.values()]


def home_choices(layer: Layer) -> list[tuple[str, bool | str]]:
    """List the places for new labels of an image layer, the usual one first.

    Returns
    -------
    list
        A text, and what `new_labels` takes for it: False for the image itself, True
        for a sidecar, "" where the user has to name a folder. Empty where the layer is
        of no single image in a file.
    """
    origin = origin_of(layer)
    picture = origin.picture if origin is not None else None
    if picture is None or is_joined(picture):
        return []
    try:
        sidecar_path = sidecar_location(picture.node).source.name
    except (OMEZarrError, OSError):
        return []
    # Known folders by a phrase, since their paths are long; others as they are.
    folder, name = os.path.split(sidecar_path)
    near = os.path.dirname(os.path.realpath(picture.node.location.source.name))
    known = {near: "next to the image", str(sidecar_folder()): "in your data folder"}
    choices: list[tuple[str, bool | str]] = []
    if not why_elsewhere(picture.node):
        choices.append(("in the image", False))
    choices.append((f"{known.get(folder, folder)}: {name}", True))
    return [*choices, ("in another folder", "")]


class SidecarCopy:
    """Copies the label image of a read-only layer into a sidecar, in a worker.

    A layer that can be painted then replaces the read-only one.

    Parameters
    ----------
    viewer
        Viewer of the layer.
    layer
        Labels of an OME-Zarr.
    folder
        Folder of the sidecar; by default that of the image, or the user data folder.
    limit
        Bytes of voxels that are copied at most; None for any number.

    Attributes
    ----------
    made
        The new layer, once it was added.
    error
        The reason if copying failed.

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
        origin = origin_of(layer)
        picture = origin.picture if origin is not None else None
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
        """Start copying; the user is shown that it is done, or why it failed."""
        layer = self._layer()
        self._reason = getattr(layer, "read_only", "")
        window_services.run_work(self._copy_labels, self._show_copy)

    def cancel(self) -> None:
        """Stop copying, and remove what was copied; removing the layer does it, too."""
        self._cancelled = True

    def _goes_on(self, done: int, total: int) -> bool:
        layer: Any = self._layer()
        viewer = self._viewer()
        if layer is None or viewer is None or layer not in viewer.layers:
            return False
        layer.read_only = f"being copied, {done} of {total} chunks."
        # In the worker: copying stops where the layer was removed, too.
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
        # In the place of the old layer: the order of layers is what is drawn over what.
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
        Viewer of the layer.
    layer
        The labels; the active layer by default.
    folder, limit
        See `SidecarCopy`.

    Returns
    -------
    SidecarCopy or None
        Its ``made`` is the new layer, once it was added. None where the layer cannot
        be copied; the user is shown the reason.
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
    """Return the file of a layer and the path in it; "" where there is none."""
    origin, target = origin_of(layer), layer.metadata.get(TARGET)
    if origin is not None:
        return str(origin.node)
    node = getattr(target, "node", None)
    return f"{node}: new labels '{target.name}', not saved yet" if node else ""


def folder_of(layer: OMEZarrLabels) -> str:
    """Return the folder to look into; "" where there is none on this computer."""
    origin, target = origin_of(layer), layer.metadata.get(TARGET)
    node = getattr(target, "node", None)
    if origin is not None:
        node = origin.node
    if node is None or is_url(node.location.source.name):
        return ""
    root = node.location.source.name
    inner = os.path.join(root, node.location.path)
    around = (inner, root, os.path.dirname(root))
    return next((folder for folder in around if os.path.isdir(folder)), "")
