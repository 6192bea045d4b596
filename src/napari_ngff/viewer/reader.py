"""The npe2 reader: any place of an OME-Zarr hierarchy, as napari layers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import NotOMEZarrError, OMEZarrError, UnsupportedError
from napari_ngff.metadata.model import Kind
from napari_ngff.store.node import Node, open_node
from napari_ngff.viewer.contents import contents, plate_above
from napari_ngff.viewer.frontend import ErrorReport, show
from napari_ngff.viewer.layers import layers_of
from napari_ngff.viewer.session import session_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari_ngff.viewer.picture import LayerData

__all__ = ["get_reader", "read", "read_node"]


def get_reader(path: str | Sequence[str]) -> Callable[[Any], list[LayerData]] | None:
    """Tell napari whether we read a path; looks at metadata alone.

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
        return read

    def read_opened(given: str | Sequence[str]) -> list[LayerData]:
        if given != path:
            return read(given)
        # Opened once: the index of a large archive takes time, a request too.
        return [layer for node in nodes for layer in read_node(node)]

    return read_opened


def folder_reader(paths: Sequence[str]) -> Callable[[Any], list[LayerData]] | None:
    """Have the images in a plain folder listed; None where there is nothing to list."""
    from napari_ngff.viewer.browsing.folder import image_folder, is_group

    viewer = current_viewer()
    if viewer is None or len(paths) != 1 or is_group(paths[0]):
        return None
    try:
        folder = image_folder(paths[0])
    except (OMEZarrError, OSError):
        return None
    if folder is None:
        return None

    def browse(_: Any) -> list[LayerData]:
        session_of(viewer).browse_folder(folder)
        return []

    return browse


def read(path: str | Sequence[str]) -> list[LayerData]:
    """Open one path or several; the layers of all.

    Raises
    ------
    OMEZarrError, OSError
        Where nothing can be shown; the message says why and what to do.
    """
    paths = [path] if isinstance(path, str) else list(path)
    return [layer for one in paths for layer in read_node(open_node(one))]


def read_node(node: Node) -> list[LayerData]:
    """Make the layers of a node, and tell the user what was left out.

    Raises
    ------
    UnsupportedError
        Where nothing of it can be shown.
    """
    viewer = current_viewer()
    if viewer is not None:
        session_of(viewer)
    found = contents(node, ErrorReport())
    browsed = browsable(node) if viewer is not None else None
    if browsed is not None:
        session_of(viewer).browse(browsed[0]).adopt(found.groups, browsed[1])
    layers: list[LayerData] = []
    messages = list(found.messages)
    for group in found.groups:
        images, labels, left = layers_of(group, estimate=viewer is not None)
        layers += images + labels
        messages += left
    if not layers:
        raise UnsupportedError(" ".join(messages))
    show(tuple(messages))
    return layers


def browsable(node: Node) -> tuple[Node, tuple[str, ...] | None] | None:
    """Find what can be walked from a node, without reading more than what is above.

    Returns
    -------
    tuple or None
        The plate, also of a well or of a row, or the well or the collection itself;
        and the paths of the wells that the node shows, None for all. None for an image.
    """
    if node.kind in (Kind.PLATE, Kind.COLLECTION, Kind.SCENE):
        return node, None
    if node.kind not in (None, Kind.WELL) or not node.location.path:
        return (node, None) if node.kind is Kind.WELL else None
    above = plate_above(node)
    plate = above.metadata.plate if above is not None else None
    if above is not None and plate is not None:
        inner = node.location.path[len(above.location.path) :].strip("/")
        paths = [well.path for well in plate.wells]
        wells = tuple(p for p in paths if p == inner or p.startswith(f"{inner}/"))
        if wells:
            return above, wells
    return (node, None) if node.kind is Kind.WELL else None


def current_viewer() -> Any:
    """Find napari's viewer whose window is in front, None where there is none."""
    # To answer that, napari would load Qt and all of its window: most of a second.
    if "qtpy" not in sys.modules:
        return None
    import napari

    return napari.current_viewer()
