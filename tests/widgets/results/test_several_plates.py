"""The dock of results in a real window, with rows of several plates."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import zarr
from qtpy.QtCore import QPointF, Qt
from qtpy.QtTest import QTest

from mouse import pump, until
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.browsing.table_offers import TableOffer, TableOrigin
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of
from napari_ngff.widgets.docking import RESULTS, show_dock
from plates import write_plate

LEFT = Qt.MouseButton.LeftButton
NAMES = ("p1.zarr", "p2.zarr", "p3.zarr")
WELLS = ("A1", "A2", "B1", "B2")


def area_of(plate, well, label):
    return 100 * NAMES.index(plate) + 10 * WELLS.index(well) + label


def settle(viewer):
    browser = session_of(viewer).browser
    until(lambda: browser.state.wanted is None and not browser.is_drawing)
    pump(50)


def open_plate(viewer, folder, name):
    viewer.open(str(folder / name), plugin="napari-ngff")
    until(lambda: str(session_of(viewer).browser.node).endswith(name))
    settle(viewer)


def load_objects(viewer, folder, name):
    rows = [
        (well, 0, label, area_of(name, well, label), f"drug {label}")
        for well in WELLS
        for label in (1, 2, 3)
    ]
    columns = ["well", "field", "label", "area", "kind"]
    path = folder / f"objects of {name}.csv"
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)
    tables = session_of(viewer).open_tables()
    tables.load_file(str(path))
    until(lambda: tables.table is not None)


def click_row(page, plate, well, times=1):
    """Click a row as a person does."""
    frame, port = page.model.frame, page.view.viewport()
    is_row = (frame["plate"] == plate) & (frame["well"] == well)
    index = page.model.index(int(np.flatnonzero(is_row)[0]), 0)
    page.view.scrollTo(index)
    at = page.view.visualRect(index).center()
    QTest.mouseClick(port, LEFT, pos=at)
    if times == 2:
        QTest.mouseDClick(port, LEFT, pos=at)
        QTest.mouseRelease(port, LEFT, pos=at)


def choose(box, text, key=Qt.Key.Key_Down):
    box.setFocus()
    for _ in range(abs(box.findText(text) - box.currentIndex())):
        QTest.keyClick(box, key)


def choose_plate(viewer, name):
    choose(browser_of(viewer).plates, name, Qt.Key.Key_Up)
    until(lambda: is_at(viewer, name, "A/1"))
    settle(viewer)


def shown_areas(page):
    frame = page.model.frame
    places = zip(frame["plate"], frame["well"].astype(str), strict=True)
    return dict(zip(places, frame["area, mean"], strict=True))


def is_at(viewer, name, well):
    browser = session_of(viewer).browser
    place = browser.position
    return str(browser.node).endswith(name) and place and place.well == well


@pytest.fixture
def dock(viewer, tmp_path):
    """Results of three plates, of which the first has a stroke; the last no table."""
    use_workers()
    viewer.window.resize(1280, 800)
    for name in NAMES:
        write_plate(
            tmp_path / name, grid=(2, 2), fields=1, labelled=lambda _: ("cells",)
        )
    for name in NAMES[:2]:
        open_plate(viewer, tmp_path, name)
        load_objects(viewer, tmp_path, name)
    open_plate(viewer, tmp_path, NAMES[0])
    session = session_of(viewer)
    session.plates.add_plates([str(tmp_path / NAMES[2])])
    session.browser.show_field("A/1")
    settle(viewer)
    dock = show_dock(viewer, RESULTS)
    until(lambda: dock.pages.get("Wells") and dock.pages["Wells"].model.rowCount() == 4)
    return dock


def require_all(page):
    """Check the rows of all plates."""
    until(lambda: page.model.rowCount() == 12)
    wanted = {
        (name, well): area_of(name, well, 2) if name != NAMES[2] else np.nan
        for name in NAMES
        for well in WELLS
    }
    np.testing.assert_equal(shown_areas(page), wanted)


def go_by_row(viewer, page, name, well):
    click_row(page, name, well, times=2)
    until(lambda: is_at(viewer, name, f"{well[0]}/{well[1]}"))
    settle(viewer)
    require_all(page)


def test_a_row_of_another_plate_leads_there_and_nothing_is_lost(viewer, dock, tmp_path):
    labels = next(x for x in viewer.layers if x.name == "cells" and x.visible)
    labels.paint((3, 3), 77)
    assert dock.plates.isVisible()
    choose(dock.plates, "all listed plates")
    page = dock.pages["Wells"]
    until(lambda: page.model.rowCount() == 12 and not dock.cancel.isVisible())
    assert dock.hint.text() == f"p3.zarr lacks the table objects of {NAMES[0]}.csv."
    require_all(page)
    for name, well in ((NAMES[1], "B2"), (NAMES[2], "A2"), (NAMES[1], "A1")):
        go_by_row(viewer, page, name, well)
        assert labels.unsaved
        assert not labels.visible
    choose_plate(viewer, NAMES[0])
    require_all(page)
    assert labels.visible
    assert labels.unsaved
    assert labels.data[0][3, 3] == 77
    go_by_row(viewer, page, NAMES[0], "A2")
    where = tmp_path / NAMES[0] / "A/1/0/labels/cells/0"
    until(lambda: zarr.open_array(where, mode="r")[3, 3] == 77)
    choose(dock.plates, "this plate", Qt.Key.Key_Up)
    until(lambda: page.model.rowCount() == 4)
    assert "plate" not in page.model.columns


def test_rows_of_all_plates_are_selected_and_other_pages_are_of_one(viewer, dock):
    choose(dock.plates, "all listed plates")
    page, plate = dock.pages["Wells"], browser_of(viewer).map
    require_all(page)
    for name, well, on_map in ((NAMES[0], "B1", ("B/1",)), (NAMES[1], "B2", ())):
        click_row(page, name, well)
        until(lambda wanted=on_map: plate.selected() == wanted)
        (row,) = page.view.selectionModel().selectedRows()
        assert (row.data(), row.siblingAtColumn(1).data()) == (name, well)
    dock.tabs.setCurrentIndex(3)
    pump()
    assert (dock.plates.currentText(), dock.plates.isEnabled()) == ("this plate", False)
    dock.tabs.setCurrentIndex(1)
    until(lambda: "Plot" in dock.pages and dock.pages["Plot"].plot is not None)
    plot = dock.pages["Plot"]
    assert dock.plates.currentText() == "all listed plates"
    for text in ("Scatter of objects", "Scatter of wells"):
        plot.boxes["kind"].setCurrentText(text)
        plot.boxes["kind"].activated.emit(0)
        until(lambda text=text: plot.plot and plot.plot.choice["kind"] == text)
        assert " of 3 plates have these values." in plot.note.text()
    plot._on_click(DoubleClick(plot, NAMES[1] + "/B/1"))
    until(lambda: is_at(viewer, NAMES[1], "B/1"))


class DoubleClick:
    """One on the dot of a well."""

    def __init__(self, page, well):
        at = np.flatnonzero(page.plot.dots["well"] == well)[0]
        x, y = page.dots.getData()
        self.place = page.axes.plotItem.vb.mapViewToScene(QPointF(x[at], y[at]))

    def scenePos(self):
        return self.place

    def double(self):
        return True


def test_reading_tables_of_other_plates_is_told_and_can_be_cancelled(viewer, tmp_path):
    use_workers()
    sizes = {NAMES[0]: (1, 2), NAMES[1]: (8, 12)}
    for name, grid in sizes.items():
        write_plate(
            tmp_path / name,
            grid=grid,
            fields=2,
            levels=1,
            labelled=lambda _: ("cells",),
        )
    open_plate(viewer, tmp_path, NAMES[0])
    session_of(viewer).plates.add_plates([str(tmp_path / NAMES[1])])
    tables = session_of(viewer).open_tables()
    counted = TableOffer(TableOrigin.COUNT, "cells")
    until(lambda: counted in tables.joined.offers)
    tables.choose_table(counted)
    dock = show_dock(viewer, RESULTS)
    until(lambda: dock.pages.get("Wells") and dock.pages["Wells"].model.rowCount() == 2)
    page = dock.pages["Wells"]
    choose(dock.plates, "all listed plates")
    told = re.compile(r"Reading tables of other plates: [1-9]\d?%\.").fullmatch
    until(lambda: told(dock.hint.text()))
    assert dock.cancel.isVisible()
    QTest.mouseClick(dock.cancel, LEFT)
    assert not dock.cancel.isVisible()
    assert dock.hint.text() == ""
    until(lambda: page.model.rowCount() == 2)
    assert dock.plates.currentText() == "this plate"
    choose(dock.plates, "all listed plates")
    until(lambda: page.model.rowCount() == 98 and not dock.cancel.isVisible())
    until(
        lambda: (
            page.results.shown.frame["number of cells, mean of images"].tolist()
            == [64] * 98
        )
    )
    assert dock.hint.text() == ""
