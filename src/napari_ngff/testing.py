"""Small OME-Zarr files to try code on: an image, a stack and a plate with labels."""

from __future__ import annotations

from napari_ngff.viewer.samples import write_image, write_plate, write_stack

__all__ = ["write_image", "write_plate", "write_stack"]
