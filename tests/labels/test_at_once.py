"""Two that extend the same list at the same time lose nothing of each other's."""

import json
import multiprocessing
import threading

import pytest
import zarr

from napari_ngff.errors import CorruptDataError
from napari_ngff.labels.create_labels import add_to_list
from napari_ngff.labels.label_metadata import read_label_info, write_label_info
from napari_ngff.labels.places.label_location import location_inside
from napari_ngff.metadata.model import LabelInfo
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.sources.folder_store import FolderTransaction
from napari_ngff.viewer.samples import write_image

COUNT = 24


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "cells.ome.zarr"
    write_image(path, shape=(1, 64, 64))
    return path


def enter_all(folder, names):
    home = location_inside(open_node(folder))
    for name in names:
        add_to_list(FolderTransaction(home.source.name), home, name)


def test_names_of_several_threads(folder):
    names = [f"n{number}" for number in range(COUNT)]
    threads = [
        threading.Thread(target=enter_all, args=(folder, names[i::4])) for i in range(4)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert set(names) < set(location_inside(open_node(folder)).label_names())


def test_names_of_two_processes(folder):
    context = multiprocessing.get_context("spawn")
    names = [f"n{number}" for number in range(COUNT)]
    processes = [
        context.Process(target=enter_all, args=(folder, names[i::2])) for i in range(2)
    ]
    for one in processes:
        one.start()
    for one in processes:
        one.join()
        assert one.exitcode == 0
    assert set(names) < set(location_inside(open_node(folder)).label_names())


@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently")
def test_colours_of_two_label_images_reach_the_same_copy(folder):
    zarr.consolidate_metadata(folder)
    labels = [open_node(folder / "labels" / name) for name in ("nuclei", "cells")]

    def recolor(label):
        for number in range(10):
            write_label_info(label, LabelInfo({number + 1: (number, 2, 3, 4)}))

    threads = [threading.Thread(target=recolor, args=(label,)) for label in labels]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    document = json.loads((folder / "zarr.json").read_text())
    copies = document["consolidated_metadata"]["metadata"]
    for label in labels:
        said = copies[f"labels/{label.name}"]["attributes"]["ome"]["image-label"]
        assert {one["label-value"] for one in said["colors"]} == {10}
        assert set(read_label_info(label).colors) == {10}


@pytest.mark.parametrize("labels", ["nuclei", {"nuclei": 1}, None])
def test_what_is_no_list_of_labels_stays(folder, labels):
    file = folder / "labels" / "zarr.json"
    document = json.loads(file.read_text())
    document["attributes"]["ome"]["labels"] = labels
    file.write_text(json.dumps(document))
    home = location_inside(open_node(folder))
    with pytest.raises(CorruptDataError, match="not a list of labels"):
        add_to_list(FolderTransaction(str(folder)), home, "mine")
    assert json.loads(file.read_text()) == document
