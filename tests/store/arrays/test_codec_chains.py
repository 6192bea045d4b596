"""Chains of codecs, as zarr-python writes and reads them."""

import json
import tracemalloc

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
    TransposeCodec,
    ZstdCodec,
)

from napari_ngff.errors import ChunkError, CorruptDataError
from napari_ngff.store.arrays.array_writer import ArrayWriter
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.sources.folder_store import FolderStore, FolderTransaction

SHAPE, CHUNKS, SHARDS = (7, 11, 9), (3, 4, 5), (6, 8, 10)

# Each keeps the values below.
FILTERS = {
    "delta": lambda dtype: numcodecs.Delta(dtype),
    "offset": lambda dtype: numcodecs.FixedScaleOffset(0, 0.5, dtype, "<u4"),
    "astype": lambda dtype: numcodecs.AsType("<i4", dtype),
    "shuffle": lambda dtype: numcodecs.Shuffle(np.dtype(dtype).itemsize),
    "crc32": lambda dtype: numcodecs.CRC32(),
    "crc32c": lambda dtype: numcodecs.CRC32C(),
    "crc32c at start": lambda dtype: numcodecs.CRC32C("start"),
    "adler32": lambda dtype: numcodecs.Adler32(),
    "fletcher32": lambda dtype: numcodecs.Fletcher32(),
    "jenkins": lambda dtype: numcodecs.JenkinsLookup3(),
    "base64": lambda dtype: numcodecs.Base64(),
    "bits": lambda dtype: numcodecs.BitRound(10),
    "quantize": lambda dtype: numcodecs.Quantize(3, dtype),
}
AS_NUMBERS = ("delta", "offset", "astype", "bits", "quantize", "shuffle")
"""Only as the first of a chain: they take nothing but numbers."""

OF_FLOATS = ("bits", "quantize")
COMPRESSORS = {
    "zlib": numcodecs.Zlib(1),
    "gzip": numcodecs.GZip(1),
    "bz2": numcodecs.BZ2(1),
    "lzma": numcodecs.LZMA(preset=0),
    "zstd": numcodecs.Zstd(1),
    "lz4": numcodecs.LZ4(),
    "blosc": numcodecs.Blosc("lz4", 1, numcodecs.Blosc.SHUFFLE),
}
BEHIND = {**COMPRESSORS, **{n: None for n in FILTERS if n not in AS_NUMBERS}}
V3_CODECS = {
    "gzip": GzipCodec(level=1),
    "zstd": ZstdCodec(level=1),
    "blosc": BloscCodec(cname="lz4", typesize=2),
    "crc32c": Crc32cCodec(),
}
DTYPES = ("<u1", "<u2", ">u2", "<i4", "<f4", ">f8")


def values_of(dtype):
    values = np.random.default_rng(0).integers(0, 50, SHAPE) * 2
    return values.astype(dtype)


def assert_same(where, name, values):
    """Check whole and partial reads against zarr-python's, of stored bytes anew."""
    theirs = zarr.open_array(where / name, mode="r")
    ours = open_array(FolderStore(str(where)), name)
    assert ours.direct
    assert (ours.shape, ours.chunks) == (theirs.shape, theirs.chunks)
    assert (np.asarray(theirs[...]) == values).all()
    assert (ours[...] == values).all()
    assert (ours[2:6, 3:, 4:6] == values[2:6, 3:, 4:6]).all()
    return ours


def write_and_compare(where, array, values, holes):
    """Write by zarr-python; read it, change it by us, and read that by both."""
    expected = np.full(SHAPE, array.fill_value, values.dtype)
    part = np.s_[3:6, 4:] if holes else np.s_[...]
    expected[part] = values[part]
    array[part] = values[part]
    ours = assert_same(where, "a", expected)
    writer = ArrayWriter(ours, FolderTransaction(str(where)))

    def change(box, block):
        block[1:, ::2] = 4
        expected[tuple(slice(*span) for span in box)][1:, ::2] = 4
        return True

    for cell in (1, 1, 1), (2, 2, 1):
        assert writer.update_cells(writer.unit_of(cell), {cell}, change)
    writer.transaction.commit()
    assert_same(where, "a", expected)


