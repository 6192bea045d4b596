"""Layers that show something else: what is seen of them stays."""

from __future__ import annotations

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel

from napari_ngff import open_node
from napari_ngff.viewer.session import session_of
from plates import write_image, write_plate


@pytest.fixture
def root(tmp_path):
    return write_plate(
        tmp_path / "p",
        grid=(1, 2),
        fields=2,
        shape=(1, 16, 16),
        labelled=lambda well: ("cells",),
    )


def browse(root):
    """Show the first field at level 0, and of that a part."""
    viewer = ViewerModel()
    session_of(viewer).browse(open_node(root)).show_field("A/1")
    for layer in viewer.layers:
        layer.corner_pixels = np.array([[2, 4], [9, 11]])
        layer.data_level = 0
    return viewer


@pytest.fixture
def viewer(root):
    return browse(root)


def stored(root, path):
    return zarr.open_array(root / path / "0", mode="r")[...]


def shown(layer):
    return np.asarray(layer._slice.image.raw)


def test_the_next_field_is_seen_where_the_one_before_was(root, viewer):
    session_of(viewer).browser.step_field(1)
    image, labels = viewer.layers
    part = slice(2, 10), slice(4, 12)
    np.testing.assert_array_equal(shown(image), stored(root, "A/1/1")[0][part])
    cells = stored(root, "A/1/1/labels/cells")
    np.testing.assert_array_equal(shown(labels), cells[part])


def test_thumbnails_follow(viewer):
    before = [layer.thumbnail.copy() for layer in viewer.layers]
    session_of(viewer).browser.step_field(1)
    now = [layer.thumbnail for layer in viewer.layers]
    for old, new in zip(before[:1], now[:1], strict=True):
        assert (old != new).any()


def test_a_locked_level_stays_locked(viewer):
    for layer in viewer.layers:
        layer.locked_data_level = 1
    session_of(viewer).browser.step_field(1)
    for layer in viewer.layers:
        assert layer.locked_data_level == layer.data_level == 1


def test_a_field_of_another_size_is_seen_whole(root):
    write_image(root / "A/1/1", np.ones((1, 24, 40), "uint16"), 3, corner=(0, 0))
    viewer = browse(root)
    session_of(viewer).browser.step_field(1)
    image = viewer.layers[0]
    assert image.data_level == 1
    assert [r.stop for r in viewer.dims.range] == [23 * 0.5, 39 * 0.5]
