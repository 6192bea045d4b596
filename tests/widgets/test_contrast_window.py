"""Text and signs of the docks are seen in both themes, and follow the letters' size."""

from __future__ import annotations

import numpy as np
import pytest
from qtpy.QtCore import QRect, Qt
from qtpy.QtGui import QColor, QImage
from qtpy.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QComboBox,
    QHeaderView,
    QLabel,
    QLineEdit,
    QListView,
    QScrollBar,
    QTabBar,
    QWidget,
)

from contrast import (
    SIGN,
    TEXT,
    ground,
    luminance,
    pixels,
    ratio,
    sign_ratio,
    text_ratio,
)
from mouse import pump, until
from napari_ngff.metadata.model import LabelKind, PlateMetadata, WellReference
from napari_ngff.plate.plate_layout import map_plate
from napari_ngff.viewer.browsing.field_labels import WellStates
from napari_ngff.viewer.layers.coloring import color_numbers
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.samples import write_plate
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of
from napari_ngff.widgets.browser.plate_map import PlateMapView
from napari_ngff.widgets.docking import ANNOTATE, bring_forward
from napari_ngff.widgets.form_dialog import close_form
from napari_ngff.widgets.new_labels_form import show_new_labels
from napari_ngff.widgets.theme_look import ThemeColors

THEMES = "dark", "light"


@pytest.fixture
def docks(viewer, tmp_path):
    """The browser and the annotate dock, in a round."""
    from napari.settings import get_settings

    appearance = get_settings().appearance
    before = appearance.font_size
    path = write_plate(tmp_path / "plate.ome.zarr", grid=(2, 3), fields=2)
    viewer.window.resize(1400, 950)
    viewer.open(str(path), plugin="napari-ngff")
    until(lambda: browser_of(viewer) is not None)
    _, dock = viewer.window.add_plugin_dock_widget("napari-ngff", ANNOTATE)
    browser = session_of(viewer).browser
    browser.show_field(browser.map.wells[0].path)
    until(lambda: browser.position is not None and len(viewer.layers) > 1)
    labels = viewer.add_layer(new_labels(viewer.layers[0], "phenotypes"))
    viewer.layers.selection.active = labels
    for name in ("nucleus", "debris", "dividing"):
        dock.classes.classes.add_class(name)
    dock.round.startRound()
    until(lambda: dock.round.annotation.fields)
    viewer.window._qt_window.activateWindow()
    pump(300)
    yield browser_of(viewer), dock
    appearance.font_size = before


def pages(browser, dock):
    """Bring each page of both docks in front, one after the other."""
    bring_forward(dock)
    for kind in LabelKind:
        dock.setKind(kind)
        pump(100)
        yield dock
    bring_forward(browser)
    pump(100)
    yield browser


def is_seen(widget):
    return widget.isVisible() and not widget.visibleRegion().isEmpty()


def texts(dock):
    """What can be read in a dock: a name for it, and a picture."""
    for widget in dock.findChildren(QWidget):
        if not is_seen(widget) or not widget.isEnabled():
            continue
        if isinstance(widget, QLabel | QAbstractButton) and widget.text().strip():
            yield widget.text(), pixels(widget)
        elif isinstance(widget, QComboBox) and widget.currentText():
            yield (
                widget.currentText(),
                pixels(widget, widget.rect().adjusted(4, 2, -26, -2)),
            )
        elif isinstance(widget, QLineEdit):
            yield widget.placeholderText() or widget.text(), pixels(widget)
        elif isinstance(widget, QTabBar):
            for tab in range(widget.count()):
                inner = widget.tabRect(tab).adjusted(6, 4, -6, -4)
                yield widget.tabText(tab), pixels(widget, inner)
        elif isinstance(widget, QHeaderView):
            yield "header", pixels(widget.viewport())
        elif isinstance(widget, QAbstractItemView) and widget.model() is not None:
            yield from cells(widget)


def cells(view):
    model = view.model()
    for row in range(model.rowCount()):
        columns = 1 if isinstance(view, QListView) else model.columnCount()
        for column in range(columns):
            index = model.index(row, column)
            rect = view.visualRect(index).adjusted(2, 2, -2, -2)
            rect &= view.viewport().rect()
            if index.data() and rect.isValid():
                if view.iconSize().height() > 40:
                    rect.setTop(rect.bottom() - view.fontMetrics().height())
                yield f"{index.data()} in row {row}", pixels(view.viewport(), rect)


