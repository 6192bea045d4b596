"""Label images are taken out of their image, put back as they were, and renamed."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
import zarr

from napari_ngff.errors import (
    ConflictError,
    CorruptDataError,
    NameTakenError,
    UnsupportedError,
)
from napari_ngff.labels.create_labels import create_labels
from napari_ngff.labels.object_classes import ClassChanges, ObjectClass
from napari_ngff.labels.places.copy_labels import copy_labels
from napari_ngff.labels.places.listed_labels import delete_labels, rename_labels
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.annotations.object_class_table import (
    list_class_tables,
    read_class_table,
    write_classes,
)
from napari_ngff.viewer.samples import write_image
from plates import write_plate

RED = (255, 0, 0, 255)


def files_of(folder):
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            if name == ".zmetadata":
                continue
            found[name] = path.read_bytes()
            # Lists and copies are written anew, in the form of ours.
            if path.name in ("zarr.json", ".zmetadata", ".zattrs"):
                found[name] = json.loads(found[name])
    return found


def members_of(folder):
    """Read by zarr-python, by the copies if there are any."""
    found = zarr.open_group(folder, mode="r").members(max_depth=None)
    return {name: dict(member.attrs) for name, member in found}


def listed(folder):
    return [node.name for node in open_node(str(folder)).labels().nodes]


@pytest.mark.filterwarnings("ignore:.*Consolidated metadata")
@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("version", ["0.4", "0.5", "0.6"])
def test_what_is_put_back_is_as_it_was(tmp_path, version, consolidated):
    folder = write_image(tmp_path / "cells.ome.zarr", version, shape=(48, 48))
    if consolidated:
        zarr.consolidate_metadata(str(folder))
    before, names = files_of(folder), listed(folder)
    members = members_of(folder)
    undo, finish = delete_labels(open_node(str(folder / "labels/nuclei")))
    assert listed(folder) == [name for name in names if name != "nuclei"]
    assert not (folder / "labels/nuclei").exists()
    assert "nuclei" not in zarr.open_group(folder, mode="r")["labels"]
    undo()
    finish()
    assert files_of(folder) == before
    assert (listed(folder), members_of(folder)) == (names, members)
    _, finish = delete_labels(open_node(str(folder / "labels/nuclei")))
    finish()
    after = files_of(folder)
    assert {name.split("/")[1] for name in before.keys() - after.keys()} == {"nuclei"}
    assert not list((folder / "labels").glob(".*aside"))


def test_names_of_others_stay_in_the_list(tmp_path):
    folder = write_image(tmp_path / "cells.ome.zarr", shape=(48, 48))
    first, second = (open_node(str(folder / "labels" / x)) for x in listed(folder))
    names = listed(folder)
    undo_first, finish_first = delete_labels(first)
    undo_second, finish_second = delete_labels(second)
    assert listed(folder) == []
    undo_second()
    undo_first()
    finish_first()
    finish_second()
    assert sorted(listed(folder)) == sorted(names)


def test_labels_of_a_field_and_of_a_sidecar(tmp_path):
    plate = write_plate(
        tmp_path / "p.ome.zarr",
        grid=(1, 1),
        fields=1,
        shape=(1, 32, 32),
        labelled=lambda _: ("cells", "nuclei"),
    )
    field = plate / "A/1/0"
    copy_labels(open_node(str(field / "labels/cells")), open_node(str(field)))
    sidecar = next(tmp_path.glob("*labels*"))
    (name,) = [x.name for x in sidecar.iterdir() if x.is_dir()]
    for place, left in ((field / "labels/cells", field), (sidecar / name, sidecar)):
        before = files_of(tmp_path)
        undo, finish = delete_labels(open_node(str(place)))
        assert not place.exists()
        undo()
        finish()
        assert files_of(tmp_path) == before, left
    _, finish = delete_labels(open_node(str(field / "labels/cells")))
    finish()
    assert listed(field) == ["nuclei"]


def test_a_list_that_cannot_be_read_stays_with_its_labels(tmp_path):
    folder = write_image(tmp_path / "cells.ome.zarr", "0.4", shape=(48, 48))
    label = open_node(str(folder / "labels/nuclei"))
    (folder / "labels/.zattrs").write_text('{"labels": 3}')
    before = files_of(folder)
    with pytest.raises(CorruptDataError):
        delete_labels(label)
    assert files_of(folder) == before


def test_what_a_process_that_ended_has_left_is_removed(tmp_path):
    folder = write_image(tmp_path / "cells.ome.zarr", shape=(48, 48))
    delete_labels(open_node(str(folder / "labels/nuclei")))  # and forget it
    assert list((folder / "labels").glob(".*aside"))
    FolderStore(str(folder)).begin().recover("labels/nuclei")
    assert not list((folder / "labels").glob(".*aside"))
    assert listed(folder) == ["cells"]


@pytest.mark.filterwarnings("ignore:.*Consolidated metadata")
@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_zarr_opens_an_image_with_tables_after_labels_came_back(tmp_path, version):
    folder = write_image(tmp_path / "cells.ome.zarr", version, shape=(48, 48))
    zarr.open_group(folder, mode="r+").create_group("tables").create_group("sizes")
    zarr.consolidate_metadata(str(folder))
    members = members_of(folder)
    undo, finish = delete_labels(open_node(str(folder / "labels/nuclei")))
    undo()
    finish()
    assert members_of(folder) == members


@pytest.mark.parametrize("replace", [False, True])
def test_new_labels_of_that_name_make_it_final(tmp_path, replace):
    folder = write_image(tmp_path / "cells.ome.zarr", shape=(48, 48))
    undo, finish = delete_labels(open_node(str(folder / "labels/nuclei")))
    image = open_node(str(folder))
    made = create_labels(image, "nuclei", np.dtype(np.uint8), replace=replace)
    made.register()
    after = files_of(folder)
    with pytest.raises(UnsupportedError, match="the deleted ones are gone"):
        undo()
    finish()
    assert files_of(folder) == after
    assert sorted(listed(folder)) == ["cells", "nuclei"]
    # They can be deleted, too, and come back.
    undo_second, finish = delete_labels(open_node(str(folder / "labels/nuclei")))
    undo_second()
    finish()
    assert not list((folder / "labels").glob(".*aside"))
    assert sorted(listed(folder)) == ["cells", "nuclei"]


def test_who_replaces_what_others_make_is_not_asked_again(tmp_path):
    image = open_node(str(write_image(tmp_path / "cells.ome.zarr", shape=(48, 48))))
    made = create_labels(image, "new", np.dtype(np.uint8))
    with pytest.raises(ConflictError, match="is being made by another window"):
        create_labels(image, "new", np.dtype(np.uint8), replace=True)
    made.abandon()


def rename(folder, old, new):
    image = open_node(str(folder))
    rename_labels(image, open_node(str(folder / "labels" / old)), new)


def add_table(folder, labels, name):
    """Have a table of others about a label image, with the same rows as its classes."""
    group = folder / "tables"
    shutil.copytree(group / f"{labels}_classes", group / name)
    form = ".zattrs" if (group / ".zattrs").exists() else "zarr.json"
    for path, change in (
        (group / form, lambda found: found["tables"].append(name)),
        (group / name / form, lambda found: found.pop("napari-ngff")),
    ):
        document = json.loads(path.read_text())
        change(document.get("attributes", document))
        path.write_text(json.dumps(document))


def check_by_others(folder, labels, pixels, version):
    """See that ngio and ome-zarr-models read the labels, and the tables about them."""
    ngio = pytest.importorskip("ngio")
    from ome_zarr_models.v04.labels import Labels as Old
    from ome_zarr_models.v05.labels import Labels as New

    model = Old if version == "0.4" else New
    attributes = model.from_zarr(
        zarr.open_group(folder / "labels", mode="r")
    ).attributes
    assert sorted(getattr(attributes, "ome", attributes).labels) == sorted(
        ["cells", labels]
    )
    image = ngio.open_ome_zarr_container(str(folder))
    assert sorted(image.list_labels()) == sorted(["cells", labels])
    assert np.array_equal(image.get_label(labels).get_array().squeeze(), pixels)
    for table in ("nuclei_classes", "sizes"):
        assert image.get_feature_table(table).reference_label == labels


@pytest.mark.filterwarnings("ignore:.*(Consolidated metadata|not recognized)")
@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("version", ["0.4", "0.5", "0.6"])
@pytest.mark.parametrize("new", ["kerne", "Zellkörper"])
def test_all_that_names_labels_has_the_new_name(tmp_path, new, version, consolidated):
    folder = write_image(tmp_path / "cells.ome.zarr", version, shape=(48, 48))
    for labels in ("nuclei", "cells"):
        changes = ClassChanges(labels, (ObjectClass("round", RED),), {3: "round"})
        write_classes(open_node(str(folder)), changes)
    add_table(folder, "nuclei", "sizes")
    if consolidated:
        zarr.consolidate_metadata(str(folder))
    before, names, members = files_of(folder), listed(folder), members_of(folder)
    pixels = zarr.open_array(folder / "labels/nuclei/0", mode="r")[...]
    rename(folder, "nuclei", new)
    assert listed(folder) == [new if name == "nuclei" else name for name in names]
    assert not (folder / "labels/nuclei").exists()
    group = zarr.open_group(folder, mode="r")
    assert "nuclei" not in group["labels"]
    assert np.array_equal(group[f"labels/{new}/0"][...], pixels)
    for table, about in (
        ("nuclei_classes", new),
        ("sizes", new),
        ("cells_classes", "cells"),
    ):
        assert group[f"tables/{table}"].attrs["region"]["path"] == f"../labels/{about}"
    image = open_node(str(folder))
    assert list_class_tables(image)[new] == "nuclei_classes"
    found = read_class_table(image, "nuclei_classes")
    assert found.classes.class_of == {3: "round"}
    if version != "0.6":
        check_by_others(folder, new, pixels, version)
    rename(folder, new, "nuclei")
    assert files_of(folder) == before
    assert (listed(folder), members_of(folder)) == (names, members)
    assert not list(folder.rglob("*.aside"))


def test_labels_of_one_field_are_renamed(tmp_path):
    plate = write_plate(
        tmp_path / "p.ome.zarr",
        grid=(1, 2),
        fields=1,
        shape=(1, 32, 32),
        labelled=lambda _: ("cells", "nuclei"),
    )
    before = files_of(plate / "A/2")
    rename(plate / "A/1/0", "nuclei", "kerne")
    assert listed(plate / "A/1/0") == ["cells", "kerne"]
    assert files_of(plate / "A/2") == before
    copy_labels(
        open_node(str(plate / "A/1/0/labels/cells")), open_node(plate / "A/1/0")
    )
    sidecar = next(tmp_path.glob("*labels*"))
    (label,) = [x for x in sidecar.iterdir() if x.is_dir()]
    with pytest.raises(UnsupportedError, match="Merge it into its image"):
        rename_labels(open_node(str(plate / "A/1/0")), open_node(str(label)), "mine")


@pytest.mark.parametrize(
    ("new", "error"),
    [
        ("cells", NameTakenError),
        ("CELLS", NameTakenError),
        ("a/b", UnsupportedError),
        ("", UnsupportedError),
    ],
)
def test_a_name_that_cannot_be_is_refused(tmp_path, new, error):
    folder = write_image(tmp_path / "cells.ome.zarr", shape=(48, 48))
    before = files_of(folder)
    with pytest.raises(error):
        rename(folder, "nuclei", new)
    assert files_of(folder) == before
    assert not list(folder.rglob("*.aside"))


@pytest.mark.parametrize("case", ["no list", "not in the list", "damaged list"])
def test_labels_are_renamed_whatever_the_list_says(tmp_path, case):
    folder = write_image(tmp_path / "cells.ome.zarr", "0.4", shape=(48, 48))
    path = folder / "labels/.zattrs"
    if case == "no list":
        path.unlink()
    else:
        path.write_text('{"labels": %s}' % ('["cells"]' if "not" in case else 3))
    before = files_of(folder)
    if case == "damaged list":
        with pytest.raises(CorruptDataError):
            rename(folder, "nuclei", "kerne")
        assert files_of(folder) == before
    else:
        rename(folder, "nuclei", "kerne")
        assert listed(folder) == ["cells", "kerne"]
        assert not (folder / "labels/nuclei").exists()
    assert not list(folder.rglob("*.aside"))


@pytest.mark.parametrize("links", [True, False])
def test_what_another_process_saves_meanwhile_goes_along(tmp_path, monkeypatch, links):
    folder = write_image(tmp_path / "cells.ome.zarr", shape=(48, 48))
    chunk = folder / "labels/nuclei/0/c/0/0"
    link, rename_path = os.link, os.rename

    def save_and_rename(source, target):
        if str(target) == str(folder / "labels/kerne"):  # the files have both names
            chunk.with_name("theirs").write_bytes(b"theirs")
            rename_path(chunk.with_name("theirs"), chunk)
        rename_path(source, target)

    def refuse(*_, **__):
        raise OSError("no links on this disk")

    monkeypatch.setattr(os, "rename", save_and_rename)
    monkeypatch.setattr(os, "link", link if links else refuse)
    rename(folder, "nuclei", "kerne")
    assert (folder / "labels/kerne/0/c/0/0").read_bytes() == b"theirs"
