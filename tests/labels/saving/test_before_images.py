import json
import os
import threading

import numpy as np
import pytest
import zarr

from napari_ngff.labels.saving.before_images import BeforeImages
from napari_ngff.store.arrays.array_writer import EncodedVoxels
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.sources.folder_store import FolderStore


def test_nobody_goes_on_before_the_disk_has_it(tmp_path, monkeypatch):
    opened = (tmp_path / "kept").open("w+b", 0)
    retained = BeforeImages(lambda: opened, durable=True)
    flushing, allowed, done = (threading.Event() for _ in range(3))

    def fsync(handle):
        flushing.set()
        assert allowed.wait(10)

    def second():
        retained.flush_blocks()
        done.set()

    retained.put_block(0, (0, 0), np.arange(6).reshape(2, 3))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        threads = [threading.Thread(target=retained.flush_blocks)]
        threads[0].start()
        assert flushing.wait(10)
        threads.append(threading.Thread(target=second))
        threads[1].start()
        early = done.wait(0.2)
        allowed.set()
        for thread in threads:
            thread.join(10)
    retained.close()
    assert done.is_set()
    assert not early


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("words", [False, True], ids=["axes", "earlier versions"])
def test_blocks_of_either_order_are_found_again(tmp_path, order, words):
    array = zarr.create_array(
        tmp_path / "a", shape=(4, 6), chunks=(4, 6), dtype="u2", zarr_format=2,
        order=order, filters=None,
    )  # fmt: skip
    array[...] = values = np.arange(24).reshape(4, 6)
    layout = open_array(FolderStore(str(tmp_path)), "a").layout
    path = tmp_path / "kept"
    kept = BeforeImages(lambda: path.open("w+b", 0))
    stored = (tmp_path / "a/0.0").read_bytes()
    kept.put_block(0, (0, 0), EncodedVoxels(layout, stored, (3, 5)))
    kept.close()
    if words:
        head, _, data = path.read_bytes().partition(b"\n")
        changed = json.loads(head) | {"order": order}
        path.write_bytes(json.dumps(changed).encode() + b"\n" + data)
    again = BeforeImages(lambda: path.open("r+b", 0))
    again.load()
    assert (again.get_block(0, (0, 0)) == values[:3, :5]).all()
    again.close()
