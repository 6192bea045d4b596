"""A real napari window: how long until the picture is there, and after each move."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["measure"]

SETTLED = 0.25
"""Seconds without a new picture after which the window is taken to rest."""

MOST = 30.0
"""Seconds to wait at most."""

PANS = 5
"""Pans one after another, of which the median counts."""


class Zeros:
    """A level that costs nothing to read: what is left is napari's own time."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.ndim = len(shape)
        self.dtype = np.dtype("uint16")
        self.size = int(np.prod(shape))

    def __getitem__(self, index: Any) -> np.ndarray | Zeros:
        index = index if isinstance(index, tuple) else (index,)
        shape = []
        for part, n in zip(index, self.shape, strict=False):
            if isinstance(part, slice):
                shape.append(len(range(*part.indices(n))))
        shape += self.shape[len(index) :]
        small = all(isinstance(i, slice) for i in index) and len(shape) > 2
        return Zeros(tuple(shape)) if small else np.zeros(shape, "uint16")

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.zeros(self.shape, dtype or "uint16")


class Frames:
    """Counts the pictures of a viewer and notes when the last one was on the screen.

    It waits in an event loop, as napari does: that leaves other threads alone while
    nothing happens, and takes away what is done with. (Without one, the sign that a
    file is being opened would turn for ever, and have the window drawn meanwhile.)
    """

    def __init__(self, viewer: Any) -> None:
        self.last = 0.0
        self.count = 0
        self._drawn = False
        canvas = viewer.window._qt_viewer.canvas._scene_canvas
        canvas.events.draw.connect(self._draw, position="last")
        canvas.native.frameSwapped.connect(self._swap)

    def _draw(self, event: Any) -> None:
        self._drawn = True

    def _swap(self) -> None:
        # Any other part of the window that moves swaps the same picture again.
        if self._drawn:
            self._drawn = False
            self.last = time.perf_counter()
            self.count += 1

    def after(self, action: Callable[[], Any]) -> float:
        """Milliseconds from the start of an action to its last picture.

        The action may draw more than once: napari asks for another level, or another
        part of it, when it draws.
        """
        self.rest()
        before = self.count
        start = time.perf_counter()
        action()
        while self.count == before and time.perf_counter() < start + MOST:
            work(0.01)
        self.rest()
        return (self.last - start) * 1000

    def rest(self) -> None:
        """Let the window work until it has drawn nothing for a while."""
        start = time.perf_counter()
        while (left := max(start, self.last) + SETTLED - time.perf_counter()) > 0:
            if time.perf_counter() > start + MOST:
                raise TimeoutError("The window does not come to rest.")
            work(left)


def work(seconds: float) -> None:
    """Let the application answer events for a while."""
    from qtpy.QtCore import QEventLoop, QTimer

    loop = QEventLoop()
    QTimer.singleShot(math.ceil(seconds * 1000), loop.quit)
    loop.exec()


@cache
def register_zeros() -> None:
    """Register a plugin that opens a file as layers like those, of nothing but zeros.

    By a plugin, since `viewer.open` shows a progress bar and draws the window once
    before there are layers, which is napari's own time, too.
    """
    import zarr
    from npe2 import DynamicPlugin

    plugin = DynamicPlugin("zeros")

    def read(path: str) -> list[Any]:
        group = zarr.open_group(path, mode="r")
        shapes = [group[i].shape[1:] for i in sorted(group.array_keys())]
        look = {"multiscale": True, "contrast_limits": (200, 2000)}
        return [
            (
                [Zeros(shape) for shape in shapes],
                {**look, "colormap": color, "blending": "additive"},
                "image",
            )
            for color in ("green", "magenta")
        ]

    @plugin.contribute.reader(filename_patterns=["*.zarr"], accepts_directories=True)
    def get_reader(path: str) -> Callable[[str], list[Any]]:
        return read

    plugin.register()


def measure(data: Path, who: str) -> dict[str, float]:
    """Open the large image, then move; milliseconds by step.

    Another window with a small image comes first, so that imports and shaders are no
    part of the figures.
    """
    import napari

    napari.qt.get_qapp()
    if who == "zeros":
        register_zeros()

    def window() -> tuple[Any, Frames]:
        viewer = napari.Viewer(show_welcome_screen=False)
        viewer.window.resize(1200, 900)
        return viewer, Frames(viewer)

    def open_file(name: str) -> None:
        viewer.open(str(data / name), plugin=who)

    viewer, frames = window()
    frames.after(lambda: open_file("small-0.5.zarr"))
    viewer.close()
    viewer, frames = window()
    found = {"first picture": frames.after(lambda: open_file("1e6-0.5.zarr"))}
    assert len(viewer.layers) == 2, viewer.layers

    def step_z() -> None:
        viewer.dims.set_current_step(0, viewer.dims.current_step[0] + 1)

    def zoom() -> None:
        viewer.camera.zoom *= 2.5

    def pan() -> None:
        z, y, x = viewer.camera.center
        viewer.camera.center = z, y + 150 / viewer.camera.zoom, x

    found["z step"] = frames.after(step_z)
    found["zoom"] = frames.after(zoom)
    # The first one after a zoom reads pixels; further ones may have them already.
    found["first pan"] = frames.after(pan)
    found["pan"] = statistics.median(frames.after(pan) for _ in range(PANS))
    viewer.close()
    return found
