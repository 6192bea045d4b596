"""A new class gets a label that no pixel has, whatever was done before."""

from __future__ import annotations

import numpy as np
import pytest
from napari.layers import Labels

from napari_ngff.labels.label_classes import LabelClass
from napari_ngff.metadata.model import LabelKind
from napari_ngff.plugin import get_reader
from napari_ngff.viewer.bridge.merge_result import merge
from napari_ngff.viewer.painting.layer_classes import LayerClasses, classes_of_layer
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.painting.object_edits import cut_object, join_objects
from plates import write_image

SIDE = 32
TYPES = ("u1", "u2", "u4", "u8", "i2", "i8")


def write_objects(folder, labels):
    """Write labels of a grid of objects, and of single pixels that level 1 lacks."""
    pixels = np.zeros((SIDE, SIDE), labels.dtype)
    places = [(y, x) for y in range(1, SIDE - 8, 8) for x in range(1, SIDE - 8, 8)]
    for number, (label, (y, x)) in enumerate(zip(labels, places, strict=False)):
        size = 1 if number % 3 == 2 else 6
        pixels[y : y + size, x : x + size] = label
    write_image(folder, pixels, 2, axes="yx", label={"version": "0.4"})
    return pixels


def opened(folder):
    (layer,) = get_reader(str(folder))(str(folder))
    layer.brush_on_screen, layer.brush_size = False, 3
    return layer


def pick(layer, here, there):
    layer.selected_label = here[0]


def join(layer, here, there):
    if here[0] != there[0]:
        join_objects(layer, here[1], there[0]).apply_edits()


def cut(layer, here, there):
    y, x = here[1]
    try:
        cut_object(layer, [(y, x), (y + 5, x + 5)]).apply_edits()
    except ValueError:
        assert layer.data[0][y + 5, x + 5] != layer.data[0][y, x]  # of one pixel


def paint(layer, here, there):
    layer.paint(here[1], there[0])


def paint_and_undo(layer, here, there):
    layer.paint((0, 0), layer.next_label())
    layer.undo()


def fill(layer, here, there):
    layer.fill(here[1], layer.next_label())


def remove_class(layer, here, there):
    classes = classes_of_layer(layer)
    if classes.items:
        classes.remove_class(classes.items[0].value)


def merge_objects(layer, here, there):
    merge(Labels(np.pad([[1, 2], [0, 3]], ((0, 30), (0, 30)))), layer, "add")


def replace(layer, here, there):
    layer.replace_label(here[0], there[0])


def save(layer, here, there):
    assert layer.saver.save_now()


TOUCHES = (
    pick,
    join,
    cut,
    merge_objects,
    paint,
    paint_and_undo,
    fill,
    remove_class,
    replace,
    save,
)


def touch(layer, random, pixels):
    """Do something with objects, as a person may before a class is added."""
    now = np.asarray(layer.data[0])
    places = np.argwhere((pixels != 0) & (now != 0)).tolist() or [[20, 20]]
    here, there = (tuple(places[at]) for at in random.integers(len(places), size=2))
    todo = TOUCHES[random.integers(len(TOUCHES))]
    todo(layer, (int(now[here]), here), (int(now[there]), there))


@pytest.mark.default_cases(*(f"{kind}-{seed}" for kind in TYPES for seed in (0, 1)))
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", TYPES)
def test_a_new_class_has_no_pixel(tmp_path, kind, seed):
    random = np.random.default_rng(seed)
    limit = min(int(np.iinfo(kind).max), 720575940621039145)
    most = (5, 9, 12, 200, limit)[random.integers(5)]
    labels = random.integers(1, most, random.integers(2, 10), dtype=kind, endpoint=True)
    if seed % 2:
        labels[-1] = limit  # as masks, and what a network must ignore
    pixels = write_objects(tmp_path / "nuclei", labels)
    layer = opened(tmp_path / "nuclei")
    classes = classes_of_layer(layer)
    ever = set(np.unique(pixels).tolist())
    for _ in range(5):
        for _ in range(random.integers(3)):
            touch(layer, random, pixels)
            ever |= set(np.unique(np.asarray(layer.data[0])).tolist())
        others = {item.value for item in classes.items}
        value = classes.add_class().value
        assert value not in ever | others
        assert layer.selected_label == value
        if random.integers(2):
            layer.paint((20, 28), value)
            ever.add(value)


