"""Tables in the browser of a real window: dropped, chosen, filtered, measured."""

from __future__ import annotations

import threading
import time

import numpy as np
import pandas as pd
import pytest
from napari.layers import Labels
from qtpy.QtCore import QPoint, Qt, QThreadPool
from qtpy.QtGui import QColor
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

from mouse import drop, pump, until
from napari_ngff.cli import main
from napari_ngff.plate.previews import preview_cache as preview_cache
from napari_ngff.viewer.browsing.table_offers import (
    TASKS,
    MeasureScope,
    TableOffer,
    TableOrigin,
)
from napari_ngff.viewer.layers.coloring import CATEGORY_COLORS, map_colors
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.browser_dock import BrowserDock
from plates import write_plate

pytestmark = pytest.mark.slow

LEFT = Qt.MouseButton.LeftButton
PLAIN = Qt.KeyboardModifier.NoModifier
CSV = "well,dose,drug\n" + "".join(
    f"{row}{column},{dose},{drug}\n"
    for row, drug in (("A", "dmso"), ("B", "x"))
    for column, dose in enumerate((0, 0.5, 1.0), 1)
)


@pytest.fixture
def dock(viewer, tmp_path, monkeypatch):
    """The browser of a plate of 2 x 4 wells; nuclei in row A."""
    monkeypatch.setattr(preview_cache, "preview_folder", lambda: tmp_path / "cache")
    where = write_plate(
        tmp_path / "p.ome.zarr",
        grid=(2, 4),
        fields=2,
        shape=(2, 32, 32),
        labelled=lambda well: ("nuclei",) if well[0] == "A" else (),
    )
    viewer.open(str(where), plugin="napari-ngff")
    docks = viewer.window.dock_widgets.values
    until(lambda: any(isinstance(d, BrowserDock) for d in docks()))
    found = next(d for d in docks() if isinstance(d, BrowserDock))
    until(lambda: bool(found.tables.tables().browser.known_labels))
    until(lambda: len(found.map.state.pictures) == 8)
    return found


@pytest.fixture
def dropped(dock, tmp_path):
    """The same with a table."""
    path = tmp_path / "conditions.csv"
    path.write_text(CSV)
    drop(dock, path)
    until(lambda: dock.map.state.coloring is not None)
    return dock


def test_each_box_has_a_place_beside_its_caption(dropped):
    bar = dropped.tables
    for caption, box in (
        (bar.table_caption, bar.table),
        (bar.column_caption, bar.column),
    ):
        assert caption.geometry().right() < box.geometry().left()
        assert abs(caption.geometry().center().y() - box.geometry().center().y()) < 9


def color_at(dock, well, part=0.25):
    """Colour on the screen."""
    rect = dock.map.rectOf(well)
    picture = dock.map.viewport().grab().toImage()
    return picture.pixelColor(
        rect.left() + rect.width() // 2, rect.top() + int(rect.height() * part)
    )


def test_a_dropped_table_colours_the_map(dropped):
    assert dropped.browser().node.kind == "plate"
    assert dropped.tables.column.currentText() == "dose"
    scale = map_colors()
    for well, value in {"A/1": 0, "A/2": 0.5, "B/3": 1.0}.items():
        wanted = QColor(*(int(c) for c in scale[round(255 * value)]))
        assert color_at(dropped, well) == wanted
    # A cross would say that the well cannot be read.
    assert color_at(dropped, "A/4") == dropped.map._colors.gap
    rect = dropped.map.rectOf("A/4")
    picture = dropped.map.viewport().grab().toImage()
    assert picture.pixelColor(rect.center()) == dropped.map._colors.line
    assert dropped.map.tipAt(rect.center()).endswith("no value")
    tip = dropped.map.tipAt(dropped.map.rectOf("A/2").center())
    assert tip == "A2\ndose: 0.5\ndrug: dmso"
    titles = choose_to_save(dropped.tables, "Forget conditions.csv")
    assert titles[0] == "Save into the plate"
    until(lambda: dropped.map.state.coloring is None)
    assert dropped.tables.table.findText("conditions.csv") < 0
    assert not dropped.tables.save_button.isEnabled()


@pytest.mark.long
@pytest.mark.parametrize(
    "part", [lambda dock: dock.controls.filter, lambda dock: dock.map.viewport()]
)
def test_a_table_is_taken_wherever_it_is_dropped(dock, tmp_path, part):
    path = tmp_path / "conditions.csv"
    path.write_text(CSV)
    drop(part(dock), path)
    until(lambda: dock.tables.table.currentText() == "conditions.csv")
    assert dock.controls.filter.text() == ""


