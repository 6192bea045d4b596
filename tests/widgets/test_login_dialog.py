"""A server that wants a login is opened after the window asked for it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from qtpy.QtCore import Qt, QTimer
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QDialogButtonBox, QLineEdit

from locked_server import NoKeyringError, serving_locked
from mouse import pump, until
from napari_ngff.errors import LoginNeededError
from napari_ngff.plugin import use_workers
from napari_ngff.store.sources import server_access, server_logins
from napari_ngff.store.sources.server_logins import (
    can_keep_logins,
    find_login,
    kept_login,
    make_login,
)
from napari_ngff.viewer.services.settings import note_address, recent_addresses
from napari_ngff.viewer.streaming.streamed_levels import fetcher
from napari_ngff.widgets import login_dialog
from napari_ngff.widgets.form_dialog import main_window
from napari_ngff.widgets.forms import show_open_url
from napari_ngff.widgets.login_dialog import PASSWORD, PROFILE, LoginDialog
from napari_ngff.widgets.opening import PATIENCE
from plates import pixels, write_image

pytest.importorskip("aiohttp", reason="needs the extra [remote]")
pytestmark = pytest.mark.usefixtures("no_logins")

TOKEN = "t0kenS3cret"


@pytest.fixture
def server(viewer, tmp_path):
    write_image(tmp_path / "cells.zarr", pixels(1, (2, 16, 16)), 3, labels=("nuclei",))
    use_workers()
    with serving_locked(tmp_path, [f"Bearer {TOKEN}"]) as server:
        server.url = f"{server.address}/cells.zarr"
        yield server
        until(lambda: not fetcher.is_busy)
    server_access.resume_reading()


def shown_dialogs(viewer):
    found = main_window(viewer).findChildren(LoginDialog)
    return [dialog for dialog in found if dialog.isVisible()]


def wait_for_dialog(viewer):
    until(lambda: shown_dialogs(viewer))
    return shown_dialogs(viewer)[0]


def when_asked(viewer, answer):
    """Answer the next dialog while a script waits."""
    timer = QTimer(main_window(viewer))

    def look():
        if shown_dialogs(viewer):
            timer.stop()
            answer(shown_dialogs(viewer)[0])

    timer.timeout.connect(look)
    timer.start(20)


def drop(viewer, *paths):
    viewer.window._qt_viewer._qt_open(list(paths), stack=False)


def press(dialog, which):
    button = dialog.buttons.button(QDialogButtonBox.StandardButton[which])
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def open_with(dialog, **lines):
    for name, text in lines.items():
        assert dialog.lines[name].isVisible()
        QTest.keyClicks(dialog.lines[name], text)
    press(dialog, "Open")


def test_a_dropped_address_is_opened_with_a_token(viewer, server, keychain):
    drop(viewer, server.url)
    dialog = wait_for_dialog(viewer)
    assert dialog.windowTitle() == f"Log in to 127.0.0.1:{server.server_port}"
    assert "wants a login" in dialog.status.text()
    assert dialog.lines["token"].echoMode() == QLineEdit.EchoMode.Password
    button = dialog.buttons.button(QDialogButtonBox.StandardButton.Open)
    assert not button.isEnabled()
    open_with(dialog, token="wrong")
    until(lambda: "did not accept" in wait_for_dialog(viewer).status.text())
    dialog = wait_for_dialog(viewer)
    assert dialog.lines["token"].text() == ""
    QTest.keyClicks(dialog.lines["token"], TOKEN)
    QTest.keyClick(dialog.lines["token"], Qt.Key.Key_Return)
    until(lambda: len(viewer.layers) == 3 and not fetcher.is_busy)
    assert np.array_equal(
        np.asarray(viewer.layers[1].data[0]), pixels(1, (2, 16, 16))[1]
    )
    assert not keychain
    # Nobody is asked for another image of the server.
    drop(viewer, server.url)
    until(lambda: len(viewer.layers) == 6)


@pytest.mark.long
def test_the_dialog_begins_with_the_login_that_the_server_asks_for(viewer, server):
    server.wanted, server.asks = [make_login("me", "open").authorization], "Basic realm"
    drop(viewer, server.url)
    dialog = wait_for_dialog(viewer)
    assert dialog.kind.currentText() == PASSWORD
    assert dialog.focusWidget() is dialog.lines["user"]
    open_with(dialog, user="me", password="wrong")
    until(lambda: "did not accept" in wait_for_dialog(viewer).status.text())
    dialog = wait_for_dialog(viewer)
    # Where something is missing.
    assert dialog.lines["user"].text() == "me"
    assert dialog.focusWidget() is dialog.lines["password"]
    open_with(dialog, password="open")
    until(lambda: len(viewer.layers) == 3)


@pytest.mark.long
def test_user_and_password_are_kept_in_the_keychain(viewer, server, keychain):
    login = make_login("me", "S3cret: Word")
    server.wanted = [login.authorization]
    drop(viewer, server.url)
    dialog = wait_for_dialog(viewer)
    dialog.kind.setCurrentText(PASSWORD)
    dialog.keep.setChecked(True)
    open_with(dialog, user="me", password="wrong")
    until(lambda: "did not accept" in wait_for_dialog(viewer).status.text())
    assert not keychain, "no login is kept that is refused"
    dialog = wait_for_dialog(viewer)
    assert dialog.kind.currentText() == PASSWORD
    assert dialog.lines["user"].text() == "me"
    dialog.keep.setChecked(True)
    open_with(dialog, password="S3cret: Word")
    until(lambda: len(viewer.layers) == 3)
    until(lambda: len(keychain) == 1)
    # Another session.
    server_logins.forget_logins()
    login_dialog._asked_keychain.clear()
    drop(viewer, server.url)
    until(lambda: len(viewer.layers) == 6)
    assert not shown_dialogs(viewer)
    # It has changed: what is kept is tried once.
    server_logins.forget_logins()
    login_dialog._asked_keychain.clear()
    server.wanted = []
    drop(viewer, server.url)
    press(wait_for_dialog(viewer), "Cancel")
    note_address(server.url)
    show_open_url(viewer).forget_button.native.click()
    until(lambda: not keychain)
    assert find_login(server.url) is None
    assert recent_addresses() == []


def test_a_dialog_that_is_cancelled(viewer, server, reported):
    drop(viewer, server.url)
    press(wait_for_dialog(viewer), "Cancel")
    until(lambda: reported)
    assert reported[0][0] == "Not opened: cells.zarr"
    assert "refuses" in reported[0][1]
    when_asked(viewer, lambda dialog: press(dialog, "Cancel"))
    with pytest.raises(LoginNeededError):
        viewer.open(server.url, plugin="napari-ngff")
    pump(PATIENCE)  # which knows the window until then


@pytest.mark.long
def test_a_script_gets_its_layers_after_the_login(viewer, server):
    when_asked(viewer, lambda dialog: open_with(dialog, token=TOKEN))
    layers = viewer.open(server.url, plugin="napari-ngff")
    assert len(layers) == 3


def test_a_script_without_a_visible_window_gets_the_error(viewer, server):
    main_window(viewer).hide()
    with pytest.raises(LoginNeededError):
        viewer.open(server.url, plugin="napari-ngff")
    assert not main_window(viewer).findChildren(LoginDialog)
    pump(PATIENCE)


@pytest.mark.long
def test_one_dialog_for_two_that_wait(viewer, server):
    drop(viewer, server.url)
    drop(viewer, f"{server.url}/")
    dialog = wait_for_dialog(viewer)
    until(lambda: len(dialog.waiting) == 2)
    assert len(shown_dialogs(viewer)) == 1
    open_with(dialog, token=TOKEN)
    until(lambda: len(viewer.layers) == 6)


def test_the_window_is_closed_while_it_asks(viewer, server):
    when_asked(viewer, lambda _: viewer.close())
    with pytest.raises(LoginNeededError):
        viewer.open(server.url, plugin="napari-ngff")
    pump(PATIENCE)


@pytest.mark.long
def test_a_login_from_the_form_of_addresses(viewer, server):
    form = show_open_url(viewer)
    form.login_button.native.click()
    assert "address first" in form.status.value
    form.address.value = f"https://vizarr.io/?source={server.url}"
    form.login_button.native.click()
    open_with(wait_for_dialog(viewer), token=TOKEN)
    until(lambda: len(viewer.layers) == 3)
    assert TOKEN not in json.dumps(recent_addresses())


def test_a_bucket_is_asked_for_keys_a_profile_or_nothing(viewer):
    answers = []
    dialog = login_dialog.ask_login(viewer, "s3://cells", answers.append)
    assert dialog.windowTitle() == "Log in to the bucket cells"
    open_with(dialog, key="mine", secret="S3cret", endpoint_url="https://minio.lab")
    assert answers[0].login.options == {
        "key": "mine",
        "secret": "S3cret",
        "endpoint_url": "https://minio.lab",
    }
    assert "S3cret" not in repr(answers)
    refused = find_login("s3://cells/a.zarr")
    dialog = login_dialog.ask_login(viewer, "s3://cells", answers.append, refused)
    assert dialog.lines["endpoint_url"].text() == "https://minio.lab"
    assert dialog.lines["secret"].text() == ""
    dialog.kind.setCurrentText(PROFILE)
    assert not dialog.lines["key"].isVisible()
    open_with(dialog, profile="lab")
    wanted = {"profile": "lab", "endpoint_url": "https://minio.lab"}
    assert answers[1].login.options == wanted


def test_without_a_keychain_none_is_offered(viewer, server, keychain, monkeypatch):
    import keyring

    drop(viewer, server.url)
    dialog = wait_for_dialog(viewer)
    assert dialog.keep.isVisible()
    dialog.reject()

    def find_none(*_):
        raise NoKeyringError

    with monkeypatch.context() as patched:
        patched.setattr(keyring, "get_password", find_none)
        patched.setattr(login_dialog, "_asked_keychain", set())
        drop(viewer, server.url)
        dialog = wait_for_dialog(viewer)
        assert not dialog.keep.isVisible()
        dialog.reject()
    assert kept_login(server.url) is None  # there is one again
    assert can_keep_logins()


@pytest.mark.long
def test_a_keychain_that_fails_is_reported(
    viewer, server, keychain, monkeypatch, reported
):
    import keyring

    def fail(*_):
        raise RuntimeError(TOKEN)

    for name in ("get_password", "set_password", "delete_password"):
        monkeypatch.setattr(keyring, name, fail)
    drop(viewer, server.url)
    dialog = wait_for_dialog(viewer)
    assert reported == [
        (
            "The login was not found.",
            "The keychain cannot be read (RuntimeError). Unlock it, and try again.",
        )
    ]
    dialog.keep.setChecked(True)
    open_with(dialog, token=TOKEN)
    until(lambda: "The login is not kept." in [first for first, *_ in reported])
    until(lambda: len(viewer.layers) == 3)
    show_open_url(viewer).forget_button.native.click()
    until(lambda: "Some logins are not forgotten." in [first for first, *_ in reported])
    assert TOKEN not in repr(reported)
