"""Connects painted labels with a journal and a saver, for their file or a new one."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from napari_ngff.errors import OMEZarrError, UnsupportedError
from napari_ngff.labels.class_colors import FIRST_COLORS
from napari_ngff.labels.create_labels import METHOD, create_labels
from napari_ngff.labels.kept_edits import address_text, image_of_label
from napari_ngff.labels.label_classes import dump_kept_classes
from napari_ngff.labels.label_writer import LabelWriter
from napari_ngff.labels.places.label_location import name_problem
from napari_ngff.labels.places.sidecar import choose_location, remember_sidecar
from napari_ngff.labels.saving.journal_records import JournalSubject, KeptClasses
from napari_ngff.metadata.model import KIND, LabelInfo, LabelKind
from napari_ngff.store.hierarchy.node import read_node
from napari_ngff.store.pyramids.level_reduction import method_named
from napari_ngff.store.pyramids.pyramid import open_pyramid
from napari_ngff.viewer.layers.label_owners import SAVE_AS, TARGET, LabelTarget
from napari_ngff.viewer.plans.layer_plan import KEY, LayerOrigin, origin_of
from napari_ngff.viewer.saving.layer_description import LayerDescription
from napari_ngff.viewer.saving.layer_saver import Finish, LayerSaver
from napari_ngff.viewer.saving.save_report import reported_journal

if TYPE_CHECKING:
    from napari_ngff.viewer.painting.paint import OMEZarrLabels
    from napari_ngff.viewer.saving.left_labels import LeftLabels

INTERRUPTED = "A save that was interrupted is complete now. Open the labels again."


def attach_saver(layer: OMEZarrLabels, left: LeftLabels | None = None) -> None:
    """Give a layer a journal and a saver, for the file or the image it was made for.

    Where that is not possible, the layer becomes read-only, with the reason. Those of
    the same labels are used again where they were `left`.
    """
    if layer.read_only:
        return
    target = layer.metadata.get(TARGET)
    if isinstance(target, LabelTarget):
        attach_new(layer, target)
        return
    origin = origin_of(layer)
    if origin is None or origin.picture is None:
        return
    # Its pyramid was opened without that level: edits now would leave the level as it
    # is.
    if _finish_interrupted_save(origin):
        layer.read_only = INTERRUPTED
        layer.editable = False
        return
    if left is not None:
        layer.saver = LayerSaver(layer, left.journal, left.writer)
        layer.saver.follow_file()
    else:
        multiscale = origin.picture.pyramid.multiscale
        image, location = origin.picture.image, origin.node.location
        subject = JournalSubject(
            image_of_label(origin.node) if image is None else address_text(image.node),
            origin.label_name,
            dtype=layer.canvas.dtype.name,
        )
        # Nothing is written before the first stroke, which makes the file.
        journal = reported_journal(
            location.source.name, location.path, layer.canvas, subject=subject
        )
        # Of voxels relative to the next finer level: [level][axis].
        ratios = [
            [abs(b / a) for a, b in zip(fine.scale, coarse.scale, strict=True)]
            for fine, coarse in pairwise(multiscale.levels)
        ]
        try:
            writer = LabelWriter(
                layer.canvas,
                journal.before_images,
                method_named(multiscale.method),
                ratios,
            )
        except (UnsupportedError, ValueError) as error:
            layer.read_only = str(error)
            layer.editable = False
            return
        layer.saver = LayerSaver(layer, journal, writer)
    layer.saver.watch_description(LayerDescription(layer, origin.picture.label))


def _finish_interrupted_save(origin: LayerOrigin) -> bool:
    """Put back levels that a killed process left aside; return whether it had any."""
    plan = origin.picture
    image = origin.node.metadata.image
    if plan is None or image is None:
        return False
    count = len(plan.pyramid.levels)
    if count == len(image.multiscales[0].levels):
        return False
    # Where a system cannot swap two folders, a level is nowhere between two renames.
    # Edits that were saved without it would leave it as it was.
    with suppress(OMEZarrError, OSError):
        location = origin.node.location
        location.source.begin().recover(location.path)
        return len(open_pyramid(origin.node).levels) > count
    return False


def attach_new(layer: OMEZarrLabels, new: LabelTarget) -> None:
    """Give a new layer a saver that creates its label image at the first save.

    The first save also gives the layer its `LayerOrigin`. The layer may be renamed
    before.
    """
    address = new.image_file if new.node is None else address_text(new.node)
    dtype = layer.canvas.dtype.name
    subject = JournalSubject(address, new.name, new.level, dtype)
    journal = reported_journal(*_place_of(new), layer.canvas, subject=subject)
    layer.saver = LayerSaver(layer, journal, create=partial(create_new, new))
    layer.saver.replaces = new.replaces
    kind = LabelKind.parse(layer.metadata.get(KIND))
    # Written with the first stroke.
    journal.classes = KeptClasses(dump_kept_classes((), kind=kind))
    layer.saver.watch_description(
        LayerDescription(layer, LabelInfo(colors=FIRST_COLORS, kind=kind))
    )


def create_new(new: LabelTarget, layer: OMEZarrLabels) -> tuple[LabelWriter, Finish]:
    """Create the label image of new labels.

    Returns
    -------
    writer
        Saves the edits into it.
    finish
        Gives the layer its `LayerOrigin`, when the label image is complete.

    Raises
    ------
    UnsupportedError
        For labels of an overview, and of an image that is not of an OME-Zarr.
    NameTakenError
        Where the image has labels of that name.
    """
    image, name, order, home = new.node, new.name, new.order, new.home
    if image is None:
        msg = f"{layer.name} has no file: its image is not an OME-Zarr."
        raise UnsupportedError(msg, remedy=f"Save it with its image: {SAVE_AS}.")
    if order is None:
        msg = f"Labels on an overview cannot be stored: {layer.name}."
        raise UnsupportedError(msg, remedy="Open a field, and make labels there.")
    chosen = rename_new(layer.name, name)
    target = home or choose_location(image, None)
    saver = layer.saver
    assert saver is not None
    replace = chosen == saver.replaces
    dtype = layer.canvas.dtype
    # Before the new attempt, which needs the name that the old one holds.
    if saver.abandon is not None:
        saver.abandon()  # what an attempt that failed has left
    # Labels of this computer can be saved while a server gives no answer. Files
    # here are looked at again: another program may have added levels.
    is_apart = (
        image.location.source.traits.is_remote and not target.source.traits.is_remote
    )
    pyramid = new.pyramid if is_apart else None
    if not is_apart:
        # The position of the image may have been saved since it was opened.
        image = read_node(image.location)
    made = create_labels(
        image, chosen, dtype, new.level, target, replace=replace, pyramid=pyramid
    )
    saver.abandon = made.abandon
    # So that the sidecar is found when the image is opened again.
    remember_sidecar(image, target)
    assert image.metadata.image is not None
    channel = image.metadata.image.multiscales[0].channel_axis
    # Labels have no channel axis: axes behind it move up by one.
    label_order = tuple(
        a if a is None or channel is None or a < channel else a - 1 for a in order
    )
    files = made.arrays, label_order
    if chosen != name:
        saver.keep_at(target.source.name, target.path_of(chosen), chosen)
    before_images = saver.journal.before_images
    metadata = layer.metadata
    writer = LabelWriter(
        layer.canvas,
        before_images,
        METHOD,
        made.ratios,
        files,
        lambda: made.register(saver.info_to_write),
    )

    def finish() -> None:
        # The metadata alone are kept in this closure, not the layer, which must be
        # free to go.
        label = target.open_label(chosen)
        metadata[KEY] = LayerOrigin(label, saved_name=chosen)

    return writer, finish


def _place_of(new: LabelTarget) -> tuple[str, str]:
    """Return the planned place of new labels: name of the store, and path in it."""
    if new.home is not None:
        return new.home.source.name, new.home.path_of(new.name)
    if new.node is None:
        return new.image_file, new.name
    location = new.node.location
    return location.source.name, location.object_key(f"labels/{new.name}")


def rename_new(layer_name: str, name: str) -> str:
    """Return the name under which new labels are saved: that of their layer.

    A number in brackets, which napari puts behind a name that another layer has, is
    ignored.

    Raises
    ------
    ValueError
        Where the user gave a name that no folder can have.
    """
    if re.fullmatch(re.escape(name) + r" \[\d+\]", layer_name):
        return name
    problem = name_problem(layer_name)
    if problem:
        raise ValueError(f"{problem} Rename the layer.")
    return layer_name
