"""Logins that a user typed are in nothing that a session shows, logs or writes."""

from __future__ import annotations

import base64
import os
import tempfile
from dataclasses import dataclass, field
from urllib.parse import quote

import pytest
from napari.settings import get_settings
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication, QDialogButtonBox, QPushButton

from buckets import bucket_server
from locked_server import LockedHandler, logins_sent, serving_locked
from mouse import pump, until
from napari_ngff import convert
from napari_ngff.cli import main
from napari_ngff.errors import OMEZarrError
from napari_ngff.plugin import use_workers
from napari_ngff.store.arrays.region_read import cache
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.sources import server_access, server_logins
from napari_ngff.store.sources.server_access import server_loop
from napari_ngff.store.sources.server_logins import (
    find_login,
    make_login,
    set_login,
)
from napari_ngff.viewer.annotations.sidecars import edit_copy
from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.services.settings import recent_addresses
from napari_ngff.viewer.streaming import outage_watch, streamed_view
from napari_ngff.viewer.streaming.streamed_levels import fetcher
from napari_ngff.widgets.browser.host import show_browser
from napari_ngff.widgets.dialogs import RESTORE
from napari_ngff.widgets.docking import INSPECTOR, show_dock
from napari_ngff.widgets.form_dialog import main_window
from napari_ngff.widgets.forms import show_open_url
from napari_ngff.widgets.login_dialog import KEYS, PASSWORD, TOKEN, LoginDialog
from napari_ngff.widgets.new_labels_form import show_new_labels
from plates import pixels, write_image, write_plate
from secret_search import (
    SecretSearch,
    all_logs,
    error_texts,
    hover,
    shown_texts,
    texts_of_layers,
    texts_of_widgets,
)

pytest.importorskip("aiohttp", reason="needs the extra [remote]")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_logins")]

SECRETS = {
    TOKEN: "t0ken.S3cret/Value+9~x",
    PASSWORD: "S3cr/et: Wörd%2B",
    KEYS: "S3cretKey/With+Slash=AbCd0123456789",
}
WRONG = "wr0ng/S3cret+Value: 7"
"""Typed first; refused, and a secret all the same."""


class EchoHandler(LockedHandler):
    """Quotes the login where it fails, as no server should."""

    def do_GET(self):
        if "echo.zarr" not in self.path:
            super().do_GET()
            return
        login = self.headers.get("Authorization", "none")
        self.send_response(418, f"no tea for {login}")
        body = f"no tea for {login}".encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@dataclass
