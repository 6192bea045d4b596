"""What no program would write: within 1 GB and 10 s, and never a traceback."""

from __future__ import annotations

import sys

import pytest

from hostile.cases import MAKERS
from hostile.running import run

QUICK = (
    "group_document_is_a_pipe",
    "chunk_is_a_device",
    "array_document_of_20_gigabytes",
    "shape_of_2_to_the_62",
    "huge_scale",
    "deep_array_document",
    "variable_length_strings",
    "very_many_tiny_chunks",
    "archive_with_a_deep_comment",
    "archive_of_a_sparse_directory",
    "archive_with_a_zip64_place_beyond_its_end",
    "pickled_filter",
    "pickled_table",
)
"""Those that `.ci/run` tries, in one process."""

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="pipes, devices, bounds of Linux"
)


def make(folder, name):
    folder.mkdir()
    ending = "ozx" if name.startswith("archive") else "ome.zarr"
    MAKERS[name](folder / f"a.{ending}")
    return folder / f"a.{ending}"


def test_some_hostile_images_end_in_a_message(tmp_path):
    run(tmp_path, *(make(tmp_path / name, name) for name in QUICK))


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in MAKERS if name not in QUICK])
def test_hostile_images_end_in_a_message(tmp_path, name):
    run(tmp_path, make(tmp_path / name, name))
