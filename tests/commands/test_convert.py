"""The command convert: what it prints, its exit codes, and servers as sources."""

from __future__ import annotations

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import zarr

import napari_ngff
from buckets import bucket_server
from napari_ngff.cli import main
from napari_ngff.store.convert import array_task
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.sources.remote_store import RemoteStore
from napari_ngff.store.write import new_hierarchy
from napari_ngff.testing import write_image, write_plate


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_image(folder / "cells.ome.zarr", "0.4", shape=(64, 80))
    write_plate(folder / "plate.ome.zarr", "0.5", grid=(1, 2), shape=(64, 64))
    return folder


def errors_of(path) -> list:
    return [(where, p.code, p.text) for where, p in napari_ngff.check(path)]


def pixels_of(path, name: str) -> np.ndarray:
    return np.asarray(zarr.open_group(str(path), mode="r")[name][...])


def test_all_words(folder, tmp_path, capsys) -> None:
    made = tmp_path / "made.ozx"
    asked = "--crop x=8:72,y=8: --chunks y=16,x=16 --shards y=32,x=32 --codec zstd:3"
    asked += " --channels Actin,0 --levels 0"
    command = ["convert", str(folder / "cells.ome.zarr"), str(made), *asked.split()]
    assert main(command) == 0
    output = capsys.readouterr()
    assert output.out == f"{made}\n"
    assert output.err == ""
    image = napari_ngff.open(made)
    before = pixels_of(folder / "cells.ome.zarr", "0")
    assert np.array_equal(np.asarray(image.levels[0]), before[[1, 0], 8:, 8:72])
    assert main(command) == 1
    assert "already exists" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0
    assert main(["convert", str(folder / "none"), str(tmp_path / "x")]) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["made.ozx"]


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("--chunks x=abc", "--chunks: x=abc is not a length in voxels."),
        ("--chunks x", "--chunks: 'x' is not of the form x=100,y=200."),
        ("--chunks q=16", "--chunks: No image has an axis 'q', only c, x, y."),
        ("--shards y=0", "--shards: y=0 is not a length in voxels."),
        ("--chunks y=16 --shards y=40", "Shards of y=40 are not whole chunks of 16."),
        ("--to-version 0.4 --shards auto", "--shards: "),
        ("--codec snappy", "--codec: Unknown codec 'snappy'."),
        ("--codec zstd:99", "--codec: The level of zstd is a number from -7 to 22."),
        ("--crop q=1", "--crop: "),
        ("--crop x=9:3", "--crop: The range '9:3' is empty."),
        ("--crop x=80:90", "has 80 voxels along x: nothing is left of x=80:90."),
        ("--levels 7", "--levels: "),
        ("--levels a", "--levels: 'a' is neither a number nor a range such as 5:9."),
        ("--channels Golgi", "--channels: There is no channel 'Golgi' of 3"),
        ("--channels 0,0", "--channels: The channels 0, 0 are repeated."),
        ("--wells ,", "--wells: ',' has an empty entry."),
    ],
)
def test_a_wrong_value_is_exit_code_2(folder, tmp_path, capsys, asked, text) -> None:
    made = tmp_path / "made.ome.zarr"
    command = ["convert", str(folder / "cells.ome.zarr"), str(made), *asked.split()]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"napari-ngff: {asked.split()[-2]}: ")
    assert text in error
    assert error.count("\n") == 1
    assert [*tmp_path.iterdir()] == []


def test_wrong_values_of_other_kinds(folder, tmp_path, capsys) -> None:
    cells, made = str(folder / "cells.ome.zarr"), tmp_path / "made.ozx"
    with pytest.raises(SystemExit) as caught:
        main(["convert", cells, str(made), "--to-version", "0.9"])
    assert caught.value.code == 2
    assert "--to-version: invalid choice" in capsys.readouterr().err
    assert main(["convert", cells, str(made), "--to-version", "0.4"]) == 2
    assert "--to-version: An .ozx file needs" in capsys.readouterr().err
    plate = str(folder / "plate.ome.zarr")
    assert main(["convert", plate, str(made), "--wells", "H9"]) == 2
    assert f"--wells: {plate} has no wells H9." in capsys.readouterr().err
    assert main(["rebuild", cells, "--levels", "0"]) == 2
    assert "--levels: An image has 1 level or more" in capsys.readouterr().err
    labels = f"{cells}/labels/nuclei"
    assert main(["rebuild", labels, "--method", "mean"]) == 2
    assert "--method: A mean of ids" in capsys.readouterr().err
    assert main(["export", labels, "--boxes", str(made), "--level", "9"]) == 2
    assert f"--level: {labels} has no level 9." in capsys.readouterr().err
    table = str(tmp_path / "table.txt")
    assert main(["measure", cells, "--label", "nuclei", "--out", table]) == 2
    assert "--out: " in capsys.readouterr().err
    # Failures of the work.
    inside = str(folder / "cells.ome.zarr" / "made")
    assert main(["convert", cells, inside]) == 1
    assert "inside of each other" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


