"""Addresses that are shown and saved have no login and no query."""

from __future__ import annotations

import pytest

from napari_ngff.addresses import hide_secrets, public_address


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("https://host/a.zarr", "https://host/a.zarr"),
        ("https://host:8080/a.zarr/", "https://host:8080/a.zarr/"),
        ("https://me:secret@host/a.zarr", "https://host/a.zarr"),
        ("https://secret@host:80/a.zarr", "https://host:80/a.zarr"),
        ("https://host/a.zarr?token=secret", "https://host/a.zarr"),
        ("https://host/a.zarr?X-Amz-Signature=secret&x=/y#z", "https://host/a.zarr"),
        ("https://host?sig=secret", "https://host"),
        ("http://me:se/cret@host/a.zarr", "http://host/a.zarr"),
        ("http://me:se?cret@host/a.zarr", "http://host/a.zarr"),
        ("http://me:se@cret@host/a.zarr", "http://host/a.zarr"),
        ("http://[::1]:80/a@b", "http://[::1]:80/a@b"),
        ("http://host:80/a@b", "http://host:80/a@b"),
        ("s3://me:secret@bucket/a.zarr", "s3://bucket/a.zarr"),
        ("/home/me/a.zarr", "/home/me/a.zarr"),
        ("file:///home/me@lab/what?.zarr", "file:///home/me@lab/what?.zarr"),
    ],
)
def test_an_address_is_made_public(address, public):
    assert public_address(address) == public
    assert public_address(public) == public


@pytest.mark.parametrize(
    ("text", "public"),
    [
        (
            "401, message='No', url='http://me:secret@host/a?token=secret'",
            "401, message='No', url='http://host/a'",
        ),
        ("See http://me:secret@host/a.zarr.", "See http://host/a.zarr."),
        ("One http://me:secret@h/a and s3://b/c?sig=secret", "One http://h/a and s3://b/c"),
        ("No address: what?", "No address: what?"),
    ],
)  # fmt: skip
def test_the_addresses_in_a_text_are_made_public(text, public):
    assert hide_secrets(text) == public
