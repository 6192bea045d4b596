"""The dock of results in a real window: its rows are wells of the map."""

from __future__ import annotations

import pandas as pd
import pytest
from qtpy.QtCore import QPoint, Qt
from qtpy.QtTest import QTest

from mouse import drop, pump, until
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of
from napari_ngff.widgets.docking import RESULTS, show_dock
from napari_ngff.widgets.results.results_dock import NO_PLATE, NO_TABLE
from plates import write_plate

LEFT = Qt.MouseButton.LeftButton
OBJECTS = pd.DataFrame(
    [
        (f"{row}{column}", field, label, 10.0 * column + label, kind)
        for row in "AB"
        for column in (1, 2, 3)
        for field in (0, 1)
        for label, kind in ((1, "round"), (2, "long"), (3, "long"))
    ],
    columns=["well", "field", "label", "area", "kind"],
)
CONDITIONS = "well,drug,dose\n" + "".join(
    f"{row}{column},{'dmso' if column == 1 else 'x'},{column}\n"
    for row in "AB"
    for column in (1, 2, 3)
)


@pytest.fixture
def results(viewer, tmp_path):
    """The page *Wells* of a plate of 2 x 3 wells with two tables."""
    viewer.window.resize(1280, 800)
    dock = show_dock(viewer, RESULTS)
    assert (dock.hint.text(), dock.hint.isVisible()) == (NO_PLATE, True)
    where = write_plate(tmp_path / "p.ome.zarr", grid=(2, 3), fields=2)
    viewer.open(str(where), plugin="napari-ngff")
    until(lambda: browser_of(viewer) is not None)
    assert dock.hint.text() == NO_TABLE
    browser = browser_of(viewer)
    until(lambda: browser.browser() is not None)
    (tmp_path / "conditions.csv").write_text(CONDITIONS)
    OBJECTS.to_csv(tmp_path / "objects.csv", index=False)
    for name in ("conditions.csv", "objects.csv"):
        drop(browser, tmp_path / name)
        until(lambda name=name: browser.tables.table.currentText() == name)
    until(browser.tables.results.isVisible)
    QTest.mouseClick(browser.tables.results, LEFT)
    until(lambda: "Wells" in dock.pages)
    page = dock.pages["Wells"]
    until(lambda: page.model.rowCount() == 6)
    return page


def shown(page, title):
    """The cells of a column, from the top."""
    model = page.model
    columns = [
        model.headerData(i, Qt.Orientation.Horizontal)
        for i in range(model.columnCount())
    ]
    at = columns.index(title)
    return [model.index(i, at).data() for i in range(model.rowCount())]


def click(page, row, *, double=False):
    """Click the first cell of a row."""
    place = page.view.visualRect(page.model.index(row, 0)).center()
    port = page.view.viewport()
    QTest.mouseClick(port, LEFT, pos=place)
    if double:
        QTest.mouseDClick(port, LEFT, pos=place)


def test_rows_are_wells_and_are_selected_and_shown_with_the_map(viewer, results):
    browser, plate = session_of(viewer).browser, browser_of(viewer).map
    assert shown(results, "well") == ["A1", "A2", "A3", "B1", "B2", "B3"]
    assert shown(results, "area, mean") == ["12", "22", "32"] * 2
    assert shown(results, "kind") == ["long 67 %"] * 6
    header = results.view.horizontalHeader()
    section = [x.title for x in results.results.columns].index("area, mean") + 1
    results.view.scrollTo(results.model.index(0, section))
    place = QPoint(header.sectionViewportPosition(section) + 20, 8)
    for _ in range(2):
        QTest.mouseClick(header.viewport(), LEFT, pos=place)
        pump()
    assert shown(results, "well")[:2] in (["B3", "A3"], ["A3", "B3"])
    click(results, 0)
    best = results.model.wellAt(0)
    assert plate.selected() == (best,)
    assert browser.position is None
    click(results, 0, double=True)
    until(lambda: browser.position is not None and browser.position.well == best)
    QTest.mouseClick(plate.viewport(), LEFT, pos=plate.rectOf("B/1").center())
    until(lambda: browser.position.well == "B/1")
    rows = results.view.selectionModel().selectedRows()
    assert [results.model.wellAt(x.row()) for x in rows] == ["B/1"]


def test_rows_are_those_of_the_filter_of_the_map(viewer, results):
    controls = browser_of(viewer).controls
    controls.filter.setText("drug = x and area > 30")
    until(lambda: results.model.rowCount() == 2)
    assert shown(results, "well") == ["A3", "B3"]
    assert "area > 30" in results.results.columns[-2].meaning
