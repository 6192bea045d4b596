"""What the commands share: arguments, progress, and errors as one line."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from napari_ngff.errors import (
    OMEZarrError,
    OptionError,
    TargetExistsError,
    error_text,
)
from napari_ngff.store.arrays.chunked_array import cache

DELAY = 0.5
"""Seconds before a bar is shown."""

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


def add_overwrite(
    command: argparse.ArgumentParser, text: str = "replace what has that name"
) -> None:
    """Add the option that allows to replace something."""
    command.add_argument("--overwrite", action="store_true", help=text)


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


@contextmanager
def show_progress(
    unit: str = "B", name: str | None = None
) -> Iterator[Callable[[int, int], Any] | None]:
    """Show a bar on a terminal, with the time that is left; none in the log of a job.

    Parameters
    ----------
    unit
        Counted things, such as " images"; "B" for bytes.
    name
        Before the bar.

    Yields
    ------
        Takes how many are done, and how many there are; None where no bar is shown.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm
    from tqdm.contrib.logging import logging_redirect_tqdm

    # Nothing for what ends at once, such as an error before the start.
    bar = tqdm(
        desc=name,
        unit=unit,
        unit_scale=unit == "B",
        delay=DELAY,
        dynamic_ncols=True,
    )

    def show(done: int, total: int) -> bool:
        if done < bar.n:  # the next of several
            bar.reset()
        bar.total = total
        bar.update(done - bar.n)
        return True

    # Else a message of a scheduler would stand in the line of the bar.
    loggers = [logging.root, logging.getLogger("distributed")]
    with bar, logging_redirect_tqdm(loggers):
        yield show


def print_line(text: str) -> None:
    """Print one line for the person who called, beside the output."""
    print(f"napari-ngff: {text}", file=sys.stderr)


def report_failure(error: Exception) -> int:
    """Print why a command failed; returns its exit code."""
    if isinstance(error, OptionError):
        name = error.option.replace("_", "-")
        print_line(f"--{name}: {error_text(error)}")
        return WRONG_CALL
    if isinstance(error, TargetExistsError):
        print_line(f"{error.message} Choose another name, or add --overwrite.")
        return FAILED
    print_line(error_text(error))
    return FAILED


@contextmanager
def report_value_errors() -> Iterator[None]:
    """Turn ValueErrors of a command into errors that are reported in one line.

    Only there they say what is wrong with an input; elsewhere they are mistakes.
    """
    try:
        yield
    except OMEZarrError:
        raise
    except ValueError as error:
        raise OMEZarrError(error_text(error)) from error
