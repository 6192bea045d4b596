"""The sign of unsaved changes in the status bar is seen whatever else is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from qtpy.QtCore import QRect, qInstallMessageHandler

from journals import discard_edits
from mouse import press_save, pump, until
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.forms import DefaultReaderOffer
from napari_ngff.widgets.status_signs import UnsavedSign


@pytest.fixture
def layer(viewer, tmp_path):
    use_workers()
    path = write_image(tmp_path / "cells.ome.zarr", shape=(200, 240))
    viewer.open(str(path), plugin="napari-ngff")
    viewer.layers.selection.active = viewer.layers["nuclei"]
    viewer.window.resize(900, 600)
    pump(100)
    return viewer.layers["nuclei"]


def sign_of(viewer):
    return viewer.window._qt_window.findChild(UnsavedSign)


def is_seen(viewer):
    """Return whether all of the sign is inside the window."""
    sign, window = sign_of(viewer), viewer.window._qt_window
    if not sign.isVisible():
        return False
    corner = sign.mapTo(window, sign.rect().topLeft())
    assert sign.width() >= sign.sizeHint().width(), "no letter is cut off"
    return QRect(window.rect()).contains(QRect(corner, sign.size()))


@pytest.mark.long
@pytest.mark.parametrize("several", [False, True], ids=["one", "several"])
def test_values_of_any_length_leave_it_in_the_window(viewer, layer, several):
    assert not sign_of(viewer).isVisible()
    layer.paint((20, 30), 7)
    until(lambda: is_seen(viewer))
    values = ", ".join(f"class {n}: {n * 1.25}" for n in range(200))
    if several:  # napari shows one text for all that are selected
        viewer.status = f"[20 30] » nuclei: {values}"
    else:
        viewer.status = {
            "layer_base": "nuclei", "source_type": "", "plugin": "OME-Zarr",
            "coordinates": f"[20 30]: {values}",
        }  # fmt: skip
    pump(200)
    assert is_seen(viewer)
    assert "nuclei" in sign_of(viewer).toolTip()
    press_save(viewer, layer)
    until(lambda: not sign_of(viewer).isVisible())


def test_it_goes_when_changes_are_undone_or_given_up(viewer, layer):
    layer.paint((20, 30), 7)
    until(lambda: is_seen(viewer))
    layer.undo()
    until(lambda: not sign_of(viewer).isVisible())
    layer.paint((20, 30), 7)
    until(lambda: is_seen(viewer))
    # Edits of an earlier session wait in another field.
    recovery = session_of(viewer).recovery
    recovery._set_wanted({Path("journal"): "B3, field 0"})
    assert sign_of(viewer).text() == "Unsaved changes"
    assert "B3, field 0" in sign_of(viewer).toolTip()
    discard_edits(layer.saver)
    viewer.layers.remove(layer)
    until(lambda: sign_of(viewer).text() == "Unsaved edits in B3, field 0")
    assert is_seen(viewer)
    recovery._set_wanted({})
    assert not sign_of(viewer).isVisible()


@pytest.mark.long
def test_qt_warns_of_nothing_in_the_status_bar(viewer, layer):
    warnings = []
    before = qInstallMessageHandler(lambda kind, context, text: warnings.append(text))
    try:
        offer = DefaultReaderOffer(viewer.window._qt_window)
        layer.paint((20, 30), 7)
        pump(100)
    finally:
        qInstallMessageHandler(before)
    assert offer.isVisible()
    assert [text for text in warnings if "StatusBar" in text] == []
    discard_edits(layer.saver)
    offer.deleteLater()
