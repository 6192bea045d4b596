"""Thumbnails: what they show, what they cost, and in which order they come."""

from __future__ import annotations

import ast
import json
import os
import shutil
import threading
from collections import Counter

import numpy as np
import pytest
import zarr

import plates
from napari_ngff import open_node
from napari_ngff.errors import OMEZarrError
from napari_ngff.plate.arrangement import Remark
from napari_ngff.plate.previews.preview import (
    SIDE,
    PreviewChannel,
    PreviewPixels,
    PreviewPlace,
    PreviewReader,
    block_means,
    mix_channels,
)
from napari_ngff.plate.previews.preview_cache import PreviewCache, clear_previews
from napari_ngff.plate.previews.preview_queue import PlateContrast, PreviewQueue
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.samples import write_image, write_plate
from patience import PATIENCE, until

WELLS = [f"{row}/{column}" for row in "AB" for column in "123"]
VERSIONS = ["0.1", "0.4", "0.5"]


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("previews")
    names = [path.replace("/", "") for path in WELLS]
    for version in VERSIONS:
        where = folder / f"{version}.ome.zarr"
        wells = names if version == "0.5" else ["A1", "B2"]
        write_plate(
            where, version, grid=(2, 3), fields=1, shape=(128, 128), wells=wells
        )
    return folder


@pytest.fixture
def plate(samples, tmp_path):
    return shutil.copytree(samples / "0.5.ome.zarr", tmp_path / "plate.ome.zarr")


@pytest.fixture
def reads(monkeypatch):
    """Count how often each object is read."""
    counted = Counter()
    get = FolderStore.read

    def counting(source, key, *part):
        counted[key] += 1
        return get(source, key, *part)

    monkeypatch.setattr(FolderStore, "read", counting)
    return counted


def reader(path, cache=None):
    node = open_node(path)
    return PreviewReader(node.location.source, node.zarr_format, cache=cache)


def spots(wells=WELLS):
    return [PreviewPlace(path, well=True) for path in wells]


def drain(queue, count):
    """Take thumbnails until so many places have one and all threads have ended."""
    found = {}

    def done():
        found.update(queue.take_ready())
        return len(found) >= count and not queue._running

    until(done)
    return found | queue.take_ready()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_thumbnail_shows_the_first_field(samples, version):
    path = samples / f"{version}.ome.zarr"
    preview = reader(path).read(PreviewPlace("B/2", well=True))
    node = open_node(path / "B" / "2" / "0")
    level = node.metadata.image.multiscales[0].levels[1].path
    array = zarr.open_array(path / "B" / "2" / "0" / level, mode="r")
    assert preview.pixels.shape[-2:] == (SIDE, SIDE) == array.shape[-2:]
    plane = array[0, :, 0] if array.ndim == 5 else array[:]
    np.testing.assert_array_equal(preview.pixels, plane)
    assert preview.looks[0].color == node.metadata.image.omero.channels[0].color


def test_a_thumbnail_shows_the_first_field_of_an_acquisition(tmp_path):
    path = plates.write_plate(
        tmp_path / "p.ome.zarr", grid=(1, 2), fields=2, levels=1, acquisitions=2
    )
    # The other well lists the acquisitions the other way round.
    document = json.loads((path / "A/2/zarr.json").read_text())
    document["attributes"]["ome"]["well"]["images"].reverse()
    (path / "A/2/zarr.json").write_text(json.dumps(document))
    previews = reader(path)
    for well, run, field in [("A/1", 1, 2), ("A/2", 1, 3), ("A/2", 0, 1)]:
        preview = previews.read(PreviewPlace(well, True, run))
        plane = zarr.open_array(path / well / str(field) / "0", mode="r")[:]
        np.testing.assert_array_equal(preview.pixels, plane)
    # The map crosses it in grey, since nothing is broken.
    queue, place = PreviewQueue(previews, lambda: None), PreviewPlace("A/1", True, 7)
    queue.request_places([place])
    reason = drain(queue, 1)[place].error
    queue.close()
    assert isinstance(reason, Remark)
    assert "no field of this acquisition" in reason


def test_further_wells_cost_two_reads_and_one_per_channel(samples, reads):
    previews = reader(samples / "0.5.ome.zarr")
    previews.read(PreviewPlace(WELLS[0], well=True))
    reads.clear()
    preview = previews.read(PreviewPlace(WELLS[4], well=True))
    assert sum(reads.values()) <= 1 + len(preview.pixels)
    assert all(key.startswith(f"{WELLS[4]}/") for key in reads)