@pytest.mark.long
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", [9, 18])
def test_text_stands_out(viewer, docks, theme, size):
    from napari.settings import get_settings

    viewer.theme = theme
    get_settings().appearance.font_size = size
    pump(300)
    read = []
    for dock in pages(*docks):
        found = {text: text_ratio(picture) for text, picture in texts(dock)}
        read += found
        assert not {text: r for text, r in found.items() if r < TEXT}
    for text in ("nucleus in row 0", "Map", "- objects of", "header", "Field"):
        assert any(text in one.replace("&", "") for one in read), text


def controls(dock):
    return [
        widget
        for widget in dock.findChildren(QWidget)
        if is_seen(widget)
        and widget.isEnabled()
        and widget.focusPolicy() & Qt.FocusPolicy.TabFocus
        and widget.focusProxy() is None
        and not isinstance(widget, QScrollBar)
    ]


@pytest.mark.long
@pytest.mark.parametrize("theme", THEMES)
def test_the_focus_is_seen_around_every_control(viewer, docks, theme):
    viewer.theme = theme
    pump(200)
    hardly, count = [], 0
    for dock in pages(*docks):
        for widget in controls(dock):
            dock.setFocus()
            pump(5)
            before = pixels(widget)
            widget.setFocus(Qt.FocusReason.TabFocusReason)
            pump(5)
            after = pixels(widget)
            area = widget.rect()
            if isinstance(widget, QTabBar):
                area = widget.tabRect(widget.currentIndex())
            marked = (ratio(before, after) >= SIGN).sum()
            # As much as three sides of a line of one pixel around it.
            if marked < area.width() + 2 * area.height():
                hardly.append((type(widget).__name__, widget.accessibleName(), marked))
            count += 1
    assert not hardly
    assert count > 40


@pytest.mark.long
@pytest.mark.parametrize("theme", THEMES)
def test_the_chosen_row_is_seen_by_more_than_its_shade(viewer, docks, theme):
    _, dock = docks
    viewer.theme = theme
    bring_forward(dock)
    table = dock.classes.table
    row = table.visualRect(table.model().index(1, 0))
    row.setRight(table.viewport().width() - 1)
    chosen = []
    for value in (1, 2):
        dock.classes.classes.select_class(value)
        pump(100)
        chosen.append(pixels(table.viewport(), row))
    assert (ratio(*chosen) >= SIGN).sum() >= row.width()
    # Boxes to tick are seen on both.
    for picture in chosen:
        for column in (4, 5):
            cell = table.visualRect(table.model().index(1, column))
            part = picture[3:-3, cell.left() + 3 : cell.right() - 3]
            assert text_ratio(part) >= SIGN


# The map of a plate.

WELLS = tuple(
    WellReference(f"{r}/{c}", i, j)
    for i, r in enumerate("AB")
    for j, c in enumerate("12")
)
GROUNDS = "black", "#777777", "white", "#fde725", "#440154"


@pytest.fixture(params=THEMES)
def plate_map(qtbot, qapp, request):
    view = PlateMapView()
    qtbot.addWidget(view)
    view.setColors(ThemeColors.from_theme(request.param))
    view.resize(200, 200)
    view.setMap(map_plate(PlateMetadata("plate", ("A", "B"), ("1", "2"), WELLS)))
    view.show()
    pump(50)
    return view


def with_picture(view, color):
    picture = QImage(32, 32, QImage.Format.Format_RGB32)
    picture.fill(QColor(color))
    view.setPictures({well.path: picture for well in WELLS})
    pump()


@pytest.mark.parametrize(
    "sign", ["current", "selected", "pinned", "broken", "progress"]
)
def test_signs_of_wells_are_seen_on_pictures_of_any_colour(plate_map, sign):
    path = WELLS[0].path
    rect = plate_map.rectOf(path)
    ratios = {}
    for color in (None, *GROUNDS):
        if color is not None:
            with_picture(plate_map, color)
        before = pixels(plate_map.viewport(), rect)
        mark(plate_map, sign, path)
        after = pixels(plate_map.viewport(), rect)
        mark(plate_map, sign, None)
        ratios[color] = sign_ratio(before, after)
    assert not {color: r for color, r in ratios.items() if r < SIGN}


