"""Names of many objects: the same as in a plain dict, whatever was changed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_ngff.labels.object_classes import ObjectNames, join_labels, pack_labels

NAMES = st.sampled_from(["", "a", "b", "ä, c"])
SMALL, SIGNED = st.integers(1, 4), st.integers(-3, 3)
LARGE = st.integers(2**59, 2**59 + 3) | st.integers(2**64 - 4, 2**64 - 1)


def steps_of(labels):
    changes = st.lists(st.dictionaries(labels, NAMES, max_size=6), max_size=5)
    return st.tuples(changes, st.lists(labels))


@given(st.one_of(steps_of(SMALL), steps_of(SIGNED), steps_of(SMALL | LARGE)))
def test_they_are_what_a_dict_would_have_after_each_change(steps):
    changes, sought = steps
    names, plain = ObjectNames(), {}
    held = []
    for rows in changes:
        names, plain = names.with_rows(rows), plain | rows
        held.append((names, plain))
    # Whoever holds an earlier value sees no change.
    for value, expected in held:
        assert dict(value) == expected
        assert list(value) == sorted(expected)
        assert len(set(value.names)) == len(value.names)
    for label in (*sought, *plain):
        assert names.get(label, "none") == plain.get(label, "none")
    asked = pack_labels(sought)
    assert names.names_of(asked, "-").tolist() == [plain.get(x, "-") for x in sought]
    assert dict(names.pick(asked)) == {x: plain.get(x, "") for x in sought}
    assert names.count_names() == {
        name: [*plain.values()].count(name) for name in {*plain.values()}
    }
    for name in ("", "a", "other"):
        renamed = {label: "b" if x == name else x for label, x in plain.items()}
        assert dict(names.rename(name, "b")) == renamed
        having = {label: x for label, x in plain.items() if x in ("b", name)}
        assert dict(names.only("b", name)) == having


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "i4", "u8"])
def test_pixels_of_each_type_are_found(dtype):
    names = ObjectNames().with_rows({3: "a", 120: "b"})
    found = names.names_of(np.array([120, 4, 3], dtype), "-")
    assert found.tolist() == ["b", "-", "a"]


def test_labels_of_both_signs_are_joined_exactly():
    parts = pack_labels([2**59 + 1]), pack_labels([2**64 - 1])
    assert join_labels(*parts).tolist() == [2**59 + 1, 2**64 - 1]
    assert join_labels().tolist() == []
