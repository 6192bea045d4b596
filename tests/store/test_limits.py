"""What is too large is refused, and a user may allow more by name."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from napari_ngff import open_node
from napari_ngff.cli import main
from napari_ngff.errors import OMEZarrError
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.limits import (
    CHUNK_VARIABLE,
    allowed_chunk,
    check_chunk,
    size_text,
)
from napari_ngff.store.pyramids.pyramid import open_pyramid
from napari_ngff.store.sources.folder_store import FolderStore
from saving import describe


@pytest.fixture
def folder(tmp_path):
    """An array of one chunk of 4 MB."""
    pixels = np.arange(4 << 20, dtype="u1").reshape(2048, 2048)
    zarr.create_array(tmp_path / "0", data=pixels, chunks=(2048, 2048))
    return tmp_path


def first_pixels(folder):
    return open_array(FolderStore(str(folder)), "0").read(((0, 1), (0, 4)))


def test_a_larger_chunk_is_read_where_the_user_allows_it(folder, monkeypatch):
    monkeypatch.setenv(CHUNK_VARIABLE, "2")
    with pytest.raises(OMEZarrError, match=CHUNK_VARIABLE):
        first_pixels(folder)
    monkeypatch.setenv(CHUNK_VARIABLE, "5")
    assert first_pixels(folder).tolist() == [[0, 1, 2, 3]]


def test_a_level_of_chunks_that_are_too_large_is_left_out(folder, monkeypatch):
    describe(folder, 2)
    zarr.create_array(folder / "1", data=np.ones((1024, 1024), "u1"), chunks=(512, 512))
    monkeypatch.setenv(CHUNK_VARIABLE, "2")
    pyramid = open_pyramid(open_node(folder))
    assert [level.shape for level in pyramid.levels] == [(1024, 1024)]
    (problem,) = pyramid.problems
    assert (problem.code, problem.where) == ("chunks-large", "0:")
    assert problem.text.startswith("One chunk takes 4 MB of memory, more than 2 MB.")
    monkeypatch.setenv(CHUNK_VARIABLE, "4")
    assert len(open_pyramid(open_node(folder)).levels) == 2


def test_info_and_check_have_the_same_budget(folder, monkeypatch, capsys):
    describe(folder, 1)
    for allowed, words in (("2", True), ("5", False)):
        monkeypatch.setenv(CHUNK_VARIABLE, allowed)
        for command in ("info", "check"):
            main([command, str(folder)])
            printed = capsys.readouterr()
            assert (CHUNK_VARIABLE in printed.out + printed.err) is words


@pytest.mark.parametrize("text", ["", "many", "-3"])
def test_what_is_no_number_allows_the_usual_size(monkeypatch, text):
    monkeypatch.delenv(CHUNK_VARIABLE, raising=False)
    usual = allowed_chunk()
    monkeypatch.setenv(CHUNK_VARIABLE, text)
    assert allowed_chunk() == usual
    check_chunk(usual)
    with pytest.raises(OMEZarrError):
        check_chunk(usual + 1)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1000, "1 kB"), (2e12, "2 TB")],
)
def test_sizes_are_written_as_people_do(size, text):
    assert size_text(size) == text
