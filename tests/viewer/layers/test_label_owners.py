"""Labels that were made here are known as such; and labels that are locked."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Labels, Shapes
from napari.utils.notifications import notification_manager

from judges import validate_models, validate_yaozarrs
from napari_ngff.cli import main
from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.places import merge_sidecar
from napari_ngff.labels.places.copy_labels import copy_labels
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.annotations.drawings import shapes_to_labels
from napari_ngff.viewer.bridge.merge_result import merge
from napari_ngff.viewer.composing.write_layers import write
from napari_ngff.viewer.layers.label_owners import are_of_others, is_own_node
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.painting.object_edits import (
    cut_object,
    delete_object,
    join_objects,
)
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.reader import read_layers
from painting import pyramid
from saving import write_image

SHAPES = ((40, 48), (20, 24))
VERSIONS = ["0.4", "0.5", "0.6"]


@pytest.fixture(params=VERSIONS, scope="module")
def pristine(request, tmp_path_factory):
    """An image with labels named other, which another program made."""
    folder = tmp_path_factory.mktemp("owners")
    return write_image(folder / "a.ome.zarr", SHAPES, (16, 24), request.param)


@pytest.fixture
def image(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "a.ome.zarr")


def save_new(image, **options):
    layer = new_labels(read_layers(image)[0], "mine", **options)
    assert not are_of_others(layer), "in no file yet"
    layer.paint((5, 5), 1)
    assert layer.saver.save_now()
    assert not are_of_others(layer)
    return layer


def others_in(path):
    """Names of the labels of others, as their layers are opened."""
    layers = [x for x in read_layers(path) if isinstance(x, Labels)]
    return {x.name for x in layers if are_of_others(x)}


def test_what_is_made_here_is_known_when_it_is_opened_again(image):
    save_new(image)
    assert others_in(image) == {"other"}
    version = str(open_node(image).metadata.version)
    if version != "0.6":  # which they do not know
        validate_models(image / "labels/mine", version)
        validate_yaozarrs(image)


@pytest.mark.default_cases("0.4-0.4", "0.4-ozx", "0.5-0.5", "0.6-0.6")
@pytest.mark.parametrize("to", ["0.4", "0.5", "0.6", "ozx"])
def test_converted_labels_are_still_those_of_who_made_them(image, tmp_path, to):
    save_new(image)
    target = tmp_path / ("b.ozx" if to == "ozx" else "b.ome.zarr")
    options = [] if to == "ozx" else ["--to", to]
    assert main(["convert", str(image), str(target), *options]) == 0
    assert others_in(target) == {"other"}


def test_labels_in_a_sidecar_are_own_ones_also_when_merged(image, tmp_path):
    save_new(image, sidecar=True)
    assert others_in(image) == {"other"}
    merge_sidecar.merge(str(tmp_path / "a.labels.ome.zarr"))
    assert is_own_node(open_node(image).child("labels/mine"))


def test_a_copy_to_paint_on_is_own_and_the_original_is_not(image):
    node = open_node(image)
    copy_labels(node.child("labels/other"), node)
    assert others_in(image) == set(), "the copy is shown"
    assert not is_own_node(node.child("labels/other"))


def test_saved_as_they_stay_those_of_who_made_them(image, tmp_path):
    save_new(image)
    layers = [layer.as_layer_data_tuple() for layer in read_layers(image)]
    target = tmp_path / "c.ome.zarr"
    write(str(target), layers)
    assert others_in(target) == {"other"}


def test_classes_in_labels_of_others_do_not_make_them_own(image):
    (layer,) = [x for x in read_layers(image) if x.name == "other"]
    classes_of_layer(layer).add_class("mitotic", 1)
    assert layer.saver.save_now()
    assert others_in(image) == {"other"}


def test_labels_of_before_the_mark_are_known_by_their_classes(image):
    layer = save_new(image)
    path = next((image / "labels/mine").glob("*zarr.json"), None)
    path = path or image / "labels/mine/.zattrs"
    content = json.loads(path.read_text())
    home = content.get("attributes", {}).get("ome", content)
    del home["multiscales"][0]["metadata"]["software"]
    path.write_text(json.dumps(content))
    assert others_in(image) == {"mine", "other"}
    (layer,) = [x for x in read_layers(image) if x.name == "mine"]
    classes_of_layer(layer).add_class("nucleus")
    assert layer.saver.save_now()
    assert others_in(image) == {"other"}


@pytest.mark.parametrize("metadata", [[], "text", {"software": {"a": 1}}, {"b": None}])
def test_whatever_is_in_the_metadata_is_no_problem(image, metadata):
    path = image / "labels/other/.zattrs"
    path = path if path.exists() else image / "labels/other/zarr.json"
    content = json.loads(path.read_text())
    home = content.get("attributes", {}).get("ome", content)
    home["multiscales"][0]["metadata"] = metadata
    path.write_text(json.dumps(content))
    assert others_in(image) == {"other"}
    assert not open_node(image).child("labels/other").problems


def test_plain_labels_of_napari_are_nobody_elses():
    assert not are_of_others(Labels(np.zeros((4, 4), int)))


# The padlock.


def use_mode(mode):
    def use(layer):
        layer.mode = mode

    return use


def draw_shape(layer):
    shapes = Shapes(np.array([[4, 4], [4, 20], [20, 20], [20, 4]]))
    viewer = ViewerModel()
    viewer.add_layer(layer)
    shapes_to_labels(viewer, shapes, layer)


WAYS = {
    "brush": lambda layer: layer.paint((9, 9), 3),
    "eraser": lambda layer: layer.paint((30, 30), 0),
    "bucket": lambda layer: layer.fill((9, 9), 3),
    "polygon": lambda layer: layer.paint_polygon([(2, 2), (2, 9), (9, 9)], 3),
    "script": lambda layer: layer.data_setitem(([9], [9]), 3),
    "replace": lambda layer: layer.replace_label(7, 3),
    "merge of classes": lambda layer: classes_of_layer(layer).merge_class(7, 3),
    "undo": lambda layer: layer.undo(),
    "redo": lambda layer: layer.redo(),
    "merge": lambda layer: merge(Labels(np.full((40, 48), 3)), layer, "add"),
    "shapes": draw_shape,
    "join": lambda layer: join_objects(layer, (30, 30), 3).apply_edits(),
    "delete": lambda layer: delete_object(layer, (30, 30)).apply_edits(),
    "cut": lambda layer: cut_object(layer, [(25, 25), (34, 34)]).apply_edits(),
    **{
        f"tool {mode}": use_mode(mode) for mode in ("paint", "erase", "fill", "polygon")
    },
}


@pytest.mark.parametrize("way", WAYS)
def test_locked_labels_are_changed_in_no_way(way):
    pixels = np.zeros((40, 48), "u2")
    pixels[24:36, 24:36] = 7
    layer = OMEZarrLabels(Canvas(pyramid(pixels, [])))
    classes_of_layer(layer).add_class("cell", 7)
    for label in (5, 6):
        layer.paint((4, label * 6), label)
    layer.undo()
    edits, before = layer.canvas.edits, np.asarray(layer.data[0])
    layer.locked = True
    notification_manager.records.clear()
    reason = ""
    try:
        WAYS[way](layer)
    except ValueError as error:
        reason = str(error)  # which the page that offers this shows
    reason += "".join(str(x.message) for x in notification_manager.records)
    notification_manager.records.clear()
    assert "locked" in reason
    assert "untick Locked" in reason
    np.testing.assert_array_equal(np.asarray(layer.data[0]), before)
    assert layer.canvas.edits == edits
    assert layer.mode == "pan_zoom"
    layer.locked = False
    WAYS[way](layer)
    changed = layer.canvas.edits != edits
    assert changed != way.startswith("tool")
    notification_manager.records.clear()


def test_what_was_painted_before_they_were_locked_is_saved(image):
    layer = save_new(image)
    layer.paint((20, 20), 4)
    layer.locked = True
    assert layer.unsaved
    assert layer.saver.save_now()
    (again,) = [x for x in read_layers(image) if x.name == "mine"]
    assert (np.asarray(again.data[0]) == 4).any()


def test_a_padlock_is_that_of_all_labels_of_the_name(image, tmp_path):
    other = shutil.copytree(image, tmp_path / "b.ome.zarr")
    names = "mine", "other"
    save_new(image)
    save_new(other)
    first, second, elsewhere = (
        {x.name: x for x in read_layers(path) if x.name in names}
        for path in (image, image, other)
    )
    first["mine"].locked = True
    locked = [bool(x.locked) for each in (first, second) for x in each.values()]
    assert locked == [x == "mine" for each in (first, second) for x in each]
    assert not elsewhere["mine"].locked
    later = {x.name: bool(x.locked) for x in read_layers(image) if x.name in names}
    assert later == {"mine": True, "other": False}
    assert not next(x for x in read_layers(image) if x.name == "mine").editable
    second["mine"].locked = False
    assert first["mine"].editable
