"""Plates in a real window: what is read in workers arrives, layers stay, keys walk."""

from __future__ import annotations

import gc
import math
import os
import shutil
import threading
import time

import numpy as np
import pytest
from qtpy.QtCore import Qt

from mouse import pump, turn_wheel, until
from napari_ngff.plate import kept_planes
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of
from plates import pixels, write_image, write_plate

WINDOW = 1000, 750


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_plate(
        tmp_path_factory.mktemp("plates") / "p",
        grid=(6, 8),
        fields=2,
        shape=(2, 32, 32),
        levels=2,
        labelled=lambda well: ("cells",) if well[0] == "A" else (),
    )


@pytest.fixture
def browser(viewer, root):
    viewer.open(str(root), plugin="napari-ngff")
    browser = session_of(viewer).browser
    browser.choose_labels(None)
    settled(viewer, browser)
    return browser


def settled(viewer, browser):
    """Wait until all that is in view has arrived."""
    stream = browser._stream
    until(lambda: not stream.is_busy and not stream._wanted)


def go(browser, action):
    """Act, and wait until all is shown."""
    reported = []
    browser.busy.connect(reported.append)
    action()
    until(lambda: reported[-1:] == [False])
    browser.busy.disconnect(reported.append)


def test_the_wells_of_a_dropped_plate_come_in(viewer, root):
    viewer.open(str(root), plugin="napari-ngff")
    browser = session_of(viewer).browser
    assert len(browser.map.wells) == 48
    settled(viewer, browser)
    for layer in viewer.layers[:2]:
        shown = np.asarray(layer._slice.image.raw)
        assert np.count_nonzero(shown) > 0.99 * shown.size
    # As they are hidden until they are chosen, so the list says.
    assert browser.labels is None
    labels = viewer.layers["cells"]
    assert not labels.visible
    browser.choose_labels("cells")
    settled(viewer, browser)
    assert viewer.layers["cells"].visible


def test_labels_made_visible_in_the_list_of_layers_stay_in_the_next_overview(
    viewer, root
):
    viewer.open(str(root), plugin="napari-ngff")
    browser = session_of(viewer).browser
    settled(viewer, browser)
    viewer.layers["cells"].visible = True
    go(browser, lambda: browser.show_mosaic(["A/1", "A/2"]))
    assert viewer.layers["cells"].visible
    assert browser.labels == "cells"
    go(browser, lambda: browser.choose_labels(None))
    assert "cells" not in viewer.layers


def test_hidden_labels_stay_where_a_larger_well_makes_the_overview_larger(
    viewer, tmp_path
):
    every = {"fields": 1, "shape": (1, 32, 32), "labelled": lambda well: ("cells",)}
    path = write_plate(tmp_path / "p", grid=(5, 5), **every)
    shutil.rmtree(path / "B/2/0")
    write_image(path / "B/2/0", pixels(1, (1, 64, 64)), 3, labels=("cells",))
    viewer.open(str(path), plugin="napari-ngff")
    browser = session_of(viewer).browser
    assert viewer.layers[0].data.shape == (160, 160)
    until(lambda: viewer.layers[0].data.shape == (320, 320))
    until(lambda: browser.state.wanted is None)
    labels = viewer.layers["cells"]
    assert not labels.visible
    np.testing.assert_allclose(labels.extent.world, viewer.layers[0].extent.world)
    # The list of layers and the list of labels name the same.
    controls = browser_of(viewer).controls
    assert controls.labels.currentText() == "no labels"
    labels.visible = True
    until(lambda: controls.labels.currentText() == "cells")
    settled(viewer, browser)
    shown = np.asarray(labels._slice.image.raw)
    assert np.count_nonzero(shown) > 0.2 * shown.size


