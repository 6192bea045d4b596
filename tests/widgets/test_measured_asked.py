"""Measured tables that are in no file: asked about before they go, in real windows."""

from __future__ import annotations

import threading

import pandas as pd
import pytest
import zarr
from napari.layers import Labels
from napari.utils.notifications import notification_manager
from qtpy.QtCore import Qt, QTimer
from qtpy.QtTest import QTest
from qtpy.QtWidgets import (
    QApplication,
    QDialog,
    QFileDialog,
    QInputDialog,
    QLineEdit,
    QMessageBox,
    QPushButton,
)

from mouse import press_save, pump, until
from napari_ngff import open_node
from napari_ngff.plate.tables.object_columns import read_feature_tables
from napari_ngff.plugin import measure_labels, use_workers
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.annotations.table_annotation import WRITES as HINT
from napari_ngff.viewer.annotations.table_annotation import list_tables
from napari_ngff.viewer.browsing.table_offers import MeasureScope
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.annotate import measure_form
from napari_ngff.widgets.annotate.measure_form import LEFT, TITLE
from napari_ngff.widgets.browser.host import browser_of
from napari_ngff.widgets.dialogs import CANCEL, DISCARD, KEEP, SAVE
from napari_ngff.widgets.form_dialog import shown_form
from napari_ngff.widgets.saving.unsaved_question import WRITES, WindowGuard
from napari_ngff.widgets.status_signs import UnsavedSign
from plates import write_plate

pytestmark = pytest.mark.slow


class Replies:
    """Answers the questions that come, and the dialogs for files and for names."""

    last = None

    def __init__(self, *answers, path=None, name=None):
        if Replies.last is not None:
            Replies.last.stop()
        self.asked = []
        self._answers, self._path, self._name = list(answers), path, name
        self._timer = QTimer()
        self._timer.timeout.connect(self._reply)
        self._timer.start(30)
        Replies.last = self._timer

    def _reply(self):
        dialog = QApplication.activeModalWidget()
        if isinstance(dialog, QFileDialog):
            self.asked.append((dialog.windowTitle(), dialog.selectedFiles()))
            if self._path is None:
                dialog.reject()
                return
            line = dialog.findChild(QLineEdit, "fileNameEdit")
            line.setText(str(self._path))
            QTest.keyClick(line, Qt.Key.Key_Return)
        elif isinstance(dialog, QInputDialog):
            self.asked.append((dialog.labelText(), dialog.textValue()))
            line = dialog.findChild(QLineEdit)
            if self._name is None:
                dialog.reject()
                return
            line.setText(self._name or line.text())
            QTest.keyClick(line, Qt.Key.Key_Return)
        elif isinstance(dialog, QDialog) and self._answers:
            buttons = {
                b.text().replace("&", ""): b for b in dialog.findChildren(QPushButton)
            }
            if self._answers[0] not in buttons:
                return  # such as the progress of a save
            is_box = isinstance(dialog, QMessageBox)
            text = dialog.text() if is_box else dialog.windowTitle()
            self.asked.append((text, list(buttons)))
            QTest.mouseClick(buttons[self._answers.pop(0)], Qt.MouseButton.LeftButton)


@pytest.fixture
def layer(viewer, tmp_path):
    """Labels of an image that were measured by the form."""
    use_workers()
    where = write_image(tmp_path / "cells.ome.zarr", shape=(64, 64))
    viewer.open(str(where), plugin="napari-ngff")
    found = viewer.layers["nuclei"]
    viewer.layers.selection.active = found
    measure(viewer)
    return found


def measure(viewer, kept=HINT):
    measure_labels(viewer)
    form = shown_form(viewer, TITLE)
    form.button.native.click()
    until(lambda: form.save_button.enabled and not form.progress.visible)
    assert form.status.value.endswith(f"as features of the layer. {kept}")
    form.native.window().close()
    pump(50)


