"""The dialog for new labels, by real keys and mouse, in a window of a laptop."""

from __future__ import annotations

import os

import numpy as np
import pytest
from napari.components import ViewerModel
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

from mouse import (
    camera,
    drag,
    drop_on_canvas,
    on_canvas,
    press_save,
    pump,
    until,
)
from napari_ngff import read_layers
from napari_ngff.cli import _show_first_field
from napari_ngff.plugin import new_labels, use_workers
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.browsing.images_to_label import image_choices
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.samples import write_image, write_plate
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets import new_labels_form
from napari_ngff.widgets.browser.host import browser_of
from napari_ngff.widgets.form_dialog import FormDialog
from napari_ngff.widgets.new_labels_form import NewLabelsForm
from pointer import x


def dialogs(viewer):
    found = viewer.window._qt_window.findChildren(FormDialog)
    return [one for one in found if one.isVisible()]


def picture(name, *widgets):
    folder = os.environ.get("DIALOG_PICTURES")
    for number, widget in enumerate(widgets if folder else ()):
        pump(300)
        widget.grab().save(os.path.join(folder, f"{name}-{number}.png"))


def shown_dialog(viewer):
    """Choose New labels; gives the dialog once it has the keyboard."""
    new_labels(viewer)
    until(lambda: dialogs(viewer))
    dialog = dialogs(viewer)[0]
    until(lambda: QApplication.focusWidget() is dialog.form.called.native)
    return dialog


@pytest.fixture
def laptop(viewer):
    if QApplication.platformName() != "xcb":
        pytest.skip("the window is not on the X server")
    use_workers()
    viewer.window.resize(1280, 775)
    pump(100)
    return viewer


@pytest.mark.long
def test_labels_are_named_and_made_by_the_keyboard_alone(laptop, tmp_path):
    where = write_image(tmp_path / "cells.ome.zarr", shape=(96, 128))
    laptop.open(str(where), plugin="napari-ngff")
    laptop.layers.selection.active = laptop.layers[1]
    before, labels = laptop.window._qt_window.size(), list(laptop.layers)
    selected = [getattr(layer, "selected_label", None) for layer in laptop.layers]
    dialog = shown_dialog(laptop)
    form = dialog.form
    assert [name for name, _ in form._list_images()] == ["Cells"]
    assert not any(w.visible for w in (form.level, form.dtype, form.where, form.folder))
    picture("new-labels", laptop.window._qt_window, dialog)
    x("type", "--delay", "20", "mitosis")
    until(lambda: form.called.value == "mitosis")
    after = [getattr(layer, "selected_label", None) for layer in laptop.layers]
    assert after == selected
    x("key", "Return")
    until(lambda: not dialogs(laptop))
    made = laptop.layers.selection.active
    assert made not in labels
    assert (made.name, made.mode) == ("mitosis", "paint")
    assert "Nothing is written until you save" in laptop.status
    assert laptop.window._qt_window.size() == before


@pytest.mark.long
def test_escape_closes_and_makes_nothing(laptop, tmp_path):
    where = write_image(tmp_path / "cells.ome.zarr", shape=(96, 128))
    laptop.open(str(where), plugin="napari-ngff")
    count = len(laptop.layers)
    dialog = shown_dialog(laptop)
    high = dialog.height()
    QTest.mouseClick(dialog.form.more.toggleButton(), Qt.MouseButton.LeftButton)
    until(lambda: dialog.form.level.native.isVisible() and dialog.height() > high)
    assert dialog.form.where.native.isVisible()
    assert not dialog.form.folder.native.isVisible()
    picture("more-options", dialog)
    QTest.mouseClick(dialog.form.more.toggleButton(), Qt.MouseButton.LeftButton)
    until(lambda: not dialog.form.level.native.isVisible() and dialog.height() <= high)
    x("key", "Escape")
    until(lambda: not dialogs(laptop))
    assert len(laptop.layers) == count


