"""A field that is shown beside another image, and is not in view at first."""

from __future__ import annotations

import numpy as np
import pytest

from mouse import pump, until
from napari_ngff.plugin import use_workers
from napari_ngff.store.sources import server_access
from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.streaming.streamed_levels import fetcher
from napari_ngff.widgets.browser.host import show_browser
from plates import pixels, write_image, write_plate
from unreliable import serving

pytest.importorskip("aiohttp", reason="needs the extra [remote]")


@pytest.mark.long
def test_a_field_smaller_than_the_overview_before_it(viewer, tmp_path):
    # napari kept the part of the overview, and could not draw: nothing of the field is
    # there.
    use_workers()
    write_image(tmp_path / "cells.zarr", pixels(1, (2, 64, 64)), 3)
    write_plate(tmp_path / "plate.zarr")
    with serving(tmp_path) as server:
        viewer.open(f"{server.address}/cells.zarr", plugin="napari-ngff")
        pump(300)
        viewer.window._qt_viewer._qt_open([f"{server.address}/plate.zarr"], stack=False)
        until(lambda: show_browser(viewer) is not None)
        dock = show_browser(viewer)
        until(lambda: dock.browser() is not None and len(dock.map.state.pictures) == 6)
        until(lambda: not dock.isBusy() and not dock.browser().is_drawing)
        dock.browser().show_field("A/2")
        until(lambda: dock.browser().position == Position("A/2", "0", 0))
        until(lambda: not dock.isBusy() and not fetcher.is_busy)
        pump(300)
        field = viewer.layers[-1]
        shape = field.level_shapes[field.data_level]
        assert np.all(field.corner_pixels[1] < shape)
        assert field._slice.image.raw.size > 0
        until(lambda: not fetcher.is_busy)
    server_access.resume_reading()
