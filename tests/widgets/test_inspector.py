"""The inspector in a real window: what it shows, opens, moves and repairs."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import numpy as np
import pytest
import zarr
from qtpy.QtCore import Qt, QThreadPool
from qtpy.QtGui import QGuiApplication
from qtpy.QtWidgets import QDialog, QPushButton

from mouse import drop, pump, until
from napari_ngff import open_node
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.samples import write_image, write_plate
from napari_ngff.viewer.services.window import Window
from napari_ngff.widgets.inspector import inspector_dock
from napari_ngff.widgets.inspector.inspector_dock import JSON_TAB, Inspector
from napari_ngff.widgets.inspector.system_chooser import TransformDialog

TITLE = "Inspector"


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inspected")
    return write_image(folder / "cells.ome.zarr", shape=(1, 64, 96))


@pytest.fixture(scope="module")
def plate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inspected")
    wells = ["A1", "B2"]
    return write_plate(
        folder / "plate.ome.zarr", grid=(2, 2), fields=2, shape=(64, 64), wells=wells
    )


@pytest.fixture
def folder(sample, tmp_path):
    return shutil.copytree(sample, tmp_path / "cells.ome.zarr")


@pytest.fixture
def reads(monkeypatch):
    """Count how often each object is read."""
    counted = Counter()
    get = FolderStore.read

    def counting(source, key, *part):
        counted[key] += 1
        return get(source, key, *part)

    monkeypatch.setattr(FolderStore, "read", counting)
    return counted


def docked(viewer):
    inspector = Inspector(viewer)
    viewer.window.add_dock_widget(inspector, name=TITLE, area="right")
    return inspector


@pytest.fixture
def inspector(viewer):
    return docked(viewer)


def settle(inspector):
    """Wait until the chosen place is described."""

    def done():
        assert inspector._entry is not None
        assert inspector._details.path == str(inspector._entry.location)
        return inspector._target is None

    until(done)


def names(inspector, index=None):
    model = inspector.tree.model()
    parent = model.index(0, 0) if index is None else index
    count = model.rowCount(parent)
    return [model.index(i, 0, parent).data() for i in range(count)]


def row(inspector, *path):
    """Index of a row by the names from the root on; opens what is above."""
    model = inspector.tree.model()
    index = model.index(0, 0)
    for name in path:
        inspector.tree.expand(index)
        above = index
        until(lambda above=above: bool(names(inspector, above)))
        index = model.index(names(inspector, index).index(name), 0, index)
    return index


def choose(inspector, *path):
    index = row(inspector, *path)
    inspector.tree.setCurrentIndex(index)
    settle(inspector)
    return index


def ome(folder, change=None):
    file = folder / "zarr.json"
    document = json.loads(file.read_text())
    if change is not None:
        change(document["attributes"]["ome"])
        file.write_text(json.dumps(document))
    return document["attributes"]["ome"]


def cells(table):
    """Texts of the rows of the table of problems."""
    return [
        [table.item(i, j).text() if table.item(i, j) else "" for j in range(3)]
        for i in range(table.rowCount())
    ]


@pytest.mark.long
def test_it_is_in_the_menu_of_layers_and_opened_once(viewer, sample):
    viewer.open(str(sample), plugin="napari-ngff")
    menus = {a.text(): a.menu() for a in viewer.window.layers_menu.actions()}
    menus["Metadata"].aboutToShow.emit()
    items = {item.text(): item for item in menus["Metadata"].actions()}
    name = f"{TITLE} (OME-Zarr)"
    items[name].trigger()
    inspector = viewer.window.dock_widgets[name]
    assert isinstance(inspector, Inspector)
    settle(inspector)
    items[name].trigger()
    assert list(viewer.window.dock_widgets) == [name]


@pytest.mark.long
def test_it_follows_the_active_layer(viewer, inspector, sample):
    assert not inspector.copyPath.isEnabled()
    viewer.open(str(sample), plugin="napari-ngff")
    viewer.layers.selection.active = viewer.layers[0]
    settle(inspector)
    assert inspector._details.path == str(sample)
    viewer.layers.selection.active = viewer.layers["nuclei"]
    settle(inspector)
    until(lambda: inspector.tree.currentIndex().data() == "nuclei")
    text = inspector.facts.toPlainText()
    assert "label, OME-Zarr 0.5" in text
    assert "64 \N{MULTIPLICATION SIGN} 96" in text
    assert "µm" in text
    assert "Level 1 → image" in text


def test_rows_are_read_when_they_are_opened(viewer, inspector, plate, reads):
    inspector.showPath(str(plate))
    settle(inspector)
    until(lambda: bool(names(inspector)))
    assert names(inspector) == ["A/1", "B/2"]
    assert not [key for key in reads if key.startswith(("A", "B"))]
    well = row(inspector, "B/2")
    inspector.tree.expand(well)
    until(lambda: names(inspector, well) == ["0", "1"])
    assert {key.rpartition("/")[0] for key in reads} == {"", "B/2"}
    choose(inspector, "B/2", "0", "0")
    assert "Shape" in inspector.facts.toPlainText()
    assert not [key for key in reads if "/c/" in key]


def big_plate(folder):
    """A plate of 1536 wells of which only the plate's own document is there."""
    rows = [chr(65 + i) if i < 26 else f"A{chr(39 + i)}" for i in range(32)]
    columns = [str(i + 1) for i in range(48)]
    content = {
        "version": "0.5",
        "plate": {
            "version": "0.5",
            "name": "large",
            "rows": [{"name": name} for name in rows],
            "columns": [{"name": name} for name in columns],
            "wells": [
                {"path": f"{r}/{c}", "rowIndex": i, "columnIndex": k}
                for i, r in enumerate(rows)
                for k, c in enumerate(columns)
            ],
        },
    }
    group(folder, content)
    return folder


