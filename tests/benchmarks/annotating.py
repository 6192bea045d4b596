"""Cases of annotating: classes among very many labels, and the bridge to plugins.

Class operations are milliseconds of the main thread (its CPU time) until the window is
drawn anew, as other threads and processes are none of it. The bridge is wall time.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from data import picture

IDS = 100_000
SIDE = 2048
PLANES = 20

Values = dict[str, dict[str, list[float]]]
OURS = "napari-ngff"


class Cells:
    """A level of small squares, each with a label of its own."""

    def __init__(self, pixels: np.ndarray) -> None:
        self.pixels = pixels
        self.shape, self.dtype = pixels.shape, pixels.dtype
        self.chunks = (512, 512)

    def read(self, box: Any) -> Any:
        return self.pixels[tuple(slice(*span) for span in box)].copy()


def cells(count: int) -> np.ndarray:
    """Labels "yx" from 1 to `count`."""
    side = -(-int(count**0.5) // 8) * 8 + 8
    ids = np.arange(1, side * side + 1).reshape(side, side)
    return np.kron(np.where(ids <= count, ids, 0), np.ones((4, 4), int)).astype("u4")


class Window:
    """A window with labels, all of which have a colour of their own."""

    def __init__(self, count: int) -> None:
        import napari

        from napari_ngff.labels.canvas import Canvas
        from napari_ngff.plugin import use_workers
        from napari_ngff.viewer.layers.label_layers import label_colormap
        from napari_ngff.viewer.painting.layer_classes import classes_of_layer
        from napari_ngff.viewer.painting.paint import OMEZarrLabels

        use_workers()
        self.application = napari.qt.get_qapp()
        self.viewer = napari.Viewer(show_welcome_screen=False)
        parts = np.random.default_rng(0).integers(0, 256, (count, 4)).tolist()
        colors = {value: tuple(part) for value, part in enumerate(parts, 1)}
        pixels = cells(count)
        levels = [Cells(pixels), Cells(pixels[::2, ::2])]
        self.labels = OMEZarrLabels(Canvas(levels), colormap=label_colormap(colors))
        self.viewer.add_layer(self.labels)
        self.classes = classes_of_layer(self.labels)
        self.settle()

    def settle(self) -> None:
        """Let the window work."""
        end = time.perf_counter() + 0.3
        while time.perf_counter() < end:
            self.application.processEvents()
            time.sleep(0.005)

    def timed(self, function: Callable[[], Any]) -> float:
        """Milliseconds that the main thread works until all is drawn."""
        start = time.thread_time()
        function()
        self.application.processEvents()
        elapsed = (time.thread_time() - start) * 1000
        self.settle()
        return elapsed


def stock_recolor(window: Window, value: int) -> None:
    """Change one colour as napari has it: a direct colormap of all of them."""
    from napari.utils.colormaps import DirectLabelColormap

    table = dict(window.labels.colormap.color_dict)
    table[value] = np.array((value % 7 / 7, 0.2, 0.2, 1), np.float32)
    colormap = DirectLabelColormap(color_dict={None: table[None]})
    colormap.color_dict.update(table)
    window.labels.colormap = colormap


def class_operations(data: Path, rounds: int, count: str) -> Values:
    """What the dock does with classes, each on another class each round."""
    number = int(count)
    window = Window(number)
    classes = window.classes
    steps: dict[str, Callable[[int], Any]] = {
        "add": lambda i: classes.add_class(value=i),
        "colour": lambda i: classes.change_class(i, color=(i, 2, 3, 255)),
        "hide": lambda i: classes.change_class(i, hidden=True),
        "show": lambda i: classes.change_class(i, hidden=False),
        "select": lambda i: classes.select_class(i),
        "merge": lambda i: classes.merge_class(i, i + 100),
        "lock": lambda i: classes.change_class(i, locked=True),
        "remove": lambda i: classes.remove_class(i),
    }
    times: Values = {name: defaultdict(list) for name in steps}
    for i in range(1, rounds + 2):
        for name, step in steps.items():
            elapsed = window.timed(lambda s=step, v=i: s(v))
            if i > 1:
                times[name][OURS].append(elapsed)
    # Without numba napari refuses labels from 65,537 on.
    if number <= 1 << 16:
        for i in range(rounds):
            elapsed = window.timed(lambda v=i + 1: stock_recolor(window, v))
            times["colour"]["napari's own colormap"].append(elapsed)
    window.viewer.close()
    return {f"{name}, {number:,} labels": dict(row) for name, row in times.items()}


def bridge(data: Path, rounds: int) -> Values:
    """A region out of an OME-Zarr as plain layers, and labels back into it."""
    folder = Path(tempfile.mkdtemp(prefix="napari-ngff-bridge-"))
    try:
        return _bridge(folder, rounds)
    finally:
        shutil.rmtree(folder)


def _bridge(folder: Path, rounds: int) -> Values:
    from cases import alternate
    from napari.components import ViewerModel
    from napari.layers import Image, Labels

    from napari_ngff.viewer.bridge.merge_result import merge
    from napari_ngff.viewer.bridge.work_region import work_here
    from napari_ngff.viewer.composing.write_layers import write
    from napari_ngff.viewer.painting.new_labels import new_labels
    from napari_ngff.viewer.reader import get_reader

    plane = picture(SIDE)
    stack = np.stack([np.roll(plane, 31 * i, 1) for i in range(PLANES)])
    path = folder / "stack.ome.zarr"
    write(path, [Image(stack).as_layer_data_tuple()])
    layer = get_reader(str(path))(str(path))[0]
    viewer = ViewerModel()
    image = layer if isinstance(layer, Image) else Image(layer[0], **layer[1])
    viewer.add_layer(image)
    labels = viewer.add_layer(new_labels(image, "found"))
    work = work_here(image)
    ids = (stack // 300).astype("u2")
    result = Labels(ids, scale=work.scale, translate=work.translate)
    target = np.zeros_like(ids)

    def merge_back() -> None:
        merge(result, labels, "overwrite", like=work)
        labels.undo()

    def copy_back() -> None:
        np.copyto(target, ids)

    def merge_and_read() -> None:
        merge(result, labels, "overwrite", like=work)
        labels.canvas.read(0, tuple((0, size) for size in labels.data[0].shape))
        labels.undo()

    floor = "numpy copy"
    return {
        "work here, from the disk": alternate(
            {OURS: lambda: work_here(image), floor: stack.copy}, rounds
        ),
        "merge": alternate({OURS: merge_back, floor: copy_back}, rounds),
        "merge, and read all of it": alternate(
            {OURS: merge_and_read, floor: copy_back}, rounds
        ),
    }


CASES = {"class_operations": class_operations, "bridge": bridge}