class LockedPlace:
    """Where images lie behind a login, and what is typed to get them.

    Attributes
    ----------
    kind
        Of the login, as the dialog names it.
    root
        Address of the folder.
    lines, wrong
        Of the dialog: the login, and one that is refused.
    shut
        Called to let the login be refused, and with True to accept it again.
    other
        Server to which an address leads; None for buckets.
    """

    kind: str
    root: str
    lines: dict[str, str] = field(repr=False)
    wrong: dict[str, str] = field(repr=False)
    shut: object
    other: object = None
    secrets: SecretSearch = field(init=False)

    def __post_init__(self):
        typed = WRONG, SECRETS[self.kind]
        self.secrets = SecretSearch(*typed, *(f"me:{word}" for word in typed))

    def address(self, name):
        return f"{self.root}/{name}"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty folder for all that is kept for the user, and for all that is not."""
    folder = tmp_path / "home"
    monkeypatch.setenv("HOME", str(folder))
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(folder / kind.lower()))
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(folder / "tmp"))
    (folder / "tmp").mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(streamed_view, "RETRY_AFTER", 0.2)
    monkeypatch.setattr(outage_watch, "FIRST_PAUSE", 0.3)
    return folder


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "images"
    write_image(folder / "cells.zarr", pixels(1, (2, 64, 64)), 3, labels=("nuclei",))
    write_plate(folder / "plate.zarr", labelled=lambda well: ("nuclei",))
    write_image(folder / "torn.zarr", pixels(1, (2, 8, 8)), 3)
    (folder / "torn.zarr" / "1" / "zarr.json").write_text("{")
    (folder / "broken.zarr").mkdir()
    (folder / "broken.zarr" / "zarr.json").write_text("{")
    return folder


@pytest.fixture
def web_place(kind, images):
    secret = SECRETS[kind]
    basic = base64.b64encode(f"me:{secret}".encode()).decode()
    header = f"Bearer {secret}" if kind == TOKEN else f"Basic {basic}"
    lines = {
        TOKEN: ({"token": secret}, {"token": WRONG}),
        PASSWORD: (
            {"user": "me", "password": secret},
            {"user": "me", "password": WRONG},
        ),
    }[kind]
    with (
        serving_locked(images, [header], handler=EchoHandler) as server,
        serving_locked(images, [header]) as other,
    ):

        def shut(is_open=False):
            server.wanted = [header] if is_open else []

        server.redirect = lambda path: (
            f"{other.address}{path}" if "moved" in path else None
        )
        yield LockedPlace(kind, server.address, *lines, shut, other)


@pytest.fixture
def bucket_place(images, tmp_path, monkeypatch):
    """A bucket of a computer without credentials, and an endpoint that refuses all."""
    with bucket_server() as files, serving_locked(images) as refusing:
        refusing.answer = lambda path: 403
        files.makedirs("private")
        files.put(f"{images}/", "private/", recursive=True)
        endpoint = take_credentials(monkeypatch, tmp_path)

        def shut(is_open=False):
            refused = {} if is_open else {"get": 403}
            files.answer = lambda asked: refused.get(asked.name)

        secret = {"key": "AKIAEXAMPLE", "secret": SECRETS[KEYS]}
        wrong = {"key": "AKIAEXAMPLE", "secret": WRONG}
        yield LockedPlace(
            KEYS,
            "s3://private",
            {**secret, "endpoint_url": endpoint},
            {**wrong, "endpoint_url": refusing.address},
            shut,
        )


def take_credentials(monkeypatch, tmp_path):
    """Take all credentials away; returns the endpoint."""
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return endpoint


def drop(viewer, path):
    viewer.window._qt_viewer._qt_open([path], stack=False)


def shown_dialogs(viewer):
    found = main_window(viewer).findChildren(LoginDialog)
    return [dialog for dialog in found if dialog.isVisible()]


def type_login(viewer, place, lines, shown, *, keep=False):
    """Answer the dialog as a user does; and note what stands in it before."""
    until(lambda: shown_dialogs(viewer))
    (dialog,) = shown_dialogs(viewer)
    dialog.kind.setCurrentText(place.kind)
    shown += texts_of_widgets()
    for name, text in lines.items():
        dialog.lines[name].clear()
        # Keys of a keyboard cannot be made for all letters.
        dialog.lines[name].insert(text)
    dialog.keep.setChecked(keep)
    shown += texts_of_widgets()
    dialog.buttons.button(QDialogButtonBox.StandardButton.Open).click()


def cancel_login(viewer, shown):
    until(lambda: shown_dialogs(viewer))
    shown += texts_of_widgets()
    shown_dialogs(viewer)[0].reject()


def log_in(viewer, place, shown):
    """Open an image: with a login that is refused, then with the right one."""
    drop(viewer, place.address("cells.zarr"))
    type_login(viewer, place, place.wrong, shown, keep=True)
    until(
        lambda: any("did not accept" in d.status.text() for d in shown_dialogs(viewer))
    )
    type_login(viewer, place, place.lines, shown, keep=True)
    until(lambda: len(viewer.layers) == 3 and not fetcher.is_busy)
    hover(viewer)


def paint_and_save(viewer, home, shown, search):
    """New labels, and a copy of those of the file; in journals, restored, saved."""
    journals = home / "data" / "napari-ngff"
    viewer.layers.selection.active = viewer.layers[0]
    show_new_labels(viewer).create_labels()
    new = viewer.layers.selection.active
    new.paint((20, 20), 4)
    nuclei = viewer.layers["nuclei"]
    if not nuclei.editable:
        viewer.layers.selection.active = nuclei
        edit_copy(viewer)
        until(lambda: viewer.layers["nuclei"] is not nuclei)
    viewer.layers["nuclei"].paint((30, 30), 9)
    until(lambda: len(list(journals.rglob("edits*"))) >= 2)
    hover(viewer)
    shown += texts_of_widgets() + texts_of_layers(viewer)
    assert search.in_files(home) == []
    # A process that dies leaves the journals; the next one offers the edits.
    address = viewer.layers[0].source.path
    for layer in list(viewer.layers):
        if getattr(layer, "saver", None) is not None and layer.unsaved:
            layer.saver.keep_journal()
    viewer.layers.clear()
    timer = QTimer()
    timer.timeout.connect(lambda: press_restore(shown, timer))
    timer.start(50)
    drop(viewer, address)
    until(lambda: len([one for one in viewer.layers if is_unsaved(one)]) == 2)
    for layer in [one for one in viewer.layers if is_unsaved(one)]:
        assert layer.saver.save_now()
    shown += texts_of_widgets() + texts_of_layers(viewer)


def is_unsaved(layer):
    return getattr(layer, "saver", None) is not None and layer.unsaved


def press_restore(shown, timer):
    dialog = QApplication.activeModalWidget()
    if dialog is None:
        return
    timer.stop()
    shown += texts_of_widgets()
    for button in dialog.findChildren(QPushButton):
        if button.text().replace("&", "") == RESTORE:
            button.click()


def walk_plate(viewer, place, shown, tmp_path):
    viewer.layers.clear()
    drop(viewer, place.address("plate.zarr"))
    until(lambda: show_browser(viewer) is not None)
    dock = show_browser(viewer)
    until(lambda: dock.browser() is not None and len(dock.map.state.pictures) == 6)
    until(lambda: not dock.isBusy() and not dock.browser().is_drawing)
    dock.browser().show_field("A/2")
    until(lambda: dock.browser().position == Position("A/2", "0", 0))
    until(lambda: not dock.isBusy() and not fetcher.is_busy)
    until(lambda: list((tmp_path / "previews").iterdir()))
    hover(viewer)
    shown += texts_of_widgets() + texts_of_layers(viewer)


def open_by_form(viewer, address, shown, *, cancels=False):
    form = show_open_url(viewer)
    form.address.value = address
    form.open_address()
    if cancels:
        cancel_login(viewer, shown)
    until(lambda: form.button.enabled)
    pump(50)
    text = form.status.value
    shown += [text, *texts_of_widgets()]
    assert text
    return text


def go_wrong(viewer, place, shown):
    """Open what is not there, is broken, leads elsewhere or is refused."""
    for name in ("gone.zarr", "broken.zarr"):
        open_by_form(viewer, place.address(name), shown)
    if place.other is not None:
        assert "no tea for …" in open_by_form(viewer, place.address("echo.zarr"), shown)
        address = place.address("moved/cells.zarr")
        open_by_form(viewer, address, shown, cancels=True)
        assert set(logins_sent(place.other)) == {None}
    viewer.layers.clear()
    drop(viewer, place.address("torn.zarr"))
    until(lambda: any("torn" in layer.name for layer in viewer.layers))
    until(lambda: not fetcher.is_busy)
    inspector = show_dock(viewer, INSPECTOR)
    inspector.showPath(place.address("cells.zarr"))
    until(lambda: inspector.tree.rootEntry() is not None and inspector.open.isEnabled())
    shown += texts_of_widgets()


def be_refused(viewer, place, shown):
    """The login is withdrawn while pixels are looked at, and for scripts."""
    place.shut()
    cache.clear()
    main_window(viewer).hide()  # a script is not asked
    for name in ("cells.zarr", "plate.zarr"):
        for opens in (open_node, lambda path: viewer.open(path, plugin="napari-ngff")):
            with pytest.raises(OMEZarrError) as caught:
                opens(place.address(name))
            shown += error_texts(caught.value)
    main_window(viewer).show()
    for layer in viewer.layers:
        layer.refresh()
    pump(500)
    until(lambda: not fetcher.is_busy)
    open_by_form(viewer, place.address("cells.zarr"), shown, cancels=True)
    inspector = show_dock(viewer, INSPECTOR)
    inspector.showPath(place.address("plate.zarr"))
    pump(100)
    shown += texts_of_widgets() + texts_of_layers(viewer)
    place.shut(True)


def fail_keychain(place, monkeypatch, keychain, shown):
    """A keychain that quotes what it is given."""
    import keyring

    def refuse(*entry):
        raise RuntimeError(f"cannot keep {entry}")

    monkeypatch.setattr(keyring, "set_password", refuse)
    login = find_login(place.root)
    with pytest.raises(OMEZarrError) as caught:
        server_logins.keep_login(place.root, login)
    shown += [*error_texts(caught.value), repr(login), str(login)]


@pytest.mark.long
@pytest.mark.parametrize("kind", SECRETS)
def test_a_whole_session(viewer, kind, home, tmp_path, keychain, monkeypatch, request):
    name = "bucket_place" if kind == KEYS else "web_place"
    place = request.getfixturevalue(name)
    search = place.secrets
    use_workers()
    loop = server_loop()
    monkeypatch.setattr(loop, "slow_callback_duration", 0.001)
    loop.set_debug(True)
    with all_logs() as logs, shown_texts(viewer) as shown:
        log_in(viewer, place, shown)
        until(lambda: len(keychain) == 1)
        assert search.in_texts([str(keychain)]), "the search finds nothing"
        paint_and_save(viewer, home, shown, search)
        walk_plate(viewer, place, shown, tmp_path)
        go_wrong(viewer, place, shown)
        be_refused(viewer, place, shown)
        fail_keychain(place, monkeypatch, keychain, shown)
        assert recent_addresses()
        get_settings().save(home / "config" / "settings.yaml")
        until(lambda: not fetcher.is_busy)
    loop.set_debug(False)
    heard = set() if kind == KEYS else {"asyncio"}
    assert {*heard, "napari"} <= logs.names, "not all loggers are heard"
    assert len(shown) > 100
    assert search.in_texts(shown) == []
    assert search.in_texts(logs.texts) == []
    assert search.in_files(tmp_path) == []
    server_access.resume_reading()


@pytest.mark.parametrize("kind", [TOKEN, PASSWORD])
def test_a_conversion_that_is_stopped(kind, web_place, home, tmp_path, capsys):
    place, made = web_place, tmp_path / "made.ome.zarr"
    place.shut()
    set_login(place.root, login_of(place.lines))
    assert main(["convert", place.address("cells.zarr"), str(made)]) == 1
    place.shut(True)

    def stop(done, total):
        if done > total // 2:
            raise KeyboardInterrupt

    with all_logs() as logs:
        with pytest.raises(KeyboardInterrupt) as caught:
            convert(place.address("cells.zarr"), made, codec="gzip", progress=stop)
        assert not made.exists()
        assert list(tmp_path.glob("*made*/**/*.json*")), "nothing is left to continue"
        texts = [*error_texts(caught.value), *logs.texts, *capsys.readouterr()]
        assert place.secrets.in_texts(texts) == []
        assert place.secrets.in_files(tmp_path) == []
        convert(place.address("cells.zarr"), made, codec="gzip", resume=True)
    assert place.secrets.in_texts(logs.texts) == []
    assert place.secrets.in_files(tmp_path) == []


def login_of(lines):
    given = {name: lines.get(name, "") for name in ("user", "password", "token")}
    return make_login(**given)


@pytest.mark.parametrize("word", ["S3cr/et: Wörd%2B", "abc/def+ghi"])
def test_the_search_finds_each_form(word, tmp_path):
    search = SecretSearch(word)
    login = f"me:{word}"
    texts = [
        word,
        f"x{word}y",
        base64.b64encode(word.encode()).decode(),
        base64.b64encode(login.encode()).decode(),
        base64.urlsafe_b64encode(f"a{login}!".encode()).decode(),
        repr(word.encode()),
        f"http://me:{quote(word, safe='')}@host",
    ]
    assert search.in_texts([*texts, "nothing"]) == texts
    (tmp_path / "folder").mkdir()
    for number, text in enumerate(texts[2:6]):
        (tmp_path / "folder" / f"{number}").write_text(text)
    assert len(search.in_files(tmp_path)) == 4
