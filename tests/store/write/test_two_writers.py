"""Two processes that save into one image lose nothing of each other's."""

import multiprocessing
import os
import re
import shutil
import zipfile

import numpy as np
import pytest
import zarr

from buckets import bucket_server, connect
from callers import (
    ARCHIVE,
    BUCKET,
    CHUNKS,
    FOLDER,
    SHAPES,
    Place,
    add,
    open_canvas,
    prepare_image,
)
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.label_writer import LabelWriter
from napari_ngff.labels.runs import mask_runs
from napari_ngff.labels.saving.before_images import BeforeImages
from napari_ngff.labels.saving.save_pass import SavePass
from napari_ngff.labels.shapes import Mask
from napari_ngff.store.arrays.array_writer import ArrayWriter
from napari_ngff.store.arrays.boxes import whole_box
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.write.zip_packing import pack_hierarchy
from saving import levels_of

EACH = [FOLDER, ARCHIVE, pytest.param(BUCKET, marks=pytest.mark.long)]
ROUNDS = 8
PATH = "labels/nuclei"
GRID = tuple(n // c for n, c in zip(SHAPES[0], CHUNKS, strict=True))
REWRITES = {FOLDER: 200, ARCHIVE: 20, BUCKET: 20}
LEAST = 1000
"""The first value of another program; ours are smaller."""


def corner_of(writer, number):
    """Where a writer paints: in each chunk its own rows."""
    row, column = divmod(number % (GRID[0] * GRID[1]), GRID[1])
    return row * CHUNKS[0] + 8 * writer, column * CHUNKS[1]


def save_rounds(place, path, writer, start, reported):
    """Paint and save, once more where another was there first; tell what was said."""
    canvas, refused = open_canvas(place, path), []
    labels = LabelWriter(canvas, BeforeImages(), "nearest")
    start.wait()
    for number in range(ROUNDS):
        runs = mask_runs(np.ones((8, 16), bool), corner_of(writer, number))
        add(canvas, Edit(Mask(runs), (0, 1), (), 10 * (writer + 1) + number))
        while found := labels.save().refused:
            refused += found
            assert "changed by another" in found[0], found
    reported.put(refused)


def rewrite(place, key, block):
    """Write a chunk whole, as programs do that know nothing of ours."""
    name = f"{PATH}/0/c/{key[0]}/{key[1]}"
    folder = place.root if place.kind == FOLDER else place.folder / "theirs"
    zarr.open_array(folder / PATH / "0", mode="r+").blocks[key] = block
    if place.kind == FOLDER:
        return
    data = (folder / name).read_bytes()
    if place.kind == BUCKET:
        connect(os.environ["AWS_ENDPOINT_URL"]).pipe(f"cells/image.zarr/{name}", data)
        return
    beside = place.folder / "theirs.ozx"
    with zipfile.ZipFile(place.root) as old, zipfile.ZipFile(beside, "w") as new:
        for entry in old.namelist():
            new.writestr(entry, data if entry == name else old.read(entry))
    os.replace(beside, place.root)


def rewrite_rounds(place, start, reported):
    """Rewrite chunks while the other saves; tell what was written last."""
    last = {}
    start.wait()
    for number in range(LEAST, LEAST + REWRITES[place.kind]):
        key = divmod(number % (GRID[0] * GRID[1]), GRID[1])
        rewrite(place, key, np.full(CHUNKS, number, "u2"))
        last[key] = number
    reported.put(last)


@pytest.fixture(scope="module")
def server():
    with bucket_server() as files:
        yield files


@pytest.fixture
def make_place(tmp_path, server):
    def make(kind):
        place = Place(kind, tmp_path)
        place.files.mkdir()
        image = place.files / "image.zarr"
        prepare_image(image)
        if kind != FOLDER:
            shutil.copytree(image, tmp_path / "theirs")
        if kind == ARCHIVE:
            pack_hierarchy(image, place.root)
        elif kind == BUCKET:
            server.makedirs("cells", exist_ok=True)
            server.put(f"{image}/", "cells/image.zarr/", recursive=True)
        return place

    yield make
    if server.exists("cells"):
        server.rm("cells", recursive=True)


CONTEXT = multiprocessing.get_context("spawn")


def run_both(place, paths):
    """Let two of ours save; return what each was refused."""
    start, reported = CONTEXT.Barrier(2), CONTEXT.Queue()
    processes = [
        CONTEXT.Process(target=save_rounds, args=(place, path, number, start, reported))
        for number, path in enumerate(paths)
    ]
    for one in processes:
        one.start()
    refused = [reported.get(timeout=100) for _ in processes]
    for one in processes:
        one.join(60)
        assert one.exitcode == 0
    return refused


def read_levels(place, path):
    found = [open_array(place.source, f"{path}/{i}") for i in range(len(SHAPES))]
    return [one.read(whole_box(one.shape)) for one in found]


def check_painted(place, path, writers):
    """See that all of both is there, and each level made of the finer one."""
    levels = read_levels(place, path)
    for writer in writers:
        for number in range(ROUNDS):
            row, column = corner_of(writer, number)
            part = levels[0][row : row + 8, column : column + 16]
            assert (part == 10 * (writer + 1) + number).all(), (writer, number)
    for got, want in zip(
        levels, levels_of(levels[0], SHAPES[1:], "nearest"), strict=True
    ):
        np.testing.assert_array_equal(got, want)


def check_reported(refused):
    """Who gives way is told which object it is about, and what became of it."""
    for message in refused:
        assert re.search(r"image\.(zarr|ozx)", message), message
        assert "was changed by another program" in message
        assert "left as it is" in message


@pytest.mark.default_cases("folder")
@pytest.mark.parametrize("kind", EACH)
def test_different_labels(make_place, kind):
    place, paths = make_place(kind), (PATH, "labels/other")
    assert run_both(place, paths) == [[], []]
    for writer, path in enumerate(paths):
        check_painted(place, path, [writer])


@pytest.mark.default_cases("archive")
@pytest.mark.parametrize("kind", EACH)
def test_the_same_labels(make_place, kind):
    place = make_place(kind)
    for refused in run_both(place, (PATH, PATH)):
        check_reported(refused)
    check_painted(place, PATH, [0, 1])


def test_what_comes_while_a_chunk_is_saved_for_the_first_time_stays(
    make_place, monkeypatch
):
    place = make_place(FOLDER)
    canvas = open_canvas(place, PATH)
    labels = LabelWriter(canvas, BeforeImages(), "nearest")
    runs = mask_runs(np.ones((8, 16), bool), corner_of(0, 0))
    add(canvas, Edit(Mask(runs), (0, 1), (), 10))
    put, others = ArrayWriter._put_object, [np.full(CHUNKS, LEAST, "u2")]

    def put_after_another(writer, *seen):
        if others:
            rewrite(place, (0, 0), others.pop())
        return put(writer, *seen)

    monkeypatch.setattr(ArrayWriter, "_put_object", put_after_another)
    assert "changed by another" in labels.save().refused[0]
    assert labels.save().refused == ()
    chunk = read_levels(place, PATH)[0][: CHUNKS[0], : CHUNKS[1]]
    assert (chunk[:8, :16] == 10).all()
    assert (chunk[8:] == LEAST).all()
    assert (chunk[:8, 16:] == LEAST).all()


def test_what_comes_between_two_tries_of_a_save_stays(make_place):
    """Nothing of it was on the screen, so that no reading has noted it."""
    place = make_place(FOLDER)
    labels = LabelWriter(open_canvas(place, PATH), BeforeImages(), "nearest")
    for number, value in enumerate((10, 20)):
        if number:
            rewrite(place, (0, 0), np.full(CHUNKS, LEAST, "u2"))
        runs = mask_runs(np.ones((8, 16), bool), corner_of(number, 0))
        add(labels.canvas, Edit(Mask(runs), (0, 1), (), value))
        assert bool(labels.save().refused) == bool(number)
    rewrite(place, (0, 0), np.full(CHUNKS, LEAST + 1, "u2"))
    assert "changed by another" in labels.save().refused[0]
    assert labels.save().refused == ()
    chunk = read_levels(place, PATH)[0][: CHUNKS[0], : CHUNKS[1]]
    assert (chunk[8:16, :16] == 20).all()
    assert (chunk[:8] == LEAST + 1).all()


def test_an_edit_that_two_have_made_at_once_is_undone_by_one(make_place, monkeypatch):
    """A bucket cannot tell the same bytes of another window from ours."""
    place = make_place(BUCKET)
    first, second = (
        LabelWriter(open_canvas(place, PATH), BeforeImages(), "nearest")
        for _ in range(2)
    )
    runs = mask_runs(np.ones((8, 16), bool), corner_of(0, 0))
    for one in (first, second):
        add(one.canvas, Edit(Mask(runs), (0, 1), (), 10))
    write, others = SavePass._write_coarser, [second]

    def write_after_another(own_pass, number):
        if others:
            others.pop().save()
        write(own_pass, number)

    monkeypatch.setattr(SavePass, "_write_coarser", write_after_another)
    assert first.save().refused == ()
    first.canvas.undo()
    assert first.save().refused == ()
    levels = read_levels(place, PATH)
    assert not (levels[0] == 10).any()
    for got, want in zip(
        levels, levels_of(levels[0], SHAPES[1:], "nearest"), strict=True
    ):
        np.testing.assert_array_equal(got, want)


@pytest.mark.default_cases("folder")
@pytest.mark.parametrize("kind", EACH)
def test_another_program_that_rewrites_the_same_chunks(make_place, kind):
    """What it wrote last is there, but where ours painted on top of that."""
    place = make_place(kind)
    start, reported, written = CONTEXT.Barrier(2), CONTEXT.Queue(), CONTEXT.Queue()
    ours = CONTEXT.Process(target=save_rounds, args=(place, PATH, 1, start, reported))
    theirs = CONTEXT.Process(target=rewrite_rounds, args=(place, start, written))
    for one in (ours, theirs):
        one.start()
    refused = reported.get(timeout=100)
    last = written.get(timeout=60)
    for one in (ours, theirs):
        one.join(60)
        assert one.exitcode == 0
    check_reported(refused)
    found = read_levels(place, PATH)[0]
    for (row, column), value in last.items():
        block = found[row * 16 : row * 16 + 16, column * 16 : column * 16 + 16]
        assert (block[:8] == value).all(), (row, column)
        number = row * GRID[1] + column
        assert set(np.unique(block[8:])) <= {value, 20 + number}, (row, column)
