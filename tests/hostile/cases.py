"""Images that lie, break off or never end; each is made in a folder of its own."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
import zipfile
from pathlib import Path
from typing import Any

MAKERS: dict[str, Any] = {}


def case(function):
    MAKERS[function.__name__] = function
    return function


def group(folder, ome, version="0.5"):
    folder.mkdir(parents=True, exist_ok=True)
    attributes = {"ome": {"version": version} | ome}
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    (folder / "zarr.json").write_text(json.dumps(document))


def array(folder, shape=(64, 64), chunks=(64, 64), chunk=b"\1" * 4096, **changes):
    """Write an array of bytes; `changes` of its document."""
    folder.mkdir(parents=True, exist_ok=True)
    grid = {"name": "regular", "configuration": {"chunk_shape": list(chunks)}}
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": "uint8",
        "chunk_grid": grid,
        "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": "bytes"}],
        "fill_value": 0,
        "attributes": {},
    }
    (folder / "zarr.json").write_text(json.dumps(document | changes))
    if chunk is not None:
        (folder / "c/0").mkdir(parents=True, exist_ok=True)
        (folder / "c/0/0").write_bytes(chunk)


def image(folder, scale=(1.0, 1.0), **options):
    axes = [{"name": n, "type": "space", "unit": "micrometer"} for n in "yx"]
    steps = [{"type": "scale", "scale": list(scale)}]
    datasets = [{"path": "0", "coordinateTransformations": steps}]
    group(folder, {"multiscales": [{"axes": axes, "datasets": datasets}]})
    array(folder / "0", **options)


def replaced(place: Path, make) -> None:
    place.unlink(missing_ok=True)
    make(place)


@case
def chunk_is_a_pipe(folder):
    image(folder)
    replaced(folder / "0/c/0/0", os.mkfifo)


@case
def chunk_is_a_device(folder):
    image(folder)
    replaced(folder / "0/c/0/0", lambda place: place.symlink_to("/dev/zero"))


@case
def group_document_is_a_pipe(folder):
    image(folder)
    replaced(folder / "zarr.json", os.mkfifo)


@case
def array_document_is_a_pipe(folder):
    image(folder)
    replaced(folder / "0/zarr.json", os.mkfifo)


@case
def labels_document_is_a_device(folder):
    image(folder)
    (folder / "labels").mkdir()
    (folder / "labels/zarr.json").symlink_to("/dev/zero")


@case
def attributes_are_a_pipe(folder):
    folder.mkdir()
    (folder / ".zgroup").write_text('{"zarr_format": 2}')
    os.mkfifo(folder / ".zattrs")


def sparse(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(20 << 30)


@case
def group_document_of_20_gigabytes(folder):
    image(folder)
    replaced(folder / "zarr.json", sparse)


@case
def array_document_of_20_gigabytes(folder):
    image(folder)
    replaced(folder / "0/zarr.json", sparse)


@case
def chunk_of_20_gigabytes(folder):
    image(folder)
    replaced(folder / "0/c/0/0", sparse)


@case
def one_chunk_of_an_image_of_100000_pixels(folder):
    image(folder, shape=(100_000, 100_000), chunks=(100_000, 100_000))


@case
def chunk_that_is_larger_than_its_image(folder):
    image(folder, shape=(64, 64), chunks=(1 << 20, 1 << 20))


@case
def shape_of_2_to_the_62(folder):
    image(folder, shape=(1 << 62, 1 << 62), chunks=(1 << 61, 1 << 61))


@case
def shape_beyond_all_integers(folder):
    image(folder, shape=(10**40, 10**40), chunks=(10**40, 64))


@case
def huge_scale(folder):
    image(folder, scale=(1e308, 1e308))


def deep(depth=200_000):
    return "[" * depth + "]" * depth


@case
def deep_group_document(folder):
    image(folder)
    (folder / "zarr.json").write_text(deep())


@case
def deep_array_document(folder):
    image(folder)
    (folder / "0/zarr.json").write_text(deep())


@case
def deep_attributes(folder):
    image(folder)
    text = (folder / "zarr.json").read_text()
    text = text.replace('"version"', f'"deep": {deep(900)}, "version"')
    (folder / "zarr.json").write_text(text)


@case
def affine_of_a_million_rows(folder):
    """A matrix by path, in 0.6."""
    image(folder)
    array(folder / "matrix", shape=(1 << 20, 3), chunks=(1 << 20, 3), data_type="uint8")
    systems = [
        {"name": name, "axes": [{"name": n, "type": "space"} for n in "yx"]}
        for name in ("own", "other")
    ]
    links = [
        {
            "type": "affine",
            "path": "matrix",
            "input": {"name": "own"},
            "output": {"name": "other"},
        }
    ]
    steps = [
        {
            "type": "scale",
            "scale": [1.0, 1.0],
            "input": {"path": "0"},
            "output": {"name": "own"},
        }
    ]
    multiscale = {
        "coordinateSystems": systems,
        "coordinateTransformations": links,
        "datasets": [{"path": "0", "coordinateTransformations": steps}],
    }
    group(folder, {"multiscales": [multiscale]}, "0.6")


@case
def variable_length_strings(folder):
    codecs = [{"name": "vlen-utf8"}]
    image(folder, data_type="string", fill_value="", codecs=codecs)


@case
def shard_index_of_a_gigabyte(folder):
    inner = [{"name": "bytes"}]
    configuration = {
        "chunk_shape": [1, 1],
        "codecs": inner,
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    }
    codecs = [{"name": "sharding_indexed", "configuration": configuration}]
    image(folder, shape=(8192, 8192), chunks=(8192, 8192), codecs=codecs)
    replaced(folder / "0/c/0/0", sparse)


@case
def chain_of_compressors(folder):
    import gzip

    once = gzip.compress(bytes(1 << 30), 9)
    chunk = gzip.compress(once, 9)
    codecs = [{"name": "bytes"}] + 2 * [{"name": "gzip", "configuration": {"level": 9}}]
    image(folder, chunk=chunk, codecs=codecs)


@case
def a_chunk_that_inflates(folder):
    import gzip

    codecs = [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 9}}]
    image(folder, chunk=gzip.compress(bytes(2 << 30), 1), codecs=codecs)


MANY = 200_000
"""Entries of lists that no program writes."""


def edited(folder, edit):
    """Make an image, and change its OME-Zarr metadata."""
    image(folder)
    path = folder / "zarr.json"
    document = json.loads(path.read_text())
    edit(document["attributes"]["ome"])
    path.write_text(json.dumps(document))


@case
def very_many_transformations(folder):
    steps = [{"type": "scale", "scale": [1, 1]}] * MANY

    def edit(ome):
        ome["multiscales"][0]["datasets"][0]["coordinateTransformations"] = steps

    edited(folder, edit)


@case
def very_many_axes(folder):
    axes = [{"name": f"a{i}", "type": "space"} for i in range(MANY)]
    edited(folder, lambda ome: ome["multiscales"][0].update(axes=axes))


@case
def very_many_channels(folder):
    channels = [{"color": "zz", "window": {"start": 0}}] * MANY
    edited(folder, lambda ome: ome.update(omero={"channels": channels}))


@case
def very_many_wells(folder):
    side = int(MANY**0.5)
    wells = [
        {"path": f"r{i}/{j}", "rowIndex": i, "columnIndex": j}
        for i in range(side)
        for j in range(side)
    ]
    rows = [{"name": f"r{i}"} for i in range(side)]
    columns = [{"name": str(i)} for i in range(side)]
    group(folder, {"plate": {"rows": rows, "columns": columns, "wells": wells}})
    group(folder / "r0/0", {"well": {"images": [{"path": "0"}]}})
    image(folder / "r0/0/0")


@case
def very_many_tiny_chunks(folder):
    image(folder, shape=(3000, 3000), chunks=(1, 1), chunk=None)


@case
def very_many_channels_of_pixels(folder):
    axes = [
        {"name": "c", "type": "channel"},
        {"name": "y", "type": "space"},
        {"name": "x", "type": "space"},
    ]
    image(folder, shape=(5000, 8, 8), chunks=(1, 8, 8), chunk=None)
    path = folder / "zarr.json"
    document = json.loads(path.read_text())
    multiscale = document["attributes"]["ome"]["multiscales"][0]
    multiscale["axes"] = axes
    steps = [{"type": "scale", "scale": [1, 1, 1]}]
    multiscale["datasets"][0]["coordinateTransformations"] = steps
    path.write_text(json.dumps(document))


def archive(folder, comment=b"", method=zipfile.ZIP_DEFLATED, **more):
    """Pack an image into an archive of that name; `more` goes into it, too."""
    inner = folder.with_name("unpacked")
    image(inner)
    with zipfile.ZipFile(folder, "w", method) as packed:
        for path in sorted(inner.rglob("*")):
            name = str(path.relative_to(inner))
            if path.is_file() and name not in more:
                packed.write(path, name)
        for name, content in more.items():
            packed.writestr(name, content)
        packed.comment = comment
    shutil.rmtree(inner)


@case
def archive_whose_document_inflates(folder):
    archive(folder, **{"0/zarr.json": bytes(1 << 30)})


@case
def archive_whose_chunk_inflates(folder):
    archive(folder, **{"0/c/0/0": bytes(1 << 30)})


@case
def archive_with_a_deep_comment(folder):
    archive(folder, comment=deep(30_000).encode())


@case
def archive_of_a_sparse_directory(folder):
    size = 20 << 30
    end64 = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, size, 0)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, size, 1)
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 1, 1, 2**32 - 1, 2**32 - 1, 0)
    sparse(folder)
    with folder.open("ab") as file:
        file.write(end64 + locator + end)


@case
def archive_of_many_chunks_that_inflate(folder):
    archive(folder, **{f"0/c/0/{n}": bytes(200 << 20) for n in range(8)})


def with_zip64(folder, sizes, method=zipfile.ZIP_DEFLATED):
    """Let the first entry of an archive state its sizes and place by ZIP64."""
    archive(folder, method=method)
    raw = folder.read_bytes()
    at = raw.index(b"PK\1\2")
    name, extra = struct.unpack_from("<HH", raw, at + 28)
    more = struct.pack("<HH", 1, 8 * len(sizes)) + struct.pack(
        f"<{len(sizes)}Q", *sizes
    )
    entry = bytearray(raw[at : at + 46 + name])
    struct.pack_into("<II", entry, 20, 2**32 - 1, 2**32 - 1)
    struct.pack_into("<H", entry, 30, len(more))
    struct.pack_into("<I", entry, 42, 2**32 - 1)
    end = bytearray(raw[raw.rindex(b"PK\5\6") :])
    rest = raw[at + 46 + name + extra : raw.rindex(b"PK\5\6")]
    directory = bytes(entry) + more + rest
    struct.pack_into("<I", end, 12, len(directory))
    folder.write_bytes(raw[:at] + directory + end)


@case
def archive_with_zip64_sizes_of_exabytes(folder):
    with_zip64(folder, (2**63 - 1, 2**63 - 1, 0))


@case
def archive_with_stored_zip64_sizes_of_exabytes(folder):
    with_zip64(folder, (2**63 - 1, 2**63 - 1, 0), zipfile.ZIP_STORED)


@case
def archive_with_a_zip64_place_beyond_its_end(folder):
    with_zip64(folder, (100, 100, 2**64 - 1))


@case
def archive_with_too_few_zip64_numbers(folder):
    with_zip64(folder, (100,))


class Payload:
    """When it is unpickled, it makes a folder beside the image."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


