"""A label image takes the place of another, or leaves it as it was."""

import shutil

import numpy as np
import pytest
import zarr

from napari_ngff.errors import NameTakenError
from napari_ngff.labels.create_labels import create_labels
from napari_ngff.store.hierarchy.node import open_node
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


def test_a_name_that_is_taken_is_refused_and_a_free_one_proposed(folder):
    before = files(folder)
    with pytest.raises(NameTakenError, match="nuclei-2 is free") as caught:
        replaced(folder)
    assert (caught.value.name, caught.value.free) == ("nuclei", "nuclei-2")
    assert files(folder) == before


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize(
    ("there", "name"),
    [("Caf\u00e9", "Cafe\u0301"), ("Cafe\u0301", "Caf\u00e9"), ("Zellen", "zellen")],
)
def test_a_name_that_would_be_the_same_folder_elsewhere_is_taken(
    folder, there, name, replace
):
    node = open_node(str(folder))
    create_labels(node, there, U1).register()
    before = files(folder)
    with pytest.raises(NameTakenError, match="-2 is free"):
        create_labels(node, name, U1, replace=replace)
    assert files(folder) == before


def test_what_is_replaced_is_there_until_the_new_one_is_registered(folder):
    before = files(folder)
    made = replaced(folder, replace=True)
    now = files(folder)
    assert {name: now[name] for name in before} == before
    made.register()
    assert not list(folder.rglob("*.aside"))
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


def test_a_name_that_another_is_making_is_taken(folder):
    made = create_labels(open_node(str(folder)), "mine", U1)
    with pytest.raises(NameTakenError, match="mine-2 is free"):
        create_labels(open_node(str(folder)), "mine", U1)
    made.register()
    names = [label.name for label in open_node(str(folder)).labels().nodes]
    assert names.count("mine") == 1


@pytest.mark.parametrize("ending", ["replaced", "before", "widening", "0a1b2c3d.aside"])
@pytest.mark.parametrize("dot", ["", "."])
def test_somebody_s_labels_of_any_name_stay(folder, ending, dot):
    name = f"{dot}nuclei.{ending}"
    (folder / "labels" / "cells").rename(folder / "labels" / name)
    file = folder / "labels" / (".zattrs" if version_of(folder) == 2 else "zarr.json")
    file.write_text(file.read_text().replace('"cells"', f'"{name}"'))
    shown = [label.name for label in open_node(str(folder)).labels().nodes]
    assert name in shown
    before = {k: v for k, v in files(folder).items() if k.startswith(f"{name}/")}
    shutil.rmtree(folder / "labels" / "nuclei")
    for _ in range(2):
        replaced(folder, replace=True).register()
        node = open_node(str(folder))
        assert [label.name for label in node.labels().nodes] == shown
        assert files(folder).items() >= before.items()


def version_of(folder):
    return 2 if (folder / ".zattrs").exists() else 3
