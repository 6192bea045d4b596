"""What servers say of objects that they do not have, and names that addresses quote."""

from __future__ import annotations

import itertools
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import napari_ngff
from napari_ngff.errors import CHECK_ADDRESS, ChunkError, OMEZarrError, is_refusal
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.sources.remote_store import RemoteStore
from plates import pixels, write_array, write_group, write_image, write_plate
from unreliable import Handler, serving

pytest.importorskip("aiohttp", reason="needs the extra [remote]")

PAGE = b"\n<!DOCTYPE html><html><body>" + b"Please log in. " * 99
REFUSES, SENDS_PAGES, SENDS_PARTS, CALLS_ALL_PAGES = HABITS = (
    "refuses what is missing",
    "sends a page for what is missing",
    "sends parts of a page for what is missing",
    "calls each file a page",
)


class Habits(Handler):
    """Answers as the `habit` of its server is; for all, if that is `closed`."""

    wbufsize = -1  # header and content at once

    def do_GET(self):
        server, file = self.server, Path(self.translate_path(self.path))
        server.asked.append(self.path)
        if file.is_file() and not server.closed:
            self.send_part(file.read_bytes(), server.habit == CALLS_ALL_PAGES)
        elif server.habit in (SENDS_PAGES, SENDS_PARTS):
            self.send_part(PAGE, True)
        else:
            self.send_error(403 if server.habit == REFUSES else 404)

    def send_part(self, data, is_page):
        stated = self.headers.get("Range", "").removeprefix("bytes=")
        size, headers = len(data), {}
        if stated and self.server.habit != SENDS_PAGES:
            first, _, last = stated.partition("-")
            start = int(first) if first else max(0, size - int(last))
            stop = min(int(last) + 1, size) if first and last else size
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
            data = data[start:stop]
        self.send_response(206 if headers else 200)
        headers["Content-Type"] = "text/html" if is_page else "application/octet-stream"
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("served"), Habits) as server:
        server.folder = Path(server.RequestHandlerClass.keywords["directory"])
        server.habit, server.closed = REFUSES, False
        write_hierarchies(server.folder)
        yield server


@pytest.fixture(params=HABITS)
def habit(request, server, no_logins):
    server.habit = request.param
    yield request.param
    server.closed = False


def write_hierarchies(folder):
    """Write images and plates; some of what they name is missing."""
    data = pixels(1, (2, 8, 8))
    for version in (2, 3):
        write_image(folder / f"bare{version}.zarr", data, version)
        image = folder / f"image{version}.zarr"
        write_image(image, data, version, labels=("nuclei", "cells"))
        (image / "labels" / "cells").rename(folder / f"moved{version}")
        (image / "1" / ("0/0/0" if version == 2 else "c/0/0/0")).unlink()
        plate = write_plate(folder / f"plate{version}.zarr", version, (1, 3), 2)
        (plate / "A" / "2").rename(folder / f"well{version}")
        (plate / "A" / "3" / "1").rename(folder / f"field{version}")
    write_image(folder / "shards.zarr", data, 3, levels=1)
    array = zarr.create_array(
        folder / "shards.zarr" / "0", shape=(2, 8, 8), dtype="u2", chunks=(1, 4, 4),
        shards=(1, 8, 8), overwrite=True,
    )  # fmt: skip
    array[0, :4] = data[0, :4]


def read_all(where):
    """Read what is at a place: pixels, and places and kinds of problems."""
    opened, found = napari_ngff.open(where), {}
    images = {"": opened} if hasattr(opened, "levels") else {}
    wells = {"": opened} if hasattr(opened, "fields") else {}
    for path, well in read_present(getattr(opened, "wells", wells)).items():
        fields = read_present(well.fields)
        images |= {f"{path}/{name}": field for name, field in fields.items()}
    for name, image in images.items():
        found[name] = [np.asarray(level).tolist() for level in image.levels]
        for label, one in image.labels.items():
            found[name, label] = np.asarray(one.levels[0]).tolist()
    found["problems"] = {(problem.code, problem.where) for problem in opened.problems}
    return found


def read_present(listed):
    """Open the wells of a plate, or the fields of a well, that are there."""
    found = {}
    for name in listed:
        with suppress(FileNotFoundError):
            found[name] = listed[name]
    return found


@pytest.mark.parametrize(
    "name",
    ["bare2", "bare3", "image2", "image3", "plate2", "plate3", "shards"],
)
def test_a_server_gives_what_the_disk_does(server, habit, name):
    read = read_all(f"{server.address}/{name}.zarr")
    assert read == read_all(server.folder / f"{name}.zarr")
    assert len(read) > 1


@pytest.mark.parametrize("name", ["bare2", "bare3"])
def test_what_is_hidden_is_not_missing(server, habit, name):
    # As when a login ends: pixels must not become 0 then, neither here nor in a copy.
    number = int(name[-1])
    source = RemoteStore(f"{server.address}/{name}.zarr")
    array = open_array(source, "0", number)
    server.closed = True
    if habit == CALLS_ALL_PAGES:
        return
    failures = []
    array.read(((0, 2), (0, 8), (0, 8)), failures.append)
    (failure,) = failures
    assert isinstance(failure, ChunkError)
    assert "copy" not in str(failure)
    assert is_refusal(failure) == (habit == REFUSES)
    for key in ("zarr.json", ".zattrs", "0/0/0/0", "labels/zarr.json"):
        with pytest.raises(OMEZarrError) as caught:
            source.get(key)
        expected = "The server refuses to give" if habit == REFUSES else "a web page"
        assert expected in str(caught.value)
        assert f"{server.address}/{name}.zarr/{key}" in str(caught.value)
    if habit != REFUSES:
        assert caught.value.remedy == CHECK_ADDRESS


NAMES = st.text(
    st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="/\\"),
    min_size=1,
    max_size=6,
).filter(lambda name: name.strip(".") and name not in ("0", "labels", "zarr.json"))
ODD = [["a%20b", "a b"], ["x#1", "a?b"], ["s:0", "50%", "a;b"], ["p+q", "é&b=c"]]
numbers = itertools.count()


@given(st.lists(NAMES, min_size=1, max_size=2, unique_by=str.casefold))
@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@example(ODD[0])
@example(ODD[1])
@example(ODD[2])
@example(ODD[3])
def test_any_name_is_one(server, no_logins, names):
    server.habit = CALLS_ALL_PAGES
    well = server.folder / f"{next(numbers)} #.zarr"
    write_group(well, {"well": {"images": [{"path": name} for name in names]}}, 3)
    for number, name in enumerate(names):
        write_image(well / name, pixels(number, (1, 4, 4)), 3, levels=1, labels=names)
        for k, label in enumerate(names):
            write_array(well / name / "labels" / label / "0", np.full((4, 4), k), 3)
    address = f"{server.address}/{quote(well.name)}"
    assert read_all(address) == read_all(well)
    for field, name in itertools.product(names, repeat=2):
        node = open_node(address).child(field).child(f"labels/{name}")
        again = open_node(str(node))
        assert again.location.path == f"{field}/labels/{name}"
        assert again.name == name
        assert open_node(f"{address}/{quote(field, safe='')}").name == field
    assert open_node(address).name == well.stem
