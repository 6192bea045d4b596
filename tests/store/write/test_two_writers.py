"""Two processes that save into one image lose nothing of each other's."""

import multiprocessing

import numpy as np
import pytest

from callers import (
    ARCHIVE,
    CHUNKS,
    FOLDER,
    SHAPES,
    Place,
    add,
    open_canvas,
    prepare_image,
)
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.runs import mask_runs
from napari_ngff.labels.saving.retained import Retained
from napari_ngff.labels.shapes import Mask
from napari_ngff.labels.writer import LabelWriter
from napari_ngff.store.archives.packing import pack
from napari_ngff.store.boxes import whole_box
from napari_ngff.store.chunks import open_array
from saving import levels_of

ROUNDS = 8


def corner_of(writer, number):
    """Where a writer paints: in each chunk its own rows."""
    rows, columns = SHAPES[0][0] // CHUNKS[0], SHAPES[0][1] // CHUNKS[1]
    row, column = divmod(number % (rows * columns), columns)
    return row * CHUNKS[0] + 8 * writer, column * CHUNKS[1]


def save_rounds(place, path, writer, start, told):
    """Paint and save, once more where another was there first; tell how often."""
    canvas, refusals = open_canvas(place, path), 0
    labels = LabelWriter(canvas, Retained(), "nearest")
    start.wait()
    for number in range(ROUNDS):
        runs = mask_runs(np.ones((8, 16), bool), corner_of(writer, number))
        add(canvas, Edit(Mask(runs), (0, 1), (), 10 * (writer + 1) + number))
        while labels.save().refused:
            refusals += 1
    told.put(refusals)


@pytest.fixture
def run_both(tmp_path):
    def run(kind, paths):
        place = Place(kind, tmp_path)
        place.files.mkdir()
        prepare_image(place.files / "image.zarr")
        if kind == ARCHIVE:
            pack(place.files / "image.zarr", place.root)
        context = multiprocessing.get_context("spawn")
        start, told = context.Barrier(2), context.Queue()
        processes = [
            context.Process(target=save_rounds, args=(place, path, number, start, told))
            for number, path in enumerate(paths)
        ]
        for one in processes:
            one.start()
        refusals = sum(told.get(timeout=200) for _ in processes)
        for one in processes:
            one.join(60)
            assert one.exitcode == 0
        return place, refusals

    return run


def check_painted(place, path, writers):
    """See that all of both is there, and each level made of the finer one."""
    found = [open_array(place.source, f"{path}/{i}") for i in range(len(SHAPES))]
    levels = [one.read(whole_box(one.shape)) for one in found]
    for writer in writers:
        for number in range(ROUNDS):
            row, column = corner_of(writer, number)
            part = levels[0][row : row + 8, column : column + 16]
            assert (part == 10 * (writer + 1) + number).all(), (writer, number)
    for got, want in zip(
        levels, levels_of(levels[0], SHAPES[1:], "nearest"), strict=True
    ):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kind", [FOLDER, ARCHIVE])
def test_different_labels(run_both, kind):
    paths = "labels/nuclei", "labels/other"
    place, refusals = run_both(kind, paths)
    assert refusals == 0
    for writer, path in enumerate(paths):
        check_painted(place, path, [writer])


@pytest.mark.parametrize("kind", [FOLDER, ARCHIVE])
def test_the_same_labels(run_both, kind):
    place, _ = run_both(kind, ("labels/nuclei", "labels/nuclei"))
    check_painted(place, "labels/nuclei", [0, 1])
