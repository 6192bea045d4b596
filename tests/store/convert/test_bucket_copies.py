"""From one bucket to another of the same server, S3 copies the chunks itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from buckets import bucket_server
from napari_ngff import convert
from napari_ngff.errors import ConflictError
from napari_ngff.store.convert import array_task
from napari_ngff.store.sources import remote_store
from napari_ngff.store.write import bucket_transaction, new_hierarchy
from napari_ngff.testing import write_image


@dataclass(frozen=True)
class CopiedImage:
    """An image in a folder, and the same in a bucket."""

    folder: Path
    files: Any
    bucket: str

    @property
    def address(self) -> str:
        return f"s3://{self.bucket}/cells.ome.zarr"

    @property
    def made(self) -> str:
        """To where it is converted."""
        return f"s3://{self.bucket}/made.ome.zarr"

    def copied(self) -> list[str]:
        """Paths that the server was asked to copy."""
        asked = [one for one in self.files.asked if one.name == "copy"]
        return [one.headers["X_AMZ_COPY_SOURCE"] for one in asked]

    def require_equal_pixels(self, tmp_path) -> None:
        there = tmp_path / "there"
        self.files.get(self.made, str(there), recursive=True)
        old, new = (zarr.open_group(str(p), mode="r") for p in (self.folder, there))
        for level in old.array_keys():
            assert np.array_equal(old[level][...], new[level][...])
            assert np.any(new[level][...])


@pytest.fixture
def image(tmp_path, monkeypatch, request):
    """An image in a bucket of its own: the server keeps buckets for all tests."""
    monkeypatch.setattr(new_hierarchy, "data_folder", lambda: tmp_path)
    monkeypatch.setattr(array_task, "KEPT", 1_000_000)
    monkeypatch.setattr(bucket_transaction, "_uncopied", set())
    folder = write_image(tmp_path / "cells.ome.zarr", "0.4", shape=(1, 300, 300))
    with bucket_server() as files:
        image = CopiedImage(folder, files, request.node.name.replace("_", "-"))
        files.mkdir(image.bucket)
        files.put(str(folder), image.address, recursive=True)
        yield image


def is_chunk(address: str) -> bool:
    return address.rpartition("/")[2].isdecimal()


@pytest.mark.long
def test_the_server_copies_chunks(image, tmp_path) -> None:
    image.files.rm(f"{image.address}/0/0/1/1/1")
    (image.folder / "0/0/1/1/1").unlink()
    convert(image.address, image.made, to_version="0.5")
    read = [one.path for one in image.files.asked if one.name == "get"]
    assert read
    assert not any(map(is_chunk, read))
    assert sum(map(is_chunk, image.copied())) > 5
    assert not image.files.exists(f"{image.made}/0/c/0/1/1/1")
    image.require_equal_pixels(tmp_path)


@pytest.mark.long
def test_a_server_that_does_not_copy(image, tmp_path) -> None:
    refused = {"copy": 403}
    image.files.answer = lambda asked: refused.get(asked.name)
    convert(image.address, image.made, to_version="0.5")
    # As many as there are threads may ask before the first answer.
    assert 0 < len(image.copied()) <= 32
    image.require_equal_pixels(tmp_path)


def test_a_bucket_of_the_same_name_elsewhere(image) -> None:
    options = {"endpoint_url": "http://127.0.0.1:9", "anon": True}
    other = remote_store.RemoteStore(image.address, options)
    made = remote_store.RemoteStore(image.made)
    assert made.copy_new(other, ".zattrs", ".zattrs") is None
    assert image.copied() == []
    image.files.mkdir("other-bucket")
    target = "s3://other-bucket/made.ome.zarr"
    same = remote_store.RemoteStore(image.address)
    assert remote_store.RemoteStore(target).copy_new(same, ".zattrs", ".zattrs") is True
    assert image.files.exists(f"{target}/.zattrs")
    assert made.copy_new(same, ".zattrs", ".zattrs") is True


@pytest.mark.long
def test_a_stopped_copy_is_continued(image, tmp_path) -> None:
    key = "0/0/1/1/1"
    data = (image.folder / "0/0/0/0/0").read_bytes()
    waiting = [lambda: image.files.pipe(f"{image.address}/{key}", data)]

    def change_at_the_end(done: int, total: int) -> None:
        if done == total and waiting:
            waiting.pop()()

    with pytest.raises(ConflictError, match=f"{key} was changed"):
        convert(image.address, image.made, to_version="0.5", progress=change_at_the_end)
    chunks = [address for address in image.copied() if is_chunk(address)]
    assert any(address.endswith(key) for address in chunks)
    image.files.asked.clear()
    (image.folder / key).write_bytes(data)
    convert(image.address, image.made, to_version="0.5", resume=True)
    again = [address for address in image.copied() if is_chunk(address)]
    assert any(address.endswith(key) for address in again)
    assert len(again) < len(chunks)
    image.require_equal_pixels(tmp_path)
