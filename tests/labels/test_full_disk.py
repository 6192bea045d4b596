"""A disk that is full for a while takes nothing from a journal."""

import shutil
import subprocess
from contextlib import suppress

import numpy as np
import pytest
from zarr.codecs import ZstdCodec

from napari_ngff.labels.edits import dump_edit
from napari_ngff.labels.journal import Journal, find_journals, read_journal
from napari_ngff.labels.saving.before_images import BeforeImages
from saving import edit, open_canvas, write_levels

SHAPE = (120, 150)


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """A small disk of its own, where journals are."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(command).returncode:
        pytest.skip("no permission to mount a disk")
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def canvas(tmp_path):
    pixels = np.zeros(SHAPE, "u2")
    label = write_levels(
        tmp_path / "label", [pixels], (16, 24), compressors=ZstdCodec(level=1)
    )
    return open_canvas(label, 1)


def fill(disk, left=0):
    """Leave so many bytes; return what takes the others."""
    ballast = disk / "ballast"
    with suppress(OSError), ballast.open("ab", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    with ballast.open("r+b") as file:
        file.truncate(max(ballast.stat().st_size - left, 0))
    return ballast


def add(canvas, numbers):
    for number in numbers:
        canvas.begin_step()
        canvas.add_edit(edit(number, 3, SHAPE))
        canvas.close_step()


@pytest.mark.parametrize("left", [0, 4096])
def test_each_edit_is_in_the_journal_once(disk, canvas, left):
    journal = Journal("label", "", canvas)
    add(canvas, range(3))
    journal.sync()
    ballast = fill(disk, left)
    add(canvas, range(3, 60))
    for _ in range(3):
        with pytest.raises(OSError, match="No space left"):
            journal.sync()
    ballast.unlink()
    canvas.undo()
    journal.sync()
    add(canvas, range(60, 70))
    journal.sync()
    journal.close()
    found = read_journal(journal.folder)
    assert [dump_edit(e) for e in found.edits] == [dump_edit(e) for e in canvas.edits]


def test_a_journal_can_begin_when_there_is_room_again(disk, canvas):
    journal = Journal("label", "", canvas)
    ballast = fill(disk)
    add(canvas, range(3))
    for _ in range(3):
        with pytest.raises(OSError, match="No space left"):
            journal.sync()
    ballast.unlink()
    journal.sync()
    journal.close()
    (folder,) = find_journals("label", "")
    assert read_journal(folder).shape == SHAPE
    assert read_journal(folder).unsaved_count == 3


@pytest.mark.parametrize("side", [16, 100])
def test_what_is_kept_of_a_file_is_found_again(disk, side):
    def opened():
        return BeforeImages(lambda: (disk / "before.bin").open("a+b", buffering=0))

    rng = np.random.default_rng(1)
    blocks = [rng.integers(0, 2**16, (side, side)).astype("u2") for _ in range(40)]
    retained, failed = opened(), []
    ballast = fill(disk, 65536)
    for number, block in enumerate(blocks):
        if number == 30:
            ballast.unlink()
        try:
            retained.put_block(0, (number, 0), block)
        except OSError:
            failed.append(number)
    retained.close()
    again = opened()
    again.load()
    kept = sorted(set(range(40)) - set(failed))
    assert sorted(cell[0] for cell in again.list_cells(0)) == kept
    for number in kept:
        np.testing.assert_array_equal(again.get_block(0, (number, 0)), blocks[number])
    again.close()
    assert failed or side == 16
