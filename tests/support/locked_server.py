"""A server on this machine that wants a login; what tests of logins begin with."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType

from napari_ngff.store.sources import object_store, server_logins
from napari_ngff.store.sources import remote_store as remote
from unreliable import Handler, serving


class LockedHandler(Handler):
    """Serves whom its server lets in; see `serving_locked`."""

    def do_GET(self):
        server = self.server
        path, _, query = self.path.partition("?")
        server.sent.append((self.path, dict(self.headers)))
        target = server.redirect(self.path)
        login = self.headers.get("Authorization")
        is_allowed = server.wanted is None or login in server.wanted
        if target:
            self.send_empty(302, target)
        elif is_allowed and (not server.query or query == server.query):
            self.path = path
            super().do_GET()
        else:
            server.refused.append(path)
            self.send_empty(401)

    def do_HEAD(self):
        if target := self.server.redirect(self.path):
            self.send_empty(302, target)
        else:
            super().do_HEAD()

    def send_empty(self, status, target=""):
        self.send_response(status)
        if target:
            self.send_header("Location", target)
        elif self.server.asks:
            self.send_header("WWW-Authenticate", self.server.asks)
        self.send_header("Content-Length", "0")
        self.end_headers()


@contextmanager
def serving_locked(folder, wanted=None, query="", handler=LockedHandler):
    """Serve a folder to those who have a login.

    Attributes of the server: `wanted`, the values of the header of a login, or None for
    anyone; `query` of each address; `redirect` tells by the path where to send others.
    `asks` is what the server states about the login that it wants.
    `sent` has path and headers of each request, `refused` the paths that were refused.
    """
    with serving(folder, handler) as server:
        server.wanted, server.query = wanted, query
        server.sent, server.refused, server.asks = [], [], ""
        server.redirect = lambda path: None
        yield server


@contextmanager
def two_serving_locked(folder, wanted=None):
    """Serve a folder by two servers."""
    with ExitStack() as stack:
        yield [stack.enter_context(serving_locked(folder, wanted)) for _ in "12"]


def logins_sent(server):
    """Values of the header of a login, None for requests without."""
    return [headers.get("Authorization") for _, headers in server.sent]


def begin_without_logins(monkeypatch):
    """Begin a session in which nobody has logged in, and no request is made twice."""
    monkeypatch.setattr(remote, "PAUSES", ())
    monkeypatch.setattr(server_logins, "_known", {})
    monkeypatch.setattr(server_logins, "_logins", {})
    monkeypatch.setattr(server_logins, "_refused", [])
    monkeypatch.setattr(server_logins, "_asked_kinds", {})
    monkeypatch.setattr(object_store, "_locked", set())
    dialog = sys.modules.get("napari_ngff.widgets.login_dialog")
    if dialog is not None:
        monkeypatch.setattr(dialog, "_asked_keychain", set())


class NoKeyringError(RuntimeError):
    """There is no keychain."""


class PasswordDeleteError(Exception):
    """There is no such entry, or it stays."""


class FakeKeychain(ModuleType):
    """In place of the package keyring; its entries are in memory."""

    def __init__(self):
        super().__init__("keyring")
        self.__spec__ = ModuleSpec("keyring", None)
        self.kept = {}
        self.errors = ModuleType("keyring.errors")
        self.errors.NoKeyringError = NoKeyringError

    def get_password(self, service, name):
        return self.kept.get((service, name))

    def set_password(self, service, name, text):
        self.kept[service, name] = text

    def delete_password(self, service, name):
        if (service, name) not in self.kept:
            raise PasswordDeleteError(name)
        del self.kept[service, name]
