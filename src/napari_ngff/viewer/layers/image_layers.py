"""Makes the layers of an image, one per channel with its look, and of its labels."""

from __future__ import annotations

import copy
import functools
import os
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import (
    CorruptDataError,
    OMEZarrError,
    UnsupportedError,
    error_text,
)
from napari_ngff.labels.places.sidecar import choose_folder, folders_of
from napari_ngff.metadata.cursor import Cursor
from napari_ngff.metadata.model import JSON, Channel, Omero
from napari_ngff.metadata.rendering import parse_omero
from napari_ngff.plate.mosaic_level import MosaicLevel
from napari_ngff.store.arrays.lazy_array import ArraySource, ArrayWindow
from napari_ngff.store.hierarchy.location import DISPLAY_END
from napari_ngff.store.write.replace_file import remove_file
from napari_ngff.store.write.shared_document import SharedDocument
from napari_ngff.viewer.layers.contrast import (
    SAMPLED_WELLS,
    measure_contrast,
    separate_limits,
)
from napari_ngff.viewer.layers.label_layers import label_layer, label_notes
from napari_ngff.viewer.layers.label_owners import are_of_others, is_own_plan
from napari_ngff.viewer.plans.layer_plan import (
    KEY,
    LayerData,
    LayerOrigin,
    LayerPlan,
    is_joined,
    layer_arrays,
    layer_kind,
    origin_of,
    place_in_system,
    start_of,
)
from napari_ngff.viewer.private.napari_window import select_on_insert
from napari_ngff.viewer.streaming.streamed_levels import stream_levels
from napari_ngff.viewer.streaming.volume_fit import name_level

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari.components import ViewerModel
    from napari.layers import Image, Layer

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.layers.layer_groups import LayerGroup


MANY_CHANNELS = 20
"""Number of channels from which on only the active ones are visible at first."""

MOST_CHANNELS = 50
"""Most channels that become layers; napari takes minutes for thousands of them."""

FEW_SHOWN = 3
"""Number of visible channels among many, where none is marked as active."""

OVER_IMAGE = 0.4
"""Opacity of labels, so that the image below them stays visible."""

TWO_COLORS = ("magenta", "green")
SIX_COLORS = ("cyan", "yellow", "magenta", "red", "green", "blue")
"""napari's own colours for two, and for more channels."""


def layers_of(
    group: LayerGroup, chosen: str | None = None, *, estimate: bool = True
) -> tuple[list[LayerData], list[LayerData], list[str]]:
    """Make the layers of an image and of its labels.

    Parameters
    ----------
    group
        The image and its labels.
    chosen
        Name of the only labels that are visible; by default those changed last.
    estimate
        See `image_layers`.

    Returns
    -------
    images, labels
        One per channel, one per label image.
    messages
        A sentence for each label image that cannot be shown, and for channels that
        are not shown.
    """
    images: list[LayerData] = []
    labels: list[LayerData] = []
    messages: list[str] = []
    if group.image is not None:
        picture = show_kept(group.image, messages)
        images = image_layers(picture, estimate=estimate)
        messages += left_channels(picture)
    for label in group.labels:
        try:
            labels.append(label_layer(label, group.frame))
            messages += label_notes(label)
        except UnsupportedError as error:
            messages.append(f"{error} It is left out.")
    if chosen is None and labels:
        pictures = [keywords["metadata"][KEY].picture for _, keywords, _ in labels]
        chosen = labels[newest_labels(pictures)][1]["name"]
    for _, keywords, _ in labels:
        if group.image is not None:
            keywords["opacity"] = OVER_IMAGE
        # Several label images over each other hide one another and the image.
        keywords["visible"] = keywords["name"] == chosen
    return images, labels, messages


def channel_count(picture: LayerPlan) -> int:
    """Count the channels of an image; 1 where it has no axis of them."""
    axis = picture.pyramid.multiscale.channel_axis
    return 1 if axis is None else int(picture.pyramid.levels[0].shape[axis])


