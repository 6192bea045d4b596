"""The npe2 reader: any place of an OME-Zarr hierarchy, as napari layers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import NotOMEZarrError, OMEZarrError, UnsupportedError
from napari_ngff.store.node import Node, open_node
from napari_ngff.viewer.contents import contents
from napari_ngff.viewer.label_layers import label_layer
from napari_ngff.viewer.layers import image_layers
from napari_ngff.viewer.session import ErrorReport, session_of, show

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
        is broken is ours to explain: `read` raises for it.
    """
    paths = [path] if isinstance(path, str) else list(path)
    try:
        nodes = [open_node(one) for one in paths]
    except NotOMEZarrError:
        return None
    except (OMEZarrError, OSError):
        return read

    def read_opened(given: str | Sequence[str]) -> list[LayerData]:
        if given != path:
            return read(given)
        # Opened once: the index of a large archive takes time, a request too.
        return [layer for node in nodes for layer in read_node(node)]

    return read_opened


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
    layers: list[LayerData] = []
    messages = list(found.messages)
    for group in found.groups:
        if group.image is not None:
            layers += image_layers(group.image, estimate=viewer is not None)
        labels: list[LayerData] = []
        for label in group.labels:
            try:
                labels.append(label_layer(label, group.frame))
            except UnsupportedError as error:
                messages.append(f"{error} It is left out.")
        for _, keywords, _ in labels[1:]:
            # Several label images over each other hide one another and the picture.
            keywords["visible"] = False
        layers += labels
    if not layers:
        raise UnsupportedError(" ".join(messages))
    show(tuple(messages))
    return layers


def current_viewer() -> Any:
    """Find napari's viewer whose window is in front, None where there is none."""
    # To answer that, napari would load Qt and all of its window: most of a second.
    if "qtpy" not in sys.modules:
        return None
    import napari

    return napari.current_viewer()