def is_unsaved(viewer):
    guard = viewer.window._qt_window.findChild(WindowGuard)
    unsaved = session_of(viewer).annotations.list_unsaved()
    return guard is not None and bool(unsaved)


def close_window(viewer):
    assert is_unsaved(viewer), "else napari asks a question of its own"
    window = viewer.window._qt_window
    window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    window.close(quit_app=False, confirm_need=True)
    return not window.isVisible()


PLACE = "table of nuclei (cells.ome.zarr)"
NOT_SAVED = f"Measured {PLACE}: not saved.\n{WRITES}"
TABLE = "cells.ome.zarr/tables/nuclei_measured/table.csv"


def test_closing_asks_about_a_measured_table_and_saves_it(viewer, layer, tmp_path):
    user = Replies(CANCEL)
    assert not close_window(viewer)
    assert user.asked == [(NOT_SAVED, [SAVE, DISCARD, CANCEL])]
    user = Replies(SAVE)
    assert close_window(viewer)
    assert len(user.asked) == 1
    assert len(pd.read_csv(tmp_path / TABLE)) == len(layer.features)


@pytest.mark.default_cases("image")
@pytest.mark.parametrize("selected", ["nuclei", "image"])
def test_ctrl_s_saves_a_measured_table_into_its_image(
    viewer, layer, tmp_path, selected
):
    images = [x for x in viewer.layers if x is not layer]
    viewer.layers.selection.active = layer if selected == "nuclei" else images[0]
    press_save(viewer, layer)
    until(lambda: not is_unsaved(viewer))
    frame = pd.read_csv(tmp_path / TABLE, float_precision="round_trip")
    features = layer.features.set_index("index").loc[frame.pop("label")]
    same = [x for x in frame if x in features and frame[x].tolist() == [*features[x]]]
    assert {"voxels", "centroid_y", "centroid_x"} <= {*same}
    # The next time, the list of objects has it.
    measured, notes = read_feature_tables(
        open_node(str(tmp_path / "cells.ome.zarr")), "nuclei"
    )
    assert notes == []
    assert len(measured["nuclei_measured"]) == len(frame)


def test_a_table_of_a_read_only_image_is_saved_as_a_file(
    viewer, layer, tmp_path, monkeypatch
):
    monkeypatch.setattr(FolderStore, "why_not_written", lambda *_: "read-only.")
    measure(viewer, "Ctrl+S asks for a file: read-only.")
    user = Replies(SAVE)  # and then no file is named
    assert not close_window(viewer)
    assert user.asked[1][0] == f"Save measured {PLACE}"
    path = tmp_path / "nuclei.csv"
    user = Replies(SAVE, path=path)
    assert close_window(viewer)
    assert len(user.asked) == 2
    assert len(pd.read_csv(path)) == len(layer.features)


@pytest.mark.long
def test_a_table_that_cannot_be_written_keeps_the_window(
    viewer, layer, tmp_path, monkeypatch
):
    (tmp_path / "cells.ome.zarr/tables").write_text("")
    reported = []
    monkeypatch.setattr(
        "napari_ngff.viewer.annotations.table_annotation.show_error", reported.append
    )
    user = Replies(SAVE)
    assert not close_window(viewer)
    assert user.asked
    assert "cells.ome.zarr/tables" in reported[0]
    for table in list_tables(session_of(viewer).annotations):
        table.leave(keep=False)


@pytest.mark.long
def test_what_is_discarded_or_saved_is_not_asked_about(viewer, layer, tmp_path):
    viewer.layers.selection = {layer}
    user = Replies(DISCARD)
    viewer.layers.remove_selected()
    assert user.asked == [(NOT_SAVED, [SAVE, DISCARD, CANCEL])]
    assert layer not in viewer.layers
    viewer.open(str(tmp_path / "cells.ome.zarr"), plugin="napari-ngff")
    viewer.layers.selection.active = viewer.layers["nuclei"]
    measure(viewer)
    measure_labels(viewer)  # another form still has it
    form = shown_form(viewer, TITLE)
    assert form.save_button.enabled
    form.save_table(str(tmp_path / "saved.csv"))
    until(lambda: form.status.value.startswith("Saved in"))
    form.native.window().close()
    assert not is_unsaved(viewer)


