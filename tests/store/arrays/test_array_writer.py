"""What is written reads back, here and in zarr-python, and nothing else changes."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from zarr.codecs import ShardingCodec, TransposeCodec

sys.path.insert(0, str(Path(__file__).parent))
from test_chunked_array import CHUNKS, SHAPE, SHARDS, V2_CODECS, V3_CODECS

from napari_ngff.errors import (
    AccessError,
    ChunkError,
    ConflictError,
    UnsupportedError,
)
from napari_ngff.store.arrays.array_writer import ArrayWriter
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.sources.folder_store import FolderStore, FolderTransaction
from napari_ngff.store.write import replace_file
from napari_ngff.store.write.replace_file import write_aside
from napari_ngff.store.write.writer_token import SUFFIX


class SavingWriter(ArrayWriter):
    """Saves each object at once."""

    def update_cells(self, *given, **named):
        changed = super().update_cells(*given, **named)
        self.transaction.commit()
        return changed


def written(array):
    return SavingWriter(array, array.source.begin())


DTYPES = ["bool", "u1", "i2", "u4", "i8", "f4"]
CASES = [
    *(pytest.param(2, name, {}, id=f"v2-{name}") for name in V2_CODECS),
    pytest.param(2, "zstd", {"order": "F"}, id="v2-fortran"),
    pytest.param(2, "zstd", {"dimension_separator": None}, id="v2-no-separator"),
    *(pytest.param(3, name, {}, id=f"v3-{name}") for name in V3_CODECS),
    *(pytest.param(3, n, {"shards": SHARDS}, id=f"shards-{n}") for n in V3_CODECS),
    pytest.param(3, "start", {"shards": SHARDS}, id="index-at-start"),
    pytest.param(3, "transpose", {}, id="transposed"),
    pytest.param(3, "transpose", {"shards": SHARDS}, id="transposed-in-shards"),
]


def make(folder, zarr_format, codec, options, dtype="u4", fill=0):
    """Write an array of zarr-python's with some chunks missing."""
    pixels = np.arange(np.prod(SHAPE)).reshape(SHAPE) % 7
    pixels[4:8] = fill
    pixels = pixels.astype(dtype)
    options = dict(options)
    separator = options.pop("dimension_separator", "/")
    if zarr_format == 2:
        options |= {"compressors": V2_CODECS[codec]}
        keys = {"name": "v2", "separator": separator or "/"}
        options["chunk_key_encoding"] = keys
    elif codec == "transpose":
        options["filters"] = [TransposeCodec(order=(1, 0))]
    elif codec == "start":
        inner = [zarr.codecs.BytesCodec(), zarr.codecs.ZstdCodec(level=1)]
        sharding = zarr.codecs.ShardingCodec(
            chunk_shape=CHUNKS, index_location="start", codecs=inner
        )
        options = {"serializer": sharding, "compressors": None}
    else:
        options["compressors"] = V3_CODECS[codec]
    where = SHARDS if codec == "start" else CHUNKS
    array = zarr.create_array(
        folder, shape=SHAPE, chunks=where, dtype=dtype, zarr_format=zarr_format,
        fill_value=pixels.dtype.type(fill), **options,
    )  # fmt: skip
    array[:] = pixels
    if separator is None:
        document = json.loads((folder / ".zarray").read_text())
        del document["dimension_separator"]
        (folder / ".zarray").write_text(json.dumps(document))
    return pixels


def opened(folder):
    return open_array(FolderStore(str(folder.parent)), folder.name)


def files(folder):
    return {
        str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_mtime_ns)
        for p in folder.rglob("*")
        if p.is_file()
    }


@pytest.mark.parametrize(("zarr_format", "codec", "options"), CASES)
def test_changed_cells_read_back(tmp_path, zarr_format, codec, options):
    check_change(tmp_path / "a", zarr_format, codec, options, "u4")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_every_type_reads_back(tmp_path, zarr_format, dtype):
    check_change(tmp_path / "a", zarr_format, "blosc", {}, dtype)