def test_a_plate_that_is_dropped_again_shows_the_labels_that_are_chosen(viewer, root):
    viewer.open(str(root), plugin="napari-ngff")
    browser = session_of(viewer).browser
    settled(viewer, browser)
    go(browser, lambda: browser.choose_labels("cells"))
    go(browser, lambda: browser.show_field("A/1"))
    assert viewer.canvas.overlays.text.text == "A1 - field 0"
    viewer.layers.clear()
    assert viewer.canvas.overlays.text.text == ""
    viewer.open(str(root), plugin="napari-ngff")
    assert session_of(viewer).browser is browser
    assert browser.labels == "cells"
    assert viewer.layers["cells"].visible
    pump()
    assert viewer.canvas.overlays.text.text == ""


@pytest.mark.long
def test_code_gets_whole_wells_while_they_come_in(viewer, root, monkeypatch):
    get = FolderStore.read

    def get_late(*arguments):
        time.sleep(0.01)
        return get(*arguments)

    monkeypatch.setattr(FolderStore, "read", get_late)
    viewer.open(str(root), plugin="napari-ngff")
    browser = session_of(viewer).browser
    stream = browser._stream
    layer, labels = viewer.layers[0], viewer.layers[-1]
    assert stream.is_busy  # nothing was drawn yet
    at_once = [np.asarray(one.data[-1]) for one in (layer, labels)]
    assert np.count_nonzero(at_once[0]) > 0.99 * at_once[0].size
    assert np.count_nonzero(np.asarray(layer.data[0])) > 0.99 * layer.data[0].size
    settled(viewer, browser)
    for one, before in zip((layer, labels), at_once, strict=True):
        np.testing.assert_array_equal(before, np.asarray(one.data[-1]))


def corners(viewer):
    """World coordinates of what the canvas shows along y and x, and all there is."""
    camera, size = viewer.scene.camera, np.array(viewer.canvas.size)
    center, half = np.array(camera.center[-2:]), size / camera.zoom / 2
    return (center - half, center + half), viewer.layers.extent.world[:, -2:]


def whole(viewer):
    """Return whether all there is can be seen."""
    (low, high), world = corners(viewer)
    return np.all(low < world[0]) and np.all(high > world[1])


@pytest.mark.long
def test_a_small_window_shows_the_whole_plate_beside_its_browser(viewer, root):
    viewer.window.resize(1066, 680)
    viewer.open(str(root), plugin="napari-ngff")
    until(lambda: browser_of(viewer) is not None)
    dock = browser_of(viewer)
    until(lambda: viewer.canvas.size[1] < 400)
    assert dock.width() <= 1066 / 3 + 1
    assert dock.minimumSizeHint().width() <= dock.width()
    until(lambda: whole(viewer))
    # Letters, tables and pages make a dock wider after it is there.
    room = viewer.canvas.size[1]
    dock.setMinimumWidth(dock.width() + 80)
    until(lambda: viewer.canvas.size[1] < room)
    until(lambda: whole(viewer))


@pytest.mark.long
def test_the_whole_plate_is_shown_though_its_labels_are_coarser(viewer, tmp_path):
    where = write_plate(
        tmp_path / "p", grid=(1, 8), fields=1, labelled=lambda _: ("cells",)
    )
    for level in where.glob("?/?/?/labels/cells/0"):
        shutil.rmtree(level)
    room = viewer.canvas.size[1]
    viewer.open(str(where), plugin="napari-ngff")
    until(lambda: browser_of(viewer) is not None)
    until(lambda: viewer.canvas.size[1] < room)
    assert viewer.layers["cells"].extent.step[-1] > viewer.layers[0].extent.step[-1]
    until(lambda: whole(viewer))


@pytest.mark.long
def test_whoever_looks_at_a_place_stays_there_when_the_browser_opens(viewer, root):
    viewer.add_image(np.zeros((500, 500)))
    camera = viewer.scene.camera
    camera.center, camera.zoom = (0, 100, 50), 4
    viewer.open(str(root), plugin="napari-ngff")
    until(lambda: browser_of(viewer) is not None)
    settled(viewer, session_of(viewer).browser)
    assert tuple(camera.center) == (0, 100, 50)
    assert camera.zoom == 4


