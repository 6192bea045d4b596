"""Whatever kills or hinders a change, what is there is old or new, and whole.

Each test runs real processes, which end themselves by SIGKILL before or after one of
the system calls that change anything, or to which one of these calls fails once.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from changes import CHANGES
from napari_ngff.metadata.model import Severity
from napari_ngff.store.check import walk
from napari_ngff.store.node import open_node

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="no such processes here"
)

TESTS = Path(__file__).parents[2]
ERRORS = ("ENOSPC", "EIO", "EACCES")


@pytest.fixture(scope="module")
def victims():
    """A process that starts those to be killed."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, str(TESTS / "killed_change.py")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        yield process
        process.stdin.close()


def state_of(root):
    """Every file below a folder: path -> hash of its bytes."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def errors_of(root):
    found = [(path, p.code) for path, p in walk(open_node(root))
             if p.severity is Severity.ERROR]  # fmt: skip
    return found


class Trials:
    """One change, made again and again from the same beginning."""

    def __init__(self, victims, folder, name, swaps):
        self.victims, self.folder, self.name, self.swaps = victims, folder, name, swaps
        self.change = CHANGES[name]
        self.original = folder / "original" / "image.zarr"
        self.original.parent.mkdir()
        self.change.prepare(self.original)
        self.before = state_of(self.original.parent)
        self.valid = errors_of(self.original)
        self.place = folder / "trial"
        self.root = self.place / "image.zarr"

    def start(self, recovers=False, **target):
        job = {
            "change": self.name, "root": str(self.root), "roots": [str(self.place)],
            "home": str(self.folder / "data"), "swaps": self.swaps,
            "recovers": recovers, **target,
        }  # fmt: skip
        self.victims.stdin.write(json.dumps(job) + "\n")
        self.victims.stdin.flush()
        told = None
        while (line := self.victims.stdout.readline().strip()) != "dead":
            assert line.startswith("end "), line
            told = json.loads(line[4:])
        return told

    def begin(self):
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.original.parent, self.place)

    def run(self):
        """Let it come to its end; return its steps."""
        self.begin()
        told = self.start()
        assert told["failure"] == ""
        self.after = state_of(self.place)
        assert self.after != self.before
        self.judged = self.valid, errors_of(self.root)
        assert left_aside(self.place) == []
        return told["steps"]

    def check(self, where):
        """Recover, be killed in that, recover again: the same as if never killed."""
        for step in (["rename", 0], ["unlink", 0], ["rmdir", 0]):
            self.start(recovers=True, step=step, when="after")
        told = self.start(recovers=True)
        assert told["failure"] == "", where
        assert left_aside(self.place) == [], where
        assert errors_of(self.root) in self.judged, where
        now = state_of(self.place)
        for path in now.keys() | self.before.keys():
            possible = (self.before.get(path), self.after.get(path))
            assert now.get(path) in possible, (where, path)
        self.check_trees(now, where)

    def check_trees(self, now, where):
        """A tree is all old or all new."""
        for tree in trees_of(self.before, self.after):
            found = {path: now[path] for path in now if path.startswith(tree)}
            states = [
                {path: one[path] for path in one if path.startswith(tree)}
                for one in (self.before, self.after)
            ]
            assert found in states, (where, tree)


def trees_of(before, after):
    """Arrays that a change replaces."""
    changed = {p for p in before.keys() | after.keys() if before.get(p) != after.get(p)}
    return {path.split("/c/")[0] + "/" for path in changed if "/c/" in path}


def left_aside(place):
    return [
        str(path.relative_to(place))
        for path in place.rglob("*")
        if path.name.endswith((".aside", ".part", ".merging", ".replaced", ".widening",
                               ".rebuilding", ".copying", ".before", ".unfinished"))
    ]  # fmt: skip


def chosen(steps, most):
    """Steps to die at: of each kind the first, the last, and some in between."""
    for name, count in steps.items():
        for number in np.unique(np.linspace(0, count - 1, most).astype(int)):
            yield name, int(number)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_is_killed_is_made_or_not(victims, tmp_path, name):
    kill(victims, tmp_path, name, True, 1)


@pytest.mark.slow
@pytest.mark.parametrize("swaps", [True, False], ids=["swap", "two renames"])
@pytest.mark.parametrize("name", CHANGES)
def test_death_at_every_step(victims, tmp_path, name, swaps):
    kill(victims, tmp_path, name, swaps, 5)


def kill(victims, tmp_path, name, swaps, most):
    trials = Trials(victims, tmp_path, name, swaps)
    steps, died = trials.run(), set()
    for step, when in product(chosen(steps, most), ("before", "after")):
        trials.begin()
        # Threads may need a step less than the other time.
        if trials.start(step=step, when=when) is None:
            died.add(step[0])
        trials.check((step, when))
    assert died == steps.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_the_system_refuses_is_made_or_not(victims, tmp_path, name):
    trials = Trials(victims, tmp_path, name, True)
    for number, step in enumerate(chosen(trials.run(), 4)):
        trials.begin()
        told = trials.start(step=step, when=ERRORS[number % len(ERRORS)])
        assert told is not None
        trials.check((step, told))
