"""View and annotate OME-Zarr in napari.

>>> from napari_ngff import open_node, open_pyramid
>>> node = open_node("cells.ome.zarr")  # doctest: +SKIP
>>> open_pyramid(node).levels[0].shape  # doctest: +SKIP
(3, 5, 1024, 1024)

Importing it loads neither napari nor Qt.
"""

from __future__ import annotations

from importlib.metadata import version

from napari_ngff.errors import (
    AccessError,
    ChunkError,
    CorruptDataError,
    NodeNotFoundError,
    NotOMEZarrError,
    OMEZarrError,
    ServerError,
    UnsupportedError,
)
from napari_ngff.store.node import Node, open_node
from napari_ngff.store.pyramid import Pyramid, open_pyramid

__all__ = [
    "AccessError",
    "ChunkError",
    "CorruptDataError",
    "Node",
    "NodeNotFoundError",
    "NotOMEZarrError",
    "OMEZarrError",
    "Pyramid",
    "ServerError",
    "UnsupportedError",
    "__version__",
    "open_node",
    "open_pyramid",
]

__version__ = version("napari-ngff")
