import gc
import itertools
import json
import pickle
import shutil
import threading
import time
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor

import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.codecs import (
    BloscCodec,
    BytesCodec,
    Crc32cCodec,
    GzipCodec,
    ShardingCodec,
    ZstdCodec,
)
from zarr.storage import MemoryStore

from napari_ngff.errors import (
    ChunkError,
    CorruptDataError,
    NodeNotFoundError,
    UnsupportedError,
)
from napari_ngff.store.arrays import chunked_array as module
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.sources.blob import Blob, Revision, Traits
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.store import Store
from patience import PATIENCE

SHAPE, CHUNKS, SHARDS = (13, 17), (4, 5), (8, 15)
DTYPES = ["bool", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
V2_CODECS = {
    "none": None,
    "blosc": numcodecs.Blosc("zstd", 5, numcodecs.Blosc.SHUFFLE),
    "blosc-lz4-bit": numcodecs.Blosc("lz4", 1, numcodecs.Blosc.BITSHUFFLE),
    "zstd": numcodecs.Zstd(1),
    "gzip": numcodecs.GZip(1),
    "zlib": numcodecs.Zlib(1),
    "lz4": numcodecs.LZ4(),
    "bz2": numcodecs.BZ2(1),
    "lzma": numcodecs.LZMA(),
}
V3_CODECS = {
    "none": (),
    "blosc": (BloscCodec(cname="zstd", clevel=5, shuffle="shuffle"),),
    "blosc-lz4-bit": (BloscCodec(cname="lz4", clevel=1, shuffle="bitshuffle"),),
    "zstd": (ZstdCodec(level=1, checksum=True),),
    "gzip": (GzipCodec(level=1),),
    "crc32c": (Crc32cCodec(),),
    "zstd-crc32c": (ZstdCodec(level=1), Crc32cCodec()),
    "crc32c-gzip": (Crc32cCodec(), GzipCodec(level=1)),
}


class MemoryObjects(Store):
    """What a zarr MemoryStore holds; counts its reads."""

    name = "memory"

    def __init__(self, concurrency=4):
        self.objects = {}
        self.traits = Traits(concurrency)
        self.reads = []

    def read(self, key, start=None, length=None):
        self.reads.append(key)
        found = self.objects.get(key)
        if found is None:
            return None
        data, revision = found.to_bytes(), self.find_revision(key)
        start = start or 0
        start = max(0, start + len(data)) if start < 0 else start
        return Blob(data[start : None if length is None else start + length], revision)

    def find_revision(self, key):
        found = self.objects.get(key)
        return found and Revision(len(found), id(found))

    def put(self, key, data):
        self.objects[key] = zarr.core.buffer.cpu.Buffer.from_bytes(bytes(data))

    def list_names(self, prefix):
        base = f"{prefix}/" if prefix else ""
        below = (k[len(base) :] for k in self.objects if k.startswith(base))
        return tuple(sorted({k.split("/")[0] for k in below}))

    def store(self):
        return MemoryStore(self.objects, read_only=True)


def random_values(dtype, shape=SHAPE, seed=0):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return rng.normal(0, 100, shape).astype(dtype)
    return rng.integers(0, 2 if dtype.kind == "b" else 120, shape).astype(dtype)


def make(data=None, dtype="u2", holes=False, path="a", source=None, **settings):
    """Write an array and open it with us; return both."""
    source = source or MemoryObjects()
    settings = {"shape": SHAPE, "chunks": CHUNKS, "fill_value": 0, **settings}
    array = zarr.create_array(
        MemoryStore(source.objects), name=path, dtype=dtype, **settings
    )
    data = random_values(dtype, settings["shape"]) if data is None else data
    if holes:
        array[4:9, 5:] = data[4:9, 5:]
    else:
        array[...] = data
    return array, open_array(source, path), source


def assert_identical(ours, theirs, native=True):
    """Bit by bit: NaN and -0.0 count."""
    theirs = np.asarray(theirs)
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype.newbyteorder("=")
    assert ours.dtype.isnative
    assert ours.tobytes() == theirs.astype(ours.dtype).tobytes()


def same_everywhere(array, ours):
    assert ours.direct
    assert ours.shape == array.shape
    assert ours.chunks == array.chunks
    assert ours.shards == array.shards
    everything = array[...]
    for box in (
        ((0, 13), (0, 17)),
        ((3, 9), (4, 16)),
        ((12, 13), (16, 17)),
        ((4, 8), (5, 10)),
        ((5, 5), (0, 3)),
    ):
        part = everything[tuple(slice(*bounds) for bounds in box)]
        assert_identical(ours.read(box), part)


@pytest.fixture(autouse=True)
def empty_cache():
    module.cache.clear()
    limit = module.cache.limit
    yield
    module.cache.limit = limit


@pytest.mark.parametrize("codec", V2_CODECS)
@pytest.mark.parametrize(("order", "separator"), [("C", "."), ("F", "/")])
def test_v2_codecs_orders_and_separators(codec, order, separator):
    array, ours, _ = make(
        zarr_format=2,
        compressors=V2_CODECS[codec],
        order=order,
        chunk_key_encoding={"name": "v2", "separator": separator},
        holes=True,
    )
    same_everywhere(array, ours)


@pytest.mark.parametrize("codec", V3_CODECS)
@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize("sharded", ["", "end", "start"])
def test_v3_codecs_byte_orders_and_shards(codec, endian, sharded):
    sharding = {"shards": {"shape": SHARDS, "index_location": sharded}}
    array, ours, _ = make(
        compressors=V3_CODECS[codec],
        serializer=BytesCodec(endian=endian),
        holes=True,
        **(sharding if sharded else {}),
    )
    same_everywhere(array, ours)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["v2 <", "v2 >", "v3", "v3 >", "v3 shards"])
