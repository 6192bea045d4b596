"""Whole hierarchies: what is broken in them is found, at its place, by few reads."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import threading
import zipfile
from collections import Counter
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import zarr

from napari_ngff import open_node
from napari_ngff.cli import main
from napari_ngff.metadata.model import Severity
from napari_ngff.metadata.version import VERSIONS
from napari_ngff.store.arrays import array_document
from napari_ngff.store.check.images import check_label
from napari_ngff.store.check.visit_groups import check_hierarchy
from napari_ngff.store.hierarchy.node import read_node
from napari_ngff.store.pyramids.pyramid import open_pyramid
from napari_ngff.store.sources.blob import Traits
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.samples import write_image, write_plate

ROOT = Path(__file__).parents[3]
CORPORA = Path(os.environ.get("NGFF_CORPORA", ROOT / "../shared/corpora"))


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return tmp_path_factory.mktemp("samples")


@pytest.fixture
def sample(samples, tmp_path):
    """Copy of a small image or plate of a version, to be broken."""

    def copy(kind, version):
        original = samples / f"{kind}-{version}.ome.zarr"
        if not original.exists() and kind == "image":
            write_image(original, version, shape=(2, 96, 128))
        elif not original.exists():
            write_plate(original, version, grid=(2, 2), shape=(64, 64), wells=["A1"])
        return Path(shutil.copytree(original, tmp_path / original.name))

    return copy


def found_in(path, **options):
    found = check_hierarchy(open_node(path), **options)
    return sorted({(where, problem.code) for where, problem in found})


def edit(folder, change):
    """Change the attributes of a group."""
    file = folder / "zarr.json"
    if file.exists():
        document = json.loads(file.read_text())
        change(document["attributes"]["ome"])
    else:
        file = folder / ".zattrs"
        document = json.loads(file.read_text())
        change(document)
    file.write_text(json.dumps(document))


def edit_array(folder, change):
    """Change the metadata document of an array."""
    names = ("zarr.json", ".zarray")
    file = next(folder / name for name in names if (folder / name).exists())
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))


def replace_array(folder, shape=None, dtype=None):
    """Write another array in the place of one."""
    old = zarr.open_array(folder, mode="r")
    shape, dtype = shape or old.shape, dtype or old.dtype
    names = old.metadata.dimension_names if old.metadata.zarr_format == 3 else None
    names = names if names is None or len(names) == len(shape) else None
    shutil.rmtree(folder)
    zarr.create_array(
        folder,
        shape=shape,
        dtype=dtype,
        chunks=shape,
        zarr_format=old.metadata.zarr_format,
        dimension_names=names,
        **(
            {"chunk_key_encoding": {"name": "v2", "separator": "/"}}
            if not names
            else {}
        ),
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["image", "plate"])
def test_samples_break_no_rule(sample, kind, version):
    assert found_in(sample(kind, version)) == []


def set_key(key, value):
    return lambda content: content.update({key: value})


def rename_label(content):
    content["labels"].append("ghosts")


def drop_label(content):
    content["labels"].remove("cells")


BROKEN = {
    "level-unreadable": ("image", lambda p: shutil.rmtree(p / "1"), "1"),
    "level-axes": ("image", lambda p: replace_array(p / "1", (48, 64)), "1"),
    "level-empty": (
        "image",
        lambda p: edit_array(p / "1", set_key("shape", [0, 3, 48, 64])),
        "1",
    ),
    "level-dtype": ("image", lambda p: replace_array(p / "1", dtype="uint8"), "1"),
    "level-grows": ("image", lambda p: replace_array(p / "1", (9, 3, 9, 9)), "1"),
    "levels-unordered": (
        "image",
        lambda p: edit(p, lambda c: c["multiscales"][0]["datasets"].reverse()),
        "multiscales/datasets",
    ),
    "level-misplaced": ("image", lambda p: replace_array(p / "1", (2, 3, 40, 64)), "1"),
    "dimension-names": (
        "image",
        lambda p: edit_array(p / "0", lambda d: d.pop("dimension_names")),
        "0",
    ),
    "image-unreadable": (
        "image",
        lambda p: [shutil.rmtree(p / n) for n in "012" if (p / n).exists()],
        "",
    ),
    "channel-count": (
        "image",
        lambda p: edit(p, lambda c: c["omero"]["channels"].pop()),
        "",
    ),
    "version-differs": (
        "image",
        lambda p: edit(p / "labels" / "cells", set_key("version", "0.6")),
        "labels/cells",
    ),
    "label-missing": (
        "image",
        lambda p: edit(p / "labels", rename_label),
        "labels/ghosts",
    ),
    "label-unlisted": ("image", lambda p: edit(p / "labels", drop_label), "labels"),
    "labels-list-missing": (
        "image",
        lambda p: edit(p / "labels", lambda c: c.pop("labels")),
        "labels",
    ),
    "kind-missing": (
        "image",
        lambda p: edit(p / "labels" / "cells", lambda c: c.pop("multiscales")),
        "labels/cells",
    ),
    "image-label-missing": (
        "image",
        lambda p: edit(p / "labels" / "cells", lambda c: c.pop("image-label")),
        "labels/cells",
    ),
    "label-dtype": (
        "image",
        lambda p: replace_array(p / "labels" / "cells" / "0", dtype="float32"),
        "labels/cells/0",
    ),
    "label-levels": (
        "image",
        lambda p: edit(
            p / "labels" / "cells", lambda c: c["multiscales"][0]["datasets"].pop()
        ),
        "labels/cells",
    ),
    "label-shape": (
        "image",
        lambda p: replace_array(p / "labels" / "cells" / "0", (2, 90, 128)),
        "labels/cells",
    ),
    "node-unreadable": (
        "image",
        lambda p: (p / "labels" / "cells" / "zarr.json").write_text("{"),
        "labels/cells",
    ),
    "group-missing": ("plate", lambda p: shutil.rmtree(p / "A" / "1" / "1"), "A/1/1"),
    "field-count": ("plate", lambda p: edit(p, lambda c: count(c, 1)), "A/1"),
    "field-acquisition": (
        "plate",
        lambda p: edit(p, lambda c: runs(c, 5, 6)),
        "A/1",
    ),
}
"""Code -> a sample of 0.5, what is done to it, and where the problem is."""


def count(content, fields):
    content["plate"]["field_count"] = fields


def runs(content, *numbers):
    content["plate"]["acquisitions"] = [
        {"id": number, "name": str(number), "maximumfieldcount": 2}
        for number in numbers
    ]


@pytest.mark.parametrize("code", BROKEN)
def test_what_is_broken_is_found_at_its_place(sample, code):
    kind, harm, where = BROKEN[code]
    path = sample(kind, "0.5")
    harm(path)
    assert (where, code) in found_in(path)


def test_a_missing_row_and_a_missing_well(sample):
    path = sample("plate", "0.5")
    shutil.rmtree(path / "A")
    missing = [where for where, code in found_in(path) if code == "group-missing"]
    assert missing == ["A", "A/1"]


def test_sizes_of_labels_are_compared_in_words(sample):
    path = sample("image", "0.5")
    replace_array(path / "labels" / "cells" / "0", (2, 90, 128))
    label = open_node(path / "labels" / "cells")
    image, pyramid = open_pyramid(open_node(path)), open_pyramid(label)
    texts = [problem.text for _, problem in check_label(label, pyramid, image)]
    assert texts[0].endswith("Here y is 90, but 96 in the image.")
    axes = [replace(axis, name=axis.name.upper()) for axis in image.multiscale.axes]
    image = replace(image, multiscale=replace(image.multiscale, axes=tuple(axes)))
    texts = [problem.text for _, problem in check_label(label, pyramid, image)]
    assert "Here y is 90, but the image has no axis y." in " ".join(texts)


def test_a_missing_label_is_named_before_the_rule(sample):
    path = sample("image", "0.5")
    edit(path / "labels", rename_label)
    ((_, problem),) = [
        found
        for found in check_hierarchy(open_node(path))
        if found[1].code == "label-missing"
    ]
    named = 'ghosts is listed but does not exist. "The key labels, whose value is'
    assert problem.text.startswith(named)


def test_the_rules_of_the_version_decide(sample):
    path = sample("image", "0.6")
    replace_array(path / "1", dtype="uint8")
    edit_array(path / "0", lambda d: d.pop("dimension_names"))
    problems = {p.code: p.severity for _, p in check_hierarchy(open_node(path))}
    assert problems == {"level-dtype": Severity.ERROR}
    shutil.rmtree(path)
    path = sample("image", "0.4")
    replace_array(path / "1", dtype="uint8")
    problems = {p.code: p.severity for _, p in check_hierarchy(open_node(path))}
    assert problems == {"level-dtype": Severity.WARNING}


def test_chunks_in_a_flat_folder_since_0_2(sample):
    path = sample("image", "0.4")
    edit_array(path / "0", lambda document: document.pop("dimension_separator"))
    assert ("0", "chunk-separator") in found_in(path)


def test_unlisted_labels_are_right_up_to_0_3(sample):
    for version, expected in (("0.3", []), ("0.4", [("labels", "label-unlisted")])):
        path = sample("image", version)
        edit(path / "labels", drop_label)
        assert found_in(path) == expected
        shutil.rmtree(path)


def test_a_nested_label_and_what_is_between(sample):
    path = sample("image", "0.5")
    (path / "labels" / "ours").mkdir()
    (path / "labels" / "cells").rename(path / "labels" / "ours" / "cells")
    shutil.copytree(path / "labels" / "ours" / "cells", path / "labels" / "ours" / "b")
    between = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    (path / "labels" / "ours" / "zarr.json").write_text(json.dumps(between))
    edit(path / "labels", set_key("labels", ["nuclei", "ours/cells"]))
    assert found_in(path) == [("labels", "label-unlisted")]
    between["attributes"] = {"ome": {"version": "0.5", "labels": []}}
    (path / "labels" / "ours" / "zarr.json").write_text(json.dumps(between))
    assert ("labels", "labels-between") in found_in(path)


def test_two_zarr_formats_in_one_hierarchy(sample, tmp_path):
    path = sample("image", "0.5")
    old = write_image(tmp_path / "old.zarr", "0.4", shape=(1, 96, 128))
    shutil.rmtree(path / "labels" / "cells")
    shutil.copytree(old / "labels" / "cells", path / "labels" / "cells")
    assert ("labels/cells", "zarr-format-differs") in found_in(path)


def group(folder, attributes, version="0.5"):
    folder.mkdir(parents=True, exist_ok=True)
    document = {"zarr_format": 3, "node_type": "group"}
    document["attributes"] = {"ome": {"version": version, **attributes}}
    (folder / "zarr.json").write_text(json.dumps(document))
    return folder


def test_a_collection(sample, tmp_path):
    path = group(tmp_path / "all.zarr", {"bioformats2raw.layout": 3})
    missing = [("", "ome-xml-missing"), ("", "series-missing")]
    assert found_in(path) == missing
    sample("image", "0.5").rename(path / "0")
    assert found_in(path) == [("", "ome-xml-missing")]
    group(path / "OME", {"series": ["0", "1"]})
    (path / "OME" / "METADATA.ome.xml").write_text("<OME/>")
    assert found_in(path) == [("1", "group-missing")]


def test_a_scene_whose_images_and_systems_are_missing(sample, tmp_path):
    world = {"name": "world", "axes": [{"name": n, "type": "space"} for n in "yx"]}
    links = [
        {
            "type": "affine",
            "path": "matrix",
            "input": {"path": path, "name": name},
            "output": {"name": "world"},
        }
        for path, name in (("a", "own"), ("b", "own"))
    ]
    scene = {"coordinateSystems": [world], "coordinateTransformations": links}
    path = group(tmp_path / "scene.zarr", {"scene": scene}, "0.6")
    sample("image", "0.6").rename(path / "a")
    found = {item for item in found_in(path) if item[1] != "axis-unit-missing"}
    assert found == {
        ("", "parameters-missing"),
        ("a", "system-missing"),
        ("b", "group-missing"),
    }
    zarr.create_array(path / "matrix", shape=(6,), dtype="float64")
    assert ("", "parameters-unusable") in found_in(path)


def test_a_field_of_vectors_that_is_not_there(sample):
    path = sample("image", "0.6")
    axes = [{"name": n, "type": "space", "unit": "micrometer"} for n in "yx"]
    links = [
        {
            "type": "displacements",
            "path": "field",
            "input": {"name": "intrinsic"},
            "output": {"name": "bent"},
        }
    ]

    def bend(content):
        multiscale = content["multiscales"][0]
        multiscale["coordinateSystems"].append({"name": "bent", "axes": axes})
        multiscale["coordinateTransformations"] = links

    edit(path, bend)
    assert ("field", "parameters-missing") in found_in(path)


def test_any_place_can_be_the_beginning(sample):
    path = sample("plate", "0.5")
    edit(path / "A/1/0/labels", rename_label)
    missing = [("A/1/0/labels/ghosts", "label-missing")]
    for inner in ("", "A/1", "A/1/0", "A/1/0/labels"):
        assert found_in(path / inner) == missing


def test_an_archive_is_judged_by_rfc_9_too(sample, tmp_path):
    folder = sample("image", "0.5")
    good = found_in(pack_hierarchy(folder, tmp_path / "good.ozx"))
    assert [item for item in good if item[1] != "ozx-not-sharded"] == []
    bad = shutil.make_archive(str(tmp_path / "bad"), "zip", folder)
    codes = {code for where, code in found_in(bad) if where == ""}
    # Python writes ZIP64 only where sizes need it.
    expected = {"ozx-comment-missing", "ozx-entry-compressed", "ozx-name"}
    expected.add("ozx-zip64-missing")
    assert expected <= codes
    old = shutil.make_archive(str(tmp_path / "old"), "zip", sample("image", "0.4"))
    assert ("", "ozx-zarr-json-missing") in found_in(old)
    inside = shutil.copy(tmp_path / "good.ozx", folder / "inside.ozx")
    assert ("", "ozx-embedded") in found_in(inside)
    edit(folder, set_key("version", "0.5.0"))
    with zipfile.ZipFile(tmp_path / "other.ozx", "w") as archive:
        archive.write(folder / "zarr.json", "zarr.json")
        archive.comment = b'{"ome": {"version": "0.5"}}'
    assert ("", "ozx-version-differs") in found_in(tmp_path / "other.ozx")


def test_many_chunks_in_an_archive_should_be_in_shards(sample, tmp_path):
    folder = sample("image", "0.5")
    array = zarr.open_array(folder / "0")
    pixels = array[:]
    for name, shards in (("plain", None), ("sharded", (2, 3, 128, 128))):
        shutil.rmtree(folder / "0")
        zarr.create_array(
            folder / "0",
            shape=array.shape,
            dtype=array.dtype,
            chunks=(1, 1, 64, 64),
            shards=shards,
            dimension_names=list("tcyx"),
        )[:] = pixels
        file = pack_hierarchy(folder, tmp_path / f"{name}.ozx")
        (finding,) = check_hierarchy(open_node(file))
        assert finding[1].code == "ozx-not-sharded"
        assert ("such as 0." in finding[1].text) is (name == "plain")


def test_arrays_without_shards_are_one_problem_with_the_command(sample, tmp_path):
    folder = sample("image", "0.5")
    file = pack_hierarchy(folder, tmp_path / "my cells.ozx")
    (finding,) = check_hierarchy(open_node(file))
    path, problem = finding
    assert (path, problem.code) == ("", "ozx-not-sharded")
    assert " 9 arrays have no shards, such as 0." in problem.text
    command = problem.text.partition("To write a copy with shards: ")[2]
    program, *arguments = shlex.split(command)
    assert program == "napari-ngff"
    with contextlib.chdir(tmp_path):
        assert main(arguments) == 0
    assert list(check_hierarchy(open_node(tmp_path / arguments[2]))) == []


def test_large_chunks_without_shards_need_smaller_ones(sample, tmp_path, monkeypatch):
    monkeypatch.setattr(array_document, "LARGEST_SHARD", 2**14)
    folder = sample("image", "0.5")
    pixels = zarr.open_array(folder / "0")[:]
    shutil.rmtree(folder / "0")
    zarr.create_array(
        folder / "0",
        data=pixels,
        chunks=(1, 1, *pixels.shape[2:]),
        dimension_names=list("tcyx"),
    )
    file = pack_hierarchy(folder, tmp_path / "a.ozx")
    (finding,) = check_hierarchy(open_node(file))
    assert finding[1].text.endswith(" --shards auto --chunks y=1024,x=1024")


def test_each_document_is_read_once(sample, monkeypatch):
    path = sample("plate", "0.5")
    reads = Counter()
    get = FolderStore.read

    def counted(self, key, *part):
        reads[key] += 1
        return get(self, key, *part)

    node = open_node(path)
    monkeypatch.setattr(FolderStore, "read", counted)
    assert list(check_hierarchy(node)) == []
    keys = {str(p.relative_to(path)) for p in path.rglob("zarr.json")}
    assert set(reads) == keys - {"zarr.json"}
    assert set(reads.values()) == {1}


class SlowStore(FolderStore):
    """A folder that pretends to be far away."""

    def __init__(self, root):
        super().__init__(root)
        self.traits = Traits(32, root)


def test_a_remote_source_gives_the_same_in_the_same_order(sample):
    path = sample("plate", "0.5")
    edit(path / "A/1/0/labels", rename_label)
    edit(path / "A/1/1/labels", drop_label)
    near = open_node(path)
    far = read_node(type(near.location)(SlowStore(str(path))))
    assert list(check_hierarchy(far)) == list(check_hierarchy(near)) != []


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def test_a_server_that_cannot_be_listed(sample):
    pytest.importorskip("aiohttp")
    path = sample("plate", "0.5")
    edit(path / "A/1/0/labels", rename_label)
    edit(path / "A/1/1/labels", drop_label)
    handler = partial(Quiet, directory=str(path.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/{path.name}"
            # What is not listed there cannot be seen from afar.
            assert found_in(url) == [("A/1/0/labels/ghosts", "label-missing")]
        finally:
            server.shutdown()


def test_it_can_be_cancelled_before_each_group(sample):
    path = sample("plate", "0.5")
    (path / "A/1/1/zarr.json").unlink()
    assert found_in(path) == [("A/1/1", "group-missing")]
    asked = []

    def is_enough():
        asked.append(path)
        return len(asked) > 3  # the plate, its row, a well

    assert found_in(path, cancel=is_enough) == []


@pytest.mark.skipif(
    not CORPORA.is_dir(), reason=f"no public test cases at {CORPORA} (NGFF_CORPORA)"
)
def test_hierarchies_of_drafts_are_visited():
    roots = sorted((CORPORA / "rfc5-2d").rglob("*.zarr"))
    assert len(roots) > 5
    for path in roots:
        codes = {problem.code for _, problem in check_hierarchy(open_node(path))}
        assert "node-unreadable" not in codes


def test_a_document_that_is_nested_very_deeply(sample):
    path = sample("image", "0.5")
    for depth in (100, 900):
        nested = "[" * depth + "]" * depth
        file = path / "labels" / "zarr.json"
        document = json.loads(file.read_text())
        document["attributes"]["ours"] = "here"
        file.write_text(json.dumps(document).replace('"here"', nested))
        assert found_in(path) in ([], [("labels", "node-unreadable")])


def test_no_chunk_is_read_but_for_pixels(sample):
    path = sample("image", "0.5")
    for file in path.rglob("*"):
        if file.is_file() and file.name != "zarr.json":
            file.write_bytes(np.random.default_rng(1).bytes(9))
    assert found_in(path) == []
    damaged = {"chunk-unreadable"}
    assert {code for _, code in found_in(path, pixels=True)} == damaged
