"""Points, shapes and labels that are in no file: asked about before they go."""

from __future__ import annotations

import random
import shutil

import numpy as np
import pandas as pd
import pytest
import tifffile
import zarr
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from test_measured_asked import Replies, close_window, is_unsaved, measure

from journals import discard_edits
from mouse import click, drag, pump, until
from napari_ngff import merge, work_here
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.annotations.drawings import shapes_to_labels
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.dialogs import CANCEL, DISCARD, KEEP, RESTORE, SAVE
from napari_ngff.widgets.status_signs import UnsavedSign
from plates import write_plate

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return write_image(
        tmp_path_factory.mktemp("asked") / "cells.ome.zarr", shape=(96, 96)
    )


@pytest.fixture
def opened(viewer, sample):
    use_workers()
    viewer.open(str(sample), plugin="napari-ngff")
    viewer.reset_view()
    pump(50)
    return viewer


def draw(viewer, kind):
    """Make a layer by napari's own button, and draw in it by mouse."""
    buttons = viewer.window._qt_viewer.layerButtons
    {
        "points": buttons.newPointsButton,
        "shapes": buttons.newShapesButton,
        "labels": buttons.newLabelsButton,
    }[kind].click()
    layer = viewer.layers.selection.active
    pump(50)
    places = [(8.0, 8.0), (20.0, 22.0)]
    if kind == "points":
        layer.mode = "add"
        click(viewer, places[0])
        click(viewer, places[1])
    elif kind == "labels":
        layer.mode = "paint"
        drag(viewer, places)
    else:
        layer.mode = "add_polygon"
        for corners in (places[:1], [*places, (30.0, 5.0)]):  # one is given up
            for place in corners:
                click(viewer, place)
            native = viewer.window._qt_viewer.canvas.native
            QTest.keyClick(native, Qt.Key.Key_Escape)
            pump(50)
        layer.mode = "pan_zoom"
        layer.selected_data = set()
    return layer


def unsaved_layers(viewer):
    return [each.layer for each in session_of(viewer).annotations.list_unsaved()]


KINDS = ["points", "shapes", "labels"]


def look(viewer):
    return viewer.screenshot(canvas_only=True, flash=False).astype(int)


def corners(layer):
    places = np.concatenate([np.atleast_2d(each) for each in layer.data])
    return [layer.data_to_world(place) for place in places]


@pytest.mark.default_cases("points")
@pytest.mark.parametrize("kind", KINDS[:2])
def test_what_is_drawn_is_saved_by_key_and_comes_again(opened, sample, kind):
    layer = draw(opened, kind)
    user = Replies(CANCEL)
    assert not close_window(opened)
    text = f"Save changes to '{layer.name}' of cells.ome.zarr?"
    assert user.asked[0][0].startswith(text)
    sign = opened.window._qt_window.findChild(UnsavedSign)
    assert sign.isVisible()
    press_save(opened)
    until(lambda: not unsaved_layers(opened))
    assert not sign.isVisible()
    drawn, seen = corners(layer), look(opened)
    assert len(drawn) == {"points": 2, "shapes": 3}[kind]
    opened.layers.clear()
    opened.open(str(sample), plugin="napari-ngff")
    name = layer.name
    until(lambda: name in opened.layers)
    again = opened.layers[name]
    np.testing.assert_allclose(corners(again), drawn, atol=1e-5)
    assert not unsaved_layers(opened)
    opened.layers.selection.active = again
    if kind == "shapes":  # points have no colours in their file
        until(lambda: (np.abs(look(opened) - seen).max(-1) > 9).mean() < 0.001)
    user = Replies(DISCARD)
    change(again, kind)
    assert unsaved_layers(opened) == [again]
    assert close_window(opened)
    shutil.rmtree(sample.parent / f"cells.{kind}")


@pytest.mark.default_cases("shapes", "labels")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_drawn_on_no_image_is_asked_about_once_and_saved(
    opened, tmp_path, kind
):
    for layer in opened.layers:
        layer.visible = False
    layer, why = draw(opened, kind), ""
    if kind == "labels":
        layer.translate = layer.translate + layer.scale
        why = " They are not at the place of cells.ome.zarr."
    user = Replies(CANCEL)
    assert not close_window(opened)
    text = f"{kind.capitalize()} '{layer.name}': not saved.{why}\nSave asks for a file."
    assert user.asked == [(text, [SAVE, DISCARD, CANCEL])]
    user = Replies(SAVE)  # and then no file is named
    assert not close_window(opened)
    path = tmp_path / ("drawn.tif" if kind == "labels" else "drawn.csv")
    user = Replies(SAVE, path=path)
    assert close_window(opened)
    assert len(user.asked) == 2
    if kind == "labels":
        np.testing.assert_array_equal(tifffile.imread(path), layer.data)
    else:
        rows = pd.read_csv(path).filter(like="axis").to_numpy()
        places = np.concatenate([np.atleast_2d(each) for each in layer.data])
        np.testing.assert_allclose(rows, places)