OUTDATED = "This table was measured before the latest strokes: save and measure again."
OLDER = (
    "It was measured before the latest strokes; to include them, cancel, save and"
    " measure again."
)


SAVE_LABELS = (
    "Save changes to 'nuclei' of cells.ome.zarr?"
    " 'Keep for later' lets you restore them next time."
)


def test_labels_are_saved_whatever_becomes_of_the_table(viewer, layer, tmp_path):
    layer.paint((30, 30), 7)
    older = NOT_SAVED.replace("\n", f" {OLDER}\n")
    user = Replies(CANCEL)
    assert not close_window(viewer)
    assert user.asked == [(SAVE_LABELS, [SAVE, KEEP, DISCARD, CANCEL])]
    assert layer.unsaved
    user = Replies(SAVE, DISCARD)
    assert close_window(viewer)
    assert [text for text, *_ in user.asked] == [SAVE_LABELS, older]
    assert not layer.unsaved
    saved = zarr.open_array(tmp_path / "cells.ome.zarr/labels/nuclei/0", mode="r")
    assert saved[30, 30] == 7
    assert not (tmp_path / TABLE).exists()


@pytest.mark.parametrize("why", ["", "read-only."])
def test_ctrl_s_saves_an_older_table_and_says_so(viewer, layer, tmp_path, why):
    sign = viewer.window._qt_window.findChild(UnsavedSign)
    (table,) = list_tables(session_of(viewer).annotations)
    path = tmp_path / ("saved.csv" if why else TABLE)
    table.asks_for_file = bool(why)
    user = Replies(path=path)
    layer.paint((30, 30), 7)
    assert sign.toolTip() == "Ctrl+S saves:\nnuclei\nnuclei_measured"
    press_save(viewer, layer)
    if why:  # the labels were saved first
        press_save(viewer, layer)
    until(lambda: not sign.isVisible())
    assert len(user.asked) == bool(why)
    saved = pd.read_csv(path)
    assert len(saved) == len(layer.features)
    told = [each.message for each in notification_manager.records]
    assert any(
        text.startswith("Saved: nuclei_measured.")
        and text.endswith("It was measured before the latest strokes.")
        for text in told
    )


@pytest.mark.long
def test_labels_that_are_discarded_stay_while_the_table_is_asked_about(viewer, layer):
    layer.paint((30, 30), 7)
    viewer.layers.selection = {layer}
    user = Replies(DISCARD, CANCEL)
    viewer.layers.remove_selected()
    assert len(user.asked) == 2
    assert layer in viewer.layers
    assert layer.unsaved


@pytest.mark.long
def test_a_table_is_not_older_than_strokes_that_were_undone_or_measured(viewer, layer):
    layer.paint((30, 30), 7)
    layer.undo()
    user = Replies(CANCEL)
    assert not close_window(viewer)
    assert user.asked[0][0] == NOT_SAVED
    layer.paint((30, 30), 7)
    press_save(viewer, layer)
    until(lambda: not layer.unsaved)
    measure(viewer)
    user = Replies(DISCARD)
    assert close_window(viewer)
    assert user.asked[0][0] == NOT_SAVED


def test_the_form_saves_an_older_table_with_a_note(viewer, layer, tmp_path):
    layer.paint((30, 30), 7)
    measure_labels(viewer)
    form = shown_form(viewer, TITLE)
    assert form.status.value == OUTDATED
    form.save_table(str(tmp_path / "saved.csv"))
    until(lambda: form.status.value.startswith("Saved in"))
    assert form.status.value.endswith("It was measured before the latest strokes.")
    form.native.window().close()