def test_a_crop_beyond_the_image_is_reported(folder, tmp_path, capsys) -> None:
    cells, made = folder / "cells.ome.zarr", tmp_path / "made.ome.zarr"
    command = ["convert", str(cells), str(made), "--levels", "0", "--overwrite"]
    assert main([*command, "--crop", "x=8:200,y=:64"]) == 0
    output = capsys.readouterr()
    assert output.err == (
        f"napari-ngff: The crop reaches beyond {cells}, which has 80 voxels along x:"
        " it ends there.\n"
    )
    assert pixels_of(made, "0").shape[-2:] == (64, 72)
    assert main([*command, "--crop", "x=8:80"]) == 0
    assert capsys.readouterr().err == ""
    plate = str(folder / "plate.ome.zarr")
    assert main(["convert", plate, *command[2:], "--crop", "x=:99,y=:99"]) == 0
    error = capsys.readouterr().err
    assert "which has 64 voxels along x and 64 voxels along y" in error
    assert "other images): it ends there." in error
    assert error.count("\n") == 1


def test_what_cannot_be_read(folder, tmp_path, capsys, monkeypatch) -> None:
    broken = tmp_path / "broken.ome.zarr"
    napari_ngff.convert(folder / "cells.ome.zarr", broken, to_version="0.4")
    (broken / "0/0/0/0").write_bytes(b"none")
    made = tmp_path / "made.ome.zarr"
    command = ["convert", str(broken), str(made), "--codec", "gzip"]
    assert main(command) == 1
    assert "0/0/0/0" in capsys.readouterr().err
    assert main([*command, "--unreadable", "skip"]) == 1
    output = capsys.readouterr()
    assert output.out == f"{made}\n"
    assert "left out" in output.err
    assert "0/0/0/0" in output.err

    def full(*_) -> None:
        raise OSError(28, "No space left on device", str(made))

    monkeypatch.setattr(FolderStore, "put_new", full)
    assert main([*command[:2], str(tmp_path / "full.ome.zarr")]) == 1
    error = capsys.readouterr().err
    assert "Make room on that disk" in error
    assert "--resume" in error


def test_from_a_web_server(folder, tmp_path) -> None:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_) -> None:
            pass

    handler = partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        root = f"http://127.0.0.1:{server.server_port}"
        for name, codec in (("cells", None), ("plate", "gzip")):
            made = tmp_path / f"{name}.ome.zarr"
            napari_ngff.convert(f"{root}/{name}.ome.zarr", made, codec=codec)
            assert errors_of(made) == []
            array = "0" if name == "cells" else "A/2/0/0"
            before = pixels_of(folder / f"{name}.ome.zarr", array)
            assert np.array_equal(pixels_of(made, array), before)
        server.shutdown()


def test_from_a_bucket(folder, tmp_path) -> None:
    with bucket_server() as files:
        files.mkdir("converted")
        files.put(
            str(folder / "cells.ome.zarr"), "converted/cells.ome.zarr", recursive=True
        )
        files.pipe("converted/cells.ome.zarr/notes/mine.txt", b"kept")
        made = tmp_path / "made.ome.zarr"
        napari_ngff.convert("s3://converted/cells.ome.zarr", made)
    assert errors_of(made) == []
    assert np.array_equal(
        pixels_of(made, "0"), pixels_of(folder / "cells.ome.zarr", "0")
    )
    assert (made / "notes" / "mine.txt").read_bytes() == b"kept"


