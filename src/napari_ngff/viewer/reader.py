"""The npe2 reader: any place of an OME-Zarr hierarchy, as napari layers.

Where no window streams remote pixels, the first ones are read at once.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import (
    NotOMEZarrError,
    OMEZarrError,
    UnsupportedError,
    beyond_limits,
)
from napari_ngff.labels.field_states import LastAnnotated, read_last_annotated
from napari_ngff.metadata.model import GroupKind, Severity
from napari_ngff.plate.mosaic_level import MosaicLevel
from napari_ngff.store.arrays.lazy_array import LazyArray
from napari_ngff.store.hierarchy.image_folder import BROWSED, find_plates, is_group
from napari_ngff.store.hierarchy.node import Node, open_node
from napari_ngff.store.pyramids.pyramid import LevelSource, innermost_source
from napari_ngff.store.sources.read_ahead import call_at_once
from napari_ngff.viewer.layers.image_layers import OVER_IMAGE, layers_of
from napari_ngff.viewer.layers.node_contents import (
    NodeContents,
    open_contents,
    plate_above,
)
from napari_ngff.viewer.plans.layer_plan import LayerData, is_joined, origin_of
from napari_ngff.viewer.private.napari_layers import forget_thumbnail
from napari_ngff.viewer.private.slicing import is_slicing
from napari_ngff.viewer.services.error_report import ErrorReport
from napari_ngff.viewer.services.notices import count_noun, last_part, shorten_name
from napari_ngff.viewer.services.window import Window, attempt_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from napari.layers import Layer

    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.store.arrays.chunked_array import ChunkedArray
    from napari_ngff.viewer.browsing.browser import Browser
    from napari_ngff.viewer.layers.layer_groups import LayerGroup
    from napari_ngff.viewer.session import Session


def get_reader(path: str | Sequence[str]) -> Callable[[Any], list[LayerData]] | None:
    """Return whether we read a path, for napari; looks at metadata alone.

    Returns
    -------
    callable or None
        None where it is no OME-Zarr, so that others may. What looks like OME-Zarr and
        is broken is ours to explain: `read` raises for it. A plain folder with images
        in it is listed in the browser of the window.
    """
    paths = [path] if isinstance(path, str) else list(path)
    try:
        nodes = [open_node(one) for one in paths]
    except NotOMEZarrError:
        return folder_reader(paths)
    except (OMEZarrError, OSError):
        return read_paths

    def read_opened(given: str | Sequence[str]) -> list[LayerData]:
        if given != path:
            return read_paths(given)
        # Opened once: the index of a large archive takes time, a request too.
        return _read_nodes(nodes)

    return read_opened


def folder_reader(paths: Sequence[str]) -> Callable[[Any], list[LayerData]] | None:
    """Have the images in a plain folder listed; None where there is nothing to list."""
    from napari_ngff.store.hierarchy.image_folder import find_first_image, image_folder

    viewer = current_viewer()
    if viewer is None or len(paths) != 1:
        return None
    try:
        folder = image_folder(paths[0])
    except (OMEZarrError, OSError):
        return None
    if folder is None:
        return None

    def browse(_: Any) -> list[LayerData]:
        browser = browse_folder(viewer, folder)
        first = find_first_image(folder)
        if first is not None:
            browser.show_field(None, first)
        return []

    return browse


def browse_folder(viewer: Any, node: Node) -> Browser:
    """Browse a node from now on; what it lists is opened when it is chosen."""
    from napari_ngff.viewer.session import session_of

    session = session_of(viewer)
    browser = session.browse(node)

    def list_found(plates: tuple[str, ...]) -> None:
        session.plates.add_plates(plates)
        are_all = 0 < len(plates) == len(node.metadata.series or ())
        if are_all and session.browser is browser:
            show_listed(session, plates[0])

    if not len(browser.path_opened):
        browser.path_opened.connect(partial(show_listed, session))
        Window.current.run_work(partial(find_plates, node), list_found)
    return browser


def show_listed(
    session: Session, address: str, then: Callable[[], Any] = lambda: None
) -> None:
    """Show what a session lists: as it was left, or read for the first time.

    Parameters
    ----------
    then
        Called once it is shown, unless something else is wanted by then.
    """
    plates, known = session.plates, session.plates.browsers.get(address)
    plates.wanted = address

    def done(found: list[LayerData] | str) -> None:
        if isinstance(found, str):
            Window.current.show_messages(
                (found,), f"Not opened: {shorten_name(last_part(address))}"
            )
            plates.add_plates()  # with the one on screen chosen
        else:
            session.add(found, address)
            later = plates.browsers.get(plates.wanted)
            if later is not None:
                session.browse(later.node)
            if plates.wanted == address:
                then()

    if known is not None and (known.kind is GroupKind.SERIES or known.layers.by_slot()):
        session.browse(known.node)
        then()
    else:
        Window.current.run_work(
            partial(attempt_work, partial(read_paths, address)), done
        )


@beyond_limits()
def read_paths(path: str | Sequence[str]) -> list[LayerData]:
    """Open one path or several; the layers of all.

    Raises
    ------
    OMEZarrError, OSError
        Where nothing can be shown; the message says why and what to do.
    """
    paths = [path] if isinstance(path, str) else list(path)
    return _read_nodes(open_node(one) for one in paths)


def _read_nodes(nodes: Iterable[Node]) -> list[LayerData]:
    """Read nodes that are opened together; of several plates the last one is seen."""
    return [x for node in nodes if not _shows_again(node) for x in read_node(node)]


def _shows_again(node: Node) -> bool:
    """Show a plate that is listed, as it was left; False for what is to be read."""
    viewer = current_viewer()
    if viewer is None or node.kind not in BROWSED:
        return False
    from napari_ngff.viewer.session import session_of

    session = session_of(viewer)
    known = session.plates.browsers.get(str(node))
    if known is None or not known.layers.by_slot():
        return False
    Window.current.run_in_main(partial(session.browse, known.node))
    return True


def read_layers(path: str | Path | Sequence[str]) -> list[Layer]:
    """Read the layers of one path or several, as napari would add them.

    Parameters
    ----------
    path
        Anything that `napari_ngff.open` opens.

    Returns
    -------
    list
        Image layers, and label layers that can be painted and saved.

    Raises
    ------
    OMEZarrError, OSError
        Where nothing can be shown; the message says what to do.
    """
    from napari_ngff.viewer.painting.painted_layers import as_layer

    paths = [path] if isinstance(path, str | Path) else path
    found = [data for one in paths for data in read_node(open_node(str(one)))]
    if current_viewer() is None:
        read_first_pixels(found, shown=False)
    layers = [as_layer(data) for data in found]
    for layer in layers:
        forget_drawing(layer)
    return layers


@beyond_limits()
def read_node(node: Node) -> list[LayerData]:
    """Make the layers of a node, and show the user what was left out.

    Raises
    ------
    UnsupportedError
        Where nothing of it can be shown.
    """
    viewer = current_viewer()
    if viewer is not None:
        # Not without a window: it imports all that is done to layers there.
        from napari_ngff.viewer.session import session_of

        session_of(viewer)
    browsed = find_browsable(node) if viewer is not None else None
    annotated = LastAnnotated() if browsed is None else read_last_annotated(browsed[0])
    # The others of a collection are opened by the browser, one at a time.
    node_contents = open_contents(
        node,
        ErrorReport(),
        first_image=browsed is not None,
        samples_pixels=viewer is None,
        annotated=annotated,
    )
    if viewer is None:
        draw_overviews_later(node_contents.groups, lambda: current_viewer())
    if browsed is not None:
        # Before the layers, also where this is a worker: what it asks for comes first.
        Window.current.run_in_main(
            lambda: _browse_node(
                viewer, *browsed, node_contents.groups, annotated.labels
            )
        )
    layers: list[LayerData] = []
    messages = list(node_contents.messages)
    for group in node_contents.groups:
        images, labels, left = layers_of(group, estimate=viewer is not None)
        _set_visibility(viewer, group, labels, annotated.labels)
        layers += images + labels
        messages += left
    if not layers:
        raise UnsupportedError(" ".join(messages))
    show_left_out(tuple(messages))
    _show_notes(viewer, node, node_contents)
    return layers


def _set_visibility(
    viewer: Any, group: LayerGroup, labels: list[LayerData], annotated: str
) -> None:
    """Choose which labels are seen, and how strongly; name an image that is left."""
    if group.image is not None and is_joined(group.image):
        for _, keywords, _ in labels:
            # A plate in false colours shows nothing of its images.
            keywords["visible"] = keywords["name"] == annotated
    if group.unopened_image is None:
        return
    origins = [origin_of(layer) for layer in viewer.layers] if viewer else []
    name = str(group.unopened_image)
    if name in {str(origin.node) for origin in origins if origin is not None}:
        for _, keywords, _ in labels:
            keywords["opacity"] = OVER_IMAGE
    else:
        text = f"These labels belong to {name}. Open it to see image and labels."
        Window.current.show_messages((text,), "Labels without their image.")


def _browse_node(
    viewer: Any,
    node: Node,
    wells: Sequence[str] | None,
    groups: Sequence[LayerGroup],
    labels: str,
) -> None:
    from napari_ngff.viewer.session import session_of

    if Window.current.is_open(viewer):
        browser = session_of(viewer).browse(node, anew=True)
        if browser.labels is None and labels:
            # Nothing is on screen yet that would have to be shown again with them.
            browser.choose_labels(labels)
        browser.adopt_mosaics(groups, wells)


def show_left_out(messages: tuple[str, ...]) -> None:
    """Show what was left out of a file that is opened."""
    Window.current.show_messages(
        messages, f"Opened with {count_noun(len(messages), 'note')}."
    )


def _show_notes(viewer: Any, node: Node, node_contents: NodeContents) -> None:
    """Show the notes about a node, and in a window its errors."""
    for text, details in node_contents.notes:
        Window.current.show_messages((details,), text)
    errors = tuple(p for p in node_contents.problems if p.severity is Severity.ERROR)
    if viewer is not None and errors:
        Window.current.show_problems(viewer, str(node), errors)


def find_browsable(node: Node) -> tuple[Node, tuple[str, ...] | None] | None:
    """Find what can be browsed from a node, without reading more than what is above.

    Returns
    -------
    tuple or None
        The plate, also of a well or of a row, or the well or the collection itself;
        and the paths of the wells that the node shows, None for all. None for an image.
    """
    if node.kind in (GroupKind.PLATE, GroupKind.COLLECTION, GroupKind.SCENE):
        return node, None
    if node.kind not in (None, GroupKind.WELL) or not node.location.path:
        return (node, None) if node.kind is GroupKind.WELL else None
    above = plate_above(node)
    plate = above.metadata.plate if above is not None else None
    if above is not None and plate is not None:
        inner = node.location.path[len(above.location.path) :].strip("/")
        paths = [well.path for well in plate.wells]
        wells = tuple(p for p in paths if p == inner or p.startswith(f"{inner}/"))
        if wells:
            return above, wells
    return (node, None) if node.kind is GroupKind.WELL else None


def current_viewer() -> Any:
    """Find napari's viewer whose window is in front, None where there is none."""
    # To answer that, napari would load Qt and all of its window: most of a second.
    if "qtpy" not in sys.modules:
        return None
    import napari

    return napari.current_viewer()


