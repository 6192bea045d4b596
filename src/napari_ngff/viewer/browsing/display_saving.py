"""Saves the display settings of an image, or of all fields with the same channels."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import error_text
from napari_ngff.metadata.model import GroupKind
from napari_ngff.viewer.layers.display_settings import (
    has_same_channels,
    note_saved,
    save_settings,
    stated_omero,
)
from napari_ngff.viewer.layers.image_layers import forget_settings
from napari_ngff.viewer.services.notices import count_noun, shorten_name
from napari_ngff.viewer.services.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.components import ViewerModel

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.browsing.browser import Browser
    from napari_ngff.viewer.browsing.field_labels import ChangedFields
    from napari_ngff.viewer.layers.display_settings import DisplaySettings


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
        is_kept = [note_saved(viewer.layers, settings, path) for path in paths]
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
