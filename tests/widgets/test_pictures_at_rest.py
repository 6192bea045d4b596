"""Random walks: at rest, the picture is what is read at once, pixel by pixel.

On the way pixels of coarser levels, of other planes and of volumes are shown, from
servers, disks and codecs that are slow. EXAMPLES=N runs N walks of each kind.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, Phase, event, given, note, settings
from hypothesis import strategies as st
from napari.layers.image._slice import _ImageSliceRequest
from qtpy.QtCore import QThreadPool

from choices import set_preference
from journals import discard_edits
from mouse import camera, canvas, pump, until
from napari_ngff.labels.canvas import Canvas
from napari_ngff.plate import kept_planes
from napari_ngff.store.arrays.region_read import cache
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.plans.layer_plan import KEY
from napari_ngff.viewer.session import session_of
from napari_ngff.viewer.streaming import pixel_fetcher, volume_fit, volume_slicing
from napari_ngff.viewer.streaming.streamed_levels import (
    ahead_reader,
    are_pixels_coming,
    stream_of,
)
from napari_ngff.viewer.streaming.volume_slicing import prepared_of
from painting import Memory
from slow_places import DELAY, LEVELS, PLACES, SlowHandler
from unreliable import serving

pytest.importorskip("aiohttp", reason="needs the extra [remote]")

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("EXAMPLES", "10"))

PROJECTIONS = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}

SEEDS = st.integers(0, 2**32 - 1)


def random_steps(place, seed, legs):
    """Choose what is done, two numbers that say how, and how long one looks."""
    chance = random.Random(seed)
    for _ in range(legs):
        yield [
            (
                chance.choice(place.acts),
                round(chance.random(), 3),
                round(chance.random(), 3),
                chance.choice((0, 0, 5, 20, 60)),
            )
            for _ in range(chance.randint(4, 9))
        ]


class Walker:
    """Somebody who looks about, and does not wait for pixels."""

    def __init__(self, viewer, place, root):
        self.viewer, self.place, self.root = viewer, place, root
        self.originals = {}
        self.painted = 0
        self.seen = set()

    @property
    def browser(self):
        return session_of(self.viewer).browser

    @property
    def labels(self):
        """The labels on screen that can be painted; None without any."""
        found = [layer for layer in self.viewer.layers if hasattr(layer, "canvas")]
        return next((layer for layer in found if layer.editable), None)

    @property
    def images(self):
        return [x for x in self.viewer.layers if x._type_string == "image"]

    # What is done.

    def take_step(self, act, a, b, pause):
        getattr(self, act)(a, b)
        canvas(self.viewer)._scene_canvas.update()
        if pause:
            pump(pause)

    def spans(self):
        """World coordinates of the first and the last displayed voxel, per axis."""
        low, high = self.viewer.layers.extent.world
        axes = list(self.viewer.dims.displayed)
        return low[axes], high[axes]

    def pan(self, a, b):
        low, high = self.spans()
        parts = np.array([0.5, a, b][-len(low) :])
        at = low + (high - low) * parts
        camera(self.viewer).center = (*(0.0,) * (3 - len(at)), *map(float, at))

    def zoom(self, a, b):
        low, high = self.spans()
        fitting = min(np.array(self.viewer.canvas.size) / (high - low)[-2:])
        camera(self.viewer).zoom = float(fitting * 0.5 * 16**a)

    def turn(self, a, b):
        camera(self.viewer).angles = (0, 90 * a, 90 * b)

    def slide(self, a, b):
        dims = self.viewer.dims
        hidden = [x for x in range(dims.ndim) if x not in dims.displayed]
        if hidden:
            axis = hidden[min(int(a * len(hidden)), len(hidden) - 1)]
            dims.set_current_step(axis, round(b * (dims.nsteps[axis] - 1)))

    def toggle(self, a, b):
        if self.viewer.dims.ndim > 2:
            self.viewer.dims.ndisplay = 5 - self.viewer.dims.ndisplay

    def roll(self, a, b):
        self.viewer.dims.roll()

    def transpose(self, a, b):
        self.viewer.dims.transpose()

    def fold(self, a, b):
        """Display the axes in the order in which they are listed."""
        self.viewer.dims.order = tuple(range(self.viewer.dims.ndim))

    def lock(self, a, b):
        layers = [layer for layer in self.viewer.layers if layer.multiscale]
        if layers:
            layer = layers[min(int(a * len(layers)), len(layers) - 1)]
            level = int(b * 2 * len(layer.data))
            # Half of the time the zoom chooses again.
            layer.locked_data_level = level if level < len(layer.data) else None

    def hide(self, a, b):
        layer = self.viewer.layers[min(int(a * 2), len(self.viewer.layers) - 1)]
        layer.visible = not layer.visible

    def thicken(self, a, b):
        """Project several places of the axes that are not displayed."""
        dims = self.viewer.dims
        dims.thickness = [int(5 * a) * one.step for one in dims.range]
        for layer in self.images:
            layer.projection_mode = ("none", *PROJECTIONS)[min(int(5 * b), 4)]

    def paint(self, a, b):
        layer = self.labels
        if layer is None:
            return
        point = np.array(self.viewer.dims.point, float)
        axes = list(self.viewer.dims.displayed)
        low, high = self.spans()
        middle = np.array(camera(self.viewer).center[-len(axes) :])
        near = np.array([0.5, a, b][-len(axes) :]) - 0.5
        point[axes] = np.clip(middle + near * (high - low) / 4, low, high)
        at = layer.world_to_data(point)
        last = np.array(layer.data[0].shape) - 1
        self.painted += 1
        layer.brush_size = 1 + int(30 * a * b)
        layer.paint(tuple(np.clip(at, 0, last)), 400_000 + self.painted)

    def paint_solid(self, a, b):
        """Paint in 3D, where a volume is just being read."""
        self.viewer.dims.ndisplay = 3
        end = time.monotonic() + 0.4 * b
        while time.monotonic() < end:
            pump(5)
        self.paint(a, b)

    def undo(self, a, b):
        if self.labels is not None:
            self.labels.undo()

    def redo(self, a, b):
        if self.labels is not None:
            self.labels.redo()

    def replace(self, a, b):
        """Give a label of the file, or a stroke, another value."""
        if self.labels is not None:
            self.painted += 1
            old = 1 + 20 * int(3 * a) + int(4 * b) if a < 0.7 else 400_001
            # Refused while a field is put in place, as strokes are.
            with contextlib.suppress(ValueError):
                self.labels.replace_label(old, 500_000 + self.painted)

    def save(self, a, b):
        layer = self.labels
        if layer is not None:
            self.original_of(layer)  # as it was before
            layer.saver.save()
            until(lambda: not layer.saver.running)

    def field(self, a, b):
        if self.browser.position is not None:
            self.browser.step_field(1 if a < 0.5 else -1)
        else:
            self.browser.show_field(
                "A/1" if a < 0.5 else "A/2", "0" if b < 0.5 else "1"
            )

    def well(self, a, b):
        self.browser.show_field("A/1" if a < 0.5 else "A/2")

    def overview(self, a, b):
        self.browser.show_mosaic()

    # What is waited for.

    def is_busy(self):
        """Return whether anything is asked for that is not there."""
        return any(self.reasons().values())

    def reasons(self):
        """List what may be asked for, and whether it is."""
        layers, browser = self.viewer.layers, self.browser
        savers = [getattr(layer, "saver", None) for layer in layers]
        return {
            "pixels": are_pixels_coming(),
            "pixels ahead": ahead_reader.is_running,
            "volumes": volume_fit._running[0] or volume_fit._readings,
            "turns": any(layer in volume_fit._turns for layer in layers),
            "camera": volume_fit.is_moving() or self.viewer in volume_fit._followed,
            "field": browser and (browser._task._steps or browser.state.wanted),
            "wells": browser and browser.is_drawing,
            "saves": any(saver is not None and saver.running for saver in savers),
            "workers": QThreadPool.globalInstance().activeThreadCount(),
        }

    def show_at_rest(self, act):
        """Do something, wait for its picture, and compare that."""
        act(0.9, 0.6)
        self.rest()
        self.check()

    def rest(self):
        """Wait until nothing is asked for, for a moment."""
        calm = [0]

        def is_calm():
            calm[0] = 0 if self.is_busy() else calm[0] + 1
            return calm[0] > 4

        until(is_calm)

    # What is true.

    def folder_of(self, layer):
        path = str(layer.metadata[KEY].node)
        return Path(self.root.parent, path[path.index(self.root.name) :])

    def read_stored(self, layer):
        """Read the levels of a layer by zarr, axes in the order of the layer."""
        folder, is_labels = self.folder_of(layer), layer._type_string == "labels"
        axes = self.place.label_axes if is_labels else self.place.image_axes
        levels = []
        for level in range(LEVELS):
            pixels = zarr.open_array(folder / str(level), mode="r")[...]
            if "c" in axes and not is_labels:
                pixels = pixels.take(layer.metadata[KEY].channel, axes.index("c"))
            left = axes if is_labels else axes.replace("c", "")
            order = [left.index(axis) for axis in layer.axis_labels]
            levels.append(pixels.transpose(order))
        return levels

    def read_joined(self, layer):
        """Read an overview: fields in two columns of two, wells side by side."""
        channel = layer.metadata[KEY].channel
        levels = []
        for level in range(LEVELS):
            wells = []
            for well in ("1", "2"):
                fields = []
                for field in ("0", "1"):
                    image = self.root / "A" / well / field
                    if layer._type_string == "labels":
                        image = image / "labels" / "cells"
                    pixels = zarr.open_array(image / str(level), mode="r")[...]
                    fields.append(pixels if channel is None else pixels[channel])
                wells.append(np.concatenate(fields, axis=1))
            levels.append(np.concatenate(wells, axis=1))
        # One that an overview adds for its size shows every second voxel.
        return [*levels, levels[-1][::2, ::2]]

    def original_of(self, layer):
        """Read the labels of a layer as they were when it was opened."""
        if layer.canvas not in self.originals:
            self.originals[layer.canvas] = self.read_stored(layer)
        return self.originals[layer.canvas]

    def truth_of(self, layer):
        """List all levels of a layer, with its edits."""
        if self.browser is not None and self.browser.position is None:
            return self.read_joined(layer)
        if layer._type_string != "labels":
            return self.read_stored(layer)
        # Edits go over coarser levels by the rules of a canvas.
        twin = Canvas([Memory(level) for level in self.original_of(layer)])
        for edit in layer.canvas.edits:
            twin.add_edit(edit)
        saved = layer.canvas._saved
        if saved:
            stored = [Memory(level) for level in self.read_stored(layer)]
            twin.show_saved(stored[1:], saved)
        return [np.asarray(level) for level in twin.levels]

    def expected(self, layer):
        """Read what the picture of a layer shows at its place and level."""
        number = layer.data_level if layer.multiscale else 0
        truth = self.truth_of(layer)[number]
        shown, volume = list(layer._slice_input.displayed), prepared_of(layer)
        full = np.array(layer.level_shapes[0])
        assert truth.shape == tuple(layer.level_shapes[number])
        at = np.array(layer.world_to_data(self.viewer.dims.point))
        at = np.clip(at / (full / truth.shape), 0, np.array(truth.shape) - 1)
        index = [int(np.round(place)) for place in at]
        join = PROJECTIONS.get(str(layer.projection_mode))
        if join is not None:
            index = sections_of(layer, number)
        for axis in shown:
            index[axis] = slice(None)
            if volume is not None:
                index[axis] = slice(*volume.place.box[axis])
            elif len(shown) == 2 and layer.multiscale:
                first, last = layer.corner_pixels[:, axis]
                index[axis] = slice(int(first), int(last) + 1)
        order = np.argsort(np.argsort(shown))
        part = truth[tuple(index)]
        if join is not None:
            hidden = tuple(x for x in range(truth.ndim) if x not in shown)
            is_one = all(part.shape[axis] == 1 for axis in hidden)
            part = part.max(hidden) if is_one else join(part, axis=hidden)
        return part.transpose(order)

    def check(self):
        """Compare each picture with what is read at once."""
        for layer in self.viewer.layers:
            if not layer.visible:
                continue
            number = layer.data_level if layer.multiscale else 0
            what = f"{layer.name}, level {number}, {layer._slice_input}"
            raw, truth = layer._slice.image.raw, self.expected(layer)
            self.seen.add(f"{self.viewer.dims.ndisplay}D, level {number}")
            np.testing.assert_array_equal(np.asarray(raw), truth, err_msg=what)
            view = layer._slice.image.view
            if layer._type_string == "labels":
                colors = layer._raw_to_displayed(truth)
                np.testing.assert_array_equal(view, colors, err_msg=what)
        self.check_canvas()

    def check_canvas(self):
        """Compare what is on the canvas with all of it drawn anew."""
        if self.viewer.dims.ndisplay == 3:
            return
        before = self.viewer.screenshot(flash=False)
        for layer in self.viewer.layers:
            layer.refresh(extent=False)
        self.rest()
        after = self.viewer.screenshot(flash=False)
        np.testing.assert_array_equal(before, after, err_msg="on the canvas")


def sections_of(layer, number):
    """Find what napari projects onto the picture at a level, per axis."""
    factors = layer.downsample_factors[number]
    slices = layer._data_slice.as_array() / factors
    slices[0] = np.clip(slices[0], 0, np.array(layer.level_shapes[number]) - 1)
    thick = type(layer._data_slice).from_array(slices)
    displayed = layer._slice_input.displayed
    return list(_ImageSliceRequest._data_slice_to_slices(thick, displayed))


@pytest.fixture
def slow_reads(monkeypatch):
    """Let chunks of local files take their time, and the window not wait for them."""
    get = FolderStore.read

    def get_slowly(self, key, *arguments):
        if key.rpartition("/")[2].isdecimal():
            time.sleep(DELAY)
        return get(self, key, *arguments)

    monkeypatch.setattr(FolderStore, "read", get_slowly)
    monkeypatch.setattr(pixel_fetcher, "WAIT", 0.01)
    monkeypatch.setattr(pixel_fetcher, "WAIT_TOGETHER", 0.015)
    monkeypatch.setattr(volume_fit, "CAMERA_REST", 0.05)
    # Drawing in 3D without a graphics card leaves no calm to wait for.
    monkeypatch.setattr(volume_fit, "LONGEST_WAIT", 0.1)
    # These stacks are small: let workers read them all the same.
    monkeypatch.setattr(volume_slicing, "READ_AT_ONCE", 1 << 13)
    monkeypatch.setattr(volume_slicing, "DRAWN_AT_ONCE", 1 << 13)
    monkeypatch.setattr(kept_planes, "PLANE_BYTES", 1 << 14)
    yield
    set_preference("volume_memory", 0)


@contextmanager
def opened(viewer, place, root):
    """Open a fresh copy of a place, in a window in which nothing is known of it."""
    shutil.rmtree(root, ignore_errors=True)
    place.write(root)
    with serving(root.parent, SlowHandler) as server:
        where = f"{server.address}/{root.name}" if place.is_remote else str(root)
        viewer.dims.ndisplay = 2
        viewer.open(where, plugin="napari-ngff")
        walker = Walker(viewer, place, root)
        if walker.browser is not None:
            until(lambda: len(viewer.layers) > 0)
            walker.rest()
        for layer in viewer.layers:
            if layer._type_string == "labels" and place.is_remote:
                layer.editable = True  # as those of a bucket
        if place.begins_in_3d:
            viewer.dims.ndisplay = 3
        try:
            yield walker
        finally:
            walker.rest()
            viewer.dims.ndisplay = 2
            for layer in list(viewer.layers):
                saver = getattr(layer, "saver", None)
                if saver is not None:
                    discard_edits(saver)
            viewer.layers.clear()
            walker.rest()
            cache.clear()
            kept_planes.kept.clear()


def walk_often(viewer, place, root, examples, legs):
    """Walk at random, come to rest some times, and compare each picture then."""
    set_preference("volume_memory", place.memory)
    viewer.window.resize(800, 560)  # drawn sooner

    @settings(
        deadline=None, max_examples=examples, derandomize=True, database=None,
        phases=(Phase.generate,), suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(seed=SEEDS)
    def walk(seed):
        with opened(viewer, place, root) as walker:
            for steps in random_steps(place, seed, legs):
                note(f"{steps}")
                forget_pixels(viewer)
                for step in steps:
                    walker.take_step(*step)
                walker.rest()
                walker.check()
            for what in walker.seen:
                event(what)

    walk()


def forget_pixels(viewer):
    """Let all pixels be read anew that are not on the screen."""
    cache.clear()
    kept_planes.kept.clear()
    for layer in viewer.layers:
        stream = stream_of(layer)
        if stream is not None:
            stream._views.clear()


@pytest.mark.long
def test_at_rest_an_overview_of_labels_in_use_is_so_at_the_level_it_adds(
    viewer, slow_reads, tmp_path
):
    with opened(viewer, PLACES["fields"], tmp_path / "walked.ome.zarr") as walker:
        walker.show_at_rest(walker.well)
        walker.show_at_rest(walker.paint)
        walker.show_at_rest(walker.overview)
        labels = viewer.layers["cells"]
        assert labels.visible
        labels.locked_data_level = len(labels.data) - 1
        walker.rest()
        walker.check()
        assert labels.data_level == LEVELS


@pytest.mark.default_cases("2D", "3D")
@pytest.mark.parametrize("kind", PLACES)
def test_at_rest_the_picture_is_what_is_read_at_once(
    viewer, slow_reads, tmp_path, kind
):
    root = tmp_path / "walked.ome.zarr"
    walk_often(viewer, PLACES[kind], root, examples=1, legs=2)


@pytest.mark.long(seconds=70)
@pytest.mark.parametrize("kind", PLACES)
def test_at_rest_the_picture_is_so_after_many_random_walks(
    viewer, slow_reads, tmp_path, kind
):
    root = tmp_path / "walked.ome.zarr"
    walk_often(viewer, PLACES[kind], root, examples=EXAMPLES, legs=3)
