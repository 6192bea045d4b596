"""Layers written as new files: valid, equal when opened again, and never half."""

from __future__ import annotations

import json
import tempfile
import threading
import warnings
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import zarr
from napari.components import ViewerModel
from napari.layers import Image, Labels
from napari.utils import DirectLabelColormap

from choices import set_preference
from judges import container, read_by_ome_zarr, validate_models, validate_yaozarrs
from napari_ngff.cli import main
from napari_ngff.errors import UnsupportedError
from napari_ngff.plugin import get_reader
from napari_ngff.viewer.composing.write_layers import complete_path, write
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.session import session_of

VERSIONS = ("0.4", "0.5", "0.6")
SHAPE = (3, 300, 620)
PLACE = {
    "scale": (2, 0.5, 0.5),
    "translate": (10, 20, -5),
    "units": ("um", "um", "um"),
    "axis_labels": ("z", "y", "x"),
}


def pixels(seed=0, shape=SHAPE, top=4000, dtype=np.uint16):
    return np.random.default_rng(seed).integers(0, top, shape).astype(dtype)


def blocks(shape=SHAPE, dtype=np.uint32):
    y, x = np.ogrid[: shape[-2], : shape[-1]]
    return np.broadcast_to((y // 20) * 50 + x // 20, shape).astype(dtype)


def cells():
    colors = {None: (0.6, 0.6, 0.6, 0.7), 1: (1, 0, 0, 1), 70: (0, 0, 1, 0.6)}
    return [
        Image(
            pixels(), name="s: DNA", colormap="blue", contrast_limits=(5, 900), **PLACE
        ),
        Image(pixels(1), name="s: actin", colormap="green", visible=False, **PLACE),
        Labels(
            blocks(),
            name="cells",
            colormap=DirectLabelColormap(color_dict=colors),
            features={"index": [1, 70], "kind": ["a", "b"], "area": [2.5, 3.5]},
            **PLACE,
        ),
    ]


def opened(path):
    viewer = ViewerModel()
    session_of(viewer)
    for one in get_reader(str(path))(str(path)):
        viewer.add_layer(one if not isinstance(one, tuple) else Image(one[0], **one[1]))
    return viewer.layers


def finest(layer):
    return np.asarray(layer.data[0] if layer.multiscale else layer.data)


def same(found, layer):
    """The layer that came back looks as the one that was saved."""
    np.testing.assert_array_equal(finest(found), finest(layer))
    np.testing.assert_allclose(found.scale, layer.scale)
    np.testing.assert_allclose(found.translate, layer.translate)
    assert found.units == layer.units
    assert found.axis_labels == layer.axis_labels
    assert found.visible == layer.visible or isinstance(layer, Labels)


@pytest.fixture(scope="module")
def written():
    with tempfile.TemporaryDirectory() as folder:
        yield {
            version: write(f"{folder}/{version}.ome.zarr", cells(), to_version=version)
            for version in VERSIONS
        }


@pytest.mark.parametrize("version", VERSIONS)
def test_opened_again_it_looks_the_same(written, version):
    before = cells()
    after = opened(written[version])
    assert [layer.name for layer in after] == [layer.name for layer in before]
    for found, layer in zip(after, before, strict=True):
        same(found, layer)
    for found, layer in zip(after[:2], before[:2], strict=True):
        np.testing.assert_allclose(found.colormap.colors[-1], layer.colormap.colors[-1])
        assert found.contrast_limits == layer.contrast_limits
    for value in (1, 70):
        np.testing.assert_allclose(
            after[2].colormap.color_dict[value],
            before[2].colormap.color_dict[value],
            atol=1 / 255,
        )
    assert after[2].features.to_dict() == before[2].features.to_dict()


@pytest.mark.parametrize("version", VERSIONS)
def test_it_is_valid(written, version, capsys):
    assert main(["check", str(written[version])]) == 0
    assert "0 errors" in capsys.readouterr().out


@pytest.mark.parametrize("version", VERSIONS)
def test_plain_zarr_reads_the_pixels_and_all_levels(written, version):
    root = written[version]
    first = zarr.open_array(root / "0", mode="r")
    np.testing.assert_array_equal(first[...], [pixels(), pixels(1)])
    assert first.chunks == (1, 1, 300, 512)
    second = zarr.open_array(root / "1", mode="r")[...].astype(int)
    assert second.shape == (2, 3, 150, 310)
    quads = first[0, 0, :2, :2].astype(int)
    assert second[0, 0, 0, 0] == (quads.sum() + 2) // 4
    labels = zarr.open_array(root / "labels/cells/0", mode="r")
    np.testing.assert_array_equal(labels[...], blocks())
    coarse = zarr.open_array(root / "labels/cells/1", mode="r")[...]
    np.testing.assert_array_equal(coarse, blocks()[:, ::2, ::2])


@pytest.mark.parametrize("version", VERSIONS)
def test_other_libraries_accept_and_read_it(written, version):
    root = str(written[version])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ngff_zarr.validate import validate

        for part, schema in (("", "image"), ("labels/cells", "label")):
            name = ".zattrs" if version == "0.4" else "zarr.json"
            document = json.loads((Path(root) / part / name).read_bytes())
            attributes = document if version == "0.4" else document["attributes"]
            validate(attributes, version, schema, strict=True)
        if version == "0.6":
            return
        validate_models(root, version)
        validate_models(f"{root}/labels/cells", version)
        validate_yaozarrs(root)
        found = read_by_ome_zarr(root)
        image = [pixels(), pixels(1)]
        np.testing.assert_array_equal(found[f"{version}.ome.zarr"][0], image)
        np.testing.assert_array_equal(np.squeeze(found["cells"][0]), blocks())
        by_ngio = container(root)
        np.testing.assert_array_equal(by_ngio.get_image().get_array(), image)
        assert by_ngio.channel_labels == ["DNA", "actin"]
        np.testing.assert_array_equal(by_ngio.get_label("cells").get_array(), blocks())


@pytest.mark.parametrize("version", ["0.5", "0.6"])
def test_single_file(tmp_path, version, capsys):
    path = write(tmp_path / "a.ozx", cells(), to_version=version)
    assert [p.name for p in tmp_path.iterdir()] == ["a.ozx"]
    assert main(["check", str(path)]) == 0
    for found, layer in zip(opened(path), cells(), strict=True):
        same(found, layer)
    with zarr.storage.ZipStore(path, mode="r") as store:
        assert zarr.open_group(store, mode="r")["0"].shards == (1, 1, 300, 1024)


@pytest.mark.parametrize("version", VERSIONS)
def test_labels_alone(tmp_path, version, capsys):
    labels = Labels(blocks(), name="cells", **PLACE)
    path = write(tmp_path / "a.ome.zarr", [labels], to_version=version)
    (found,) = opened(path)
    assert isinstance(found, Labels)
    assert found.name == "cells"
    same(found, labels)
    assert main(["check", str(path)]) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ome_zarr.io import parse_url
        from ome_zarr.reader import Reader

        if version != "0.6":
            node = next(iter(Reader(parse_url(str(path)))()))
            np.testing.assert_array_equal(np.asarray(node.data[0]), blocks())


@pytest.mark.parametrize(
    "data",
    [
        da.from_array(pixels(), chunks=(2, 100, 250)),
        [pixels(), pixels()[:, ::2, ::2]],
        pixels().astype(">u2"),
        pixels(dtype=np.float32) / 7,
        pixels(top=100, dtype=np.int8),
        np.asfortranarray(pixels()),
    ],
    ids=["dask", "levels", "big-endian", "float32", "int8", "fortran"],
)
def test_any_array(tmp_path, data):
    layer = Image(data, name="one", multiscale=isinstance(data, list))
    (found,) = opened(write(tmp_path / "a", [layer]))
    assert found.name == "one"
    np.testing.assert_array_equal(finest(found), finest(layer))


@pytest.mark.parametrize("axes", ["yx", "tyx", "czyx", "tczyx"])
def test_any_axes(tmp_path, axes, capsys):
    shape = tuple({"t": 2, "c": 3, "z": 4}.get(a, 60) for a in axes)
    layer = Image(pixels(shape=shape), name="one", axis_labels=tuple(axes))
    path = write(tmp_path / "a.zarr", [layer])
    array = zarr.open_array(path / "0", mode="r")
    assert array.metadata.dimension_names == tuple(axes)
    np.testing.assert_array_equal(array[...], layer.data)
    assert main(["check", str(path)]) == 0


def test_colours(tmp_path):
    picture = pixels(shape=(90, 80, 3), top=255, dtype=np.uint8)
    layers = opened(write(tmp_path / "a", [Image(picture, rgb=True)]))
    assert len(layers) == 3
    np.testing.assert_array_equal(
        [finest(x) for x in layers], picture.transpose(2, 0, 1)
    )


def test_plain_arrays_without_napari(tmp_path):
    keywords = {"name": "one", "axis_labels": "zyx", "scale": (2, 1, 1)}
    path = write(tmp_path / "a.ome.zarr", [(pixels(), keywords, "image")])
    assert "omero" not in zarr.open_group(path, mode="r").attrs["ome"]
    assert main(["check", str(path)]) == 0


@pytest.mark.parametrize("turn", [{"rotate": (0, 0, 30)}, {"shear": (0, 0, 0.3)}])
def test_turned_layers_need_0_6(tmp_path, turn, capsys):
    layer = Image(pixels(), name="one", **PLACE, **turn)
    labels = Labels(blocks(), name="cells", **PLACE, **turn)
    for version in ("0.4", "0.5"):
        with pytest.raises(UnsupportedError, match=r"Choose 0\.6"):
            write(tmp_path / "a", [layer], to_version=version)
    assert list(tmp_path.iterdir()) == []
    path = write(tmp_path / "a", [layer, labels], to_version="0.6")
    assert main(["check", str(path)]) == 0
    viewer = ViewerModel()
    session = session_of(viewer)
    for one in get_reader(str(path))(str(path)):
        viewer.add_layer(one if not isinstance(one, tuple) else Image(one[0], **one[1]))
    (world,) = [s for s in session.systems() if s.name == "world"]
    assert session.show_system(world) == ()
    for found in viewer.layers:
        for point in [(0, 0, 0), (2, 100, 300)]:
            np.testing.assert_allclose(
                found.data_to_world(point), layer.data_to_world(point), atol=1e-6
            )


def test_painted_labels_are_saved_as_they_are_shown(tmp_path):
    source = write_image(tmp_path / "old.ome.zarr", shape=(200, 240))
    layer = opened(source)["nuclei"]
    before = finest(layer).copy()
    layer.brush_size = 20
    layer.paint((50, 60), 77)
    path = write(tmp_path / "new.ome.zarr", [layer])
    found = finest(opened(path)[0])
    assert (found == 77).sum() > 200
    assert ((found == before) | (found == 77)).all()
    assert not (finest(opened(source)["nuclei"]) == 77).any()


def test_preferences_count(tmp_path):
    layer = Image(pixels(shape=(600, 1200)), name="one")
    set_preference("version", "0.6")
    set_preference("shards", True)
    try:
        path = write(tmp_path / "a", [layer])
    finally:
        set_preference("version", "0.5")
        set_preference("shards", False)
    assert zarr.open_group(path, mode="r").attrs["ome"]["version"] == "0.6"
    assert zarr.open_array(path / "0", mode="r").shards == (1024, 1536)
    np.testing.assert_array_equal(finest(opened(path)[0]), layer.data)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("a", "a.ome.zarr"),
        ("a.zarr", "a.zarr"),
        ("a.tif", "a.tif.ome.zarr"),
        ("A.OZX", "A.OZX"),
    ],
)
def test_an_ending_is_added(tmp_path, given, path):
    assert complete_path(tmp_path / given) == tmp_path / path


