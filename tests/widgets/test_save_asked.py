"""What is asked before edits go away, in real dialogs, and what becomes of them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import zarr
from napari.layers import Image, _layer_actions
from napari.utils.notifications import notification_manager
from qtpy.QtCore import Qt, QTimer
from qtpy.QtGui import QCloseEvent
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QMessageBox, QPushButton

from journals import discard_edits
from mouse import drag, press_save, pump, until
from napari_ngff.labels.journal import EDITS, INTERVAL, find_journals, read_journal
from napari_ngff.labels.label_writer import LabelWriter
from napari_ngff.plugin import use_workers
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.annotations import leaving
from napari_ngff.viewer.annotations.annotations import Annotations
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.saving import save_report as save_report
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets import dialogs
from napari_ngff.widgets.dialogs import CANCEL, DISCARD, KEEP, LATER, RESTORE, SAVE
from napari_ngff.widgets.new_labels_form import show_new_labels
from napari_ngff.widgets.saving import unsaved_question
from patience import PATIENCE


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample") / "cells.ome.zarr"
    write_image(folder, shape=(200, 240))
    return folder


@pytest.fixture
def folder(sample, tmp_path):
    yield shutil.copytree(sample, tmp_path / "cells.ome.zarr")
    notification_manager.records.clear()


def opened(viewer, folder):
    use_workers()
    viewer.open(str(folder), plugin="napari-ngff")
    layer = viewer.layers["nuclei"]
    for other in viewer.layers:
        other.visible = other is layer
    viewer.layers.selection.active = layer
    viewer.reset_view()
    pump(100)
    return layer


def paint(viewer, layer, points=((40, 50), (90, 120)), label=77):
    layer.mode, layer.selected_label, layer.brush_size = "paint", label, 9
    drag(viewer, [tuple(np.multiply(p, layer.scale)) for p in points])


def stored(folder, name="nuclei"):
    return zarr.open_array(folder / "labels" / name / "0", mode="r")[:]


def journals(folder, name="nuclei"):
    return find_journals(str(folder), f"labels/{name}")


class Answer:
    """Clicks a button of the next question, as a user does."""

    def __init__(self, *answers):
        self.asked = []
        self._answers = list(answers)
        self._timer = QTimer()
        self._timer.timeout.connect(self._click)
        self._timer.start(30)

    def _click(self):
        box = QApplication.activeModalWidget()
        buttons = {} if box is None else labelled(box)
        if not self._answers or self._answers[0] not in buttons:
            return
        text = box.text() if isinstance(box, QMessageBox) else ""
        self.asked.append((text, list(buttons)))
        button = buttons[self._answers.pop(0)]
        if not self._answers:
            self._timer.stop()
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def labelled(box):
    return {b.text().replace("&", ""): b for b in box.findChildren(QPushButton)}


def test_kept_for_later_it_is_offered_when_opened_and_recovered(viewer, folder):
    layer = opened(viewer, folder)
    paint(viewer, layer)
    pixels, before = np.asarray(layer.data[0]), stored(folder)
    user = Answer(KEEP)
    viewer.layers.remove_selected()
    text, buttons = user.asked[0]
    assert "Save changes to 'nuclei' of cells.ome.zarr?" in text
    assert set(buttons) == {SAVE, KEEP, DISCARD, CANCEL}
    assert layer not in viewer.layers
    assert (stored(folder) == before).all()
    viewer.layers.clear()
    user = Answer(RESTORE)
    again = opened(viewer, folder)
    until(lambda: again.unsaved)
    text, buttons = user.asked[0]
    assert "1 edit of 'nuclei' (cells.ome.zarr, today " in text
    assert buttons == [RESTORE, DISCARD, LATER]
    assert (np.asarray(again.data[0]) == pixels).all()
    user = Answer(SAVE)
    viewer.layers.remove_selected()
    assert user.asked
    assert (stored(folder) == pixels).all()
    assert journals(folder) == []


def test_labels_that_become_an_image_are_reported_and_offered_again(viewer, folder):
    layer = opened(viewer, folder)
    paint(viewer, layer)
    pixels = np.asarray(layer.data[0])
    viewer.layers.selection = {layer}
    del layer
    _layer_actions._convert_to_image(viewer.layers)

    def notices():
        return [str(record.message) for record in notification_manager.records]

    until(lambda: any(text.startswith("Not saved: nuclei.\n") for text in notices()))
    notification_manager.records.clear()
    user = Answer(RESTORE)
    layers = viewer.open(str(folder), plugin="napari-ngff")
    again = next(x for x in layers if x.name.startswith("nuclei"))
    until(lambda: again.unsaved)
    assert "1 edit of 'nuclei'" in user.asked[0][0]
    assert (np.asarray(again.data[0]) == pixels).all()
    discard_edits(again.saver)


@pytest.mark.default_cases("Save", "Cancel")
@pytest.mark.parametrize("answer", [SAVE, KEEP, DISCARD, CANCEL])
def test_before_what_a_layer_shows_goes_the_user_decides(viewer, folder, answer):
    layer = opened(viewer, folder)
    before = stored(folder)
    annotations = session_of(viewer).annotations
    assert Window.current.resolve_unsaved(annotations, viewer.layers)  # nothing to ask
    paint(viewer, layer)
    user = Answer(answer)
    leave = Window.current.resolve_unsaved(annotations, viewer.layers)
    assert (leave is None) == (answer == CANCEL)
    assert len(user.asked) == 1
    if leave is not None:
        # Still shown: another window does not get it, and nothing is deleted yet.
        assert journals(folder) == []
        layer.saver.journal.sync()
        assert answer == SAVE or (layer.saver.journal.folder / EDITS).exists()
        leave()
    assert (stored(folder) == 77).any() == (answer == SAVE)
    if answer != SAVE:
        assert (stored(folder) == before).all()
    assert len(journals(folder)) == (answer == KEEP)
    if answer == CANCEL:
        layer.saver.journal.sync()
        assert layer.saver.journal.folder.exists()


@pytest.mark.long
def test_the_window_stays_where_saving_fails(viewer, folder, monkeypatch):
    def full(self, *_):
        raise OSError(28, "No space left on device")

    reported = []
    monkeypatch.setattr(save_report, "show_error", reported.append)
    monkeypatch.setattr(
        "napari_ngff.store.arrays.array_writer.ArrayWriter.update_cells", full
    )
    layer = opened(viewer, folder)
    paint(viewer, layer)
    user = Answer(SAVE)
    window = viewer.window._qt_window
    window.close(quit_app=False, confirm_need=True)
    assert user.asked
    assert window.isVisible()
    assert "No space left" in reported[0]
    assert layer.unsaved
    user = Answer(SAVE)
    monkeypatch.undo()
    window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    window.close(quit_app=False, confirm_need=True)
    assert not window.isVisible(), "napari does not ask, too"
    assert "in the file already" in user.asked[0][0]
    assert not layer.unsaved
    assert (stored(folder) == 77).any()


def test_nothing_is_saved_unasked_while_it_is_asked_about(viewer, folder, monkeypatch):
    """By any question: before the labels go away, and before they are converted."""
    monkeypatch.setattr(unsaved_question, "AUTOSAVE", 20)
    layer, before = opened(viewer, folder), stored(folder)
    paint(viewer, layer)
    monkeypatch.setattr(leaving, "autosave_minutes", lambda: 1e-4)
    users, window = [], viewer.window._qt_window

    def answer_later(answer):
        QTimer.singleShot(300, lambda: users.append(Answer(answer)))

    answer_later("Convert without them")
    assert unsaved_question.may_start(window, [layer], "convert")
    assert not layer.saver.running
    assert (stored(folder) == before).all()
    answer_later(DISCARD)
    Window.current.resolve_unsaved(session_of(viewer).annotations, [layer])()
    assert len(users) == 2
    assert (stored(folder) == before).all()


def test_a_save_that_hangs_holds_no_window(viewer, folder, monkeypatch):
    """The user cancels it; it is asked again, and its edits can be kept for later."""
    layer = opened(viewer, folder)
    paint(viewer, layer)
    pixels = np.asarray(layer.data[0])
    answers, write = threading.Event(), LabelWriter.save

    def hang(*arguments):
        assert answers.wait(PATIENCE)
        return write(*arguments)

    monkeypatch.setattr(LabelWriter, "save", hang)
    monkeypatch.setattr(unsaved_question, "LAST_BLOCK", 100)
    window = viewer.window._qt_window
    user = Answer(SAVE, CANCEL)
    assert not window.close(confirm_need=True)  # returns though nothing answers
    assert len(user.asked) == 2
    assert window.isVisible()
    assert layer.saver.running
    answers.set()
    until(lambda: not layer.saver.running)
    press_save(viewer, layer)
    until(lambda: not layer.unsaved)
    assert (stored(folder) == pixels).all()


def test_a_window_closes_though_it_cannot_be_found_what_is_unsaved(
    viewer, folder, monkeypatch, unexpected
):
    layer = opened(viewer, folder)
    paint(viewer, layer)

    def fail(*_):
        raise LookupError("a bug")

    monkeypatch.setattr(Annotations, "list_unsaved", fail)
    window = viewer.window._qt_window
    window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    user = Answer(CANCEL)
    window.close(confirm_need=True)
    assert user.asked
    assert window.isVisible()
    user = Answer("Close")
    window.close(confirm_need=True)
    assert user.asked
    assert not window.isVisible()
    assert [str(error) for error in unexpected] == ["a bug", "a bug"]
    while unexpected:
        unexpected.pop().__traceback__ = None  # it holds the window
    monkeypatch.undo()  # the sign of unsaved changes asks, too
    layer.saver.release_journal()
    assert len(journals(folder)) == 1


@pytest.mark.default_cases("True")
@pytest.mark.parametrize("by_frame", [False, True])
def test_closing_asks_one_question(viewer, folder, by_frame):
    layer = opened(viewer, folder)
    paint(viewer, layer)
    window = viewer.window._qt_window
    window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)

    def close():
        if by_frame:  # the window system asks the handle
            QApplication.sendEvent(window.windowHandle(), QCloseEvent())
        else:
            window.close(quit_app=False, confirm_need=True)

    user = Answer(CANCEL)
    close()
    until(lambda: user.asked)
    pump(50)
    assert window.isVisible()
    user = Answer(DISCARD)
    close()
    until(lambda: not window.isVisible())
    assert len(user.asked) == 1
    layer.saver.release_journal()
    assert journals(folder) == []


def image_of(viewer):
    return next(layer for layer in viewer.layers if isinstance(layer, Image))


@pytest.mark.long
def test_a_taken_name_can_be_overwritten_or_another_taken(viewer, folder):
    opened(viewer, folder)
    viewer.layers.selection.active = image_of(viewer)
    form = show_new_labels(viewer)
    form.called.value = "nuclei"
    user = Answer("Name it nuclei-2")
    form.create_labels()
    text, buttons = user.asked[0]
    assert "remove their layer first" in text
    assert dialogs.OVERWRITE not in buttons
    assert viewer.layers["nuclei-2"].saver.replaces == ""
    old = viewer.layers["nuclei"]
    viewer.layers.remove(old)
    form = show_new_labels(viewer)
    form.called.value = "nuclei"
    user = Answer(dialogs.OVERWRITE)
    form.create_labels()
    assert user.asked
    layer = viewer.layers["nuclei"]
    assert layer is not old
    before = stored(folder)
    assert before.max() > 1
    layer.paint((100, 100), 1)
    assert (stored(folder) == before).all()
    assert layer.saver.save_now()
    assert (stored(folder) == np.asarray(layer.data[0])).all()
    assert set(np.unique(stored(folder)).tolist()) == {0, 1}
    names = [node.name for node in open_node(str(folder)).labels().nodes]
    assert names.count("nuclei") == 1
    assert not list((folder / "labels").glob("*.replaced"))


@pytest.mark.long
def test_a_name_that_was_taken_meanwhile_is_asked_for_at_the_first_save(viewer, folder):
    opened(viewer, folder)
    first = viewer.add_layer(new_labels(image_of(viewer), "mine"))
    first.paint((50, 50), 5)
    other = new_labels(image_of(viewer), "mine")
    other.paint((10, 10), 9)
    assert other.saver.save_now()
    del other
    user = Answer("Name it mine-2")
    first.saver.save()
    until(lambda: not first.unsaved and not first.saver.running)
    assert user.asked
    assert first.name == "mine-2"
    assert (stored(folder, "mine-2") == 5).any()
    assert (stored(folder, "mine") == 9).any()


def test_two_windows_on_one_label_lose_nothing(viewer, folder, make_napari_viewer):
    reported = []
    mine = opened(viewer, folder)
    second = make_napari_viewer(show=True)
    yours = opened(second, folder)
    before = stored(folder)
    paint(viewer, mine, label=77)
    paint(second, yours, ((60, 60), (60, 140)), label=88)
    both = np.where(np.asarray(yours.data[0]) == 88, 88, np.asarray(mine.data[0]))
    assert mine.saver.save_now()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(save_report, "show_warning", reported.append)
        assert not yours.saver.save_now()
    assert (
        "press Ctrl+S again: another window or program changed the same chunks."
        in reported[0]
    )
    assert "changed by another program" in reported[0]
    assert (stored(folder) == np.asarray(mine.data[0])).all()
    # What was read again lies below the edits, and is there to be looked at.
    assert (np.asarray(yours.data[0]) == both).all()
    assert yours.saver.save_now()
    assert (stored(folder) == both).all()
    assert (before != both).any()


SCRIPT = """
import sys
import napari
from qtpy.QtTest import QTest

