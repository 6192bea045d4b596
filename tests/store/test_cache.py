from hypothesis import given
from hypothesis import strategies as st

from napari_ngff.store.cache import ByteCache


def test_the_least_recently_used_goes_first():
    cache = ByteCache(100, least=1)
    for key in "abc":
        cache.put(key, key.upper(), 30)
    assert cache.get("a") == "A"
    cache.put("d", "D", 30)
    assert [cache.get(key) for key in "abcd"] == ["A", None, "C", "D"]
    assert cache.nbytes == 90


def test_large_values_are_not_kept():
    cache = ByteCache(800)
    cache.put("a", "A", 100)
    cache.put("b", "B", 101)
    assert (cache.get("a"), cache.get("b")) == ("A", None)


def test_shrinking_and_clearing():
    cache = ByteCache(100, least=1)
    for key in range(10):
        cache.put(key, key, 10)
    cache.limit = 35
    assert (cache.nbytes, cache.get(7), cache.get(6)) == (30, 7, None)
    cache.clear()
    assert (cache.nbytes, cache.get(9)) == (0, None)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 60))))
def test_what_is_counted_is_what_is_held(puts):
    cache = ByteCache(100, least=2)
    for key, nbytes in puts:
        cache.put(key, nbytes, nbytes)
    assert cache.nbytes == sum(cache.get(key) or 0 for key in range(6)) <= 100