@pytest.mark.long
def test_a_table_whose_labels_are_kept_for_later_is_asked_about_at_the_end(
    viewer, layer
):
    layer.paint((30, 30), 7)
    viewer.layers.selection = {layer}
    user = Replies(KEEP)
    viewer.layers.remove_selected()
    assert len(user.asked) == 1
    assert layer not in viewer.layers
    user = Replies(DISCARD)
    assert close_window(viewer)
    assert user.asked == [(NOT_SAVED, [SAVE, DISCARD, CANCEL])]


@pytest.mark.default_cases("all fields")
@pytest.mark.parametrize(
    ("scope", "painted", "is_older"),
    [
        pytest.param(MeasureScope.ALL, "A/2", True, id="all fields"),
        pytest.param(MeasureScope.FIELD, "A/1", True, id="this field"),
        pytest.param(MeasureScope.FIELD, "A/2", False, id="another field"),
    ],
)
def test_the_table_of_a_plate_is_older_than_strokes_in_what_was_measured(
    viewer, plate, scope, painted, is_older
):
    browser, tables = session_of(viewer).browser, plate.tables.tables()
    browser.show_field("A/1", "0")
    until(lambda: browser.position is not None)
    tables.measure_labels("nuclei", scope)
    until(lambda: tables.joined.chosen is not None)
    browser.show_field(painted, "0")
    until(lambda: browser.position.well == painted)
    layer = next(x for x in viewer.layers if isinstance(x, Labels))
    note = plate.tables.note
    where = f"latest strokes in {painted.replace('/', '')}, field 0"
    assert "latest strokes" not in note.text()
    layer.paint((10, 10), 7)
    assert (f"{where}: save" in note.text()) == is_older
    layer.undo()
    assert "latest strokes" not in note.text()
    layer.paint((10, 10), 7)
    layer.paint((20, 20), 8)
    user = Replies(KEEP, CANCEL)
    assert not close_window(viewer)
    assert (f"{where}; to" in user.asked[1][0]) == is_older
    press_save(viewer, layer)
    until(lambda: not layer.unsaved)
    assert (f"{where}: save" in note.text()) == is_older
    # Ctrl+S has saved the table, too.
    until(lambda: not is_unsaved(viewer))
    if is_older:
        assert note.isVisible()
        told = [each.message for each in notification_manager.records]
        assert any(f"before the {where}." in text for text in told)


@pytest.fixture
def plate(viewer, tmp_path):
    """The browser of a plate with labels, at its first field."""
    use_workers()
    where = write_plate(
        tmp_path / "p.ome.zarr",
        grid=(1, 2),
        fields=1,
        shape=(1, 32, 32),
        labelled=lambda _: ("nuclei",),
    )
    viewer.open(str(where), plugin="napari-ngff")
    until(lambda: browser_of(viewer) is not None)
    dock = browser_of(viewer)
    until(lambda: bool(dock.tables.tables().browser.known_labels))
    return dock


def show_labels(viewer, well):
    """Show a field, and select its labels."""
    browser = session_of(viewer).browser
    browser.show_field(well, "0")
    until(lambda: browser.position is not None and browser.position.well == well)
    viewer.layers.selection.active = viewer.layers["nuclei"]
    pump(100)
    return viewer.layers["nuclei"]


def test_what_was_measured_is_not_given_to_the_next_field(
    viewer, plate, monkeypatch, tmp_path
):
    gate = threading.Event()
    begin = measure_form.measure_saved
    monkeypatch.setattr(
        measure_form, "measure_saved", lambda *asked: gate.wait(9) and begin(*asked)
    )
    layer = show_labels(viewer, "A/1")
    measure_labels(viewer)
    form = shown_form(viewer, TITLE)
    form.button.native.click()
    assert show_labels(viewer, "A/2") is layer
    gate.set()
    until(lambda: not form.progress.visible)
    assert form.status.value == LEFT
    assert "voxels" not in layer.features
    assert not list_tables(session_of(viewer).annotations)
    form.button.native.click()
    until(lambda: form.save_button.enabled and not form.progress.visible)
    form.save_table(str(tmp_path / "A2.csv"))
    until(lambda: form.status.value.startswith("Saved in"))
    assert form.save_button.enabled, "it may be saved once more"
    assert show_labels(viewer, "A/1") is layer
    assert not form.save_button.enabled
    assert form.status.value == ""
    form.native.window().close()


