"""The dock shows one page, by the kind of the selected labels."""

from __future__ import annotations

import numpy as np
import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest

from mouse import canvas, click, pump
from napari_ngff.labels.label_metadata import read_label_info
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.widgets.annotate.annotate_dock import UNSAVED
from napari_ngff.widgets.new_labels_form import show_new_labels
from plates import write_image

LEFT = Qt.MouseButton.LeftButton
WINDOW = 1000, 750


@pytest.fixture
def path(tmp_path):
    pixels = np.zeros((60, 90), "uint16")
    pixels[10:25, 10:25], pixels[10:25, 60:80] = 3, 5
    write_image(tmp_path / "cells.ome.zarr", pixels, 3, "yx", labels=("nuclei",))
    return tmp_path / "cells.ome.zarr"


@pytest.fixture
def dock(viewer, path):
    viewer.open(str(path), plugin="napari-ngff")
    _, widget = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    viewer.layers["nuclei"].visible = True
    viewer.layers.selection.active = viewer.layers["nuclei"]
    viewer.reset_view()
    pump(100)
    return widget


def shown(dock):
    """The title, and the page that is seen."""
    seen = [page for page in (dock.classes, dock.objects) if page.isVisible()]
    assert len(seen) == 1
    return dock.title.text(), "objects" if seen == [dock.objects] else "classes"


def press_key(viewer, key):
    canvas(viewer).native.setFocus()
    QTest.keyClick(canvas(viewer).native, key)
    pump()


def test_labels_are_made_shown_and_changed_by_their_kind(viewer, dock, path):
    nuclei = viewer.layers["nuclei"]
    assert shown(dock) == ("nuclei - objects", "objects")
    # Keys are no tools of napari, also without a class and without an object.
    before = np.array(nuclei.data[0]), nuclei.mode
    for key in (Qt.Key.Key_1, Qt.Key.Key_5, Qt.Key.Key_9):
        press_key(viewer, key)
    assert dock.status.text() == "No class has key 9."
    assert nuclei.mode == before[1]
    for kind in ("classes", "objects"):
        form = show_new_labels(viewer)
        assert form.button.text == "Create classes", "the likelier first"
        form.called.value = kind
        button = form.button if kind == "classes" else form.objects
        QTest.mouseClick(button.native, LEFT)
        pump()
        assert shown(dock) == (f"{kind} - {kind}", kind)
        layer = viewer.layers[kind]
        click(viewer, tuple(layer.data_to_world((40, 40))))
        assert layer.saver.save_now()
        assert read_label_info(open_node(str(path / "labels" / kind))).kind == kind
    # Changed by its button, and changed back: all is there again.
    viewer.layers.selection.active = viewer.layers["classes"]
    added = dock.classes.classes.add_class("debris")
    for kind in ("objects", "classes"):
        assert dock.kind.text() == f"To {kind}"
        QTest.mouseClick(dock.kind, LEFT)
        pump()
        assert shown(dock) == (f"classes - {kind}", kind)
        assert dock.status.text() == ""
    assert dock.classes.classes.items == (added,)
    press_key(viewer, Qt.Key.Key_1)
    assert viewer.layers["classes"].selected_label == added.value
    # Read-only labels, too, in this window.
    viewer.layers.selection.active = nuclei
    nuclei.exchange_canvas(nuclei.canvas, "the server takes nothing")
    QTest.mouseClick(dock.kind, LEFT)
    pump()
    assert shown(dock) == ("nuclei - classes", "classes")
    assert dock.status.text() == UNSAVED
    np.testing.assert_array_equal(np.array(nuclei.data[0]), before[0])
