"""Who asks for the next before the last is there; and plates that are odd."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel

from journals import discard_edits
from napari_ngff import open_node
from napari_ngff.plate import kept_planes
from napari_ngff.store.lru_cache import ByteCache
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.plans.layer_plan import layer_kind
from napari_ngff.viewer.saving.layer_saver import LayerSaver
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import begin_annotation, session_of
from plates import pixels, write_image, write_plate


@pytest.fixture
def viewer():
    return ViewerModel()


@pytest.fixture
def reported(monkeypatch):
    messages = []
    monkeypatch.setattr(
        Window, "show_messages", staticmethod(lambda found, _: messages.extend(found))
    )
    return messages


class Workers:
    """Do what they are given when it is asked for, and what nobody waits for never."""

    def __init__(self):
        self.jobs = []
        self.ran = 0

    def run(self, work, done):
        self.jobs.append((work, done))

    def turn(self):
        work, done = self.jobs.pop(0)
        self.ran += 1
        done(work())

    def finish(self):
        while self.jobs:
            self.turn()


@pytest.fixture
def workers(monkeypatch):
    made = Workers()
    monkeypatch.setattr(Window.current, "has_workers", True)
    monkeypatch.setattr(Window.current, "run", made.run)
    monkeypatch.setattr(Window.current, "run_later", lambda work: None)
    return made


def browse(viewer, root):
    return session_of(viewer).browse(open_node(root))


def shown(viewer):
    return [np.asarray(layer.data[0]) for layer in viewer.layers]


def without(root, well, keep):
    """Leave only some of the fields of a well."""
    place = root / well / "zarr.json"
    document = json.loads(place.read_text())
    inner = document["attributes"]["ome"]["well"]
    inner["images"] = [image for image in inner["images"] if keep(image)]
    place.write_text(json.dumps(document))


@contextmanager
def reading():
    """Note the keys that are read from folders."""
    keys, read = [], FolderStore.read

    def noted(self, key, *arguments):
        keys.append(key)
        return read(self, key, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FolderStore, "read", noted)
        yield keys


# Quick hands.


def test_each_press_is_a_step(viewer, workers, tmp_path):
    root = write_plate(tmp_path / "p", grid=(1, 6), fields=2)
    browser = browse(viewer, root)
    browser.show_field("A/1")
    workers.finish()
    for _ in range(3):
        browser.step_well(0, 1)
    workers.finish()
    assert browser.position == Position("A/4", "0", 0)
    for _ in range(3):
        browser.step_field(1)
    workers.finish()
    assert browser.position == Position("A/5", "1", 0)


def test_what_is_given_up_is_no_place_to_step_from(viewer, workers, tmp_path):
    root = write_plate(tmp_path / "p", grid=(1, 6), fields=2)
    browser = browse(viewer, root)
    browser.show_field("A/1")
    workers.finish()
    browser.show_field("A/5")
    browser.cancel_reading()
    browser.step_well(0, 1)
    workers.finish()
    assert browser.position == Position("A/2", "0", 0)


def test_what_nobody_waits_for_is_not_read(viewer, workers, tmp_path, monkeypatch):
    root = write_plate(tmp_path / "p", grid=(1, 6), fields=2)
    browser = browse(viewer, root)
    opened = []
    field = browser.resolver.open_field
    monkeypatch.setattr(
        browser.resolver,
        "open_field",
        lambda title, at: opened.append(at.well) or field(title, at),
    )
    for number in range(1, 7):
        browser.show_field(f"A/{number}")
    workers.finish()
    assert opened == ["A/6"]


def test_labels_chosen_while_wells_are_opened_are_shown(viewer, workers, tmp_path):
    root = write_plate(tmp_path / "p", fields=1, labelled=lambda well: ("cells",))
    browser = browse(viewer, root)
    browser.show_field("A/1")
    workers.finish()
    browser.show_mosaic(["A/1", "A/2"])
    work, done = workers.jobs.pop(0)
    found = work()
    browser.choose_labels("cells")
    done(found)
    workers.finish()
    assert browser.shown_wells == ("A/1", "A/2")
    assert [layer._type_string for layer in viewer.layers] == ["image", "labels"]


def test_an_acquisition_does_not_call_off_what_was_asked(viewer, workers, tmp_path):
    root = write_plate(tmp_path / "p", grid=(1, 2), fields=2, acquisitions=2)
    browser = browse(viewer, root)
    browser.show_field("A/1")
    workers.finish()
    browser.show_mosaic()
    browser.choose_acquisitions([1])
    workers.finish()
    assert browser.position is None
    np.testing.assert_array_equal(shown(viewer)[0][:8, :8], pixels(2, (8, 8)))
    browser.show_field("A/2")
    browser.choose_acquisitions([0])
    workers.finish()
    assert browser.position == Position("A/2", "0", 0)


def test_all_wells_that_are_pinned_quickly_are_there(
    viewer, workers, reported, tmp_path
):
    root = write_plate(tmp_path / "p", grid=(1, 6), fields=1)
    browser = browse(viewer, root)
    browser.show_field("A/1")
    browser.toggle_pin("A/3")
    browser.toggle_pin("A/4", "77")
    browser.toggle_pin("A/5")
    workers.finish()
    assert browser.position == Position("A/1", "0", 0)
    assert [place.well for place in browser.pinned_fields] == ["A/3", "A/5"]
    assert "no image 77" in reported[0]


def test_an_error_of_any_kind_ends_an_action(viewer, workers, reported, tmp_path):
    root = write_plate(tmp_path / "p", grid=(1, 2), fields=1)
    browser = browse(viewer, root)
    browser.resolver.open_field = lambda *_: [][0]
    busy = []
    browser.busy.connect(busy.append)
    browser.show_field("A/1")
    workers.finish()
    assert busy == [True, False]
    assert "IndexError" in reported[0]


def test_a_browser_that_was_left_shows_nothing(viewer, workers, tmp_path):
    first = browse(viewer, write_plate(tmp_path / "first", fields=1))
    second = browse(viewer, write_plate(tmp_path / "second", fields=1))
    second.show_field("A/2")
    first.show_field("A/1")
    first.show_mosaic()
    workers.finish()
    assert first.position is None
    assert [str(tmp_path / "second" / "A/2/0")] == [
        str(next(iter(layer.metadata.values())).node) for layer in viewer.layers
    ]


def test_a_round_that_is_closed_leads_nowhere(viewer, workers, tmp_path):
    browser = browse(viewer, write_plate(tmp_path / "p", fields=1))
    found = begin_annotation(viewer, "cells")
    found.close()
    workers.finish()
    assert browser.position is None
    assert not viewer.layers


def test_a_round_reads_a_document_of_each_well_to_begin(viewer, workers, tmp_path):
    root = write_plate(tmp_path / "p", grid=(3, 4), fields=4)
    browse(viewer, root)
    found = begin_annotation(viewer, "cells")
    with reading() as keys:
        workers.turn()
    assert len(found.fields) == 48
    assert set(keys) == {f"{r}/{c}/zarr.json" for r in "ABC" for c in "1234"}


def test_a_round_that_is_closed_reads_no_more(viewer, workers, tmp_path):
    browse(viewer, write_plate(tmp_path / "p", grid=(3, 4), fields=1))
    begin_annotation(viewer, "cells").close()
    with reading() as keys:
        workers.finish()
    assert not keys


# Wells that turn out larger.


def plate_with_a_large_well(tmp_path):
    root = write_plate(tmp_path / "p", grid=(5, 5), fields=1, shape=(1, 32, 32))
    shutil.rmtree(root / "B/2/0")
    write_image(root / "B/2/0", pixels(1, (1, 64, 64)), 3)
    return root


def draw(viewer, workers):
    for layer in viewer.layers:
        layer.refresh()
    workers.finish()


def test_a_well_stays_in_view_when_another_needs_room(viewer, workers, tmp_path):
    browser = browse(viewer, plate_with_a_large_well(tmp_path))
    browser.show_mosaic()
    while not browser.shown_wells:
        workers.turn()
    assert viewer.layers[0].data.shape == (160, 160)
    browser.zoom_to("D/4")
    viewer.layers[0].corner_pixels = np.array([[96, 96], [127, 127]])  # as a window
    draw(viewer, workers)
    assert viewer.layers[0].data.shape == (320, 320)
    at = browser.position_at(viewer.scene.camera.center[-2:])
    assert at.well == "D/4"


def test_a_plate_that_is_in_view_stays_so(viewer, workers, tmp_path):
    browser = browse(viewer, plate_with_a_large_well(tmp_path))
    browser.show_mosaic()
    while not browser.shown_wells:
        workers.turn()
    viewer.layers[0].corner_pixels = np.array([[0, 0], [159, 159]])
    before = viewer.scene.camera.zoom
    draw(viewer, workers)
    assert viewer.layers[0].data.shape == (320, 320)
    assert viewer.scene.camera.zoom == pytest.approx(before / 2, rel=0.02)


def test_making_room_calls_nothing_off(viewer, workers, tmp_path):
    browser = browse(viewer, plate_with_a_large_well(tmp_path))
    browser.show_mosaic()
    while not browser.is_drawing:
        workers.turn()
    browser.show_field("C/3")
    draw(viewer, workers)
    assert browser.position == Position("C/3", "0", 0)


def test_more_than_there_is_room_for_is_drawn_once(
    viewer, workers, tmp_path, monkeypatch
):
    side = 5 * 16
    monkeypatch.setattr(kept_planes, "PLANE_BYTES", 2 * side * side)
    monkeypatch.setattr(kept_planes, "MOST_PLANES", 3)
    monkeypatch.setattr(kept_planes, "kept", ByteCache(6 * side * side, least=1))
    root = write_plate(
        tmp_path / "p", grid=(5, 5), fields=1, shape=(5, 16, 16), levels=1
    )
    browser = browse(viewer, root)
    browser.show_mosaic()
    while workers.jobs and workers.ran < 100:
        workers.turn()
    assert not browser.is_drawing
    for channel, layer in enumerate(viewer.layers):
        picture = np.asarray(layer._slice.image.raw)
        np.testing.assert_array_equal(
            picture[:16, :16], pixels(0, (5, 16, 16))[channel]
        )


def test_parts_that_there_is_no_room_for_are_drawn_once(
    viewer, workers, tmp_path, monkeypatch
):
    monkeypatch.setattr(kept_planes, "PLANE_BYTES", 6400)
    root = write_plate(tmp_path / "p", grid=(5, 5), fields=1, shape=(5, 16, 16))
    browser = browse(viewer, root)
    browser.show_mosaic()
    workers.finish()
    monkeypatch.setattr(kept_planes, "MOST_PLANES", 0)
    monkeypatch.setattr(kept_planes, "kept", ByteCache(2 * 12800 + 2000, least=1))
    workers.ran = 0
    for layer in viewer.layers:
        layer.locked_data_level = 0
    while workers.jobs and workers.ran < 100:
        workers.turn()
    assert not browser.is_drawing
    expected = pixels(0, (5, 16, 16))
    for channel, layer in enumerate(viewer.layers):
        picture = np.asarray(layer._slice.image.raw)
        assert picture.shape == (80, 80)
        np.testing.assert_array_equal(picture[:16, :16], expected[channel])


def test_one_picture_shows_all_channels(viewer, workers, tmp_path, monkeypatch):
    monkeypatch.setattr(kept_planes, "PLANE_BYTES", 6400)
    root = write_plate(tmp_path / "p", grid=(5, 5), fields=1, shape=(3, 16, 16))
    browser = browse(viewer, root)
    browser.show_mosaic()
    workers.finish()
    first, second, third = viewer.layers
    drawn = []
    first.events.set_data.connect(lambda: drawn.append(first.data_level))
    first.locked_data_level = 0
    work, done = workers.jobs.pop()
    found = work()
    # The worker was quicker than napari, which asks layer by layer.
    second.locked_data_level = third.locked_data_level = 0
    done(found)
    assert drawn == [0]
    workers.finish()
    assert drawn == [0, 0]
    assert all(np.all(layer._slice.image.raw) for layer in viewer.layers)


def test_what_is_left_behind_is_not_drawn(viewer, workers, tmp_path, monkeypatch):
    monkeypatch.setattr(kept_planes, "PLANE_BYTES", 6400)
    root = write_plate(tmp_path / "p", grid=(5, 6), fields=1, shape=(1, 32, 32))
    browser = browse(viewer, root)
    browser.show_mosaic()
    workers.finish()
    (layer,) = viewer.layers
    layer.corner_pixels = np.array([[0, 0], [159, 95]])
    layer.data_level = 0
    layer.corner_pixels = np.array([[0, 96], [159, 191]])
    layer.refresh()
    with reading() as keys:
        workers.finish()
    assert {key[2] for key in keys} == set("456")


def test_planes_of_all_channels_have_room(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_planes, "kept", ByteCache(8))
    kept_planes.make_room(8)
    assert kept_planes.kept.limit == 16 * kept_planes.PLANE_BYTES
    kept_planes.make_room(100)
    assert kept_planes.kept.limit == 2**30


# Acquisitions.


def test_what_is_shown_is_what_the_title_says(viewer, tmp_path):
    root = write_plate(tmp_path / "p", grid=(1, 2), fields=2, acquisitions=2)
    browser = browse(viewer, root)
    browser.show_field("A/1", "0")
    browser.show_field("A/1", "3")
    assert browser.name_field(browser.position) == "A1 - field 3 - round 1"
    np.testing.assert_array_equal(shown(viewer)[0], pixels(3, (8, 8)))
    assert browser.chosen_acquisitions == (1,)
    browser.step_field(-1)
    assert browser.position == Position("A/1", "2", 1)


def test_the_next_field_has_all_acquisitions_that_were_chosen(viewer, tmp_path):
    root = write_plate(tmp_path / "p", grid=(1, 2), fields=2, acquisitions=2)
    browser = browse(viewer, root)
    browser.show_field("A/1", "0")
    browser.choose_acquisitions([0, 1])
    browser.step_field(1)
    for image, number in zip(shown(viewer), (1, 3), strict=True):
        np.testing.assert_array_equal(image, pixels(number, (8, 8)))


def test_a_well_that_lacks_an_acquisition(viewer, reported, tmp_path):
    root = write_plate(tmp_path / "p", grid=(1, 3), fields=2, acquisitions=2)
    without(root, "A/2", lambda image: image["acquisition"] == 1)
    browser = browse(viewer, root)
    browser.show_field("A/1", "1")
    browser.step_well(0, 1)
    assert browser.position == Position("A/2", "2", 1)
    np.testing.assert_array_equal(shown(viewer)[0], pixels(52, (8, 8)))
    browser.step_well(0, 1)
    assert browser.position == Position("A/3", "0", 0)  # as chosen
    browser.choose_acquisitions([0, 1])
    browser.show_field("A/2")
    assert browser.position == Position("A/2", "2", 1)
    first, second = shown(viewer)
    assert not first.any()  # no other acquisition takes its place
    np.testing.assert_array_equal(second, pixels(52, (8, 8)))
    assert reported == ["This well has no image of the chosen acquisition."]


def test_a_place_that_was_imaged_once_is_paired_with_no_other(viewer, tmp_path):
    root = write_plate(tmp_path / "p", grid=(1, 2), fields=2, acquisitions=2)
    without(root, "A/1", lambda image: image["path"] != "3")
    browser = browse(viewer, root)
    browser.choose_acquisitions([0, 1])
    browser.show_field("A/1", "0")
    browser.step_field(1)
    first, second = shown(viewer)
    np.testing.assert_array_equal(first, pixels(1, (8, 8)))
    assert not second.any()


# Wells that are broken.


@pytest.mark.parametrize("broken", ["document", "fields", "image"])
def test_arrows_lead_past_a_broken_well(viewer, reported, tmp_path, broken):
    root = write_plate(tmp_path / "p", grid=(1, 3), fields=1)
    if broken == "document":
        (root / "A/2/zarr.json").unlink()
    elif broken == "fields":
        without(root, "A/2", lambda _: False)
    else:
        shutil.rmtree(root / "A/2/0")
    browser = browse(viewer, root)
    browser.show_field("A/1")
    browser.step_well(0, 1)
    if broken == "image":
        # Only opening it tells.
        assert browser.position == Position("A/1", "0", 0)
        assert "A/2/0" in reported.pop()
        browser.step_well(0, 1)
    assert browser.position == Position("A/3", "0", 0)
    assert reported == []


def test_at_the_border_nothing_happens(viewer, tmp_path, monkeypatch):
    root = write_plate(tmp_path / "p", grid=(1, 2), fields=1)
    browser = browse(viewer, root)
    browser.show_field("A/2")
    paint_new(viewer)
    settled = []
    monkeypatch.setattr(Window.current, "resolve_unsaved", lambda *_: settled.append(1))
    browser.step_well(0, 1)
    assert browser.position == Position("A/2", "0", 0)
    assert not settled


# Work on the field that is left.


def paint_new(viewer):
    layer = viewer.add_layer(new_labels(viewer.layers[0], "mine"))
    layer.paint((2, 2), 5)
    return layer


@pytest.mark.parametrize("end", [LayerSaver.keep_journal, discard_edits])
def test_unsaved_strokes_stay_where_the_next_field_cannot_be_read(
    viewer, reported, tmp_path, monkeypatch, end
):
    root = write_plate(tmp_path / "p", grid=(1, 2), fields=1)
    shutil.rmtree(root / "A/2/0")
    browser = browse(viewer, root)
    browser.show_field("A/1")
    layer = paint_new(viewer)
    monkeypatch.setattr(settings, "saves_when_moving_on", lambda: False)
    monkeypatch.setattr(
        Window.current, "resolve_unsaved", lambda *_: partial(end, layer.saver)
    )
    browser.show_field("A/2")
    assert browser.position == Position("A/1", "0", 0)
    assert len(reported) == 1
    layer.paint((6, 6), 7)
    layer.saver.save()
    assert not layer.unsaved
    assert (np.asarray(layer.data[0])[[2, 6], [2, 6]] == [5, 7]).all()
    stored = zarr.open_array(root / "A/1/0/labels/mine/0", mode="r")[...]
    np.testing.assert_array_equal(stored, np.asarray(layer.data[0]))


@pytest.mark.parametrize("asks", [False, True])
def test_what_is_painted_while_the_next_field_is_read_is_left_as_well(
    viewer, workers, tmp_path, monkeypatch, asks
):
    root = write_plate(tmp_path / "p", grid=(1, 2), fields=1)
    browser = browse(viewer, root)
    browser.show_field("A/1")
    workers.finish()
    layer, asked = paint_new(viewer), []

    def save_all(_, layers):
        asked.append(browser.position)
        for each in layers:
            if layer_kind(each) == "labels":
                each.saver.save_now()
        return lambda: None

    monkeypatch.setattr(settings, "saves_when_moving_on", lambda: not asks)
    monkeypatch.setattr(Window.current, "resolve_unsaved", save_all)
    browser.show_field("A/2")
    while not workers.jobs or layer.unsaved:
        workers.turn()
    layer.paint((6, 6), 7)  # the next field is being read
    assert browser.position == Position("A/1", "0", 0)
    expected = np.asarray(layer.data[0]).copy()
    workers.finish()
    assert browser.position == Position("A/2", "0", 0)
    assert asked == [Position("A/1", "0", 0)] * 2
    stored = zarr.open_array(root / "A/1/0/labels/mine/0", mode="r")[...]
    np.testing.assert_array_equal(stored, expected)
    assert not (root / "A/2/0/labels/mine").exists()
    assert not np.asarray(layer.data[0]).any()


def test_the_question_comes_before_anything_is_read(
    viewer, workers, tmp_path, monkeypatch
):
    root = write_plate(tmp_path / "p", grid=(1, 2), fields=1)
    browser = browse(viewer, root)
    browser.show_field("A/1")
    workers.finish()
    paint_new(viewer)
    monkeypatch.setattr(settings, "saves_when_moving_on", lambda: False)
    monkeypatch.setattr(Window.current, "resolve_unsaved", lambda *_: None)
    with reading() as keys:
        browser.show_field("A/2")
        workers.finish()
    assert browser.position == Position("A/1", "0", 0)
    assert not [key for key in keys if key.startswith("A/2")]


# What stays.


def test_contrast_stays_when_a_field_has_more_axes(viewer, tmp_path):
    root = write_plate(tmp_path / "p", grid=(1, 2), fields=2, shape=(2, 8, 8))
    shutil.rmtree(root / "A/1/1")
    write_image(root / "A/1/1", pixels(1, (2, 3, 8, 8)), 3, axes="czyx")
    browser = browse(viewer, root)
    browser.show_field("A/1")
    layer = viewer.layers[0]
    layer.contrast_limits, layer.colormap, layer.gamma = (3, 9), "red", 0.5
    browser.step_field(1)
    layer = viewer.layers[0]
    assert layer.ndim == 3
    assert tuple(layer.contrast_limits) == (3, 9)
    assert layer.colormap.name == "red"
    assert layer.gamma == 0.5


def test_the_status_is_that_of_the_field_that_is_shown(viewer, tmp_path):
    root = write_plate(
        tmp_path / "p", grid=(1, 2), fields=2, labelled=lambda _: ("cells",)
    )
    browser = browse(viewer, root)
    browser.show_field("A/1")
    labels = viewer.layers[-1]
    viewer.layers.selection.active = labels
    viewer.mouse_over_canvas = True
    labels.paint((2, 2), 7)
    viewer.update_status_from_cursor()
    assert viewer.status["coordinates"].startswith("A1 - field 0")
    assert labels.saver.save_now()
    browser.step_field(1)  # nobody moves the mouse
    assert viewer.status["coordinates"].startswith("A1 - field 1")


# Pins.


def test_pins_follow_to_the_place_of_the_next_field(viewer, tmp_path):
    root = write_plate(tmp_path / "p", grid=(1, 3), fields=4)
    browser = browse(viewer, root)
    browser.show_field("A/1", "0")
    browser.toggle_pin("A/3")
    for _ in range(4):
        browser.step_field(1)
        own, beside = (layer.extent.world[:, -2:] for layer in viewer.layers)
        assert beside[0, 1] > own[1, 1]
        assert beside[0, 0] == own[0, 0]


def test_a_pinned_channel_is_like_the_same_channel(viewer, tmp_path):
    root = write_plate(tmp_path / "p", grid=(1, 3), fields=1, shape=(12, 8, 8))
    browser = browse(viewer, root)
    browser.show_field("A/1")
    for number, layer in enumerate(viewer.layers):
        layer.contrast_limits = (0, 10 + number)
    del viewer.layers[0]
    browser.toggle_pin("A/2")
    found = [layer.contrast_limits[1] for layer in viewer.layers[-11:]]
    assert found == [10 + number for number in range(1, 12)]


def test_a_pin_whose_layers_were_removed_is_none(viewer, tmp_path):
    root = write_plate(tmp_path / "p", grid=(1, 3), fields=1)
    browser = browse(viewer, root)
    browser.show_field("A/1")
    browser.toggle_pin("A/2")
    del viewer.layers[-1]
    assert browser.pinned_fields == ()
    browser.toggle_pin("A/2")
    assert [place.well for place in browser.pinned_fields] == ["A/2"]