@pytest.mark.parametrize("dtype", ["u1", "i4", "u4", "i8", "u8", "f2", "f8"])
def test_the_brightest_plane_stays_as_bright(dtype):
    info = np.finfo(dtype) if dtype[0] == "f" else np.iinfo(dtype)
    plane = np.full((2000, 1999), info.max, dtype)
    means = block_means(plane)
    assert means.dtype == dtype
    assert (means == info.max).all()


def test_large_planes_are_means_of_blocks(tmp_path):
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=3)
    array = group.create_array("0", shape=(200, 400), dtype="u2", chunks=(100, 100))
    pixels = np.random.default_rng(1).integers(0, 60000, (200, 400), dtype="u2")
    array[:] = pixels
    steps = [{"type": "scale", "scale": [1, 1]}]
    axes = [{"name": n, "type": "space"} for n in "yx"]
    datasets = [{"path": "0", "coordinateTransformations": steps}]
    group.attrs["ome"] = {
        "version": "0.5",
        "multiscales": [{"axes": axes, "datasets": datasets}],
    }
    source = open_node(tmp_path / "a.zarr").location.source
    preview = PreviewReader(source, alike=False).read(PreviewPlace(""))
    assert preview.pixels.shape == (1, 28, 57)
    expected = pixels[7:14, 14:21].mean()
    assert abs(int(preview.pixels[0, 1, 2]) - expected) <= 1
    assert preview.summary == "400 \N{MULTIPLICATION SIGN} 200, 1 channel, uint16"


def test_a_well_unlike_the_others_is_looked_up(plate):
    """Other names of fields and levels, and fewer levels."""
    well = plate / "A" / "2"
    (well / "0").rename(well / "first")
    document = json.loads((well / "zarr.json").read_text())
    document["attributes"]["ome"]["well"]["images"][0]["path"] = "first"
    (well / "zarr.json").write_text(json.dumps(document))
    previews = reader(plate)
    assert previews.read(PreviewPlace("A/1", well=True)).pixels.any()
    assert previews.read(PreviewPlace("A/2", well=True)).pixels.any()


def test_a_well_is_shown_after_a_field(tmp_path):
    """Also where the level has the name of a field."""
    previews = reader(plates.write_plate(tmp_path / "p", grid=(1, 2), fields=2))
    field = previews.read(PreviewPlace("A/1/0"))
    well = previews.read(PreviewPlace("A/1", well=True))
    np.testing.assert_array_equal(well.pixels, field.pixels)
    assert previews.read(PreviewPlace("A/2", well=True)).pixels.any()


def test_broken_wells_do_not_stop_the_others(plate):
    shutil.rmtree(plate / "A" / "1")
    shutil.rmtree(plate / "B" / "3" / "0")
    (plate / "A" / "3" / "zarr.json").write_text("{")
    shutil.rmtree(plate / "A" / "3" / "0")
    queue = PreviewQueue(reader(plate), lambda: None)
    queue.request_places(spots())
    found = drain(queue, len(WELLS))
    broken = {place.path: t.error for place, t in found.items() if t.pixels is None}
    assert set(broken) == {"A/1", "A/3", "B/3"}
    assert "A/1" in broken["A/1"]
    queue.close()


def test_channels_are_mixed_in_their_colours():
    looks = (
        PreviewChannel(0, (255, 0, 0)),
        PreviewChannel(1, (0, 255, 0)),
        PreviewChannel(2, (0, 0, 255), True),
    )
    pixels = np.array([[[0, 50, 100]], [[100, 100, 0]], [[100, 100, 100]]], "u2")
    mixed = mix_channels(PreviewPixels(pixels, looks), [(0, 100)] * 3)
    np.testing.assert_array_equal(mixed[0], [[0, 255, 0], [127, 255, 0], [255, 0, 0]])


def flat(value):
    pixels = np.full((1, 8, 8), value, "u2")
    pixels[0, 0] = 0
    return PreviewPixels(pixels, (PreviewChannel(0),))


def test_contrast_is_one_for_the_plate():
    """A dim well looks dim beside a bright one."""
    contrast = PlateContrast()
    dim, bright = flat(100), flat(1000)
    assert contrast.add_preview(dim)
    assert contrast.add_preview(bright)
    shown = [mix_channels(p, contrast.limits_of(p)).max() for p in (dim, bright)]
    assert shown[1] > 240
    assert shown[0] < 40
    assert not contrast.add_preview(bright), (
        "limits that hardly move are not drawn anew"
    )


