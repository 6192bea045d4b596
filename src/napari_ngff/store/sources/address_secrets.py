"""Logins, tokens and keys that addresses were opened with; in memory alone."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from napari_ngff.addresses import MARK, hide_secrets, public_address

__all__ = ["AddressSecrets", "forget_secrets", "known_secrets", "remember_secrets"]

SECRET_NAMES = re.compile(
    r"auth|cookie|credential|key|pass|secret|sig|token", re.IGNORECASE
)
"""Names of options and of parts of a query whose values are secrets."""

LOGIN_NAMES = frozenset({"anon", "auth", "profile", "session"})
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
        For fsspec.
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
