"""Each repair does what it says, keeps the rest, and can be undone."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr

from napari_ngff import ConflictError, UnsupportedError, open_node
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.check.images import count_strangers
from napari_ngff.store.check.repair import REPAIRS, put_back, repair_problems
from napari_ngff.store.check.visit_groups import check_hierarchy
from napari_ngff.store.convert import rebuild_pyramid, work_unit
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.samples import write_image, write_plate


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return tmp_path_factory.mktemp("samples")


@pytest.fixture
def sample(samples, tmp_path):
    """Copy of a small image or plate of a version, to be broken."""

    def copy(kind, version):
        original = samples / f"{kind}-{version}.ome.zarr"
        if not original.exists() and kind == "image":
            write_image(original, version, shape=(1, 96, 128))
        elif not original.exists():
            write_plate(original, version, grid=(2, 2), shape=(64, 64), wells=["B2"])
        return Path(shutil.copytree(original, tmp_path / f"{kind}-{version}.ome.zarr"))

    return copy


def codes_of(path, **options):
    return {problem.code for _, problem in check_hierarchy(open_node(path), **options)}


def document_of(folder):
    file = folder / "zarr.json"
    return file if file.exists() else folder / ".zattrs"


def home_of(folder):
    document = json.loads(document_of(folder).read_text())
    return document["attributes"]["ome"] if "attributes" in document else document


def edit(folder, change, indent=2):
    file = document_of(folder)
    document = json.loads(file.read_text())
    change(document["attributes"]["ome"] if "attributes" in document else document)
    file.write_text(json.dumps(document, indent=indent))


def files_of(path):
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def forget_version(content):
    content.pop("version", None)
    for entry in (*content.get("multiscales", ()), content.get("omero", {})):
        entry.pop("version", None)


def forget_indices(content):
    for well in content["plate"]["wells"]:
        del well["rowIndex"]


HARM = {
    "label-unlisted": (
        "image",
        ("0.4", "0.5", "0.6"),
        lambda p: edit(p / "labels", lambda c: c["labels"].remove("cells")),
    ),
    "label-missing": (
        "image",
        ("0.4", "0.5", "0.6"),
        lambda p: edit(p / "labels", lambda c: c["labels"].append("a/ghost")),
    ),
    "well-index-missing": (
        "plate",
        ("0.4", "0.5", "0.6"),
        lambda p: edit(p, forget_indices),
    ),
    "version-missing": (
        "plate",
        ("0.4", "0.5", "0.6"),
        lambda p: edit(p / "B/2/0", forget_version),
    ),
    "plate-version-missing": (
        "plate",
        ("0.5",),
        lambda p: edit(p, lambda c: c["plate"].pop("version")),
    ),
    "well-version-missing": (
        "plate",
        ("0.5",),
        lambda p: edit(p / "B/2", lambda c: c["well"].pop("version")),
    ),
    "label-version-missing": (
        "image",
        ("0.4", "0.5"),
        lambda p: edit(p / "labels/cells", lambda c: c["image-label"].pop("version")),
    ),
}
"""Code -> a sample, versions, and what its repair makes good."""


@pytest.mark.parametrize(
    ("code", "version"),
    [(code, version) for code, case in HARM.items() for version in case[1]],
)
def test_a_repair_makes_it_valid_and_can_be_undone(sample, code, version):
    kind, _, harm = HARM[code]
    path = sample(kind, version)
    whole = files_of(path)
    harm(path)
    harmed = files_of(path)
    assert codes_of(path) == {code}
    (done,) = repair_problems(open_node(path), code)
    assert codes_of(path) == set()
    assert Path(done.kept).exists()
    assert codes_of(path) == set()  # what is kept is in nobody's way
    assert put_back(open_node(path), done.kept) == done.path
    assert files_of(path) == harmed
    (done,) = repair_problems(open_node(path), code)
    done.delete_old()
    assert files_of(path).keys() == whole.keys()
    assert repair_problems(open_node(path), code) == ()


def test_every_repair_is_tested():
    assert {*HARM, "label-levels-interpolated"} == REPAIRS.keys()


def test_unknown_keys_and_the_form_of_the_text_are_kept(sample):
    path = sample("image", "0.5")
    edit(
        path / "labels", lambda c: c.update(labels=["nuclei"], ours={"µ": [1.0]}), "\t"
    )
    file = path / "labels" / "zarr.json"
    before = file.read_text()
    repair_problems(open_node(path), "label-unlisted")
    after = file.read_text()
    added = after.replace('\t\t\t\t"nuclei",\n\t\t\t\t"cells"', '\t\t\t\t"nuclei"')
    assert added == before != after


def test_only_what_is_not_there_is_dropped(sample):
    path = sample("image", "0.5")
    edit(path / "labels", lambda c: c["labels"].append("ghost"))
    (path / "labels" / "cells" / "zarr.json").write_text("{")
    repair_problems(open_node(path), "label-missing")
    assert home_of(path / "labels")["labels"] == ["nuclei", "cells"]


def test_wells_whose_path_says_nothing_stay(sample):
    path = sample("plate", "0.5")
    wells = [{"path": "B/2"}, {"path": "Z/9"}]
    edit(path, lambda c: c["plate"].update(wells=wells))
    repair_problems(open_node(path), "well-index-missing")
    assert home_of(path)["plate"]["wells"] == [
        {"path": "B/2", "rowIndex": 1, "columnIndex": 1},
        {"path": "Z/9"},
    ]


def test_what_is_broken_beside_does_not_matter(sample):
    path = sample("plate", "0.5")
    wells = [{"path": "B/2", "rowIndex": None}, 7, {"path": None}]
    edit(path, lambda c: c["plate"].update(rows=["A", {"name": "B"}], wells=wells))
    repair_problems(open_node(path), "well-index-missing")
    fixed = {"path": "B/2", "rowIndex": 1, "columnIndex": 1}
    assert home_of(path)["plate"]["wells"] == [fixed, 7, {"path": None}]
    edit(path, lambda c: c["plate"].update(rows=None, wells=wells))
    assert repair_problems(open_node(path), "well-index-missing") == ()
    edit(path, lambda c: c.update(plate=[]))
    assert repair_problems(open_node(path), "well-index-missing") == ()


def test_the_oldest_version_is_kept(sample):
    path = sample("image", "0.5")
    edit(path / "labels", lambda c: c.update(labels=["ghost"]))
    before = (path / "labels" / "zarr.json").read_bytes()
    (first,) = repair_problems(open_node(path), "label-missing")
    (second,) = repair_problems(open_node(path), "label-unlisted")
    assert first.kept == second.kept
    assert Path(first.kept).read_bytes() == before
    put_back(open_node(path), second.kept)
    put_back(open_node(path), first.kept)
    assert (path / "labels" / "zarr.json").read_bytes() == before


@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.filterwarnings("ignore:Consolidated metadata:UserWarning")
def test_consolidated_metadata_is_brought_along(sample, version):
    path = sample("image", version)
    edit(path / "labels", lambda c: c["labels"].remove("cells"))
    zarr.consolidate_metadata(str(path))
    for done in repair_problems(open_node(path), "label-unlisted"):
        done.delete_old()
    group = zarr.open_consolidated(str(path), mode="r")["labels"]
    attributes = dict(group.attrs)
    listed = attributes.get("ome", attributes)["labels"]
    assert sorted(listed) == ["cells", "nuclei"]


def test_archives_and_unknown_repairs_are_refused(sample, tmp_path):
    path = sample("image", "0.5")
    edit(path / "labels", lambda c: c["labels"].remove("cells"))
    archive = pack_hierarchy(path, tmp_path / "a.ozx")
    before = archive.read_bytes()
    with pytest.raises(UnsupportedError, match="unpack it"):
        repair_problems(open_node(archive), "label-unlisted")
    assert archive.read_bytes() == before
    with pytest.raises(UnsupportedError, match="label-unlisted"):
        repair_problems(open_node(path), "axes-order")


def test_nothing_is_left_behind_where_writing_fails(sample, monkeypatch):
    path = sample("image", "0.5")
    edit(path / "labels", lambda c: c["labels"].remove("cells"))
    before = files_of(path)

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("napari_ngff.store.write.replace_file.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        repair_problems(open_node(path), "label-unlisted")
    assert files_of(path) == before


# --- label pyramids


def levels_of(path):
    return [zarr.open_array(path / f"labels/cells/{k}") for k in range(2)]


def interpolate(path):
    """Make the coarser levels means of 2 by 2, as tools for images do."""
    for fine, coarse in zip(*[iter(levels_of(path))] * 2, strict=True):
        ids = fine[:].astype(float)
        mean = (ids[..., ::2, ::2] + ids[..., 1::2, 1::2]) / 2
        coarse[:] = mean.astype(coarse.dtype)


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_interpolated_labels_are_made_again(sample, version):
    path = sample("image", version)
    assert codes_of(path, pixels=True) == set()
    interpolate(path)
    harmed = files_of(path)
    assert codes_of(path) == set()
    assert codes_of(path, pixels=True) == {"label-levels-interpolated"}
    done = repair_problems(open_node(path), "label-levels-interpolated")
    assert [Path(replaced.path).name for replaced in done] == ["1", "2"]
    assert codes_of(path, pixels=True) == set()
    fine, coarse = levels_of(path)
    np.testing.assert_array_equal(coarse[:], fine[..., ::2, ::2])
    assert (coarse.chunks, coarse.dtype) == levels_kind(path)
    for replaced in done:
        put_back(open_node(path), replaced.kept)
    assert files_of(path) == harmed
    for replaced in repair_problems(open_node(path), "label-levels-interpolated"):
        replaced.delete_old()
    names = {f.name for f in (path / "labels/cells").iterdir() if f.is_dir()}
    assert names == {"0", "1", "2"}


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_documents_are_on_the_disk_before_the_old_level_goes(
    sample, version, monkeypatch
):
    path, flushed, fsync = sample("image", version), set(), os.fsync
    interpolate(path)

    def note_file(handle):
        flushed.add(os.fstat(handle).st_ino)
        fsync(handle)

    monkeypatch.setattr("napari_ngff.store.write.fsync.os.fsync", note_file)
    for done in repair_problems(open_node(path), "label-levels-interpolated"):
        files = [file for file in Path(done.path).rglob("*") if file.is_file()]
        assert [f.name for f in files if f.stat().st_ino not in flushed] == []


def corners_of(path):
    for number, size in enumerate((16, 8, 4)):
        level = zarr.open_array(path / f"labels/cells/{number}")
        yield level, (..., slice(size), slice(size))


def save_corner(path):
    for level, corner in corners_of(path):
        level[corner] = 77


def has_corner(path):
    return all((level[corner] == 77).all() for level, corner in corners_of(path))


def test_what_is_saved_while_levels_are_made_again_is_kept(sample, monkeypatch):
    path = sample("image", "0.5")
    interpolate(path)
    run, saved = rebuild_pyramid.run_units, []

    def run_and_save(*arguments):
        run(*arguments)
        if not saved:  # the level is written, and not in its place yet
            saved.append(path)
            save_corner(path)

    monkeypatch.setattr(rebuild_pyramid, "run_units", run_and_save)
    repair_problems(open_node(path), "label-levels-interpolated")
    assert has_corner(path)


def test_what_is_saved_while_a_block_of_a_level_is_read_is_kept(sample, monkeypatch):
    path = sample("image", "0.5")
    interpolate(path)
    read, saved = work_unit._read_voxels, []

    def read_and_save(*arguments):
        voxels = read(*arguments)
        if not saved:
            saved.append(path)
            save_corner(path)
        return voxels

    monkeypatch.setattr(work_unit, "_read_voxels", read_and_save)
    repair_problems(open_node(path), "label-levels-interpolated")
    assert has_corner(path)
    assert codes_of(path, pixels=True) == set()


def test_undoing_a_repair_keeps_labels_that_were_listed_after_it(sample):
    path = sample("image", "0.5")
    edit(path / "labels", lambda c: c["labels"].remove("cells"))
    (done,) = repair_problems(open_node(path), "label-unlisted")
    edit(path / "labels", lambda c: c["labels"].append("mine"))
    with pytest.raises(ConflictError, match=r"saved after .* is in zarr\.json\.before"):
        put_back(open_node(path), done.kept)
    assert "mine" in home_of(path / "labels")["labels"]
    # A second repair makes the first state no nearer.
    edit(path / "labels", lambda c: c["labels"].remove("cells"))
    (done,) = repair_problems(open_node(path), "label-unlisted")
    with pytest.raises(ConflictError, match="saved after"):
        put_back(open_node(path), done.kept)
    assert home_of(path / "labels")["labels"] == ["nuclei", "mine", "cells"]


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_undoing_a_repair_keeps_strokes_that_were_saved_after_it(sample, version):
    path = sample("image", version)
    interpolate(path)
    done = repair_problems(open_node(path), "label-levels-interpolated")
    save_corner(path)
    for replaced in done:
        with pytest.raises(ConflictError, match="saved after the repair"):
            put_back(open_node(path), replaced.kept)
    assert has_corner(path)


def levels_kind(path):
    fine, _ = levels_of(path)
    chunks = zarr.open_array(path / "labels/nuclei/1").chunks
    return chunks, fine.dtype


@pytest.mark.parametrize(
    ("fine", "coarse"),
    [
        ((8, 8), (4, 4)),
        ((9, 7), (5, 4)),
        ((9, 7), (4, 3)),
        ((9, 9), (3, 3)),
        ((27, 9), (6, 3)),
        ((6,), (4,)),
    ],
)
def test_no_way_of_choosing_ids_is_called_interpolated(tmp_path, fine, coarse):
    ids = np.arange(1, np.prod(fine) + 1).reshape(fine).astype("uint32")
    ways = (
        lambda n, m: np.arange(m) * n // m,
        lambda n, m: np.minimum(np.arange(m) * round(n / m), n - 1),  # stride
        lambda n, m: np.minimum(((np.arange(m) + 0.5) * n / m).astype(int), n - 1),
        lambda n, m: np.round(np.linspace(0, n - 1, m)).astype(int),  # ends on ends
    )
    for number, way in enumerate(ways):
        chosen = ids[np.ix_(*(way(n, m) for n, m in zip(fine, coarse, strict=True)))]
        found = strangers(tmp_path / str(number), ids, chosen)
        if number < 3:
            assert found == 0
        else:  # at most a voxel beside, as often as that is near enough
            assert found < chosen.size / 2
    mixed = (chosen + 0.5 * chosen.max()).astype("uint32")
    assert strangers(tmp_path / "mixed", ids, mixed) > 0


def strangers(folder, fine, coarse):
    arrays = []
    for name, ids in (("0", fine), ("1", coarse)):
        array = zarr.create_array(
            folder / name, shape=ids.shape, dtype=ids.dtype, chunks=(3,) * ids.ndim
        )
        array[:] = ids
        arrays.append(open_array(FolderStore(str(folder)), name))
    return count_strangers(*arrays)