def test_contrast_of_the_file_is_kept():
    contrast = PlateContrast()
    preview = PreviewPixels(flat(7).pixels, (PreviewChannel(0, limits=(3.0, 9.0)),))
    assert not contrast.add_preview(preview)
    assert contrast.limits_of(preview) == [(3.0, 9.0)]


class Scripted:
    """A reader that waits until it may go on, and notes who was read."""

    alike = True
    is_remote = False

    def __init__(self, values=None):
        self.order = []
        self.gate = threading.Semaphore(0)
        self.values = values or {}

    def read(self, place):
        self.order.append(place.path)
        assert self.gate.acquire(timeout=PATIENCE)
        return flat(self.values.get(place.path, 100))


def test_what_is_scrolled_away_is_not_read():
    previews = Scripted()
    queue = PreviewQueue(previews, lambda: None)
    first = [PreviewPlace(f"old{i}") for i in range(20)]
    queue.request_places(first)
    until(lambda: len(previews.order) >= 2)
    queue.request_places([PreviewPlace("new1"), PreviewPlace("new2")])
    previews.gate.release(50)
    drain(queue, 4)
    assert sorted(previews.order[:2]) == ["old0", "old1"], "a few at a time, in order"
    assert sorted(previews.order[2:]) == ["new1", "new2"]
    queue.close()


def test_all_are_drawn_anew_when_contrast_moves():
    values = {"a": 100, "b": 1000}
    previews = Scripted(values)
    queue = PreviewQueue(previews, lambda: None)
    previews.gate.release(50)
    queue.request_places([PreviewPlace("a")])
    before = drain(queue, 1)[PreviewPlace("a")].pixels.max()
    queue.request_places([PreviewPlace("b")])
    found = drain(queue, 2)
    assert before == 255
    assert found[PreviewPlace("a")].pixels.max() < 40
    assert previews.order == ["a", "b"], "no file is read again for it"
    queue.close()


def test_contrast_stays_one_when_others_are_wanted_meanwhile():
    previews = Scripted({"a": 100, "b": 1000, "c": 1000})
    later = []

    def ready():
        # As the map, when it is scrolled just now; in the thread that draws.
        if later:
            queue.request_places(later.pop())

    queue = PreviewQueue(previews, ready)
    previews.gate.release(50)
    queue.request_places([PreviewPlace("a")])
    drain(queue, 1)
    later.append([PreviewPlace("c")])
    queue.request_places([PreviewPlace("b")])
    found = drain(queue, 3)
    assert found[PreviewPlace("a")].pixels.max() < 40
    queue.close()


def test_threads_end_when_nothing_is_wanted(samples):
    before = threading.active_count()
    queue = PreviewQueue(reader(samples / "0.5.ome.zarr"), lambda: None)
    queue.request_places(spots())
    drain(queue, len(WELLS))
    until(lambda: threading.active_count() <= before)


def test_a_closed_queue_gives_nothing():
    previews = Scripted()
    queue = PreviewQueue(previews, lambda: pytest.fail("reported after the end"))
    queue.request_places([PreviewPlace("a"), PreviewPlace("b"), PreviewPlace("c")])
    until(lambda: len(previews.order) >= 2)
    queue.close()
    previews.gate.release(9)
    until(lambda: not queue._running)
    assert not queue.take_ready()
    assert len(previews.order) == 2


def test_no_error_ends_the_others(monkeypatch):
    """Whatever a thumbnail, drawing it or the map raises, the rest comes."""
    from napari_ngff.plate.previews import preview_queue as module

    reported = []
    monkeypatch.setattr(threading, "excepthook", lambda found: reported.append(found))
    drawn = []

    def draw(preview, limits):
        drawn.append(preview)
        if len(drawn) == 1:
            raise TypeError("drawing")
        return mix_channels(preview, limits)

    monkeypatch.setattr(module, "mix_channels", draw)

    def ready():
        raise RuntimeError("the map")

    previews = Scripted()
    queue = PreviewQueue(previews, ready)
    previews.gate.release(50)
    queue.request_places([PreviewPlace("a")])
    assert drain(queue, 1)[PreviewPlace("a")].error == "Unexpected TypeError: drawing"
    queue.request_places([PreviewPlace("b")])
    assert drain(queue, 1)[PreviewPlace("b")].pixels.max() == 255
    until(lambda: not queue._running)
    assert {str(one.exc_value) for one in reported} == {"the map"}
    queue.close()


@pytest.fixture
def cache(tmp_path):
    return PreviewCache(tmp_path / "cache")


def read_all(path, cache):
    previews = reader(path, cache)
    return [previews.read(place).pixels for place in spots()]


