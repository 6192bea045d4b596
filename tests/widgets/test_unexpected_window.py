"""A window with pixels that cannot be decoded: it is told, it comes, and it closes."""

from __future__ import annotations

import numpy as np
import pytest
import zarr
from napari.utils.notifications import notification_manager

from mouse import pump, until
from napari_ngff.store.arrays import region_read
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.services.window import going_on
from napari_ngff.viewer.streaming import volume_fit, volume_slicing
from napari_ngff.viewer.streaming.streamed_levels import are_pixels_coming
from plates import write_image


@pytest.fixture
def stack(viewer, tmp_path, monkeypatch):
    """A stack whose chunks raise what nobody expects, once that is asked for."""
    z, y, x = np.mgrid[:3, :64, :64]
    pixels = (1000 * z + y + 2 * x + 1).astype("uint16")
    write_image(tmp_path / "a.ome.zarr", pixels, 3, "zyx", labels=("cells",))
    for place in ("0", "1", "labels/cells/0", "labels/cells/1"):
        path = str(tmp_path / "a.ome.zarr" / place)
        data = zarr.open_array(path, mode="r")[...]
        zarr.create_array(path, data=data, chunks=(1, 32, 32), overwrite=True)
    viewer.open(str(tmp_path / "a.ome.zarr"), plugin="napari-ngff")
    until(lambda: not are_pixels_coming())
    return tmp_path / "a.ome.zarr"


@pytest.fixture
def codecs(monkeypatch):
    failing, get = [], FolderStore.read

    def get_or_fail(source, key, *part):
        if failing and "/c/" in key:
            raise failing[0]
        return get(source, key, *part)

    monkeypatch.setattr(FolderStore, "read", get_or_fail)
    monkeypatch.setattr(volume_slicing, "READ_AT_ONCE", 1)
    monkeypatch.setattr(volume_slicing, "DRAWN_AT_ONCE", 1)
    monkeypatch.setattr(volume_fit, "CAMERA_REST", 0.02)
    return failing


def is_true(viewer, path):
    place = ... if viewer.dims.ndisplay == 3 else viewer.dims.current_step[0]
    for layer in viewer.layers:
        group = "labels/cells" if hasattr(layer, "saver") else "."
        stored = zarr.open_array(path / group / str(layer.data_level), mode="r")[place]
        if not np.array_equal(layer._slice.image.raw, stored):
            return False
    return True


def look(viewer, ndisplay, place):
    with going_on():  # as an event of Qt
        viewer.dims.ndisplay = ndisplay
    with going_on():
        viewer.dims.set_current_step(0, place)


def test_what_a_codec_raises_is_shown_and_the_next_picture_is_true(
    viewer, stack, codecs, unexpected
):
    for ndisplay in (2, 3):
        region_read.cache.clear()
        codecs.append(LookupError("a codec"))
        look(viewer, ndisplay, 2)
        until(lambda: notification_manager.records or unexpected)
        until(lambda: not are_pixels_coming())
        texts = [record.message for record in notification_manager.records]
        assert len(texts) <= 3, texts  # of images, and of labels where they are drawn
        codecs.clear()
        look(viewer, 2, 1)
        look(viewer, ndisplay, 0)
        until(lambda: is_true(viewer, stack))
        notification_manager.records.clear()
        unexpected.clear()
    # It closes while they fail.
    codecs.append(LookupError("a codec"))
    region_read.cache.clear()
    look(viewer, 3, 2)
    viewer.close()
    pump(50)
    unexpected.clear()
    notification_manager.records.clear()
