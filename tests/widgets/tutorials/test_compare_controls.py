"""Tutorial: from a plate and its doses to the EC50 of each compound."""

from __future__ import annotations

import re

import pytest
from qtpy.QtCore import QPoint

from napari_ngff.widgets.browser.host import browser_of
from napari_ngff.widgets.docking import RESULTS, find_dock
from person import Person, needs_pointer
from screens import EC50, design_screen, write_conditions, write_screen

pytestmark = needs_pointer

COUNT = "number of nuclei"
PERCENT = f"{COUNT}, sum, % of control"


@pytest.mark.long
def test_ec50_of_compounds_is_found(viewer, tmp_path):
    conditions, cells = design_screen()
    write_screen(tmp_path / "screen.ome.zarr", cells)
    write_conditions(tmp_path / "conditions.csv", conditions)

    def tutorial(person):
        person.drop(tmp_path / "screen.ome.zarr")
        plate = person.sees(lambda: browser_of(viewer))
        person.sees(lambda: plate.tables.tables().browser.known_labels)
        person.drop(tmp_path / "conditions.csv")
        person.sees(lambda: plate.tables.column.currentText() == "dose")
        person.rest(0.3)
        person.step("conditions")

        person.click(plate.tables.measure)
        person.choose_in_menu("nuclei in all fields")
        person.sees(lambda: plate.tables.table.currentText() == "nuclei, measured")
        person.sees(lambda: not plate.tables.progress.isVisible())
        choose_from(person, plate.tables.column, COUNT)
        person.rest(0.3)
        person.step("measured")
        person.click(plate.tables.results)
        dock = person.sees(lambda: find_dock(viewer, RESULTS))
        page = person.sees(lambda: dock.pages.get("Wells"))
        person.sees(lambda: page.model.rowCount() == len(conditions))
        compare(person, page)
        scroll_right(person, page)
        person.step("controls")
        frame = person.look(lambda: page.model.frame)
        shares = frame.groupby(["compound", "dose"], dropna=False)[PERCENT].median()
        assert shares["dmso"].iloc[0] == pytest.approx(100)
        assert shares["compound 1", 10.0] < 30
        assert shares["compound 3", 10.0] > 90
        find_ec50(person, dock)

    Person(viewer, "compare-controls").take(tutorial)


def find_ec50(person, dock):
    """Plot the share of nuclei over doses, and read the EC50 of each compound."""
    bar = person.look(dock.tabs.tabBar)
    person.click(bar, person.look(lambda: bar.tabRect(1).center()))
    plot = person.sees(lambda: dock.pages.get("Plot"))
    person.sees(lambda: plot.plot)
    choose_from(person, plot.boxes["y"], PERCENT)
    person.sees(lambda: plot.plot.choice["y"] == PERCENT)
    person.step("ec50")
    found = dict(re.findall(r"(compound \d): (.*)", plot.legend.toPlainText()))
    for compound, ec50 in EC50.items():
        if ec50 is None:
            assert "no fit" in found[compound]
        else:
            fitted = float(found[compound].split()[1])
            assert ec50 / 2 < fitted < 2 * ec50


def compare(person, page):
    """Choose the controls, and how wells are compared with them."""
    choose_from(person, page.controls[0], "compound = dmso")
    person.sees(page.shown_as.isEnabled)
    choose_from(person, page.controls[1], "compound = staurosporine")
    person.sees(lambda: "Z' of the controls: " in page.note.text())
    choose_from(person, page.shown_as, "show % of control")
    person.sees(lambda: PERCENT in page.model.columns)


def scroll_right(person, page):
    """Click the scroll bar of the table, right of its handle."""
    bar = page.view.horizontalScrollBar()
    person.click(bar, person.look(lambda: QPoint(bar.width() - 40, bar.height() // 2)))
    at = person.look(lambda: page.model.columns.index(PERCENT))
    end = person.look(lambda: bar.width() - page.view.columnWidth(at))
    person.sees(lambda: 0 <= page.view.columnViewportPosition(at) <= end)


def choose_from(person, box, text):
    """Choose an entry of a box by its text."""
    person.click(box)
    person.sees(lambda: box.view().isVisible())
    person.rest(0.6)  # Qt takes no click before the time of a double click
    person.types(text)
    person.press("Return")
    person.sees(lambda: box.currentText() == text)
