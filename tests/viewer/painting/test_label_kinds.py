"""Each label image is of objects or of classes, wherever its labels go."""

from __future__ import annotations

import numpy as np
import pytest
from napari.layers import Image

from napari_ngff import convert
from napari_ngff.labels.label_classes import LabelClass, kind_of, with_classes
from napari_ngff.labels.label_metadata import read_label_info, write_label_info
from napari_ngff.metadata.model import LabelInfo, LabelKind
from napari_ngff.plugin import get_reader
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.composing.write_layers import write as write_layers
from napari_ngff.viewer.painting.layer_classes import LayerClasses, classes_of_layer
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.plans.layer_plan import origin_of
from plates import write_image

RED, BLUE = (255, 0, 0, 255), (0, 0, 255, 255)
CLASSES = (
    LabelClass(1, "nucleus", RED, locked=True),
    LabelClass(2, "debris", BLUE, hidden=True),
)
OLDER = {
    "properties": [
        {"label-value": 1, "class-name": "a", "class-order": 0, "area": 3.5},
        {"label-value": 2, "class-name": "b", "class-order": 1, "class-hidden": True},
    ],
    "colors": [{"label-value": 1, "rgba": RED}, {"label-value": 2, "rgba": BLUE}],
}


def write(folder, label=None):
    pixels = np.zeros((32, 32), "u2")
    pixels[4:12, 4:12], pixels[4:12, 20:28], pixels[20:28, 4:12] = 1, 2, 3
    label = label or {"version": "0.4"}
    write_image(folder, pixels, 2, axes="yx", label=label)
    return folder


def opened(folder):
    (layer,) = get_reader(str(folder))(str(folder))
    return layer


def image_of(folder):
    write_image(folder, np.zeros((32, 32), "u2"), 2, axes="yx")
    ((data, keywords, _),) = get_reader(str(folder))(str(folder))
    return Image(data, **keywords)


def info_of(folder):
    return read_label_info(open_node(str(folder)))


@pytest.mark.parametrize("kind", [*LabelKind, None])
def test_new_labels_have_the_kind_that_was_asked_for(tmp_path, kind):
    layer = new_labels(image_of(tmp_path / "cells"), "kinds", kind=kind)
    assert classes_of_layer(layer).kind == (kind or "objects")
    layer.paint((4, 4), 1)
    assert layer.saver.save_now()
    folder = tmp_path / "cells" / "labels" / "kinds"
    assert info_of(folder).kind == kind
    assert classes_of_layer(opened(folder)).kind == (kind or "objects")


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ({"version": "0.4"}, "objects"),
        ({"properties": [{"label-value": 1, "area": 4}]}, "objects"),
        (OLDER, "classes"),
        ({**OLDER, "napari-ngff:kind": "objects"}, "objects"),
        ({"napari-ngff:kind": "classes"}, "classes"),
    ],
)
def test_the_kind_follows_from_the_file_and_can_be_changed_and_changed_back(
    tmp_path, label, kind
):
    write(tmp_path / "labels", label)
    layer = opened(tmp_path / "labels")
    pixels, before = np.array(layer.data[0]), info_of(tmp_path / "labels")
    classes = classes_of_layer(layer)
    assert classes.kind == kind
    assert not layer.unsaved
    colors = layer.colormap.map(np.arange(4))
    for chosen in (*LabelKind, *LabelKind, LabelKind(kind)):
        classes.change_kind(chosen)
        assert classes.kind is chosen
        assert layer.saver.save_now()
        stored = info_of(tmp_path / "labels")
        assert (stored.kind, stored.properties) == (chosen, before.properties)
        assert stored.colors.items() >= before.colors.items()
        again = classes_of_layer(opened(tmp_path / "labels"))
        assert (again.kind, again.items) == (chosen, classes.items)
    np.testing.assert_array_equal(layer.data[0], pixels)
    np.testing.assert_array_equal(layer.colormap.map(np.arange(4))[0], colors[0])


def test_a_class_owns_no_object(tmp_path):
    """Not to hide, to spare, to paint with, nor in another list of classes."""
    write(tmp_path / "labels")
    info = with_classes(LabelInfo(kind=LabelKind.CLASSES), CLASSES)
    write_label_info(open_node(str(tmp_path / "labels")), info)
    layer = opened(tmp_path / "labels")
    classes = classes_of_layer(layer)
    assert layer.spared == (1,)
    assert layer.colormap.map(2)[3] == 0
    classes.change_kind(LabelKind.OBJECTS)
    assert (layer.spared, classes.items) == ((), ())
    np.testing.assert_allclose(layer.colormap.map(2), np.array(BLUE) / 255)
    classes.keep_classes([LabelClass(9, "other", RED)])
    with pytest.raises(ValueError, match="is one object"):
        classes.add_class()
    classes.change_kind(LabelKind.CLASSES)
    assert (layer.spared, classes.items) == ((1,), CLASSES)
    assert layer.colormap.map(2)[3] == 0


def test_the_kind_of_labels_that_cannot_be_written_holds_for_this_window(tmp_path):
    path = write(tmp_path / "labels", OLDER)
    before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}
    layer = opened(path)
    layer.exchange_canvas(layer.canvas, "the server takes nothing")
    classes_of_layer(layer).change_kind(LabelKind.OBJECTS)
    again = opened(path)
    again.exchange_canvas(again.canvas, "the server takes nothing")
    assert LayerClasses(again).kind is LabelKind.OBJECTS
    assert {p: p.read_bytes() for p in before} == before


@pytest.mark.parametrize("kind", LabelKind)
def test_the_kind_goes_along_with_a_conversion(tmp_path, kind):
    image = tmp_path / "cells.ome.zarr"
    write_image(image, np.ones((32, 32), "u2"), 2, "yx", labels=("a",))
    node = open_node(str(image / "labels" / "a"))
    write_label_info(node, with_classes(LabelInfo(kind=kind), CLASSES))
    convert(str(image), str(tmp_path / "new.ome.zarr"), to_version="0.5")
    info = info_of(tmp_path / "new.ome.zarr" / "labels" / "a")
    assert (info.kind, kind_of(info)) == (kind, kind)
    assert info.properties == info_of(image / "labels" / "a").properties


@pytest.mark.parametrize("kind", LabelKind)
def test_the_kind_goes_along_into_a_sidecar_and_into_a_new_file(tmp_path, kind):
    other = next(x for x in LabelKind if x is not kind)
    image = image_of(tmp_path / "cells.ome.zarr")
    layer = new_labels(image, "a", kind=kind, sidecar=True)
    layer.paint((4, 4), 1)
    assert layer.saver.save_now()
    assert read_label_info(origin_of(layer).node).kind is kind
    # Of an image without a file, and changed.
    plain = Image(np.zeros((32, 32), "u2"), name="plain")
    layer = new_labels(plain, "b", kind=other)
    classes_of_layer(layer).change_kind(kind)
    layer.paint((4, 4), 1)
    made = write_layers(str(tmp_path / "new"), [plain, layer])
    assert info_of(made / "labels" / "b").kind is kind
