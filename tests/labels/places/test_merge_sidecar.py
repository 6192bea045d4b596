"""Labels of a sidecar get into their image whole, or not at all."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr

from napari_ngff.cli import main
from napari_ngff.errors import (
    ConflictError,
    CorruptDataError,
    NodeNotFoundError,
    NotOMEZarrError,
    UnsupportedError,
)
from napari_ngff.labels.create_labels import create_labels
from napari_ngff.labels.places.copy_labels import LabelCopy
from napari_ngff.labels.places.merge_sidecar import merge
from napari_ngff.labels.places.sidecar import (
    choose_location,
    open_sidecars,
    remember_sidecar,
    sidecar_location,
)
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.write import exchange
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.samples import write_image, write_plate

VERSIONS = ["0.4", "0.5", "0.6"]


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    for version in ["0.3", *VERSIONS]:
        shape = (2, 80, 96) if version >= "0.4" else (80, 96)
        write_image(folder / f"{version}.ome.zarr", version, shape=shape, chunk=32)
    write_plate(folder / "plate.ome.zarr", grid=(1, 2), shape=(64, 64))
    return folder


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def copy(samples, tmp_path):
    def copied(name, to=None):
        return shutil.copytree(samples / name, tmp_path / (to or name))

    return copied


def annotate(path, name="mine", seed=1, folder=None, sidecar=True):
    """Make labels with something in each chunk, at every level; in a sidecar."""
    image = open_node(path)
    home = sidecar_location(image, folder) if sidecar else choose_location(image, False)
    made = create_labels(image, name, np.dtype("u2"), 0, home)
    made.register()
    for number, level in enumerate(made.multiscale.levels):
        where = f"{home.source.name}/{home.path_of(name)}/{level.path}"
        array = zarr.open_array(where, mode="r+")
        rng = np.random.default_rng(seed + number)
        array[...] = rng.integers(0, 500, array.shape)
    remember_sidecar(image, home)
    return Path(home.source.name)


def levels(path, name):
    label = open_node(path).child(name)
    return [
        zarr.open_array(f"{label.location}/{level.path}", mode="r")[...]
        for level in label.metadata.image.multiscales[0].levels
    ]


def same(one, other):
    return len(one) == len(other) and all(map(np.array_equal, one, other))


def files_below(folder):
    return {p: p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


@pytest.mark.parametrize("version", VERSIONS)
def test_labels_are_merged_pixel_by_pixel(copy, version, capsys):
    path = copy(f"{version}.ome.zarr")
    sidecar = annotate(path)
    annotate(path, "other", 9)
    others = files_below(path / "labels" / "nuclei")
    merged = merge(sidecar)
    assert [one.name for one in merged] == ["mine", "other"]
    for name in ("mine", "other"):
        assert same(levels(path, f"labels/{name}"), levels(sidecar, name))
    names = [node.name for node in open_node(path).labels().nodes]
    assert names == ["nuclei", "cells", "mine", "other"]
    label = open_node(path).child("labels/mine")
    assert label.metadata.image.label.source == "../../"
    assert main(["check", str(path)]) == 0
    assert files_below(path / "labels" / "nuclei") == others
    assert sidecar.is_dir()
    assert not list(path.rglob(".*merging*"))


@pytest.mark.parametrize("pair", [("0.4", "0.5"), ("0.5", "0.4"), ("0.5", "0.6")])
def test_the_format_becomes_that_of_the_image(copy, pair):
    first, second = pair
    path = copy(f"{first}.ome.zarr")
    sidecar = annotate(path)
    target = copy(f"{second}.ome.zarr")
    merge(sidecar, target)
    assert same(levels(target, "labels/mine"), levels(sidecar, "mine"))
    label = open_node(target).child("labels/mine")
    assert label.zarr_format == (2 if second == "0.4" else 3)
    assert label.metadata.version == second
    assert main(["check", str(target)]) == 0


def test_fields_of_a_plate_get_theirs(copy):
    path = copy("plate.ome.zarr")
    wells = [well.path for well in open_node(path).metadata.plate.wells]
    for number, well in enumerate(wells):
        sidecar = annotate(path / well / "0", "mine", number)
    moved = path.rename(path.parent / "moved.ome.zarr")
    with pytest.raises(NodeNotFoundError, match="Name the image"):
        merge(sidecar)
    merge(sidecar, moved, remove=True)
    for well in wells:
        names = [node.name for node in open_node(moved / well / "0").labels().nodes]
        assert "mine" in names
    assert not sidecar.exists()
    assert main(["check", str(moved)]) == 0


def test_a_name_that_is_taken_is_refused_replaced_or_changed(copy):
    path = copy("0.5.ome.zarr")
    sidecar = annotate(path, "nuclei")
    before = files_below(path)
    with pytest.raises(FileExistsError, match=r"image nuclei .* already exists"):
        merge(sidecar)
    assert files_below(path) == before
    merge(sidecar, name="mine")
    assert same(levels(path, "labels/mine"), levels(sidecar, "nuclei"))
    merge(sidecar, overwrite=True)
    assert same(levels(path, "labels/nuclei"), levels(sidecar, "nuclei"))
    names = [node.name for node in open_node(path).labels().nodes]
    assert names == ["nuclei", "cells", "mine"]
    assert sorted(os.listdir(path / "labels")) == sorted([*names, "zarr.json"])
    with pytest.raises(NotOMEZarrError, match="has no label image lacking"):
        merge(sidecar, labels=["lacking"])


def test_what_was_merged_is_removed_where_that_is_asked_for(copy, tmp_path):
    path = copy("0.5.ome.zarr")
    sidecar = annotate(path, folder=tmp_path / "chosen")
    annotate(path, "other", folder=tmp_path / "chosen")
    merge(sidecar, labels=["mine"], remove=True)
    assert list(open_sidecars(open_node(path)).labels) == ["other"]
    (sidecar / "notes.txt").write_text("of the user")
    merge(sidecar, remove=True)
    assert (sidecar / "notes.txt").exists()
    assert not open_sidecars(open_node(path)).labels


@pytest.mark.parametrize("number", [1, 2])
def test_a_sidecar_that_is_saved_into_while_it_is_merged_stays(
    copy, monkeypatch, number
):
    path = copy("0.5.ome.zarr")
    sidecar = annotate(path)
    if number == 2:
        annotate(path, "other")
    compare = LabelCopy.compare_voxels

    def compare_then_save(self):
        compare(self)
        level = zarr.open_array(str(sidecar / "mine" / "0"), mode="r+")
        level[..., :4, :4] = 9

    monkeypatch.setattr(LabelCopy, "compare_voxels", compare_then_save)
    with pytest.raises(ConflictError, match="It was not removed"):
        merge(sidecar, labels=["mine"], remove=True)
    assert (levels(sidecar, "mine")[0][..., :4, :4] == 9).all()
    monkeypatch.undo()
    merge(sidecar, labels=["mine"], overwrite=True, remove=True)
    assert (levels(path, "labels/mine")[0][..., :4, :4] == 9).all()


def test_archives_old_versions_and_urls_are_refused_clearly(copy, tmp_path):
    path = copy("0.5.ome.zarr")
    archive = tmp_path / "cells.ozx"
    pack_hierarchy(path, archive)
    sidecar = annotate(archive)
    with pytest.raises(UnsupportedError, match="into a folder only"):
        merge(sidecar)
    merge(sidecar, path)
    old = annotate(copy("0.3.ome.zarr"))
    with pytest.raises(UnsupportedError, match=r"Convert it to 0\.4"):
        merge(old)
    document = sidecar / "mine" / "zarr.json"
    content = json.loads(document.read_text())
    url = "https://example.org/cells.ome.zarr"
    content["attributes"]["ome"]["image-label"]["source"]["image"] = url
    document.write_text(json.dumps(content))
    with pytest.raises(UnsupportedError, match="Download it"):
        merge(sidecar)


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_consolidated_metadata_of_the_image_know_what_was_merged(copy, version):
    path = copy(f"{version}.ome.zarr")
    sidecar = annotate(path, "nuclei")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(str(path))
    for name in ("mine", None):
        merge(sidecar, name=name, overwrite=True)
        group = zarr.open_group(str(path), mode="r", use_consolidated=True)
        array = group[f"labels/{name or 'nuclei'}/0"][...]
        assert same([array], levels(sidecar, "nuclei")[:1])
        document = zarr.open_group(str(path / "labels"), mode="r").attrs.asdict()
        assert group["labels"].attrs.asdict() == document


def test_labels_of_an_image_are_no_sidecar(copy):
    path = copy("0.5.ome.zarr")
    before = files_below(path)
    for place in (path, path / "labels", path / "labels" / "nuclei"):
        with pytest.raises(NotOMEZarrError, match="is not a sidecar"):
            merge(place, path, overwrite=True, remove=True)
    assert files_below(path) == before


def test_labels_of_another_size_are_refused(copy, tmp_path):
    sidecar = annotate(copy("0.5.ome.zarr"))
    write_image(tmp_path / "other.ome.zarr", shape=(2, 200, 96), chunk=32)
    with pytest.raises(UnsupportedError, match="belongs to another image"):
        merge(sidecar, tmp_path / "other.ome.zarr")


def test_a_sidecar_in_an_archive_is_merged_too(copy, tmp_path):
    path = copy("0.5.ome.zarr")
    sidecar = annotate(path)
    pack_hierarchy(sidecar, tmp_path / "sent.ozx")
    merge(tmp_path / "sent.ozx", path)
    assert same(levels(path, "labels/mine"), levels(sidecar, "mine"))


def test_a_block_that_cannot_be_read_leaves_the_image_as_it_was(copy):
    path = copy("0.5.ome.zarr")
    sidecar = annotate(path)
    block = next(
        p for p in (sidecar / "mine/0").rglob("*") if p.is_file() and p.name == "0"
    )
    block.write_bytes(b"broken")
    before = files_below(path)
    with pytest.raises(CorruptDataError):
        merge(sidecar)
    assert files_below(path) == before


def test_the_command(copy, capsys):
    path = copy("0.5.ome.zarr")
    sidecar = annotate(path)
    assert main(["merge", str(sidecar)]) == 0
    assert str(path / "labels/mine") in capsys.readouterr().out
    # As after one that was interrupted in the end.
    assert main(["merge", str(sidecar)]) == 0
    assert str(path / "labels/mine") in capsys.readouterr().out
    zarr.open_array(str(sidecar / "mine" / "0"), mode="r+")[..., :4, :4] = 9
    assert main(["merge", str(sidecar)]) == 1
    assert "already" in capsys.readouterr().err
    assert main(["merge", str(sidecar), "--name", "__no"]) == 1
    assert main(["merge", str(sidecar), "--overwrite", "--remove"]) == 0
    assert not sidecar.exists()


PROGRAM = """
import sys
from napari_ngff.labels.places.merge_sidecar import merge
print("ready", flush=True)
sys.stdin.readline()
merge(sys.argv[1], overwrite=True)
print("done", flush=True)
"""


def merging(sidecar, data):
    """Start a process that merges when it is told to."""
    environment = {**os.environ, "XDG_DATA_HOME": str(data)}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(sidecar)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.long
def test_a_merge_that_is_killed_leaves_the_image_valid(copy, tmp_path):
    path = copy("0.5.ome.zarr")
    annotate(path, "mine", 1, sidecar=False)
    old = levels(path, "labels/mine")
    sidecar = annotate(path, "mine", 50)
    new = levels(sidecar, "mine")
    process = merging(sidecar, tmp_path / "data")
    spent = time.perf_counter()
    process.communicate("\n")
    took = max(time.perf_counter() - spent, 0.05)
    assert same(levels(path, "labels/mine"), new)
    seen = set()
    for number in range(18):
        shutil.rmtree(path / "labels" / "mine")
        annotate_again = open_node(path)
        made = create_labels(annotate_again, "mine", np.dtype("u2"))
        made.register()
        for level, pixels in zip(made.arrays, old, strict=True):
            zarr.open_array(f"{path}/{level.path}", mode="r+")[...] = pixels
        process = merging(sidecar, tmp_path / "data")
        process.stdin.write("\n")
        process.stdin.flush()
        time.sleep(took * number / 15)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert main(["check", str(path)]) == 0
        names = [node.name for node in open_node(path).labels().nodes]
        assert names[:2] == ["nuclei", "cells"]
        if "mine" in names:
            now = levels(path, "labels/mine")
            assert same(now, old) or same(now, new)
            seen.add("new" if same(now, new) else "old")
        merge(sidecar, overwrite=True)
        assert same(levels(path, "labels/mine"), new)
        left = {n for n in os.listdir(path / "labels") if not n.endswith(".aside")}
        assert left == {"cells", "mine", "nuclei", "zarr.json"}
    assert seen == {"old", "new"}


def count_down(number):
    """Kill this process at a call that changes files."""
    left = [number]

    def killing(call):
        def counted(*given, **named):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*given, **named)

        return counted

    for name in ("rename", "replace", "unlink", "rmdir", "mkdir", "write"):
        setattr(os, name, killing(getattr(os, name)))
    exchange._call_rename = killing(exchange._call_rename)


def merge_killed(sidecar, remove, trials):
    """Merge in processes each of which is killed at another call of the system."""
    for number, folder in trials:
        child = os.fork()
        if not child:
            count_down(number)
            merge(folder / sidecar, remove=remove)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            return  # it came to its end before


@pytest.mark.default_cases("some-True")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="has no processes of that kind")
@pytest.mark.parametrize("remove", [False, True])
@pytest.mark.parametrize(
    "every", [7, pytest.param(1, marks=pytest.mark.long)], ids=["some", "each"]
)
def test_a_merge_that_was_killed_goes_on_by_the_same_call(tmp_path, remove, every):
    path = tmp_path / "begin" / "image.zarr"
    path.parent.mkdir()
    write_image(path, shape=(40, 40), chunk=32)
    sidecar = annotate(path, "one")
    annotate(path, "two", 9)
    wanted = {name: levels(sidecar, name) for name in ("one", "two")}
    trials = [(number, tmp_path / str(number)) for number in range(1, 200, every)]
    for _, folder in trials:
        shutil.copytree(path.parent, folder)
    process = multiprocessing.get_context("spawn").Process(
        target=merge_killed, args=(sidecar.name, remove, trials)
    )
    process.start()
    process.join()
    assert process.exitcode == 0
    for number, folder in trials:
        image, left = folder / path.name, folder / sidecar.name
        begun = "one" in open_node(image).child("labels").metadata.labels
        gone = not left.exists()
        assert (not gone) or (remove and begun)
        # Else it was killed when all was done.
        if not gone or list(folder.rglob("*.aside")):
            merge(left, remove=remove)
        for name, pixels in wanted.items():
            assert same(levels(image, f"labels/{name}"), pixels), number
            assert remove or same(levels(left, name), pixels), number
        listed = open_node(image).child("labels").metadata.labels
        assert listed == ("nuclei", "cells", "one", "two")
        assert main(["check", str(image)]) == 0
        assert left.exists() != remove, number
        assert not list(folder.rglob("*.aside")), number


def test_labels_that_differ_or_hold_more_are_not_taken_for_merged(copy, capsys):
    path = copy("0.5.ome.zarr")
    sidecar = annotate(path)
    before = files_below(sidecar)
    merge(sidecar)
    document = path / "labels" / "mine" / "zarr.json"
    kept = document.read_text()
    changed = json.loads(kept)
    changed["attributes"]["ome"]["image-label"]["colors"] = [
        {"label-value": 1, "rgba": [1, 2, 3, 255]}
    ]
    document.write_text(json.dumps(changed))
    with pytest.raises(FileExistsError, match="already exists"):
        merge(sidecar, remove=True)
    document.write_text(kept)
    (sidecar / "mine" / "table.csv").write_text("of the user")
    with pytest.raises(UnsupportedError, match=r"mine/table.csv, which is not merged"):
        merge(sidecar, remove=True)
    (sidecar / "mine" / "table.csv").unlink()
    assert files_below(sidecar) == before
    array = zarr.open_array(str(path / "labels" / "mine" / "1"), mode="r+")
    array[..., 0, 0] = array[..., 0, 0] + 1
    with pytest.raises(FileExistsError, match="already exists"):
        merge(sidecar, remove=True)
    assert files_below(sidecar) == before


SLOW = """
import sys
from napari_ngff.labels.places.merge_sidecar import merge

