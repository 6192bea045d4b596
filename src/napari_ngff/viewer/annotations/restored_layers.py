"""Finds the layer that kept edits go into: on the canvas, in the file, or a new one."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import CorruptDataError, OMEZarrError
from napari_ngff.labels.journal import Journal, delete_journal
from napari_ngff.labels.kept_edits import KeptEdits, address_text, place_text
from napari_ngff.labels.places.sidecar import open_sidecars
from napari_ngff.store.pyramids.pyramid import open_pyramid
from napari_ngff.viewer.layers.image_layers import OVER_IMAGE
from napari_ngff.viewer.layers.label_layers import label_layer
from napari_ngff.viewer.layers.label_owners import image_file
from napari_ngff.viewer.layers.user_alignment import unsaved_move
from napari_ngff.viewer.painting.brush import ERASE, PAINT
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.new_labels import free_name, new_labels
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.plans.layer_plan import (
    LayerData,
    LayerOrigin,
    LayerPlan,
    frame_of,
    is_joined,
    layer_kind,
    origin_of,
)
from napari_ngff.viewer.plans.system_views import follow_image
from napari_ngff.viewer.saving.save_report import reported_journal
from napari_ngff.viewer.services.settings import last_tool
from napari_ngff.viewer.services.window import Window

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from napari.components import ViewerModel
    from napari.layers import Image

    from napari_ngff.labels.canvas import Canvas
    from napari_ngff.labels.saving.journal_records import KeptClasses
    from napari_ngff.viewer.saving.layer_saver import LayerSaver


def find_labels(viewer: ViewerModel, place: str) -> Any:
    """Return the layer with the labels at a path or URL; None where there is none."""
    for layer in viewer.layers:
        saver = getattr(layer, "saver", None)
        layer_place = "" if saver is None else place_text(*saver.journal.place)
        if isinstance(layer, OMEZarrLabels) and layer_place == place != "":
            return layer
    return None


def find_image(viewer: ViewerModel, address: str) -> Any:
    """Return a layer of the image at a path or URL; None where there is none."""
    for layer in viewer.layers:
        origin = origin_of(layer)
        if layer_kind(layer) != "image":
            continue
        if origin is None:
            if address and image_file(layer) == address:
                return layer
            continue
        joined = origin.picture is not None and is_joined(origin.picture)
        if address and not joined and address_text(origin.node) == address:
            return layer
    return None


def open_saved(origin: LayerOrigin | None, place: str) -> LayerData | Exception | None:
    """Read a label image of an image from its file, in a worker.

    Parameters
    ----------
    origin
        Of a layer of the image.
    place
        Path or URL of the label image.

    Returns
    -------
    LayerData, Exception or None
        None where it was never saved; an error where it cannot be read.
    """
    image = None if origin is None else origin.picture
    if image is None:
        return None
    try:
        in_image = image.node.labels()
        labels = {node.name: node for node in in_image.nodes}
        for name, node in (*labels.items(), *open_sidecars(image.node).labels.items()):
            info = node.metadata.image
            if info is not None and address_text(node) == place:
                plan = LayerPlan(name, node, open_pyramid(node), None, info.label)
                return label_layer(follow_image(plan, image), frame_of(image))
    except (OMEZarrError, OSError) as error:
        return error
    # Saved, and damaged since: new labels would hold nothing but the edits.
    for problem in in_image.problems:
        if place.endswith(f"/{problem.where.strip(':')}"):
            return CorruptDataError(problem.text)
    return None


def place_opened(opened: LayerData, image: Image) -> OMEZarrLabels:
    """Make the layer of labels that were read, and put it on the layer of its image."""
    from napari_ngff.viewer.painting.painted_layers import as_layer

    data, keywords, kind = opened
    layer: Any = as_layer((data, {**keywords, "opacity": OVER_IMAGE}, kind))
    move = unsaved_move(image)
    if (
        move is not None
        and len(move) == layer.ndim + 1
        and not np.allclose(move, np.eye(len(move)))
    ):
        layer.affine = move @ layer.affine.affine_matrix
    made: OMEZarrLabels = layer
    return made


def make_labels(image: Image, kept: KeptEdits) -> OMEZarrLabels | None:
    """Make new labels like those of a journal; None where none are of their shape."""
    subject = kept.head.subject
    levels = list(range(len(image.level_shapes)))
    # Of older journals the level is not known.
    wanted = [subject.level, *levels] if subject.level in levels else levels
    beside = os.path.dirname(kept.head.store)
    for level in dict.fromkeys(wanted):
        fitting = []
        # The usual place first, then the image, its sidecar, and the folder that the
        # journal names.
        for sidecar in (None, False, True, beside):
            made = _new_labels(image, subject.name, level, subject.dtype, sidecar)
            if made is None:
                continue
            if made.canvas.shape != kept.head.shape:
                break
            assert made.saver is not None
            if place_text(*made.saver.journal.place) == kept.place:
                return made
            fitting.append(made)
        # Of the right shape, though in another place: the sidecar may have moved.
        if fitting:
            return fitting[0]
    return None


def _new_labels(
    image: Image, name: str, level: int, dtype: str, sidecar: bool | str | None
) -> OMEZarrLabels | None:
    try:
        taken = free_name(image, wish=name)
        return new_labels(
            image,
            taken,
            level=level,
            dtype=dtype or "uint16",
            sidecar=sidecar,
            kind=None,  # that of the journal, which follows
        )
    except (OMEZarrError, OSError, ValueError):
        return None


def size_text(shape: Sequence[int]) -> str:
    """Return a shape as text, such as "64 x 80"."""
    return " x ".join(map(str, shape))


def show_restored(
    viewer: ViewerModel, layer: OMEZarrLabels, classes: KeptClasses
) -> None:
    """Show a layer with restored edits and classes, ready to continue painting."""
    if layer not in viewer.layers:
        viewer.add_layer(layer)
    # Classes that the file had then may have been changed in it since.
    is_in_file = layer.saver is not None and layer.saver.writer is not None
    if classes.text and (classes.unsaved or not is_in_file):
        with suppress(ValueError):  # of a newer version
            classes_of_layer(layer).restore_classes(classes)
    layer.visible = True
    viewer.layers.selection.active = layer
    _show_plane(viewer, layer)
    # A tool that the user has selected meanwhile stays.
    if layer.mode == "pan_zoom":
        tool, last = last_tool(), layer.canvas.log.last_edit
        # The eraser of a later session would take away what is restored.
        if tool.get("mode") == ERASE and last is not None and last.label:
            tool["mode"] = PAINT
        layer.take_tool(tool)
    # The label of the last stroke, unless the user has chosen another.
    painted = [edit.label for edit in layer.canvas.edits if edit.label]
    # napari begins with label 1, which may be another object.
    if painted and layer.selected_label == 1:
        layer.selected_label = painted[-1]


def _show_plane(viewer: ViewerModel, layer: OMEZarrLabels) -> None:
    """Move the sliders to the section and the time of the last edit."""
    last = layer.canvas.log.last_edit
    fixed = dict(() if last is None else last.fixed)
    world = layer.data_to_world([fixed.get(axis, 0) for axis in range(layer.ndim)])
    first = viewer.dims.ndim - layer.ndim
    axes = [axis for axis in fixed if first + axis not in viewer.dims.displayed]
    viewer.dims.set_point([first + axis for axis in axes], [world[a] for a in axes])


def rasterise_levels(drawn: Canvas, levels: Sequence[int]) -> None:
    """Rasterise the edits of a canvas on some levels."""
    for number in levels:
        drawn.rasterise_level(number)


def order_levels(canvas: Canvas, shape: Sequence[int]) -> list[int]:
    """List levels: that of a shape, the coarsest (of the thumbnail), and the rest."""
    numbers = [level.number for level in reversed(canvas.levels)]
    on_screen = [n for n in numbers if canvas.levels[n].shape == tuple(shape)]
    return list(dict.fromkeys([*on_screen, *numbers]))


def open_journal(saver: LayerSaver, folder: Path) -> Journal:
    """Open a journal for a layer to take over; reads all of it, in any thread.

    Raises
    ------
    BlockingIOError
        Where another window has taken it over.
    OSError
        Where it cannot be read.
    """
    current = saver.journal
    return reported_journal(
        *current.place, current.canvas, folder, subject=current.subject
    )


def discard_journal(folder: Path, saver: LayerSaver | None = None) -> None:
    """Delete a journal, and unfinished files that its process left beside blocks.

    Parameters
    ----------
    folder
        Of the journal.
    saver
        Saver of the same labels, if they are on screen.

    Raises
    ------
    BlockingIOError
        Where another window has taken it over.
    """
    dead = delete_journal(folder).tokens
    writer = None if saver is None else saver.writer
    if writer is not None and dead:
        Window.current.run_work(lambda: writer.sweep_leftovers(dead), lambda _: None)