def test_addresses_are_refused():
    with pytest.raises(UnsupportedError, match="not a local path"):
        write("s3://bucket/a.zarr", [Image(pixels())])


def test_nothing_is_replaced_unasked(tmp_path):
    path = write(tmp_path / "a.zarr", [Image(pixels())])
    other = Image(pixels(1))
    with pytest.raises(FileExistsError, match="already exists"):
        write(path, [other])
    np.testing.assert_array_equal(finest(opened(path)[0]), pixels())
    write(path, [other], overwrite=True)
    np.testing.assert_array_equal(finest(opened(path)[0]), pixels(1))


@pytest.mark.parametrize("from_link", [True, False])
def test_a_link_to_what_is_read_is_not_written_over(tmp_path, from_link):
    path = write(tmp_path / "a.zarr", [Image(pixels())])
    link = tmp_path / "b.zarr"
    link.symlink_to(path)
    places = [link, path] if from_link else [path, link]
    with pytest.raises(FileExistsError, match="is read from"):
        write(places[1], opened(places[0]), overwrite=True)
    np.testing.assert_array_equal(finest(opened(path)[0]), pixels())


def test_nothing_is_written_into_or_over_what_is_read(tmp_path):
    path = write(tmp_path / "a.zarr", [Image(pixels())])
    with pytest.raises(FileExistsError, match="is inside of"):
        write(path / "labels" / "b.zarr", [Image(pixels())])
    with pytest.raises(FileExistsError, match="is read from"):
        write(path, opened(path), overwrite=True)
    np.testing.assert_array_equal(finest(opened(path)[0]), pixels())