def plain_reader(
    viewer: Any, path: str | Sequence[str]
) -> Callable[[Any], list[Any]] | None:
    """Open plain zarr and other folders with napari's own reader; None for the rest.

    Where napari asked us first, it would show an error if we declined.
    """
    paths = [path] if isinstance(path, str) else list(path)
    if not paths or not all(_is_plain(one) for one in paths):
        return None

    def read_plain(_: Any) -> list[Any]:
        for one in paths:
            what = "a plain zarr array" if is_group(one) else "a folder of images"
            try:
                viewer.open(one, plugin="napari")
            except Exception as error:  # noqa: BLE001  whatever a reader raises
                text = f"{one}: Nothing can be read as {what}. {error}"
            else:
                text = f"{one}: Opened as {what}."
            Window.current.show_messages((text,), "Not an OME-Zarr.")
        return []

    return read_plain


def _is_plain(path: str) -> bool:
    """Return whether a path is plain zarr, or a folder that has no name of zarr."""
    named = path.rstrip("/\\").lower().endswith(".zarr")
    return is_group(path) or (os.path.isdir(path) and not named)


MOST_VOXELS = 10_000_000
"""Voxels of the coarsest level up to which napari 0.9 reads all of it for contrast
(``calc_data_range``)."""

PLANE = 2
"""Number of axes of a level of which napari draws all at once."""


