"""An image and its labels are opened together; what cannot be opened hides nothing."""

from __future__ import annotations

import shutil

import pytest

from napari_ngff import open_node
from napari_ngff.errors import UnsupportedError
from napari_ngff.store.pyramids.pyramid import (
    open_images,
    open_pyramids,
    open_with_labels,
)
from plates import pixels, write_image

DATA = pixels(0, (2, 16, 16))


@pytest.fixture
def image(tmp_path):
    write_image(tmp_path / "a", DATA, 3, labels=("nuclei", "cells"))
    return tmp_path / "a"


def test_an_image_is_opened_with_its_labels(image):
    (opened,) = open_images([open_node(image)])
    assert [level.shape for level in opened.pyramid.levels] == [(2, 16, 16), (2, 8, 8)]
    assert [node.name for node in opened.labels.nodes] == ["nuclei", "cells"]
    shapes = [one.levels[0].shape for one in opened.label_pyramids]
    assert shapes == [(16, 16), (16, 16)]


def test_labels_of_several_images_stay_with_their_image(tmp_path):
    write_image(tmp_path / "a", DATA, 3, labels=("one",))
    write_image(tmp_path / "b", DATA, 3)
    write_image(tmp_path / "c", DATA, 3, labels=("two", "three"))
    opened = open_images([open_node(tmp_path / name) for name in "abc"])
    names = [[node.name for node in one.labels.nodes] for one in opened]
    assert names == [["one"], [], ["two", "three"]]
    assert [len(one.label_pyramids) for one in opened] == [1, 0, 2]


def test_labels_are_opened_where_the_image_cannot_be(image):
    for level in "01":
        shutil.rmtree(image / level)
    shutil.rmtree(image / "labels" / "cells" / "0")
    shutil.rmtree(image / "labels" / "cells" / "1")
    (opened,) = open_images([open_node(image)])
    assert isinstance(opened.pyramid, UnsupportedError)
    assert opened.label_pyramids[0].levels
    assert isinstance(opened.label_pyramids[1], UnsupportedError)


def test_a_label_image_has_no_labels(image):
    node = open_node(image / "labels" / "nuclei")
    (opened,) = open_images([node])
    assert opened.labels.nodes == opened.label_pyramids == ()
    assert open_with_labels(node)[0].levels


def test_nothing_is_opened_of_nothing():
    assert open_images([]) == open_pyramids([]) == []
