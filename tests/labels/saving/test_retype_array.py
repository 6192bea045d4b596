"""The type of an array is changed as a whole, whoever writes into it meanwhile."""

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import TransposeCodec

from napari_ngff.errors import ConflictError
from napari_ngff.labels.saving.retype_array import retype_array
from napari_ngff.store.arrays.array_writer import ArrayWriter
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.sources.archive_store import open_zip
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.write.zip_packing import pack_hierarchy


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("changed", ["before", "after"])
def test_a_new_chunk_never_has_the_type_of_before(tmp_path, packed, changed):
    """Another window widens the array during a save: before or after a chunk of it."""
    place = tmp_path / "a.ome.zarr"
    group = zarr.create_group(place, attributes={"ome": {"version": "0.5"}})
    group.create_array("0", shape=(8, 8), chunks=(4, 4), dtype="u1", fill_value=0)
    if packed:
        place = tmp_path / "a.ozx"
        pack_hierarchy(tmp_path / "a.ome.zarr", place)
    open_place = open_zip if packed else lambda path: FolderStore(str(path))
    ours, others = (open_place(place).begin() for _ in range(2))

    def paint(box, voxels):
        voxels[...] = 200
        return True

    writer = ArrayWriter(open_array(ours.source, "0"), ours)
    if changed == "before":
        assert writer.update_cells((1, 1), {(1, 1)}, paint)
    retype_array(open_array(others.source, "0"), np.dtype("u2"), others)
    others.commit()
    if changed == "after":
        assert writer.update_cells((1, 1), {(1, 1)}, paint)
    with pytest.raises(ConflictError, match="changed by another program"):
        ours.commit()
    now = open_array(open_place(place), "0")
    assert now.dtype == "u2"
    assert not np.asarray(now).any()
    # Opened again, it is saved.
    again = open_place(place).begin()
    writer = ArrayWriter(open_array(again.source, "0"), again)
    writer.update_cells((1, 1), {(1, 1)}, paint)
    again.commit()
    assert (np.asarray(open_array(open_place(place), "0"))[4:, 4:] == 200).all()


@pytest.mark.parametrize(
    "options",
    [
        {"zarr_format": 2, "filters": numcodecs.Delta("<u2"), "order": "F"},
        {"zarr_format": 2, "filters": numcodecs.FixedScaleOffset(0, 0.5, "<u2", "u1")},
        {"filters": TransposeCodec(order=(1, 0))},
        {"filters": TransposeCodec(order=(1, 0)), "shards": (8, 8)},
    ],
    ids=["delta", "offset", "transposed", "transposed in shards"],
)
def test_widened_voxels_stay_whatever_the_filters(tmp_path, options):
    array = zarr.create_array(
        tmp_path / "0", shape=(8, 8), chunks=(4, 4), dtype="u2", **options
    )
    array[...] = values = np.arange(64).reshape(8, 8) * 2
    source = FolderStore(str(tmp_path))
    transaction = source.begin()
    retype_array(open_array(source, "0"), np.dtype("u4"), transaction)
    transaction.commit()
    now = open_array(source, "0")
    assert now.dtype == "u4"
    assert (np.asarray(now) == values).all()
    assert (zarr.open_array(tmp_path / "0", mode="r")[...] == values).all()
