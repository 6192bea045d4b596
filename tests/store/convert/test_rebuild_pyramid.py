"""Coarser levels are made again, and the image is valid whenever that stops."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr

import napari_ngff
from judges import read_by_ome_zarr, validate_yaozarrs
from napari_ngff import convert, rebuild
from napari_ngff.cli import main
from napari_ngff.errors import UnsupportedError
from napari_ngff.store.convert import array_task, rebuild_pyramid
from napari_ngff.store.pyramids.level_reduction import LevelReduction
from napari_ngff.testing import write_image


def pixels_of(path, name: str) -> np.ndarray:
    return np.asarray(zarr.open_group(str(path), mode="r")[name][...])


def errors_of(path) -> list:
    units = "axis-unit-missing"
    return [(w, p.code, p.text) for w, p in napari_ngff.check(path) if p.code != units]


@pytest.fixture(scope="module", params=["0.2", "0.4", "0.5", "0.6"])
def sample(request, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    return write_image(folder / "a.ome.zarr", request.param, shape=(2, 300, 520))


@pytest.fixture
def image(sample, tmp_path) -> Path:
    shutil.copytree(sample, tmp_path / "a.ome.zarr")
    return tmp_path / "a.ome.zarr"


def list_arrays(image: Path) -> list[Path]:
    """List the folders of all arrays, also of those that no metadata name."""
    found = [path.parent for path in image.rglob(".zarray")]
    documents = (
        (path, json.loads(path.read_text())) for path in image.rglob("zarr.json")
    )
    found += [path.parent for path, one in documents if one["node_type"] == "array"]
    return sorted(found)


def spoil(image: Path, level: str) -> None:
    array = zarr.open_group(str(image), mode="r+")[level]
    array[...] = 7


@pytest.mark.parametrize("damage", [{"datasets": [{"path": "../0"}]}, None])
def test_levels_are_listed_in_the_multiscale_that_is_shown(image, damage) -> None:
    document = next(p for p in (image / "zarr.json", image / ".zattrs") if p.exists())
    content = json.loads(document.read_text())
    ome = content.get("attributes", {}).get("ome", content)
    (good,) = ome["multiscales"]
    broken = None if damage is None else good | damage
    ome["multiscales"] = [broken, good]
    document.write_text(json.dumps(content))
    rebuild(image, levels=2)
    content = json.loads(document.read_text())
    first, second = content.get("attributes", {}).get("ome", content)["multiscales"]
    assert first == broken
    assert [item["path"] for item in second["datasets"]] == ["0", "1"]


def test_levels_are_means_again(image, monkeypatch) -> None:
    monkeypatch.setattr(array_task, "CODED", 60_000)
    before = {name: pixels_of(image, name) for name in ("0", "1", "2")}
    document = next(p for p in (image / "zarr.json", image / ".zattrs") if p.exists())
    for level in ("1", "2"):
        spoil(image, level)
    assert rebuild(image) == ("1", "2")
    assert np.array_equal(pixels_of(image, "0"), before["0"])
    wanted = before["0"]
    factors = (*(1 for _ in range(wanted.ndim - 2)), 2, 2)
    for level in ("1", "2"):
        shape = before[level].shape
        rule = LevelReduction.between_shapes(wanted.shape, shape, "mean", factors)
        wanted = rule.reduce(wanted, tuple((0, n) for n in shape))
        assert np.array_equal(pixels_of(image, level), wanted)
    assert errors_of(image) == []
    assert json.loads(document.read_text())
    assert not list(image.rglob(".*aside"))


@pytest.mark.parametrize("dtype", ["u1", "i1", "u4", "i8", "u8", "f2", "f8", "?"])
@pytest.mark.parametrize("factors", [(1, 32, 32), (8, 8, 8), (2, 40, 3)])
def test_the_brightest_image_stays_as_bright(tmp_path, dtype, factors) -> None:
    """Sums of many voxels of the largest value fit."""
    pixels = np.ones((9, 100, 70), dtype)
    if pixels.dtype.kind in "iu":
        pixels *= np.iinfo(dtype).max
    if pixels.dtype.kind == "f":
        pixels *= np.finfo(dtype).max
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=3)
    shape = tuple(-(-n // f) for n, f in zip(pixels.shape, factors, strict=True))
    group.create_array("0", data=pixels, chunks=(9, 64, 64))
    group.create_array("1", shape=shape, dtype=dtype)
    datasets = [
        {"path": path, "coordinateTransformations": [{"type": "scale", "scale": scale}]}
        for path, scale in (("0", (1, 1, 1)), ("1", factors))
    ]
    axes = [{"name": name, "type": "space"} for name in "zyx"]
    multiscale = {"axes": axes, "datasets": datasets}
    group.attrs["ome"] = {"version": "0.5", "multiscales": [multiscale]}
    rebuild(tmp_path / "a.zarr", method="mean")
    convert(tmp_path / "a.zarr", tmp_path / "b.zarr", crop={"x": (1, 69)})
    for name in ("a.zarr", "b.zarr"):
        found = pixels_of(tmp_path / name, "1")
        # Of float64 sums are rounded, those of all others are exact.
        error = 1e-15 if dtype == "f8" else 0
        np.testing.assert_allclose(found, pixels[0, 0, 0], rtol=error)


@pytest.mark.parametrize("method", ["mode", "nearest", None])
def test_labels_keep_their_ids(image, method) -> None:
    ids = pixels_of(image, "labels/nuclei/0")
    for level in ("1", "2"):
        spoil(image, f"labels/nuclei/{level}")
    rebuild(image / "labels" / "nuclei", method=method)
    shape = pixels_of(image, "labels/nuclei/1").shape
    stated = "mode" if method == "mode" else "nearest"
    if method is None:
        node = napari_ngff.open_node(image / "labels" / "nuclei")
        stated = node.metadata.image.multiscales[0].method or "nearest"
    reduction = LevelReduction.between_shapes(ids.shape, shape, stated)
    box = tuple((0, n) for n in shape)
    part = tuple(slice(*span) for span in reduction.source_box(box))
    wanted = reduction.reduce(ids[part], box)
    assert np.array_equal(pixels_of(image, "labels/nuclei/1"), wanted)
    assert errors_of(image) == []


def test_what_another_window_saves_meanwhile_is_kept(image) -> None:
    levels = [f"labels/nuclei/{number}" for number in range(3)]
    steps = []

    def save_once(done: int, total: int) -> None:
        if not steps:
            # The corner of level 1 was computed by now.
            group = zarr.open_group(str(image), mode="r+")
            for level, size in zip(levels, (16, 8, 4), strict=True):
                group[level][..., :size, :size] = 77
        steps.append((done, total))

    rebuild(image / "labels" / "nuclei", method="nearest", progress=save_once)
    for level, size in zip(levels, (16, 8, 4), strict=True):
        assert (pixels_of(image, level)[..., :size, :size] == 77).all()
    assert all(done <= total for done, total in steps)
    assert errors_of(image) == []


def test_more_and_fewer_levels(image) -> None:
    assert rebuild(image, levels=5)[:4] == ("1", "2", "3", "4")
    assert len(napari_ngff.open(image).labels["nuclei"].levels) == 5
    pyramid = napari_ngff.open_pyramid(napari_ngff.open_node(image))
    assert [a.shape[-2:] for a in pyramid.levels] == [
        (300, 520),
        (150, 260),
        (75, 130),
        (38, 65),
        (19, 33),
    ]
    levels = pyramid.multiscale.levels
    if napari_ngff.open_node(image).metadata.version >= "0.4":
        assert levels[4].scale[-1] == pytest.approx(16 * levels[0].scale[-1])
        assert levels[4].translation[-1] == pytest.approx(7.5 * levels[0].scale[-1])
    codes = {code for _, code, _ in errors_of(image)}
    assert codes == set()
    assert rebuild(image, levels=2)[0] == "1"
    assert len(napari_ngff.open(image).levels) == 2
    assert not (image / "2").exists()
    assert not (image / "labels" / "nuclei" / "2").exists()
    assert errors_of(image) == []
    assert not rebuild(image, levels=1)
    assert len(napari_ngff.open(image).levels) == 1


def test_a_single_level_gets_a_pyramid(tmp_path) -> None:
    source = write_image(tmp_path / "b.ome.zarr", "0.5", shape=(512, 1024))
    one = tmp_path / "one.ome.zarr"
    convert(source, one, levels="0")
    ids = ("labels/nuclei/1", "labels/nuclei/2", "labels/cells/1", "labels/cells/2")
    assert rebuild(one) == ("1", "2", *ids)
    assert errors_of(one) == []
    validate_yaozarrs(one)
    assert len(read_by_ome_zarr(one)["one.ome.zarr"]) == 3
    assert [a.shape[-1] for a in napari_ngff.open(one).levels] == [1024, 512, 256]


def test_what_stops_in_the_middle_leaves_a_valid_image(image, monkeypatch) -> None:
    monkeypatch.setattr(array_task, "CODED", 60_000)
    before = {name: pixels_of(image, name) for name in ("0", "1", "2")}

    def progress(done: int, total: int) -> None:
        if done > total * 0.9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rebuild(image, levels=4, progress=progress)
    assert errors_of(image) == []
    levels = napari_ngff.open(image).levels
    assert np.array_equal(np.asarray(levels[0]), before["0"])
    assert len(levels) == 3
    assert np.asarray(levels[2]).shape == before["2"].shape
    rebuild(image, levels=4)
    assert len(napari_ngff.open(image).levels) == 4


@pytest.mark.parametrize("levels", [2, 5])
def test_labels_that_follow_can_be_stopped(image, monkeypatch, levels) -> None:
    monkeypatch.setattr(array_task, "CODED", 60_000)
    arrays = list_arrays(image)
    total = 0

    def stop_at_labels(done: int, all_bytes: int) -> None:
        nonlocal total
        total = all_bytes
        if done > images:
            raise KeyboardInterrupt

    plans = rebuild_pyramid.plan_rebuild(napari_ngff.open_node(image), levels)
    images = plans[0].nbytes
    with pytest.raises(KeyboardInterrupt):
        rebuild(image, levels=levels, progress=stop_at_labels)
    assert total == sum(plan.nbytes for plan in plans) > images
    # All have as many levels as before, and nothing else is there.
    opened = napari_ngff.open(image)
    assert [len(opened.levels), len(opened.labels["nuclei"].levels)] == [3, 3]
    assert list_arrays(image) == arrays
    assert errors_of(image) == []
    rebuild(image, levels=levels)
    opened = napari_ngff.open(image)
    assert len(opened.levels) == len(opened.labels["nuclei"].levels) == levels
    assert errors_of(image) == []


def test_a_level_of_another_size_is_listed_when_it_is_there(tmp_path) -> None:
    source = write_image(tmp_path / "b.ome.zarr", "0.5", shape=(256, 512))
    image = tmp_path / "a.ome.zarr"
    convert(source, image, levels="0,1")
    # A level of two thirds, which no whole number of pixels makes.
    array = zarr.open_group(str(image), mode="r+")["1"]
    array.resize((3, 171, 341))
    document = json.loads((image / "zarr.json").read_text())
    level = document["attributes"]["ome"]["multiscales"][0]["datasets"][1]
    level["coordinateTransformations"][0]["scale"][1:] = [0.4875, 0.4875]
    (image / "zarr.json").write_text(json.dumps(document))

    def progress(done: int, total: int) -> None:
        listed = napari_ngff.open_node(image).metadata.image.multiscales[0].levels
        assert [level.path for level in listed] == ["0"]

    assert rebuild(image, progress=progress)[0] == "1"
    levels = napari_ngff.open_pyramid(napari_ngff.open_node(image))
    assert levels.levels[1].shape == (3, 128, 256)
    assert levels.multiscale.levels[1].scale == pytest.approx((1, 0.65, 0.65))
    assert errors_of(image) == []


def test_by_another_scheduler_and_the_command(image, capsys) -> None:
    spoil(image, "1")
    rebuild(image, scheduler="synchronous")
    wanted = pixels_of(image, "1")
    assert not (wanted == 7).all()
    spoil(image, "1")
    assert main(["rebuild", str(image), "--levels", "3"]) == 0
    assert capsys.readouterr().out == f"{image}: levels 1, 2\n"
    assert np.array_equal(pixels_of(image, "1"), wanted)
    assert main(["rebuild", str(image / "labels/nuclei"), "--method", "mean"]) == 2
    assert "another id" in capsys.readouterr().err


def test_what_cannot_be_rebuilt(tmp_path) -> None:
    file = write_image(tmp_path / "a.ozx", shape=(64, 64))
    with pytest.raises(UnsupportedError, match="not in a folder"):
        rebuild(file)
    folder = write_image(tmp_path / "a.ome.zarr", shape=(64, 64))
    with pytest.raises(UnsupportedError, match="not an image"):
        rebuild(folder / "labels")
    with pytest.raises(ValueError, match="1 level or more"):
        rebuild(folder, levels=0)
    with pytest.raises(ValueError, match="7 levels at most: the last is one pixel"):
        rebuild(folder, levels=12)
    with pytest.raises(ValueError, match="Choose one of"):
        rebuild(folder, method="max")
    assert rebuild_pyramid.METHODS == ("mean", "mode", "nearest")
