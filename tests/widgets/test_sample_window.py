"""Samples from the menu: painted, undone and saved like any other OME-Zarr."""

from __future__ import annotations

import numpy as np
import pytest
import zarr
from napari.layers import Image

from mouse import pump
from napari_ngff.viewer.painting import painted_layers
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.samples import cells_path, plate_path, stack_path

PLUGIN = "napari-ngff"


@pytest.fixture
def reported(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    messages = []
    monkeypatch.setattr("napari.utils.notifications.show_info", messages.append)
    return messages


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "path"), [("cells", cells_path), ("stack", stack_path)]
)
def test_labels_of_a_sample_are_painted_undone_and_saved(
    viewer, reported, tmp_path, key, path
):
    added = viewer.open_sample(PLUGIN, key)
    where = path()
    assert tmp_path in where.parents
    assert all(isinstance(layer, Image) for layer in added)
    nuclei = viewer.layers["nuclei"]
    assert isinstance(nuclei, OMEZarrLabels)
    assert nuclei.editable
    assert str(where) in reported[0]
    pump(200)
    names = [layer.name for layer in viewer.layers]
    assert names[-2:] == ["nuclei", "cells"], "labels lie on top"
    # As of any segmentation that is opened: the user selects what is painted on.
    assert isinstance(viewer.layers.selection.active, Image)
    at = (0, 40, 50)
    before = np.asarray(nuclei.data[0][at]).item()
    label = nuclei.next_label()
    nuclei.paint(at, label)
    nuclei.undo()
    assert np.asarray(nuclei.data[0][at]).item() == before
    nuclei.paint(at, label)
    nuclei.saver.save()
    for _ in range(100):
        if not nuclei.unsaved:
            break
        pump(50)
    array = zarr.open_array(where / "labels" / "nuclei" / "0", mode="r")
    assert array[at] == label
    viewer.layers.clear()
    viewer.open_sample(PLUGIN, key)
    assert np.asarray(viewer.layers["nuclei"].data[0][at]).item() == label


@pytest.mark.long
def test_labels_of_the_plate_say_where_to_paint(viewer, reported):
    viewer.open_sample(PLUGIN, "plate")
    assert plate_path().exists()
    labels = [x for x in viewer.layers if isinstance(x, OMEZarrLabels)]
    assert len(labels) == 2
    assert not any(layer.editable for layer in labels)
    status = labels[0].get_status((0,) * labels[0].ndim)["coordinates"]
    assert painted_layers.OVERVIEW in status
    assert not reported
