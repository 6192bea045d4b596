"""A process that is killed anywhere leaves whole blocks, and its save can be finished.

Each test runs real processes and ends them with SIGKILL: from outside at random times,
and by themselves just before and just after chosen steps, so that every stage is hit.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from zarr.codecs import ZstdCodec

from killed import NEW, blank, created, edit
from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.journal import Journal, find_journals
from napari_ngff.labels.writer import LabelWriter
from napari_ngff.metadata.model import LabelInfo, Severity
from napari_ngff.store.boxes import box_of, cells_in
from napari_ngff.store.check import walk
from napari_ngff.store.lazy import BlankArray
from napari_ngff.store.node import open_node
from saving import (
    describe,
    levels_of,
    open_canvas,
    open_writer,
    read_levels,
    write_image,
    write_levels,
)

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="no such processes here"
)

SHAPES = ((120, 150), (60, 75), (30, 38), (15, 19))
CHUNKS, SHARDS = (16, 24), (32, 48)
TESTS = Path(__file__).parents[1]
EDITS, BETWEEN = 24, 8
"""Edits of a run, and how many there are between two saves."""

SAVING = {
    "journal place", "journal edit", "journal saving", "journal saved", "keep block",
    "flush journal", "flush level 0", "flush coarser", "flush folders",
    "write level 0", "write coarser", "name level 0", "name coarser",
}  # fmt: skip
STAGES = {
    "plain": SAVING | {"remove level 0", "remove coarser"},
    "sharded": SAVING,
    "wide": SAVING | {"write widened", "flush widened", "name widened", "swap widened"},
    "new": SAVING | {f"name {what}" for what in ("array", "group", "tree", "list")},
}
"""Scenario -> each stage in which a process has to die at least once."""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    rng = np.random.default_rng(5)
    blocks = rng.integers(0, 4, (15, 19))
    pixels = np.kron(blocks, np.ones((8, 8), int))[:120, :150].astype("u2")
    levels = levels_of(pixels, SHAPES[1:], "mode")
    folder = tmp_path_factory.mktemp("originals")
    options = {"compressors": ZstdCodec(level=1), "dimension_names": ("y", "x")}
    for name in ("plain", "sharded", "wide"):
        shards = {"shards": SHARDS} if name == "sharded" else {}
        write_levels(folder / name, levels, CHUNKS, **options, **shards)
        describe(folder / name, 4, label=LabelInfo())
    write_image(folder / "new", SHAPES, CHUNKS)
    return folder


@pytest.fixture(scope="module")
def victims():
    """A process that starts those to be killed."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, str(TESTS / "killed.py")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        yield process
        process.stdin.close()


