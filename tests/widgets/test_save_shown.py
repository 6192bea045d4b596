"""What the controls, the status bar and the activity dock say of a save."""

from __future__ import annotations

import re
import shutil
import time

import numpy as np
import pytest
import zarr
from napari._qt.widgets.qt_progress_bar import QtLabeledProgressBar
from napari.utils.notifications import notification_manager
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest

from mouse import drag, press_save, pump, until
from napari_ngff.plugin import use_workers
from napari_ngff.store.arrays.array_writer import ArrayWriter
from napari_ngff.viewer.annotations.object_class_annotation import begin_classes
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.session import session_of
from object_tables import stored as tables_in
from unreliable import serving

LEFT = Qt.MouseButton.LeftButton
REFUSED = 400


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample") / "cells.ome.zarr"
    write_image(folder, shape=(1, 1200, 1200))
    return folder


@pytest.fixture
def folder(sample, tmp_path):
    return shutil.copytree(sample, tmp_path / "cells.ome.zarr")


@pytest.fixture
def layer(viewer, folder):
    use_workers()
    viewer.open(str(folder), plugin="napari-ngff")
    found = viewer.layers["nuclei"]
    viewer.layers.selection.active = found
    for other in viewer.layers:
        other.visible = other is found
    viewer.reset_view()
    pump(100)
    yield found
    notification_manager.records.clear()


def controls(viewer, layer):
    return viewer.window._qt_viewer.controls.widgets[layer].saving


def paint(viewer, layer, points=((300, 300), (330, 420))):
    layer.mode, layer.selected_label, layer.brush_size = "paint", 77, 9
    drag(viewer, [tuple(np.multiply(p, layer.scale[-2:])) for p in points])


def stored(folder):
    return zarr.open_array(folder / "labels" / "nuclei" / "0", mode="r")[:]


def test_the_button_saves_and_the_state_is_reported(viewer, layer, folder):
    notification_manager.records.clear()  # of windows of other tests
    before = stored(folder)
    row = controls(viewer, layer)
    assert row.isVisible()
    assert row.state.text() == "No changes"
    assert not row.save.isEnabled()
    paint(viewer, layer)
    until(lambda: row.state.text() == "Unsaved changes")
    until(lambda: re.match(r"\d+ chunks? to save\.", row.state.toolTip()))
    assert row.save.isEnabled()
    QTest.mouseClick(row.save, LEFT)
    until(lambda: re.fullmatch(r"Saved \d\d:\d\d", row.state.text()))
    assert re.fullmatch(r"\d+ chunks? written\.", row.state.toolTip())
    assert not row.save.isEnabled()
    count = int((stored(folder) != before).sum())
    assert count > 500
    # Once, since another program made these labels; later saves show no message.
    assert messages() == [f"{count} voxels of 'nuclei' changed."]
    paint(viewer, layer, ((700, 300), (730, 420)))
    until(lambda: row.save.isEnabled())
    QTest.mouseClick(row.save, LEFT)
    until(lambda: not layer.unsaved and not layer.saver.running)
    assert int((stored(folder) != before).sum()) > count
    assert len(messages()) == 1
    classes = begin_classes(session_of(viewer).annotations, layer)
    classes.add_class("round")
    classes.classify(5, "round")
    until(lambda: row.state.text() == "Unsaved classes")
    QTest.mouseClick(row.save, LEFT)
    until(lambda: re.fullmatch(r"Saved \d\d:\d\d", row.state.text()))
    assert tables_in(folder) == {"nuclei": {5: "round"}}
    layer.undo()
    until(lambda: row.state.text() != layer.saver.note)
    assert row.save.isEnabled()


def messages():
    """First lines of all notifications."""
    return [str(x.message).partition("\n")[0] for x in notification_manager.records]


@pytest.mark.long
@pytest.mark.parametrize("over", [True, False], ids=["on canvas", "elsewhere"])
def test_the_status_bar_reports_a_save_wherever_the_mouse_is(viewer, layer, over):
    paint(viewer, layer)
    viewer.mouse_over_canvas = over
    viewer.status = "something else"
    layer.saver.save()
    until(lambda: not layer.saver.running)
    until(lambda: re.search(r"Saved \d\d:\d\d", str(viewer.status)))


@pytest.mark.long
def test_ctrl_s_on_new_labels_without_a_stroke_shows_that_nothing_changed(
    viewer, layer, folder
):
    new = viewer.add_layer(new_labels(viewer.layers[0], "mine"))
    viewer.layers.selection.active = new
    pump(100)
    press_save(viewer, new)
    until(lambda: viewer.status == "mine: No changes")
    assert not (folder / "labels/mine").exists()


