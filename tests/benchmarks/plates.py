"""Plates: a map, a picture of all wells, one well, the next image; see `cases.py`.

Each contender runs in a process of its own, which has opened a small image before. The
others show the first field of each well; ours, and ngio's loop over images, all fields.
"""

from __future__ import annotations

import gc
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Values = dict[str, dict[str, list[float]]]

OURS = "napari-ngff"
MB = 1e6


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returned, and its milliseconds."""
    gc.collect()
    start = time.perf_counter()
    found = function()
    return found, (time.perf_counter() - start) * 1000


def resident() -> float:
    """Memory of this process now, in megabytes."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MB


class Ours:
    """The plate map, then the mosaic."""

    def __init__(self, path: str) -> None:
        self.path = path

    def map(self) -> Any:
        from napari_ngff import open_node
        from napari_ngff.plate.layout import map_plate

        self.node = open_node(self.path)
        self.wells = map_plate(self.node.metadata.plate).wells
        return self.wells

    def begin(self) -> Any:
        from contenders import OPENERS

        self.levels = OPENERS[OURS](self.path)[0][0]
        return self.levels

    def overview(self) -> Any:
        return np.asarray(self.levels[-1])

    def well(self) -> Any:
        from napari_ngff.plate.arrangement import Arrangements
        from napari_ngff.plate.mosaic import open_mosaic
        from napari_ngff.plate.screen import Screen

        wells = self.wells
        mosaic = open_mosaic(Arrangements(Screen(self.node)), [wells[len(wells) // 2]])
        source = mosaic.pyramid.levels[0]
        return source.read(((0, 1), *((0, n) for n in source.shape[1:])))


class Layers:
    """A reader that makes one lazy picture of the first fields."""

    def __init__(self, path: str, who: str) -> None:
        self.path, self.who = path, who

    def begin(self) -> Any:
        from contenders import OPENERS, split

        self.levels = split(OPENERS[self.who](self.path))[0][0]
        return self.levels

    map = begin
    """It has no map: there is something to see when the layers are there."""

    def overview(self) -> Any:
        return np.asarray(self.levels[-1])

    def well(self) -> Any:
        # Fields of 128 x 128; one in the middle.
        at = tuple(n // 128 // 2 * 128 for n in self.levels[0].shape[-2:])
        return np.asarray(self.levels[0][..., at[0] : at[0] + 128, at[1] : at[1] + 128])


class Ngio:
    """A library that gives images one by one."""

    def __init__(self, path: str) -> None:
        self.path = path

    def begin(self) -> Any:
        from ngio import open_ome_zarr_plate

        self.plate = open_ome_zarr_plate(self.path, mode="r")
        return self.plate.wells_paths()

    map = begin

    def overview(self) -> Any:
        images = self.plate.get_images().values()
        return [i.get_image(path=i.level_paths[-1]).get_as_numpy() for i in images]

    def well(self) -> Any:
        path = self.plate.wells_paths()[len(self.plate.wells_paths()) // 2]
        images = self.plate.get_well_images(*path.split("/")).values()
        return [i.get_image(path="0").get_as_numpy() for i in images]


def contender(who: str, path: str) -> Any:
    """The one of that name."""
    if who == OURS:
        return Ours(path)
    return Ngio(path) if who == "ngio" else Layers(path, who)


def plate(data: Path, rounds: int, name: str, who: str) -> Values:
    """All steps on one plate."""
    from contenders import OPENERS, clear_caches, split

    split(OPENERS[OURS if who == "ngio" else who](str(data / "small-0.4.zarr")))
    path = str(data / f"plate-{name}.zarr")
    contender(who, str(data / "plate-96 x 4.zarr")).begin()  # imports
    found: Values = {}

    def note(row: str, value: float) -> None:
        found.setdefault(f"{name}: {row}", {}).setdefault(who, []).append(value)

    for _ in range(rounds):
        gc.collect()
        one = contender(who, path)
        _, shown = timed(one.map)
        note("map, or layers", shown)
        clear_caches()
        # What the contender has read for the first row counts here, too.
        _, opened = timed(one.begin) if who == OURS else (None, shown)
        picture, drawn = timed(one.overview)
        note("picture of all wells", opened + drawn)
        del picture
        clear_caches()
        _, well = timed(one.well)
        note("one well", well)
    return found


def plate_memory(data: Path, rounds: int, name: str, who: str) -> Values:
    """Resident memory that opening takes, and opening and the picture of all wells."""
    small = contender(who, str(data / "plate-96 x 4.zarr"))
    small.begin()
    small.overview()
    one = contender(who, str(data / f"plate-{name}.zarr"))
    before = resident()
    kept = one.map(), one.begin()
    opened = resident() - before
    picture = one.overview()
    after = resident() - before
    assert kept
    assert picture is not None
    rows = {f"{name}: open": opened, f"{name}: with the picture": after}
    return {row: {who: [max(value, 0.1)]} for row, value in rows.items()}


def plate_files(data: Path, rounds: int, name: str, who: str) -> Values:
    """Files that are read or looked for until there is a map, and a picture."""
    path = str(data / f"plate-{name}.zarr")
    opened: list[str] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and str(arguments[0]).startswith(path):
            opened.append(str(arguments[0]))

    sys.addaudithook(hook)
    one = contender(who, path)
    one.map()
    found = {f"{name}: map, or layers": {who: [float(len(opened))]}}
    if who == OURS:
        opened.clear()
        one.begin()
    one.overview()
    found[f"{name}: picture of all wells"] = {who: [float(len(opened))]}
    return found


def next_field(data: Path, rounds: int, name: str) -> Values:
    """One image after the other under the same layers, without a window."""
    from napari.components import ViewerModel

    from napari_ngff import open_node
    from napari_ngff.viewer.session import session_of

    viewer = ViewerModel()
    node = open_node(str(data / f"plate-{name}.zarr"))
    browser = session_of(viewer).browse(node)
    browser.show_field(browser.map.wells[0].path)
    times = [timed(lambda: browser.step_field(1))[1] for _ in range(5 * rounds)]
    assert not any(map(math.isnan, times))
    return {f"{name}: next image": {OURS: times}}


CASES: dict[str, Callable[..., Values]] = {
    one.__name__: one for one in (plate, plate_memory, plate_files, next_field)
}
