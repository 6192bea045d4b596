#!/usr/bin/env python3
"""Measure napari-ngff against other readers; needs nothing but Python.

    python tests/benchmarks/run.py                 everything, some ten minutes
    python tests/benchmarks/run.py --only views    one table; may be given again
    python tests/benchmarks/run.py --quick         few rounds, printed, nothing written

Works in an environment of its own, `.venv-bench`, and writes the tables of
`docs/design/023-measured-performance.md`. Leave the machine alone meanwhile. See
`cases.py` for how it is measured, `data.py` for what is read.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from datetime import date
from pathlib import Path
from typing import Any

from tables import MAKE_THEIR_OWN, OURS, TABLES, Measurement

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
REPORT = ROOT / "docs" / "design" / "023-measured-performance.md"
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

Table = dict[str, dict[str, list[float]]]

PAINTING = ("painting", "painting-memory")
"""Tables that `painting.py` makes in one window."""


def load_bootstrap() -> Any:
    """The project's own `run.py`, which knows how to install and to start Xvfb."""
    spec = importlib.util.spec_from_file_location("bootstrap", ROOT / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
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
        "import sys\nfrom contextlib import suppress\n"
        "from importlib.metadata import PackageNotFoundError, version\n"
        "found = []\n"
        "for name in sys.argv[1:]:\n"
        "    with suppress(PackageNotFoundError):\n"
        "        found.append(f'{name} {version(name)}')\n"
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
    names = [*TABLES, "painting"]
    parser.add_argument("--quick", action="store_true", help="few rounds, only printed")
    parser.add_argument("--only", action="append", choices=names, help="this table")
    parser.add_argument("--data", type=Path, help="keep the images here for next time")
    parser.add_argument("--python", type=Path, help="another environment that has all")
    options = parser.parse_args()
    bootstrap = load_bootstrap()
    if bootstrap.LINUX and options.python is None:
        bootstrap.need_system(headless=True)
    python = options.python or bootstrap.need_packages(
        *bootstrap.PLUGIN, "--group", "bench", venv=ROOT / ".venv-bench"
    )
    blocks: dict[str, str] = {}
    today = date.today().isoformat()
    with (
        bootstrap.environment(headless=bootstrap.LINUX) as env,
        tempfile.TemporaryDirectory(prefix="napari-ngff-bench-") as scratch,
    ):
        # Installed packages are compiled; so is the checkout after its first import.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        data = (options.data or Path(scratch)).resolve()
        data.mkdir(parents=True, exist_ok=True)
        wanted = options.only or names
        if not {*MAKE_THEIR_OWN, "painting"}.issuperset(wanted):
            print("images", flush=True)
            call(python, env, "data.py", str(data))
        for name in wanted:
            busy = load()
            print(f"\n{name}", flush=True)
            if name == "painting":
                made = json.loads(call(python, env, "painting.py"))
                for part in PAINTING:
                    print(made[part], flush=True)
                    blocks[part] = f"{made[part]}\n\nMeasured {today}{busy}."
                continue
            what = TABLES[name]
            table = markdown(measure(python, env, data, what, options.quick), what.unit)
            print(table, flush=True)
            blocks[name] = f"{table}\n\nMeasured {today}{busy}."
        blocks["machine"] = machine(python, env)
        shutil.rmtree(data / "saved", ignore_errors=True)
    if options.quick:
        return
    # Only now, since others may edit the page meanwhile.
    report = REPORT.read_text(encoding="utf-8")
    for name, content in blocks.items():
        report = replace_block(report, name, content)
    REPORT.write_text(report, encoding="utf-8")


if __name__ == "__main__":
    main()