@pytest.fixture
def slow(monkeypatch):
    """A disk that takes its time."""
    plain = ArrayWriter.update_cells

    def update(self, *arguments, **keywords):
        time.sleep(0.3)
        return plain(self, *arguments, **keywords)

    monkeypatch.setattr(ArrayWriter, "update_cells", update)
    return monkeypatch


def bars(viewer):
    window = viewer.window._qt_window
    return [bar for bar in window.findChildren(QtLabeledProgressBar) if bar.progress]


def all_over(layer):
    """Edit every block."""
    edges = np.arange(20, 1200, 100)
    rows, columns = (a.ravel() for a in np.meshgrid(edges, edges))
    layer.data_setitem((np.zeros_like(rows), rows, columns), 77)


@pytest.mark.long
@pytest.mark.parametrize("where", ["controls", "activity"])
def test_a_save_that_takes_long_shows_how_far_it_is_and_can_be_cancelled(
    viewer, layer, folder, slow, where
):
    row = controls(viewer, layer)
    all_over(layer)
    until(lambda: row.save.isEnabled())
    place = row.save.geometry().topLeft()
    QTest.mouseClick(row.save, LEFT)
    until(lambda: re.fullmatch(r"Saving [1-9]\d? %", row.state.text()))
    assert row.cancel.isVisible()
    assert row.save.isVisible()
    assert not row.save.isEnabled()
    assert row.save.geometry().topLeft() == place, "a double click cancels nothing"
    until(lambda: bars(viewer))
    (bar,) = bars(viewer)
    assert "nuclei" in bar.description_label.text()
    until(lambda: bar.qt_progress_bar.value() > 0)
    button = row.cancel if where == "controls" else bar.cancel_button
    button.click()
    until(lambda: not layer.saver.running)
    assert layer.saver.note.startswith("Cancelled")
    assert layer.unsaved
    until(lambda: not bars(viewer))
    slow.undo()
    until(lambda: row.save.isEnabled() and not row.cancel.isVisible())
    QTest.mouseClick(row.save, LEFT)
    until(lambda: not layer.unsaved and not layer.saver.running)
    assert (stored(folder) == np.asarray(layer.data[0])).all()


def test_painting_goes_on_while_a_save_does(viewer, layer, folder, slow):
    paint(viewer, layer)
    layer.saver.save()
    paint(viewer, layer, ((700, 300), (730, 420)))
    assert layer.saver.running
    pixels = np.asarray(layer.data[0])
    until(lambda: not layer.saver.running)
    assert layer.unsaved
    assert layer.saver.save_now()
    assert (stored(folder) == pixels).all()


def test_a_button_beside_read_only_labels_makes_a_copy_to_paint_on(viewer, tmp_path):
    use_workers()
    write_image(tmp_path / "cells.ome.zarr", shape=(1, 64, 64))
    with serving(tmp_path) as server:
        viewer.open(f"{server.address}/cells.ome.zarr", plugin="napari-ngff")
        labels = viewer.layers["nuclei"]
        viewer.layers.selection.active = labels
        pump(100)
        row = controls(viewer, labels)
        assert row.state.text() == "Read-only"
        assert not row.save.isVisible()
        QTest.mouseClick(row.copy_button, LEFT)
        until(lambda: viewer.layers["nuclei"] is not labels)
        copy = viewer.layers["nuclei"]
        assert viewer.layers.selection.active is copy
        pump(100)
        row = controls(viewer, copy)
        assert row.save.isVisible()
        assert not row.copy_button.isVisible()
        paint(viewer, copy, ((20, 20), (30, 40)))
        until(row.save.isEnabled)
        QTest.mouseClick(row.save, LEFT)
        until(lambda: row.state.text().startswith("Saved"))
    notification_manager.records.clear()


def test_a_copy_that_fails_leaves_the_button(viewer, tmp_path):
    use_workers()
    write_image(tmp_path / "cells.ome.zarr", shape=(1, 64, 64))
    with serving(tmp_path) as server:
        viewer.open(f"{server.address}/cells.ome.zarr", plugin="napari-ngff")
        labels = viewer.layers["nuclei"]
        viewer.layers.selection.active = labels
        pump(100)
        row = controls(viewer, labels)
        server.answer = lambda path: REFUSED
        QTest.mouseClick(row.copy_button, LEFT)
        assert row.state.text() == "Being copied"
        assert not row.copy_button.isVisible()
        until(lambda: row.copy_button.isVisible() and row.state.text() == "Read-only")
    notification_manager.records.clear()
