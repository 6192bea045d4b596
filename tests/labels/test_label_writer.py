"""Saved edits, read back by zarr-python, against whole levels made anew."""

import errno
import shutil
import subprocess
import threading
import tracemalloc
from functools import partial

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.codecs import ZstdCodec

from napari_ngff.errors import ChunkError
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.runs import mask_runs
from napari_ngff.labels.saving import save_pass
from napari_ngff.labels.saving.save_pass import ReductionCache
from napari_ngff.labels.shapes import Everywhere, Mask, Polygon, Stroke
from napari_ngff.store.arrays.chunked_array import cache
from napari_ngff.store.write import replace_tree
from saving import (
    levels_of,
    object_files,
    open_writer,
    read_levels,
    write_levels,
)

ZSTD = ZstdCodec(level=1)
LAYOUTS = {
    "v3": {"compressors": ZSTD},
    "v2": {
        "zarr_format": 2,
        "chunk_key_encoding": {"name": "v2", "separator": "/"},
    },
    "sharded": {"shards": (16, 24), "compressors": ZSTD},
}
SHAPES = ((61, 83), (31, 42), (16, 21), (5, 21))
CHUNKS = (8, 12)


def stroke(start, stop, label, radius=2.5, source=None):
    shape = Stroke((start, stop), (30,), radius, (1.0, 1.0))
    return Edit(shape, (0, 1), (), label, source)


def blob(corner, size, label, source=None):
    runs = mask_runs(np.ones(size, bool), corner)
    return Edit(Mask(runs), (0, 1), (), label, source)


def everywhere(label, source):
    return Edit(Everywhere(SHAPES[0]), (0, 1), (), label, source)


@st.composite
def edits(draw):
    points = st.tuples(st.integers(-5, 65), st.integers(-5, 88))
    label = st.integers(0, 4)
    source = st.one_of(st.none(), label)
    kind = draw(st.sampled_from(["stroke", "polygon", "everywhere", "blob"]))
    if kind == "stroke":
        ends = [tuple(map(float, draw(points))) for _ in range(2)]
        return stroke(*ends, draw(label), draw(st.floats(0.5, 9)), draw(source))
    if kind == "polygon":
        corners = tuple(draw(st.lists(points, min_size=3, max_size=5)))
        shape = Polygon(corners, SHAPES[0])
        return Edit(shape, (0, 1), (), draw(label), draw(source))
    if kind == "everywhere":
        return everywhere(draw(label), draw(label))
    corner = draw(st.integers(0, 50)), draw(st.integers(0, 70))
    return blob(corner, (9, 11), draw(label), draw(source))


def random_levels(method="nearest", dtype="u2", empty=False):
    rng = np.random.default_rng(3)
    coarse = rng.integers(0, 4, (8, 11)) * (not empty)
    pixels = np.kron(coarse, np.ones((8, 8), int))[:61, :83].astype(dtype)
    return levels_of(pixels, SHAPES[1:], method)


def check(folder, writer, method):
    """Compare with zarr-python what is there and what a full rebuild gives."""
    shown = writer.canvas.read(0, tuple((0, n) for n in writer.canvas.shape))
    want = levels_of(shown, SHAPES[1:], method)
    for level, (got, wanted) in enumerate(
        zip(read_levels(folder, 4), want, strict=True)
    ):
        np.testing.assert_array_equal(got, wanted, err_msg=f"level {level}")
    return want


