"""Logins in the keychain of the computer (extra ``keyring``).

All functions may wait for the user, whom the system asks to unlock the keychain. Each
system has its own kinds of errors, not all of which are keyring's, and some quote what
they were given: ours name their kind alone.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

from napari_ngff.errors import OMEZarrError
from napari_ngff.store.sources.address_secrets import AddressSecrets
from napari_ngff.store.sources.server_logins import server_of

__all__ = ["forget_kept_logins", "is_keyring_installed", "keep_login", "kept_login"]

SERVICE = "napari-ngff"
LIST = "servers"
"""Entry with the servers of all others: a keychain lists none."""


def is_keyring_installed() -> bool:
    """Return whether logins can be kept."""
    return find_spec("keyring") is not None


def keep_login(address: str, login: AddressSecrets) -> None:
    """Keep a login for the server of an address.

    Raises
    ------
    OMEZarrError
        Where the keychain does not take it.
    """
    import keyring

    server = server_of(address)
    try:
        keyring.set_password(SERVICE, server, _write_entry(login))
        others = [one for one in _listed_servers() if one != server]
        keyring.set_password(SERVICE, LIST, json.dumps([*others, server]))
    except OMEZarrError:
        raise
    except Exception as error:  # noqa: BLE001  each system's own kinds
        kind = type(error).__name__
        msg = f"The keychain did not take the login for {server} ({kind})."
        failure = OMEZarrError(msg, remedy="It is used until napari closes.")
    else:
        return
    raise failure


def kept_login(address: str) -> AddressSecrets | None:
    """Return the login that is kept for the server of an address; None for none.

    Raises
    ------
    OMEZarrError
        Where the keychain cannot be read.
    """
    if not is_keyring_installed():
        return None
    parts = _read_entry(server_of(address))
    if not isinstance(parts, dict):
        return None
    options = parts.get("options")
    return AddressSecrets(
        str(parts.get("login", "")),
        "",
        options if isinstance(options, dict) else {},
        str(parts.get("token", "")),
    )


def forget_kept_logins() -> None:
    """Delete all logins that were kept.

    Raises
    ------
    OMEZarrError
        Where the keychain still has some.
    """
    if not is_keyring_installed():
        return
    import keyring

    servers = _listed_servers()
    left = [server for server in servers if not _delete_entry(server)]
    if not left:
        _delete_entry(LIST)
        return
    if len(left) < len(servers):
        keyring.set_password(SERVICE, LIST, json.dumps(left))
    msg = f"The keychain did not delete the login for {', '.join(left)}."
    raise OMEZarrError(msg, remedy=f"Delete the entries of {SERVICE} there.")


def _write_entry(login: AddressSecrets) -> str:
    # In no variable of `keep_login`: tracebacks show variables, too.
    parts = {"login": login.login, "token": login.token, "options": login.options}
    return json.dumps(parts)


def _listed_servers() -> list[str]:
    names = _read_entry(LIST)
    return [str(name) for name in names] if isinstance(names, list) else []


def _read_entry(name: str) -> Any:
    """Read an entry; None for none, for one that is not ours, and without a keychain.

    Raises
    ------
    OMEZarrError
        Where the keychain cannot be read.
    """
    import keyring
    from keyring.errors import NoKeyringError

    try:
        return json.loads(keyring.get_password(SERVICE, name) or "null")
    except (NoKeyringError, ValueError):
        return None
    except Exception as error:  # noqa: BLE001  each system's own kinds
        msg = f"The keychain cannot be read ({type(error).__name__})."
        failure = OMEZarrError(msg, remedy="Unlock it, and try again.")
    raise failure


def _delete_entry(name: str) -> bool:
    """Delete an entry, and return whether it is gone."""
    import keyring

    try:
        keyring.delete_password(SERVICE, name)
    except Exception:  # noqa: BLE001  each system's own kinds; or it is not there
        return _read_entry(name) is None
    return True
