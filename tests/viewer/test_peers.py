"""What other libraries write opens here as they mean it, to the pixel."""

import napari.layers
import numpy as np
import pytest
import zarr
from zarr.storage import ZipStore

from napari_ngff.metadata.model import GroupKind
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.reader import read_paths

CHANNELS = 2


def picture(*shape, dtype="u2"):
    """Smooth pixels that differ everywhere, so that any mix-up shows."""
    data = np.zeros(shape)
    for axis, size in enumerate(shape):
        ramp = np.arange(size).reshape((-1,) + (1,) * (len(shape) - axis - 1))
        data = data + ramp * (7 if axis == len(shape) - 1 else 31 * (axis + 1))
    return (data + 1).astype(dtype)


def nuclei(*shape):
    """Label ids, 0 between them."""
    data = np.zeros(shape, "u4")
    for i in range(4):
        data[..., 8 * i + 1 : 8 * i + 6, 5:20] = i + 1
    return data


# -------- an independent reading of the metadata --------


def opened(path):
    if str(path).endswith((".ozx", ".zip")):
        return zarr.open_group(ZipStore(path, mode="r"), mode="r")
    return zarr.open_group(str(path), mode="r")


def stated(group):
    """First multiscale, and its axes with name, type and unit."""
    attributes = dict(group.attrs)
    multiscale = attributes.get("ome", attributes)["multiscales"][0]
    axes = multiscale.get("axes") or list("tczyx")
    if isinstance(axes[0], str):
        types = {"c": "channel", "t": "time"}
        axes = [{"name": n, "type": types.get(n, "space")} for n in axes]
    return multiscale, axes


def place(multiscale, ndim):
    """Scale and translation of level 0: the dataset's, then the multiscale's."""
    scale, translation = np.ones(ndim), np.zeros(ndim)
    dataset = multiscale["datasets"][0]
    for owner in (dataset, multiscale):
        for transform in owner.get("coordinateTransformations") or ():
            if transform["type"] == "scale":
                scale = scale * transform["scale"]
                translation = translation * transform["scale"]
            elif transform["type"] == "translation":
                translation = translation + transform["translation"]
    return scale, translation


def same(layer, group, channel=None):
    """Compare a layer with what zarr reads and the attributes say."""
    multiscale, axes = stated(group)
    at = next((i for i, a in enumerate(axes) if a.get("type") == "channel"), None)
    arrays = [group[dataset["path"]][...] for dataset in multiscale["datasets"]]
    levels = list(layer.data) if layer.multiscale else [layer.data]
    assert len(levels) == len(arrays)
    for level, array in zip(levels, arrays, strict=True):
        wanted = array if at is None else array.take(channel or 0, at)
        np.testing.assert_array_equal(np.asarray(level).reshape(wanted.shape), wanted)
    kept = [i for i in range(len(axes)) if i != at]
    assert layer.axis_labels == tuple(axes[i]["name"] for i in kept)
    scale, translation = place(multiscale, len(axes))
    units = [axes[i].get("unit") for i in kept]
    # A window has all lengths in micrometres.
    sizes = [0.001 if unit == "nanometer" else 1 for unit in units]
    np.testing.assert_allclose(layer.scale, scale[kept] * sizes)
    np.testing.assert_allclose(layer.translate, translation[kept] * sizes)
    shown = [unit.replace("nano", "micro") if unit else "pixel" for unit in units]
    assert [str(unit) for unit in layer.units] == shown


def shown_as_stated(path, labels=(), channels=CHANNELS):
    """Check all layers of an image file; returns them."""
    layers = [napari.layers.Layer.create(*layer) for layer in read_paths(str(path))]
    group = opened(path)
    types = ["image"] * channels + ["labels"] * len(labels)
    assert [layer._type_string for layer in layers] == types
    for i in range(channels):
        same(layers[i], group, i)
    for layer, name in zip(layers[channels:], labels, strict=True):
        assert layer.name == name
        same(layer, group["labels"][name])
    assert np.asarray(layers[0].data[0]).any()
    return layers


