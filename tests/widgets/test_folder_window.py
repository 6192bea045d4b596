"""A plain folder of images on napari: the browser lists them; others go elsewhere."""

from __future__ import annotations

import os

import numpy as np
import pytest

from napari_ngff.viewer.browsing import folder as folders
from napari_ngff.viewer.browsing.folder import image_folder
from napari_ngff.viewer.reader import get_reader
from napari_ngff.widgets.browser.host import browser_of
from plates import write_image


@pytest.fixture
def folder(tmp_path):
    data = np.ones((2, 16, 16), "uint16")
    for name in ("b.ome.zarr", "a.ome.zarr"):
        write_image(tmp_path / "images" / name, data, 3)
    (tmp_path / "images" / "notes").mkdir()
    (tmp_path / "images" / "read.me").write_text("nothing")
    return tmp_path / "images"


def test_a_folder_of_images_is_listed_in_the_browser(viewer, folder, qtbot):
    assert viewer.open(str(folder), plugin="napari-ngff") == []
    qtbot.waitUntil(lambda: browser_of(viewer) is not None, timeout=20_000)
    dock = browser_of(viewer)
    listed = dock.images.list
    titles = [listed.item(i).text().splitlines()[0] for i in range(listed.count())]
    assert titles == ["a.ome.zarr", "b.ome.zarr"]
    dock.openImages(("b.ome.zarr",))
    qtbot.waitUntil(lambda: len(viewer.layers) == 2, timeout=20_000)
    # The dock is there: another folder takes its place.
    write_image(folder / "notes" / "c.zarr", np.ones((2, 16, 16), "uint16"), 3)
    viewer.open(str(folder / "notes"), plugin="napari-ngff")
    qtbot.waitUntil(lambda: listed.count() == 1, timeout=20_000)


def test_other_folders_are_left_to_others(viewer, tmp_path):
    (tmp_path / "tables").mkdir()
    assert get_reader(str(tmp_path)) is None
    assert get_reader([str(tmp_path), str(tmp_path)]) is None


def test_a_large_folder_is_not_walked(viewer, tmp_path, monkeypatch):
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
