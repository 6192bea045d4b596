"""Saving one image by real keys: our own command, and napari's Ctrl+S dialog."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
import zarr
from napari.layers import Image
from napari.utils.notifications import notification_manager
from qtpy.QtCore import QEventLoop, Qt, QTimer
from qtpy.QtTest import QTest
from qtpy.QtWidgets import (
    QApplication,
    QComboBox,
    QDialogButtonBox,
    QFileDialog,
    QLabel,
    QLineEdit,
)

from mouse import CONTROL, canvas, pump, until
from napari_ngff.plate.tables.table import WellTable
from napari_ngff.plugin import save_as, use_workers
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.annotations.table_annotation import TableAnnotation
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets import save_as as module
from napari_ngff.widgets.saving.unsaved_question import WRITING
from patience import PATIENCE
from plates import write_plate


@pytest.fixture
def image(viewer):
    use_workers()
    pixels = np.random.default_rng(0).integers(0, 4000, (300, 400)).astype("u2")
    layer = viewer.add_image(pixels, name="Cells: DNA", scale=(0.5, 0.5))
    notification_manager.records.clear()
    yield layer
    notification_manager.records.clear()


@pytest.fixture(autouse=True)
def qt_dialogs():
    """Dialogs of Qt, which a test can type into."""
    QApplication.setAttribute(Qt.ApplicationAttribute.AA_DontUseNativeDialogs)
    yield
    QApplication.setAttribute(Qt.ApplicationAttribute.AA_DontUseNativeDialogs, False)


def typed(command, folder, name, kind=None, *, kind_last=False):
    """Run a command that asks; type a name, choose a type, and press Enter."""

    def choose(kinds):
        while kind is not None and not kinds.currentText().startswith(kind):
            QTest.keyClick(kinds, Qt.Key.Key_Down)

    def fill(dialog):
        kinds = dialog.findChild(QComboBox, "fileTypeCombo")
        line = dialog.findChild(QLineEdit, "fileNameEdit")
        if not kind_last:
            choose(kinds)
        line.clear()
        QTest.keyClicks(line, name)
        if kind_last:
            choose(kinds)

    answered(command, fill, folder)


def answered(command, fill, folder=None):
    """Run a command that asks; go to a folder, fill the dialog, and press Enter."""
    loop = QEventLoop()

    def answer():
        dialog = QApplication.activeModalWidget()
        if not isinstance(dialog, QFileDialog):
            QTimer.singleShot(50, answer)
            return
        if folder is not None:
            dialog.setDirectory(str(folder))
        QTimer.singleShot(50, lambda: accept(dialog))

    def accept(dialog):
        fill(dialog)
        buttons = dialog.findChild(QDialogButtonBox, "buttonBox")
        if buttons.button(QDialogButtonBox.StandardButton.Save).isEnabled():
            line = dialog.findChild(QLineEdit, "fileNameEdit")
            QTest.keyClick(line, Qt.Key.Key_Return)
        else:  # Qt has not listed the folder yet
            QTimer.singleShot(50, lambda: accept(dialog))

    def run():
        try:
            command()
        finally:
            loop.quit()

    QTimer.singleShot(300, answer)
    QTimer.singleShot(0, run)
    QTimer.singleShot(1000 * PATIENCE, loop.quit)
    loop.exec()


def messages():
    return [record.message for record in notification_manager.records]


@pytest.mark.default_cases(
    "out-OME-Zarr single file-out.ozx", "out.ome.zarr-None-out.ome.zarr"
)
@pytest.mark.parametrize(
    ("name", "kind", "written"),
    [
        ("out.ome.zarr", None, "out.ome.zarr"),
        ("out.ozx", None, "out.ozx"),
        ("out", None, "out.ome.zarr"),
        ("out", "OME-Zarr single file", "out.ozx"),
    ],
)
def test_one_image_is_saved_under_the_typed_name(
    viewer, image, tmp_path, name, kind, written
):
    typed(lambda: save_as(viewer), tmp_path, name, kind)
    until((tmp_path / written).exists)
    assert [path.name for path in tmp_path.iterdir()] == [written]
    assert open_node(str(tmp_path / written)).metadata.image is not None
    assert messages() == [f"Saved {written}"]


def test_enter_alone_saves_beside_the_file_of_the_layers(viewer, tmp_path):
    use_workers()
    source = write_plate(tmp_path / "Cells.ome.zarr", grid=(1, 1), fields=1) / "A/1/0"
    viewer.open(str(source), plugin="napari-ngff")
    until(lambda: viewer.layers)
    viewer.layers[0].name = "Cells.ome.zarr: DNA"
    before = sorted(path.name for path in source.rglob("*"))
    notification_manager.records.clear()
    native = canvas(viewer).native

    def press_again(_):  # while it is written, or just after
        press = partial(QTest.keyClick, native, Qt.Key.Key_S, CONTROL)
        QTimer.singleShot(20, press)

    answered(lambda: save_as(viewer), press_again)
    until((tmp_path / "Cells-2.ome.zarr").exists)
    until(lambda: viewer.status == WRITING)
    pump(100)
    assert QApplication.activeModalWidget() is None
    assert sorted(path.name for path in source.rglob("*")) == before
    assert messages() == ["Saved Cells-2.ome.zarr"]


@pytest.mark.default_cases(
    "out.ozx-OME-Zarr single file-False", "out.ome.zarr-OME-Zarr folder-True"
)
@pytest.mark.parametrize("kind_last", [False, True])
@pytest.mark.parametrize(
    ("name", "kind"),
    [("out.ozx", "OME-Zarr single file"), ("out.ome.zarr", "OME-Zarr folder")],
)
def test_the_dialog_of_napari_keeps_the_typed_ending(
    viewer, image, tmp_path, name, kind, kind_last
):
    save = viewer.window._qt_viewer._save_layers_dialog
    typed(lambda: save(selected=True), tmp_path, name, kind, kind_last=kind_last)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert messages() == [f"Saved {name}"]


def test_what_is_saved_are_several_selected_layers_or_all_visible_ones(
    viewer, image, tmp_path, monkeypatch
):
    labels = viewer.add_labels((image.data > 3000).astype("u2"), scale=(0.5, 0.5))
    hidden = viewer.add_image(image.data, name="Cells: actin", visible=False)
    titles = []

    def ask(_, title, name, note):
        titles.append((title, note))
        return ""

    monkeypatch.setattr(module, "ask_target", ask)
    viewer.layers.selection = {hidden}
    save_as(viewer)
    viewer.layers.selection = {image, labels, hidden}
    save_as(viewer)
    viewer.layers.clear()
    save_as(viewer)
    pump()
    assert titles == [
        (
            "Save 2 layers (visible) as OME-Zarr",
            "This file will not have hidden image 'Cells: actin'.",
        ),
        ("Save 3 layers (selected) as OME-Zarr", ""),
    ]
    assert messages()[-1].startswith("Nothing to save")


def add_all_kinds(viewer, image):
    """Add layers of all kinds beside those of an image; give the left out by name."""
    area = image.extent.world[:, -2:]
    viewer.add_points(area, name="spots")
    viewer.add_points(name="none yet")
    viewer.add_shapes([area], name="outlines", visible=False)
    viewer.add_tracks([[1, 0, 5, 5], [1, 1, 6, 6]], name="ways")
    raw = viewer.add_labels(np.zeros((9, 9), "u1"), name="of a plugin", visible=False)
    raw.data[1, 1] = 1
    return ["tracks 'ways'", "'of a plugin'"]


def said(dialog):
    return "\n".join(label.text() for label in dialog.findChildren(QLabel))


def test_what_goes_along_and_what_does_not_is_named_before_and_after(viewer, tmp_path):
    use_workers()
    path = write_image(tmp_path / "cells.ome.zarr", shape=(200, 240))
    viewer.open(str(path), plugin="napari-ngff")
    image, *others = (x for x in viewer.layers if isinstance(x, Image))
    names = add_all_kinds(viewer, image)
    others[0].visible = False
    viewer.layers.remove(viewer.layers["cells"])
    names.append("labels 'cells' without a layer")
    viewer.layers.remove(others.pop())
    names.append("1 channel without a layer")
    owner = session_of(viewer).annotations
    rows = WellTable("nuclei", pd.DataFrame({"area": [1.0]}))
    table = TableAnnotation(owner, "nuclei", "cells.ome.zarr", rows)
    names.append(table.title)
    viewer.layers.selection.active = image
    notification_manager.records.clear()
    seen = []

    def read(dialog):
        seen.append(said(dialog))
        dialog.findChild(QLineEdit, "fileNameEdit").setText("copy")

    answered(lambda: save_as(viewer), read, tmp_path)
    until((tmp_path / "copy.ome.zarr").exists)
    (text,) = messages()
    assert text.startswith("Saved copy.ome.zarr, not all.\nIt does not have ")
    for name in names:
        assert name in seen[0]
        assert name in text
    assert "none yet" not in seen[0] + text
    left, along = seen[0].split("Saved with it:")
    for name in ("points 'spots'", "shapes 'outlines'"):
        assert name in along
        assert name not in left + text
    assert (tmp_path / "copy.points" / "spots.csv").exists()
    assert (tmp_path / "copy.shapes" / "outlines.geojson").exists()
    # By napari's own dialog, which shows no text.
    notification_manager.records.clear()
    again = str(tmp_path / "again.ome.zarr")
    viewer.layers.save(again, selected=True, plugin="napari-ngff")
    lacks = f"{names[-1]} (the new file has not its labels and image)"
    assert messages() == [f"Saved again.ome.zarr, not all.\nIt does not have {lacks}."]
    table.leave(keep=False)


@pytest.mark.default_cases("hides2-0.5")
@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.parametrize("hides", [(0,), (1,), (0, 2)])
def test_hidden_channels_are_kept_as_hidden_ones(viewer, tmp_path, version, hides):
    use_workers()
    path = write_image(tmp_path / "cells.ome.zarr", version, shape=(64, 80))
    viewer.open(str(path), plugin="napari-ngff")
    images = [x for x in viewer.layers if isinstance(x, Image)]
    for index in hides:
        images[index].visible = False
    viewer.layers["cells"].visible = True
    viewer.layers.selection = set()
    notification_manager.records.clear()
    typed(lambda: save_as(viewer), tmp_path, "hid")
    until((tmp_path / "hid.ome.zarr").exists)
    assert messages() == ["Saved hid.ome.zarr"]
    omero = open_node(str(tmp_path / "hid.ome.zarr")).metadata.image.omero
    shown = [channel.active for channel in omero.channels]
    assert shown == [index not in hides for index in range(len(images))]
    first, again = (
        zarr.open_array(tmp_path / f"{n}.ome.zarr/0", mode="r") for n in NAMES
    )
    np.testing.assert_array_equal(first[:], again[:])


NAMES = ("cells", "hid")
