"""The list of objects in a window: filtered, coloured, and of the field on screen."""

from __future__ import annotations

import numpy as np
from qtpy.QtCore import QPoint, Qt
from qtpy.QtTest import QTest

from mouse import pump, until
from napari_ngff.viewer.session import session_of
from pipeline_plate import bytes_of, write_pipeline_plate


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
    until(lambda: table.objects.coloring is not None)
    pump(50)
    assert table.legend.isVisible()
    assert not np.array_equal(layer.colormap.map(np.array([1, 2, whole])), own)
    browser.show_field("C/1", "0")
    until(lambda: browser.position.well == "C/1")
    # Nothing of the field before is seen beside this one.
    listed = table.objects.listed
    assert listed is None or listed.shown.canvas is layer.canvas
    until(lambda: table.objects.coloring is not None)
    assert table.objects.listed.shown.canvas is layer.canvas
    table.color.setCurrentText("own colours")
    table.color.activated.emit(table.color.currentIndex())
    np.testing.assert_array_equal(layer.colormap.map(np.array([1, 2, whole])), own)
    assert not layer.unsaved
    assert bytes_of(root) == before