@pytest.mark.default_cases("v2-nearest", "sharded-nearest")
@pytest.mark.parametrize("method", ["nearest", "mode"])
@pytest.mark.parametrize("layout", LAYOUTS)
@given(st.data())
@settings(deadline=None, max_examples=3)
def test_every_level_is_as_if_made_anew(tmp_path_factory, layout, method, data):
    folder = tmp_path_factory.mktemp("label")
    write_levels(folder, random_levels(method), CHUNKS, **LAYOUTS[layout])
    writer = open_writer(folder, 4, method)
    canvas = writer.canvas
    for _ in range(3):
        for edit in data.draw(st.lists(edits(), min_size=1, max_size=4)):
            canvas.begin_step()
            canvas.add_edit(edit)
            canvas.close_step()
        for _ in range(data.draw(st.integers(0, 4))):
            canvas.undo()
        for _ in range(data.draw(st.integers(0, 2))):
            canvas.redo()
        outcome = writer.save()
        assert outcome.refused == ()
        assert not writer.has_unsaved
        levels = check(folder, writer, method)
    if layout in ("v3", "v2"):
        # To the byte what zarr-python writes at once.
        twin = tmp_path_factory.mktemp("twin")
        write_levels(twin, levels, CHUNKS, **LAYOUTS[layout])
        mine, theirs = object_files(folder), object_files(twin)
        assert {k: v[0] for k, v in mine.items()} == {
            k: v[0] for k, v in theirs.items()
        }
    shutil.rmtree(folder)


@pytest.fixture
def label(tmp_path):
    return write_levels(tmp_path / "label", random_levels(), CHUNKS, compressors=ZSTD)


def add(writer, *some):
    for edit in some:
        writer.canvas.begin_step()
        writer.canvas.add_edit(edit)
        writer.canvas.close_step()


def test_only_what_the_edits_touch_is_written(label):
    before = object_files(label)
    writer = open_writer(label, 4)
    add(writer, blob((0, 0), (4, 4), 9))
    outcome = writer.save()
    after = object_files(label)
    changed = {k for k in after if after[k] != before.get(k)}
    assert changed == {"0/c/0/0", "1/c/0/0", "2/c/0/0", "3/c/0/0"}
    assert (outcome.blocks, outcome.objects) == (1, 4)
    # The second save is of what is new alone.
    add(writer, blob((60, 80), (1, 1), 3))
    assert writer.save().objects <= 2
    again = writer.save()
    assert (again.blocks, again.objects, again.idle) == (0, 0, True)


def test_a_block_that_is_erased_is_removed(label):
    writer = open_writer(label, 4)
    add(writer, blob((0, 0), (61, 83), 0))
    writer.save()
    assert object_files(label) == {}


def test_saved_steps_can_be_undone_and_saved_again(label):
    before = {k: v[0] for k, v in object_files(label).items()}
    writer = open_writer(label, 4)
    # Applied to its own result, this would give something else.
    add(
        writer, blob((0, 0), (40, 40), 2, source=1), blob((0, 0), (40, 40), 1, source=3)
    )
    writer.save()
    first = read_levels(label, 4)
    add(writer, stroke((10.0, 10.0), (50.0, 70.0), 5))
    writer.save()
    check(label, writer, "nearest")
    writer.canvas.undo()
    assert writer.has_unsaved
    writer.save()
    for got, want in zip(read_levels(label, 4), first, strict=True):
        np.testing.assert_array_equal(got, want)
    writer.canvas.undo()
    writer.canvas.undo()
    writer.save()
    assert {k: v[0] for k, v in object_files(label).items()} == before


def test_edits_made_meanwhile_are_the_next_save(label):
    writer = open_writer(label, 4)
    add(writer, blob((0, 0), (50, 50), 7))

    def paint(level, done, total):
        if (level, done) == (0, 1):
            add(writer, blob((20, 20), (8, 8), 4))

    writer.save(paint)
    pixels = read_levels(label, 1)[0]
    assert (pixels[:50, :50] == 7).all()
    assert writer.has_unsaved
    assert len(writer.unsaved_edits) == 1
    writer.save()
    check(label, writer, "nearest")


@pytest.mark.parametrize("after", [0, 1, 5, 43, 50])
def test_a_cancelled_save_is_finished_by_the_next(label, after):
    writer = open_writer(label, 4)
    add(writer, blob((0, 0), (50, 70), 7))
    calls = iter(range(1000))
    outcome = writer.save(cancel=lambda: next(calls) >= after)
    assert outcome.cancelled
    assert writer.has_unsaved
    assert not writer.save().cancelled
    check(label, writer, "nearest")
    assert not writer.has_unsaved


