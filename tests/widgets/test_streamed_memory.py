"""A long pan over an image on a server: memory stays within the bound of the caches.

SOAK_SECONDS sets how long; a minute by default. `-o log_cli_level=INFO` shows what was
counted.
"""

from __future__ import annotations

import ctypes
import logging
import os
import random
import time
from pathlib import Path

import numpy as np
import pytest
import zarr

from mouse import camera, canvas, pump, until
from napari_ngff.store.arrays.region_read import cache as chunks
from napari_ngff.viewer.streaming.streamed_levels import ahead_reader, fetcher
from plates import write_image
from unreliable import serving

pytest.importorskip("aiohttp", reason="needs the extra [remote]")

LOG = logging.getLogger(__name__)

SECONDS = min(300.0, float(os.environ.get("SOAK_SECONDS", "60")))

SIZE, LEVELS = 8192, 4
"""One channel of 16 bits: 128 MiB, several times what may stay in memory."""

CACHED = 16 * 2**20
"""Bytes of decoded chunks that may be kept."""

MEGABYTES = 24
"""May come and go between two laps: a fifth of the image. All of it would be 170."""

pytestmark = [
    pytest.mark.long(seconds=300),
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/statm").exists(), reason="counts what Linux tells"
    ),
]


def resident_megabytes():
    """Megabytes in memory, without what the allocator may give back."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc
    if trim is not None:
        trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def write_noise(folder):
    """Write an image that does not compress."""
    plane = np.random.default_rng(0).integers(0, 4096, (SIZE, SIZE), "uint16")
    write_image(folder, plane[None], 3, "zyx", LEVELS)
    for level in range(LEVELS):
        step = 2**level
        zarr.create_array(
            folder / str(level), data=plane[None, ::step, ::step],
            chunks=(1, 256, 256), overwrite=True,
        )  # fmt: skip
    return plane


def pan_for(viewer, seconds, chance):
    """Drag the view about at level 0, sometimes far; return the number of views."""
    views, end = 0, time.monotonic() + seconds
    middle = np.array([SIZE / 2, SIZE / 2])
    while time.monotonic() < end:
        reach = 3000 if chance.random() < 0.1 else 300
        middle += [chance.uniform(-reach, reach) for _ in range(2)]
        middle = np.clip(middle, 300, SIZE - 300)
        camera(viewer).center = (0, *middle)
        canvas(viewer)._scene_canvas.update()
        pump(chance.choice((15, 60, 200)))
        views += 1
        # A new chunk counts before an old one is dropped.
        assert chunks.nbytes <= 1.2 * CACHED
    until(lambda: not fetcher.is_busy and not ahead_reader.is_running)
    return views


def test_memory_stays_within_its_bound(viewer, tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "limit", CACHED)
    plane = write_noise(tmp_path / "noise.ome.zarr")
    chance, views, laps = random.Random(1), 0, []
    with serving(tmp_path) as server:
        viewer.open(f"{server.address}/noise.ome.zarr", plugin="napari-ngff")
        pump(300)
        camera(viewer).zoom = 1 / viewer.layers[0].scale[-1]
        for _ in range(6):
            views += pan_for(viewer, SECONDS / 6, chance)
            laps.append(resident_megabytes())
        asked = {path for path in server.asked if "/0/c/" in path}
        layer = viewer.layers[0]
        until(lambda: layer.data_level == 0 and not fetcher.is_busy)
        (top, left), (bottom, right) = layer.corner_pixels[:, -2:]
        truth = plane[top : bottom + 1, left : right + 1]
        assert np.array_equal(layer._slice.image.raw, truth)
    LOG.info("%s views, %s chunks of level 0; %s", views, len(asked), laps)
    # Else nothing could have piled up.
    assert len(asked) * 2 * 256**2 > 3 * CACHED
    assert laps[-1] - laps[0] < MEGABYTES, laps
