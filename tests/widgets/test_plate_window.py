"""Plates in a real window: what is read in workers arrives, layers stay, keys walk."""

from __future__ import annotations

import gc
import os

import numpy as np
import pytest
from qtpy.QtCore import Qt

from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.session import session_of
from plates import write_plate


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
def browser(viewer, root, qtbot):
    viewer.open(str(root), plugin="napari-ngff")
    browser = session_of(viewer).browser
    browser.choose_labels(None)
    settled(qtbot, viewer, browser)
    return browser


def settled(qtbot, viewer, browser):
    """Wait until all that is in view has arrived."""
    stream = browser._exhibit._stream
    qtbot.waitUntil(lambda: not stream._running and not stream._wanted, timeout=20_000)


def go(qtbot, browser, action):
    """Act, and wait until all is shown."""
    told = []
    browser.busy.connect(told.append)
    action()
    qtbot.waitUntil(lambda: told[-1:] == [False], timeout=20_000)
    browser.busy.disconnect(told.append)


def test_the_wells_of_a_dropped_plate_come_in(viewer, root, qtbot):
    viewer.open(str(root), plugin="napari-ngff")
    browser = session_of(viewer).browser
    assert len(browser.map.wells) == 48
    settled(qtbot, viewer, browser)
    for layer in viewer.layers[:2]:
        shown = np.asarray(layer._slice.image.raw)
        assert np.count_nonzero(shown) > 0.99 * shown.size
    assert browser.labels == "cells"


def test_arrows_and_points_walk_with_the_canvas_focused(viewer, browser, qtbot):
    images = list(viewer.layers[:2])
    viewer.layers.selection.active = images[0]
    images[0].contrast_limits = (5, 500)
    go(qtbot, browser, lambda: browser.show_field("B/2"))
    canvas = viewer.window._qt_viewer.canvas.native
    for key, position in (
        (Qt.Key.Key_Right, Position("B/3", "0", 0)),
        (Qt.Key.Key_Up, Position("A/3", "0", 0)),
        (Qt.Key.Key_Period, Position("A/3", "1", 0)),
        (Qt.Key.Key_Comma, Position("A/3", "0", 0)),
    ):
        go(qtbot, browser, lambda key=key: qtbot.keyClick(canvas, key))
        assert browser.position == position
    assert list(viewer.layers[:2]) == images
    assert tuple(images[0].contrast_limits) == (5, 500)
    assert viewer.layers[-1].name == "cells"
    assert viewer.canvas.overlays.text.text == "A03 - field 0 - acquisition 0"


def files():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.slow
def test_a_long_walk_leaves_nothing_behind(viewer, browser, qtbot):
    random = np.random.default_rng(1)
    wells = [well.path for well in browser.map.wells]

    def walk(steps):
        for _ in range(steps):
            if random.random() < 0.1:
                go(qtbot, browser, browser.show_mosaic)
                settled(qtbot, viewer, browser)
            go(qtbot, browser, lambda: browser.show_field(random.choice(wells)))
        gc.collect()
        kinds = [type(x).__name__ for x in gc.get_objects()]
        names = ("Canvas", "LayerSaver", "Journal", "MosaicLevel", "Image")
        return [kinds.count(name) for name in names]

    walk(20)
    before, handles = walk(5), files()
    after = walk(40)
    assert all(now <= then + 6 for now, then in zip(after, before, strict=True))
    assert files() <= handles + 4