def test_data_types_of_both_byte_orders(dtype, layout):
    zarr_format = 2 if layout.startswith("v2") else 3
    stored = np.dtype(dtype)
    extra = {}
    if layout == "v2 >":
        stored = stored.newbyteorder(">")
    elif layout == "v3 >" and stored.itemsize > 1:
        extra["serializer"] = BytesCodec(endian="big")
    elif layout == "v3 shards":
        extra["shards"] = SHARDS
    array, ours, _ = make(dtype=stored, zarr_format=zarr_format, **extra)
    same_everywhere(array, ours)


@pytest.mark.parametrize("encoding", ["default/", "default.", "v2/", "v2."])
@pytest.mark.parametrize("shape", [(), (7,), (3, 7, 5)])
def test_chunk_keys_of_any_number_of_axes(encoding, shape):
    array, ours, _ = make(
        shape=shape,
        chunks=tuple(min(n, 3) for n in shape),
        chunk_key_encoding={"name": encoding[:-1], "separator": encoding[-1]},
    )
    assert ours.direct
    assert_identical(ours.read(tuple((0, n) for n in shape)), array[...])


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("f4", np.nan),
        ("f2", np.inf),
        ("f8", -np.inf),
        ("f4", -0.0),
        ("f4", 1.5),
        ("u1", 255),
        ("i8", -(2**63)),
        ("u8", 2**64 - 1),
        ("bool", True),
    ],
)
def test_fill_values(zarr_format, dtype, fill):
    array, ours, _ = make(
        dtype=dtype, fill_value=fill, zarr_format=zarr_format, holes=True
    )
    same_everywhere(array, ours)
    assert_identical(np.asarray(ours.fill_value), np.asarray(array.fill_value))


def test_fill_value_null_of_v2_is_zero():
    array, ours, _ = make(zarr_format=2, fill_value=None, holes=True)
    same_everywhere(array, ours)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    ("dtype", "stated", "taken"),
    [
        ("u1", -1, 255),
        ("u2", -1, 65535),
        ("u4", -2, 2**32 - 2),
        ("u8", -1, 2**64 - 1),
        ("u1", 256, 0),
        ("u1", 10**40 + 3, 3),
        ("i2", 40000, -25536),
        ("u2", 65535.5, 0),
        ("i4", "NaN", 0),
        ("u2", "", 0),
        ("f4", "", 0.0),
        ("f8", "none", 0.0),
        ("u2", [0, 1], 0),
        ("u2", {"a": 1}, 0),
    ],
)
def test_a_fill_value_that_the_type_cannot_hold(zarr_format, dtype, stated, taken):
    _, ours, source = make(dtype=dtype, zarr_format=zarr_format, holes=True)
    key = "a/zarr.json" if zarr_format == 3 else "a/.zarray"
    stored = ours.read(tuple((0, n) for n in ours.shape))
    missing = stored == 0
    document = json.loads(source.get(key))
    source.put(key, json.dumps(document | {"fill_value": stated}).encode())
    again = open_array(source, "a")
    assert again.fill_value == taken
    assert [repr(stated) in flaw for flaw in again.layout.flaws] == [True]
    pixels = again.read(tuple((0, n) for n in again.shape))
    assert_identical(pixels[~missing], stored[~missing])
    assert (pixels[missing] == taken).any()


