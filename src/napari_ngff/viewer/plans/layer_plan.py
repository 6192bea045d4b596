"""Plans of layers: an image with its pyramid, and the axes that its layers share."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.metadata.systems import Axis, Reference
from napari_ngff.metadata.units import MICROMETER, drop_noise, unit_factor, unit_name
from napari_ngff.plate.mosaic_level import MosaicLevel
from napari_ngff.store.arrays.drawable_pixels import drawable_pixels
from napari_ngff.store.arrays.lazy_array import ArrayWindow, LazyArray
from napari_ngff.store.pyramids.resampled import BentImage, resample_pyramid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from napari_ngff.metadata.model import ContrastWindow as Contrast
    from napari_ngff.metadata.model import LabelInfo, Omero
    from napari_ngff.metadata.transform import Matrix
    from napari_ngff.store.hierarchy.coordinate_systems import OpenedSystems
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.pyramids.pyramid import Pyramid


NOTHING = 1e-12
"""Entries of a matrix below that, relative to the largest of their column, are 0."""

MOST_STEPS = 10**7
"""Steps of one slider; napari's hold up to 999,999,998."""

SMALLEST, LARGEST = 2e-8, 1e20
"""Height and width that napari brings in view, and coordinates that graphics hold."""

FARTHEST = 1e12
"""Voxels from the origin; farther away their coordinates are no longer told apart."""


@dataclass(frozen=True, slots=True, eq=False)
class SystemView:
    """An image in a coordinate system.

    Attributes
    ----------
    system
        The displayed one.
    axes
        Its axes.
    matrix
        From the image's intrinsic system (from index coordinates of level 0 where
        `Level.transformation` says how these get there), (M + 1, N + 1).
    bent
        How the image gets there where a field bends it; `matrix` does not count then.
    """

    system: Reference
    axes: tuple[Axis, ...]
    matrix: Matrix
    bent: BentImage | None = None


def arrange_axes(
    axes: Sequence[Axis],
    system_axes: Sequence[Axis],
    matrix: Matrix,
    channel: int | None,
) -> tuple[tuple[int | None, ...], tuple[Axis, ...], Matrix]:
    """Arrange the data of layers so that slicing them stays orthogonal.

    napari slices along axes of the data and places what it finds by an affine; an
    affine that permutes axes would show other planes than the sliders say. So the
    data is permuted, gets an axis of one voxel where the displayed system has one
    that the image has not, and keeps, in front, those that the system has not.

    Parameters
    ----------
    axes
        Of the image, N.
    system_axes
        Of the displayed system, M.
    matrix
        From the former to the latter, (M + 1, N + 1).
    channel
        Index of the image's channel axis: it is left out, and its counterpart in the
        displayed system as well, where nothing else depends on them.

    Returns
    -------
    order
        The image's axis, or None, per axis of the layers.
    axes
        Of the displayed system, alike.
    affine
        Homogeneous, square, for axes in that order.
    """
    # Rounding would otherwise look like a mixture of axes, and forbid to leave one out.
    linear, offset = clear_rounding(matrix[:-1, :-1]), matrix[:-1, -1]
    rows, columns = kept_axes(linear, system_axes, channel)
    # Axes of the image that lead anywhere, and axes of the system that something leads
    # to.
    moving = [c for c in columns if linear[rows, c].any()]
    moved = [r for r in rows if linear[r, columns].any()]
    pairs = match_axes(linear, moved, moving)
    extra = [c for c in columns if c not in pairs.values()]
    # First the axes that the system has not, which become sliders; then those of the
    # system.
    order = (*extra, *(pairs.get(r) for r in rows))
    result = np.eye(len(order) + 1)
    for i, r in enumerate(rows, len(extra)):
        result[i, :-1] = [0.0 if c is None else linear[r, c] for c in order]
        result[i, -1] = offset[r]
        # An axis of one voxel, of size 1, at the offset.
        if r not in moved:
            result[i, i] = 1.0
    unmatched = [i for i, r in enumerate(rows, len(extra)) if r in moved]
    unmatched = [i for i in unmatched if order[i] is None]
    if unmatched:
        # A plane at an angle in space: its thickness is perpendicular to it.
        filled = [i for i in range(len(order)) if i not in unmatched]
        # The last columns of `basis` are perpendicular to all axes that are filled.
        basis, _, _ = np.linalg.svd(result[:-1, filled])
        result[:-1, unmatched] = basis[:, len(filled) :]
    return order, (*(axes[c] for c in extra), *(system_axes[r] for r in rows)), result