@st.composite
def v2_chain(draw, dtype, order):
    # numcodecs rounds bits in the order and byte order of this computer only.
    unfit = {"<f4": (), ">f8": ("bits",)}.get(dtype, OF_FLOATS)
    unfit += ("bits",) if order == "F" else ()
    first = [n for n in AS_NUMBERS if n not in unfit]
    names = draw(st.lists(st.sampled_from(first), max_size=1))
    names += draw(st.lists(st.sampled_from(sorted(BEHIND)), max_size=3))
    codecs = [COMPRESSORS.get(n) or FILTERS[n](dtype) for n in names]
    compressor = draw(st.sampled_from([None, *COMPRESSORS.values()]))
    return codecs or None, compressor


@given(st.data())
@settings(max_examples=60, deadline=None)
@pytest.mark.filterwarnings("ignore")
def test_filters_and_compressors_of_v2(tmp_path_factory, data):
    where = tmp_path_factory.mktemp("v2")
    dtype = data.draw(st.sampled_from(DTYPES))
    order = data.draw(st.sampled_from("CF"))
    filters, compressor = data.draw(v2_chain(dtype, order))
    array = zarr.create_array(
        where / "a",
        shape=SHAPE,
        chunks=CHUNKS,
        dtype=dtype,
        zarr_format=2,
        filters=filters,
        compressors=compressor,
        order=order,
        fill_value=data.draw(st.sampled_from([0, 6])),
        config={"write_empty_chunks": True},
    )
    write_and_compare(where, array, values_of(dtype), data.draw(st.booleans()))


@st.composite
def v3_chain(draw):
    orders = draw(st.lists(st.permutations(range(3)), max_size=2))
    names = draw(st.lists(st.sampled_from(sorted(V3_CODECS)), max_size=3))
    endian = draw(st.sampled_from(["little", "big"]))
    return (
        [TransposeCodec(order=order) for order in orders],
        BytesCodec(endian=endian),
        [V3_CODECS[name] for name in names],
    )


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_transposed_and_compressed_chunks_of_v3(tmp_path_factory, data):
    where = tmp_path_factory.mktemp("v3")
    dtype = data.draw(st.sampled_from(["u1", "u2", "i4", "f4", "f8"]))
    filters, serializer, compressors = data.draw(v3_chain())
    location = data.draw(st.sampled_from([None, "start", "end"]))
    array = zarr.create_array(
        where / "a",
        shape=SHAPE,
        chunks=CHUNKS,
        shards=location and {"shape": SHARDS, "index_location": location},
        dtype=dtype,
        filters=filters,
        serializer=serializer,
        compressors=compressors,
        fill_value=data.draw(st.sampled_from([0, 6])),
    )
    write_and_compare(where, array, values_of(dtype), data.draw(st.booleans()))


def edited(folder, stored, **changes):
    """Change the document of an array, and the bytes of its first chunk."""
    name = ".zarray" if (folder / ".zarray").exists() else "zarr.json"
    document = json.loads((folder / name).read_text()) | changes
    (folder / name).write_text(json.dumps(document))
    (folder / ("0.0" if name == ".zarray" else "c/0/0")).write_bytes(stored)
    return open_array(FolderStore(str(folder.parent)), folder.name)


def plain_array(folder, zarr_format=2, dtype="u1"):
    array = zarr.create_array(
        folder,
        shape=(8, 8),
        chunks=(8, 8),
        dtype=dtype,
        zarr_format=zarr_format,
        compressors=None,
        filters=None,
    )
    array[...] = 1
    return folder


@pytest.fixture(scope="module")
def bombs():
    zeros = np.zeros(64 * 2**20, "u1")
    return {name: bytes(codec.encode(zeros)) for name, codec in COMPRESSORS.items()}


def numcodecs_of_v3(codec):
    settings = dict(codec.get_config())
    return {"name": f"numcodecs.{settings.pop('id')}", "configuration": settings}


OUTER = [None, *COMPRESSORS, "shuffle", "crc32"]