def left_channels(picture: LayerPlan) -> list[str]:
    """Return a message if not all channels are shown."""
    count = channel_count(picture)
    if count <= MOST_CHANNELS:
        return []
    count_text = f"{count:,} channels; the first {MOST_CHANNELS} are shown."
    more = "Show more channels, in the menu Layers ▸ Visualize, adds the next."
    return [f"{picture.name} has {count_text} {more}"]


def image_layers(
    picture: LayerPlan, *, estimate: bool = True, shown: Sequence[int] | None = None
) -> list[LayerData]:
    """Make one layer per channel, or one where there is no channel axis.

    Parameters
    ----------
    picture
        The image.
    estimate
        True where contrast that the file does not give is set later, by a session;
        otherwise it is left to napari, or measured in some wells of a plate.
    shown
        Numbers of the channels; None for the first `MOST_CHANNELS`.

    Returns
    -------
    list
        Data is a list of lazy dask arrays, one per level, without the channel axis.
    """
    pyramid, frame = place_in_system(picture)
    axis = pyramid.multiscale.channel_axis
    if axis in frame.order:
        axis = None  # the displayed system mixes it with others
    count = 1 if axis is None else pyramid.levels[0].shape[axis]
    stated = list(picture.omero.channels) if picture.omero is not None else []
    # The file may have too few.
    channels = (stated + [Channel()] * count)[:count]
    visible = visible_channels(channels)
    placement = frame.layer_keywords()
    layers: list[LayerData] = []
    for i in range(count)[:MOST_CHANNELS] if shown is None else shown:
        if i >= count:
            break  # fewer in this system
        channel = channels[i]
        # For each channel anew: a stream belongs to one layer.
        levels = stream_levels(pyramid.levels, axis)
        windows = [_channel_window(source, frame.order, axis, i) for source in levels]
        limits = stated_limits(channel)
        origin = LayerOrigin(
            picture.node,
            None if axis is None else i,
            channel.window,
            estimate and limits is None,
            start_of(frame, picture.omero),
            picture,
        )
        data, multiscale = layer_arrays(windows)
        keywords = {
            **placement,
            "name": layer_name(picture.name, channel, i, count),
            # Further multiscales lie over the first one, and stay hidden.
            "visible": visible[i] and not picture.multiscale,
            "multiscale": multiscale,
            "rgb": False,  # or napari guesses it where the last axis is short
            "colormap": choose_colormap(channel, i, count, picture.omero),
            "metadata": {KEY: origin},
        }
        # Colours of channels add up, as in fluorescence.
        if count > 1:
            keywords["blending"] = "additive"
        if origin.estimate:
            limits = dtype_range(windows[0].dtype)
        elif limits is None and is_joined(picture):
            limits = _sample_limits(data, pyramid.levels[-1])
        if limits is not None:
            keywords["contrast_limits"] = limits
        layers.append((data, keywords, "image"))
    return layers


def look_now(layer: Image) -> dict[str, Any]:
    """Return what a layer shows of a channel."""
    return {
        "name": layer.name,
        "visible": layer.visible,
        "colormap": layer.colormap.name,
        "limits": tuple(map(float, layer.contrast_limits)),
    }


def untouched_look(layer: Image) -> dict[str, Any]:
    """Return what a layer was given, and shows still, since nobody has changed it."""
    now, given = look_now(layer), layer.metadata[KEY].given or {}
    return {key: value for key, value in given.items() if value == now[key]}


def _channel_window(
    source: ArraySource, order: tuple[int | None, ...], axis: int | None, index: int
) -> ArrayWindow:
    """Return one channel of a level, with its axes in the layer's order."""
    box = [(0, size) for size in source.shape]
    if axis is not None:
        box[axis] = (index, index + 1)
    return ArrayWindow(source, order, tuple(box))


def visible_channels(channels: Sequence[Channel]) -> list[bool]:
    """Choose the channels of an image that are visible at first."""
    if any(channel.active is not None for channel in channels):
        active = [channel.active is not False for channel in channels]
        # A file that marks all channels as inactive would show nothing.
        if any(active):
            return active
    few = len(channels) < MANY_CHANNELS
    return [few or i < FEW_SHOWN for i in range(len(channels))]


