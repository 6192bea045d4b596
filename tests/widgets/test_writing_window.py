"""File ▸ Save Selected Layers… in a real window: asked, shown, stopped, reopened."""

from __future__ import annotations

import shutil
import threading

import numpy as np
import pytest
from napari.utils.notifications import notification_manager
from qtpy.QtCore import QEventLoop, QTimer
from qtpy.QtWidgets import QApplication, QFileDialog, QMessageBox, QProgressDialog

from mouse import pump
from napari_ngff.errors import OMEZarrError
from napari_ngff.plugin import use_workers
from napari_ngff.widgets import save_as
from patience import PATIENCE

PLACE = {
    "scale": (2, 0.5, 0.5),
    "translate": (10, 20, -5),
    "units": ("um", "um", "um"),
    "axis_labels": ("z", "y", "x"),
}


@pytest.fixture
def layers(viewer):
    pixels = np.random.default_rng(0).integers(0, 4000, (4, 300, 400)).astype("u2")
    added = [
        viewer.add_image(pixels, name="s: DNA", colormap="blue", **PLACE),
        viewer.add_image(pixels // 2, name="s: actin", colormap="red", **PLACE),
        viewer.add_labels((pixels > 3000).astype("u2"), name="cells", **PLACE),
    ]
    added[0].contrast_limits = 100, 3000
    return added


def in_dialog(viewer, monkeypatch, path, meanwhile=None):
    """Choose our filter and a path in the dialog of the menu, from a running loop."""

    def choose(*_, **keywords):
        filters = keywords["filter"].split(";;")
        return str(path), next(one for one in filters if "OME-Zarr" in one)

    monkeypatch.setattr(QFileDialog, "getSaveFileName", choose)
    raised: list[Exception] = []
    loop = QEventLoop()

    def save():
        try:
            viewer.window._qt_viewer._save_layers_dialog(selected=True)
        except (OMEZarrError, OSError) as error:
            raised.append(error)
        finally:
            loop.quit()

    QTimer.singleShot(0, save)
    if meanwhile is not None:
        QTimer.singleShot(300, meanwhile)
    QTimer.singleShot(1000 * PATIENCE, loop.quit)
    loop.exec()
    return raised[0] if raised else None


@pytest.mark.long
@pytest.mark.parametrize("name", ["a.ome.zarr", "a.ozx", "a"])
def test_saved_and_opened_again_layers_are_equal(
    viewer, layers, tmp_path, monkeypatch, name
):
    viewer.layers.select_all()
    assert in_dialog(viewer, monkeypatch, tmp_path / name) is None
    (path,) = tmp_path.iterdir()
    assert path.name == (name if "." in name else "a.ome.zarr")
    viewer.layers.clear()
    use_workers()
    viewer.open(str(path), plugin="napari-ngff")
    pump(100)
    assert [layer.name for layer in viewer.layers] == [layer.name for layer in layers]
    for found, layer in zip(viewer.layers, layers, strict=True):
        data = found.data[0] if found.multiscale else found.data
        np.testing.assert_array_equal(np.asarray(data), layer.data)
        np.testing.assert_allclose(found.scale, layer.scale)
        np.testing.assert_allclose(found.translate, layer.translate)
        assert (found.units, found.axis_labels) == (layer.units, layer.axis_labels)
    for found, layer in zip(viewer.layers[:2], layers[:2], strict=True):
        np.testing.assert_allclose(found.colormap.colors[-1], layer.colormap.colors[-1])
        assert tuple(found.contrast_limits) == tuple(layer.contrast_limits)


def test_a_folder_that_is_there_is_asked_for(viewer, layers, tmp_path, monkeypatch):
    path = tmp_path / "a.zarr"
    viewer.layers.selection = {layers[0]}
    assert in_dialog(viewer, monkeypatch, path) is None
    asked = []

    def question(answer):
        def ask(parent, title, text, *buttons):
            asked.append(text)
            return answer

        return ask

    viewer.layers.selection = {layers[2]}
    no = question(QMessageBox.StandardButton.No)
    monkeypatch.setattr(QMessageBox, "question", no)
    error = in_dialog(viewer, monkeypatch, path)
    assert "Replace a.zarr?" in asked[0]
    assert isinstance(error, InterruptedError)
    assert (path / "1").exists()
    yes = question(QMessageBox.StandardButton.Yes)
    monkeypatch.setattr(QMessageBox, "question", yes)
    assert in_dialog(viewer, monkeypatch, path) is None
    viewer.layers.clear()
    viewer.open(str(path), plugin="napari-ngff")
    assert [layer.name for layer in viewer.layers] == ["cells"]
    np.testing.assert_array_equal(np.asarray(viewer.layers[0].data[0]), layers[2].data)


@pytest.mark.long
def test_a_script_is_not_asked(viewer, layers, tmp_path, monkeypatch):
    monkeypatch.setattr(QMessageBox, "question", lambda *_: pytest.fail("asked"))
    viewer.layers.save(str(tmp_path / "a.zarr"))
    with pytest.raises(FileExistsError, match="Choose another name"):
        viewer.layers.save(str(tmp_path / "a.zarr"))


@pytest.mark.long
def test_what_cannot_be_saved_is_reported(viewer, layers, tmp_path, monkeypatch):
    viewer.add_image(np.ones((5, 6)), name="other")
    viewer.layers.select_all()
    error = in_dialog(viewer, monkeypatch, tmp_path / "a.zarr")
    assert "are not channels of one image" in str(error)
    assert list(tmp_path.iterdir()) == []
    notification_manager.records.clear()


def test_a_long_save_shows_how_far_it_is_and_can_be_stopped(
    viewer, tmp_path, monkeypatch
):
    monkeypatch.setattr(save_as, "SOON", 50)
    pixels = np.random.default_rng(0).integers(0, 4000, (60, 600, 600)).astype("u2")
    viewer.add_image(pixels, name="big")
    seen = []
    write = save_as.write

    def slow(*arguments, progress, **keywords):
        def reported(done, total):
            progress(done, total)
            shown.wait(PATIENCE)

        return write(*arguments, progress=reported, **keywords)

    shown = threading.Event()
    monkeypatch.setattr(save_as, "write", slow)

    def stop():
        dialog = QApplication.activeModalWidget()
        if not isinstance(dialog, QProgressDialog):
            QTimer.singleShot(50, stop)
            return
        seen.append(dialog.labelText())
        dialog.canceled.emit()
        shown.set()

    error = in_dialog(viewer, monkeypatch, tmp_path / "a.zarr", stop)
    assert seen[0] == "Writing a.zarr…"
    assert isinstance(error, InterruptedError)
    assert list(tmp_path.iterdir()) == []
    seen.clear()
    shown.set()
    assert in_dialog(viewer, monkeypatch, tmp_path / "b.zarr") is None
    shutil.rmtree(tmp_path / "b.zarr")
