"""Which chunks on the screen are missing, in words."""

from __future__ import annotations

import pytest

from napari_ngff.errors import ChunkError, LoginNeededError, ServerError
from napari_ngff.viewer.services.notices import FailureKind, kind_of
from napari_ngff.viewer.streaming.missing_parts import MissingPart, missing_text

ADDRESS = "https://h.org/cells.ome.zarr"


def part(count, reason):
    error = ChunkError(ADDRESS, "0/c/0/0", reason)
    return MissingPart("cells.ome.zarr", count, kind_of(error), error)


LOST = part(12, ServerError(f"{ADDRESS}/0/c/0/0", "it stopped"))
LOCKED = part(1, LoginNeededError("The server refuses to give it."))
BROKEN = part(2, "not a Zstandard frame")


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], ""),
        ([LOST], "12 chunks missing"),
        ([LOCKED], "1 chunk missing"),
        ([BROKEN], "2 chunks damaged"),
        ([LOST, BROKEN, LOCKED], "13 chunks missing, 2 damaged"),
    ],
)
def test_the_sign_counts_what_is_missing_and_what_is_damaged(parts, text):
    assert missing_text(parts) == text


def test_a_part_names_its_image_and_server():
    assert [one.kind for one in (LOST, LOCKED, BROKEN)] == [
        FailureKind.UNREACHED, FailureKind.REFUSED, FailureKind.DAMAGED,
    ]  # fmt: skip
    assert LOST.text == (
        "cells.ome.zarr: 12 chunks could not be read from h.org."
        " They are asked for again by themselves."
    )
    assert LOCKED.text == (
        "cells.ome.zarr: h.org refuses 1 chunk. It is asked for again after a login."
    )
    assert BROKEN.text == "cells.ome.zarr: 2 chunks are damaged. They stay empty."


def test_a_local_file_that_cannot_be_read_is_not_damaged():
    error = ChunkError("/data/cells.ome.zarr", "0/c/0/0", "stale file handle")
    error.__cause__ = OSError(116, "stale file handle")
    for one in (error, error.without_frames()):
        assert kind_of(one) is FailureKind.UNREADABLE
