"""A window serves layers of ours by whatever way they came into it."""

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
import pytest
import zarr
from napari._qt.layer_controls.qt_layer_controls_container import layer_to_controls
from qtpy.QtWidgets import QApplication
from test_save_asked import Answer

import napari_ngff
from journals import discard_edits
from mouse import drag, press_save, pump, until
from napari_ngff.plugin import get_reader
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.private.napari_window import qt_window_of
from napari_ngff.viewer.samples import write_image, write_plate
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import all_viewers, session_of
from napari_ngff.widgets.dialogs import CANCEL
from napari_ngff.widgets.saving.save_controls import OMEZarrLabelsControls
from napari_ngff.widgets.saving.unsaved_question import WindowGuard


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "cells.ome.zarr"
    write_image(path, shape=(200, 240))
    return path


@pytest.fixture
def make_window(screen, quick_windows, make_napari_viewer, monkeypatch):
    """Windows of a process in which nothing was opened yet."""
    monkeypatch.setattr(Window, "current", Window())
    monkeypatch.delitem(layer_to_controls, OMEZarrLabels, raising=False)

    def make():
        viewer = make_napari_viewer(show=True)
        viewer.window.resize(1000, 750)
        return viewer

    return make


def nuclei(layers):
    return next(layer for layer in layers if layer.name == "nuclei")


def read_then_window(folder, make_window):
    layers = napari_ngff.read_layers(folder)
    viewer = make_window()
    for layer in layers:
        viewer.add_layer(layer)
    return viewer, nuclei(layers)


def read_by_another_then_window(folder, make_window):
    """As npe2 reads, for a program that imports Qt only later."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, "qtpy")
        read = get_reader(str(folder))
        labels = next(x for x in read(str(folder)) if isinstance(x, OMEZarrLabels))
    viewer = make_window()
    return viewer, viewer.add_layer(labels)


def window_then_read(folder, make_window):
    viewer = make_window()
    layers = napari_ngff.read_layers(folder)
    viewer.layers.extend(layers)
    return viewer, nuclei(layers)


def into_a_window_behind(folder, make_window):
    behind, _ = make_window(), make_window()
    layers = napari_ngff.read_layers(folder)
    labels = nuclei(layers)
    labels.visible = False
    behind.layers.insert(0, labels)
    labels.visible = True
    return behind, labels


def moved(folder, make_window):
    first = make_window()
    first.open(str(folder), plugin="napari-ngff")
    labels = nuclei(first.layers)
    first.layers.remove(labels)
    second = make_window()
    second.layers.append(labels)
    return second, labels


def moved_with_a_stroke(folder, make_window):
    first = make_window()
    first.open(str(folder), plugin="napari-ngff")
    labels = nuclei(first.layers)
    labels.paint((180, 20), 78)
    first.layers.remove(labels)
    second = make_window()
    second.layers.append(labels)
    return second, labels


def new_ones(folder, make_window):
    first = make_window()
    first.open(str(folder), plugin="napari-ngff")
    labels = napari_ngff.new_labels(first.layers[0], "mine")
    second = make_window()
    return second, second.add_layer(labels)


WAYS = (
    read_then_window,
    read_by_another_then_window,
    window_then_read,
    into_a_window_behind,
    moved,
    moved_with_a_stroke,
    new_ones,
)


@pytest.mark.default_cases(
    "read_by_another_then_window", "moved_with_a_stroke", "new_ones"
)
@pytest.mark.parametrize("way", WAYS)
def test_labels_are_saved_by_their_key_and_asked_about(folder, make_window, way):
    viewer, labels = way(folder, make_window)
    strokes = {77, *np.unique(np.asarray(labels.data[0])).tolist()}
    viewer.layers.selection.active = labels
    viewer.reset_view()
    pump(50)
    controls = viewer.window._qt_viewer.controls.widgets[labels]
    assert isinstance(controls, OMEZarrLabelsControls)
    labels.mode, labels.selected_label = "paint", 77
    drag(viewer, [tuple(np.multiply(p, labels.scale)) for p in ((40, 50), (90, 120))])
    user = Answer(CANCEL)
    press_save(viewer, labels)
    assert not user.asked
    stored = zarr.open_array(folder / "labels" / labels.name / "0", mode="r")[:]
    assert set(np.unique(stored).tolist()) == strokes
    labels.paint((20, 20), 79)
    window = viewer.window._qt_window
    window.close(quit_app=False, confirm_need=True)
    assert f"'{labels.name}' of cells.ome.zarr" in user.asked[0][0]
    assert window.isVisible()
    discard_edits(labels.saver)


def test_a_window_without_layers_of_ours_is_left_alone(folder, make_window):
    napari_ngff.read_layers(folder)
    viewer = make_window()
    viewer.add_labels(np.zeros((8, 8), int))
    assert not viewer.window._qt_window.findChildren(WindowGuard)
    assert QApplication.activeModalWidget() is None


def test_an_image_that_is_moved_is_followed_there(folder, make_window):
    """Such as its pixels, which come from a server when it is on screen."""
    first = make_window()
    first.open(str(folder), plugin="napari-ngff")
    image = first.layers[0]
    second = make_window()
    assert second not in all_viewers()
    first.layers.remove(image)
    second.add_layer(image)
    assert second in all_viewers()


def use_and_close(viewer, path):
    """Browse a plate in a window, and close it; refer weakly to what it had."""
    viewer.open(path, plugin="napari-ngff")
    session, window = session_of(viewer), qt_window_of(viewer)
    until(lambda: session.browser is not None)
    guard = window.findChild(WindowGuard)
    viewer.close()
    return [*map(weakref.ref, (viewer, session, session.browser, window, guard))]


def test_a_closed_window_goes_with_all_that_belongs_to_it(make_window, tmp_path):
    write_plate(tmp_path / "plate.zarr")
    gone = use_and_close(make_window(), tmp_path / "plate.zarr")
    until(lambda: gc.collect() and all(reference() is None for reference in gone))
