"""Other programs read and judge what a conversion makes; nothing of ours takes part."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from judges import container, read_by_ome_zarr, validate_models, validate_yaozarrs
from napari_ngff import convert
from napari_ngff.cli import main
from napari_ngff.testing import write_image, write_plate

ngff_zarr = pytest.importorskip("ngff_zarr")

SHAPE = (2, 3, 300, 520)
CROP = {"crop": "x=100:400,y=20:260,t=1", "channels": "2,0"}
STORED = {"chunks": "y=100,x=64", "shards": "y=200,x=256", "codec": "zstd:3"}

CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "up": ("0.4", "0.5", {}),
    "down": ("0.5", "0.4", {}),
    "from the first": ("0.1", "0.5", {}),
    "from 0.3": ("0.3", "0.4", {}),
    "from the newest": ("0.6", "0.5", {}),
    "from the newest, down": ("0.6", "0.4", {"codec": "gzip"}),
    "shards": ("0.4", "0.5", STORED),
    "joined": ("0.4", "0.5", {"shards": "auto"}),
    "a part": ("0.4", "0.5", CROP),
    "a part, down": ("0.5", "0.4", CROP),
    "a part in shards": ("0.5", "0.5", CROP | STORED),
    "some levels": ("0.5", "0.5", {"levels": "1:"}),
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sources")
    versions = {source for source, _, _ in CASES.values()}
    return {
        version: write_image(
            folder / f"a{version}.ome.zarr", version, shape=(2, *SHAPE[2:])
        )
        for version in versions
    }


def expected_pixels(source: Path, level: str, asked: dict[str, Any]) -> np.ndarray:
    pixels = np.asarray(zarr.open_group(str(source), mode="r")[level][...])
    if "crop" not in asked:
        return pixels
    return pixels[1:2, [2, 0], ..., 20:260, 100:400]


def read_by_ngff_zarr(group: Path, version: str) -> list[np.ndarray]:
    """Read and validate an image by ngff-zarr."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of each axis without a unit
        found = ngff_zarr.from_ngff_zarr(str(group), validate=True, version=version)
    return [np.asarray(image.data) for image in found.images]


def require_validity(path: Path, capsys, source_version: str) -> None:
    """Let the command judge, with every SHOULD."""
    capsys.readouterr()
    code = main(["check", "--strict", str(path)])
    text = capsys.readouterr().out
    if source_version < "0.4":  # which states no units, and nobody knows them
        kinds = "    error ", "    warning "
        problems = [line for line in text.splitlines() if line.startswith(kinds)]
        assert all("axis-unit-missing" in line for line in problems), text
    else:
        assert code == 0, text


@pytest.mark.default_cases("down", "a part in shards")  # fmt: skip
@pytest.mark.parametrize("case", CASES)
def test_images(sources, tmp_path, capsys, case) -> None:
    source_version, version, asked = CASES[case]
    source, made = sources[source_version], tmp_path / "made.ome.zarr"
    convert(source, made, to_version=version, **asked)
    require_validity(made, capsys, source_version)
    first = "1" if "levels" in asked else "0"
    pixels = expected_pixels(source, first, asked)
    root = zarr.open_group(str(made), mode="r")
    assert np.array_equal(root[first][...], pixels)
    levels = [np.asarray(root[name][...]) for name in "012" if name in root]
    validate_yaozarrs(made)
    read = read_by_ome_zarr(made)
    for group in (made, made / "labels/nuclei"):
        validate_models(group, version)
        stored = zarr.open_group(str(group), mode="r")
        found = [np.asarray(stored[name][...]) for name in "012" if name in stored]
        for others in (read[group.name], read_by_ngff_zarr(group, version)):
            assert len(others) == len(found)
            for one, other in zip(others, found, strict=True):
                assert np.array_equal(one, other)
    opened = container(made)
    assert opened.levels == len(levels)
    assert np.array_equal(opened.get_image(path=first).get_array(), pixels)
    labels = opened.get_label("nuclei", path=first).get_array()
    assert np.array_equal(labels, root[f"labels/nuclei/{first}"][...])


@pytest.mark.default_cases("0.5")
@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_plates(tmp_path, capsys, version) -> None:
    ngio = pytest.importorskip("ngio")
    other = {"0.4": "0.5", "0.5": "0.4"}[version]
    source = write_plate(
        tmp_path / "plate.ome.zarr", other, grid=(2, 2), fields=2, shape=(64, 64)
    )
    made = tmp_path / "made.ome.zarr"
    convert(source, made, to_version=version, codec="zstd:2")
    require_validity(made, capsys, other)
    validate_yaozarrs(made)
    plate = ngio.open_ome_zarr_plate(str(made))
    images = plate.get_images(max_workers="auto")
    assert len(images) == 8
    for path, image in images.items():
        before = zarr.open_group(str(source / path), mode="r")["0"][...]
        assert np.array_equal(image.get_image(path="0").get_array(), before)
        read = read_by_ngff_zarr(made / path, version)
        assert np.array_equal(read[0], before)
    for group in (made, made / "A/1", made / "A/1/0", made / "B/2/1/labels/nuclei"):
        validate_models(group, version)


def test_the_newest_version(sources, tmp_path, capsys) -> None:
    # Of these, ngff-zarr alone reads 0.6.
    made = tmp_path / "made.ome.zarr"
    convert(sources["0.4"], made, to_version="0.6", shards="auto")
    require_validity(made, capsys, "0.4")
    for group in ("", "labels/nuclei/"):
        read = read_by_ngff_zarr(made / group, "0.6")
        before = zarr.open_group(str(sources["0.4"]), mode="r")[f"{group}0"][...]
        assert np.array_equal(read[0], before)
