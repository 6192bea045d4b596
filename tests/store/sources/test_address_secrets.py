"""Logins, tokens and keys go to the server that they are for, and nowhere else."""

from __future__ import annotations

import asyncio
import base64
import pickle
import traceback
from urllib.parse import urlsplit

import numpy as np
import pytest

from locked_server import two_serving_locked
from napari_ngff import open_node
from napari_ngff.errors import LoginNeededError, OMEZarrError
from napari_ngff.store.pyramids.pyramid import open_pyramid
from napari_ngff.store.sources.file_part import ObjectRequest
from napari_ngff.store.sources.remote_store import RemoteStore
from napari_ngff.store.sources.server_access import server_loop
from napari_ngff.store.sources.server_logins import AddressSecrets
from plates import pixels, write_image
from unreliable import BUSY, DROP

pytest.importorskip("aiohttp", reason="needs the extra [remote]")
pytestmark = pytest.mark.usefixtures("no_logins")

PASSWORD, TOKEN = "S3cr%2FetWord", "t0kenS3cr%2Bet"
SECRETS = ("S3cr%2FetWord", "S3cr/etWord", "t0kenS3cr%2Bet", "t0kenS3cr+et")
LOGIN = "Basic " + base64.b64encode(b"me:S3cr/etWord").decode()


@pytest.fixture
def servers(tmp_path):
    """Two servers of the same folder."""
    write_image(tmp_path / "a.zarr", pixels(1, (2, 8, 8)), 3)
    with two_serving_locked(tmp_path) as both:
        yield both


def with_login(server):
    server.wanted = [LOGIN]
    return f"http://me:{PASSWORD}@127.0.0.1:{server.server_port}/a.zarr"


def test_a_login_in_the_address_is_used_and_not_in_any_name(servers):
    node = open_node(with_login(servers[0]))
    level = open_pyramid(node).levels[0]
    assert np.array_equal(level.read(((0, 2), (0, 8), (0, 8))), pixels(1, (2, 8, 8)))
    assert str(node) == f"{servers[0].address}/a.zarr"
    shown = repr((node, node.location, node.location.source, level, level.array))
    assert not any(secret in shown for secret in SECRETS)


def test_another_process_gets_the_login_and_the_token(servers):
    server = servers[0]
    server.query = f"token={TOKEN}"
    source = open_node(f"{with_login(server)}?{server.query}").location.source
    again = pickle.loads(pickle.dumps(source))
    assert again.name == source.name
    assert again.get("zarr.json")


def test_the_public_address_is_enough_later_in_the_session(servers):
    server = servers[0]
    server.query = f"token={TOKEN}"
    with pytest.raises(OMEZarrError, match="refuses"):
        open_node(f"{server.address}/a.zarr")
    node = open_node(f"{with_login(server)}?{server.query}")
    assert open_node(str(node)).metadata == node.metadata
    assert open_node(f"{node}/0").metadata == node.metadata


@pytest.mark.parametrize("failure", [BUSY, DROP, 401, 403, 418])
@pytest.mark.parametrize("redirected", [False, True])
def test_no_error_has_a_secret(servers, failure, redirected):
    first, second = servers
    if redirected:
        target = f"{second.address}/a.zarr/zarr.json?X-Amz-Signature={TOKEN}"
        first.redirect = lambda path: target
    (second if redirected else first).answer = lambda path: failure
    options = {"headers": {"X-Key": "S3cr/etWord"}}
    source = RemoteStore(f"{with_login(first)}?token={TOKEN}", options)
    with pytest.raises(OMEZarrError) as caught:
        source.get("zarr.json")
    text = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert f"{first.address}/a.zarr/zarr.json" in text
    assert not any(secret in text for secret in SECRETS)
    assert "X-Amz" not in text
    assert caught.value.__context__ is None


