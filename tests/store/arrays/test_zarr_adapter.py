import pickle

import numpy as np
import pytest
import zarr
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from napari_ngff.store.arrays.zarr_adapter import ZarrAdapter
from napari_ngff.store.sources.folder_store import FolderStore

OBJECT = "a/b/object"


@pytest.fixture
def folder(tmp_path):
    group = zarr.open_group(tmp_path / "z", mode="w", attributes={"name": "it"})
    array = group.create_array("a/b", shape=(9, 9), chunks=(4, 4), dtype="u2")
    array[...] = np.arange(81).reshape(9, 9)
    (tmp_path / "z" / "a" / "b" / "object").write_bytes(bytes(range(100)))
    return tmp_path / "z"


@pytest.fixture
def store(folder):
    return ZarrAdapter(FolderStore(str(folder)))


async def listed(names):
    return sorted([name async for name in names])


def test_zarr_reads_groups_and_arrays(store):
    group = zarr.open_group(store, mode="r")
    assert group.attrs["name"] == "it"
    assert list(group.group_keys()) == ["a"]
    assert dict(group.members(max_depth=None)).keys() == {"a", "a/b"}
    np.testing.assert_array_equal(group["a/b"][2:7], np.arange(81).reshape(9, 9)[2:7])
    with pytest.raises(FileNotFoundError):
        zarr.open_group(store, path="nowhere", mode="r")


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (None, range(100)),
        (RangeByteRequest(3, 9), range(3, 9)),
        (OffsetByteRequest(95), range(95, 100)),
        (SuffixByteRequest(4), range(96, 100)),
    ],
)
def test_byte_requests(store, request_, expected):
    prototype = default_buffer_prototype()
    found = sync(store.get(OBJECT, prototype, request_))
    assert found.to_bytes() == bytes(expected)
    assert store.get_sync(OBJECT, byte_range=request_).to_bytes() == bytes(expected)
    both = sync(store.get_partial_values(prototype, [(OBJECT, request_), ("no", None)]))
    assert both[0].to_bytes() == bytes(expected)
    assert both[1] is None


def test_listing(store, folder):
    files = sorted(
        p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()
    )
    assert sync(listed(store.list())) == files
    assert sync(listed(store.list_prefix("a/b/"))) == [
        f for f in files if f.startswith("a/b/")
    ]
    assert sync(listed(store.list_prefix("a/b/c/1/"))) == [
        f"a/b/c/1/{i}" for i in range(3)
    ]
    assert sync(listed(store.list_prefix("a/z"))) == ["a/zarr.json"]
    assert sync(listed(store.list_dir("a"))) == ["b", "zarr.json"]
    assert sync(listed(store.list_dir(""))) == ["a", "zarr.json"]
    assert sync(store.exists(OBJECT))
    assert not sync(store.exists("nothing"))
    assert not sync(store.is_empty(""))


def test_nothing_can_be_written(store, folder):
    before = sorted(folder.rglob("*"))
    buffer = default_buffer_prototype().buffer.from_bytes(b"x")
    assert store.read_only
    assert not store.supports_writes
    for attempt in (store.set("new", buffer), store.delete(OBJECT)):
        with pytest.raises(ValueError, match="read-only"):
            sync(attempt)
    with pytest.raises(ValueError, match="read-only"):
        zarr.open_array(store, path="a/b", mode="r+")[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        store.with_read_only(False)
    assert store.with_read_only(True) is store
    assert sorted(folder.rglob("*")) == before


def test_sources_that_cannot_be_listed(folder):
    class Plain(FolderStore):
        def list_names(self, prefix):
            return None

    store = ZarrAdapter(Plain(str(folder)))
    np.testing.assert_array_equal(
        zarr.open_array(store, path="a/b", mode="r")[0], np.arange(9)
    )
    with pytest.raises(NotImplementedError, match="cannot be listed"):
        sync(listed(store.list()))


def test_equal_means_the_same_source(folder):
    source = FolderStore(str(folder))
    assert ZarrAdapter(source) == ZarrAdapter(source)
    assert ZarrAdapter(source) != ZarrAdapter(FolderStore(str(folder)))
    assert str(folder) in repr(ZarrAdapter(source))
    again = pickle.loads(pickle.dumps(ZarrAdapter(source)))
    assert sync(again.exists(OBJECT))