@pytest.mark.parametrize(
    ("zarr_format", "outer"),
    [(2, "base64"), *((number, name) for number in (2, 3) for name in OUTER)],
)
def test_bombs_in_chains_are_refused_before_they_go_off(
    tmp_path, bombs, zarr_format, outer
):
    folder = plain_array(tmp_path / "a", zarr_format)
    behind = COMPRESSORS.get(outer) or (outer and FILTERS[outer]("u1"))
    for name, bomb in bombs.items():
        chain = [COMPRESSORS[name], *([behind] if behind else [])]
        stored = bytes(behind.encode(bomb)) if behind else bomb
        if zarr_format == 2:
            filters = [codec.get_config() for codec in chain]
            ours = edited(folder, stored, filters=filters)
        else:
            codecs = [{"name": "bytes"}, *map(numcodecs_of_v3, chain)]
            ours = edited(folder, stored, codecs=codecs)
        assert ours.direct
        tracemalloc.start()
        try:
            with pytest.raises(ChunkError, match=r"belong|Zstd"):
                ours[...]
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 2**24, name


def test_bits_are_unpacked_into_no_more_than_belong_there(tmp_path):
    folder = plain_array(tmp_path / "a", dtype="bool")
    values = np.random.default_rng(0).random((8, 8)) < 0.5
    filters = [numcodecs.PackBits().get_config()]
    packed = bytes(numcodecs.PackBits().encode(values))
    ours = edited(folder, packed, filters=filters)
    assert ours.direct
    assert (ours[...] == values).all()
    assert (zarr.open_array(folder, mode="r")[...] == values).all()
    for stored in packed + b"\0", packed[:-1], b"", b"\7" + packed[1:]:
        with pytest.raises(ChunkError):
            edited(folder, stored, filters=filters)[...]


@pytest.mark.default_cases("gzip")
@pytest.mark.parametrize("codec", ["zlib", "gzip", "bz2", "lzma"])
def test_very_many_empty_streams_end_in_a_message(tmp_path, codec):
    folder = plain_array(tmp_path / "a")
    empty = bytes(COMPRESSORS[codec].encode(b""))
    stored = empty * (2**24 // len(empty))
    ours = edited(folder, stored, compressor=COMPRESSORS[codec].get_config())
    with pytest.raises(ChunkError, match="streams"):
        ours[...]


@pytest.mark.parametrize(
    ("word", "order"), [("C", (0, 1)), ("F", (1, 0)), ([1, 0], (1, 0))]
)
def test_words_of_early_drafts_for_the_order_of_axes(tmp_path, word, order):
    folder = plain_array(tmp_path / "a", 3)
    values = np.arange(64, dtype="u1").reshape(8, 8)
    codecs = [{"name": "transpose", "configuration": {"order": word}}, "bytes"]
    stored = values.transpose(order).tobytes()
    assert (edited(folder, stored, codecs=codecs)[...] == values).all()


@pytest.mark.parametrize("order", [[0, 0], [0], [0, 2], "up", 5, ["a", "b"], None])
def test_impossible_orders_of_axes_are_named(tmp_path, order):
    folder = plain_array(tmp_path / "a", 3)
    codecs = [{"name": "transpose", "configuration": {"order": order}}, "bytes"]
    with pytest.raises(CorruptDataError, match=r"a/zarr\.json"):
        edited(folder, b"", codecs=codecs)


def test_raw_of_n5_is_no_compressor(tmp_path):
    """As N5 names it, beside zarr's null."""
    values = np.arange(np.prod(SHAPE), dtype="u2").reshape(SHAPE)
    options = {"chunks": CHUNKS, "zarr_format": 2, "compressors": None}
    zarr.create_array(tmp_path / "a", data=values, **options)
    document = json.loads((tmp_path / "a/.zarray").read_text())
    assert document["compressor"] is None
    document["compressor"] = {"type": "raw"}
    (tmp_path / "a/.zarray").write_text(json.dumps(document))
    array = open_array(FolderStore(tmp_path), "a")
    np.testing.assert_array_equal(np.asarray(array), values)
    assert array.layout.codecs == ()
