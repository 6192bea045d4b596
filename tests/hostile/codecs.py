"""Arrays of 64 x 64 whose one chunk becomes huge, by each codec in each position."""

from __future__ import annotations

import functools
import json
import struct
import zipfile

import numcodecs
import numpy as np

from hostile.cases import group, group_v2, image

SIZE = 400 << 20
"""Bytes that a chunk holds; 8 kB belong there."""

SHAPE = 64, 64
COMPRESSORS = {
    "zlib": {"level": 1},
    "gzip": {"level": 1},
    "bz2": {"level": 1},
    "lzma": {"format": 1, "preset": 0},
    "zstd": {"level": 1},
    "lz4": {"acceleration": 1},
    "blosc": {"cname": "zstd", "clevel": 1, "shuffle": 0, "blocksize": 0},
}
OTHERS = {
    "shuffle": {"elementsize": 1},
    "crc32": {},
    "crc32c": {},
    "adler32": {},
    "fletcher32": {},
    "jenkins_lookup3": {},
    "base64": {},
    "delta": {"dtype": "|u1"},
    "astype": {"encode_dtype": "|u1", "decode_dtype": "<f8"},
    "fixedscaleoffset": {"offset": 0, "scale": 1, "dtype": "<f8", "astype": "|u1"},
    "quantize": {"digits": 1, "dtype": "<f8", "astype": "<f2"},
    "bitround": {"keepbits": 5},
    "packbits": {},
}
CHECKSUMS = "crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"
OF_ZARR = {
    "gzip": {"level": 1},
    "zstd": {"level": 1, "checksum": False},
    "blosc": {
        "cname": "zstd",
        "clevel": 1,
        "shuffle": "noshuffle",
        "blocksize": 0,
        "typesize": 1,
    },
    "crc32c": {},
}
"""Codecs of Zarr v3 that have names of their own."""

NUMBERS = "delta", "astype", "fixedscaleoffset", "quantize", "bitround", "packbits"
OUTER = "zstd", "blosc"
"""Compressors behind which each codec is tried."""

QUICK = "zstd", "packbits"
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}


