"""Whatever is raised while pixels come in: it is shown, the next picture is true."""

from __future__ import annotations

import queue
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel
from napari.utils.notifications import notification_manager

from napari_ngff import open_node, read_layers
from napari_ngff.errors import AGAIN, AccessError
from napari_ngff.store.arrays.chunked_array import ChunkedArray
from napari_ngff.store.arrays.lazy_array import ArrayWindow, LazyArray
from napari_ngff.store.arrays.region_read import cache
from napari_ngff.store.pyramids.pyramid import open_pyramid
from napari_ngff.store.sources.blob import Traits
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.reader import read_first_pixels
from napari_ngff.viewer.services.window import Window, going_on
from napari_ngff.viewer.session import session_of
from napari_ngff.viewer.streaming import (
    outage_watch,
    pixel_fetcher,
    streamed_levels,
    volume_fit,
    volume_slicing,
)
from napari_ngff.viewer.streaming.missing_parts import MissingRetry
from napari_ngff.viewer.streaming.streamed_levels import are_pixels_coming
from patience import rest, until
from plates import write_image, write_plate
from raising import each_failing

AGAIN_ASKED = (
    "viewer/streaming/missing_parts.py",
    "viewer/streaming/outage_watch.py",
)

STREAMS = (
    "viewer/streaming/pixel_fetcher.py",
    "viewer/streaming/streamed_levels.py",
    "viewer/streaming/streamed_view.py",
    "viewer/streaming/label_stream.py",
)

VOLUMES = (
    "viewer/streaming/prepared_volume.py",
    "viewer/streaming/visible_part.py",
    "viewer/streaming/volume_fit.py",
    "viewer/streaming/volume_slicing.py",
)

WELLS = ("viewer/streaming/well_stream.py",)

DEPTH, SIZE = 3, 64


@pytest.fixture
def every(request):
    """Of so many calls, one fails in a quick run."""
    return 1 if request.config.getoption("--long") else 12


class EventLoop(Window):
    """The main thread of a window: its calls wait, and work is done elsewhere."""

    has_workers = True

    def __init__(self):
        self._calls, self._threads = queue.SimpleQueue(), []

    def run(self, work, done):
        def work_off():
            result = work()
            self._calls.put(lambda: done(result))

        thread = threading.Thread(target=work_off, daemon=True)
        self._threads.append(thread)
        thread.start()

    def run_in_main(self, call):
        if threading.current_thread() is threading.main_thread():
            call()
        else:
            self._calls.put(call)

    def report_to_main(self, key, call):
        self.run_in_main(call)

    def run_after(self, seconds, call):
        timer = threading.Timer(seconds, self._calls.put, (call,))
        timer.daemon = True
        timer.start()

    def turn(self):
        while not self._calls.empty():
            with going_on():
                self._calls.get()()
        self._threads = [one for one in self._threads if one.is_alive()]
        rest()

    @property
    def is_idle(self):
        return self._calls.empty() and not self._threads

    def finish(self):
        """Go on until nothing is left to do."""
        until(lambda: self.is_idle and not are_pixels_coming(), self.turn)


@pytest.fixture
def loop(monkeypatch, unexpected):
    """Work in threads that begin with each act, as those are traced."""
    loop = EventLoop()
    monkeypatch.setattr(Window, "current", loop)
    monkeypatch.setattr(volume_fit, "CAMERA_REST", 0.0)
    monkeypatch.setattr(volume_slicing, "READ_AT_ONCE", 1)
    monkeypatch.setattr(volume_slicing, "DRAWN_AT_ONCE", 1)
    monkeypatch.setattr(pixel_fetcher, "WAIT", 0.0)
    get = FolderStore.read

    def get_slowly(source, key, *part):
        if "/c/" in key:
            time.sleep(0.003)
        return get(source, key, *part)

    monkeypatch.setattr(FolderStore, "read", get_slowly)
    yield loop
    loop.finish()
    notification_manager.records.clear()
    unexpected.clear()


