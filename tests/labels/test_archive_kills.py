"""A killed process leaves the old archive or the new one, and all edits."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import zarr

from killed import edit
from killed_archive import canvas_of
from napari_ngff.labels.journal import find_journals
from napari_ngff.labels.saving.retained import Retained
from napari_ngff.labels.writer import LabelWriter
from saving import levels_of, recovered, write_levels

TESTS = Path(__file__).parent.parent
SHAPES = ((300, 400), (150, 200), (75, 100))
COUNT = len(SHAPES)
STAGES = (
    "edit",
    "level 0",
    "planned",
    "level -1",
    "write_archive",
    "verify",
    "replace",
    "saved",
)

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="no such processes here"
)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def original(tmp_path):
    rng = np.random.default_rng(3)
    pixels = np.kron(rng.integers(0, 4, (19, 25)), np.ones((16, 16), int))
    levels = levels_of(pixels[:300, :400].astype("u2"), SHAPES[1:], "nearest")
    folder = write_levels(tmp_path / "folder", levels, (32, 32))
    path = tmp_path / "original.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(folder).as_posix())
        # Something of which a copy takes a while.
        archive.writestr("image/c/0", np.random.default_rng(1).bytes(8_000_000))
    return path


@pytest.fixture
def victims():
    """A process that starts those to be killed."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, str(TESTS / "killed_archive.py")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        yield process
        process.stdin.close()


def run_and_kill(process, path, home, seed):
    """Let a process be killed; return what it had told by then.

    By itself at the very beginning of a stage, which so is met however busy the machine
    is; or, every other time, at a random moment after that.
    """
    rng = random.Random(seed)
    stage, left = STAGES[seed % len(STAGES)], rng.randint(1, 4)
    itself = seed // len(STAGES) % 2 == 0
    process.stdin.write(f"{path} {COUNT} {seed} {home} {left * itself} {stage}\n")
    process.stdin.flush()
    word, pid = process.stdout.readline().split()
    assert word == "ready"
    if itself:
        return list(iter(lambda: process.stdout.readline().strip(), "dead"))
    told = []
    while left and "end" not in told:
        told.append(process.stdout.readline().strip())
        left -= told[-1].startswith(stage)
    time.sleep(rng.random() * 0.01)
    os.kill(int(pid), signal.SIGKILL)
    told.extend(iter(lambda: process.stdout.readline().strip(), "dead"))
    return told


def levels_in(path):
    with zarr.storage.ZipStore(path, mode="r") as store:
        return [zarr.open_array(store, path=str(i), mode="r")[:] for i in range(COUNT)]


def painted(original, path, numbers, seed):
    """All levels after some edits, saved at once on a copy that was never killed."""
    shutil.copy(original, path)
    canvas = canvas_of(str(path), COUNT)
    writer = LabelWriter(canvas, Retained())
    for number in range(numbers):
        canvas.add(edit(number, seed, canvas.shape))
    writer.save()
    levels = levels_in(path)
    path.unlink()
    return levels


def same(levels, others):
    return all(np.array_equal(a, b) for a, b in zip(levels, others, strict=True))


def check_kill(process, original, home, seed):
    path = original.with_name(f"{seed}.ozx")
    shutil.copy(original, path)
    told = run_and_kill(process, path, home, seed)
    count = sum(line.startswith("edit") for line in told)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    # It is the result of one of the saves, whole.
    saves = sum(line == "saved" for line in told)
    copy = original.with_name("copy.ozx")
    candidates = (painted(original, copy, 4 * n, seed) for n in (saves, saves + 1))
    assert any(same(levels_in(path), one) for one in candidates)
    found = find_journals(str(path), "")
    after = count
    if found:
        writer = recovered(path, canvas_of(str(path), COUNT))
        after = len(writer.canvas.edits)
        assert after in (count, count + 1)
        writer.save()
        assert not writer.unsaved
        writer.journal.remove()
    assert same(levels_in(path), painted(original, copy, after, seed))
    left = [one.name for one in path.parent.iterdir() if one.name.startswith(".")]
    if found:
        assert left == []
    for name in left:
        path.with_name(name).unlink()
    path.unlink()
    return told[-1] if told else "ready"


def check_kills(process, original, home, seeds):
    stages = (check_kill(process, original, home, seed) for seed in seeds)
    return Counter(stage.split(" ", 1)[0] for stage in stages)


def test_some_kills(victims, original, home):
    assert check_kills(victims, original, home, range(5))


@pytest.mark.slow
def test_many_kills(victims, original, home):
    stages = check_kills(victims, original, home, range(100, 140))
    assert {stage.split()[0] for stage in STAGES} <= stages.keys(), stages