def can_be_drawn(
    sizes: Sequence[int],
    scale: Sequence[float],
    translation: Sequence[float],
    affine: Matrix | None = None,
) -> bool:
    """Return whether napari can show a layer with this place, and its sliders."""
    place = np.diag((*scale, 1.0))
    place[:-1, -1] = translation
    with np.errstate(all="ignore"):
        place = place if affine is None else affine @ place
        spans = place[:-1, :-1] * (np.array(sizes) - 1)
        steps = np.linalg.norm(place[:-1, :-1], axis=0)
        ends = place[:-1, -1] + [
            np.minimum(spans, 0).sum(1),
            np.maximum(spans, 0).sum(1),
        ]
        farthest, extent = np.abs(ends).max(0), np.ptp(ends, 0) + steps
    # False where a number is not finite.
    return bool(
        (farthest <= np.minimum(FARTHEST * steps, LARGEST)).all()
        and (steps <= LARGEST).all()
        and (extent[-2:] >= SMALLEST).all()
    )


def are_near(*spans: tuple[int, float, float]) -> bool:
    """Return whether one slider can lead through several layers.

    Parameters
    ----------
    *spans
        Along one axis: number of voxels, scale and translation.
    """
    with np.errstate(all="ignore"):
        counts, scales, starts = np.array(spans, float).T
        ends = np.concatenate([starts, starts + scales * (counts - 1)])
        return bool(np.ptp(ends) <= MOST_STEPS * np.abs(scales).min() < np.inf)


def clear_rounding(linear: Matrix) -> Matrix:
    """Set entries to 0 that differ from it only by rounding."""
    largest = abs(linear).max(axis=0, keepdims=True)
    return np.where(abs(linear) > NOTHING * largest, linear, 0.0)


def kept_axes(
    linear: Matrix, system_axes: Sequence[Axis], channel: int | None
) -> tuple[list[int], list[int]]:
    """Choose the rows and columns that layers have axes for: without channel, unless
    it is mixed with others.
    """
    rows, columns = list(range(linear.shape[0])), list(range(linear.shape[1]))
    if channel is not None:
        partners = np.flatnonzero(linear[:, channel])
        alone = [r for r in partners if np.count_nonzero(linear[r]) == 1]
        # The channel axis leads to one axis at most, and nothing else leads there: both
        # can go.
        if len(alone) == len(partners) <= 1:
            columns.remove(channel)
            rows = [r for r in rows if r not in alone]
    rows = [r for r in rows if system_axes[r].type != "channel" or linear[r].any()]
    return rows, columns


def match_axes(
    linear: Matrix, rows: Sequence[int], columns: Sequence[int]
) -> dict[int, int]:
    """Pair each displayed axis with the axis of the image that lies along it.

    Of all ways to pair them, the one with the largest sum of cosines; the order of
    the axes decides between equal ones.
    """
    largest = abs(linear).max(axis=0)
    scaled = abs(linear) / np.where(largest > 0, largest, 1)  # squares may overflow
    cosines = scaled / np.maximum(np.linalg.norm(scaled, axis=0), 1)
    # Five axes at most, so all ways can be tried: 120 permutations of one combination.
    best, best_pairs = -1.0, dict[int, int]()
    count = min(len(rows), len(columns))
    for some in itertools.combinations(rows, count):
        for order in itertools.permutations(columns, count):
            pairs = dict(zip(some, order, strict=True))
            score = sum(cosines[r, c] for r, c in pairs.items())
            # A cosine of 0 pairs axes that have nothing to do with each other.
            if score > best + 1e-9 and all(cosines[r, c] for r, c in pairs.items()):
                best, best_pairs = float(score), pairs
    return best_pairs


LayerData = tuple[Any, dict[str, Any], str]
"""Data, keywords and type of a layer, as napari's readers return them."""