class Looking:
    """An image with labels, of this computer or far away, that a person looks at."""

    def __init__(self, path, loop, monkeypatch):
        self.path, self.loop, self.patch = path, loop, monkeypatch
        self.viewer = ViewerModel()
        session_of(self.viewer)
        self.renew()
        for layer in read_layers(path):
            self.viewer.add_layer(layer)
        loop.finish()

    def renew(self):
        """Read everything again, by threads that begin now: those are traced."""
        cache.clear()
        fetcher = pixel_fetcher.PixelFetcher(4, "test")
        local = pixel_fetcher.LocalFetcher()
        for module in (pixel_fetcher, streamed_levels):
            self.patch.setattr(module, "fetcher", fetcher)
            self.patch.setattr(module, "local_fetcher", local)

    def show(self, ndisplay, place):
        with going_on():  # as an event of Qt
            self.viewer.dims.ndisplay = ndisplay
        with going_on():
            self.viewer.dims.set_current_step(0, place)
        self.loop.finish()

    def turn(self):
        """Show the volume, and turn it."""
        self.show(3, 0)
        with going_on():
            self.viewer.scene.camera.angles = (0, 0, 40)
        self.loop.finish()

    def leave(self):
        self.show(2, 0)
        self.renew()
        notification_manager.records.clear()

    @property
    def is_true(self):
        """Whether pixels of the file are seen; of volumes, the finest ones."""
        dims = self.viewer.dims
        is_3d = dims.ndisplay == 3
        place = ... if is_3d else dims.current_step[0]
        for layer in self.viewer.layers:
            group = "labels/cells" if hasattr(layer, "saver") else "."
            level = self.path / group / str(layer.data_level)
            stored = zarr.open_array(level, mode="r")[place]
            is_finest = layer.data_level == 0 or not is_3d
            if not (is_finest and np.array_equal(layer._slice.image.raw, stored)):
                return False
        return True

    def check_again(self, ndisplay, place, error):
        """What failed was shown, unless another try was made; the next one works."""
        assert error is None or told() or self.is_true, error
        assert len(told()) <= 2, error
        self.renew()
        self.show(2, 1)
        self.show(ndisplay, place)
        assert self.is_true, error
        self.show(2, 0)
        assert all(x.locked_data_level is None for x in self.viewer.layers), error


def told():
    return [record.message for record in notification_manager.records]


def write_stack(path):
    z, y, x = np.mgrid[:DEPTH, :SIZE, :SIZE]
    pixels = (1000 * z + y + 2 * x + 1).astype("uint16")
    write_image(path, pixels, 3, "zyx", levels=2, labels=("cells",))
    for level in range(2):
        for group in (path, path / "labels/cells"):
            name = str(group / str(level))
            stored = zarr.open_array(name, mode="r")[...]
            zarr.create_array(name, data=stored, chunks=(1, 32, 32), overwrite=True)
    return path


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    return write_stack(tmp_path_factory.mktemp("stack") / "stack.ome.zarr")


@pytest.mark.parametrize("is_far", [False, True])
def test_pixels_come_whatever_fails(stack, loop, monkeypatch, every, is_far):
    if is_far:
        monkeypatch.setattr(FolderStore, "traits", SERVED)
    looking = Looking(stack, loop, monkeypatch)
    acts = looking.leave, lambda: looking.show(2, 2)
    for error in each_failing(STREAMS, *acts, every):
        looking.check_again(2, 2, error)


def test_volumes_come_whatever_fails(stack, loop, monkeypatch, every):
    looking = Looking(stack, loop, monkeypatch)
    for error in each_failing(VOLUMES, looking.leave, looking.turn, 4 * every):
        looking.check_again(3, 0, error)


LISTENED = {
    "pixels": lambda _: pixel_fetcher.pixels_arrived,
    "volumes": lambda _: volume_slicing.volume_needed,
    "a slice": lambda layer: layer.events.set_data,
    "a level": lambda layer: layer.events.locked_data_level,
}


