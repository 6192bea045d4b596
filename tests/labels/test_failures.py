"""What goes wrong while labels are saved: it is reported, and nothing is lost by it."""

import errno
import os
import shutil
import subprocess
import tempfile
import time
import zipfile
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from zarr.codecs import ZstdCodec

from napari_ngff.errors import AccessError, NodeNotFoundError
from napari_ngff.labels.journal import read_journal
from napari_ngff.store.sources.archive_store import ArchiveStore
from saving import (
    edit,
    journaled,
    levels_of,
    open_canvas,
    read_levels,
    recovered,
    write_levels,
)

SHAPES = ((120, 150), (60, 75), (30, 38))
EDITS = 12
NOBODY = 65534


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def write(folder):
    levels = levels_of(np.ones(SHAPES[0], "u2"), SHAPES[1:], "mode")
    return write_levels(folder, levels, (16, 24), compressors=ZstdCodec(level=1))


@pytest.fixture
def label(tmp_path):
    return write(tmp_path / "store" / "label")


def painted(label, source=None):
    """Open labels with a journal, and paint."""
    writer = journaled(label, open_canvas(label, 3, source=source), "mode")
    canvas = writer.canvas
    for number in range(EDITS):
        canvas.begin_step()
        canvas.add_edit(edit(number, 1, SHAPES[0]))
        canvas.close_step()
    writer.journal.sync()
    return writer


def check_saved(label, writer):
    """Compare all levels with what is shown, and see that nothing is left beside."""
    assert not writer.has_unsaved
    shown = writer.canvas.read(0, tuple((0, n) for n in SHAPES[0]))
    levels = levels_of(shown, SHAPES[1:], "mode")
    for got, want in zip(read_levels(label, 3), levels, strict=True):
        np.testing.assert_array_equal(got, want)
    assert not list(Path(label).rglob("*.aside"))


def check_kept(writer):
    """See that a process that starts now could recover all that was painted."""
    assert writer.has_unsaved
    found = read_journal(writer.journal.folder)
    assert len(found.edits) == EDITS
    assert found.unsaved_count == EDITS


def once(level, do):
    """Make a progress callback that does something when a level has begun."""
    done = []

    def progress(number, count, total):
        if number == level and not done:
            done.append(number)
            do()

    return progress


@contextmanager
def as_nobody():
    """Be a user without rights for a while, all threads of this process."""
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def shared(monkeypatch):
    """A folder that everybody can reach, and root alone can write."""
    if not hasattr(os, "geteuid") or os.geteuid():
        pytest.skip("only root can be somebody else")
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    for name in ("data", "label"):
        (folder / name).mkdir()
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    write(folder / "label")
    give(folder, NOBODY)
    yield folder
    shutil.rmtree(folder)


def give(folder, user):
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, user, user)


def take_away(folder):
    """Let the folders of a level be root's while somebody else works there."""
    os.seteuid(0)
    give(folder, 0)
    os.seteuid(NOBODY)


@pytest.mark.parametrize("at", [0, 1])
def test_permission_that_is_lost_half_way(shared, at):
    label = shared / "label"
    with as_nobody():
        writer = painted(label)
        loss = once(at, lambda: take_away(label / str(at)))
        with pytest.raises(AccessError, match=f"No permission to write .*label/{at}/c"):
            writer.save(loss)
        check_kept(writer)
    give(label, NOBODY)
    with as_nobody():
        assert writer.save().refused == ()
        check_saved(label, writer)
        writer.journal.remove()


def test_permission_that_is_lost_when_all_is_written_aside(shared):
    label = shared / "label"
    with as_nobody():
        writer = painted(label)
        secure, taking = writer._flush_undo_data, [label / "0"]
        writer._flush_undo_data = lambda: [take_away(taking.pop()) for _ in taking[:1]]
        with pytest.raises(AccessError, match=r"No permission to write .*label/0/c"):
            writer.save()
        check_kept(writer)
        assert (read_levels(label, 1)[0] == 1).all()
    give(label, NOBODY)
    with as_nobody():
        writer._flush_undo_data = secure
        writer.save()
        check_saved(label, writer)
        writer.journal.remove()


def test_labels_of_another_user_can_be_saved_after_a_restart(shared):
    label = shared / "label"
    with as_nobody():
        writer = painted(label)
        with pytest.raises(AccessError):
            writer.save(once(1, lambda: take_away(label)))
        writer.journal.close()
    give(shared, NOBODY)
    assert list(label.rglob("*.aside"))
    with as_nobody():
        writer = recovered(label, open_canvas(label, 3), "mode")
        writer.save()
        check_saved(label, writer)
        writer.journal.remove()


