"""Tutorial: a segmentation of another program is corrected, and classified."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import zarr
from qtpy.QtWidgets import QLineEdit, QStyle, QStyleOptionComboBox

from napari_ngff.viewer.session import session_of
from person import Person, needs_pointer, row_place
from plates import SPACING, write_image

pytestmark = needs_pointer

SHAPE = 300, 400

DEBRIS, UPPER, LOWER, PAIR, ROUND = 2, 5, 6, 7, 9
"""Objects: to be deleted, two halves to be joined, one to be cut, one that is right."""


def segmentation():
    """Draw discs, as a pipeline has found them: with mistakes."""
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]

    def disc(at, radius):
        return (y - at[0]) ** 2 + (x - at[1]) ** 2 < radius**2

    labels = np.zeros(SHAPE, "u2")
    labels[disc((60, 320), 9)] = DEBRIS
    labels[disc((80, 100), 38)] = UPPER
    labels[80:][disc((80, 100), 38)[80:]] = LOWER
    labels[disc((215, 150), 34) | disc((215, 210), 34)] = PAIR
    labels[disc((200, 330), 40)] = ROUND
    return labels


@pytest.fixture
def path(tmp_path):
    labels, where = segmentation(), tmp_path / "cells.ome.zarr"
    pixels = np.where(labels > 0, 2500, 300).astype("u2")
    write_image(where, pixels, 3, "yx", levels=2, name="cells", labels=("nuclei",))
    for level, factor in enumerate((1, 2)):
        stored = zarr.open_array(where / "labels/nuclei" / str(level))
        stored[...] = labels[::factor, ::factor]
    return where


def test_a_segmentation_is_corrected_and_classified(viewer, path):
    def tutorial(person):
        person.drop(path)
        layer = person.layer("nuclei")
        parts = viewer.window._qt_viewer
        row = person.look(lambda: row_place(parts.layers, 0))
        person.click(parts.layers.viewport(), row)
        person.sees(lambda: viewer.layers.selection.active is layer)
        page = person.show_annotate().objects
        person.sees(lambda: page.table.model.rowCount() == 5)
        person.click(parts.viewerButtons.resetViewButton)
        person.step("listed")
        assert person.look(lambda: shows_choice(page.table.color))
        correct(person, page, layer)
        classify(person, page)
        person.save(layer)
        person.sees(lambda: not session_of(viewer).annotations.list_savable())
        person.step("corrected")

    Person(viewer, "correct-objects").take(tutorial)
    labels = segmentation()
    stored = zarr.open_array(path / "labels/nuclei/0", mode="r")[...]
    assert sorted(np.unique(stored)) == [0, UPPER, PAIR, ROUND, ROUND + 1]
    assert (stored[labels == LOWER] == UPPER).all()
    assert (stored[labels == ROUND] == ROUND).all()
    table = pd.read_csv(path / "tables/nuclei_classes/table.csv")
    assert dict(table.to_numpy().tolist()) == {UPPER: "round", ROUND: "round"}


def correct(person, page, layer):
    """Delete debris, join the halves of a nucleus, and cut two that touch."""
    person.click(page.delete)
    person.click_canvas(place(60, 320))
    person.sees(lambda: voxel(layer, 60, 320) == 0)
    person.press("Escape")
    person.click(page.join)
    person.click_canvas(place(60, 100))
    person.sees(lambda: layer.selected_label == UPPER)
    person.click_canvas(place(100, 100))
    person.sees(lambda: voxel(layer, 100, 100) == UPPER)
    person.step("joined")
    person.click(page.cut)
    person.click_canvas(place(215, 140))
    person.click_canvas(place(215, 220))
    person.sees(lambda: voxel(layer, 215, 220) == ROUND + 1)
    person.press("Escape")
    person.sees(lambda: page.table.model.rowCount() == 4)
    person.step("cut")


def classify(person, page):
    """Make a class, and give it to two objects by a click and a key."""
    person.click(lambda: page.classes.buttons["Add class"])
    person.sees(lambda: visible_editor(page.classes.table))
    person.press("ctrl+a")
    person.types("round")
    person.press("Return")
    person.sees(lambda: [one.name for one in page.classes.items] == ["round"])
    person.click(page.choose)
    for y, x in ((60, 100), (200, 330)):
        person.click_canvas(place(y, x))
        person.press("1")
    person.press("Escape")
    person.step("classes")


def place(y, x):
    return y * SPACING, x * SPACING


def visible_editor(table):
    return next((x for x in table.findChildren(QLineEdit) if x.isVisible()), None)


def voxel(layer, y, x):
    return int(layer.canvas.levels[0].read_points([[y], [x]])[0])


def shows_choice(box):
    """Return whether a box of choices has room for the chosen text."""
    option = QStyleOptionComboBox()
    box.initStyleOption(option)
    kind = QStyle.ComplexControl.CC_ComboBox
    part = QStyle.SubControl.SC_ComboBoxEditField
    room = box.style().subControlRect(kind, option, part, box).width()
    return box.fontMetrics().horizontalAdvance(box.currentText()) <= room
