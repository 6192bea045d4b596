"""Problems of a file that is opened: a notice in the window, and a sign that stays."""

from __future__ import annotations

import json

import numpy as np
import pytest
import zarr
from napari._qt.dialogs.qt_reader_dialog import QtReaderDialog
from napari.utils.notifications import notification_manager
from qtpy.QtCore import QEventLoop, Qt, QTimer
from qtpy.QtTest import QTest

from mouse import drop_on_canvas, pump, until
from napari_ngff.errors import OMEZarrError
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.samples import write_image
from napari_ngff.widgets.docking import full_name
from napari_ngff.widgets.problem_sign import problem_sign_of


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
    until(lambda: problem_sign_of(viewer) is not None)
    sign = problem_sign_of(viewer)
    assert sign.isVisible()
    assert sign.text() == "2 problems"
    first, *rest = messages()[0].splitlines()
    assert len(first.partition(".")[0]) <= 40
    assert first == "Opened with 2 problems."
    assert not any(str(tmp_path) in line for line in rest[:2])
    QTest.mouseClick(sign, Qt.MouseButton.LeftButton)
    until(lambda: full_name("Inspector") in viewer.window.dock_widgets)
    inspector = viewer.window.dock_widgets[full_name("Inspector")]
    until(lambda: inspector.problems.rowCount() > 0)
    assert inspector.problems.isVisible()
    # Both count the same, here a warning that did not keep the file from opening.
    until(lambda: sign.text() == f"{inspector.problems.rowCount()} problems")
    assert inspector.problems.rowCount() == 3
    viewer.layers.clear()
    until(lambda: not sign.isVisible())
    notification_manager.records.clear()


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
    assert messages()[0].startswith("Opened with 2 problems.")
    assert problem_sign_of(early).isVisible()
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
    assert problem_sign_of(viewer).text() == "1 problem"
    with pytest.raises(OMEZarrError):
        viewer.open(str(path), plugin="napari-ngff")
    notification_manager.records.clear()
