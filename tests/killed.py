"""A process that paints, saves and paints on, to be killed at any moment.

    echo LABEL LEVELS METHOD SEED DATA | python killed.py

Every edit is journaled before it is told on standard output, and each stage of a save
is told as it begins.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path

import numpy as np

from napari_ngff.labels.edits import Edit
from napari_ngff.labels.journal import Journal
from napari_ngff.labels.runs import mask_runs
from napari_ngff.labels.shapes import Mask
from napari_ngff.labels.writer import LabelWriter
from saving import open_canvas


def edit(number: int, seed: int, shape: tuple[int, int]) -> Edit:
    """Make an edit; some replace what others painted, and would show a second time."""
    rng = random.Random(seed * 1000 + number)
    size = rng.randint(3, 40), rng.randint(3, 40)
    corner = [rng.randint(0, n - 3) for n in shape]
    size = [min(n, s - c) for n, s, c in zip(size, shape, corner, strict=True)]
    source = rng.choice([None, 0, 1, 2, 3])
    runs = mask_runs(np.ones(size, bool), corner)
    return Edit(Mask(runs), (0, 1), (), rng.randint(0, 3), source)


def tell(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def paint(canvas, journal, numbers, seed) -> None:
    for number in numbers:
        canvas.begin()
        canvas.add(edit(number, seed, canvas.shape))
        canvas.close()
        journal.sync()
        tell(f"edit {number}")


def run(label: str, levels: int, method: str, seed: int) -> None:
    canvas = open_canvas(Path(label), levels)
    journal = Journal(label, "", canvas)
    writer = LabelWriter(canvas, journal.retained, method)
    writer.journal = journal
    tell(f"ready {os.getpid()}")
    for start in range(0, 40, 8):
        paint(canvas, journal, range(start, start + 8), seed)
        writer.save(lambda level, done, total: tell(f"level {level}"))
        tell("saved")
    tell("end")
    signal.pause()


def main() -> None:
    """Run a process for each line, since importing all this takes a second."""
    while line := sys.stdin.readline():
        label, levels, method, seed, home = line.split()
        child = os.fork()
        if not child:
            os.environ["XDG_DATA_HOME"] = home
            run(label, int(levels), method, int(seed))
        os.waitpid(child, 0)
        tell("dead")


if __name__ == "__main__":
    main()
