"""Every way to name a place, over every kind of store, gives the same pixels."""

import asyncio
import contextlib
import functools
import http.server
import json
import os
import shutil
import socket
import threading
import zipfile
from pathlib import Path
from urllib.parse import quote, urlsplit

import numpy as np
import pytest
import zarr
from zarr.storage import LocalStore, MemoryStore, ZipStore

from napari_ngff.errors import AccessError, NodeNotFoundError, OMEZarrError
from napari_ngff.metadata.model import GroupKind
from napari_ngff.store.hierarchy.location import find_location
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.pyramids.pyramid import open_pyramid
from napari_ngff.viewer.samples import write_image, write_plate
from unreliable import Server

VERSIONS = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6")
SHAPE = (48, 64)


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Folders of an image of each version, and what zarr reads there."""
    base = tmp_path_factory.mktemp("originals")
    found = {}
    for version in VERSIONS:
        folder = base / f"{version}.zarr"
        write_image(folder, version, shape=SHAPE, chunk=32)
        levels = zarr_levels(folder, version)
        found[version] = folder, levels
    return found


@pytest.fixture(scope="module")
def plates(tmp_path_factory):
    base = tmp_path_factory.mktemp("plates")
    found = {}
    for version in ("0.4", "0.5"):
        folder = base / f"plate {version}.ome.zarr"
        write_plate(folder, version, grid=(2, 2), shape=(32, 32), chunk=32)
        found[version] = folder
    return found


def zarr_levels(folder, version):
    attributes = dict(zarr.open_group(str(folder), mode="r").attrs)
    multiscale = attributes.get("ome", attributes)["multiscales"][0]
    paths = [dataset["path"] for dataset in multiscale["datasets"]]
    assert len(paths) > 1
    return [zarr.open_array(str(folder / p), mode="r")[...] for p in paths]


def same_pixels(node, levels):
    """Check each level against what was written; two ways of reading."""
    pyramid = open_pyramid(node)
    assert len(pyramid.levels) == len(levels)
    for source, wanted in zip(pyramid.levels, levels, strict=True):
        whole = tuple((0, n) for n in wanted.shape)
        part = tuple((n // 3, n - n // 4) for n in wanted.shape)
        np.testing.assert_array_equal(source.read(whole), wanted)
        inside = tuple(slice(*span) for span in part)
        np.testing.assert_array_equal(source.read(part), wanted[inside])


# -------- servers --------


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves one folder, with or without ranges, to those who know the token."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def send_head(self):
        server = self.server
        server.asked.append(self.path)
        parts = urlsplit(self.path)
        if server.token and parts.query != f"token={server.token}":
            return self.refuse(403)
        path = Path(self.translate_path(parts.path))
        if not path.is_file():
            return self.refuse(404)
        data = path.read_bytes()
        status, stated = 200, self.headers.get("Range")
        if stated and server.ranges:
            status = 206
            first, _, last = stated.removeprefix("bytes=").partition("-")
            size = len(data)
            if not first:
                start, stop = max(0, size - int(last)), size
            else:
                start, stop = int(first), int(last) + 1 if last else size
            data = data[start:stop]
        self.send_response(status)
        if status == 206:
            end = start + len(data) - 1
            self.send_header("Content-Range", f"bytes {start}-{end}/{size}")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)
        return None

    def refuse(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        self.send_head()


@contextlib.contextmanager
def serving(folder, ranges=True, token=""):
    handler = functools.partial(Handler, directory=str(folder))
    with Server(("127.0.0.1", 0), handler) as server:
        server.ranges, server.token, server.asked = ranges, token, []
        thread = threading.Thread(
            target=server.serve_forever, args=(0.01,), daemon=True
        )
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", server
        finally:
            server.shutdown()
            thread.join()


# -------- one contract over every kind of store --------


def pack(folder, path, prefix="", compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
        for file in sorted(files, key=lambda file: file.name != "zarr.json"):
            archive.write(file, prefix + file.relative_to(folder).as_posix())
    return path


@contextlib.contextmanager
def folder_place(folder, tmp_path):
    yield str(folder)


@contextlib.contextmanager
def path_place(folder, tmp_path):
    yield folder


@contextlib.contextmanager
def ozx_place(folder, tmp_path):
    yield str(pack(folder, tmp_path / "image.ozx"))


@contextlib.contextmanager
def upper_ozx_place(folder, tmp_path):
    yield str(pack(folder, tmp_path / "IMAGE.OZX"))


@contextlib.contextmanager
def zip_place(folder, tmp_path):
    path = tmp_path / "image.ome.zarr.zip"
    yield str(pack(folder, path, compression=zipfile.ZIP_DEFLATED))


@contextlib.contextmanager
def nested_zip_place(folder, tmp_path):
    yield str(pack(folder, tmp_path / "image.zip", "image.zarr/"))


@contextlib.contextmanager
def group_place(folder, tmp_path):
    yield zarr.open_group(str(folder), mode="r")


@contextlib.contextmanager
def local_store_place(folder, tmp_path):
    yield LocalStore(folder, read_only=True)


def memory_store(folder):
    buffers = zarr.core.buffer.default_buffer_prototype().buffer
    files = [file for file in folder.rglob("*") if file.is_file()]
    return MemoryStore(
        {
            file.relative_to(folder).as_posix(): buffers.from_bytes(file.read_bytes())
            for file in files
        }
    )


@contextlib.contextmanager
def memory_store_place(folder, tmp_path):
    yield memory_store(folder)


@contextlib.contextmanager
def memory_group_place(folder, tmp_path):
    yield zarr.open_group(memory_store(folder), mode="r")


@contextlib.contextmanager
def zip_store_place(folder, tmp_path):
    path = pack(folder, tmp_path / "image.zip")
    with asyncio.run(ZipStore.open(path, mode="r")) as store:
        yield store


@contextlib.contextmanager
def zip_group_place(folder, tmp_path):
    path = pack(folder, tmp_path / "image.zip")
    with ZipStore(path, mode="r") as store:
        yield zarr.open_group(store, mode="r")


@contextlib.contextmanager
def http_place(folder, tmp_path):
    with serving(folder.parent) as (url, _):
        yield f"{url}/{folder.name}"


@contextlib.contextmanager
def http_without_ranges_place(folder, tmp_path):
    with serving(folder.parent, ranges=False) as (url, _):
        yield f"{url}/{folder.name}/"


@contextlib.contextmanager
def http_with_token_place(folder, tmp_path):
    with serving(folder.parent, token="abc%2B1") as (url, _):
        yield f"{url}/{folder.name}?token=abc%2B1"


PLACES = [
    folder_place,
    path_place,
    ozx_place,
    upper_ozx_place,
    zip_place,
    nested_zip_place,
    group_place,
    local_store_place,
    memory_store_place,
    memory_group_place,
    zip_store_place,
    zip_group_place,
    http_place,
    http_without_ranges_place,
    http_with_token_place,
]


@pytest.fixture(params=PLACES, ids=[p.__name__.removesuffix("_place") for p in PLACES])
def kind_of_place(request):
    return request.param


def needs_network(kind_of_place):
    if kind_of_place.__name__.startswith("http"):
        pytest.importorskip("aiohttp")


@pytest.mark.default_cases(
    *(
        f"{one.__name__.removesuffix('_place')}-{version}"
        for at, one in enumerate(PLACES)
        for then, version in enumerate(VERSIONS)
        if (at + then) % 3 == 0 or at == 0  # each store, and each version in a folder
    )
)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_store_gives_the_same_image(originals, tmp_path, kind_of_place, version):
    needs_network(kind_of_place)
    folder, levels = originals[version]
    with kind_of_place(folder, tmp_path) as place:
        node = open_node(place)
        assert node.kind is GroupKind.IMAGE
        assert node.location.path == ""
        same_pixels(node, levels)
        labels = node.labels()
        assert [label.name for label in labels.nodes] == ["nuclei", "cells"]
        assert labels.problems == ()
        for label in labels.nodes:
            same_pixels(label, zarr_levels(folder / "labels" / label.name, version))
            assert label.child("../..").kind is GroupKind.IMAGE
        with pytest.raises(NodeNotFoundError):
            node.child("nothing")
        with pytest.raises(NodeNotFoundError):
            node.child("..")


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_every_store_finds_a_field_inside_of_a_plate(
    plates, tmp_path, kind_of_place, version
):
    needs_network(kind_of_place)
    folder = plates[version]
    with kind_of_place(folder, tmp_path) as place:
        plate = open_node(place)
        assert plate.kind is GroupKind.PLATE
        (well,) = plate.children(["A/1"]).nodes
        (field,) = well.children(["1"]).nodes
        same_pixels(field, zarr_levels(folder / "A/1/1", version))
        assert field.parent().parent().metadata.well is None
        assert field.child("../../..").kind is GroupKind.PLATE


INNER = ("A", "A/1", "A/1/0", "A/1/0/labels/cells", "A/1/0/0")


@pytest.mark.default_cases(
    *(
        f"{one.__name__.removesuffix('_place')}-0.5-{part}"
        for one in PLACES
        for part in INNER
    ),
    *(f"http-0.4-{part}" for part in INNER),
)
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_every_store_opens_a_place_inside(
    plates, tmp_path, kind_of_place, inner, version
):
    needs_network(kind_of_place)
    folder = plates[version]
    with kind_of_place(folder, tmp_path) as place:
        if isinstance(place, str | Path):
            url, query, more = str(place).partition("?")
            found = open_node(f"{url.rstrip('/')}/{inner}{query}{more}")
        elif isinstance(place, zarr.Group):
            found = open_node(place[inner])
        else:
            found = open_node(zarr.open(place, mode="r", path=inner))
        # An array means the image that it belongs to.
        expected = "A/1/0" if inner == "A/1/0/0" else inner
        assert found.location.path == expected
        kinds = {"A": None, "A/1": GroupKind.WELL, "A/1/0": GroupKind.IMAGE}
        assert found.kind is kinds.get(expected, GroupKind.LABEL)
        if found.metadata.image is not None:
            same_pixels(found, zarr_levels(folder / expected, version))


# -------- names of folders --------


@pytest.mark.parametrize(
    "name",
    [
        "plain.ome.zarr",
        "UPPER.OME.ZARR",
        "no suffix",
        "two  spaces and (brackets) [1].zarr",
        "Zellkerne äöü µm.zarr",
        "核.ome.zarr",
        "50%.zarr",
        "a%20b.zarr",
        "hash#1?x=1&y.zarr",
        "image.zip.zarr",
        "folder.ozx",
        "folder.zip",
        "~tilde.zarr",
        ".hidden",
        "a:b.zarr",
        "-x",
        "e\u0301.zarr",
    ],
)
@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_names(originals, tmp_path, monkeypatch, name, version):
    folder, levels = originals[version]
    copy = tmp_path / name
    try:
        shutil.copytree(folder, copy)
    except OSError:
        pytest.skip("no such name on this system")
    monkeypatch.chdir(tmp_path)
    for place in (
        str(copy),
        f"{copy}/",
        f"{copy}//",
        copy,
        os.path.join(".", name),
        copy.as_uri(),
        f"{copy.as_uri()}/",
        f"file://localhost{quote(str(copy))}",
        f"file:{quote(str(copy))}",
        copy / "labels" / "..",
    ):
        node = open_node(place)
        assert node.kind is GroupKind.IMAGE
    same_pixels(node, levels)


def test_home_folder(originals, tmp_path, monkeypatch):
    folder, levels = originals["0.5"]
    shutil.copytree(folder, tmp_path / "a.zarr")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    same_pixels(open_node("~/a.zarr"), levels)


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_symbolic_links(plates, tmp_path, version):
    folder = plates[version]
    link = tmp_path / "link.zarr"
    link.symlink_to(folder)
    parent = tmp_path / "parent"
    parent.symlink_to(folder.parent)
    field = tmp_path / "field"
    field.symlink_to(folder / "A/1/0")
    wanted = zarr_levels(folder / "A/1/0", version)
    for place in (link / "A/1/0", parent / folder.name / "A/1/0"):
        node = open_node(place)
        assert node.location.path == "A/1/0"
        same_pixels(node, wanted)
    assert open_node(link).kind is GroupKind.PLATE
    same_pixels(open_node(field), wanted)


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_metadata_files(plates, version):
    folder = plates[version]
    names = ("zarr.json",) if version == "0.5" else (".zattrs", ".zgroup")
    for inner, kind in (
        ("", GroupKind.PLATE),
        ("A/1", GroupKind.WELL),
        ("A/1/0", GroupKind.IMAGE),
        ("A/1/0/labels", GroupKind.LABELS),
        ("A/1/0/labels/cells", GroupKind.LABEL),
    ):
        for name in names:
            for place in (folder / inner / name, (folder / inner / name).as_uri()):
                node = open_node(place)
                assert (node.location.path, node.kind) == (inner, kind)
    array = folder / "A/1/0/0" / ("zarr.json" if version == "0.5" else ".zarray")
    assert open_node(array).location.path == "A/1/0"


@pytest.mark.parametrize("inner", ["A", "A/1", "A/1/0", "A/1/0/labels", "A/1/0/0"])
def test_arrays_and_groups_in_a_nested_archive(plates, tmp_path, inner):
    path = pack(plates["0.5"], tmp_path / "plate.zip", "some folder/plate.zarr/")
    with pytest.raises(OMEZarrError, match=r"some folder/plate\.zarr"):
        open_node(path)
    path = pack(plates["0.5"], tmp_path / "nested.zip", "plate.zarr/")
    # The folder is the root, and yet its name may be given.
    for place in (path / inner, path / "plate.zarr" / inner):
        expected = "A/1/0" if inner == "A/1/0/0" else inner
        assert open_node(place).location.path == expected
    with ZipStore(path, mode="r") as store:
        group = zarr.open_group(store, mode="r", path="plate.zarr")
        assert open_node(group[inner]).location.path == expected
        assert open_node(group).kind is GroupKind.PLATE


# -------- one beside the other --------


def test_newer_metadata_wins_where_both_are_there(originals, tmp_path):
    older, _ = originals["0.4"]
    newer, levels = originals["0.5"]
    both = tmp_path / "both.zarr"
    shutil.copytree(older, both)
    shutil.copytree(newer, both, dirs_exist_ok=True)
    node = open_node(both)
    assert node.metadata.version == "0.5"
    same_pixels(node, levels)
    assert len(node.labels().nodes) == 2
    assert {label.zarr_format for label in node.labels().nodes} == {3}


EMPTY_GROUP = '{"zarr_format": 3, "node_type": "group", "attributes": {}}'


@pytest.mark.parametrize("stray", ["", "{}", EMPTY_GROUP])
def test_stray_zarr_json_beside_older_metadata(originals, tmp_path, stray):
    folder, levels = originals["0.4"]
    copy = tmp_path / "a.zarr"
    shutil.copytree(folder, copy)
    (copy / "zarr.json").write_text(stray)
    node = open_node(copy)
    assert node.zarr_format == 2
    same_pixels(node, levels)
    assert len(node.labels().nodes) == 2


@pytest.mark.parametrize("stray", ["", "{}"])
@pytest.mark.parametrize("name", ["zarr.json", ".zgroup", ".zattrs"])
@pytest.mark.parametrize("up", [1, 2])
@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_stray_metadata_further_up(originals, tmp_path, stray, name, up, version):
    folder, levels = originals[version]
    copy = tmp_path / "x/y/z/a.zarr"
    copy.parent.mkdir(parents=True)
    copy.symlink_to(folder)
    (copy.parents[up - 1] / name).write_text(stray)
    for place in (copy, copy / "labels/cells", copy / "0"):
        node = open_node(place)
        assert node.kind in (GroupKind.IMAGE, GroupKind.LABEL)
    same_pixels(open_node(copy), levels)


@pytest.mark.parametrize("stated", [None, "."])
def test_nested_chunks_without_the_word(tmp_path, stated):
    folder = tmp_path / "a.zarr"
    write_image(folder, "0.4", shape=SHAPE, chunk=32)
    levels = zarr_levels(folder, "0.4")
    for document in folder.rglob(".zarray"):
        array = json.loads(document.read_text())
        assert array.pop("dimension_separator") == "/"
        document.write_text(json.dumps(array))
        if stated == ".":  # written flat, as 0.1 and zarr's own default have it
            for chunk in sorted(document.parent.rglob("[0-9]*")):
                if chunk.is_file():
                    inner = chunk.relative_to(document.parent).as_posix()
                    chunk.rename(document.parent / inner.replace("/", "."))
    same_pixels(open_node(folder), levels)


# -------- servers that say no --------


def test_server_refuses(originals):
    pytest.importorskip("aiohttp")
    folder, _ = originals["0.5"]
    with serving(folder.parent, token="secret") as (url, _):
        for query in ("", "?token=wrong"):
            with pytest.raises(AccessError) as raised:
                open_node(f"{url}/{folder.name}{query}")
            assert "wrong" not in str(raised.value)
            assert folder.name in str(raised.value)


def test_server_has_nothing(originals):
    pytest.importorskip("aiohttp")
    folder, _ = originals["0.5"]
    with serving(folder.parent) as (url, server):
        with pytest.raises(OMEZarrError):
            open_node(f"{url}/gone.zarr")
        with pytest.raises(OMEZarrError):
            open_node(f"{url}/{folder.name}/gone")
        assert len(server.asked) < 20


def test_no_server():
    pytest.importorskip("aiohttp")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises((OMEZarrError, OSError), match=rf"127\.0\.0\.1:{port}"):
        open_node(f"http://127.0.0.1:{port}/a.zarr")


def test_token_goes_with_every_request_and_into_no_name(originals):
    pytest.importorskip("aiohttp")
    folder, levels = originals["0.4"]
    with serving(folder.parent, token="secret") as (url, server):
        node = open_node(f"{url}/{folder.name}/?token=secret")
        same_pixels(node, levels)
        assert "secret" not in str(node)
        assert all(path.endswith("?token=secret") for path in server.asked)


@pytest.mark.parametrize("name", ["a b.zarr", "äö.zarr", "50%.zarr", "a+b.zarr"])
def test_addresses_with_odd_names(originals, tmp_path, name):
    pytest.importorskip("aiohttp")
    folder, levels = originals["0.5"]
    (tmp_path / name).symlink_to(folder)
    with serving(tmp_path) as (url, _):
        same_pixels(open_node(f"{url}/{quote(name)}"), levels)
        same_pixels(open_node(f"{url}/{quote(name)}/zarr.json"), levels)


@pytest.mark.parametrize("where", ["127.0.0.1:8765/a.zarr", "uk1s3.ebi.ac.uk/b/a.zarr"])
def test_an_address_without_its_scheme_gets_a_hint(where):
    with pytest.raises(NodeNotFoundError) as failure:
        find_location(where)
    assert "write https://" in failure.value.remedy
    with pytest.raises(NodeNotFoundError) as failure:
        find_location("cells.zarr/0")
    assert "https" not in failure.value.remedy
