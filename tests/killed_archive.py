"""Paints labels of an archive and saves them, to be killed at any moment.

    echo ARCHIVE LEVELS SEED DATA COUNT STAGE | python killed_archive.py

Every edit is journaled before it is told on standard output, and so is each stage of a
save as it begins. When it has told STAGE so many times as COUNT says the process kills
itself; with 0 it does not.
"""

from __future__ import annotations

import os
import signal
import sys

from killed import edit
from napari_ngff.labels.canvas import Canvas
from napari_ngff.store.archives import rewriting
from napari_ngff.store.chunks import open_array
from napari_ngff.store.ozx import ZipSource
from napari_ngff.store.pyramid import LevelSource
from saving import journaled


def canvas_of(path: str, count: int) -> Canvas:
    """Open the label image at the root of an archive."""
    source = ZipSource(path)
    return Canvas([LevelSource(open_array(source, str(i))) for i in range(count)])


fatal = ["", 0]


def tell(text: str) -> None:
    os.write(1, f"{text}\n".encode())
    if text.startswith(str(fatal[0])):
        fatal[1] -= 1
        if fatal[1] == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def tell_stages() -> None:
    """Tell each stage of writing an archive as it begins."""
    for name in ("planned", "write_archive", "verify", "replace"):
        call = getattr(rewriting, name)

        def told(*args, name=name, call=call):
            tell(name)
            return call(*args)

        setattr(rewriting, name, told)


def run(path: str, count: int, seed: int) -> None:
    writer = journaled(path, canvas_of(path, count))
    canvas, journal = writer.canvas, writer.journal
    tell_stages()
    tell(f"ready {os.getpid()}")
    for start in range(0, 20, 4):
        for number in range(start, start + 4):
            canvas.begin()
            canvas.add(edit(number, seed, canvas.shape))
            canvas.close()
            journal.sync()
            tell(f"edit {number}")
        writer.save(lambda level, done, total: tell(f"level {level}"))
        tell("saved")
    tell("end")
    signal.pause()


def main() -> None:
    """Run a process for each line, since importing all this takes a second."""
    while line := sys.stdin.readline():
        path, count, seed, home, left, stage = line.rstrip("\n").split(" ", 5)
        child = os.fork()
        if not child:
            os.environ["XDG_DATA_HOME"] = home
            fatal[:] = stage, int(left)
            run(path, int(count), int(seed))
        os.waitpid(child, 0)
        tell("dead")


if __name__ == "__main__":
    main()