def press_save(viewer):
    native = viewer.window._qt_viewer.canvas.native
    native.setFocus()
    QTest.keyClick(native, Qt.Key.Key_S, Qt.KeyboardModifier.ControlModifier)


def test_labels_of_the_button_are_saved_by_key_under_a_name_asked_once(
    opened, tmp_path
):
    shutil.copytree(opened.layers[0].source.path, tmp_path / "mine.ome.zarr")
    opened.layers.clear()
    opened.open(str(tmp_path / "mine.ome.zarr"), plugin="napari-ngff")
    opened.layers.selection.active = opened.layers[0]
    layer = draw(opened, "labels")
    pixels = layer.data.copy()
    sign = opened.window._qt_window.findChild(UnsavedSign)
    assert sign.isVisible()
    user = Replies()
    press_save(opened)
    ((text, proposed),) = user.asked
    assert f"Save '{layer.name}' into mine.ome.zarr" in text
    assert proposed == layer.name.replace(":", "")
    assert unsaved_layers(opened) == [layer]
    user = Replies(name="mine")
    press_save(opened)
    until(lambda: not sign.isVisible())
    ours = opened.layers.selection.active
    assert (ours.name, str(ours.mode)) == ("mine", "paint")
    assert layer not in opened.layers
    drag(opened, [(25.0, 5.0), (25.0, 20.0)])
    assert unsaved_layers(opened) == [ours]
    press_save(opened)
    until(lambda: not unsaved_layers(opened))
    assert len(user.asked) == 1
    stored = zarr.open_array(tmp_path / "mine.ome.zarr/labels/mine/0", mode="r")[:]
    assert (stored[pixels > 0] == 1).all()
    assert stored.sum() > pixels.sum()
    np.testing.assert_array_equal(stored, np.asarray(ours.data[0]))


def test_labels_of_a_plugin_are_asked_about_before_their_field_is_left(
    viewer, tmp_path
):
    use_workers()
    plate = write_plate(tmp_path / "p.ome.zarr", grid=(1, 3), shape=(1, 32, 32))
    viewer.open(str(plate), plugin="napari-ngff")
    browser = session_of(viewer).browser

    def show(well):
        browser.show_field(well, "0")
        until(lambda: browser.position is not None and browser.position.well == well)

    def segment(name):
        image = browser.layers.image_layers()[0]
        pixels = np.zeros(image.level_shapes[0], "i4")
        pixels[..., 4:9, 4:9] = 3
        place = {"scale": image.scale, "translate": image.translate}
        return viewer.add_labels(pixels, name=name, **place)

    show("A/1")
    segment("found")
    user = Replies(SAVE, name="")
    show("A/2")
    text, (_, proposed) = user.asked[0][0], user.asked[1]
    assert text.startswith("Save changes to 'found' of A1 - field 0?")
    assert proposed == "found"
    stored = zarr.open_array(plate / "A/1/0/labels/found/0", mode="r")[:]
    assert stored.sum() == 75
    segment("kept")
    user = Replies(KEEP)
    show("A/3")
    assert user.asked[0][0].startswith("Save changes to 'kept' of A2 - field 0?")
    assert not (plate / "A/2/0/labels").exists()
    user = Replies(RESTORE)
    show("A/2")
    until(lambda: (np.asarray(viewer.layers["kept"].data[0]) == 3).sum() == 25)
    user = Replies(CANCEL)
    show("A/1")  # what was restored is saved without a question
    assert (np.asarray(viewer.layers["found"].data[0]) == 3).sum() == 25
    assert (plate / "A/2/0/labels/kept").exists()


def test_of_all_kinds_at_once_none_is_asked_about_twice(opened, sample, tmp_path):
    # Of points and shapes that are selected, napari's button takes the place.
    names = [f"'{draw(opened, kind).name}'" for kind in KINDS[::-1]]
    opened.layers.selection.active = opened.layers["nuclei"]
    measure(opened)
    opened.layers["nuclei"].paint((9, 9), 77)
    user = Replies(DISCARD, DISCARD)
    assert close_window(opened)
    first, second = (text for text, _ in user.asked)
    together = " and ".join(["'nuclei'", *names])
    assert first.startswith(f"Save changes to {together} of cells.ome.zarr?")
    line, end = second.splitlines()
    assert "Measured table of nuclei" in line
    assert end == "Save writes the table into its images."
    assert "'nuclei'" not in second


def test_a_long_question_counts_what_it_does_not_list(opened):
    for number in range(15):
        opened.add_labels(np.eye(30 + number, dtype="u1"))
    user = Replies(CANCEL)
    assert not close_window(opened)
    lines = user.asked[0][0].splitlines()
    assert len(lines) == len(set(lines)) == 14
    assert lines[-2:] == ["And 3 more: not saved.", "Save asks for a file."]


