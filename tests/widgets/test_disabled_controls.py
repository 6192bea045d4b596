"""What a control that cannot be used says to a person who points at it."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from qtpy.QtCore import QEvent
from qtpy.QtGui import QHelpEvent
from qtpy.QtWidgets import (
    QAbstractButton,
    QApplication,
    QComboBox,
    QSpinBox,
    QTabBar,
    QToolTip,
    QWidget,
)

from mouse import pump, until
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.samples import write_image, write_plate
from napari_ngff.widgets.annotate.bridge_form import show_bridge_form
from napari_ngff.widgets.docking import BROWSER, INSPECTOR, show_dock

CONTROLS = (QAbstractButton, QComboBox, QSpinBox)

EXPLAINED = ("Extract",)
"""Buttons below a line that has the reason."""


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    write_image(folder / "cells.ome.zarr", shape=(64, 96))
    write_plate(folder / "plate.ome.zarr", grid=(2, 2), shape=(32, 32))
    return folder


@pytest.fixture
def parts(viewer):
    """The docks and the form, by their names."""
    _, annotate = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    parts = {"inspector": show_dock(viewer, INSPECTOR), "annotate": annotate}
    parts["bridge"] = show_bridge_form(viewer)
    yield parts
    parts["bridge"].window().close()


def read_tip(widget):
    """Point at a control; gives the tool tip that is shown."""
    QToolTip.hideText()
    at = widget.rect().center()
    event = QHelpEvent(QEvent.Type.ToolTip, at, widget.mapToGlobal(at))
    QApplication.sendEvent(widget, event)
    pump()
    return QToolTip.text()


def tips_of(part):
    """Tool tips of all controls of a dock, also of those behind other tabs."""
    return {
        (type(one).__name__, one.accessibleName() or getattr(one, "text", str)()): (
            one.isEnabledTo(part),
            one.toolTip(),
        )
        for one in part.findChildren(QWidget)
        if isinstance(one, CONTROLS) and not isinstance(one.parent(), QTabBar)
    }


def states(viewer, samples, tmp_path):
    """Go through what the window can have, one after the other."""
    yield "nothing"
    path = shutil.copytree(samples / "cells.ome.zarr", tmp_path / "cells.ome.zarr")
    viewer.open(str(path), plugin="napari-ngff")
    viewer.layers.selection.active = viewer.layers[0]
    yield "an image"
    labels = viewer.add_layer(new_labels(viewer.layers[0], "mine"))
    viewer.layers.selection.active = labels
    yield "labels"
    labels.locked = True
    yield "locked labels"
    labels.locked = False
    viewer.add_labels(np.ones((64, 96), "u1"), name="result")
    viewer.layers.selection.active = labels
    yield "a result"


def test_a_disabled_control_states_in_its_tool_tip_what_is_missing(
    viewer, parts, samples, tmp_path
):
    usual, disabled = {}, {}
    for _ in states(viewer, samples, tmp_path):
        pump(50)
        for name, part in parts.items():
            for control, (is_enabled, tip) in tips_of(part).items():
                seen = usual if is_enabled else disabled
                seen.setdefault((name, *control), set()).add(tip)
    assert {("bridge", "QPushButton", "&Merge result")} <= disabled.keys()
    silent = [
        control
        for control, tips in disabled.items()
        if control[-1] not in EXPLAINED
        and ("" in tips or tips & usual.get(control, set()))
    ]
    assert silent == []
    assert {c: tips for c, tips in usual.items() if len(tips) > 1} == {}


def test_merge_result_names_the_missing_step(viewer, parts, samples, tmp_path):
    tips = []
    for _ in states(viewer, samples, tmp_path):
        pump(50)
        tips.append(read_tip(parts["bridge"].put))
    assert tips[:2] == ["Select labels of an OME-Zarr, or make new ones."] * 2
    assert tips[2].startswith("No plugin has made labels here yet")
    assert tips[3].startswith("These labels are read-only or locked")
    assert tips[4] == "Writes the result into the selected labels; undo works."


def test_the_browser_states_what_is_missing(viewer, samples):
    viewer.open(str(samples / "plate.ome.zarr"), plugin="napari-ngff")
    browser = show_dock(viewer, BROWSER)
    until(lambda: browser.controls.buttons)
    (selected,) = [
        one for one in browser.findChildren(QAbstractButton) if one.text() == "Selected"
    ]
    assert not selected.isEnabled()
    assert read_tip(selected) == "Select wells on the map first."
    browser.map.setSelected(["A/1"])
    until(selected.isEnabled)
    assert read_tip(selected) == "Overview of the selected wells"
