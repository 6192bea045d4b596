from __future__ import annotations

import json
import shutil
import threading
from dataclasses import replace

import numpy as np
import pytest

from mosaics import mosaic, stored, whole
from napari_ngff import open_node
from napari_ngff.errors import LISTED, UnsupportedError
from napari_ngff.plate import kept_planes as plane_cache
from napari_ngff.plate.arrangement import ScreenArrangements
from napari_ngff.plate.kept_planes import kept as planes
from napari_ngff.plate.mosaic import open_mosaic
from napari_ngff.plate.plate_contents import PlateContents
from napari_ngff.plate.plate_layout import map_plate
from napari_ngff.store.lru_cache import ENTRY
from plates import SPACING, pixels, write_group, write_image, write_plate


def assert_in_place(root, joined, wells, shape, fields=4):
    """Compare every field at every level with what zarr reads of it."""
    across = int(np.ceil(np.sqrt(fields)))
    for level, source in enumerate(joined.pyramid.levels):
        picture = whole(source)
        height, width = shape[-2] >> level, shape[-1] >> level
        for path, (row, column) in wells.items():
            for k in range(fields):
                y = (row * across + k // across) * height
                x = (column * across + k % across) * width
                field = stored(root / path / str(k), level)
                shown = picture[..., y : y + height, x : x + width]
                np.testing.assert_array_equal(shown, field)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("placed", [True, False])
def test_every_field_is_at_its_place_at_every_level(tmp_path, zarr_format, placed):
    shape = (2, 16, 8)
    root = write_plate(
        tmp_path / "p", zarr_format, (2, 3), 4, shape, levels=3, placed=placed
    )
    wells = {f"{'AB'[r]}/{c + 1}": (r, c) for r in range(2) for c in range(3)}
    joined = mosaic(root)
    assert joined.pyramid.levels[0].shape == (2, 64, 48)
    assert_in_place(root, joined, wells, shape)
    assert not joined.tiles.misfits


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_missing_wells_are_empty_and_others_keep_their_places(tmp_path, zarr_format):
    kept = ["A/2", "C/1", "C/5"]
    root = write_plate(tmp_path / "p", zarr_format, (3, 5), wells=kept, levels=3)
    joined = mosaic(root)
    wells = {"A/2": (0, 1), "C/1": (2, 0), "C/5": (2, 4)}
    assert_in_place(root, joined, wells, (1, 8, 8))
    picture = whole(joined.pyramid.levels[0])
    assert np.count_nonzero(picture) == 3 * 4 * 64
    assert joined.pyramid.multiscale.levels[0].translation[-2:] == (0, 0)
    part = mosaic(root, ["C/5"])
    assert_in_place(root, part, {"C/5": (0, 0)}, (1, 8, 8))


def test_a_window_over_borders_equals_the_whole(tmp_path):
    root = write_plate(tmp_path / "p", shape=(1, 10, 10), levels=2, placed=False)
    source = mosaic(root).pyramid.levels[0]
    full = whole(source)
    fine = source.read(((0, 1), (7, 33), (15, 48)))
    np.testing.assert_array_equal(fine, full[:, 7:33, 15:48])


def test_a_well_of_many_takes_no_memory_for_the_others(tmp_path):
    root = write_plate(tmp_path / "p", grid=(3, 4), shape=(1, 8, 8))
    level = mosaic(root).pyramid.levels[0]
    planes.clear()
    (*lead, _, _) = ((0, size) for size in level.shape)
    one = level.read((*lead, (16, 32), (32, 48)))
    assert planes.nbytes == 0
    np.testing.assert_array_equal(one[0, 8:, :8], stored(root / "B" / "3" / "2")[0])
    everything = whole(level)
    assert planes.nbytes == everything.nbytes + ENTRY
    np.testing.assert_array_equal(everything[:, 16:32, 32:48], one)


def test_sizes_that_do_not_halve_stay_aligned(tmp_path):
    root = write_plate(tmp_path / "p", grid=(2, 2), shape=(1, 11, 7), levels=3)
    joined = mosaic(root)
    for level, (height, width) in enumerate([(11, 7), (6, 4), (3, 2)]):
        picture = whole(joined.pyramid.levels[level])
        assert picture.shape == (1, 4 * height, 4 * width)
        for r, c, k in np.ndindex(2, 2, 4):
            y, x = (2 * r + k // 2) * height, (2 * c + k % 2) * width
            field = stored(root / f"{'AB'[r]}/{c + 1}/{k}", level)
            shown = picture[..., y : y + height, x : x + width]
            np.testing.assert_array_equal(shown, field)


def test_wells_of_other_kinds(tmp_path):
    """Fewer and more fields, smaller, deeper, other axes, types, levels and names."""
    root = write_plate(tmp_path / "p", grid=(4, 5), fields=1, shape=(2, 12, 12))
    others = {
        "A/2": ("cyx", pixels(1, (2, 6, 12)), 2),
        "A/3": ("cyx", pixels(2, (3, 12, 12)), 2),
        "A/4": ("czyx", pixels(3, (2, 3, 12, 12)), 2),
        "A/5": ("yx", pixels(4, (12, 12)), 2),
        "B/1": ("cyx", pixels(5, (2, 12, 12), "u1"), 2),
        "B/2": ("cyx", pixels(6, (2, 12, 12), "f4") + 70000, 2),
        "B/3": ("cyx", pixels(7, (2, 12, 12)), 1),
        "B/4": ("cyx", pixels(8, (2, 20, 12)), 2),
    }
    for path, (axes, data, levels) in others.items():
        shutil.rmtree(root / path / "0")
        write_image(root / path / "0", data, 3, axes, levels)
    first = mosaic(root)
    picture = whole(first.pyramid.levels[0])
    assert picture.shape == (2, 48, 60)
    assert picture.dtype == np.uint16
    for path, (axes, data, _) in others.items():
        y, x = "ABC".index(path[0]) * 12, (int(path[2]) - 1) * 12
        seen = data[:, 0] if axes == "czyx" else data[:2]
        seen = data[None] if axes == "yx" else seen[:, :12]
        shown = picture[: len(seen)]
        height = data.shape[-2] if path == "A/2" else 12
        if path == "B/2":
            seen = np.full_like(seen, 65535)
        np.testing.assert_array_equal(shown[:, y : y + height, x : x + 12], seen, path)
    coarse = whole(first.pyramid.levels[1])
    np.testing.assert_array_equal(coarse[:, 6:12, 12:18], others["B/3"][1][:, ::2, ::2])
    assert set(first.tiles.misfits) == {"A/3", "A/4", "B/2", "B/4"}

    wells = map_plate(open_node(root).metadata.plate).wells
    again = open_mosaic(first.tiles.arrangements, wells)
    assert again.pyramid.multiscale.axis_names == ("c", "z", "y", "x")
    picture = whole(again.pyramid.levels[0])
    assert picture.shape == (3, 3, 80, 60)
    assert picture.dtype == np.float32
    assert not again.tiles.misfits
    np.testing.assert_array_equal(picture[:2, :, :12, 36:48], others["A/4"][1])
    assert not picture[2, :, :12, 36:48].any()
    assert not picture[:, 1:, :, :36].any()  # what is flat is seen in the first plane
    picture = picture[:, 0]
    np.testing.assert_array_equal(picture[:2, 20:32, 12:24], others["B/2"][1])
    np.testing.assert_array_equal(picture[:2, 20:40, 36:48], others["B/4"][1])
    np.testing.assert_array_equal(picture[:, :12, 24:36], others["A/3"][1])


def test_fields_that_overlap_lie_in_the_order_of_the_file(tmp_path):
    root = write_plate(tmp_path / "p", grid=(1, 2), fields=3, shape=(1, 8, 8))
    # Of another type: such pixels take a way of their own.
    fields = [pixels(k, (1, 8, 8), "u1" if k == 1 else "u2") for k in range(3)]
    expected = np.zeros((1, 16, 12), "u2")
    for k, corner in enumerate([(0, 0), (4, 2), (8, 4)]):
        shutil.rmtree(root / "A/1" / str(k))
        write_image(root / "A/1" / str(k), fields[k], 3, corner=corner)
        (y, x) = corner
        expected[:, y : y + 8, x : x + 8] = fields[k]
    source = mosaic(root).pyramid.levels[0]
    shown = source.read(((0, 1), (0, 16), (0, 12)))
    np.testing.assert_array_equal(shown, expected)
    part = source.read(((0, 1), (3, 11), (1, 7)))
    np.testing.assert_array_equal(part, expected[:, 3:11, 1:7])


def test_wells_at_the_same_place_are_all_drawn(tmp_path):
    root = write_plate(tmp_path / "p", grid=(1, 3), shape=(1, 8, 8), placed=False)
    for k in (1, 3):
        shutil.rmtree(root / "A/1" / str(k))
    for k in (0, 2):
        shutil.rmtree(root / "A/2" / str(k))
    wells = map_plate(open_node(root).metadata.plate).wells
    wells = [wells[0], replace(wells[1], column=wells[0].column), wells[2]]
    arrangements = ScreenArrangements(PlateContents(open_node(root)))
    level = open_mosaic(arrangements, wells).pyramid.levels[0]
    shown = level.read(((0, 1), (0, 16), (0, 16)))
    for k, well in enumerate(("A/1", "A/2", "A/1", "A/2")):
        y, x = k // 2 * 8, k % 2 * 8
        field = stored(root / well / str(k))
        np.testing.assert_array_equal(shown[:, y : y + 8, x : x + 8], field)


def damage(root):
    """Break one thing of each kind; returns the wells that can still be seen."""
    shutil.rmtree(root / "A" / "1")
    (root / "A/2/zarr.json").write_text("{")
    (root / "A/3/0/zarr.json").write_text("[]")
    (root / "B/1/0/0/zarr.json").write_text("{")
    shutil.rmtree(root / "B/2/0")
    write_group(root / "B/3", {"well": {"images": []}}, 3)
    return {"C/1": (2, 0), "C/2": (2, 1), "C/3": (2, 2)}


def test_what_is_broken_stays_empty_and_is_reported_once(tmp_path):
    root = write_plate(tmp_path / "p", grid=(3, 3), fields=1, levels=2)
    seen = damage(root)
    reported = []
    joined = mosaic(root, reported=reported)
    for _ in range(2):
        picture = whole(joined.pyramid.levels[0])
        assert not picture[:, :16].any()
        whole(joined.pyramid.levels[1])
    for path, (row, column) in seen.items():
        part = picture[:, row * 8 : row * 8 + 8, column * 8 : column * 8 + 8]
        np.testing.assert_array_equal(part, stored(root / path / "0"))
    broken = sorted(error.key for error in reported if error.remedy != LISTED)
    assert broken == ["A/2", "A/3", "B/1"]
    absent = sorted(error.key for error in reported if error.remedy == LISTED)
    assert absent == ["A/1", "B/2", "B/3"]
    problems = joined.tiles.arrangements.problems
    assert sorted(problems) == ["A/1", "A/2", "A/3", "B/1", "B/2", "B/3"]
    assert problems["B/3"] == "It lists no usable images."


def test_a_plate_without_coarser_levels_gets_some(tmp_path, monkeypatch):
    root = write_plate(
        tmp_path / "p",
        grid=(4, 4),
        fields=1,
        shape=(1, 32, 32),
        levels=1,
        labelled=lambda _: ("cells",),
    )
    monkeypatch.setattr(plane_cache, "PLANE_BYTES", 32 * 32 * 4)
    for inside, sides in ("", (128, 64, 32)), ("labels/cells", (128, 64, 32)):
        found = mosaic(root, inside=inside)
        shapes = [level.shape[-2:] for level in found.pyramid.levels]
        assert shapes == [(side, side) for side in sides]
        for number, level in enumerate(found.pyramid.levels):
            step = 2**number
            steps = found.pyramid.multiscale.levels[number].scale[-2:]
            assert steps == (SPACING * step, SPACING * step)
            place = root / "B" / "3" / "0" / inside
            tile = stored(place)[..., ::step, ::step]
            side = 32 // step
            drawn = whole(level)[..., side : 2 * side, 2 * side : 3 * side]
            np.testing.assert_array_equal(drawn, tile)


def test_places_that_no_well_has_room_for(tmp_path):
    root = write_plate(tmp_path / "p", grid=(1, 2), fields=2)
    place = root / "A" / "1" / "1" / "zarr.json"
    document = json.loads(place.read_text())
    for level in document["attributes"]["ome"]["multiscales"][0]["datasets"]:
        level["coordinateTransformations"][1]["translation"][-1] = 5e8
    place.write_text(json.dumps(document))
    found = mosaic(root)
    assert found.pyramid.levels[0].shape == (1, 8, 32)
    assert "further apart" in found.tiles.arrangements.problems["A/1"]
    drawn = whole(found.pyramid.levels[0])
    np.testing.assert_array_equal(drawn[..., 8:16], stored(root / "A" / "1" / "1"))


def test_no_well_can_be_read(tmp_path):
    root = write_plate(tmp_path / "p", grid=(1, 2), fields=1)
    for path in ("A/1", "A/2"):
        shutil.rmtree(root / path)
    with pytest.raises(UnsupportedError, match=r"A/1.*A/2"):
        mosaic(root)


def test_a_plate_is_opened_by_its_first_well_alone(tmp_path, reads):
    root = write_plate(tmp_path / "p", grid=(4, 6), fields=4, levels=3)
    source = mosaic(root).pyramid.levels[0]
    # Plate; well, four images with an array each, two more levels.
    assert len(reads) == len(set(reads)) == 1 + 1 + 4 * 2 + 2
    assert {key.split("/")[0] for key in reads} == {"zarr.json", "A"}
    reads.clear()
    source.read(((0, 1), (50, 55), (20, 25)))
    assert {key[:4] for key in reads} == {"D/2/"}


def test_empty_wells_cost_one_read_each(tmp_path, reads):
    root = write_plate(tmp_path / "p", grid=(8, 12), fields=2, levels=2)
    for row in "BCDEFGH":
        shutil.rmtree(root / row)
    joined = mosaic(root)
    reads.clear()
    coarse = joined.pyramid.levels[-1]
    picture = whole(coarse)
    assert sum(not key.startswith("A") for key in reads) == 7 * 12
    assert np.count_nonzero(picture) == 12 * 2 * 16
    reads.clear()
    whole(coarse)
    assert not reads


def test_acquisitions_are_apart(tmp_path):
    root = write_plate(tmp_path / "p", grid=(2, 2), fields=4, acquisitions=2)
    for run in (0, 1):
        picture = whole(mosaic(root, acquisition=run).pyramid.levels[0])
        assert picture.shape == (1, 32, 32)
        field = stored(root / "B/2" / str(run * 4 + 3))
        np.testing.assert_array_equal(picture[:, 24:, 24:], field)
    assert whole(mosaic(root).pyramid.levels[0]).shape == (1, 48, 48)


def test_labels_of_half_of_the_wells(tmp_path):
    root = write_plate(
        tmp_path / "p",
        grid=(2, 2),
        labelled=lambda well: ("cells",) if well.endswith("2") else (),
    )
    joined = mosaic(root, inside="labels/cells")
    for level, source in enumerate(joined.pyramid.levels):
        picture, side = whole(source), 8 >> level
        assert picture.dtype == np.uint32
        assert not picture[:, : 2 * side].any()
        field = stored(root / "B/2/3/labels/cells", level)
        np.testing.assert_array_equal(picture[-side:, -side:], field)
    with pytest.raises(UnsupportedError, match="labels/other"):
        mosaic(root, inside="labels/other")


def test_labels_of_coarser_voxels_lie_on_their_image(tmp_path):
    root = write_plate(tmp_path / "p", grid=(1, 2), fields=1, shape=(1, 8, 8))
    for path in ("A/1", "A/2"):
        write_group(root / path / "0/labels", {"labels": ["cells"]}, 3)
        labels = pixels(3, (4, 4), "u4")
        write_image(root / path / "0/labels/cells", labels, 3, "yx", 1)
    source = mosaic(root, inside="labels/cells").pyramid.levels[0]
    picture = whole(source)
    assert picture.shape == (4, 8)
    np.testing.assert_array_equal(picture[:, 4:], pixels(3, (4, 4)))


def test_a_place_in_the_picture_is_a_field(tmp_path):
    root = write_plate(tmp_path / "p", grid=(2, 2))
    tiles = mosaic(root).tiles
    places = {(-0.4, 7.4): ("A/1", "0"), (31, 25): ("B/2", "3")}
    for (y, x), (path, name) in places.items():
        well, field = tiles.image_at(y, x)
        assert (well, field.path) == (path, name)
    assert tiles.image_at(31, 32) is None
    assert tiles.corners_of("B/2") == ((15.5, 15.5), (31.5, 31.5))


def test_many_wells_may_be_drawn_elsewhere(tmp_path, reads):
    root = write_plate(tmp_path / "p", grid=(4, 5), fields=1)
    joined = mosaic(root)
    asked = []

    def defer(level, box):
        asked.append((level, box))
        return True

    joined.tiles.defer = defer
    source = joined.pyramid.levels[0]
    box = tuple((0, size) for size in source.shape)
    reads.clear()
    assert not source.read(box).any()
    assert not reads
    ((level, wanted),) = asked
    assert (level, wanted) == (source, box)
    stopped = iter([False] * 7 + [True] * 100)
    assert not source.draw_box(box, lambda: next(stopped))
    assert np.count_nonzero(source.read(box)) == 7 * 64
    helper = threading.Thread(target=source.draw_box, args=(box,))
    helper.start()
    helper.join()
    assert source.read(box).all()
    assert len(asked) == 2
