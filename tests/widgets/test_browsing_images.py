"""Folders and collections of images in the browser's dock."""

from __future__ import annotations

import json
import shutil

import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest

import scenes
from mouse import drop, until
from napari_ngff.viewer.samples import write_image, write_stack
from napari_ngff.widgets.browser.dock import TITLE, BrowserDock
from plates import write_plate

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("images")
    write_image(where / "a.ome.zarr", shape=(64, 96))
    write_stack(where / "b.ome.zarr", shape=(8, 64, 64))
    (where / "notes.txt").write_text("no image")
    return where


@pytest.fixture
def dock(viewer):
    widget = BrowserDock(viewer)
    viewer.window.add_dock_widget(widget, name=TITLE, area="right")
    return widget


def texts(dock):
    images = dock.images.list
    return [images.item(i).text() for i in range(images.count())]


def test_a_folder_of_images_is_listed(viewer, dock, folder):
    assert "Drop" in dock.title.text()
    drop(dock, folder)
    times = "\N{MULTIPLICATION SIGN}"
    expected = [
        f"a.ome.zarr\n96 {times} 64, 3 channels, uint16",
        f"b.ome.zarr\n64 {times} 64, 8 sections, 2 channels, uint16",
    ]
    until(lambda: texts(dock) == expected)
    icon = dock.images.list.item(0).icon().pixmap(64, 64).toImage()
    shades = {icon.pixel(x, 32) for x in range(64)}
    assert len(shades) > 8, "the thumbnail shows something"
    assert not viewer.layers, "nothing is opened by looking"


def test_selected_images_are_opened(viewer, dock, folder):
    dock.showPath(str(folder))
    until(lambda: dock.images.list.count() == 2)
    assert not dock.images.button.isEnabled()
    dock.images.list.selectAll()
    QTest.mouseClick(dock.images.button, LEFT)
    until(lambda: len(viewer.layers) == 9)
    opened = {layer.source.path for layer in viewer.layers}
    assert opened == {str(folder / "a.ome.zarr"), str(folder / "b.ome.zarr")}


def test_a_double_click_opens_one(viewer, dock, folder):
    dock.showPath(str(folder))
    images = dock.images.list
    until(lambda: images.count() == 2)
    place = images.visualItemRect(images.item(1)).center()
    QTest.mouseClick(images.viewport(), LEFT, pos=place)
    QTest.mouseDClick(images.viewport(), LEFT, pos=place)
    until(lambda: len(viewer.layers) == 4)
    assert {layer.source.path for layer in viewer.layers} == {
        str(folder / "b.ome.zarr")
    }


def test_a_plate_of_a_folder_is_listed_opened_and_walked(viewer, dock, tmp_path):
    write_plate(tmp_path / "p.ome.zarr", grid=(2, 3), fields=1)
    dock.showPath(str(tmp_path))
    until(lambda: texts(dock) == ["p.ome.zarr\na plate"])
    dock.images.list.selectAll()
    QTest.mouseClick(dock.images.button, LEFT)
    until(lambda: [layer.name for layer in viewer.layers] == ["Tiny"])
    assert viewer.layers[0].data[0].shape == (16, 24)
    until(dock.map.isVisible)
    assert len(dock.map.plate().wells) == 6


def test_a_collection_is_listed_and_walked(viewer, dock, tmp_path):
    where = tmp_path / "series.ome.zarr"
    for name, shape in (("0", (64, 64)), ("1", (64, 96)), ("2", (32, 32))):
        write_image(where / name, shape=shape)
    ome = {"version": "0.5", "bioformats2raw.layout": 3}
    document = {"zarr_format": 3, "node_type": "group", "attributes": {"ome": ome}}
    (where / "zarr.json").write_text(json.dumps(document))
    dock.showPath(str(where))
    until(lambda: len(texts(dock)) == 3 and all("channel" in t for t in texts(dock)))
    assert not dock.map.isVisible()
    dock.images.list.item(1).setSelected(True)
    QTest.mouseClick(dock.images.button, LEFT)
    until(lambda: len(viewer.layers) == 5)
    assert viewer.layers[0].source.path == str(where / "1")
    assert len(texts(dock)) == 3, "the list stays"


def test_the_images_of_a_scene_are_listed_and_shown(viewer, dock, tmp_path):
    where = tmp_path / "scene.ome.zarr"
    for i, name in enumerate(("left", "right")):
        scenes.image(where / name, "yx", scenes.numbered(16, 16 + i))
    ends = [scenes.end("physical", name) for name in ("left", "right")]
    move = {"type": "translation", "translation": [0.0, 20.0]}
    scenes.scene(where, [scenes.link(*ends, **move)])
    dock.showPath(str(where))
    until(lambda: [text.split("\n")[0] for text in texts(dock)] == ["left", "right"])
    dock.images.list.item(1).setSelected(True)
    QTest.mouseClick(dock.images.button, LEFT)
    opened = str(where / "right")
    until(lambda: any(layer.source.path == opened for layer in viewer.layers))


def test_a_broken_image_is_named(viewer, dock, folder, tmp_path):
    where = shutil.copytree(folder, tmp_path / "broken")
    (where / "a.ome.zarr" / "zarr.json").write_text("{")
    dock.showPath(str(where))
    until(lambda: len(texts(dock)) == 2 and all("\n" in text for text in texts(dock)))
    assert "not valid JSON" in dock.images.list.item(0).toolTip()
    assert "2 channels" in texts(dock)[1]
    dock.images.list.selectAll()
    QTest.mouseClick(dock.images.button, LEFT)
    until(lambda: len(viewer.layers) == 4)
    assert "a.ome.zarr" in dock.status.text()


@pytest.mark.parametrize("name", ["a.ome.zarr", "nothing", "notes.txt"])
def test_what_cannot_be_walked_is_said(viewer, dock, folder, name):
    dock.showPath(str(folder / name))
    until(lambda: name in dock.status.text())
    assert not viewer.layers
