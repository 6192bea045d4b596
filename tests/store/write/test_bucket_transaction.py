"""Objects of a bucket: put whole, on a condition, documents last."""

import errno
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import zarr

from buckets import bucket_server
from callers import prepare_image
from napari_ngff.errors import (
    ConflictError,
    NameTakenError,
    ServerError,
    UnsupportedError,
    error_text,
)
from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.create_labels import METHOD, create_labels
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.label_writer import LabelWriter
from napari_ngff.labels.runs import mask_runs
from napari_ngff.labels.saving.before_images import BeforeImages
from napari_ngff.labels.shapes import Mask
from napari_ngff.store.arrays.array_writer import ArrayWriter
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.arrays.lazy_array import BlankArray
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.pyramids.pyramid import LevelSource
from napari_ngff.store.sources import remote_store, server_access
from napari_ngff.store.sources.remote_store import RemoteStore
from napari_ngff.store.write.bucket_transaction import ObjectBucket
from unreliable import DROP, Handler, serving

CHUNKS = (16, 16)
ADDRESS = "s3://cells/image.zarr"


def add(writer, corner, size, label):
    """Paint a rectangle."""
    runs = mask_runs(np.ones(size, bool), corner)
    writer.canvas.begin_step()
    writer.canvas.add_edit(Edit(Mask(runs), (0, 1), (), label))
    writer.canvas.close_step()


def open_labels(label):
    arrays = [
        open_array(label.location.source, label.location.object_key(str(n)))
        for n in range(3)
    ]
    canvas = Canvas([LevelSource(array) for array in arrays])
    return LabelWriter(canvas, BeforeImages(), "nearest")


@pytest.fixture(scope="module")
def files():
    with bucket_server() as files:
        yield files


@pytest.fixture
def image(files, tmp_path):
    """The same image in a folder and in a bucket."""
    prepare_image(tmp_path / "image.zarr")
    files.makedirs("cells", exist_ok=True)
    files.put(f"{tmp_path}/image.zarr/", "cells/image.zarr/", recursive=True)
    yield tmp_path / "image.zarr"
    files.rm("cells", recursive=True)


@pytest.fixture
def transaction(image):
    return RemoteStore(ADDRESS).begin()


def stored(files, key):
    return files.cat(f"cells/image.zarr/{key}")


@pytest.fixture
def download(files, tmp_path):
    """Fetch the labels of a name; zarr-python reads them."""
    numbers = iter(range(100))

    def fetch(name, level):
        folder = tmp_path / f"fetched-{next(numbers)}"
        files.get(f"cells/image.zarr/labels/{name}/", f"{folder}/", recursive=True)
        return zarr.open_array(folder / str(level), mode="r+")

    return fetch


def test_a_bucket_that_may_be_written_is_reported(image, files):
    for address, wanted in ((ADDRESS, ""), ("s3://nobody/a.zarr", "cannot be written")):
        source = RemoteStore(address)
        source.ask_writable().result()
        assert wanted in source.why_not_written()
    assert not files.exists("nobody")


@pytest.mark.default_cases("503-", "403-cannot be written")
@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        (503, ""),
        (418, ""),
        (401, "cannot be written"),
        (403, "cannot be written"),
        (405, "cannot be written"),
        (501, "cannot be written"),
    ],
)
def test_a_server_that_is_busy_makes_no_bucket_read_only(
    image, files, monkeypatch, status, wanted
):
    source = RemoteStore(ADDRESS)
    monkeypatch.setattr(remote_store, "PAUSES", ())
    monkeypatch.setattr(files, "answer", lambda asked: status)
    source.ask_writable().result()
    assert wanted in source.why_not_written()
    assert bool(source.why_not_written()) is bool(wanted)


def test_the_main_thread_waits_for_no_server(image, files, monkeypatch):
    answers, source = threading.Event(), RemoteStore("s3://nobody/a.zarr")
    monkeypatch.setattr(files, "answer", lambda asked: answers.wait(60) and None)
    assert source.why_not_written() == ""
    assert not answers.is_set()
    with ThreadPoolExecutor() as pool:
        reported = pool.submit(source.why_not_written)
        answers.set()
        assert "cannot be written" in reported.result()
    assert "cannot be written" in source.why_not_written()


def test_what_waits_is_read_and_put_by_commit(transaction, files):
    transaction.put("labels/a/0/c/0", b"chunk")
    transaction.put("zarr.json", b"{}")
    assert transaction.source.get("labels/a/0/c/0", 1, 2) == b"hu"
    assert not files.exists("cells/image.zarr/labels/a/0/c/0")
    assert transaction.commit()
    assert not transaction.uncommitted
    assert stored(files, "labels/a/0/c/0") == b"chunk"
    assert stored(files, "zarr.json") == b"{}"
    transaction.delete("labels/a/0/c/0")
    transaction.commit()
    assert not files.exists("cells/image.zarr/labels/a/0/c/0")