def goes_on(done, total):
    if not begun:
        begun.append(1)
        print("begun", flush=True)
        sys.stdin.readline()
    return True

begun = []
merge(sys.argv[1], overwrite=True, goes_on=goes_on)
"""


@pytest.mark.long
@pytest.mark.parametrize("dies", [False, True], ids=["ends", "dies"])
def test_two_processes_do_not_merge_the_same_at_once(copy, tmp_path, dies):
    path = copy("0.5.ome.zarr")
    sidecar = annotate(path, "mine", 50)
    annotate(path, "other", 3)
    new = levels(sidecar, "mine")
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data")}
    first = subprocess.Popen(
        [sys.executable, "-c", SLOW, f"{sidecar}/mine"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    assert first.stdout.readline() == "begun\n"
    command = [sys.executable, "-m", "napari_ngff.cli", "merge", str(sidecar)]

    def second(name):
        return subprocess.run(
            [*command, "--label", name], env=environment, capture_output=True, text=True
        )

    refused = second("mine")
    assert refused.returncode == 1
    assert "is being merged" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert second("other").returncode == 0  # nobody else merges that
    if dies:
        first.kill()
        first.communicate()
        assert second("mine").returncode == 0
    else:
        first.communicate("\n")
        assert first.returncode == 0
        assert second("mine").returncode == 0
    assert same(levels(path, "labels/mine"), new)
    assert main(["check", str(path)]) == 0
    assert not list(path.rglob("*.aside"))


@pytest.mark.parametrize("step", ["exchange_paths", "rename", "add_to_list", "rmtree"])
def test_a_merge_that_is_interrupted_leaves_the_old_or_the_new(copy, monkeypatch, step):
    from napari_ngff.labels.places import merge_sidecar
    from napari_ngff.store.write import replace_tree

    path = copy("0.5.ome.zarr")
    annotate(path, "mine", 1, sidecar=False)
    old = levels(path, "labels/mine")
    sidecar = annotate(path, "mine", 50)
    new = levels(sidecar, "mine")

    def interrupted(*_, **__):
        monkeypatch.undo()  # what is done because of it is not interrupted again
        raise KeyboardInterrupt

    if step == "rename":
        monkeypatch.setattr(replace_tree, "exchange_paths", lambda *_: False)
    module = {"add_to_list": merge_sidecar, "rmtree": shutil, "rename": replace_tree.os}
    monkeypatch.setattr(module.get(step, replace_tree), step, interrupted)
    with pytest.raises(KeyboardInterrupt):
        merge(sidecar, overwrite=True)
    assert main(["check", str(path)]) == 0
    now = levels(path, "labels/mine")
    assert same(now, old if step in ("exchange_paths", "rename") else new)
    merge(sidecar, overwrite=True)
    assert same(levels(path, "labels/mine"), new)
    assert main(["check", str(path)]) == 0
    assert not list((path / "labels").glob(".*"))


@pytest.mark.parametrize(
    "name",
    ["../out", "../../../out", "a/../../out", "/out", "zarr.json", "a//b", "a\\b"],
)
def test_a_name_that_leads_out_of_the_list_is_refused(copy, tmp_path, name):
    path = copy("0.5.ome.zarr")
    place = sidecar_location(open_node(path)).source.name
    create_labels(
        open_node(path), "mine", np.dtype("u2"), 0, sidecar_location(open_node(path))
    ).register()
    shutil.rmtree(path / "labels")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match="cannot be the name of a label image"):
        merge(place, name=name)
    assert sorted(tmp_path.rglob("*")) == before
