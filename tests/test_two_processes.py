"""Two processes that change one file of ours: all is there, and no reader sees half.

With ROUNDS=N each process changes each file so often.
"""

from __future__ import annotations

import multiprocessing
import os
import threading

import keyring
import pytest

from napari_ngff.store.sources.server_logins import forget_kept_logins
from shared_files import KINDS, FolderKeyring, change_all

CONTEXT = multiprocessing.get_context("spawn")


@pytest.fixture
def shared_keychain(tmp_path, monkeypatch):
    before = keyring.get_keyring()  # of the user, before it is chosen by its name
    monkeypatch.setenv("FOLDER_KEYRING", str(tmp_path / "keychain"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "shared_files.FolderKeyring")
    (tmp_path / "keychain").mkdir()
    keyring.set_keyring(FolderKeyring())
    yield tmp_path / "keychain"
    keyring.set_keyring(before)


EACH = [
    pytest.param(True, tuple(KINDS), id="folders are locked"),
    # One of those that are done alike.
    pytest.param(False, ("States",), id="files alone are locked"),
]


@pytest.mark.parametrize(("locks_folders", "kinds"), EACH)
def test_nothing_that_two_processes_note_is_lost(
    tmp_path, shared_keychain, locks_folders, kinds
):
    start, ended = CONTEXT.Barrier(3), CONTEXT.Barrier(3)
    for name in kinds:
        (tmp_path / name).mkdir()
        KINDS[name](tmp_path / name).prepare()
    processes = [
        CONTEXT.Process(
            target=change_all,
            args=(kinds, tmp_path, who, start, ended),
            kwargs={"locks_folders": locks_folders},
        )
        for who in "ab"
    ]
    for process in processes:
        process.start()
    lost = {}
    for name in kinds:
        shared = KINDS[name](tmp_path / name)
        start.wait(60)
        waiting = threading.Thread(target=ended.wait, args=(60,))
        waiting.start()
        seen = set()
        while waiting.is_alive():
            found = set(shared.read())
            if not seen <= found:
                lost[f"{name}, as a reader found it"] = seen - found
            seen = found
        names = {f"{who}{number}" for who in "ab" for number in range(shared.NAMES)}
        if names != set(shared.read()):
            lost[name] = len(names - set(shared.read()))
    for process in processes:
        process.join()
    assert lost == {}
    assert [process.exitcode for process in processes] == [0, 0]
    forget_kept_logins()
    assert os.listdir(shared_keychain) == []