@pytest.mark.parametrize("status", [401, 418, 503])
def test_asyncio_has_no_headers_to_log(servers, status):
    servers[0].answer = lambda path: status
    access = RemoteStore(with_login(servers[0])).access
    assert access.secrets.authorization == LOGIN
    request = ObjectRequest(f"{servers[0].address}/a.zarr/zarr.json", access.secrets)
    answer = asyncio.run_coroutine_threadsafe(access.read(request), server_loop())
    error = answer.exception(20)
    assert error.status == status
    text = "".join(traceback.format_exception(error)) + repr((error, vars(error)))
    assert "Basic" not in text


def test_another_server_gets_no_credentials(servers):
    first, second = servers
    first.redirect = lambda path: f"{second.address}{urlsplit(path).path}"
    options = {
        "headers": {"X-Api-Key": "S3cr/etWord", "Cookie": "id=S3cr/etWord"},
        "client_kwargs": {"headers": {"X-Other": "S3cr/etWord"}},
    }
    source = RemoteStore(f"{with_login(first)}?token={TOKEN}", options)
    assert source.get("zarr.json", 2, 5) == source.get("zarr.json")[2:7]
    path, headers = first.sent[0]
    assert path == f"/a.zarr/zarr.json?token={TOKEN}"
    assert headers["Authorization"] == LOGIN
    assert headers["X-Api-Key"] == headers["X-Other"] == "S3cr/etWord"
    assert len(second.sent) == 2
    assert second.sent[0][1]["Range"] == "bytes=2-6"
    assert not any(secret in repr(second.sent) for secret in SECRETS)
    assert "Authorization" not in repr(second.sent)


def test_a_session_token_goes_to_no_other_server(servers):
    """The library that reads buckets follows redirections with it."""
    first, second = servers
    options = {
        "key": "mine",
        "secret": "S3cr/etWord",
        "token": "t0kenS3cr+et",
        "endpoint_url": first.address,
    }
    source = RemoteStore("s3://lab/a.zarr", options)
    first.redirect = lambda path: f"{second.address}{path}"
    with pytest.raises(LoginNeededError, match="which redirects"):
        source.get("zarr.json")
    assert not any(secret in repr(second.sent) for secret in SECRETS)
    # Without a redirection it is used.
    first.redirect = lambda path: None
    assert source.get("zarr.json") is None
    assert "t0kenS3cr+et" in repr(first.sent)


def test_the_same_server_gets_the_login_again(servers):
    first, second = servers
    first.redirect = lambda path: "b" if path.endswith("zarr.json") else None
    source = RemoteStore(with_login(first))
    assert source.get("zarr.json") is None
    assert [path for path, _ in first.sent] == ["/a.zarr/zarr.json", "/a.zarr/b"]
    assert all(headers["Authorization"] == LOGIN for _, headers in first.sent)
    # There and back again: what was left behind is not picked up.
    first.redirect = lambda path: f"{second.address}/x"
    second.redirect = lambda path: f"{first.address}/y"
    with pytest.raises(OMEZarrError, match="redirects without an end"):
        source.get("thing")
    assert "Authorization" not in first.sent[-1][1]


@pytest.mark.parametrize("target", ["file:///etc/hosts", "ftp://127.0.0.1/x"])
def test_a_redirection_does_not_leave_http(servers, target):
    servers[0].redirect = lambda path: target
    with pytest.raises(OMEZarrError, match="does not start with http"):
        RemoteStore(f"{servers[0].address}/a.zarr").get("zarr.json")


def test_values_of_secret_options_are_hidden_in_texts():
    options = {
        "key": "AKIAEXAMPLE",
        "client_kwargs": {"aws_session_token": ["longToken"], "region": "nowhere"},
    }
    secrets = AddressSecrets.from_address("s3://bucket/a", options)
    text = "AKIAEXAMPLE and longToken in nowhere"
    assert secrets.hide_in(text) == "… and … in nowhere"
    assert "AKIA" not in repr(secrets)
