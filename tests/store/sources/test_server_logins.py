"""Logins of servers are used where an address has none, and nowhere else."""

from __future__ import annotations

import base64
import copy
import pickle
import traceback

import pytest

from locked_server import logins_sent, two_serving_locked
from napari_ngff import LoginNeededError, open_node
from napari_ngff.store.sources.server_logins import (
    AddressSecrets,
    find_login,
    forget_logins,
    make_login,
    server_of,
    set_login,
)
from plates import pixels, write_image

pytest.importorskip("aiohttp", reason="needs the extra [remote]")
pytestmark = pytest.mark.usefixtures("no_logins")

TOKEN, PASSWORD = "t0ken.S3cret", "S3cr/et:Word"
BASIC = "Basic " + base64.b64encode(f"me:{PASSWORD}".encode()).decode()


@pytest.fixture
def servers(tmp_path):
    write_image(tmp_path / "a.zarr", pixels(1, (2, 8, 8)), 3)
    with two_serving_locked(tmp_path, [f"Bearer {TOKEN}", BASIC]) as both:
        yield both


LOGINS = {"token": make_login(token=TOKEN), "password": make_login("me", PASSWORD)}


@pytest.mark.parametrize("kind", LOGINS)
def test_a_login_opens_all_of_its_server(servers, kind):
    first, second = (f"{server.address}/a.zarr" for server in servers)
    with pytest.raises(LoginNeededError, match="refuses to give") as caught:
        open_node(first)
    assert caught.value.server == servers[0].address
    assert copy.copy(caught.value).server == servers[0].address
    assert pickle.loads(pickle.dumps(caught.value)).server == servers[0].address
    assert "Log in" in caught.value.remedy
    set_login(first, LOGINS[kind])
    node = open_node(first)
    again = pickle.loads(pickle.dumps(node.location.source))
    forget_logins()
    assert again.get("zarr.json"), "another process has the login"
    assert again.name == first
    with pytest.raises(LoginNeededError):
        open_node(first)
    with pytest.raises(LoginNeededError):
        open_node(second)
    assert set(logins_sent(servers[1])) == {None}


def test_what_is_open_gets_a_new_login(servers):
    address = f"{servers[0].address}/a.zarr"
    set_login(address, LOGINS["token"])
    source = open_node(address).location.source
    servers[0].wanted = [BASIC]
    with pytest.raises(LoginNeededError):
        source.get("zarr.json")
    set_login(address, LOGINS["password"])
    assert source.get("zarr.json")


def test_a_login_replaces_one_that_was_refused(servers):
    address = f"http://me:wrong@127.0.0.1:{servers[0].server_port}/a.zarr"
    with pytest.raises(LoginNeededError):
        open_node(address)
    set_login(address, LOGINS["token"])
    assert open_node(address).kind
    assert open_node(f"{servers[0].address}/a.zarr").kind
    # A login in the address that works is the user's choice.
    servers[0].wanted = [BASIC]
    assert open_node(address.replace("wrong", "S3cr%2Fet%3AWord")).kind


@pytest.mark.parametrize("kind", LOGINS)
def test_other_servers_and_errors_get_no_secret(servers, kind):
    first, second = servers
    first.redirect = lambda path: f"{second.address}{path}"
    address = f"{first.address}/a.zarr"
    set_login(address, LOGINS[kind])
    with pytest.raises(LoginNeededError) as caught:
        open_node(address)
    assert logins_sent(first)[0] in (f"Bearer {TOKEN}", BASIC)
    assert set(logins_sent(second)) == {None}
    text = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    text += repr(find_login(address)) + repr(vars(caught.value))
    for secret in (TOKEN, PASSWORD, BASIC.partition(" ")[2], "S3cr"):
        assert secret not in text


def test_a_token_is_hidden_in_texts_of_others():
    login = make_login(token=TOKEN)
    assert TOKEN not in login.hide_in(f"Authorization: Bearer {TOKEN}; {TOKEN}")
    login = make_login("me", PASSWORD)
    assert BASIC[6:] not in login.hide_in(BASIC)


@pytest.mark.parametrize(
    ("address", "server"),
    [
        ("https://Host/a.zarr", "https://host"),
        ("https://me:secret@host:443/a.zarr?sig=1", "https://host"),
        ("http://host:8080/a", "http://host:8080"),
        ("http://host:443/a", "http://host:443"),
        ("s3://bucket/a.zarr", "s3://bucket"),
    ],
)
def test_the_server_of_an_address(address, server):
    assert server_of(address) == server


@pytest.mark.parametrize(
    ("secrets", "says_who"),
    [
        (AddressSecrets(), False),
        (AddressSecrets(options={"endpoint_url": "http://x"}), False),
        (AddressSecrets(options={"anon": True}), True),
        (AddressSecrets(options={"profile": "lab"}), True),
        (AddressSecrets(options={"client_kwargs": {"headers": {"Cookie": "x"}}}), True),
        (AddressSecrets(query="?sig=1"), True),
        (AddressSecrets(token="x"), True),
    ],
)
def test_what_says_who_asks(secrets, says_who):
    assert secrets.has_credentials is says_who
