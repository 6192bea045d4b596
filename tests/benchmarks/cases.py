"""One measurement, in a process of its own; prints it as JSON.

    python cases.py CASE DATA ROUNDS [ARGUMENTS]

The result maps row -> column -> list of numbers; their unit is the table's.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import annotating
import converting
import editing
import packing

import plates
import saving

Values = dict[str, dict[str, list[float]]]

MB = 1e6


def timed(function: Callable[[], Any]) -> float:
    """Milliseconds of one call; what it made is dropped outside of the time."""
    gc.collect()
    start = time.perf_counter()
    kept = function()
    elapsed = time.perf_counter() - start
    del kept
    return elapsed * 1000


def alternate(
    contenders: Mapping[str, Callable[[], Any]], rounds: int
) -> dict[str, list[float]]:
    """Time each contender once a round, the order reversed every other round.

    A round before the first warms up and does not count.
    """
    gc.freeze()
    times: dict[str, list[float]] = defaultdict(list)
    for i in range(rounds + 1):
        names = list(contenders)
        for name in names if i % 2 else names[::-1]:
            elapsed = timed(contenders[name])
            if i:
                times[name].append(elapsed)
    return dict(times)


def resident() -> int:
    """Memory of this process now, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def growth(into: list[float]) -> Iterator[None]:
    """Append how many megabytes the peak of memory lies above the start."""
    gc.collect()
    peak, done = [resident()], threading.Event()
    before = peak[0]

    def watch() -> None:
        while not done.wait(0.0005):
            peak[0] = max(peak[0], resident())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        into.append((max(peak[0], resident()) - before) / MB)


def opening(data: Path, rounds: int, image: str, step: str) -> Values:
    """Path -> layer tuples -> split channels -> layers, warm."""
    from contenders import OPENERS, image_layers, split

    path = str(data / f"{image}-0.5.zarr")
    ours, peer = OPENERS["napari-ngff"], OPENERS["napari-ome-zarr"]
    if step == "reader":
        return {
            step: alternate(
                {n: lambda o=o: o(path) for n, o in OPENERS.items()}, rounds
            )
        }
    after = split if step == "split" else image_layers
    contenders = {
        "napari-ngff": lambda: after(ours(path)),
        "napari-ome-zarr": lambda: after(peer(path)),
    }
    return {step: alternate(contenders, rounds)}


TIMED = """
import gc, sys, time
import {before}
gc.collect()
start = time.perf_counter()
{timed}
print((time.perf_counter() - start) * 1000)
"""
"""What a new Python does; this one has imported zarr and more already."""


def timed_alone(before: str, timed: str) -> list[float]:
    """Milliseconds of statements after some imports, in a process of their own."""
    script = TIMED.format(before=before, timed=timed)
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=Path(__file__).parent
    )
    return [float(done.stdout.splitlines()[-1])]


def first_open(data: Path, rounds: int, who: str) -> Values:
    """Path -> layer tuples, first call of a process in which napari is loaded."""
    path = str(data / "1e6-0.5.zarr")
    before = "contenders, napari.components, napari.layers, napari.utils.colormaps"
    step = f"layers = contenders.OPENERS[{who!r}]({path!r})"
    return {"first": {who: timed_alone(before, step)}}


def open_memory(data: Path, rounds: int, who: str) -> Values:
    """Growth of memory by opening and splitting; a small image warms up."""
    from contenders import OPENERS, split

    split(OPENERS[who](str(data / "small-0.5.zarr")))
    values: list[float] = []
    with growth(values):
        kept = split(OPENERS[who](str(data / "1e6-0.5.zarr")))
    assert kept
    return {"memory": {who: values}}


def views(data: Path, rounds: int, name: str, *without: str) -> Values:
    """Random new views of 1024 x 1024 that no cache knows."""
    import numpy as np
    from contenders import VIEWERS, outdate_caches
    from data import BIG, SIDE

    path = str(data / name)
    plane = BIG["1e6"] // 2 if name.startswith("1e6") else None
    readers = {n: v(path) for n, v in VIEWERS.items() if n not in without}
    random = np.random.default_rng(rounds)
    times: dict[str, list[float]] = defaultdict(list)
    for i in range(rounds + 1):
        y, x = (int(n) for n in random.integers(1, SIDE - 1025, 2))
        view = plane, slice(y, y + 1024), slice(x, x + 1024)
        pictures = []
        for who in list(readers) if i % 2 else list(readers)[::-1]:
            outdate_caches()
            out: list[Any] = []
            elapsed = timed(lambda r=readers[who], o=out, v=view: o.append(r(v)))
            pictures.append(out[0])
            if i:
                times[who].append(elapsed)
            else:
                gc.freeze()
        for other in pictures[1:]:
            np.testing.assert_array_equal(other, pictures[0])
    return {name: dict(times)}


def open_entries(data: Path, rounds: int) -> Values:
    """Archive of many entries -> first chunk, as arrays, without napari."""
    path = str(data / "entries.ozx")
    return {
        "time": alternate({n: lambda f=f: f(path) for n, f in ENTRIES.items()}, rounds)
    }


