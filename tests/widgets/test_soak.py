"""A long walk over a plate of 384 wells: nothing may pile up.

SOAK_SECONDS sets how long; a minute by default, five in CI. `-o log_cli_level=INFO`
shows what was counted.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from qtpy.QtCore import QCoreApplication, QEvent, Qt, QThreadPool
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

from choices import unpin_all
from mouse import until
from napari_ngff.plate import kept_planes
from napari_ngff.plate.previews import preview_queue
from napari_ngff.store.arrays.region_read import cache as chunks
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.controls import CanvasMode
from napari_ngff.widgets.browser.host import show_browser
from napari_ngff.widgets.workers import CALM
from plates import write_plate

LOG = logging.getLogger(__name__)

SECONDS = float(os.environ.get("SOAK_SECONDS", "300" if os.environ.get("CI") else "60"))
MEGABYTES = {"in use": 8, "resident": 24}
"""Between the least of the first laps and the least of the last ones, as for `SLACK`; a
leak of a picture per step would be a hundred times as much in an hour. What is in use
is measured exactly. What is resident also grows by gaps between blocks in use: closing
and opening the browser 400 times, with 1 MB more in use, leaves gaps of 50 MB, of which
malloc gives some back, so that a single lap may end 27 MB above the one before."""

CACHED = 4 * 2**20
"""Bytes for each cache of pixels, so that the first lap fills them: half a gigabyte, as
they may hold otherwise, would take an hour, in which nothing else could be seen."""

SLACK = {"widgets": 4, "threads": 2, "files": 2, "layers": 0}
"""Between the fewest of the first laps and the fewest of the last ones: what may still
be on its way out whenever a lap ends."""

OURS = (
    "Browser",
    "BrowserDock",
    "Display",
    "PlateContents",
    "PreviewReader",
    "LayerSaver",
)
"""Classes of which there is one for what is walked, or for each layer."""

LEFT = Qt.MouseButton.LeftButton
SHIFT = Qt.KeyboardModifier.ShiftModifier
PLAIN = Qt.KeyboardModifier.NoModifier
ARROWS = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Left, Qt.Key.Key_Right)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/statm").exists(), reason="counts what Linux tells"
    ),
]


class MallocCounts(ctypes.Structure):
    """What glibc counts of its heaps, in bytes; see ``mallinfo2(3)``."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def measured():
    """Megabytes resident, and in use by blocks of malloc and of Python."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    megabytes = {"resident": pages * os.sysconf("SC_PAGE_SIZE") / 2**20}
    if hasattr(library, "mallinfo2"):  # glibc 2.33
        library.mallinfo2.restype = MallocCounts
        counts = library.mallinfo2()
        # Python takes its small blocks, of 64 bytes in the mean, from elsewhere.
        python = 64 * sys.getallocatedblocks()
        megabytes["in use"] = (counts.uordblks + counts.hblkhd + python) / 2**20
    return megabytes


def settled(dock):
    """Let all that was asked for arrive, also by docks that were closed."""
    QTest.qWait(2 * CALM)  # what is read ahead begins a moment later
    workers = QThreadPool.globalInstance()
    until(lambda: not (dock.isBusy() or previews() or workers.activeThreadCount()))
    for _ in range(2):
        QTest.qWait(50)
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        gc.collect()


def previews():
    return [t for t in threading.enumerate() if t.name == "napari-ngff-preview"]


def counted(viewer):
    """What must not grow: widgets, threads, open files, layers, objects of ours."""
    kinds = Counter(type(thing).__name__ for thing in gc.get_objects())
    return {name: kinds[name] for name in OURS} | {
        "widgets": len(QApplication.allWidgets()),
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
        "layers": len(viewer.layers),
    }


def walk(viewer, dock, chance):
    """Do one thing that a user does."""
    wells = dock.map.visibleWells()
    well = chance.choice(wells)
    port = dock.map.viewport()
    act = chance.random()
    if act < 0.4:
        QTest.mouseClick(port, LEFT, PLAIN, dock.map.rectOf(well).center())
    elif act < 0.7:
        QTest.keyClick(dock.map, chance.choice(ARROWS))
    elif act < 0.85:
        field = chance.choice("0123")
        place = dock.well.map.rectOf(field).center()
        QTest.mouseClick(dock.well.map, LEFT, PLAIN, place)
    elif act < 0.9:
        QTest.mouseDClick(port, LEFT, PLAIN, dock.map.rectOf(well).center())
    elif act < 0.93:
        QTest.mouseClick(port, LEFT, SHIFT, dock.map.rectOf(well).center())
        QTest.qWait(100)
        unpin_all(dock.browser())
    elif act < 0.96:
        dock.controls.filter.setText(chance.choice(["", "B", "4", "A1:D6"]))
    elif act < 0.98:
        dock.map.setSelected(chance.sample(wells, 6))
        QTest.mouseClick(dock.controls.buttons[CanvasMode.SELECTED], LEFT)
    else:
        dock.parent().destroyOnClose()
        return show_browser(viewer)
    QTest.qWait(chance.choice((0, 10, 60)))
    return dock


def home(viewer, dock):
    """Go to where every lap begins, so that laps can be compared."""
    dock.controls.filter.clear()
    unpin_all(dock.browser())
    dock.map.setSelected(["A/1"])
    dock.browser().show_field("A/1", "0")
    settled(dock)
    return counted(viewer), measured()


@pytest.mark.long(seconds=600)
def test_nothing_piles_up(viewer, tmp_path, monkeypatch):
    for cache in (chunks, kept_planes.kept):
        monkeypatch.setattr(cache, "limit", CACHED)
    monkeypatch.setattr(kept_planes, "MOST_PLANES", 0)  # nor room for many channels
    monkeypatch.setattr(preview_queue, "LOADED", CACHED)
    where = write_plate(tmp_path / "p.ome.zarr", grid=(16, 24), fields=4)
    viewer.open(str(where), plugin="napari-ngff")
    # Behind the text that names what is shown, napari draws a box, for which vispy
    # links a shader at each change. Mesa's software driver (22.3) keeps a kilobyte or
    # two of each, in a window of nothing but vispy, too: some 60 MB in an hour.
    viewer.canvas.overlays.text.box = False
    dock = show_browser(viewer)
    until(lambda: dock.browser() is not None)
    until(lambda: len(dock.map.state.pictures) == 384)
    chance = random.Random(1)
    laps, steps = [], 0
    end = time.monotonic() + SECONDS
    while len(laps) < 5 or time.monotonic() < end:
        lap = time.monotonic() + SECONDS / 12
        while time.monotonic() < lap:
            dock = walk(viewer, dock, chance)
            steps += 1
        laps.append(home(viewer, dock))
    half = len(laps) // 2
    for name in laps[0][0]:
        counts = [numbers[name] for numbers, _ in laps]
        LOG.info("%s: %s", name, counts)
        slack = SLACK.get(name, 0)
        assert min(counts[half:]) <= min(counts[:half]) + slack, f"{name}: {counts}"
    # The first laps still see each well for the first time.
    late = [sizes for _, sizes in laps[len(laps) // 3 :]]
    half = len(late) // 2
    for name in (name for name in MEGABYTES if name in late[0]):
        memory = [round(sizes[name]) for sizes in late]
        slope = np.polyfit(range(len(memory)), memory, 1)[0] / (SECONDS / 12)
        LOG.info("%s steps; %s %s; %+.0f MB an hour", steps, name, memory, 3600 * slope)
        grown = min(memory[half:]) - min(memory[:half])
        assert grown < MEGABYTES[name], f"{name}: {memory} after {steps} steps"
    assert session_of(viewer).browser is dock.browser()
