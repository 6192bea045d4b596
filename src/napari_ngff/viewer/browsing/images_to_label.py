"""Lists images for new labels: those on screen, and the fields of an overview."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from napari.layers import Image, Layer

from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.plans.layer_plan import is_joined, origin_of, picture_of
from napari_ngff.viewer.services.window import Window, attempt_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from napari.components import ViewerModel

    from napari_ngff.viewer.browsing.browser import Browser


def image_choices(
    layers: Iterable[Layer], browser: Browser | None = None
) -> list[tuple[str, Image]]:
    """List images by name, each once whatever its number of channels.

    Parameters
    ----------
    browser
        If given, the field that it shows has the name of the caption on the canvas,
        and images of other acquisitions beside it are left out.

    Returns
    -------
    list
        A unique name, and the first layer of the image.
    """
    # The first channel stands for its image.
    first_channels: dict[str, Image] = {}
    for layer in layers:
        if isinstance(layer, Image) and not _is_beside(layer, browser):
            first_channels.setdefault(_image_key(layer), layer)
    counts: Counter[str] = Counter()
    choices = []
    for layer in first_channels.values():
        name = _image_name(layer, browser)
        counts[name] += 1
        number = f" [{counts[name]}]" if counts[name] > 1 else ""
        choices.append((f"{name}{number}", layer))
    return choices


def _is_beside(layer: Layer, browser: Browser | None) -> bool:
    """Return whether a layer shows another acquisition than the field asked for."""
    return (
        browser is not None
        and browser.position is not None
        and browser.layers.owns_layer(layer)
        and browser.layers.position_of(layer) != browser.position
    )


def same_image(layer: Layer, choices: Iterable[tuple[str, Image]]) -> Image | None:
    """Return the image of `image_choices` to which a channel or label layer belongs."""
    key = _image_key(layer).rsplit("/labels/", 1)[0]
    return next((image for _, image in choices if _image_key(image) == key), None)


def _image_key(layer: Layer) -> str:
    origin = origin_of(layer)
    # Layers of other origin are images of their own.
    return str(origin.node) if origin is not None else f"{id(layer)}"


def _image_name(layer: Layer, browser: Browser | None) -> str:
    picture = picture_of(layer)
    name: str = layer.name if picture is None else picture.name
    if picture is None or is_joined(picture):
        return name
    # The picture of every field of a plate has the name of the plate.
    return (browser.title_of(layer) if browser is not None else "") or name


def overview_browser(browser: Browser | None, layer: Layer | None) -> Browser | None:
    """Return the browser of a viewer, if it can open a field of an overview.

    Returns
    -------
    Browser or None
        None where the layer shows one image, or an overview that is not browsed.
    """
    picture = picture_of(layer)
    if picture is None or not is_joined(picture):
        return None
    return browser if browser is not None and browser.layers.owns_layer(layer) else None


def position_in_view(viewer: ViewerModel, browser: Browser) -> Position:
    """Return the field in the middle of an overview's view, else the first well."""
    middle = browser.position_at(viewer.scene.camera.center[-2:])
    return middle or Position(next(iter(browser.shown_wells), None), "")


def well_choices(browser: Browser) -> list[tuple[str, str | None]]:
    """List the wells by name, with their paths; one unnamed well without a plate."""
    return [(well.name, well.path) for well in browser.map.wells] or [("", None)]


def field_choices(
    browser: Browser,
    well: str | None,
    done: Callable[[list[tuple[str, Position]] | str], None],
) -> None:
    """Read the fields of a well in a worker; `done` gets them, or the reason."""

    def work() -> list[tuple[str, Position]] | str:
        fields = browser.fields_of(well).fields
        choices = [
            (place.title, place.position) for place in fields if not place.problem
        ]
        return choices or "No field of this well can be read."

    Window.current.run_work(partial(attempt_work, work), done)


def open_field(
    browser: Browser,
    position: Position,
    images: Callable[[], Iterable[Layer]],
    done: Callable[[Image | None], None],
) -> None:
    """Open a field; `done` gets its first layer once all of them are on screen.

    Parameters
    ----------
    images
        Returns the layers of the viewer.
    done
        Called with None if the field was not opened; the browser has shown the reason.
    """

    def finish(busy: bool) -> None:
        if busy:
            return
        browser.busy.disconnect(finish)
        # Another field may have been chosen meanwhile, or this one cannot be read.
        now = browser.position
        reached = now is not None and (
            (now.well, now.field) == (position.well, position.field)
        )
        owned = [
            x for x in images() if isinstance(x, Image) and browser.layers.owns_layer(x)
        ]
        done(owned[0] if reached and owned else None)

    # Before the field is asked for, so that its end is not missed.
    browser.busy.connect(finish)
    browser.show_field(position.well, position.field)
