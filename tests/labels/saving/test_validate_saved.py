"""After a save the metadata are judged, and what became invalid is reported."""

import json

import numpy as np
import pytest

from napari_ngff.labels.edits import Edit
from napari_ngff.labels.runs import mask_runs
from napari_ngff.labels.saving.validate_saved import find_errors
from napari_ngff.labels.shapes import Mask
from napari_ngff.metadata.dump import dump_image
from napari_ngff.metadata.model import Axis, ImageMetadata, LabelInfo, Level, Multiscale
from napari_ngff.store.sources.folder_store import FolderStore
from saving import levels_of, open_writer, write_levels

AXES = (Axis("y", "space", None), Axis("x", "space", None))


@pytest.fixture
def label(tmp_path):
    folder = tmp_path / "image.zarr" / "labels" / "cells"
    levels = levels_of(np.zeros((32, 32), "u2"), [(16, 16)], "nearest")
    write_levels(folder, levels, (16, 16), dimension_names=("y", "x"))
    scales = [Level(str(i), (2.0**i, 2.0**i), (0.0, 0.0)) for i in range(2)]
    image = ImageMetadata(
        (Multiscale("cells", AXES, tuple(scales)),), label=LabelInfo()
    )
    group = {"zarr_format": 3, "node_type": "group"}
    attributes = dump_image(image, "0.5")
    (folder / "zarr.json").write_text(json.dumps(group | {"attributes": attributes}))
    return folder


def spoil(label):
    document = json.loads((label / "zarr.json").read_text())
    document["attributes"]["ome"]["multiscales"][0]["axes"][0].pop("name", None)
    (label / "zarr.json").write_text(json.dumps(document))


def paint(writer):
    runs = mask_runs(np.ones((4, 4), bool), (2, 2))
    writer.canvas.add_edit(Edit(Mask(runs), (0, 1), (), 7))


def problems_after(label, while_saving=lambda: None):
    writer = open_writer(label, 2)
    paint(writer)
    return writer.save(lambda level, done, total: while_saving()).problems


def test_a_valid_label_image_stays_so(label):
    assert find_errors(FolderStore(str(label.parents[1])), "labels/cells/0") == ()
    assert problems_after(label) == ()


def test_what_became_invalid_is_reported(label):
    first, *_ = problems_after(label, lambda: spoil(label))
    assert first.where.endswith(":ome/multiscales/0/axes/0")


def test_what_was_invalid_before_is_not_reported_again(label):
    spoil(label)
    assert find_errors(FolderStore(str(label)), "0")
    assert problems_after(label) == ()


def test_an_array_in_no_group_has_no_verdict(tmp_path):
    levels = [np.zeros((16, 16), "u2")]
    write_levels(tmp_path / "a", levels, (16, 16))
    assert find_errors(FolderStore(str(tmp_path)), "a/0") == ()
