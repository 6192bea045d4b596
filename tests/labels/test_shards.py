"""Chunks of a shard are read right after any of its chunks was written anew."""

import numpy as np
import pytest
import zarr
from zarr.codecs import ZstdCodec

from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.label_writer import LabelWriter
from napari_ngff.labels.runs import mask_runs
from napari_ngff.labels.saving.before_images import BeforeImages
from napari_ngff.labels.shapes import Mask
from napari_ngff.metadata.model import LabelInfo
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.pyramids.pyramid import LevelSource
from napari_ngff.store.sources.archive_store import open_zip
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.write.zip_packing import pack_hierarchy
from saving import describe, levels_of, write_levels

SHAPES = ((1024, 1024), (512, 512))
CODECS = {"zstd": ZstdCodec(level=1), "raw": None}
WHOLE = tuple((0, n) for n in SHAPES[0])


@pytest.fixture(scope="module")
def pixels():
    ids = np.random.default_rng(3).integers(0, 5000, (128, 128))
    return np.kron(ids, np.ones((8, 8), int)).astype("u4")


@pytest.fixture(params=["folder", "ozx"])
def make_source(request, tmp_path, pixels):
    def make(codec):
        folder = tmp_path / "sharded.ome.zarr"
        levels = levels_of(pixels, SHAPES[1:], "nearest")
        options = {"shards": (512, 512), "compressors": CODECS[codec]}
        write_levels(folder, levels, (128, 128), dimension_names=("y", "x"), **options)
        describe(folder, len(levels), label=LabelInfo())
        if request.param == "folder":
            return FolderStore(str(folder))
        pack_hierarchy(folder, tmp_path / "sharded.ozx")
        return open_zip(tmp_path / "sharded.ozx")

    return make


def canvas_over(source):
    return Canvas([LevelSource(open_array(source, str(i))) for i in range(2)])


def blob(corner, size, label, source=None):
    runs = mask_runs(np.ones(size, bool), corner)
    return Edit(Mask(runs), (0, 1), (), label, source)


def add(canvas, edit):
    canvas.begin_step()
    canvas.add_edit(edit)
    canvas.close_step()


@pytest.mark.parametrize("codec", CODECS)
def test_other_chunks_of_a_saved_shard_are_read_right(make_source, pixels, codec):
    canvas = canvas_over(make_source(codec))
    writer = LabelWriter(canvas, BeforeImages())
    canvas.read(0, ((0, 128), (0, 128)))
    add(canvas, blob((300, 10), (60, 90), 9_000_000))
    writer.save()
    want = pixels.copy()
    want[300:360, 10:100] = 9_000_000
    np.testing.assert_array_equal(canvas.read(0, WHOLE), want)


@pytest.mark.parametrize("codec", CODECS)
def test_what_asks_for_voxels_after_a_save_is_saved_right(make_source, pixels, codec):
    source = make_source(codec)
    canvas = canvas_over(source)
    writer = LabelWriter(canvas, BeforeImages())
    canvas.read(0, ((0, 128), (0, 128)))
    add(canvas, blob((0, 0), (60, 90), 9_000_000))
    writer.save()
    # Only where the file has a certain label: in chunks that were not read before.
    old = int(pixels[200, 200])
    add(canvas, blob((130, 130), (300, 300), 7_000_000, old))
    assert writer.save().refused == ()
    want = pixels.copy()
    want[:60, :90] = 9_000_000
    part = want[130:430, 130:430]
    part[part == old] = 7_000_000
    np.testing.assert_array_equal(open_array(source, "0").read(WHOLE), want)
    np.testing.assert_array_equal(canvas.read(0, WHOLE), want)


def test_a_shard_that_another_program_writes_anew_is_read_right(tmp_path, pixels):
    options = {"shards": (512, 512), "compressors": CODECS["zstd"]}
    write_levels(tmp_path / "a", [pixels], (128, 128), **options)
    array = open_array(FolderStore(str(tmp_path / "a")), "0")
    array.read(((0, 128), (0, 128)))
    theirs = zarr.open_array(tmp_path / "a" / "0", mode="r+")
    theirs[0:130, 200:300] = 77
    want = pixels.copy()
    want[0:130, 200:300] = 77
    np.testing.assert_array_equal(array.read(WHOLE), want)
    # Also where it becomes smaller, and where it is gone.
    theirs[0:512, 0:512] = 5
    want[0:512, 0:512] = 5
    np.testing.assert_array_equal(array.read(WHOLE), want)
    theirs[0:512, 0:512] = 0
    want[0:512, 0:512] = 0
    np.testing.assert_array_equal(array.read(WHOLE), want)
