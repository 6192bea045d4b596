"""The layer of a label image: on its image's axes, with its own colours."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import UnsupportedError
from napari_ngff.metadata.model import JSON, KIND, Axis
from napari_ngff.metadata.units import unit_factor
from napari_ngff.store.arrays.drawable_pixels import drawable_labels
from napari_ngff.store.arrays.lazy_array import ArrayWindow
from napari_ngff.store.pyramids.resampled import BentImage, PlacedAxis, resample_pyramid
from napari_ngff.viewer.plans.layer_plan import (
    KEY,
    LayerData,
    LayerOrigin,
    LayerPlan,
    SharedAxes,
    are_near,
    layer_arrays,
    start_of,
)
from napari_ngff.viewer.plans.system_views import place_linked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from napari_ngff.store.pyramids.pyramid import Pyramid

OTHER = (0.6, 0.6, 0.6, 0.7)
"""Red, green, blue, alpha of labels without a colour, for code that reads
``layer.colormap``: napari's default would be invisible. It is not what is drawn."""


LEFT_LEVELS = ("level-grows", "chunks-tiny", "chunks-large")
"""Codes of problems by which an existing level is not shown."""


def label_layer(picture: LayerPlan, frame: SharedAxes | None = None) -> LayerData:
    """Make the layer of a label image.

    Parameters
    ----------
    picture
        The label image.
    frame
        Of its image: the layer gets the same axes in the same order and units. An
        axis that the label lacks, or along which it has a single element where the
        image has many ("the same as the image, or 1 if irrelevant"), becomes one
        voxel as thick as the image, so that the label is seen at every position.

    Raises
    ------
    UnsupportedError
        Where the pixels are no numbers, or complex ones.
    """
    pyramid = picture.pyramid
    dtype = pyramid.levels[0].dtype
    if dtype.kind not in "iubf":
        msg = f"{picture.node}: label images hold integers, this one holds {dtype}."
        raise UnsupportedError(msg)
    placed = place_linked(picture)
    pyramid = placed.pyramid
    if placed.view is not None:
        frame = SharedAxes.from_pyramid(pyramid, placed.view)
    # The image was resampled: its labels have to lie on the same new grid.
    elif frame is not None and frame.bent is not None:
        pyramid = _resample_bent(pyramid, frame, frame.bent)
        frame = SharedAxes.from_pyramid(pyramid)
    frame = frame or SharedAxes.from_pyramid(pyramid)
    order, axes = _match_axes(pyramid, frame)
    places = _place_axes(pyramid, frame)
    layer_axes = _place_layer(frame, axes, places)
    # Labels of floats are rounded while they are read: napari's labels are integers.
    data, multiscale = layer_arrays(
        [_reorder_axes(drawable_labels(s), order) for s in pyramid.levels]
    )
    source = picture.image.node.metadata.image if picture.image is not None else None
    # The sliders start as the image states.
    start = () if source is None else start_of(frame, source.omero)
    keywords: dict[str, Any] = {
        **layer_axes.layer_keywords(),
        "name": picture.name,
        "multiscale": multiscale,
        "metadata": {KEY: LayerOrigin(picture.node, start=start, picture=picture)},
    }
    info = picture.label
    if info is not None and info.kind is not None:
        keywords["metadata"][KIND] = info.kind
    # An opaque background would hide the image: some writers give all ids a random
    # colour. The file keeps it.
    colors = {} if info is None else dict(info.colors)
    if 0 in colors and colors[0][3] == 255:
        del colors[0]
    if colors:
        keywords["colormap"] = label_colormap(colors)
        # napari's usual 0.7 would scale the alpha that the file states.
        keywords["opacity"] = 1.0
    if info is not None and info.properties:
        keywords["features"] = label_features(info.properties)
    return data, keywords, "labels"


def label_notes(picture: LayerPlan) -> list[str]:
    """Write notes on labels that are not integers, and levels that no save changes."""
    dtype, notes = picture.pyramid.levels[0].dtype, []
    if dtype.kind == "f":
        notes.append(
            f"{picture.node} holds {dtype}, not integers. It is shown rounded, and"
            " cannot be painted."
        )
    omitted = [
        problem.where.rstrip(":").rpartition("/")[2]
        for problem in picture.pyramid.problems
        if problem.code in LEFT_LEVELS
    ]
    if omitted:
        levels = "level {} is" if len(omitted) == 1 else "levels {} are"
        notes.append(
            f"{picture.node}: {levels.format(', '.join(omitted))} left out. Saving"
            " labels does not change them."
        )
    return notes