def test_the_field_is_named_also_when_another_is_on_screen(viewer, tmp_path):
    use_workers()
    plate = write_plate(tmp_path / "p.ome.zarr", grid=(1, 2), shape=(1, 32, 32))
    viewer.open(str(plate), plugin="napari-ngff")
    browser = session_of(viewer).browser
    browser.show_field("A/1", "1")
    until(lambda: browser.position is not None and browser.position.well == "A/1")
    name = viewer.add_labels(np.eye(9, dtype="u1")).name
    browser.show_field("A/2", "0")
    until(lambda: browser.position.well == "A/2")
    user = Replies(CANCEL)
    assert not close_window(viewer)
    assert user.asked[0][0].startswith(f"Labels '{name}' of A1 - field 1: not saved.")


def make(viewer, kind, folder, chosen):
    """Add a layer in one of the ways there are; gives it, and whether it is unsaved."""
    name = f"{kind}-{len(viewer.layers)}"
    content = {
        "points": [[3.0, 4.0], [5.0, 6.0]],
        "shapes": [[[1.0, 1.0], [1.0, 9.0], [9.0, 9.0], [9.0, 1.0]]],
        "labels": np.eye(32, dtype="u1"),
    }[kind]
    empty = {"points": None, "shapes": None, "labels": np.zeros((32, 32), "u1")}[kind]
    add = getattr(viewer, f"add_{kind}")
    way = chosen.choice(["empty", "script", "file"])
    if way != "file":
        return add(empty if way == "empty" else content, name=name), way == "script"
    path = folder / f"{name}.{'tif' if kind == 'labels' else 'csv'}"
    other = type(add(content)).create(content, {}, kind)
    viewer.layers.remove(viewer.layers[-1])
    assert other.save(str(path), plugin="napari")
    (layer,) = viewer.open(str(path), plugin="napari", layer_type=kind)
    return layer, False


def change(layer, kind):
    if kind == "points":
        layer.add([[7.0, 7.0]])
    elif kind == "shapes":
        layer.add_rectangles([[2.0, 2.0], [4.0, 4.0]])
    else:
        layer.paint((5, 5), 9)


def empty(layer, kind):
    if kind == "labels":
        layer.data_setitem(np.nonzero(layer.data), 0)
    else:
        layer.selected_data = set(range(len(layer.data)))
        layer.remove_selected()


@pytest.mark.default_cases("1")
@pytest.mark.parametrize("seed", range(4))
def test_exactly_what_no_file_has_is_listed(opened, tmp_path, seed):
    chosen, unsaved = random.Random(seed), {}
    for step in range(24):
        kind = chosen.choice(KINDS)
        ours = [x for x in unsaved if x._type_string == kind]
        action = chosen.choice(["make", "change", "save", "empty", "look"])
        if action == "make" or not ours:
            layer, is_unsaved_now = make(opened, kind, tmp_path, chosen)
            unsaved[layer] = is_unsaved_now
            continue
        layer = chosen.choice(ours)
        if action == "change":
            change(layer, kind)
            unsaved[layer] = True
        elif action == "save" and (kind == "labels" or len(layer.data)):
            opened.layers.selection = {layer}
            ending = "tif" if kind == "labels" else "csv"
            path = str(tmp_path / f"saved-{step}.{ending}")
            assert opened.layers.save(path, selected=True, plugin="napari")
            unsaved[layer] = False
        elif action == "empty":
            empty(layer, kind)
            unsaved[layer] = False
        elif action == "look":  # nothing of it is a change
            layer.visible = not layer.visible
            layer.opacity, layer.name = 0.5, f"{layer.name}!"
            opened.dims.ndisplay = 2
            layer.refresh()
        assert set(unsaved_layers(opened)) == {
            x for x, is_unsaved in unsaved.items() if is_unsaved
        }


def test_what_this_package_makes_is_asked_about_only_when_it_was_changed(opened):
    labels = opened.layers["nuclei"]
    work = opened.add_layer(work_here(labels, region=((10, 40), (10, 40))))
    assert not is_unsaved(opened)
    work.paint((3, 3), 99)
    assert is_unsaved(opened)
    merge(work, labels, "overwrite")
    assert [each.layer for each in session_of(opened).annotations.list_unsaved()] == [
        labels
    ]
    shapes = opened.add_shapes(
        [[[50, 50], [50, 60], [60, 60], [60, 50]]], scale=labels.scale
    )
    shapes_to_labels(opened, shapes, labels)
    # Shapes are work of a person also when labels were painted of them.
    assert unsaved_layers(opened) == [labels, shapes]
    session_of(opened).annotations.of_layer(shapes).leave(keep=False)
    discard_edits(labels.saver)


def test_a_window_without_an_image_of_ours_is_left_to_napari(viewer):
    use_workers()
    viewer.add_image(np.zeros((8, 8)))
    viewer.add_points([[3, 3]])
    assert not is_unsaved(viewer)


def test_large_labels_of_the_button_are_asked_about_when_they_were_painted(opened):
    blank = opened.add_labels(np.zeros((3000, 3000), "u1"))
    assert not is_unsaved(opened)
    blank.brush_size = 1
    blank.paint((1, 1), 3)
    assert is_unsaved(opened)
