"""Folders and collections of images in the browser's dock."""

from __future__ import annotations

import json
import shutil

import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest

import scenes
from mouse import drop, drop_on_canvas, until
from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.plans.layer_plan import KEY
from napari_ngff.viewer.samples import write_image, write_stack
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of, show_browser
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
    return show_browser(viewer)


def texts(dock):
    images = dock.images.list
    return [images.item(i).text() for i in range(images.count())]


@pytest.mark.long
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
    assert dock.title.text() == f"{folder.name} (images)"
    assert not viewer.layers, "nothing is opened by looking"


def click(images, row, modifiers=Qt.KeyboardModifier.NoModifier):
    """Click an image of the list."""
    until(lambda: images.count() > row)
    place = images.visualItemRect(images.item(row)).center()
    QTest.mouseClick(images.viewport(), LEFT, modifiers, pos=place)


def addresses(viewer):
    return [str(layer.metadata[KEY].node) for layer in viewer.layers]


@pytest.mark.long
def test_a_click_shows_one_image_after_the_other(viewer, dock, folder):
    dock.showPath(str(folder))
    click(dock.images.list, 0)
    until(lambda: len(viewer.layers) == 5)
    assert set(addresses(viewer)) == {
        str(folder / "a.ome.zarr"),
        *(str(folder / "a.ome.zarr" / "labels" / x) for x in ("nuclei", "cells")),
    }
    QTest.keyClicks(dock.images.list, ".")
    until(lambda: str(folder / "b.ome.zarr") in addresses(viewer))
    inside = str(folder / "b.ome.zarr")
    until(lambda: all(one.startswith(inside) for one in addresses(viewer)[:2]))
    count = len(viewer.layers)
    click(dock.images.list, 1)
    until(lambda: not dock.isBusy())
    assert len(viewer.layers) == count


@pytest.mark.long
def test_shift_shows_an_image_beside_the_others(viewer, dock, folder):
    dock.showPath(str(folder))
    click(dock.images.list, 0)
    until(lambda: len(viewer.layers) == 5)
    edge = max(layer.extent.world[1, -1] for layer in viewer.layers)
    click(dock.images.list, 1, Qt.KeyboardModifier.ShiftModifier)
    until(lambda: len(viewer.layers) > 5)
    beside = [
        layer
        for layer in viewer.layers
        if str(layer.metadata[KEY].node).startswith(str(folder / "b.ome.zarr"))
    ]
    assert beside
    assert all(layer.extent.world[0, -1] > edge for layer in beside)
    until(lambda: not dock.isBusy())
    click(dock.images.list, 1, Qt.KeyboardModifier.ShiftModifier)
    until(lambda: len(viewer.layers) == 5)


@pytest.mark.long
def test_a_plate_of_a_folder_is_opened_and_browsed(viewer, dock, tmp_path):
    write_image(tmp_path / "a.ome.zarr", shape=(64, 96))
    write_plate(tmp_path / "p.ome.zarr", grid=(2, 3), fields=1)
    dock.showPath(str(tmp_path))
    # Of plates alone, the first would be shown at once.
    until(lambda: [x.split("\n")[1:] for x in texts(dock)][1:] == [["a plate"]])
    assert not viewer.layers, "nothing is opened by looking"
    click(dock.images.list, 1)
    until(lambda: [layer.name for layer in viewer.layers] == ["Tiny"])
    assert viewer.layers[0].data[0].shape == (16, 24)
    until(dock.map.isVisible)
    assert len(dock.map.state.map.wells) == 6


def write_collection(where):
    for name, shape in (("0", (64, 64)), ("1", (64, 96)), ("2", (32, 32))):
        write_image(where / name, shape=shape)
    ome = {"version": "0.5", "bioformats2raw.layout": 3}
    document = {"zarr_format": 3, "node_type": "group", "attributes": {"ome": ome}}
    (where / "zarr.json").write_text(json.dumps(document))
    return where


@pytest.mark.long
def test_a_collection_is_listed_and_browsed(viewer, dock, tmp_path):
    where = write_collection(tmp_path / "series.ome.zarr")
    dock.showPath(str(where))
    until(lambda: len(texts(dock)) == 3 and all("channel" in t for t in texts(dock)))
    assert not dock.map.isVisible()
    click(dock.images.list, 1)
    until(lambda: len(viewer.layers) == 5)
    assert str(where / "1") in addresses(viewer)
    layers = list(viewer.layers)
    click(dock.images.list, 2)
    until(lambda: str(where / "2") in addresses(viewer))
    until(lambda: not dock.isBusy())
    assert list(viewer.layers) == layers
    assert len(texts(dock)) == 3, "the list stays"


@pytest.mark.long
def test_a_dropped_collection_shows_its_first_image(viewer, tmp_path):
    where = write_collection(tmp_path / "series.ome.zarr")
    drop_on_canvas(viewer, where)
    until(lambda: browser_of(viewer) is not None)
    until(lambda: len(viewer.layers) == 5)
    browser = session_of(viewer).browser
    assert browser.position == Position(None, "0")
    assert all(one.startswith(str(where / "0")) for one in addresses(viewer))
    layers = list(viewer.layers)
    click(browser_of(viewer).images.list, 1)
    until(lambda: browser.position == Position(None, "1"))
    assert list(viewer.layers) == layers


@pytest.mark.long
def test_the_images_of_a_scene_are_listed_and_brought_in_view(viewer, dock, tmp_path):
    where = tmp_path / "scene.ome.zarr"
    for i, name in enumerate(("left", "right")):
        scenes.image(where / name, "yx", scenes.numbered(16, 16 + i))
    ends = [scenes.end("physical", name) for name in ("left", "right")]
    move = {"type": "translation", "translation": [0.0, 20.0]}
    scenes.scene(where, [scenes.link(*ends, **move)])
    viewer.open(str(where), plugin="napari-ngff")
    until(lambda: [text.split("\n")[0] for text in texts(dock)] == ["left", "right"])
    assert len(viewer.layers) == 2
    click(dock.images.list, 1)
    until(lambda: viewer.layers.selection.active is viewer.layers[1])
    assert len(viewer.layers) == 2, "no second copy"
    center = viewer.scene.camera.center[-2:]
    world = viewer.layers[1].extent.world[:, -2:]
    assert all(world[0] < center)
    assert all(center < world[1])


@pytest.mark.long
def test_a_broken_image_is_named(viewer, dock, folder, tmp_path):
    where = shutil.copytree(folder, tmp_path / "broken")
    (where / "a.ome.zarr" / "zarr.json").write_text("{")
    dock.showPath(str(where))
    until(lambda: len(texts(dock)) == 2 and all("\n" in text for text in texts(dock)))
    assert "not valid JSON" in dock.images.list.item(0).toolTip()
    assert "2 channels" in texts(dock)[1]
    click(dock.images.list, 1)
    until(lambda: len(viewer.layers) == 4)


@pytest.mark.default_cases("nothing")
@pytest.mark.parametrize("name", ["a.ome.zarr", "nothing", "notes.txt"])
def test_what_cannot_be_visited_is_reported(viewer, dock, folder, name):
    dock.showPath(str(folder / name))
    until(lambda: name in dock.status.text())
    assert not viewer.layers
