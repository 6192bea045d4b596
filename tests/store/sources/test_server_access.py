"""Buckets are read as anyone may, then with credentials; written with credentials."""

from __future__ import annotations

import os

import pytest

from buckets import bucket_server
from napari_ngff import LoginNeededError, open_node
from napari_ngff.errors import OMEZarrError
from napari_ngff.store.hierarchy.node import OpenedGroups
from napari_ngff.store.sources.remote_source import RemoteSource
from napari_ngff.store.sources.server_logins import make_login, set_login
from napari_ngff.store.write.begin import begin_transaction, why_not_written
from plates import pixels, write_image

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
    files.invalidate_cache()
    return files


@pytest.fixture(autouse=True)
def new_files(buckets, no_logins):
    type(buckets).clear_instance_cache()
    yield
    type(buckets).clear_instance_cache()


@pytest.fixture
def no_keys(monkeypatch, tmp_path):
    """A computer without credentials."""
    for name in KEYS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return tmp_path


@pytest.fixture
def asked(buckets, monkeypatch):
    """Return whether each object was read without credentials."""
    found = []
    read = type(buckets)._call_s3

    async def note(self, *given, **named):
        if given[0] == "get_object":
            found.append(self.anon)
        return await read(self, *given, **named)

    monkeypatch.setattr(type(buckets), "_call_s3", note)
    return found


def test_a_public_bucket_needs_no_credentials(no_keys, asked):
    source = open_node(FILES[True]).location.source
    assert set(asked) == {True}
    assert "cannot be written" in why_not_written(source)
    assert source.fetch_part("zarr.json", 0, 5).data == source.get("zarr.json")[:5]


@pytest.fixture
def denies_missing(buckets, monkeypatch):
    """Buckets answer as those of AWS that nobody may list: Access Denied."""
    read = type(buckets)._call_s3

    async def deny(self, *given, **named):
        try:
            return await read(self, *given, **named)
        except FileNotFoundError:
            raise PermissionError("Access Denied") from None

    monkeypatch.setattr(type(buckets), "_call_s3", deny)


@pytest.mark.parametrize("keys", ["no_keys", "asked"])
def test_a_bucket_that_nobody_may_list(request, denies_missing, keys):
    request.getfixturevalue(keys)
    for bucket in ("public",) if keys == "no_keys" else ("public", "private"):
        node = open_node(f"s3://{bucket}/older.zarr")
        assert node.zarr_format == 2
        assert node.labels() == OpenedGroups((), ())
        assert node.location.source.get("0/0/0/9") is None
        assert node.location.source.fetch_part("a.ozx", 0, 5) is None
        assert node.location.source.ask_revision("0/0/0/9") is None


def test_a_public_bucket_is_written_with_credentials(asked):
    source = open_node(FILES[True]).location.source
    assert set(asked) == {True}
    assert source.ask_writable().result()
    transaction = begin_transaction(source)
    transaction.put("mine/c/0", b"chunk")
    assert transaction.commit()
    # The new object has not been made public.
    assert source.get("mine/c/0") == b"chunk"
    assert asked[-2:] == [True, False]


def test_a_private_bucket_is_asked_twice_once(asked):
    source = RemoteSource(FILES[False])
    assert source.get("zarr.json")
    assert asked == [True, False]
    assert source.get("0/zarr.json")
    assert RemoteSource(FILES[False]).get("nothing") is None
    assert asked == [True, False, False, False]
    assert "zarr.json" in source.list_names("")


def test_a_private_bucket_without_credentials(no_keys):
    with pytest.raises(LoginNeededError, match="no credentials for s3://private") as no:
        open_node(FILES[False])
    assert no.value.server == "s3://private"
    with pytest.raises(LoginNeededError):
        RemoteSource(FILES[False]).fetch_part("zarr.json", 0, 5)
    set_login(FILES[False], make_login(options={"key": "mine", "secret": "S3cret"}))
    source = open_node(FILES[False]).location.source
    assert source.ask_writable().result()


def test_a_profile_is_used(no_keys, asked):
    (no_keys / "credentials").write_text(
        "[lab]\naws_access_key_id = mine\naws_secret_access_key = S3cret\n"
    )
    set_login(FILES[False], make_login(options={"profile": "lab"}))
    assert open_node(FILES[False]).kind
    assert set(asked) == {False}
    set_login(FILES[False], make_login(options={"profile": "nowhere"}))
    with pytest.raises(LoginNeededError, match="nowhere"):
        RemoteSource(FILES[False]).get("zarr.json")


def test_an_endpoint_alone_is_asked_without_credentials(no_keys, asked, monkeypatch):
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    login = make_login(options={"endpoint_url": endpoint})
    set_login(FILES[True], login)
    assert open_node(FILES[True]).kind
    assert set(asked) == {True}


def test_what_an_address_is_opened_with_is_used_first(asked):
    open_node(FILES[True], key="mine", secret="S3cret")
    assert set(asked) == {False}
    asked.clear()
    with pytest.raises(LoginNeededError):
        open_node(FILES[False], anon=True)
    assert set(asked) == {True}


@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        (PermissionError("Access Denied"), "refuses to list s3://public/a.zarr/0"),
        (RuntimeError("odd S3cret"), "s3://public/a.zarr/0 did not come .*: odd …"),
    ],
)
def test_a_listing_that_fails_names_the_address(buckets, monkeypatch, refusal, text):
    async def fail(*_, **__):
        raise refusal

    monkeypatch.setattr(type(buckets), "_ls", fail)
    source = RemoteSource(FILES[True], {"key": "mine", "secret": "S3cret"})
    with pytest.raises(OSError, match=text) as caught:
        source.list_names("0")
    assert isinstance(caught.value, OMEZarrError)
    assert not isinstance(caught.value, LoginNeededError)


def test_an_odd_failure_does_not_make_a_bucket_read_only(buckets, monkeypatch):
    async def fail(*_, **__):
        raise TypeError("odd")

    monkeypatch.setattr(type(buckets), "_call_s3", fail)
    assert RemoteSource(FILES[True]).ask_writable().result()
