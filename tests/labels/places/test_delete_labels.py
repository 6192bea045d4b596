"""Label images are taken out of their image, and put back as they were."""

from __future__ import annotations

import json

import numpy as np
import pytest
import zarr

from napari_ngff.errors import ConflictError, CorruptDataError, UnsupportedError
from napari_ngff.labels.create_labels import create_labels
from napari_ngff.labels.places.copy_labels import copy_labels
from napari_ngff.labels.places.delete_labels import delete_labels
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.sources.folder_source import FolderSource
from napari_ngff.store.write.begin import begin_transaction
from napari_ngff.viewer.samples import write_image
from plates import write_plate


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
    begin_transaction(FolderSource(str(folder))).recover("labels/nuclei")
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