@pytest.mark.long
def test_arrows_and_points_browse_with_the_canvas_focused(viewer, browser, qtbot):
    images = list(viewer.layers[:2])
    viewer.layers.selection.active = images[0]
    images[0].contrast_limits = (5, 500)
    go(browser, lambda: browser.show_field("B/2"))
    canvas = viewer.window._qt_viewer.canvas.native
    for key, position in (
        (Qt.Key.Key_Right, Position("B/3", "0", 0)),
        (Qt.Key.Key_Up, Position("A/3", "0", 0)),
        (Qt.Key.Key_Period, Position("A/3", "1", 0)),
        (Qt.Key.Key_Comma, Position("A/3", "0", 0)),
    ):
        go(browser, lambda key=key: qtbot.keyClick(canvas, key))
        assert browser.position == position
    assert list(viewer.layers[:2]) == images
    assert tuple(images[0].contrast_limits) == (5, 500)
    assert viewer.layers[-1].name == "cells"
    assert viewer.canvas.overlays.text.text == "A3 - field 0"


@pytest.fixture
def waited(monkeypatch):
    """Keys of files that were read in the main thread."""
    waited, ahead = [], set()
    get = FolderStore.read

    def watched(self, key, *part):
        if threading.current_thread() is not threading.main_thread():
            ahead.add(key)
        # Labels that can be painted are read through the saver's eyes; the system has
        # their files at hand then.
        elif "labels" not in key or key not in ahead:
            waited.append(key)
        return get(self, key, *part)

    monkeypatch.setattr(FolderStore, "read", watched)
    return waited


def test_browsing_waits_for_no_file_in_the_main_thread(viewer, browser, waited):
    go(browser, lambda: browser.show_field("A/2"))
    waited.clear()  # nothing was known of what is in view
    # On, to another well, far away, and back: prepared in advance or not.
    for action in (
        lambda: browser.step_field(1),
        lambda: browser.step_field(1),
        lambda: browser.step_well(0, 1),
        lambda: browser.show_field("A/8", "1"),
        lambda: browser.step_field(-1),
    ):
        go(browser, action)
        viewer.window._qt_viewer.canvas.native.grab()
    pictures = [np.asarray(layer._slice.image.raw) for layer in viewer.layers]
    assert all(np.count_nonzero(shown) for shown in pictures)
    assert not waited


def test_going_from_a_mosaic_to_a_field_waits_for_no_file(viewer, tmp_path, waited):
    # The level that is in view then was not in view before.
    where = write_plate(
        tmp_path / "p", grid=(2, 3), fields=1, shape=(1, 1200, 1200), levels=4
    )
    viewer.open(str(where), plugin="napari-ngff")
    browser = session_of(viewer).browser
    settled(viewer, browser)
    waited.clear()
    go(browser, lambda: browser.show_field("A/2"))
    viewer.window._qt_viewer.canvas.native.grab()
    until(lambda: viewer.layers[0].data_level < 3)
    assert not waited


@pytest.mark.long
def test_the_next_field_takes_one_picture(viewer, browser, monkeypatch):
    # However slow the machine is.
    monkeypatch.setattr(
        "napari_ngff.viewer.services.latest_task.STEP_SECONDS", math.inf
    )
    go(browser, lambda: browser.show_field("A/2"))
    pump(300)
    drawn = []
    canvas = viewer.window._qt_viewer.canvas._scene_canvas

    def draw(event):
        text = viewer.canvas.overlays.text.text
        levels = [layer.data_level for layer in viewer.layers]
        shown = [np.array(layer._slice.image.raw) for layer in viewer.layers]
        drawn.append((text, levels, shown))

    canvas.events.draw.connect(draw)
    before = [layer.data_level for layer in viewer.layers]
    go(browser, lambda: browser.step_field(1))
    pump(300)
    canvas.events.draw.disconnect(draw)
    assert [text for text, _, _ in drawn] == ["A2 - field 1"]
    (_, levels, shown), *_ = drawn
    assert levels == before == [0, 0, 0]
    for layer, picture in zip(viewer.layers, shown, strict=True):
        np.testing.assert_array_equal(picture, np.asarray(layer.data[0]))


