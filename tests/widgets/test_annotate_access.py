"""The annotate dock without a mouse, and with large letters."""

from __future__ import annotations

import pytest
from qtpy.QtCore import Qt
from qtpy.QtGui import QDesktopServices
from qtpy.QtTest import QTest
from qtpy.QtWidgets import (
    QAbstractButton,
    QApplication,
    QLabel,
    QScrollBar,
    QTabBar,
    QWidget,
)

from mouse import canvas, pump, until
from napari_ngff.metadata.model import LabelKind
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.samples import write_image, write_plate
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of, show_browser
from napari_ngff.widgets.docking import bring_forward

TARGET = 20
"""Pixels that a control is at least wide and high, at a scale of 100 %."""


@pytest.fixture
def dock(viewer, tmp_path):
    """The dock, with all that it shows in a round of annotation."""
    _, dock = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    path = write_plate(tmp_path / "plate.ome.zarr", grid=(1, 2), fields=2)
    viewer.open(str(path), plugin="napari-ngff")
    browser = session_of(viewer).browser
    browser.show_field(browser.map.wells[0].path)
    until(lambda: browser.position is not None and len(viewer.layers) > 1)
    labels = viewer.add_layer(new_labels(viewer.layers[0], "phenotypes"))
    viewer.layers.selection.active = labels
    dock.classes.classes.add_class("nucleus")
    dock.classes.classes.add_class("debris")
    dock.round.startRound()
    until(lambda: dock.round.annotation.fields)
    bring_forward(dock)  # the browser came in front of it
    viewer.window._qt_window.activateWindow()
    pump(200)
    return dock


def controls(dock):
    """Widgets that somebody could use now, but parts of others and pages."""
    return [
        widget
        for widget in dock.findChildren(QWidget)
        if widget.isVisible()
        and widget.isEnabled()
        and widget.focusPolicy() & Qt.FocusPolicy.TabFocus
        and widget.focusProxy() is None
        and not isinstance(widget, QScrollBar)
    ]


def spoken(widget, dock):
    """What a screen reader says of a widget: its name, its text, or its label's."""
    label = next((x for x in dock.findChildren(QLabel) if x.buddy() is widget), None)
    text = widget.text() if isinstance(widget, QAbstractButton) else ""
    return widget.accessibleName() or text or (label.text() if label else "")


def tips(widget, dock):
    """The tooltip of a widget, or of what it is a part of."""
    while not widget.toolTip() and widget is not dock:
        widget = widget.parentWidget()
    return widget.toolTip()


@pytest.mark.long
@pytest.mark.parametrize("kind", LabelKind)
def test_tab_leads_to_every_control_and_each_says_what_it_is(dock, kind):
    dock.setKind(kind)
    pump(100)
    wanted = set(controls(dock))
    assert len(wanted) > 10
    dock.make.setFocus(Qt.FocusReason.TabFocusReason)
    pump()
    reached = set()
    for _ in range(2 * len(wanted) + 60):
        focus = QApplication.focusWidget()
        reached.add(focus)
        QTest.keyClick(focus, Qt.Key.Key_Tab)
        if QApplication.focusWidget() is dock.make:
            break
    assert not {type(w).__name__ + spoken(w, dock) for w in wanted - reached}
    for widget in wanted:
        assert spoken(widget, dock) or isinstance(widget, QTabBar), widget
        assert tips(widget, dock) or isinstance(widget, QTabBar), spoken(widget, dock)


@pytest.mark.long
def test_tab_leads_through_the_browser_and_each_control_says_what_it_is(viewer, dock):
    browser = browser_of(viewer)
    bring_forward(browser)
    pump(200)
    wanted = set(controls(browser))
    assert len(wanted) > 8
    assert browser.map in wanted
    browser.annotate.setFocus(Qt.FocusReason.TabFocusReason)
    pump()
    reached = set()
    for _ in range(3 * len(wanted) + 60):
        focus = QApplication.focusWidget()
        reached.add(focus)
        QTest.keyClick(focus, Qt.Key.Key_Tab)
        if QApplication.focusWidget() is browser.annotate:
            break
    # Of buttons that exclude each other Qt leads to one, and arrows to the others.
    modes = set(browser.controls.buttons.values())
    assert modes & reached
    missed = wanted - reached - modes
    assert not {type(w).__name__ + spoken(w, browser) for w in missed}
    assert all(spoken(widget, browser) for widget in wanted)


