"""Tutorial: a stack in 3D, and a large image that is painted at one place."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from napari_ngff.viewer.layers.volume_layers import is_volume
from napari_ngff.viewer.samples import write_stack
from person import Person, needs_pointer

pytestmark = needs_pointer

SIDE = 30_000


def write_large(where):
    """Write a pyramid of which only the middle has pixels."""
    group = zarr.create_group(where, zarr_format=3)
    levels, middle = [], np.indices((512, 512)).sum(axis=0).astype("u2")
    for level in range(7):
        size = SIDE >> level
        array = group.create_array(
            str(level), shape=(size, size), chunks=(512, 512), dtype="u2",
            dimension_names=["y", "x"],
        )  # fmt: skip
        half = size // 2
        part = middle[:: 1 << max(0, level - 5), :: 1 << max(0, level - 5)]
        array[half - 128 : half + 128, half - 128 : half + 128] = part[:256, :256]
        scale = [0.25 * 2**level] * 2
        shift = [0.125 * (2**level - 1)] * 2
        steps = [
            {"type": "scale", "scale": scale},
            {"type": "translation", "translation": shift},
        ]
        levels.append({"path": str(level), "coordinateTransformations": steps})
    axes = [{"name": n, "type": "space", "unit": "micrometer"} for n in "yx"]
    multiscale = {"axes": axes, "datasets": levels, "name": "slide"}
    group.attrs["ome"] = {"version": "0.5", "multiscales": [multiscale]}
    return where


@pytest.mark.long
def test_a_stack_in_3d_and_a_large_image(viewer, tmp_path):
    stack = write_stack(tmp_path / "stack.ome.zarr", shape=(16, 160, 160))
    large = write_large(tmp_path / "slide.ome.zarr")

    def tutorial(person):
        person.drop(stack)
        person.layer("nuclei")
        person.step("stack")
        view_volume(person)
        person.remove_layers()
        paint_large(person, large)

    Person(viewer, "view-depth").take(tutorial)
    stored = zarr.open_array(large / "labels/spot/0", mode="r")
    assert stored.shape == (SIDE, SIDE)
    assert stored[SIDE // 2, SIDE // 2] == 1
    files = list((large / "labels/spot").rglob("c/*/*"))
    assert len(files) < 30, "only what was painted is written"


def view_volume(person):
    viewer = person.viewer
    person.choose("Layers", "Visualize", "View a region in 3D… (OME-Zarr)")
    person.click_button("View in 3D")
    person.sees(lambda: any(map(is_volume, viewer.layers)))
    person.sees(lambda: viewer.dims.ndisplay == 3)
    person.rest(0.3)
    person.step("volume")

    person.click(viewer.window._qt_viewer.viewerButtons.ndisplayButton)
    person.sees(lambda: viewer.dims.ndisplay == 2)
    person.sees(lambda: not any(x.visible for x in viewer.layers if is_volume(x)))
    person.rest(0.3)
    person.step("back")


def paint_large(person, path):
    person.drop(path)
    image = person.layer("slide")
    middle = np.array(image.extent.world[:, -2:]).mean(axis=0)
    person.wheel(middle, 12)
    person.sees(lambda: image.data_level < 4)
    layer = person.make_labels("spot")
    aside = np.array([0, 20 / person.viewer.scene.camera.zoom])
    person.draw([middle - aside, middle, middle + aside])
    assert layer.unsaved
    person.step("large")
    person.save(layer)
