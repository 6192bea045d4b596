"""What another program saves while a document is changed stays in it."""

import shutil

import numpy as np
import pytest
import zarr

from napari_ngff.errors import ConflictError
from napari_ngff.labels.create_labels import create_labels
from napari_ngff.labels.places.label_list import change_list
from napari_ngff.labels.places.label_location import location_inside
from napari_ngff.store.hierarchy.edit_document import change_document
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.samples import write_image

TIMES = (1, 2)


class Foreign:
    """A program that saves a document, and takes no turns, some times."""

    def __init__(self, group, times=1, zarr_format=None):
        self.group, self.left, self.zarr_format = group, times, zarr_format

    def save(self):
        if self.left:
            self.left -= 1
            group = zarr.open_group(self.group, mode="a", zarr_format=self.zarr_format)
            attributes = dict(group.attrs)
            is_newer = group.metadata.zarr_format == 3
            home = attributes.setdefault("ome", {}) if is_newer else attributes
            home["labels"] = [*home.get("labels", []), f"theirs {self.left}"]
            group.attrs.put(attributes)


def listed(group):
    home = dict(zarr.open_group(group, mode="r").attrs)
    return home.get("ome", home)["labels"]


@pytest.fixture(params=["0.4", "0.5"])
def image(request, tmp_path):
    write_image(tmp_path / "a.ome.zarr", request.param, shape=(64, 64))
    shutil.rmtree(tmp_path / "a.ome.zarr/labels", ignore_errors=True)
    return tmp_path / "a.ome.zarr"


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("is_new", [False, True])
def test_a_list_of_labels_gets_the_names_of_both(image, is_new, times):
    node = open_node(str(image))
    if not is_new:
        new = create_labels(node, "first", np.dtype("u1"))
        new.register()
    zarr_format = {"0.4": 2, "0.5": 3}[node.metadata.version]
    foreign = Foreign(image / "labels", times, zarr_format)

    def append(names):
        foreign.save()
        return [*(names or []), "ours"]

    transaction = node.location.source.begin()
    change_list(transaction, location_inside(node), append)
    others = [f"theirs {n}" for n in reversed(range(times))]
    assert listed(image / "labels") == ["first"] * (not is_new) + [*others, "ours"]


def test_attributes_of_a_group_keep_what_another_program_adds(image):
    foreign = Foreign(image)

    def name_it(home):
        foreign.save()
        home["multiscales"][0]["name"] = "ours"

    change_document(open_node(str(image)), name_it)
    node = open_node(str(image))
    assert listed(image) == ["theirs 0"]
    assert node.metadata.image.multiscales[0].name == "ours"


def test_a_document_that_never_rests_is_left(image):
    foreign = Foreign(image, times=99)
    with pytest.raises(ConflictError, match="changed by another program"):
        change_document(open_node(str(image)), lambda _: foreign.save() or _.clear())
    assert open_node(str(image)).metadata.image is not None
