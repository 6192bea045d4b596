"""The next field of a plate in a real window, the browser beside it, against its floor.

The floor is napari itself: the same layers are given pixels that are in memory already,
by hand. Fields of 2 channels of 1080 x 1080 in four levels, with labels. A block is the
longest time for which one step in the main thread keeps the window from drawing and
answering; drawing itself is napari's and no part of it.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from data import make_array, picture, write_group, write_image
from window import Frames

Values = dict[str, dict[str, list[float]]]

OURS = "napari-ngff"
SIDE, LEVELS, FIELDS, COLUMNS = 1080, 4, 4, 6
VERSION = "0.5"


def write(folder: Path) -> Path:
    """Write a plate of one row."""
    wells = [
        {"path": f"A/{i + 1}", "rowIndex": 0, "columnIndex": i} for i in range(COLUMNS)
    ]
    columns = [{"name": str(i + 1)} for i in range(COLUMNS)]
    plate = {"rows": [{"name": "A"}], "columns": columns, "wells": wells}
    write_group(folder, {"plate": plate}, VERSION)
    write_group(folder / "A", {}, VERSION)
    field = folder.parent / "field"
    write_image(field, "cyx", LEVELS, VERSION)
    write_group(field / "labels", {"labels": ["cells"]}, VERSION)
    cells = field / "labels" / "cells"
    write_image(cells, "yx", LEVELS, VERSION)
    document = json.loads((cells / "zarr.json").read_text())
    document["attributes"]["ome"]["image-label"] = {}
    (cells / "zarr.json").write_text(json.dumps(document))
    for i in range(LEVELS):
        n = SIDE >> i
        pixels = np.stack([picture(n, 0), picture(n, 1)])
        make_array(field / str(i), pixels.shape, (1, 512, 512))[...] = pixels
        y, x = np.mgrid[:n, :n] // (60 >> i)
        numbers = (y * 100 + x).astype("uint32")
        array = make_array(cells / str(i), (n, n), (512, 512), dtype="uint32")
        array[...] = numbers
    images = {"images": [{"path": str(i)} for i in range(FIELDS)]}
    for well in wells:
        write_group(folder / well["path"], {"well": images}, VERSION)
        for i in range(FIELDS):
            shutil.copytree(field, folder / well["path"] / str(i))
    return folder


class Blocks:
    """Times what work of ours does in the main thread when it is done."""

    def __init__(self) -> None:
        self.longest = 0.0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Count what happens inside."""
        start = time.perf_counter()
        try:
            yield
        finally:
            elapsed = (time.perf_counter() - start) * 1000
            self.longest = max(self.longest, elapsed)

    def install(self) -> None:
        """Count what sessions do from now on."""
        from napari_ngff.viewer.services.window import Window
        from napari_ngff.widgets.workers import run_in_worker, run_when_calm

        def run(work: Callable[[], Any], done: Callable[[Any], None]) -> None:
            def timed(found: Any) -> None:
                with self.watched():
                    done(found)

            run_in_worker(work, timed)

        Window.current.run = run
        Window.current.run_later = run_when_calm
        Window.current.has_workers = True


MEMORY = {
    "image": [picture(SIDE >> i) for i in range(LEVELS)],
    "labels": [
        np.add(*np.mgrid[: SIDE >> i, : SIDE >> i] // (60 >> i)).astype("uint32")
        for i in range(LEVELS)
    ],
}


def walking(rounds: int) -> Values:
    """Steps of ours and of the floor in turn, in a window each."""
    import napari

    napari.qt.get_qapp()
    rows = ("next field, in a window", "its longest block")
    found: Values = {row: {OURS: [], "floor": []} for row in rows}
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "plate.ome.zarr")
        for who in (OURS, "floor"):
            viewer = napari.Viewer(show_welcome_screen=False)
            viewer.window.resize(1200, 900)
            frames, blocks = Frames(viewer), Blocks()
            step = begin(viewer, path, who, frames, blocks)
            for i in range(rounds + 1):
                blocks.longest = 0.0
                elapsed = frames.after(partial(step, i))
                if i:
                    found[rows[0]][who].append(elapsed)
                    found[rows[1]][who].append(blocks.longest)
            viewer.close()
    return found


def begin(
    viewer: Any, path: Path, who: str, frames: Frames, blocks: Blocks
) -> Callable[[int], None]:
    """Show the first field; what goes to the next."""
    if who == "floor":
        for kind in ("image", "image", "labels"):
            levels = MEMORY[kind]
            getattr(viewer, f"add_{kind}")(levels, multiscale=True)
        for layer in viewer.layers[:2]:
            layer.contrast_limits = 200, 2000

        def by_hand(number: int) -> None:
            for layer in viewer.layers:
                levels = [
                    np.roll(level, number) for level in MEMORY[layer._type_string]
                ]
                with blocks.watched():
                    layer.data = levels

        return by_hand
    from napari_ngff.viewer.session import session_of

    viewer.open(str(path), plugin=OURS)
    frames.rest()
    blocks.install()
    browser = session_of(viewer).browser
    frames.after(lambda: browser.show_field("A/1", "0"))

    def forth(number: int) -> None:
        with blocks.watched():
            browser.step_field(1)

    return forth
