from __future__ import annotations

import copyreg
import gc
import shutil
import weakref

import pytest

from napari_ngff import open_node
from napari_ngff.errors import (
    CorruptDataError,
    NodeNotFoundError,
    OMEZarrError,
    UnsupportedError,
)
from napari_ngff.plate import plate_contents as module
from napari_ngff.plate.plate_contents import PlateContents
from plates import pixels, write_group, write_image, write_plate


def with_traceback(kind, arguments, traceback):
    return kind(*arguments).with_traceback(traceback)


@pytest.fixture
def root(tmp_path):
    return write_plate(tmp_path / "p", grid=(2, 2))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_documents_that_differ_in_place_and_name_are_parsed_once(
    tmp_path, zarr_format, monkeypatch
):
    root = write_plate(tmp_path / "p", zarr_format, grid=(2, 2))
    screen = PlateContents(open_node(root))
    parsed = []
    read = module.read_node
    monkeypatch.setattr(
        module, "read_node", lambda *args: parsed.append(args) or read(*args)
    )
    for well in ("A/1", "A/2", "B/1", "B/2"):
        for field in screen.list_fields(well):
            image = screen.open_image(well, field.path)
            own = open_node(root / well / field.path).metadata.image.multiscales[0]
            assert image.multiscale.levels == own.levels
            assert image.multiscale.axes == own.axes
    # The first well, and its first image.
    assert [location.path for location, *_ in parsed] == ["A/1", "A/1/0"]
    assert screen.open_image("A/1", "3").corner == (8, 8)


def test_documents_of_other_kinds_are_parsed_in_full(root):
    document = root / "A/2/0/zarr.json"
    text = document.read_text()
    document.write_text(text.replace('"scale": [1.0, 0.5, 0.5]', '"scale": [1, 2, 2]'))
    screen = PlateContents(open_node(root))
    assert screen.open_image("A/1", "0").multiscale.levels[0].scale == (1, 0.5, 0.5)
    assert screen.open_image("A/2", "0").multiscale.levels[0].scale == (1, 2, 2)


@pytest.mark.parametrize("distributed", [False, True])
def test_what_cannot_be_opened_raises_every_time_and_keeps_nothing_alive(
    root, monkeypatch, distributed
):
    if distributed:
        # As tblib does for dask's cluster: copies of errors have their tracebacks.
        def reduced(error):
            return with_traceback, (type(error), error.args, error.__traceback__)

        for kind in (NodeNotFoundError, CorruptDataError, UnsupportedError):
            monkeypatch.setitem(copyreg.dispatch_table, kind, reduced)
    shutil.rmtree(root / "A/1")
    (root / "A/2/0/zarr.json").write_text("{")
    write_group(root / "B/1/0", {}, 3)
    (root / "B/2/0/0/zarr.json").write_text("[")
    screen = PlateContents(open_node(root))

    class Witness:
        pass

    def ask():
        witness = Witness()
        for error, question in (
            (NodeNotFoundError, lambda: screen.list_fields("A/1")),
            (OMEZarrError, lambda: screen.open_image("A/2", "0")),
            (UnsupportedError, lambda: screen.open_image("B/1", "0")),
            (NodeNotFoundError, lambda: screen.open_image("B/2", "9")),
            (OMEZarrError, lambda: screen.open_image("B/2", "0").open_level(0)),
        ):
            for _ in range(2):
                with pytest.raises(error):
                    question()
        return weakref.ref(witness)

    seen = ask()
    gc.collect()
    assert seen() is None


def test_a_written_image_is_opened_anew(root):
    screen = PlateContents(open_node(root))
    assert len(screen.open_image("A/1", "0").multiscale.levels) == 2
    write_image(root / "A/1/0", pixels(1, (1, 8, 8)), 3, levels=3)
    assert len(screen.open_image("A/1", "0").multiscale.levels) == 2
    screen.forget_image("A/1/0")
    assert len(screen.open_image("A/1", "0").multiscale.levels) == 3


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_all_levels_of_an_image_can_be_opened(tmp_path, zarr_format):
    root = write_plate(tmp_path / "p", zarr_format, grid=(1, 1), levels=3)
    shutil.rmtree(root / "A/1/0/1")
    image = PlateContents(open_node(root)).open_image("A/1", "0")
    opened = image.open_levels()
    assert list(opened) == ["0", "1", "2"]
    assert isinstance(opened["1"], NodeNotFoundError)
    assert opened["2"] is image.open_level(2)


def test_an_image_that_was_opened_elsewhere_is_not_read_again(root, reads):
    node = open_node(root / "A/1/0")
    screen = PlateContents(open_node(root))
    screen.adopt_image(node)
    reads.clear()
    assert screen.open_image("A/1", "0").node is node
    assert not reads
    opened = screen.open_image("A/2", "0")
    screen.adopt_image(open_node(root / "A/2/0"))
    assert screen.open_image("A/2", "0") is opened