@pytest.mark.parametrize("kind", TYPES)
def test_a_mask_of_the_largest_label_gets_no_larger_type(tmp_path, kind):
    limit = np.iinfo(kind).max
    write_objects(tmp_path / "mask", np.array([limit, limit], kind))
    layer = opened(tmp_path / "mask")
    values = [classes_of_layer(layer).add_class().value for _ in range(3)]
    assert values == [1, 2, 3]
    assert layer.canvas.dtype == np.dtype(kind)


def test_labels_without_a_free_one_get_a_larger_type(tmp_path):
    pixels = np.arange(256, dtype="u1").reshape(16, 16)
    write_image(tmp_path / "full", pixels, 2, axes="yx", label={"version": "0.4"})
    layer = opened(tmp_path / "full")
    assert classes_of_layer(layer).add_class().value == 256
    assert layer.canvas.dtype == np.dtype("u2")


def test_a_painted_label_becomes_a_class_only_when_it_is_named(tmp_path):
    write_image(tmp_path / "cells.zarr", np.zeros((SIDE, SIDE), "u2"), 2, axes="yx")
    layer = new_labels(get_image(tmp_path / "cells.zarr"), "kinds")
    for label, at in ((1, 4), (2, 12), (3, 20)):
        layer.paint((at, at), label)
    classes = classes_of_layer(layer)
    assert classes.add_class().value == 4
    layer.selected_label = 1
    assert classes.selected is None
    assert classes.add_class("necrosis", 1).value == 1
    assert classes.selected == classes.find_class(1)
    colors = [item.color for item in classes.items]
    assert len(set(colors)) == 2


def get_image(folder):
    from napari.layers import Image

    ((data, keywords, _),) = get_reader(str(folder))(str(folder))
    return Image(data, **keywords)


def test_a_new_class_has_another_colour_than_painted_labels(tmp_path):
    write_image(tmp_path / "cells.zarr", np.zeros((SIDE, SIDE), "u2"), 2, axes="yx")
    layer = new_labels(get_image(tmp_path / "cells.zarr"), "kinds")
    for label in range(1, 10):
        layer.paint((3 * label, 3), label)
    classes = classes_of_layer(layer)
    for _ in range(4):
        color = np.array(classes.add_class().color) / 255
        for label in range(1, 10):
            assert np.abs(layer.get_color(label) - color).max() > 0.15, label


@pytest.mark.parametrize("objects", [0, 1, 2, 5])
def test_a_class_of_the_field_before_gets_no_pixels_of_this_field(tmp_path, objects):
    """Such as class 3 in a field of two objects, and in the next, which has five."""
    pixels = write_objects(tmp_path / "nuclei", np.arange(1, objects + 1, dtype="u2"))
    layer = opened(tmp_path / "nuclei")
    before = [
        LabelClass(value, name, (value, value, value, 255))
        for value, name in ((1, "a"), (3, "b"), (9, "c"))
    ]
    classes = LayerClasses(layer)
    classes.keep_classes(before)
    assert classes.items == (), "objects take no classes"
    classes.change_kind(LabelKind.CLASSES)
    classes.keep_classes(before)
    values = [item.value for item in classes.items]
    assert [item.name for item in classes.items] == ["a", "b", "c"]
    assert not set(values) & set(np.unique(pixels).tolist())
    # The same label wherever that is possible.
    there = set(np.unique(pixels).tolist())
    for item, value in zip(before, values, strict=True):
        assert value == item.value or item.value in there
