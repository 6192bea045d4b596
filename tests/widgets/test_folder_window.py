"""A plain folder of images on napari: the browser lists them; others go elsewhere."""

from __future__ import annotations

import os

import numpy as np
import pytest
import zarr
from test_browsing_images import click

from mouse import until
from napari_ngff.store.hierarchy import image_folder as folders
from napari_ngff.store.hierarchy.image_folder import image_folder
from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.reader import get_reader
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of
from plates import write_image
from spatialdata_store import write_store


@pytest.fixture
def folder(tmp_path):
    data = np.ones((2, 16, 16), "uint16")
    for name in ("b.ome.zarr", "a.ome.zarr"):
        write_image(tmp_path / "images" / name, data, 3)
    (tmp_path / "images" / "notes").mkdir()
    (tmp_path / "images" / "read.me").write_text("nothing")
    return tmp_path / "images"


def titles(listed):
    return [listed.item(i).text().splitlines()[0] for i in range(listed.count())]


def test_a_folder_of_images_is_listed_in_the_browser(viewer, folder, qtbot):
    assert viewer.open(str(folder), plugin="napari-ngff") == []
    qtbot.waitUntil(lambda: browser_of(viewer) is not None, timeout=20_000)
    dock = browser_of(viewer)
    listed = dock.images.list
    until(lambda: titles(listed) == ["a.ome.zarr", "b.ome.zarr"])
    # The first image is shown, and others under the same layers.
    until(lambda: len(viewer.layers) == 2)
    layers = list(viewer.layers)
    until(lambda: session_of(viewer).browser.position == Position(None, "a.ome.zarr"))
    click(listed, 1)
    until(lambda: session_of(viewer).browser.position == Position(None, "b.ome.zarr"))
    assert list(viewer.layers) == layers
    # The dock is there: another folder takes its place.
    write_image(folder / "notes" / "c.zarr", np.ones((2, 16, 16), "uint16"), 3)
    viewer.open(str(folder / "notes"), plugin="napari-ngff")
    qtbot.waitUntil(lambda: listed.count() == 1, timeout=20_000)


def test_other_folders_are_left_to_others(viewer, tmp_path):
    (tmp_path / "tables").mkdir()
    assert get_reader(str(tmp_path)) is None
    assert get_reader([str(tmp_path), str(tmp_path)]) is None


def test_a_large_folder_is_not_searched(viewer, tmp_path, monkeypatch):
    for i in range(40):
        (tmp_path / f"{i}.tif").touch()
        (tmp_path / f"{i}").mkdir()
    monkeypatch.setattr(folders, "MOST_ENTRIES", 30)
    looked = []
    isfile = os.path.isfile
    monkeypatch.setattr(os.path, "isfile", lambda p: looked.append(p) or isfile(p))
    assert image_folder(str(tmp_path)) is None
    assert len(looked) <= 3 * 30


def test_without_a_window_a_folder_is_declined(folder):
    assert get_reader(str(folder)) is None


@pytest.mark.long
def test_a_store_of_spatialdata_is_listed_like_a_folder(viewer, tmp_path, qtbot):
    store = write_store(tmp_path / "a.zarr")
    assert viewer.open(str(store), plugin="napari-ngff") == []
    qtbot.waitUntil(lambda: browser_of(viewer) is not None, timeout=20_000)
    listed = browser_of(viewer).images.list
    until(lambda: titles(listed) == ["images/im", "labels/cells"])
    qtbot.waitUntil(lambda: len(viewer.layers) == 3, timeout=20_000)
    assert viewer.layers[0].data_to_world((10, 20)) == pytest.approx((5, 10))


def test_a_zarr_group_of_others_is_left_to_others(viewer, tmp_path):
    zarr.create_array(tmp_path / "a.zarr" / "temperature", data=np.ones((4, 5)))
    zarr.open_group(tmp_path / "a.zarr")
    assert get_reader(str(tmp_path / "a.zarr")) is None