@pytest.mark.long
def test_thumbnails_come_back(dropped):
    coloured = color_at(dropped, "B/3")
    dropped.tables.column.setCurrentIndex(0)
    dropped.tables.column.activated.emit(0)
    until(lambda: dropped.map.state.coloring is None)
    assert color_at(dropped, "B/3") != coloured
    tip = dropped.map.tipAt(dropped.map.rectOf("A/2").center())
    assert tip == "A2\ndose: 0.5\ndrug: dmso"


def choose_from(box, text):
    """Choose an entry of a box as by hand: open its list, and click."""
    QTest.mouseClick(box, LEFT)
    view = box.view()
    until(view.isVisible)
    index, port = box.model().index(box.findText(text), 0), view.viewport()
    last = box.model().index(box.count() - 1, 0)
    until(lambda: view.visualRect(last).bottom() <= port.height())
    assert view.sizeHintForColumn(0) <= port.width()
    place = QPoint(20, view.visualRect(index).center().y())
    pump(QApplication.doubleClickInterval() + 100)  # Qt takes no click before that
    QTest.mouseMove(port, place)
    QTest.mouseClick(port, LEFT, PLAIN, place)
    until(lambda: not view.isVisible())


@pytest.mark.long
def test_text_is_a_category_with_a_legend(dropped):
    choose_from(dropped.tables.column, "drug")
    until(lambda: dropped.map.state.coloring.title == "drug")
    assert not dropped.tables.note.isVisible()
    assert not dropped.tables.log.isVisible()
    assert color_at(dropped, "A/1") == QColor(*CATEGORY_COLORS[0])
    assert color_at(dropped, "B/1") == QColor(*CATEGORY_COLORS[1])
    tip = dropped.map.tipAt(dropped.map.rectOf("B/2").center())
    assert tip == "B2\ndrug: x\ndose: 0.5"
    port = dropped.map.viewport()
    legend = port.grab().toImage().copy(0, dropped.map._cells_area().bottom(), 999, 99)
    seen = {
        legend.pixelColor(x, y).name()
        for x in range(0, legend.width(), 3)
        for y in range(0, legend.height(), 3)
    }
    for color in CATEGORY_COLORS[:2]:
        assert QColor(*color).name() in seen


