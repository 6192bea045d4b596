"""The command ``napari-ngff measure``: labels measured into a table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from napari_ngff.plate.tables.files import check_target, write_frame
from napari_ngff.plate.tables.measure_labels import measure
from napari_ngff.store.arrays.chunked_array import cache
from napari_ngff.store.hierarchy.node import open_node

if TYPE_CHECKING:
    import argparse

__all__ = ["add_measure"]


def add_measure(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a parser of commands."""
    command = commands.add_parser(
        "measure",
        help="measure labels: size, place, intensities",
        description="Measures the labels of an image, a well, a plate or a collection.",
    )
    command.add_argument(
        "path", metavar="PATH", help="folder, group in it, .ozx or URL"
    )
    command.add_argument("--label", metavar="NAME", required=True, help="which labels")
    command.add_argument(
        "--out", metavar="FILE", required=True, help="table to write: .csv or .parquet"
    )
    command.add_argument(
        "--scheduler",
        metavar="URL",
        help="of dask.distributed, tcp://...; threads by default",
    )
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure; return the exit code, 1 if fields had to be left out."""
    # Before anything is measured, which may take hours.
    check_target(options.out)
    # Each chunk is read once, so keeping it would only take memory.
    limit, cache.limit = cache.limit, 0
    try:
        result = measure(
            open_node(options.path),
            options.label,
            scheduler=options.scheduler,
            # No progress in the log of a batch job.
            goes_on=_print_progress if sys.stderr.isatty() else None,
        )
    finally:
        cache.limit = limit
    # None is only for who gives up, which `_print_progress` never does.
    assert result is not None
    write_frame(result.frame, options.out)
    print(f"{len(result.frame)} labels -> {options.out}")
    if result.without:
        print(f"{result.without} images have no labels {options.label}")
    for problem in result.problems:
        print(f"napari-ngff: left out: {problem}", file=sys.stderr)
    return 1 if result.problems else 0


def _print_progress(done: int, total: int) -> bool:
    # "\r": each line overwrites the one before.
    end = "\n" if done == total else ""
    print(f"\r{done} of {total}", end=end, file=sys.stderr, flush=True)
    return True
