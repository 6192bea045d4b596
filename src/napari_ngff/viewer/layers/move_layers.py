"""Moves layers of a viewer into another coordinate system."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import UnsupportedError
from napari_ngff.metadata.units import unit_factor
from napari_ngff.store.arrays.lazy_array import ArrayWindow
from napari_ngff.store.hierarchy.coordinate_systems import open_systems
from napari_ngff.store.hierarchy.location import Location
from napari_ngff.store.hierarchy.node import Node, read_node
from napari_ngff.viewer.layers.image_layers import image_layers
from napari_ngff.viewer.layers.label_layers import label_layer
from napari_ngff.viewer.layers.label_owners import TARGET
from napari_ngff.viewer.plans.layer_plan import (
    KEY,
    LayerData,
    LayerOrigin,
    LayerPlan,
    frame_of,
    is_joined,
    layer_kind,
    origin_of,
    picture_of,
)
from napari_ngff.viewer.plans.system_views import (
    follow_image,
    start_of,
    view_in_system,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from napari.components import Dims, LayerList
    from napari.layers import Layer

    from napari_ngff.metadata.model import Reference
    from napari_ngff.metadata.transform import Matrix
    from napari_ngff.store.arrays.boxes import AxisOrder

PLACEMENT = ("scale", "translate", "axis_labels")
LOOK = ("name", "visible", "opacity", "blending", "colormap", "features")


def host_image(picture: LayerPlan | None) -> LayerPlan | None:
    """Return the image that decides where a layer lies: a label's own image."""
    return picture if picture is None or picture.image is None else picture.image


def shown_system(origin: LayerOrigin) -> Reference | None:
    """Return the system in which a layer is shown; None where nothing is known."""
    image = host_image(origin.picture)
    if image is None:
        return None
    return start_of(image) if image.view is None else image.view.system


def system_of_layer(layer: Layer, layers: Iterable[Layer]) -> Reference | None:
    """Return the system in which a layer is shown; new labels are in their image's.

    None where nothing is known, as of layers of others.
    """
    if is_new(layer):
        image = NewLabelsPlace(layer, layers).image
        layer = layer if image is None else image
    origin = origin_of(layer)
    return None if origin is None else shown_system(origin)


def displayed_in(origin: LayerOrigin, system: Reference) -> LayerData | None:
    """Make the data of a layer again, in another system.

    Parameters
    ----------
    origin
        Of the layer as it is.
    system
        One of `napari_ngff.viewer.plans.system_views.list_choices`.

    Returns
    -------
    tuple or None
        Data, keywords and type; None where the layer cannot come along.
    """
    picture, image = origin.picture, host_image(origin.picture)
    placed = None if image is None else view_in_system(image, system)
    if picture is None or placed is None:
        return None
    if picture.image is None:
        # Without estimating contrast, which would read pixels; only the channel that is
        # moved is made.
        layers = image_layers(placed, estimate=False, shown=[origin.channel or 0])
        same = (x for x in layers if x[1]["metadata"][KEY].channel == origin.channel)
        return next(same, None)
    try:
        return label_layer(follow_image(picture, placed), frame_of(placed))
    except UnsupportedError:
        return None


def move_layers(layers: Iterable[Layer], system: Reference) -> tuple[Layer, ...]:
    """Show layers in another system.

    Parameters
    ----------
    layers
        Those of ours among them are moved, others left alone.
    system
        One of `napari_ngff.viewer.plans.system_views.list_choices`.

    Returns
    -------
    tuple
        The layers that cannot come along; they stay where they are. Painted labels
        are among them where their data would have to change: see `remake_unmoved`.
    """
    layers = list(layers)
    followers = [NewLabelsPlace(layer, layers) for layer in layers if is_new(layer)]
    unmoved: list[Layer] = []
    for layer in layers:
        origin = origin_of(layer)
        if origin is None or is_new(layer):
            continue
        if not _move_layer(layer, origin, system):
            unmoved.append(layer)
    unmoved += [follower.layer for follower in followers if not follower.follow_image()]
    return tuple(unmoved)


def is_new(layer: Layer) -> bool:
    """Return whether labels were made in this session: no file says where they lie."""
    origin = origin_of(layer)
    return TARGET in layer.metadata and (origin is None or origin.picture is None)


class NewLabelsPlace:
    """Where new labels lie on the layer of their image, before that is moved.

    Parameters
    ----------
    layer
        The new labels.
    layers
        All of the viewer.
    """

    def __init__(self, layer: Layer, layers: Iterable[Layer]) -> None:
        self.layer = layer
        self.image = next(filter(self._is_image, layers), None)
        if self.image is not None:
            self.before = world_matrix(self.image)
            self.axes = finest_axes(self.image)

    def _is_image(self, other: Layer) -> bool:
        origin, node = origin_of(other), self.layer.metadata[TARGET].node
        if origin is None or origin.picture is None or origin.is_compared:
            return False
        is_image = layer_kind(other) == "image" and other.ndim == self.layer.ndim
        return is_image and str(origin.node) == str(node)

    def follow_image(self) -> bool:
        """Move the labels as their image was moved; False where they cannot follow."""
        image, layer = self.image, self.layer
        if image is None:
            return False
        (shown, *whole), (wanted, *now) = self.axes, finest_axes(image)
        exchanged = is_exchanged(shown, wanted)
        # Other axes of the image would not be those of the labels.
        if exchanged is None or whole != now:
            return False
        matrix = world_matrix(image)
        if exchanged:
            matrix = matrix @ _exchange_matrix(image.ndim)
        move = matrix @ np.linalg.inv(self.before)
        layer.affine = move @ layer.affine.affine_matrix
        layer.axis_labels, layer.units = image.axis_labels, image.units
        return True