def _match_axes(
    pyramid: Pyramid, frame: SharedAxes
) -> tuple[tuple[int | None, ...], tuple[Axis, ...]]:
    """Find the label's axis for each axis of the image.

    Returns
    -------
    order
        Index of the label's axis, or None, per axis of the layer.
    axes
        Of the layer: first those that only the label has, then the image's. A
        channel axis of one element is left out.
    """
    label_axes = pyramid.multiscale.axes
    shape = pyramid.levels[0].shape
    # By name, whether small letters or capitals.
    names = [axis.name.lower() for axis in label_axes]
    theirs = [axis.name.lower() for axis in frame.axes]
    extra = [
        i
        for i, axis in enumerate(label_axes)
        if names[i] not in theirs and not (axis.type == "channel" and shape[i] == 1)
    ]
    matched = [names.index(name) if name in names else None for name in theirs]
    return (*extra, *matched), (*(label_axes[i] for i in extra), *frame.axes)


def _place_axis(
    pyramid: Pyramid, index: int | None, axis: Axis, frame: SharedAxes
) -> tuple[float, float]:
    """Return scale and translation of the layer on one axis, in the unit of `axis`."""
    frame_index = frame.axes.index(axis) if axis in frame.axes else None
    if index is None:
        assert frame_index is not None
        return _stretch_axis(frame, frame_index)
    placed = _stated_place(pyramid, index, axis, frame)
    single = pyramid.levels[0].shape[index] == 1
    if (
        frame_index is not None
        and single
        and placed[1] == frame.translation[frame_index]
    ):
        return _stretch_axis(frame, frame_index)
    return placed


def _stated_place(
    pyramid: Pyramid, index: int, axis: Axis, frame: SharedAxes
) -> tuple[float, float]:
    """Return scale and translation that the file states, in voxels if the image is."""
    level = pyramid.multiscale.levels[0]
    # 1 where one of the units is unknown: then the numbers are all there is.
    factor = unit_factor(pyramid.multiscale.axes[index].unit, axis.unit) or 1.0
    scale, translation = level.scale[index] * factor, level.translation[index] * factor
    if frame.stated is None or axis not in frame.axes:
        return scale, translation
    size, start = (numbers[frame.axes.index(axis)] for numbers in frame.stated)
    return scale / size, (translation - start) / size


def _place_axes(pyramid: Pyramid, frame: SharedAxes) -> list[tuple[float, float]]:
    """Return scale and translation of the layer on each axis of `_match_axes`.

    Where no slider could lead through both the image and the label, as where one of
    them lacks its scale, the label is laid over the image.
    """
    pairs = list(zip(*_match_axes(pyramid, frame), strict=True))
    places = [_place_axis(pyramid, index, axis, frame) for index, axis in pairs]
    if is_beside(pyramid, frame):
        return places
    for number, (index, axis) in enumerate(pairs):
        count = 1 if index is None else pyramid.levels[0].shape[index]
        places[number] = 1.0, 0.0
        if axis in frame.axes:
            places[number] = _stretch_axis(frame, frame.axes.index(axis), count)
    return places


def is_beside(pyramid: Pyramid, frame: SharedAxes) -> bool:
    """Return whether one slider per axis can lead through an image and its labels."""
    for index, axis in zip(*_match_axes(pyramid, frame), strict=True):
        if index is None:
            continue
        count = pyramid.levels[0].shape[index]
        spans = [(count, *_place_axis(pyramid, index, axis, frame))]
        if axis in frame.axes:
            i = frame.axes.index(axis)
            spans.append((frame.sizes[i], frame.scale[i], frame.translation[i]))
        if not are_near(*spans):
            return False
    return True


def _place_layer(
    frame: SharedAxes, axes: tuple[Axis, ...], places: Sequence[tuple[float, float]]
) -> SharedAxes:
    """Return the axes of the layer, with the position of its image.

    Axes that only the label has come first.
    """
    extra = len(axes) - len(frame.axes)
    affine = None
    if frame.affine is not None:
        affine = np.eye(len(axes) + 1)
        # The image's affine acts on its own axes alone.
        affine[extra:, extra:] = frame.affine
    scale, translation = (tuple(p[i] for p in places) for i in (0, 1))
    shown_axes = (*axes[:extra], *(frame.shown or frame.axes))
    return SharedAxes(axes, (), scale, translation, shown=shown_axes, affine=affine)


