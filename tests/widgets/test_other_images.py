"""Labels of images that are not OME-Zarr, from the form to the next day."""

from __future__ import annotations

import numpy as np
import pytest
import tifffile
from napari.layers import Image
from napari.layers._source import layer_source
from napari.utils.notifications import notification_manager
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from test_save_asked import Answer

from mouse import drag, pump, until
from napari_ngff import open as open_file
from napari_ngff.plugin import save_as, use_workers
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.dialogs import CANCEL, DISCARD, KEEP, LATER, RESTORE
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


def test_a_save_names_save_as_which_writes_them(viewer, image, tmp_path):
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
    assert SAVE_AS in text
    assert set(buttons) == {KEEP, DISCARD, CANCEL}
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
    viewer.add_image(PIXELS)
    viewer.reset_view()
    pump(100)
    layer = create_labels(viewer)
    user = Answer(DISCARD)
    viewer.layers.remove_selected()
    text, buttons = user.asked[0]
    assert set(buttons) == {DISCARD, CANCEL}
    assert SAVE_AS in text
    assert "Keep" not in text
    assert layer not in viewer.layers