@pytest.mark.long
def test_a_plate_of_1536_wells_is_there_at_once(viewer, inspector, tmp_path, reads):
    where = big_plate(tmp_path / "large.ome.zarr")
    inspector.showPath(str(where))
    settle(inspector)
    until(lambda: len(names(inspector)) == 1536)
    assert sum(reads.values()) <= 4
    assert "1536 wells" in inspector.facts.toPlainText()
    inspector.tabs.setCurrentIndex(JSON_TAB)
    assert inspector.json.tree.topLevelItemCount() == 1


@pytest.mark.long
def test_json_is_searched(viewer, inspector, sample, qtbot):
    inspector.showPath(str(sample))
    settle(inspector)
    inspector.tabs.setCurrentIndex(JSON_TAB)
    tree = inspector.json.tree
    (top,) = (tree.topLevelItem(i) for i in range(tree.topLevelItemCount()))
    shown = {top.child(i).text(0): top.child(i) for i in range(top.childCount())}
    assert {"multiscales", "omero"} <= set(shown)
    qtbot.keyClicks(inspector.json.filter, "Mitochondria")
    assert shown["multiscales"].isHidden()
    assert not shown["omero"].isHidden()
    assert shown["omero"].isExpanded()


def test_a_row_is_opened_as_layers(viewer, inspector, sample, qtbot):
    inspector.showPath(str(sample))
    settle(inspector)
    index = choose(inspector, "labels", "nuclei")
    place = inspector.tree.visualRect(index).center()
    view = inspector.tree.viewport()
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=place)
    qtbot.mouseDClick(view, Qt.MouseButton.LeftButton, pos=place)
    until(lambda: len(viewer.layers) == 1)
    assert viewer.layers[0].name == "nuclei"
    assert viewer.layers[0].source.path == str(sample / "labels" / "nuclei")
    until(lambda: inspector.open.isEnabled())


@pytest.mark.long
def test_a_folder_is_dropped(viewer, inspector, sample):
    drop(inspector, sample / "labels" / "cells")
    settle(inspector)
    assert inspector.tree.currentIndex().data() == "cells"
    assert inspector.tree.topLevelItem(0).text(0) == "cells"
    assert not viewer.layers


@pytest.mark.long
def test_enter_opens_a_row(viewer, inspector, plate, qtbot):
    inspector.showPath(str(plate))
    settle(inspector)
    choose(inspector, "A/1")
    viewer.window.activate()
    inspector.tree.setFocus()
    until(inspector.tree.hasFocus)
    qtbot.keyClick(inspector.tree, Qt.Key.Key_Return)
    until(lambda: len(viewer.layers) == 5)
    assert viewer.layers[0].source.path == str(plate / "A" / "1")
    until(lambda: inspector.open.isEnabled())
    assert inspector.tree.currentIndex().data() == "A/1"


def test_late_answers_are_dropped(viewer, inspector, sample, plate, monkeypatch):
    waiting = []
    monkeypatch.setattr(Window.current, "run", lambda *job: waiting.append(job))

    def finish(number):
        work, done = waiting.pop(number)
        done(work())

    inspector.showPath(str(sample))
    inspector.showPath(str(plate))
    finish(1)  # the plate
    finish(0)
    while waiting:
        finish(-1)
    assert inspector._details.path == str(plate)
    tree = inspector.tree
    for _ in range(2):
        tree.setRoot(tree.rootEntry())
        tree.expandItem(tree.topLevelItem(0))
    while waiting:
        finish(0)
    assert names(inspector) == ["A/1", "B/2"]


