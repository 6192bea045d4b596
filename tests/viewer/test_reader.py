from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel
from napari.layers import Layer
from napari.utils.notifications import notification_manager
from slow_codec import SlowCodec

from napari_ngff import UnsupportedError, open_node, open_pyramid
from napari_ngff.viewer import reader
from napari_ngff.viewer.annotations.sidecars import edit_copy
from napari_ngff.viewer.layers.node_contents import MAX_IMAGES, open_contents
from napari_ngff.viewer.layers.user_alignment import save_alignment
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.plans.layer_plan import KEY
from napari_ngff.viewer.reader import get_reader, read_paths
from napari_ngff.viewer.samples import write_image, write_plate


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    where = tmp_path_factory.mktemp("reader") / "cells.ome.zarr"
    return write_image(where, "0.4", shape=(2, 64, 96))


@pytest.fixture(scope="module")
def plate(tmp_path_factory):
    where = tmp_path_factory.mktemp("reader") / "plate.ome.zarr"
    return write_plate(where, "0.5", grid=(2, 3), fields=4, shape=(64, 64))


@pytest.fixture
def shown(monkeypatch):
    """Catch what is reported to the user."""
    notification_manager.records.clear()
    messages = []
    monkeypatch.setattr(reader, "show_left_out", messages.extend)
    return messages


def names(layers):
    return [keywords["name"] for _, keywords, _ in layers]


def kinds(layers):
    return [kind for _, _, kind in layers]


@pytest.mark.parametrize("version", ["0.9.dev1", "0.7", "1.0", "new"])
@pytest.mark.parametrize("browsed", [False, True])
def test_a_version_that_is_not_known_is_told(tmp_path, shown, version, browsed):
    if browsed:
        path = write_plate(tmp_path / "a.zarr", grid=(1, 1), fields=1, shape=(16, 16))
    else:
        path = write_image(tmp_path / "a.zarr", "0.6", shape=(2, 32, 32))
    document = json.loads((path / "zarr.json").read_text())
    document["attributes"]["ome"]["version"] = version
    (path / "zarr.json").write_text(json.dumps(document))
    assert read_paths(str(path))
    (message,) = [one for one in shown if version in one]
    assert "The version must be" in message


def test_an_image_and_its_labels_become_layers(image, shown):
    layers = read_paths(str(image))
    assert names(layers)[3:] == ["nuclei", "cells"]
    assert kinds(layers) == ["image"] * 3 + ["labels"] * 2
    assert [keywords.get("visible", True) for _, keywords, _ in layers] == (
        [True] * 4 + [False]
    )
    level = np.asarray(layers[1][0][0])
    expected = zarr.open_array(image / "0", mode="r")[:, 1]
    np.testing.assert_array_equal(level, expected)
    assert shown == []
    viewer = ViewerModel()
    for layer in layers:
        viewer.add_layer(Layer.create(*layer))
    assert viewer.dims.ndim == 3


def test_a_lone_label_lies_as_on_its_image_and_names_it(image, shown):
    ((_, keywords, kind),) = read_paths(str(image / "labels" / "nuclei"))
    assert (kind, keywords["name"]) == ("labels", "nuclei")
    both = read_paths(str(image))
    assert keywords["scale"] == both[3][1]["scale"]
    assert keywords["units"] == both[0][1]["units"]
    assert shown == []
    (record,) = notification_manager.records
    assert record.message.splitlines()[:2] == [
        "Labels without their image.",
        "These labels belong to cells.ome.zarr. Open it to see image and labels.",
    ]


def test_labels_lie_over_their_image_if_the_window_shows_it(image, shown, monkeypatch):
    viewer = ViewerModel()
    monkeypatch.setattr("napari_ngff.viewer.reader.current_viewer", lambda: viewer)
    for layer in read_paths(str(image)):
        viewer.add_layer(Layer.create(*layer))
    ((_, keywords, _),) = read_paths(str(image / "labels" / "nuclei"))
    assert keywords["opacity"] == viewer.layers["nuclei"].opacity < 0.5
    assert not notification_manager.records


def test_the_labels_group_opens_all_labels(image, shown):
    assert names(read_paths(str(image / "labels"))) == ["nuclei", "cells"]


def test_a_field_opens_by_itself(plate, shown):
    layers = read_paths(str(plate / "B" / "1" / "2"))
    assert kinds(layers) == ["image"] * 3 + ["labels"] * 2


def test_a_well_shows_all_its_fields_in_place(plate, shown):
    layers = read_paths(str(plate / "A" / "1"))
    whole = np.asarray(layers[0][0][0])
    assert whole.shape == (128, 128)
    for name, (y, x) in {
        "0": (0, 0),
        "1": (0, 64),
        "2": (64, 0),
        "3": (64, 64),
    }.items():
        field = zarr.open_array(plate / "A/1" / name / "0", mode="r")[0]
        np.testing.assert_array_equal(whole[y : y + 64, x : x + 64], field)
    assert names(layers)[0].startswith("A1: ")
    assert kinds(layers).count("labels") == 2


