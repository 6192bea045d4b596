"""A label image takes the place of another, or leaves it as it was."""

import numpy as np
import pytest
import zarr

from napari_ngff.errors import NameTakenError
from napari_ngff.labels.creation import create_labels
from napari_ngff.labels.places.replacement import REPLACED, UNFINISHED
from napari_ngff.store.node import open_node
from napari_ngff.viewer.samples import write_image

U1 = np.dtype("u1")


@pytest.fixture(params=["0.4", "0.5"])
def folder(request, tmp_path):
    path = tmp_path / "cells.ome.zarr"
    write_image(path, request.param, shape=(1, 64, 64))
    return path


def files(folder):
    place = folder / "labels"
    return {
        str(f.relative_to(place)): f.read_bytes()
        for f in place.rglob("*")
        if f.is_file()
    }


def replaced(folder, **options):
    return create_labels(open_node(str(folder)), "nuclei", U1, **options)


def test_a_name_that_is_taken_is_refused_and_a_free_one_told(folder):
    before = files(folder)
    with pytest.raises(NameTakenError, match="nuclei-2 is free") as caught:
        replaced(folder)
    assert (caught.value.name, caught.value.free) == ("nuclei", "nuclei-2")
    assert files(folder) == before


def test_what_is_replaced_is_there_until_the_new_one_is_registered(folder):
    before = files(folder)
    made = replaced(folder, replace=True)
    aside = {
        name.replace(f"nuclei{REPLACED}", "nuclei"): data
        for name, data in files(folder).items()
        if REPLACED in name
    }
    assert aside == {k: v for k, v in before.items() if k.startswith("nuclei/")}
    made.register()
    assert not [
        name for name in files(folder) if REPLACED in name or UNFINISHED in name
    ]
    assert zarr.open_array(folder / "labels/nuclei/0", mode="r").dtype == U1
    node = open_node(str(folder))
    assert [label.name for label in node.labels().nodes].count("nuclei") == 1
    others = {k: v for k, v in before.items() if not k.startswith("nuclei/")}
    assert files(folder).items() >= others.items()


def test_abandoned_it_is_as_it_was(folder):
    before = files(folder)
    replaced(folder, replace=True).abandon()
    assert files(folder) == before


@pytest.mark.parametrize("replace", [True, False])
def test_an_interrupted_replacement_is_undone_by_the_next(folder, replace):
    before = files(folder)
    replaced(folder, replace=True)
    if replace:
        replaced(folder, replace=True).abandon()
    else:
        with pytest.raises(NameTakenError):
            replaced(folder)
    assert files(folder) == before


def test_killed_between_two_moves_nothing_is_lost(folder):
    before = files(folder)
    labels = folder / "labels"
    (labels / "nuclei").rename(labels / f"nuclei{REPLACED}")
    with pytest.raises(NameTakenError):
        replaced(folder)
    assert files(folder) == before


def test_killed_after_it_is_whole_the_old_one_goes(folder):
    made = replaced(folder, replace=True)
    made.register()
    (folder / "labels/nuclei" / UNFINISHED).touch()
    (folder / "labels" / f"nuclei{REPLACED}").mkdir()
    with pytest.raises(NameTakenError):
        replaced(folder)
    assert not (folder / "labels" / f"nuclei{REPLACED}").exists()
    assert zarr.open_array(folder / "labels/nuclei/0", mode="r").dtype == U1


def test_somebody_s_labels_of_that_name_stay(folder):
    other = folder / "labels" / f"nuclei{REPLACED}"
    (folder / "labels" / "cells").rename(other)
    before = files(folder)
    with pytest.raises(NameTakenError, match=REPLACED):
        replaced(folder, replace=True)
    assert files(folder) == before
