"""Addresses with nothing, or with no OME-Zarr: what a server says of them is told."""

from __future__ import annotations

import shutil

import pytest

from buckets import bucket_server
from napari_ngff.errors import (
    CHECK_ADDRESS,
    CorruptDataError,
    NodeNotFoundError,
    NotOMEZarrError,
)
from napari_ngff.store.hierarchy.node import open_node
from plates import pixels, write_image
from unreliable import OK, Handler, serving

pytest.importorskip("aiohttp", reason="needs the extra [remote]")


@pytest.fixture
def server(no_logins, tmp_path):
    write_image(tmp_path / "a.zarr", pixels(1, (2, 8, 8)), 3)
    (tmp_path / "plain.zarr").mkdir()
    (tmp_path / "plain.zarr" / "notes.txt").write_text("mine")
    with serving(tmp_path) as server:
        yield server


@pytest.mark.parametrize("inner", ["gone.zarr", "a.zarr/9", "gone/b.zarr/", "a.ozx"])
def test_an_address_with_nothing_names_the_answer_of_the_server(server, inner):
    address = f"{server.address}/{inner}"
    with pytest.raises(NodeNotFoundError) as caught:
        open_node(f"{address}?token=S3cret")
    text = f"The server answered 404 Not Found for {address.rstrip('/')}."
    assert caught.value.message == text
    assert caught.value.remedy.startswith("Check the address")


def answer_for_folders(server, answer):
    server.answer = lambda path: answer if path.endswith("/") else OK


@pytest.mark.parametrize("answer", [OK, 403])
def test_a_folder_on_a_server_without_metadata(server, answer):
    answer_for_folders(server, answer)
    with pytest.raises(NotOMEZarrError) as caught:
        open_node(f"{server.address}/plain.zarr")
    assert str(caught.value).startswith("There is no OME-Zarr metadata at http://")
    assert "404 Not Found" not in str(caught.value)


def test_a_server_that_shows_no_folders(server):
    answer_for_folders(server, 404)
    with pytest.raises(NodeNotFoundError, match="404 Not Found") as caught:
        open_node(f"{server.address}/plain.zarr")
    assert "Check the address" in caught.value.remedy
    assert "a folder without OME-Zarr metadata" in caught.value.remedy
    assert open_node(f"{server.address}/a.zarr").kind


def test_a_server_that_does_not_tell(server):
    answer_for_folders(server, 500)
    with pytest.raises(NotOMEZarrError, match="does not state whether there is"):
        open_node(f"{server.address}/plain.zarr")


class PageHandler(Handler):
    def do_GET(self):
        page = b"\n<!DOCTYPE html><html><body>Log in</body></html>"
        self.send_response(OK)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)


def test_a_server_that_answers_with_web_pages(no_logins, tmp_path):
    with serving(tmp_path, PageHandler) as server:
        address = f"{server.address}/a.zarr"
        with pytest.raises(CorruptDataError) as caught:
            open_node(address)
    assert caught.value.message.startswith(f"The server sent a web page for {address}/")
    assert caught.value.remedy == CHECK_ADDRESS


def test_an_array_on_a_server_is_there(server, tmp_path):
    answer_for_folders(server, 404)
    shutil.copytree(tmp_path / "a.zarr" / "0", tmp_path / "array.zarr")
    with pytest.raises(NotOMEZarrError, match="no OME-Zarr metadata at"):
        open_node(f"{server.address}/array.zarr")


@pytest.fixture(scope="module")
def bucket():
    with bucket_server() as files:
        files.makedirs("cells")
        files.pipe("cells/plain.zarr/notes.txt", b"mine")
        yield files


def test_a_bucket_answers_whether_there_is_a_folder(bucket, no_logins):
    with pytest.raises(NodeNotFoundError, match=r"nothing at s3://cells/gone.zarr"):
        open_node("s3://cells/gone.zarr")
    with pytest.raises(NotOMEZarrError, match="no OME-Zarr metadata at s3://"):
        open_node("s3://cells/plain.zarr")


def test_a_bucket_that_may_not_be_listed(bucket, no_logins, monkeypatch):
    refused = {"list": 403}
    monkeypatch.setattr(bucket, "answer", lambda asked: refused.get(asked.name))
    with pytest.raises(NotOMEZarrError, match="does not state whether there is"):
        open_node("s3://cells/gone.zarr")
