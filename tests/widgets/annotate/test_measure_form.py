"""Measuring the labels of a single image in a real window."""

from __future__ import annotations

import threading
import time

import numpy as np
import pandas as pd
import pytest
from napari.layers import Labels
from qtpy.QtCore import Qt, QTimer
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QComboBox, QFileDialog, QLineEdit

from mouse import until
from napari_ngff.cli import main
from napari_ngff.plugin import measure_labels
from napari_ngff.viewer.annotations.table_annotation import ONLY_FILE
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.layer_measuring import NOT_SAVED_YET, UNSAVED
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.samples import write_image
from napari_ngff.widgets.annotate.measure_form import NO_LABELS, TITLE
from napari_ngff.widgets.form_dialog import shown_form
from plates import write_plate

pytestmark = pytest.mark.slow


def form_of(viewer):
    measure_labels(viewer)
    return shown_form(viewer, TITLE)


SHAPE = 2, 200, 256


def name_file(name, *, kind, folder):
    """Choose a kind of file and type a name, in the dialog that comes.

    Gives the name that was proposed, and the one that was typed.
    """
    typed = []

    def choose():
        dialog = QApplication.activeModalWidget()
        if not isinstance(dialog, QFileDialog):  # not there yet
            QTimer.singleShot(100, choose)
            return
        dialog.setDirectory(str(folder))
        kinds = dialog.findChild(QComboBox, "fileTypeCombo")
        while kinds.currentText() != kind:
            QTest.keyClick(kinds, Qt.Key.Key_Down)
        line = dialog.findChild(QLineEdit, "fileNameEdit")
        typed.append(line.text())
        line.clear()
        QTest.keyClicks(line, name)
        typed.append(line.text())
        QTest.keyClick(line, Qt.Key.Key_Return)

    QTimer.singleShot(300, choose)
    return typed


def test_labels_get_features_and_the_table_of_the_command(viewer, tmp_path):
    where = write_image(tmp_path / "a.ome.zarr", shape=SHAPE)
    viewer.open(str(where), plugin="napari-ngff")
    layer = next(x for x in viewer.layers if isinstance(x, Labels))
    viewer.layers.selection.active = layer
    form = form_of(viewer)
    assert form.layer.value is layer
    assert not form.save_button.enabled
    form.groups["shape"].native.click()
    form.button.changed.emit(True)
    until(lambda: form.measured_table() is not None)
    until(lambda: form.save_button.enabled)
    assert not form.progress.visible
    data = np.asarray(layer.data[0] if layer.multiscale else layer.data)
    label = int(data[0].max())
    row = layer.features[layer.features["index"] == label].iloc[0]
    assert row["voxels"] == np.sum(data[0] == label)
    # The file has a property of that name.
    assert row["area"] != row["area (measured)"] > 0
    assert not layer.unsaved
    form.save_table(str(tmp_path / "gui.csv"))
    until(lambda: form.status.value.startswith("Saved in"))
    assert ONLY_FILE in form.status.value
    out = tmp_path / "cli.csv"
    call = ["measure", str(where), "--label", layer.name, "--out", str(out)]
    assert main([*call, "--columns", "shape"]) == 0
    assert "solidity" in layer.features
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "gui.csv"), pd.read_csv(out))
    form.save_table(str(tmp_path / "none" / "a.csv"))
    until(lambda: "there is no folder" in form.status.value)
    names = name_file("again", kind="Parquet (*.parquet)", folder=tmp_path)
    form.save_button.changed.emit(True)
    assert names == [layer.name, "again"]
    until((tmp_path / "again.parquet").exists)
    found = pd.read_parquet(tmp_path / "again.parquet")
    pd.testing.assert_frame_equal(found, pd.read_csv(out), check_dtype=False)


def test_a_saved_table_is_shown_again(viewer, tmp_path, monkeypatch):
    where = write_image(tmp_path / "a.ome.zarr", shape=SHAPE)
    out = tmp_path / "nuclei.csv"
    assert main(["measure", str(where), "--label", "nuclei", "--out", str(out)]) == 0
    form = form_of(viewer)
    form.load_button.native.click()
    assert form.status.value == NO_LABELS
    viewer.open(str(where), plugin="napari-ngff")
    layer = viewer.layers["nuclei"]
    viewer.layers.selection.active = layer
    form = form_of(viewer)
    chosen = [str(out)]
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (chosen[0], ""))
    form.load_button.native.click()
    until(lambda: "voxels" in layer.features)
    saved = pd.read_csv(out).drop_duplicates("label").set_index("label")
    assert form.status.value == (
        f"Loaded {len(pd.read_csv(out))} rows of nuclei, as features of the layer."
    )
    for _, row in layer.features.iterrows():
        assert row["voxels"] == saved.loc[row["index"], "voxels"]
    assert not layer.unsaved

    # A table of other things is refused, and what was there stays.
    for text, reason in (
        ("dose,unit\n1,uM\n", "has no column label"),
        ("well,label,size\nA1,1,3\nA2,1,4\n", "has rows of 2 fields"),
    ):
        chosen[0] = str(tmp_path / "other.csv")
        (tmp_path / "other.csv").write_text(text)
        form.load_button.native.click()
        until(lambda reason=reason: reason in form.status.value)
        assert "voxels" in layer.features