@pytest.mark.long
def test_why_an_archive_is_not_repaired_is_reported(
    viewer, inspector, folder, tmp_path, monkeypatch
):
    ome(folder / "labels", lambda home: home.update(labels=["nuclei"]))
    pack_hierarchy(folder, tmp_path / "cells.ozx")
    monkeypatch.setattr(inspector_dock, "ask_question", lambda *_: "Repair")
    inspector.showPath(str(tmp_path / "cells.ozx"))
    settle(inspector)
    (button,) = inspector.problems.findChildren(QPushButton)
    button.click()
    until(lambda: "unpack it" in inspector.status.text())
    assert inspector.problems.isEnabled()


def test_a_repair_that_leaves_errors_can_be_undone(
    viewer, inspector, folder, monkeypatch
):
    ome(folder / "labels", lambda home: home.update(labels=["nuclei", "ghost"]))
    before = (folder / "labels" / "zarr.json").read_bytes()
    monkeypatch.setattr(inspector_dock, "ask_question", lambda *_: "Repair")
    inspector.showPath(str(folder))
    settle(inspector)
    assert inspector.undo.isHidden()
    inspector.repairProblems("label-unlisted")
    until(lambda: not inspector.undo.isHidden())
    assert ome(folder / "labels")["labels"] == ["nuclei", "ghost", "cells"]
    inspector.undo.click()
    until(lambda: (folder / "labels" / "zarr.json").read_bytes() == before)
    assert inspector.undo.isHidden()
    assert not list(folder.rglob("*.before-repair"))
    until(lambda: "undone" in inspector.status.text())
    file = folder / "labels" / "zarr.json"
    assert inspector.status.text().startswith(f"Repair undone. Restored: {file}. ")
    assert inspector.problems.rowCount() == 2


@pytest.mark.long
def test_what_cannot_be_opened_is_reported(viewer, inspector, tmp_path):
    inspector.showPath(str(tmp_path / "gone.zarr"))
    until(lambda: "gone.zarr" in inspector.status.text())


@pytest.mark.long
def test_the_path_is_copied(viewer, inspector, sample):
    inspector.showPath(str(sample))
    settle(inspector)
    inspector.copyPath.click()
    assert QGuiApplication.clipboard().text() == str(sample)


@pytest.mark.parametrize("answer", ["Repair", "Cancel"])
def test_an_unlisted_label_is_listed_on_consent(
    viewer, inspector, folder, monkeypatch, answer
):
    ome(folder / "labels", lambda home: home.update(labels=["nuclei"]))
    questions = []

    def reply(parent, title, text, answers):
        assert answers == ["Repair"]
        questions.append(text)
        return answer

    monkeypatch.setattr(inspector_dock, "ask_question", reply)
    inspector.showPath(str(folder))
    settle(inspector)
    ((problem, rule, consequence),) = cells(inspector.problems)
    assert problem == "warning: label-unlisted\nIn labels, at labels."
    assert "docs/check.md#label-unlisted" in inspector.problems.item(0, 0).toolTip()
    assert "SHOULD be listed" in rule
    assert consequence == "It is not shown."
    assert inspector.tabs.tabText(1) == "Problems (1 warning)"
    (button,) = inspector.problems.findChildren(QPushButton)
    button.click()
    assert len(questions) == 1
    assert "label-unlisted" in questions[0]
    assert (
        "If the file is valid afterwards, the repair cannot be undone."
        in (questions[0])
    )
    if answer == "Cancel":
        assert ome(folder / "labels")["labels"] == ["nuclei"]
        return
    until(lambda: "Repaired." in inspector.status.text())
    assert "Reopen the image" in inspector.status.text()
    assert inspector.undo.isHidden(), "nothing is kept where no error is left"
    assert ome(folder / "labels")["labels"] == ["nuclei", "cells"]
    assert cells(inspector.problems)[0][0] == "No problems found."
    labels = row(inspector, "labels")
    inspector.tree.expand(labels)
    until(lambda: names(inspector, labels) == ["nuclei", "cells"])
    assert not list(folder.rglob("*.before-repair"))


