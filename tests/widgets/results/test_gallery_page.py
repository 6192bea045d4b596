"""The page *Gallery* in a real window: a person looks at crops, and classifies them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from qtpy.QtCore import QPointF, Qt
from qtpy.QtTest import QTest

from crops import nearest, write_field
from mouse import pump, until
from napari_ngff.plate.results.object_crops import SIDE
from napari_ngff.viewer.browsing.table_offers import MeasureScope
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of
from napari_ngff.widgets.docking import RESULTS, find_dock, show_dock
from napari_ngff.widgets.results.results_dock import PAGES
from object_tables import stored as stored_classes
from plates import write_plate

LEFT = Qt.MouseButton.LeftButton
CTRL = Qt.KeyboardModifier.ControlModifier
GRID = tuple(map(int, os.environ.get("GALLERY_GRID", "1x3").split("x")))
STEPS = {"A/1": 0.5, "A/2": 1.0, "A/3": 0.5}
"""Micrometres of a voxel in the fields of wells, which differ."""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    root = tmp_path_factory.mktemp("gallery") / "p.ome.zarr"
    write_plate(root, grid=GRID, fields=1, shape=(1, 80, 80), acquisitions=2)
    fields = {}
    for folder in sorted(root.glob("*/*/[01]")):
        place = folder.relative_to(root).as_posix()
        shutil.rmtree(folder)
        size = (1, 80, 80 + 20 * len(fields))
        fields[place] = write_field(folder, "cyx", size, STEPS.get(place[:-2], 0.5))
    return root, fields


@pytest.fixture
def page(viewer, written, tmp_path):
    """The page of a plate whose nuclei are measured; the first acquisition is shown."""
    viewer.window.resize(1280, 800)
    viewer.theme = os.environ.get("TUTORIAL_THEME", "dark")
    plate = shutil.copytree(written[0], tmp_path / "p.ome.zarr")
    viewer.open(str(plate), plugin="napari-ngff")
    until(lambda: session_of(viewer).browser is not None)
    tables = session_of(viewer).open_tables()
    until(lambda: "nuclei" in tables.browser.known_labels)
    tables.measure_labels("nuclei", MeasureScope.ALL)
    until(lambda: tables.table is not None)
    dock = show_dock(viewer, RESULTS)
    titles = [dock.tabs.tabText(i) for i in range(dock.tabs.count())]
    dock.tabs.setCurrentIndex(titles.index("Gallery"))
    until(lambda: "Gallery" in dock.pages)
    found = dock.pages["Gallery"]
    until(lambda: has_all(found))
    return found


def has_all(page):
    """Return whether all crops that are seen are read, as they are drawn now."""
    gallery, seen = page.gallery, page.view.listSeen()
    return bool(seen) and all(gallery.is_read(gallery.find_row(x)) for x in seen)


def cell(page, place):
    columns = page.model.columnCount()
    return page.model.index(place // columns, place % columns)


def choose(page, *places):
    for place in places:
        page.view.scrollTo(cell(page, place))
        spot = page.view.visualRect(cell(page, place)).center()
        keys = CTRL if place != places[0] else Qt.KeyboardModifier.NoModifier
        QTest.mouseClick(page.view.viewport(), LEFT, keys, spot)
    assert sorted(page.view.listChosen()) == sorted(places)


def place_of(page, well, field, label):
    rows = page.gallery._rows
    is_it = (rows["well"] == well) & (rows["field"] == field) & (rows["label"] == label)
    (row,) = np.flatnonzero(is_it)
    return int(np.flatnonzero(page.gallery.order == row)[0])


def expected_crop(page, fields, place):
    """What numpy makes of the files: the crop of an object, in grey."""
    row = page.gallery.find_row(place)
    pixels, labels = fields[f"{row['well']}/{row['field']}"]
    step = STEPS[row["well"]]
    side = page.gallery._side * page.zoom.value() / 10
    middle = np.argwhere(labels == row["label"]).mean(axis=0)
    (layer,) = {*page.objects.browser.layers.image_layers()[:1]}
    low, high = layer.contrast_limits
    number = max((i for i in range(3) if side / step / 2**i >= SIDE / 2), default=0)
    level = pixels[0, :: 2**number, :: 2**number].astype(float)
    found = nearest(level, middle / 2**number, side, step * 2**number)
    inside = nearest(np.ones_like(level), middle / 2**number, side, step * 2**number)
    share = np.floor(np.clip((found - low) / (high - low), 0, 1) * 255)
    return np.where(inside > 0, share, 0 if low >= 0 else share)


def test_crops_are_those_of_the_files_as_the_canvas_shows_them(viewer, page, written):
    count = sum(labels.max() for x, (_, labels) in written[1].items() if x[-1] == "0")
    assert page.note.text() == f"{count:,} of {count:,} objects."
    page.outline.click()
    (layer,) = page.objects.browser.layers.image_layers()
    layer.contrast_limits = 20, 200
    page.zoom.setValue(15)
    pump(200)
    until(lambda: has_all(page))
    for place in page.view.listSeen():
        crop = page.gallery.find_crop(place)
        expected = expected_crop(page, written[1], place)
        assert np.abs(crop[..., 1] - expected).max() <= 1
        assert np.array_equal(crop[..., 0], crop[..., 2])
    page.objects.browser.choose_acquisitions([1])
    second = sum(labels.max() for x, (_, labels) in written[1].items() if x[-1] == "1")
    until(lambda: len(page.gallery.order) == second)
    until(lambda: has_all(page))
    crop = page.gallery.find_crop(3)
    (layer,) = page.objects.browser.layers.image_layers()
    assert np.abs(crop[..., 1] - expected_crop(page, written[1], 3)).max() <= 1


def test_keys_give_crops_of_fields_that_are_not_open_a_class(viewer, page, monkeypatch):
    told = []
    monkeypatch.setattr(
        type(Window.current), "show_passing", lambda _, text: told.append(text)
    )
    browser = session_of(viewer).browser
    choose(page, 0)
    QTest.keyClick(page.view, Qt.Key.Key_1)
    todo = "Select the labels in the layer list and add classes in Annotate first."
    assert page.note.text() == f"No class has key 1. {todo}"
    add_classes(viewer, page)
    first = place_of(page, "A/1", "0", 2), place_of(page, "A/1", "0", 3)
    other = place_of(page, "A/3", "0", 4)
    page.view.scrollToTop()
    until(lambda: has_all(page))
    page.view.scrollTo(cell(page, other))
    until(lambda: has_all(page))
    choose(page, *first, other)
    QTest.keyClick(page.view, Qt.Key.Key_2)
    assert page.note.text() == "3 objects: class 2."
    assert page.gallery.describe(other)[1:] != ("", None)
    # What is not saved stays while other fields are shown, and is seen in its own.
    browser.show_field("A/3", "0")
    until(lambda: browser.position.well == "A/3")
    until(
        lambda: (
            dict(viewer.layers["nuclei"].object_classes().class_of) == {4: "class 2"}
        )
    )
    take_picture(viewer)
    names = [page.name.itemText(i) for i in range(page.name.count())]
    page.name.setCurrentIndex(names.index("class 2"))
    page.name.activated.emit(0)
    until(lambda: len(page.gallery.order) == 3)
    QTest.keyClick(viewer.window._qt_window, Qt.Key.Key_S, CTRL)
    plate = Path(browser.node.location.source.name)
    until(lambda: saved(plate / "A/3/0") == {4: "class 2"})
    until(lambda: saved(plate / "A/1/0") == {2: "class 2", 3: "class 2"})
    table = plate / "A/1/0/tables/nuclei_classes/table.csv"
    frame = pd.read_csv(table)
    assert frame.to_dict("list") == {"label": [2, 3], "class": ["class 2"] * 2}
    is_told = "Saved: nuclei.\n3 objects in 2 fields."
    until(lambda: is_told in told)
    assert [text for text in told if text.startswith("Saved: nuclei.")] == [is_told]


def test_enter_goes_to_the_object(viewer, page):
    browser = session_of(viewer).browser
    choose(page, place_of(page, "A/2", "0", 5))
    QTest.keyClick(page.view, Qt.Key.Key_Return)
    until(lambda: browser.position is not None and browser.position.well == "A/2")
    until(
        lambda: (
            "nuclei" in viewer.layers and viewer.layers["nuclei"].selected_label == 5
        )
    )
    # The rows are the same ones, so that the next arrow goes on.
    assert page.view.listChosen() == [place_of(page, "A/2", "0", 5)]
    QTest.keyClick(page.view, Qt.Key.Key_Right)
    assert page.view.listChosen() == [place_of(page, "A/2", "0", 5) + 1]
    well, label = double_click_dot(find_dock(viewer, RESULTS))
    until(lambda: browser.position is not None and browser.position.well == well)
    until(lambda: viewer.layers["nuclei"].selected_label == label)


def double_click_dot(dock):
    """Double-click an object on the page Plot, and return its well and label."""
    dock.tabs.setCurrentIndex([*PAGES].index("Plot"))
    until(lambda: "Plot" in dock.pages)
    plot = dock.pages["Plot"]
    until(lambda: plot.plot is not None or plot.note.text())
    plot.boxes["kind"].setCurrentText("Scatter of objects")
    plot.boxes["kind"].activated.emit(0)
    until(lambda: plot.plot is not None and "label" in plot.plot.dots)
    # The last one is on top of all others.
    x, y = (values[-1] for values in plot.dots.getData())
    pump()
    place = plot.axes.mapFromScene(plot.axes.plotItem.vb.mapViewToScene(QPointF(x, y)))
    QTest.mouseDClick(plot.axes.viewport(), LEFT, pos=place)
    QTest.mouseRelease(plot.axes.viewport(), LEFT, pos=place)
    return tuple(plot.plot.dots[["well", "label"]].iloc[-1])


def test_rows_are_sorted_by_a_column_and_filtered_by_the_map(viewer, page):
    page.column.setCurrentIndex(page.column.findText("area"))
    page.down.click()
    until(lambda: page.gallery.find_row(0)["well"] == "A/2")
    browser_of(viewer).controls.filter.setText("A3")
    until(lambda: {page.gallery.find_row(i)["well"] for i in (0, 5)} == {"A/3"})
    assert "of" in page.note.text()


def saved(field):
    try:
        return stored_classes(str(field)).get("nuclei", {})
    except Exception:  # noqa: BLE001  it is being written
        return {}


def add_classes(viewer, page):
    """Add two classes in the field on screen, as the dock Annotate does."""
    from napari_ngff.viewer.annotations.object_class_annotation import begin_classes

    browser = session_of(viewer).browser
    browser.show_field("A/2", "0")
    until(lambda: browser.position is not None and "nuclei" in viewer.layers)
    pump(300)
    owner = session_of(viewer).annotations
    for _ in range(2):
        begin_classes(owner, viewer.layers["nuclei"]).add_class()
    pump(100)


def take_picture(viewer):
    """Take the picture of the documentation if it is wanted."""
    if folder := os.environ.get("GALLERY_PICTURE"):
        pump(800)
        picture = str(Path(folder) / "gallery.png")
        viewer.window.screenshot(picture, canvas_only=False)
