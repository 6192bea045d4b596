"""The commands ``napari-ngff pack`` and ``napari-ngff unpack``: folder and archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.api import pack, unpack
from napari_ngff.commands.command_line import (
    add_command,
    print_line,
    report_value_errors,
    show_progress,
)
from napari_ngff.store.hierarchy.location import note_beside

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path


def add_pack(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both commands to a parser of commands."""
    packing = add_command(
        commands,
        "pack",
        "write a folder as one .ozx file",
        lambda options: _run(pack, options),
        description="Chunks are copied as they are. The folder stays.",
    )
    packing.add_argument("source", metavar="FOLDER", help="OME-Zarr 0.5 or newer")
    packing.add_argument(
        "target", metavar="FILE", nargs="?", help="by default NAME.ozx beside it"
    )
    unpacking = add_command(
        commands,
        "unpack",
        "write an .ozx file as a folder",
        lambda options: _run(unpack, options),
        description="Each entry is compared with its checksum. The file stays.",
    )
    unpacking.add_argument("source", metavar="FILE", help=".ozx or zip file")
    unpacking.add_argument(
        "target", metavar="FOLDER", nargs="?", help="by default NAME.ome.zarr beside it"
    )
    for command in (packing, unpacking):
        command.add_argument(
            "--overwrite", action="store_true", help="replace what has that name"
        )


def _run(convert: Callable[..., Path], options: argparse.Namespace) -> int:
    """Run one of the two; returns the exit code."""
    with report_value_errors(), show_progress() as progress:
        target = convert(
            options.source,
            options.target,
            overwrite=options.overwrite,
            progress=progress,
        )
    # Whole, as `convert` does, also where a relative path was given.
    print(target.resolve())
    for note in note_beside(options.source):
        print_line(note)
    return 0