UNITLESS = "pixel"
"""Unit of napari for an axis without one."""

KEY = "ome-zarr"
"""Where a layer's ``metadata`` keeps its `LayerOrigin`."""

PLAIN_SIZE = 2048
"""A single level of at most this height and width is handed over as a plain array:
napari then keeps the whole plane, and does not read again at every move."""


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """An image, or a label image, that is ready to become layers.

    Attributes
    ----------
    name
        What the user shall read.
    node
        The group that says how to show it.
    pyramid
        Its arrays; of a mosaic, those of all its tiles together.
    view
        The coordinate system in which it is shown; None for the intrinsic one.
    systems
        All coordinate systems of its hierarchy, where there are more than that.
    image
        Of a label image: the image that it follows.
    link
        Of a label image: homogeneous, from its own intrinsic system to the image's;
        None where they are the same, axis by axis.
    multiscale
        Which of the file's multiscales it is; `node` lists it first.
    label_names
        Of an image: of its label images when it was opened; None if not looked for.
    keeps_display
        Whether `omero` is from a file beside the image, which cannot be written.
    """

    name: str
    node: Node
    pyramid: Pyramid
    omero: Omero | None = None
    label: LabelInfo | None = None
    view: SystemView | None = None
    systems: OpenedSystems | None = None
    image: LayerPlan | None = None
    link: Matrix | None = None
    multiscale: int = 0
    label_names: tuple[str, ...] | None = None
    keeps_display: bool = False


def is_joined(picture: LayerPlan) -> bool:
    """Return whether a plan joins the images of a plate or a well."""
    return isinstance(picture.pyramid.levels[0], MosaicLevel)


@dataclass(frozen=True, slots=True)
class LayerOrigin:
    """Where a layer came from; it is in ``layer.metadata[KEY]``.

    Attributes
    ----------
    node
        The group.
    channel
        Index on the channel axis; None for an image without one and for labels.
    contrast
        Window of the file: `min` and `max` are the range of the contrast slider.
    estimate
        True where no window is given and contrast is to be found from the pixels.
    start
        World coordinate at which the sliders start, by axis of the layer.
    picture
        What the layer shows, to show it in another coordinate system.
    is_compared
        Whether it stands beside the image on screen, and cannot be painted.
    saved_name
        Name under which new labels were saved; "" for a layer that was opened.
    saved_place
        Matrix from its voxels to the world, by the position that was saved last; None
        for a layer whose position is as it was opened.
    given
        What the layer of a channel was given, of what nobody has changed since; None
        before it is shown.
    """

    node: Node
    channel: int | None = None
    contrast: Contrast | None = None
    estimate: bool = False
    start: tuple[tuple[int, float], ...] = ()
    picture: LayerPlan | None = None
    is_compared: bool = False
    saved_name: str = ""
    saved_place: Matrix | None = field(default=None, compare=False)
    given: Mapping[str, Any] | None = field(default=None, compare=False)

    @property
    def label_name(self) -> str:
        """Name of labels among those of their image.

        In a sidecar the group has another name: it begins with the path of the image.
        """
        opened = self.node.name if self.picture is None else self.picture.name
        return self.saved_name or opened

    def __deepcopy__(self, memo: dict[int, Any]) -> LayerOrigin:
        # napari copies a layer's metadata; this one never changes.
        return self


def origin_of(layer: Any) -> LayerOrigin | None:
    """Return where a layer came from; None for layers that are not ours, and None."""
    return None if layer is None else origin_in(layer.metadata)


def picture_of(layer: Any) -> LayerPlan | None:
    """Return the image, or the labels, that a layer shows; None for other layers."""
    origin = origin_of(layer)
    return None if origin is None else origin.picture


def origin_in(metadata: Mapping[str, Any]) -> LayerOrigin | None:
    """Return the origin in the metadata of a layer that is not made yet, or None."""
    origin = metadata.get(KEY)
    # Scripts may put anything under any key.
    return origin if isinstance(origin, LayerOrigin) else None


NAMELESS = Axis("")
"""Stands for an axis that the image does not have; equal to no axis of a label."""


