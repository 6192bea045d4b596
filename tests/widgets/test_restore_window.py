"""The question what to do with unsaved edits, clicked in a real window."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
import zarr
from napari.layers import Image
from napari.utils.notifications import notification_manager
from qtpy.QtCore import QPoint, Qt, QTimer
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QMessageBox, QPushButton

from journals import discard_edits
from mouse import drag, press_save, pump, until
from napari_ngff.labels.chunk_patch import ChunkPatch
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.journal import journal_home
from napari_ngff.labels.shapes import Stroke
from napari_ngff.plugin import restore_edits, use_workers
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.samples import write_image, write_plate
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.dialogs import DISCARD, LATER, RESTORE
from napari_ngff.widgets.saving.unsaved_question import RestoreDialog

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def cells(tmp_path):
    write_image(tmp_path / "cells.ome.zarr", shape=(120, 160))
    yield tmp_path / "cells.ome.zarr"
    notification_manager.records.clear()


@pytest.fixture
def plate(tmp_path):
    path = tmp_path / "plate.ome.zarr"
    write_plate(path, grid=(1, 2), fields=1, shape=(128, 128))
    yield path
    notification_manager.records.clear()


def opened(viewer, path):
    use_workers()
    viewer.open(str(path), plugin="napari-ngff")
    viewer.reset_view()
    pump(100)


def image_of(viewer):
    return next(layer for layer in viewer.layers if isinstance(layer, Image))


def paint_new(viewer, name, label):
    layer = viewer.add_layer(new_labels(image_of(viewer), name))
    viewer.layers.selection.active = layer
    pump(100)
    layer.mode, layer.selected_label, layer.brush_size = "paint", label, 9
    low, high = image_of(viewer).extent.world[:, -2:]
    drag(viewer, [tuple(low + part * (high - low)) for part in (0.4, 0.6)])
    assert layer.unsaved
    return np.asarray(layer.data[0])


def leave(viewer):
    """End as a process that dies does."""
    for layer in list(viewer.layers):
        if getattr(layer, "saver", None) is not None and layer.unsaved:
            layer.saver.keep_journal()
    viewer.layers.clear()
    notification_manager.records.clear()


class Asked:
    """Waits for the question, and clicks as a user does."""

    def __init__(self, button, untick=None):
        self.rows = None
        self._button, self._untick = button, untick
        self._timer = QTimer()
        self._timer.timeout.connect(self._click)
        self._timer.start(50)

    def _click(self):
        dialog = QApplication.activeModalWidget()
        if not isinstance(dialog, RestoreDialog | QMessageBox):
            return
        self._timer.stop()
        if isinstance(dialog, QMessageBox):
            self.rows = [dialog.text()]
        else:
            listed = dialog.list
            self.rows = [listed.item(row).text() for row in range(listed.count())]
            if self._untick is not None:
                row = listed.visualItemRect(listed.item(self._untick))
                at = QPoint(row.left() + 10, row.center().y())
                QTest.mouseClick(listed.viewport(), LEFT, pos=at)
        buttons = {
            b.text().replace("&", ""): b for b in dialog.findChildren(QPushButton)
        }
        assert set(buttons) == {RESTORE, DISCARD, LATER}
        QTest.mouseClick(buttons[self._button], LEFT)


@pytest.mark.long
def test_labels_that_were_never_saved_come_back(viewer, cells):
    opened(viewer, cells)
    pixels = paint_new(viewer, "mitosis", 5)
    leave(viewer)
    asked = Asked(LATER)
    opened(viewer, cells)
    until(lambda: asked.rows)
    asked = Asked(RESTORE)
    restore_edits(viewer)  # of the menu, while the image stays open
    until(lambda: "mitosis" in viewer.layers)
    (text,) = asked.rows
    assert text.startswith("1 edit of 'mitosis' (cells.ome.zarr, ")
    layer = viewer.layers["mitosis"]
    until(lambda: viewer.layers.selection.active is layer)
    assert layer.visible
    assert (np.asarray(layer.data[0]) == pixels).all()
    discard_edits(layer.saver)


def test_labels_that_code_removed_come_back_though_python_keeps_the_layer(
    viewer, cells
):
    """Nor does the window stop meanwhile to collect the garbage of all plugins."""
    opened(viewer, cells)
    pixels = paint_new(viewer, "mitosis", 5)
    removed = viewer.layers["mitosis"]
    viewer.layers.remove(removed)
    collections = []
    gc.disable()
    gc.callbacks.append(lambda phase, info: collections.append(phase))
    try:
        told = notification_manager.records
        until(lambda: any("its unsaved changes are kept" in n.message for n in told))
        asked = Asked(RESTORE)
        restore_edits(viewer)  # of the menu
        until(lambda: "mitosis" in viewer.layers)
    finally:
        gc.callbacks.pop()
        gc.enable()
    assert not collections
    assert asked.rows[0].startswith("1 edit of 'mitosis' (cells.ome.zarr, ")
    layer = viewer.layers["mitosis"]
    assert layer is not removed
    until(lambda: layer.unsaved)
    assert (np.asarray(layer.data[0]) == pixels).all()
    discard_edits(layer.saver)


def test_ctrl_z_after_a_restore_takes_back_the_restored_strokes_alone(viewer, cells):
    def stroke(row, label):
        layer = viewer.layers["nuclei"]
        viewer.layers.selection.active = layer
        pump(100)
        layer.mode, layer.selected_label, layer.brush_size = "paint", label, 9
        drag(viewer, [layer.data_to_world((row, column)) for column in (20, 140)])

    def stored():
        return zarr.open_array(cells / "labels" / "nuclei" / "0", mode="r")[:]

    opened(viewer, cells)
    for number in range(4):
        stroke(20 + 20 * number, 61 + number)
    assert viewer.layers["nuclei"].saver.save_now()
    saved = stored()
    stroke(100, 66)
    assert viewer.layers["nuclei"].unsaved
    leave(viewer)
    asked = Asked(RESTORE)
    opened(viewer, cells)
    until(lambda: asked.rows)
    layer = viewer.layers["nuclei"]
    until(lambda: layer.unsaved)
    assert asked.rows[0].startswith("1 edit of 'nuclei' ")
    assert (np.asarray(layer.data[0]) != saved).any()
    press_save(viewer, layer)
    until(lambda: not layer.unsaved)
    canvas = viewer.window._qt_viewer.canvas.native
    for _ in range(5):
        QTest.keyClick(canvas, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
        pump(50)
    assert (np.asarray(layer.data[0]) == saved).all()
    press_save(viewer, layer)
    until(lambda: not layer.unsaved)
    assert (stored() == saved).all()


@pytest.mark.long
def test_of_several_labels_those_that_are_ticked_come_back(viewer, cells):
    opened(viewer, cells)
    for number, name in enumerate(("mitosis", "phenotype")):
        paint_new(viewer, name, number + 3)
    leave(viewer)
    asked = Asked(RESTORE, untick=0)
    opened(viewer, cells)
    until(lambda: asked.rows)
    assert sorted(row.split(" (")[0] for row in asked.rows) == [
        "1 edit of 'mitosis'",
        "1 edit of 'phenotype'",
    ]
    kept, other = ("mitosis", "phenotype")
    if "phenotype" in asked.rows[0]:
        kept, other = other, kept
    until(lambda: other in viewer.layers)
    assert kept not in viewer.layers
    discard_edits(viewer.layers[other].saver)
    viewer.layers.clear()
    asked = Asked(DISCARD)
    opened(viewer, cells)
    until(lambda: asked.rows)
    assert kept in asked.rows[0]
    until(lambda: not list(journal_home().glob("*/*/edits.jsonl")))


@pytest.mark.long
def test_ctrl_s_saves_all_restored_labels(viewer, cells):
    opened(viewer, cells)
    pixels = {
        name: paint_new(viewer, name, number + 3)
        for number, name in enumerate(("mitosis", "phenotype"))
    }
    leave(viewer)
    asked = Asked(RESTORE)
    opened(viewer, cells)
    until(lambda: asked.rows)
    until(lambda: all(name in viewer.layers for name in pixels))
    layers = [viewer.layers[name] for name in pixels]
    until(lambda: all(layer.unsaved and layer.visible for layer in layers))
    assert viewer.layers.selection.active in layers, "it can be painted on"
    told = [str(x.message) for x in notification_manager.records]
    told = [text for text in told if text.startswith("Restored: ")]
    # Those that are restored together are told together.
    assert sum(1 + ("and 1 more." in text) for text in told) == len(pixels)
    press_save(viewer, viewer.layers.selection.active)
    until(lambda: not any(layer.unsaved for layer in layers))
    for name, painted in pixels.items():
        stored = zarr.open_array(cells / "labels" / name / "0", mode="r")[:]
        assert (stored == painted).all()


@pytest.mark.long
def test_ctrl_s_leaves_other_labels_unsaved(viewer, cells):
    opened(viewer, cells)
    for number, name in enumerate(("mitosis", "phenotype")):
        paint_new(viewer, name, number + 3)
    press_save(viewer, viewer.layers["phenotype"])
    assert viewer.layers["mitosis"].unsaved
    discard_edits(viewer.layers["mitosis"].saver)


def test_a_field_of_a_plate_is_shown_with_its_edits(viewer, plate):
    opened(viewer, plate)
    browser = session_of(viewer).browser
    browser.show_field("A/2", "0")
    until(lambda: browser.position is not None)
    pixels = paint_new(viewer, "mitosis", 5)
    tool = viewer.layers["mitosis"].describe_tool()
    until(lambda: settings.last_tool() == tool)
    leave(viewer)
    session_of(viewer).browser.close()
    session_of(viewer).plates.shown = None
    asked = Asked(RESTORE)
    opened(viewer, plate)
    until(lambda: asked.rows)
    assert "of 'mitosis' (A2, field 0, plate.ome.zarr, " in asked.rows[0]
    assert "closed" not in asked.rows[0], "it may have been kept on purpose"
    until(lambda: "mitosis" in viewer.layers and viewer.layers["mitosis"].unsaved)
    browser = session_of(viewer).browser
    assert (browser.position.well, browser.position.field) == ("A/2", "0")
    layer = viewer.layers["mitosis"]
    assert viewer.layers.selection.active is layer
    assert layer.visible
    assert layer.mode == "paint", "the tool is in hand again"
    assert layer.brush_on_screen
    assert layer.describe_tool()["size"] == pytest.approx(tool["size"], abs=0.5)
    assert (np.asarray(layer.data[0]) == pixels).all()
    discard_edits(layer.saver)


@pytest.mark.long
def test_the_window_goes_on_while_many_edits_are_restored(viewer, cells, monkeypatch):
    opened(viewer, cells)
    layer = viewer.layers["nuclei"]
    rng = np.random.default_rng(7)
    for number in range(300):
        low = rng.integers(0, 110, 2).astype(float)
        stroke = Stroke((tuple(low), tuple(low + 5)), (4,), 3.5, (1.0, 1.0))
        layer.canvas.begin_step()
        layer.canvas.add_edit(Edit(stroke, (0, 1), (), number % 50 + 1))
        layer.canvas.close_step()
    pixels = [np.asarray(level) for level in layer.data]
    leave(viewer)
    threads = set()
    apply = ChunkPatch.apply_edit

    def watched(*arguments):
        threads.add(threading.current_thread())
        return apply(*arguments)

    monkeypatch.setattr(ChunkPatch, "apply_edit", watched)
    asked = Asked(RESTORE)
    opened(viewer, cells)
    until(lambda: asked.rows)
    assert asked.rows[0].startswith("300 edits of 'nuclei'")
    layer = viewer.layers["nuclei"]
    until(lambda: layer.unsaved)
    until(lambda: len({key for key, _ in layer.canvas._patches}) == len(pixels))
    pump(200)
    assert threads
    assert threading.main_thread() not in threads
    for level, before in zip(layer.data, pixels, strict=True):
        assert (np.asarray(level) == before).all()
    discard_edits(layer.saver)