def check_change(folder, zarr_format, codec, options, dtype):
    pixels = make(folder, zarr_format, codec, options, dtype)
    array = opened(folder)
    assert array.direct
    assert (array.read(((0, 13), (0, 17))) == pixels).all()
    writer = written(array)
    for cell in ((0, 1), (1, 1), (3, 3)):

        def change(box, block):
            block[1:, ::2] = 1
            pixels[tuple(slice(*span) for span in box)][1:, ::2] = 1
            return True

        assert writer.update_cells(writer.unit_of(cell), {cell}, change)
    array.forget_chunks()
    assert (array.read(((0, 13), (0, 17))) == pixels).all()
    array = zarr.open_array(folder, mode="r")
    if options.get("dimension_separator", "/"):  # zarr-python takes no other for "."
        assert (array[:] == pixels).all()
    assert not list(folder.rglob(f"*{SUFFIX}"))


def test_what_zarr_alone_decodes_is_only_read(tmp_path):
    array = zarr.create_array(
        tmp_path / "a",
        shape=SHAPE,
        chunks=SHARDS,
        dtype="u4",
        serializer=ShardingCodec(
            chunk_shape=CHUNKS, codecs=[ShardingCodec(chunk_shape=(2, 5))]
        ),
        compressors=None,
    )
    array[...] = 5
    before = files(tmp_path / "a")
    ours = opened(tmp_path / "a")
    with pytest.raises(UnsupportedError, match="codecs: sharding_indexed"):
        written(ours)
    assert files(tmp_path / "a") == before
    assert (ours[...] == 5).all()


@pytest.mark.parametrize("options", [{}, {"shards": SHARDS}], ids=["chunks", "shards"])
def test_bytes_are_those_of_zarr(tmp_path, options):
    folder, twin = tmp_path / "a", tmp_path / "b"
    make(folder, 3, "zstd", options)
    make(twin, 3, "zstd", options)
    writer = written(opened(folder))
    for row in range(4):
        for column in range(4):
            cell = row, column

            def change(box, block):
                block[:] = 5
                return True

            writer.update_cells(writer.unit_of(cell), {cell}, change)
    zarr.open_array(twin, mode="r+")[:] = 5
    mine, theirs = files(folder), files(twin)
    if not options:  # the order of chunks in a shard is free
        # Behind the border there is what was there before.
        inner = [k for k in theirs if "/3" not in k]
        assert {k: mine[k][0] for k in inner} == {k: theirs[k][0] for k in inner}
    assert mine.keys() == theirs.keys()


@pytest.mark.parametrize("options", [{}, {"shards": SHARDS}], ids=["chunks", "shards"])
@pytest.mark.parametrize("fill", [0, 3])
def test_nothing_but_fill_value_is_no_object(tmp_path, options, fill):
    folder = tmp_path / "a"
    make(folder, 3, "zstd", options, fill=fill)
    array = opened(folder)
    writer = written(array)

    def change(box, block):
        block[:] = fill
        return True

    cells = {(i, j) for i in range(2) for j in range(3)}
    for unit in {writer.unit_of(cell) for cell in cells}:
        mine = {cell for cell in cells if writer.unit_of(cell) == unit}
        assert writer.update_cells(unit, mine, change)
        assert not os.path.exists(f"{tmp_path}/{writer.unit_key(unit)}")
    array.forget_chunks()
    assert (array.read(((0, 8), (0, 15))) == fill).all()


def test_only_what_changes_is_written(tmp_path):
    folder = tmp_path / "a"
    make(folder, 3, "zstd", {"shards": SHARDS})
    before = files(folder)
    writer = written(opened(folder))
    assert not writer.update_cells((0, 0), {(0, 0)}, lambda box, block: False)
    assert files(folder) == before

    def change(box, block):
        block[0, 0] = 9
        return True

    assert writer.update_cells((0, 0), {(0, 0)}, change)
    after = files(folder)
    assert {k for k in after if after[k] != before[k]} == {"c/0/0"}


def test_damaged_bytes_stay(tmp_path):
    folder = tmp_path / "a"
    make(folder, 3, "zstd", {})
    (folder / "c/0/0").write_bytes(b"rubbish")
    writer = written(opened(folder))
    with pytest.raises(ChunkError, match="a/c/0/0 cannot be read"):
        writer.update_cells((0, 0), {(0, 0)}, lambda box, block: True)
    assert (folder / "c/0/0").read_bytes() == b"rubbish"


