"""Logins by server, as the user gave them; in memory, until napari ends.

They are used for addresses that have no login of their own, or one that was refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from napari_ngff.addresses import public_address
from napari_ngff.store.sources.address_secrets import AddressSecrets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "asked_login",
    "call_after_login",
    "choose_secrets",
    "find_login",
    "forget_logins",
    "make_login",
    "note_refusal",
    "server_of",
    "set_login",
]

USUAL_PORTS = {"http": 80, "https": 443}

_logins: dict[str, AddressSecrets] = {}
_refused: list[AddressSecrets] = []
_asked_kinds: dict[str, str] = {}
_listeners: list[Callable[[str], None]] = []


def server_of(address: str) -> str:
    """Return what logins are kept by: ``https://host:8080``, or ``s3://bucket``."""
    parts = urlsplit(public_address(address))
    host, port = parts.netloc.lower(), USUAL_PORTS.get(parts.scheme)
    return f"{parts.scheme}://{host.removesuffix(f':{port}')}"


def make_login(
    user: str = "",
    password: str = "",
    token: str = "",
    options: Mapping[str, Any] | None = None,
) -> AddressSecrets:
    """Make a login of what a user typed.

    Parameters
    ----------
    options
        For s3fs: ``profile``, ``key`` and ``secret``, ``endpoint_url``.
    """
    login = f"{quote(user, safe='')}:{quote(password, safe='')}" if user else ""
    return AddressSecrets(login, "", dict(options or {}), token)


def set_login(address: str, login: AddressSecrets) -> None:
    """Use a login for a server from now on, also by what is open of it."""
    server = server_of(address)
    _logins[server] = login
    for listener in _listeners:
        listener(server)


def call_after_login(listener: Callable[[str], None]) -> None:
    """Have a function called with each server that gets a login; in any thread."""
    _listeners.append(listener)


def find_login(address: str) -> AddressSecrets | None:
    """Return the login that was set for the server of an address; None for none."""
    return _logins.get(server_of(address))


def forget_logins() -> None:
    """Forget the logins of all servers; addresses keep their own."""
    _logins.clear()
    _refused.clear()
    _asked_kinds.clear()


def note_refusal(secrets: AddressSecrets, server: str = "", asked: str = "") -> None:
    """Note that a server refused what an address had: another login may replace it.

    Parameters
    ----------
    asked
        The kind of login that the server asks for, such as "basic"; "" for none.
    """
    if server and asked:
        _asked_kinds[server] = asked
    if secrets.has_credentials and secrets not in _refused:
        _refused.append(secrets)


def asked_login(server: str) -> str:
    """Return the kind of login that a server asks for, such as "basic"; or ""."""
    return _asked_kinds.get(server, "")


def choose_secrets(own: AddressSecrets, server: str) -> AddressSecrets:
    """Choose between the secrets of an address and the login of its server."""
    login = _logins.get(server)
    if login is None or (own.has_credentials and own not in _refused):
        return own
    if own.has_credentials:
        return login
    return replace(login, options={**own.options, **login.options})
