"""Images of any scale are seen in the window, and painted, beside ordinary ones."""

from __future__ import annotations

import numpy as np
import pytest

from mouse import drag, pump
from napari_ngff.viewer.painting.new_labels import new_labels
from plates import write_group, write_image

SIZE = 64


def write(folder, scale, label_scale):
    data = np.arange(3 * SIZE * SIZE).reshape(3, SIZE, SIZE).astype("u2")
    for group, label, voxel in [("", None, scale), ("labels/cells", {}, label_scale)]:
        planes = dict.fromkeys("zyx", (voxel, 0.0))
        write_image(folder / group, data, 3, "zyx", label=label, planes=planes)
    write_group(folder / "labels", {"labels": ["cells"]}, 3)
    return str(folder)


@pytest.mark.default_cases("1e-300")
@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e-9, 1e9, 1e30, 1e300])
def test_an_image_of_any_scale_is_seen_and_painted(viewer, tmp_path, scale):
    viewer.open(write(tmp_path / "i.ome.zarr", scale, 1.0), plugin="napari-ngff")
    image, cells = viewer.layers
    cells.visible = False
    np.testing.assert_allclose(cells.extent.world, image.extent.world)
    layer = viewer.add_layer(new_labels(image, "new"))
    layer.mode, layer.brush_size = "paint", 5
    pump(50)
    picture = viewer.screenshot(canvas_only=True, flash=False)
    assert len(np.unique(picture.reshape(-1, 4), axis=0)) > 50
    low, high = layer.extent.world[:, -2:]
    drag(viewer, [low + (high - low) * at for at in (0.4, 0.6)])
    painted = np.argwhere(np.asarray(layer.data[0]))
    np.testing.assert_allclose(painted.mean(0)[1:], SIZE / 2 - 0.5, atol=1)
    viewer.open(write(tmp_path / "j.ome.zarr", 1.0, 1.0), plugin="napari-ngff")
    pump(50)
    assert len(viewer.layers) == 5
    for number, slider in enumerate(viewer.window._qt_viewer.dims.slider_widgets):
        assert slider.slider.maximum() + 1 == viewer.dims.nsteps[number]


def test_the_slider_stays_at_a_last_plane_that_napari_would_not_count(viewer, tmp_path):
    data = np.arange(3 * SIZE * SIZE).reshape(3, SIZE, SIZE).astype("u2")
    write_image(tmp_path / "i.ome.zarr", data, 3, "zyx", planes={"z": (0.3, 6.65)})
    viewer.open(str(tmp_path / "i.ome.zarr"), plugin="napari-ngff")
    (slider, *_) = viewer.window._qt_viewer.dims.slider_widgets
    slider.slider.setValue(2)
    for name in ("a", "b"):
        layer = viewer.add_layer(new_labels(viewer.layers[0], name))
        assert viewer.dims.current_step[0] == slider.slider.value() == 2
        assert layer.world_to_data(viewer.dims.point)[0] == 2