def entries_ours(path: str) -> Any:
    from napari_ngff import open_node, open_pyramid

    node = open_node(path)
    level = open_pyramid(node).levels[0]
    return node, level.read(((0, 16), (0, 16)))


def entries_zarr(path: str) -> Any:
    import zarr
    from zarr.storage import ZipStore

    group = zarr.open_group(ZipStore(path, mode="r"), mode="r")
    return group, group["0"][:16, :16]


ENTRIES = {"napari-ngff": entries_ours, "zarr-python": entries_zarr}


def entries_memory(data: Path, rounds: int, who: str) -> Values:
    """Growth of memory by opening an archive of many entries."""
    ENTRIES[who](str(data / "flat-256.ozx"))
    values: list[float] = []
    with growth(values):
        kept = ENTRIES[who](str(data / "entries.ozx"))
    assert kept
    return {"memory": {who: values}}


def files(data: Path, rounds: int, version: str) -> Values:
    """Files of a data set that opening tries to read."""
    from contenders import OPENERS

    path = str(data / f"1e6-{version}.zarr")
    return {
        version: opened_files(
            path, {n: lambda o=o: o(path) for n, o in OPENERS.items()}
        )
    }


def opened_files(
    path: str, contenders: Mapping[str, Callable[[], Any]]
) -> dict[str, list[float]]:
    """How many files below a path each contender tries to read."""
    counts: dict[str, list[float]] = {}
    opened: list[str] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and str(arguments[0]).startswith(path):
            opened.append(str(arguments[0]))

    sys.addaudithook(hook)
    for who, contender in contenders.items():
        opened.clear()
        contender()
        counts[who] = [len(opened)]
    return counts


def screen(data: Path, rounds: int, what: str) -> Values:
    """The tree or the check of a plate of 1536 wells; metadata alone."""
    contenders = SCREEN[what]
    path = str(data / "screen.zarr")
    calls = {name: lambda c=c: c(path) for name, c in contenders.items()}
    return {what: alternate(calls, rounds)}


def screen_files(data: Path, rounds: int, what: str) -> Values:
    """Files that the same tries to read."""
    path = str(data / "screen.zarr")
    calls = {name: lambda c=c: c(path) for name, c in SCREEN[what].items()}
    return {what: opened_files(path, calls)}


def tree_ours(path: str) -> Any:
    from napari_ngff import open_node
    from napari_ngff.viewer.inspecting.inspection import list_children, root_of

    wells = list_children(root_of(open_node(path)))
    assert len(wells) == 1536
    return wells


def tree_yaozarrs(path: str) -> Any:
    import yaozarrs

    wells = yaozarrs.open_group(path).ome_metadata().plate.wells
    assert len(wells) == 1536
    return wells


def check_ours(path: str) -> Any:
    from napari_ngff import open_node
    from napari_ngff.metadata.model import Severity
    from napari_ngff.store.check.visit_groups import check_hierarchy

    found = list(check_hierarchy(open_node(path)))
    assert not [p for _, p in found if p.severity is Severity.ERROR]
    return found


def check_yaozarrs(path: str) -> Any:
    import yaozarrs

    return yaozarrs.validate_zarr_store(path)


SCREEN: dict[str, dict[str, Callable[[str], Any]]] = {
    "tree": {"napari-ngff": tree_ours, "yaozarrs": tree_yaozarrs},
    "check": {"napari-ngff": check_ours, "yaozarrs": check_yaozarrs},
}


def imports(data: Path, rounds: int, module: str) -> Values:
    """Import of a module, first of the process."""
    napari = ", napari.components, napari.layers" if module.endswith("reader") else ""
    return {module: {"import": timed_alone(f"numpy{napari}", f"import {module}")}}


def window(data: Path, rounds: int, who: str) -> Values:
    """In a real window; see `window.py`."""
    from window import measure

    return {step: {who: [value]} for step, value in measure(data, who).items()}


def walking(data: Path, rounds: int) -> Values:
    """The next field of a plate in a window; see `walking.py`."""
    from walking import walking

    return walking(rounds)


def heartbeat(data: Path, rounds: int, source: str, who: str) -> Values:
    """How long a window does not answer; see `beating.py`."""
    from beating import heartbeat

    return heartbeat(data, source, who)


def arriving(data: Path, rounds: int, source: str, who: str) -> Values:
    """How long until the whole picture of a far image is there; see `arriving.py`."""
    from arriving import arriving

    return arriving(data, rounds, source, who)


def bending(data: Path, rounds: int) -> Values:
    """A view of an image that a field bends."""
    from bending import views

    return {"": views(rounds)}


CASES: dict[str, Callable[..., Values]] = (
    {
        function.__name__: function
        for function in (
            opening,
            first_open,
            open_memory,
            views,
            open_entries,
            entries_memory,
            files,
            imports,
            bending,
            walking,
            screen,
            screen_files,
            window,
            heartbeat,
            arriving,
        )
    }
    | packing.CASES
    | converting.CASES
    | saving.CASES
    | editing.CASES
    | plates.CASES
    | annotating.CASES
)


def main() -> None:
    case, data, rounds, *arguments = sys.argv[1:]
    values = CASES[case](Path(data), int(rounds), *arguments)
    print(json.dumps(values))


if __name__ == "__main__":
    main()
