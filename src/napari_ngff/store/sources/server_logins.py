"""Logins by server, as the user gave them; in memory, until napari ends.

They are used for addresses that have no login of their own, or one that was refused.

`AddressSecrets` has those that addresses were opened with, in memory alone. The
keychain of the computer keeps logins for longer (extra ``keyring``).

Functions on the keychain may wait for the user, whom the system asks to unlock the
keychain. Each system has its own kinds of errors, not all of which are keyring's, and
some quote what they were given: ours name their kind alone.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from napari_ngff.addresses import MARK, hide_secrets, public_address
from napari_ngff.errors import OMEZarrError
from napari_ngff.store.data_folder import data_folder
from napari_ngff.store.limits import parse_json
from napari_ngff.store.write.shared_document import SharedDocument

SECRET_NAMES = re.compile(
    r"auth|cookie|credential|key|pass|secret|sig|token", re.IGNORECASE
)
"""Names of options and of parts of a query whose values are secrets."""

LOGIN_NAMES = frozenset({"anon", "auth", "profile", "skip_signature"})
"""Names of other options that say who asks, or that no one in particular does."""

SHORTEST = 4
"""Letters; what is shorter is no secret, and stands in many words."""

HIDDEN = "…"


@dataclass(frozen=True, slots=True)
class AddressSecrets:
    """What requests of one address need, and no one else gets.

    Attributes
    ----------
    login
        ``user:password``, encoded as in the address; "" without one.
    query
        Of the address, with its ``?``; "" without one.
    options
        Of requests by HTTP, or of a bucket.
    token
        Of a bearer, which goes in place of a login; "" without one.
    """

    login: str = field(default="", repr=False)
    query: str = field(default="", repr=False)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    token: str = field(default="", repr=False)

    @classmethod
    def from_address(
        cls, address: str, options: Mapping[str, Any] | None = None
    ) -> AddressSecrets:
        """Take the secrets out of an address."""
        parts = urlsplit(address)
        login = parts.netloc.rpartition("@")[0]
        query = f"?{parts.query}" if parts.query else ""
        return cls(login, query, dict(options or {}))

    def __bool__(self) -> bool:
        return bool(self.login or self.query or self.options or self.token)

    @property
    def has_credentials(self) -> bool:
        """Return whether they say who asks; other options do not."""
        own = self.login or self.query or self.token
        named = LOGIN_NAMES & {*self.options} or any(_secret_values(self.options))
        return bool(own or named)

    @property
    def authorization(self) -> str:
        """Value of the header with the login or the token; "" without one."""
        if self.token:
            return f"Bearer {self.token}"
        if not self.login:
            return ""
        return f"Basic {base64.b64encode(unquote(self.login).encode()).decode()}"

    def complete_address(self, public: str) -> str:
        """Put the login and the query into a public address."""
        scheme, mark, rest = public.partition(MARK)
        login = f"{self.login}@" if self.login else ""
        return f"{scheme}{mark}{login}{rest}{self.query}"

    def hide_in(self, text: str) -> str:
        """Remove the secrets from a text of another library."""
        text = hide_secrets(text)
        for secret in sorted(set(self._words()), key=len, reverse=True):
            if len(secret) >= SHORTEST:
                text = text.replace(secret, HIDDEN)
        return text

    def _words(self) -> Iterator[str]:
        yield from (self.query, self.query[1:], self.authorization, self.token)
        yield self.authorization.partition(" ")[2]
        password = self.login.partition(":")[2]
        yield from (self.login, password, unquote(self.login), unquote(password))
        yield from (value for _, value in parse_qsl(self.query[1:]))
        yield from _secret_values(self.options)


def _secret_values(options: Mapping[str, Any], *, every: bool = False) -> Iterator[str]:
    """List the values of options that are secret by their names, at any depth."""
    for name, value in options.items():
        is_secret = every or bool(SECRET_NAMES.search(str(name)))
        if isinstance(value, Mapping):
            yield from _secret_values(value, every=is_secret)
        elif is_secret and isinstance(value, tuple | list):
            yield from (str(part) for part in value)
        elif is_secret and isinstance(value, str):
            yield value


_known: dict[str, AddressSecrets] = {}


def remember_secrets(address: str, secrets: AddressSecrets) -> None:
    """Keep what a hierarchy was opened with, for when only its public address is known.

    Names of layers and files have no other address.
    """
    _known[public_address(address)] = secrets


def known_secrets(address: str) -> AddressSecrets:
    """Return what a hierarchy was opened with last; empty for an unknown one."""
    return _known.get(public_address(address), AddressSecrets())


def forget_secrets() -> None:
    """Forget what hierarchies were opened with; those that are open keep it."""
    _known.clear()


SERVICE = "napari-ngff"

_without_keychain = threading.Event()
"""Set where `keyring` found no keychain, as on many Linux computers."""


def is_keyring_installed() -> bool:
    """Return whether a keychain can be asked for logins."""
    return find_spec("keyring") is not None


def can_keep_logins() -> bool:
    """Return whether there is a keychain, as far as `kept_login` has found."""
    return is_keyring_installed() and not _without_keychain.is_set()


def keep_login(address: str, login: AddressSecrets) -> None:
    """Keep a login for the server of an address.

    Raises
    ------
    OMEZarrError
        Where the keychain does not take it.
    """
    import keyring

    server, servers = server_of(address), _kept_servers()

    def keep_entry(content: Any) -> list[str]:
        parts = {"login": login.login, "token": login.token, "options": login.options}
        keyring.set_password(SERVICE, server, json.dumps(parts))
        return list_server(content)

    def list_server(content: Any) -> list[str]:
        return list(dict.fromkeys([*_list_names(content), server]))

    try:
        # First: of an entry that is not listed, nothing would know.
        servers.change(list_server)
        servers.change(keep_entry)
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
    left: list[str] = []

    def delete_entries(content: Any) -> list[str]:
        left[:] = [name for name in _list_names(content) if not _delete_entry(name)]
        return left

    _kept_servers().change(delete_entries)
    if left:
        msg = f"The keychain did not delete the login for {', '.join(left)}."
        raise OMEZarrError(msg, remedy=f"Delete the entries of {SERVICE} there.")


def _kept_servers() -> SharedDocument:
    """Return the list of servers with an entry: a keychain lists none.

    In a folder of its own: who changes it may wait for the user.
    """
    return SharedDocument(data_folder() / "logins" / "servers.json", replaceable=True)


def _list_names(content: Any) -> list[str]:
    return [str(name) for name in content] if isinstance(content, list) else []


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
        text = keyring.get_password(SERVICE, name)
        _without_keychain.clear()
        return parse_json(text or "null")
    except NoKeyringError:
        _without_keychain.set()
        return None
    except ValueError:
        return None
    except Exception as error:  # noqa: BLE001  each system's own kinds
        msg = f"The keychain cannot be read ({type(error).__name__})."
        failure = OMEZarrError(msg, remedy="Unlock it, and try again.")
    raise failure


def _delete_entry(name: str) -> bool:
    """Delete an entry, and return whether it is gone."""
    import keyring

    with suppress(Exception):  # each system's own kinds; or it is not there
        keyring.delete_password(SERVICE, name)
        return True
    return _read_entry(name) is None


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
        Of a bucket: ``profile``, ``key`` and ``secret``, ``endpoint_url``.
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
