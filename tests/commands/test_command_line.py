"""Progress on a terminal: how much is done, and the time that is left."""

from __future__ import annotations

import io
import itertools
import logging
import sys

import pytest
import tqdm

from napari_ngff import cli
from napari_ngff.commands import command_line
from napari_ngff.commands.command_line import show_progress
from napari_ngff.viewer.samples import write_image


class Terminal(io.StringIO):
    """What a terminal got."""

    def isatty(self) -> bool:
        return True


def use_terminal(monkeypatch) -> Terminal:
    """Let stderr be a terminal, and bars show every step at once.

    No fixture: pytest puts its own stderr in place before the call of the test.
    """
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setattr(command_line, "DELAY", 0)
    monkeypatch.setattr(tqdm.tqdm, "monitor_interval", 0)  # no thread
    seconds = itertools.count()
    monkeypatch.setattr(tqdm.std, "time", lambda: next(seconds))
    return terminal


def test_a_terminal_shows_the_share_and_the_time_left(monkeypatch) -> None:
    terminal = use_terminal(monkeypatch)
    with show_progress(name="pixels") as show:
        assert show is not None
        for done in (10_000_000, 25_000_000, 100_000_000):
            assert show(done, 100_000_000) is True
    lines = terminal.getvalue().split("\r")
    assert lines[2].startswith("pixels:  10%|")
    assert "25.0M/100M" in lines[3]
    assert "<00:" in lines[3]
    assert lines[-1].startswith("pixels: 100%|")
    assert lines[-1].endswith("\n")


def test_counted_things_are_not_bytes(monkeypatch) -> None:
    terminal = use_terminal(monkeypatch)
    with show_progress(" images") as show:
        assert show is not None
        show(7, 2000)
    assert "7/2000" in terminal.getvalue()
    assert " images/s" in terminal.getvalue()


def test_the_next_of_several_begins_at_its_start(monkeypatch) -> None:
    terminal = use_terminal(monkeypatch)
    with show_progress(" blocks") as show:
        assert show is not None
        show(5, 5)
        show(1, 4)
    assert "25%" in terminal.getvalue().split("\r")[-1]


def test_what_ends_at_once_shows_no_bar(monkeypatch) -> None:
    terminal = use_terminal(monkeypatch)
    monkeypatch.setattr(command_line, "DELAY", 60)
    with show_progress() as show:
        assert show is not None
        show(1, 2)
    assert terminal.getvalue() == ""


def test_a_message_has_its_own_line(monkeypatch) -> None:
    """As those of a scheduler that loses a worker."""
    terminal = use_terminal(monkeypatch)
    monkeypatch.setattr(logging.root, "handlers", [])
    with show_progress() as show:
        assert show is not None
        show(1, 2)
        logging.getLogger("distributed").warning("lost a worker")
    lines = terminal.getvalue().replace("\r", "\n").splitlines()
    assert "lost a worker" in lines


def test_a_log_has_no_progress(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    with show_progress() as show:
        assert show is None
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", ["pack", "convert", "rebuild", "measure"])
def test_long_commands_show_a_bar(command, monkeypatch, tmp_path) -> None:
    terminal = use_terminal(monkeypatch)
    image = write_image(tmp_path / "cells.ome.zarr", "0.5", shape=(1, 64, 64))
    arguments = {
        "pack": [image],
        "convert": [image, tmp_path / "new.ome.zarr", "--to-version", "0.4"],
        "rebuild": [image],
        "measure": [image, "--label", "cells", "--out", tmp_path / "cells.csv"],
    }[command]
    assert cli.main([command, *map(str, arguments)]) == 0
    assert "100%" in terminal.getvalue()
