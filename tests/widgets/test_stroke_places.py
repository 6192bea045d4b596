"""Each stroke lands in the file of the image under the mouse, wherever one has gone.

A random walk over a plate with real mouse and key events; with STROKES=N and
MOVES=N a longer one.
"""

from __future__ import annotations

import json
import os
import random

import numpy as np
import pytest
import zarr
from napari.utils.notifications import notification_manager
from qtpy.QtCore import QEvent, Qt
from qtpy.QtTest import QTest

from choices import unpin_all
from mouse import LEFT, NONE, canvas, drag, on_canvas, pump, send, until
from napari_ngff.labels.field_states import FieldStates
from napari_ngff.metadata.model import GroupKind
from napari_ngff.viewer.browsing import layer_slots
from napari_ngff.viewer.layers.label_owners import image_address
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets import dialogs
from napari_ngff.widgets.browser.host import browser_of
from plates import pixels, write_array, write_image, write_plate
from scenes import end, link, scene, system
from scenes import image as scene_image

STROKES = int(os.environ.get("STROKES", "10"))
MOVES = int(os.environ.get("MOVES", "5"))
SIZE = 48
NAME = "nuclei"
FIRST = 10_000


def write_fields(root, places):
    """Give every pixel of an image the number of the image; returns the numbers."""
    numbers = {}
    for number, place in enumerate(places, 1):
        numbers[number] = place
        for level, size in (("0", SIZE), ("1", SIZE // 2)):
            data = np.full((1, size, size), 100 * number, "uint16")
            write_array(root / place / level, data, 3)
    return numbers


def write_screen(root, acquisitions=1):
    wells = [f"{row}/{column}" for row in "ABC" for column in "123"]
    wells.remove("B/2")
    write_plate(
        root, grid=(3, 3), fields=2, shape=(1, SIZE, SIZE), wells=wells,
        acquisitions=acquisitions, labelled=lambda w: (NAME,) if w == "A/2" else (),
    )  # fmt: skip
    fields = [str(i) for i in range(2 * acquisitions)]
    return write_fields(root, [f"{well}/{field}" for well in wells for field in fields])


def write_collection(root):
    ome = {"version": "0.5", "bioformats2raw.layout": 3}
    document = {"zarr_format": 3, "node_type": "group", "attributes": {"ome": ome}}
    for number in range(5):
        write_image(root / str(number), pixels(0, (1, SIZE, SIZE)), 3, levels=2)
    (root / "zarr.json").write_text(json.dumps(document))
    return write_fields(root, [str(number) for number in range(5)])


def write_folder(root):
    names = [f"{letter}.ome.zarr" for letter in "abcde"]
    for name in names:
        write_image(root / name, pixels(0, (1, SIZE, SIZE)), 3, levels=2)
    return write_fields(root, names)


def write_scene(root):
    """Describe four images side by side, and write them."""
    world, places = system("world", "yx"), {}
    for number, corner in enumerate([(0, 0), (0, 60), (60, 0), (60, 60)]):
        name = f"tile-{number}"
        places[name] = link(
            end("physical", name), end("world"), type="translation", translation=corner
        )
        pixels = np.full((SIZE, SIZE), 100 * (number + 1), "uint16")
        scene_image(root / name, "yx", pixels)
    scene(root, places.values(), [world])
    return dict(enumerate(places, 1))


WRITERS = {
    "plate": write_screen,
    "acquisitions": lambda root: write_screen(root, acquisitions=2),
    "collection": write_collection,
    "folder": write_folder,
    "scene": write_scene,
}


class Walker:
    """A person who goes about at random and paints."""

    def __init__(self, viewer, root, numbers, seed):
        self.viewer, self.root, self.numbers = viewer, root, numbers
        self.browser = session_of(viewer).browser
        self.random = random.Random(seed)
        self.painted = {}
        self.strokes_in, self.moves, self.notes = {}, [], {}
        self.count = self.refused = 0

    def settle(self):
        """Wait until what was asked for is shown, and all saves have ended."""
        task, state = self.browser._task, self.browser.state
        until(lambda: task._steps is None and state.wanted is None)
        pins = self.browser._pins
        until(lambda: pins._task._steps is None and not pins._wanted)
        until(lambda: not self.is_saving())
        pump(30)

    def is_saving(self):
        savers = [getattr(layer, "saver", None) for layer in self.viewer.layers]
        return any(saver is not None and saver.running for saver in savers)

    def press(self, key):
        native = canvas(self.viewer).native
        native.setFocus()
        QTest.keyClick(native, key)

    def move(self):
        kinds = ["field", "list", "pin"]
        if self.is_together():
            kinds += ["image"] * 12
        if self.browser.map.wells:
            kinds += ["well", "map", "overview", "acquisition"]
        choice = self.random.choice(kinds)
        self.moves.append(choice)
        getattr(self, f"move_by_{choice}")()
        self.settle()
        if self.browser.position is None and not self.is_together():
            self.move_by_list()
            self.settle()

    def move_by_field(self):
        self.press(self.random.choice([Qt.Key.Key_Period, Qt.Key.Key_Comma]))

    def move_by_well(self):
        keys = Qt.Key.Key_Right, Qt.Key.Key_Left, Qt.Key.Key_Up, Qt.Key.Key_Down
        self.press(self.random.choice(keys))

    def move_by_map(self):
        browser_of(self.viewer).goToWell(self.any_field()[0])
        pump(20)

    def move_by_list(self):
        self.browser.show_field(*self.any_field())

    def move_by_image(self):
        self.browser.show_image(self.any_field()[1])

    def move_by_pin(self):
        self.browser.toggle_pin(*self.any_field())

    def move_by_acquisition(self):
        if len(self.browser.acquisitions) > 1:
            self.browser.choose_acquisitions([self.random.choice([0, 1])])

    def move_by_overview(self):
        self.browser.show_mosaic()
        self.settle()
        self.paint_overview()

    def is_together(self):
        """Return whether all images of a scene are on screen."""
        return self.browser.kind is GroupKind.SCENE and self.browser.position is None

    def any_field(self):
        """Choose a well, None in a collection, and a field of it."""
        place = self.random.choice(list(self.numbers.values()))
        well, slash, field = place.rpartition("/")
        return (well, field) if slash else (None, place)

    def ensure_labels(self):
        """Select labels of an image; make some, as the form does, if there are none."""
        ours = [x for x in self.viewer.layers if self.browser.layers.owns_layer(x)]
        images = [x for x in ours if x._type_string == "image"]
        image = self.random.choice(images)
        mine = [
            x for x in ours
            if isinstance(x, OMEZarrLabels) and x.editable
            and image_address(x) == image_address(image)
        ]  # fmt: skip
        active = self.viewer.layers.selection.active
        if active in mine and active.visible and active.mode == "paint":
            return active
        if not mine:
            mine = [self.viewer.add_layer(new_labels(image, NAME))]
        self.viewer.layers.selection.active = mine[0]
        mine[0].visible, mine[0].mode = True, "paint"
        pump(30)  # a brush of screen pixels learns the zoom when its layer is drawn
        return mine[0]

    def seen(self, world):
        """Find the image that is drawn at a place of the canvas, by its pixels."""
        values = [
            layer.get_value(world, world=True)
            for layer in self.viewer.layers
            if layer._type_string == "image" and layer.visible
        ]
        values = [v[-1] if isinstance(v, tuple) else v for v in values]
        found = {int(v) // 100 for v in values if v is not None and v > 0}
        assert len(found) == 1, f"one image is seen there, not {found}"
        return self.numbers[found.pop()]

    def paint(self):
        layer = self.ensure_labels()
        self.count += 1
        layer.selected_label = label = FIRST + self.count
        layer.brush_size = 1  # in pixels of the image, whatever the zoom
        low, high = layer.extent.world[:, -2:]
        corner = low + (high - low) * 0.05
        number = self.strokes_in.get(image_address(layer), 0)
        self.strokes_in[image_address(layer)] = number + 1
        # Side by side, so that all of them can be found.
        at = corner + (high - low) * 0.9 * np.array(divmod(number % 400, 20)) / 20
        camera = self.viewer.scene.camera
        if camera.zoom < 3:  # one needs to see the voxels that one paints
            camera.zoom, camera.center = 4, (*camera.center[:-2], *at)
            pump(30)
        world = [*self.viewer.dims.point[:-2], *at]
        place = self.seen(world)
        end = at + (high - low) * 0.005
        drag(self.viewer, [at, end], pause=0)
        assert (np.asarray(layer.data[0]) == label).any(), "the stroke is seen"
        assert layer.brush_size == 1, "or it could cover the strokes beside it"
        self.painted[label] = place
        self.notes[label] = self.moves[-3:], self.browser.position, image_address(layer)

    def paint_overview(self):
        """Try to paint on the labels of an overview, which says to open a field."""
        joined = [
            x for x in self.viewer.layers
            if isinstance(x, OMEZarrLabels) and self.browser.layers.owns_layer(x)
        ]  # fmt: skip
        for layer in joined:
            self.viewer.layers.selection.active = layer
            layer.visible, layer.selected_label = True, FIRST
            self.press(Qt.Key.Key_2)
            low, high = layer.extent.world[:, -2:]
            drag(self.viewer, [low + (high - low) * at for at in (0.1, 0.2)], pause=0)
            assert not layer.unsaved
            assert not (np.asarray(layer.data[-1]) == FIRST).any()
            message = notification_manager.records[-1].message
            assert "open a field to paint" in message
            self.refused += 1

    def paint_beside(self):
        """Paint with the labels of one image over another: that is in no file."""
        layer = self.ensure_labels()
        others = {
            image_address(x): x.extent.world[:, -2:]
            for x in self.viewer.layers
            if x._type_string == "image" and image_address(x) != image_address(layer)
        }
        low, high = self.random.choice(list(others.values()))
        layer.selected_label = FIRST
        places = [low + (high - low) * at for at in (0.4, 0.6)]
        assert self.seen([*self.viewer.dims.point[:-2], *places[0]])
        drag(self.viewer, places, pause=0)
        assert not (np.asarray(layer.data[0]) == FIRST).any()
        self.refused += 1

    def check_layers(self):
        """No label layer of a field that is not on screen can be painted."""
        shown = {
            image_address(layer)
            for layer in self.viewer.layers
            if layer._type_string == "image"
        }
        for layer in self.viewer.layers:
            if isinstance(layer, OMEZarrLabels) and layer.editable:
                assert image_address(layer) in shown


def check_states(states, places, others):
    """Fields are begun, but not by corrections in labels that another program made."""
    for place in places:
        state = "to do" if place in others else "in progress"
        assert states.state_of(place) == state


@pytest.mark.default_cases("acquisitions", "collection")
@pytest.mark.parametrize("kind", WRITERS)
def test_strokes_land_in_the_field_under_the_mouse(viewer, tmp_path, kind, monkeypatch):
    asked = []
    monkeypatch.setattr(
        dialogs, "ask_question", lambda *text: asked.append(text) or "cancel"
    )
    root = tmp_path / "screen.ome.zarr"
    numbers = WRITERS[kind](root)
    others = {str(x.parents[1].relative_to(root)) for x in root.rglob(f"labels/{NAME}")}
    viewer.open(str(root), plugin="napari-ngff")
    until(lambda: browser_of(viewer) is not None)
    walker = Walker(viewer, root, numbers, seed=1)
    walker.settle()
    if walker.browser.map.wells:
        walker.browser.choose_labels(NAME)
        walker.settle()
        walker.paint_overview()
    if not walker.is_together():
        walker.browser.show_field(*walker.any_field())
        walker.settle()
    for _ in range(MOVES):
        for _ in range(max(1, STROKES // MOVES)):
            walker.paint()
        if walker.is_together():
            walker.paint_beside()
        walker.move()
        walker.check_layers()
        assert asked == [], "nothing is asked on the way"
    assert asked == [], "nothing is asked on the way"
    unpin_all(walker.browser)
    for layer in viewer.layers:
        if isinstance(layer, OMEZarrLabels) and layer.unsaved:
            layer.saver.save()
    walker.settle()

    stored = {}
    for label_image in root.rglob(f"labels/{NAME}/0"):
        place = label_image.relative_to(root).as_posix().partition("/labels/")[0]
        values = np.unique(zarr.open_array(label_image, mode="r")[...])
        for value in values[values >= FIRST].tolist():
            assert value not in stored, f"{value} is in {stored[value]} and {place}"
            stored[value] = place
    wrong = {
        value: (place, stored.get(value), walker.notes[value])
        for value, place in walker.painted.items()
        if stored.get(value) != place
    }
    assert not wrong
    assert stored.keys() == walker.painted.keys()
    assert walker.refused or kind in ("collection", "folder")
    states = FieldStates(walker.browser.node)
    check_states(states, stored.values(), others)
    others = set(numbers.values()) - set(walker.painted.values())
    assert {states.state_of(place) for place in others} <= {"to do"}


def test_a_stroke_that_is_being_drawn_stays_in_its_field(viewer, tmp_path):
    root = tmp_path / "screen.ome.zarr"
    numbers = write_screen(root)
    viewer.open(str(root), plugin="napari-ngff")
    until(lambda: browser_of(viewer) is not None)
    walker = Walker(viewer, root, numbers, seed=1)
    browser = walker.browser
    browser.show_field("A/1", "0")
    walker.settle()
    layer = walker.ensure_labels()
    layer.selected_label, layer.brush_size = FIRST, 1
    low, high = layer.extent.world[:, -2:]
    places = [low + (high - low) * [0.5, x] for x in np.linspace(0.2, 0.8, 13)]
    drag(viewer, places[:4], release=False)
    browser.show_field("C/3", "0")
    for place in places[4:]:
        pump(60)
        at = on_canvas(viewer, place)
        send(viewer, QEvent.Type.MouseMove, at, NONE, LEFT)
    assert browser.position.well == "A/1", "the field stays until the stroke ends"
    send(viewer, QEvent.Type.MouseButtonRelease, at, LEFT, NONE)
    until(lambda: browser.position.well == "C/3")
    walker.settle()
    stored = zarr.open_array(root / f"A/1/0/labels/{NAME}/0", mode="r")[...]
    columns = np.nonzero((stored == FIRST).any(axis=0))[0]
    assert (columns.min(), columns.max()) == (9, 38), "all of it, from end to end"
    assert not (np.asarray(layer.data[0]) == FIRST).any()
    assert not layer.unsaved


def test_a_stroke_while_fields_are_exchanged_is_refused_aloud(
    viewer, tmp_path, monkeypatch
):
    root = tmp_path / "screen.ome.zarr"
    numbers = write_screen(root)
    viewer.open(str(root), plugin="napari-ngff")
    until(lambda: browser_of(viewer) is not None)
    walker = Walker(viewer, root, numbers, seed=1)
    browser = walker.browser
    browser.show_field("A/1", "0")
    walker.settle()
    walker.paint()
    low, high = walker.ensure_labels().extent.world[:, -2:]
    refused, exchange = FIRST + 999, layer_slots.LayerSlots._exchange_layers

    def exchange_and_paint(*arguments):
        steps = exchange(*arguments)
        yield next(steps)
        viewer.layers.selection.active.selected_label = refused
        drag(viewer, [low + (high - low) * at for at in (0.5, 0.6)], pause=0)
        yield from steps

    monkeypatch.setattr(layer_slots.LayerSlots, "_exchange_layers", exchange_and_paint)
    browser.show_field("C/3", "0")
    walker.settle()
    monkeypatch.undo()
    message = notification_manager.records[-1].message
    assert message.startswith("Not painted: the field was loading.\n")
    for layer in viewer.layers:
        assert not getattr(layer, "unsaved", False)
    for labels in root.rglob(f"labels/{NAME}/0"):
        assert not (zarr.open_array(labels, mode="r")[...] == refused).any()
    walker.paint()
    assert walker.painted[walker.count + FIRST] == "C/3/0"


@pytest.mark.long
def test_no_box_is_drawn_over_labels_at_the_brush(viewer, tmp_path):
    write_plate(tmp_path / "p.zarr", grid=(1, 1), fields=2, shape=(1, SIZE, SIZE))
    viewer.open(str(tmp_path / "p.zarr"), plugin="napari-ngff")
    until(lambda: browser_of(viewer) is not None and len(viewer.layers))
    browser = session_of(viewer).browser
    for field in ("0", "1"):
        browser.show_field("A/1", field)
        until(lambda shown=field: browser.position and browser.position.field == shown)
        until(lambda: browser_of(viewer).isVisible())
        if field == "0":
            labels = viewer.add_layer(new_labels(viewer.layers[0], NAME))
            labels.mode, labels.brush_size, labels.selected_label = "paint", 20, 3
        pump(300)
        low, high = viewer.layers[0].extent.world
        middle = np.mean([low, high], axis=0)[-2:]
        drag(viewer, [tuple(middle - 1), tuple(middle)])
        pump(300)
        at = on_canvas(viewer, tuple(middle))
        picture = viewer.screenshot(flash=False).astype(int)
        ratio = picture.shape[0] / canvas(viewer).native.height()
        y, x = round(at.y() * ratio), round(at.x() * ratio)
        beside = picture[y, x + round(12 * ratio)]
        np.testing.assert_allclose(picture[y, x], beside, atol=30)
