"""Runs `run_case.py`: bounded, and watched for what it writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["run"]

SECONDS = 10
"""That one way of opening a place may take."""

STARTING = 30
"""Seconds for Python, napari's models and a busy machine."""

PYTHON_VARIABLE = "HOSTILE_PYTHON"
"""Names another Python, such as that of `oldest.py`."""

SOURCE = Path(__file__).parents[2] / "src"


def files_in(folder: Path, besides: Path) -> set[Path]:
    """List all that is below a folder but for what is below another."""
    return {path for path in folder.rglob("*") if besides not in (path, *path.parents)}


def run(tmp_path, *places, script="run_case.py", **variables):
    """Open places in every way, under bounds of memory and time.

    Nothing is written there, in the home folder or in the current one; the user's
    cache alone may change.
    """
    home = tmp_path / "home"
    cache = home / ".cache"
    cache.mkdir(parents=True)
    before = files_in(tmp_path, cache)
    given = ("PATH", "LANG", "TMPDIR")
    env = {name: os.environ[name] for name in given if name in os.environ}
    env |= {
        "HOME": str(home),
        "PYTHONPATH": str(SOURCE),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    found = subprocess.run(
        [
            os.environ.get(PYTHON_VARIABLE, sys.executable),
            "-W",
            "ignore",
            str(Path(__file__).with_name(script)),
            *map(str, places),
        ],
        cwd=home,
        env=env | variables,
        capture_output=True,
        text=True,
        timeout=STARTING + 5 * SECONDS * len(places),
        check=False,
    )
    said = f"{found.stdout[-4000:]}\n{found.stderr[-2000:]}"
    assert (found.stdout, found.returncode) == ("", 0), said
    assert files_in(tmp_path, cache) == before
    return found.stderr
