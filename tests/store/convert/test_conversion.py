"""A conversion keeps every pixel and key that it is to keep, whatever stops it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import pytest
import zarr

import napari_ngff
from judges import validate_models, validate_yaozarrs
from napari_ngff import convert
from napari_ngff.errors import ChunkError, ConflictError, UnsupportedError
from napari_ngff.store.convert import array_task, conversion
from napari_ngff.store.convert.array_task import ArrayTask
from napari_ngff.store.convert.conversion import are_nested
from napari_ngff.store.convert.conversion_plan import ConversionPlan
from napari_ngff.store.convert.request import read_request
from napari_ngff.store.pyramids.level_reduction import LevelReduction
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.testing import write_image, write_plate
from patience import until

VERSIONS = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6")
ARRAYS = ("0", "1", "labels/nuclei/0", "labels/cells/0")


def errors_of(path) -> list:
    """Problems of metadata that are errors, and warnings that are not of units."""
    return [
        (where, problem.code, problem.text)
        for where, problem in napari_ngff.check(path)
        if problem.code not in ("axis-unit-missing", "plate-field-count-missing")
    ]


def pixels_of(path, name: str) -> np.ndarray:
    group = zarr.open_group(str(path), mode="r")
    return np.asarray(group[name][...])


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sources")
    return {
        version: write_image(
            folder / f"a{version}.ome.zarr", version, shape=(2, 300, 520)
        )
        for version in VERSIONS
    }


@pytest.mark.default_cases("0.1-0.6", "0.3-0.4", "0.5-0.4", "0.6-0.5")  # fmt: skip
@pytest.mark.parametrize("target", ["0.4", "0.5", "0.6"])
@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_to_every_other(sources, tmp_path, version, target) -> None:
    made = tmp_path / "made.ome.zarr"
    result = convert(sources[version], made, to_version=target)
    assert result.target == made
    assert result.problems == ()
    assert errors_of(made) == []
    assert str(napari_ngff.open_node(made).metadata.version) == target
    for name in ARRAYS:
        before = pixels_of(sources[version], name)
        assert np.array_equal(before, pixels_of(made, name))
    assert [p.name for p in tmp_path.iterdir()] == ["made.ome.zarr"]
    image, old = napari_ngff.open(made), napari_ngff.open(sources[version])
    assert image.axes == old.axes
    assert [c.label for c in image.channels] == [c.label for c in old.channels]
    if version in ("0.4", "0.5", "0.6"):
        assert image.scales == old.scales
    assert list(image.labels) == list(old.labels)


def test_bytes_of_chunks_stay_where_only_metadata_change(sources, tmp_path) -> None:
    made = tmp_path / "made.ome.zarr"
    convert(sources["0.4"], made, to_version="0.5")
    before, after = files_of(sources["0.4"]), files_of(made)
    chunks = {k: v for k, v in before.items() if not Path(k).name.startswith(".z")}
    moved = {}
    for key, data in chunks.items():
        array, numbers = key.split("/")[: -4 if "labels" not in key else -3], key
        depth = 4 if "labels" not in key else 3
        array = numbers.split("/")[:-depth]
        moved["/".join([*array, "c", *numbers.split("/")[-depth:]])] = data
    assert {k: v for k, v in after.items() if not k.endswith("zarr.json")} == moved
    back = tmp_path / "back.ome.zarr"
    convert(made, back, to_version="0.4")
    again = files_of(back)
    assert {k: again[k] for k in chunks} == chunks


def test_the_same_version_is_a_copy(sources, tmp_path) -> None:
    for version in ("0.4", "0.5", "0.6"):
        made = tmp_path / f"{version}.ome.zarr"
        convert(sources[version], made, to_version=version)
        assert files_of(made) == files_of(sources[version])


@pytest.mark.parametrize("asked", [{}, {"to_version": "0.6"}, {"crop": "x=16:"}])
def test_what_is_unknown_is_kept(sources, tmp_path, asked) -> None:
    source = tmp_path / "source.ome.zarr"
    shutil.copytree(sources["0.4"], source)
    document = json.loads((source / ".zattrs").read_text())
    document["mine"] = {"n": [1, 2.5, None]}
    document["multiscales"][0]["theirs"] = "kept"
    document["multiscales"][0]["datasets"][0]["hers"] = True
    document["multiscales"][0]["axes"][0]["long"] = "time"
    document["omero"]["channels"][0]["lamp"] = {"power": 3}
    (source / ".zattrs").write_text(json.dumps(document))
    (source / "0" / ".zattrs").touch()
    tables = source / "tables" / "rois"
    tables.mkdir(parents=True)
    (tables / ".zgroup").write_text('{"zarr_format": 2}')
    (tables / "data.csv").write_bytes(b"a,b\n1,2\n")
    (source / "labels" / "notes.txt").write_text("by hand")
    made = tmp_path / "made.ome.zarr"
    convert(source, made, **asked)
    new = json.loads((made / "zarr.json").read_text())["attributes"]
    assert new["mine"] == document["mine"]
    entry = new["ome"]["multiscales"][0]
    assert entry["theirs"] == "kept"
    assert entry["datasets"][0]["hers"] is True
    if "axes" in entry:  # 0.6 has them in coordinate systems
        assert entry["axes"][0]["long"] == "time"
    assert new["ome"]["omero"]["channels"][0]["lamp"] == {"power": 3}
    for name in ("tables/rois/.zgroup", "tables/rois/data.csv", "labels/notes.txt"):
        assert (made / name).read_bytes() == (source / name).read_bytes()


def test_chunks_shards_and_codec(sources, tmp_path) -> None:
    made = tmp_path / "made.ome.zarr"
    convert(
        sources["0.4"], made, chunks="y=100,x=64", shards="y=200,x=256", codec="zstd:3"
    )
    array = zarr.open_group(str(made), mode="r")["0"]
    assert array.chunks == (1, 1, 100, 64)
    assert array.shards == (1, 1, 200, 256)
    assert [type(c).__name__ for c in array.compressors] == ["ZstdCodec"]
    for name in ARRAYS:
        assert np.array_equal(pixels_of(sources["0.4"], name), pixels_of(made, name))
    assert errors_of(made) == []
    back = tmp_path / "back.ome.zarr"
    convert(made, back, to_version="0.4", codec="gzip")
    for name in ARRAYS:
        assert np.array_equal(pixels_of(sources["0.4"], name), pixels_of(back, name))
    assert errors_of(back) == []
    assert zarr.open_group(str(back), mode="r")["0"].chunks == (1, 1, 100, 64)


def test_units_are_small_and_cover_everything(sources, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(array_task, "CODED", 40_000)
    monkeypatch.setattr(array_task, "KEPT", 200_000)
    asked_for = ({}, {"chunks": "y=70,x=50"}, {"shards": "y=512"})
    for number, asked in enumerate(asked_for):
        made = tmp_path / f"{number}.ome.zarr"
        result = convert(sources["0.4"], made, **asked)
        assert result.units > 20
        for name in ARRAYS:
            before = pixels_of(sources["0.4"], name)
            assert np.array_equal(before, pixels_of(made, name))


@pytest.mark.default_cases(
    "0.4-0.1", "0.4-0.4", "0.4-0.5", "0.4-0.6", "0.5-0.2", "0.6-0.3"
)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("target", ["0.4", "0.5", "0.6"])
def test_a_crop_keeps_pixels_where_they_are(sources, tmp_path, version, target) -> None:
    made = tmp_path / "made.ome.zarr"
    crop = {"x": (101, 400), "y": slice(20, None), "t": 1}
    convert(sources[version], made, to_version=target, crop=crop)
    assert errors_of(made) == []
    old, new = napari_ngff.open(sources[version]), napari_ngff.open(made)
    place = [slice(None)] * old.levels[0].ndim
    place[0], place[-2], place[-1] = slice(1, 2), slice(20, 300), slice(101, 400)
    whole = np.asarray(old.levels[0])
    assert np.array_equal(np.asarray(new.levels[0]), whole[tuple(place)])
    # Coarser levels are made again, where the crop is.
    first = whole[tuple(place)]
    levels = napari_ngff.open_pyramid(napari_ngff.open_node(made)).multiscale.levels
    for number, (level, before) in enumerate(
        zip(levels, conversion_levels(sources[version]), strict=True)
    ):
        factors = tuple(
            2**number if n > first.ndim - 3 else 1 for n in range(first.ndim)
        )
        if number == 1:
            shape = new.levels[1].shape
            rule = LevelReduction.between_shapes(first.shape, shape, "mean", factors)
            mean = rule.reduce(first, tuple((0, n) for n in shape))
            assert np.array_equal(np.asarray(new.levels[1]), mean)
        moved = np.subtract(level.translation, before[1]) / before[0]
        assert moved[-1] == pytest.approx(101 / 2**number)
        assert moved[-2] == pytest.approx(20 / 2**number)
        assert level.scale == pytest.approx(before[0])
    ids = new.labels["nuclei"].levels
    assert np.isin(np.asarray(ids[1]), np.asarray(ids[0])).all()
    nuclei = np.asarray(old.labels["nuclei"].levels[0])
    found = np.asarray(new.labels["nuclei"].levels[0])
    label_place = [slice(None)] * nuclei.ndim
    label_place[0] = slice(1, 2)
    label_place[-2], label_place[-1] = place[-2], place[-1]
    assert np.array_equal(found, nuclei[tuple(label_place)])


def conversion_levels(path) -> list:
    """Scale and translation of each level; before 0.4 by the shapes."""
    pyramid = napari_ngff.open_pyramid(napari_ngff.open_node(path))
    if napari_ngff.open_node(path).metadata.version >= "0.4":
        return [(v.scale, v.translation) for v in pyramid.multiscale.levels]
    placed = []
    for array in pyramid.levels:
        scale = np.divide(pyramid.levels[0].shape, array.shape).round()
        placed.append((tuple(scale), tuple((scale - 1) / 2)))
    return placed


def test_labels_of_another_resolution_are_cropped_alike(tmp_path) -> None:
    source = write_image(tmp_path / "a.ome.zarr", "0.5", shape=(256, 512))
    # Level 1 of the labels becomes their finest.
    document = source / "labels" / "nuclei" / "zarr.json"
    content = json.loads(document.read_text())
    content["attributes"]["ome"]["multiscales"][0]["datasets"].pop(0)
    document.write_text(json.dumps(content))
    made = tmp_path / "made.ome.zarr"
    convert(source, made, crop="x=100:300,y=50:150")
    ids = pixels_of(source, "labels/nuclei/1")
    found = pixels_of(made, "labels/nuclei/1")
    assert np.array_equal(found, ids[25:75, 50:150])
    level = napari_ngff.open_pyramid(
        napari_ngff.open_node(made).labels().nodes[0]
    ).multiscale.levels[0]
    assert level.translation == pytest.approx((50.5 * 0.325, 100.5 * 0.325))


def test_levels_and_channels(sources, tmp_path) -> None:
    made = tmp_path / "made.ome.zarr"
    convert(sources["0.5"], made, levels="1:", channels=["Mitochondria", 0])
    assert errors_of(made) == []
    image = napari_ngff.open(made)
    assert [c.label for c in image.channels] == ["Mitochondria", "DNA"]
    before = pixels_of(sources["0.5"], "1")
    assert np.array_equal(np.asarray(image.levels[0]), before[:, [2, 0]])
    assert not (made / "0").exists()
    assert image.scales[0] == napari_ngff.open(sources["0.5"]).scales[1]


@pytest.mark.default_cases("0.5")
@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_a_plate_with_labels_and_some_of_its_wells(tmp_path, version) -> None:
    other = {"0.4": "0.5", "0.5": "0.4"}[version]
    source = write_plate(
        tmp_path / "plate.ome.zarr", other, grid=(2, 3), fields=2, shape=(64, 64)
    )
    (source / "A" / "notes.txt").write_text("of the row")
    made = tmp_path / "made.ome.zarr"
    convert(source, made, to_version=version)
    assert errors_of(made) == []
    validate_yaozarrs(made)
    validate_models(made, version)
    old, new = napari_ngff.open(source), napari_ngff.open(made)
    assert list(new.wells) == list(old.wells)
    for path, well in old.wells.items():
        for field in well.fields:
            name = f"{path}/{field}/0"
            assert np.array_equal(pixels_of(source, name), pixels_of(made, name))
            assert list(new.wells[path].fields[field].labels) == list(
                well.fields[field].labels
            )
    assert (made / "A" / "notes.txt").read_text() == "of the row"
    some = tmp_path / "some.ome.zarr"
    convert(source, some, to_version=version, wells="B*,A2", crop="x=10:42")
    assert errors_of(some) == []
    assert list(napari_ngff.open(some).wells) == [
        path for path in old.wells if path[0] == "B" or path == "A/2"
    ]
    assert sorted(p.name for p in (some / "A").iterdir() if p.is_dir()) == ["2"]
    assert np.array_equal(
        pixels_of(some, "A/2/0/0"), pixels_of(source, "A/2/0/0")[..., 10:42]
    )


def test_a_collection_and_its_xml(tmp_path) -> None:
    source = tmp_path / "many.zarr"
    source.mkdir()
    for name in "01":
        write_image(source / name, "0.4", shape=(64, 64))
    (source / ".zgroup").write_text('{"zarr_format": 2}')
    (source / ".zattrs").write_text('{"bioformats2raw.layout": 3}')
    (source / "OME").mkdir()
    (source / "OME" / ".zgroup").write_text('{"zarr_format": 2}')
    (source / "OME" / ".zattrs").write_text('{"series": ["0", "1"]}')
    (source / "OME" / "METADATA.ome.xml").write_text("<OME/>")
    made = tmp_path / "made.zarr"
    convert(source, made)
    assert errors_of(made) == []
    assert list(napari_ngff.open(made).images) == ["0", "1"]
    assert (made / "OME" / "METADATA.ome.xml").read_text() == "<OME/>"
    assert np.array_equal(pixels_of(source, "1/0"), pixels_of(made, "1/0"))


def test_archives_on_both_sides(sources, tmp_path) -> None:
    file = tmp_path / "cells.ozx"
    convert(sources["0.4"], file, shards="auto")
    assert errors_of(file) == []
    back = tmp_path / "back.ome.zarr"
    convert(file, back, to_version="0.4")
    for name in ARRAYS:
        assert np.array_equal(pixels_of(sources["0.4"], name), pixels_of(back, name))
    with pytest.raises(ValueError, match=r"0\.5 or newer"):
        convert(sources["0.4"], tmp_path / "old.ozx", to_version="0.4")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["back.ome.zarr", "cells.ozx"]


# --- never half


def stop_after(count: int):
    """Make a progress that gives up."""
    calls = []

    def progress(done: int, total: int) -> None:
        calls.append((done, total))
        if len(calls) == count:
            raise KeyboardInterrupt

    return progress


def test_a_conversion_of_an_older_version_is_not_continued(sources, tmp_path) -> None:
    made = tmp_path / "made.ome.zarr"
    with pytest.raises(KeyboardInterrupt):
        convert(sources["0.4"], made, progress=stop_after(6))
    (partial,) = tmp_path.iterdir()
    settings = json.loads((partial / "settings.json").read_text())
    # Plans had other lines.
    del settings["plan"]
    (partial / "settings.json").write_text(json.dumps(settings))
    with pytest.raises(ValueError, match="other settings"):
        convert(sources["0.4"], made, resume=True)


@pytest.mark.parametrize("asked", [{}, {"codec": "gzip"}], ids=["kept", "coded"])
def test_a_stopped_conversion_is_continued(
    sources, tmp_path, monkeypatch, asked
) -> None:
    monkeypatch.setattr(array_task, "CODED", 100_000)
    monkeypatch.setattr(array_task, "KEPT", 100_000)
    made = tmp_path / "made.ome.zarr"
    with pytest.raises(KeyboardInterrupt) as caught:
        convert(sources["0.4"], made, progress=stop_after(6), **asked)
    assert "--resume" in caught.value.__notes__[0]
    (partial,) = tmp_path.iterdir()
    assert not made.exists()
    # No reader takes what is there for an image.
    for place in (partial, partial / "new"):
        with pytest.raises(napari_ngff.OMEZarrError):
            napari_ngff.open(place)
    written = []
    put = FolderStore.put_new
    monkeypatch.setattr(
        FolderStore, "put_new", lambda *a: written.append(a[1]) or put(*a)
    )
    with pytest.raises(ValueError, match="other settings"):
        convert(sources["0.4"], made, resume=True, crop="t=0", **asked)
    # One finished object is damaged meanwhile: only its unit is done again.
    chunks = [p for p in (partial / "new").rglob("*") if "c" in p.parts and p.is_file()]
    chunks = [p for p in chunks if p.name != "zarr.json"]
    assert chunks
    chunks[0].write_bytes(b"broken")
    convert(sources["0.4"], made, resume=True, **asked)
    key = chunks[0].relative_to(partial / "new").as_posix()
    assert key in written
    assert len(set(written)) == len(written)
    assert 0 < len(written) < len(files_of(made))
    assert [p.name for p in tmp_path.iterdir()] == ["made.ome.zarr"]
    for name in ARRAYS:
        assert np.array_equal(pixels_of(sources["0.4"], name), pixels_of(made, name))


PLACES = [
    (PurePosixPath("/data/a.zarr"), PurePosixPath("/data/a.zarr/b.zarr"), True),
    (PurePosixPath("/data/a.zarr"), PurePosixPath("/data/a.zarr2"), False),
    (PureWindowsPath(r"C:\data\a.zarr"), PureWindowsPath(r"C:\data\a.zarr\b"), True),
    (PureWindowsPath(r"C:\data\a.zarr"), PureWindowsPath(r"c:\DATA\A.zarr"), True),
    (PureWindowsPath(r"C:\data\a.zarr"), PureWindowsPath(r"D:\data\a.zarr\b"), False),
    (PurePosixPath("s3://b/a.zarr"), PurePosixPath("s3://b/a.zarr/c.zarr"), True),
    (PurePosixPath("s3://b/a.zarr"), PurePosixPath("s3://c/a.zarr/c.zarr"), False),
]


@pytest.mark.parametrize(("one", "other", "nested"), PLACES)
def test_a_place_inside_of_another_is_known_on_each_system(one, other, nested) -> None:
    assert are_nested(one, other) == are_nested(other, one) == nested


def test_without_resume_it_begins_again(sources, tmp_path) -> None:
    made = tmp_path / "made.ome.zarr"
    with pytest.raises(KeyboardInterrupt):
        convert(sources["0.4"], made, progress=stop_after(1), codec="gzip")
    convert(sources["0.4"], made)
    assert errors_of(made) == []
    assert [p.name for p in tmp_path.iterdir()] == ["made.ome.zarr"]


def test_nothing_is_replaced_unasked(sources, tmp_path) -> None:
    made = write_image(tmp_path / "made.ome.zarr", shape=(64, 64))
    before = files_of(made)
    with pytest.raises(FileExistsError, match="already exists"):
        convert(sources["0.4"], made)
    assert files_of(made) == before
    with pytest.raises(ValueError, match="inside of each other"):
        convert(made, made / "inner.ome.zarr")
    with pytest.raises(KeyboardInterrupt):
        convert(sources["0.4"], made, overwrite=True, progress=stop_after(1))
    assert files_of(made) == before
    convert(sources["0.4"], made, overwrite=True)
    assert np.array_equal(pixels_of(made, "0"), pixels_of(sources["0.4"], "0"))
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.txt").write_text("")
    with pytest.raises(FileExistsError, match="not a zarr"):
        convert(sources["0.4"], folder, overwrite=True)


def test_a_folder_of_others_is_never_emptied(sources, tmp_path) -> None:
    mine = tmp_path / ".made.ome.zarr.partial"
    mine.mkdir()
    (mine / "thesis.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not of a conversion"):
        convert(sources["0.4"], tmp_path / "made.ome.zarr")
    assert (mine / "thesis.txt").read_text() == "mine"


def break_chunk(source: Path, tmp_path: Path) -> Path:
    broken = tmp_path / "broken.ome.zarr"
    shutil.copytree(source, broken)
    (broken / "0/0/1/0/0").write_bytes(b"no chunk")
    return broken


def test_unreadable_chunks(sources, tmp_path) -> None:
    broken = break_chunk(sources["0.4"], tmp_path)
    made = tmp_path / "made.ome.zarr"
    with pytest.raises(ChunkError, match="0/0/1/0/0"):
        convert(broken, made, codec="gzip")
    assert not made.exists()
    result = convert(broken, made, codec="gzip", unreadable="skip")
    assert len(result.problems) == 1
    assert "0/0/1/0/0" in result.problems[0]
    found, before = pixels_of(made, "0"), pixels_of(sources["0.4"], "0")
    size = zarr.open_group(str(sources["0.4"]), mode="r")["0"].chunks
    lost = (0, 1, slice(size[2]), slice(size[3]))
    assert not found[lost].any()
    before[lost] = 0
    assert np.array_equal(found, before)
    # Where bytes are copied, they stay as they are.
    kept = tmp_path / "kept.ome.zarr"
    assert convert(broken, kept).problems == ()
    assert (kept / "0/c/0/1/0/0").read_bytes() == b"no chunk"


def test_no_more_problems_than_the_limit(tmp_path, monkeypatch) -> None:
    wells = {"A1", "A2", "B1", "B3"}
    plate = write_plate(
        tmp_path / "a.ome.zarr", grid=(2, 3), shape=(64, 64), wells=wells
    )
    for well in ("A/1", "A/2", "B/3"):
        shutil.rmtree(plate / well)
    chunks = [path for path in (plate / "B/1").rglob("c/*") if path.is_file()]
    chunks += [path for path in (plate / "B/1").rglob("c/**/*") if path.is_file()]
    for path in chunks:
        path.write_bytes(b"no chunk")
    for most in (1, 4, 9):
        monkeypatch.setattr(conversion, "MOST_PROBLEMS", most)
        made = tmp_path / f"{most}.ome.zarr"
        result = convert(plate, made, codec="gzip", unreadable="skip")
        assert len(result.problems) == most


def test_a_source_that_changes_is_noticed(sources, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(array_task, "KEPT", 100_000)
    source = tmp_path / "source.ome.zarr"
    shutil.copytree(sources["0.4"], source)
    made = tmp_path / "made.ome.zarr"
    first = source / "0/0/0/0/0"
    changed = first.read_bytes()
    shutil.copy(source / "0/0/1/0/0", tmp_path / "other")

    def progress(done: int, total: int) -> None:
        # A part of no bytes, such as a document, may come after the last pixels.
        if done == total and (tmp_path / "other").exists():
            os.replace(tmp_path / "other", first)

    with pytest.raises(ConflictError, match="changed while"):
        convert(source, made, progress=progress)
    assert not made.exists()
    convert(source, made, resume=True)
    assert (made / "0/c/0/0/0/0").read_bytes() != changed
    assert np.array_equal(pixels_of(source, "0"), pixels_of(made, "0"))


def test_a_full_disk(sources, tmp_path, monkeypatch) -> None:
    put, count = FolderStore.put_new, []

    def full(*given):
        count.append(0)
        if len(count) == 5:
            raise OSError(28, "No space left on device", "x")
        put(*given)

    monkeypatch.setattr(FolderStore, "put_new", full)
    made = tmp_path / "made.ome.zarr"
    with pytest.raises(OSError, match="No space left"):
        convert(sources["0.4"], made)
    assert not made.exists()
    convert(sources["0.4"], made, resume=True)
    assert np.array_equal(pixels_of(made, "0"), pixels_of(sources["0.4"], "0"))


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"crop": "q=1"}, "no axis 'q'"),
        ({"crop": "x=9000:"}, "nothing is left"),
        ({"crop": "x"}, "form x=100"),
        ({"crop": "x=5:2"}, "empty"),
        ({"levels": "9"}, "none of these"),
        ({"channels": "GFP"}, "no channel 'GFP'"),
        ({"codec": "zip"}, "Unknown codec"),
        ({"codec": "zstd:99"}, "from -7 to 22"),
        ({"chunks": "x=0"}, "not a length"),
        ({"chunks": "x=64", "shards": "x=100"}, "not whole chunks"),
        ({"shards": "auto", "to_version": "0.4"}, "no shards"),
        ({"to_version": "0.3"}, "choose one of"),
        ({"unreadable": "maybe"}, "choose one of"),
    ],
)
def test_wrong_words_leave_nothing(sources, tmp_path, asked, text) -> None:
    with pytest.raises(ValueError, match=text):
        convert(sources["0.5"], tmp_path / "made.ome.zarr", **asked)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("word", ["version", "chunk", "chanels", "Crop", "progres"])
def test_no_unknown_word_is_ignored(sources, tmp_path, word) -> None:
    with pytest.raises(TypeError, match=word):
        convert(sources["0.5"], tmp_path / "made.ome.zarr", **{word: "0.6"})
    assert list(tmp_path.iterdir()) == []


def test_an_address_is_not_written(sources) -> None:
    with pytest.raises(UnsupportedError, match="not a folder or file"):
        convert(sources["0.5"], "https://host/a.ome.zarr")
    with pytest.raises(UnsupportedError, match="on this computer"):
        convert(sources["0.5"], "s3://bucket/a.ozx")


def test_progress_ends_with_everything(sources, tmp_path) -> None:
    seen = []
    result = convert(
        sources["0.5"], tmp_path / "a.ome.zarr", progress=lambda *at: seen.append(at)
    )
    assert seen[-1] == (result.nbytes, result.nbytes)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert conversion.MOST_PROBLEMS > 0


# --- other processes

SCRIPT = """
import sys
from pathlib import Path, PurePosixPath, PureWindowsPath
from napari_ngff import convert
from napari_ngff.store.convert import array_task
array_task.CODED = 100_000
def progress(done, total):
    if done:
        Path(sys.argv[3]).write_text(str(done))
