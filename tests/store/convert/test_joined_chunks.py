"""Chunks that only get into shards are copied as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

import napari_ngff
from napari_ngff import convert
from napari_ngff.store.convert import work_unit
from napari_ngff.testing import write_image


def errors_of(path) -> list:
    return [(where, problem.code) for where, problem in napari_ngff.check(path)]


def pixels_of(path, name: str) -> np.ndarray:
    return np.asarray(zarr.open_group(str(path), mode="r")[name][...])


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sources")
    return {
        version: write_image(
            folder / f"a{version}.ome.zarr", version, shape=(2, 300, 520)
        )
        for version in ("0.4", "0.5", "0.6")
    }


def forbid_encoding(monkeypatch) -> None:
    def fail(*_) -> None:
        raise AssertionError("a chunk was encoded")

    monkeypatch.setattr(work_unit, "_encode_cell", fail)


def test_chunks_larger_than_the_image_get_into_shards(tmp_path, monkeypatch) -> None:
    source = write_image(tmp_path / "a.ome.zarr", "0.5", shape=(300, 520))
    pixels = pixels_of(source, "0")
    group = zarr.open_group(str(source))
    shape = (1, 512, 64)
    group.create_array("0", data=pixels, chunks=shape, overwrite=True)
    forbid_encoding(monkeypatch)
    for name, asked in (("b", {"shards": "x=256"}), ("c", {"shards": "auto"})):
        made = tmp_path / f"{name}.ome.zarr"
        convert(source, made, **asked)
        array = zarr.open_group(str(made), mode="r")["0"]
        assert array.chunks == shape
        assert array.shards is not None
        assert np.array_equal(array[...], pixels)


def test_a_file_gets_shards_by_itself(sources, tmp_path, monkeypatch) -> None:
    forbid_encoding(monkeypatch)
    for version in ("0.4", "0.5", "0.6"):
        made = tmp_path / f"{version}.ozx"
        convert(sources[version], made, to_version=max(version, "0.5"))
        assert napari_ngff.check(made) == []
    plain = tmp_path / "plain.ozx"
    convert(sources["0.5"], plain, shards="none")
    codes = {problem.code for _, problem in napari_ngff.check(plain)}
    assert codes == {"ozx-not-sharded"}
    # Where chunks are encoded anyway, these get into shards, too.
    monkeypatch.undo()
    coded = tmp_path / "coded.ozx"
    convert(sources["0.4"], coded, codec="gzip", crop="x=11:")
    assert napari_ngff.check(coded) == []


CASES = {
    "asked for": ("0.4", {"shards": "y=300,x=600"}),
    "chosen": ("0.5", {"shards": "auto"}),
    "the same codec": ("0.4", {"shards": "y=512,x=1024", "codec": "zstd:1"}),
    "a crop of whole chunks": ("0.5", {"shards": "auto", "crop": "x=256:,t=1"}),
    "channels": ("0.4", {"shards": "auto", "channels": "2,0"}),
}


@pytest.mark.parametrize("case", CASES)
def test_chunks_get_into_shards_as_they_are(
    sources, tmp_path, monkeypatch, case
) -> None:
    version, asked = CASES[case]
    source, made = tmp_path / "source.ome.zarr", tmp_path / "made.ome.zarr"
    chunks = {"y": 150, "x": 128}
    convert(sources["0.4"], source, to_version=version, chunks=chunks, codec="zstd:1")
    forbid_encoding(monkeypatch)
    levels = {"levels": "0"} if "crop" in asked else {}
    convert(source, made, **asked, **levels)
    assert errors_of(made) == []
    pixels = pixels_of(source, "0")
    pixels = pixels[1:, ..., 256:] if "crop" in asked else pixels
    pixels = pixels[:, [2, 0]] if "channels" in asked else pixels
    assert np.array_equal(pixels_of(made, "0"), pixels)
    array = zarr.open_group(str(made), mode="r")["0"]
    assert array.shards is not None
    assert array.chunks == zarr.open_group(str(source), mode="r")["0"].chunks
