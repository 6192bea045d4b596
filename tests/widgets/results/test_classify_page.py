"""The page *Classify* in a real window: a person classifies some objects of a plate."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QFileDialog, QLineEdit
from scipy.ndimage import gaussian_filter
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

from mouse import canvas, click, pump, until
from napari_ngff.plate.results.object_classifier import TREES
from napari_ngff.viewer.annotations.object_class_annotation import find_classes
from napari_ngff.viewer.annotations.table_annotation import list_tables
from napari_ngff.viewer.browsing.table_offers import MeasureScope
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.docking import ANNOTATE, BROWSER, RESULTS, show_dock
from plates import write_image, write_plate

LEFT = Qt.MouseButton.LeftButton
SHAPE = 160, 160


def draw_field(number):
    """Round and long blobs: pixels, and labels with odd ids for round ones."""
    rng = np.random.default_rng(number)
    labels = np.zeros(SHAPE, "u4")
    y, x = np.indices(SHAPE)
    for i in range(16):
        middle = 20 + 40 * (i // 4), 20 + 40 * (i % 4)
        dy, dx = y - middle[0], x - middle[1]
        long = 1 + (i % 2) * (1.2 + rng.random())
        size = 36 + 40 * rng.random()
        labels[dy**2 * long + dx**2 / long < size] = i + 1
    noise = rng.normal(0, 40, SHAPE)
    pixels = 200 + 2000 * gaussian_filter((labels > 0).astype(float), 2) + noise
    return pixels.clip(0).astype("u2")[None], labels


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    root = tmp_path_factory.mktemp("blobs") / "p.ome.zarr"
    write_plate(root, grid=(1, 3), fields=2, shape=(1, *SHAPE), levels=1)
    for number in range(6):
        folder = root / "A" / str(number // 2 + 1) / str(number % 2)
        pixels, labels = draw_field(number)
        shutil.rmtree(folder)
        corner = (0, number % 2 * SHAPE[1])
        write_image(folder, pixels, 3, levels=1, corner=corner, labels=["nuclei"])
        shutil.rmtree(folder / "labels" / "nuclei")
        planes = {"y": (0.5, 0.0), "x": (0.5, corner[1] * 0.5)}
        write_image(
            folder / "labels/nuclei", labels, 3, "yx", 1, label={}, planes=planes
        )
    return root


@pytest.fixture
def plate(stored, tmp_path):
    return shutil.copytree(stored, tmp_path / "p.ome.zarr")


def annotations(viewer):
    return session_of(viewer).annotations


def push(button):
    until(button.isEnabled)
    QTest.mouseClick(button, LEFT)
    pump()


def press(viewer, key):
    viewer.window.activate()
    canvas(viewer).native.setFocus()
    pump()
    QTest.keyClick(canvas(viewer).native, key)
    pump()


def classify(viewer, annotate, field, ids):
    """Click objects of a field, and press 1 for round ones, and 2 for others."""
    browser = session_of(viewer).browser
    browser.show_field("A/1", field)
    until(lambda: browser.position is not None and browser.position.field == field)
    layer = viewer.layers["nuclei"]
    layer.visible = True
    viewer.layers.selection.active = layer
    until(lambda: annotate.objects.isVisible() and annotate.objects.classes.isEnabled())
    pump(200)
    panel = annotate.objects.classes
    if not panel.items:
        for _ in range(2):
            push(panel.buttons["Add class"])
            QTest.keyClick(panel.table.findChild(QLineEdit), Qt.Key.Key_Return)
            pump()
    layer.mode = "pick"
    for one in ids:
        place = 20 + 40 * ((one - 1) // 4), 20 + 40 * ((one - 1) % 4)
        click(viewer, tuple(layer.data_to_world(place))[-2:])
        until(lambda one=one: layer.selected_label == one)
        press(viewer, Qt.Key.Key_2 if one % 2 else Qt.Key.Key_1)


@pytest.fixture
def page(viewer, plate):
    """The page *Classify* of a plate whose nuclei are measured, with their shape."""
    viewer.window.resize(1280, 800)
    show_dock(viewer, ANNOTATE)
    viewer.open(str(plate), plugin="napari-ngff")
    until(lambda: session_of(viewer).browser is not None)
    tables = session_of(viewer).open_tables()
    until(lambda: "nuclei" in tables.browser.known_labels)
    tables.measure_labels("nuclei", MeasureScope.ALL, groups=("shape",))
    until(lambda: tables.table is not None)
    dock = show_dock(viewer, RESULTS)
    titles = [dock.tabs.tabText(at) for at in range(dock.tabs.count())]
    dock.tabs.setCurrentIndex(titles.index("Classify"))
    until(lambda: "Classify" in dock.pages)
    show_dock(viewer, ANNOTATE)
    return dock.pages["Classify"]


def shares_by_scikit_learn(rule, frame):
    """The probability of each class by scikit-learn alone."""
    model = make_pipeline(
        SimpleImputer(strategy="median"),
        RandomForestClassifier(TREES, random_state=0),
    )
    rows = rule.rows
    model.fit(rows[rule.columns].to_numpy(), rows["class"].to_numpy(str))
    return model.predict_proba(frame[rule.columns].to_numpy())


def take_picture(viewer):
    """Show the map, and take the picture of the documentation if it is wanted."""
    if folder := os.environ.get("CLASSIFY_PICTURE"):
        show_dock(viewer, BROWSER)
        pump(500)
        picture = str(Path(folder) / "classify.png")
        viewer.window.screenshot(picture, canvas_only=False)


def cells_of(page):
    columns = range(page.grid.columnCount())
    head = [page.grid.horizontalHeaderItem(i).text() for i in columns]
    header = page.grid.horizontalHeader()
    assert all(header.sectionSize(i) >= header.sectionSizeHint(i) for i in columns)
    rows = range(page.grid.rowCount())
    return [head, *([page.grid.item(row, i).text() for i in columns] for row in rows)]


def counts_in(page):
    return [page.grid.item(row, 0).text() for row in range(page.grid.rowCount())]


def predict_after_a_change(viewer, page):
    """Take a class off, which is noticed, and back; then press *Predict*."""
    given = find_classes(annotations(viewer), viewer.layers["nuclei"])
    given.classify([1], "")
    until(lambda: "19 objects have one now. Train again." in page.note.text())
    given.undo()
    until(lambda: "Train again" not in page.note.text())
    given.change_class("class 1", color=(0, 158, 115, 255))
    push(page.predict)
    until(lambda: page.unsure.isEnabled())


def require_colors(viewer, tables):
    """The colours of the map are those of the classes."""
    given = find_classes(annotations(viewer), viewer.layers["nuclei"]).classes.classes
    until(lambda: tables.view.coloring.categories)
    shown = tables.view.coloring
    colors = dict(zip(shown.categories, shown.colors, strict=True))
    assert colors == {each.name: each.color[:3] for each in given}


def test_objects_are_classified_by_those_that_were_clicked(
    viewer, page, tmp_path, monkeypatch
):
    tables, browser = page.objects.tables, session_of(viewer).browser
    assert not page.train.isEnabled()
    assert page.note.text().startswith("Give objects two classes first")
    for field in "01":
        classify(viewer, show_dock(viewer, ANNOTATE), field, range(1, 11))
    until(lambda: counts_in(page) == ["10", "10"])
    push(page.train)
    until(lambda: page.predict.isEnabled())
    rule = page.classifying.rule
    right = rule.check["right"]
    told = f"Of 20 objects used to train, {right} ({5 * right} %) are given the"
    assert page.note.text() == f"{told} same class when they are left out of training."
    assert cells_of(page) == [
        ["classified", "used to train", "found as class 1", "found as class 2"],
        *(
            ["10", "10", *map(str, rule.check["confusion"][name].values())]
            for name in ("class 1", "class 2")
        ),
    ]
    predict_after_a_change(viewer, page)
    frame, names = tables.table.frame, np.array(["class 1", "class 2"])
    shares = shares_by_scikit_learn(rule, frame)
    found = frame["predicted"].astype(str)
    assert (found == names[frame["label"] % 2]).mean() > 0.9
    assert (found == names[shares.argmax(axis=1)]).all()
    np.testing.assert_array_equal(frame["probability"], shares.max(axis=1))
    assert tables.joined.column == "predicted"
    require_colors(viewer, tables)
    take_picture(viewer)
    assert any(each.table is tables.table for each in list_tables(annotations(viewer)))
    margins = np.abs(shares[:, 0] - shares[:, 1])
    away = (frame["well"] != "A/1").to_numpy()
    press(viewer, Qt.Key.Key_U)
    until(lambda: browser.position.well != "A/1")
    unsure = frame[away & (margins == margins[away].min())]
    layer = viewer.layers["nuclei"]
    until(lambda: layer.selected_label in [*unsure["label"]])
    # It stays when another plate is listed.
    session_of(viewer).plates.add_plates([str(tmp_path / "other.ome.zarr")])
    pump()
    assert page.classifying.rule is rule
    path = tmp_path / "rule.json"
    for ask in ("getSaveFileName", "getOpenFileName"):
        monkeypatch.setattr(QFileDialog, ask, lambda *_: (str(path), ""))
    push(page.save)
    until(path.exists)
    push(page.load)
    until(lambda: page.classifying.rule is not rule)
    assert page.classifying.rule.dump_text() == rule.dump_text()