def test_progress_counts_every_level(label):
    writer = open_writer(label, 4)
    add(writer, blob((0, 0), (61, 83), 7))
    seen = {}
    writer.save(
        lambda level, done, total: seen.setdefault(level, []).append((done, total))
    )
    assert list(seen) == [0, 1, 2, 3]
    assert sorted(seen[0])[-1] == (56, 56)


def test_a_block_that_cannot_be_read_is_left_and_named(label):
    (label / "0/c/0/0").write_bytes(b"rubbish")
    writer = open_writer(label, 4)
    for level in writer.canvas.levels:  # as the viewer opens it
        object.__setattr__(level.source.source.source, "on_error", lambda error: None)
    add(writer, blob((0, 0), (30, 30), 7))
    outcome = writer.save()
    assert any("0/c/0/0 cannot be read" in text for text in outcome.refused)
    assert (label / "0/c/0/0").read_bytes() == b"rubbish"
    assert writer.has_unsaved
    array = zarr.open_array(label / "0", mode="r")
    assert (array[:8, 12:30] == 7).all()
    assert (array[8:30, :30] == 7).all()
    # Restored from a copy, it is saved after all.
    write_levels(label.parent / "copy", random_levels(), CHUNKS, compressors=ZSTD)
    shutil.copy(label.parent / "copy/0/c/0/0", label / "0/c/0/0")
    writer.save()
    writer.save()  # the restored file counted as a change by others
    check(label, writer, "nearest")
    assert not writer.has_unsaved


def test_two_writers_of_one_label_lose_nothing(label):
    mine, yours = open_writer(label, 4), open_writer(label, 4)
    whole = tuple((0, n) for n in SHAPES[0])
    for writer in (mine, yours):
        writer.canvas.read(0, whole)
        add(writer, blob((0, 0), (2, 2), 1))
    add(mine, blob((4, 4), (2, 2), 5))
    add(yours, blob((5, 5), (2, 2), 6), blob((40, 60), (2, 2), 6))
    assert mine.save().refused == ()
    outcome = yours.save()
    assert any("was changed by another program" in text for text in outcome.refused)
    pixels = read_levels(label, 1)[0]
    assert (pixels[4:6, 4:6] == 5).all()
    assert (pixels[40:42, 60:62] == 6).all()
    assert yours.has_unsaved
    # The other one's work is shown now, and saving puts the edits on top of it.
    assert yours.canvas.read(0, whole)[4, 4] == 5
    assert yours.save().refused == ()
    pixels = read_levels(label, 1)[0]
    assert pixels[4, 4:6].tolist() == [5, 5]
    assert (pixels[5:7, 5:7] == 6).all()


def save_meanwhile(patch, first, second, at_level):
    """Let the second writer save before the first one writes a coarser level."""
    write_coarser = save_pass.SavePass._write_coarser

    def write(own_pass, number):
        if number == at_level and own_pass.before_images is first.before_images:
            second.save()
        write_coarser(own_pass, number)

    patch.setattr(save_pass.SavePass, "_write_coarser", write)
    first.save()
    patch.undo()
    second.save()


def test_coarser_levels_keep_what_two_have_saved_and_undone(label, monkeypatch):
    mine, yours = open_writer(label, 4), open_writer(label, 4)
    dot = stroke((0.0, 0.0), (0.0, 0.0), 0, 1.0)
    add(mine, dot)
    add(yours, blob((0, 1), (9, 11), 0))
    save_meanwhile(monkeypatch, mine, yours, 1)
    add(mine, dot)
    yours.canvas.undo()
    save_meanwhile(monkeypatch, mine, yours, 1)
    add(mine, blob((40, 60), (3, 5), 7))
    while mine.save().refused or yours.save().refused:
        pass
    levels = read_levels(label, 4)
    wanted = levels_of(levels[0], SHAPES[1:], "nearest")
    for number, (got, want) in enumerate(zip(levels, wanted, strict=True)):
        np.testing.assert_array_equal(got, want, err_msg=f"level {number}")