# -------- ome-zarr-py --------


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_ome_zarr_py(tmp_path, version):
    writer = pytest.importorskip("ome_zarr.writer")
    formats = pytest.importorskip("ome_zarr.format")
    models = pytest.importorskip("ome_zarr_models.common.omero")
    fmt = formats.format_from_version(version)
    path = tmp_path / "peer.ome.zarr"
    zarr_format = 3 if version == "0.5" else 2
    group = zarr.create_group(str(path), zarr_format=zarr_format)
    data = picture(CHANNELS, 3, 64, 48)
    mask = nuclei(1, 3, 64, 48)
    options = {
        "fmt": fmt,
        "scale_factors": [2, 4],
        "axes": "czyx",
        "scale": {"c": 1.0, "z": 2.0, "y": 0.5, "x": 0.25},
        "axes_units": dict.fromkeys("zyx", "micrometer"),
    }
    window = {"min": 0, "max": 65535, "start": 5, "end": 900}
    channels = [
        {"label": "a", "color": "FF0000", "window": window},
        {"label": "b", "color": "00FF00", "window": window},
    ]
    omero = models.Omero.model_validate({"channels": channels})
    writer.write_image(data, group, omero=omero, **options)
    writer.write_labels(mask, group, name="nuclei", scaler=None, **options)
    layers = shown_as_stated(path, ["nuclei"])
    assert open_node(path).metadata.version == version
    names = [layer.name.split(": ")[-1] for layer in layers[:CHANNELS]]
    assert names == ["a", "b"]
    assert [tuple(layer.contrast_limits) for layer in layers[:2]] == [(5, 900)] * 2
    np.testing.assert_allclose(layers[1].colormap.colors[-1], (0, 1, 0, 1))
    np.testing.assert_array_equal(layers[1].data[0], data[1])
    np.testing.assert_array_equal(layers[2].data[0], mask[0])


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_ome_zarr_py_plate(tmp_path, version):
    writer = pytest.importorskip("ome_zarr.writer")
    formats = pytest.importorskip("ome_zarr.format")
    fmt = formats.format_from_version(version)
    path = tmp_path / "plate.ome.zarr"
    zarr_format = 3 if version == "0.5" else 2
    plate = zarr.create_group(str(path), zarr_format=zarr_format)
    wells = ["A/1", "B/2"]
    writer.write_plate_metadata(plate, ["A", "B"], ["1", "2"], wells, fmt=fmt)
    for i, name in enumerate(wells):
        well = plate.require_group(name)
        writer.write_well_metadata(well, ["0"], fmt=fmt)
        field = well.require_group("0")
        data = picture(32, 32) + 1000 * i
        writer.write_image(data, field, axes="yx", fmt=fmt, scale_factors=[2])
    (layer,) = [napari.layers.Layer.create(*found) for found in read_paths(str(path))]
    full = np.asarray(layer.data[0])
    for i, (y, x) in enumerate(((0, 0), (32, 32))):
        tile = full[y : y + 32, x : x + 32]
        np.testing.assert_array_equal(tile, picture(32, 32) + 1000 * i)
    assert not full[:32, 32:].any()
    shown_as_stated(path / "B/2/0", channels=1)


# -------- ngff-zarr --------


@pytest.mark.parametrize(
    ("name", "version"),
    [("a.ome.zarr", "0.4"), ("a.ome.zarr", "0.5"), ("a.ozx", "0.5")],
)
def test_ngff_zarr(tmp_path, name, version):
    ngff_zarr = pytest.importorskip("ngff_zarr")
    path = tmp_path / name
    image = ngff_zarr.to_ngff_image(
        picture(CHANNELS, 3, 64, 48),
        dims=("c", "z", "y", "x"),
        scale={"c": 1.0, "z": 2.0, "y": 0.5, "x": 0.25},
        translation={"c": 0.0, "z": 10.0, "y": -5.0, "x": 3.0},
        axes_units={"z": "micrometer", "y": "micrometer", "x": "micrometer"},
    )
    method = ngff_zarr.Methods.DASK_BIN_SHRINK
    pyramid = ngff_zarr.to_multiscales(image, [{"z": 1, "y": 2, "x": 2}], method=method)
    ngff_zarr.to_ngff_zarr(str(path), pyramid, version=version)
    layers = shown_as_stated(path)
    np.testing.assert_allclose(layers[0].translate, (10, -5, 3))
    np.testing.assert_array_equal(layers[1].data[0], picture(CHANNELS, 3, 64, 48)[1])


def test_ngff_zarr_sharded(tmp_path):
    ngff_zarr = pytest.importorskip("ngff_zarr")
    path = tmp_path / "a.ome.zarr"
    image = ngff_zarr.to_ngff_image(picture(96, 80), dims=("y", "x"))
    method = ngff_zarr.Methods.DASK_BIN_SHRINK
    pyramid = ngff_zarr.to_multiscales(image, [2], method=method, chunks=16)
    ngff_zarr.to_ngff_zarr(str(path), pyramid, version="0.5", chunks_per_shard=2)
    shown_as_stated(path, channels=1)


# -------- yaozarrs --------


