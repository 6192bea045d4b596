"""What we keep in napari's preferences."""

from __future__ import annotations

__all__ = ["PLUGIN", "READER_PATTERNS", "is_default_reader", "make_default_reader"]

PLUGIN = "napari-ngff"

READER_PATTERNS = ("*.zarr*", "*.ozx")
"""``*.zarr`` never matches a folder, to whose path napari adds a slash; ``*.zarr*``
matches folders, addresses and zip files (napari 0.9)."""


def is_default_reader() -> bool:
    """Tell whether napari opens OME-Zarr with us without asking."""
    from napari.settings import get_settings

    chosen = get_settings().plugins.extension2reader
    return all(chosen.get(pattern) == PLUGIN for pattern in READER_PATTERNS)


def make_default_reader() -> None:
    """Set the preference; what the user chose for other patterns stays."""
    from napari.settings import get_settings

    plugins = get_settings().plugins
    plugins.extension2reader = {
        **plugins.extension2reader,
        **dict.fromkeys(READER_PATTERNS, PLUGIN),
    }