@pytest.mark.parametrize("what", LISTENED)
def test_listeners_that_fail_stop_nothing(stack, loop, monkeypatch, what):
    looking = Looking(stack, loop, monkeypatch)
    looking.leave()

    def fail(*_):
        raise LookupError("of another plugin")

    for layer in looking.viewer.layers:
        LISTENED[what](layer).connect(fail)
    looking.show(2, 2)
    looking.turn()
    for layer in looking.viewer.layers:
        with suppress(ValueError):  # one for all layers
            LISTENED[what](layer).disconnect(fail)
    notification_manager.records.clear()
    looking.check_again(3, 0, None)
    looking.check_again(2, 2, None)


SERVED = property(lambda self: Traits(16, self.root), lambda self, traits: None)
"""Traits of folders that are read as a server."""


class Outage:
    """Chunks cannot be reached for a while."""

    def __init__(self, monkeypatch):
        self.is_on, get = False, FolderStore.read

        def get_or_fail(source, key, *part):
            if self.is_on and "/c/" in key:
                raise self.error_of(key)
            return get(source, key, *part)

        monkeypatch.setattr(FolderStore, "read", get_or_fail)

    error_of = staticmethod(lambda key: AccessError(f"{key}: no answer", remedy=AGAIN))


@pytest.mark.parametrize("ndisplay", [2, 3])
def test_missing_chunks_are_asked_for_whatever_fails(
    stack, loop, monkeypatch, every, ndisplay
):
    monkeypatch.setattr(FolderStore, "traits", SERVED)
    monkeypatch.setattr(outage_watch, "FIRST_PAUSE", 0.2)
    monkeypatch.setattr(outage_watch, "LONGEST_PAUSE", 0.2)
    outage, looking = Outage(monkeypatch), Looking(stack, loop, monkeypatch)
    retry = MissingRetry(looking.viewer)

    def lose():
        looking.leave()
        outage.is_on = True
        looking.show(ndisplay, 2)
        notification_manager.records.clear()

    def ask():
        outage.is_on = False
        for call in (retry.ask_sometimes, retry.ask_now):
            with going_on():
                call()
            loop.finish()

    for error in each_failing(AGAIN_ASKED, lose, ask, every):
        if not looking.is_true:
            assert error is None or told(), error
            until(lambda: looking.is_true or retry.ask_now(), loop.turn)


class Overview:
    """The wells of a plate, drawn anew in each window."""

    def __init__(self, root, loop):
        self.root, self.loop = root, loop

    def begin(self):
        self.viewer = ViewerModel()
        self.browser = session_of(self.viewer).browse(open_node(self.root))
        notification_manager.records.clear()

    def show(self):
        with going_on():  # as an event of Qt
            self.browser.show_mosaic()
        self.loop.finish()

    def look_again(self):
        for layer in self.viewer.layers:
            layer.refresh()
        self.loop.finish()

    @property
    def is_true(self):
        layers = self.viewer.layers
        return bool(layers) and all(
            np.array_equal(x._slice.image.raw, np.asarray(x.data[x.data_level]))
            for x in layers
        )


def test_wells_are_drawn_whatever_fails(tmp_path, loop, every):
    root = write_plate(tmp_path / "p", grid=(1, 2), fields=1, shape=(1, 16, 16))
    overview, count = Overview(root, loop), 0
    for error in each_failing(WELLS, overview.begin, overview.show, every):
        count += error is not None
        assert error is None or told(), error
        overview.look_again()
        assert not overview.browser.is_drawing, error
        assert overview.is_true, error
    assert count


def test_first_pixels_are_left_to_napari_where_a_codec_fails(stack, monkeypatch):
    def fail(*_, **__):
        raise LookupError("codec")

    monkeypatch.setattr(FolderStore, "traits", SERVED)
    level = open_pyramid(open_node(stack)).levels[1]
    plane = LazyArray.of_window(ArrayWindow(level, (0, 1, 2)))[0]
    with monkeypatch.context() as patch:
        patch.setattr(ChunkedArray, "read", fail)
        read_first_pixels([(plane, {}, "labels")], shown=True)
    assert np.asarray(plane).any()
