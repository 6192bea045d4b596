"""Images whose scales no window could draw are shown, in pixels, and say so."""

from __future__ import annotations

import random
import shutil

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_ngff import open_node
from napari_ngff.viewer.layers.image_layers import layers_of
from napari_ngff.viewer.layers.node_contents import open_contents
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.session import session_of
from plates import write_group, write_image, write_plate

EXPONENTS = (-308, -300, -100, -30, -12, -9, -7, -3, 0, 3, 7, 9, 12, 30, 100, 300, 307)
LABELS = None, "same", "none"


def write(folder, scale, label_scale=None, start=0.0, sign=1):
    """Write an image of voxels of one size, and labels of another."""
    shape = (3, 16, 20)
    planes = dict.fromkeys("zyx", (sign * scale, start))
    data = np.arange(1, 961).reshape(shape).astype("u2")
    write_image(folder, data, 3, "zyx", planes=planes)
    if label_scale is not None:
        planes = dict.fromkeys("zyx", (label_scale, 0.0))
        write_group(folder / "labels", {"labels": ["cells"]}, 3)
        cells = np.ones(shape, "u2")
        write_image(folder / "labels/cells", cells, 3, "zyx", label={}, planes=planes)
    return folder


def show(viewer, contents):
    for group in contents.groups:
        images, labels, _ = layers_of(group)
        for data in (*images, *labels):
            viewer.add_layer(as_layer(data))


def check_drawn(viewer):
    """Every layer is drawn, and each slider has a number of steps that Qt takes."""
    viewer.dims.point = (0.0,) * viewer.dims.ndim
    for layer in viewer.layers:
        assert np.isfinite(layer.extent.world).all()
        assert (layer.extent.step > 0).all()
        assert not layer._slice.empty
        assert np.ptp(layer.extent.world[:, -2:], axis=0).min() > 1e-8
    assert max(viewer.dims.nsteps) < 10**8


@pytest.mark.default_cases(
    *(f"{labels}-{n}" for labels in LABELS for n in (-308, -9, -7, 0, 7, 30))
)
@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("labels", LABELS)
def test_images_of_any_scale_are_drawn_with_their_labels(tmp_path, exponent, labels):
    scale = 10.0**exponent
    label_scale = {None: None, "same": scale, "none": 1.0}[labels]
    write(tmp_path / "i", scale, label_scale)
    contents = open_contents(open_node(tmp_path / "i"))
    viewer = ViewerModel()
    session_of(viewer)
    show(viewer, contents)
    check_drawn(viewer)
    image, *cells = viewer.layers
    is_drawn = -9 < exponent < 30
    codes = [p.code for p in contents.problems if p.code.startswith("place-")]
    is_over = labels == "none" and not -6 < exponent < 6
    assert codes == ["place-not-drawn"] * ((not is_drawn) + is_over)
    assert len(contents.messages) == len(codes)
    assert image.scale[-1] == (scale if is_drawn else 1)
    assert [str(unit) for unit in image.units] == (
        ["micrometer"] * 3 if is_drawn else ["pixel"] * 3
    )
    for layer in cells:
        if labels == "same" or is_over:
            np.testing.assert_allclose(layer.extent.world, image.extent.world)
        assert layer.units == image.units


@pytest.mark.parametrize("start", [1e15, 1e300, -1e300])
def test_images_that_are_too_far_away_are_drawn(tmp_path, start):
    contents = open_contents(open_node(write(tmp_path / "i", 0.5, start=start)))
    viewer = ViewerModel()
    session_of(viewer)
    show(viewer, contents)
    check_drawn(viewer)
    assert "place-not-drawn" in [p.code for p in contents.problems]


def test_labels_alone_are_drawn(tmp_path):
    write(tmp_path / "i", 1.0, 1e-300)
    viewer = ViewerModel()
    session_of(viewer)
    shutil.move(tmp_path / "i/labels/cells", tmp_path / "cells")
    contents = open_contents(open_node(tmp_path / "cells"))
    show(viewer, contents)
    check_drawn(viewer)
    assert [p.code for p in contents.problems] == ["place-not-drawn"]


@pytest.mark.parametrize("seed", range(3))
def test_images_of_any_two_scales_are_shown_in_one_window(tmp_path, seed):
    chance, viewer = random.Random(seed), ViewerModel()
    session_of(viewer)
    for number, exponent in enumerate(chance.sample(EXPONENTS, 4)):
        folder = tmp_path / str(number)
        write(folder, 10.0**exponent, 10.0**exponent, sign=chance.choice([1, -1]))
        show(viewer, open_contents(open_node(folder)))
        assert max(viewer.dims.nsteps) < 10**8
        assert np.isfinite(viewer.dims.range).all()


@pytest.mark.default_cases("-300", "-9", "30")
@pytest.mark.parametrize("exponent", [-300, -30, -9, 9, 30, 300])
def test_fields_of_any_scale_are_browsed(tmp_path, exponent):
    root = write_plate(tmp_path / "p", grid=(1, 3), fields=1, shape=(1, 16, 16))
    for number, well in enumerate(("A/1", "A/2", "A/3")):
        shutil.rmtree(root / well / "0")
        write(root / well / "0", (1.0, 10.0**exponent, 0.5)[number], 1.0)
    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(root))
    browser.show_mosaic()
    for well in ("A/1", "A/2", "A/3", "A/2"):
        browser.show_field(well)
        check_drawn(viewer)
        browser.show_mosaic(["A/1", well])
        assert np.isfinite(viewer.dims.range).all()