def order_for_screen(axes: Sequence[Axis], channel: int | None) -> tuple[int, ...]:
    """Return the axes of layers: in the order of the file, but z, y and x at the end.

    Else an image whose x comes first would be drawn with x and y exchanged, and would
    not lie on images of the usual order.
    """
    last = {axis.name.lower(): i for i, axis in enumerate(axes) if axis.name}
    space = [last[name] for name in "zyx" if name in last]
    others = [i for i in range(len(axes)) if i not in (channel, *space)]
    return (*others, *space)


@dataclass(frozen=True, slots=True)
class SharedAxes:
    """The axes that all layers of one file share: those of the image, less channel.

    Attributes
    ----------
    axes
        Of the image's intrinsic system, in the order of the layer's.
    sizes
        Number of voxels of the image per axis.
    scale
        Size of a voxel, in the axis's unit.
    translation
        Coordinate of the centre of voxel 0, in the axis's unit.
    order
        The image's axis for each of the layer; None for one that only the displayed
        system has.
    shown
        Axes of the displayed system.
    affine
        Homogeneous, from the intrinsic system to the displayed one; None where they
        are one.
    bent
        How the image was resampled into the displayed system; the above is then that
        of the image in its intrinsic one.
    stated
        Scale and translation of the file where napari cannot draw them: the above are
        then those of pixels.
    """

    axes: tuple[Axis, ...]
    sizes: tuple[int, ...]
    scale: tuple[float, ...]
    translation: tuple[float, ...]
    order: tuple[int | None, ...] = ()
    shown: tuple[Axis, ...] = ()
    affine: Matrix | None = field(default=None, compare=False)
    bent: BentImage | None = None
    stated: tuple[tuple[float, ...], tuple[float, ...]] | None = None

    @classmethod
    def from_pyramid(
        cls, pyramid: Pyramid, view: SystemView | None = None
    ) -> SharedAxes:
        """Return the axes of an image as they are drawn: else in pixels."""
        axes = cls.from_metadata(pyramid, view)
        scale, translation = axes.scale, axes.translation
        if can_be_drawn(axes.sizes, *axes.place_in_micrometers()):
            return axes
        return replace(
            axes,
            scale=(1.0,) * len(scale),
            translation=(0.0,) * len(scale),
            shown=tuple(replace(axis, unit=None) for axis in axes.shown),
            affine=None,
            stated=(scale, translation),
        )

    @classmethod
    def from_metadata(
        cls, pyramid: Pyramid, view: SystemView | None = None
    ) -> SharedAxes:
        """Return the axes that the layers of an image share, as its file has them."""
        axes = pyramid.multiscale.axes
        channel = pyramid.multiscale.channel_axis
        if view is None:
            order: tuple[int | None, ...]
            # Channels become layers, so layers have no axis for them.
            order = order_for_screen(axes, channel)
            shown, affine = tuple(axes[i] for i in order if i is not None), None
        else:
            order, shown, affine = arrange_axes(axes, view.axes, view.matrix, channel)
        level = pyramid.multiscale.levels[0]
        sizes = pyramid.levels[0].shape
        return cls(
            tuple(NAMELESS if i is None else axes[i] for i in order),
            tuple(1 if i is None else sizes[i] for i in order),
            tuple(1.0 if i is None else level.scale[i] for i in order),
            tuple(0.0 if i is None else level.translation[i] for i in order),
            order,
            shown,
            affine,
        )

    @property
    def length_factors(self) -> npt.NDArray[np.float64]:
        """How many micrometres the unit of each axis is; 1 where it is no length."""
        axes = self.shown or self.axes
        return np.array([unit_factor(a.unit, MICROMETER) or 1.0 for a in axes])

    def place_in_micrometers(
        self,
    ) -> tuple[tuple[float, ...], tuple[float, ...], Matrix | None]:
        """Return scale, translation and affine of a layer: lengths in micrometres.

        napari draws all layers in the smallest unit of them, but finds the voxels of a
        layer by its own: what is pointed at is seen there only if all have one unit.
        """
        factors, affine = self.length_factors, self.affine
        if (factors == 1).all():
            return self.scale, self.translation, affine
        with np.errstate(all="ignore"):
            scale, translation = drop_noise([self.scale, self.translation] * factors)
            if affine is not None:
                whole = np.append(factors, 1.0)
                affine = affine * (whole[:, None] / whole)
        return (*scale.tolist(),), (*translation.tolist(),), affine

    def layer_keywords(self) -> dict[str, Any]:
        """Return the keywords that place a layer with these axes."""
        shown_axes = self.shown or self.axes
        scale, translation, affine = self.place_in_micrometers()
        keywords: dict[str, Any] = {
            "scale": scale,
            "translate": translation,
            "axis_labels": tuple(axis.name for axis in shown_axes),
        }
        if affine is not None:
            keywords["affine"] = affine
        units = [
            MICROMETER if unit_factor(axis.unit, MICROMETER) else unit_name(axis.unit)
            for axis in shown_axes
        ]
        # One layer without units would turn them off for the whole viewer: all layers
        # of one file get the same, and an axis without a unit counts in pixels.
        if any(units):
            keywords["units"] = tuple(unit or UNITLESS for unit in units)
        return keywords

    def world_coordinate(self, axis: int, index: int) -> float:
        """Return the world coordinate of a voxel along one axis of the layer."""
        scale, translation, affine = self.place_in_micrometers()
        coordinate = scale[axis] * index + translation[axis]
        if affine is None:
            return coordinate
        # Exact where the axis is not mixed with others; else the sliders begin nearby.
        return float(affine[axis, axis] * coordinate + affine[axis, -1])