def read_first_pixels(layers: Sequence[LayerData], *, shown: bool) -> None:
    """Decode the coarsest levels that napari reads next, one layer after the other.

    Decoded chunks stay in memory. Local pixels, and plates, are left to napari.

    Parameters
    ----------
    layers
        That are about to be made.
    shown
        Whether they are added to a viewer; otherwise they are only made.
    """
    calls, source, known = [], None, set()
    for data, keywords, kind in layers:
        level = data[-1] if isinstance(data, list) else data
        array = _remote_array(level)
        if array is None or level.size > MOST_VOXELS:
            continue
        is_drawn = keywords.get("visible", True) and level.ndim == PLANE
        # napari measures the contrast of hidden layers, too; of 8 bits it takes all.
        is_measured = "contrast_limits" not in keywords and level.dtype != np.uint8
        chunks = _first_chunk(level, array)
        if chunks not in known and (
            (kind == "image" and is_measured)
            or (is_drawn and (shown or kind == "labels"))
        ):
            calls.append(partial(_decode_level, level))
            source = array.source
            known.add(chunks)
    if source is not None:
        call_at_once(source, calls)


def _remote_array(level: Any) -> ChunkedArray | None:
    """Return the array of a level that a server has; None for other levels."""
    window = level.window if isinstance(level, LazyArray) else None
    inner = innermost_source(window)
    if not isinstance(inner, LevelSource):
        return None
    return inner.array if inner.array.source.traits.is_remote else None


