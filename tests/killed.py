"""A process that paints, saves and paints on, to be killed at any moment.

    echo '{"label": ..., "levels": 4, ...}' | python killed.py

Every edit is journaled before it is told on standard output, and each stage of a save
is told as it begins. Asked to, the process kills itself just before or just after a
given step: one of those that change anything on a disk.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np

from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.creation import METHOD, create_labels
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.journal import Journal
from napari_ngff.labels.runs import mask_runs
from napari_ngff.labels.shapes import Mask
from napari_ngff.labels.writer import LabelWriter
from napari_ngff.store.lazy import BlankArray
from napari_ngff.store.node import open_node
from napari_ngff.store.write.append_log import AppendLog
from saving import open_canvas

WIDE = 70000
"""A label that uint16 does not hold."""

NEW = "new"
"""Name of a label image that is created."""


def edit(number: int, seed: int, shape: tuple[int, int], wide: bool = False) -> Edit:
    """Make an edit; some replace what others painted, and would show a second time.

    Some erase whole blocks, at coarser levels, too.
    """
    rng = random.Random(seed * 1000 + number)
    size = rng.randint(3, 40), rng.randint(3, 40)
    corner = [rng.randint(0, n - 3) for n in shape]
    size = [min(n, s - c) for n, s, c in zip(size, shape, corner, strict=True)]
    source = rng.choice([None, 0, 1, 2, 3])
    runs = mask_runs(np.ones(size, bool), corner)
    label = rng.randint(0, 3)
    if number % 8 == 7:
        corner, size, source, label = (0, 0), (64, 96), None, 0
        runs = mask_runs(np.ones(size, bool), corner)
    if wide and number >= 16 and not number % 4:
        label = WIDE
    return Edit(Mask(runs), (0, 1), (), label, source)


def tell(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def paint(canvas, journal, numbers, seed, wide=False) -> None:
    for number in numbers:
        one = edit(number, seed, canvas.shape, wide)
        if one.label > np.iinfo(canvas.dtype).max:
            canvas.widen(np.dtype("u4"))
        canvas.begin()
        canvas.add(one)
        canvas.close()
        journal.sync()
        tell(f"edit {number}")


class Steps:
    """Counts the steps of each stage, and dies at one of them."""

    def __init__(self, root: str, target: list | None) -> None:
        self.root = root
        self.stage, self.index, self.when = target or ("", 0, "")
        self.counts: Counter[str] = Counter()
        self.lock = threading.Lock()

    def stage_of(self, word: str, path: str) -> str | None:
        """Name the stage of a call by what it does to which file."""
        name = os.path.basename(path)
        if name in ("edits.jsonl", "before.bin"):
            return f"{word} journal"
        if not path.startswith(self.root):
            return None
        parts = path[len(self.root) + 1 :].split("/")
        if word == "flush" and not name.endswith(".part"):
            return "flush folders"
        if any(part.endswith(".aside") for part in parts):
            if parts[0] != "labels" or name == "note.json":
                return f"{word} widened"
            parts[1:3] = [NEW]  # as if it was in its place
        if parts == ["labels", NEW]:
            return f"{word} tree"
        if "labels" in parts and name.startswith("zarr.json"):
            return f"{word} {self.document(parts)}"
        if word == "remove" and name.endswith(".part"):
            return None
        level = next((part for part in parts if part.isdecimal()), "")
        if not level:
            return None
        return f"{word} level 0" if level == "0" else f"{word} coarser"

    @staticmethod
    def document(parts: list[str]) -> str:
        return {2: "list", 3: "group", 4: "array"}[len(parts)]

    def watch(self, module, name: str, word: str, which=lambda *given: given[0]):
        call = getattr(module, name)

        def watched(*given, **named):
            path = which(*given)
            stage = path and self.stage_of(word, os.fspath(path))
            return self.step(stage, partial(call, *given, **named))

        setattr(module, name, watched)

    def step(self, stage, call):
        if not stage:
            return call()
        with self.lock:
            count = self.counts[stage]
            self.counts[stage] += 1
        dies = stage == self.stage and count == self.index
        if dies and self.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = call()
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    def note(self, kind, name: str, stage) -> None:
        """Count the calls of a method of ours, too."""
        call = getattr(kind, name)

        def noted(one, *given):
            return self.step(stage(*given), partial(call, one, *given))

        setattr(kind, name, noted)

    def install(self) -> None:
        self.watch(os, "replace", "name", lambda old, new: new)
        self.watch(os, "rename", "name", lambda old, new: new)
        self.watch(os, "unlink", "remove", lambda path, **_: path)
        self.watch(os, "fsync", "flush", lambda fd: os.readlink(f"/proc/self/fd/{fd}"))
        self.watch(
            os, "open", "write", lambda path, flags, *_: flags & os.O_CREAT and path
        )
        from napari_ngff.store.write import replace_tree

        self.watch(replace_tree, "exchange", "swap", lambda place, new: new)
        self.note(AppendLog, "append", stage_of_record)


def stage_of_record(record: bytes) -> str:
    """Name the stage of what is appended to a journal, or to the blocks it keeps."""
    first = next(iter(json.loads(record.partition(b"\n")[0])))
    return "keep block" if first == "level" else f"journal {first}"


def created(image: str, journal: Journal, canvas: Canvas) -> LabelWriter:
    """Create a label image for what is painted."""
    made = create_labels(open_node(image), NEW, canvas.dtype)
    files = made.arrays, (0, 1)
    writer = LabelWriter(
        canvas, journal.retained, METHOD, made.ratios, files, made.register
    )
    writer.journal = journal
    return writer


def blank(image: str) -> Canvas:
    """Make an empty canvas for a new label image."""
    shapes = [array.shape for _, array in sorted(open_arrays(image))]
    dtype = np.dtype("u2")
    return Canvas([BlankArray(shape, (16, 24), dtype) for shape in shapes])


def open_arrays(image: str):
    import zarr

    return [(key, array) for key, array in zarr.open_group(image, mode="r").arrays()]


def run(job: dict) -> None:
    os.environ["XDG_DATA_HOME"] = job["home"]
    label, seed, creates = job["label"], job["seed"], job["scenario"] == "new"
    steps = Steps(label, job.get("target"))
    steps.install()
    canvas = blank(label) if creates else open_canvas(Path(label), job["levels"])
    journal = Journal(label, f"labels/{NEW}" if creates else "", canvas)
    writer = None
    if not creates:
        writer = LabelWriter(canvas, journal.retained, job["method"])
        writer.journal = journal
    tell(f"ready {os.getpid()}")
    for start in range(0, job["edits"], 8):
        wide = job["scenario"] == "wide"
        paint(canvas, journal, range(start, start + 8), seed, wide)
        if writer is None:
            writer = created(label, journal, canvas)
        writer.save(lambda level, done, total: tell(f"level {level}"))
        tell("saved")
    tell(f"end {json.dumps(steps.counts)}")
    signal.pause()


def main() -> None:
    """Run a process for each line, since importing all this takes a second."""
    while line := sys.stdin.readline():
        job = json.loads(line)
        child = os.fork()
        if not child:
            try:
                run(job)
            finally:
                os._exit(1)
        os.waitpid(child, 0)
        tell("dead")


if __name__ == "__main__":
    main()
