"""The map of a plate: what is drawn, and what mouse and keys do on it."""

from __future__ import annotations

import pytest
from qtpy.QtCore import QEvent, QPoint, QPointF, Qt
from qtpy.QtGui import QColor, QImage, QMouseEvent, QWheelEvent
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QSplitter, QWidget

from napari_ngff.metadata.model import PlateMetadata, WellReference
from napari_ngff.plate.plate_layout import map_plate, row_letters
from napari_ngff.viewer.browsing.joined_tables import matching_wells
from napari_ngff.viewer.layers.coloring import Coloring
from napari_ngff.widgets.browser.plate_map import PlateMapView
from napari_ngff.widgets.theme_look import ThemeColors

LEFT = Qt.MouseButton.LeftButton
CONTROL = Qt.KeyboardModifier.ControlModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier
PLAIN = Qt.KeyboardModifier.NoModifier


def screen_of(rows, columns, missing=()):
    names = tuple(row_letters(i) for i in range(rows))
    numbers = tuple(str(i + 1) for i in range(columns))
    wells = tuple(
        WellReference(f"{a}/{b}", i, j)
        for i, a in enumerate(names)
        for j, b in enumerate(numbers)
        if f"{a}/{b}" not in missing
    )
    return PlateMetadata("plate", names, numbers, wells)


@pytest.fixture
def view(qtbot, screen):
    widget = PlateMapView()
    qtbot.addWidget(widget)
    widget.resize(460, 340)
    widget.setMap(map_plate(screen_of(8, 12, {"D/5"})))
    widget.show()
    qtbot.waitExposed(widget)
    return widget


def centre(view, path):
    return view.rectOf(path).center()


def click(view, path, modifiers=PLAIN):
    QTest.mouseClick(view.viewport(), LEFT, modifiers, centre(view, path))


def move(view, point, buttons=Qt.MouseButton.NoButton):
    """Move the mouse; not the pointer, which other windows may have."""
    port = view.viewport()
    place = QPointF(port.mapToGlobal(point))
    none = Qt.MouseButton.NoButton
    kind = QEvent.Type.MouseMove
    event = QMouseEvent(kind, QPointF(point), place, none, buttons, PLAIN)
    QApplication.sendEvent(port, event)


def drag(view, start, stop, modifiers=PLAIN):
    port = view.viewport()
    QTest.mousePress(port, LEFT, modifiers, start)
    for part in (0.3, 0.6, 1):
        move(view, start + (stop - start) * part, LEFT)
    QTest.mouseRelease(port, LEFT, modifiers, stop)


def pixel(view, path, at=(0.5, 0.25)):
    rect = view.rectOf(path)
    image = view.viewport().grab().toImage()
    x = rect.left() + round(rect.width() * at[0])
    return image.pixelColor(x, rect.top() + round(rect.height() * at[1]))


def picture(color):
    image = QImage(8, 8, QImage.Format.Format_RGB32)
    image.fill(QColor(color))
    return image


def test_a_click_chooses_a_well(view, qtbot):
    with qtbot.waitSignal(view.chosen) as reported:
        click(view, "C/7")
    assert reported.args == ["C/7"]
    assert view.selected() == ("C/7",)
    with qtbot.assertNotEmitted(view.chosen):
        rect = view.rectOf("D/4")
        place = QPoint(rect.center().x() + rect.width(), rect.center().y())
        QTest.mouseClick(view.viewport(), LEFT, PLAIN, place)
    assert view.selected() == (), "a gap is no well"


def test_control_adds_and_shift_pins(view, qtbot):
    click(view, "A/1")
    click(view, "B/2", CONTROL)
    assert view.selected() == ("A/1", "B/2")
    click(view, "A/1", CONTROL)
    assert view.selected() == ("B/2",)
    with qtbot.waitSignal(view.pinned) as reported, qtbot.assertNotEmitted(view.chosen):
        click(view, "H/12", SHIFT)
    assert reported.args == ["H/12"]
    assert view.selected() == ("B/2",)


