"""Servers that no web server is like: each is given up with a message, in bounds."""

from __future__ import annotations

import gzip
import sys

import pytest

import unreliable
from hostile.cases import image
from hostile.running import run
from napari_ngff.errors import OMEZarrError
from napari_ngff.store.sources import remote_store
from napari_ngff.store.sources.remote_store import RemoteStore

pytest.importorskip("aiohttp", reason="needs the extra [remote]")
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="bounds of Linux"
)

LOOP, ELSEWHERE, INFLATES, SHORT, LETTERS, GARBAGE = (
    "a redirect to itself",
    "a redirect to a file",
    "gzip of 2 GB of nothing",
    "less than it promises",
    "letters as its length",
    "no HTTP at all",
)
ZEROS = gzip.compress(bytes(1 << 20))
"""Members of one gzip file: each inflates to 1 MiB."""


def raw(answer, path):
    """Give the pieces of an answer."""
    if answer == LOOP:
        yield f"HTTP/1.1 302 Found\r\nLocation: {path}\r\n\r\n".encode()
    elif answer == ELSEWHERE:
        yield b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n"
    elif answer == INFLATES:
        yield b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"
        for _ in range(2048):
            yield ZEROS
    elif answer == SHORT:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\n{}"
    elif answer == LETTERS:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}"
    else:
        yield bytes(range(256)) * 64


RAW = (LOOP, ELSEWHERE, INFLATES, SHORT, LETTERS, GARBAGE)
ANSWERS = (
    *RAW,
    *unreliable.ENDLESS,
    unreliable.BUSY,
    unreliable.DROP,
    unreliable.HANG,
    403,
)


class Handler(unreliable.Handler):
    def do_GET(self):
        answer = self.server.answer(self.path)
        if answer not in RAW:
            super().do_GET()
            return
        self.close_connection = True
        for part in raw(answer, self.path):
            self.wfile.write(part)


PARTS = {
    "group": "/zarr.json",
    "array": "/0/zarr.json",
    "chunk": "/0/c/0/0",
    "labels": "/labels/zarr.json",
}


def open_from(tmp_path, answers, parts):
    """Open an image for each answer and part that a server spoils."""
    image(tmp_path / "served" / "a.ome.zarr")
    addresses = []
    with unreliable.serving(tmp_path / "served", Handler) as server:
        spoiled = {}
        for number, answer in enumerate(answers):
            for part in parts:
                name = f"{number}-{part}.ome.zarr"
                (tmp_path / "served" / name).symlink_to("a.ome.zarr")
                spoiled[f"/{name}{PARTS[part]}"] = answer
                addresses.append(f"{server.address}/{name}")
        server.answer = lambda path: spoiled.get(path, unreliable.OK)
        run(tmp_path, *addresses, NAPARI_NGFF_SERVER_SECONDS="1")
        asked = set(server.asked)
    assert any(path in asked or answer in RAW for path, answer in spoiled.items())


def test_some_answers_end_in_a_message(tmp_path):
    some = (unreliable.FLOOD, unreliable.ENDLESS_DRIP, INFLATES, GARBAGE)
    open_from(tmp_path, some, ("array",))


@pytest.mark.parametrize("key", ["thing", "zarr.json"])
def test_a_bucket_of_any_server_ends_in_a_message(tmp_path, monkeypatch, key):
    monkeypatch.setattr(remote_store, "PAUSES", ())
    monkeypatch.setenv("NAPARI_NGFF_SERVER_SECONDS", "0.3")
    options = {"anon": True, "region": "us-east-1"}
    for answer in ANSWERS:
        with unreliable.serving(tmp_path, Handler) as server:
            server.answer = lambda path, answer=answer: answer
            source = RemoteStore(
                "s3://cells/a.zarr", {**options, "endpoint_url": server.address}
            )
            for part in ((), (2, 3), (-5, 5)):
                with pytest.raises(OMEZarrError) as caught:
                    source.get(key, *part)
                assert f"s3://cells/a.zarr/{key}" in str(caught.value), answer
                assert server.address not in str(caught.value), answer
                assert len(str(caught.value)) < 400, answer


@pytest.mark.long
@pytest.mark.parametrize("answer", ANSWERS, ids=str)
def test_answers_end_in_a_message(tmp_path, answer):
    open_from(tmp_path, (answer,), PARTS)