def test_conditions_and_measurements_are_joined(dropped):
    dropped.tables.menu.aboutToShow.emit()
    box = dropped.tables.groups["texture"]
    dropped.tables.menu.show()
    QTest.mouseClick(box, Qt.MouseButton.LeftButton, pos=QPoint(8, box.height() // 2))
    assert box.isChecked()
    assert box.isVisible()  # the menu is still open
    actions = {a.text(): a for a in dropped.tables.menu.actions()}
    dropped.tables.menu.triggered.emit(actions["nuclei in all fields"])
    dropped.tables.menu.close()
    tables = dropped.tables.tables()
    until(lambda: tables.joined.chosen == TableOffer(TableOrigin.MEASURED, "nuclei"))
    assert "std_0" in tables.table.columns
    assert "solidity" not in tables.table.columns
    assert dropped.tables.column.currentText() == "voxels"
    tip = dropped.map.tipAt(dropped.map.rectOf("A/2").center())
    for line in ("conditions.csv", "dose: 0.5", "drug: dmso", "nuclei, measured"):
        assert line in tip.splitlines()
    assert "area: 0.25 (mean of 2,048)" in tip.splitlines()
    choose_from(dropped.tables.column, "dose")
    assert tables.joined.chosen == TableOffer(TableOrigin.FILE, "conditions.csv")
    QTest.keyClicks(dropped.controls.filter, "drug = dmso and area > 0")
    until(lambda: dropped.map.state.shown == {"A/1", "A/2", "A/3"})


@pytest.mark.long
def test_doses_have_logarithmic_colours_and_a_box_to_change_that(dock, tmp_path):
    path = tmp_path / "doses.csv"
    rows = [f"A{i + 1},{10.0**i}" for i in range(4)]
    path.write_text("\n".join(("well,dose", *rows)))
    drop(dock, path)
    until(lambda: dock.map.state.coloring is not None)
    scale = map_colors()
    assert dock.tables.log.isChecked()
    assert color_at(dock, "A/2") == QColor(*(int(c) for c in scale[85]))
    dock.map.viewport()
    before = [color_at(dock, f"A/{i}").name() for i in (1, 2, 3, 4)]
    assert len(set(before)) == 4
    assert dock.tables.tables().view.coloring.limits == (1, 1000)
    QTest.mouseClick(dock.tables.log, LEFT, PLAIN, QPoint(8, 8))
    until(lambda: not dock.tables.tables().view.coloring.is_log)
    assert color_at(dock, "A/2") == QColor(*(int(c) for c in scale[2]))


@pytest.mark.long
def test_conditions_in_the_filter_line(dropped):
    line = dropped.controls.filter
    QTest.keyClicks(line, "dose >= 0.5 and drug = x")
    until(lambda: dropped.map.state.shown == {"B/2", "B/3"})
    # The others are dimmed, and not crossed.
    rect = dropped.map.rectOf("A/1")
    picture = dropped.map.viewport().grab().toImage()
    middle = [picture.pixelColor(rect.center() + QPoint(n, 0)) for n in range(-6, 7)]
    assert len({color.name() for color in middle}) == 1
    assert middle[0] != color_at(dropped, "B/3")
    QTest.keyClick(line, Qt.Key.Key_Return)
    until(lambda: dropped.map.selected() == ("B/2", "B/3"))
    line.setText("dos > 1")
    until(lambda: dropped.map.state.shown is None)
    assert "no column 'dos'" in dropped.tables.note.text()
    assert dropped.tables.note.isVisible()
    # Enter selects what is written by now, however fast.
    line.setText("B")
    QTest.keyClick(line, Qt.Key.Key_Return)
    until(lambda: dropped.map.selected() == ("B/1", "B/2", "B/3", "B/4"))
    assert dropped.map.state.shown == {"B/1", "B/2", "B/3", "B/4"}
    assert dropped.tables.note.text() == "Wells that match the filter: 4 of 8."
    line.clear()
    until(lambda: not dropped.tables.note.isVisible())


@pytest.mark.long
def test_a_wrong_table_is_reported(dock, tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text("plate,dose\n1,2\n")
    drop(dock, path)
    until(lambda: "no column names wells" in dock.tables.note.text())
    assert dock.tables.note.isVisible()
    assert dock.tables.table.currentIndex() == 0
    assert not dock.tables.progress.isVisible()


@pytest.mark.long
def test_labels_are_counted(dock):
    box = dock.tables.table
    row = box.findText("number of nuclei")
    box.setCurrentIndex(row)
    box.activated.emit(row)
    tables = dock.tables.tables()
    until(lambda: tables.view.coloring is not None)
    assert tables.joined.chosen == TableOffer(TableOrigin.COUNT, "nuclei")
    assert tables.view.coloring.values["A/1"] == 32 * 32
    assert tables.view.coloring.values["B/1"] is None
    until(lambda: not dock.tables.progress.isVisible())
    assert dock.tables.note.text() == "Labels counted: 8,192 in 8 of 16 images."
    assert dock.tables.note.isVisible()


@pytest.mark.long
def test_measured_as_by_the_command(viewer, dock, tmp_path):
    dock.browser().show_field("A/2", "1")
    until(lambda: dock.browser().position is not None)
    dock.tables.menu.aboutToShow.emit()
    actions = {a.text(): a for a in dock.tables.menu.actions()}
    assert not actions["nuclei in selected wells"].isEnabled() or dock.map.selected()
    dock.tables.menu.triggered.emit(actions["nuclei in all fields"])
    tables = dock.tables.tables()
    until(lambda: tables.table is not None)
    tables.save_table(str(tmp_path / "gui.csv"))
    until((tmp_path / "gui.csv").exists)
    arguments = ["--label", "nuclei", "--out", str(tmp_path / "cli.csv")]
    assert main(["measure", str(dock.browser().node), *arguments]) == 0
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "gui.csv"), pd.read_csv(tmp_path / "cli.csv")
    )
    layer = next(x for x in viewer.layers if isinstance(x, Labels))
    rows = layer.features
    assert len(rows) == 32 * 32
    data = np.asarray(layer.data[0])
    label = int(data[3, 4])
    row = rows[rows["index"] == label].iloc[0]
    assert row["voxels"] == np.sum(data == label)
    assert not layer.unsaved


@pytest.mark.long
def test_unsaved_edits_are_reported_while_labels_are_measured(viewer, dock):
    dock.browser().show_field("A/2", "1")
    until(lambda: dock.browser().position is not None)
    layer = next(x for x in viewer.layers if isinstance(x, Labels))
    layer.paint((4, 4), 9)
    until(lambda: layer.unsaved)
    dock.tables.menu.aboutToShow.emit()
    actions = {a.text(): a for a in dock.tables.menu.actions()}
    dock.tables.menu.triggered.emit(actions["nuclei in all fields"])
    assert dock.tables.note.text().startswith("Unsaved edits are not measured")
    until(lambda: dock.tables.tables().table is not None)
    until(lambda: not dock.tables.progress.isVisible())
    note = dock.tables.note.text()
    assert note.startswith("Measured")
    older = "This table was measured before the latest strokes in A2, field 1:"
    older += " save and measure again."
    assert older in note
    assert dock.tables.note.isVisible()
    QTest.keyClicks(dock.controls.filter, "A")
    until(lambda: dock.tables.note.text().startswith("Wells that match"))
    assert older in dock.tables.note.text()
    dock.controls.filter.clear()
    until(lambda: not dock.tables.note.text().startswith("Wells that match"))
    assert older in dock.tables.note.text()
    layer.undo()
    until(lambda: older not in dock.tables.note.text())


@pytest.mark.long
def test_what_is_given_up_is_not_chosen(dock, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()

    def slowly(*_):
        begun.set()
        assert go_on.wait(60)

    monkeypatch.setitem(TASKS, TableOrigin.COUNT, slowly)
    box = dock.tables.table
    box.setCurrentIndex(box.findText("number of nuclei"))
    box.activated.emit(box.currentIndex())
    until(begun.is_set)
    assert dock.tables.cancel.isVisible()
    QTest.mouseClick(dock.tables.cancel, LEFT)
    assert not dock.tables.cancel.isVisible()
    assert dock.tables.note.isVisible()
    assert dock.tables.note.text() == "Cancelled: nothing was kept."
    assert box.currentText() == "no table"
    go_on.set()
    assert QThreadPool.globalInstance().waitForDone(60_000)
    pump(50)
    assert dock.tables.tables().table is None


@pytest.mark.long
def test_infinite_values_are_drawn(dock, tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text("well,ratio\nA1,inf\nA2,-inf\nB1,2\nB2,3\n")
    drop(dock, path)
    until(lambda: dock.map.state.coloring is not None)
    assert color_at(dock, "A/1") == color_at(dock, "B/2")
    assert color_at(dock, "A/2") == color_at(dock, "B/1")
    assert color_at(dock, "A/1") != color_at(dock, "A/2")


@pytest.mark.long
def test_measuring_ends_with_the_dock(viewer, dock, monkeypatch):
    begun, ended = threading.Event(), threading.Event()

    def endless(*_, goes_on, **__):
        while goes_on(1, 2):
            begun.set()
            time.sleep(0.01)
        ended.set()

    monkeypatch.setattr("napari_ngff.viewer.browsing.table_offers.measure", endless)
    dock.tables.tables().measure_labels("nuclei", MeasureScope.ALL)
    until(begun.is_set)
    viewer.window.remove_dock_widget(dock)
    dock.deleteLater()
    until(ended.is_set)


def test_buttons_and_map_stay_where_they_are(viewer, dock):
    """What appears while labels are measured moves nothing under the pointer."""
    viewer.window.resize(1280, 800)
    pump(100)
    bar, plate = dock.tables, dock.map
    still = bar.load_button, bar.measure, bar.save_button, bar.results, plate.viewport()

    def places():
        corners = [part.mapTo(dock, part.rect().topLeft()) for part in still]
        return *corners, plate.rectOf("A/1"), plate.rectOf("B/4"), dock.width()

    before = places()
    bar.tables().measure_labels("nuclei", MeasureScope.ALL)
    until(bar.progress.isVisible)
    assert places() == before
    until(lambda: bar.save_button.isEnabled() and plate.state.coloring is not None)
    dock.controls.filter.setText("voxels > 1 and no such well or a long text")
    until(lambda: bar.note.isVisible() and bar.note.height() > 30)
    pump(100)
    assert places() == before
    dock.controls.filter.setText("")
    until(lambda: "no well" not in bar.note.text())
    assert places() == before


def choose_to_save(bar, text):
    """Choose from the menu of *Save*."""
    bar.save_menu.aboutToShow.emit()
    actions = {action.text(): action for action in bar.save_menu.actions()}
    assert actions[text].isEnabled()
    actions[text].trigger()
    return list(actions)


def test_a_measured_table_is_saved_by_its_menu_and_offered_again(
    viewer, dock, tmp_path
):
    bar, tables = dock.tables, dock.tables.tables()
    tables.measure_labels("nuclei", MeasureScope.ALL)
    until(lambda: tables.joined.chosen is not None)
    assert session_of(viewer).annotations.list_savable()
    until(lambda: tables.view.coloring is not None)
    values = dict(tables.view.coloring.values)
    titles = choose_to_save(bar, "Save into the plate")
    assert titles == ["Save into the plate", "Save as a file…"]
    until(lambda: not session_of(viewer).annotations.list_savable())
    assert len(list((tmp_path / "p.ome.zarr").rglob("tables/*/table.csv"))) == 8
    choose_from(bar.table, "nuclei_measured (of images)")
    until(lambda: tables.joined.chosen.source is TableOrigin.IMAGES)
    until(lambda: tables.view.coloring is not None)
    assert tables.view.coloring.values == values
