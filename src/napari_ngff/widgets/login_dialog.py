"""Asks for the login of a server when a remote file is opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLineEdit,
    QVBoxLayout,
)

from napari_ngff.addresses import name_server
from napari_ngff.errors import error_text
from napari_ngff.store.sources.server_logins import (
    AddressSecrets,
    asked_login,
    can_keep_logins,
    find_login,
    is_keyring_installed,
    keep_login,
    kept_login,
    make_login,
    set_login,
)
from napari_ngff.viewer.services.window import Window
from napari_ngff.widgets.connections import fill_layout, wrapping_label
from napari_ngff.widgets.form_dialog import WIDTH, is_window_open, main_window

TOKEN, PASSWORD = "Token", "User and password"
KEYS, PROFILE, PUBLIC = "Access keys", "Profile of AWS", "No login (public)"

FIELDS = {
    "token": "Token",
    "user": "User",
    "password": "Password",
    "key": "Access key",
    "secret": "Secret key",
    "profile": "Profile",
    "endpoint_url": "Endpoint",
}
"""Names of the lines, with their labels."""

HIDDEN_FIELDS = ("token", "password", "secret")

OF_WEB = {TOKEN: ("token",), PASSWORD: ("user", "password")}
OF_BUCKETS = {KEYS: ("key", "secret"), PROFILE: ("profile",), PUBLIC: ()}
"""Kinds of login, and the lines that each needs."""

KINDS = {"s3": OF_BUCKETS}
"""Those of an address, by its scheme; `OF_WEB` of all others."""

NOT_NEEDED = dict.fromkeys(OF_BUCKETS, ("endpoint_url",))
"""Further lines of kinds of login."""

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")

UNENCRYPTED = "This address is not encrypted (http): others could read what you type."
KEEP = "Keep in the keychain of this computer"

_asked_keychain: set[str] = set()
"""Servers whose kept login was used in this session."""


@dataclass(frozen=True, slots=True)
class LoginAnswer:
    """What a user answered.

    Attributes
    ----------
    server
        For which the login is.
    login
        What was typed.
    is_kept
        Whether it shall be kept in the keychain.
    """

    server: str
    login: AddressSecrets = field(repr=False)
    is_kept: bool = False


class LoginDialog(QDialog):
    """Asks for a login; it blocks nothing.

    Parameters
    ----------
    viewer
        In front of its window.
    server
        As of `server_of`.
    answered
        Called once with the answer, or with None; never if the window is closed.
    refused
        A login that the server did not accept; its secrets are not shown.
    """

    def __init__(
        self,
        viewer: Any,
        server: str,
        answered: Callable[[LoginAnswer | None], None],
        refused: AddressSecrets | None = None,
    ) -> None:
        super().__init__(main_window(viewer))
        self.server = server
        self.waiting = [answered]
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(f"Log in to {name_server(server)}")
        self.setMinimumWidth(WIDTH)
        self.needed = KINDS.get(urlsplit(server).scheme, OF_WEB)
        self.kind = QComboBox(self)
        self.kind.addItems([*self.needed])
        self.lines = {name: QLineEdit(self) for name in FIELDS}
        for name in HIDDEN_FIELDS:
            self.lines[name].setEchoMode(QLineEdit.EchoMode.Password)
        self.lines["endpoint_url"].setPlaceholderText("https://… (empty for AWS)")
        self.keep = QCheckBox(KEEP, self)
        self.keep.setVisible(can_keep_logins())
        self.status = wrapping_label(self)
        roles = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(roles.Open | roles.Cancel, self)
        self._arrange()
        self._show_refused(refused)
        self.kind.currentTextChanged.connect(self._update_rows)
        for line in self.lines.values():
            line.textChanged.connect(self._update_button)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        self._update_rows()

    def _arrange(self) -> None:
        self._rows = QFormLayout()
        grow = QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow
        self._rows.setFieldGrowthPolicy(grow)
        self._rows.addRow("Log in with", self.kind)
        for name, label in FIELDS.items():
            self._rows.addRow(label, self.lines[name])
        fill_layout(QVBoxLayout(self), self.status, self._rows, self.keep, self.buttons)

    def _show_refused(self, refused: AddressSecrets | None) -> None:
        name = name_server(self.server)
        text = f"{name} wants a login."
        if asked_login(self.server) == "basic":
            self.kind.setCurrentText(PASSWORD)
        if refused is not None:
            text = (
                f"{name} did not accept the login, or does not allow it to read this."
            )
            self.lines["user"].setText(unquote(refused.login.partition(":")[0]))
            for option in ("key", "profile", "endpoint_url"):
                self.lines[option].setText(str(refused.options.get(option, "")))
            kinds = {"login": PASSWORD, "profile": PROFILE}
            used = "login" if refused.login else next(iter(refused.options), "")
            self.kind.setCurrentText(kinds.get(used, self.kind.currentText()))
        parts = urlsplit(self.server)
        if parts.scheme == "http" and parts.hostname not in LOCAL_HOSTS:
            text = f"{text} {UNENCRYPTED}"
        self.status.setText(text)

    def _shown_fields(self) -> tuple[str, ...]:
        kind = self.kind.currentText()
        return (*self.needed[kind], *NOT_NEEDED.get(kind, ()))

    def _update_rows(self) -> None:
        shown = self._shown_fields()
        for name, line in self.lines.items():
            label = self._rows.labelForField(line)
            line.setVisible(name in shown)
            if label is not None:
                label.setVisible(name in shown)
        self._update_button()
        self.adjustSize()

    def _update_button(self) -> None:
        needed = self.needed[self.kind.currentText()]
        is_complete = all(self.lines[name].text() for name in needed)
        button = self.buttons.button(QDialogButtonBox.StandardButton.Open)
        assert button is not None
        button.setEnabled(is_complete)
        button.setDefault(True)

    def make_login(self) -> AddressSecrets:
        """Return what was typed."""
        shown = self._shown_fields()
        typed = {name: self.lines[name].text().strip() for name in shown}
        # A password may begin or end with a blank.
        password = self.lines["password"].text() if "password" in shown else ""
        options = {
            name: typed[name]
            for name in ("key", "secret", "profile", "endpoint_url")
            if typed.get(name)
        }
        return make_login(
            typed.get("user", ""), password, typed.get("token", ""), options
        )

    def done(self, result: int) -> None:
        """Answer, and close."""
        answer = None
        if result == QDialog.DialogCode.Accepted.value:
            is_kept = self.keep.isVisible() and self.keep.isChecked()
            answer = LoginAnswer(self.server, self.make_login(), is_kept)
            set_login(self.server, answer.login)
        for line in self.lines.values():
            line.clear()
        super().done(result)
        while self.waiting:
            self.waiting.pop(0)(answer)


def ask_login(
    viewer: Any,
    server: str,
    answered: Callable[[LoginAnswer | None], None],
    refused: AddressSecrets | None = None,
) -> LoginDialog:
    """Ask the user for a login, in one dialog for all that wait for this server."""
    for dialog in main_window(viewer).findChildren(LoginDialog):
        if dialog.server == server and dialog.isVisible():
            dialog.waiting.append(answered)
            dialog.raise_()
            return dialog
    dialog = LoginDialog(viewer, server, answered, refused)
    dialog.show()
    lines = [dialog.lines[name] for name in dialog._shown_fields()]
    # After a refusal the user's name is there already.
    next((line for line in lines if not line.text()), lines[0]).setFocus()
    return dialog


def find_kept_login(
    viewer: Any, server: str, answered: Callable[[LoginAnswer | None], None]
) -> None:
    """Use the login of the keychain, once, else ask the user."""
    refused = find_login(server)

    def use(login: AddressSecrets | None) -> None:
        if not is_window_open(viewer):
            answered(None)
        elif login is None:
            ask_login(viewer, server, answered, refused)
        else:
            set_login(server, login)
            answered(LoginAnswer(server, login))

    if not is_keyring_installed() or server in _asked_keychain:
        use(None)
        return
    _asked_keychain.add(server)

    def ask_instead(error: Exception) -> None:
        Window.current.show_messages((error_text(error),), "The login was not found.")
        use(None)

    Window.current.run_work(partial(kept_login, server), use, ask_instead)


def store_login(answer: LoginAnswer) -> None:
    """Keep a login that the server accepted in the keychain."""
    Window.current.run_work(
        partial(keep_login, answer.server, answer.login),
        lambda _: None,
        lambda error: Window.current.show_messages(
            (error_text(error),), "The login is not kept."
        ),
    )