def _first_chunk(level: Any, array: ChunkedArray) -> tuple[Any, ...]:
    """Return which chunks a level consists of: channels may share theirs."""
    spans = zip(level.window.box, array.chunks, strict=True)
    return array.path, *(start // max(size, 1) for (start, _), size in spans)


def _decode_level(level: Any) -> None:
    # napari meets the same error, whatever a codec raises, and reports it.
    with suppress(Exception):
        np.asarray(level)


def draw_overviews_later(
    groups: Iterable[LayerGroup], find_viewer: Callable[[], Any]
) -> None:
    """Let overviews of remote plates be empty in viewers without a window.

    Nobody sees them, and drawing them takes several requests for each well. Code that
    asks for the data gets all pixels.

    Parameters
    ----------
    groups
        About to become layers.
    find_viewer
        Returns napari's viewer with a window, or None.
    """

    def leave_empty(level: Any, box: Box) -> bool:
        return find_viewer() is None and is_slicing()

    for group in groups:
        for plan in (group.image, *group.labels):
            level = plan.pyramid.levels[0] if plan is not None else None
            if isinstance(level, MosaicLevel) and level.tiles.concurrency > 1:
                level.tiles.defer = leave_empty


def forget_drawing(layer: Any) -> None:
    """Let a layer be drawn anew by the next viewer: it may have a window."""
    origin = origin_of(layer)
    plan = origin.picture if origin is not None else None
    if plan is not None and is_joined(plan):
        forget_thumbnail(layer)