def test_a_plate_and_a_row_show_all_fields_of_each_well(plate, shown):
    whole = np.asarray(read_paths(str(plate))[0][0][0])
    assert whole.shape == (256, 384)
    field = zarr.open_array(plate / "B/3/3/0", mode="r")[0]
    np.testing.assert_array_equal(whole[192:, 320:], field)
    row = np.asarray(read_paths(str(plate / "B"))[0][0][0])
    np.testing.assert_array_equal(row, whole[128:])


def test_a_broken_first_well_does_not_stop_the_plate(plate, tmp_path):
    copy = shutil.copytree(plate, tmp_path / "plate.ome.zarr")
    (copy / "A/1/zarr.json").write_text("{")
    shutil.rmtree(copy / "A/2")
    whole = np.asarray(read_paths(str(copy))[0][0][0])
    field = zarr.open_array(plate / "A/3/0/0", mode="r")[0]
    np.testing.assert_array_equal(whole[:64, 256:320], field)
    assert not whole[:128, :256].any()
    problems = open_contents(open_node(copy)).problems
    assert {"A/1:", "A/2:"} <= {problem.where for problem in problems}


@pytest.fixture
def collection(image, tmp_path):
    """Write 12 images as bioformats2raw does."""
    root = tmp_path / "slides.zarr"
    root.mkdir()
    (root / ".zgroup").write_text('{"zarr_format": 2}')
    (root / ".zattrs").write_text('{"bioformats2raw.layout": 3}')
    for i in range(12):
        shutil.copytree(image, root / str(i))
    return root


def test_a_collection_opens_the_first_images_and_names_the_rest(collection, shown):
    found = open_contents(open_node(collection))
    assert [group.image.name for group in found.groups] == [str(i) for i in range(10)]
    assert len(found.groups) == MAX_IMAGES
    (message,) = found.messages
    assert "12 images" in message
    assert "10 to 11" in message


def test_images_of_a_collection_are_named_by_its_xml(collection, shown):
    (collection / "OME").mkdir()
    (collection / "OME" / ".zgroup").write_text('{"zarr_format": 2}')
    (collection / "OME" / ".zattrs").write_text('{"series": ["3", "1"]}')
    (collection / "OME" / "METADATA.ome.xml").write_text(
        '<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">'
        '<Image Name="overview"/><Image Name="macro"/></OME>'
    )
    found = open_contents(open_node(collection))
    assert [group.image.name for group in found.groups] == ["overview", "macro"]
    assert [
        g.image.node.name for g in open_contents(open_node(collection / "OME")).groups
    ] == [
        "3",
        "1",
    ]


def test_other_multiscales_are_hidden_layers(image, tmp_path, shown):
    path = shutil.copytree(image, tmp_path / "two.ome.zarr")
    document = json.loads((path / ".zattrs").read_text())
    first = document["multiscales"][0]
    levels = [{**one, "path": f"second/{one['path']}"} for one in first["datasets"]]
    second = {**first, "name": "deconvolved", "datasets": levels}
    document["multiscales"].append(second)
    (path / ".zattrs").write_text(json.dumps(document))
    for level in "012":
        shutil.copytree(path / level, path / "second" / level)
        array = zarr.open_array(path / "second" / level, mode="r+")
        array[...] = np.asarray(array[...]) + 7
    before = read_paths(str(image))
    layers = read_paths(str(path))
    added = layers[len(before) :]
    assert [one["name"].split(":")[1] for _, one, _ in added] == [" deconvolved"] * 3
    assert [one["visible"] for _, one, _ in added] == [False] * 3
    for (data, keywords, _), (other, same, _) in zip(layers, added, strict=False):
        np.testing.assert_array_equal(np.asarray(data[0]) + 7, np.asarray(other[0]))
        assert keywords["scale"] == same["scale"]
    (message,) = shown
    assert "2 multiscales; the first is shown. Hidden layers show" in message
    moved = Layer.create(*added[0])
    with pytest.raises(UnsupportedError, match="not the first multiscale"):
        save_alignment(moved, "")


def test_a_multiscale_that_cannot_be_read_is_reported(image, tmp_path, shown):
    path = shutil.copytree(image, tmp_path / "two.ome.zarr")
    document = json.loads((path / ".zattrs").read_text())
    lost = {**document["multiscales"][0], "name": "lost"}
    lost["datasets"] = [{**lost["datasets"][0], "path": "nowhere"}]
    document["multiscales"].append(lost)
    (path / ".zattrs").write_text(json.dumps(document))
    assert len(read_paths(str(path))) == len(read_paths(str(image)))
    assert any("nowhere" in message for message in shown)