def test_all_below_a_plate_is_checked_when_asked(viewer, inspector, plate, tmp_path):
    where = shutil.copytree(plate, tmp_path / "plate.ome.zarr")
    shutil.rmtree(where / "B" / "2" / "1")
    inspector.showPath(str(where))
    settle(inspector)
    assert cells(inspector.problems)[0][0] == "No problems found."
    inspector.check.click()
    until(lambda: "error" in inspector.status.text())
    ((problem, _, _),) = cells(inspector.problems)
    assert problem.startswith("error: group-missing\nIn B/2/1")


# --- coordinate systems


def axes(unit="micrometer"):
    return [{"name": name, "type": "space", "unit": unit} for name in "yx"]


def group(folder, content):
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": {"ome": {"version": "0.6"} | content},
    }
    (folder / "zarr.json").write_text(json.dumps(document))


def image(folder, links=(), **more):
    """An image of 0.6 with a second system 100 micrometers away."""
    systems = [{"name": "physical", "axes": axes()}, {"name": "stage", "axes": axes()}]
    away = {
        "type": "translation",
        "translation": [100.0, 50.0],
        "input": {"name": "physical"},
        "output": {"name": "stage"},
    }
    level = {
        "type": "scale",
        "scale": [0.5, 0.5],
        "input": {"path": "0"},
        "output": {"name": "physical"},
    }
    multiscale = {
        "name": folder.name,
        "coordinateSystems": systems,
        "datasets": [{"path": "0", "coordinateTransformations": [level]}],
        "coordinateTransformations": [away, *links],
    }
    group(folder, {"multiscales": [multiscale]} | more)
    pixels = np.arange(256, dtype="u2").reshape(16, 16)
    zarr.create_array(folder / "0", data=pixels)
    return folder


def test_layers_move_into_the_chosen_system(viewer, inspector, tmp_path, qtbot):
    folder = image(tmp_path / "a.ome.zarr")
    group(folder / "labels", {"labels": ["b"]})
    image(folder / "labels" / "b", **{"image-label": {}})
    viewer.open(str(folder), plugin="napari-ngff")
    chooser = inspector.chooser
    until(lambda: chooser.systems.currentText() == "physical")
    texts = [chooser.systems.itemText(i) for i in range(chooser.systems.count())]
    assert texts[:2] == ["physical", "stage"]
    np.testing.assert_allclose(viewer.layers[0].data_to_world((0, 0)), (0, 0))
    qtbot.keyClicks(chooser.systems, "s")
    np.testing.assert_allclose(viewer.layers[0].data_to_world((2, 0)), (101, 50))
    np.testing.assert_allclose(viewer.layers["b"].data_to_world((2, 0)), (101, 50))
    assert chooser.systems.currentText() == "stage"
    settle(inspector)
    choose(inspector)
    assert "physical → stage: y + 100, x + 50" in inspector.facts.toPlainText()


@pytest.mark.long
def test_images_of_a_scene_that_stay_behind_are_named(viewer, inspector, tmp_path):
    image(tmp_path / "scene.ome.zarr" / "a")
    image(tmp_path / "scene.ome.zarr" / "b")
    ends = {"input": {"name": "physical", "path": "a"}, "output": {"name": "world"}}
    apart = {"input": {"name": "physical", "path": "b"}, "output": {"name": "moon"}}
    scene = {
        "coordinateSystems": [
            {"name": "world", "axes": axes()},
            {"name": "moon", "axes": axes()},
        ],
        "coordinateTransformations": [
            {"type": "identity"} | ends,
            {"type": "identity"} | apart,
        ],
    }
    group(tmp_path / "scene.ome.zarr", {"scene": scene})
    viewer.open(str(tmp_path / "scene.ome.zarr"), plugin="napari-ngff")
    systems = inspector.chooser.systems
    until(lambda: systems.count() > 2)
    texts = [systems.itemText(i) for i in range(systems.count())]
    assert "world, without b" in texts
    systems.setCurrentIndex(texts.index("moon, without a"))
    systems.activated.emit(systems.currentIndex())
    assert inspector.status.text() == "These stay where they are: a."


def save_as(monkeypatch, name):
    """Answer the dialog."""

    def answer(dialog):
        dialog.name.setText(name)
        return QDialog.DialogCode.Accepted

    monkeypatch.setattr(TransformDialog, "exec", answer)


