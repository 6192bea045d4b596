"""The table of classes by itself."""

from __future__ import annotations

import numpy as np
from napari.layers import Image

import napari_ngff
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.widgets.annotate.class_table import NAME, STATE, ClassTable


def test_a_long_name_is_cut_before_other_columns_are(qtbot, tmp_path):
    image = napari_ngff.write(
        tmp_path / "a.ome.zarr", [Image(np.zeros((8, 8), "uint8"), name="a")]
    )
    (layer,) = napari_ngff.read_layers(image)
    labels = napari_ngff.new_labels(layer, "cells")
    classes = classes_of_layer(labels)
    classes.change_class(classes.add_class().value, name="mitosis " * 20)
    table = ClassTable()
    qtbot.addWidget(table)
    table.rows.setClasses(classes)
    table.resize(360, 120)
    table.show()

    def right_of(column):
        return table.columnViewportPosition(column) + table.columnWidth(column)

    assert right_of(STATE) <= table.viewport().width()
    short = table.columnWidth(NAME)
    table.resize(2000, 120)
    assert table.columnWidth(NAME) > 2 * short
    assert table.sizeHintForColumn(NAME) <= table.columnWidth(NAME)
