"""A real window that a timer asks each 5 ms: how long does it not answer?

An image of three channels with labels, from a server that is far away, from this disk,
and with a codec that takes its time; opened, panned, zoomed, walked through z, shown in
3D, and painted on. *napari* are layers of the same shape whose pixels cost nothing:
what napari itself needs.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from data import make_array, picture, write_group, write_image
from heartbeat import Heartbeat, beating
from window import Frames, Zeros, work

PACKAGES = Path(__file__).parents[1] / "support/packages"
"""A codec that the processes which decode for us find, too."""

sys.path.append(str(PACKAGES))
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(PACKAGES), os.environ.get("PYTHONPATH")])
)

Values = dict[str, dict[str, list[float]]]

OURS, OWN_CODE, PEER, ASYNC, FLOOR = (
    "napari-ngff",
    "of it, its own code",
    "napari-ome-zarr",
    "the same, asynchronous",
    "napari",
)
SIDE, PLANES, LEVELS, CHUNK, CHANNELS = 8192, 8, 6, 256, 3
DIFFERENT = 8
"""Chunks of a level that differ; the others are links to them."""

FAR = {
    "100 ms": (100, 0),
    "300 ms": (300, 0),
    "100 ms, 20 Mbit/s": (100, 20),
}
"""Server -> latency in ms, megabits in a second."""

LOCAL = {"this disk": "beat.zarr", "20 ms a chunk": "slow-cells.zarr"}
SOURCES = (*FAR, *LOCAL)
SLOW_SIDE, SLOW_CHUNK = 4096, 512

WINDOW = 800, 600
"""Small: drawing by software takes as long as there are pixels on the screen."""

CALM = 0.5
"""Seconds without a new picture after which the window rests."""

MOST = 60.0
"""Seconds to wait at most for one step: of those that read in the main thread, some
read on when the window is asked to rest."""


# What is read.


def write_linked(folder: Path, shape: tuple[int, ...], step: int) -> None:
    """Write a level of which few chunks are real, and the others links to them."""
    chunks = (1,) * (len(shape) - 2) + (CHUNK, CHUNK)
    labels = len(shape) == 3
    array = make_array(folder, shape, chunks, dtype="uint32" if labels else "uint16")
    grid = [n // chunk for n, chunk in zip(shape, chunks, strict=True)]
    real: list[Path] = []
    for at in np.ndindex(*grid):
        path = folder.joinpath("c", *map(str, at))
        if len(real) == DIFFERENT:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.link(real[sum(at) % DIFFERENT], path)
            continue
        span = tuple(
            slice(i * chunk, (i + 1) * chunk)
            for i, chunk in zip(at, chunks, strict=True)
        )
        y, x = np.mgrid[:CHUNK, :CHUNK] // max(1, 64 // step)
        block = y * 16 + x + 1 if labels else picture(CHUNK, len(real))
        array[span] = block.reshape(chunks)
        real.append(path)


def write_linked_image(folder: Path, side: int = SIDE, levels: int = LEVELS) -> None:
    write_image(folder, "czyx", levels, "0.5")
    add_channel(folder / "zarr.json")
    write_group(folder / "labels", {"labels": ["cells"]}, "0.5")
    cells = folder / "labels" / "cells"
    write_image(cells, "zyx", levels, "0.5")
    document = json.loads((cells / "zarr.json").read_text())
    document["attributes"]["ome"]["image-label"] = {}
    (cells / "zarr.json").write_text(json.dumps(document))
    for level in range(levels):
        n = side >> level
        write_linked(folder / str(level), (CHANNELS, PLANES, n, n), 1 << level)
        write_linked(cells / str(level), (PLANES, n, n), 1 << level)


def add_channel(document: Path) -> None:
    """State the look of a third channel: other readers want one for each."""
    content = json.loads(document.read_text())
    attributes = content.get("attributes", content)
    channels = attributes.get("ome", attributes)["omero"]["channels"]
    channels.append({**channels[0], "color": "0000FF", "label": "C"})
    document.write_text(json.dumps(content))


def write_slow_image(folder: Path) -> None:

    write_image(folder, "czyx", 4, "0.4")
    add_channel(folder / ".zattrs")
    cells = folder / "labels" / "cells"
    write_group(cells.parent, {"labels": ["cells"]}, "0.4")
    write_image(cells, "zyx", 4, "0.4")
    document = json.loads((cells / ".zattrs").read_text())
    (cells / ".zattrs").write_text(json.dumps({**document, "image-label": {}}))
    for level in range(4):
        n = SLOW_SIDE >> level
        write_slow_level(folder / str(level), (CHANNELS, PLANES, n, n), picture(n))
        y, x = np.mgrid[:n, :n] // (64 >> level)
        labels = (y * 64 + x + 1).astype("uint32")
        write_slow_level(cells / str(level), (PLANES, n, n), labels)


def write_slow_level(folder: Path, shape: tuple[int, ...], plane: np.ndarray) -> None:
    """Write a level whose planes are all the same."""
    import zarr
    from slow_codec import SlowCodec

    array = zarr.create_array(
        str(folder),
        shape=shape,
        chunks=(1,) * (len(shape) - 2) + (SLOW_CHUNK, SLOW_CHUNK),
        dtype=plane.dtype,
        compressors=SlowCodec(20),
        chunk_key_encoding={"name": "v2", "separator": "/"},
        zarr_format=2,
        fill_value=0,
    )
    array[...] = np.broadcast_to(plane, shape)


def write_all(data: Path) -> None:
    """Write what is not there yet."""
    for name, write in (
        ("beat.zarr", write_linked_image),
        ("slow-cells.zarr", write_slow_image),
        ("warm.zarr", partial(write_linked_image, side=512, levels=2)),
    ):
        if not (data / name).exists():
            partial_folder = data / f"{name}.part"
            shutil.rmtree(partial_folder, ignore_errors=True)
            write(partial_folder)
            partial_folder.rename(data / name)


@contextmanager
def address_of(data: Path, source: str) -> Iterator[str]:
    """Give the address of the image of a source, while its server runs."""
    if source in LOCAL:
        yield str(data / LOCAL[source])
        return
    latency, megabits = FAR[source]
    script = Path(__file__).with_name("far_server.py")
    command = [sys.executable, script, data, str(latency), str(megabits)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}/beat.zarr"
        finally:
            server.kill()


def add_zeros(viewer: Any, path: str) -> None:
    """Add layers like those of the file, of nothing but zeros."""
    slow = path.endswith(LOCAL["20 ms a chunk"])
    side, levels = (SLOW_SIDE, 4) if slow else (SIDE, LEVELS)
    shapes = [(PLANES, side >> i, side >> i) for i in range(levels)]
    for color in ("green", "magenta", "blue"):
        viewer.add_image(
            [Zeros(shape) for shape in shapes],
            multiscale=True,
            contrast_limits=(200, 2000),
            colormap=color,
            blending="additive",
        )
    empty = [Zeros(shape) for shape in shapes]
    viewer.add_labels(empty, multiscale=True, opacity=0.4)


# What is done.


class Walk:
    """A window, and what a user does in it."""

    def __init__(self, who: str) -> None:
        import napari

        napari.qt.get_qapp()
        napari.settings.get_settings().experimental.async_ = who == ASYNC
        self.who = OURS if who == OWN_CODE else who
        self.is_sampled = who == OWN_CODE
        self.viewer = napari.Viewer(show_welcome_screen=False)
        self.viewer.window.resize(*WINDOW)
        self.frames = Frames(self.viewer)

    @property
    def camera(self) -> Any:
        return self.viewer.scene.camera

    def open(self, path: str) -> None:
        if self.who == FLOOR:
            add_zeros(self.viewer, path)
        else:
            plugin = PEER if self.who == ASYNC else self.who
            self.viewer.open(path, plugin=plugin)

    def is_busy(self) -> bool:
        """Return whether pixels are still to come."""
        if self.who == OURS:
            return are_pixels_coming()
        tasks = getattr(self.viewer._layer_slicer, "_layers_to_task", {})
        return any(not task.done() for task in tasks.values())

    def rest(self, since: float) -> float:
        """Let the window work until nothing comes any more; the time of the end."""
        end = since
        while (now := time.perf_counter()) < since + MOST:
            if self.is_busy():
                end = now
            end = max(end, self.frames.last)
            if now > end + CALM:
                break
            work(0.02)
        return end

    def do(self, action: Callable[[], Any]) -> tuple[Heartbeat, float]:
        """Do something and wait for its last picture; the beats, and when that was."""
        work(0.3)
        with beating(sampled=self.is_sampled) as heartbeat:
            start = time.perf_counter()
            action()
            end = self.rest(start)
        return heartbeat, end

    def pan(self, number: int = 1) -> None:
        z, y, x = self.camera.center
        self.camera.center = z, y + 500 * number, x + 300 * number

    def pan_on(self) -> None:
        for _ in range(8):
            self.pan()
            work(0.1)

    def look_close(self) -> None:
        self.camera.zoom = 1 / self.viewer.layers[0].scale[-1]
        self.pan(0)

    def zoom(self) -> None:
        for factor in (0.25, 2, 2, 0.5):
            self.camera.zoom *= factor
            work(0.1)

    def slide(self) -> None:
        for _ in range(4):
            step = self.viewer.dims.current_step[-3]
            self.viewer.dims.set_current_step(-3, (step + 1) % PLANES)
            work(0.1)

    def show_volume(self) -> None:
        self.viewer.dims.ndisplay = 3

    def show_plane(self) -> None:
        self.viewer.dims.ndisplay = 2

    def paint(self) -> None:
        """Drag the brush over the middle of the canvas."""
        from qtpy.QtCore import QEvent, QPointF, Qt
        from qtpy.QtGui import QMouseEvent
        from qtpy.QtWidgets import QApplication

        layer = self.viewer.layers[-1]
        self.viewer.layers.selection = {layer}
        layer.mode, layer.brush_size, layer.selected_label = "paint", 20, 7
        native = self.viewer.window._qt_viewer.canvas.native
        left, none = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton
        kinds = QEvent.Type
        way = [QPointF(300 + 8 * i, 300 + 40 * np.sin(i / 5)) for i in range(40)]

        def send(kind: Any, at: Any, button: Any, buttons: Any) -> None:
            place = QPointF(native.mapToGlobal(at.toPoint()))
            plain = Qt.KeyboardModifier.NoModifier
            event = QMouseEvent(kind, at, place, button, buttons, plain)
            QApplication.sendEvent(native, event)

        send(kinds.MouseMove, way[0], none, none)
        send(kinds.MouseButtonPress, way[0], left, left)
        for at in way:
            send(kinds.MouseMove, at, none, left)
            work(0.015)
        send(kinds.MouseButtonRelease, way[-1], left, none)


def are_pixels_coming() -> bool:
    from napari_ngff.viewer.streaming import streamed_levels

    return bool(streamed_levels.are_pixels_coming())


def walk(data: Path, source: str, who: str) -> Values:
    """Do all steps; row -> column -> the longest gap of each."""
    warm = Walk(who)
    warm.do(lambda: warm.open(str(data / "warm.zarr")))
    warm.viewer.close()
    gc.collect()  # else it goes away in the middle of a step
    window = Walk(who)
    found: dict[str, float] = {}
    gaps: list[float] = []
    with address_of(data, source) as path:
        steps: dict[str, Callable[[], Any]] = {
            "open": partial(window.open, path),
            "first pan at level 0": window.look_close,
            "pan": window.pan_on,
            "zoom": window.zoom,
            "z slider": window.slide,
            "paint": window.paint,
            "to 3D": window.show_volume,
            "to 2D": window.show_plane,
        }
        for step, action in steps.items():
            if step == "paint" and window.who != OURS:
                continue
            heartbeat, end = window.do(action)
            reported = heartbeat.until(end)
            if window.is_sampled:
                reported = own_times(heartbeat, end)
            found[f"{source}: {step}"] = max(reported)
            gaps += reported
            show_stacks(step, heartbeat)
        assert len(window.viewer.layers) >= CHANNELS, window.viewer.layers
        window.viewer.close()
    found[f"{source}: longest of all"] = max(found.values())
    if not window.is_sampled:
        found[f"{source}: median"] = float(np.median(gaps))
    return {row: {who: [value]} for row, value in found.items()}


def own_times(heartbeat: Heartbeat, end: float) -> list[float]:
    """Estimate, for each gap, how long the main thread was in code of ours.

    That is where our call is further in than any of napari's: also while it waits, or
    calls numpy.
    """
    times = [0.0]
    for gap, at, stacks in heartbeat.stacks:
        if at - gap / 1000 < end:
            own = sum(seconds for seconds, stack in stacks if is_own(stack))
            times.append(gap * own / max(1e-9, sum(one for one, _ in stacks)))
    return times


def is_own(stack: list[str]) -> bool:
    """Return whether a sample was taken in code of ours."""
    for line in reversed(stack):
        if any(name in line for name in ("/napari/", "/vispy/", "/app_model/")):
            return False
        if "/napari_ngff/" in line:
            return True
    return False


def show_stacks(step: str, heartbeat: Heartbeat) -> None:
    """Print who held the window, if `BEAT_STACKS` is set: our calls and the last."""
    for gap, at, stacks in heartbeat.stacks:
        if gap < 50 or not os.environ.get("BEAT_STACKS"):
            continue
        reported = Counter(holder_of(stack) for _, stack in stacks)
        garbage = heartbeat.collecting(at - gap / 1000, at)
        text = f"== {step}: {gap:.0f} ms, {garbage:.0f} of them for collecting garbage"
        print(f"{text}, {len(stacks)} samples", file=sys.stderr)
        for lines, count in reported.most_common(6):
            print(f"  {count}x {lines}", file=sys.stderr)


def holder_of(stack: list[str]) -> str:
    """Name what a sample was in: drawing, our innermost call, or napari's."""
    lines = [line.rpartition("site-packages/")[2] for line in stack]
    if any("gloo" in line for line in lines):
        return "drawing"
    inner = [line.rpartition("napari_ngff/")[2] for line in lines if "_ngff/" in line]
    if inner:
        return f"OURS {' > '.join(inner[-3:])}: {lines[-1]}"
    napari = [line for line in lines if line.startswith("napari/")]
    return f"napari {' > '.join(napari[-2:])}: {lines[-1]}"


def heartbeat(data: Path, source: str, who: str) -> Values:
    """One walk in this process; see `walk`."""
    write_all(data)
    with tempfile.TemporaryDirectory() as folder:
        # Edits that are not saved would be offered next time.
        os.environ["XDG_DATA_HOME"] = folder
        return walk(data, source, who)
