"""Opening what is far away waits for few answers: the depth of its documents and two.

Numbers of requests and round trips, no durations.
"""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel
from npe2 import PluginManager

import napari_ngff
from napari_ngff.cli import main
from napari_ngff.store.arrays.chunked_array import cache
from napari_ngff.viewer import reader
from napari_ngff.viewer.layers.contrast import SAMPLED_WELLS
from napari_ngff.viewer.reader import read_layers
from napari_ngff.viewer.streaming.well_stream import reread_layer
from plates import pixels, write_array, write_group, write_image, write_plate
from round_trips import count_traffic, far_server, forget

pytest.importorskip("aiohttp", reason="needs the extra [remote]")

DATA = pixels(0, (2, 64, 64))
LEVELS = 5
FORMATS = {"0.4": 2, "0.5": 3}


def view(address):
    PluginManager.instance().discover()
    viewer = ViewerModel()
    viewer.open(address, plugin="napari-ngff")
    return list(viewer.layers)


def show_info(address):
    main(["info", address])


def traffic(server, call, name, most):
    """Open a file; the number of requests and round trips, and what was opened.

    A machine that is busy for a moment parts a round trip in two, so that it is tried
    again where there were more than `most`.
    """
    for _ in range(3):
        forget(server)
        cache.clear()
        found = call(f"{server.address}/{name}")
        requests, trips = count_traffic(server)
        if trips <= most:
            break
    return requests, trips, found


@pytest.fixture(params=FORMATS.values(), ids=FORMATS)
def zarr_format(request):
    return request.param


@pytest.fixture
def server(tmp_path):
    with far_server(tmp_path) as server:
        yield server


def write_series(folder, zarr_format, listed):
    write_group(folder, {"bioformats2raw.layout": 3}, zarr_format)
    names = [str(i) for i in range(3)]
    if listed:
        write_group(folder / "OME", {"series": names}, zarr_format)
    for name in names:
        write_image(folder / name, DATA, zarr_format, levels=3, labels=("a",))


def test_an_image_is_opened_in_two_round_trips(tmp_path, server, zarr_format):
    write_image(tmp_path / "a.zarr", DATA, zarr_format, levels=LEVELS)
    requests, trips, image = traffic(server, napari_ngff.open, "a.zarr", 2)
    assert len(image.levels) == LEVELS
    # Its document and the arrays.
    assert trips == 2
    assert requests <= 4 + LEVELS


@pytest.mark.default_cases("0.4-layers", "0.5-viewer")
@pytest.mark.parametrize("call", [read_layers, view], ids=["layers", "viewer"])
def test_layers_take_a_round_trip_for_each_depth(tmp_path, server, zarr_format, call):
    write_image(
        tmp_path / "a.zarr", DATA, zarr_format, levels=LEVELS, labels=("a", "b")
    )
    requests, trips, layers = traffic(server, call, "a.zarr", 5)
    assert len(layers) == 4
    # Image; arrays and the list of labels; labels; their arrays; pixels.
    assert trips == 5
    pixels_read = 2
    assert requests <= 4 + LEVELS + 2 + 2 * 2 + 2 * LEVELS + pixels_read


def test_info_reads_no_arrays_of_labels(tmp_path, server, zarr_format, capsys):
    write_image(
        tmp_path / "a.zarr", DATA, zarr_format, levels=LEVELS, labels=("a", "b")
    )
    requests, trips, _ = traffic(server, show_info, "a.zarr", 3)
    assert "a, b" in capsys.readouterr().out
    # Image; arrays, the list of labels, and that of tables; labels.
    assert trips == 3
    assert requests <= 4 + LEVELS + 2 + 2 + 2 * 2


def test_an_image_without_labels_waits_for_none(tmp_path, server, zarr_format):
    write_image(tmp_path / "a.zarr", DATA, zarr_format, levels=LEVELS)
    _, trips, layers = traffic(server, read_layers, "a.zarr", 3)
    assert len(layers) == 2
    assert trips == 3


@pytest.mark.default_cases("0.4-numbered", "0.5-listed")
@pytest.mark.parametrize("listed", [True, False], ids=["listed", "numbered"])
def test_images_of_a_collection_are_opened_at_once(
    tmp_path, server, zarr_format, listed
):
    write_series(tmp_path / "a.zarr", zarr_format, listed)
    # Collection; list; images; arrays and the lists of labels; labels; their arrays;
    # pixels. Without a list it is looked for in both formats, and so is the image
    # behind the last.
    most = 7 if listed else 9
    requests, trips, layers = traffic(server, read_layers, "a.zarr", most)
    assert len(layers) == 9
    assert trips <= most
    assert requests <= 80


@pytest.mark.default_cases("0.5")
def test_a_channel_waits_for_no_other(tmp_path, server, zarr_format):
    write_image(tmp_path / "a.zarr", pixels(0, (6, 16, 16)), zarr_format, levels=1)
    _, trips, layers = traffic(server, view, "a.zarr", 3)
    assert len(layers) == 6
    assert trips == 3


def write_wells(folder, zarr_format, grid):
    """A plate whose first well has labels, and whose others are brighter."""
    return write_plate(
        folder,
        zarr_format,
        grid=grid,
        fields=1,
        shape=(2, 8, 8),
        levels=3,
        labelled=lambda well: ("cells",) if well == "A/1" else (),
    )


@pytest.fixture
def plate(tmp_path):
    return write_wells(tmp_path / "a.zarr", 3, (4, 8))


