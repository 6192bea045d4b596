"""Display settings that are put into a document: theirs alone, whatever is around."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_ngff.metadata.cursor import Cursor
from napari_ngff.metadata.model import Channel, ContrastWindow, Omero
from napari_ngff.metadata.rendering import parse_omero, put_omero
from napari_ngff.metadata.version import V0_4, V0_5

OURS = {"label", "color", "active", "inverted", "window"}
LIMITS = {"start", "end", "min", "max"}

unknown = st.dictionaries(
    st.sampled_from(["id", "lut", "family", "coefficient", "x", "projection"]),
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=2),
    ),
    max_size=3,
)
byte = st.integers(0, 255)
limit = st.integers(-(10**6), 10**6).map(float)


@st.composite
def windows(draw):
    a, b, c, d = sorted(draw(st.sets(limit, min_size=4, max_size=4)))
    return ContrastWindow(b, c, a, d)


channels = st.builds(
    Channel,
    st.text(min_size=1, max_size=4),
    st.tuples(byte, byte, byte),
    windows(),
    st.booleans(),
    st.booleans(),
)
index = st.none() | st.integers(0, 9)


@st.composite
def stated_channels(draw):
    """An entry of a file: any of our keys may be missing, in several spellings."""
    one = draw(channels)
    color = bytes(one.color).hex()
    window = {key: getattr(one.window, key) for key in LIMITS}
    entry = {
        "label": one.label,
        "color": draw(st.sampled_from([color, color.upper(), f"#{color}"])),
        "active": one.active,
        "inverted": one.inverted,
        "window": {k: int(v) if draw(st.booleans()) else v for k, v in window.items()},
    }
    for key in draw(st.sets(st.sampled_from(sorted(OURS)))):
        del entry[key]
    if "window" in entry:
        entry["window"] |= {"x": draw(unknown)}
    return draw(unknown) | entry


@st.composite
def homes(draw, least=0):
    """Attributes of an image, with keys of other programs everywhere."""
    home = {"multiscales": [draw(unknown)], **draw(unknown)}
    if least or draw(st.booleans()):
        entries = draw(st.lists(stated_channels(), min_size=least, max_size=3))
        home["omero"] = draw(unknown) | {"channels": entries}
        if draw(st.booleans()):
            places = {"defaultZ": draw(index), "model": "greyscale"}
            home["omero"]["rdefs"] = draw(unknown) | places
    return home


def read(home):
    return parse_omero(Cursor(home.get("omero"), "omero", [])) or Omero()


def others(home):
    """All of a document that is none of the display settings."""
    left = copy.deepcopy(home)
    omero = left.pop("omero", {})
    omero.pop("version", None)
    entries = omero.pop("channels", [])
    rdefs = omero.pop("rdefs", {})
    for key in ("defaultT", "defaultZ", "model"):
        rdefs.pop(key, None)
    kept = []
    for entry in entries:
        window = entry.get("window", {})
        windows_left = {k: v for k, v in window.items() if k not in LIMITS}
        left_entry = {k: v for k, v in entry.items() if k not in OURS}
        kept.append((left_entry, windows_left))
    while kept and kept[-1] == ({}, {}):
        kept.pop()
    return left, omero, kept, rdefs


@given(homes(), st.lists(channels, min_size=1, max_size=4), index, index)
def test_all_is_read_back_and_nothing_else_is_changed(home, wanted, z, t):
    before, kept = read(home), others(home)
    known = before.channels[len(wanted) :]
    shown = Omero(before.name, (*wanted, *known), t or before.default_t, z, False)
    shown = replace(shown, default_z=before.default_z if z is None else z)
    put_omero(home, shown, before, range(len(wanted)), V0_5)
    assert others(home) == kept
    found = read(home)
    assert found.channels[: len(wanted)] == tuple(
        replace(one, window=window.window)
        for one, window in zip(wanted, found.channels, strict=False)
    )
    for one, now in zip(wanted, found.channels, strict=False):
        limits = now.window
        assert (limits.start, limits.end) == (one.window.start, one.window.end)
        assert limits.min <= limits.start < limits.end <= limits.max
    assert found.channels[len(wanted) :] == known
    places = found.default_z, found.default_t, found.greyscale
    assert places == (shown.default_z, shown.default_t, False)


@given(homes())
def test_what_is_shown_as_it_was_read_changes_no_byte(home):
    shown = read(home)
    before = copy.deepcopy(home)
    home.setdefault("omero", {"channels": []})
    before.setdefault("omero", {"channels": []})
    put_omero(home, shown, shown, range(len(shown.channels)), V0_5)
    assert home == before
    assert repr(home) == repr(before), "0 is no 0.0"


@given(homes(least=1), homes(least=1), channels)
def test_a_change_of_another_program_stays(home, theirs, one):
    """Another program replaces the block between reading and saving."""
    read_before = read(home)
    first = replace(read_before.channels[0], label=one.label)
    shown = replace(read_before, channels=(first, *read_before.channels[1:]))
    expected = copy.deepcopy(theirs)
    if one.label != read_before.channels[0].label:
        expected["omero"]["channels"][0]["label"] = one.label
    put_omero(theirs, shown, read_before, [0], V0_5)
    assert theirs == expected


def test_a_new_block_states_the_version_where_it_has_to():
    one = Channel("a", (1, 2, 3), ContrastWindow(0.0, 1.0, 0.0, 1.0))
    for version, stated in ((V0_4, "0.4"), (V0_5, None)):
        home = {}
        put_omero(home, Omero(channels=(one,)), Omero(), [0], version)
        assert home["omero"].get("version") == stated


@pytest.mark.parametrize(
    "omero",
    [
        5,
        {"channels": "red"},
        {"channels": ["red"]},
        {"channels": [None]},
        {"channels": [[1]]},
    ],
)
def test_a_block_of_another_type_is_not_overwritten(omero):
    home = {"omero": copy.deepcopy(omero)}
    one = Channel("a", (1, 2, 3), ContrastWindow(5.0, 9.0, 0.0, 255.0))
    with pytest.raises((TypeError, AttributeError)):
        put_omero(home, Omero(channels=(one,)), Omero(), [0], V0_5)
    assert home == {"omero": omero}
