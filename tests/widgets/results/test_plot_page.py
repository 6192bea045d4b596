"""The page *Plot* in a real window: curves of a screen, and wells selected by dots."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from qtpy.QtCore import QEvent, QPoint, QPointF, Qt
from qtpy.QtGui import QImage, QMouseEvent
from qtpy.QtSvg import QSvgRenderer
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QStyle, QStyleOptionComboBox

from mouse import drop, pump, until
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of
from napari_ngff.widgets.docking import RESULTS, show_dock
from plates import write_plate

MOUSE, NONE = QEvent.Type, Qt.MouseButton.NoButton
LEFT, SHIFT = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ShiftModifier
DOSES = [0, *10 ** np.linspace(-3, 1.5, 7)]
COMPOUNDS = {f"cpd {i}": 10 ** (-1.5 + 0.15 * i) for i in range(1, 13)}
"""12 compounds and their EC50."""


def make_screen():
    """384 wells: 12 compounds, 8 doses, 4 repetitions; and two objects of each."""
    noise, rows = np.random.default_rng(7), []
    names = iter(
        f"{row}{column}" for row in "ABCDEFGHIJKLMNOP" for column in range(1, 25)
    )
    for compound, ec50 in COMPOUNDS.items():
        for dose in DOSES * 4:
            value = 100 - 80 * dose / (dose + ec50) + noise.normal(0, 4)
            rows.append((next(names), compound, dose, value))
    wells = pd.DataFrame(rows, columns=["well", "compound", "dose", "viability"])
    both = wells.assign(field=0, label=1, kind="round", area=wells["viability"])
    both = pd.concat([both, both.assign(label=2, kind="long", area=both["area"] + 9)])
    return wells, both[["well", "field", "label", "area", "kind"]]


@pytest.fixture
def page(viewer, tmp_path):
    """The page *Plot* of a screen with a table of wells and one of objects."""
    viewer.window.resize(1280, 800)
    where = write_plate(tmp_path / "p.ome.zarr", grid=(16, 24), fields=1)
    viewer.open(str(where), plugin="napari-ngff")
    until(lambda: browser_of(viewer) is not None)
    browser = browser_of(viewer)
    until(lambda: browser.browser() is not None)
    for name, table in zip(
        ("objects.csv", "wells.csv"), make_screen()[::-1], strict=True
    ):
        table.to_csv(tmp_path / name, index=False)
        drop(browser, tmp_path / name)
        until(lambda name=name: browser.tables.table.currentText() == name)
    dock = show_dock(viewer, RESULTS)
    until(lambda: "Wells" in dock.pages)
    bar = dock.tabs.tabBar()
    QTest.mouseClick(bar, LEFT, pos=bar.tabRect(1).center())
    until(lambda: "Plot" in dock.pages and dock.pages["Plot"].plot is not None)
    pump()
    return dock.pages["Plot"]


def choose(page, name, title):
    """Choose in a box as a person does, and wait for the plot."""
    box, before = page.boxes[name], page.plot
    box.setFocus()
    box.setCurrentText(title)
    box.activated.emit(box.currentIndex())
    until(lambda: page.plot is not before)
    pump()
    for each in page.boxes.values():
        option = QStyleOptionComboBox()
        each.initStyleOption(option)
        room = each.style().subControlRect(
            QStyle.ComplexControl.CC_ComboBox,
            option,
            QStyle.SubControl.SC_ComboBoxEditField,
            each,
        )
        text = each.currentText()
        assert each.fontMetrics().horizontalAdvance(text) <= room.width(), text
        assert each.visibleRegion().boundingRect() == each.rect()


def place_of(page, dot):
    """The pixel of a dot, by its number."""
    x, y = page.dots.getData()
    scene = page.axes.plotItem.vb.mapViewToScene(QPointF(x[dot], y[dot]))
    return page.axes.mapFromScene(scene)


def frame(page, left=None, right=None):
    """Drag with Shift over all of the plot, or over what is between two pixels."""
    port, box = page.axes.viewport(), page.axes.plotItem.vb
    area = page.axes.mapFromScene(box.sceneBoundingRect()).boundingRect()
    start, end = area.topLeft() + QPoint(3, 3), area.bottomRight() - QPoint(3, 3)
    start.setX(left or start.x())
    end.setX(right or end.x())
    steps = [start + (end - start) * part for part in (0.0, 0.3, 0.6, 1.0)]
    kinds = [MOUSE.MouseButtonPress, *[MOUSE.MouseMove] * 3, MOUSE.MouseButtonRelease]
    for kind, at in zip(kinds, [*steps, end], strict=True):
        button = NONE if kind == MOUSE.MouseMove else LEFT
        held = NONE if kind == MOUSE.MouseButtonRelease else LEFT
        places = QPointF(at), QPointF(port.mapToGlobal(at))
        QApplication.sendEvent(port, QMouseEvent(kind, *places, button, held, SHIFT))
        pump()


def test_curves_of_a_screen_and_wells_selected_by_dots(viewer, page, tmp_path):
    browser, plate = session_of(viewer).browser, browser_of(viewer).map
    # What the map is coloured by is drawn first.
    before, colors = page.plot, browser_of(viewer).tables.column
    colors.setCurrentText("viability")
    colors.activated.emit(colors.currentIndex())
    until(lambda: page.plot is not before)
    assert [page.boxes[x].currentText() for x in "xy"] == ["dose", "viability"]
    choose(page, "kind", "Histogram of objects")
    choose(page, "kind", "Dose response")
    for box in page.boxes.values():
        assert box.currentText() in box.toolTip()
    assert viewer.window._qt_window.width() == 1280
    assert page.plot.title == "dose (logarithmic, 0 at the left edge)"
    lines = page.legend.toPlainText().splitlines()
    numbers = [re.findall(r"[\d.]+", line.split(": EC50")[1]) for line in lines]
    found = [list(map(float, each)) for each in numbers]
    assert [line[2:].split(":")[0] for line in lines] == [*COMPOUNDS]
    for (ec50, low, high), truth in zip(found, COMPOUNDS.values(), strict=True):
        assert low < ec50 < high
        assert low <= truth <= high
    # A click selects the well on the map; a double click goes there.
    x, y = page.dots.getData()
    lone = len(y) - 1  # on top of all others
    port = page.axes.viewport()
    QTest.mouseClick(port, LEFT, pos=place_of(page, lone))
    well = page.plot.dots["well"].iloc[lone]
    until(lambda: plate.selected() == (well,))
    assert np.allclose(page.chosen.getData(), [[x[lone]], [y[lone]]])
    QTest.mouseDClick(port, LEFT, pos=place_of(page, lone))
    QTest.mouseRelease(port, LEFT, pos=place_of(page, lone))
    until(lambda: browser.position is not None and browser.position.well == well)
    # A frame selects all of its wells: those of the highest dose.
    last = np.flatnonzero(x == x.max())
    middle = place_of(page, last[0]).x()
    frame(page, middle - 12, middle + 12)
    wells = set(page.plot.dots["well"].iloc[last])
    assert len(wells) == 48
    assert set(plate.selected()) == set(browser.selected_wells) == wells
    # And back.
    QTest.mouseClick(plate.viewport(), LEFT, pos=plate.rectOf("C/5").center())
    until(lambda: len(page.chosen.getData()[0]) == 1)


def test_every_kind_is_drawn_saved_and_follows_filter_and_theme(viewer, page, tmp_path):
    filter_line = browser_of(viewer).controls.filter
    filter_line.setText("A1:D24")
    until(lambda: page.note.text().startswith("96 of 96 wells"))
    choose(page, "kind", "Box by condition")
    assert len(page.plot.lines) == 3  # of the compounds in these rows
    choose(page, "kind", "Scatter of objects")
    assert page.note.text().startswith("192 of 192 objects")
    choose(page, "group", "kind")
    assert page.legend.toPlainText().split() == ["●", "long", "●", "round"]
    frame(page)
    assert "The 96 wells of 192 objects are selected" in page.note.text()
    choose(page, "kind", "Histogram of objects")
    assert [line[1].sum() / 2 for line in page.plot.lines] == [96, 96]
    choose(page, "kind", "Dose response")
    for theme in ("light", "dark"):
        viewer.theme = theme
        pump()
        png, svg = (str(tmp_path / f"{theme}.{kind}") for kind in ("png", "svg"))
        for path in (png, svg):
            page.save_plot(path)
            assert page.note.text().startswith("96 of 96 wells")
            assert page.note.text().endswith(f"The plot is in {path}")
        picture = QImage(png)
        assert picture.size() == page.picture.size()
        back = picture.pixelColor(3, 3).lightness()
        assert (back > 128) == (theme == "light")
        assert QSvgRenderer(svg).isValid()
    page.save_plot(str(tmp_path / "missing" / "x.png"))
    assert "cannot be written" in page.note.text()
