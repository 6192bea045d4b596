"""The specification's public cases as files: valid ones open, at the right place."""

import json
import os
from pathlib import Path

import napari.layers
import numpy as np
import pytest

from napari_ngff.errors import OMEZarrError
from napari_ngff.viewer.reader import read_paths

ROOT = Path(__file__).parents[2]
CORPORA = Path(os.environ.get("NGFF_CORPORA", ROOT / "../shared/corpora"))
SIZES = (2, 2, 3, 2, 16, 24)
"""Of the last axes of level 0, the last two halved at each level."""

pytestmark = pytest.mark.skipif(
    not CORPORA.is_dir(), reason=f"no public test cases at {CORPORA} (NGFF_CORPORA)"
)


def suites():
    """Cases of 0.4 and 0.5: suites of one file each."""
    for version, zarr_format in (("0.4", 2), ("0.5", 3)):
        for path in sorted(CORPORA.glob(f"ngff-spec-{version}/*_suite.json")):
            for test in json.loads(path.read_bytes())["tests"]:
                kind = path.stem.removesuffix("_suite").removeprefix("strict_")
                yield (
                    f"{version}/{path.stem}/{test['formerly']}",
                    kind,
                    test["data"],
                    (zarr_format),
                    test["valid"],
                )


def documents():
    """Cases of 0.1 and 0.3: one file each, in folders called valid or invalid."""
    for version in ("0.1", "0.3"):
        for path in sorted(CORPORA.glob(f"ngff-spec-{version}/*/*/*.json")):
            _, kind, verdict, name = path.relative_to(CORPORA).parts
            data = json.loads(path.read_bytes())
            yield f"{version}/{kind}/{name}", kind, data, 2, verdict == "valid"


def cases(valid, *kinds):
    return [
        pytest.param(kind, data, zarr_format, id=name)
        for source in (documents, suites)
        for name, kind, data, zarr_format, verdict in source()
        if verdict is valid and kind in kinds
    ]


def home_of(attributes):
    return attributes.get("ome", attributes)


# -------- an independent writer: uncompressed arrays of one chunk --------


def write_group(folder, attributes, zarr_format):
    folder.mkdir(parents=True, exist_ok=True)
    if zarr_format == 2:
        (folder / ".zgroup").write_text('{"zarr_format": 2}')
        (folder / ".zattrs").write_text(json.dumps(attributes))
        return
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    (folder / "zarr.json").write_text(json.dumps(document))


def write_array(folder, data, zarr_format):
    folder.mkdir(parents=True, exist_ok=True)
    shape = list(data.shape)
    if zarr_format == 2:
        document = {
            "zarr_format": 2,
            "shape": shape,
            "chunks": shape,
            "dtype": "<u2",
            "compressor": None,
            "filters": None,
            "fill_value": 0,
            "order": "C",
            "dimension_separator": "/",
        }
        (folder / ".zarray").write_text(json.dumps(document))
        chunk = folder.joinpath(*"0" * data.ndim)
    else:
        document = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": shape,
            "data_type": "uint16",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
            "chunk_key_encoding": {"name": "default"},
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "fill_value": 0,
            "attributes": {},
        }
        (folder / "zarr.json").write_text(json.dumps(document))
        chunk = folder.joinpath("c", *"0" * data.ndim)
    chunk.parent.mkdir(parents=True, exist_ok=True)
    chunk.write_bytes(data.astype("<u2").tobytes())


def level_pixels(ndim, level, first):
    full = (5,) * (ndim - len(SIZES)) + SIZES[-ndim:]
    shape = (*full[:-2], *(max(1, size >> level) for size in full[-2:]))
    size = np.prod(shape, dtype=int)
    return (np.arange(first, first + size) % 60000).astype("<u2").reshape(shape)


def axes_of(multiscale, attributes):
    """Names and types of the axes, or those of 0.1."""
    stated = multiscale.get("axes") if isinstance(multiscale, dict) else None
    if not isinstance(stated, list) or not stated:
        return [("t", "time"), ("c", "channel"), ("z", None), ("y", None), ("x", None)]
    return [
        (axis, "channel" if axis == "c" else None)
        if isinstance(axis, str)
        else (axis.get("name"), axis.get("type"))
        for axis in stated
    ]