@pytest.mark.long
def test_what_is_read_at_once_is_not_shown_as_read(viewer, browser):
    dock = browser_of(viewer)
    go(browser, lambda: browser.show_field("A/2"))
    until(lambda: not dock.cancel.isVisible())
    seen = []
    browser.busy.connect(lambda busy: seen.append((busy, dock.cancel.isVisible())))
    go(browser, lambda: browser.step_field(1))
    assert seen[0] == (True, False)
    assert seen[-1] == (False, False)


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A plate of which but the coarsest level is too large to be kept whole."""
    folder = tmp_path_factory.mktemp("plates") / "wide"
    return write_plate(folder, grid=(8, 12), shape=(2, 128, 128), levels=3)


@pytest.mark.long
def test_a_large_plate_comes_in_without_the_window_waiting(
    viewer, wide, monkeypatch, waited
):
    monkeypatch.setattr(kept_planes, "PLANE_BYTES", 2 * 512 * 768)
    viewer.open(str(wide), plugin="napari-ngff")
    browser = session_of(viewer).browser
    settled(viewer, browser)
    layer, seen = viewer.layers[0], set()
    shapes = [level.shape for level in layer.data]
    assert shapes == [(2048, 3072), (1024, 1536), (512, 768)]
    for _ in range(20):
        waited.clear()
        corners, level = layer.corner_pixels.copy(), layer.data_level
        turn_wheel(viewer, (200, 300))
        settled(viewer, browser)
        if np.array_equal(corners, layer.corner_pixels) and level == layer.data_level:
            continue
        shown = layer.corner_pixels[:, -2:] // (256 >> layer.data_level)
        many = np.prod(shown[1] - shown[0] + 1) > 4
        assert not (many and waited)
        seen.add((layer.data_level, bool(many)))
        for one in viewer.layers:
            assert_shown(one, wide)
    assert {(1, True), (0, True)} <= seen


def assert_shown(layer, root):
    """What is shown of a layer is what its fields say."""
    shown, step = np.asarray(layer._slice.image.raw), 2**layer.data_level
    (top, left), (bottom, right) = layer.corner_pixels[:, -2:]
    assert shown.shape == (bottom - top + 1, right - left + 1)
    channel, side = int(layer.name[-1:] == "1"), 128 // step
    for y in range(top // side, bottom // side + 1):
        for x in range(left // side, right // side + 1):
            well = (y // 2) * 12 + x // 2
            full = pixels(well * 50 + y % 2 * 2 + x % 2, (2, 128, 128))
            field = full[channel, ::step, ::step]
            rows, columns = (
                slice(max(0, low - at * side), high + 1 - at * side)
                for at, low, high in ((y, top, bottom), (x, left, right))
            )
            field = field[rows, columns]
            at = max(0, y * side - top), max(0, x * side - left)
            there = shown[
                at[0] : at[0] + field.shape[0], at[1] : at[1] + field.shape[1]
            ]
            np.testing.assert_array_equal(there, field)


def files():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.long
def test_long_browsing_leaves_nothing_behind(viewer, browser):
    random = np.random.default_rng(1)
    wells = [well.path for well in browser.map.wells]

    def walk(steps):
        for _ in range(steps):
            if random.random() < 0.1:
                go(browser, browser.show_mosaic)
                settled(viewer, browser)
            go(browser, lambda: browser.show_field(random.choice(wells)))
        gc.collect()
        kinds = [type(x).__name__ for x in gc.get_objects()]
        names = ("Canvas", "LayerSaver", "Journal", "MosaicLevel", "Image")
        return [kinds.count(name) for name in names]

    walk(20)
    before, handles = walk(5), files()
    after = walk(40)
    assert all(now <= then + 6 for now, then in zip(after, before, strict=True))
    assert files() <= handles + 4
