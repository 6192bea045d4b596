"""Entries of a cache on disk are bounded, replaced whole, and deleted by age."""

from __future__ import annotations

import os

import pytest

from napari_ngff.store.disk_cache import LATER, DiskCache


@pytest.fixture
def cache(tmp_path):
    return DiskCache(tmp_path / "chunks", ".chunk", 1000)


def test_what_is_kept_is_there_for_another_process(cache, tmp_path):
    assert cache.load("a") is None
    cache.keep("a", b"head", memoryview(b"bytes"))
    assert DiskCache(tmp_path / "chunks", ".chunk", 1000).load("a") == b"headbytes"
    cache.keep("a", b"new")
    assert cache.load("a") == b"new"
    assert len(cache.list_entries()) == 1


def test_the_least_recently_used_entries_go(cache):
    for number, name in enumerate("abcd"):
        cache.keep(name, bytes(220))
        os.utime(cache.path_of(name), (number, number))
    cache.note_use("a")
    cache.keep("e", bytes(220))
    assert [name for name in "abcde" if cache.load(name)] == ["a", "c", "d", "e"]
    assert sum(size for _, size, _ in cache.list_entries()) <= 900


def test_a_use_is_noted_once_in_a_while(cache):
    cache.keep("a", b"1")
    path = cache.path_of("a")
    before = path.stat().st_mtime
    cache.note_use("a")
    assert path.stat().st_mtime == before
    os.utime(path, (before - LATER - 1, before - LATER - 1))
    cache.note_use("a")
    assert path.stat().st_mtime >= before


def test_where_the_disk_refuses_nothing_is_kept(cache, tmp_path):
    (tmp_path / "chunks").write_text("a file, and no folder")
    cache.keep("a", b"1")
    cache.note_use("a")
    assert cache.load("a") is None
    assert cache.clear() == 0


def test_all_is_deleted(cache):
    cache.keep("a", bytes(100))
    cache.keep("b", bytes(50))
    (cache.folder / "other.txt").write_text("of somebody else")
    assert cache.clear() == 150
    assert [path.name for path in cache.folder.iterdir()] == ["other.txt"]
    cache.keep("a", bytes(100))
    assert cache.load("a") == bytes(100)
