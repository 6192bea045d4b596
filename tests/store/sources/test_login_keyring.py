"""Logins in a keychain: what it has, and what it refuses."""

from __future__ import annotations

import sys

import pytest

from locked_server import NoKeyringError
from napari_ngff.errors import OMEZarrError
from napari_ngff.store.sources.server_logins import (
    forget_kept_logins,
    keep_login,
    kept_login,
    make_login,
)

LOGINS = {
    "https://lab.org": make_login("me", "S3cret: Word"),
    "https://host:8080": make_login(token="t0ken"),
    "s3://cells": make_login(options={"key": "mine", "secret": "S3cret"}),
}


@pytest.fixture
def filled(keychain):
    for server, login in LOGINS.items():
        keep_login(f"{server}/a.zarr", login)
    return keychain


def fail_with(monkeypatch, name, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(sys.modules["keyring"], name, fail)


def test_what_was_kept_comes_back(filled):
    for server, login in LOGINS.items():
        assert kept_login(f"{server}/b.zarr") == login
    assert kept_login("https://other.org/a.zarr") is None
    keep_login("s3://cells", LOGINS["s3://cells"])
    assert len(filled) == 3
    forget_kept_logins()
    assert not filled
    forget_kept_logins()


def test_an_entry_of_others_is_none(filled):
    for text in ("no JSON", "[1]"):
        filled["napari-ngff", "s3://cells"] = text
        assert kept_login("s3://cells") is None


def test_a_computer_without_a_keychain_has_no_logins(keychain, monkeypatch):
    for name in ("get_password", "set_password", "delete_password"):
        fail_with(monkeypatch, name, NoKeyringError())
    assert kept_login("s3://cells") is None
    forget_kept_logins()
    with pytest.raises(OMEZarrError, match=r"did not take .*NoKeyringError"):
        keep_login("s3://cells", LOGINS["s3://cells"])


def test_a_keychain_that_is_locked_is_an_error(filled, monkeypatch):
    for name in ("get_password", "delete_password"):
        fail_with(monkeypatch, name, OSError("S3cret is locked"))
    for ask in (lambda: kept_login("s3://cells"), forget_kept_logins):
        with pytest.raises(OMEZarrError, match=r"cannot be read \(OSError\)") as caught:
            ask()
        assert "S3cret" not in str(caught.value)
        assert caught.value.__context__ is None
    assert len(filled) == 3


def test_what_is_not_deleted_is_named_and_listed(filled, monkeypatch):
    keyring = sys.modules["keyring"]
    delete = keyring.delete_password

    def delete_some(service, name):
        if name == "s3://cells":
            raise RuntimeError(filled[service, name])
        delete(service, name)

    monkeypatch.setattr(keyring, "delete_password", delete_some)
    with pytest.raises(OMEZarrError, match="did not delete the login for s3://cells"):
        forget_kept_logins()
    assert set(filled) == {("napari-ngff", "s3://cells")}
    monkeypatch.setattr(keyring, "delete_password", delete)
    forget_kept_logins()
    assert not filled


def test_a_login_that_was_not_kept_is_forgotten_without_an_error(filled, monkeypatch):
    fail_with(monkeypatch, "set_password", OSError("full"))
    with pytest.raises(OMEZarrError, match="did not take the login"):
        keep_login("https://new.org", LOGINS["s3://cells"])
    forget_kept_logins()
    assert not filled
