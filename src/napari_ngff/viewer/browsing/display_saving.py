"""Saves the display settings of an image, or of all fields with the same channels."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from napari.utils.colormaps import ensure_colormap

from napari_ngff.errors import error_text
from napari_ngff.metadata.model import (
    Channel,
    ContrastWindow,
    GroupKind,
    Omero,
)
from napari_ngff.metadata.rendering import put_omero
from napari_ngff.metadata.version import UNSTATED
from napari_ngff.store.hierarchy.edit_document import change_document
from napari_ngff.store.pyramids.pyramid import open_pyramid
from napari_ngff.viewer.layers.image_layers import (
    NAME,
    brightest_color,
    channel_count,
    choose_colormap,
    dtype_range,
    forget_settings,
    keep_settings,
    layer_name,
    look_now,
    stated_limits,
    untouched_look,
    visible_channels,
)
from napari_ngff.viewer.layers.move_layers import host_image, place_on_sliders
from napari_ngff.viewer.plans.layer_plan import (
    KEY,
    LayerPlan,
    frame_of,
    layer_kind,
    origin_in,
    origin_of,
    picture_of,
)
from napari_ngff.viewer.services.notices import count_noun, shorten_name
from napari_ngff.viewer.services.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy as np
    from napari.components import ViewerModel
    from napari.layers import Image, Layer

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.store import Store, Transaction
    from napari_ngff.viewer.browsing.browser import Browser
    from napari_ngff.viewer.browsing.field_labels import ChangedFields


NUMBERED = re.compile(r" \[\d+\]$")
"""What napari adds to the name of a layer that another one has."""

LOOK = ("name", "visible", "colormap", "contrast_limits", "metadata")
"""Attributes of a layer that describe a channel."""


@dataclass(frozen=True, slots=True)
class DisplaySettings:
    """The display settings of an image as they are shown.

    Attributes
    ----------
    picture
        The image, with the settings as they were read, or saved last.
    shown
        The settings as the layers show them. What nobody has changed is as it was read.
    channels
        Numbers of the channels that are shown, and of those that the file lacks.
    left_out
        What is shown and cannot be in a file, such as "gamma of DAPI".
    """

    picture: LayerPlan
    shown: Omero
    channels: frozenset[int]
    left_out: tuple[str, ...] = ()

    @property
    def differ(self) -> bool:
        """Return whether something else is shown than was read, or saved last."""
        return self.shown != self.picture.omero


def settings_shown(
    viewer: ViewerModel, *, whole: bool = False
) -> DisplaySettings | None:
    """Return the settings that the layers of one image show; None without an image.

    It is the image of the selected layer, also of labels; else the topmost visible one.

    Parameters
    ----------
    whole
        Whether what nobody has changed is as it is shown, too, for other fields; but
        not the sliders.
    """
    layers: list[Any] = [layer for layer in viewer.layers if _shows_image(layer)]
    addresses = [str(layer.metadata[KEY].node) for layer in layers]
    plan = host_image(picture_of(viewer.layers.selection.active))
    seen = [x for x, layer in zip(addresses, layers, strict=True) if layer.visible]
    wanted = "" if plan is None else str(plan.node)
    wanted = wanted if wanted in addresses else "".join(seen[-1:])
    chosen = [x for at, x in zip(addresses, layers, strict=True) if at == wanted]
    # Of an image that was opened twice, the one that is selected.
    chosen.sort(key=lambda layer: picture_of(layer) is plan)
    return _describe_layers(viewer, chosen, whole) if chosen else None


def _shows_image(layer: Layer) -> bool:
    """Return whether a layer shows a channel of the first multiscale of an image."""
    origin = origin_of(layer)
    picture = None if origin is None or origin.is_compared else origin.picture
    is_image = layer_kind(layer) == "image"
    return is_image and picture is not None and not picture.multiscale


def _describe_layers(
    viewer: ViewerModel, layers: Sequence[Image], whole: bool
) -> DisplaySettings:
    picture: LayerPlan = layers[0].metadata[KEY].picture
    by_channel = {layer.metadata[KEY].channel or 0: layer for layer in layers}
    omero, count = picture.omero or Omero(), channel_count(picture)
    known, stated = len(omero.channels), [*omero.channels, *[Channel()] * count]
    # Programs refuse a file that describes some of its channels only.
    unstated = set(range(known, count)) - by_channel.keys()
    maps = {
        i: choose_colormap(stated[i], i, count, omero) for i in unstated | {*by_channel}
    }
    names = {i: ensure_colormap(colormap).name for i, colormap in maps.items()}
    same = {i: untouched_look(x) for i, x in by_channel.items() if i < known}
    same = {i: {} if whole else same.get(i, {}) for i in by_channel}
    as_read = {
        i
        for i, x in by_channel.items()
        if "colormap" in same[i] or x.colormap.name == names[i]
    }
    # Whoever gives one channel a colour no longer wants all of them grey.
    greyscale = omero.greyscale and len(as_read) == len(by_channel)
    visible = visible_channels(stated[:count])
    seen = {
        i: "visible" in same[i] or x.visible == visible[i]
        for i, x in by_channel.items()
    }
    for i in unstated:
        window = ContrastWindow(*dtype_range(layers[0].dtype) * 2)
        color, _ = brightest_color(maps[i])
        stated[i] = Channel(None, color, window, visible[i])
    for i, layer in by_channel.items():
        one = stated[i]
        now = channel_of({k: getattr(layer, k) for k in LOOK}, layer.dtype) or one
        name = layer_name(picture.name, one, i, count)
        is_named = "name" in same[i] or name in (
            layer.name,
            NUMBERED.sub("", layer.name),
        )
        has_color = one.color or "colormap" in same[i]
        keeps_color = greyscale or (has_color and not omero.greyscale)
        colored = one if keeps_color and i in as_read else now
        limits, window = look_now(layer)["limits"], one.window or ContrastWindow()
        is_stated = limits in (stated_limits(one), (window.start, window.end))
        active = one.active if all(seen.values()) and i < known else visible[i]
        active = active if seen[i] else now.active
        stated[i] = Channel(
            one.label if is_named else layer.name.removeprefix(f"{picture.name}: "),
            colored.color,
            one.window if "limits" in same[i] or is_stated else now.window,
            active,
            colored.inverted,
        )
    shown = replace(
        omero,
        channels=tuple(stated[: max(known, count)]),
        greyscale=greyscale,
        **({} if whole else _planes_shown(viewer, layers[0], picture)),
    )
    colormaps = {x.name: x.colormap for x in layers if not _is_ramp(x.colormap)}
    left_out = [f"colormap {x.name} of {name}" for name, x in colormaps.items()]
    left_out += [f"gamma of {layer.name}" for layer in layers if layer.gamma != 1]
    channels = unstated | by_channel.keys()
    return DisplaySettings(picture, shown, frozenset(channels), tuple(left_out))


def _is_ramp(colormap: Any) -> bool:
    """Return whether a colormap goes from black to one colour, or back."""
    return len(colormap.colors) == 2 and not colormap.colors[:, :3].any(axis=1).all()


def channel_of(keywords: Mapping[str, Any], dtype: np.dtype[Any]) -> Channel | None:
    """Describe a channel by its name, colour, contrast and whether it is visible.

    A colormap becomes the colour of its brighter end, and gamma is left out: there is
    no more in OME-Zarr.

    Parameters
    ----------
    keywords
        Of the layer.
    dtype
        Of its pixels.

    Returns
    -------
    Channel or None
        None where neither colours nor contrast are given.
    """
    colormap, limits = keywords.get("colormap"), keywords.get("contrast_limits")
    if colormap is None and limits is None:
        return None
    color, inverted = brightest_color("gray" if colormap is None else colormap)
    start, end = dtype_range(dtype) if limits is None else (float(n) for n in limits)
    low, high = dtype_range(dtype)
    origin = origin_in(keywords.get("metadata", {}))
    stated = origin.contrast if origin is not None else None
    # The range of the slider, as the file had it: napari does not keep it in the layer.
    if stated is not None and stated.min is not None and stated.max is not None:
        low, high = stated.min, stated.max
    return Channel(
        str(keywords.get("name", "")) or None,
        color,
        # OME-Zarr wants start and end between min and max.
        ContrastWindow(start, end, min(low, start), max(high, end)),
        bool(keywords.get("visible", True)),
        inverted,
    )


def _planes_shown(
    viewer: ViewerModel, layer: Image, picture: LayerPlan
) -> dict[str, Any]:
    """Return the indices on the axes t and z of an image that the sliders show.

    An axis is left out where the image is not at that place, and where the file states
    no index and the middle is shown, as napari does by itself.
    """
    dims, order, places = viewer.dims, frame_of(picture).order, {}
    # napari aligns the axes of layers at the end.
    at_end = (i - dims.ndim for i in dims.not_displayed)
    hidden = {order[i] for i in at_end if -i <= len(order)}
    voxel = place_on_sliders([layer], dims)[1]
    for axis in hidden & voxel.keys():
        key = f"default_{picture.pyramid.multiscale.axis_names[axis].lower()}"
        index, size = round(voxel[axis]), picture.pyramid.levels[0].shape[axis]
        stated = getattr(picture.omero or Omero(), key, index)  # another axis
        is_usual = stated is None and index == (size - 1) // 2
        if stated != index and not is_usual and 0 <= index < size:
            places[key] = index
    return places


def has_same_channels(image: Node, settings: DisplaySettings) -> bool:
    """Return whether an image has as many channels as that on screen, with its labels.

    Labels as they were before, and those that are shown now.
    """
    picture = settings.picture
    shown = picture.omero or Omero(), settings.shown
    omeros = stated_omero(image), stated_omero(picture.node), *shown
    own, *known = ([channel.label for channel in omero.channels] for omero in omeros)
    count = channel_count(replace(picture, pyramid=open_pyramid(image)))
    return own in known and count == channel_count(picture)


def stated_omero(image: Node) -> Omero:
    """Return the settings in the file of an image, as it was read."""
    content = image.metadata.image
    return (None if content is None else content.omero) or Omero()


def save_settings(
    image: Node,
    settings: DisplaySettings,
    begin: Callable[[Store], Transaction] | None = None,
) -> str:
    """Save display settings into an image, or beside one that cannot be written.

    Parameters
    ----------
    image
        Into another one than that on screen all settings are put; else those that were
        changed.
    begin
        Gives the transaction of a source, which the caller commits.

    Returns
    -------
    str
        Path of the file that has them now.

    Raises
    ------
    OMEZarrError, OSError
        Where they cannot be saved.
    """
    picture, source = settings.picture, image.location.source
    shown = settings.shown
    if begin is not None:  # the fields may have other planes
        shown = replace(shown, default_t=None, default_z=None)
    is_kept = bool(source.why_not_written(image.location.path))
    before = picture.omero or Omero()
    is_other = str(image) != str(picture.node)
    # What was kept beside the image is not in its file.
    if is_other or (picture.keeps_display and not is_kept):
        before = Omero() if is_kept else stated_omero(image)
    version = image.metadata.version or UNSTATED
    put = partial(
        put_omero,
        shown=shown,
        before=before,
        channels=settings.channels,
        version=version,
    )
    if is_kept:
        return keep_settings(image, put)
    path = change_document(image, put, begin and begin(source))
    forget_settings(image)
    return path


def note_saved(layers: Iterable[Layer], settings: DisplaySettings, path: str) -> bool:
    """Note in the layers of an image what its file has now; False if it is its own."""
    address, is_kept = str(settings.picture.node), path.endswith(NAME)
    for layer in layers:
        origin = origin_of(layer)
        if origin and origin.picture and str(origin.node) == address:
            shown = replace(origin.picture, omero=settings.shown, keeps_display=is_kept)
            origin = replace(origin, picture=shown)
            if origin.given is not None:
                # Of settings that were forgotten, all is as if it had been changed.
                given = untouched_look(layer) if path else {}
                origin = replace(origin, given=given)
            layer.metadata[KEY] = origin
    return is_kept


def is_field(settings: DisplaySettings, browser: Browser | None) -> bool:
    """Return whether an image is a field, or an overview, of what is browsed."""
    if browser is None or browser.kind not in (GroupKind.PLATE, GroupKind.WELL):
        return False
    return str(settings.picture.node).startswith(f"{browser.node}/")


def save_display(
    viewer: ViewerModel,
    settings: DisplaySettings,
    browser: Browser | None = None,
    goes_on: Callable[[int, int], bool] = lambda *_: True,
) -> None:
    """Save display settings in a worker, and show the result.

    Parameters
    ----------
    settings
        What layers of the viewer show.
    browser
        To save into all fields that have the same channels.
    goes_on
        See `change_fields`; in the end called as when all are done.
    """
    address, paths = str(settings.picture.node), list[str]()

    def save(image: Node, *begin: Any) -> bool:
        if begin and not has_same_channels(image, settings):
            return False
        path = save_settings(image, settings, *begin)
        paths.extend([path] * (str(image) == address))
        return True

    def work() -> ChangedFields | None:
        try:
            if browser is not None:
                return browser.change_fields(save, goes_on)
            save(settings.picture.node)
            return None
        finally:
            goes_on(1, 1)

    def fail(error: Exception) -> None:
        title = f"Not saved: {shorten_name(settings.picture.name)}"
        Window.current.show_messages((error_text(error),), title)

    def show(result: ChangedFields | None) -> None:
        lines = paths
        if browser is not None and result is not None:
            lines = describe_fields(result)
            result.show_failures(browser.name_field, "Not saved")
        noted = settings
        if browser is not None:  # the position of the sliders is not saved
            stated = settings.picture.omero or Omero()
            t, z = stated.default_t, stated.default_z
            shown = replace(settings.shown, default_t=t, default_z=z)
            noted = replace(settings, shown=shown)
        is_kept = [note_saved(viewer.layers, noted, path) for path in paths]
        first = f"Display settings saved{' beside the image' * any(is_kept)}."
        notes = [f"OME-Zarr cannot state the {x}." for x in settings.left_out]
        Window.current.notify("\n".join((first, *lines, *notes)), is_warning=False)

    Window.current.run_work(work, show, fail)


def describe_fields(result: ChangedFields) -> list[str]:
    """Describe, for the user, what became of the fields."""
    lines = [f"In {count_noun(len(result.changed), 'field')}."]
    if result.unchanged:
        count = count_noun(len(result.unchanged), "field")
        lines.append(f"Left as they are, with other channels: {count}.")
    return lines


def forget_display(viewer: ViewerModel, settings: DisplaySettings) -> None:
    """Forget settings that are kept beside an image; what is shown stays."""
    image = settings.picture.node

    def show(_: None) -> None:
        note_saved(viewer.layers, replace(settings, shown=stated_omero(image)), "")
        text = "Opened again, the image has the settings of its file."
        Window.current.notify(f"Forgotten.\n{text}", is_warning=False)

    Window.current.run_work(partial(forget_settings, image), show)
