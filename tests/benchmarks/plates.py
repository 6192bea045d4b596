"""Plates: a map, a picture of all wells, one well, the next image; see `cases.py`.

Each contender runs in a process of its own, which has opened a small image before. The
others show the first field of each well; ours, and ngio's loop over images, all fields.
"""

from __future__ import annotations

import gc
import json
import math
import os
import sys
import time
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numcodecs import Blosc

Values = dict[str, dict[str, list[float]]]

OURS = "napari-ngff"
MB = 1e6
SIDE = 128
"""Of a field; its chunks have `CHUNK`."""
CHUNK = 64
WELLS = 5
"""So many wells, from the middle on, are read one after the other in each round."""
BLOSC = Blosc()


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
        self.fields = int(path.rsplit(" ", 1)[1].split(".")[0])  # "plate-96 x 4.zarr"

    def map(self) -> Any:
        from napari_ngff import open_node
        from napari_ngff.plate.plate_layout import map_plate

        self.node = open_node(self.path)
        self.wells = map_plate(self.node.metadata.plate).wells
        return self.wells

    def begin(self) -> Any:
        from contenders import OPENERS

        self.levels = OPENERS[OURS](self.path)[0][0]
        return self.levels

    @cached_property
    def corners(self) -> list[tuple[int, int]]:
        """Of the wells from the middle on, in the picture of all."""
        size = self.levels[0].shape[-2:]
        rows, columns = (
            1 + max(getattr(w, side) for w in self.wells) for side in ("row", "column")
        )
        return [
            (well.row * (size[0] // rows), well.column * (size[1] // columns))
            for well in self.wells[len(self.wells) // 2 :]
        ]

    def overview(self) -> Any:
        return np.asarray(self.levels[-1])

    def field(self, number: int) -> Any:
        return self._part(number, 1)

    def opened_well(self, number: int) -> Any:
        return self._part(number, self.fields)

    def _part(self, number: int, fields: int) -> Any:
        """Level 0 of a well of the picture, or of its first field."""
        y, x = self.corners[number]
        side = math.isqrt(fields) * SIDE
        return np.asarray(self.levels[0][..., y : y + side, x : x + side])

    def well(self, number: int) -> Any:
        from napari_ngff.plate.arrangement import ScreenArrangements
        from napari_ngff.plate.mosaic import open_mosaic
        from napari_ngff.plate.plate_contents import PlateContents

        well = self.wells[len(self.wells) // 2 + number]
        mosaic = open_mosaic(ScreenArrangements(PlateContents(self.node)), [well])
        source = mosaic.pyramid.levels[0]
        return source.read(((0, 1), *((0, n) for n in source.shape[1:])))


class Layers:
    """A reader that makes one lazy picture of the first fields."""

    def __init__(self, path: str, who: str) -> None:
        self.path, self.who = path, who

    def begin(self) -> Any:
        from contenders import OPENERS, split

        self.levels = split(OPENERS[self.who](self.path))[0][0]
        self.size = self.levels[0].shape[-2:]
        return self.levels

    map = begin
    """It has no map: there is something to see when the layers are there."""

    def overview(self) -> Any:
        return np.asarray(self.levels[-1])

    def field(self, number: int) -> Any:
        y, x = (n // SIDE // 2 * SIDE for n in self.size)
        x += number * SIDE
        return np.asarray(self.levels[0][..., y : y + SIDE, x : x + SIDE])

    opened_well = field
    """It knows no other."""


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

    def opened_well(self, number: int) -> Any:
        paths = self.plate.wells_paths()
        path = paths[len(paths) // 2 + number]
        images = self.plate.get_well_images(*path.split("/")).values()
        return [i.get_image(path="0").get_as_numpy() for i in images]


class Floor:
    """What cannot be left out, by plain Python: open, read, parse and decode."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.old = os.path.exists(f"{path}/.zattrs")
        self.wells = self._document("")["plate"]["wells"]

    def _read(self, name: str) -> bytes:
        with open(f"{self.path}/{name}", "rb", buffering=0) as file:
            return file.read()

    def _document(self, name: str) -> Any:
        found = json.loads(
            self._read(f"{name}/{'.zattrs' if self.old else 'zarr.json'}")
        )
        return found if self.old else found["attributes"]["ome"]

    def field(self, number: int) -> Any:
        """Level 0 of one channel of an image whose documents are known."""
        return self._image(f"{self._path(number)}/0")

    def _image(self, name: str) -> Any:
        out = np.empty((SIDE, SIDE), "uint16")
        for y, x in np.ndindex(SIDE // CHUNK, SIDE // CHUNK):
            data = self._read(f"{name}/0/{'' if self.old else 'c/'}0/{y}/{x}")
            chunk = np.frombuffer(BLOSC.decode(data), "uint16").reshape(CHUNK, CHUNK)
            rows, columns = (slice(n * CHUNK, n * CHUNK + CHUNK) for n in (y, x))
            out[rows, columns] = chunk
        return out

    def well(self, number: int) -> Any:
        """All fields, with the documents that say what they are."""
        found, path = [], self._path(number)
        for image in self._document(path)["well"]["images"]:
            name = f"{path}/{image['path']}"
            assert self._document(name)
            json.loads(self._read(f"{name}/0/{'.zarray' if self.old else 'zarr.json'}"))
            found.append(self._image(name))
        return found

    def opened_well(self, number: int, fields: int) -> Any:
        """All fields, where the documents are known."""
        return [self._image(f"{self._path(number)}/{i}") for i in range(fields)]

    def _path(self, number: int) -> str:
        return str(self.wells[len(self.wells) // 2 + number]["path"])


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
        assert who != OURS or one.corners  # known from now on
        for number in range(WELLS):
            clear_caches()
            warm = timed(partial(one.opened_well, number))[1]
            note("one well, warm", warm)
            clear_caches()
            cold = timed(partial(one.well, number))[1] if who == OURS else warm
            note("one well", cold)
            if who != "ngio":
                clear_caches()
                note("one field", timed(partial(one.field, number))[1])
    if who == OURS:
        floor = Floor(path)
        steps = {
            "one well": floor.well,
            "one well, warm": partial(floor.opened_well, fields=one.fields),
            "one field": floor.field,
        }
        for row, step in steps.items():
            step(0)
            found[f"{name}: {row}"]["floor"] = [
                timed(partial(step, number))[1]
                for _ in range(max(rounds, 3))
                for number in range(WELLS)
            ]
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
