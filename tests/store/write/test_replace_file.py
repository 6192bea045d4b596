"""A file takes the place of another only where that is still what was read."""

import errno
import os
import threading

import pytest

from napari_ngff.errors import error_text
from napari_ngff.store.sources.blob import Revision
from napari_ngff.store.sources.folder_store import FolderTransaction
from napari_ngff.store.write import replace_file as module
from napari_ngff.store.write.fsync import flush_open_file
from napari_ngff.store.write.replace_file import rename_over


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "0"
    path.write_bytes(b"old")
    return path


def put(path, data):
    """Write as another program does: beside it, and renamed."""
    beside = path.with_name("beside")
    beside.write_bytes(data)
    os.replace(beside, path)


def aside(path):
    found = path.with_name(".0.aside")
    found.write_bytes(b"new")
    return found


def take_place(path, before):
    return rename_over(str(aside(path)), str(path), before)


def test_what_was_read_is_replaced(path):
    assert take_place(path, Revision.of_file(path))
    assert path.read_bytes() == b"new"
    assert os.listdir(path.parent) == ["0"]


@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_what_another_writes_at_the_last_moment_stays(path, monkeypatch, times):
    """Between the last look and the swap, and between that and the swap back."""
    exchange, written = module.exchange_paths, []

    def late(one, other):
        if len(written) < times:
            written.append(b"theirs %d" % len(written))
            put(path, written[-1])
        return exchange(one, other)

    before = Revision.of_file(path)
    beside = path.with_name("1")
    beside.write_bytes(b"x")
    if not exchange(str(beside), str(path)) or not exchange(str(beside), str(path)):
        pytest.skip("this system cannot")
    beside.unlink()
    monkeypatch.setattr(module, "exchange_paths", late)
    assert not take_place(path, before)
    assert path.read_bytes() == written[-1]
    assert os.listdir(path.parent) == ["0"]


def test_what_another_makes_at_the_last_moment_stays(path, monkeypatch):
    rename = module.rename_to_free

    def late(one, other):
        put(path, b"theirs")
        return rename(one, other)

    path.unlink()
    monkeypatch.setattr(module, "rename_to_free", late)
    if not take_place(path, None):
        assert path.read_bytes() == b"theirs"
        assert os.listdir(path.parent) == ["0"]


def test_what_another_removes_at_the_last_moment_is_gone(path, monkeypatch):
    exchange = module.exchange_paths

    def late(one, other):
        path.unlink()
        return exchange(one, other)

    monkeypatch.setattr(module, "exchange_paths", late)
    assert not take_place(path, Revision.of_file(path))
    assert os.listdir(path.parent) == []


def test_where_the_system_cannot_swap_it_is_renamed(path, monkeypatch):
    for name in ("exchange_paths", "rename_to_free"):
        monkeypatch.setattr(module, name, lambda *_: False)
    assert take_place(path, Revision.of_file(path))
    assert path.read_bytes() == b"new"
    path.unlink()
    assert take_place(path, None)
    assert os.listdir(path.parent) == ["0"]


def test_who_reads_while_names_are_given_reads_what_was_put(tmp_path):
    """What had to make room lies aside for a moment."""
    transaction = FolderTransaction(str(tmp_path))
    source, number, over, wrong = transaction.source, [0], threading.Event(), []

    def read():
        while not over.is_set():
            least = number[0]
            found = int(source.get("a/0") or b"-1")
            if found < least:
                wrong.append((least, found))

    transaction.put("a/0", b"0")
    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for one in range(1, 150):
        transaction.put("a/0", b"%d" % one)
        number[0] = one
        transaction.place_waiting()
    over.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_flush_that_fails_names_the_file(tmp_path, monkeypatch):
    def fail(_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    path = tmp_path / "before.bin"
    with path.open("ab") as file, pytest.raises(OSError, match="Input") as caught:
        flush_open_file(file)
    assert str(path) in error_text(caught.value)
