"""Processes that can be killed while they write."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import napari_ngff
import victim
from buckets import bucket_server
from kill_trials import Trials


@pytest.fixture(scope="module")
def victim_server():
    with bucket_server() as files:
        yield files


@pytest.fixture(scope="module")
def victims(victim_server):
    """A process that starts those to be killed."""
    # The same package as here, also where another one is installed.
    folders = victim.__file__, Path(napari_ngff.__file__).parent
    path = os.pathsep.join(os.path.dirname(folder) for folder in folders)
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, victim.__file__]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        yield process
        process.stdin.close()


@pytest.fixture
def make_trials(victims, victim_server, tmp_path, monkeypatch):
    """Give what tries a caller in a kind of store."""
    # In memory, where it is quick to wait for the disk.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path
    folder = Path(tempfile.mkdtemp(dir=memory))

    def make(name, kind, **options):
        monkeypatch.setenv("XDG_DATA_HOME", str(folder / "trial" / "data"))
        return Trials(victims, victim_server, folder, name, kind, **options)

    yield make
    shutil.rmtree(folder)
    if victim_server.exists("cells"):
        victim_server.rm("cells", recursive=True)