@pytest.mark.long
def test_images_of_a_folder_are_chosen_and_opened_by_keys(viewer, tmp_path):
    write_image(tmp_path / "images" / "a.ome.zarr", shape=(64, 96))
    browser = show_browser(viewer)
    browser.showPath(str(tmp_path / "images"))
    until(lambda: browser.images.list.count() == 1)
    viewer.window._qt_window.activateWindow()
    canvas(viewer).native.setFocus()
    until(lambda: QApplication.focusWidget() is canvas(viewer).native)

    def found():
        focus = QApplication.focusWidget()
        if focus is not browser.images.list:
            QTest.keyClick(focus, Qt.Key.Key_Tab)
        return focus is browser.images.list

    until(found)
    QTest.keyClick(browser.images.list, Qt.Key.Key_Down)
    QTest.keyClick(browser.images.list, Qt.Key.Key_Space)
    QTest.keyClick(browser.images.list, Qt.Key.Key_Return)
    until(lambda: len(viewer.layers))


@pytest.mark.long
@pytest.mark.parametrize("size", [9, 20])
def test_nothing_is_cut_off_with_large_letters(viewer, dock, size):
    from napari.settings import get_settings

    viewer.theme = "light"
    # In a window of its own: no screen is too small for it.
    dock.parent().setFloating(True)
    appearance = get_settings().appearance
    before, appearance.font_size = appearance.font_size, size
    try:
        pump(100)
        dock.parent().resize(dock.parent().sizeHint())
        for kind in LabelKind:
            dock.setKind(kind)
            pump(150)
            for button in dock.findChildren(QAbstractButton):
                if not button.isVisible() or not button.text():
                    continue
                room = button.fontMetrics().horizontalAdvance(
                    button.text().replace("&", "")
                )
                assert room <= button.width(), button.text()
                assert button.fontMetrics().height() <= button.height(), button.text()
                assert min(button.width(), button.height()) >= TARGET, button.text()
            shown = QLabel.text(dock.path)  # its own is the whole path
            wide = dock.path.fontMetrics().horizontalAdvance(shown)
            assert 0 < wide < dock.path.width()
    finally:
        appearance.font_size = before


@pytest.mark.long
def test_names_of_classes_are_whole(dock):
    table = dock.classes.table
    column = next(
        i
        for i in range(table.model().columnCount())
        if table.model().index(0, i).data() == "nucleus"
    )
    assert table.columnWidth(column) > table.fontMetrics().horizontalAdvance("nucleus")


@pytest.mark.long
def test_one_class_or_object_is_shown_alone(viewer, dock):
    labels = dock.round.annotation.layer
    lead = (0,) * (labels.ndim - 2)
    for value, x in ((1, 10), (2, 40)):
        labels.selected_label = value
        labels.paint((*lead, 10, x), value)
    labels.show_selected_label = True
    assert labels.get_color(1)[3] == 0
    assert labels.get_color(2)[3] == 1
    dock.classes.classes.select_class(1)
    assert labels.get_color(2)[3] == 0
    dock.classes.classes.change_class(2, color=(9, 9, 9, 255))
    assert labels.colormap.use_selection, "still alone"
    labels.show_selected_label = False
    assert labels.get_color(2)[3] == 1


@pytest.mark.long
def test_a_click_on_the_path_shows_its_folder(dock, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(QDesktopServices, "openUrl", asked.append)
    assert "plate.ome.zarr" in dock.path.toolTip()
    QTest.mouseClick(dock.path, Qt.MouseButton.LeftButton)
    (url,) = asked
    assert url.toLocalFile().startswith(str(tmp_path / "plate.ome.zarr"))


def test_space_moves_the_view_after_a_click_on_a_button(viewer, dock):
    """Else it would show the next field."""
    browser = session_of(viewer).browser
    native = canvas(viewer).native
    native.setFocus()
    until(lambda: QApplication.focusWidget() is native)
    first = browser.position
    QTest.mouseClick(dock.round.next, Qt.MouseButton.LeftButton)
    until(lambda: browser.position != first)
    second = browser.position
    pump(200)
    labels = viewer.layers.selection.active
    labels.mode = "paint"
    QTest.keyPress(QApplication.focusWidget(), Qt.Key.Key_Space)
    pump()
    assert labels.mode == "pan_zoom"
    QTest.keyRelease(QApplication.focusWidget(), Qt.Key.Key_Space)
    pump(200)
    assert labels.mode == "paint"
    assert browser.position == second
