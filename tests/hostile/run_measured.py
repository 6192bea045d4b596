"""Reads and converts images one after the other; prints what takes too much."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import threading
import time

import psutil
from run_case import attempt, read_all, read_tables, report

from napari_ngff.cli import main

MOST = 300 << 20
"""Bytes of memory that reading a place may take, here and in another process."""

SECONDS = 10
"""Of this process: a busy machine takes longer."""


def used():
    """Bytes of memory of this process, and of its children together."""
    me, children = psutil.Process(), 0
    with contextlib.suppress(psutil.Error):  # one has just ended
        children = sum(child.memory_info().rss for child in me.children())
    return me.memory_info().rss, children


class Watch:
    """The most memory that this process, and its children, had beyond a beginning."""

    def __init__(self):
        self.begin()
        threading.Thread(target=self.look, daemon=True).start()

    def begin(self):
        self.before, self.more = used(), (0, 0)

    def look(self):
        while True:
            taken = [now - then for now, then in zip(used(), self.before, strict=True)]
            self.more = tuple(map(max, taken, self.more))
            time.sleep(0.01)  # less than it takes to fill so much memory


def convert(place):
    out = io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
        tempfile.TemporaryDirectory() as folder,
    ):
        attempt("convert", lambda: main(["convert", place, f"{folder}/a.ome.zarr"]))
    if "Traceback" in out.getvalue():
        report(f"{place}: {out.getvalue()[-2000:]}")


def run_all(places):
    watch = Watch()
    for place in places:
        watch.begin()
        begin = time.process_time()
        attempt(place, lambda place=place: read_all(place))
        attempt(place, lambda place=place: read_tables(place))
        if "20_gigabytes" not in place:  # they are many to copy
            convert(place)
        taken = time.process_time() - begin
        if max(watch.more) > MOST:
            report(f"{place}: {watch.more[0] >> 20}, {watch.more[1] >> 20} MB")
        if taken > SECONDS:
            report(f"{place}: {taken:.0f} s")
    sys.stderr.write(f"{len(places)} places\n")


if __name__ == "__main__":
    run_all(sys.argv[1:])