def test_the_revision_stays_when_an_object_is_put(transaction):
    transaction.put("a", b"new")
    before = transaction.find_revision("a")
    transaction.commit()
    assert transaction.find_revision("a") == before
    transaction.expect_revision("a", before)
    transaction.put("a", b"newer")
    assert transaction.commit()


@pytest.fixture
def silent_server(files, monkeypatch):
    """A server that takes connections, and neither reads nor answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        monkeypatch.setattr(server_access, "LONGEST_REQUEST", 0.5)
        yield


class Deaf(Handler):
    """Answers each request as if it asked for an object."""

    do_HEAD = do_PUT = do_POST = do_DELETE = Handler.do_GET


@pytest.fixture(params=["refuses", "hangs up"])
def dead_server(request, files, monkeypatch):
    """A server that is gone, or ends each connection without an answer."""
    monkeypatch.setattr(remote_store, "PAUSES", ())
    with serving(".", Deaf) as server:
        server.answer = lambda path: DROP
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.address)
        if request.param == "hangs up":
            yield
    if request.param == "refuses":
        yield


CALLS = {
    "read": lambda source, bucket: source.get("zarr.json"),
    "revision": lambda source, bucket: source.ask_revision("zarr.json"),
    "list": lambda source, bucket: source.list_names("labels"),
    "list all": lambda source, bucket: bucket.list_keys("labels"),
    "look": lambda source, bucket: bucket.find_revision("0/c/0/0"),
    "save": lambda source, bucket: bucket.put_object("0/c/0/0", b"1", None),
    "remove": lambda source, bucket: bucket.delete_object("0/c/0/0", None),
    "convert": lambda source, bucket: source.put_new("zarr.json", [b"{}"]),
}


def test_a_dead_server_is_named_as_such(dead_server):
    source = RemoteStore(ADDRESS)
    bucket = ObjectBucket(source, source.call)
    for name, call in CALLS.items():
        with pytest.raises(OSError, match="the server cannot be reached") as failure:
            call(source, bucket)
        text = error_text(failure.value)
        assert ADDRESS in text, name
        assert "Unexpected" not in text


def test_a_list_that_never_ends_is_given_up(silent_server):
    source = RemoteStore(ADDRESS)
    with pytest.raises(ServerError, match="not complete after"):
        source.list_names("labels")
    with pytest.raises(OSError, match="not complete after"):
        ObjectBucket(source, source.call).list_keys("labels")


def test_objects_are_asked_about_at_the_same_time(transaction, monkeypatch):
    """No question to the server makes other threads wait for its answer."""
    asking = threading.Barrier(8)
    ask = type(transaction)._stored_revision

    def ask_together(self, key):
        asking.wait(30)
        return ask(self, key)

    monkeypatch.setattr(type(transaction), "_stored_revision", ask_together)
    calls = [
        *(partial(transaction.put, f"new/{number}", b"1") for number in range(4)),
        *(partial(transaction.delete, f"0/c/0/{number}") for number in range(4)),
    ]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda call: call(), calls))
    assert sorted(transaction.list_keys("new")) == [
        f"new/{number}" for number in range(4)
    ]


def test_a_server_that_never_answers_ends_a_save(silent_server):
    source = RemoteStore(ADDRESS)
    bucket = ObjectBucket(source, source.call)
    with pytest.raises(OSError, match="not complete after") as failure:
        bucket.put_object("labels/nuclei/0/c/0/0", b"pixels", None)
    assert failure.value.errno == errno.ETIMEDOUT
    assert failure.value.filename.endswith("labels/nuclei/0/c/0/0")


def test_a_server_that_never_answers_ends_a_conversion(silent_server):
    with pytest.raises(ServerError, match="not complete after"):
        RemoteStore("s3://cells/new.zarr").put_new("zarr.json", [b"{}"])


def test_a_large_object_may_take_longer():
    assert server_access.allowed_seconds(64_000_000) == 1060


@pytest.mark.default_cases("True")
@pytest.mark.parametrize("was_there", [True, False])
def test_what_others_put_meanwhile_stays(transaction, files, was_there):
    if was_there:
        files.pipe("cells/image.zarr/a", b"old")
    transaction.put("a", b"mine")
    transaction.put("b", b"mine")
    transaction.put("zarr.json", b"{}")
    before = stored(files, "zarr.json")
    files.pipe("cells/image.zarr/a", b"theirs")
    with pytest.raises(ConflictError, match="/a was changed by another program"):
        transaction.commit()
    assert stored(files, "a") == b"theirs"
    assert stored(files, "b") == b"mine"
    assert stored(files, "zarr.json") == before
    assert transaction.commit()
    assert stored(files, "zarr.json") == b"{}"


def test_an_array_is_not_replaced(transaction):
    with pytest.raises(UnsupportedError, match="edit a copy"):
        transaction.replace_tree("labels/nuclei")
    with pytest.raises(NameTakenError):
        transaction.replace_tree("labels/nuclei", in_place=True)


def test_labels_are_saved_as_into_a_folder(image, download):
    one = open_labels(open_node(f"{ADDRESS}/labels/nuclei"))
    twin = open_labels(open_node(image / "labels/nuclei"))
    for writer in (one, twin):
        add(writer, (2, 3), (30, 20), 7)
        assert writer.save().refused == ()
        add(writer, (5, 3), (9, 20), 9)
        assert writer.save().refused == ()
        assert not writer.has_unsaved
    for level in range(3):
        there = download("nuclei", level)
        here = zarr.open_array(image / f"labels/nuclei/{level}", mode="r")
        np.testing.assert_array_equal(there[:], here[:])


def test_a_changed_chunk_takes_two_requests(image, files):
    """It is read with its ETag, and put on the condition of that."""
    array = open_array(RemoteStore(f"{ADDRESS}"), "labels/nuclei/0")
    writer = ArrayWriter(array, RemoteStore(ADDRESS).begin())
    files.asked.clear()

    def paint(box, voxels):
        voxels[...] = 7
        return True

    for cell in ((0, 0), (1, 1)):
        assert writer.update_cells(cell, [cell], paint)
    assert writer.transaction.commit()
    chunks = [one for one in files.asked if "/c/" in one.path]
    assert sorted(one.name for one in chunks) == ["get", "get", "put", "put"]
    assert all("IF_MATCH" in one.headers for one in chunks if one.name == "put")
    # The document is looked at once for all of them.
    assert len(files.asked) == len(chunks) + 1, [one.path for one in files.asked]


@pytest.mark.parametrize("is_gone", [True, False], ids=["gone", "of another type"])
def test_an_array_that_was_replaced_gets_no_chunk(image, files, is_gone):
    array = open_array(RemoteStore(ADDRESS), "labels/nuclei/0")
    writer = ArrayWriter(array, RemoteStore(ADDRESS).begin())

    def paint(box, voxels):
        voxels[...] = 7
        return True

    assert writer.update_cells((0, 0), [(0, 0)], paint)
    place = "cells/image.zarr/labels/nuclei/0"
    if is_gone:
        files.rm(place, recursive=True)
    else:
        document = files.cat(f"{place}/zarr.json")
        other = document.replace(b'"uint16"', b'"uint32"')
        assert other != document
        files.pipe(f"{place}/zarr.json", other)
    before = {path: files.cat(path) for path in files.find(place)}
    with pytest.raises(ConflictError):
        writer.transaction.commit()
    assert {path: files.cat(path) for path in files.find(place)} == before


@pytest.mark.long
def test_another_program_keeps_its_chunk_and_the_save_reports_it(
    image, files, download
):
    writer = open_labels(open_node(f"{ADDRESS}/labels/nuclei"))
    add(writer, (2, 3), (10, 10), 7)
    writer.canvas.read(0, ((0, 48), (0, 64)))
    theirs = download("nuclei", 0)
    theirs[0:2, 0:2] = 99
    files.put(f"{theirs.store.root}/c/0/0", "cells/image.zarr/labels/nuclei/0/c/0/0")
    outcome = writer.save()
    assert "changed by another program" in str(outcome.refused[0])
    assert (download("nuclei", 0)[0:2, 0:2] == 99).all()
    assert writer.save().refused == ()
    again = download("nuclei", 0)
    assert (again[0:2, 0:2] == 99).all()
    assert (again[3:12, 4:13] == 7).all()


def new_labels(name):
    canvas = Canvas([BlankArray(s, (16, 16), np.dtype("u2")) for s in
                     ((48, 64), (24, 32), (12, 16))])  # fmt: skip
    made = create_labels(open_node(ADDRESS), name, canvas.dtype)
    files = made.arrays, (0, 1)
    return LabelWriter(
        canvas, BeforeImages(), METHOD, made.ratios, files, made.register
    )


@pytest.mark.long
def test_new_labels_are_listed_last(image, files, download):
    writer = new_labels("mine")
    add(writer, (2, 3), (30, 20), 7)
    assert writer.save().refused == ()
    assert "mine" in open_node(ADDRESS).child("labels").metadata.labels
    pixels = download("mine", 0)
    assert (pixels[2:32, 3:23] == 7).all()
    assert not [key for key in files.find("cells") if key.endswith(".aside")]


KILLED = """
import os, signal, sys
from napari_ngff.store.write import bucket_transaction
sys.path[:0] = {path!r}
import test_bucket_transaction as tests
call, count = bucket_transaction.ObjectBucket._put_once, iter(range(1000))
def put(*given):
    if next(count) == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
    return call(*given)
bucket_transaction.ObjectBucket._put_once = put
bucket_transaction.AT_ONCE = 1
writer = tests.new_labels("mine")
tests.add(writer, (2, 3), (30, 20), 7)
writer.save()
"""


@pytest.mark.default_cases("8")
@pytest.mark.parametrize("at", [1, 8, 11])
def test_labels_that_were_put_and_never_listed_are_taken_back(image, files, at):
    before = sorted(files.find("cells"))
    code = KILLED.format(path=sys.path, at=at)
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -9
    assert "mine" not in open_node(ADDRESS).child("labels").metadata.labels
    RemoteStore(ADDRESS).begin().recover("labels/mine")
    assert sorted(files.find("cells")) == before