def test_classes_are_named_as_they_were_saved_last(viewer, tmp_path):
    where = write_image(tmp_path / "a.ome.zarr", shape=SHAPE)
    viewer.open(str(where), plugin="napari-ngff")
    layer = viewer.add_layer(new_labels(viewer.layers[0], "mine"))
    classes = classes_of_layer(layer)
    value = classes.add_class("dividing").value
    layer.paint((0, 20, 20), value)
    assert layer.saver.save_now()
    viewer.layers.clear()
    viewer.open(str(where), plugin="napari-ngff")
    layer = viewer.layers["mine"]
    classes = classes_of_layer(layer)
    classes.change_class(value, name="mitotic")
    other = classes.add_class("resting").value
    layer.paint((0, 40, 40), other)
    assert layer.saver.save_now()
    viewer.layers.selection.active = layer
    form = form_of(viewer)
    form.button.native.click()
    until(lambda: form.save_button.enabled)
    assert list(form.measured_table().table.frame["class"]) == ["mitotic", "resting"]


@pytest.mark.long
def test_selected_labels_are_chosen_and_unsaved_edits_are_reported(viewer, tmp_path):
    where = write_image(tmp_path / "a.ome.zarr", shape=SHAPE)
    viewer.open(str(where), plugin="napari-ngff")
    nuclei = next(x for x in viewer.layers if isinstance(x, Labels))
    mine = viewer.add_layer(new_labels(viewer.layers[0], "mine"))
    mine.paint((0,) * (mine.ndim - 2) + (20, 20), 1)
    nuclei.visible = False
    viewer.layers.selection = {viewer.layers[0], mine}
    form = form_of(viewer)
    assert form.layer.value is mine
    assert form.status.value == NOT_SAVED_YET
    form.button.native.click()
    assert form.status.value == NOT_SAVED_YET
    assert mine.saver.save_now()
    assert form.status.value == ""
    mine.paint((0,) * (mine.ndim - 2) + (40, 40), 2)
    assert form.status.value == UNSAVED
    form.button.native.click()
    until(lambda: form.save_button.enabled)
    assert list(form.measured_table().table.frame["label"]) == [1]
    assert form.status.value.startswith("Measured 1 row: 1 label at 1 timepoint, ")
    assert "as features of the layer." in form.status.value
    assert form.status.value.endswith(UNSAVED)
    assert mine.saver.save_now()
    form.button.native.click()
    until(
        lambda: form.status.value.startswith(
            "Measured 2 rows: 2 labels at 1 timepoint, "
        )
    )
    assert UNSAVED not in form.status.value
    # Without selected labels, those on screen.
    viewer.layers.selection = {viewer.layers[0]}
    assert form_of(viewer).layer.value is mine
    mine.visible, nuclei.visible = False, True
    assert form_of(viewer).layer.value is nuclei
    assert form.status.value == ""


@pytest.mark.long
def test_a_plate_is_for_the_browser(viewer, tmp_path):
    where = write_plate(
        tmp_path / "p.ome.zarr", grid=(1, 2), fields=1, labelled=lambda _: ("nuclei",)
    )
    viewer.open(str(where), plugin="napari-ngff")
    form = form_of(viewer)
    assert form.layer.value is None
    form.button.changed.emit(True)
    assert "no labels" in form.status.value
    viewer.open(str(where / "A/1/0"), plugin="napari-ngff")
    assert form.layer.value.name == "nuclei [1]"


@pytest.mark.long
def test_measuring_ends_with_the_form(viewer, tmp_path, monkeypatch):
    begun, ended = threading.Event(), threading.Event()

    def endless(*_, goes_on, task):
        while goes_on(1, 2):
            begun.set()
            time.sleep(0.01)
        ended.set()

    monkeypatch.setattr("napari_ngff.viewer.painting.layer_measuring.measure", endless)
    where = write_image(tmp_path / "a.ome.zarr", shape=SHAPE)
    viewer.open(str(where), plugin="napari-ngff")
    form = form_of(viewer)
    form.button.changed.emit(True)
    until(begun.is_set)
    form.native.window().close()
    until(ended.is_set)
