"""What is written aside is there wholly, or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import zipfile

import pytest

from napari_ngff.errors import AccessError
from napari_ngff.store.creation import group_documents
from napari_ngff.store.draft import LEFT_BEHIND, Draft

GROUP = group_documents({"ome": {"version": "0.5"}}, "0.5")["zarr.json"]


def write(target, content=b"x", **options):
    with Draft(target, **options) as draft:
        draft.put("zarr.json", GROUP)
        draft.put("0/c/0", content)
        assert not target.exists() or options
    return target


def test_folder_gets_its_name_at_the_end(tmp_path):
    target = write(tmp_path / "deep" / "new.zarr")
    assert (target / "0" / "c" / "0").read_bytes() == b"x"
    assert [p.name for p in target.parent.iterdir()] == ["new.zarr"]


def test_others_may_read_it_as_other_folders(tmp_path):
    (tmp_path / "plain").mkdir()
    target = write(tmp_path / "new.zarr")
    assert target.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_single_file(tmp_path):
    target = write(tmp_path / "new.ozx")
    with zipfile.ZipFile(target) as archive:
        assert archive.namelist() == ["zarr.json", "0/c/0"]
    assert [p.name for p in tmp_path.iterdir()] == ["new.ozx"]


def test_an_error_leaves_nothing(tmp_path):
    def fail():
        with Draft(tmp_path / "new.zarr") as draft:
            draft.put("zarr.json", GROUP)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_replaced_unasked(tmp_path):
    target = write(tmp_path / "new.zarr")
    with pytest.raises(FileExistsError, match="Choose another name"):
        write(target, b"y")
    assert (target / "0" / "c" / "0").read_bytes() == b"x"
    write(target, b"y", overwrite=True)
    assert (target / "0" / "c" / "0").read_bytes() == b"y"
    assert [p.name for p in tmp_path.iterdir()] == ["new.zarr"]


def test_a_folder_that_is_no_zarr_is_never_replaced(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.txt").write_text("years")
    with pytest.raises(FileExistsError, match="no zarr"):
        write(tmp_path / "work", overwrite=True)
    assert (tmp_path / "work" / "thesis.txt").read_text() == "years"


def test_somebody_else_was_faster(tmp_path):
    def late():
        with Draft(tmp_path / "new.zarr") as draft:
            draft.put("zarr.json", b"mine")
            (tmp_path / "new.zarr").mkdir()
            (tmp_path / "new.zarr" / "zarr.json").write_text("theirs")

    with pytest.raises(FileExistsError):
        late()
    assert (tmp_path / "new.zarr" / "zarr.json").read_text() == "theirs"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may")
def test_no_permission(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(AccessError, match="Choose another folder"):
        write(tmp_path / "new.zarr")
    tmp_path.chmod(0o700)


KILLED = """
import os, sys
from napari_ngff.store.draft import Draft
with Draft(sys.argv[1], overwrite=True) as draft:
    draft.put("zarr.json", b"{}")
    for i in range(10**6):
        draft.put(f"0/c/{i}", os.urandom(99))
        if i == 50:
            print("go", flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal")
def test_a_process_that_is_killed_leaves_the_old_one(tmp_path):
    target = write(tmp_path / "new.zarr")
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(target)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.wait()
    process.stdout.close()
    assert (target / "0" / "c" / "0").read_bytes() == b"x"
    left = [p for p in tmp_path.iterdir() if p != target]
    assert len(left) == 1
    assert left[0].name.startswith(".new.zarr.")
    write(target, b"y", overwrite=True)
    assert left[0].exists()  # as far as one can know, somebody is at work on it
    before = time.time() - LEFT_BEHIND - 60
    for folder, _, files in os.walk(left[0], topdown=False):
        for name in files:
            os.utime(f"{folder}/{name}", (before, before))
        os.utime(folder, (before, before))
    write(target, b"z", overwrite=True)
    assert not left[0].exists()