def finest_axes(layer: Layer) -> tuple[AxisOrder, Any, Any]:
    """Return which axes of the file a layer shows, and what of them."""
    finest = layer.data[0] if layer.multiscale else layer.data
    window = getattr(finest, "window", None)
    if window is None:
        return tuple(range(layer.ndim)), finest.shape, ()
    return window.order, window.box, window.steps


def is_exchanged(shown: AxisOrder, wanted: AxisOrder) -> bool | None:
    """Return whether the last two axes have changed places; None where others have.

    napari displays both, so that an affine can exchange them: in the sections of the
    other axes nothing changes.
    """
    if shown == wanted:
        return False
    if shown[:-2] == wanted[:-2] and shown[-2:] == wanted[:-3:-1]:
        return True
    return None


def _exchange_matrix(ndim: int) -> Matrix:
    """Return the homogeneous matrix that exchanges the last two axes."""
    matrix: Matrix = np.eye(ndim + 1)
    matrix[[-3, -2]] = matrix[[-2, -3]]
    return matrix


def world_matrix(layer: Layer) -> Matrix:
    """Return the homogeneous matrix from voxels of level 0 to the world."""
    # napari offers the whole way to the world only point by point.
    matrix = np.eye(layer.ndim + 1)
    matrix[:-1, -1] = start = layer.data_to_world(np.zeros(layer.ndim))
    for axis, corner in enumerate(np.eye(layer.ndim)):
        matrix[:-1, axis] = np.subtract(layer.data_to_world(corner), start)
    return matrix


def place_on_sliders(
    layers: Iterable[Layer], dims: Dims
) -> tuple[str, dict[int, float]]:
    """Return the voxel of an image at which the sliders are.

    Returns
    -------
    name
        Of the first layer whose axes are axes of an image; "" for none.
    voxel
        Its index along each axis of the image.
    """
    for layer in layers:
        order = _image_axes(layer)
        if order:
            # napari aligns the axes of layers at the end: the last axes of the viewer
            # are the layer's.
            point = _in_units(dims.point[-layer.ndim :], dims.units, layer.units)
            index = layer.world_to_data(point)
            coordinates = {
                a: float(index[i]) for i, a in enumerate(order) if a is not None
            }
            return layer.name, coordinates
    return "", {}


def restore_place(
    layers: Iterable[Layer], dims: Dims, place: tuple[str, dict[int, float]]
) -> None:
    """Move the sliders to the voxel of `place_on_sliders`, in the present system."""
    name, voxel = place
    layer = next((layer for layer in layers if layer.name == name), None)
    order = _image_axes(layer) if layer is not None else ()
    if layer is None or not order:
        return
    index = [0.0 if a is None else voxel.get(a, 0.0) for a in order]
    point = _in_units(layer.data_to_world(index), layer.units, dims.units)
    dims.point = (*dims.point[: -layer.ndim], *point)


def _image_axes(layer: Layer) -> tuple[int | None, ...]:
    """Return the image's axis for each axis of a layer; () where there is none."""
    image = picture_of(layer)
    if image is None or image.image is not None or is_joined(image):
        return ()
    frame = frame_of(image)
    return () if frame.bent is not None else frame.order


def _in_units(point: Iterable[float], units: Any, wanted: Any) -> list[float]:
    """Convert a position from the units of a layer to those of sliders, or back."""
    values = list(point)
    pairs = zip(
        *(
            # From the last axis on, as napari pairs axes; units may be missing.
            reversed([*map(str, some or ())][-len(values) :])
            for some in (units, wanted)
        ),
        strict=False,
    )
    factors = [unit_factor(have, want) or 1.0 for have, want in pairs]
    factors += [1.0] * (len(values) - len(factors))
    return [v * f for v, f in zip(values, reversed(factors), strict=True)]


def remake_unmoved(
    layers: LayerList,
    unmoved: Iterable[Layer],
    system: Reference,
    make: Callable[[LayerData], Layer],
) -> tuple[str, ...]:
    """Make labels again that could not be moved; return the names of the others.

    Parameters
    ----------
    make
        Makes a layer that can be painted of its data.
    """
    left, selection = [], layers.selection
    for layer in unmoved:
        made = remake_labels(layer, system)
        if made is None:
            unsaved = getattr(layer, "unsaved", False)
            left.append(f"{layer.name} (unsaved edits)" if unsaved else layer.name)
            continue
        new = make(made)
        selected = [new if other is layer else other for other in selection]
        index = layers.index(layer)
        layers.remove(layer)
        layers.insert(index, new)
        # napari selects what is inserted.
        selection.clear()
        selection.update(selected)
    return tuple(left)


