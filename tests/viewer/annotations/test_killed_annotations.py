"""What a killed process has drawn or classified is in its field, in a file or restored.

With KILLS=N at half as many moments.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import annotating_process
from annotating_process import FIELDS, NAMES, labels_in
from napari_ngff.viewer.annotations.object_class_annotation import find_classes
from napari_ngff.viewer.services.window import RESTORE
from napari_ngff.viewer.session import session_of
from plates import write_plate
from recovering import be_asked, idle, opened

KILLS = int(os.environ.get("KILLS", "16")) // 2


@pytest.fixture(scope="module")
def worker():
    """Give a process that edits what it is told to, one job after the other."""
    process = subprocess.Popen(
        [sys.executable, annotating_process.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.stdin.close()
    process.wait(60)
    process.stdout.close()


def kill_soon(worker, job, seconds):
    """Let a process edit, and kill it; return the edits it began, and those it kept."""
    worker.stdin.write(json.dumps(job) + "\n")
    worker.stdin.flush()
    word, pid = worker.stdout.readline().split()
    assert word == "ready"
    said = {"begun": set(), "kept": set()}
    word, *edit = worker.stdout.readline().split()
    said[word].add(tuple(edit))
    time.sleep(seconds)
    os.kill(int(pid), signal.SIGKILL)
    while (line := worker.stdout.readline().split()) != ["dead"]:
        word, *edit = line
        said[word].add(tuple(edit))
    return said["begun"], said["kept"]


def edits_in(viewer, field):
    """List the edits that a field shows, as the process has reported them."""
    found = []
    for layer in viewer.layers:
        if layer._type_string in ("points", "shapes"):
            places = [np.atleast_2d(each)[0] for each in layer.data]
            numbers = [str(round(place[-1])) for place in places]
            found += [(field, layer._type_string, number) for number in numbers]
    classes = find_classes(session_of(viewer).annotations, labels_in(viewer))
    for label, name in (
        {} if classes is None else dict(classes.classes.class_of).items()
    ):
        assert name == NAMES[label % len(NAMES)]
        found.append((field, "classes", str(label)))
    return found


@pytest.mark.default_cases("0", "6")
@pytest.mark.parametrize("kill", range(KILLS), ids=str)
def test_each_edit_is_in_its_field_once(worker, tmp_path, monkeypatch, kill):
    path = tmp_path / "p.ome.zarr"
    write_plate(
        path, grid=(1, 2), fields=2, shape=(1, 32, 48), labelled=lambda _: ["nuclei"]
    )
    job = {"path": str(path), "home": str(tmp_path / "data"), "seed": kill}
    begun, kept = kill_soon(worker, job, random.Random(kill).uniform(0, 2.5))
    user = be_asked(tmp_path / "data", monkeypatch)
    user.answer = RESTORE
    viewer, found = opened(path, monkeypatch), []
    for well, field in FIELDS:
        session_of(viewer).browser.show_field(well, field)
        idle()
        found += edits_in(viewer, f"{well}/{field}")
    assert len(found) == len(set(found))
    assert kept <= set(found) <= begun
    viewer.layers.clear()
