"""Few documents are asked for before they are needed, whatever a file lists."""

from __future__ import annotations

from dataclasses import replace

import pytest

from napari_ngff import open_node
from napari_ngff.store.hierarchy.group_documents import CopiedDocuments
from napari_ngff.viewer.layers.contrast import SAMPLED_WELLS
from napari_ngff.viewer.layers.node_contents import MOST_AHEAD, MOST_OF_WELL, keys_ahead
from plates import pixels, write_image, write_plate


def keys_of(node, paths, *, first_image=False, samples_pixels=False):
    copies = {"consolidated_metadata": {"metadata": {key: {} for key in paths}}}
    copied = CopiedDocuments.of_document(copies, "zarr.json")
    node = replace(node, copied=copied)
    return keys_ahead(node, first_image=first_image, samples_pixels=samples_pixels)


@pytest.fixture
def image(tmp_path):
    write_image(tmp_path / "a", pixels(0, (2, 8, 8)), 3)
    return open_node(tmp_path / "a")


@pytest.fixture(scope="module")
def plate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plates") / "p"
    return open_node(write_plate(folder, grid=(4, 6), fields=1))


def test_nothing_is_asked_for_without_copies(image, plate):
    assert keys_of(image, ()) == keys_of(plate, ()) == []


def test_all_documents_of_an_image_are_asked_for(image):
    paths = ["0", "1", "labels", "labels/a", "labels/a/0"]
    assert sorted(keys_of(image, paths)) == sorted(f"{p}/zarr.json" for p in paths)


def test_a_list_of_any_length_is_cut(image, plate):
    many = [f"labels/{number}" for number in range(5000)]
    keys = keys_of(image, ["labels", *many])
    assert len(keys) == MOST_AHEAD
    assert keys[0] == "labels/zarr.json"
    inside = [
        f"{row}/{column}/{i}"
        for row in "ABCD"
        for column in "123456"
        for i in range(500)
    ]
    keys = keys_of(plate, inside, samples_pixels=True)
    assert len(keys) <= MOST_AHEAD + SAMPLED_WELLS * MOST_OF_WELL


def test_of_a_plate_the_first_well_and_some_others_are_asked_for(plate):
    inner = ["", "/0", "/0/0", "/0/1", "/0/labels", "/0/labels/a", "/0/labels/a/0"]
    paths = [f"{r}/{c}{part}" for r in "ABCD" for c in "123456" for part in inner]
    keys = keys_of(plate, paths)
    assert sorted(keys) == sorted(f"A/1{part}/zarr.json" for part in inner)
    keys = keys_of(plate, paths, samples_pixels=True)
    assert len({key[:3] for key in keys}) == SAMPLED_WELLS
    # Well, image and finest level.
    last = [key for key in keys if key.startswith("D/6")]
    assert last == ["D/6/zarr.json", "D/6/0/zarr.json", "D/6/0/0/zarr.json"]