@pytest.fixture
def disk(tmp_path):
    """A disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if mount("-t", "tmpfs", "-o", "size=4m", "tmpfs", folder):
        pytest.skip("no permission to mount a disk")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def mount(*arguments):
    if not shutil.which("mount"):
        return 1
    command = ["mount", *map(str, arguments)]
    return subprocess.run(command, capture_output=True).returncode


def remount(disk, how):
    end = time.monotonic() + 10  # busy while a block is being written
    while mount("-o", f"remount,{how}", disk) and time.monotonic() < end:
        time.sleep(0.01)


def test_a_disk_that_becomes_read_only(disk):
    label = write(disk / "label")
    writer = painted(label)
    with pytest.raises(OSError, match=r"Read-only file system: .*label"):
        writer.save(once(1, lambda: remount(disk, "ro")))
    check_kept(writer)
    remount(disk, "rw")
    writer.save()
    check_saved(label, writer)
    writer.journal.remove()


def test_a_disk_that_is_full_while_an_archive_is_saved(disk, tmp_path):
    folder = write(tmp_path / "label")
    file = pack_plain(folder, disk / "label.ozx")
    before = file.read_bytes()
    writer = painted(file, ArchiveStore(file))
    ballast = disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as fill:
        while fill.write(bytes(4096)):
            pass
    with pytest.raises(OSError, match=r"No space left|no room|are needed") as caught:
        writer.save()
    assert caught.value.errno == errno.ENOSPC
    assert file.read_bytes() == before
    assert sorted(os.listdir(disk)) == ["ballast", "label.ozx"]
    check_kept(writer)
    ballast.unlink()
    writer.save()
    shutil.rmtree(folder)
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        archive.extractall(folder)
    check_saved(folder, writer)
    writer.journal.remove()


def pack_plain(folder, file):
    """Pack as anybody would."""
    with zipfile.ZipFile(file, "w") as archive:
        for path in sorted(one for one in folder.rglob("*") if one.is_file()):
            archive.write(path, path.relative_to(folder).as_posix())
    return file


def remove_array(label):
    shutil.rmtree(label / "1")


def remove_document(label):
    (label / "1" / "zarr.json").unlink()


def remove_all(label):
    shutil.rmtree(label.parent)


REMOVALS = [remove_array, remove_document, remove_all]


def check_gone(label, copy, writer, caught):
    """See what is reported, that nothing was made anew, and that a copy mends it."""
    assert f"Array missing: {label}/" in str(caught.value)
    assert "Restore it" in str(caught.value)
    check_kept(writer)
    if label.exists():
        assert not (label / "1" / "zarr.json").exists()
    else:
        assert not label.parent.exists()
    writer.journal.close()
    shutil.rmtree(label, ignore_errors=True)
    shutil.copytree(copy, label)
    writer = recovered(label, open_canvas(label, 3), "mode")
    assert writer.save().refused == ()
    check_saved(label, writer)
    writer.journal.remove()


@pytest.mark.parametrize("remove", REMOVALS)
def test_what_was_removed_while_painting(label, tmp_path, remove):
    copy = shutil.copytree(label, tmp_path / "copy")
    writer = painted(label)
    remove(label)
    with pytest.raises(NodeNotFoundError) as caught:
        writer.save()
    check_gone(label, copy, writer, caught)


@pytest.mark.parametrize("remove", REMOVALS)
@pytest.mark.parametrize("level", [0, 1])
def test_what_is_removed_while_saving(label, tmp_path, remove, level):
    copy = shutil.copytree(label, tmp_path / "copy")
    writer = painted(label)
    with pytest.raises(NodeNotFoundError) as caught:
        # A thread may just be writing a file into what is removed.
        writer.save(once(level, lambda: [again(remove, label) for _ in range(3)]))
    check_gone(label, copy, writer, caught)


def again(remove, label):
    with suppress(OSError):
        remove(label)


def test_what_is_removed_when_all_is_written_aside(label, tmp_path):
    copy = shutil.copytree(label, tmp_path / "copy")
    writer = painted(label)
    writer._flush_undo_data = lambda: remove_all(label)
    with pytest.raises(NodeNotFoundError) as caught:
        writer.save()
    check_gone(label, copy, writer, caught)


def test_a_store_that_is_moved_away_and_back(label, tmp_path):
    writer = painted(label)
    secure = writer._flush_undo_data
    writer._flush_undo_data = lambda: label.parent.rename(tmp_path / "elsewhere")
    with pytest.raises(NodeNotFoundError, match="Array missing"):
        writer.save()
    check_kept(writer)
    assert not label.exists()
    (tmp_path / "elsewhere").rename(label.parent)
    writer._flush_undo_data = secure
    while writer.has_unsaved:
        writer.save()
    for part in label.rglob("*.aside"):  # an hour later they are swept
        part.unlink()
    check_saved(label, writer)
    writer.journal.remove()
