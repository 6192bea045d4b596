"""Archives on servers, wherever an address can be given."""

from __future__ import annotations

import json
import os
import re

import numpy as np
import pytest

import napari_ngff
from buckets import bucket_server
from napari_ngff.cli import main
from napari_ngff.errors import FileChangedError, UnsupportedError
from napari_ngff.labels.places.sidecar import choose_location, why_elsewhere
from napari_ngff.plate.previews.preview_cache import is_current, state_of
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.pyramids.pyramid import open_pyramid
from napari_ngff.store.sources import server_access
from napari_ngff.store.sources.read_ahead import ReadLog
from napari_ngff.store.write.zip_packing import pack_hierarchy
from plates import pixels, write_image, write_plate
from range_server import serving_ranges

pytest.importorskip("aiohttp", reason="needs the extra [remote]")

SHAPE = (2, 64, 64)
LARGE = (2, 400, 400)
"""Of an image whose archive is larger than what opening reads of it."""
OLD = 1_700_000_000


@pytest.fixture
def server(tmp_path):
    with serving_ranges(tmp_path) as server:
        yield server
    server_access.resume_reading()


@pytest.fixture
def image(tmp_path, server):
    """The address of an image with labels in an archive."""
    put_image(tmp_path, 1)
    return f"{server.address}/cells.ozx"


def put_image(folder, number, shape=SHAPE):
    content = pixels(number, shape)
    write_image(folder / f"{number}.zarr", content, 3, labels=("nuclei",))
    pack_hierarchy(folder / f"{number}.zarr", folder / "cells.ozx", overwrite=True)
    os.utime(folder / "cells.ozx", (OLD + number, OLD + number))


def read_all(level):
    return level.read(tuple((0, n) for n in level.shape))


# -------- commands --------


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_info(capsys, image, server):
    server.query = "token=s3cret"
    code, out, err = run(capsys, "info", f"{image}?token=s3cret")
    assert (code, err) == (0, "")
    assert out.startswith(f"{image}\nimage, OME-Zarr 0.5")
    assert "labels   nuclei" in out
    assert "s3cret" not in out
    code, out, _ = run(capsys, "info", f"{image}/labels/nuclei")
    assert code == 0
    assert "label" in out


def test_check(capsys, image, tmp_path):
    code, out, err = run(capsys, "check", image)
    local = run(capsys, "check", tmp_path / "cells.ozx")
    assert err == ""
    assert (code, out.replace(image, "")) == (
        local[0],
        local[1].replace(str(tmp_path / "cells.ozx"), ""),
    )
    assert "zip64" not in out
    code, _, err = run(capsys, "check", "--fix", "label-unlisted", image)
    assert code
    assert "Traceback" not in err


def test_a_file_without_parts_is_reported_in_a_sentence(
    capsys, image, server, monkeypatch
):
    monkeypatch.setattr("napari_ngff.store.sources.http_server.LARGEST_WHOLE", 100)
    server.ranges = False
    code, _, err = run(capsys, "info", image)
    assert code == 1
    assert "sends no parts of files" in err
    assert "Download the file" in err
    assert "Traceback" not in err


# -------- Python --------


def test_open(image):
    opened = napari_ngff.open(image)
    np.testing.assert_array_equal(opened.levels[0].compute(), pixels(1, SHAPE))
    assert "nuclei" in opened.labels


def test_of_two_versions_an_array_has_one(image, tmp_path):
    put_image(tmp_path, 1, LARGE)
    levels = open_pyramid(open_node(image)).levels
    put_image(tmp_path, 2, LARGE)
    with pytest.raises((FileChangedError, ValueError), match="two versions"):
        read_all(levels[0])
    fresh = open_pyramid(open_node(image)).levels[0]
    np.testing.assert_array_equal(read_all(fresh), pixels(2, LARGE))