@pytest.mark.parametrize(("stated", "taken"), [("NAN", np.nan), ("-inf", -np.inf)])
def test_other_spellings_of_fill_values(stated, taken):
    _, _, source = make(dtype="f4", holes=True)
    document = json.loads(source.get("a/zarr.json"))
    source.put("a/zarr.json", json.dumps(document | {"fill_value": stated}).encode())
    array = open_array(source, "a")
    assert array.layout.flaws == ()
    np.testing.assert_equal(float(array.fill_value), taken)


def test_fill_value_given_by_its_bits():
    _, _, source = make(dtype="f4", holes=True)
    document = json.loads(source.get("a/zarr.json"))
    source.put(
        "a/zarr.json", json.dumps(document | {"fill_value": "0x7fc00001"}).encode()
    )
    value = open_array(source, "a").read(((0, 1), (0, 1)))
    assert value.tobytes() == b"\x01\x00\xc0\x7f"


@pytest.mark.parametrize(
    ("codec", "configuration"),
    [("numcodecs.zlib", {"level": 1}), ("numcodecs.lz4", {"acceleration": 1})],
)
def test_numcodecs_in_v3(codec, configuration):
    _, ours, source = make(compressors=())
    values = ours[...]
    document = json.loads(source.get("a/zarr.json"))
    document["codecs"].append({"name": codec, "configuration": configuration})
    source.put("a/zarr.json", json.dumps(document).encode())
    encoder = numcodecs.get_codec({"id": codec.partition(".")[2]} | configuration)
    for key in [key for key in source.objects if key.startswith("a/c/")]:
        source.put(key, encoder.encode(source.get(key)))
    again = open_array(source, "a")
    assert again.direct
    assert again.layout.codecs == ("bytes", codec)
    assert_identical(again[...], values)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_any_box(data):
    arrays = any_box_arrays()
    values, ours = data.draw(st.sampled_from(arrays))
    box = []
    for n in ours.shape:
        start = data.draw(st.integers(0, n))
        box.append((start, data.draw(st.integers(start, n))))
    if data.draw(st.booleans()):
        module.cache.clear()
    part = values[tuple(slice(*bounds) for bounds in box)]
    assert_identical(ours.read(box), part)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_box_is_read_into_a_part_of_another_array(order):
    values, ours, _ = make(holes=True)
    out = np.full((20, 20), 7, "u2", order)
    found = ours.read(((2, 12), (3, 16)), out=out[5:15, 1:14])
    assert np.shares_memory(found, out)
    assert_identical(found, values[2:12, 3:16])
    out[5:15, 1:14] = 7
    assert (out == 7).all()


def any_box_arrays(made=[]):  # noqa: B006 - made once
    if not made:
        for extra in (
            {},
            {"shards": (4, 6, 10)},
            {"zarr_format": 2, "order": "F"},
        ):
            values = random_values("i4", (5, 11, 19))
            _, ours, _ = make(
                values, dtype="i4", shape=values.shape, chunks=(2, 3, 5), **extra
            )
            made.append((values, ours))
    return made


def test_indexing_like_numpy():
    _, ours, _ = make()
    values = ours.read(((0, 13), (0, 17)))
    for index in (
        3,
        -1,
        np.int64(2),
        (slice(2, 7), 5),
        (..., -3),
        (slice(None), ...),
        (slice(-4, None), slice(2, -2, 1)),
        (3, 4),
        (..., slice(9, 4)),
        (None, 3),
        (),
    ):
        np.testing.assert_array_equal(ours[index], values[index])
    for index in (13, -14, slice(None, None, 2), (1, 2, 3), [1, 2], (..., ...)):
        with pytest.raises(IndexError):
            ours[index]
    assert isinstance(source_of(ours), Store)
    assert np.asarray(ours).shape == (len(ours), 17)


def source_of(array):
    return array.source


