"""An estimate says what the conversion then does, and writes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from napari_ngff import convert, pack
from napari_ngff.store.convert.conversion import read_request
from napari_ngff.store.convert.conversion_estimate import (
    estimate_conversion,
    free_bytes,
)
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.testing import write_image, write_plate


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_image(folder / "cells.ome.zarr", "0.4", shape=(2, 300, 520))
    write_plate(folder / "plate.ome.zarr", "0.5", grid=(1, 3), shape=(64, 64))
    pack(folder / "plate.ome.zarr")
    return folder


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("cells.ome.zarr", {}),
        ("cells.ome.zarr", {"chunks": "y=64,x=64", "codec": "zstd:1"}),
        ("cells.ome.zarr", {"shards": "auto"}),
        ("cells.ome.zarr", {"crop": "x=33:401,y=1:200"}),
        ("plate.ome.zarr", {"wells": "A1", "levels": "1:"}),
        ("plate.ozx", {"to_version": "0.4"}),
    ],
)
def test_the_conversion_does_what_was_estimated(folder, tmp_path, name, asked) -> None:
    source, before = folder / name, len(files_of(folder))
    seen: list[int] = []
    estimate = estimate_conversion(
        open_node(str(source)), read_request(asked), lambda n: not seen.append(n)
    )
    assert len(files_of(folder)) == before
    result = convert(source, tmp_path / "made.ome.zarr", **asked)
    made = files_of(tmp_path / "made.ome.zarr")
    assert estimate.pieces == result.units
    assert estimate.nbytes == result.nbytes
    # Chunks of zeros are left out.
    assert len(made) <= estimate.files <= len(made) * 1.3
    assert bool(estimate.encoded) == bool({"chunks", "shards", "crop"} & asked.keys())
    if not asked:
        stored = sum(path.stat().st_size for path in files_of(source))
        assert estimate.read == pytest.approx(stored, rel=0.3)
    assert seen[-1] == len(seen) > 1


def test_it_stops_when_it_is_asked_to(folder) -> None:
    node = open_node(str(folder / "plate.ome.zarr"))
    whole = estimate_conversion(node, read_request({}))
    part = estimate_conversion(node, read_request({}), lambda count: count < 2)
    assert 0 < part.pieces < whole.pieces


def test_free_bytes_are_those_of_the_disk_of_the_target(tmp_path) -> None:
    status = os.statvfs(tmp_path)
    free = free_bytes(tmp_path / "none" / "none" / "new.ome.zarr")
    assert free == pytest.approx(status.f_bavail * status.f_frsize, rel=0.05)
    assert free_bytes("s3://bucket/new.ome.zarr") is None
