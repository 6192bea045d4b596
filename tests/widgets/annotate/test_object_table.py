"""The list of objects in a window: filtered, coloured, and of the field on screen."""

from __future__ import annotations

import numpy as np
from qtpy.QtCore import QPoint, Qt
from qtpy.QtTest import QTest

from mouse import pump, until
from napari_ngff.viewer.annotations.object_class_annotation import begin_classes
from napari_ngff.viewer.session import session_of
from pipeline_plate import bytes_of, write_pipeline_plate
from plates import write_image


def test_rows_and_colours_are_those_of_the_field_on_screen(viewer, tmp_path):
    root = write_pipeline_plate(tmp_path / "plate.ome.zarr")
    before = bytes_of(root)
    viewer.open(str(root), plugin="napari-ngff")
    browser = session_of(viewer).browser
    browser.show_field("A/1", "0")
    until(lambda: browser.position is not None)
    _, dock = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    layer = viewer.layers["nuclei"]
    viewer.layers.selection.active = layer
    dock.setKind("objects")
    table = dock.objects.table
    until(lambda: table.model.rowCount() > 0)
    whole = table.model.rowCount()
    assert table.note.text().startswith(f"{whole} of {whole} objects. Read at ")
    QTest.keyClicks(table.filter, "label > 2 and class != round")
    until(lambda: table.model.rowCount() == whole - 2)
    header = table.view.horizontalHeader()
    QTest.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(12, 9))
    until(lambda: table.model.index(0, 0).data() == str(whole))
    own = layer.colormap.map(np.array([1, 2, whole]))
    table.color.setCurrentText("centroid_y")
    table.color.activated.emit(table.color.currentIndex())
    until(lambda: table.objects.colors.coloring is not None)
    pump(50)
    assert table.legend.isVisible()
    assert not np.array_equal(layer.colormap.map(np.array([1, 2, whole])), own)
    browser.show_field("C/1", "0")
    until(lambda: browser.position.well == "C/1")
    # Nothing of the field before is seen beside this one.
    listed = table.objects.listed
    assert listed is None or listed.shown.canvas is layer.canvas
    until(lambda: table.objects.colors.coloring is not None)
    assert table.objects.listed.shown.canvas is layer.canvas
    table.color.setCurrentText("own colours")
    table.color.activated.emit(table.color.currentIndex())
    np.testing.assert_array_equal(layer.colormap.map(np.array([1, 2, whole])), own)
    assert not layer.unsaved
    assert bytes_of(root) == before


def classes_listed(table):
    """Return the column of classes as it is seen; by ascending id."""
    column = table.model.columns.index("class")
    rows = range(table.model.rowCount())
    return [table.model.index(row, column).data() for row in rows]


def test_classes_in_the_list_are_those_of_its_labels(viewer, tmp_path):
    pixels = np.zeros((40, 60), "u2")
    pixels[5:15, 5:15], pixels[5:15, 30:50], pixels[25:35, 5:15] = 1, 2, 3
    path = str(tmp_path / "cells.ome.zarr")
    write_image(
        tmp_path / "cells.ome.zarr", pixels, 3, "yx", labels=("nuclei", "spots")
    )
    viewer.open(path, plugin="napari-ngff")
    _, dock = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    table = dock.objects.table

    def see(name, expected):
        viewer.layers.selection.active = viewer.layers[name]
        dock.setKind("objects")
        until(lambda: classes_listed(table) == expected)

    none, some = ["no class"] * 3, ["round", "long", "no class"]
    see("nuclei", none)
    classes = begin_classes(session_of(viewer).annotations, viewer.layers["nuclei"])
    for label, name in ((1, "round"), (2, "long")):
        classes.add_class(name)
        classes.classify(label, name)
    see("nuclei", some)
    see("spots", none)
    classes.save()
    until(lambda: not classes.unsaved)
    viewer.layers.clear()
    viewer.open(path, plugin="napari-ngff")
    see("spots", none)
    see("nuclei", some)