convert(sys.argv[1], sys.argv[2], codec="gzip:9", progress=progress, resume=True)
"""


@pytest.mark.slow
def test_a_killed_process_is_continued(sources, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(array_task, "CODED", 100_000)
    made, mark = tmp_path / "made.ome.zarr", tmp_path / "mark"
    command = [sys.executable, "-c", SCRIPT, str(sources["0.4"]), str(made), str(mark)]
    for _ in range(2):
        mark.unlink(missing_ok=True)
        with subprocess.Popen(command) as process:
            until(lambda: mark.exists() or process.poll() is not None)
            process.kill()
        assert process.returncode == -9
        assert not made.exists()
    written = []
    put = FolderStore.put_new
    monkeypatch.setattr(
        FolderStore, "put_new", lambda *a: written.append(a[1]) or put(*a)
    )
    result = convert(sources["0.4"], made, codec="gzip:9", resume=True)
    # Some units were finished by the processes that were killed.
    chunks = [key for key in files_of(made) if "/c/" in key]
    assert sum(1 for key in written if "/c/" in key) < len(chunks)
    assert result.units > 20
    assert errors_of(made) == []
    for name in ARRAYS:
        assert np.array_equal(pixels_of(sources["0.4"], name), pixels_of(made, name))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["made.ome.zarr", "mark"]


def test_a_running_conversion_is_not_disturbed(sources, tmp_path) -> None:
    made = tmp_path / "made.ome.zarr"

    def progress(done: int, total: int) -> None:
        for resume in (False, True):
            with pytest.raises(ConflictError, match="Another process"):
                convert(sources["0.4"], made, resume=resume)

    convert(sources["0.4"], made, progress=progress)
    assert errors_of(made) == []


@pytest.mark.default_cases("synchronous", "threads")
@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_any_scheduler_of_dask(sources, tmp_path, scheduler) -> None:
    made = tmp_path / "made.ome.zarr"
    convert(sources["0.4"], made, codec="gzip", scheduler=scheduler)
    for name in ARRAYS:
        assert np.array_equal(pixels_of(sources["0.4"], name), pixels_of(made, name))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_cluster_loses_a_worker(tmp_path) -> None:
    distributed = pytest.importorskip("distributed")
    source = write_plate(
        tmp_path / "plate.ome.zarr", "0.4", grid=(4, 4), fields=2, shape=(64, 64)
    )
    made = tmp_path / "made.ome.zarr"
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        first = next(iter(cluster.workers.values())).pid
        killed = []

        def progress(done: int, total: int) -> None:
            if not killed and done > total // 4:
                killed.append(os.kill(first, signal.SIGKILL))

        result = convert(
            source,
            made,
            codec="gzip",
            progress=progress,
            scheduler=cluster.scheduler_address,
        )
        assert killed
        with cluster.get_client() as client:
            again = convert(
                source, tmp_path / "again.ome.zarr", wells="A1", scheduler=client
            )
    assert result.problems == again.problems == ()
    assert errors_of(made) == []
    old = napari_ngff.open(source)
    for path, well in old.wells.items():
        for field in well.fields:
            for name in (f"{path}/{field}/0", f"{path}/{field}/labels/nuclei/0"):
                assert np.array_equal(pixels_of(source, name), pixels_of(made, name))


# --- plans


def test_memory_of_a_plan_does_not_grow_with_chunks(tmp_path) -> None:
    peaks = []
    for count in (10_000, 1_000_000):
        source = tmp_path / f"{count}.ome.zarr"
        write_image(source, "0.5", shape=(64, 64))
        document = source / "0" / "zarr.json"
        content = json.loads(document.read_text())
        # Each chunk is one unit: 64 MB of voxels, of which none is stored.
        content["shape"] = [1, 4096 * 4, 2048 * count]
        content["chunk_grid"]["configuration"]["chunk_shape"] = [1, 4096 * 4, 2048]
        document.write_text(json.dumps(content))
        node = napari_ngff.open_node(source)
        request = read_request({"levels": "0"})
        plan = ConversionPlan(node, request)
        tracemalloc.start()
        try:
            tasks = list(plan.list_tasks())
            arrays = [t for t in tasks if isinstance(t, ArrayTask)]
            found = max(task.count for task in arrays)
            task = next(task for task in arrays if task.count == found)
            units = sum(1 for index in range(0, found, 97) if task.unit_box(index))
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert found == count
        assert units == -(-count // 97)
    assert peaks[1] < 1.5 * peaks[0] + 100_000


def test_wells_of_an_image_are_refused(tmp_path) -> None:
    source = write_image(tmp_path / "cells.ome.zarr", "0.5", shape=(64, 64))
    made = tmp_path / "made.ome.zarr"
    with pytest.raises(ValueError, match="is not a plate, and has no wells"):
        convert(source, made, wells="A1")
    assert [path.name for path in tmp_path.iterdir()] == ["cells.ome.zarr"]


def test_what_is_beside_the_source_is_named(tmp_path) -> None:
    source = write_image(tmp_path / "cells.ome.zarr", "0.5", shape=(64, 64))
    for name in (
        "cells.ome.zarr.annotation.json",
        "cells.tif",
        "cells.ozx.annotation.json",
        "other.labels.ome.zarr",
    ):
        (tmp_path / name).write_text("{}")
    result = convert(source, tmp_path / "made.ome.zarr")
    assert result.notes == (
        "Not copied, since it is beside the source: cells.ome.zarr.annotation.json.",
    )