def write_image(folder, attributes, zarr_format, first=1):
    """Write an image group with arrays; returns those of the first multiscale."""
    write_group(folder, attributes, zarr_format)
    found = []
    listed = home_of(attributes).get("multiscales")
    for multiscale in listed if isinstance(listed, list) else []:
        ndim = len(axes_of(multiscale, attributes))
        levels = []
        for i, dataset in enumerate(multiscale.get("datasets") or []):
            path = dataset.get("path")
            if isinstance(path, str) and path:
                levels.append(level_pixels(ndim, i, first))
                write_array(folder / path, levels[-1], zarr_format)
        found.append(levels)
    return found[0] if found else []


def plain_image(zarr_format, **more):
    """Attributes of a "yx" image of one level, 0.5 micrometer."""
    axes = [{"name": n, "type": "space", "unit": "micrometer"} for n in "yx"]
    scale = [{"type": "scale", "scale": [0.5, 0.5]}]
    dataset = {"path": "0", "coordinateTransformations": scale}
    multiscale = {"axes": axes, "datasets": [dataset]}
    if zarr_format == 2:
        return {"multiscales": [{"version": "0.4", **multiscale}], **more}
    return {"ome": {"version": "0.5", "multiscales": [multiscale], **more}}


def write_fields(folder, attributes, zarr_format, first=1):
    """Put an image wherever a well says."""
    write_group(folder, attributes, zarr_format)
    well = home_of(attributes)["well"]
    paths = dict.fromkeys(field["path"] for field in well.get("images", ()))
    return [
        write_image(folder / path, plain_image(zarr_format), zarr_format, first + i)
        for i, path in enumerate(paths)
    ]


def write_wells(folder, attributes, zarr_format):
    """Put a well of one field wherever a plate says; returns pixels by path."""
    write_group(folder, attributes, zarr_format)
    well = {"well": {"images": [{"path": "f0"}]}}
    if zarr_format == 3:
        well = {"ome": {"version": "0.5", **well}}
    found = {}
    for i, entry in enumerate(home_of(attributes)["plate"].get("wells", ())):
        if isinstance(path := entry.get("path"), str):
            fields = write_fields(folder / path, well, zarr_format, 1000 * i + 1)
            found[path] = fields[0][0]
    return found


def opened(path):
    """Read, and build the layers as napari would."""
    return [napari.layers.Layer.create(*layer) for layer in read_paths(str(path))]


def pixels(layer, level=0):
    return np.asarray(layer.data[level] if layer.multiscale else layer.data)


# -------- independent evaluation of where a pixel is --------


def apply(transformations, point):
    for transformation in transformations or ():
        kind = transformation["type"]
        vector = transformation.get(kind)
        if vector is None:  # identity
            continue
        # A vector of another length counts for the last axes.
        full = np.full(len(point), 1.0 if kind == "scale" else 0.0)
        full[-len(vector) :] = vector
        point = point * full if kind == "scale" else point + full
    return point


def world(multiscale, point):
    """Dataset's transformations first, then the multiscale's."""
    dataset = multiscale["datasets"][0]
    point = apply(dataset.get("coordinateTransformations"), np.array(point, float))
    return apply(multiscale.get("coordinateTransformations"), point)


