"""Buckets are read as anyone may, then with credentials; written with credentials."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from buckets import bucket_server
from napari_ngff import LoginNeededError, open_node
from napari_ngff.errors import OMEZarrError, UnsupportedError
from napari_ngff.store.hierarchy.node import OpenedGroups
from napari_ngff.store.sources import object_store, server_access
from napari_ngff.store.sources.remote_store import RemoteStore
from napari_ngff.store.sources.server_logins import make_login, set_login
from napari_ngff.store.threads import MOST, thread_pool
from patience import until
from plates import pixels, write_image
from range_server import serving_ranges

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
FILES = {True: "s3://public/a.zarr", False: "s3://private/a.zarr"}


@pytest.fixture(scope="module")
def files():
    with bucket_server() as files:
        yield files


@pytest.fixture(scope="module")
def buckets(files, tmp_path_factory):
    """The same image in a bucket that anyone may read, and in one that no one may."""
    for name in ("a.zarr", "older.zarr"):
        folder = tmp_path_factory.mktemp("image") / name
        write_image(folder, pixels(1, (2, 8, 8)), 2 + (name == "a.zarr"))
        for bucket in ("public", "private"):
            files.makedirs(bucket, exist_ok=True)
            acl = {"ACL": "public-read"} if bucket == "public" else {}
            files.put(f"{folder}/", f"{bucket}/{name}/", recursive=True, **acl)
    return files


@pytest.fixture(autouse=True)
def new_session(buckets, no_logins):
    # What the test before asked for ahead, and has not read.
    until(lambda: not (thread_pool(MOST)._work_queue.qsize() or server_access._waiting))
    buckets.asked.clear()


@pytest.fixture
def no_keys(monkeypatch, tmp_path):
    """A computer without credentials."""
    for name in KEYS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return tmp_path


def were_signed(buckets, bucket=""):
    """Return whether each object was read with credentials."""
    read = [one for one in buckets.asked if one.name == "get"]
    return [one.is_signed for one in read if one.path.startswith(f"/{bucket}")]


def test_a_public_bucket_needs_no_credentials(no_keys, buckets):
    source = open_node(FILES[True]).location.source
    assert set(were_signed(buckets)) == {False}
    source.ask_writable().result()
    assert "cannot be written" in source.why_not_written()
    assert source.fetch_part("zarr.json", 0, 5).data == source.get("zarr.json")[:5]


@pytest.fixture
def denies_missing(buckets, monkeypatch):
    """Buckets answer as those of AWS that nobody may list: Access Denied."""
    monkeypatch.setattr(buckets, "deny_missing", True)


@pytest.mark.parametrize("keys", ["no_keys", "buckets"])
def test_a_bucket_that_nobody_may_list(request, denies_missing, keys):
    request.getfixturevalue(keys)
    for bucket in ("public",) if keys == "no_keys" else ("public", "private"):
        node = open_node(f"s3://{bucket}/older.zarr")
        assert node.zarr_format == 2
        assert node.labels() == OpenedGroups((), ())
        assert node.location.source.get("0/0/0/9") is None
        assert node.location.source.fetch_part("a.ozx", 0, 5) is None
        assert node.location.source.ask_revision("0/0/0/9") is None


def test_a_public_bucket_is_written_with_credentials(buckets):
    source = open_node(FILES[True]).location.source
    assert set(were_signed(buckets)) == {False}
    assert source.ask_writable().result()
    transaction = source.begin()
    transaction.put("mine/c/0", b"chunk")
    assert transaction.commit()
    # The new object has not been made public.
    assert source.get("mine/c/0") == b"chunk"
    assert were_signed(buckets)[-2:] == [False, True]


def test_a_private_bucket_is_asked_twice_once(buckets):
    source = RemoteStore(FILES[False])
    assert source.get("zarr.json")
    assert were_signed(buckets) == [False, True]
    assert source.get("0/zarr.json")
    assert RemoteStore(FILES[False]).get("nothing") is None
    assert were_signed(buckets) == [False, True, True, True]
    assert "zarr.json" in source.list_names("")


def test_a_private_bucket_without_credentials(no_keys):
    with pytest.raises(LoginNeededError, match="no credentials for s3://private") as no:
        open_node(FILES[False])
    assert no.value.server == "s3://private"
    with pytest.raises(LoginNeededError):
        RemoteStore(FILES[False]).fetch_part("zarr.json", 0, 5)
    set_login(FILES[False], make_login(options={"key": "mine", "secret": "S3cret"}))
    source = open_node(FILES[False]).location.source
    assert source.ask_writable().result()


def test_a_profile_is_used(no_keys, buckets):
    (no_keys / "credentials").write_text(
        "[lab]\naws_access_key_id = mine\naws_secret_access_key = S3cret\n"
    )
    set_login(FILES[False], make_login(options={"profile": "lab"}))
    assert open_node(FILES[False]).kind
    assert set(were_signed(buckets)) == {True}
    set_login(FILES[False], make_login(options={"profile": "nowhere"}))
    with pytest.raises(LoginNeededError, match="nowhere"):
        RemoteStore(FILES[False]).get("zarr.json")


def test_an_endpoint_alone_is_asked_without_credentials(no_keys, buckets, monkeypatch):
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    login = make_login(options={"endpoint_url": endpoint})
    set_login(FILES[True], login)
    assert open_node(FILES[True]).kind
    assert set(were_signed(buckets)) == {False}


def test_what_an_address_is_opened_with_is_used_first(buckets):
    open_node(FILES[True], key="mine", secret="S3cret")
    assert set(were_signed(buckets)) == {True}
    with pytest.raises(LoginNeededError):
        open_node(FILES[False], anon=True)
    assert set(were_signed(buckets, "private")) == {False}


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (403, "refuses to list s3://public/a.zarr/0"),
        (418, r"s3://public/a.zarr/0 did not come .*: it answered 418 I'm a teapot"),
    ],
)
def test_a_listing_that_fails_names_the_address(buckets, monkeypatch, status, text):
    monkeypatch.setattr(buckets, "answer", lambda asked: status)
    source = RemoteStore(FILES[True], {"key": "mine", "secret": "S3cret"})
    with pytest.raises(OSError, match=text) as caught:
        source.list_names("0")
    assert isinstance(caught.value, OMEZarrError)
    assert not isinstance(caught.value, LoginNeededError)


def test_an_odd_failure_does_not_make_a_bucket_read_only(buckets, monkeypatch):
    monkeypatch.setattr(buckets, "answer", lambda asked: 418)
    assert RemoteStore(FILES[True]).ask_writable().result()


def test_a_token_of_the_environment_is_not_mixed_with_other_keys(
    buckets, monkeypatch, tmp_path
):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-another-key")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    keys = "aws_access_key_id = ofProfile\naws_secret_access_key = S3cret\n"
    (tmp_path / "credentials").write_text(f"[lab]\n{keys}")
    for options, key in (
        ({"key": "mine", "secret": "S3cret"}, "mine"),
        ({"profile": "lab"}, "ofProfile"),
    ):
        buckets.asked.clear()
        assert RemoteStore(FILES[False], options).get("zarr.json")
        (asked,) = buckets.asked
        assert f"Credential={key}/" in asked.headers["AUTHORIZATION"]
        assert "X_AMZ_SECURITY_TOKEN" not in asked.headers
    assert RemoteStore(FILES[False]).get("zarr.json")
    assert buckets.asked[-1].headers["X_AMZ_SECURITY_TOKEN"] == "of-another-key"


def test_an_option_that_nobody_knows_is_named():
    with pytest.raises(UnsupportedError, match="'use_listings_cache' is not valid"):
        open_node(FILES[True], use_listings_cache=False)


MALFORMED = b"<Error><Code>AuthorizationHeaderMalformed</Code></Error>"


@pytest.mark.parametrize("refusal", [(301, {}), (400, {}, MALFORMED)], ids=str)
def test_a_bucket_in_another_region_is_found(buckets, monkeypatch, refusal):
    """As AWS answers: it does not state where to, or how to sign; and by HEAD where."""
    monkeypatch.setattr(object_store, "_regions", {})
    monkeypatch.setattr(object_store, "_opened", {})

    def answer(asked):
        if asked.method == "HEAD":
            return 403, {"x-amz-bucket-region": "eu-west-1"}
        is_there = "/eu-west-1/" in asked.headers.get("AUTHORIZATION", "")
        return None if is_there else refusal

    monkeypatch.setattr(buckets, "answer", answer)
    source = RemoteStore(FILES[False], {"key": "mine", "secret": "S3cret"})
    assert source.get("zarr.json")
    assert source.get("0/zarr.json")
    assert [one.method for one in buckets.asked] == ["GET", "HEAD", "GET", "GET"]
    # Also where all begin before the answer.
    monkeypatch.setattr(object_store, "_regions", {})
    monkeypatch.setattr(object_store, "_opened", {})
    source = RemoteStore(FILES[False], {"key": "mine", "secret": "S3cret"})
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(source.get, ["zarr.json", "0/zarr.json"] * 8))


@pytest.mark.parametrize("key", ["a b", "a%20b", "x#1", "a?b", "é&b=c", "50%", "p+q"])
def test_a_key_is_quoted_once(buckets, key):
    buckets.pipe(f"private/odd.zarr/{key}/c", b"pixels")
    source = RemoteStore("s3://private/odd.zarr")
    assert source.get(f"{key}/c") == b"pixels"
    assert key in source.list_names("")
    assert source.list_names(key) == ("c",)


def test_hierarchies_of_a_bucket_share_their_connections(buckets, monkeypatch):
    def access_of(address, options=None):
        return RemoteStore(address, options).access

    shared = access_of("s3://public/a.zarr")
    keys = {"key": "mine", "secret": "S3cret"}
    assert access_of("s3://public/b.zarr") is shared
    assert access_of("s3://private/a.zarr") is not shared
    assert access_of("s3://public/a.zarr", keys) is not shared
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert access_of("s3://public/a.zarr") is not shared


@pytest.mark.parametrize("missing", KEYS)
def test_incomplete_keys_of_the_environment_hide_no_public_data(monkeypatch, missing):
    monkeypatch.delenv(missing)
    for options in ({}, {"anon": True}):
        assert RemoteStore(FILES[True], options).get("zarr.json")
    with pytest.raises(LoginNeededError, match="the keys are incomplete"):
        RemoteStore(FILES[False]).get("zarr.json")


def test_keys_that_are_written_later_are_found(no_keys):
    source = RemoteStore(FILES[False])
    with pytest.raises(LoginNeededError):
        source.get("zarr.json")
    keys = "aws_access_key_id = later\naws_secret_access_key = S3cret\n"
    (no_keys / "credentials").write_text(f"[default]\n{keys}")
    assert source.get("zarr.json")


@pytest.mark.parametrize(
    ("scheme", "options", "endpoint"),
    [("gs", {}, "base_url"), ("az", {"account_name": "lab"}, "endpoint")],
)
def test_buckets_of_google_and_azure_are_read(
    tmp_path, no_logins, scheme, options, endpoint
):
    (tmp_path / "cells" / "a.zarr").mkdir(parents=True)
    (tmp_path / "cells" / "a.zarr" / "thing").write_bytes(b"0123456789")
    with serving_ranges(tmp_path) as server:
        options = {**options, endpoint: server.address}
        store = RemoteStore(f"{scheme}://cells/a.zarr", options)
        assert store.get("thing") == b"0123456789"
        assert store.get("thing", 2, 3) == b"234"
        assert store.get("thing", -3, 2) == b"78"
        assert store.get("nothing") is None
        store.ask_writable().result()
        assert "cannot be written" in store.why_not_written("")


def test_what_azure_lacks_is_named(no_logins):
    with pytest.raises(UnsupportedError, match=r"az://cells .* Account must be spec"):
        RemoteStore("az://cells/a.zarr")
