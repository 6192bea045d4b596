#!/usr/bin/env python3
"""Measure napari-ngff against other readers; needs nothing but Python.

    python tests/benchmarks/run.py                 everything, some ten minutes
    python tests/benchmarks/run.py --only views    one table; may be given again
    python tests/benchmarks/run.py --quick         few rounds, printed, nothing written

Works in an environment of its own, `.venv-bench`, and writes the tables of
`docs/performance.md`. Leave the machine alone meanwhile. See `cases.py` for how it is
measured, `data.py` for what is read.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
REPORT = ROOT / "docs" / "performance.md"
OURS = "napari-ngff"
SAVERS = (
    OURS,
    "the same, nearest",
    "floor",
    "ome-zarr-py",
    "ngio",
    "ngff-zarr",
)
PACKAGES = (
    "napari",
    "numpy",
    "dask",
    "zarr",
    "numcodecs",
    "napari-ome-zarr",
    "ome-zarr",
    "yaozarrs",
    "tensorstore",
    "ngio",
    "ngff-zarr",
    "PyQt6",
)

MAKE_THEIR_OWN = {
    "saving",
    "saving-memory",
    "editing",
    "editing-memory",
    "packing",
    "imports",
}
"""Tables that need none of the images of `data.py`."""

SIZE = os.environ.get("PACKED_MEGABYTES", "2048")
"""Of the folder that is packed."""

Table = dict[str, dict[str, list[float]]]


@dataclass(frozen=True)
class Job:
    """A case in a process of its own: label of its row, case, rounds, arguments."""

    row: str
    case: str
    rounds: int
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measurement:
    """A table: its unit, how often its jobs are run, and the jobs."""

    unit: str
    repeats: int
    jobs: tuple[Job, ...]


def each(row: str, case: str, *who: str) -> tuple[Job, ...]:
    """One job per contender, for what has to be the first of its process."""
    return tuple(Job(row, case, 1, (name,)) for name in who)


def full(row: str, case: str, picture: str, rounds: int) -> tuple[Job, ...]:
    """One job per way of saving all of a label image."""
    return tuple(Job(row, case, rounds, (picture, who)) for who in SAVERS)


PLATES = ("96 x 4", "384 x 9", "1536 x 4")
READERS = (OURS, "napari-ome-zarr", "ome-zarr-py", "ngio")
NEXT = tuple(Job("", "next_field", 3, (name,)) for name in PLATES)


def on_plates(case: str) -> tuple[Job, ...]:
    """One job per plate and reader."""
    # ngio reads image by image: minutes for the larger ones.
    return tuple(
        Job("", case, 1 if name == PLATES[-1] else 3, (name, who))
        for name in PLATES
        for who in (READERS if name == PLATES[0] else READERS[:-1])
    )


def edits(row: str, picture: str, method: str, rounds: int) -> tuple[Job, ...]:
    """One job per way of saving an edit, or all anew."""
    who = (OURS, "ngio, region", "ngio, all", "ome-zarr-py, all")
    return tuple(Job(row, "edit_save", rounds, (picture, method, w)) for w in who)


TABLES = {
    "opening": Measurement(
        "ms",
        2,
        (
            Job("10,000 chunks: reader alone", "opening", 15, ("1e4", "reader")),
            Job("1,000,000 chunks: reader alone", "opening", 15, ("1e6", "reader")),
            Job("10,000: with channels split", "opening", 7, ("1e4", "split")),
            Job("1,000,000: with channels split", "opening", 2, ("1e6", "split")),
            Job("10,000: with napari's layers", "opening", 5, ("1e4", "layers")),
            Job("1,000,000: with napari's layers", "opening", 2, ("1e6", "layers")),
        ),
    ),
    "first": Measurement(
        "ms", 5, each("1,000,000 chunks", "first_open", OURS, "napari-ome-zarr")
    ),
    "memory": Measurement(
        "MB",
        3,
        (
            *each("image of 1,000,000 chunks", "open_memory", OURS, "napari-ome-zarr"),
            *each("archive of 100,000 entries", "entries_memory", OURS, "zarr-python"),
        ),
    ),
    "files": Measurement(
        "",
        1,
        (
            Job("0.4, 5 levels", "files", 1, ("0.4",)),
            Job("0.5, 5 levels", "files", 1, ("0.5",)),
        ),
    ),
    "views": Measurement(
        "ms",
        3,
        (
            Job("chunks 256²", "views", 15, ("flat-256.zarr",)),
            Job("chunks 512²", "views", 15, ("flat-512.zarr",)),
            Job("256² in shards of 2048²", "views", 15, ("flat-sharded.zarr",)),
            Job("256², Zarr v2", "views", 15, ("flat-v2.zarr",)),
            Job("256² of 1,000,000 chunks", "views", 4, ("1e6-0.5.zarr",)),
            Job("`.ozx`, 256²", "views", 15, ("flat-256.ozx",)),
            # tensorstore 0.1.86 never returns from a part of a large entry.
            Job(
                "`.ozx`, 256² in shards",
                "views",
                7,
                ("flat-sharded.ozx", "tensorstore"),
            ),
            # dask leaves much behind here for whoever comes after it.
            Job(
                "the same, without dask",
                "views",
                25,
                ("flat-sharded.ozx", "tensorstore", "dask"),
            ),
        ),
    ),
    "archive": Measurement(
        "ms", 2, (Job("open, and read a first chunk", "open_entries", 5),)
    ),
    "window": Measurement(
        "ms", 5, each("", "window", OURS, "napari-ome-zarr", "zeros")
    ),
    "plate": Measurement("ms", 1, (*on_plates("plate"), *NEXT)),
    "plate-memory": Measurement("MB", 1, on_plates("plate_memory")),
    "plate-files": Measurement("", 1, on_plates("plate_files")),
    "saving": Measurement(
        "s",
        2,
        (
            *full("8192², uint32", "full_save", "plane", 3),
            *full("64 planes of 2048², uint32", "full_save", "stack", 1),
        ),
    ),
    "saving-memory": Measurement(
        "MB",
        1,
        (
            *full("8192²: 268 MB", "full_save_memory", "plane", 1),
            *full("64 planes of 2048²: 1,074 MB", "full_save_memory", "stack", 1),
        ),
    ),
    "editing": Measurement(
        "ms",
        1,
        (
            *edits("1 % of 8192²", "plane", "nearest", 10),
            Job("the same, mode", "edit_save", 10, ("plane", "mode", OURS)),
            *edits("1 % of 64 planes of 2048²", "stack", "nearest", 3),
            Job("the same in 3D, mode", "edit_save", 3, ("stack", "mode", OURS)),
            Job("every chunk of 8192²", "edit_all", 2, ("plane", "nearest", OURS)),
            Job("every chunk of 8192²", "edit_all", 2, ("plane", "nearest", "floor")),
        ),
    ),
    "editing-memory": Measurement(
        "MB",
        1,
        (
            Job("every chunk of 8192²", "edit_memory", 1, ("plane", "mode", OURS)),
            Job("of 64 planes", "edit_memory", 1, ("stack", "mode", OURS)),
        ),
    ),
    "packing": Measurement(
        "s",
        1,
        (
            Job("pack, chunks of 512 KiB", "packing", 5, ("512", SIZE)),
            Job("to the disk", "flushed_packing", 5, ("512", SIZE)),
            Job("pack, chunks of 64 KiB", "packing", 3, ("64", SIZE)),
            Job("save one chunk, to the disk", "resaving", 5, ("512", SIZE)),
        ),
    ),
    "screen": Measurement(
        "ms",
        2,
        (
            Job("tree: the plate and its wells", "screen", 7, ("tree",)),
            Job("check: all of it", "screen", 2, ("check",)),
        ),
    ),
    "screen-files": Measurement(
        "",
        1,
        (
            Job("tree: the plate and its wells", "screen_files", 1, ("tree",)),
            Job("check: all of it", "screen_files", 1, ("check",)),
        ),
    ),
    "imports": Measurement(
        "ms",
        5,
        (
            Job("`napari_ngff`", "imports", 1, ("napari_ngff",)),
            Job("its reader", "imports", 1, ("napari_ngff.viewer.reader",)),
            Job("`dask.array` alone", "imports", 1, ("dask.array",)),
            Job("`zarr` alone", "imports", 1, ("zarr",)),
        ),
    ),
}


def load_bootstrap() -> Any:
    """The project's own `run.py`, which knows how to install and to start Xvfb."""
    spec = importlib.util.spec_from_file_location("bootstrap", ROOT / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    own = ROOT / ".venv-bench"
    module.PYTHON = own / module.PYTHON.relative_to(module.VENV)
    module.VENV = own
    return module


def call(python: Path, env: dict[str, str], *arguments: str) -> str:
    """Run a script of this folder; what it printed."""
    command = [str(python), "-W", "ignore", *arguments]
    done = subprocess.run(
        command, cwd=HERE, env=env, capture_output=True, text=True, timeout=900
    )
    if done.returncode:
        sys.exit(f"{' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    return done.stdout


def measure(
    python: Path, env: dict[str, str], data: Path, what: Measurement, quick: bool
) -> Table:
    """Run the jobs of a table, the order reversed every other time."""
    table: Table = defaultdict(lambda: defaultdict(list))
    for job in what.jobs:
        _ = table[job.row] if job.row else None
    for i in range(1 if quick else what.repeats):
        for job in what.jobs[::-1] if i % 2 else what.jobs:
            rounds = str(min(job.rounds, 3) if quick else job.rounds)
            printed = call(
                python, env, "cases.py", job.case, str(data), rounds, *job.arguments
            )
            values: Table = json.loads(printed.splitlines()[-1])
            for row, columns in values.items():
                for column, numbers in columns.items():
                    table[job.row or row][column] += numbers
    return table


def rounded(value: float) -> str:
    """Two or three digits, whole from ten on."""
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def markdown(table: Table, unit: str) -> str:
    """Medians; in brackets how many times ours."""
    found = dict.fromkeys(column for row in table.values() for column in row)
    columns = sorted(found, key=lambda name: name != OURS)
    lines = [
        f"| {unit} | {' | '.join(columns)} |",
        "|---|" + "---:|" * len(columns),
    ]
    for label, row in table.items():
        medians = {name: statistics.median(numbers) for name, numbers in row.items()}
        cells = []
        for name in columns:
            if name not in medians:
                cells.append("")
                continue
            cell = rounded(medians[name])
            ours = medians.get(OURS, 0)
            if name != OURS and ours:
                ratio = medians[name] / ours
                digits = f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"
                cell += f" ({digits}x)"
            cells.append(f"**{cell}**" if name == OURS else cell)
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def machine(python: Path, env: dict[str, str]) -> str:
    """What the figures were measured on, without naming it."""
    code = (
        "import sys; from importlib.metadata import version\n"
        "found = [f'{name} {version(name)}' for name in sys.argv[1:]]\n"
        "print(sys.version.split()[0], *found, sep=', ')"
    )
    command = [str(python), "-c", code, *PACKAGES]
    versions = subprocess.run(
        command, env=env, capture_output=True, text=True, check=True
    ).stdout.strip()
    memory = ""
    if hasattr(os, "sysconf"):
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        memory = f", {size / 2**30:.0f} GiB of memory"
    return (
        f"{os.cpu_count()} cores{memory}, {platform.system()} {platform.machine()};"
        f" Python {versions}."
    )


def load() -> str:
    """How busy others keep the machine: from one per core on, times are no good."""
    if not hasattr(os, "getloadavg"):
        return ""
    return f", {os.getloadavg()[0]:.1f} processes waiting at the start"


def replace_block(text: str, name: str, content: str) -> str:
    """Put `content` between the markers of that name."""
    pattern = rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)"
    if not re.search(pattern, text, re.DOTALL):
        sys.exit(f"{REPORT.name} has no markers <!-- {name} --> and <!-- /{name} -->")
    return re.sub(pattern, lambda m: f"{m[1]}{content}\n{m[2]}", text, flags=re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few rounds, only printed")
    parser.add_argument("--only", action="append", choices=TABLES, help="this table")
    parser.add_argument("--data", type=Path, help="keep the images here for next time")
    parser.add_argument("--python", type=Path, help="another environment that has all")
    options = parser.parse_args()
    bootstrap = load_bootstrap()
    if bootstrap.LINUX and options.python is None:
        bootstrap.need_system(headless=True)
    if options.python is None:
        bootstrap.need_packages("bench")
    python = options.python or bootstrap.PYTHON
    blocks: dict[str, str] = {}
    with (
        bootstrap.environment(headless=bootstrap.LINUX) as env,
        tempfile.TemporaryDirectory(prefix="napari-ngff-bench-") as scratch,
    ):
        data = (options.data or Path(scratch)).resolve()
        data.mkdir(parents=True, exist_ok=True)
        if not MAKE_THEIR_OWN.issuperset(options.only or TABLES):
            print("images", flush=True)
            call(python, env, "data.py", str(data))
        for name in options.only or TABLES:
            what = TABLES[name]
            busy = load()
            print(f"\n{name}", flush=True)
            table = markdown(measure(python, env, data, what, options.quick), what.unit)
            print(table, flush=True)
            blocks[name] = f"{table}\n\nMeasured {date.today().isoformat()}{busy}."
        blocks["machine"] = machine(python, env)
    if options.quick:
        return
    # Only now, since others may edit the page meanwhile.
    report = REPORT.read_text(encoding="utf-8")
    for name, content in blocks.items():
        report = replace_block(report, name, content)
    REPORT.write_text(report, encoding="utf-8")


if __name__ == "__main__":
    main()