@pytest.mark.parametrize(("kind", "data", "zarr_format"), cases(True, "image"))
def test_valid_images_lie_where_the_document_says(tmp_path, kind, data, zarr_format):
    written = write_image(tmp_path / "case.zarr", data, zarr_format)
    layers = opened(tmp_path / "case.zarr")
    multiscale = home_of(data)["multiscales"][0]
    axes = axes_of(multiscale, data)
    channel = next((i for i, axis in enumerate(axes) if axis[1] == "channel"), None)
    count = 1 if channel is None else written[0].shape[channel]
    assert [layer._type_string for layer in layers] == ["image"] * count
    kept = [i for i in range(len(axes)) if i != channel]
    shape = np.array([written[0].shape[i] for i in range(len(axes))])
    for number, layer in enumerate(layers):
        assert layer.axis_labels == tuple(axes[i][0] for i in kept)
        for i, level in enumerate(written if layer.multiscale else written[:1]):
            wanted = level if channel is None else level.take(number, channel)
            np.testing.assert_array_equal(pixels(layer, i), wanted)
        for corner in (shape * 0, shape - 1, shape // 2):
            found = layer._data_to_world(corner[kept])
            np.testing.assert_allclose(found, world(multiscale, corner)[kept])


@pytest.mark.parametrize(("kind", "data", "zarr_format"), cases(True, "label"))
def test_valid_labels_open_with_their_image_and_alone(
    tmp_path, kind, data, zarr_format
):
    root = tmp_path / "case.zarr"
    write_image(root, plain_image(zarr_format), zarr_format)
    group = {"labels": ["cells"]}
    if zarr_format == 3:
        group = {"ome": {"version": "0.5", **group}}
    write_group(root / "labels", group, zarr_format)
    label = plain_image(zarr_format, **{"image-label": home_of(data)["image-label"]})
    (written,) = write_image(root / "labels/cells", label, zarr_format, 7)

    image, labels = opened(root)
    (alone,) = opened(root / "labels/cells")
    assert (image._type_string, labels._type_string) == ("image", "labels")
    for layer in (labels, alone):
        np.testing.assert_array_equal(pixels(layer), written)
        assert tuple(layer.scale) == (0.5, 0.5)
        for color in home_of(data)["image-label"]["colors"]:
            shown = layer.colormap.map(np.array([color["label-value"]]))
            np.testing.assert_allclose(shown[0], np.array(color["rgba"]) / 255)


@pytest.mark.parametrize(("kind", "data", "zarr_format"), cases(True, "plate"))
def test_valid_plates_put_each_well_at_its_row_and_column(
    tmp_path, kind, data, zarr_format
):
    written = write_wells(tmp_path / "case.zarr", data, zarr_format)
    (layer,) = opened(tmp_path / "case.zarr")
    plate = home_of(data)["plate"]
    rows = [row["name"] for row in plate["rows"]]
    columns = [column["name"] for column in plate["columns"]]
    wanted = np.zeros_like(pixels(layer))
    height, width = SIZES[-2:]
    places = []
    for well in plate["wells"]:
        # Before 0.4 there are no indices, and the path may begin with more folders.
        # Some cases name their rows by the columns' names: the indices count then.
        names = well["path"].split("/")[-2:]
        place = [
            stated.index(name)
            if name in stated
            else well.get(f"{key}Index", len(stated))
            for key, name, stated in zip(
                ("row", "column"), names, (rows, columns), strict=True
            )
        ]
        places.append(place)
    # The picture begins at the first row and the first column that have a well.
    first = np.min(places, axis=0)
    for well, place in zip(plate["wells"], places, strict=True):
        y, x = (place - first) * (height, width)
        wanted[y : y + height, x : x + width] = written[well["path"]]
    assert written
    assert all(wanted.max() >= field.max() for field in written.values())
    np.testing.assert_array_equal(pixels(layer), wanted)


@pytest.mark.parametrize(("kind", "data", "zarr_format"), cases(True, "well"))
def test_valid_wells_show_every_field(tmp_path, kind, data, zarr_format):
    written = write_fields(tmp_path / "case.zarr", data, zarr_format)
    (layer,) = opened(tmp_path / "case.zarr")
    shown = pixels(layer)
    height, width = SIZES[-2:]
    tiles = [
        shown[y : y + height, x : x + width]
        for y in range(0, shown.shape[0], height)
        for x in range(0, shown.shape[1], width)
    ]
    for i, (field,) in enumerate(written):
        np.testing.assert_array_equal(tiles[i], field)


@pytest.mark.parametrize(
    ("kind", "data", "zarr_format"), cases(False, "image", "label", "plate", "well")
)
def test_invalid_ones_show_the_readable_or_say_why_not(
    tmp_path, kind, data, zarr_format
):
    root = tmp_path / "case.zarr"
    written = []
    if kind == "image":
        written = write_image(root, data, zarr_format)
    elif kind == "label":
        label = plain_image(zarr_format, **home_of(data))
        written = write_image(root, label, zarr_format)
    elif kind == "plate":
        written = list(write_wells(root, data, zarr_format).values())
    else:
        fields = write_fields(root, data, zarr_format)
        written = [field[0] for field in fields]
    try:
        layers = opened(root)
    except OMEZarrError as error:
        message = str(error)
        assert message.strip()
        assert "\n" not in message
        assert str(root) in message
    else:
        assert layers
        assert written
        # All of level 0 of something that was written is on screen.
        everything = np.concatenate([pixels(layer).ravel() for layer in layers])
        assert np.isin(written[0], everything).all()
