"""What the commands share: arguments, progress, and errors as one line."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import OMEZarrError, OptionError, error_text
from napari_ngff.store.arrays.chunked_array import cache

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

__all__ = [
    "FAILED",
    "WRONG_CALL",
    "add_command",
    "add_path",
    "add_scheduler",
    "describe_seconds",
    "keeping_no_chunks",
    "print_line",
    "show_progress",
    "tell_failure",
    "telling_values",
]

PAUSE = 0.1
"""Seconds between two lines of progress."""

EARLY = 2.0
"""Seconds in which the time that is left is not known well enough."""

FAILED, WRONG_CALL = 1, 2
"""Exit codes; argparse has the second for what it refuses itself."""


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    summary: str,
    run: Callable[[argparse.Namespace], int | None],
    *,
    description: str | None = None,
    epilog: str | None = None,
) -> argparse.ArgumentParser:
    """Add a command.

    Parameters
    ----------
    commands
        Of the parser.
    name, summary
        As the list of commands has it.
    run
        Does it, and returns the exit code.
    description, epilog
        Of its own help.
    """
    command = commands.add_parser(
        name, help=summary, description=description, epilog=epilog
    )
    command.set_defaults(run=run)
    return command


def add_path(
    command: argparse.ArgumentParser, name: str = "path", metavar: str = "PATH"
) -> None:
    """Add the argument for what is read."""
    command.add_argument(name, metavar=metavar, help="folder, group in it, .ozx or URL")


def add_scheduler(command: argparse.ArgumentParser) -> None:
    """Add the option that lets other computers work."""
    command.add_argument(
        "--scheduler",
        metavar="URL",
        help="of dask.distributed, tcp://...; threads by default",
    )


@contextmanager
def keeping_no_chunks() -> Iterator[None]:
    """Keep no decoded chunks: where each is read once, that would only take memory."""
    limit, cache.limit = cache.limit, 0
    try:
        yield
    finally:
        cache.limit = limit


def show_progress(
    describe: Callable[[int, int], str],
) -> Callable[[int, int], Any] | None:
    """Return what shows on a terminal how far it is; None in the log of a batch job.

    Parameters
    ----------
    describe
        Of what is done, and of all.
    """
    if not sys.stderr.isatty():
        return None
    begin = time.monotonic()
    shown = width = 0.0

    def show(done: int, total: int) -> bool:
        nonlocal shown, width
        now = time.monotonic()
        if done < total and now - shown < PAUSE:
            return True
        shown, passed = now, now - begin
        text = describe(done, total)
        if done >= total:
            text += f", {describe_seconds(passed)}"
        elif done and passed > EARLY:
            left = passed * (total - done) / done
            text += f", {describe_seconds(left)} left"
        # "\r": each line overwrites the one before, also a longer one.
        line, width = text.ljust(int(width)), len(text)
        end = "\n" if done >= total else ""
        print(f"\r{line}", end=end, file=sys.stderr, flush=True)
        return True

    return show


def describe_seconds(seconds: float) -> str:
    """Write a time as "0:07" or "1:02:03"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def print_line(text: str) -> None:
    """Print one line for the person who called, beside the output."""
    print(f"napari-ngff: {text}", file=sys.stderr)


def tell_failure(error: Exception) -> int:
    """Print why a command failed; returns its exit code."""
    if isinstance(error, OptionError):
        name = error.option.replace("_", "-")
        print_line(f"--{name}: {error_text(error)}")
        return WRONG_CALL
    print_line(error_text(error))
    return FAILED


@contextmanager
def telling_values() -> Iterator[None]:
    """Turn ValueErrors of a command into errors that are told in one line.

    Only there they say what is wrong with an input; elsewhere they are mistakes.
    """
    try:
        yield
    except OMEZarrError:
        raise
    except ValueError as error:
        raise OMEZarrError(error_text(error)) from error
