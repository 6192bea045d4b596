"""Moves the camera of a viewer, and finds the corners of wells in an overview."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from napari_ngff.viewer.layers.plane_camera import forget_plane, shift_plane
from napari_ngff.viewer.services.notices import count_noun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.metadata.model import WellField
    from napari_ngff.plate.well_cells import Place, WellCells


def place_of(layer: Layer) -> tuple[float, ...]:
    """Return the world coordinate at which a layer begins along each axis.

    That is of its first voxel, or of its last where it counts downwards.
    """
    return tuple(map(float, layer.extent.world[0]))


def size_of(layer: Layer) -> tuple[int, ...]:
    """Return the shape of the finest level of an image."""
    return tuple(int(n) for n in layer.extent.data[1] - layer.extent.data[0])


@dataclass(frozen=True, slots=True)
class CameraView:
    """Zoom and centre of a camera relative to an image.

    Attributes
    ----------
    zoom
        Pixels of the canvas per unit of the world.
    center
        Along y and x, from where the image begins, in pixels of the canvas.
    """

    zoom: float
    center: tuple[float, float]

    @classmethod
    def note_view(cls, viewer: ViewerModel, layer: Layer) -> CameraView:
        """Return the present view of a layer, rounded to visible differences."""
        camera, corner = viewer.scene.camera, place_of(layer)
        y, x = np.round(np.subtract(camera.center[-2:], corner[-2:]) * camera.zoom, 2)
        return cls(float(f"{camera.zoom:.6g}"), (float(y), float(x)))

    def apply_to(self, viewer: ViewerModel, layer: Layer) -> None:
        """Move the camera so that it has this view of a layer."""
        camera = viewer.scene.camera
        center = np.add(place_of(layer)[-2:], np.divide(self.center, self.zoom))
        camera.zoom = self.zoom
        camera.center = (*camera.center[:-2], *map(float, center))


def follow_point(
    viewer: ViewerModel, before: Sequence[float], after: Sequence[float]
) -> None:
    """Move the camera with an image that moved in the world.

    Parameters
    ----------
    before, after
        World coordinates of the same place in it.
    """
    if len(before) != len(after):
        return
    shift = np.subtract(after, before)
    ndim = viewer.dims.ndim
    moved = [shift[axis - ndim + len(shift)] for axis in viewer.dims.displayed]
    if any(moved):
        camera = viewer.scene.camera
        center = np.array(camera.center, float)
        center[-len(moved) :] += moved
        camera.center = tuple(center)
    shift_plane(viewer, shift.tolist())


def follow_image(
    viewer: ViewerModel, images: Callable[[], Sequence[Layer]], *, any_size: bool
) -> Callable[[], None]:
    """Note the present view; return a function that sets that of the next image.

    The view stays at the same place of the next one. Images that differ in size may
    have no common places: the whole image is then brought in view.

    Parameters
    ----------
    images
        Lists the layers of the image on screen; none for an overview.
    any_size
        Whether images of any size are of the same kind, as fields of a plate are.
    """
    shown = images()
    before = place_of(shown[0]) if shown else None
    size = size_of(shown[0]) if shown else ()

    def move_camera() -> None:
        after = images()
        if before is not None and after and (any_size or size == size_of(after[0])):
            follow_point(viewer, before, place_of(after[0]))
        elif after:
            fit_camera(viewer, *after[0].extent.world[:, -2:])

    return move_camera


def is_fitted(viewer: ViewerModel) -> bool:
    """Return whether the camera is where napari put it, so not moved by the user.

    Zoom is not compared: it was right for the canvas before napari's controls took
    some of its room.
    """
    camera = viewer.scene.camera
    zoom, center, angles = camera.zoom, camera.center, camera.angles
    # napari does not say where it would put the camera: let it, then put it back.
    viewer.reset_view()
    centers = [camera.center]
    turned = not np.allclose(angles, camera.angles)
    camera.zoom, camera.center, camera.angles = zoom, center, angles
    # When the first layer came it was fitted, and others may reach farther. napari
    # cannot fit a layer alone that has fewer axes than the viewer.
    count = viewer.dims.ndisplay
    if viewer.layers and viewer.layers[0].ndim >= count:
        middle = viewer.layers[0].extent.world[:, -count:].mean(axis=0)
        centers.append((0.0,) * (len(center) - count) + tuple(middle))
    return not turned and any(np.allclose(center, other) for other in centers)


def is_whole(layers: Sequence[Layer]) -> bool:
    """Return whether the first of several layers is in view from edge to edge."""
    layer = next(iter(layers), None)
    if layer is None or not layer.multiscale:
        return False
    shape = np.asarray(layer.level_shapes[layer.data_level])
    first, last = np.asarray(layer.corner_pixels)[:, -2:]
    return bool((first <= 0).all() and (last >= shape[-2:] - 1).all())


def canvas_of(viewer: ViewerModel) -> tuple[float, float]:
    """Return the height and width of the canvas in pixels."""
    height, width = viewer.canvas.size
    return height, width


MARGIN = 0.05
"""Part of the canvas that stays free, as napari has it."""


OVERVIEW_MARGIN = 0.1
"""Margin of an overview, in which the names of rows and columns are drawn."""


def fit_camera(
    viewer: ViewerModel,
    low: Sequence[float],
    high: Sequence[float],
    margin: float = MARGIN,
) -> None:
    """Fit the view to a rectangle of the plane.

    Parameters
    ----------
    low, high
        World coordinates along y and x.
    margin
        Part of the canvas that stays free.
    """
    viewer.reset_view(margin=margin)
    if viewer.dims.ndisplay != 2:
        forget_plane(viewer)
        return
    # The part may have another shape than all layers, as a field of a wide plate has.
    whole = np.maximum(np.diff(viewer.layers.extent.world[:, -2:], axis=0)[0], 1e-9)
    sizes = np.maximum(np.subtract(high, low), 1e-9)
    camera = viewer.scene.camera
    canvas = np.asarray(canvas_of(viewer), float)
    camera.zoom *= float(min(canvas / sizes) / min(canvas / whole))
    center = np.add(low, high) / 2
    camera.center = (*camera.center[:-2], *map(float, center))


Corners = tuple["Place", "Place"]
"""World coordinates along y and x."""


def corners_of(layer: Layer, tiles: WellCells, well: str | None) -> Corners | None:
    """Return the first and the last corner of a well; None where it is not there.

    Parameters
    ----------
    layer
        Shows the wells.
    """
    box = tiles.corners_of(well)
    if box is None:
        return None
    lead = (0.0,) * (layer.ndim - 2)
    (top, left), (bottom, right) = (
        layer.data_to_world((*lead, *corner))[-2:] for corner in box
    )
    return (float(top), float(left)), (float(bottom), float(right))


def cells_of(layer: Layer, tiles: WellCells) -> dict[str, Corners]:
    """Return the first and the last corner of each well's cell, by its path.

    Parameters
    ----------
    layer
        Shows the wells; it is not turned.
    """
    lead = (0.0,) * (layer.ndim - 2)
    # World coordinates of the edges of voxel 0; all others follow by multiples.
    start, end = (layer.data_to_world((*lead, n, n))[-2:] for n in (-0.5, 0.5))
    height, width = tiles.cell
    cells = {}
    for tile in tiles.tiles:
        y, x = tile.corner
        ends = [
            tuple(
                float(first + share * (last - first))
                for first, last, share in zip(start, end, corner, strict=True)
            )
            for corner in ((y, x), (y + height, x + width))
        ]
        if tile.well is not None:
            cells[tile.well] = ((ends[0][0], ends[0][1]), (ends[1][0], ends[1][1]))
    return cells


def image_at(
    layers: Mapping[int, Layer], wells: Iterable[WellCells], world: Sequence[float]
) -> tuple[str | None, WellField | None] | None:
    """Return the well and the image at a world coordinate; see `WellCells.image_at`.

    Parameters
    ----------
    layers
        One of each acquisition, by its number.
    wells
        Of each acquisition, and of labels. They have the same cells, but may have
        fields in other places.
    world
        A point on the canvas.
    """
    well: tuple[str | None, WellField | None] | None = None
    for _, tiles, point in _points_in(layers, wells, world):
        found = tiles.image_at(*point[-2:])
        if found is not None and found[1] is not None:
            return found
        well = well or found
    return well


def _points_in(
    layers: Mapping[int, Layer], wells: Iterable[WellCells], world: Sequence[float]
) -> Iterator[tuple[Layer, WellCells, Sequence[float]]]:
    """Give the layer, the wells and the voxel at a place, of each acquisition."""
    images = (tiles for tiles in wells if not tiles.choice.inside)
    for number, tiles in enumerate(images):
        layer = layers.get(number)
        if layer is not None:
            lead = (0.0,) * max(0, layer.ndim - len(world))
            point = layer.world_to_data((*lead, *tuple(world)[-layer.ndim :]))
            yield layer, tiles, point


NOUNS = {"z": "plane", "t": "time point"}
"""What one index of an axis is for the user."""


def describe_end(
    layers: Mapping[int, Layer], wells: Iterable[WellCells], world: Sequence[float]
) -> str:
    """Say that an image ends before the plane that is shown; "" where it does not.

    Parameters are those of `image_at`. Reads nothing.
    """
    for layer, tiles, point in _points_in(layers, wells, world):
        *lead, y, x = point
        for axis, at in zip(layer.axis_labels, lead, strict=False):
            noun, number = NOUNS.get(axis.lower()), round(at) + 1
            size = tiles.size_at(y, x, axis.lower())
            if noun is not None and size is not None and number > size:
                return f"{count_noun(size, noun)}; {noun} {number} is shown"
    return ""