def test_the_cache_spares_reading(plate, cache, reads):
    first = read_all(plate, cache)
    reads.clear()
    again = read_all(plate, PreviewCache(cache.folder))
    np.testing.assert_array_equal(first, again)
    assert not [key for key in reads if "/c/" in key]
    assert {key.split("/")[0] for key in reads} == {"zarr.json", "A"}


def test_the_cache_parses_no_python(plate, cache, monkeypatch):
    """Python 3.11 fails to do so in threads, now and then (python/cpython#106905)."""

    def fail(*_, **__):
        raise SystemError("AST constructor recursion depth mismatch")

    first = read_all(plate, cache)
    with monkeypatch.context() as broken:
        broken.setattr(ast, "parse", fail)
        again = read_all(plate, cache)
    np.testing.assert_array_equal(first, again)


def test_a_changed_image_is_read_again(plate, cache):
    before = read_all(plate, cache)
    levels = open_node(plate / "A" / "2" / "0").metadata.image.multiscales[0].levels
    array = zarr.open_array(plate / "A" / "2" / "0" / levels[1].path)
    array[:] = 7
    after = read_all(plate, cache)
    assert (after[1] == 7).all()
    np.testing.assert_array_equal(before[2], after[2])


def test_a_well_that_appears_later_is_seen(plate, cache):
    hidden = plate.parent / "hidden"
    (plate / "A" / "2").rename(hidden)
    previews = reader(plate, cache)
    previews.read(PreviewPlace("A/1", well=True))
    with pytest.raises(OMEZarrError):
        previews.read(PreviewPlace("A/2", well=True))
    hidden.rename(plate / "A" / "2")
    assert previews.read(PreviewPlace("A/2", well=True)).pixels.any()


def test_archives_are_kept_too(samples, tmp_path, cache):
    from napari_ngff.store.write.zip_packing import pack_hierarchy

    archive = tmp_path / "plate.ozx"
    pack_hierarchy(samples / "0.5.ome.zarr", archive)
    read_all(archive, cache)
    assert len(list(cache.folder.iterdir())) == len(WELLS)


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"nonsense", b"\xff" * 300])
def test_damaged_entries_are_made_again(plate, cache, damage):
    first = read_all(plate, cache)
    for file in cache.folder.iterdir():
        file.write_bytes(damage)
    np.testing.assert_array_equal(first, read_all(plate, cache))


def test_the_cache_is_bounded(plate, tmp_path):
    folder = tmp_path / "small"
    read_all(plate, PreviewCache(folder))
    sizes = [file.stat().st_size for file in folder.iterdir()]
    used = sorted(folder.iterdir())[0]
    for file in folder.iterdir():
        os.utime(file, (1, 1))
    os.utime(used)
    other = shutil.copytree(plate, tmp_path / "other.ome.zarr")
    limit = sum(sizes) * 8 // 6
    read_all(other, PreviewCache(folder, limit))
    left = [file.stat().st_size for file in folder.iterdir()]
    assert sum(left) <= limit
    assert used.exists(), "what was used last stays"
    assert clear_previews(folder) == sum(left)
    assert not list(folder.iterdir())


def test_a_folder_that_cannot_be_written_only_costs_time(plate, tmp_path):
    (tmp_path / "file").write_text("no folder")
    previews = reader(plate, PreviewCache(tmp_path / "file" / "cache"))
    assert previews.read(PreviewPlace("A/1", well=True)).pixels.any()


def test_images_of_a_collection_have_contrast_of_their_own(tmp_path):
    write_image(tmp_path / "a.ome.zarr", shape=(64, 64))
    write_image(tmp_path / "b.ome.zarr", "0.4", shape=(1, 128, 64))
    previews = PreviewReader(FolderStore(str(tmp_path)), alike=False)
    queue = PreviewQueue(previews, lambda: None)
    queue.request_places(
        [
            PreviewPlace("a.ome.zarr"),
            PreviewPlace("b.ome.zarr"),
            PreviewPlace("c.ome.zarr"),
        ]
    )
    found = drain(queue, 3)
    queue.close()
    assert (
        found[PreviewPlace("a.ome.zarr")].summary
        == "64 \N{MULTIPLICATION SIGN} 64, 3 channels, uint16"
    )
    assert (
        found[PreviewPlace("b.ome.zarr")].summary
        == "64 \N{MULTIPLICATION SIGN} 128, 3 channels, uint16"
    )
    assert "c.ome.zarr" in found[PreviewPlace("c.ome.zarr")].error
