"""Small documents of ours: damaged ones are named and stay, or count as none."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from napari_ngff.errors import CorruptDataError
from napari_ngff.store.write.shared_document import LARGEST, SharedDocument

DAMAGED = {
    "empty": b"",
    "half": b'{"a": [1, 2',
    "deep": b"[" * 200_000 + b"]" * 200_000,
    "large": b"[" + b"[]," * (LARGEST // 3) + b"[]]",
    "number": b"1" * 100_000,
    "other letters": b'{"\xff\xfe": 1}',
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_document_stays_and_is_named(data, tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(data)
    document = SharedDocument(path)
    for use in (document.read, lambda: document.change(lambda _: [1])):
        with pytest.raises(CorruptDataError, match=r"a\.json .* Move it away"):
            use()
    assert path.read_bytes() == data
    again = SharedDocument(path, replaceable=True)
    assert again.read() is None
    again.change(lambda content: [content])
    assert document.read() == [None]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(CorruptDataError, match=r"a pipe .* not read\. Move it"):
        SharedDocument(tmp_path / "a.json").read()


def test_an_equal_content_is_not_written(tmp_path):
    document = SharedDocument(tmp_path / "new" / "a.json")
    assert document.read() is None
    document.change(lambda _: None)
    assert os.listdir(tmp_path / "new") == []
    document.change(lambda _: {"a": 1})
    before = os.stat(document.path)
    document.change(lambda content: {**content})
    assert os.stat(document.path) == before


def test_an_error_of_the_change_changes_nothing(tmp_path):
    document = SharedDocument(tmp_path / "a.json")
    document.change(lambda _: [1])
    with pytest.raises(ZeroDivisionError):
        document.change(lambda _: 1 / 0)
    with pytest.raises(ValueError, match="more than"):
        document.change(lambda _: "a" * LARGEST)
    document.change(lambda content: [*content, 2])
    assert document.read() == [1, 2]
    assert os.listdir(tmp_path) == ["a.json"]


def test_threads_lose_nothing_of_each_other(tmp_path):
    def note(number):
        # A document of its own for each, and by a relative way.
        path = tmp_path / "x" / ".." / "a.json"
        SharedDocument(path).change(lambda known: [*(known or ()), number])

    (tmp_path / "x").mkdir()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(note, range(50)))
    assert sorted(SharedDocument(tmp_path / "a.json").read()) == list(range(50))


def test_without_turns_no_change_is_lost(tmp_path):
    """As on file systems without locks: another computer writes in between."""
    path = tmp_path / "a.json"
    document, other = SharedDocument(path), []

    def change(content):
        if len(other) < 3:
            other.append(len(other))
            path.write_text(str(other))
        return {"theirs": content, "ours": 1}

    document.change(change)
    assert document.read() == {"theirs": [0, 1, 2], "ours": 1}
