"""Opens one place in every way, under a bound of memory; prints what went wrong."""

from __future__ import annotations

import contextlib
import io
import resource
import sys
import time
import traceback

import numpy as np

from napari_ngff import open_node
from napari_ngff.cli import main
from napari_ngff.errors import OMEZarrError
from napari_ngff.plate.tables.files import find_table
from napari_ngff.store.hierarchy.summary import list_tables
from napari_ngff.viewer.inspecting.inspection import (
    describe_entry,
    list_children,
    root_of,
)
from napari_ngff.viewer.reader import read_paths

ABOVE = 1 << 30
"""Bytes of memory that a case may take beyond what the program itself does."""


def bound_memory() -> None:
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + ABOVE, now + ABOVE))


def read_all(path: str) -> None:
    for data, _, _ in read_paths(path):
        level = data[0] if isinstance(data, list) else data
        np.asarray(level[tuple(slice(0, 64) for _ in level.shape)])


def inspect(path: str) -> None:
    entry = root_of(open_node(path))
    for one in (entry, *list_children(entry)[:3]):
        found = describe_entry(one)
        if found.error.startswith("Unexpected"):
            report(f"inspector: {found.error}")


def read_tables(path: str) -> None:
    node = open_node(path)
    for name in list_tables(node):
        find_table(node, name)


def report(text: str) -> None:
    sys.__stdout__.write(text + "\n")


def attempt(name, action) -> None:
    try:
        action()
    except (OMEZarrError, OSError) as error:
        if len(str(error)) > 2000:
            report(f"{name}: a message of {len(str(error))} letters")
    except SystemExit:
        pass
    except BaseException:  # noqa: BLE001 - whatever is no message is a fault
        report(f"{name}: {traceback.format_exc()}")


def attempt_all(place: str) -> None:
    started = time.process_time()
    attempt("read", lambda: read_all(place))
    attempt("inspector", lambda: inspect(place))
    attempt("tables", lambda: read_tables(place))
    for command in ("info", "check"):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            attempt(command, lambda command=command: main([command, place]))
        if "Traceback" in out.getvalue():
            report(f"{command}: {out.getvalue()[-3000:]}")
    sys.stderr.write(f"{place}: {time.process_time() - started:.1f} s\n")


if __name__ == "__main__":
    bound_memory()
    for place in sys.argv[1:]:
        attempt_all(place)