def test_a_broken_label_is_reported_and_the_image_opens(image, tmp_path, shown):
    copy = shutil.copytree(image, tmp_path / "cells.ome.zarr")
    shutil.rmtree(copy / "labels" / "nuclei" / "0")
    shutil.rmtree(copy / "labels" / "cells")
    assert names(read_paths(str(copy)))[3:] == ["nuclei"]
    assert len(shown) == 2


@pytest.mark.parametrize("dtype", ["f4", "f8", "?"])
def test_labels_that_are_no_integers_are_shown_and_can_be_copied(
    image, tmp_path, shown, dtype
):
    path = shutil.copytree(image, tmp_path / "cells.ome.zarr")
    for level in "012":
        place = path / "labels" / "nuclei" / level
        shape = zarr.open_array(place, mode="r").shape
        options = {"shape": shape, "dtype": dtype, "zarr_format": 2, "overwrite": True}
        array = zarr.create_array(place, **options)
        array[0, :2, :4] = [[1, 2.4, 7, 8], [np.nan, np.inf, -1, 3.6]]
    viewer = ViewerModel()
    for data in read_paths(str(path)):
        viewer.add_layer(as_layer(data))
    layer = viewer.layers["nuclei"]
    rounded = [[1, 2, 7, 8], [0, 0, -1, 4]] if dtype != "?" else np.ones((2, 4))
    np.testing.assert_array_equal(np.asarray(layer.data[0])[0, :2, :4], rounded)
    assert layer.data[0].dtype.kind in "iu"
    stated = {"f4": ["float32"], "f8": ["float64"], "?": []}[dtype]
    assert len(shown) == len(stated)
    for message, name in zip(shown, stated, strict=True):
        assert f"nuclei holds {name}, not integers. It is shown rounded" in message
    assert not layer.editable
    assert "Edit a copy" in layer.read_only
    copy = edit_copy(viewer, layer).made
    np.testing.assert_array_equal(np.asarray(copy.data[0])[0, :2, :4], rounded)
    copy.paint((0, 40, 40), 9)
    assert copy.saver.save_now()
    stored = open_pyramid(copy.metadata[KEY].node).levels[0]
    assert stored.dtype.kind in "iu"
    np.testing.assert_array_equal(stored.read(((0, 1), (0, 2), (0, 4)))[0], rounded)
    assert stored.read(((0, 1), (40, 41), (40, 41))).item() == 9


def test_labels_in_codecs_of_other_packages_are_shown_and_can_be_copied(
    image, tmp_path, shown
):
    path = shutil.copytree(image, tmp_path / "cells.ome.zarr")
    for level in "012":
        place = path / "labels" / "nuclei" / level
        pixels = zarr.open_array(place, mode="r")[...]
        zarr.create_array(
            place, data=pixels, compressors=SlowCodec(0), zarr_format=2, overwrite=True
        )
    viewer = ViewerModel()
    for data in read_paths(str(path)):
        viewer.add_layer(as_layer(data))
    layer = viewer.layers["nuclei"]
    assert not layer.editable
    assert layer.read_only.startswith("their codecs can only be read, not written.")
    stored = zarr.open_array(path / "labels/nuclei/0", mode="r")[...]
    np.testing.assert_array_equal(np.asarray(layer.data[0]), stored)
    copy = edit_copy(viewer, layer).made
    copy.paint((0, 40, 40), 9)
    assert copy.saver.save_now()
    saved = open_pyramid(copy.metadata[KEY].node).levels[0]
    assert saved.read(((0, 1), (40, 41), (40, 41))).item() == 9
    found = saved.read(((0, 1), (0, 30), (0, 30)))
    np.testing.assert_array_equal(found, stored[:1, :30, :30])


def test_several_paths_are_read_one_after_the_other(image, plate, shown):
    assert len(read_paths([str(image), str(plate / "A/1/0")])) == 10


def test_get_reader_takes_ours_and_declines_the_rest(image, tmp_path):
    for paths in (str(image), [str(image), str(image / "labels")]):
        found = get_reader(paths)
        assert names(found(paths)) == names(read_paths(paths))
    assert names(found(str(image))) == names(read_paths(str(image)))
    assert get_reader(str(tmp_path)) is None
    zarr.create_group(tmp_path / "foreign.zarr")
    zarr.create_array(tmp_path / "array.zarr", shape=(4, 4), dtype="u1")
    assert get_reader(str(tmp_path / "foreign.zarr")) is None
    assert get_reader(str(tmp_path / "array.zarr")) is None


def test_what_is_broken_is_ours_and_explains_itself(tmp_path):
    (tmp_path / ".zattrs").write_text('{"multiscales": [{"version": "0.4"}]}')
    found = get_reader(str(tmp_path))
    with pytest.raises(UnsupportedError, match="datasets"):
        found(str(tmp_path))