sys.path.insert(0, {tests!r})
from mouse import drag, pump

viewer = napari.Viewer(show=True)
viewer.open({folder!r}, plugin="napari-ngff")
layer = viewer.layers["nuclei"]
viewer.layers.selection.active = layer
layer.mode, layer.selected_label, layer.brush_size = "paint", 77, 9
viewer.reset_view()
pump(500)
for row in range(4):
    y = 40 + 30 * row
    drag(viewer, [(y * layer.scale[0], x * layer.scale[1]) for x in (50, 80, 120)])
    print(len(layer.canvas.edits), flush=True)
print("done", flush=True)
pump(600_000)
"""


@pytest.mark.long
@pytest.mark.slow
def test_edits_come_to_the_disk_and_outlive_a_killed_napari(viewer, folder):
    script = SCRIPT.format(
        tests=str(Path(__file__).parents[1] / "support"), folder=str(folder)
    )
    napari = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    )
    try:
        until(lambda: napari.poll() is not None or journal_lines(folder))
        assert napari.poll() is None
        reported = []
        while (line := napari.stdout.readline()) != "done\n":
            assert line
            reported.append(int(line))
            until(lambda: journal_lines(folder) >= reported[-1])
        assert reported == [1, 2, 3, 4]
        # What was looked at in the middle of a stroke is in pieces for that long.
        time.sleep(2 * INTERVAL)
        until(lambda: journal_lines(folder) == 4)
        assert journals(folder) == []  # held by that window
    finally:
        os.kill(napari.pid, signal.SIGKILL)
        napari.wait()
        napari.stdout.close()
    (found,) = journals(folder)
    assert read_journal(found).unsaved_count == 4
    assert not (stored(folder) == 77).any()
    user = Answer(RESTORE)
    layer = opened(viewer, folder)
    until(lambda: layer.unsaved)
    assert "4 edits of 'nuclei'" in user.asked[0][0]
    assert (np.asarray(layer.data[0]) == 77).sum() > 1000
    assert layer.saver.save_now()
    assert (stored(folder) == np.asarray(layer.data[0])).all()


def journal_lines(folder):
    """How many edits the journals of a label image have, whoever holds them."""
    from napari_ngff.labels.journal import _journal_folder

    place = _journal_folder(str(folder), "labels/nuclei")
    counts = [read_journal(one).unsaved_count for one in place.glob("*")]
    return max(counts, default=0)