def test_a_move_waits_until_the_question_of_the_window_is_answered(
    viewer, plate, monkeypatch
):
    monkeypatch.setattr(settings, "saves_when_moving_on", lambda: False)
    browser, layer = session_of(viewer).browser, show_labels(viewer, "A/1")
    layer.paint((10, 10), 7)
    user = Replies(CANCEL, SAVE)
    QTimer.singleShot(0, lambda: browser.show_field("A/2", "0"))
    assert not close_window(viewer), "the first answer is that of the first question"
    assert len(user.asked) == 1
    until(lambda: browser.position.well == "A/2")
    assert len(user.asked) == 2
    assert not is_unsaved(viewer)


@pytest.mark.parametrize("moves_on", [True, False])
def test_a_field_is_left_with_its_table_saved_or_after_a_question(
    viewer, plate, tmp_path, monkeypatch, moves_on
):
    monkeypatch.setattr(settings, "saves_when_moving_on", lambda: moves_on)
    browser = session_of(viewer).browser
    browser.show_field("A/1", "0")
    until(lambda: browser.position is not None)
    layer = next(x for x in viewer.layers if isinstance(x, Labels))
    viewer.layers.selection.active = layer
    pump(100)
    measure(viewer)
    browser.layers_changed.emit()  # as when a well is pinned
    assert "voxels" in layer.features
    user = Replies(CANCEL)
    browser.show_field("A/2", "0")
    if moves_on:
        until(lambda: browser.position.well == "A/2")
        assert user.asked == []
        name = "p.ome.zarr/A/1/0/tables/nuclei_measured/table.csv"
        assert len(pd.read_csv(tmp_path / name)) == 32 * 32
        return
    until(lambda: user.asked)
    text = f"Measured table of nuclei (A1 - field 0): not saved.\n{WRITES}"
    assert user.asked == [(text, [SAVE, DISCARD, CANCEL])]
    pump(200)
    assert browser.position.well == "A/1"
    user = Replies(DISCARD)
    browser.show_field("A/2", "0")
    until(lambda: browser.position.well == "A/2")
    assert len(user.asked) == 1
    assert "voxels" not in viewer.layers["nuclei"].features
    browser.show_field("A/1", "0")
    until(lambda: browser.position.well == "A/1")
    assert len(user.asked) == 1


@pytest.mark.long
def test_the_table_of_a_plate_stays_until_the_window_closes(viewer, plate, tmp_path):
    tables = plate.tables.tables()
    tables.measure_labels("nuclei", MeasureScope.ALL)
    until(lambda: tables.joined.chosen is not None)
    assert plate.tables.note.text().endswith(HINT)
    # Its browser goes; the next one of the same plate has the table.
    other = write_plate(tmp_path / "q.ome.zarr", grid=(1, 1), fields=1)
    viewer.open(str(other), plugin="napari-ngff")
    until(lambda: plate.tables.tables() is not tables)
    user = Replies(CANCEL)
    assert not close_window(viewer)
    text = f"Measured table of nuclei (p.ome.zarr): not saved.\n{WRITES}"
    assert user.asked == [(text, [SAVE, DISCARD, CANCEL])]
    viewer.open(str(tmp_path / "p.ome.zarr"), plugin="napari-ngff")
    until(lambda: plate.tables.table.findText("nuclei, measured") > 0)
    tables = plate.tables.tables()
    tables.choose_table(tables.joined.offers[0])
    assert len(tables.table) > 0
    path = tmp_path / "nuclei.csv"
    tables.save_table(str(path))
    until(path.exists)
    until(lambda: list_tables(session_of(viewer).annotations) == [])
    assert set(pd.read_csv(path)["well"]) == {"A1", "A2"}
    assert not is_unsaved(viewer)