@pytest.mark.parametrize("shards", [None, (1, 1, 64, 64)])
def test_yaozarrs(tmp_path, shards):
    v05 = pytest.importorskip("yaozarrs.v05")
    write = pytest.importorskip("yaozarrs.write.v05")
    path = tmp_path / "peer.ome.zarr"

    def multiscale(names, name):
        sizes = {"c": 1.0, "z": 2.0, "y": 0.5, "x": 0.25}
        axes = [
            v05.ChannelAxis(name=n)
            if n == "c"
            else v05.SpaceAxis(name=n, unit="micrometer")
            for n in names
        ]
        datasets = []
        for i in range(2):
            scale = [sizes[n] * (2**i if n in "yx" else 1) for n in names]
            shift = [n != "c" and 4.0 for n in names]
            transforms = [
                v05.ScaleTransformation(scale=scale),
                v05.TranslationTransformation(translation=[float(s) for s in shift]),
            ]
            datasets.append(
                v05.Dataset(path=str(i), coordinateTransformations=transforms)
            )
        return v05.Multiscale(name=name, axes=axes, datasets=datasets)

    data = picture(CHANNELS, 3, 64, 64)
    mask = nuclei(3, 64, 64)
    label = v05.LabelImage(
        multiscales=[multiscale("zyx", "nuclei")], image_label=v05.ImageLabel()
    )
    write.write_image(
        path,
        v05.Image(multiscales=[multiscale("czyx", "peer")]),
        [data, data[..., ::2, ::2]],
        # It gives labels the shards of the image, whatever their axes.
        labels=None if shards else {"nuclei": (label, [mask, mask[..., ::2, ::2]])},
        chunks=(1, 1, 16, 16),
        shards=shards,
    )
    layers = shown_as_stated(path, [] if shards else ["nuclei"])
    np.testing.assert_array_equal(layers[1].data[0], data[1])
    if not shards:
        np.testing.assert_array_equal(layers[2].data[0], mask)


def test_yaozarrs_0_4(tmp_path):
    """Its models of 0.4, and zarr for the pixels: it writes none itself."""
    v04 = pytest.importorskip("yaozarrs.v04")
    axes = [v04.SpaceAxis(name=n, unit="nanometer") for n in "yx"]
    scale = v04.ScaleTransformation(scale=[65.0, 65.0])
    datasets = [v04.Dataset(path="s0", coordinateTransformations=[scale])]
    image = v04.Image(multiscales=[v04.Multiscale(axes=axes, datasets=datasets)])
    path = tmp_path / "a.zarr"
    group = zarr.create_group(str(path), zarr_format=2)
    group.attrs.update(image.model_dump(mode="json", exclude_none=True))
    array = group.create_array("s0", shape=(40, 30), chunks=(16, 16), dtype="u2")
    array[...] = picture(40, 30)
    shown_as_stated(path, channels=1)


# -------- ngio --------


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_ngio(tmp_path, version):
    ngio = pytest.importorskip("ngio")
    path = tmp_path / "a.zarr"
    container = ngio.create_ome_zarr_from_array(
        path,
        picture(CHANNELS, 3, 64, 48),
        pixelsize=0.5,
        z_spacing=2.0,
        axes_names=["c", "z", "y", "x"],
        channels_meta=["DAPI", "GFP"],
        levels=3,
        ngff_version=version,
        consolidation_mode="numpy",
    )
    label = container.derive_label("nuclei")
    label.set_array(nuclei(3, 64, 48))
    label.consolidate("numpy")
    layers = shown_as_stated(path, ["nuclei"])
    assert [layer.name.split(": ")[-1] for layer in layers[:2]] == ["DAPI", "GFP"]
    np.testing.assert_array_equal(layers[1].data[0], picture(CHANNELS, 3, 64, 48)[1])
    np.testing.assert_array_equal(layers[2].data[0], nuclei(3, 64, 48))


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_ngio_plate(tmp_path, version):
    ngio = pytest.importorskip("ngio")
    path = tmp_path / "plate.zarr"
    places = (("A", 3), ("B", 1))
    images = [
        ngio.ImageInWellPath(row=row, column=column, path="0") for row, column in places
    ]
    plate = ngio.create_empty_plate(path, "screen", images, ngff_version=version)
    first = min(column for _, column in places)
    for i, (row, column) in enumerate(places):
        container = ngio.create_ome_zarr_from_array(
            plate.get_image_store(row, column, "0"),
            picture(32, 48) + 1000 * i,
            pixelsize=0.5,
            axes_names=["y", "x"],
            levels=2,
            ngff_version=version,
            overwrite=True,
            consolidation_mode="numpy",
        )
        label = container.derive_label("nuclei")
        label.set_array(nuclei(32, 48))
        label.consolidate("numpy")
    image, labels = [
        napari.layers.Layer.create(*found) for found in read_paths(str(path))
    ]
    for i, (row, column) in enumerate(places):
        y, x = "AB".index(row) * 32, (column - first) * 48
        tile = np.s_[y : y + 32, x : x + 48]
        np.testing.assert_array_equal(image.data[0][tile], picture(32, 48) + 1000 * i)
        np.testing.assert_array_equal(labels.data[0][tile], nuclei(32, 48))
        well = open_node(path / row / f"{column:02}")
        assert well.kind is GroupKind.WELL
        shown_as_stated(path / row / f"{column:02}" / "0", ["nuclei"], channels=1)
    np.testing.assert_allclose(image.scale, (0.5, 0.5))
