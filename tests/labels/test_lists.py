"""A list of labels that is made or extended loses nothing that was shown before."""

import json
import shutil

import numpy as np
import pytest

from napari_ngff.labels.create_labels import create_labels
from napari_ngff.labels.places.merge_sidecar import merge
from napari_ngff.labels.places.sidecar import sidecar_location
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.samples import write_image

U1 = np.dtype("u1")


def shown(path):
    return [node.name for node in open_node(path).labels().nodes]


def create(path):
    create_labels(open_node(path), "mine", U1).register()


def merged(path):
    image = open_node(path)
    create_labels(image, "mine", U1, 0, sidecar_location(image)).register()
    merge(sidecar_location(image).source.name, path)


@pytest.mark.parametrize("change", [create, merged])
@pytest.mark.parametrize("document", ["without a list", "missing"])
@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_labels_that_were_in_no_list_stay_shown(tmp_path, version, document, change):
    path = tmp_path / "cells.ome.zarr"
    write_image(path, version, shape=(1, 64, 64))
    file = path / "labels" / (".zattrs" if version == "0.4" else "zarr.json")
    content = json.loads(file.read_text())
    if version == "0.4" and document == "missing":
        file.unlink()
    elif version == "0.4":
        del content["labels"]
        file.write_text(json.dumps(content))
    else:
        del content["attributes"]["ome"]
        if document == "missing":
            del content["attributes"]
        file.write_text(json.dumps(content))
    (path / "labels" / "notes").mkdir()
    before = shown(path)
    assert sorted(before) == ["cells", "nuclei"]
    change(path)
    assert shown(path) == [*before, "mine"]
    content = json.loads(file.read_text())
    home = content if version == "0.4" else content["attributes"]["ome"]
    assert home["labels"] == [*before, "mine"]


def test_what_a_list_leaves_out_stays_out(tmp_path):
    path = tmp_path / "cells.ome.zarr"
    write_image(path, "0.5", shape=(1, 64, 64))
    shutil.copytree(path / "labels/cells", path / "labels/unlisted")
    create(path)
    assert shown(path) == ["nuclei", "cells", "mine"]
