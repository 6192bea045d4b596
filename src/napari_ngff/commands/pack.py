"""The commands ``napari-ngff pack`` and ``napari-ngff unpack``: folder and archive."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from napari_ngff.api import pack, unpack
from napari_ngff.errors import OMEZarrError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["add_pack"]


def add_pack(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both commands to a parser of commands."""
    packing = commands.add_parser(
        "pack",
        help="write a folder as one .ozx file",
        description="Chunks are copied as they are. The folder stays.",
    )
    packing.add_argument("source", metavar="FOLDER", help="OME-Zarr 0.5 or newer")
    packing.add_argument(
        "target", metavar="FILE", nargs="?", help="by default NAME.ozx beside it"
    )
    packing.set_defaults(run=lambda options: _run(pack, options))
    unpacking = commands.add_parser(
        "unpack",
        help="write an .ozx file as a folder",
        description="Each entry is compared with its checksum. The file stays.",
    )
    unpacking.add_argument("source", metavar="FILE", help=".ozx or zip file")
    unpacking.add_argument(
        "target", metavar="FOLDER", nargs="?", help="by default NAME.ome.zarr beside it"
    )
    unpacking.set_defaults(run=lambda options: _run(unpack, options))
    for command in (packing, unpacking):
        command.add_argument(
            "--overwrite", action="store_true", help="replace what has that name"
        )


def _run(convert: Callable[..., Path], options: argparse.Namespace) -> int:
    """Run one of the two; returns the exit code."""
    try:
        target = convert(
            options.source,
            options.target,
            overwrite=options.overwrite,
            progress=_print_progress if sys.stderr.isatty() else None,
        )
    except ValueError as error:
        # Some errors of this package are also ValueErrors; `main` prints those.
        if isinstance(error, OMEZarrError):
            raise
        print(f"napari-ngff: {error}", file=sys.stderr)
        return 1
    print(target)
    return 0


def _print_progress(done: int, total: int) -> None:
    share = done * 100 // total if total else 100
    end = "\n" if done == total else ""
    text = f"\r{share} % of {total / 1e6:,.1f} MB"
    print(text, end=end, file=sys.stderr, flush=True)