def test_labels_go_into_a_sidecar(image, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "napari_ngff.labels.places.sidecar.sidecar_folder", lambda: tmp_path / "side"
    )
    node = open_node(image)
    assert "cannot be written in place" in node.location.source.why_not_written()
    assert "cannot be written in place" in why_elsewhere(node)
    place = choose_location(node, None)
    assert place.image == image
    assert place.source.name.startswith(str(tmp_path / "side"))


def test_plates(tmp_path, server):
    write_plate(tmp_path / "plate.zarr", fields=2, labelled=lambda _: ("nuclei",))
    pack_hierarchy(tmp_path / "plate.zarr", tmp_path / "plate.ozx")
    plate = napari_ngff.open(f"{server.address}/plate.ozx")
    field = plate.wells["B/2"].fields["1"]
    true = pixels(4 * 50 + 1, (1, 8, 8))
    np.testing.assert_array_equal(field.levels[0].compute(), true)
    labels = field.labels["nuclei"]
    np.testing.assert_array_equal(labels.levels[0].compute(), true[0])


def test_thumbnails_are_kept_for_one_version(image, tmp_path):
    reads = ReadLog(open_node(image).location.source)
    reads.get("0/c/0/0/0")
    state = json.loads(json.dumps(state_of(reads)))
    assert is_current(open_node(image).location.source, state)
    put_image(tmp_path, 2)
    assert not is_current(open_node(image).location.source, state)


# -------- S3 --------


@pytest.fixture(scope="module")
def files():
    with bucket_server() as files:
        yield files


@pytest.fixture
def bucket(files, tmp_path):
    """An image in an archive in a bucket."""
    files.makedirs("archives", exist_ok=True)
    put_image(tmp_path, 1, LARGE)
    files.put(f"{tmp_path}/cells.ozx", "archives/deep/cells.ozx")
    yield
    files.rm("archives", recursive=True)


def test_a_bucket(files, bucket, tmp_path):
    node = open_node("s3://archives/deep/cells.ozx", key="me", secret="s3cret-key")
    assert str(node) == "s3://archives/deep/cells.ozx"
    levels = open_pyramid(node).levels
    assert {one.name for one in files.asked} == {"get"}
    assert len(files.asked) <= 2
    np.testing.assert_array_equal(read_all(levels[0]), pixels(1, LARGE))
    assert {one.path for one in files.asked} == {"/archives/deep/cells.ozx"}
    assert all("RANGE" in one.headers for one in files.asked)
    assert all("IF_MATCH" in one.headers for one in files.asked[1:])
    # Opened again by its name alone, as a saved layer is.
    again = open_node(str(node))
    put_image(tmp_path, 2, LARGE)
    files.put(f"{tmp_path}/cells.ozx", "archives/deep/cells.ozx")
    with pytest.raises(
        (FileChangedError, ValueError), match="two versions"
    ) as reported:
        read_all(open_pyramid(again).levels[0])
    assert "s3cret" not in str(reported.value) + repr(again.location.source)
    fresh = open_pyramid(open_node(str(node)))
    np.testing.assert_array_equal(read_all(fresh.levels[0]), pixels(2, LARGE))
    with pytest.raises(FileNotFoundError, match=r"no file s3://archives/deep/b\.ozx"):
        open_node("s3://archives/deep/b.ozx")


@pytest.mark.parametrize("address", ["memory://deep/cells.ozx", "sftp://host/a.zarr"])
def test_any_other_scheme_is_refused_with_another_way(address):
    with pytest.raises(UnsupportedError) as reported:
        open_node(address)
    text = str(reported.value)
    assert f"start with {address[: address.index('/') - 1]}:// are not" in text
    assert "zarr.storage.FsspecStore" in text


def test_the_package_writes_what_is_read_in_one_go(tmp_path, image):
    comment = open_node(image).location.source.comment
    order = json.loads(comment)["ome"]["zipFile"]["centralDirectory"]
    assert order == {"jsonFirst": True}
    assert re.search(r"cells\.ozx$", image)
