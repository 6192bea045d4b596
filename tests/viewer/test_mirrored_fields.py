"""Fields with negative scales lie in overviews where they lie alone."""

from __future__ import annotations

import itertools
import random
import shutil

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_ngff import open_node
from napari_ngff.plate.previews.preview import PreviewPlace, PreviewReader
from napari_ngff.store.hierarchy.image_folder import find_images
from napari_ngff.viewer.session import session_of
from plates import write_image, write_plate

SIZES = 12, 18
SIGNS = [*itertools.product((1, -1), repeat=2)]


def write_field(folder, number, sign, corner, scale=0.5, labels=()):
    """Write a field whose voxels all differ, with its lowest voxel at a corner."""
    shutil.rmtree(folder)
    data = 1000 * number + np.arange(1, 1 + SIZES[0] * SIZES[1]).reshape(1, *SIZES)
    planes = {}
    for axis, size, direction, start in zip("yx", SIZES, sign, corner, strict=True):
        first = start if direction > 0 else start + scale * (size - 1)
        planes[axis] = direction * scale, first
    write_image(folder, data.astype("u2"), 3, "zyx", planes=planes, labels=labels)


def values_of(viewer, kind="image"):
    """Return the value of each voxel of the first layer, by its world coordinates."""
    layer = next(x for x in viewer.layers if x._type_string == kind)
    data = np.asarray(layer.data[0] if layer.multiscale else layer.data)
    index = np.argwhere(data)
    world = np.round([layer.data_to_world(i) for i in index], 6)[:, -2:] + 0.0
    return dict(zip(map(tuple, world), data[tuple(index.T)].tolist(), strict=True))


def browse(root):
    viewer = ViewerModel()
    return viewer, session_of(viewer).browse(find_images(str(root)))


@pytest.mark.default_cases(
    "0-image", "1-labels", "2-image", "3-image", "4-image", "5-image"
)
@pytest.mark.parametrize("kind", ["image", "labels"])
@pytest.mark.parametrize("seed", range(6))
def test_a_field_of_a_well_is_where_it_is_alone(tmp_path, seed, kind):
    chance = random.Random(seed)
    root = write_plate(tmp_path / "p", grid=(1, 1), fields=3, shape=(1, *SIZES))
    one = chance.choice(SIGNS)
    # All as one, or each as it likes; some reach over each other.
    signs = [one] * 3 if seed % 2 else chance.choices(SIGNS, k=3)
    y, x = chance.choice([(0.0, 0.0), (-40.0, 100.0)])
    corners = [(y, x), (y + chance.choice([0, 6, 7.5]), x + 10.0), (y + 12, x - 9.0)]
    for number, (sign, corner) in enumerate(zip(signs, corners, strict=True)):
        write_field(root / f"A/1/{number}", number, sign, corner, labels=("cells",))
    viewer, browser = browse(root)
    alone = {}
    for number in range(3):
        browser.show_field("A/1", str(number))
        alone |= values_of(viewer, kind)
    browser.choose_labels("cells")
    browser.show_mosaic()
    assert values_of(viewer, kind) == alone


@pytest.mark.parametrize("sign", SIGNS)
def test_wells_lie_on_the_plate_as_their_names_say(tmp_path, sign):
    root = write_plate(tmp_path / "p", grid=(2, 2), fields=2, shape=(1, *SIZES))
    for number, well in enumerate(("A/1", "A/2", "B/1", "B/2")):
        for field in (0, 1):
            corner = 100.0, 200.0 + 9 * field
            write_field(root / well / str(field), 2 * number + field, sign, corner)
    viewer, browser = browse(root)
    browser.show_mosaic()
    cells = browser.layers.well_cells()
    assert cells["A/1"][0][0] < cells["B/1"][0][0]
    assert cells["A/1"][0][1] < cells["A/2"][0][1]
    for (y, x), value in values_of(viewer).items():
        number = (value - 1) // 1000
        row, column = divmod(number // 2, 2)
        well = "AB"[row] + f"/{column + 1}"
        found = browser.position_at((y, x))
        assert (found.well, found.field) == (well, str(number % 2))
    # Inside of a cell the fields are as in a well alone.
    here = {at: n for at, n in values_of(viewer).items() if n <= 2000}
    browser.show_mosaic(["A/1"])
    alone = values_of(viewer)
    shift = np.subtract(min(alone), min(here))
    assert {tuple(np.add(at, shift)): n for at, n in here.items()} == alone


def test_the_camera_stays_at_the_same_place_of_mirrored_fields(tmp_path):
    root = write_plate(tmp_path / "p", grid=(1, 1), fields=4, shape=(1, *SIZES))
    for number, sign in enumerate(SIGNS):
        write_field(root / f"A/1/{number}", number, sign, (50.0 * number, 7.0))
    viewer, browser = browse(root)
    browser.show_field("A/1", "0")
    viewer.scene.camera.center = (0, 2.0, 9.0)
    for number in (1, 3, 2, 0):
        browser.show_field("A/1", str(number))
        np.testing.assert_allclose(
            viewer.scene.camera.center[-2:], (50 * number + 2, 9)
        )


@pytest.mark.parametrize("sign", SIGNS)
def test_thumbnails_are_mirrored_as_overviews_are(tmp_path, sign):
    root = write_plate(tmp_path / "p", grid=(1, 1), fields=1, shape=(1, *SIZES))
    write_field(root / "A/1/0", 0, sign, (0.0, 0.0))
    reader = PreviewReader(open_node(root).location.source, 3)
    (plane,) = reader.read(PreviewPlace("A/1", well=True)).pixels
    expected = 1 + np.arange(SIZES[0] * SIZES[1]).reshape(SIZES)
    np.testing.assert_array_equal(plane, expected[:: sign[0], :: sign[1]])
