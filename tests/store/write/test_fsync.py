"""What is flushed while other files are written."""

from __future__ import annotations

import threading

import pytest

from napari_ngff.store.write import fsync as module
from napari_ngff.store.write.fsync import AT_ONCE, FlushQueue


def test_a_file_that_is_gone_is_an_error(tmp_path):
    flushing = FlushQueue()
    (tmp_path / "there").touch()
    for name in ("there", "none", "there"):
        flushing.add_file(str(tmp_path / name))
    with pytest.raises(FileNotFoundError, match="none"):
        flushing.finish_flushing()
    flushing.stop_flushing()


def test_many_files_wait_no_more_than_so_many(monkeypatch):
    monkeypatch.setattr(module, "AHEAD", 20)
    begun, go = [], threading.Event()

    def slow(path):
        begun.append(path)
        assert go.wait(60)

    monkeypatch.setattr(module, "flush_file", slow)
    flushing, added = FlushQueue(), []

    def add():
        for i in range(99):
            flushing.add_file(str(i))
            added.append(i)

    writer = threading.Thread(target=add)
    writer.start()
    writer.join(0.5)  # as far as it gets
    assert len(added) <= 20 + AT_ONCE
    go.set()
    writer.join()
    flushing.finish_flushing()
    assert sorted(begun, key=int) == [str(i) for i in range(99)]


def test_what_nobody_began_with_is_forgotten(monkeypatch):
    begun, go = [], threading.Event()

    def slow(path):
        begun.append(path)
        assert go.wait(60)

    monkeypatch.setattr(module, "flush_file", slow)
    flushing = FlushQueue()
    for i in range(100):
        flushing.add_file(str(i))
    stopping = threading.Thread(target=flushing.stop_flushing)
    stopping.start()
    stopping.join(0.2)
    go.set()
    stopping.join()
    assert len(begun) < 100