def test_a_damaged_neighbour_in_the_shard_stays(tmp_path):
    folder = tmp_path / "a"
    pixels = make(folder, 3, "zstd", {"shards": SHARDS})
    shard = folder / "c/0/0"
    data = bytearray(shard.read_bytes())
    data[0:4] = b"rub!"  # the chunk at 0, 0
    shard.write_bytes(data)
    array = opened(folder)
    writer = written(array)
    with pytest.raises(ChunkError):
        writer.update_cells((0, 0), {(0, 0)}, lambda box, block: True)
    assert shard.read_bytes() == data

    def change(box, block):
        block[:] = 8
        return True

    assert writer.update_cells((0, 0), {(0, 1)}, change)
    array.forget_chunks()
    assert (array.read(((0, 4), (5, 10))) == 8).all()
    assert (array.read(((0, 4), (10, 15))) == pixels[:4, 10:15]).all()
    with pytest.raises(ChunkError):
        array.read(((0, 4), (0, 5)))


def test_a_change_by_others_is_seen(tmp_path):
    folder = tmp_path / "a"
    make(folder, 3, "zstd", {})
    writer = written(opened(folder))
    mark = writer.transaction.find_revision(writer.unit_key((0, 0)))
    # The same bytes once more are a change, too: nobody can tell what was between.
    writer.transaction.put(writer.unit_key((0, 0)), (folder / "c/0/0").read_bytes())
    writer.transaction.commit()
    with pytest.raises(ConflictError, match="a/c/0/0 was changed by another program"):
        writer.update_cells((0, 0), {(0, 0)}, lambda box, block: True, expected=mark)


def test_failure_leaves_the_old_object_and_can_be_made_good(tmp_path, monkeypatch):
    transaction = FolderTransaction(str(tmp_path))
    transaction.put("deep/er/object", b"old")
    transaction.commit()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    transaction.put("deep/er/object", b"new")
    with pytest.raises(OSError, match="No space left"):
        transaction.commit()
    transaction.remove_below("nothing")
    monkeypatch.undo()
    assert (tmp_path / "deep/er/object").read_bytes() == b"old"
    monkeypatch.setattr(replace_file, "write_whole", full)
    with pytest.raises(OSError, match="No space left"):
        transaction.put("deep/er/other", b"new")
    monkeypatch.undo()
    transaction.commit()
    assert files(tmp_path).keys() == {"deep/er/object"}
    assert (tmp_path / "deep/er/object").read_bytes() == b"new"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may do anything")
def test_no_permission_says_so(tmp_path):
    transaction = FolderTransaction(str(tmp_path))
    transaction.put("a/b", b"old")
    transaction.commit()
    (tmp_path / "a").chmod(0o500)
    with pytest.raises(AccessError, match="No permission to write"):
        transaction.put("a/b", b"new")
    (tmp_path / "a").chmod(0o700)


def test_litter_of_a_killed_writer_is_swept(tmp_path):
    transaction = FolderTransaction(str(tmp_path))
    transaction.put("a/0", b"x")
    transaction.commit()
    litter = tmp_path / f"a/.0.0123abcd-0{SUFFIX}"
    litter.write_bytes(b"half")
    transaction.remove_leftovers("a")
    assert litter.exists()  # somebody may be writing it
    os.utime(litter, (1, 1))
    transaction.remove_leftovers("a")
    assert files(tmp_path).keys() == {"a/0"}


def test_litter_of_a_writer_that_is_known_to_be_dead_is_swept_at_once(tmp_path):
    dead, alive = FolderTransaction(str(tmp_path)), FolderTransaction(str(tmp_path))
    (tmp_path / "c/0").mkdir(parents=True)
    for transaction in (dead, alive):
        write_aside(f"{tmp_path}/c/0/1", (b"half",), transaction.token, flush=False)
    FolderTransaction(str(tmp_path)).remove_leftovers("c", [dead.token])
    (left,) = files(tmp_path)
    assert alive.token in left