def remake_labels(layer: Layer, system: Reference) -> LayerData | None:
    """Make the data of labels again in another system, with the same look.

    Returns
    -------
    tuple or None
        Data, keywords and type; None where it has edits that are not saved, or cannot
        come along.
    """
    origin = origin_of(layer)
    # Edits are in voxels of the present data; other data would move them.
    if origin is None or getattr(layer, "unsaved", True):
        return None
    made = displayed_in(origin, system)
    if made is None:
        return None
    look = {name: getattr(layer, name) for name in LOOK}
    return made[0], {**made[1], **look}, made[2]


def learn_systems(layers: Iterable[Layer], node: Node) -> None:
    """Read the coordinate systems of layers again, after a document was changed.

    Parameters
    ----------
    layers
        Those of the same hierarchy as `node` among them; they stay where they are.
    node
        Whose document was changed.

    Raises
    ------
    OMEZarrError, OSError
        Where the metadata cannot be read any more.
    """
    source = node.location.source
    planned: list[tuple[Layer, LayerPlan]] = []
    # A dict keeps the order and each path once: scenes first, whose systems lead
    # elsewhere.
    paths = dict.fromkeys((*_list_scenes(node), node.location.path))
    for layer in layers:
        picture = picture_of(layer)
        if picture is None or is_joined(picture):
            continue
        if picture.node.location.source.name == source.name:
            planned.append((layer, picture))
            paths |= dict.fromkeys(_list_scenes(picture.node))
            paths[picture.node.location.path] = None
    again = [read_node(Location(source, path), node.zarr_format) for path in paths]
    systems = open_systems(again)
    for layer, picture in planned:
        image = picture.image and replace(picture.image, systems=systems)
        picture = replace(picture, systems=systems, image=image)
        layer.metadata[KEY] = replace(layer.metadata[KEY], picture=picture)


def _list_scenes(node: Node) -> Iterator[str]:
    above = node.parent()
    while above is not None:
        if above.metadata.scene is not None:
            yield above.location.path
        above = above.parent()


def _move_layer(layer: Layer, origin: LayerOrigin, system: Reference) -> bool:
    made = displayed_in(origin, system)
    current = shown_system(origin)
    # Made again as it is, to see whether the new system needs other data or only
    # another place.
    before = None if current is None else displayed_in(origin, current)
    if made is None or before is None:
        return False
    data, keywords, _ = made
    wanted, old = _array_windows(data), _array_windows(before[0])
    if hasattr(layer, "canvas"):
        # Its data is more than what the file has: edits.
        fitted = _fit_axes(layer, wanted, old, keywords)
        if fitted is None:
            return False
        keywords = fitted
    # The system itself may have changed: then the data is as it was before that.
    # By windows, since arrays would be compared by their pixels.
    elif wanted != old or _order_of(wanted[0]) != finest_axes(layer)[0]:
        layer.data = _same_kind(layer, data)
    for name in PLACEMENT:
        setattr(layer, name, keywords[name])
    layer.affine = keywords.get("affine", np.eye(layer.ndim + 1))
    layer.units = keywords.get("units", ("pixel",) * layer.ndim)
    # Only the plan: what else the origin has, such as the contrast of the file, stays.
    layer.metadata[KEY] = replace(origin, picture=keywords["metadata"][KEY].picture)
    return True


def _fit_axes(
    layer: Any, wanted: list[Any], old: list[Any], keywords: dict[str, Any]
) -> dict[str, Any] | None:
    """Return the keywords of a place for the axes that painted labels have.

    None where their data would have to change.
    """
    order = _order_of(wanted[0])
    if order is None:
        return keywords if wanted == old else None
    if [*map(_content_of, wanted)] != [*map(_content_of, old)]:
        return None
    shown = _order_of(layer.canvas.levels[0].source)
    exchanged = is_exchanged(order if shown is None else shown, order)
    if not exchanged:
        return None if exchanged is None else keywords
    places = {name: keywords[name] for name in ("scale", "translate")}
    places = {name: (*v[:-2], v[-1], v[-2]) for name, v in places.items()}
    affine = keywords.get("affine", np.eye(layer.ndim + 1))
    return {**keywords, **places, "affine": affine @ _exchange_matrix(layer.ndim)}


def _order_of(window: Any) -> AxisOrder | None:
    return window.order if isinstance(window, ArrayWindow) else None


def _content_of(window: Any) -> tuple[Any, ...]:
    return window.source, window.box, window.steps


def _array_windows(data: Any) -> list[Any]:
    arrays = data if isinstance(data, list) else [data]
    return [getattr(array, "window", array) for array in arrays]


def _same_kind(layer: Layer, data: Any) -> Any:
    """Return data in the form that a layer has: a list of levels, or one array."""
    levels = data if isinstance(data, list) else [data]
    return levels if layer.multiscale else levels[0]
