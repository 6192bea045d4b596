"""A small window: docks leave room for the canvas, and no text in them is cut."""

from __future__ import annotations

import pytest
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QAbstractButton, QLabel

from mouse import pump, until
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.samples import write_plate
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of
from napari_ngff.widgets.docking import ANNOTATE, INSPECTOR, show_dock

WIDTH, HEIGHT = 900, 600
WIDEST = 350
"""Pixels that a dock may take of such a window."""
LEAST = 330
"""Pixels of the narrowest dock."""


@pytest.fixture
def plate_browser(viewer, tmp_path):
    viewer.window.resize(WIDTH, HEIGHT)
    pump(100)
    path = write_plate(tmp_path / "p.ome.zarr", grid=(2, 3), fields=2, shape=(64, 64))
    viewer.open(str(path), plugin="napari-ngff")
    until(lambda: browser_of(viewer) is not None)
    pump(300)
    return browser_of(viewer)


def text_of(widget):
    text = "" if isinstance(widget, QLabel) and widget.pixmap() else widget.text()
    return text.replace("&", "")


def is_cut(widget):
    """Return whether a person sees only a part of a text, without an ellipsis."""
    if widget.visibleRegion().isEmpty() or not text_of(widget):
        return False
    if "…" in text_of(widget) and widget.toolTip():
        return False
    wraps = isinstance(widget, QLabel) and widget.wordWrap()
    hint = widget.minimumSizeHint() if wraps else widget.sizeHint()
    seen = widget.visibleRegion().boundingRect().width()
    too_low = wraps and widget.heightForWidth(widget.width()) > widget.height()
    return seen < hint.width() or too_low


def assert_fits(dock):
    """Check the width of a dock, and the texts of all its pages."""
    window = dock.window()
    assert window.width() == WIDTH
    assert dock.width() <= WIDEST
    left = min(window.centralWidget().x(), WIDTH)
    # The handles between docks are a few pixels wide.
    assert window.centralWidget().width() >= WIDTH - left - WIDEST - 30
    tabs = getattr(dock, "tabs", None)
    for page in range(tabs.count() if hasattr(tabs, "setCurrentIndex") else 1):
        if hasattr(tabs, "setCurrentIndex"):
            tabs.setCurrentIndex(page)
            pump(150)
        parts = [*dock.findChildren(QLabel), *dock.findChildren(QAbstractButton)]
        assert len([part for part in parts if part.isVisible()]) > 5
        assert [text_of(part) for part in parts if is_cut(part)] == []


def test_the_browser_fits_beside_the_canvas(viewer, plate_browser):
    assert_fits(plate_browser)
    tables = plate_browser.tables.tables()
    until(lambda: tables.browser.known_labels)
    session_of(viewer).browser.show_field(plate_browser.map.state.map.wells[0].path)
    tables.measure_labels(tables.browser.known_labels[0], "in this field", ())
    until(lambda: plate_browser.tables.save_button.isVisible())
    pump(300)
    assert_fits(plate_browser)


@pytest.mark.long
def test_the_annotate_dock_and_the_inspector_fit(viewer, plate_browser):
    dock = show_dock(viewer, ANNOTATE)
    browser = session_of(viewer).browser
    browser.show_field(browser.map.wells[0].path)
    until(lambda: browser.position is not None and len(viewer.layers) > 1)
    labels = viewer.add_layer(new_labels(viewer.layers[0], "phenotypes"))
    viewer.layers.selection.active = labels
    dock.classes.classes.add_class("nucleus")
    dock.round.startRound()
    until(lambda: dock.round.annotation.fields)
    pump(300)
    assert_fits(dock)
    viewer.layers.selection.active = viewer.layers[0]
    inspector = show_dock(viewer, INSPECTOR)
    until(lambda: inspector.open.isEnabled())
    pump(300)
    assert_fits(inspector)


@pytest.mark.long
def test_a_dock_that_was_wide_can_be_narrow_again(viewer, plate_browser):
    dock, window = plate_browser.parent(), plate_browser.window()
    window.resizeDocks([dock], [450], Qt.Orientation.Horizontal)
    until(lambda: dock.width() > 400)
    window.resizeDocks([dock], [260], Qt.Orientation.Horizontal)
    until(lambda: dock.width() <= LEAST)
