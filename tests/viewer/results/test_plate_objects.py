"""Classes of objects count while the labels are there whose objects have them."""

from __future__ import annotations

import itertools

import pandas as pd
import pytest
from napari.components import ViewerModel

from napari_ngff import open_node
from napari_ngff.labels.object_classes import ClassChanges, ObjectClasses
from napari_ngff.labels.places.listed_labels import delete_labels, rename_labels
from napari_ngff.viewer.annotations.object_class_annotation import begin_aside
from napari_ngff.viewer.annotations.object_class_table import write_classes
from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.reader import show_listed
from napari_ngff.viewer.results.plate_objects import PlateObjects
from napari_ngff.viewer.session import session_of
from plates import write_plate

FIELDS = [*itertools.product(("A/1", "A/2", "A/3"), "01")]
GIVEN = {1: "round", 2: "long", 5: "long"}


def rename(node):
    rename_labels(node, node.child("labels/nuclei"), "cells")


def delete(node):
    _, finish = delete_labels(node.child("labels/nuclei"))
    finish()


@pytest.fixture
def plate(tmp_path):
    root = tmp_path / "p.ome.zarr"
    write_plate(root, grid=(1, 3), fields=2, labelled=lambda well: ("nuclei",))
    classes = ObjectClasses().with_class("round").with_class("long").classes
    for well, field in FIELDS[:-1]:
        node = open_node(str(root / well / field))
        write_classes(node, ClassChanges("nuclei", classes, GIVEN))
    rows = [(w, f, i, i) for (w, f), i in itertools.product(FIELDS, range(1, 6))]
    columns = ["well", "field", "label", "area"]
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "objects.csv", index=False)
    return root


def test_an_object_whose_labels_are_gone_is_wanted_no_more(plate):
    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(str(plate)))
    tables = session_of(viewer).open_tables()
    tables.find_tables()
    tables.load_file(str(plate.parent / "objects.csv"))
    listed = session_of(viewer).plates.listed
    objects = PlateObjects(tables, lambda: True, listed, show_listed)
    image = open_node(str(plate / "A/2/1"))
    rename(image)
    objects.go(objects.table.frame.iloc[15])
    assert browser.position == Position("A/2", "1", 0)
    assert tables.note == "A2 - field 1 has no labels 'nuclei' any more."
    browser.show_field("A/1", "0")
    # Labels of that name that are made later are not what was meant.
    rename_labels(image, image.child("labels/cells"), "nuclei")
    browser.forget_image("A/2/1")
    selected = viewer.layers.selection.active
    browser.show_field("A/2", "1")
    assert viewer.layers.selection.active is selected
    # One that is there is found.
    objects.go(objects.table.frame.iloc[16])
    assert viewer.layers.selection.active is viewer.layers["nuclei"]
    assert "no labels" not in tables.note


@pytest.mark.default_cases(
    "0-rename-False", "1-delete-True", "2-rename-False", "5-rename-False"
)
@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("change", [rename, delete])
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_classes_of_labels_that_are_gone_do_not_count(plate, change, count, is_open):
    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(str(plate)))
    tables = session_of(viewer).open_tables()
    tables.find_tables()
    tables.load_file(str(plate.parent / "objects.csv"))
    listed = session_of(viewer).plates.listed
    objects = PlateObjects(tables, lambda: True, listed, show_listed)
    if is_open:  # another class is given in the gallery, and no file has it
        stored, owner = ObjectClasses(), session_of(viewer).annotations
        for well, field in FIELDS[:count]:
            image = browser.node.child(f"{well}/{field}")
            begin_aside(owner, image, "nuclei", stored.with_class("x")).classify(3, "x")
    for well, field in FIELDS[:count]:
        change(open_node(str(plate / well / field)))
    clicks, note = objects.list_clicks(objects.table)
    wanted = [(*place, *item) for place in FIELDS[count:-1] for item in GIVEN.items()]
    assert [*clicks.itertuples(index=False, name=None)] == wanted
    names = [f"{well.replace('/', '')} - field {field}" for well, field in FIELDS]
    others = {2: f" and {names[1]}", 5: f", {names[1]}, {names[2]} and others"}
    fields = f"{count} field{'s' * (count > 1)}"
    told = f"in {fields} do not count, as there are no labels 'nuclei' any more:"
    told = f"Classes {told} {names[0]}{others.get(count, '')}."
    assert note == (told if count else "")
    browser.close()