def test_a_double_click_asks_to_be_brought_there(view, qtbot):
    with qtbot.waitSignal(view.approached) as reported:
        QTest.mouseDClick(view.viewport(), LEFT, PLAIN, centre(view, "E/5"))
    assert reported.args == ["E/5"]


def test_a_band_selects_many(view):
    drag(view, centre(view, "B/2"), centre(view, "D/4"))
    expected = [f"{row}/{column}" for row in "BCD" for column in range(2, 5)]
    assert view.selected() == tuple(expected)
    drag(view, centre(view, "G/11"), centre(view, "H/12"), CONTROL)
    assert view.selected() == (*expected, "G/11", "G/12", "H/11", "H/12")


def test_headers_select_rows_and_columns(view):
    port = view.viewport()
    place = QPoint(4, centre(view, "D/1").y())
    QTest.mouseClick(port, LEFT, PLAIN, place)
    assert view.selected() == tuple(f"D/{i}" for i in range(1, 13) if i != 5)
    place = QPoint(centre(view, "A/3").x(), 4)
    QTest.mouseClick(port, LEFT, CONTROL, place)
    assert len(view.selected()) == 11 + 7
    QTest.mouseClick(port, LEFT, PLAIN, QPoint(2, 2))
    assert len(view.selected()) == 95


def test_arrows_step(view, qtbot):
    view.setFocus()
    for key, step in (
        (Qt.Key.Key_Up, [-1, 0]),
        (Qt.Key.Key_Down, [1, 0]),
        (Qt.Key.Key_Left, [0, -1]),
        (Qt.Key.Key_Right, [0, 1]),
    ):
        with qtbot.waitSignal(view.stepped) as reported:
            QTest.keyClick(view, key)
        assert reported.args == step


def test_the_mouse_shows_where_it_is(view, qtbot):
    with qtbot.waitSignal(view.hovered) as reported:
        move(view, centre(view, "B/3"))
    assert reported.args == ["B/3"]
    view.change_state(problems={"B/3": "The well is gone."})
    assert view.tipAt(centre(view, "B/3")) == "B3\nThe well is gone."
    assert view.tipAt(centre(view, "B/4")) == "B4"
    rect = view.rectOf("D/4")
    assert view.tipAt(rect.center() + QPoint(rect.width(), 0)) == ""


@pytest.mark.parametrize("tables", [1, 2, 5])
def test_a_tip_of_many_columns_fits_on_the_screen(view, tables):
    columns = [(f"column {number}", "1.0") for number in range(60)]
    view.setDetails(lambda well: [(f"table {n}", columns) for n in range(tables)])
    lines = view.tipAt(centre(view, "B/4")).splitlines()
    high = len(lines) * view.fontMetrics().lineSpacing()
    assert len(lines) >= 20
    assert high < 768, "the lowest screens"


def test_wells_gaps_and_pictures_are_distinguished(view):
    colors = ThemeColors.from_theme("light")
    view.setColors(colors)
    rect = view.rectOf("D/4")
    image = view.viewport().grab().toImage()
    assert image.pixelColor(rect.center()) == colors.well
    assert image.pixelColor(rect.center() + QPoint(rect.width() + 1, 0)) == colors.gap
    view.setPictures({"A/2": picture("#00ff00")})
    assert pixel(view, "A/2") == QColor("#00ff00")
    view.change_state(problems={"C/3": "gone"})
    assert pixel(view, "C/3", (0.5, 0.5)) == colors.broken
    view.change_state(shown={"A/1"})
    assert pixel(view, "A/2") != QColor("#00ff00"), "filtered wells are dimmed"
    assert pixel(view, "A/1") == colors.well
    view.change_state(shown=None)
    view.setCurrent("F/6")
    assert pixel(view, "F/6", (0.5, 0.0)) == colors.chosen


