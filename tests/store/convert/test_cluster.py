"""Conversions on real clusters of processes, parts of which are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import zarr

import napari_ngff
from buckets import bucket_server
from napari_ngff import convert
from napari_ngff.cli import main
from napari_ngff.errors import AccessError
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.write import new_hierarchy
from napari_ngff.testing import write_plate
from patience import until

distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(sys.platform == "win32", reason="kills by signals"),
]


@pytest.fixture(scope="module")
def plate(tmp_path_factory) -> Path:
    """96 wells with labels."""
    folder = tmp_path_factory.mktemp("plates")
    names = [f"{row}{column}" for row in "ABCDEFGH" for column in range(1, 13)]
    return write_plate(
        folder / "plate.ome.zarr",
        "0.4",
        grid=(8, 12),
        fields=1,
        shape=(64, 64),
        wells=names,
    )


def require_equal_plate(source, made, capsys) -> None:
    """Compare the pixels of all fields and labels, and judge the metadata."""
    old, new = napari_ngff.open(source), napari_ngff.open(made)
    assert list(new.wells) == list(old.wells)
    assert len(old.wells) == 96
    stored, root = (zarr.open_group(str(path), mode="r") for path in (source, made))
    count = 0
    for path, well in old.wells.items():
        for field, image in well.fields.items():
            names = [f"{path}/{field}/0"]
            names += [f"{path}/{field}/labels/{label}/0" for label in image.labels]
            for name in names:
                assert np.array_equal(stored[name][...], root[name][...])
                count += 1
    assert count >= 2 * 96
    capsys.readouterr()
    assert main(["check", "--strict", str(made)]) == 0, capsys.readouterr().out


def test_a_worker_is_killed(plate, tmp_path, capsys) -> None:
    made = tmp_path / "made.ome.zarr"
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        first = next(iter(cluster.workers.values())).pid
        killed = []

        def progress(done: int, total: int) -> None:
            if not killed and done > total // 3:
                killed.append(os.kill(first, signal.SIGKILL))

        address = cluster.scheduler_address
        result = convert(
            plate, made, codec="gzip", scheduler=address, progress=progress
        )
    assert killed
    assert result.problems == ()
    require_equal_plate(plate, made, capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["made.ome.zarr"]


@contextmanager
def own_cluster(folder: Path, name: str):
    """Start a scheduler and workers; yields the scheduler's process and address."""
    file = folder / f"{name}.json"
    started: list[subprocess.Popen] = []
    try:
        for command in (
            ("scheduler", "--port", "0", "--host", "127.0.0.1", "--no-dashboard"),
            ("worker", "--nworkers", "2", "--nthreads", "1", "--no-dashboard"),
        ):
            code = f"from distributed.cli.dask_{command[0]} import main; main()"
            words = [*command[1:], "--scheduler-file", str(file)]
            with (folder / f"{name}-{command[0]}.log").open("w") as log:
                started.append(
                    subprocess.Popen(
                        [sys.executable, "-c", code, *words],
                        stdout=log,
                        stderr=log,
                        cwd=folder,
                    )
                )
            until(file.exists)
        yield started[0], json.loads(file.read_text())["address"]
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(30)


def test_the_scheduler_is_killed(plate, tmp_path, monkeypatch, capsys) -> None:
    folder, made = tmp_path / "made", tmp_path / "made" / "made.ome.zarr"
    folder.mkdir()
    seen = []
    with own_cluster(tmp_path, "first") as (scheduler, address):
        with distributed.Client(address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)

        def progress(done: int, total: int) -> None:
            seen.append(done)
            if done > total // 3 and scheduler.poll() is None:
                scheduler.kill()
                scheduler.wait()

        with pytest.raises(AccessError, match="did not finish"):
            convert(plate, made, codec="gzip", scheduler=address, progress=progress)
    assert seen
    assert not made.exists()
    with pytest.raises(napari_ngff.OMEZarrError):
        napari_ngff.open(folder / ".made.ome.zarr.partial" / "new")
    written = []
    put = FolderStore.put_new
    monkeypatch.setattr(
        FolderStore, "put_new", lambda *a: written.append(a[1]) or put(*a)
    )
    # By threads of this process: any scheduler continues what another one began.
    convert(plate, made, codec="gzip", resume=True)
    chunks = [key for key in walk_keys(made) if "/c/" in key]
    assert 0 < len(written) < len(chunks)
    require_equal_plate(plate, made, capsys)
    assert [path.name for path in folder.iterdir()] == ["made.ome.zarr"]


def walk_keys(folder: Path) -> list[str]:
    return [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]


def test_from_bucket_to_bucket(plate, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(new_hierarchy, "data_folder", lambda: tmp_path)
    some = tmp_path / "some.ome.zarr"
    convert(plate, some, to_version="0.4", wells="A*,H12")
    with bucket_server() as files:
        files.mkdir("plates")
        source, made = "s3://plates/plate.ome.zarr", "s3://plates/made.ome.zarr"
        files.put(str(some), source, recursive=True)
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster:
            first = next(iter(cluster.workers.values())).pid
            killed = []

            def progress(done: int, total: int) -> None:
                if not killed and done > total // 3:
                    killed.append(os.kill(first, signal.SIGKILL))

            address = cluster.scheduler_address
            asked = {"codec": "gzip", "scheduler": address}
            result = convert(source, made, progress=progress, **asked)
            assert result.target == made
            assert killed
            # What is there is not replaced; nothing of a bucket is deleted.
            before = sorted(files.find("plates/made.ome.zarr"))
            for overwrite in (False, True):
                with pytest.raises(FileExistsError, match="already exists"):
                    convert(source, made, overwrite=overwrite, **asked)
            assert sorted(files.find("plates/made.ome.zarr")) == before
        copy = tmp_path / "copy.ome.zarr"
        files.get("plates/made.ome.zarr", str(copy), recursive=True)
    assert main(["check", "--strict", str(copy)]) == 0, capsys.readouterr().out
    old, new = (zarr.open_group(str(path), mode="r") for path in (some, copy))
    wells = napari_ngff.open(some).wells
    assert len(wells) == 13
    for path in wells:
        for name in (f"{path}/0/0", f"{path}/0/labels/nuclei/0"):
            assert np.array_equal(old[name][...], new[name][...])