def test_a_moved_layer_is_saved(viewer, inspector, tmp_path, monkeypatch):
    folder = image(tmp_path / "a.ome.zarr")
    viewer.open(str(folder), plugin="napari-ngff")
    viewer.layers[0].affine = [[0.8, 0.6, 3], [-0.6, 0.8, -7], [0, 0, 1]]
    save_as(monkeypatch, "aligned")
    until(inspector.chooser.save.isEnabled)
    inspector.chooser.save.click()
    assert str(folder / "zarr.json") in inspector.status.text()
    (multiscale,) = open_node(folder).metadata.image.multiscales
    assert [s.name for s in multiscale.systems] == ["physical", "stage", "aligned"]
    box = inspector.chooser.systems
    names = [box.itemText(i) for i in range(box.count())]
    assert "aligned" in names
    assert "are shown in aligned" in inspector.status.text()
    assert box.currentText() == "aligned"
    until(lambda: "aligned" in str(inspector._details.document))
    assert "are shown in aligned" in inspector.status.text()
    layer = viewer.layers[0]
    moved = layer.data_to_world((5, 3))
    for name in ("physical", "aligned"):
        box.setCurrentIndex(names.index(name))
        box.activated.emit(names.index(name))
        here = layer.data_to_world((5, 3))
        assert np.allclose(here, moved) is (name == "aligned")


@pytest.mark.long
def test_why_a_layer_cannot_be_saved_is_reported(
    viewer, inspector, folder, plate, monkeypatch
):
    save_as(monkeypatch, "")
    viewer.open(str(folder), plugin="napari-ngff")
    before = (folder / "zarr.json").read_bytes()
    viewer.layers.selection.active = viewer.layers[0]
    viewer.layers[0].rotate = 30
    until(inspector.chooser.save.isEnabled)
    inspector.chooser.save.click()
    assert "rotation" in inspector.status.text()
    assert (folder / "zarr.json").read_bytes() == before
    viewer.layers.clear()
    viewer.open(str(plate), plugin="napari-ngff")
    viewer.layers.selection.active = viewer.layers[0]
    until(inspector.chooser.save.isEnabled)
    inspector.chooser.save.click()
    assert "joins many images" in inspector.status.text()
    assert inspector.chooser.systems.count() == 0


def test_saved_labels_are_in_the_tree(viewer, inspector, tmp_path):
    path = image(tmp_path / "a.ome.zarr")
    viewer.open(str(path), plugin="napari-ngff")
    settle(inspector)
    choose(inspector, "0")
    for name in ("mine", "yours"):
        layer = viewer.add_layer(new_labels(viewer.layers[0], name))
        layer.data_setitem((np.array([3]), np.array([4])), 1)
        # The tree follows the image, where its array was chosen.
        viewer.layers.selection.active = viewer.layers[0]
        choose(inspector, "0")
        layer.saver.save()
        until(lambda: "labels" in names(inspector))
        inspector.tree.expand(row(inspector, "labels"))
        until(lambda name=name: name in names(inspector, row(inspector, "labels")))
    assert names(inspector, row(inspector, "labels")) == ["mine", "yours"]
    until(lambda: inspector.tree.currentIndex().data() == "0")
    choose(inspector, "labels", "mine")
    layer = viewer.add_layer(new_labels(viewer.layers[0], "theirs"))
    layer.data_setitem((np.array([3]), np.array([4])), 1)
    choose(inspector, "labels", "mine")
    layer.saver.save()
    until(lambda: "theirs" in names(inspector, row(inspector, "labels")))
    # What was chosen is still chosen.
    until(lambda: inspector.tree.currentIndex().data() == "mine")
    settle(inspector)
    assert inspector._details.path == str(path / "labels" / "mine")


def test_a_file_that_is_opened_again_is_read_again(viewer, inspector, tmp_path):
    path = image(tmp_path / "a.ome.zarr")
    viewer.open(str(path), plugin="napari-ngff")
    settle(inspector)

    def rename(home):
        home["multiscales"][0]["name"] = "renamed"

    ome(path, rename)
    viewer.open(str(path), plugin="napari-ngff")
    viewer.layers.selection.active = viewer.layers[-1]
    until(lambda: "renamed" in str(inspector._details.document))


# --- it comes and goes


@pytest.mark.long
def test_the_dock_may_be_closed_while_it_reads(viewer, plate):
    inspector = docked(viewer)  # a fixture would keep it
    inspector.showPath(str(plate))
    inspector.parent().destroyOnClose()
    pump(200)
    viewer.open(str(plate), plugin="napari-ngff")
    viewer.layers.selection.active = viewer.layers[0]
    until(lambda: not QThreadPool.globalInstance().activeThreadCount())
    pump(50)


def test_the_window_may_be_closed_while_it_checks(viewer, inspector, plate):
    inspector.showPath(str(plate))
    settle(inspector)
    inspector.check.click()
    viewer.close()
    pump(200)
