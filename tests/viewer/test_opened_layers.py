"""Labels of napari's own button, beside an OME-Zarr and elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_ngff.viewer import opened_layers
from napari_ngff.viewer.reader import read_paths
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.session import session_of


@pytest.fixture
def reported(monkeypatch):
    messages = []
    monkeypatch.setattr(opened_layers, "show_info", messages.append)
    return messages


@pytest.fixture
def viewer(tmp_path):
    viewer = ViewerModel()
    session_of(viewer)
    path = write_image(tmp_path / "cells.ome.zarr", shape=(64, 64))
    session_of(viewer).add(read_paths(str(path)), str(path))
    return viewer


def test_a_notice_is_shown_once(viewer, reported):
    viewer._new_labels()
    viewer._new_labels()
    (text,) = reported
    assert text.splitlines()[0] == "Only in memory: labels without a file."
    assert "Save as" in text
    assert "New labels" in text


def test_other_labels_are_not_spoken_of(viewer, reported):
    viewer.add_labels(np.zeros((64, 64), "u2"), name="segmented")
    viewer.layers.clear()
    viewer._new_labels()
    assert reported == []
