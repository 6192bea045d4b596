"""Cells and boxes of labels; see `napari_ngff.store.boxes`."""

from napari_ngff.store.boxes import (
    Cell,
    box_of,
    cell_at,
    cells_in,
    hull,
    inside,
    overlap,
)

__all__ = ["Cell", "box_of", "cell_at", "cells_in", "hull", "inside", "overlap"]
