"""The dock of results in a real window, used by pointer and keys."""

from __future__ import annotations

import anndata
import pandas as pd
from qtpy.QtCore import QPoint

from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of
from napari_ngff.widgets.docking import RESULTS, find_dock
from napari_ngff.widgets.results.results_dock import NO_PLATE, NO_TABLE
from person import Person, needs_pointer
from plates import write_plate

pytestmark = needs_pointer

OBJECTS = pd.DataFrame(
    [
        (f"{row}{column}", field, label, area + label + (row == "B"), kind)
        for row in "AB"
        for column, area in ((1, 10), (2, 70), (3, 30))
        for field in (0, 1)
        for label, kind in ((1, "round"), (2, "long"), (3, "long"))
    ],
    columns=["well", "field", "label", "area", "kind"],
)
DRUGS = {"1": "dmso", "2": "dmso", "3": "taxol"}
CONDITIONS = "well,drug\n" + "".join(
    f"{row}{column},{drug}\n" for row in "AB" for column, drug in DRUGS.items()
)


def shown(page, title):
    """The cells of a column, from the top."""
    model = page.model
    at = model.columns.index(title)
    return [model.index(i, at).data() for i in range(model.rowCount())]


def click_row(person, page, row, **how):
    port = page.view.viewport()
    index = person.look(lambda: page.model.index(row, 0))
    person.look(lambda: page.view.scrollTo(index))
    place = person.look(lambda: page.view.visualRect(index).center())
    person.click(port, place, **how)


def click_head(person, page, title):
    header = page.view.horizontalHeader()
    at = page.model.columns.index(title)
    person.look(lambda: page.view.scrollTo(page.model.index(0, at)))
    x = person.look(lambda: header.sectionViewportPosition(at))
    person.click(header.viewport(), QPoint(x + 20, 8))


def choose_from(person, box, text):
    """Choose an entry of a box by its first letters."""
    person.click(box)
    person.sees(lambda: box.view().isVisible())
    person.rest(0.6)  # Qt takes no click before the time of a double click
    person.types(text)
    person.press("Return")
    person.sees(lambda: box.currentText() == text)


def save(person, page, entry, path):
    person.click(page.save)
    person.choose_in_menu(entry)
    dialog = person.file_dialog()
    person.look(lambda: dialog.selectNameFilter("AnnData (*.h5ad)"))
    person.types(str(path))
    person.press("Return")
    person.sees(lambda: str(path) in page.note.text())


def test_a_screen_is_sorted_compared_and_saved(viewer, tmp_path):
    where = write_plate(tmp_path / "p.ome.zarr", grid=(2, 3), fields=2)
    (tmp_path / "conditions.csv").write_text(CONDITIONS)
    OBJECTS.to_csv(tmp_path / "objects.csv", index=False)

    def tutorial(person):
        person.choose("Layers", "Measure", "Results (OME-Zarr)")
        dock = person.sees(lambda: find_dock(viewer, RESULTS))
        person.sees(lambda: dock.hint.isVisible() and dock.hint.text() == NO_PLATE)
        person.drop(where)
        plate = person.sees(lambda: browser_of(viewer))
        person.sees(lambda: dock.hint.text() == NO_TABLE)
        browser = session_of(viewer).browser
        for name in ("conditions.csv", "objects.csv"):
            person.drop(tmp_path / name)
            person.sees(lambda n=name: plate.tables.table.currentText() == n)
        page = person.sees(lambda: dock.pages.get("Wells"))
        person.sees(lambda: page.model.rowCount() == 6)
        sort_and_select(person, page, plate, browser)
        save(person, page, "These rows…", tmp_path / "sorted.csv")
        saved = pd.read_csv(tmp_path / "sorted.csv")
        assert [*saved["well"]] == ["B2", "A2", "B3", "A3", "B1", "A1"]
        compare_and_save(person, page, tmp_path)
        # Rows are those of the filter of the map.
        person.click(plate.controls.filter)
        person.types("drug = taxol")
        person.sees(lambda: page.model.rowCount() == 1)

    Person(viewer, 0).take(tutorial)


def sort_and_select(person, page, plate, browser):
    person.sees(lambda: "kind" in page.model.columns)
    assert person.look(lambda: shown(page, "kind, %")) == ["66.6667"] * 6
    for order in (["A1", "B1", "A3", "B3", "A2", "B2"], ["B2", "A2", "B3"]):
        click_head(person, page, "area, mean")
        person.sees(lambda o=order: shown(page, "well")[: len(o)] == o)
        person.rest(0.6)  # else the next click is the second one of a double click
    click_row(person, page, 1)
    person.sees(lambda: plate.map.selected() == ("A/2",))
    bar = page.view.horizontalScrollBar()
    person.look(lambda: bar.setValue(bar.maximum()))
    place = person.look(bar.value)
    person.look(page.followWells)
    assert person.look(bar.value) == place > 0
    person.look(lambda: bar.setValue(0))
    click_row(person, page, 3, holding="ctrl")
    person.sees(lambda: plate.map.selected() == ("A/2", "A/3"))
    assert browser.position is None
    person.rest(0.6)
    click_row(person, page, 0, times=2)
    person.sees(lambda: browser.position and browser.position.well == "B/2")
    place = person.look(lambda: plate.map.rectOf("B/1").center())
    person.click(plate.map.viewport(), place)
    person.sees(lambda: browser.position.well == "B/1")
    rows = person.look(lambda: page.view.selectionModel().selectedRows())
    assert person.look(lambda: [x.siblingAtColumn(0).data() for x in rows]) == ["B1"]


def compare_and_save(person, page, folder):
    assert not person.look(page.shown_as.isEnabled)
    choose_from(person, page.controls[0], "drug = dmso")
    person.sees(page.shown_as.isEnabled)
    choose_from(person, page.controls[1], "drug = taxol")
    person.sees(lambda: "Z' of the controls: " in page.note.text())
    choose_from(person, page.shown_as, "show % of control")
    title = "area, mean, % of control"
    person.sees(lambda: title in page.model.columns)
    means = OBJECTS.groupby("well")["area"].mean()
    wanted = 100 * means / means[["A1", "A2", "B1", "B2"]].median()
    save(person, page, "These rows…", folder / "wells.h5ad")
    saved = anndata.read_h5ad(folder / "wells.h5ad")
    found = dict(zip(saved.obs["well"], saved[:, title].X[:, 0], strict=True))
    assert found == wanted.to_dict()
    person.click(page.keys)
    person.choose_in_menu("drug")
    person.sees(lambda: shown(page, "drug") == ["dmso", "taxol"])
    assert person.look(lambda: shown(page, "number of wells")) == ["4", "2"]
    save(person, page, "Objects with conditions…", folder / "saved.csv")
    objects = pd.read_csv(folder / "saved.csv")
    assert objects["drug"].tolist() == objects["well"].str[1].map(DRUGS).tolist()
    pd.testing.assert_frame_equal(objects[[*OBJECTS]], OBJECTS, check_dtype=False)
