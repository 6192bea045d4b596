"""Folder and archive from the command line and from Python."""

import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr

import napari_ngff
from napari_ngff.cli import main
from napari_ngff.testing import write_image


@pytest.fixture
def cells(tmp_path: Path) -> Path:
    return write_image(tmp_path / "cells.ome.zarr", shape=(64, 80))


def test_there_and_back(cells: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = zarr.open_group(cells, mode="r")["labels/nuclei/0"][...]
    assert main(["pack", str(cells)]) == 0
    assert capsys.readouterr().out == f"{cells.with_name('cells.ozx')}\n"
    shutil.rmtree(cells)
    assert main(["check", str(cells.with_name("cells.ozx"))]) == 0
    assert main(["unpack", str(cells.with_name("cells.ozx"))]) == 0
    assert capsys.readouterr().out.endswith(f"{cells}\n")
    after = zarr.open_group(cells, mode="r")["labels/nuclei/0"][...]
    assert np.array_equal(before, after)


def test_nothing_is_replaced_unasked(
    cells: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = cells.with_name("mine.ozx")
    file.write_bytes(b"mine")
    assert main(["pack", str(cells), str(file)]) == 1
    error = capsys.readouterr().err
    assert "already exists. Choose another name, or add --overwrite." in error
    assert file.read_bytes() == b"mine"
    assert main(["pack", str(cells), str(file), "--overwrite"]) == 0
    assert napari_ngff.open(file).labels


def test_an_older_version_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = write_image(tmp_path / "old.ome.zarr", "0.4", shape=(64, 80))
    assert main(["pack", str(old)]) == 1
    error = capsys.readouterr().err
    assert "only OME-Zarr 0.5 and newer can be one file. It is an older one." in error
    assert not (tmp_path / "old.ozx").exists()
    # It names the command that does it.
    program, *arguments = shlex.split(error.partition("in 0.5: ")[2])
    assert program == "napari-ngff"
    assert main(arguments) == 0
    assert napari_ngff.open(tmp_path / "old.ozx").labels


def test_other_folders_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "zarr.json").write_text("{}")
    assert main(["pack", str(tmp_path), str(tmp_path.with_name("a.ozx"))]) == 1
    assert capsys.readouterr().err.endswith("can be one file.\n")


def test_relative_paths_are_printed_whole(
    cells: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(cells.parent)
    for command in (["pack", "cells.ome.zarr", "a.ozx"], ["unpack", "a.ozx", "b.zarr"]):
        assert main(command) == 0
        assert capsys.readouterr().out == f"{cells.with_name(command[2])}\n"
    assert main(["unpack", "a.ozx", "b.zarr"]) == 1
    assert "add --overwrite" in capsys.readouterr().err


def test_what_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pack", str(tmp_path / "none.ome.zarr")]) == 1
    assert main(["unpack", str(tmp_path / "none.ozx")]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all("none" in line for line in lines)
    assert list(tmp_path.iterdir()) == []


def test_progress_ends_with_all_bytes(cells: Path) -> None:
    seen: list[tuple[int, int]] = []
    file = napari_ngff.pack(cells, progress=lambda *at: seen.append(at))
    assert seen[-1][0] == seen[-1][1] > 0
    seen.clear()
    folder = cells.with_name("again.ome.zarr")
    assert napari_ngff.unpack(file, folder, progress=lambda *at: seen.append(at)) == (
        folder
    )
    assert seen[-1][0] == seen[-1][1] > 0
