"""Shows label images of sidecars with their image, and copies labels into sidecars."""

from __future__ import annotations

import os
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from napari.utils.notifications import show_error, show_info

from napari_ngff.addresses import is_url
from napari_ngff.errors import (
    OMEZarrError,
    UnsupportedError,
    error_text,
)
from napari_ngff.labels.places.sidecar import (
    MOST_COPIED,
    sidecar_folder,
    sidecar_location,
    why_elsewhere,
)
from napari_ngff.store.pyramids.pyramid import open_pyramid
from napari_ngff.viewer.layers.label_layers import label_layer
from napari_ngff.viewer.layers.label_owners import TARGET
from napari_ngff.viewer.layers.move_layers import LOOK
from napari_ngff.viewer.plans.layer_plan import (
    LayerPlan,
    frame_of,
    is_joined,
    origin_of,
    picture_of,
)
from napari_ngff.viewer.services.notices import count_noun, shorten_name
from napari_ngff.viewer.services.window import Signal, Window

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.viewer.painting.paint import OMEZarrLabels

BEING_COPIED = "being copied"
"""Begins the reason why labels are read-only while they are copied."""


def home_choices(layer: Layer) -> list[tuple[str, bool | str]]:
    """List the places for new labels of an image layer, the usual one first.

    Returns
    -------
    list
        A text, and what `new_labels` takes for it: False for the image itself, True
        for a sidecar, "" where the user has to name a folder. Empty where the layer is
        of no single image in a file.
    """
    picture = picture_of(layer)
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

    A layer that can be painted then replaces the read-only one. However it ends, the
    result is shown.

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
    name
        Of the labels.
    done, total
        Number of chunks that are copied, and of all; 0 before the first.
    running
        Whether it has begun and not ended.
    made
        The new layer, once it was added.
    error
        The reason if copying failed.

    Raises
    ------
    UnsupportedError
        Where the layer is not of a single label image with an image.
    """

    progressed = Signal()
    """Emitted in the main thread when more was copied, some times a second."""

    ended = Signal()
    """Emitted in the main thread when it has ended."""

    def __init__(
        self,
        viewer: ViewerModel,
        layer: Layer,
        folder: str | os.PathLike[str] | None = None,
        limit: int | None = MOST_COPIED,
    ) -> None:
        # napari hands commands proxies, which are gone when the command returns.
        viewer = getattr(viewer, "__wrapped__", viewer)
        layer = getattr(layer, "__wrapped__", layer)
        picture = picture_of(layer)
        if picture is None or picture.image is None or is_joined(picture):
            msg = f"{layer.name} is not a label image of a single OME-Zarr image."
            raise UnsupportedError(
                msg, remedy="Open the image itself, and choose one of its labels."
            )
        self._place = str(picture.node)
        running = next((one for one in _running if one._place == self._place), None)
        if running is not None:
            raise UnsupportedError(f"It is being copied already: {running.part_text}.")
        if not getattr(layer, "read_only", ""):
            raise UnsupportedError(f"{layer.name} can be edited where it is.")
        self._viewer, self._layer = viewer, weakref.ref(layer)
        self._picture, self._image = picture, picture.image
        self._folder, self._limit = folder, limit
        self._stopped_by = ""
        self.name = layer.name
        self.done = self.total = 0
        self.running = False
        self.made: Layer | None = None
        self.error: Exception | None = None

    @property
    def part_text(self) -> str:
        """How much is copied, in words."""
        if not self.total:
            return "it waits for the first chunk"
        return f"{self.done} of {count_noun(self.total, 'chunk')}"

    def start(self) -> None:
        """Start copying; the user is shown that it is done, or why it failed."""
        self._reason = getattr(self._layer(), "read_only", "")
        self.running = True
        _running.add(self)
        self._show_part()
        Window.current.watch_copy(
            self,
            "Copying",
            lambda: self.done / max(self.total, 1),
            self.progressed,
            self.ended,
        )
        Window.current.run_work(self._copy_labels, self._show_end)

    def cancel(self) -> None:
        """Stop copying, and remove what was copied; removing the layer does it, too."""
        self._stopped_by = self._stopped_by or "It was cancelled."

    def _find_layer(self) -> Any:
        """Find the layer of the labels, or another one that replaced it; or None."""
        layer, viewer = self._layer(), self._viewer
        if not Window.current.is_open(viewer):
            return None
        known = [layer] if layer is not None and layer in viewer.layers else []
        for one in (*known, *viewer.layers):
            origin = origin_of(one)
            if (
                getattr(one, "read_only", "")
                and origin is not None
                and origin.picture is not None
                and str(origin.node) == self._place
                and not origin.is_compared
            ):
                return one
        return None

    def _goes_on(self, done: int, total: int) -> bool:
        self.done, self.total = done, total
        Window.current.report_to_main(self, self._show_part)
        return not self._stopped_by

    def _show_part(self) -> None:
        # What was reported before the end may arrive after it.
        if not self.running:
            return
        layer = self._find_layer()
        if layer is None:
            self._stopped_by = self._stopped_by or "The labels are not shown any more."
        else:
            layer.read_only = f"{BEING_COPIED}: {self.part_text}."
        self.progressed.emit()

    def _copy_labels(self) -> LayerPlan | Exception | None:
        from napari_ngff.labels.places.copy_labels import copy_labels

        try:
            node = copy_labels(
                self._picture.node,
                self._image.node,
                self._folder,
                limit=self._limit,
                goes_on=self._goes_on,
            )
            if node is None:
                return None
            pyramid, image = open_pyramid(node), node.metadata.image
        # Whatever it is: the user waits for the copy, or for the reason.
        except Exception as error:  # noqa: BLE001
            return error
        label = None if image is None else image.label
        return replace(self._picture, node=node, pyramid=pyramid, label=label)

    def _show_end(self, result: LayerPlan | Exception | None) -> None:
        """Show the copy in place of the layer, or say why there is none."""
        layer = self._find_layer()
        self.running = False
        _running.discard(self)
        self.ended.emit()
        if layer is not None:
            layer.read_only = self._reason
        if not Window.current.is_open(self._viewer):
            return
        if isinstance(result, Exception):
            self.error = result
            text = error_text(result)
            show_error(f"Not copied: {shorten_name(self.name)}.\n{text}")
        elif result is None:
            text = f"{self._stopped_by} No file is left."
            show_info(f"Not copied: {shorten_name(self.name)}.\n{text}")
        elif layer is None:
            show_info(
                f"Copied: {shorten_name(self.name)}.\nThe labels are not shown any"
                f" more. Open the image again to paint on {result.node}."
            )
        else:
            self._replace_layer(self._viewer, layer, result)

    def _replace_layer(self, viewer: ViewerModel, layer: Any, copy: LayerPlan) -> None:

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


_running: weakref.WeakSet[SidecarCopy] = weakref.WeakSet()
"""Copies that are being made, of all windows."""


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
        be copied, or is being copied already; the user is shown the reason.
    """
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


def file_text(layer: OMEZarrLabels) -> str:
    """Return the file of a layer and the path in it; "" where there is none."""
    origin, target = origin_of(layer), layer.metadata.get(TARGET)
    if origin is not None:
        return str(origin.node)
    node = getattr(target, "node", None)
    return f"{node}: not saved yet" if node else ""


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
