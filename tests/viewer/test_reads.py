"""What is read from the disk for what is seen: files, counted, not timed."""

from __future__ import annotations

import builtins
import io
import os
import re
from itertools import product

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel
from napari.layers import Layer

from napari_ngff import open_node
from napari_ngff.store.arrays import chunked_array as chunks
from napari_ngff.viewer.layers.image_layers import image_layers
from napari_ngff.viewer.layers.node_contents import open_contents
from napari_ngff.viewer.reader import get_reader
from napari_ngff.viewer.session import session_of

PLANES, SIDE, CHUNK, LEVELS = 5, 512, 64, 3


@pytest.fixture(scope="module", params=["0.4", "0.5"])
def image(request, tmp_path_factory):
    """An image of axes czyx, two channels, three levels, no contrast given."""
    zarr_format = 2 if request.param == "0.4" else 3
    where = tmp_path_factory.mktemp("reads") / "image.zarr"
    axes = [{"name": a, "type": "space"} for a in "zyx"]
    axes.insert(0, {"name": "c", "type": "channel"})
    datasets = []
    for i in range(LEVELS):
        scale = {"type": "scale", "scale": [1, 1, 2**i, 2**i]}
        datasets.append({"path": str(i), "coordinateTransformations": [scale]})
    multiscale = {"version": "0.4", "name": "n", "axes": axes, "datasets": datasets}
    content = {"multiscales": [multiscale]}
    if zarr_format == 3:
        del multiscale["version"]
        content = {"ome": {"version": "0.5", **content}}
    group = zarr.create_group(where, zarr_format=zarr_format, attributes=content)
    for i in range(LEVELS):
        n = SIDE >> i
        pixels = np.random.default_rng(i).integers(0, 999, (2, PLANES, n, n), "uint16")
        array = group.create_array(
            str(i),
            shape=pixels.shape,
            chunks=(1, 1, CHUNK, CHUNK),
            dtype="uint16",
            chunk_key_encoding={
                "name": "v2" if zarr_format == 2 else "default",
                "separator": "/",
            },
        )
        array[...] = pixels
    return where


@pytest.fixture
def opened(monkeypatch):
    """The files opened from here on.

    An audit hook would see each of them too, but stays for good: with one, Python 3.11
    now and then fails to start a thread while coverage is measured.
    """
    chunks.cache.clear()
    paths = []

    def note_paths(open_file):
        def note_and_open(path, *args, **kwargs):
            if not isinstance(path, int):  # a descriptor of what is open
                paths.append(os.fsdecode(path))
            return open_file(path, *args, **kwargs)

        return note_and_open

    for module in (builtins, io, os):
        monkeypatch.setattr(module, "open", note_paths(module.open))
    return paths


def chunks_of(paths, image):
    """Which chunks are among the files: level, channel, plane, row, column."""
    found = set()
    for path in paths:
        name = path.removeprefix(str(image))
        match = re.fullmatch(r"/(\d+)/(?:c/)?(\d+)/(\d+)/(\d+)/(\d+)", name)
        if path.startswith(str(image)) and match:
            found.add(tuple(int(part) for part in match.groups()))
    return found


def plane_of(level, z, rows=None, columns=None):
    """All chunks of a plane, or those of a part, of both channels."""
    n = (SIDE >> level) // CHUNK
    rows, columns = rows or range(n), columns or range(n)
    return {(level, c, z, y, x) for c, y, x in product(range(2), rows, columns)}


def look_at(viewer, corner, side):
    """Draw a square of level 0, as big on the screen as in voxels."""
    corners = np.array([corner, np.add(corner, side)])
    for layer in viewer.layers:
        layer._update_draw(
            scale_factor=1, corner_pixels_displayed=corners, shape_threshold=(side,) * 2
        )


def test_opening_reads_metadata_once_and_no_chunk(image, opened):
    layers = get_reader(str(image))(str(image))
    assert len(layers) == 2
    ours = [path.removeprefix(f"{image}/") for path in opened if str(image) in path]
    expected = ["zarr.json", "0/zarr.json", "1/zarr.json", "2/zarr.json"]
    expected += ["labels/zarr.json"]
    if (image / ".zgroup").exists():
        # That there is no zarr.json has to be seen first.
        expected = ["zarr.json", ".zattrs", "0/.zarray", "1/.zarray", "2/.zarray"]
        expected += ["labels/.zattrs", "labels/.zgroup"]
    assert ours == expected


def test_a_view_reads_the_chunks_that_it_shows(image, opened):
    viewer = ViewerModel()
    session_of(viewer)
    (group,) = open_contents(open_node(image)).groups
    for layer in image_layers(group.image, estimate=True):
        viewer.add_layer(Layer.create(*layer))
    z, coarsest = viewer.dims.current_step[0], LEVELS - 1
    assert z == PLANES // 2  # which is where contrast is looked for, too
    # A layer that is in no viewer yet shows its first plane.
    expected = plane_of(coarsest, 0) | plane_of(coarsest, z)
    assert chunks_of(opened, image) == expected
    assert all(layer.contrast_limits[1] < 1000 for layer in viewer.layers)

    opened.clear()
    look_at(viewer, (70, 70), 100)
    assert chunks_of(opened, image) == plane_of(0, z, range(1, 3), range(1, 3))

    opened.clear()
    viewer.dims.set_current_step(0, z + 1)
    expected = plane_of(0, z + 1, range(1, 3), range(1, 3))
    expected |= plane_of(coarsest, z + 1)  # napari's thumbnail
    assert chunks_of(opened, image) == expected

    opened.clear()
    viewer.dims.set_current_step(0, z)
    assert not [path for path in opened if str(image) in path]
