import gc
import tracemalloc

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.arrays.region_read import cache as chunk_cache
from napari_ngff.store.lru_cache import ENTRY, ByteCache
from napari_ngff.store.sources.folder_store import FolderStore


def test_the_least_recently_used_goes_first():
    cache = ByteCache(3 * (ENTRY + 30), least=1)
    for key in "abc":
        cache.put(key, key.upper(), 30)
    assert cache.get("a") == "A"
    cache.put("d", "D", 30)
    assert [cache.get(key) for key in "abcd"] == ["A", None, "C", "D"]
    assert cache.nbytes == 3 * (ENTRY + 30)


def test_large_values_are_not_kept():
    cache = ByteCache(8000)
    cache.put("a", "A", 1000)
    cache.put("b", "B", 1001)
    assert (cache.get("a"), cache.get("b")) == ("A", None)


def test_shrinking_and_clearing():
    cache = ByteCache(10_000, least=1)
    for key in range(10):
        cache.put(key, key, 10)
    cache.limit = 3 * (ENTRY + 10) + 5
    assert (cache.nbytes, cache.get(7), cache.get(6)) == (3 * (ENTRY + 10), 7, None)
    cache.clear()
    assert (cache.nbytes, cache.get(9)) == (0, None)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3000))))
def test_what_is_counted_is_what_is_held(puts):
    cache = ByteCache(5000, least=2)
    for key, nbytes in puts:
        cache.put(key, nbytes, nbytes)
    held = [cache.get(key) for key in range(6)]
    assert cache.nbytes == sum(n + ENTRY for n in held if n is not None) <= 5000


@pytest.mark.long
def test_tiny_chunks_count_as_what_they_take(tmp_path):
    # Thumbnails of 8 x 8 voxels once filled memory behind a cache that seemed empty.
    pixels = np.arange(800 * 80, dtype="uint16").reshape(800, 80)
    zarr.create_array(tmp_path / "0", data=pixels, chunks=(8, 8))
    array = open_array(FolderStore(tmp_path), "0", 3)
    chunk_cache.clear()
    array[:8]
    gc.collect()  # the interpreter reuses objects of other tests, which do not count
    tracemalloc.start()
    try:
        held, taken = chunk_cache.nbytes, tracemalloc.get_traced_memory()[0]
        for row in range(8, 800, 8):
            array[row : row + 8]
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] - taken
    finally:
        tracemalloc.stop()
    assert 0.8 * taken < chunk_cache.nbytes - held < 1.25 * taken
