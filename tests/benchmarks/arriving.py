"""How long until the whole picture of a far image is on the screen.

The image of `beating.py`, after a jump to another place of level 0. *64 requests at
once* is a program without a window that asks the same server for the stored chunks of
the same view, 64 at a time, and decodes nothing: faster than that no reader can be.
"""

from __future__ import annotations

import http.client
import os
import tempfile
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from beating import CHUNK, OURS, SIDE, Values, Walk, address_of, write_all
from window import work

FLOOR = "64 requests at once"
AT_ONCE = 64
"""Requests that a reader may have under way."""

PLACES = ((1500, 1500), (6000, 2500), (3000, 5500))
"""Middle of the views in pixels: y, x. No two share a chunk."""


def arriving(data: Path, rounds: int, source: str, who: str) -> Values:
    """Jump to some places at level 0, and wait for each picture."""
    del rounds
    write_all(data)
    with (
        tempfile.TemporaryDirectory() as folder,
        address_of(data, source) as address,
    ):
        os.environ["XDG_DATA_HOME"] = os.environ["XDG_CACHE_HOME"] = folder
        window = Walk(who)
        times: list[float] = []
        floors: list[float] = []
        window.viewer.open(address, plugin=who)
        window.rest(time.perf_counter())
        for place in PLACES:
            work(0.5)
            start = time.perf_counter()
            look_at(window, place)
            times.append((window.rest(start) - start) * 1000)
            if who == OURS:
                floors.append(time_chunks(address, shown_chunks(window.viewer)))
        window.viewer.close()
    values = {who: times}
    if floors:
        values[FLOOR] = floors
    return {source: values}


def look_at(window: Walk, place: tuple[int, int]) -> None:
    """Look at a place, one pixel of level 0 for each pixel of the screen."""
    scale = window.viewer.layers[0].scale[-2:]
    window.camera.zoom = 1 / scale[-1]
    window.camera.center = (0, *np.multiply(place, scale))


def shown_chunks(viewer: Any) -> list[str]:
    """List the stored chunks that the canvas shows: keys below the image."""
    keys = []
    for channel, layer in enumerate(viewer.layers):
        assert layer.data_level == 0, layer
        plane = viewer.dims.current_step[-3]
        is_label = channel == len(viewer.layers) - 1
        root = "labels/cells/0/c" if is_label else f"0/c/{channel}"
        (top, left), (bottom, right) = np.minimum(layer.corner_pixels[:, -2:], SIDE - 1)
        keys += [
            f"{root}/{plane}/{row}/{column}"
            for row in range(top // CHUNK, bottom // CHUNK + 1)
            for column in range(left // CHUNK, right // CHUNK + 1)
        ]
    return keys


def time_chunks(address: str, keys: list[str]) -> float:
    """Read objects of a server, 64 at a time; the milliseconds until all were there."""
    url = urlsplit(address)
    waiting: SimpleQueue[str] = SimpleQueue()
    for key in keys:
        waiting.put(f"{url.path}/{key}")
    failed: list[str] = []

    def fetch() -> None:
        connection = http.client.HTTPConnection(url.netloc)
        while True:
            try:
                path = waiting.get_nowait()
            except Empty:
                break
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                failed.append(path)
        connection.close()

    threads = [threading.Thread(target=fetch) for _ in range(min(AT_ONCE, len(keys)))]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
    return (time.perf_counter() - start) * 1000
