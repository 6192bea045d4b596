"""What is written aside is there wholly, or not at all."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import zipfile

import pytest

from napari_ngff.errors import AccessError, ConflictError
from napari_ngff.store.arrays.array_document import group_documents
from napari_ngff.store.write import fsync, replace_tree
from napari_ngff.store.write.new_hierarchy import NewHierarchy

GROUP = group_documents({"ome": {"version": "0.5"}}, "0.5")["zarr.json"]


def write(target, content=b"x", **options):
    with NewHierarchy(target, **options) as draft:
        draft.put("zarr.json", GROUP)
        draft.put("0/c/0", content)
        assert not target.exists() or options
    return target


def test_folder_gets_its_name_at_the_end(tmp_path):
    target = write(tmp_path / "deep" / "new.zarr")
    assert (target / "0" / "c" / "0").read_bytes() == b"x"
    assert [p.name for p in target.parent.iterdir()] == ["new.zarr"]


def test_everything_is_on_the_disk_before_the_name_is(tmp_path, monkeypatch):
    flushed = []

    def flush(path):
        assert not (tmp_path / "new.zarr").exists() or path == str(tmp_path)
        flushed.append(path)

    monkeypatch.setattr(fsync, "flush_file", flush)
    monkeypatch.setattr(replace_tree, "flush_folder", flush)
    with NewHierarchy(tmp_path / "new.zarr") as draft:
        draft.put("zarr.json", GROUP)
        draft.put("0/c/3/4", b"x")  # alone in 3, while 0 and c hold but folders
    names = "", "/0", "/0/c", "/0/c/3", "/0/c/3/4", "/zarr.json"
    assert sorted(flushed[:-1]) == [draft.root + name for name in names]
    assert flushed[-1] == str(tmp_path)


def test_what_does_not_get_to_the_disk_gets_no_name(tmp_path, monkeypatch):
    def fail(handle):
        raise OSError(errno.EIO, "The disk is broken")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="The disk is broken"):
        write(tmp_path / "new.zarr")
    assert list(tmp_path.iterdir()) == []


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
        with NewHierarchy(tmp_path / "new.zarr") as draft:
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
    (tmp_path / "work" / ".zattrs").write_text("{}")
    with pytest.raises(FileExistsError, match="not a zarr"):
        write(tmp_path / "work", overwrite=True)
    assert (tmp_path / "work" / "thesis.txt").read_text() == "years"


def test_somebody_else_was_faster(tmp_path):
    def late():
        with NewHierarchy(tmp_path / "new.zarr") as draft:
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
    with pytest.raises(AccessError, match="save elsewhere"):
        write(tmp_path / "new.zarr")
    tmp_path.chmod(0o700)


DIES = """
import os, signal, sys
from napari_ngff.store.write import new_hierarchy as module
from napari_ngff.store.write import fsync, replace_tree
from napari_ngff.store.write import fsync
plain, calls = os.rename, []

def rename(*names):
    calls.append(names)
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    plain(*names)

os.rename = rename
if sys.argv[2] == "no":
    replace_tree.exchange_paths = lambda *_: False
with module.NewHierarchy(sys.argv[1], overwrite=True) as draft:
    draft.put("zarr.json", b"{}")
    draft.put("0/c/0", b"y")
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal")
@pytest.mark.parametrize("swaps", ["yes", "no"])
def test_killed_while_it_takes_the_place_nothing_is_lost(tmp_path, swaps):
    target = write(tmp_path / "new.zarr")
    command = [sys.executable, "-c", DIES, str(target), swaps]
    died = subprocess.run(command).returncode != 0
    assert died == (swaps == "no")
    if died:
        with pytest.raises(ZeroDivisionError), NewHierarchy(target, overwrite=True):
            raise ZeroDivisionError
    chunk = target / "0" / "c" / "0"
    assert chunk.read_bytes() == b"y"
    assert [p.name for p in tmp_path.iterdir()] == ["new.zarr"]


def test_a_place_that_cannot_be_taken_nor_given_back_loses_nothing(
    tmp_path, monkeypatch
):
    target = write(tmp_path / "new.zarr")
    plain, calls = os.rename, []

    def rename(*names):
        calls.append(names)
        if len(calls) > 1:
            raise OSError("The disk is gone.")
        plain(*names)

    monkeypatch.setattr(replace_tree, "exchange_paths", lambda *_: False)
    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(OSError, match="The disk is gone"):
        write(target, b"y", overwrite=True)
    monkeypatch.undo()
    (kept,) = tmp_path.glob(".new.zarr.*/old/0/c/0")
    assert kept.read_bytes() == b"x"


@pytest.mark.parametrize("name", ["new.zarr", "new.ozx"])
def test_what_a_link_leads_to_is_replaced(tmp_path, name):
    (tmp_path / "disk").mkdir()
    target = write(tmp_path / "disk" / name)
    link = tmp_path / name
    link.symlink_to(target)
    write(link, b"y", overwrite=True)
    assert link.is_symlink()
    if target.is_dir():
        assert (target / "0" / "c" / "0").read_bytes() == b"y"
    else:
        with zipfile.ZipFile(target) as archive:
            assert archive.read("0/c/0") == b"y"
    assert [p.name for p in tmp_path.iterdir() if p != link] == ["disk"]
    assert [p.name for p in target.parent.iterdir()] == [name]


KILLED = """
import os, sys
from napari_ngff.store.write.new_hierarchy import NewHierarchy
with NewHierarchy(sys.argv[1], overwrite=True) as draft:
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
    assert [p.name for p in tmp_path.iterdir()] == ["new.zarr"]


def test_what_somebody_is_at_work_on_is_left_alone(tmp_path):
    with NewHierarchy(tmp_path / "new.zarr") as draft:
        draft.put("zarr.json", GROUP)
        with pytest.raises(ConflictError, match="by another window"):
            write(tmp_path / "new.zarr")
        write(tmp_path / "other.zarr")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["new.zarr", "other.zarr"]
