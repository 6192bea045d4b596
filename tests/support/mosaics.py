"""Opens plates as one picture, and reads pixels of it and of fields; for tests."""

from __future__ import annotations

import zarr

from napari_ngff import open_node
from napari_ngff.plate.arrangement import ScreenArrangements
from napari_ngff.plate.mosaic import open_mosaic
from napari_ngff.plate.plate_contents import PlateContents
from napari_ngff.plate.plate_layout import map_plate
from napari_ngff.plate.well_cells import WellChoice


def mosaic(root, wells=None, reported=None, **choice):
    """Join all wells of a plate, or some; `reported` gets what cannot be read."""
    node = open_node(root)
    found = map_plate(node.metadata.plate).wells
    chosen = [w for w in found if wells is None or w.path in wells]
    reported = reported.append if reported is not None else None
    return open_mosaic(
        ScreenArrangements(PlateContents(node)), chosen, WellChoice(**choice), reported
    )


def whole(source):
    """Read all of a level."""
    return source.read(tuple((0, size) for size in source.shape))


def stored(folder, level=0):
    """Read a level of a field with zarr."""
    return zarr.open_array(folder / str(level), mode="r")[...]