def test_the_result_belongs_to_the_caller():
    _, ours, _ = make(chunks=SHAPE)
    first = ours[...]
    first[...] = 0
    assert ours[...].any()


@pytest.mark.parametrize(
    "extra",
    [
        {"dtype": "c8"},
        {
            "serializer": ShardingCodec(chunk_shape=CHUNKS),
            "compressors": (GzipCodec(level=1),),
        },
        {"zarr_format": 2, "dtype": "c16"},
    ],
    ids=["complex", "compressed shards", "complex v2"],
)
@pytest.mark.filterwarnings("ignore:.*Zarr V3 specification.*")
@pytest.mark.filterwarnings("ignore:Combining")
def test_the_rest_goes_through_zarr(extra):
    array, ours, source = make(**({"data": None} | extra))
    assert not ours.direct
    assert (ours.shape, ours.chunks) == (array.shape, array.chunks)
    assert_identical(ours.read(((3, 12), (2, 16))), array[3:12, 2:16])
    key = next(k for k in source.objects if k.endswith(("/1.1", "/1/1")))
    source.put(key, b"")
    ours.forget_chunks()
    errors = []
    read = ours.read(((0, 13), (0, 17)), errors.append)
    with pytest.raises(ChunkError):
        ours.read(((0, 13), (0, 17)))
    assert [error.key for error in errors] == [key]
    assert (read[4:8, 5:10] == 0).all()
    np.testing.assert_array_equal(read[8:], array[8:])


def test_pickled_arrays_read_the_same(tmp_path):
    for name, extra in ("u2", {}), ("c8", {}):
        array = zarr.create_array(tmp_path / name, shape=(9,), dtype=name, chunks=(4,))
        array[...] = np.arange(9)
        ours = open_array(FolderStore(str(tmp_path)), name)
        again = pickle.loads(pickle.dumps(ours))
        assert_identical(again[...], array[...])
        assert again.direct == ours.direct
        del extra


def test_opening_reads_one_object():
    for zarr_format, expected in (
        (3, ["a/zarr.json"]),
        (2, ["a/zarr.json", "a/.zarray"]),
    ):
        _, _, source = make(zarr_format=zarr_format)
        source.reads.clear()
        open_array(source, "a")
        assert source.reads == expected
        source.reads.clear()
        open_array(source, "a", zarr_format)
        assert source.reads == expected[-1:]


def test_identical_documents_are_parsed_once():
    source = MemoryObjects()
    _, one, _ = make(source=source, path="one")
    _, two, _ = make(source=source, path="two")
    assert one.layout is two.layout


def test_no_array():
    source = MemoryObjects()
    with pytest.raises(NodeNotFoundError, match="memory/nowhere"):
        open_array(source, "nowhere")
    source.put("g/zarr.json", b'{"zarr_format": 3, "node_type": "group"}')
    with pytest.raises(CorruptDataError, match=r"g/zarr.json describes a group"):
        open_array(source, "g")


@pytest.mark.parametrize(
    "edit",
    [
        lambda d: None,
        lambda d: [],
        lambda d: d | {"shape": [-1, 17]},
        lambda d: d | {"shape": "13"},
        lambda d: d | {"zarr_format": 2},
        lambda d: {k: v for k, v in d.items() if k != "codecs"},
        lambda d: d | {"chunk_grid": {"name": "regular"}},
        lambda d: d | {"chunk_grid": 5},
        lambda d: (
            d
            | {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}}}
        ),
        lambda d: (
            d
            | {
                "chunk_grid": {
                    "name": "regular",
                    "configuration": {"chunk_shape": [0, 5]},
                }
            }
        ),
        lambda d: d | {"codecs": [{"configuration": {}}]},
    ],
)
def test_broken_documents(edit):
    _, _, source = make()
    document = json.loads(source.get("a/zarr.json"))
    source.put("a/zarr.json", json.dumps(edit(document)).encode())
    with pytest.raises((CorruptDataError, UnsupportedError), match="memory"):
        open_array(source, "a")
    source.put("a/zarr.json", b"{")
    with pytest.raises(CorruptDataError, match=r"memory/a/zarr.json is not JSON"):
        open_array(source, "a")


def edited(source, **changes):
    document = json.loads(source.get("a/zarr.json"))
    source.put("a/zarr.json", json.dumps(document | changes).encode())
    return open_array(source, "a")


