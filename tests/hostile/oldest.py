"""An environment with the oldest dependencies that pyproject.toml allows.

Made once by `python tests/hostile/oldest.py`, in the user's cache, and again when
pyproject.toml changes; it prints its Python.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import platformdirs

ROOT = Path(__file__).parents[2]
CACHE = platformdirs.user_cache_path("napari-ngff", appauthor=False) / "oldest"
INSTALLING = 1200
"""Seconds."""


def install() -> Path:
    """Make the environment, unless it is there; return its Python."""
    wanted = (ROOT / "pyproject.toml").read_bytes() + sys.version.encode()
    folder = CACHE / hashlib.sha256(wanted).hexdigest()[:8]
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    finished = folder / "installed.txt"
    if not finished.exists():
        shutil.rmtree(CACHE, ignore_errors=True)
        uv = CACHE / "uv"
        pip = [sys.executable, "-m", "pip", "install", "-q"]
        run([*pip, "--target", str(uv), "uv"])
        own = str(uv / "bin/uv")
        run([own, "venv", "-q", "--python", sys.executable, str(folder)])
        # The lowest releases of what is required here, the newest of what these do.
        lowest = ["--resolution", "lowest-direct", "--python", str(python)]
        run([own, "pip", "install", "-q", *lowest, f"{ROOT}[remote,tables]"])
        finished.write_text("")
    return python


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, timeout=INSTALLING)


if __name__ == "__main__":
    sys.stdout.write(f"{install()}\n")
