"""The brush is as large on the screen after an overview as before, in a real window."""

from __future__ import annotations

import pytest
from napari.layers import Labels

from mouse import camera, pump, until
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.session import session_of
from plates import write_plate

pytestmark = pytest.mark.slow


@pytest.fixture
def browser(viewer, tmp_path, monkeypatch):
    """The overview of a plate whose fields have labels."""
    use_workers()
    monkeypatch.setattr(settings, "saves_when_moving_on", lambda: True)
    where = write_plate(
        tmp_path / "p.ome.zarr",
        grid=(3, 4),
        fields=1,
        shape=(1, 64, 64),
        labelled=lambda _: ("nuclei",),
    )
    viewer.open(str(where), plugin="napari-ngff")
    until(lambda: session_of(viewer).browser is not None)
    return session_of(viewer).browser


def show_labels(viewer, browser, well):
    """Show the labels of a field once the camera rests."""
    browser.show_field(well, "0")
    until(lambda: browser.position is not None and browser.position.well == well)
    pump(300)
    layer = next(x for x in viewer.layers if isinstance(x, Labels))
    viewer.layers.selection.active = layer
    if not layer.visible:  # setting it twice takes the brush away (napari 0.9)
        layer.visible = True
    pump(100)
    return layer


def screen_size(viewer, layer):
    """Diameter of the brush in pixels of the screen."""
    return layer.brush_size * layer.scale[-1] * camera(viewer).zoom


def test_the_brush_is_as_large_after_the_overview(viewer, browser):
    layer = show_labels(viewer, browser, "B/2")
    layer.mode, layer.brush_size = "paint", 6
    pump(100)
    before = screen_size(viewer, layer)
    zoom = camera(viewer).zoom
    browser.show_mosaic()
    until(lambda: browser.position is None and not browser.is_drawing)
    pump(300)
    assert camera(viewer).zoom < zoom / 2
    layer = show_labels(viewer, browser, "C/3")
    assert layer.mode == "paint"
    voxel = layer.scale[-1] * camera(viewer).zoom
    assert screen_size(viewer, layer) == pytest.approx(before, abs=voxel / 2)