def test_the_legend_is_whole_in_a_map_that_gets_narrower(qtbot, screen):
    splitter = QSplitter(Qt.Orientation.Vertical)
    qtbot.addWidget(splitter)
    view = PlateMapView(splitter)
    view.setMap(map_plate(screen_of(8, 12, {"D/5"})))
    colors = [(n, 0, 255 - n) for n in range(256)]
    view.change_state(coloring=Coloring({"A/1": 1.0}, (1.0, 2.0), "cells", colors))
    QWidget(splitter)
    splitter.show()
    for width in (600, 400, 380, 500):
        splitter.resize(width, 900)
        qtbot.wait(50)
        below = view.viewport().geometry().bottom()
        assert below <= view.rect().bottom(), f"cut at a width of {width}"
        assert view.height() < 600, "the fields of a well have the rest"


def test_values_colour_wells(view, qtbot):
    colors = [(n, 0, 255 - n) for n in range(256)]
    view.setPictures({"A/1": picture("#00ff00")})
    values = {"A/1": 10.0, "A/2": 25.0, "A/3": None, "A/4": float("nan")}
    view.change_state(coloring=Coloring(values, (10.0, 20.0), "cells", colors))
    assert pixel(view, "A/1") == QColor(0, 0, 255)
    assert pixel(view, "A/2") == QColor(255, 0, 0)
    for missing in ("A/3", "A/4", "B/1"):
        assert pixel(view, missing, (0.5, 0.5)) == view._colors.line
    assert view.tipAt(centre(view, "A/1")) == "A1\ncells: 10"
    assert view.tipAt(centre(view, "A/4")) == "A4\ncells: no value"
    legend = view.viewport().grab().toImage()
    y = view.viewport().height() - 25
    assert legend.pixelColor(10, y).blue() > 240
    assert legend.pixelColor(view.viewport().width() - 10, y).red() > 240
    view.change_state(coloring=None)
    assert pixel(view, "A/1") == QColor("#00ff00")


def test_it_fits_and_scrolls_when_it_is_enlarged(view, qtbot):
    assert len(view.visibleWells()) == 95
    assert view.rectOf("H/12").right() < view.viewport().width()
    place = QPointF(centre(view, "A/1"))
    for _ in range(6):
        event = QWheelEvent(
            place,
            QPointF(view.mapToGlobal(place.toPoint())),
            QPoint(),
            QPoint(0, 120),
            Qt.MouseButton.NoButton,
            CONTROL,
            Qt.ScrollPhase.NoScrollPhase,
            False,
        )
        QApplication.sendEvent(view.viewport(), event)
    seen = view.visibleWells()
    assert 0 < len(seen) < 30
    assert "H/12" not in seen
    with qtbot.waitSignal(view.scrolled):
        view.setCurrent("H/12")
    assert "H/12" in view.visibleWells()
    with qtbot.waitSignal(view.chosen) as reported:
        click(view, "H/12")
    assert reported.args == ["H/12"]


def test_rows_past_z_have_two_letters(view):
    view.setMap(map_plate(screen_of(32, 48)))
    assert view.tipAt(centre(view, "AF/48")) == "AF48"
    assert len(view.visibleWells()) == 1536


def test_what_is_gone_from_the_plate_is_not_selected(view):
    click(view, "H/12")
    view.setMap(map_plate(screen_of(2, 3)))
    assert view.selected() == ()
    view.clear()
    assert view.visibleWells() == ()
    assert not view.viewport().grab().isNull()


PLATE = map_plate(screen_of(8, 12, {"D/5"}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b3", ["B/3"]),
        ("B03, C4", ["B/3", "C/4"]),
        ("d", [f"D/{i}" for i in range(1, 13) if i != 5]),
        ("05", [f"{a}/5" for a in "ABCEFGH"]),
        ("A1:b2", ["A/1", "A/2", "B/1", "B/2"]),
        ("B2:A1", ["A/1", "A/2", "B/1", "B/2"]),
        ("?0[1-2]", [f"{a}/{i}" for a in "ABCDEFGH" for i in (1, 2)]),
        ("nothing", []),
        ("A1:", []),
    ],
)
def test_words_mean_wells(text, expected):
    found = matching_wells(PLATE, text)
    assert [well.path for well in PLATE.wells if well.path in found] == expected


def test_no_words_mean_all_wells():
    assert matching_wells(PLATE, " , ") is None
