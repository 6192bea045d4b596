"""A mosaic of a plate on a server that fails: what is asked again, and what is not."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from napari_ngff import open_node
from napari_ngff.errors import ServerError, UnsupportedError
from napari_ngff.plate.arrangement import ScreenArrangements
from napari_ngff.plate.mosaic import MOST_FAILURES, WellChoice, open_mosaic
from napari_ngff.plate.plate_contents import PlateContents
from napari_ngff.plate.plate_layout import map_plate
from napari_ngff.store.sources import remote_store as remote
from plates import write_image, write_plate
from unreliable import BUSY, OK, serving

pytest.importorskip("aiohttp", reason="needs the extra [remote]")


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "PAUSES", ())
    write_plate(tmp_path / "p", grid=(4, 6))
    with serving(tmp_path) as server:
        yield server


@pytest.fixture
def node(server):
    return open_node(f"{server.address}/p")


def mosaic_of(node, reported, count=None, inside=""):
    arrangements = ScreenArrangements(PlateContents(node))
    wells = map_plate(node.metadata.plate).wells[:count]
    mosaic = open_mosaic(arrangements, wells, WellChoice(None, inside), reported.append)
    return mosaic.pyramid.levels[-1], arrangements


def everything(level):
    return level.read(tuple((0, size) for size in level.shape))


def whole(level):
    """Read in a worker, as windows do."""
    with ThreadPoolExecutor(1) as worker:
        return worker.submit(everything, level).result()


@pytest.mark.default_cases("/p/B/3/1/1/c/0/0/0", "/p/B/3/zarr.json")
@pytest.mark.parametrize(
    "part", ["/p/B/3/zarr.json", "/p/B/3/1/zarr.json", "/p/B/3/1/1/c/0/0/0"]
)
def test_what_failed_comes_when_it_is_asked_for_again(server, node, part):
    expected = whole(mosaic_of(node, [])[0])
    reported = []
    level, arrangements = mosaic_of(node, reported)
    server.answer = lambda path: BUSY if path == part else OK
    assert (whole(level) == 0).any()
    assert list(arrangements.problems) == ["B/3"]
    assert "503" in arrangements.problems["B/3"]
    assert len(reported) == 1
    server.answer = lambda path: OK
    assert (whole(level) == 0).any()  # a redraw does not ask
    assert arrangements.retry_wells(["A/1"]) is False
    assert arrangements.retry_wells() is True
    server.asked.clear()
    np.testing.assert_array_equal(whole(level), expected)
    assert {path.removeprefix("/p/")[:3] for path in server.asked} == {"B/3"}
    assert arrangements.problems == {}
    assert arrangements.retry_wells() is False


def test_a_well_that_still_fails_is_asked_for_once_each_time(server, node):
    level, arrangements = mosaic_of(node, [])
    server.answer = lambda path: BUSY if path.startswith("/p/B/3/") else OK
    for _ in range(3):
        server.asked.clear()
        for _ in range(2):
            whole(level)
        assert server.asked.count("/p/B/3/zarr.json") == 1
        assert "B/3" in arrangements.problems
        arrangements.retry_wells()


def test_what_is_broken_is_not_asked_for_again(server, node, tmp_path):
    shutil.rmtree(tmp_path / "p" / "B" / "3" / "2")
    (tmp_path / "p" / "C" / "1" / "zarr.json").write_text("{")
    level, arrangements = mosaic_of(node, [])
    whole(level)
    server.asked.clear()
    assert arrangements.retry_wells() is False
    whole(level)
    assert server.asked == []
    assert "C/1" in arrangements.problems


def test_an_image_is_opened_when_the_server_is_back(server, node):
    screen = PlateContents(node)
    server.answer = lambda path: BUSY
    with pytest.raises(ServerError):
        screen.list_fields("A/1")
    with pytest.raises(ServerError):
        screen.open_image("A/1", "0")
    server.answer = lambda path: BUSY if path.endswith("/0/0/zarr.json") else OK
    image = screen.open_image("A/1", "0")
    with pytest.raises(ServerError):
        image.open_level(0)
    server.answer = lambda path: OK
    assert len(screen.list_fields("A/1")) == 4
    assert image.open_level(0).shape == (1, 8, 8)


def test_few_wells_of_a_server_are_not_waited_for_either(server, node):
    level, _ = mosaic_of(node, [], count=2)
    asked = []
    level.tiles.defer = lambda *what: asked.append(what) or True
    server.asked.clear()
    assert not everything(level).any()
    assert server.asked == []
    assert level.draw_box(asked[0][1])
    assert everything(level).all()


def test_a_server_that_gives_no_well_is_not_asked_for_all(server, node):
    server.answer = lambda path: BUSY
    server.asked.clear()
    with pytest.raises(UnsupportedError, match="503"):
        mosaic_of(node, [])
    # Opening the plate may still be asking for documents that it may have.
    wells = [path for path in server.asked if path.count("/") > 2]
    assert len(wells) == MOST_FAILURES


def test_labels_that_no_well_has_are_looked_for_once_in_each_field(server, node):
    server.asked.clear()
    with pytest.raises(UnsupportedError, match="labels/nuclei"):
        mosaic_of(node, [], inside="labels/nuclei")
    asked = [path for path in server.asked if "/labels/" in path]
    assert len(asked) == len(set(asked)) == 24 * 4


def test_labels_are_looked_for_in_the_format_of_their_image(tmp_path):
    """Images of 0.4 with labels in a plate of 0.5."""
    root = write_plate(tmp_path / "p", grid=(1, 2), fields=1)
    for well in ("1", "2"):
        shutil.rmtree(root / "A" / well / "0")
        data = np.full((1, 8, 8), int(well), "u1")
        write_image(root / "A" / well / "0", data, 2, labels=("nuclei",))
    with serving(tmp_path) as server:
        node = open_node(f"{server.address}/p")
        level, _ = mosaic_of(node, [], inside="labels/nuclei")
        assert set(np.unique(everything(level))) >= {1, 2}
        asked = [path for path in server.asked if "/nuclei/z" in path]
        assert not asked
