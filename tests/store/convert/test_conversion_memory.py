"""The memory of a conversion does not grow with the image: below 300 MB at any size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numcodecs
import numpy as np
import pytest

from napari_ngff import convert
from napari_ngff.store.convert import array_task

SIDE, CHUNK = 2048, 512
PLANE = SIDE * SIDE * 2
"""Bytes of the pixels of a plane."""

LIMIT = 300
"""MB, with two threads."""

SCRIPT = """
import json, sys
from pathlib import Path
from napari_ngff import convert
from napari_ngff.store.convert import unit_runner
unit_runner.CORES = 2
result = convert(sys.argv[1], sys.argv[2], **json.loads(sys.argv[3]))
# Not of getrusage, which begins with the peak of the process that started this one.
status = Path("/proc/self/status").read_text()
peak = int(status.partition("VmHWM:")[2].split()[0])
print(json.dumps([result.nbytes, peak // 1024]))
"""

WAYS = {
    "copied": {},
    "joined": {"shards": "y=2048,x=2048"},
    "coded": {"shards": "y=2048,x=2048", "codec": "zstd:1"},
    "in other chunks": {"chunks": "z=4,y=256,x=256", "codec": "zstd:1"},
}


def write_documents(folder: Path, array: dict) -> None:
    """Write the documents of an image of OME-Zarr 0.4 with one level."""
    (folder / "0").mkdir(parents=True)
    (folder / "0/.zarray").write_text(json.dumps(array))
    axes = [{"name": n, "type": "space", "unit": "micrometer"} for n in "zyx"]
    scale = [{"type": "scale", "scale": [1.0, 0.3, 0.3]}]
    dataset = {"path": "0", "coordinateTransformations": scale}
    entry = {"version": "0.4", "name": "a", "axes": axes, "datasets": [dataset]}
    (folder / ".zattrs").write_text(json.dumps({"multiscales": [entry]}))
    (folder / ".zgroup").write_text('{"zarr_format": 2}')


def write_sparse(folder: Path, gigabytes: int) -> None:
    """Write an image by its shape: the first planes are full, then some chunks are."""
    planes = gigabytes * 10**9 // PLANE
    codec = numcodecs.Blosc("lz4", 5, 1)
    document = {
        "zarr_format": 2,
        "shape": [planes, SIDE, SIDE],
        "chunks": [1, CHUNK, CHUNK],
        "dtype": "<u2",
        "compressor": codec.get_config(),
        "fill_value": 0,
        "order": "C",
        "filters": None,
        "dimension_separator": "/",
    }
    write_documents(folder, document)
    noise = np.random.default_rng(0).integers(0, 4096, (CHUNK, CHUNK), "u2")
    first = folder / "first"
    first.write_bytes(codec.encode(noise))
    per_side = SIDE // CHUNK
    for z in range(planes):
        full = z < 8 or z % 97 == 0
        for number in range(per_side**2 if full else 0):
            y, x = divmod(number, per_side)
            (folder / f"0/{z}/{y}").mkdir(parents=True, exist_ok=True)
            os.link(first, folder / f"0/{z}/{y}/{x}")
    first.unlink()


@pytest.mark.skipif(sys.platform != "linux", reason="no peak of memory in /proc")
@pytest.mark.default_cases("coded-1")
@pytest.mark.parametrize("gigabytes", [1, 4, 16])
@pytest.mark.parametrize("way", WAYS)
def test_peak_of_memory(tmp_path, way, gigabytes) -> None:
    source, made = tmp_path / "source.ome.zarr", tmp_path / "made.ome.zarr"
    write_sparse(source, gigabytes)
    command = [sys.executable, "-c", SCRIPT, str(source), str(made)]
    done = subprocess.run(
        [*command, json.dumps(WAYS[way])], capture_output=True, text=True, check=True
    )
    nbytes, peak = json.loads(done.stdout)
    assert nbytes > 0.99 * gigabytes * 10**9
    assert peak < LIMIT


def peak_of_units(folder: Path, monkeypatch, units: int) -> int:
    """Convert an image, whose chunks are in a folder each, in so many units."""
    document = {
        "zarr_format": 2,
        "shape": [units, 4, 4],
        "chunks": [1, 4, 4],
        "dtype": "|u1",
        "compressor": None,
        "fill_value": 0,
        "order": "C",
        "filters": None,
        "dimension_separator": "/",
    }
    write_documents(folder / "source.ome.zarr", document)
    monkeypatch.setattr(array_task, "CODED", 1)
    tracemalloc.start()
    try:
        source, made = folder / "source.ome.zarr", folder / "made.ome.zarr"
        result = convert(source, made, chunks="y=2,x=2", codec="zstd:1")
        assert result.units > units
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_units_leave_nothing_in_memory(tmp_path, monkeypatch) -> None:
    peak_of_units(tmp_path / "first", monkeypatch, 10)  # what is kept anyway
    few = peak_of_units(tmp_path / "few", monkeypatch, 50)
    many = peak_of_units(tmp_path / "many", monkeypatch, 250)
    assert many - few < 10**6