def test_usual_separators():
    for name, separator in ("default", "/"), ("v2", "."):
        encoding = {"name": name, "separator": separator}
        array, _, source = make(chunk_key_encoding=encoding)
        for short in ({"name": name}, name):
            ours = edited(source, chunk_key_encoding=short)
            assert ours.direct
            assert_identical(ours[...], array[...])


def test_storage_transformers_are_not_ignored():
    _, _, source = make()
    with pytest.raises(UnsupportedError, match="storage transformers"):
        edited(source, storage_transformers=[{"name": "scramble"}])


def test_unknown_codec_is_named():
    _, _, source = make()
    document = json.loads(source.get("a/zarr.json"))
    document["codecs"].append({"name": "jetzip"})
    source.put("a/zarr.json", json.dumps(document).encode())
    with pytest.raises(UnsupportedError, match=r"a in memory.*jetzip"):
        open_array(source, "a")


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"codecs": ["bytes", "jetzip"]}, "Write it again in common types and codecs"),
        (
            {"codecs": ["imagecodecs_jpegxl"]},
            r"Run: pip install imagecodecs-numcodecs \(for Zarr v3 imagecodecs-zarr,",
        ),
        ({"codecs": ["cast_value", "bytes"]}, "Run: pip install 'zarr>=3.2' cast"),
        (
            {"chunk_grid": {"name": "rectilinear", "configuration": {}}},
            "Run: pip install 'zarr>=3.2', for",
        ),
        ({"codecs": ["zfpy"]}, r"Run: pip install 'numcodecs\[zfpy\]'"),
        ({"codecs": ["scale_offset", "bytes"]}, "Run: pip install 'zarr>=3.2', for"),
        ({"data_type": "bfloat16"}, "Write it again in common types"),
    ],
    ids=str,
)
def test_what_zarr_does_not_read_is_named_with_what_to_do(changes, remedy):
    _, _, source = make()
    with pytest.raises(
        UnsupportedError, match=f"which zarr .* does not read.*{remedy}"
    ):
        edited(source, **changes)


def test_shards_of_other_axes_are_not_called_damaged(tmp_path):
    """As tensorstore writes them; zarr-python does not read them."""
    _, _, source = make()
    inner = {"chunk_shape": [5, 2], "codecs": ["bytes"], "index_codecs": ["bytes"]}
    codecs = [
        {"name": "transpose", "configuration": {"order": [1, 0]}},
        {"name": "sharding_indexed", "configuration": inner},
    ]
    with pytest.raises(UnsupportedError, match=r"codecs: transpose, sharding_indexed"):
        edited(source, codecs=codecs)


DAMAGED = [
    *itertools.product(["v2"], sorted(V2_CODECS)),
    *itertools.product(["v3", "shards"], sorted(V3_CODECS)),
]