@pytest.mark.default_cases("A/2")
@pytest.mark.parametrize("inside", ["", "A/2"])
def test_an_overview_asks_for_a_field_and_opens_it(laptop, tmp_path, inside):
    plate = write_plate(
        tmp_path / "plate.ome.zarr", grid=(2, 2), fields=2, shape=(96, 96)
    )
    drop_on_canvas(laptop, plate / inside)
    until(lambda: len(laptop.layers) and browser_of(laptop) is not None)
    browser = session_of(laptop).browser
    middle = on_canvas(laptop, camera(laptop).center[-2:])
    assert middle is not None
    dialog = shown_dialog(laptop)
    form = dialog.form
    assert form.well.native.isVisible()
    until(lambda: form.field.native.isVisible())
    wanted = browser.position_at(camera(laptop).center[-2:])
    assert wanted is None or form.well.value == wanted.well
    if inside:
        assert form.well.value == inside
    picture("overview", laptop.window._qt_window, dialog)
    form.well.value = "B/1"
    until(lambda: form.field.value is not None and form.field.value.well == "B/1")
    form.field.value = form.field.choices[1]
    form.called.native.setFocus()
    form.called.native.selectAll()
    x("type", "--delay", "20", "mitosis")
    until(lambda: form.called.value == "mitosis")
    x("key", "Return")
    until(lambda: not dialogs(laptop))
    assert (browser.position.well, browser.position.field) == ("B/1", "1")
    made = laptop.layers.selection.active
    assert isinstance(made, OMEZarrLabels)
    assert made.name == "mitosis"
    assert browser.layers.owns_layer(made)
    made.paint((20,) * made.ndim, 3)
    assert made.saver.save_now()
    saved = open_node(plate / "B/1/1/labels/mitosis")
    assert saved.metadata.image is not None
    assert not (plate / "A/1/0/labels/mitosis").exists()


@pytest.mark.long
def test_the_first_label_of_the_demo_takes_four_actions(laptop, tmp_path):
    plate = write_plate(
        tmp_path / "plate.ome.zarr", grid=(1, 2), fields=1, shape=(96, 96)
    )
    laptop.open(str(plate), plugin="napari-ngff")
    _show_first_field(laptop)
    until(lambda: session_of(laptop).browser.position is not None)
    pump(300)
    dialog = shown_dialog(laptop)  # 1: the menu
    x("key", "Return")  # 2
    until(lambda: not dialogs(laptop))
    assert dialog is not None
    layer = laptop.layers.selection.active
    middle = np.array(layer.extent.world[:, -2:]).mean(axis=0)
    drag(laptop, [middle, middle + 5])  # 3
    until(lambda: layer.unsaved)
    press_save(laptop, layer)  # 4
    assert open_node(plate / "A/1/0/labels/labels").metadata.image is not None


def test_the_image_is_named_by_the_field_on_screen(qtbot, tmp_path):
    plate = write_plate(tmp_path / "p.ome.zarr", grid=(1, 2), shape=(64, 64))
    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(plate))
    browser.show_field("A/1", "0")
    viewer.add_image(np.zeros((64, 64), "u1"), name="other")
    form = NewLabelsForm(viewer)
    qtbot.addWidget(form.native)
    field = viewer.layers[0]
    form.choose_image(field)
    form.called.value = "mitosis"
    assert form.image.current_choice == "A1 - field 0"
    browser.show_field("A/2", "0")
    assert form.image.value is field
    assert form.image.current_choice == "A2 - field 0"
    assert form.called.value == "mitosis"


def test_two_new_label_images_of_one_name_are_not_made(qtbot, tmp_path, monkeypatch):
    where = write_image(tmp_path / "a.ome.zarr", shape=(1, 32, 32))
    viewer = ViewerModel()
    for layer in read_layers(str(where)):
        viewer.add_layer(layer)
    viewer.layers.selection.active = viewer.layers[0]
    asked = []

    def answer(parent, name, free, *, shown):
        asked.append((name, free, shown))
        return free

    monkeypatch.setattr(new_labels_form, "ask_name", answer)
    for _ in range(2):
        form = NewLabelsForm(viewer)
        qtbot.addWidget(form.native)
        form.choose_image(viewer.layers[0])
        form.called.value = "mine"
        form.create_labels()
    assert asked == [("mine", "mine-2", True)]
    assert {"mine", "mine-2"} <= {layer.name for layer in viewer.layers}


def test_it_shows_where_labels_of_a_read_only_image_go(qtbot, tmp_path, monkeypatch):
    for name in ("a", "b"):
        write_image(tmp_path / name / f"{name}.ome.zarr", shape=(1, 32, 32))
    allow = os.access

    def refuse_writing(path, mode):
        is_refused = str(path).startswith(str(tmp_path / "a")) and mode & os.W_OK
        return not is_refused and allow(path, mode)

    monkeypatch.setattr(os, "access", refuse_writing)
    viewer = ViewerModel()
    for name in ("a", "b"):
        for layer in read_layers(str(tmp_path / name / f"{name}.ome.zarr")):
            viewer.add_layer(layer)
    form = NewLabelsForm(viewer)
    qtbot.addWidget(form.native)
    images = dict(image_choices(viewer.layers))
    assert len(images) == 2
    first, second = images.values()
    form.image.value = second
    assert form.status.value == ""
    form.image.value = first
    assert form.status.value.startswith("The image cannot be written. The labels are")
    assert "in your data folder: a-" in form.status.value
    assert form.button.enabled
    form.where.value = ""
    assert form.status.value == ""
