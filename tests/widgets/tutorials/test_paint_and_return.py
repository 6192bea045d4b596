"""Tutorial: labels are painted with all tools, left unsaved, and restored later."""

from __future__ import annotations

import numpy as np
import zarr
from qtpy.QtWidgets import QApplication, QMessageBox

from napari_ngff.viewer.samples import write_image
from person import Person, needs_pointer

pytestmark = needs_pointer


def question():
    """Give the text of the question that is asked; None for none."""
    box = QApplication.activeModalWidget()
    return box.text() if isinstance(box, QMessageBox) else None


def test_unsaved_labels_are_restored_another_day(viewer, make_napari_viewer, tmp_path):
    cells = write_image(tmp_path / "cells.ome.zarr", shape=(256, 384))
    painted = []

    def tutorial(person):
        person.drop(cells)
        person.layer("nuclei")
        layer = person.make_labels("regions")
        paint(person, layer, painted)
        leave(person, layer)
        again = person.look(lambda: make_napari_viewer(show=True))
        come_back(person, again, cells)

    Person(viewer, "paint-and-return").take(tutorial)
    stored = zarr.open_array(cells / "labels/regions/0", mode="r")[...]
    np.testing.assert_array_equal(stored.reshape(painted[0].shape), painted[0])
    assert set(np.unique(stored)) == {0, 1, 2}


def at(layer, y, x):
    low, high = layer.extent.world[:, -2:]
    return low + (high - low) * np.array([y, x])


def value(layer, y, x):
    pixels = np.asarray(layer.data[0])
    height, width = pixels.shape[-2:]
    return int(pixels[..., int(y * height), int(x * width)].item())


def paint(person, layer, painted):
    def tool(mode):
        buttons = person.viewer.window._qt_viewer.controls.widgets[layer]
        return next(
            button
            for button in buttons.findChildren(type(buttons.panzoom_button))
            if getattr(button, "mode", None) == mode
        )

    ring = [(0.25, 0.2), (0.25, 0.45), (0.7, 0.45), (0.7, 0.2), (0.25, 0.2)]
    person.draw([at(layer, *place) for place in ring])
    assert value(layer, 0.25, 0.3) == 1
    assert value(layer, 0.5, 0.3) == 0
    person.step("ring")

    person.click(lambda: tool("fill"))
    person.click_canvas(at(layer, 0.5, 0.3))
    person.sees(lambda: value(layer, 0.5, 0.3) == 1)
    person.step("filled")

    person.click(lambda: tool("erase"))
    person.draw([at(layer, 0.5, x) for x in (0.1, 0.3, 0.5)])
    person.sees(lambda: value(layer, 0.5, 0.3) == 0)
    person.step("erased")
    person.press("ctrl+z")
    person.sees(lambda: value(layer, 0.5, 0.3) == 1)

    person.click(lambda: tool("polygon"))
    person.press("m")
    person.sees(lambda: layer.selected_label == 2)
    for place in ((0.2, 0.6), (0.2, 0.9), (0.8, 0.75)):
        person.click_canvas(at(layer, *place))
    person.press("Return")
    person.sees(lambda: value(layer, 0.4, 0.75) == 2)
    person.step("polygon")
    painted.append(person.look(lambda: np.asarray(layer.data[0])))


def leave(person, layer):
    person.press("ctrl+w")
    text = person.sees(question)
    assert "'regions' of cells.ome.zarr" in text
    person.step("question")
    person.click_button("Keep for later")
    person.sees(lambda: QApplication.activeModalWidget() is None)
    person.window_is_closed()
    person.look(layer.saver.release_journal)  # as the end of napari does


def come_back(person, again, cells):
    person.look(lambda: person.sits_at(again))
    person.rest(0.3)
    person.drop(cells)
    text = person.sees(question)
    assert "'regions' (cells.ome.zarr" in text
    person.step("restore")
    person.click_button("Restore")
    layer = person.layer("regions")
    person.sees(lambda: again.layers.selection.active is layer and layer.visible)
    person.step("restored")
    person.save(layer)