def test_failure_of_the_disk_leaves_the_rest_to_be_saved(label, monkeypatch):
    from napari_ngff.store.sources import folder_store

    writer = open_writer(label, 4)
    add(writer, blob((0, 0), (50, 70), 7))
    write, count = folder_store.write_aside, iter(range(1000))

    def full(*given, **named):
        if next(count) > 6:
            raise OSError(28, "No space left on device")
        return write(*given, **named)

    monkeypatch.setattr(folder_store, "write_aside", full)
    with pytest.raises(OSError, match="No space left"):
        writer.save()
    assert writer.has_unsaved
    monkeypatch.undo()
    writer.save()
    check(label, writer, "nearest")


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if (
        not shutil.which("mount")
        or subprocess.run(command, capture_output=True).returncode
    ):
        pytest.skip("no permission to mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_loses_nothing(small_disk):
    label = write_levels(
        small_disk / "label", random_levels(empty=True), CHUNKS, compressors=ZSTD
    )
    writer = open_writer(label, 4)
    add(writer, blob((0, 0), (50, 70), 7))
    filler = small_disk / "filler"
    left = shutil.disk_usage(small_disk).free - 10 * 4096
    filler.write_bytes(bytes(left))
    with pytest.raises(OSError, match="No space left"):
        writer.save()
    pixels = read_levels(label, 4)[0]  # all can be read
    assert set(np.unique(pixels)) == {0, 7}
    assert not list(label.rglob("*.aside"))
    assert writer.has_unsaved
    filler.unlink()
    writer.save()
    check(label, writer, "nearest")


@pytest.mark.parametrize("layout", ["v3", "v2", "sharded"])
def test_labels_that_need_a_wider_type_widen_the_file(tmp_path, layout):
    label = tmp_path / "label"
    options = LAYOUTS[layout]
    write_levels(label, random_levels(dtype="u1"), CHUNKS, **options)
    writer = open_writer(label, 4)
    add(writer, blob((0, 0), (9, 9), 200))
    writer.save()
    writer.canvas.change_dtype(np.dtype("u2"))
    add(writer, blob((20, 20), (9, 9), 60000))
    writer.save()
    levels = check(label, writer, "nearest")
    assert levels[0].dtype == "u2"
    assert (levels[0] == 60000).sum() == 81
    assert (levels[0] == 200).sum() == 81
    assert sorted(p.name for p in label.iterdir()) == ["0", "1", "2", "3"]
    # The same as if it had been so from the start, but for the type.
    twin = write_levels(tmp_path / "twin", levels, CHUNKS, **options)
    if layout != "sharded":
        mine, theirs = object_files(label), object_files(twin)
        assert mine.keys() == theirs.keys()
    for _ in range(2):
        writer.canvas.undo()
    writer.save()
    for got, want in zip(read_levels(label, 4), random_levels(), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("failing", range(4))
def test_a_type_is_widened_though_its_name_is_not_flushed_at_once(
    tmp_path, monkeypatch, failing
):
    label = write_levels(tmp_path / "label", random_levels(dtype="u1"), CHUNKS)
    writer = open_writer(label, 4)
    writer.canvas.change_dtype(np.dtype("u2"))
    add(writer, blob((20, 20), (9, 9), 60000))
    flush_name, calls = replace_tree.TreeReplacement.flush_name, []

    def fail_once(tree):
        calls.append(tree)
        if len(calls) == failing + 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        flush_name(tree)

    monkeypatch.setattr(replace_tree.TreeReplacement, "flush_name", fail_once)
    with pytest.raises(OSError, match="No space"):
        writer.save()
    assert writer.has_unsaved
    # Its own new array is not taken for that of another window.
    assert writer.save().refused == ()
    assert check(label, writer, "nearest")[0].dtype == "u2"


def test_a_damaged_file_is_not_widened(label):
    (label / "0/c/0/0").write_bytes(b"rubbish")
    before = object_files(label)
    writer = open_writer(label, 4)
    writer.canvas.change_dtype(np.dtype("u4"))
    add(writer, blob((30, 30), (2, 2), 70000))
    with pytest.raises(ChunkError, match="0/c/0/0 cannot be read"):
        writer.save()
    after = object_files(label)
    assert {k: v[0] for k, v in after.items() if k[0] == "0"} == {
        k: v[0] for k, v in before.items() if k[0] == "0"
    }
    assert not list(label.glob("*widening"))
    # Once it is restored, the same save is done after all.
    copy = write_levels(
        label.parent / "copy", random_levels(), CHUNKS, compressors=ZSTD
    )
    shutil.copy(copy / "0/c/0/0", label / "0/c/0/0")
    writer.save()
    check(label, writer, "nearest")


ORDERS = {
    "transposed": ((1, 0), (83, 61)),
    "new axis": ((None, 0, 1), (1, 61, 83)),
    "new in between": ((1, None, 0), (83, 1, 61)),
}


@pytest.mark.parametrize("name", ORDERS)
def test_axes_of_the_layer_are_mapped_back(label, name):
    order, _ = ORDERS[name]
    writer = open_writer(label, 4, order=order)
    at = {0: (30, 40), 1: (50, 60)}  # rows and columns of the file
    mask = np.ones([1 if a is None else at[a][1] - at[a][0] for a in order], bool)
    corner = [0 if a is None else at[a][0] for a in order]
    axes = tuple(range(len(order)))
    add(writer, Edit(Mask(mask_runs(mask, corner)), axes, (), 9))
    writer.save()
    want = random_levels()[0]
    want[30:40, 50:60] = 9
    for got, level in zip(
        read_levels(label, 4), levels_of(want, SHAPES[1:], "nearest"), strict=True
    ):
        np.testing.assert_array_equal(got, level)


def test_dropped_axis_and_planes(tmp_path):
    shapes = ((1, 5, 20, 30), (1, 5, 10, 15), (1, 2, 5, 7))
    levels = levels_of(np.zeros(shapes[0], "u4"), shapes[1:], "nearest")
    write_levels(tmp_path, levels, (1, 2, 8, 8), compressors=ZSTD)
    writer = open_writer(tmp_path, 3, order=(1, 2, 3))
    shape = Stroke(((3.0, 4.0), (15.0, 25.0)), (20,), 3.5, (1.0, 1.0))
    add(writer, Edit(shape, (1, 2), ((0, 2),), 6))
    writer.save()
    got = read_levels(tmp_path, 3)
    assert (got[0][0] == writer.canvas.read(0, ((0, 5), (0, 20), (0, 30)))).all()
    assert got[0][0, 2].any()
    assert not got[0][0, [0, 1, 3, 4]].any()
    for want, level in zip(levels_of(got[0], shapes[1:], "nearest"), got, strict=True):
        np.testing.assert_array_equal(level, want)


@pytest.mark.default_cases("0")
@pytest.mark.parametrize("room", [0, 2**20])
def test_memory_does_not_grow_with_the_edit(tmp_path, room, monkeypatch):
    shape, chunks = (2048, 2048), (128, 128)
    noise = np.random.default_rng(1).integers(0, 2**32, shape, "u4")
    levels = [noise[:: 2**k, :: 2**k] for k in range(4)]
    write_levels(tmp_path, levels, chunks, compressors=ZSTD)
    del levels, noise
    writer = open_writer(tmp_path, 4)
    add(writer, blob((0, 0), (4, 4), 9))
    writer.save()  # imports what a save needs
    add(writer, Edit(Polygon(((-1, -1), (-1, 9000), (9000, -1)), shape), (0, 1), (), 3))
    cache.clear()
    # Where there is no room for parts of the next level they are read again.
    monkeypatch.setattr(save_pass, "ReductionCache", partial(ReductionCache, room=room))
    tracemalloc.start()
    outcome = writer.save()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert outcome.objects == 256 + 64 + 16 + 4
    # All levels are 21 MiB; to draw the edit takes 6.
    assert peak - room < 8 * 2**20
    # Nobody sees what was read for it: what is looked at stays in the cache.
    assert not cache.nbytes


def test_painting_goes_on_while_saving(label):
    writer = open_writer(label, 4)
    add(writer, blob((0, 0), (61, 83), 7))
    thread = threading.Thread(target=writer.save)
    thread.start()
    for i in range(20):
        add(writer, blob((i, i), (3, 3), 1 + i % 3))
        writer.canvas.read(0, ((0, 61), (0, 83)))
    thread.join()
    writer.save()
    check(label, writer, "nearest")
