"""Objects that wait, and get their names together."""

import os
import threading

import pytest

from napari_ngff.errors import ConflictError
from napari_ngff.store import staged as module
from napari_ngff.store.sink import FolderSink
from napari_ngff.store.staged import StagedFolder, staged


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/old").write_bytes(b"old")
    return tmp_path


@pytest.fixture
def sink(folder):
    return staged(FolderSink(str(folder)))


def names(folder):
    return sorted(p.name for p in folder.rglob("*") if p.is_file())


def test_what_waits_is_read_and_not_yet_named(folder, sink):
    sink.put("a/old", b"new")
    sink.put("b/c", b"more")
    assert sink.uncommitted
    assert sink.source.get("a/old") == b"new"
    assert sink.source.get("b/c", 1, 2) == b"or"
    assert (folder / "a/old").read_bytes() == b"old"
    assert not (folder / "b/c").exists()
    assert sink.commit()
    assert not sink.uncommitted
    assert (folder / "a/old").read_bytes() == b"new"
    assert names(folder) == ["c", "old"]


def test_the_state_of_an_object_is_the_same_before_and_after(sink):
    sink.put("a/old", b"new")
    mark = sink.mark("a/old")
    sink.commit()
    assert sink.mark("a/old") == mark


def test_removal_waits_too(folder, sink):
    sink.delete("a/old")
    sink.delete("a/nothing")
    assert sink.source.get("a/old") is None
    assert sink.mark("a/old") is None
    assert (folder / "a/old").exists()
    sink.commit()
    assert names(folder) == []


def test_the_last_word_counts(folder, sink):
    sink.delete("a/old")
    sink.put("a/old", b"one")
    sink.put("a/old", b"two")
    sink.commit()
    assert (folder / "a/old").read_bytes() == b"two"
    assert names(folder) == ["old"]


def test_what_others_changed_meanwhile_stays(folder, sink):
    sink.put("a/old", b"mine")
    sink.put("a/new", b"mine")
    sink.put("a/third", b"mine")
    for name in ("old", "new"):
        (folder / "a" / name).write_bytes(b"theirs")
    with pytest.raises(ConflictError, match=r"a/old was changed.*\n.*a/new was"):
        sink.commit()
    assert (folder / "a/old").read_bytes() == b"theirs"
    assert (folder / "a/new").read_bytes() == b"theirs"
    assert (folder / "a/third").read_bytes() == b"mine"
    assert sink.commit()
    assert names(folder) == ["new", "old", "third"]


def test_the_guard_is_asked_before_anything_is_named(folder, sink):
    found = []
    sink.guard = lambda: found.append((folder / "a/old").read_bytes())
    sink.put("a/old", b"new")
    sink.commit()
    assert found == [b"old"]


def test_nothing_is_named_where_the_guard_fails(folder, sink):
    def fail():
        raise OSError(5, "Input/output error")

    sink.guard = fail
    sink.put("a/old", b"new")
    with pytest.raises(OSError, match="Input/output"):
        sink.commit()
    assert (folder / "a/old").read_bytes() == b"old"
    sink.guard = None
    sink.commit()
    assert (folder / "a/old").read_bytes() == b"new"


def test_bytes_are_flushed_before_names_and_folders_after(folder, sink, monkeypatch):
    done = []
    for name in ("flush_file", "flush_folder", "rename"):
        call = getattr(module, name)

        def noted(*given, name=name, call=call):
            done.append(name)
            call(*given)

        monkeypatch.setattr(module, name, noted)
    for number in range(20):
        sink.put(f"b/{number}", b"x")
    sink.commit()
    assert done[:20] == ["flush_file"] * 20
    assert done[20:40] == ["rename"] * 20
    assert set(done[40:]) == {"flush_folder"}


def test_folders_that_are_new_are_flushed_in_theirs(folder, sink, monkeypatch):
    seen = set()
    monkeypatch.setattr(module, "flush_folder", seen.add)
    sink.put("b/c/d/e", b"x")
    sink.commit()
    below = {str(folder / name) for name in ("b/c/d", "b/c", "b")}
    assert seen == below | {str(folder)}


@pytest.mark.parametrize("limit", ["MOST", "LONGEST"])
def test_much_and_long_waiting_is_named_sooner(folder, sink, monkeypatch, limit):
    monkeypatch.setattr(module, limit, {"MOST": 5, "LONGEST": -1.0}[limit])
    for number in range(7):
        sink.put(f"b/{number}", b"x")
    named = [name for name in names(folder / "b") if "." not in name]
    assert len(named) >= 5
    sink.commit()
    assert len(names(folder / "b")) == 7


def test_many_threads_put_and_settle(folder, sink, monkeypatch):
    monkeypatch.setattr(module, "MOST", 8)

    def put(first):
        for number in range(first, 200, 4):
            sink.put(f"b/{number % 16}/{number}", b"%d" % number)
            assert sink.source.get(f"b/{number % 16}/{number}") == b"%d" % number

    threads = [threading.Thread(target=put, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sink.commit()
    found = {p.name: p.read_bytes() for p in (folder / "b").rglob("*") if p.is_file()}
    assert found == {str(n): b"%d" % n for n in range(200)}


def test_a_file_that_is_lost_is_no_success(folder, sink):
    sink.put("a/old", b"new")
    for part in folder.rglob("*.part"):
        part.unlink()
    with pytest.raises(ConflictError):
        sink.commit()
    assert (folder / "a/old").read_bytes() == b"old"
    assert not sink.uncommitted


def test_the_mode_of_a_file_is_kept(folder, sink):
    os.chmod(folder / "a/old", 0o640)
    sink.put("a/old", b"new")
    sink.commit()
    assert (folder / "a/old").stat().st_mode & 0o777 == 0o640


def test_a_folder_that_is_cleared_takes_what_waits_along(folder, sink):
    sink.put("a/new", b"x")
    sink.put("b/new", b"x")
    sink.clear("a")
    sink.commit()
    assert names(folder) == ["new"]
    assert isinstance(sink, StagedFolder)
