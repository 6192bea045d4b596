"""Classes of a layer: seen at once, kept in the file, known to others."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from napari.layers import Labels
from napari.utils.key_bindings import KeymapHandler, coerce_keybinding
from napari.utils.notifications import notification_manager
from ome_zarr.io import parse_url
from ome_zarr.reader import Reader

from napari_ngff.cli import main
from napari_ngff.labels.label_classes import (
    LabelClass,
    dump_classes,
    load_classes,
)
from napari_ngff.labels.label_metadata import read_label_info
from napari_ngff.plate.tables.table import make_table
from napari_ngff.plugin import get_reader
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.painting.layer_classes import (
    LayerClasses,
    classes_of_layer,
    count_voxels,
)
from napari_ngff.viewer.painting.layer_measuring import join_features, part_features
from napari_ngff.viewer.samples import write_image


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "cells.ome.zarr"
    write_image(path, shape=(1, 64, 64))
    return path


def opened(folder):
    layers = get_reader(str(folder))(str(folder))
    return next(x for x in layers if getattr(x, "name", "") == "nuclei")


def test_names_and_colours_come_back_and_others_read_them(folder, capsys):
    layer = opened(folder)
    classes = classes_of_layer(layer)
    assert classes is classes_of_layer(layer)
    classes.add_class("nucleus", 1)
    classes.add_class("debris", 2)
    classes.change_class(2, locked=True, color=(1, 2, 3, 255))
    classes.change_class(1, hidden=True)
    classes.move_class(2, 0)
    assert layer.unsaved
    assert layer.saver.save_now()
    assert not layer.unsaved

    again = LayerClasses(opened(folder))
    assert again.items == classes.items
    assert [one.name for one in again.items] == ["debris", "nucleus"]
    # Hidden on the screen, not in the file.
    assert again.layer.colormap.color_dict[1][3] == 0
    stored = read_label_info(open_node(str(folder / "labels" / "nuclei")))
    assert stored.colors[1][3] == 255
    assert again.layer.spared == (2,)

    *_, found = [
        node.metadata
        for node in Reader(parse_url(str(folder / "labels" / "nuclei")))()
        if "properties" in node.metadata
    ]
    assert found["properties"][2]["napari-ngff:class-name"] == "debris"
    assert found["properties"][2]["napari-ngff:class-locked"] is True
    assert np.allclose(found["color"][2], np.array([1, 2, 3, 255]) / 255)
    assert main(["check", "--strict", str(folder)]) == 0, capsys.readouterr().out


def test_locks_and_hiding_of_the_file_hold_before_anybody_asks_for_classes(folder):
    layer = opened(folder)
    classes = classes_of_layer(layer)
    classes.add_class("debris", 71)
    layer.paint((0, 30, 30), 71)
    classes.change_class(71, locked=True, hidden=True)
    assert layer.saver.save_now()

    again = opened(folder)
    assert not again.unsaved
    assert again.colormap.color_dict[71][3] == 0
    again.brush_size = 20
    again.paint((0, 30, 30), 72)
    pixels = np.asarray(again.data[0])
    assert (pixels == 72).any()
    assert pixels[0, 30, 30] == 71, "no tool paints over a locked class"


def test_a_stroke_of_a_hidden_class_is_reported(folder, monkeypatch):
    shown = []
    monkeypatch.setattr(f"{LayerClasses.__module__}.show_warning", shown.append)
    layer = opened(folder)
    classes = classes_of_layer(layer)
    classes.add_class("debris", 71)
    with layer.block_history():
        layer.paint((0, 30, 30), 71)
    assert not shown
    classes.change_class(71, hidden=True)
    with layer.block_history():
        pass  # a stroke in the air
    assert not shown
    with layer.block_history():
        layer.paint((0, 40, 40), 71)
    (text,) = shown
    assert "hidden class" in text
    assert "'debris'" in text


def test_a_class_that_is_removed_is_gone_from_the_file(folder):
    layer = opened(folder)
    before = read_label_info(open_node(str(folder / "labels" / "nuclei")))
    classes = classes_of_layer(layer)
    classes.add_class("nucleus", 70)
    assert layer.saver.save_now()
    classes.remove_class(70)
    assert layer.unsaved
    assert layer.saver.save_now()
    after = read_label_info(open_node(str(folder / "labels" / "nuclei")))
    assert (after.colors, after.properties) == (before.colors, before.properties)


def test_a_new_class_does_not_get_the_pixels_of_one_that_was_removed(folder):
    classes = classes_of_layer(opened(folder))
    for name in ("nucleus", "debris"):
        classes.add_class(name)
    debris = classes.items[-1].value
    classes.remove_class(debris)
    assert classes.add_class("mitotic").value == debris + 1


def test_a_removed_class_leaves_the_colour_that_others_see(folder):
    layer = opened(folder)
    before = layer.get_color(1)
    classes = classes_of_layer(layer)
    classes.add_class("kept", 2)
    classes.add_class("removed", 1)
    assert not np.array_equal(layer.get_color(1), before)
    classes.remove_class(1)
    assert np.array_equal(layer.get_color(1), before)  # of the file
    classes.add_class("removed", 1)
    assert layer.saver.save_now()
    classes.remove_class(1)
    assert layer.saver.save_now()
    stored = read_label_info(open_node(str(folder / "labels" / "nuclei")))
    assert np.allclose(255 * layer.get_color(1), stored.colors[1], atol=0.5)
    assert np.array_equal(layer.get_color(1), opened(folder).get_color(1))


def test_a_new_class_does_not_get_pixels_that_have_no_class(folder):
    layer = opened(folder)
    objects = int(np.asarray(layer.data[0]).max())
    classes = classes_of_layer(layer)
    classes.add_class("nucleus", 1)
    added = classes.add_class("debris").value
    assert added == objects + 1 > 2
    classes.remove_class(added)
    # In 8 bits, 255 is often the only label of a mask: no larger type for a class.
    dtype = layer.canvas.dtype
    layer.paint((0, 8, 8), np.iinfo(dtype).max)
    assert classes.add_class("mitotic").value == added + 1
    assert layer.canvas.dtype == dtype


def test_keys_paint_with_the_class_of_their_place(folder):
    layer = opened(folder)
    classes = classes_of_layer(layer)
    reported = []
    classes.changed.connect(lambda: reported.append(classes.selected))
    first = classes.add_class("a", 30)
    second = classes.add_class("b")
    assert second.value == 31
    assert second.color != first.color
    classes.select_class(classes.items[0].value)
    assert layer.selected_label == 30
    assert reported[-1] == first
    with pytest.raises(ValueError, match="taken"):
        classes.add_class("c", 30)
    with pytest.raises(ValueError, match="no class of label 99"):
        classes.change_class(99, name="x")


def save_classes(folder):
    """Save two classes in the file, and close it."""
    layer = opened(folder)
    classes = classes_of_layer(layer)
    classes.add_class("alpha", 1)
    classes.add_class("beta", 2)
    assert layer.saver.save_now()


def press_number(layer, number):
    """Press a key as the canvas does, with the labels selected."""
    canvas = KeymapHandler()
    canvas.keymap_providers = [layer]
    assert canvas.press_key(str(number))
    canvas.release_key(str(number))


def test_status_and_tooltip_name_the_class_without_its_place(folder):
    save_classes(folder)
    layer = opened(folder)
    layer.brush_size = 30
    layer.paint((0, 32, 32), 2)
    status = layer.get_status((0, 32, 32))
    tooltip = layer._get_tooltip_text((0, 32, 32))
    for text in (status["coordinates"], status["value"], tooltip):
        assert "class-name: beta" in text
        assert "napari-ngff:class-order" not in text


def test_keys_choose_saved_classes_without_any_dock(folder):
    save_classes(folder)
    layer = opened(folder)
    press_number(layer, 2)
    assert layer.selected_label == 2
    assert str(layer.mode) == "paint"  # the hand would move the image
    layer.mode = "fill"
    press_number(layer, 1)
    assert layer.selected_label == 1
    assert str(layer.mode) == "fill"


def test_number_keys_work_as_in_napari_until_there_are_classes(folder, monkeypatch):
    pressed = []
    key = coerce_keybinding("3")
    monkeypatch.setitem(Labels.class_keymap, key, pressed.append)
    layer = opened(folder)
    # No class is read for it, which takes long for many objects.
    monkeypatch.setattr(LayerClasses, "_read_classes", None)
    press_number(layer, 3)
    assert pressed == [layer]
    monkeypatch.undo()
    monkeypatch.setitem(Labels.class_keymap, key, pressed.append)
    save_classes(folder)
    layer = opened(folder)
    press_number(layer, 3)
    assert len(pressed) == 1  # its tool would come as a surprise
    assert layer.selected_label == 1
    assert "Key 3: the last class has key" in notification_manager.records[-1].message


def test_a_locked_class_is_neither_painted_over_nor_merged(folder):
    layer = opened(folder)
    classes = classes_of_layer(layer)
    classes.add_class("a", 201)
    classes.add_class("b", 202)
    layer.paint((0, 20, 20), 201)
    classes.change_class(201, locked=True)
    layer.paint((0, 20, 24), 202)
    pixels = np.asarray(layer.data[0])[0]
    assert pixels[20, 20] == pixels[20, 24] == 201
    assert pixels[20, 27] == 202
    with pytest.raises(ValueError, match="a is locked"):
        classes.merge_class(202, 201)
    classes.change_class(201, locked=False)
    number = count_voxels(layer)[202]
    classes.merge_class(202, 201)
    assert 202 not in count_voxels(layer)
    layer.undo()
    assert count_voxels(layer)[202] == number


def test_tools_draw_over_the_background_alone(folder):
    layer = opened(folder)
    classes = classes_of_layer(layer)
    before = np.asarray(layer.data[0])[0]
    classes.draw_over(0)
    layer.brush_size = 40
    layer.paint((0, 32, 32), 200)
    after = np.asarray(layer.data[0])[0]
    np.testing.assert_array_equal(after[before > 0], before[before > 0])
    assert (after == 200).any()


def test_a_list_is_shared(folder):
    layer = opened(folder)
    classes = classes_of_layer(layer)
    classes.share_classes([LabelClass(5, "cell", (9, 8, 7, 255), locked=True)])
    assert classes.items[-1] == LabelClass(5, "cell", (9, 8, 7, 255), locked=True)
    text = dump_classes(classes.items).replace("cell", "Zelle")
    classes.share_classes(load_classes(text))
    assert classes.find_class(5).name == "Zelle"
    with pytest.raises(ValueError, match="Not JSON"):
        load_classes("{")


def test_measured_values_stay_when_a_class_changes(folder):
    layer = opened(folder)
    frame = pd.DataFrame({"label": [1, 70], "mean": [5.0, 6.0]})
    join_features(layer, make_table(frame, "measured", {"well": ""}))
    classes = classes_of_layer(layer)
    classes.add_class("nucleus", 1)
    classes.change_class(1, name="cell")
    rows = layer.features.set_index("index")
    assert rows["mean"].dropna().to_dict() == {1: 5.0, 70: 6.0}
    assert rows.loc[1, "napari-ngff:class-name"] == "cell"
    assert layer.saver.save_now()
    info = read_label_info(open_node(str(folder / "labels" / "nuclei")))
    assert info.properties[1]["napari-ngff:class-name"] == "cell"
    assert all("mean" not in row for row in info.properties.values())
    part_features(layer)
    assert "mean" not in layer.features


def test_columns_that_somebody_added_stay(folder):
    layer = opened(folder)
    layer.features = pd.DataFrame({"index": [77, 78], "note": ["mine", "too"]})
    classes_of_layer(layer).add_class("nucleus", 3)
    assert layer.saver.save_now()
    after = read_label_info(open_node(str(folder / "labels" / "nuclei")))
    assert after.properties[77]["note"] == "mine"
    assert after.properties[3]["napari-ngff:class-name"] == "nucleus"
