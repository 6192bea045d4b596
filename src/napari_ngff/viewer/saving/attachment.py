"""Lets painted labels be saved into the file that they came from, or a new one."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from napari_ngff.errors import UnsupportedError
from napari_ngff.labels.creation import METHOD, create_labels
from napari_ngff.labels.journal import Journal
from napari_ngff.labels.places.home import name_problem
from napari_ngff.labels.places.sidecar import home_of_new, remember
from napari_ngff.labels.reduce import method_named
from napari_ngff.labels.writer import LabelWriter
from napari_ngff.viewer.picture import KEY, LayerOrigin
from napari_ngff.viewer.saving.description import Description
from napari_ngff.viewer.saving.saver import LayerSaver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.labels.places.home import LabelHome
    from napari_ngff.metadata.model import Multiscale
    from napari_ngff.store.node import Node
    from napari_ngff.viewer.painting.paint import OMEZarrLabels
    from napari_ngff.viewer.saving.saver import Finish

__all__ = ["attach", "attach_new", "ratios_of", "renamed"]


def attach(layer: OMEZarrLabels) -> None:
    """Let a layer that was just made from a file be saved into it.

    It stays read-only, with the reason, where that cannot be.
    """
    if layer.read_only:
        return
    origin = layer.metadata.get(KEY)
    if not isinstance(origin, LayerOrigin) or origin.picture is None:
        return
    multiscale = origin.picture.pyramid.multiscale
    place = origin.node.location
    journal = Journal(place.source.name, place.path, layer.canvas)
    try:
        writer = LabelWriter(
            layer.canvas,
            journal.retained,
            method_named(multiscale.method),
            ratios_of(multiscale),
        )
    except (UnsupportedError, ValueError) as error:
        layer.read_only = str(error)
        layer.editable = False
        return
    layer.saver = LayerSaver(layer, journal, writer)
    layer.saver.description = Description(layer, origin.picture.label)


def attach_new(
    layer: OMEZarrLabels,
    image: Node | None,
    name: str,
    level: int,
    order: Sequence[int | None] | None,
    home: LabelHome | None = None,
) -> None:
    """Let a new layer create its label image when it is saved for the first time.

    Parameters
    ----------
    layer
        Its metadata get a `LayerOrigin` then.
    image
        Group of the image; None where it is not of an OME-Zarr.
    name
        Of the label image, unless the layer is renamed before it is saved.
    level
        Level of the image that is the finest of the labels.
    order
        The image's axis for each of the layer, None for a new one; None where the
        layer shows something else than the image's own voxels.
    home
        Where the label image goes; by default where that can be, at the first save.
    """

    def create(layer: OMEZarrLabels) -> tuple[LabelWriter, Finish]:
        if image is None or order is None:
            msg = (
                f"{layer.name} was made for a picture that is no single OME-Zarr image."
                " Open the image itself, and make labels for that."
            )
            raise UnsupportedError(msg)
        chosen = renamed(layer.name, name)
        target = home or home_of_new(image, None)
        saver = layer.saver
        assert saver is not None
        replace = chosen == saver.replaces
        dtype = layer.canvas.dtype
        if saver.abandon is not None:
            saver.abandon()  # what an attempt that failed has left
        made = create_labels(image, chosen, dtype, level, target, replace=replace)
        saver.abandon = made.abandon
        remember(image, target)
        assert image.metadata.image is not None
        channel = image.metadata.image.multiscales[0].channel_axis
        own = tuple(
            a if a is None or channel is None or a < channel else a - 1 for a in order
        )
        files = made.arrays, own
        if chosen != name:
            saver.keep_at(target.source.name, target.path(chosen))
        retained = saver.journal.retained
        writer = LabelWriter(layer.canvas, retained, METHOD, made.ratios, files)

        metadata = layer.metadata

        def register() -> None:
            info = None if saver is None else saver.info
            made.register(info)

        writer.register = register

        def finish() -> None:
            metadata[KEY] = LayerOrigin(target.node(chosen))

        return writer, finish

    store, path = "", name
    if home is not None:
        store, path = home.source.name, home.path(name)
    elif image is not None:
        place = image.location
        store, path = place.source.name, place.key(f"labels/{name}")
    journal = Journal(store, path, layer.canvas)
    layer.saver = LayerSaver(layer, journal, create=create)
    layer.saver.description = Description(layer, None)


def renamed(shown: str, name: str) -> str:
    """Name new labels as their layer is named by now, as far as it can be.

    napari itself puts a number in brackets behind a name that another layer has.

    Raises
    ------
    ValueError
        Where the user gave a name that no folder can have.
    """
    if re.fullmatch(re.escape(name) + r" \[\d+\]", shown):
        return name
    problem = name_problem(shown)
    if problem:
        raise ValueError(f"{problem} Rename the layer.")
    return shown


def ratios_of(multiscale: Multiscale) -> list[list[float]]:
    """Say how much larger the voxels of each level are than those before."""
    return [
        [abs(b / a) for a, b in zip(fine.scale, coarse.scale, strict=True)]
        for fine, coarse in pairwise(multiscale.levels)
    ]
