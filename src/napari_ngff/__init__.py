"""View and annotate OME-Zarr in napari.

Names are loaded when they are first used: importing this loads neither napari nor Qt.

Examples
--------
>>> import napari_ngff
>>> image = napari_ngff.open("cells.ome.zarr")  # doctest: +SKIP
>>> image.levels[0].shape  # doctest: +SKIP
(3, 5, 1024, 1024)
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from napari_ngff.api import (
        Collection,
        Image,
        LabelImage,
        Plate,
        Well,
        check,
        measure,
        pack,
        unpack,
    )
    from napari_ngff.api import open_ome_zarr as open  # noqa: A004  like tifffile's
    from napari_ngff.errors import (
        AccessError,
        ChunkError,
        ConflictError,
        CorruptDataError,
        LoginNeededError,
        NodeNotFoundError,
        NotOMEZarrError,
        OMEZarrError,
        ServerError,
        UnsupportedError,
    )
    from napari_ngff.labels.places.merge_sidecar import merge as merge_sidecar
    from napari_ngff.metadata.model import Problem, Reference
    from napari_ngff.store.convert.conversion import convert
    from napari_ngff.store.convert.rebuild_pyramid import rebuild
    from napari_ngff.store.hierarchy.coordinate_systems import (
        intrinsic_of,
        open_systems,
    )
    from napari_ngff.store.hierarchy.node import Node, open_node
    from napari_ngff.store.pyramids.pyramid import Pyramid, open_pyramid
    from napari_ngff.viewer.annotations.sidecars import edit_copy
    from napari_ngff.viewer.bridge.merge_result import merge
    from napari_ngff.viewer.bridge.view_volume import view_in_3d
    from napari_ngff.viewer.bridge.work_region import work_here, work_size
    from napari_ngff.viewer.composing.write_layers import write
    from napari_ngff.viewer.layers.user_alignment import save_alignment
    from napari_ngff.viewer.painting.new_labels import new_labels
    from napari_ngff.viewer.painting.object_edits import label_region
    from napari_ngff.viewer.reader import read_layers
    from napari_ngff.viewer.session import save, session_of

__all__ = [
    "AccessError",
    "ChunkError",
    "Collection",
    "ConflictError",
    "CorruptDataError",
    "Image",
    "LabelImage",
    "LoginNeededError",
    "Node",
    "NodeNotFoundError",
    "NotOMEZarrError",
    "OMEZarrError",
    "Plate",
    "Problem",
    "Pyramid",
    "Reference",
    "ServerError",
    "UnsupportedError",
    "Well",
    "__version__",
    "check",
    "convert",
    "edit_copy",
    "intrinsic_of",
    "label_region",
    "measure",
    "merge",
    "merge_sidecar",
    "new_labels",
    "open",
    "open_node",
    "open_pyramid",
    "open_systems",
    "pack",
    "read_layers",
    "rebuild",
    "save",
    "save_alignment",
    "session_of",
    "unpack",
    "view_in_3d",
    "work_here",
    "work_size",
    "write",
]

__version__ = version("napari-ngff")

_HOMES = {
    "api": (
        "Collection",
        "Image",
        "LabelImage",
        "Plate",
        "Well",
        "check",
        "measure",
        "pack",
        "unpack",
    ),
    "errors": (
        "AccessError",
        "ChunkError",
        "ConflictError",
        "CorruptDataError",
        "LoginNeededError",
        "NodeNotFoundError",
        "NotOMEZarrError",
        "OMEZarrError",
        "ServerError",
        "UnsupportedError",
    ),
    "metadata.model": ("Problem", "Reference"),
    "store.convert.conversion": ("convert",),
    "store.convert.rebuild_pyramid": ("rebuild",),
    "store.hierarchy.node": ("Node", "open_node"),
    "store.pyramids.pyramid": ("Pyramid", "open_pyramid"),
    "store.hierarchy.coordinate_systems": ("intrinsic_of", "open_systems"),
    "viewer.layers.user_alignment": ("save_alignment",),
    "viewer.bridge.merge_result": ("merge",),
    "viewer.painting.object_edits": ("label_region",),
    "viewer.bridge.view_volume": ("view_in_3d",),
    "viewer.bridge.work_region": ("work_here", "work_size"),
    "viewer.painting.new_labels": ("new_labels",),
    "viewer.reader": ("read_layers",),
    "viewer.annotations.sidecars": ("edit_copy",),
    "viewer.session": ("save", "session_of"),
    "viewer.composing.write_layers": ("write",),
}
"""Modules of the public names, below ``napari_ngff``."""

_RENAMED = {
    "merge_sidecar": ("labels.places.merge_sidecar", "merge"),
    "open": ("api", "open_ome_zarr"),
}
_PLACES = {name: (home, name) for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    place = _RENAMED.get(name) or _PLACES.get(name)
    if place is None:
        msg = f"module 'napari_ngff' has no attribute {name!r}"
        raise AttributeError(msg)
    home, inner = place
    if home.startswith("viewer."):
        serve_windows()
    return getattr(import_module(f"napari_ngff.{home}"), inner)


def serve_windows() -> None:
    """Let each window be served that gets a layer of ours, however late it is made."""
    window = import_module("napari_ngff.viewer.services.window").Window.current
    # Imported only then: not every script has a window.
    home = "napari_ngff.widgets.installation"
    window.starter = window.starter or (
        lambda viewer: import_module(home).start_services(viewer)
    )


def __dir__() -> list[str]:
    return __all__
