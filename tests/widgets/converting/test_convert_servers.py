"""The form *Convert OME-Zarr* with servers: logins, and buckets as targets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from qtpy.QtWidgets import QDialogButtonBox

import napari_ngff
from buckets import bucket_server
from locked_server import serving_locked
from mouse import until
from napari_ngff.plugin import use_workers
from napari_ngff.store.write import new_hierarchy
from napari_ngff.viewer.services import child_process
from napari_ngff.viewer.streaming.streamed_levels import fetcher
from napari_ngff.widgets.converting.convert_form import show_convert_form
from napari_ngff.widgets.form_dialog import main_window
from napari_ngff.widgets.login_dialog import LoginDialog
from plates import pixels, write_image
from secret_search import SecretSearch, all_logs, shown_texts, texts_of_widgets

pytest.importorskip("aiohttp", reason="needs the extra [remote]")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_logins")]

TOKEN, WRONG = "t0ken.S3cret/Value+9~x", "wr0ng/S3cret+Value: 7"
FACTS = "cmdline", "environ"
"""Of a process, as others can read them."""

KEY = "S3cretKey/With+Slash=AbCd0123456789"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder for all that is kept for the user."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / "home" / kind.lower()))
    return tmp_path / "home"


@pytest.fixture
def started(monkeypatch):
    """What others can see of the processes that were started."""
    seen = []

    class Process(subprocess.Popen):
        def __init__(self, command, **options):
            super().__init__(command, **options)
            seen.extend(map(str, command))
            seen.append(repr(options))
            if sys.platform.startswith("linux"):
                place = Path(f"/proc/{self.pid}")
                seen.extend((place / name).read_text() for name in FACTS)

    monkeypatch.setattr(child_process.subprocess, "Popen", Process)
    return seen


def answer_login(viewer, shown, **lines):
    """Type a login; returns what the dialog stated before."""
    found = main_window(viewer).findChildren(LoginDialog)
    (dialog,) = (one for one in found if one.isVisible())
    text = dialog.status.text()
    for name, typed in lines.items():
        dialog.lines[name].setText(typed)
    shown += texts_of_widgets()
    dialog.buttons.button(QDialogButtonBox.StandardButton.Open).click()
    return text


def asks(viewer):
    found = main_window(viewer).findChildren(LoginDialog)
    return any(dialog.isVisible() for dialog in found)


def test_a_source_that_wants_a_login(viewer, tmp_path, home, started, capfd, keychain):
    folder = tmp_path / "images"
    write_image(folder / "cells.zarr", pixels(1, (2, 64, 64)), 3, labels=("nuclei",))
    made = tmp_path / "made.ome.zarr"
    use_workers()
    search = SecretSearch(TOKEN, WRONG)
    with (
        serving_locked(folder, [f"Bearer {TOKEN}"]) as server,
        all_logs() as logs,
        shown_texts(viewer) as shown,
    ):
        form = show_convert_form(viewer)
        form.source.setEditText(f"{server.address}/cells.zarr")
        form.target.setText(str(made))
        form.lines["codec"].setText("gzip:1")
        form.start_task()
        until(lambda: asks(viewer))
        assert "wants a login" in answer_login(viewer, shown, token=WRONG)
        until(lambda: asks(viewer))
        assert "did not accept" in answer_login(viewer, shown, token=TOKEN)
        until(lambda: form.task.result is not None)
        shown += [*texts_of_widgets(), form.status.text()]
    before = napari_ngff.open(folder / "cells.zarr").levels[0]
    assert (before == napari_ngff.open(made).levels[0]).all().compute()
    assert started, "no process was seen"
    assert any("did not accept" in text for text in shown)
    texts = [*started, *logs.texts, *shown, *capfd.readouterr(), str(dict(os.environ))]
    assert search.in_texts(texts) == []
    assert search.in_files(tmp_path) == []
    assert keychain == {}


def test_a_login_that_is_cancelled_leaves_the_reason(viewer, tmp_path):
    write_image(tmp_path / "cells.zarr", pixels(1, (2, 8, 8)), 3)
    use_workers()
    with serving_locked(tmp_path, ["Bearer none"]) as server:
        form = show_convert_form(viewer)
        form.source.setEditText(f"{server.address}/cells.zarr")
        form.target.setText(str(tmp_path / "made"))
        form.start_task()
        until(lambda: asks(viewer))
        (dialog,) = main_window(viewer).findChildren(LoginDialog)
        dialog.reject()
        until(lambda: not asks(viewer))
        assert "Log in to the server" in form.status.text()
        assert form.task.result is None


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """A bucket of a computer without credentials; yields files and the endpoint."""
    monkeypatch.setattr(new_hierarchy, "data_folder", lambda: tmp_path)
    with bucket_server() as files:
        files.mkdir("made")
        endpoint = os.environ["AWS_ENDPOINT_URL"]
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        yield files, endpoint


@pytest.mark.long
def test_a_bucket_as_target(viewer, tmp_path, home, bucket, started, capfd):
    files, endpoint = bucket
    source = tmp_path / "cells.zarr"
    write_image(source, pixels(1, (2, 64, 64)), 3, labels=("nuclei",))
    use_workers()
    login = {"key": "AKIAEXAMPLE", "secret": KEY, "endpoint_url": endpoint}
    search = SecretSearch(KEY)
    with all_logs() as logs, shown_texts(viewer) as shown:
        form = show_convert_form(viewer)
        form.source.setEditText(str(source))
        form.target.setText("s3://made/cells.ome.zarr")
        form.start_task()
        until(lambda: asks(viewer))
        assert "the bucket made" in answer_login(viewer, shown, **login)
        until(lambda: form.task.result is not None)
        assert form.status.text() == "Done: cells.ome.zarr."
        # A second time: it exists.
        form.start_task()
        until(lambda: form.task.job is None)
        assert "already exists" in form.status.text()
        shown += [*texts_of_widgets(), form.status.text()]
        # The window has the same login.
        viewer.open("s3://made/cells.ome.zarr", plugin="napari-ngff")
        until(lambda: len(viewer.layers) == 3)
        until(lambda: not fetcher.is_busy)
    assert files.exists("made/cells.ome.zarr/zarr.json")
    texts = [*started, *logs.texts, *shown, *capfd.readouterr()]
    assert search.in_texts(texts) == []
    assert search.in_files(tmp_path) == []
