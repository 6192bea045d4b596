"""Of several plates, collections and folders one is on the canvas: the last opened."""

from __future__ import annotations

import random
import shutil

import numpy as np
import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest

from mouse import camera, canvas, pump, until
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.layers.label_owners import image_address
from napari_ngff.viewer.session import session_of
from plates import write_group, write_image, write_plate


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Whatever is browsed, in sizes and places of its own."""
    top = tmp_path_factory.mktemp("files")
    two = {"shape": (2, 32, 32), "levels": 2, "labelled": lambda _: ("cells",)}
    write_plate(top / "a.zarr", grid=(2, 3), fields=2, **two)
    write_plate(top / "b.zarr", grid=(1, 2), fields=1, shape=(1, 200, 90))
    shutil.copytree(top / "a.zarr" / "A", top / "row.zarr" / "A")
    for name in ("one", "two"):
        write_image(top / "images" / name, np.ones((2, 16, 16), "u2"), 3)
    write_group(top / "series", {"bioformats2raw.layout": 3}, 3)
    for name, side in (("0", 64), ("1", 40)):
        write_image(top / "series" / name, np.ones((1, side, side), "u2"), 3)
    return top


PLACES = ("a.zarr", "a.zarr/B/2", "b.zarr", "row.zarr/A/1", "images", "series")


def settle(viewer):
    until(lambda: session_of(viewer).browser is not None)
    browser = session_of(viewer).browser
    until(lambda: browser.state.wanted is None and not browser.is_drawing)
    pump(50)


def seen(viewer):
    """Give the addresses of the images that are seen."""
    return {image_address(layer) for layer in viewer.layers if layer.visible}


def is_in_view(viewer, layers):
    """Whether the middle of some layers is on the canvas, and more than a dot."""
    low, high = np.array([x.extent.world[:, -2:] for x in layers]).mean(axis=0)
    size = np.array(canvas(viewer).size[-2:]) / camera(viewer).zoom
    offset = np.abs((low + high) / 2 - camera(viewer).center[-2:])
    return (offset < size / 2).all() and ((high - low) > size / 20).any()


def require_last_alone(viewer, path):
    addresses = seen(viewer)
    browser = session_of(viewer).browser
    assert addresses
    root = str(browser.node)
    assert str(path).startswith(root)
    assert {a for a in addresses if not f"{a}/".startswith(f"{root}/")} == set()
    shown = [layer for layer in viewer.layers if layer.visible]
    images = [layer for layer in shown if layer._type_string == "image"]
    assert len({layer.name for layer in images}) == len(images)
    assert all(browser.layers.owns_layer(layer) for layer in shown)
    assert is_in_view(viewer, images)


@pytest.mark.default_cases("2")
@pytest.mark.parametrize("seed", range(3))
def test_only_what_was_opened_last_is_seen(viewer, files, seed):
    use_workers()
    chosen = random.Random(seed)
    for _ in range(3):
        path = files / chosen.choice(PLACES)
        viewer.open(str(path), plugin="napari-ngff")
        settle(viewer)
        require_last_alone(viewer, path)
        if chosen.random() < 0.5:
            browser = session_of(viewer).browser
            browser.step_field(1)
            settle(viewer)
            require_last_alone(viewer, path)
        viewer.add_points([[3, 3]], name=f"on {path.name}")


def test_of_two_that_are_opened_together_the_last_is_seen(viewer, files):
    use_workers()
    paths = [str(files / name) for name in ("a.zarr", "b.zarr")]
    viewer.open(paths, plugin="napari-ngff")
    settle(viewer)
    require_last_alone(viewer, paths[-1])


def test_strokes_on_the_plate_before_are_kept_and_named(viewer, files, tmp_path):
    use_workers()
    path = shutil.copytree(files / "a.zarr", tmp_path / "a.zarr")
    viewer.open(str(path), plugin="napari-ngff")
    session_of(viewer).browser.show_field("A/1", "0")
    settle(viewer)
    labels = next(x for x in viewer.layers if x._type_string == "labels")
    labels.paint((3, 3), 77)
    viewer.add_points([[3, 3]])
    viewer.open(str(files / "b.zarr"), plugin="napari-ngff")
    settle(viewer)
    require_last_alone(viewer, files / "b.zarr")
    assert labels.unsaved
    native = canvas(viewer).native
    native.setFocus()
    QTest.keyClick(native, Qt.Key.Key_S, Qt.KeyboardModifier.ControlModifier)
    until(lambda: not labels.unsaved)


def test_an_image_or_labels_may_lie_over_a_plate(viewer, files):
    use_workers()
    viewer.open(str(files / "a.zarr"), plugin="napari-ngff")
    settle(viewer)
    before = seen(viewer)
    viewer.open(str(files / "images" / "one"), plugin="napari-ngff")
    pump(100)
    assert seen(viewer) == before | {str(files / "images" / "one")}