def place_in_system(picture: LayerPlan) -> tuple[Pyramid, SharedAxes]:
    """Return the pyramid of an image in the system in which it is shown.

    Returns
    -------
    pyramid
        The image's, or the resampled one where a field bends it.
    frame
        Of that.
    """
    view = picture.view
    if view is None or view.bent is None:
        return picture.pyramid, SharedAxes.from_pyramid(picture.pyramid, view)
    pyramid = resample_pyramid(picture.pyramid, view.bent)
    return pyramid, SharedAxes.from_pyramid(pyramid)


def frame_of(picture: LayerPlan) -> SharedAxes:
    """Return the axes that the labels of an image share with it."""
    view = picture.view
    if view is None or view.bent is None:
        return SharedAxes.from_pyramid(picture.pyramid, view)
    # Labels are resampled by the same field, so they need the axes before it.
    return replace(SharedAxes.from_metadata(picture.pyramid), bent=view.bent)


def start_of(frame: SharedAxes, omero: Omero | None) -> tuple[tuple[int, float], ...]:
    """Return the slider positions that ``rdefs`` states, in world coordinates."""
    if omero is None:
        return ()
    wanted = {"t": omero.default_t, "z": omero.default_z}
    start = []
    for i, axis in enumerate(frame.axes):
        # The names of 0.4's "rdefs": defaultT and defaultZ, as indices.
        index = wanted.get(axis.name.lower())
        if index is not None and 0 <= index < frame.sizes[i]:
            start.append((i, frame.world_coordinate(i, index)))
    return tuple(start)


def layer_arrays(windows: Sequence[ArrayWindow]) -> tuple[Any, bool]:
    """Make the data of a layer of one window per level.

    Returns
    -------
    data
        A list of lazy dask arrays; or one, of a single small level.
    multiscale
        Which of the two.
    """
    arrays: list[Any] = [
        LazyArray.of_window(replace(window, source=drawable_pixels(window.source)))
        for window in windows
    ]
    if len(arrays) == 1 and max(windows[0].shape[-2:]) <= PLAIN_SIZE:
        return arrays[0], False
    return arrays, True


def levels_in(data: LayerData) -> list[Any]:
    """Return the levels of a layer that is not made yet, the finest first."""
    return data[0] if isinstance(data[0], list) else [data[0]]


def layer_kind(layer: Any) -> str:
    """Return the kind of a layer: "image", "labels", "points" and so on.

    napari's own name for it is ``_type_string``.
    """
    kinds = layer.__class__.__mro__
    own = (kind for kind in kinds if kind.__module__.startswith("napari.layers"))
    return str(next(own, kinds[0]).__name__).lower()
