"""Labels of images that are not OME-Zarr, from the form to the next day."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import tifffile
from napari.layers import Image
from napari.layers._source import layer_source
from napari.utils.notifications import notification_manager
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication
from test_save_as import typed
from test_save_asked import Answer

from mouse import drag, pump, until
from napari_ngff import open as open_file
from napari_ngff.plugin import save_as, use_workers
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.dialogs import CANCEL, DISCARD, KEEP, LATER, RESTORE, SAVE
from napari_ngff.widgets.new_labels_form import show_new_labels

SAVE_AS = "File ▸ IO Utilities ▸ Save as…"
PIXELS = np.random.default_rng(0).integers(0, 999, (80, 120)).astype("uint16")


@pytest.fixture
def image(tmp_path):
    tifffile.imwrite(tmp_path / "cells.tif", PIXELS)
    tifffile.imwrite(tmp_path / "others.tif", PIXELS)
    yield tmp_path / "cells.tif"
    notification_manager.records.clear()


def open_tiff(viewer, path):
    use_workers()
    (layer,) = viewer.open(str(path), plugin="napari")
    viewer.reset_view()
    pump(100)
    return layer


def create_labels(viewer):
    form = show_new_labels(viewer)
    assert SAVE_AS in form.status.value
    form.create_labels()
    layer = viewer.layers["labels"]
    assert SAVE_AS in viewer.status
    layer.brush_size = 9
    drag(viewer, [(40, 50), (60, 90)])
    assert layer.unsaved
    return layer


def test_a_save_by_a_script_names_save_as_which_writes_them(viewer, image, tmp_path):
    open_tiff(viewer, image)
    layer = create_labels(viewer)
    painted = np.asarray(layer.data[0])
    canvas = viewer.window._qt_viewer.canvas.native
    QTest.keyClick(canvas, Qt.Key.Key_S, Qt.KeyboardModifier.ControlModifier)
    until(lambda: notification_manager.records)
    message = notification_manager.records[-1].message
    assert SAVE_AS in message
    assert "overview" not in message
    assert message.endswith("Your edits are kept.")  # no save again would write them
    viewer.layers.save(str(tmp_path / "new.ome.zarr"), plugin="napari-ngff")
    saved = open_file(tmp_path / "new.ome.zarr").labels["labels"]
    np.testing.assert_array_equal(saved.levels[0], painted)


def save_typed(folder, name, command):
    """Run a command that opens *Save as…*, and type a name there."""
    QApplication.setAttribute(Qt.ApplicationAttribute.AA_DontUseNativeDialogs)
    try:
        typed(command, folder, name)
    finally:
        QApplication.setAttribute(
            Qt.ApplicationAttribute.AA_DontUseNativeDialogs, False
        )
    until((folder / name).exists)


@pytest.mark.default_cases("labels")
@pytest.mark.parametrize("selects", ["labels", "image", "nothing"])
def test_the_key_opens_save_as_with_image_and_labels(viewer, image, tmp_path, selects):
    picture = open_tiff(viewer, image)
    layer = create_labels(viewer)
    painted = np.asarray(layer.data[0])
    viewer.add_image(PIXELS[:40], name="another", visible=False)
    chosen = {"labels": layer, "image": picture, "nothing": None}[selects]
    viewer.layers.selection.active = chosen
    native = viewer.window._qt_viewer.canvas.native
    native.setFocus()
    control = Qt.KeyboardModifier.ControlModifier
    press = partial(QTest.keyClick, native, Qt.Key.Key_S, control)
    save_typed(tmp_path, "new.ome.zarr", press)
    until(lambda: not layer.unsaved)
    saved = open_file(tmp_path / "new.ome.zarr")
    np.testing.assert_array_equal(saved.levels[0], PIXELS)
    np.testing.assert_array_equal(saved.labels["labels"].levels[0], painted)
    errors = [str(x.message) for x in notification_manager.records]
    assert errors[-1].startswith("Saved new.ome.zarr, not all.\n")
    assert "hidden image 'another'" in errors[-1]
    assert not [text for text in errors if "Not saved" in text]


def test_the_question_at_closing_saves_them_with_their_image(viewer, image, tmp_path):
    open_tiff(viewer, image)
    layers = [create_labels(viewer)]
    layers.append(viewer.add_layer(new_labels(viewer.layers[0], "more")))
    layers[1].paint((9, 9), 3)
    window = viewer.window._qt_window
    window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    user = Answer(SAVE)
    close = partial(window.close, quit_app=False, confirm_need=True)
    save_typed(tmp_path, "new.ome.zarr", close)
    assert user.asked
    assert not window.isVisible()
    saved = open_file(tmp_path / "new.ome.zarr")
    for layer in layers:
        labels = saved.labels[layer.name].levels[0]
        np.testing.assert_array_equal(labels, np.asarray(layer.data[0]))


def test_after_save_as_they_count_as_saved_until_the_next_stroke(
    viewer, image, tmp_path, monkeypatch
):
    open_tiff(viewer, image)
    layer = create_labels(viewer)
    path = str(tmp_path / "new.ome.zarr")
    monkeypatch.setattr("napari_ngff.widgets.save_as.ask_target", lambda *_: path)
    save_as(viewer)
    assert not layer.unsaved
    painted = np.asarray(layer.data[0])
    saved = open_file(path).labels["labels"]
    np.testing.assert_array_equal(saved.levels[0], painted)
    notification_manager.records.clear()
    canvas = viewer.window._qt_viewer.canvas.native
    QTest.keyClick(canvas, Qt.Key.Key_S, Qt.KeyboardModifier.ControlModifier)
    pump(300)
    assert not notification_manager.records
    assert layer.saver.note.startswith("Saved ")
    drag(viewer, [(20, 20), (30, 40)])
    assert layer.unsaved
    layer.undo()
    assert not layer.unsaved
    drag(viewer, [(20, 20), (30, 40)])
    assert layer.unsaved
    path = str(tmp_path / "again.ome.zarr")
    save_as(viewer)
    user = Answer(CANCEL)
    viewer.layers.remove_selected()
    assert not user.asked
    assert layer not in viewer.layers
    # Nothing of it is offered later.
    del layer
    viewer.layers.clear()
    open_tiff(viewer, image)
    session_of(viewer).recovery.offer_again()
    pump(500)
    assert not user.asked


def test_kept_edits_return_with_their_image_and_no_other(viewer, image):
    open_tiff(viewer, image)
    layer = create_labels(viewer)
    painted = np.asarray(layer.data[0])
    user = Answer(KEEP)
    viewer.layers.remove_selected()
    text, buttons = user.asked[0]
    assert "Save changes to 'labels'?" in text
    assert "None" not in text
    assert "Save asks where both are saved" in text
    assert set(buttons) == {SAVE, KEEP, DISCARD, CANCEL}
    assert layer not in viewer.layers
    del layer
    viewer.layers.clear()
    open_tiff(viewer, image.with_name("others.tif"))
    session_of(viewer).recovery.offer_again()
    pump(500)
    viewer.layers.clear()
    user = Answer(RESTORE)
    open_tiff(viewer, image)
    session_of(viewer).recovery.offer_again()
    until(lambda: "labels" in viewer.layers and viewer.layers["labels"].unsaved)
    assert "'labels' (cells.tif, today " in user.asked[0][0]
    np.testing.assert_array_equal(viewer.layers["labels"].data[0], painted)


@pytest.mark.default_cases("cells.ome.zarr")
@pytest.mark.parametrize("name", ["cells.ome.zarr", "cells.ozx"])
def test_kept_edits_of_an_ome_zarr_are_not_for_layers_of_another_reader(
    viewer, tmp_path, name
):
    path = str(write_image(tmp_path / name, shape=(80, 120)))
    use_workers()
    viewer.open(path, plugin="napari-ngff")
    viewer.reset_view()
    layer = viewer.layers.selection.active = viewer.layers["nuclei"]
    layer.mode, layer.brush_size = "paint", 9
    drag(viewer, [tuple(np.multiply(p, layer.scale)) for p in ((40, 50), (60, 90))])
    user = Answer(KEEP)
    viewer.layers.remove_selected()
    assert user.asked
    del layer
    viewer.layers.clear()
    with layer_source(path=path, reader_plugin="another"):
        foreign = Image(PIXELS)
    user = Answer(LATER)
    viewer.add_layer(foreign)
    session_of(viewer).recovery.offer_again()
    pump(500)
    assert not user.asked


def test_those_of_an_image_without_file_are_not_kept(viewer):
    use_workers()  # as the entry of the menu does
    viewer.add_image(PIXELS)
    viewer.reset_view()
    pump(100)
    layer = create_labels(viewer)
    user = Answer(DISCARD)
    viewer.layers.remove_selected()
    text, buttons = user.asked[0]
    assert set(buttons) == {SAVE, DISCARD, CANCEL}
    assert "Save asks where both are saved" in text
    assert "Keep" not in text
    assert layer not in viewer.layers