def _resample_bent(pyramid: Pyramid, frame: SharedAxes, bent: BentImage) -> Pyramid:
    """Resample a label image as its image is, to the nearest label.

    Parameters
    ----------
    pyramid
        Of the label image.
    frame
        Of its image, in the intrinsic system.
    bent
        How the image is resampled.

    Raises
    ------
    UnsupportedError
        Where the label has axes that its image has not.
    """
    matched, axes = _match_axes(pyramid, frame)
    if len(axes) > len(frame.axes):
        msg = "The label image has axes that its image lacks, and cannot follow it."
        raise UnsupportedError(msg)
    places: dict[int, PlacedAxis] = {}
    for frame_axis, label_axis in enumerate(matched):
        target = frame.order[frame_axis]
        if label_axis is not None and target is not None:
            places[label_axis] = PlacedAxis(
                target, *_place_axis(pyramid, label_axis, axes[frame_axis], frame)
            )
    # An axis of one voxel that matters nowhere: every point is in that voxel.
    ignored = PlacedAxis(0, float("inf"), 0.0)
    listed = tuple(places.get(i, ignored) for i in range(len(pyramid.levels[0].shape)))
    return resample_pyramid(pyramid, bent, listed)


def _stretch_axis(frame: SharedAxes, axis: int, count: int = 1) -> tuple[float, float]:
    """Return scale and translation of voxels that cover the image along an axis."""
    size, scale = frame.sizes[axis] / count, frame.scale[axis]
    return size * scale, frame.translation[axis] + (size - 1) / 2 * scale


def _reorder_axes(source: Any, order: Sequence[int | None]) -> ArrayWindow:
    """Put the axes of a level in the layer's order; drop those not in it."""
    box = tuple((0, n if i in order else 1) for i, n in enumerate(source.shape))
    return ArrayWindow(source, tuple(order), box)


def label_colormap(colors: Mapping[int, tuple[int, int, int, int]]) -> Any:
    """Make a colormap with the colours of the file, and napari's for other labels.

    "Conforming readers SHOULD display labels using the colors specified by the colors
    array"; the text is silent on values that are not listed.

    Parameters
    ----------
    colors
        Label value -> red, green, blue, alpha, each 0-255; 0 is coloured, too, where
        it is listed.

    Returns
    -------
    napari_ngff.viewer.layers.label_colors.LabelColors
    """
    from napari_ngff.viewer.layers.label_colors import LabelColors

    parts = np.array(list(colors.values()), np.float32).reshape(-1, 4) / 255
    listed: dict[int | None, Any] = dict(zip(colors, parts, strict=True))
    return LabelColors.from_listed({**listed, None: np.array(OTHER)}, usual_colors())


def usual_colors() -> np.ndarray[Any, Any]:
    """Give napari's colours "rc" of the background and of labels that are not listed.

    One thread makes them: napari holds back warnings of scikit-image meanwhile, which
    lets them through where two threads do so (napari 0.9).
    """
    with _making_colors:
        return _make_usual_colors()


_making_colors = threading.Lock()


@functools.cache
def _make_usual_colors() -> np.ndarray[Any, Any]:
    from napari.utils.colormaps import label_colormap as cyclic_colormap

    usual: np.ndarray[Any, Any] = cyclic_colormap(49).colors.astype(np.float32)
    usual[0] = 0
    usual.flags.writeable = False
    return usual


def label_features(properties: Mapping[int, JSON]) -> Any:
    """Tabulate the properties of labels.

    Returns
    -------
    pandas.DataFrame
        ``index`` is the label value, by which napari finds the row of a label; one
        column per key. Numbers and truth values are of a type that may lack some; all
        else is None where a label lacks it. A label without properties has no row.
    """
    import pandas as pd

    # `dump_label` writes empty entries for labels that only have a colour.
    rows = {value: row for value, row in properties.items() if row}
    keys = dict.fromkeys(key for row in rows.values() for key in row)
    columns: dict[str, Any] = {"index": list(rows)}
    for key in keys:
        column = [row.get(key) for row in rows.values()]
        columns[key] = pd.Series(column, dtype=_column_type(column))
    return pd.DataFrame(columns)


def _column_type(column: Sequence[Any]) -> Any:
    """Return a type of pandas that keeps all values; None for pandas' own choice."""
    kinds = {type(value) for value in column}
    if len(kinds) == 1:
        return None
    kinds.discard(type(None))
    if kinds == {bool}:
        return "boolean"
    if kinds == {int}:
        # JSON has integers of any size; pandas has 64 bits.
        fits = all(-(2**63) <= value < 2**63 for value in column if value is not None)
        return "Int64" if fits else object
    return "Float64" if kinds == {float} else object
