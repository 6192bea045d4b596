"""The status bar of labels that are only in memory."""

from __future__ import annotations

import pytest
from napari.components import ViewerModel
from napari.layers import Image

from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.reader import read_paths
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.session import session_of


@pytest.fixture
def viewer(tmp_path):
    viewer = ViewerModel()
    session_of(viewer)
    path = write_image(tmp_path / "cells.ome.zarr", shape=(64, 64))
    session_of(viewer).add(read_paths(str(path)), str(path))
    return viewer


def test_the_value_of_new_labels_is_shown_without_a_level(viewer):
    labels = new_labels(next(x for x in viewer.layers if isinstance(x, Image)))
    viewer.add_layer(labels)
    viewer.layers.selection.active = labels
    status = labels.get_status((0, 0, 0), world=True)
    viewer.status = {**status, "value": "0, 7", "coordinates": "mine [0 1]: 0, 7"}
    assert viewer.status["coordinates"] == "mine [0 1]: 7"
