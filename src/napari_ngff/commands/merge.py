"""The command ``napari-ngff merge``: labels of a sidecar into their image."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from napari_ngff.errors import OMEZarrError
from napari_ngff.labels.places.merge_sidecar import merge
from napari_ngff.store.arrays.chunked_array import cache

if TYPE_CHECKING:
    import argparse

__all__ = ["add_merge"]


def add_merge(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a parser of commands."""
    command = commands.add_parser(
        "merge",
        help="copy the labels of a sidecar into their image",
        description="The image stays valid whenever this ends; run it again then.",
    )
    command.add_argument("sidecar", metavar="SIDECAR", help="its folder, or .ozx")
    command.add_argument(
        "image",
        metavar="IMAGE",
        nargs="?",
        help="folder of the image or plate; by default what the labels name",
    )
    command.add_argument(
        "--label",
        metavar="NAME",
        action="append",
        default=[],
        help="merge this one only; may be given several times",
    )
    command.add_argument("--name", help="another name for the only label image")
    command.add_argument(
        "--overwrite", action="store_true", help="replace labels of the same name"
    )
    command.add_argument(
        "--remove", action="store_true", help="remove merged labels from the sidecar"
    )
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Merge; returns the exit code."""
    # Most chunks are read once, so keeping them would only take memory.
    limit, cache.limit = cache.limit, 0
    try:
        merged = merge(
            options.sidecar,
            options.image,
            labels=options.label,
            name=options.name,
            overwrite=options.overwrite,
            remove=options.remove,
            # No progress in the log of a batch job.
            goes_on=_print_progress if sys.stderr.isatty() else None,
        )
    except ValueError as error:
        # Some errors of this package are also ValueErrors; `main` prints those.
        if isinstance(error, OMEZarrError):
            raise
        print(f"napari-ngff: {error}", file=sys.stderr)
        return 1
    finally:
        cache.limit = limit
    for item in merged:
        target = item.location.path_of(item.name)
        print(f"{item.label} -> {item.location.source.name}/{target}")
    return 0


def _print_progress(done: int, total: int) -> bool:
    end = "\n" if done == total else ""
    print(f"\r{done} of {total} blocks", end=end, file=sys.stderr, flush=True)
    return True