def stated_limits(channel: Channel) -> tuple[float, float] | None:
    """Return the contrast limits that a file states; None where it does not."""
    window = channel.window
    if window is None or window.start is None or window.end is None:
        return None
    return separate_limits(window.start, window.end)


def dtype_range(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the range of a type of pixels; contrast limits until pixels were read."""
    if dtype.kind in "iu":
        return float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
    # Floats have no range of their own; images of floats often go from 0 to 1.
    return 0.0, 1.0


def _sample_limits(data: Any, level: ArraySource) -> tuple[float, float] | None:
    """Measure limits in some wells of a mosaic; None for those of the whole type.

    napari would read all of it, which may be thousands of images.
    """
    coarsest = data[-1] if isinstance(data, list) else data
    if coarsest.dtype == np.uint8 or not isinstance(level, MosaicLevel):
        return None
    # What cannot be read is met again, and reported, when napari reads it.
    with suppress(OMEZarrError, OSError):
        found = measure_contrast(coarsest, level.sample_areas(SAMPLED_WELLS))
        return None if found is None else found.limits
    return None


def choose_colormap(
    channel: Channel, index: int, count: int, omero: Omero | None
) -> Any:
    """Choose a colormap."""
    color = channel.color
    if omero is not None and omero.greyscale:
        color = (255, 255, 255)
    if color is not None:
        return _color_ramp(color, channel.inverted)
    if count == 1:
        return "gray"
    cycle = TWO_COLORS if count == 2 else SIX_COLORS
    return cycle[index % len(cycle)]


def brightest_color(colormap: Any) -> tuple[tuple[int, int, int], bool]:
    """Return the brighter end of a colormap, and whether that is its first colour."""
    from napari.utils.colormaps import ensure_colormap

    colors = np.asarray(ensure_colormap(colormap).colors, float)[:, :3]
    # A map from white to a dark colour is one that OME-Zarr calls "inverted".
    inverted = bool(colors[0].sum() > colors[-1].sum())
    end = np.rint(255 * colors[0 if inverted else -1]).astype(int)
    return (int(end[0]), int(end[1]), int(end[2])), inverted


@functools.lru_cache(maxsize=64)
def _color_ramp(color: tuple[int, int, int], inverted: bool) -> Any:
    """Make the colormap from black to a colour, or back."""
    # Shared by layers of one colour, as napari shares its own colormaps.
    from napari.utils import Colormap

    if color == (255, 255, 255):
        return "gray_r" if inverted else "gray"
    ends = [(0.0, 0.0, 0.0), tuple(part / 255 for part in color)]
    name = "#{:02x}{:02x}{:02x}".format(*color)
    if inverted:
        ends.reverse()
        name = f"{name} inverted"
    return Colormap(np.array(ends), name=name, display_name=name)


def layer_name(name: str, channel: Channel, index: int, count: int) -> str:
    """Name the layer of a channel by its image and its label."""
    label = channel.label or ("" if count == 1 else f"channel {index}")
    return f"{name}: {label}" if label and label != name else name


NAME = "display.json"
"""Of the file in the folder beside an image."""


def show_kept(picture: LayerPlan, messages: list[str]) -> LayerPlan:
    """Show an image by the settings that are kept for it, if there are any.

    Parameters
    ----------
    messages
        Gets one for a file that cannot be read.
    """
    # Those of the user first: where only they can be written, they are newer.
    files = [
        folder / NAME for folder in reversed(folders_of(picture.node, DISPLAY_END))
    ]
    for file in filter(os.path.exists, files):
        try:
            block = SharedDocument(file).read()
        except (CorruptDataError, OSError) as error:
            messages.append(error_text(error))
            continue
        if block is not None:
            kept = parse_omero(Cursor(block, "omero", []))
            return replace(picture, omero=kept, keeps_display=True)
    return picture


def keep_settings(image: Node, put: Callable[[JSON], None]) -> str:
    """Keep settings of an image that cannot be written; return the path of the file.

    Parameters
    ----------
    put
        Changes an object that has the ``omero`` block of the image, in place.

    Raises
    ------
    UnsupportedError, NodeNotFoundError
        Where there is no place for the file.
    CorruptDataError, OSError
        Where it cannot be changed.
    """
    folder = choose_folder(image, DISPLAY_END)

    def change_block(block: Any) -> Any:
        stated = image.attributes.get("ome", image.attributes).get("omero")
        home = {"omero": copy.deepcopy(stated if block is None else block)}
        put(home)
        return home["omero"]

    SharedDocument(folder / NAME).change(change_block)
    forget_settings(image, but=folder)
    return str(folder / NAME)


def forget_settings(image: Node, but: Path | None = None) -> None:
    """Forget the settings that are kept for an image, except those in one folder.

    Raises
    ------
    OSError
        Where a file cannot be removed.
    """
    for folder in folders_of(image, DISPLAY_END):
        if folder != but:
            remove_file(str(folder / NAME))


def keep_selected(viewer: ViewerModel, layer: Layer) -> None:
    """Keep the selection while a layer is inserted, if the selected one is better.

    napari selects each layer after its event of insertion. Of one file the first
    visible channel should be selected, or its visible labels; not those of others.
    """
    layers = viewer.layers
    before = layers.selection.active
    if before is None or before not in layers:
        return
    is_better = layer.visible and not (before.visible and _are_channels(before, layer))
    if is_better and not are_of_others(layer):
        return
    select_on_insert(viewer, False)


def show_value_alone(viewer: ViewerModel) -> None:
    """Remove the number of the level from a status such as "0, 57".

    In 3D it is named, since it may become a finer one.
    """
    status, layer = viewer.status, viewer.layers.selection.active
    if layer is None or not layer.multiscale or not isinstance(status, dict):
        return
    if origin_of(layer) is None and not hasattr(layer, "saver"):
        return
    line = before = str(status.get("coordinates", ""))
    both = str(status.get("value", ""))
    level, _, value = both.partition(", ")
    if value and level.isdecimal():
        line = line.replace(f": {both}", f": {value}", 1)
        status = {**status, "value": value}
    note = f"; {name_level(layer)}"
    if viewer.dims.ndisplay == 3 and not line.endswith(note):
        line += note
    if line != before:
        viewer.status = {**status, "coordinates": line}


def _are_channels(first: Layer, second: Layer) -> bool:
    """Return whether two layers are channels of one image."""
    if {layer_kind(first), layer_kind(second)} != {"image"}:
        return False
    origins = [origin_of(layer) for layer in (first, second)]
    nodes = {str(x.node) for x in origins if x is not None}
    return len(nodes) == 1


TOGETHER = 10.0
"""Seconds; labels whose times differ by less were written together, by a converter."""

MOST_FILES = 200
"""Most files of the coarsest level whose time is read; it rarely has more."""


def newest_labels(labels: Sequence[LayerPlan]) -> int:
    """Return the index of the labels that were changed last.

    It is known only of local folders, which come before labels of a server or an
    archive: beside those, a folder is a sidecar with the user's own labels. A save
    also writes the coarsest level, so its files are as new as the last save. Where it
    is not known, it is that of the first own labels, or else 0.
    """
    times = [_changed_at(label) for label in labels] if len(labels) > 1 else []
    known = {index: time for index, time in enumerate(times) if time is not None}
    newest = max(known, key=known.__getitem__, default=0)
    if known and known[newest] - known[min(known)] >= TOGETHER:
        return newest
    own = (index for index, label in enumerate(labels) if is_own_plan(label))
    return next(own, min(known, default=0))


def _changed_at(label: LayerPlan) -> float | None:
    """Return the time of the newest file of the coarsest level; None elsewhere."""
    location = label.node.location
    levels = label.pyramid.multiscale.levels
    root = location.source.traits.folder
    if root is None or not levels:
        return None
    folder = Path(root, location.object_key(levels[-1].path))
    files = (Path(top, name) for top, _, names in os.walk(folder) for name in names)
    times = [path.stat().st_mtime for path in islice(files, MOST_FILES)]
    return max(times, default=None)