@pytest.mark.default_cases("0.4-viewer")
@pytest.mark.parametrize("call", [read_layers, view], ids=["layers", "viewer"])
def test_a_plate_takes_as_many_requests_whatever_its_size(
    tmp_path, server, zarr_format, call
):
    write_wells(tmp_path / "a.zarr", zarr_format, (16, 24))
    requests, trips, layers = traffic(server, call, "a.zarr", 8)
    assert [layer.name for layer in layers][-1].endswith("cells")
    # Plate, well, image, arrays; labels, their document, their arrays; pixels. Wells
    # for the contrast are read meanwhile.
    assert trips <= 8
    assert requests <= 4 + 2 + 3 + 2 + 2 + 3 + SAMPLED_WELLS * 4


def test_contrast_of_a_plate_comes_from_some_wells(plate, server):
    layers = read_layers(f"{server.address}/{plate.name}")
    low, high = layers[0].contrast_limits
    everything = np.asarray(layers[0].data[-1])
    span = everything.min(), everything.max()
    # Of both ends of the plate, though only few wells were read.
    assert span[0] <= low < span[0] + 0.1 * np.ptp(span)
    assert span[1] - 0.1 * np.ptp(span) < high <= span[1]


def test_an_overview_that_nobody_sees_is_not_drawn(plate, server):
    layers = view(f"{server.address}/{plate.name}")
    drawn = np.asarray(layers[0]._slice.image.raw)
    whole = np.asarray(layers[0].data[-1])
    assert whole.all()
    assert 0 < np.count_nonzero(drawn) < whole.size / 2
    # What was read for the data is seen from then on.
    reread_layer(layers[0])
    np.testing.assert_array_equal(layers[0]._slice.image.raw, whole)


@pytest.mark.long
def test_a_window_that_is_opened_later_draws_the_overview(plate, server, monkeypatch):
    layers = read_layers(f"{server.address}/{plate.name}")
    monkeypatch.setattr(reader, "current_viewer", lambda: object())
    viewer = ViewerModel()
    viewer.add_layer(layers[0])
    assert np.asarray(layers[0]._slice.image.raw).all()


def consolidate(folder, zarr_format):
    zarr.consolidate_metadata(folder, zarr_format=zarr_format)


@pytest.mark.default_cases("0.4-layers", "0.5-viewer")
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
@pytest.mark.parametrize("call", [read_layers, view], ids=["layers", "viewer"])
def test_copies_show_what_can_be_asked_for_together(
    tmp_path, server, zarr_format, call
):
    write_image(
        tmp_path / "a.zarr", DATA, zarr_format, levels=LEVELS, labels=("a", "b")
    )
    consolidate(tmp_path / "a.zarr", zarr_format)
    requests, trips, layers = traffic(server, call, "a.zarr", 3)
    assert len(layers) == 4
    # Image; all other documents; pixels.
    assert trips == 3
    assert requests <= 4 + LEVELS + 2 + 2 * 1 + 2 * LEVELS + 2
    assert traffic(server, show_info, "a.zarr", 2)[1] == 2


@pytest.mark.default_cases("0.5")
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
def test_copies_of_a_plate_show_what_its_wells_have(tmp_path, server, zarr_format):
    folder = write_wells(tmp_path / "a.zarr", zarr_format, (4, 8))
    for row in "ABCD":
        # zarr-python finds nothing below a folder that is no group.
        write_group(folder / row, {}, zarr_format)
    consolidate(folder, zarr_format)
    requests, trips, layers = traffic(server, read_layers, "a.zarr", 3)
    assert len(layers) == 3
    assert trips == 3
    assert requests <= 4 + 2 + 3 + 2 + 2 + 3 + SAMPLED_WELLS * 4


@pytest.mark.default_cases("0.5")
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
def test_outdated_copies_hide_nothing(tmp_path, server, zarr_format):
    folder = tmp_path / "a.zarr"
    write_image(folder, DATA, zarr_format, levels=2, labels=("old", "gone"))
    consolidate(folder, zarr_format)
    # Labels that other programs wrote and removed later, and a level of another type.
    shutil.rmtree(folder / "labels" / "gone")
    shutil.copytree(folder / "labels" / "old", folder / "labels" / "new")
    write_group(folder / "labels", {"labels": ["old", "new"]}, zarr_format)
    larger = pixels(0, (2, 100, 100), "f4")
    for level in "01":
        shutil.rmtree(folder / level)
        step = 1 + int(level)
        write_array(folder / level, larger[:, ::step, ::step], zarr_format)
    _, trips, layers = traffic(server, read_layers, "a.zarr", 5)
    assert trips <= 5
    assert [layer.name for layer in layers if layer._type_string == "labels"] == [
        "old",
        "new",
    ]
    np.testing.assert_array_equal(np.asarray(layers[0].data[0]), larger[0])


@pytest.mark.default_cases("{")
@pytest.mark.parametrize("text", ["{", "[]", '{"metadata": {"0/.zarray": 1, "..": 2}}'])
def test_a_damaged_file_of_copies_is_no_harm(tmp_path, server, text):
    write_image(tmp_path / "a.zarr", DATA, 2, levels=2)
    (tmp_path / "a.zarr" / ".zmetadata").write_text(text)
    _, trips, layers = traffic(server, read_layers, "a.zarr", 3)
    assert len(layers) == 2
    assert trips == 3