def test_0_4_has_no_single_files_and_no_shards(tmp_path):
    for path, shards in (("a.ozx", None), ("a.zarr", True)):
        with pytest.raises(UnsupportedError, match=r"0\.5 or newer"):
            write(tmp_path / path, [Image(pixels())], to_version="0.4", shards=shards)
    assert list(tmp_path.iterdir()) == []


def test_it_can_be_stopped_and_shows_how_far_it_is(tmp_path):
    reported = []
    layer = Image(pixels(shape=(40, 600, 600)))
    with pytest.raises(InterruptedError, match="Nothing was written"):
        write(
            tmp_path / "a",
            [layer],
            progress=lambda done, total: reported.append((done, total)),
            cancel=lambda: len(reported) > 4,
        )
    assert list(tmp_path.iterdir()) == []
    reported.clear()
    lock = threading.Lock()

    def progress(done, total):
        with lock:
            reported.append(done / total)

    write(tmp_path / "a", [layer], progress=progress)
    assert len(reported) == 160
    assert max(reported) == 1


def test_an_error_of_the_data_leaves_nothing(tmp_path):
    def broken(block):
        raise RuntimeError("The disk is gone.")

    data = da.ones((64, 64), chunks=32).map_blocks(
        broken, dtype=float, meta=np.ones((0, 0))
    )
    with pytest.raises(RuntimeError, match="disk is gone"):
        write(tmp_path / "a", [(data, {"name": "one"}, "image")])
    assert list(tmp_path.iterdir()) == []


def test_napari_finds_the_writer(tmp_path):
    viewer = ViewerModel()
    for layer in cells():
        viewer.add_layer(layer)
    (path,) = viewer.layers.save(str(tmp_path / "a.ome.zarr"))
    assert path == str(tmp_path / "a.ome.zarr")
    assert len(opened(path)) == 3
    (path,) = viewer.layers[2].save(str(tmp_path / "b.ozx"))
    assert len(opened(path)) == 1
    with pytest.raises(FileExistsError):
        viewer.layers.save(path)