def mark(view, sign, path):
    found = () if path is None else (path,)
    if sign == "current":
        view.setCurrent(path)
    elif sign == "selected":
        view.setSelected(found)
    elif sign == "pinned":
        view.change_state(pinned=set(found))
    elif sign == "broken":
        view.change_state(problems=dict.fromkeys(found, "broken"))
    else:
        half = WellStates({"done": 1}, 2)
        view.change_state(states=dict.fromkeys(found, half))
    pump(10)


def test_wells_without_a_picture_are_distinguished_from_empty_places(plate_map):
    plate_map.setMap(
        map_plate(PlateMetadata("plate", ("A", "B"), ("1", "2"), WELLS[:3]))
    )
    pump(20)
    place = plate_map.rectOf(WELLS[0].path)
    well = pixels(plate_map.viewport(), place)
    empty = place.translated(place.width() + 1, place.height() + 1)
    gap = ground(pixels(plate_map.viewport(), empty.adjusted(9, 9, -9, -9)))
    assert (ratio(well, gap) >= SIGN).sum() >= 2 * (place.width() + place.height()) - 8


def test_names_missing_values_and_the_legend_are_seen(plate_map):
    values = {well.path: float(i) for i, well in enumerate(WELLS[1:])}
    values[WELLS[-1].path] = 1234.5
    title = "area of all nuclei in square micrometres"
    coloring = color_numbers(values, title, is_log=False)
    header = pixels(plate_map.viewport(), QRect(0, 0, plate_map.viewport().width(), 14))
    assert text_ratio(header) >= TEXT
    plate_map.change_state(coloring=coloring)
    pump(20)
    missing = pixels(plate_map.viewport(), plate_map.rectOf(WELLS[0].path))
    assert text_ratio(missing) >= SIGN
    port = plate_map.viewport()
    high = port.fontMetrics().height()
    legend = pixels(port, QRect(0, port.height() - high, port.width(), high))
    assert text_ratio(legend) >= TEXT
    # The title is cut, not written over the limits.
    ink = (ratio(legend, ground(legend)) > 2).any(axis=0)
    left = port.fontMetrics().horizontalAdvance("0") + 3
    assert not ink[left + 1 : left + 6].any()


# Large letters.


@pytest.mark.long
def test_all_of_the_docks_follows_the_size_of_letters(viewer, docks):
    from napari.settings import get_settings

    get_settings().appearance.font_size = 20
    pump(400)
    browser, dock = docks
    small = [
        (type(widget).__name__, widget.objectName(), widget.fontInfo().pointSize())
        for each in pages(*docks)
        for widget in each.findChildren(QWidget)
        if is_seen(widget) and widget.fontInfo().pointSize() < 20
    ]
    assert not small
    bring_forward(dock)
    pump(100)
    table = dock.classes.table
    assert table.rowHeight(0) >= table.fontMetrics().height()
    assert table.horizontalHeader().height() >= table.fontMetrics().height()
    header = pixels(table.horizontalHeader().viewport())
    ink = (ratio(header, ground(header)) >= TEXT).any(axis=1).sum()
    assert ink >= table.fontMetrics().height() / 2
    line = browser.controls.filter
    assert line.height() >= line.fontMetrics().height()
    strip = browser.well.strip
    item = strip.visualItemRect(strip.item(0))
    assert item.height() >= strip.iconSize().height() + strip.fontMetrics().height()
    assert browser.map.viewport().fontInfo().pointSize() == 20


@pytest.mark.long
def test_forms_follow_letters_and_show_the_focus(viewer, docks):
    from napari.settings import get_settings

    form = show_new_labels(viewer)
    pump(100)
    line = form.called.native
    form.native.setFocus()
    before = pixels(line)
    line.setFocus(Qt.FocusReason.TabFocusReason)
    pump(20)
    marked = (ratio(before, pixels(line)) >= SIGN).sum()
    assert marked >= line.width() + 2 * line.height()
    get_settings().appearance.font_size = 20
    pump(200)
    assert line.fontInfo().pointSize() == 20
    close_form(form)


def test_luminance_is_that_of_the_standard():
    grey = np.array([0.5, 0.5, 0.5])
    assert luminance(grey) == pytest.approx(0.2140, abs=1e-4)
    assert ratio(np.zeros(3), np.ones(3)) == pytest.approx(21)