class Trial:
    """One process that dies, and what is found after it."""

    def __init__(self, victims, originals, folder, scenario, seed):
        self.process, self.scenario, self.seed = victims, scenario, seed
        self.original = originals / scenario
        self.root = shutil.copytree(self.original, folder / f"{scenario}-{seed}")
        self.told = []

    @property
    def label(self):
        return self.root / "labels" / NEW if self.scenario == "new" else self.root

    def start(self, target=None):
        job = {
            "label": str(self.root), "levels": 4, "method": "mode", "seed": self.seed,
            "home": os.environ["XDG_DATA_HOME"], "scenario": self.scenario,
            "edits": EDITS, "target": target,
        }  # fmt: skip
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        word, pid = self.line().split()
        assert word == "ready"
        return int(pid)

    def line(self):
        return self.process.stdout.readline().strip()

    def until(self, *words):
        """Listen until one of some words; return that line."""
        while (line := self.line()).split(" ", 1)[0] not in words:
            self.told.append(line)
        return line

    def count_steps(self):
        """Let the process come to its end, and return its steps per stage."""
        pid = self.start()
        counts = json.loads(self.until("end").split(" ", 1)[1])
        os.kill(pid, signal.SIGKILL)
        self.until("dead")
        return counts

    def die_at(self, stage, index, when):
        """Let the process kill itself; tell whether it came to that."""
        pid = self.start([stage, index, when])
        if self.until("dead", "end") == "dead":
            return True
        os.kill(pid, signal.SIGKILL)
        self.until("dead")
        return False

    def die_at_random(self):
        rng = random.Random(self.seed)
        pid = self.start()
        for _ in range(rng.randint(0, 120)):
            self.told.append(self.line())
            if self.told[-1].startswith("end"):
                break
        time.sleep(rng.random() * 0.002)
        os.kill(pid, signal.SIGKILL)
        self.until("dead")

    # What is found.

    def wanted(self, count):
        """All levels after some edits, made at once where nothing was ever killed."""
        if self.scenario == "new":
            canvas = Canvas([BlankArray(SHAPES[0], CHUNKS, np.dtype("u2"))])
        else:
            canvas = open_writer(self.original, 4, "mode").canvas
        canvas.widen(np.dtype("u4"))
        for number in range(count):
            canvas.add(edit(number, self.seed, SHAPES[0], self.scenario == "wide"))
        whole = canvas.read(0, tuple((0, n) for n in SHAPES[0]))
        return levels_of(whole, SHAPES[1:], "mode")

    def check_blocks(self):
        """See that every block is as it was before or after one of the saves."""
        if self.scenario == "new" and not self.listed:
            return
        states = [self.wanted(n) for n in range(0, EDITS + 1, BETWEEN)]
        for number, got in enumerate(read_levels(self.label, 4)):
            sizes = tuple(map(min, CHUNKS, got.shape))
            whole = tuple((0, n) for n in got.shape)
            for cell in cells_in(whole, sizes):
                box = tuple(slice(*s) for s in box_of(cell, sizes, got.shape))
                assert any(
                    np.array_equal(got[box], state[number][box]) for state in states
                ), (number, cell)

    @property
    def listed(self):
        return NEW in (open_node(self.root / "labels").metadata.labels or ())

    def check_metadata(self):
        errors = [p for _, p in walk(open_node(self.root))]
        assert [p for p in errors if p.severity is Severity.ERROR] == []

    def recover(self):
        """Take over what the dead process left; return how many edits there are."""
        creates = self.scenario == "new"
        place = str(self.root), f"labels/{NEW}" if creates else ""
        found = find_journals(*place)
        if not found:
            # Nothing was lacking: all that was told is in the file, as is seen below.
            return sum(line.startswith("edit") for line in self.told)
        anew = creates and not self.listed
        canvas = blank(str(self.root)) if anew else open_canvas(self.label, 4)
        journal = Journal(*place, canvas, found[0])
        for one in journal.recovered.edits:
            if one.label > np.iinfo(canvas.dtype).max:
                canvas.widen(np.dtype("u4"))
            canvas.begin()
            canvas.add(one)
            canvas.close()
        if anew:
            writer = created(str(self.root), journal, canvas)
        else:
            writer = LabelWriter(canvas, journal.retained, "mode")
            writer.journal = journal
        writer.adopt(journal.recovered)
        assert writer.save().refused == ()
        assert not writer.unsaved
        journal.remove()
        assert find_journals(*place) == []
        return len(canvas.edits)

    def check(self):
        told = sum(line.startswith("edit") for line in self.told)
        self.check_metadata()
        self.check_blocks()
        count = self.recover()
        if self.scenario in ("plain", "sharded"):
            assert list(self.root.rglob("*.part")) == []
        # An edit may be in the journal that the process could not tell any more.
        assert count in (told, told + 1)
        self.check_metadata()
        if self.scenario == "new" and not count:
            assert not self.label.exists()
        elif count or self.scenario != "new":
            found = read_levels(self.label, 4)
            for level, want in enumerate(self.wanted(count)):
                np.testing.assert_array_equal(found[level], want, err_msg=str(level))
        if self.scenario == "new":
            other = Path("labels/other")
            assert files(self.root / other) == files(self.original / other)
        shutil.rmtree(self.root)


def files(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*.*")}


def targets_of(counts, per_stage):
    """Choose steps of each stage: the first, the last, and some in between."""
    for stage, count in counts.items():
        indices = np.unique(np.linspace(0, count - 1, per_stage).astype(int))
        yield from product([stage], indices.tolist(), ["before", "after"])


def check_stages(victims, originals, folder, scenario, per_stage):
    """Die in every stage of a scenario; return how often in each."""
    counts = Trial(victims, originals, folder, scenario, 0).count_steps()
    shutil.rmtree(folder / f"{scenario}-0")
    shutil.rmtree(folder / "data")
    assert counts.keys() >= STAGES[scenario], counts
    hit = Counter()
    for target in targets_of(counts, per_stage):
        trial = Trial(victims, originals, folder, scenario, 0)
        hit[target[0]] += trial.die_at(*target)
        trial.check()
    assert set(+hit) >= STAGES[scenario], hit
    return hit


def test_a_save_that_is_killed_in_a_stage_is_finished(victims, originals, tmp_path):
    trial = Trial(victims, originals, tmp_path, "plain", 0)
    assert trial.die_at("name level 0", 20, "after")
    trial.check()


@pytest.mark.slow
@pytest.mark.parametrize("scenario", STAGES)
def test_death_in_every_stage(victims, originals, tmp_path, scenario):
    hit = check_stages(victims, originals, tmp_path, scenario, 1)
    assert sum(hit.values()) >= 2 * len(STAGES[scenario]) * 0.9, hit


@pytest.mark.slow
@pytest.mark.parametrize("scenario", STAGES)
def test_death_at_random_times(victims, originals, tmp_path, scenario):
    for seed in range(100, 125):
        trial = Trial(victims, originals, tmp_path, scenario, seed)
        trial.die_at_random()
        trial.check()
