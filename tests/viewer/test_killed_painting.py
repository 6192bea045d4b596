"""What a killed process had in its journal is offered, and restored to the pixel.

With KILLS=N at a fourth as many moments.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import zarr

import painting_process
from journals import discard_edits
from napari_ngff.labels.journal import journal_home, read_journal
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.services.window import RESTORE, Window
from painting_process import NAMES, open_labels, put_stroke
from plates import write_plate
from recovering import be_asked, opened

KILLS = int(os.environ.get("KILLS", "16")) // 4
MOMENTS = [
    (sorted(NAMES)[kill % len(NAMES)], kill // len(NAMES)) for kill in range(KILLS)
]
"""A scenario, and which of its kills it is."""


@pytest.fixture(scope="module")
def worker():
    """Give a process that paints what it is told to, one job after the other."""
    process = subprocess.Popen(
        [sys.executable, painting_process.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    yield process
    process.stdin.close()
    process.wait(60)
    process.stdout.close()


@pytest.fixture
def user(tmp_path, monkeypatch):
    return be_asked(tmp_path / "data", monkeypatch)


def read_line(worker):
    return worker.stdout.readline().decode().split()


def kill_soon(worker, job, seconds):
    """Let a process paint, and kill it; return how many edits it has kept at least.

    Parameters
    ----------
    seconds
        How long it paints after it has kept the first edits.
    """
    worker.stdin.write(json.dumps(job).encode() + b"\n")
    worker.stdin.flush()
    word, pid = read_line(worker)
    assert word == "ready"
    kept = 0
    while not kept:  # the first strokes may change nothing
        kept = int(read_line(worker)[1])
    time.sleep(seconds)
    os.kill(int(pid), signal.SIGKILL)
    while (line := read_line(worker)) != ["dead"]:
        kept = int(line[1])
    return kept


def pixels_after(path, scenario, seed, count):
    """Paint as many edits in files that nobody was killed over."""
    viewer, layer = open_labels(path, scenario)
    for number in range(painting_process.EDITS):
        if len(layer.canvas.edits) >= count:
            break
        put_stroke(layer, number, seed)
    while len(layer.canvas.edits) > count:
        layer.undo()
    assert len(layer.canvas.edits) == count
    pixels = np.asarray(layer.data[0])
    discard_edits(layer.saver)
    viewer.layers.clear()
    return pixels


@pytest.mark.parametrize(("scenario", "kill"), MOMENTS)
def test_what_was_journaled_is_offered_and_restored(
    worker, user, tmp_path, monkeypatch, scenario, kill
):
    path = tmp_path / "a" / "cells.ome.zarr"
    if scenario == "field":
        write_plate(path, grid=(1, 2), fields=2, shape=(1, 96, 96))
    else:
        write_image(path, shape=(96, 120))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    seed = 100 * kill + len(scenario)
    job = {"path": str(path), "scenario": scenario, "seed": seed}
    job["home"] = str(tmp_path / "data")
    kept = kill_soon(worker, job, random.Random(seed).uniform(0, 1.5))
    (folder,) = journal_home().glob("*/*")
    found = read_journal(folder)
    assert len(found.edits) >= kept > 0
    user.answer = RESTORE
    viewer = opened(path, monkeypatch)
    asked = user.take_asked()
    if found.unsaved_count:
        ((text,),) = asked
        count = found.unsaved_count
        edits = f"{count} edit{'s' * (count > 1)} of '{NAMES[scenario]}'"
        assert text.startswith(f"{edits} (cells.ome.zarr")
    else:
        assert asked == []
    layer = viewer.layers[NAMES[scenario]]
    pixels = np.asarray(layer.data[0])
    assert layer.saver.save_now()
    name = "A/2/1" if scenario == "field" else ""
    stored = zarr.open_array(path / name / "labels" / NAMES[scenario] / "0", mode="r")
    assert (stored[...].reshape(pixels.shape) == pixels).all()
    discard_edits(layer.saver)
    viewer.layers.clear()
    monkeypatch.setattr(Window, "current", Window())
    wanted = pixels_after(tmp_path / "b" / path.name, scenario, seed, len(found.edits))
    np.testing.assert_array_equal(pixels, wanted)
