"""Addresses without their secrets: what is shown, logged and saved.

>>> public_address("https://me:secret@host/cells.ome.zarr?token=abc")
'https://host/cells.ome.zarr'

An address can hold a login, and its query a token or a signature. Only the requests
themselves use these; nothing else gets an address that was not made public here.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote, urlsplit

MARK = "://"

ADDRESS = re.compile(r"\b[A-Za-z][\w+.-]*://\S+")

PUNCTUATION = ".,;:)]}'\""
"""What may follow an address in a sentence."""

HOST = re.compile(r"(?:\[[^\]]*\]|[^:]*)(?::\d*)?")
"""A host with its port."""

QUERY = re.compile(r"[?#].*", re.DOTALL)


def is_url(where: object) -> bool:
    """Return whether this is a remote address; a ``file:`` address is a path."""
    # "C:\\..." has no "//": a drive of Windows is no scheme.
    if not isinstance(where, str) or MARK not in where:
        return False
    return urlsplit(where).scheme.lower() not in ("", "file")


def public_address(where: str) -> str:
    """Remove the login and the query of an address; a path stays as it is."""
    scheme, mark, rest = where.partition(MARK)
    if not mark or scheme.lower() == "file":
        return where
    host = re.match(r"[^/?#]*", rest)
    length = host.end() if host else 0
    name, tail = rest[:length].rpartition("@")[2], rest[length:]
    if not HOST.fullmatch(name):
        # A password with a "/" or "?" that should have been encoded.
        _, mark, after = rest.rpartition("@")
        name, tail = (after, "") if mark else (name.partition(":")[0], "")
    return f"{scheme}{MARK}{name}{QUERY.sub('', tail)}"


def is_web(address: str) -> bool:
    """Return whether it is an address of HTTP, where names are quoted (RFC 3986)."""
    return re.match("https?://", address, re.IGNORECASE) is not None


def name_server(address: str) -> str:
    """Name the server of an address to a user: its host, or bucket; "" for a path."""
    scheme, mark, rest = public_address(address).partition(MARK)
    if not mark or scheme.lower() == "file":
        return ""
    host = rest.partition("/")[0]
    return host if is_web(address) else f"the bucket {host}"


def join_address(root: str, key: str) -> str:
    """Put a key below a path or an address; see `read_name` for the way back."""
    if is_web(root):
        key = quote(key, errors="surrogateescape")
    return f"{root}/{key}" if key else root


def read_name(root: str, part: str) -> str:
    """Return what a part of an address below `root` names."""
    return unquote(part, errors="surrogateescape") if is_web(root) else part


def hide_secrets(text: str) -> str:
    """Make all addresses in a text public."""
    return ADDRESS.sub(_replace_match, text) if MARK in text else text


def _replace_match(found: re.Match[str]) -> str:
    address = found[0].rstrip(PUNCTUATION)
    return public_address(address) + found[0][len(address) :]
