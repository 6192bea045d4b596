"""A folder of any size is read in constant memory, and other processes read it too."""

from __future__ import annotations

import pickle
import tracemalloc

import pytest

from napari_ngff.errors import UnsupportedError
from napari_ngff.store.sources import folder_store
from napari_ngff.store.sources.folder_store import FolderStore


def peak_of_folders(root: str, count: int) -> int:
    """Ask for an object in each of many folders."""
    source = FolderStore(root, follows_links=False)
    tracemalloc.start()
    try:
        for i in range(count):
            assert source.find_path(f"{i}/0") == f"{root}/{i}/0"
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_folders(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(folder_store, "KNOWN_FOLDERS", 100)
    few, many = (peak_of_folders(str(tmp_path), n) for n in (200, 2000))
    # All folders would take 500 kB more.
    assert many - few < 3 * 10**5


@pytest.mark.parametrize("follows", [True, False])
def test_another_process_gets_nothing_of_what_was_read(tmp_path, follows) -> None:
    source = FolderStore(str(tmp_path), follows_links=follows)
    before = pickle.dumps(source)
    for i in range(100):
        (tmp_path / f"{i}").mkdir()
        (tmp_path / f"{i}/0").write_bytes(b"1")
        assert source.get(f"{i}/0") == b"1"
    assert pickle.dumps(source) == before
    assert pickle.loads(before).get("7/0") == b"1"


def test_another_process_follows_no_link_either(tmp_path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "secret").write_bytes(b"1")
    try:
        (tmp_path / "a/0").symlink_to(tmp_path / "secret")
    except OSError:
        pytest.skip("links need rights on Windows")
    source = FolderStore(str(tmp_path / "a"), follows_links=False)
    for each in (source, pickle.loads(pickle.dumps(source))):
        with pytest.raises(UnsupportedError):
            each.get("0")