def endless(size=3 << 30):
    """Make a frame of zstd that states no size: 34 bytes, once compressed again."""
    block = struct.pack("<I", 131072 << 3 | 2)[:3] + b"\0"
    last = struct.pack("<I", 131072 << 3 | 3)[:3] + b"\0"
    return b"\x28\xb5\x2f\xfd\x00\x68" + block * (size // 131072 - 1) + last


def encode(name, data):
    settings = COMPRESSORS.get(name, OTHERS.get(name))
    return bytes(numcodecs.get_codec({"id": name, **settings}).encode(data))


@functools.cache
def bomb(name):
    """Compress zeros; what does not compress gets more bytes than belong there."""
    if name == "zstd":
        return endless()
    size = SIZE if name in COMPRESSORS else 1 << 20
    if name in COMPRESSORS or name in ("base64", "crc32", "shuffle"):
        return encode(name, np.zeros(size, "u1"))
    return bytes(4 * size)


@functools.cache
def chain_bomb(inner, outer):
    return bomb(inner) if outer is None else encode(outer, bomb(inner))


def v2_document(codecs, **changes):
    settings = [
        {"id": name, **COMPRESSORS.get(name, OTHERS.get(name))} for name in codecs
    ]
    last = settings.pop() if len(settings) > 1 else None
    return {
        "zarr_format": 2,
        "shape": SHAPE,
        "chunks": SHAPE,
        "dtype": "<u2",
        "compressor": last,
        "filters": settings,
        "fill_value": 0,
        "order": "C",
        "dimension_separator": "/",
        **changes,
    }


def v3_codecs(*names, first=()):
    """List codecs as Zarr v3 wants it: those of numbers, "bytes", those of bytes."""
    listed = [
        {
            "name": f"numcodecs.{name}",
            "configuration": COMPRESSORS.get(name, OTHERS.get(name)),
        }
        for name in names
    ]
    numbers = [one for one, name in zip(listed, names, strict=True) if name in NUMBERS]
    rest = [one for one in listed if one not in numbers]
    return [*first, *numbers, LITTLE, *rest]


def v3_own_codecs(*names):
    """List codecs by the names of Zarr v3."""
    return [LITTLE, *({"name": n, "configuration": OF_ZARR[n]} for n in names)]


def shard(codecs, index=(LITTLE,)):
    configuration = {
        "chunk_shape": SHAPE,
        "codecs": [*codecs],
        "index_codecs": [*index],
    }
    return {"name": "sharding_indexed", "configuration": configuration}


def indexed(chunk):
    """Put a chunk into a shard of one."""
    return chunk + struct.pack("<QQ", 0, len(chunk))


TRANSPOSE = {"name": "transpose", "configuration": {"order": [1, 0]}}

OWN_POSITIONS = {
    "own chain": lambda names, raw: (v3_own_codecs(*names), raw),
    "own in a shard": lambda names, raw: ([shard(v3_own_codecs(*names))], indexed(raw)),
}
"""The same by the names of Zarr v3."""

V3_POSITIONS = {
    "chain": lambda names, raw: (v3_codecs(*names), raw),
    "transposed": lambda names, raw: (v3_codecs(*names, first=[TRANSPOSE]), raw),
    "in a shard": lambda names, raw: ([shard(v3_codecs(*names))], indexed(raw)),
}
BY_ZARR = {
    "after a shard": lambda names, raw: (
        [shard([LITTLE]), *v3_codecs(*names)[1:]],
        raw,
    ),
    "in nested shards": lambda names, raw: (
        [shard([shard(v3_codecs(*names))])],
        indexed(indexed(raw)),
    ),
    "index": lambda names, raw: (
        [shard([LITTLE], v3_codecs(*names))],
        bytes(8192) + raw,
    ),
}
"""Positions in which zarr-python decodes, in another process: a second each."""


def write_v3(folder, codecs, stored):
    image(folder, chunk=None, codecs=codecs, data_type="uint16")
    (folder / "0/c/0").mkdir(parents=True)
    (folder / "0/c/0/0").write_bytes(stored)


def write_v2(folder, document, stored):
    axes = [{"name": n, "type": "space"} for n in "yx"]
    steps = [{"type": "scale", "scale": [1, 1]}]
    datasets = [{"path": "0", "coordinateTransformations": steps}]
    multiscale = {"version": "0.4", "axes": axes, "datasets": datasets}
    group_v2(folder, {"multiscales": [multiscale]})
    write_array_v2(folder / "0", document, stored)


def write_array_v2(folder, document, stored):
    (folder / "0").mkdir(parents=True)
    (folder / ".zarray").write_text(json.dumps(document))
    (folder / "0/0").write_bytes(stored)


def write_table(folder, document, stored):
    """Write an image with a table of AnnData whose numbers are the array."""
    image(folder)
    group(folder / "tables", {})
    tables = folder / "tables"
    attributes = {"tables": ["objects"]}
    text = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    (tables / "zarr.json").write_text(json.dumps(text))
    kind = {"encoding-type": "anndata", "encoding-version": "0.1.0"}
    group_v2(tables / "objects", kind)
    (tables / "objects/.zattrs").write_text(json.dumps(kind))
    write_array_v2(tables / "objects/X", document, stored)


def pairs(names):
    """List each codec alone, each behind some compressors, and sums behind these."""
    return [(name,) for name in names] + [
        (inner, outer)
        for inner in names
        for outer in names
        if outer in OUTER
        or (inner in COMPRESSORS and outer in (*CHECKSUMS, "base64", "shuffle"))
    ]


def pack(unpacked, place):
    """Put an image into an archive, which inflates its entries."""
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(unpacked.rglob("*")):
            if path.is_file():
                packed.write(path, str(path.relative_to(unpacked)))


def write_all(folder, names, by_zarr, alone=()):
    """Write an image for each codec and pair of codecs in each position.

    `by_zarr` are those that stand where zarr-python decodes, in pairs as well;
    `alone` stand there alone.
    """
    places = []

    def new_place(*words):
        name = "-".join(words).replace(" ", "-")
        places.append(folder / f"{len(places)}-{name}.ome.zarr")
        return places[-1]

    for chain in pairs(names):
        stored = chain_bomb(*chain, *[None] * (2 - len(chain)))
        first = new_place("v2", *chain)
        write_v2(first, v2_document(chain), stored)
        is_by_zarr = chain[0] in by_zarr or (len(chain) == 1 and chain[0] in alone)
        positions = V3_POSITIONS | (BY_ZARR if is_by_zarr else {})
        positions |= OWN_POSITIONS if OF_ZARR.keys() >= {*chain} else {}
        if "base64" not in chain:  # zarr-python has it in Zarr v2 alone
            for position, make in positions.items():
                write_v3(new_place(position, *chain), *make(chain, stored))
        for unpacked in {first, places[-1]}:
            places.append(folder / f"packed-{unpacked.name}.ozx")
            pack(unpacked, places[-1])
        if is_by_zarr:
            write_table(new_place("table", *chain), v2_document(chain), stored)
    for name in set(names) & COMPRESSORS.keys():
        document = v2_document((name,))
        document |= {"compressor": document["filters"][0], "filters": None}
        write_v2(new_place("v2 compressor", name), document, bomb(name))
        if name in by_zarr:
            write_table(new_place("table compressor", name), document, bomb(name))
    return places