@pytest.mark.parametrize(("layout", "codec"), DAMAGED)
def test_truncated_chunks_are_reported_and_the_rest_is_read(layout, codec):
    codecs = V2_CODECS if layout == "v2" else V3_CODECS
    extra = {"v2": {"zarr_format": 2}, "v3": {}, "shards": {"shards": SHARDS}}[layout]
    if layout == "v2":
        extra["chunk_key_encoding"] = {"name": "v2", "separator": "/"}
    array, ours, source = make(compressors=codecs[codec], fill_value=7, **extra)
    values = array[...]
    key = "a/1/1" if layout == "v2" else "a/c/1/1"
    cut = (8, 13, 15, 17) if layout == "shards" else (4, 8, 5, 10)
    whole = source.get(key)
    for length in (0, 1, len(whole) // 2, len(whole) - 1):
        source.put(key, whole[:length])
        ours.forget_chunks()
        errors = []
        read = ours.read(((0, 13), (0, 17)), errors.append)
        assert [error.key for error in errors] == [key]
        assert errors[0].source_name == "memory"
        assert f"memory/{key}" in str(errors[0])
        expected = values.copy()
        expected[cut[0] : cut[1], cut[2] : cut[3]] = 7
        np.testing.assert_array_equal(read, expected)
        with pytest.raises(ChunkError, match=key):
            ours.read(((0, 13), (0, 17)))


@given(at=st.integers(0, 10**6), value=st.integers(1, 255), data=st.data())
@settings(max_examples=150, deadline=None)
def test_flipped_bytes_never_crash(at, value, data):
    """Without a checksum the values may be wrong; nothing worse may happen."""
    codec = data.draw(st.sampled_from(sorted(V3_CODECS)))
    shards = data.draw(st.sampled_from([None, SHARDS]))
    _, ours, source = make(compressors=V3_CODECS[codec], shards=shards)
    whole = bytearray(source.get("a/c/0/0"))
    whole[at % len(whole)] ^= value
    source.put("a/c/0/0", whole)
    errors = []
    read = ours.read(((0, 13), (0, 17)), errors.append)
    assert read.shape == SHAPE
    assert {error.key for error in errors} <= {"a/c/0/0"}
    if codec == "zstd-crc32c":
        assert errors


@pytest.mark.parametrize("location", ["start", "end"])
def test_flipped_bytes_in_a_shard_index_are_noticed(location):
    sharding = {"shape": SHARDS, "index_location": location}
    array, ours, source = make(shards=sharding)
    whole = source.get("a/c/0/0")
    index = 16 * 6 + 4
    for at in (0, 8, 17, index - 1):
        broken = bytearray(whole)
        broken[at if location == "start" else len(whole) - index + at] ^= 0x40
        source.put("a/c/0/0", broken)
        ours.forget_chunks()
        errors = []
        read = ours.read(((0, 13), (0, 17)), errors.append)
        assert [error.key for error in errors] == ["a/c/0/0"]
        assert "CRC-32C" in str(errors[0])
        assert not read[:8, :15].any()
        np.testing.assert_array_equal(read[8:], array[8:])


def test_shard_index_without_checksum_may_point_anywhere():
    _, _, source = make(shards=SHARDS)
    document = json.loads(source.get("a/zarr.json"))
    document["codecs"][0]["configuration"]["index_codecs"].pop()
    source.put("a/zarr.json", json.dumps(document).encode())
    for key in [key for key in source.objects if "/c/" in key]:
        source.put(key, source.get(key)[:-4])
    whole = source.get("a/c/0/0")
    read_part = source.read

    def sober(key, start=None, length=None):
        assert length is None or length < 2**20
        return read_part(key, start, length)

    source.read = sober
    for offset, length in ((2**63, 10), (0, 2**62), (10**6, 10), (0, 0), (3, 7)):
        numbers = np.array([offset, length], "<u8").tobytes()
        source.put("a/c/0/0", whole[:-96] + numbers + whole[-80:])
        errors = []
        read = open_array(source, "a").read(((0, 13), (0, 17)), errors.append)
        assert [error.key for error in errors] == ["a/c/0/0"]
        assert not read[:4, :5].any()
        assert read[4:8].any()
    numbers = np.array([10**6, 10], "<u8").tobytes()
    source.put("a/c/0/0", whole[:-96] + numbers + whole[-80:])
    with pytest.raises(ChunkError, match="the shard ends before"):
        open_array(source, "a")[...]
    source.put("a/c/0/0", whole[-50:])
    with pytest.raises(ChunkError, match=r"a/c/0/0.* index"):
        open_array(source, "a")[...]


@pytest.mark.default_cases("zlib", "zstd", "blosc", "lz4")
@pytest.mark.parametrize(
    "codec", ["gzip", "zlib", "bz2", "lzma", "zstd", "blosc", "lz4"]
)
def test_bombs_are_refused_before_they_go_off(codec):
    _, ours, source = make(zarr_format=2, compressors=V2_CODECS[codec])
    bomb = bytes(V2_CODECS[codec].encode(np.zeros(64 * 2**20, "u1")))
    assert len(bomb) < 2**20
    source.put("a/0.0", bomb)
    gc.collect()
    tracemalloc.start()
    try:
        with pytest.raises(ChunkError, match=r"a/0\.0"):
            ours.read(((0, 1), (0, 1)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**24


@pytest.mark.parametrize("codec", sorted(V2_CODECS))
@pytest.mark.parametrize("count", [19, 21])
def test_chunks_of_another_size_are_refused(codec, count):
    _, ours, source = make(zarr_format=2, compressors=V2_CODECS[codec])
    values = np.full(count, 5, "u2")
    encoder = V2_CODECS[codec]
    source.put("a/0.0", encoder.encode(values) if encoder else values.tobytes())
    with pytest.raises(ChunkError, match="belong"):
        ours[...]


def test_zstd_frames_without_a_declared_size():
    array, ours, source = make(compressors=(ZstdCodec(level=1),))
    values = array[...]
    for key in [key for key in source.objects if "/c/" in key]:
        source.put(key, undeclared(source.get(key)))
    assert_identical(ours[...], values)
    whole = undeclared(numcodecs.Zstd(1).encode(np.zeros(1000, "u2")))
    source.put("a/c/0/0", whole)
    ours.forget_chunks()
    with pytest.raises(ChunkError):
        ours[...]


def undeclared(frame):
    """Rewrite the header of a frame: a window instead of the content's size."""
    descriptor = frame[4]
    assert descriptor & 0x20
    width = {0: 1, 1: 2, 2: 4, 3: 8}[descriptor >> 6]
    return frame[:4] + bytes([descriptor & 0x1F & ~0x20, 0x20]) + frame[5 + width :]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_array_deleted_while_open(tmp_path, zarr_format):
    array = zarr.create_array(
        tmp_path / "a",
        shape=SHAPE,
        chunks=CHUNKS,
        dtype="u2",
        zarr_format=zarr_format,
        fill_value=3,
    )
    array[:4] = 5
    ours = open_array(FolderStore(str(tmp_path)), "a")
    assert set(np.unique(ours[...])) == {3, 5}
    shutil.rmtree(tmp_path / "a")
    with pytest.raises(ChunkError, match="gone"):
        ours.read(((5, 13), (0, 17)))
    errors = []
    assert (ours.read(((5, 13), (0, 17)), errors.append) == 3).all()
    assert len(errors) == 1


def test_unreadable_chunk_is_an_error_of_that_chunk():
    _, ours, source = make()
    read = source.read

    def refuse(key, start=None, length=None):
        if key == "a/c/1/1":
            raise PermissionError("not yours")
        return read(key, start, length)

    source.read = refuse
    errors = []
    ours.read(((0, 13), (0, 17)), errors.append)
    assert [error.key for error in errors] == ["a/c/1/1"]
    with pytest.raises(ChunkError, match="not yours") as caught:
        ours.read(((0, 13), (0, 17)))
    assert isinstance(caught.value.__cause__, PermissionError)


@pytest.mark.parametrize("separator", [".", "/"])
def test_undeclared_separator_is_found_out(separator):
    array, _, source = make(
        zarr_format=2,
        holes=True,
        chunk_key_encoding={"name": "v2", "separator": separator},
    )
    document = json.loads(source.get("a/.zarray"))
    del document["dimension_separator"]
    values = array[...]
    source.put("a/.zarray", json.dumps(document).encode())
    ours = open_array(source, "a")
    assert_identical(ours[...], values)
    source.reads.clear()
    ours.forget_chunks()
    ours.read(((4, 8), (5, 10)))
    assert source.reads == [f"a/1{separator}1"]


def test_decoded_chunks_are_kept_until_refresh():
    _, ours, source = make()
    ours[...]
    source.reads.clear()
    ours[2:9, 3:12]
    assert source.reads == []
    source.put("a/c/0/0", source.get("a/c/1/1"))
    assert (ours[:4, :5] != ours[4:8, 5:10]).any()
    ours.forget_chunks()
    assert (ours[:4, :5] == ours[4:8, 5:10]).all()


def test_two_arrays_at_one_path_share_nothing():
    first, second = MemoryObjects(), MemoryObjects()
    _, one, _ = make(source=first)
    one[...]
    _, two, _ = make(np.full(SHAPE, 9, "u2"), source=second)
    assert (two[...] == 9).all()
    again = open_array(second, "a")
    assert (again[...] == 9).all()


def test_cached_chunks_cannot_be_written():
    _, ours, _ = make(chunks=SHAPE)
    ours[...]
    values = [value for value, _ in module.cache._items.values()]
    assert values
    assert not any(value.flags.writeable for value in values)


def test_a_read_larger_than_the_cache_leaves_it_alone():
    _, small, _ = make()
    small[...]
    held = module.cache.nbytes
    module.cache.limit = 2 * held
    _, large, source = make(shape=(64, 64), chunks=(8, 8))
    large[...]
    assert module.cache.nbytes == held
    module.cache.limit = 0
    assert module.cache.nbytes == 0
    source.reads.clear()
    large[:8, :8]
    assert source.reads == ["a/c/0/0"]


def test_many_threads_get_the_same_answer():
    _, ours, _ = make(shape=(64, 64), chunks=(8, 8), shards=(32, 32))
    values = ours[...]
    module.cache.limit = 2000
    rng = np.random.default_rng(0)
    starts = rng.integers(0, 40, (200, 2))

    def check(start):
        y, x = start.tolist()
        part = ours.read(((y, y + 20), (x, x + 20)))
        return (part == values[y : y + 20, x : x + 20]).all()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(check, starts))


def test_reading_inside_reading_threads_does_not_hang():
    """Sources that read arrays themselves, in more threads than the pool has."""
    _, inner, _ = make(shape=(64, 64), chunks=(8, 8), source=MemoryObjects(2))
    module.cache.limit = 0
    array, outer, source = make(shape=(32, 32), chunks=(8, 8), source=MemoryObjects(2))
    values = array[...]
    read = source.read

    def nested(key, start=None, length=None):
        time.sleep(0.002)
        inner[...]
        return read(key, start, length)

    source.read = nested
    done = []
    threads = [
        threading.Thread(target=lambda: done.append(outer[...]), daemon=True)
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(done) == len(threads)
    for read in done:
        assert_identical(read, values)


def test_an_unexpected_error_stops_every_thread():
    _, ours, source = make(shape=(64, 64), chunks=(2, 2))
    source.reads.clear()

    def fail(key, start=None, length=None):
        source.reads.append(key)
        if key == "a/c/0/3":
            raise ZeroDivisionError
        time.sleep(0.001)

    source.read = fail
    with pytest.raises(ZeroDivisionError):
        ours[...]
    assert len(source.reads) < 500  # of 1024


def test_one_broken_chunk_is_enough_without_on_error():
    _, ours, source = make(shape=(64, 64), chunks=(2, 2))
    source.put("a/c/0/1", b"")
    source.reads.clear()
    with pytest.raises(ChunkError):
        ours[...]
    assert len(source.reads) < 500  # of 1024


def test_remote_sources_are_read_many_at_once():
    _, ours, source = make(shape=(32, 32), chunks=(8, 8), source=MemoryObjects(16))
    read = source.read
    everybody = threading.Barrier(16, timeout=PATIENCE)

    def slow(key, start=None, length=None):
        everybody.wait()
        return read(key, start, length)

    source.read = slow
    assert ours[...].shape == (32, 32)


@pytest.mark.parametrize("name", ["zstandard"])
def test_names_of_older_examples(name):
    array, _, source = make(compressors=(ZstdCodec(level=1),))
    values = array[...]
    text = source.get("a/zarr.json").decode().replace('"zstd"', f'"{name}"')
    source.put("a/zarr.json", text.encode())
    ours = open_array(source, "a")
    assert ours.direct
    assert_identical(ours[...], values)


def test_dimension_names():
    _, ours, _ = make(dimension_names=("y", None))
    assert ours.layout.dimension_names == ("y", None)
    _, ours, _ = make()
    assert ours.layout.dimension_names is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "memory/a" in repr(ours)


@pytest.mark.parametrize(
    "extra",
    [{}, {"shards": SHARDS}, {"dtype": "c8"}],
    ids=["chunks", "shards", "by zarr"],
)
def test_what_could_not_be_read_is_known_until_it_is_read(extra):
    _, ours, source = make(**extra)
    key = "a/c/1/1"
    whole = source.get(key)
    source.put(key, whole[: len(whole) // 2])
    ours.read(((0, 13), (0, 17)), lambda error: None)
    assert ours.has_failed
    inside, beside = ((7, 9), (5, 16)), ((0, 4), (0, 5))
    assert [error.key for error in ours.failed_parts(inside).values()] == [key]
    assert not ours.failed_parts(beside)
    # No frames of who read it are kept, and with them their layers and windows.
    (error,) = ours.failed_parts(inside).values()
    assert error.__traceback__ is None
    assert getattr(error.__cause__, "__traceback__", None) is None
    source.put(key, whole)
    ours.read(beside, lambda error: None)
    assert ours.has_failed, "another part was read"
    ours.read(((0, 13), (0, 17)), lambda error: None)
    assert not ours.has_failed
    assert not ours.failed_parts(inside)
