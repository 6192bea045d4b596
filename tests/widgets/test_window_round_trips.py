"""The first picture of a remote image in a window: after few round trips."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from mouse import until
from napari_ngff.viewer.streaming.streamed_levels import fetcher
from plates import pixels, write_image
from round_trips import far_server, list_rounds

pytest.importorskip("aiohttp", reason="needs the extra [remote]")

EXTRA = 2
"""Round trips that the first picture may take beyond the depth of the documents."""


@pytest.fixture
def server(tmp_path):
    # A window has much to do between two requests of a round trip.
    with far_server(tmp_path, quiet=0.5) as server:
        yield server
        until(lambda: not fetcher.is_busy)


def first_picture(viewer, server, name):
    """Open a file; the number of round trips until its first pixels are on screen."""
    viewer.open(f"{server.address}/{name}", plugin="napari-ngff")
    until(lambda: any(np.any(one._slice.image.raw) for one in viewer.layers))
    for number, paths in enumerate(list_rounds(server), 1):
        if any(path.rpartition("/")[2].isdigit() for path in paths):
            return number
    raise AssertionError("no pixels were read")


@pytest.mark.default_cases("3")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_image_with_labels(viewer, tmp_path, server, zarr_format):
    data = pixels(0, (2, 256, 256))
    write_image(tmp_path / "a.zarr", data, zarr_format, levels=5, labels=("a", "b"))
    # Image; the list of its labels; labels; their arrays.
    assert first_picture(viewer, server, "a.zarr") <= 4 + EXTRA


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
def test_an_image_with_copies_of_its_documents(viewer, tmp_path, server):
    data = pixels(0, (2, 256, 256))
    write_image(tmp_path / "a.zarr", data, 3, levels=5, labels=("a", "b"))
    zarr.consolidate_metadata(tmp_path / "a.zarr", zarr_format=3)
    # Image; all other documents.
    assert first_picture(viewer, server, "a.zarr") <= 2 + EXTRA
