"""The programs, each in an environment that is made once, in the user's cache."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import platformdirs

__all__ = ["PROGRAMS", "NotInstalledError", "Program", "answer_of", "install"]

PYTHON = "3.12"
"""Of all environments: the oldest that the newest of all programs accept."""

CACHE = platformdirs.user_cache_path("napari-ngff", appauthor=False) / "interop"
SCRIPTS = Path(__file__).parent / "scripts"
INSTALLING, RUNNING = 1200, 300
"""Seconds."""


class NotInstalledError(Exception):
    """A program that cannot be installed here; the message says why."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program of others, in one release.

    Attributes
    ----------
    name
        As the table has it.
    requirements
        What pip would be given.
    script
        Its file in `scripts/`, without its ending.
    notes
        What a reader of the table should know.
    """

    name: str
    requirements: str
    script: str
    notes: str = ""


WRITES_ONLY = "It writes only; read back by zarr-python."
READS_NO_LABELS = "It does not support labels; they are read back by zarr-python."

PROGRAMS = (
    Program("ome-zarr-py 0.10", "ome-zarr==0.10.*", "by_ome_zarr"),
    Program("ome-zarr-py 0.11", "ome-zarr==0.11.*", "by_ome_zarr"),
    Program("ome-zarr-py", "ome-zarr", "by_ome_zarr"),
    Program("ngff-zarr", "ngff-zarr[dask-image,validate]", "by_ngff_zarr"),
    Program("ngio", "ngio", "by_ngio"),
    Program("fractal-tasks-core", "fractal-tasks-core", "by_fractal"),
    Program("iohub 0.2", "iohub==0.2.*", "by_iohub", READS_NO_LABELS),
    Program("iohub", "iohub", "by_iohub"),
    Program("acquire-zarr", "acquire-zarr zarr", "by_acquire", WRITES_ONLY),
    Program("ome-writers", "ome-writers[all]", "by_ome_writers", WRITES_ONLY),
    Program("bioio-ome-zarr", "bioio-ome-zarr", "by_bioio", READS_NO_LABELS),
    Program("spatialdata", "spatialdata", "by_spatialdata"),
    Program(
        "webknossos",
        "webknossos",
        "by_webknossos",
        "It does not support labels in an image; they are read back by tensorstore.",
    ),
    Program(
        "multiview-stitcher",
        "multiview-stitcher",
        "by_multiview",
        "It does not support labels; it reads them as images.",
    ),
    Program("tensorstore", "tensorstore numpy", "by_tensorstore", "Arrays only."),
    Program("zarr-python", "zarr", "by_zarr", "Arrays and attributes only."),
)


def install(program: Program) -> Path:
    """Make the environment of a program unless it is there; gives its Python.

    Raises
    ------
    NotInstalledError
        Where that fails.
    """
    wanted = f"{PYTHON} {program.requirements}"
    key = hashlib.sha256(wanted.encode()).hexdigest()[:8]
    folder = CACHE / f"{program.script}-{key}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    finished = folder / "installed.txt"
    if finished.exists() and os.environ["INTEROP"] != "fresh":
        return python
    shutil.rmtree(folder, ignore_errors=True)
    uv = _uv()
    _install([*uv, "venv", "-q", "--python", PYTHON, str(folder)])
    packages = program.requirements.split()
    _install([*uv, "pip", "install", "-q", "--python", str(python), *packages])
    finished.write_text(wanted)
    return python


def _uv() -> list[str]:
    """Find uv, or install it into the cache."""
    found = shutil.which("uv")
    if found is None:
        own = CACHE / "uv"
        found = shutil.which("uv", path=own / "bin")
        if found is None:
            pip = [sys.executable, "-m", "pip", "install", "-q"]
            _install([*pip, "--target", str(own), "uv"])
            found = str(own / "bin/uv")
    return ["nice", found] if shutil.which("nice") else [found]


def _install(command: list[str]) -> None:
    # pyenv has a python3.12 that only runs where this is set.
    env = {**os.environ, "PYENV_VERSION": PYTHON}
    result = subprocess.run(
        command, capture_output=True, text=True, env=env, timeout=INSTALLING,
        check=False,
    )  # fmt: skip
    if result.returncode:
        lines = [line.strip() for line in result.stderr.splitlines() if line.strip()]
        raise NotInstalledError(" ".join(lines[:2]))


def answer_of(python: Path, program: Program, command: str, folder: Path) -> dict:
    """Let a program write or read a folder, and take what it prints."""
    script = SCRIPTS / f"{program.script}.py"
    result = subprocess.run(
        [python, "-W", "ignore", script, command, folder],
        capture_output=True, text=True, timeout=RUNNING, check=False,
    )  # fmt: skip
    assert result.returncode == 0, f"{program.name} {command}: {result.stderr[-3000:]}"
    return json.loads(result.stdout.splitlines()[-1])
