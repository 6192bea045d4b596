"""Processes that write and are killed, and what is found and recovered after that."""

import json
import os
import shutil
import signal
import time
from itertools import pairwise

import numpy as np
import pytest

from buckets import ENVIRONMENT
from callers import (
    ARCHIVE,
    BETWEEN,
    BUCKET,
    CALLERS,
    CHUNKS,
    EDITS,
    FOLDER,
    Place,
    painted,
    state_of,
)
from napari_ngff.errors import NodeNotFoundError
from napari_ngff.labels.journal import find_journals
from napari_ngff.metadata.model import Severity
from napari_ngff.store.arrays.boxes import box_of, cells_in, whole_box
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.check.visit_groups import check_hierarchy
from napari_ngff.store.pyramids.level_reduction import LevelReduction
from napari_ngff.store.write.zip_packing import pack_hierarchy

PAIRS = list(
    dict.fromkeys(
        (name, caller.written[(number + turn) % len(caller.written)])
        for turn in range(3)
        for number, (name, caller) in enumerate(CALLERS.items())
    )
)
"""Each caller in one kind of store, then in the next."""


class Trials:
    """One caller, which writes again and again from the same beginning."""

    def __init__(self, victims, files, folder, name, kind, swaps=True):
        self.victims, self.files, self.swaps = victims, files, swaps
        self.name, self.kind, self.caller = name, kind, CALLERS[name]
        self.painting = self.caller.painting
        self.original = folder / "original"
        self.checks = 0
        self.place = Place(kind, folder / "trial")
        (self.original / "files").mkdir(parents=True)
        self.caller.prepare(self.original / "files" / "image.zarr")
        self.begin()
        self.before = state_of(self.place)
        self.exempt = self.odd_labels()
        self.valid = [self.errors()]

    def begin(self):
        """Put all back as it was."""
        self.reported = []
        shutil.rmtree(self.place.folder, ignore_errors=True)
        shutil.copytree(self.original, self.place.folder)
        (self.place.folder / "tmp").mkdir()
        image = self.place.files / "image.zarr"
        if self.kind == BUCKET:
            if self.files.exists("cells"):
                self.files.rm("cells", recursive=True)
            self.files.makedirs("cells", exist_ok=True)
            self.files.put(image, "cells/image.zarr")
        elif self.kind == ARCHIVE:
            pack_hierarchy(image, self.place.root, flush=False)
        if self.kind != FOLDER:
            shutil.rmtree(image)

    # Processes.

    def send(self, **target):
        keys = ("AWS_ENDPOINT_URL", *ENVIRONMENT)
        environment = {key: os.environ[key] for key in keys}
        job = {
            "caller": self.name, "kind": self.kind, "swaps": self.swaps,
            "folder": str(self.place.folder), "environment": environment, **target,
        }  # fmt: skip
        self.victims.stdin.write(json.dumps(job) + "\n")
        self.victims.stdin.flush()
        word, pid = self.line().split()
        assert word == "ready"
        return int(pid)

    def line(self):
        return self.victims.stdout.readline().strip()

    def listen(self):
        """Return what the process tells in the end; None where it died before."""
        end = None
        while (line := self.line()) != "dead":
            word, _, more = line.partition(" ")
            assert word in ("end", "edit", "saved", "recovered"), line
            if word == "end":
                end = json.loads(more)
            else:
                self.reported.append((word, int(more)))
        return end

    def start(self, **target):
        self.send(**target)
        return self.listen()

    def start_at(self, step, when):
        """Have it end, or fail, at a step; return it, and what the process tells.

        Where threads need fewer of these calls than the last time, at the last one.
        """
        for _ in range(5):
            self.begin()
            reported = self.start(step=step, when=when)
            if reported is None or reported["failed"]:
                return step, reported
            step = step[0], reported["steps"][step[0]] - 1
        pytest.fail(f"{step} was never reached")

    def told_last(self, word):
        return max(
            (number for kind, number in self.reported if kind == word), default=0
        )

    def run(self):
        """Let it come to its end; return its steps."""
        self.begin()
        began = time.monotonic()
        reported = self.start()
        self.seconds = time.monotonic() - began
        assert reported["failures"] == [], reported
        self.after = state_of(self.place)
        assert self.after != self.before
        self.valid.append(self.errors())
        self.exempt += self.odd_labels() if self.caller.odd else []
        self.check_whole()
        return reported["steps"]

    def run_and_kill(self, seconds):
        pid = self.send(waits=True)
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
        return self.listen()

    # What is found.

    def errors(self):
        return [
            (path, p.code)
            for path, p in check_hierarchy(self.place.node())
            if p.severity is Severity.ERROR
        ]

    def levels_of(self, path):
        image = self.place.node(path).metadata.image
        source, levels = self.place.source, image.multiscales[0].levels
        return [open_array(source, f"{path}/{level.path}") for level in levels]

    def odd_labels(self):
        """Label images with a level that is not made of the finer one."""
        node = self.place.node("labels")
        paths = [f"labels/{name}" for name in node.metadata.labels or ()]
        return [path for path in paths if not self.is_pyramid(path)]

    def is_pyramid(self, path):
        """Return whether every level is what it would be if it was made again."""
        levels = [one.read(whole_box(one.shape)) for one in self.levels_of(path)]
        return any(
            all(
                np.array_equal(made_of(fine, coarse.shape, method), coarse)
                for fine, coarse in pairwise(levels)
            )
            for method in ("nearest", "mode")
        )

    def left_aside(self):
        place = self.place
        names = [str(p.relative_to(place.folder)) for p in place.folder.rglob("*")]
        names += self.files.find("cells") if self.kind == BUCKET else []
        ends = (".aside", ".part", ".merging", ".replaced", ".widening", ".rebuilding",
                ".copying", ".before", ".unfinished")  # fmt: skip
        return [name for name in names if name.endswith(ends) or "/.image" in name]

    def check_whole(self):
        assert self.left_aside() == []
        names = self.place.node("labels").metadata.labels or ()
        assert set(self.odd_labels()) <= set(self.exempt), names

    def check_killed(self, where):
        """See what others find before anybody recovers anything."""
        if self.swaps:
            assert self.errors() in self.valid, where
        if self.painting is not None:
            self.check_blocks(where)
            return
        now = state_of(self.place)
        for path in (self.before.keys() | self.after.keys()) if self.swaps else ():
            states = self.before.get(path), self.after.get(path)
            assert now.get(path) in states, (where, path)

    def wanted(self, count):
        return painted(self.original, self.painting, count)

    def check_blocks(self, where):
        """See that every block is as it was before or after one of the saves."""
        listed = self.place.node("labels").metadata.labels or ()
        if self.painting.name not in listed:
            return
        states = [self.wanted(n) for n in range(0, EDITS + 1, BETWEEN)]
        try:
            levels = self.levels_of(self.painting.path)
        except NodeNotFoundError:
            # Between two renames, until somebody recovers.
            assert not self.swaps, where
            return
        found = [level.read(whole_box(level.shape)) for level in levels]
        if self.kind == ARCHIVE:
            # It is the result of one of the saves, whole.
            assert any(same(found, state) for state in states), where
        for number, got in enumerate(found):
            for cell in cells_in(whole_box(got.shape), CHUNKS):
                box = tuple(slice(*s) for s in box_of(cell, CHUNKS, got.shape))
                assert any(
                    np.array_equal(got[box], state[number][box]) for state in states
                ), (where, number, cell)

    def check(self, where):
        """Recover, be killed in that, recover again: the same as if never killed."""
        self.check_killed(where)
        # An edit whose journal failed is reported only when it is saved.
        said = max(self.told_last("edit"), self.told_last("saved"))
        journals = self.journals()
        stages = [["rename aside", 0], ["unlink aside", 0], ["unlink chunk", 0]]
        if self.painting is not None:
            stages = [
                ["swap chunk", 3],
                ["write journal", 1],
                ["put chunk", 2],
            ]
        self.checks += 1
        step = stages[self.checks % len(stages)]
        self.start(recovers=True, step=step, when="after")
        reported = self.start(recovers=True)
        assert reported["failures"] == [], where
        assert self.left_aside() == [], where
        assert self.errors() in self.valid, where
        assert set(self.odd_labels()) <= set(self.exempt), where
        if self.painting is not None:
            self.check_painted(said, journals, where)
            return
        now = state_of(self.place)
        for path in now.keys() | self.before.keys():
            states = self.before.get(path), self.after.get(path)
            assert now.get(path) in states, (where, path)
        self.check_trees(now, where)
        if now != self.after:
            reported = self.start()
            assert reported["failures"] == [], (where, reported)
            assert differing(state_of(self.place), self.after) == {}, where
        self.check_whole()

    def journals(self):
        if self.painting is None:
            return []
        return find_journals(str(self.place.root), self.painting.path)

    def check_painted(self, said, journals, where):
        """See that nothing that was in the journal is lost."""
        # An edit may be in the journal that the process could not tell. Of what
        # was saved and not told, too, there is no journal to be recovered.
        counts = [self.told_last("recovered")] if journals else [said]
        counts = counts if any(counts) or not said else [said, said + 1]
        assert set(counts) <= {said, said + 1}, where
        assert self.journals() == [], where
        if not self.painting.new or any(counts):
            levels = self.levels_of(self.painting.path)
            found = [level.read(whole_box(level.shape)) for level in levels]
            assert any(same(found, self.wanted(n)) for n in counts), (where, counts)
        else:
            assert self.painting.name not in self.place.node("labels").metadata.labels
        now = state_of(self.place)
        others = {p for p in now if "/labels/" not in p or "/labels/other" in p}
        assert {p: now[p] for p in others} == {
            p: self.before[p] for p in self.before if p in others
        }, where

    def check_trees(self, now, where):
        """A tree is all old or all new."""
        if self.kind == BUCKET:
            return
        for tree in trees_of(self.before, self.after):
            found = {path: now[path] for path in now if path.startswith(tree)}
            states = [
                {path: one[path] for path in one if path.startswith(tree)}
                for one in (self.before, self.after)
            ]
            assert found in states, (where, tree)


def made_of(fine, shape, method):
    reduction = LevelReduction.between_shapes(fine.shape, shape, method)
    box = whole_box(shape)
    return reduction.reduce(fine, box)


def same(levels, others):
    return all(np.array_equal(a, b) for a, b in zip(levels, others, strict=True))


def differing(state, other):
    keys = state.keys() | other.keys()
    return {
        key: (state.get(key), other.get(key))
        for key in keys
        if state.get(key) != other.get(key)
    }


def trees_of(before, after):
    """Arrays that a change replaces."""
    changed = {p for p in before.keys() | after.keys() if before.get(p) != after.get(p)}
    return {path.split("/c/")[0] + "/" for path in changed if "/c/" in path}


def most_steps(kind):
    """How many steps of each stage are tried: a bucket and an archive take long."""
    return 2 if kind == FOLDER else 1


def chosen(steps, most):
    """Steps to die at: of each stage the first, the last, and some in between."""
    for stage, count in sorted(steps.items()):
        for number in np.unique(np.linspace(0, count - 1, most).astype(int)):
            yield stage, int(number)
