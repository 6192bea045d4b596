"""What the README says can be done, can be done."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

import numpy as np
import pytest
import zarr

from napari_ngff.cli import main
from patience import PATIENCE

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
PYTHON = [text for language, text in BLOCKS if language == "python"]
COMMANDS = [
    command
    for language, text in BLOCKS
    if language == "sh"
    for command in (shlex.split(line, comments=True) for line in text.splitlines())
    if command
]
OURS = [command for command in COMMANDS if command[0] == "napari-ngff"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the image that the README speaks of."""
    group = zarr.create_group(tmp_path / "file.ome.zarr", zarr_format=3)
    data = np.arange(4096, dtype="u2").reshape(64, 64)
    group.create_array("0", data=data, dimension_names="yx")
    axes = [{"name": n, "type": "space", "unit": "micrometer"} for n in "yx"]
    scale = [{"type": "scale", "scale": [0.5, 0.5]}]
    dataset = {"path": "0", "coordinateTransformations": scale}
    multiscale = {"axes": axes, "datasets": [dataset]}
    group.attrs["ome"] = {"version": "0.5", "multiscales": [multiscale]}
    return tmp_path


def run(command: list[str], folder: Path) -> None:
    result = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"


@pytest.mark.parametrize("text", PYTHON, ids=range(len(PYTHON)))
def test_python_runs(text: str, folder: Path) -> None:
    run([sys.executable, "-c", f"{text}\nassert viewer.layers\nviewer.close()"], folder)


@pytest.mark.parametrize("command", OURS, ids=shlex.join)
def test_command_runs(
    command: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if command[1] == "view":  # a window needs a process
        program = Path(sys.executable).with_name(command[0])
        run([str(program), *command[1:]], folder)
        return
    monkeypatch.chdir(folder)
    assert main(command[1:]) == 0


def test_commands_of_run_py_exist() -> None:
    shown = {c[2] for c in COMMANDS if c[:2] == ["python", "run.py"]}
    usage = subprocess.run(
        [sys.executable, ROOT / "run.py", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert shown == {"demo", "test"}
    assert shown <= set(re.findall(r"run\.py (\w+)", usage))


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)", TEXT)
    assert links
    assert [
        link for link in links if "://" not in link and not (ROOT / link).exists()
    ] == []


def test_extras_exist() -> None:
    # Installed from pyproject.toml, so the metadata is what a user's pip sees.
    known = set(metadata("napari-ngff").get_all("Provides-Extra") or ())
    named = set(re.findall(r"napari-ngff\[(\w+)\]", TEXT))
    assert named
    assert named <= known