def pickled_array(folder, marker):
    """Write an array of Zarr v2 whose filter unpickles its chunk."""
    folder.mkdir(parents=True)
    document = {
        "zarr_format": 2,
        "shape": [4, 4],
        "chunks": [4, 4],
        "dtype": "|O",
        "compressor": None,
        "filters": [{"id": "pickle", "protocol": 4}],
        "fill_value": None,
        "order": "C",
    }
    (folder / ".zarray").write_text(json.dumps(document))
    (folder / "0.0").write_bytes(pickle.dumps(Payload(marker)))


def group_v2(folder, attributes):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".zgroup").write_text('{"zarr_format": 2}')
    (folder / ".zattrs").write_text(json.dumps(attributes))


@case
def pickled_filter(folder):
    axes = [{"name": n, "type": "space"} for n in "yx"]
    steps = [{"type": "scale", "scale": [1, 1]}]
    datasets = [{"path": "0", "coordinateTransformations": steps}]
    multiscale = {"version": "0.4", "axes": axes, "datasets": datasets}
    group_v2(folder, {"multiscales": [multiscale]})
    pickled_array(folder / "0", folder.with_name("executed"))


@case
def pickled_table(folder):
    pickled_filter(folder)
    group_v2(folder / "tables", {"tables": ["objects"]})
    kind = {"encoding-type": "anndata", "encoding-version": "0.1.0"}
    group_v2(folder / "tables/objects", kind)
    for name in ("X", "obs/area", "obs/_index", "var/_index"):
        pickled_array(folder / "tables/objects" / name, folder.with_name("executed"))
    frame = {"encoding-type": "dataframe", "encoding-version": "0.2.0"}
    for name, columns in (("obs", ["area"]), ("var", [])):
        columns = {"_index": "_index", "column-order": columns}
        group_v2(folder / "tables/objects" / name, frame | columns)
