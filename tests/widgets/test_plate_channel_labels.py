"""Labels that have a channel axis, in the fields of a plate."""

import shutil

import numpy as np
import pytest

from napari_ngff.widgets.browser.host import browser_of
from plates import pixels, write_image, write_plate


@pytest.mark.long
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("axes", ["cyx", "yx"])
def test_a_plate_with_channels_in_its_labels_opens(
    viewer, tmp_path, qtbot, channels, axes
):
    plate = write_plate(
        tmp_path / "p.zarr",
        grid=(1, 2),
        fields=2,
        shape=(2, 8, 8),
        labelled=lambda _: ["cells"],
    )
    for image in plate.glob("A/*/[01]"):
        if axes == "yx":
            shutil.rmtree(image)
            write_image(image, pixels(1, (8, 8)), 3, axes="yx", labels=["cells"])
        shutil.rmtree(image / "labels/cells")
        values = np.arange(channels * 64).reshape(channels, 8, 8).astype("u4")
        write_image(image / "labels/cells", values, 3, axes="cyx", label={})
    viewer.open(str(plate), plugin="napari-ngff")
    qtbot.waitUntil(lambda: browser_of(viewer) is not None, timeout=20_000)
    labels = [layer for layer in viewer.layers if layer._type_string == "labels"]
    assert [layer.ndim for layer in labels] == [3 if channels == 3 else 2]
    browser_of(viewer)._browser.show_field("A/2")
    qtbot.waitUntil(
        lambda: browser_of(viewer)._browser.position is not None, timeout=20_000
    )
    qtbot.waitUntil(lambda: viewer.layers[0].level_shapes[0][-1] == 8, timeout=20_000)
