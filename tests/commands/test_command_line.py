"""Progress on a terminal: how much is done, and the time that is left."""

from __future__ import annotations

import sys

import pytest

from napari_ngff.commands import command_line
from napari_ngff.commands.command_line import describe_seconds, show_progress


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    """Seconds that a test sets."""
    now = [0.0]
    monkeypatch.setattr(command_line.time, "monotonic", lambda: now[0])
    return now


def share(done: int, total: int) -> str:
    return f"{100 * done // total} %"


def test_a_terminal_shows_the_share_and_the_time_left(
    clock, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    show = show_progress(share)
    assert show is not None
    for second, done in ((1.0, 10), (10.0, 25), (10.01, 26), (40.0, 100)):
        clock[0] = second
        assert show(done, 100) is True
    lines = capsys.readouterr().err.split("\r")
    # Early no time; one line for two calls at once; the end overwrites all before.
    assert lines == ["", "10 %", "25 %, 0:30 left", "100 %, 0:40    \n"]


def test_a_log_has_no_progress(monkeypatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    assert show_progress(share) is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0:00"), (59.6, "1:00"), (3723, "1:02:03")]
)
def test_a_time_is_short(seconds: float, text: str) -> None:
    assert describe_seconds(seconds) == text
