"""Paint with the mouse, press Ctrl+S, and the pixels are in the file."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
import zarr
from napari.layers import Image
from napari.utils.colormaps import DirectLabelColormap
from napari.utils.notifications import notification_manager
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

from mouse import drag, press_save, pump, until
from napari_ngff.labels.journal import Journal, find_journals, read_journal
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.saving import save_report as save_report
from napari_ngff.widgets import dialogs
from napari_ngff.widgets.dialogs import CANCEL, DISCARD, LATER, RESTORE, SAVE
from napari_ngff.widgets.saving.unsaved_question import WindowGuard

CONTROL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample") / "cells.ome.zarr"
    write_image(folder, shape=(200, 240))
    return folder


@pytest.fixture
def folder(sample, tmp_path):
    return shutil.copytree(sample, tmp_path / "cells.ome.zarr")


def opened(viewer, folder):
    use_workers()
    viewer.open(str(folder), plugin="napari-ngff")
    layer = viewer.layers["nuclei"]
    assert isinstance(layer, OMEZarrLabels)
    for other in viewer.layers:
        other.visible = other is layer
    viewer.layers.selection.active = layer
    layer.visible = True
    viewer.reset_view()
    pump(100)
    return layer


def paint(viewer, layer, label, points):
    layer.mode, layer.selected_label, layer.brush_size = "paint", label, 9
    scale = layer.scale
    drag(viewer, [tuple(np.multiply(p, scale) + layer.translate) for p in points])


def stored(folder, level=0, name="nuclei"):
    return zarr.open_array(folder / "labels" / name / str(level), mode="r")[:]


@pytest.mark.long
def test_ctrl_s_saves_labels_while_an_image_is_selected(viewer, folder):
    layer = opened(viewer, folder)
    paint(viewer, layer, 77, [(40, 50), (90, 120)])
    image = next(other for other in viewer.layers if isinstance(other, Image))
    viewer.layers.selection.active = image
    window = viewer.window._qt_window
    window.activateWindow()
    until(window.isActiveWindow)
    QTest.keyClick(window, Qt.Key.Key_S, CONTROL)
    until(lambda: not layer.unsaved)
    assert (stored(folder) == 77).any()
    assert QApplication.activeModalWidget() is None


def test_painted_pixels_are_in_the_file_after_ctrl_s(viewer, folder, qapp):
    before = stored(folder)
    layer = opened(viewer, folder)
    assert not layer.unsaved
    paint(viewer, layer, 77, [(40, 50), (90, 120)])
    assert layer.unsaved
    assert (stored(folder) == before).all()
    press_save(viewer, layer)
    assert not layer.unsaved
    assert re.search(r"Saved \d\d:\d\d", layer.saver.note)
    after = stored(folder)
    assert (after == 77).sum() > 400
    assert ((after == before) | (after == 77)).all()
    assert (np.asarray(layer.data[0]) == after).all()
    assert (stored(folder, 1) == 77).any()
    # Undo is still there; saved again, all is as it was.
    layer.undo()
    assert layer.unsaved
    press_save(viewer, layer)
    assert (stored(folder) == before).all()
    viewer.layers.clear()
    again = opened(viewer, folder)
    assert (np.asarray(again.data[0]) == before).all()


@pytest.fixture
def painted(viewer, folder):
    layer = opened(viewer, folder)
    paint(viewer, layer, 77, [(40, 50), (90, 120)])
    return layer


def answer(monkeypatch, button):
    asked = []

    def ask(parent, title, text, answers, cancel=CANCEL):
        assert button in (*answers, cancel)
        asked.append(text)
        return button

    monkeypatch.setattr(dialogs, "ask_question", ask)
    return asked


@pytest.mark.long
def test_removing_asks_and_cancel_keeps_the_layer(viewer, painted, monkeypatch):
    asked = answer(monkeypatch, CANCEL)
    viewer.layers.remove_selected()
    assert asked[0] == (
        "Save changes to 'nuclei' of cells.ome.zarr?"
        " 'Keep for later' lets you restore them next time."
    )
    assert painted in viewer.layers
    assert painted.unsaved


def test_an_image_that_arrives_during_the_question_is_not_removed_instead(
    viewer, painted, monkeypatch
):
    arrived = []

    def ask(parent, title, text, answers, cancel=CANCEL):
        arrived.append(viewer.add_image(np.zeros((8, 8))))
        viewer.layers.selection = set(arrived)
        return DISCARD

    monkeypatch.setattr(dialogs, "ask_question", ask)
    viewer.layers.selection = {painted}
    viewer.layers.remove_selected()
    assert painted not in viewer.layers
    assert arrived[0] in viewer.layers


@pytest.mark.long
def test_removing_states_what_is_lost_besides_strokes(viewer, painted, monkeypatch):
    asked = answer(monkeypatch, CANCEL)
    painted.colormap = DirectLabelColormap(color_dict={None: "black", 77: "red"})
    viewer.layers.remove_selected()
    assert asked[0].endswith(
        "next time. It keeps strokes and classes; other changes of colours and"
        " properties are lost unless you save."
    )


def test_removing_asks_and_saves(viewer, painted, folder, monkeypatch):
    answer(monkeypatch, SAVE)
    viewer.layers.remove_selected()
    assert painted not in viewer.layers
    assert (stored(folder) == 77).any()


@pytest.mark.long
def test_removing_asks_and_discards(viewer, painted, folder, monkeypatch):
    answer(monkeypatch, DISCARD)
    viewer.layers.remove_selected()
    assert painted not in viewer.layers
    assert not (stored(folder) == 77).any()


def test_closing_the_window_asks(viewer, painted, monkeypatch):
    asked = answer(monkeypatch, CANCEL)
    window = viewer.window._qt_window
    assert len(window.findChildren(WindowGuard)) == 1
    window.close(quit_app=False, confirm_need=True)
    assert len(asked) == 1
    assert window.isVisible()


@pytest.mark.long
def test_nothing_is_asked_where_all_is_saved(viewer, painted, monkeypatch):
    asked = answer(monkeypatch, CANCEL)
    assert painted.saver.save_now()
    viewer.layers.remove_selected()
    assert asked == []
    assert painted not in viewer.layers


def test_failure_is_reported_with_its_reason(viewer, painted, folder, monkeypatch):
    reported = []
    monkeypatch.setattr(save_report, "show_error", reported.append)

    def full(path, *_, **__):
        raise OSError(28, "No space left on device", path)

    monkeypatch.setattr("napari_ngff.store.sources.folder_store.write_aside", full)
    assert not painted.saver.save_now()
    assert reported[0].startswith("Not saved: nuclei.\n")
    assert "No space left on device" in reported[0]
    assert painted.unsaved
    monkeypatch.undo()
    assert painted.saver.save_now()
    assert (stored(folder) == 77).any()
    notification_manager.records.clear()


@pytest.mark.long
def test_edits_of_a_napari_that_died_are_offered_and_recovered(
    viewer, painted, folder, monkeypatch
):
    monkeypatch.setattr(dialogs, "ask_question", lambda *_: pytest.fail("asked"))
    pixels = np.asarray(painted.data[0])
    painted.saver.journal.close()  # as a dead process leaves it
    viewer.layers.clear()
    asked = answer(monkeypatch, LATER)
    opened(viewer, folder)
    until(lambda: asked)
    assert asked[0].startswith("1 edit of 'nuclei' (cells.ome.zarr, today ")
    assert asked[0].endswith(") was not saved. Restore it?")
    viewer.layers.clear()
    asked = answer(monkeypatch, RESTORE)
    layer = opened(viewer, folder)
    until(lambda: layer.unsaved)
    assert len(asked) == 1
    assert viewer.layers.selection.active is layer
    assert (np.asarray(layer.data[0]) == pixels).all()
    layer.undo()
    assert not (np.asarray(layer.data[0]) == 77).any()
    layer.redo()
    assert layer.saver.save_now()
    assert (stored(folder) == pixels).all()
    viewer.layers.clear()
    asked = answer(monkeypatch, RESTORE)
    opened(viewer, folder)
    pump(50)
    assert asked == []


@pytest.mark.default_cases("Restore")
@pytest.mark.parametrize("says", [RESTORE, DISCARD])
def test_edits_that_another_window_took_meanwhile_are_its_own(
    viewer, painted, folder, monkeypatch, says
):
    painted.saver.keep_journal()
    place, canvas = painted.saver.journal.place, painted.canvas
    viewer.layers.clear()
    taken = []

    def ask(*_):
        taken.extend(Journal(*place, canvas, one) for one in find_journals(*place))
        return says

    monkeypatch.setattr(dialogs, "ask_question", ask)
    layer = opened(viewer, folder)
    until(lambda: notification_manager.records)
    last = notification_manager.records[-1]
    assert last.message.startswith("Another window has these edits now.\n")
    assert not layer.unsaved
    (theirs,) = taken
    assert len(read_journal(theirs.folder).edits) == 1
    theirs.remove()
    notification_manager.records.clear()


@pytest.mark.long
def test_discarded_edits_are_not_offered(viewer, painted, folder, monkeypatch):
    answer(monkeypatch, DISCARD)
    painted.saver.journal.sync()
    viewer.layers.remove_selected()
    viewer.layers.clear()
    asked = answer(monkeypatch, RESTORE)
    opened(viewer, folder)
    pump(50)
    assert asked == []


@pytest.mark.long
def test_new_labels_are_painted_saved_and_opened_again(viewer, folder):
    opened(viewer, folder)
    image = next(layer for layer in viewer.layers if isinstance(layer, Image))
    layer = viewer.add_layer(new_labels(image, "mine"))
    viewer.layers.selection.active = layer
    pump(50)
    paint(viewer, layer, 5, [(40, 50), (90, 120)])
    pixels = np.asarray(layer.data[0])
    assert (pixels == 5).sum() > 400
    press_save(viewer, layer)
    assert not layer.unsaved
    assert (stored(folder, name="mine") == pixels).all()
    viewer.layers.clear()
    viewer.open(str(folder), plugin="napari-ngff")
    assert (np.asarray(viewer.layers["mine"].data[0]) == pixels).all()
