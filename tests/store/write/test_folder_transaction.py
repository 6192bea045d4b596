"""Objects that wait, and get their names together."""

import os
import threading

import pytest

from napari_ngff.errors import ConflictError
from napari_ngff.store.sources import folder_store as module
from napari_ngff.store.sources.folder_store import FolderTransaction


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/old").write_bytes(b"old")
    return tmp_path


@pytest.fixture
def transaction(folder):
    return FolderTransaction(str(folder))


def names(folder):
    return sorted(p.name for p in folder.rglob("*") if p.is_file())


def test_what_waits_is_read_and_not_yet_named(folder, transaction):
    transaction.put("a/old", b"new")
    transaction.put("b/c", b"more")
    assert transaction.uncommitted
    assert transaction.source.get("a/old") == b"new"
    assert transaction.source.get("b/c", 1, 2) == b"or"
    assert (folder / "a/old").read_bytes() == b"old"
    assert not (folder / "b/c").exists()
    assert transaction.commit()
    assert not transaction.uncommitted
    assert (folder / "a/old").read_bytes() == b"new"
    assert names(folder) == ["c", "old"]


def test_the_state_of_an_object_is_the_same_before_and_after(transaction):
    transaction.put("a/old", b"new")
    mark = transaction.find_revision("a/old")
    transaction.commit()
    assert transaction.find_revision("a/old") == mark


def test_removal_waits_too(folder, transaction):
    transaction.delete("a/old")
    transaction.delete("a/nothing")
    assert transaction.source.get("a/old") is None
    assert transaction.find_revision("a/old") is None
    assert (folder / "a/old").exists()
    transaction.commit()
    assert names(folder) == []


def test_nothing_is_expected_of_what_was_not_there_to_be_removed(folder, transaction):
    transaction.expect_revision("a/new", None)
    transaction.delete("a/new")
    (folder / "a/new").write_bytes(b"theirs")
    transaction.put("a/new", b"mine")
    assert transaction.commit()
    assert (folder / "a/new").read_bytes() == b"mine"


def test_the_last_word_counts(folder, transaction):
    transaction.delete("a/old")
    transaction.put("a/old", b"one")
    transaction.put("a/old", b"two")
    transaction.commit()
    assert (folder / "a/old").read_bytes() == b"two"
    assert names(folder) == ["old"]


def test_what_is_made_of_a_refused_object_is_refused(folder, transaction):
    for key, sources in (("a/old", []), ("a/made", ["a/old"]), ("b/made", ["a/made"])):
        transaction.put(key, b"mine")
        transaction.note_sources(key, sources)
    transaction.put("a/other", b"mine")
    (folder / "a/old").write_bytes(b"theirs")
    with pytest.raises(ConflictError):
        transaction.commit()
    assert names(folder) == ["old", "other"]
    assert (folder / "a/old").read_bytes() == b"theirs"


def test_what_others_changed_meanwhile_stays(folder, transaction):
    transaction.put("a/old", b"mine")
    transaction.put("a/new", b"mine")
    transaction.put("a/third", b"mine")
    for name in ("old", "new"):
        (folder / "a" / name).write_bytes(b"theirs")
    with pytest.raises(ConflictError, match=r"a/old was changed.*others: 2 in all"):
        transaction.commit()
    assert (folder / "a/old").read_bytes() == b"theirs"
    assert (folder / "a/new").read_bytes() == b"theirs"
    assert (folder / "a/third").read_bytes() == b"mine"
    assert transaction.commit()
    assert names(folder) == ["new", "old", "third"]


def test_what_restores_it_is_secured_before_anything_is_named(folder, transaction):
    found = []
    transaction.put(
        "a/old", b"new", lambda: found.append((folder / "a/old").read_bytes())
    )
    transaction.commit()
    assert found == [b"old"]


def test_nothing_is_named_where_that_fails(folder, transaction):
    def fail():
        if fails:
            raise OSError(5, "Input/output error")

    fails = [True]
    transaction.put("a/old", b"new", fail)
    with pytest.raises(OSError, match="Input/output"):
        transaction.commit()
    assert (folder / "a/old").read_bytes() == b"old"
    fails.clear()
    transaction.commit()
    assert (folder / "a/old").read_bytes() == b"new"


def test_bytes_are_flushed_before_names_and_folders_after(
    folder, transaction, monkeypatch
):
    done = []
    for name in ("flush_file", "flush_folder", "rename_over"):
        call = getattr(module, name)

        def noted(*given, name=name, call=call):
            done.append(name)
            return call(*given)

        monkeypatch.setattr(module, name, noted)
    for number in range(20):
        transaction.put(f"b/{number}", b"x")
    transaction.commit()
    assert done[:20] == ["flush_file"] * 20
    assert done[20:40] == ["rename_over"] * 20
    assert set(done[40:]) == {"flush_folder"}


def test_folders_that_are_new_are_flushed_in_theirs(folder, transaction, monkeypatch):
    seen = set()
    monkeypatch.setattr(module, "flush_folder", seen.add)
    transaction.put("b/c/d/e", b"x")
    transaction.commit()
    below = {str(folder / name) for name in ("b/c/d", "b/c", "b")}
    assert seen == below | {str(folder)}


@pytest.mark.parametrize("limit", ["MOST_WAITING", "LONGEST_WAIT"])
def test_much_and_long_waiting_is_named_sooner(folder, transaction, monkeypatch, limit):
    monkeypatch.setattr(module, limit, {"MOST_WAITING": 5, "LONGEST_WAIT": -1.0}[limit])
    for number in range(7):
        transaction.put(f"b/{number}", b"x")
    named = [name for name in names(folder / "b") if "." not in name]
    assert len(named) >= 5
    transaction.commit()
    assert len(names(folder / "b")) == 7


def test_many_threads_put_and_settle(folder, transaction, monkeypatch):
    monkeypatch.setattr(module, "MOST_WAITING", 8)

    def put(first):
        for number in range(first, 200, 4):
            transaction.put(f"b/{number % 16}/{number}", b"%d" % number)
            assert transaction.source.get(f"b/{number % 16}/{number}") == b"%d" % number

    threads = [threading.Thread(target=put, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    transaction.commit()
    found = {p.name: p.read_bytes() for p in (folder / "b").rglob("*") if p.is_file()}
    assert found == {str(n): b"%d" % n for n in range(200)}


def test_a_file_that_is_lost_is_no_success(folder, transaction):
    transaction.put("a/old", b"new")
    for part in folder.rglob("*.aside"):
        part.unlink()
    with pytest.raises(ConflictError):
        transaction.commit()
    assert (folder / "a/old").read_bytes() == b"old"
    assert not transaction.uncommitted


def test_the_mode_of_a_file_is_kept(folder, transaction):
    os.chmod(folder / "a/old", 0o640)
    transaction.put("a/old", b"new")
    transaction.commit()
    assert (folder / "a/old").stat().st_mode & 0o777 == 0o640


def test_a_folder_that_is_cleared_takes_what_waits_along(folder, transaction):
    transaction.put("a/new", b"x")
    transaction.put("b/new", b"x")
    transaction.remove_below("a")
    transaction.commit()
    assert names(folder) == ["new"]
