"""What a node shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from napari_ngff.metadata.model import LabelInfo, LabelKind
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.layers.node_contents import open_contents
from napari_ngff.viewer.samples import write_plate
from plates import write_image
from plates import write_plate as write_tiny_plate


def test_colours_and_properties_of_one_field_are_not_given_to_others(
    tmp_path: Path,
) -> None:
    where = write_plate(tmp_path / "x.zarr", grid=(1, 2), shape=(64, 64), fields=1)
    (plate,) = open_contents(open_node(where)).groups
    assert [label.name for label in plate.labels] == ["nuclei", "cells"]
    objects = LabelInfo(kind=LabelKind.OBJECTS)
    assert [label.label for label in plate.labels] == [objects, objects]
    (well,) = open_contents(open_node(where / "A" / "2")).groups
    own = open_node(where / "A/2/0/labels/nuclei").metadata.image
    assert own is not None
    assert own.label is not None
    assert well.labels[0].label == own.label


def test_a_well_names_the_acquisition_it_shows(tmp_path: Path) -> None:
    where = write_tiny_plate(tmp_path / "x", grid=(1, 1), fields=1, acquisitions=2)
    found = open_contents(open_node(where / "A/1"))
    assert found.notes == (
        (
            "One of several acquisitions is shown.",
            "A1: round 0. Choose others in the browser.",
        ),
    )
    assert found.messages == (), "nothing is wrong with the file"
    where = write_tiny_plate(tmp_path / "y", grid=(1, 1), fields=2)
    assert open_contents(open_node(where / "A/1")).notes == ()


@pytest.mark.parametrize("stated", ["image", "/", "", "kidney"])
def test_an_image_has_the_name_of_its_file_where_it_states_none_of_its_own(
    tmp_path: Path, stated: str
) -> None:
    """ome-zarr-py calls each image "image": two of them would be confused."""
    folder = tmp_path / "liver.ome.zarr"
    write_image(folder, np.ones((1, 32, 32), "u2"), 2, name=stated)
    (group,) = open_contents(open_node(folder)).groups
    assert group.image is not None
    assert group.image.name == ("kidney" if stated == "kidney" else "liver")
