"""Labels saved into single-file OME-Zarr, against the same saved into a folder."""

import shutil
import zipfile

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
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.pyramids.pyramid import LevelSource
from napari_ngff.store.sources.archive_store import ArchiveStore
from saving import levels_of, open_writer, write_levels

ZSTD = ZstdCodec(level=1)
LAYOUTS = {
    "v3": {"compressors": ZSTD},
    "v2": {
        "zarr_format": 2,
        "chunk_key_encoding": {"name": "v2", "separator": "/"},
    },
    "sharded": {"shards": (16, 24), "compressors": ZSTD},
}
SHAPES = ((61, 83), (31, 42), (16, 21))
CHUNKS = (8, 12)
COUNT = len(SHAPES)


def blob(corner, size, label, source=None):
    runs = mask_runs(np.ones(size, bool), corner)
    return Edit(Mask(runs), (0, 1), (), label, source)


def zipped(folder, path, method=zipfile.ZIP_STORED):
    """Pack as anybody would."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(folder).as_posix())
    return path


def objects(path):
    if path.is_dir():
        files = (one for one in path.rglob("*") if one.is_file())
        return {one.relative_to(path).as_posix(): one.read_bytes() for one in files}
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def read_archive(path):
    with zarr.storage.ZipStore(path, mode="r") as store:
        return [zarr.open_array(store, path=str(i), mode="r")[:] for i in range(COUNT)]


def archive_writer(path, method="nearest"):
    source = ArchiveStore(path)
    levels = [LevelSource(open_array(source, str(i))) for i in range(COUNT)]
    return LabelWriter(Canvas(levels), BeforeImages(), method)


@pytest.fixture(params=list(LAYOUTS))
def pair(request, tmp_path):
    """The same label image in a folder and in an archive, which may be deflated."""
    rng = np.random.default_rng(3)
    pixels = np.kron(rng.integers(0, 4, (8, 11)), np.ones((8, 8), int))[:61, :83]
    levels = levels_of(pixels.astype("u2"), SHAPES[1:], "nearest")
    options = LAYOUTS[request.param]
    folder = write_levels(tmp_path / "a", levels, CHUNKS, **options)
    method = zipfile.ZIP_STORED if request.param == "v3" else zipfile.ZIP_DEFLATED
    return folder, zipped(folder, tmp_path / "a.ozx", method)


@pytest.fixture
def archive(tmp_path):
    pixels = np.zeros(SHAPES[0], "u1")
    pixels[20:40, 20:40] = 1
    levels = levels_of(pixels, SHAPES[1:], "nearest")
    folder = write_levels(tmp_path / "a", levels, CHUNKS, **LAYOUTS["v3"])
    path = zipped(folder, tmp_path / "a.ozx")
    shutil.rmtree(folder)
    return path


def test_a_save_makes_the_same_objects_as_in_a_folder(pair):
    folder, path = pair
    writers = open_writer(folder, COUNT), archive_writer(path)
    for edits in (
        [blob((5, 7), (20, 30), 9), blob((0, 0), (61, 30), 0)],
        [blob((30, 30), (9, 9), 3, 2)],
    ):
        for writer in writers:
            for edit in edits:
                writer.canvas.begin_step()
                writer.canvas.add_edit(edit)
                writer.canvas.close_step()
            outcome = writer.save()
            assert outcome.blocks
            assert not outcome.refused
            assert not writer.has_unsaved
        assert objects(path) == objects(folder)
    assert list(path.parent.glob(".*")) == []


def test_saved_steps_can_be_undone_and_saved_again(archive):
    before = objects(archive)
    writer = archive_writer(archive)
    writer.canvas.add_edit(blob((5, 7), (20, 30), 9))
    writer.save()
    assert objects(archive) != before
    writer.canvas.undo()
    writer.save()
    assert objects(archive) == before


def test_labels_that_need_a_wider_type(archive):
    writer = archive_writer(archive)
    before = read_archive(archive)[0]
    writer.canvas.change_dtype(np.dtype("u2"))
    writer.canvas.add_edit(blob((0, 0), (3, 3), 300))
    writer.save()
    levels = read_archive(archive)
    assert {level.dtype for level in levels} == {np.dtype("u2")}
    before = before.astype("u2")
    before[:3, :3] = 300
    for found, wanted in zip(
        levels, levels_of(before, SHAPES[1:], "nearest"), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)
    assert not [name for name in objects(archive) if "widening" in name]


def test_a_save_that_is_stopped_leaves_the_archive_and_is_finished_by_the_next(archive):
    before = archive.read_bytes()
    writer = archive_writer(archive)
    writer.canvas.add_edit(blob((5, 7), (20, 30), 9))
    reported = []

    def progress(level, done, total):
        reported.append((level, done, total))

    outcome = writer.save(progress, lambda: bool(reported) and reported[-1][0] == -1)
    assert outcome.cancelled
    assert writer.has_unsaved
    assert archive.read_bytes() == before
    assert not writer.save(progress).cancelled
    assert not writer.has_unsaved
    assert (read_archive(archive)[0][5:25, 7:37] == 9).all()
    level, done, total = reported[-1]
    assert level == -1
    assert done == total


def test_two_writers_of_two_labels_lose_nothing(tmp_path, archive):
    with zipfile.ZipFile(archive) as one:
        entries = {name: one.read(name) for name in one.namelist()}
    path = tmp_path / "two.ozx"
    with zipfile.ZipFile(path, "w") as two:
        for label in "ab":
            for name, data in entries.items():
                two.writestr(f"{label}/{name}", data)
    writers = []
    for label in "ab":
        source = ArchiveStore(path)
        arrays = [open_array(source, f"{label}/{i}") for i in range(COUNT)]
        writers.append(
            LabelWriter(Canvas(list(map(LevelSource, arrays))), BeforeImages())
        )
    for number, writer in enumerate(writers):
        writer.canvas.add_edit(blob((5, 7), (20, 30), 7 + number))
    for writer in writers:
        assert not writer.save().refused
    with zarr.storage.ZipStore(path, mode="r") as store:
        for number, label in enumerate("ab"):
            pixels = zarr.open_array(store, path=f"{label}/0", mode="r")[:]
            assert (pixels[5:25, 7:37] == 7 + number).all()


def test_what_another_program_painted_is_refused_once_and_then_painted_over(archive):
    mine, theirs = archive_writer(archive), archive_writer(archive)
    for writer in (mine, theirs):
        writer.canvas.levels[0].source.read(((0, 61), (0, 83)))
    mine.canvas.add_edit(blob((5, 7), (4, 4), 9))
    theirs.canvas.add_edit(blob((6, 8), (1, 20), 5))
    theirs.save()
    outcome = mine.save()
    assert outcome.refused
    assert mine.has_unsaved
    assert (read_archive(archive)[0][6, 8:28] == 5).all()
    assert not mine.save().refused
    levels = read_archive(archive)
    assert (levels[0][5:9, 7:11] == 9).all()
    assert (levels[0][6, 11:28] == 5).all()
    for found, wanted in zip(
        levels, levels_of(levels[0], SHAPES[1:], "nearest"), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)