def test_nothing_in_a_bucket_is_overwritten(
    folder, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(new_hierarchy, "data_folder", lambda: tmp_path)
    cells = str(folder / "cells.ome.zarr")
    with bucket_server() as files:
        files.mkdir("replaced")
        made = "s3://replaced/made.ome.zarr"
        files.pipe("replaced/made.ome.zarr/.zgroup", b'{"zarr_format": 2}')
        assert main(["convert", cells, made, "--overwrite"]) == 1
        error = capsys.readouterr().err
        assert "a bucket cannot replace all objects" in error
        assert error.endswith("Choose another name, or remove it first.\n")
        assert files.find("replaced") == ["replaced/made.ome.zarr/.zgroup"]


def stop_in_the_middle(done: int, total: int) -> None:
    if done > total // 2:
        raise KeyboardInterrupt


@pytest.mark.long
def test_from_bucket_to_bucket(folder, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(new_hierarchy, "data_folder", lambda: tmp_path)
    monkeypatch.setattr(array_task, "CODED", 6_000)
    with bucket_server() as files:
        files.mkdir("twice")
        source, made = "s3://twice/cells.ome.zarr", "s3://twice/made.ome.zarr"
        files.put(str(folder / "cells.ome.zarr"), source, recursive=True)

        def command(*more: str) -> int:
            asked = ["--chunks", "y=32,x=32", "--codec", "gzip", *more]
            return main(["convert", source, made, *asked])

        asked = {"chunks": "y=32,x=32", "codec": "gzip"}
        with pytest.raises(KeyboardInterrupt):
            napari_ngff.convert(source, made, progress=stop_in_the_middle, **asked)
        # Chunks are there, and no reader takes them for an image.
        assert files.find("twice/made.ome.zarr")
        with pytest.raises(napari_ngff.OMEZarrError):
            napari_ngff.open(made)
        written = []
        put = RemoteStore.put_new
        monkeypatch.setattr(
            RemoteStore, "put_new", lambda *a: written.append(a[1]) or put(*a)
        )
        assert command("--resume") == 0
        assert list(tmp_path.glob("conversions/*")) == []
        chunks = [p for p in files.find("twice/made.ome.zarr") if "/c/" in p]
        assert 0 < len(written) < len(chunks)
        assert errors_of(made) == []
        copy = tmp_path / "copy.ome.zarr"
        files.get("twice/made.ome.zarr", str(copy), recursive=True)
        for name in ("0", "labels/nuclei/0"):
            before = pixels_of(folder / "cells.ome.zarr", name)
            assert np.array_equal(pixels_of(copy, name), before)


@pytest.mark.long
def test_objects_of_a_bucket_are_never_deleted(folder, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(new_hierarchy, "data_folder", lambda: tmp_path)
    monkeypatch.setattr(array_task, "CODED", 6_000)
    asked = {"chunks": "y=32,x=32", "codec": "gzip"}
    with bucket_server() as files:
        files.mkdir("kept")
        source = "s3://kept/cells.ome.zarr"
        files.put(str(folder / "cells.ome.zarr"), source, recursive=True)
        # Nothing is replaced, neither images nor objects of others.
        files.put(str(folder / "cells.ome.zarr"), "kept/made.ome.zarr", recursive=True)
        assert main(["convert", source, "s3://kept/made.ome.zarr"]) == 1
        files.pipe("kept/other.ome.zarr/mine.txt", b"mine")
        with pytest.raises(FileExistsError, match="other objects"):
            napari_ngff.convert(source, "s3://kept/other.ome.zarr")
        assert files.cat("kept/other.ome.zarr/mine.txt") == b"mine"
        # Nor what a stopped run has left: others may have put theirs beside it.
        again = "s3://kept/again.ome.zarr"
        with pytest.raises(KeyboardInterrupt):
            napari_ngff.convert(source, again, progress=stop_in_the_middle, **asked)
        files.pipe("kept/again.ome.zarr/mine.txt", b"mine")
        with pytest.raises(FileExistsError, match="was stopped"):
            napari_ngff.convert(source, again, levels="0")
        napari_ngff.convert(source, again, resume=True, **asked)
        assert errors_of(again) == []
        assert files.cat("kept/again.ome.zarr/mine.txt") == b"mine"
