"""Messages begin with the result; whole paths come last."""

from __future__ import annotations

from textwrap import wrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_ngff.viewer.services.notices import (
    MOST_IN_LINE,
    FailureKind,
    failure_text,
    notice_text,
    shorten_message,
)

PLACE = "/home/ada/data/broken.ome.zarr"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            f"{PLACE}/A/1: It is empty.",
            "It is empty. (broken.ome.zarr/A/1)",
        ),
        (f"No zarr array at {PLACE}/0.", "No zarr array at broken.ome.zarr/0."),
        (
            "https://host.org/a/b/x.ozx did not come: time-out.",
            "x.ozx did not come: time-out.",
        ),
        ("C:\\data\\x.zarr\\0 is gone.", "x.zarr\\0 is gone."),
        ("Scale 1/2 and 3 of 4.", "Scale 1/2 and 3 of 4."),
        # A series of bioformats2raw, whose number alone names nothing.
        ("The crop reaches beyond /data/slide/0.", "The crop reaches beyond slide/0."),
        ("It is in /tmp/tables.", "It is in tables."),
    ],
)
def test_paths_are_cut_to_their_last_part(message, expected):
    assert shorten_message(message) == expected


def test_the_result_is_first_and_whole_paths_are_last():
    messages = [f"{PLACE}/{well}: The well is empty." for well in range(7)]
    lines = notice_text(messages, "Opened with 7 notes.").splitlines()
    assert lines[0] == "Opened with 7 notes."
    assert lines[1] == "The well is empty. (broken.ome.zarr/0)"
    assert lines[6] == "... and 2 more"
    assert lines[7] == f"{PLACE}/0"


@given(
    st.lists(
        st.text("ab /.\n", max_size=3000) | st.just(f"{PLACE}/0: Empty."),
        min_size=1,
        max_size=9,
    )
)
def test_a_notification_fits_on_the_canvas_with_the_begin_of_each_message(messages):
    lines = notice_text(messages, "Shown in part.").split("\n")
    rows = [row for line in lines for row in wrap(line, MOST_IN_LINE) or [""]]
    assert len(rows) <= 43
    assert lines[0] == "Shown in part."
    for message, line in zip(messages[:5], lines[1:], strict=False):
        begin = " ".join(shorten_message(message).split())[:100]
        assert line.startswith(begin)


@pytest.mark.parametrize("kind", FailureKind)
def test_a_sentence_about_chunks_fits_into_four_lines(kind):
    for count in (1, 100_000):
        address = "https://images.institute.example.org:8080/data/cells.ome.zarr"
        text = failure_text("a" * 80, count, kind, address)
        assert len(text) < 5 * MOST_IN_LINE
