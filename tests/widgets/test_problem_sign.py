"""Problems of a file that is opened: a notice in the window, and a sign that stays."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest
import tifffile
import zarr
from napari._qt.dialogs.qt_reader_dialog import QtReaderDialog
from napari.utils.notifications import notification_manager
from qtpy.QtCore import QEventLoop, Qt, QTimer
from qtpy.QtTest import QTest

from mouse import drop_on_canvas, pump, until
from napari_ngff.errors import OMEZarrError
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.samples import write_image, write_plate
from napari_ngff.viewer.services.notices import count_noun
from napari_ngff.widgets.docking import full_name
from napari_ngff.widgets.inspector.inspector_dock import PROBLEMS
from napari_ngff.widgets.status_signs import ProblemSign, sign_of


def broken(folder):
    """Write an image whose list of labels names two that are not there."""
    path = write_image(folder / "broken.ome.zarr", shape=(64, 64))
    for file in (path / "labels/zarr.json", path / "labels/.zattrs"):
        if file.exists():
            document = json.loads(file.read_text())
            home = document.get("attributes", {}).get("ome", document)
            home["labels"] = [*home["labels"], "gone", "lost"]
            file.write_text(json.dumps(document))
    file = path / "labels/nuclei/zarr.json"
    document = json.loads(file.read_text())
    del document["attributes"]["ome"]["image-label"]
    file.write_text(json.dumps(document))
    return path


def messages():
    return [str(record.message) for record in notification_manager.records]


def test_a_sign_stays_and_leads_to_the_inspector(viewer, tmp_path):
    notification_manager.records.clear()
    use_workers()
    path = broken(tmp_path)
    drop_on_canvas(viewer, path)
    until(lambda: len(viewer.layers))
    until(lambda: sign_of(viewer, ProblemSign) is not None)
    sign = sign_of(viewer, ProblemSign)
    until(lambda: sign.isVisible() and sign.text() == "2 errors")
    first, *rest = messages()[0].splitlines()
    assert len(first.partition(".")[0]) <= 40
    assert first == "Opened with 2 notes."
    assert not any(str(tmp_path) in line for line in rest[:2])
    QTest.mouseClick(sign, Qt.MouseButton.LeftButton)
    until(lambda: full_name("Inspector") in viewer.window.dock_widgets)
    inspector = viewer.window.dock_widgets[full_name("Inspector")]
    until(lambda: inspector.problems.rowCount() > 0)
    assert inspector.problems.isVisible()
    # The third is a warning, which keeps nothing from being shown.
    until(lambda: inspector.problems.rowCount() == 3)
    assert inspector.tabs.tabText(PROBLEMS) == "Problems (2 errors, 1 warning)"
    assert listed(inspector)[2].startswith("warning: ")
    assert sign.text() == "2 errors"
    viewer.layers.clear()
    until(lambda: not sign.isVisible())
    notification_manager.records.clear()


@pytest.mark.long
def test_what_is_reported_before_the_window_is_shown_in_it(
    viewer, tmp_path, make_napari_viewer
):
    notification_manager.records.clear()
    use_workers()
    early = make_napari_viewer(show=False)
    early.open(str(broken(tmp_path)), plugin="napari-ngff")
    pump(100)
    assert messages() == []
    early.window._qt_window.show()
    until(lambda: messages())
    assert messages()[0].startswith("Opened with 2 notes.")
    until(lambda: sign_of(early, ProblemSign).isVisible())
    notification_manager.records.clear()


def click_sign(viewer):
    """Click the sign, and give the inspector when it has read."""
    QTest.mouseClick(sign_of(viewer, ProblemSign), Qt.MouseButton.LeftButton)
    until(lambda: full_name("Inspector") in viewer.window.dock_widgets)
    inspector = viewer.window.dock_widgets[full_name("Inspector")]
    until(lambda: inspector.status.text() != "Reading…")
    return inspector


def listed(inspector):
    """First column of the problems that are to be seen."""
    table = inspector.problems
    assert table.isVisible()
    return [table.item(row, 0).text() for row in range(table.rowCount())]


def errors(inspector):
    """Those that are no warnings; their number is that of the tab."""
    found = [text for text in listed(inspector) if text.startswith("error: ")]
    tab = inspector.tabs.tabText(PROBLEMS)
    assert re.findall(r"\((\d+)", tab) == [str(len(found))]
    return found


@pytest.mark.long
@pytest.mark.parametrize("gone", ["B/2/1/0/zarr.json", "B/2/1", "B/2"])
def test_a_problem_below_a_plate_is_shown_where_it_is(viewer, tmp_path, gone):
    use_workers()
    wells = ["A1", "A2", "B2"]
    path = write_plate(tmp_path / "plate.ome.zarr", grid=(2, 2), fields=2, wells=wells)
    broken = path / gone
    shutil.rmtree(broken) if broken.is_dir() else broken.unlink()
    drop_on_canvas(viewer, path)
    until(lambda: sign_of(viewer, ProblemSign) is not None)
    sign = sign_of(viewer, ProblemSign)
    until(sign.isVisible)
    inspector = click_sign(viewer)
    place = gone.removesuffix("/zarr.json")
    until(lambda: any(place in text for text in errors(inspector)))
    assert sign.text() == count_noun(len(errors(inspector)), "error")
    # Of a field that is there, its own row is chosen; the whole plate lists it, too.
    assert inspector._details.path.endswith("B/2/1") == (gone != place)
    inspector.tree.setCurrentItem(inspector.tree.topLevelItem(0))
    until(lambda: inspector._details.path == str(path))
    assert any(place in text for text in errors(inspector))
    assert sign.text() == count_noun(len(errors(inspector)), "error")
    inspector.checkAll()
    until(lambda: "here and below" in inspector.status.text())
    assert sign.text() == count_noun(len(errors(inspector)), "error")
    notification_manager.records.clear()


@pytest.mark.long
def test_of_several_files_the_sign_asks_which(viewer, tmp_path):
    use_workers()
    for number in (1, 2):
        path = broken(tmp_path / str(number))
        drop_on_canvas(viewer, path.rename(path.with_name(f"cells{number}.ome.zarr")))
    until(lambda: sign_of(viewer, ProblemSign) is not None)
    sign = sign_of(viewer, ProblemSign)
    until(lambda: sign.text() == "4 errors")
    QTest.mouseClick(sign, Qt.MouseButton.LeftButton)
    until(sign._files.isVisible)
    texts = [action.text() for action in sign._files.actions()]
    assert texts == ["cells1.ome.zarr: 2 errors", "cells2.ome.zarr: 2 errors"]
    sign._files.actions()[0].trigger()
    sign._files.close()
    until(lambda: full_name("Inspector") in viewer.window.dock_widgets)
    inspector = viewer.window.dock_widgets[full_name("Inspector")]
    until(lambda: inspector._details.path.endswith("cells1.ome.zarr"))
    assert len(listed(inspector)) == 3
    notification_manager.records.clear()


def noted(asked):
    def choose(dialog):
        asked.append(dialog)
        dialog.deleteLater()
        return "", False

    return choose


def in_loop(act):
    """Do something as the user does, while the event loop runs; give what it raised."""
    loop, raised = QEventLoop(), []

    def run():
        try:
            act()
        except Exception as error:  # noqa: BLE001  napari's are of any kind
            raised.append(error)
        finally:
            loop.quit()

    QTimer.singleShot(0, run)
    loop.exec()
    return raised


def test_a_plain_zarr_array_opens_with_one_sentence(viewer, tmp_path, monkeypatch):
    notification_manager.records.clear()
    use_workers()
    asked = []
    monkeypatch.setattr(QtReaderDialog, "get_user_choices", noted(asked))
    zarr.create_array(tmp_path / "plain.zarr", data=np.eye(16, dtype="u1"))
    assert in_loop(lambda: drop_on_canvas(viewer, tmp_path / "plain.zarr")) == []
    assert [layer.data.shape for layer in viewer.layers] == [(16, 16)]
    assert asked == []
    assert messages()[0].splitlines()[0] == "Not an OME-Zarr."
    notification_manager.records.clear()


def test_a_folder_of_images_opens_where_the_dialog_proposes_this_plugin(
    viewer, tmp_path, monkeypatch
):
    notification_manager.records.clear()
    use_workers()

    def press_ok(dialog):
        chosen = dialog.reader_btn_group.checkedButton().text()
        dialog.deleteLater()
        return chosen, False

    monkeypatch.setattr(QtReaderDialog, "get_user_choices", press_ok)
    folder, empty = tmp_path / "sections", tmp_path / "empty"
    folder.mkdir()
    empty.mkdir()
    for number in range(3):
        tifffile.imwrite(folder / f"{number}.tif", np.full((16, 16), number, "u1"))
    assert in_loop(lambda: drop_on_canvas(viewer, folder)) == []
    assert [layer.data.shape for layer in viewer.layers] == [(3, 16, 16)]
    assert "Opened as a folder of images." in messages()[0]
    assert in_loop(lambda: drop_on_canvas(viewer, empty)) == []
    assert "Nothing can be read as a folder of images." in messages()[-1]
    assert len(viewer.layers) == 1
    notification_manager.records.clear()


def test_what_cannot_be_opened_is_reported_without_a_dialog(
    viewer, tmp_path, monkeypatch
):
    notification_manager.records.clear()
    use_workers()
    asked = []
    monkeypatch.setattr(QtReaderDialog, "get_user_choices", noted(asked))
    path = tmp_path / "broken-json.ome.zarr"
    path.mkdir()
    (path / "zarr.json").write_text("{ nothing")
    assert in_loop(lambda: drop_on_canvas(viewer, path)) == []
    assert asked == []
    (message,) = messages()
    assert message.splitlines()[0] == "Not opened: broken-json.ome.zarr"
    until(lambda: sign_of(viewer, ProblemSign).text() == "1 error")
    inspector = click_sign(viewer)
    until(lambda: listed(inspector) == ["error: node-unreadable\nIn the top group."])
    with pytest.raises(OMEZarrError):
        viewer.open(str(path), plugin="napari-ngff")
    notification_manager.records.clear()
